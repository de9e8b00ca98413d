"""Electrostatic potentials of pairs of basis functions at points, contracted as they are formed."""

import ctypes
from functools import cached_property

import numpy as np
from pyscf import gto
from pyscf.gto import moleintor
from pyscf.scf import _vhf

from dftfd.libcint.mole import to_pyscf

NEGLIGIBLE = 1e-12
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
        plan = _vhf._VHFOpt(self._mole, name, "SGXnr_ovlp_prescreen", direct_scf_tol=NEGLIGIBLE)
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
