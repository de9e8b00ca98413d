"""Integrals of three centres, contracted as they are formed or in blocks: (Q|mn) of density fitting, and potentials of

pairs of basis functions at points."""

import ctypes
from functools import cached_property
from typing import NamedTuple

import numpy as np
from pyscf import gto, lib
from pyscf.df import addons, incore
from pyscf.gto import moleintor
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


NEGLIGIBLE_PAIRS = 1e-12
"""Pairs of shells are left out whose overlap, or contribution at a point, is below this."""


class PairPotentials:
    """A_mn(r) = int chi_m(r') chi_n(r') g(|r' - r|) d^3r', g = 1/r or, for omega > 0, erf(omega r)/r.

    omega [1/bohr].   May be called from several threads.
    """

    def __init__(self, molecule, omega: float = 0.0):
        mole = to_pyscf(molecule)
        self._mole, self._env = mole, mole._env.copy()
        self._env[gto.PTR_RANGE_OMEGA] = omega

    def __call__(self, points, X) -> np.ndarray:
        """sum_n A_mn(r_p) X_np of each of the arrays X (array, ao, point), (array, ao, point); points (point, 3)."""
        return self._contracted("int1e_grids", points, X)[:, 0]

    def slopes(self, points, X) -> np.ndarray:
        """The same with nabla chi_m in the place of chi_m, (array, 3, ao, point)."""
        return self._contracted("int1e_grids_ip", points, X)

    @cached_property
    def _plans(self):
        return {name: self._plan(name) for name in ("int1e_grids", "int1e_grids_ip")}

    def _plan(self, name):
        plan = _vhf._VHFOpt(self._mole, name, "SGXnr_ovlp_prescreen", direct_scf_tol=NEGLIGIBLE_PAIRS)
        plan.init_cvhf_direct(self._mole, "int1e_ovlp", "SGXnr_q_cond")
        return plan

    def _contracted(self, name, points, X):
        """By the driver of PySCF's semi-numerical exchange, of whose K this is the part before points are summed."""
        mole, plan, components = self._mole, self._plans[name], 1 if name == "int1e_grids" else 3
        X = np.ascontiguousarray(X, dtype=np.float64)
        found = np.zeros((len(X), components, *X.shape[1:]))
        env = np.append(self._env, np.ravel(points))
        env[gto.NGRIDS], env[gto.PTR_GRIDS] = len(points), len(self._env)
        pointers = lambda arrays: (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        symmetry = "s2" if components == 1 else "s1"
        add = ctypes.cast(_vhf._fpointer(f"SGXnr{symmetry}_ijg_gj_gi"), ctypes.c_void_p).value
        ao_loc = moleintor.make_loc(mole._bas, plan._intor)
        _vhf.libcvhf.SGXnr_direct_drv(
            _vhf._fpointer(plan._intor),
            (ctypes.c_void_p * len(X))(*[add] * len(X)),
            pointers(X),
            pointers(found),
            *(len(X), components, (ctypes.c_int * 4)(0, mole.nbas, 0, mole.nbas), ao_loc.ctypes),
            *(plan._cintopt, ctypes.byref(plan._this), mole._atm.ctypes, ctypes.c_int(mole.natm)),
            *(mole._bas.ctypes, ctypes.c_int(mole.nbas), env.ctypes, ctypes.c_int(2 if components == 1 else 1)),
        )
        return found
