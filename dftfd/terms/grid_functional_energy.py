"""The energy of a grid functional, code on a molecule's grid (dftfd.functionals.grid_functionals), as a term."""

from functools import partial

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.grid_functionals import GridFunctionalTerm, without_grid_functionals
from dftfd.grids.molecular import grid_owners
from dftfd.terms.on_grid import (
    LEAST_WEIGHT,
    NEGLIGIBLE_WEIGHT,
    FunctionalEnergy,
    GridOrbitals,
    counting_points,
)
from dftfd.xc.grid_functional_kernel import GridFunctionalKernel
from dftfd.xc.nonlocal_kernel import NonlocalXCBuilder


class GridFunctionalEnergy(FunctionalEnergy):
    """E[features] of one grid functional, on a grid as a whole."""

    components = {"grid_functional": "grid functional"}
    stage = "derivatives of the grid functional"

    def __init__(self, functional: Functional, n_spin: int, molecule, grid, orbitals: GridOrbitals):
        """functional: the grid functional alone."""
        ((_, self._term),) = functional.grid_functionals
        if self._takes_owners and not grid.moves:
            raise UnsupportedError(
                f"grid functional {self._term.name!r} needs the atom of each grid point, which is unknown for given "
                "points; choose grid_level=."
            )
        atoms = molecule.coordinates, molecule.atomic_numbers
        self._kernel_of = partial(GridFunctionalKernel, functional, nuclei=atoms[0], charges=atoms[1])
        super().__init__(self._kernel_of(n_spin), molecule, grid, orbitals)

    def traced(self, molecule, in_memory):
        self._refuse("of which JAX has no energy of a density matrix")

    def parameter_gradient(self, P, functional):
        self._refuse("whose derivatives by parameters are jax.grad's of its own code")

    def _refuse(self, what):
        without_grid_functionals(self.kernel.functional, what)

    @property
    def _takes_owners(self):
        return isinstance(self._term, GridFunctionalTerm) and "owner" in self._term.features

    def _owners(self, store, least):
        """The atom of each point on the blocks of a store that was made of points of more than the least weight."""
        if not self._takes_owners:
            return None
        points, weights = self.grid.on(self._molecule)
        owner = grid_owners(self._molecule.atomic_numbers, self.grid.level_with_nuclei)
        owner = owner[counting_points(self._molecule, points, weights, least)]
        filled = lambda block: np.pad(block.members, (0, len(block.weights) - len(block.members)), mode="edge")
        return owner[np.concatenate([filled(block) for block in store.blocks])]

    def made_on(self, store):
        return NonlocalXCBuilder(self._kernel_of(self.kernel.n_spin, owner=self._owners(store, LEAST_WEIGHT)), store)

    def _kernel_of_two_spins(self):
        return self._kernel_of(2, owner=self._owners(self.builder.store, LEAST_WEIGHT))

    def _changes(self, kernel, points, weights, density):
        return kernel.changes(points, weights, density)

    def _gradient(self, P, C_occ, grid_response, progress, builder):
        def made(kernel, store, part):
            owner = self._owners(store, NEGLIGIBLE_WEIGHT)
            return builder(self._kernel_of(kernel.n_spin, owner=owner), store, part)

        return super()._gradient(P, C_occ, grid_response, progress, made)
