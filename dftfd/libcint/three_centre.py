"""Integrals of density fitting: (Q|mn), its derivative and the metric, contracted as they are formed or in blocks."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from pyscf import gto, lib
from pyscf.df import addons, incore
from pyscf.scf import _vhf

from dftfd.libcint.mole import quiet, to_pyscf
from dftfd.libcint.two_electron import largest_integrals, mole_with_range

NEGLIGIBLE = 1e-10
"""Contributions to a gradient that the Schwarz inequality bounds below this are left out [hartree/bohr]: 3e-9 of the
forces on caffeine and 4e-10 on benzene; ten times as much with 1e-9."""

NEGLIGIBLE_IN_PROJECTION = 1e-16
"""The same for what a nearly singular metric is solved for: errors come out 10^4 times larger."""

_PLACEHOLDER = [0, 0, 1, 1, 0, 0, 0, 0]
"""A shell of one function, which PySCF's driver for four indices takes for the missing one."""


class ThreeCentre:
    """Three- and two-centre Coulomb integrals of a molecule and its auxiliary functions for one operator.

    auxiliary: fitting functions, as from `auxiliary_basis`.   omega: as in dftfd.terms.integrals.
    metric: (P|Q), (aux, aux).   metric_slope: (nabla P|Q), (3, aux, aux).
    """

    def __init__(self, molecule, auxiliary: dict, omega: float = 0.0):
        self._molecule, self._omega = molecule, omega
        with mole_with_range(molecule, omega) as mole, quiet():
            self._auxmol = addons.make_auxmol(mole, auxiliary)
            self._tables = gto.conc_env(
                *(mole._atm, mole._bas, mole._env), *(self._auxmol._atm, self._auxmol._bas, self._auxmol._env)
            )
            self.metric = self._auxmol.intor("int2c2e", hermi=1)
            slope = self._auxmol.intor("int2c2e_ip1", comp=3)
        self.metric_slope = 0.5 * (slope - slope.transpose(0, 2, 1))  # (nabla P|Q) + (P|nabla Q) = 0, to the last digit
        self.n_auxiliary = int(self._auxmol.nao)

    def atom_sums(self, per_function) -> np.ndarray:
        """Sums over the auxiliary functions of each atom, (atom, 3) from (3, aux)."""
        slices = self._auxmol.aoslice_by_atom()[:, 2:]
        return np.array([per_function[:, start:stop].sum(axis=1) for start, stop in slices])

    # ------------------------------------------------------------------------------------------- contracted as formed

    def projection(self, P) -> np.ndarray:
        """sum_mn (Q|mn) P_mn, (aux,), of a symmetric P (ao, ao)."""
        with mole_with_range(self._molecule, self._omega) as mole:
            pairs = largest_integrals(mole, "int2e", "CVHFnr_int2e_q_cond")
            screen = Screen(pairs, self._norms, NEGLIGIBLE_IN_PROJECTION)
            (X,) = _contracted(mole, self._tables, "int3c2e", "s2ij", {"ji->s1kl": P}, P, screen)
        return X[:, 0]

    def slopes(self, P, y) -> tuple[np.ndarray, np.ndarray]:
        """(nabla m n|Q) P_mn y_Q summed over n and Q, (3, ao), and over m and n, (3, aux), for symmetric P (ao, ao)."""
        bounds = self._norms * _largest(y, self._auxmol)
        with mole_with_range(self._molecule, self._omega) as mole:
            pairs = largest_integrals(mole, "int2e_ip1ip2", "CVHFnr_int2e_pp_q_cond")
            matrices = {"lk->s1ij": y[None], "ji->s1kl": P}
            screen = Screen(pairs, bounds, NEGLIGIBLE)
            of_pairs, of_functions = _contracted(mole, self._tables, "int3c2e_ip1", "s1", matrices, P, screen)
        return np.einsum("xmn,mn->xm", of_pairs, P), of_functions[..., 0] * y

    @cached_property
    def _norms(self):
        """sqrt (Q|Q), the largest of each auxiliary shell."""
        return _largest(np.sqrt(self.metric.diagonal()), self._auxmol)

    # ---------------------------------------------------------------------------------------------------- in blocks

    def parts(self, n_bytes: float) -> list["Part"]:
        """The auxiliary functions in parts whose `slope_block` takes about `n_bytes`, at least a shell each."""
        width = max(1, int(n_bytes / (24 * self._molecule.n_ao**2)))
        offsets, found, first = self._auxmol.ao_loc, [], 0
        while first < self._auxmol.nbas:
            last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + width, side="right")) - 1)
            found.append(Part(slice(int(offsets[first]), int(offsets[last])), (first, last)))
            first = last
        return found

    def parts_of_atoms(self, n_bytes: float) -> list[tuple[int, "Part"]]:
        """Pairs (atom, part) as `parts` of nine derivatives, each of the functions of one atom."""
        width, found = max(1, int(n_bytes / (72 * self._molecule.n_ao**2))), []
        offsets = self._auxmol.ao_loc
        for atom, (first, last, *_) in enumerate(self._auxmol.aoslice_by_atom()):
            while first < last:
                next_one = int(np.searchsorted(offsets, offsets[first] + width, side="right")) - 1
                stop = min(last, max(first + 1, next_one))
                found.append((atom, Part(slice(int(offsets[first]), int(offsets[stop])), (int(first), int(stop)))))
                first = stop
        return found

    def second_slope_block(self, part: "Part", name: str) -> np.ndarray:
        """(nabla_x nabla_y m n|Q), name 'ipip1', or (nabla_x m nabla_y n|Q), 'ipvip1', as (9, aux, n, m)."""
        return self._block(f"int3c2e_{name}", part, 9, "s1").transpose(0, 3, 2, 1)

    @cached_property
    def metric_curvature(self) -> np.ndarray:
        """(nabla_x nabla_y P|Q), (9, aux, aux)."""
        with quiet():
            return self._auxmol.intor("int2c2e_ipip1", comp=9)

    @cached_property
    def atom_of_function(self) -> np.ndarray:
        """(aux,)"""
        slices = self._auxmol.aoslice_by_atom()[:, 2:]
        return np.repeat(np.arange(len(slices)), slices[:, 1] - slices[:, 0])

    def block(self, part: "Part") -> np.ndarray:
        """(Q|mn) of a part, (aux, ao, ao). May be called from several threads."""
        return lib.unpack_tril(self._block("int3c2e", part, 1, "s2ij").T)

    def slope_block(self, part: "Part") -> np.ndarray:
        """(nabla m n|Q) of a part as (3, aux, n, m). May be called from several threads."""
        return self._block("int3c2e_ip1", part, 3, "s1").transpose(0, 3, 2, 1)

    def _block(self, name, part, components, symmetry):
        n_shells, (first, last) = len(self._tables[1]) - self._auxmol.nbas, part.shells
        shells = (0, n_shells, 0, n_shells, n_shells + first, n_shells + last)
        full_name = to_pyscf(self._molecule)._add_suffix(name)
        optimiser = self._optimisers[name]
        return gto.moleintor.getints3c(full_name, *self._tables, shells, components, symmetry, cintopt=optimiser)

    @cached_property
    def _optimisers(self):
        """libcint's tables of pairs of shells for each kind of integral, shared by all blocks."""
        with mole_with_range(self._molecule, self._omega) as mole:
            tables = mole._atm, mole._bas, mole._env
            names = "int3c2e", "int3c2e_ip1", "int3c2e_ipip1", "int3c2e_ipvip1"
            return {name: gto.moleintor.make_cintopt(*tables, mole._add_suffix(name)) for name in names}


