"""Integrals of density fitting one block of auxiliary functions at a time: (Q|mn), its derivative, and the metric."""

import numpy as np
from pyscf import gto, lib
from pyscf.df import addons

from dftfd.libcint.mole import quiet
from dftfd.libcint.two_electron import mole_with_range


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

    def blocks(self, n_bytes: float):
        """Yields (slice of auxiliary functions, (Q|mn) (aux, ao, ao)) within `n_bytes` each."""
        for functions, packed in self._blocks("int3c2e", "s2ij", 1, n_bytes):
            yield functions, lib.unpack_tril(np.ascontiguousarray(packed.T))

    def slope_blocks(self, n_bytes: float):
        """Yields (slice of auxiliary functions, (nabla m n|Q) as (3, aux, n, m)) within `n_bytes` each."""
        for functions, values in self._blocks("int3c2e_ip1", "s1", 3, n_bytes):
            yield functions, values.transpose(0, 3, 2, 1)

    def _blocks(self, name, symmetry, components, n_bytes):
        with mole_with_range(self._molecule, self._omega) as mole:
            name = mole._add_suffix(name)
            optimiser = gto.moleintor.make_cintopt(mole._atm, mole._bas, mole._env, name)
            width = max(1, int(n_bytes / (8 * components * mole.nao**2)))
            offsets = self._auxmol.ao_loc
            first = 0
            while first < self._auxmol.nbas:
                last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + width, side="right")) - 1)
                shells = (0, mole.nbas, 0, mole.nbas, mole.nbas + first, mole.nbas + last)
                values = gto.moleintor.getints3c(name, *self._tables, shells, components, symmetry, cintopt=optimiser)
                yield slice(int(offsets[first]), int(offsets[last])), values
                first = last
