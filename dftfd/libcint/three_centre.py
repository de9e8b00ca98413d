"""Integrals of density fitting: (Q|mn), its derivative and the metric, contracted as they are formed or in blocks."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from pyscf import gto, lib
from pyscf.df import addons, incore
from pyscf.scf import _vhf

from dftfd.libcint.gto import GaussianBasis, gaussian_basis
from dftfd.libcint.mole import quiet, to_pyscf
from dftfd.libcint.two_electron import largest_integrals, mole_with_range

NEGLIGIBLE = 1e-16
"""Products of P and integrals that the Schwarz inequality bounds below this are left out: what a nearly singular metric
is solved for has errors 10^4 times larger."""

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

    def metric_slopes(self, G) -> np.ndarray:
        """sum_PQ G_PQ dV_PQ by the nuclei, (atom, 3), for G (aux, aux), symmetric."""
        return -2.0 * self.atom_sums(np.einsum("xpq,pq->xp", self.metric_slope, G))

    @cached_property
    def functions(self) -> GaussianBasis:
        """The auxiliary functions, as a basis."""
        return gaussian_basis(self._auxmol)

    # ------------------------------------------------------------------------------------------- contracted as formed

    def projection(self, P) -> np.ndarray:
        """sum_mn (Q|mn) P_mn, (aux,), of a symmetric P (ao, ao)."""
        atm, bas, env = self._tables
        with mole_with_range(self._molecule, self._omega) as mole:
            plan = _vhf._VHFOpt(mole, "int3c2e", "CVHFnr3c2e_vj_pass1_prescreen", direct_scf_tol=NEGLIGIBLE)
            pairs = largest_integrals(mole)
            plan.q_cond = np.hstack([pairs.ravel(), _largest(np.sqrt(self.metric.diagonal()), self._auxmol)])
            plan.dm_cond = np.ascontiguousarray(_largest(_largest(P, mole).T, mole))
            first, last = mole.nbas, len(bas)
            tables = atm, np.vstack([bas, _PLACEHOLDER]).astype(np.int32), env
            (X,) = _vhf.direct_bindm(
                *(mole._add_suffix("int3c2e"), "s2ij", ["ji->s1kl"], [np.ascontiguousarray(P)], 1, *tables),
                vhfopt=plan,
                shls_slice=(0, first, 0, first, first, last, last, last + 1),
            )
        return X[:, 0]

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


def _largest(values, mole) -> np.ndarray:
    """Largest magnitude of each shell's values, along the first axis."""
    return np.maximum.reduceat(np.abs(values), mole.ao_loc_nr()[:-1])


def overlaps_of_three(molecule, other) -> np.ndarray:
    """integral g_t chi_m chi_n over the basis functions g of `other` and chi of a molecule, (function, ao, ao)."""
    with quiet():
        packed = incore.aux_e2(to_pyscf(molecule), to_pyscf(other), "int3c1e", aosym="s2ij")
    return lib.unpack_tril(np.ascontiguousarray(packed.T))
