"""Ingredients of semilocal functionals on a molecular grid, and energies of functionals on them."""

from dataclasses import dataclass

import numpy as np

from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import GRADIENT, TAU, both_spins
from dftfd.xc.matrix import Scratch, density_jet
from dftfd.xc.pointwise import pointwise_kernel

LEVEL = 4
"""Grid level of the ingredients; the SCF may have a coarser grid, whose error in its density is of second order."""

EMPTY = 1e-20
"""Density [bohr^-3] up to which a point has no energy: 1e6 bohr^3 of it are 1e-14 electrons."""


@dataclass(frozen=True)
class Ingredients:
    """The density of a molecule on a quadrature grid.

    weights: (point,) [bohr^3].   rho: (2, point) [bohr^-3].   sigma: (3, point), aa, ab, bb [bohr^-8].
    tau: (2, point), 1/2 sum occ |grad phi|^2 [hartree bohr^-3].
    """

    weights: np.ndarray
    rho: np.ndarray
    sigma: np.ndarray
    tau: np.ndarray

    def energy(self, xc) -> float:
        """Semilocal energy of a functional, of its name or itself, on this density [hartree]."""
        there = self.rho.sum(axis=0) > EMPTY
        rows = np.concatenate([self.rho, self.sigma, np.zeros_like(self.rho), self.tau])[:, there]
        (e_xc,) = pointwise_kernel(get_functional(xc).semilocal_part, 2)(rows, 0, compiled=False)
        return float(e_xc[0] @ self.weights[there])


def ingredients_on_grid(result, level: int = LEVEL) -> Ingredients:
    """Ingredients of an SCFResult's density on the grid of a level; NotConvergedError where it is no solution."""
    result.require_converged("the density on a grid")
    spins = zip(result.mo_coeff, result.mo_occ, strict=True)
    occupied = [C[:, occ > 0] * np.sqrt(occ[occ > 0]) for C, occ in spins]
    return ingredients_of_orbitals(result.molecule, occupied, level)


def ingredients_of_orbitals(molecule, occupied, level: int = LEVEL) -> Ingredients:
    """Ingredients of orbitals (ao, occupied) of each spin, columns times the root of their occupation.

    One spin is that of a closed shell, with occupations 2; its density is shared equally.
    """
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    store = AOStore(molecule, np.asarray(grid.points), np.asarray(grid.weights), 1, memory_limit=0)
    scratch, parts = Scratch(), []
    for index, block in enumerate(store.blocks):
        ao = store.values(index, scratch("values", store.scratch_size))
        jet = np.empty((len(occupied), 5, store.block_size))
        for s, C in enumerate(occupied):
            density_jet(ao, None, C[block.aos], 1, True, jet[s], scratch)
        parts.append(jet)
    jet = np.asarray(both_spins(np.concatenate(parts, axis=-1)))
    gradient = jet[:, GRADIENT]
    sigma = np.stack([np.sum(gradient[s] * gradient[t], axis=0) for s, t in ((0, 0), (0, 1), (1, 1))])
    weights = np.concatenate([block.weights for block in store.blocks])
    return Ingredients(weights, np.maximum(jet[:, 0], 0.0), sigma, np.maximum(jet[:, TAU], 0.0))