class Part(NamedTuple):
    """Neighbouring auxiliary functions: which they are, and the first and one past the last of their shells."""

    functions: slice
    shells: tuple[int, int]


class Screen(NamedTuple):
    """pairs (shell, shell), functions (aux shell,): their product bounds an integral.   negligible: times P."""

    pairs: np.ndarray
    functions: np.ndarray
    negligible: float


def _contracted(mole, tables, name, symmetry, matrices, P, screen) -> list[np.ndarray]:
    """Contractions (component..., left, right) of integrals (ij|k) with each of the matrices by its indices."""
    atm, bas, env = tables
    plan = _vhf._VHFOpt(mole, name, "CVHFnr3c2e_vj_pass1_prescreen", direct_scf_tol=screen.negligible)
    plan.q_cond = np.hstack([screen.pairs.ravel(), screen.functions])
    plan.dm_cond = np.ascontiguousarray(_largest(_largest(P, mole).T, mole))
    first, last = mole.nbas, len(bas)
    return _vhf.direct_bindm(
        *(mole._add_suffix(name), symmetry, list(matrices), list(map(np.ascontiguousarray, matrices.values()))),
        *(3 if symmetry == "s1" else 1, atm, np.vstack([bas, _PLACEHOLDER]).astype(np.int32), env),
        vhfopt=plan,
        shls_slice=(0, first, 0, first, first, last, last, last + 1),
    )


def _largest(values, mole) -> np.ndarray:
    """Largest magnitude of each shell's values, along the first axis."""
    return np.maximum.reduceat(np.abs(values), mole.ao_loc_nr()[:-1])


def overlaps_of_three(molecule, other) -> np.ndarray:
    """integral g_t chi_m chi_n over the basis functions g of `other` and chi of a molecule, (function, ao, ao)."""
    with quiet():
        packed = incore.aux_e2(to_pyscf(molecule), to_pyscf(other), "int3c1e", aosym="s2ij")
    return lib.unpack_tril(np.ascontiguousarray(packed.T))
