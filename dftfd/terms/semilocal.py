"""The exchange-correlation energy of a functional's terms without integrals."""

from copy import copy
from dataclasses import replace

import numpy as np

from dftfd.functionals.base import Functional
from dftfd.grids.molecular import grid_owners, weight_changes, weight_curvature
from dftfd.terms.on_grid import NEGLIGIBLE_WEIGHT, GridEnergy, GridOrbitals, counting_points
from dftfd.terms.term import Curvature, PySCFPart
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import ao_order
from dftfd.xc.code import shared
from dftfd.xc.curvature import CurvatureBuilder, has_curvature
from dftfd.xc.device import DeviceXCBuilder, accelerated_devices
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder

REHEARSAL = 1e-5
"""Cutoff of orbitals for matrices that show what an exact one will be."""


class SemilocalEnergy(GridEnergy):
    """E_xc[rho, tau] of a semilocal functional on a grid, on the accelerator where there is one."""

    components = {"xc": "exchange-correlation"}
    stage = "semilocal derivatives"

    def __init__(
        self, functional: Functional, n_spin: int, molecule, grid, orbitals: GridOrbitals, progress, arrays_vary=False
    ):
        """arrays_vary: as in XCKernel."""
        self.functional, self.arrays_vary, self._progress = functional, arrays_vary, progress
        self._devices = None if functional.exact_exchange_ranges else accelerated_devices()
        kernel = shared(XCKernel, functional, n_spin, **({"arrays_vary": True} if arrays_vary else {}))
        super().__init__(kernel, molecule, grid, orbitals, keep=self._devices is None)

    def made_on(self, store):
        if self._devices is None:
            return XCBuilder(self.kernel, store, self._progress.part)
        return DeviceXCBuilder(self.kernel, store, self._devices)

    def changes_from(self, P, C_occ=None):
        if self._devices is not None:
            return super().changes_from(P, C_occ)
        change, (name,) = self.builder.changes_from(P, C_occ), self.components
        return lambda P, C_occ=None: {name: change(P)}

    def rehearsal(self) -> "SemilocalEnergy":
        """The same in single precision with fewer orbitals at a point: matrices to 1e-5 hartree in half the time.

        Made for calculations that need one exact matrix, or two: orbitals are kept where a third one is asked for.
        """
        other = copy(self)
        other.builder = self.made_on(self.builder.store.in_single_precision(REHEARSAL))
        self.builder.store.patience = 2
        return other

    def curvature(self, P, C_occ, C, progress):
        if not has_curvature(self.kernel):
            return None
        charges, R, level = self._molecule.atomic_numbers, self._molecule.coordinates, self.grid.level
        points, weights = self.grid.on(self._molecule)
        counting = counting_points(self._molecule, points, weights, NEGLIGIBLE_WEIGHT)
        n, owners, energies = len(charges), grid_owners(charges, level), np.zeros(len(points))
        whole = Curvature(np.zeros((n, 3, n, 3)), [np.zeros((n, 3, *C_s.shape)) for C_s in C])
        for atom in np.unique(owners).tolist():
            own = owners == atom
            members = np.flatnonzero(own & counting)
            store = AOStore(
                self._molecule, points[members], weights[members], ao_order(self.kernel) + 2, memory_limit=0
            )
            changes = weight_changes(charges, R, atom, level)[:, :, counting[own]]
            found = CurvatureBuilder(self.kernel, store, self._molecule, atom, changes, C).build(P, C_occ)
            energies[members] = found.energies
            whole = whole + Curvature(found.hessian, found.on_orbitals)
            progress.part(atom + 1, n)
        return whole + Curvature(weight_curvature(charges, R, energies, level), [np.zeros(1)] * len(C))

    @property
    def lacks_response(self):
        models = ", ".join(repr(term.name) for _, term in self.functional.terms if not term.has_energy)
        return models and (
            f"{models} is a model of the potential alone: without an energy there is no Hessian, so neither responses "
            "and excitations nor stability exist, and second-order or direct minimisation neither; use convergence="
            "'auto', 'diis' or 'adiis'."
        )

    def in_pyscf(self):
        return PySCFPart(replace(self.functional, dispersion=None), self.grid.in_pyscf("grids"))
