"""The exchange-correlation energy of a functional's double integrals: VV10, rVV10, vdW-DF, or a user's own."""

from dataclasses import replace
from functools import partial

import jax

from dftfd.functionals.base import Functional
from dftfd.functionals.pytree import plain_numbers
from dftfd.terms.on_grid import FunctionalEnergy, GridOrbitals
from dftfd.terms.term import PySCFPart
from dftfd.terms.traced_grid import (
    DoubleIntegralInMemory,
    DoubleIntegralOnHost,
    by_terms,
    double_integral_of_density,
    double_integral_order,
    need_of_orbitals,
    orbitals_in_memory,
)
from dftfd.xc.code import shared
from dftfd.xc.nonlocal_kernel import NonlocalXCBuilder, NonlocalXCKernel

SMOOTH = ("vv10", "rvv10")
"""Double integrals whose kernels are smooth where two points meet, so that a coarse grid will do."""

SMOOTH_LEVEL, OTHER_LEVEL = 1, 3
"""Grid levels of these, and of all others. VV10's energy on level 1 is within 1e-6 hartree per atom of that on level 3
(docs/nonlocal.md, twenty molecules); the kernel of vdW-DF, short in the core, needs more than any level has."""


def suitable_level(functional: Functional) -> int:
    """Level of the grid that suits the double integrals of a functional, where none is asked for."""
    smooth = all(term.name in SMOOTH for _, term in functional.terms if term.is_nonlocal)
    return SMOOTH_LEVEL if smooth else OTHER_LEVEL


class DoubleIntegralEnergy(FunctionalEnergy):
    """E[rho, tau] of double integrals, on a grid as a whole."""

    components = {"nonlocal": "nonlocal correlation"}
    stage = "nonlocal derivatives"

    def __init__(self, functional: Functional, n_spin: int, molecule, grid, orbitals: GridOrbitals):
        self._functional = functional
        self._kernel_with = partial(shared, NonlocalXCKernel, functional, n_spin)
        super().__init__(self._kernel_with(), molecule, grid, orbitals)

    def made_on(self, store):
        return NonlocalXCBuilder(self.kernel, store)

    @property
    def gradient_kernel(self):
        return self._kernel_with(moving_points=True)

    def traced(self, molecule, in_memory):
        if not in_memory:
            return DoubleIntegralOnHost(self.builder)
        return DoubleIntegralInMemory(orbitals_in_memory(molecule, self.grid, double_integral_order(self._functional)))

    def need_in_memory(self, molecule):
        return need_of_orbitals(molecule, self.grid, double_integral_order(self._functional))

    def with_numbers(self, functional, surroundings):
        given = self.kernel.n_spin, self._molecule, self.grid, self._orbitals
        return DoubleIntegralEnergy(plain_numbers(functional).double_integral_part, *given)

    def parameter_gradient(self, P, functional):
        """JAX goes through pairs of points in rows."""
        (points, weights), density = self.builder.grid, self.builder.density(P)
        return by_terms(jax.jit(jax.grad(double_integral_of_density))(self._functional, density, points, weights))

    def in_pyscf(self):
        return PySCFPart(replace(self._functional, dispersion=None), self.grid.in_pyscf("nlcgrids"))
