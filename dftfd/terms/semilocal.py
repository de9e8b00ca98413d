"""The exchange-correlation energy of a functional's terms without integrals."""

from copy import copy
from dataclasses import replace
from functools import partial

import jax
import numpy as np
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

from dftfd.errors import UnsupportedError
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.functionals.pytree import owners, taken_apart
from dftfd.grids.molecular import grid_owners, weight_changes, weight_curvature
from dftfd.runtime.progress import as_progress
from dftfd.terms.on_grid import NEGLIGIBLE_WEIGHT, FunctionalEnergy, GridOrbitals, counting_points
from dftfd.terms.term import Curvature, PySCFPart
from dftfd.terms.traced_grid import (
    SemilocalInMemory,
    SemilocalOnHost,
    by_terms,
    need_of_orbitals,
    orbitals_in_memory,
    semilocal_order,
)
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import ao_order
from dftfd.xc.code import shared
from dftfd.xc.device import DeviceXCBuilder, accelerated_devices
from dftfd.xc.gradient import CurvatureBuilder, has_curvature
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import MatrixBuilder, XCBuilder

REHEARSAL = 1e-5
"""Cutoff of orbitals for matrices that show what an exact one will be."""

MOVES, ROUNDING = (0.5, 0.0625), 1e-11
"""Parts of its value by which a parameter of derivative zero is moved, and part of the energy that rounding may be."""


class SemilocalEnergy(FunctionalEnergy):
    """E_xc[rho, tau] of a semilocal functional on a grid, on the accelerator where there is one."""

    components = {"xc": "exchange-correlation"}
    stage = "semilocal derivatives"
    kernel: XCKernel

    def __init__(
        self, functional: Functional, n_spin: int, molecule, grid, orbitals: GridOrbitals, progress, arrays_vary=False
    ):
        """arrays_vary: as in XCKernel."""
        self.functional, self.arrays_vary, self._progress = functional, arrays_vary, progress
        self._devices = None if functional.exact_exchange_ranges else accelerated_devices(molecule.n_ao)
        kernel = shared(XCKernel, functional, n_spin, **({"arrays_vary": True} if arrays_vary else {}))
        super().__init__(kernel, molecule, grid, orbitals, keep=self._devices is None)

    def made_on(self, store):
        if self._devices is None:
            return XCBuilder(self.kernel, store, self._progress.part)
        return DeviceXCBuilder(self.kernel, store, self._devices)

    def incremental_build(self, P, C_occ=None):
        if self._devices is not None:
            return super().incremental_build(P, C_occ)
        change, (name,) = self.builder.incremental_build(P, C_occ), self.components
        return lambda P, C_occ=None: {name: change(P)}

    def rehearsal(self) -> "SemilocalEnergy":
        """The same in single precision with fewer orbitals at a point: matrices to 1e-5 hartree in half the time.

        Made for calculations that need one exact matrix, or two: orbitals are kept where a third one is asked for.
        """
        if self._devices is not None:
            return self
        other = copy(self)
        other.builder = self.made_on(self.builder.store.in_single_precision(REHEARSAL))
        self.builder.store.patience = 2
        return other

    def curvature(self, P, C_occ, C, progress):
        if not has_curvature(self.kernel):
            return None
        charges, R, level = self._molecule.atomic_numbers, self._molecule.coordinates, self.grid.level_with_nuclei
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
        return str(supports.refusal("stability", self.functional) or "")

    def traced(self, molecule, in_memory):
        if not in_memory:
            return SemilocalOnHost(self.builder)
        return SemilocalInMemory(orbitals_in_memory(molecule, self.grid, semilocal_order(self.functional)))

    def need_in_memory(self, molecule):
        return need_of_orbitals(molecule, self.grid, semilocal_order(self.functional))

    def with_numbers(self, functional, surroundings):
        part = functional.semilocal_part
        given = part, self.kernel.n_spin, self._molecule, self.grid, self._orbitals, as_progress(False)
        return type(self)(*given, arrays_vary=bool(taken_apart(part)[1]))

    def parameter_gradient(self, P, functional):
        points, weights = self.grid.on(self._molecule)
        store = AOStore(self._molecule, points, weights, ao_order(self.kernel), memory_limit=0)
        density = np.split(self._densities_on(store).density(P), len(store.blocks), axis=-1)
        blocks = [(block.points, block.weights, n) for block, n in zip(store.blocks, density, strict=True)]
        slopes = tree_map(lambda *x: sum(x), *(_slopes(self.functional, len(P), *block) for block in blocks))
        self._require_slopes(slopes, lambda f: sum(float(_energy(f, len(P), *block)) for block in blocks))
        return by_terms(slopes)

    def _require_slopes(self, slopes, energy):
        """UnsupportedError for a parameter with the derivative zero whose change moves the energy all the same."""
        leaves, structure = tree_flatten(self.functional)
        for k, (_, name) in enumerate(owners(self.functional)):
            slope, value = tree_leaves(slopes)[k], leaves[k]
            if name and np.ndim(slope) == 0 and slope == 0:
                at = lambda h, k=k, value=value: energy(
                    tree_unflatten(structure, [*leaves[:k], value + h, *leaves[k + 1 :]])
                )
                far, near = (abs(at(h) - at(-h)) for h in np.multiply(MOVES, abs(value) or 1.0))
                least = ROUNDING * abs(at(0.0))
                smooth = least < near <= far / 64  # a smooth energy of slope zero moves by h^3
                if far > least and not smooth:
                    raise UnsupportedError(
                        f"parameter {name!r} affects the energy only through a comparison, so there is no "
                        "derivative with respect to it; make it an integer, which is left out, or make the "
                        "formula smooth."
                    )

    def _densities_on(self, store) -> MatrixBuilder:
        return MatrixBuilder(self.kernel, store)

    def in_pyscf(self):
        return PySCFPart(replace(self.functional, dispersion=None), self.grid.in_pyscf("grids"))


@partial(jax.jit, static_argnums=1)
def _energy(functional, n_spin, points, weights, density):
    """E_xc of a block [hartree]."""
    return XCKernel(functional, n_spin).energy(points, weights, density)


@partial(jax.jit, static_argnums=1)
def _slopes(functional, n_spin, points, weights, density):
    """A Functional of the derivatives of E_xc on a block by all coefficients and parameters."""
    return jax.grad(lambda f: XCKernel(f, n_spin).energy(points, weights, density))(functional)
