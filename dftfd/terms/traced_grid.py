"""Energies on quadrature grids as code that JAX transforms: orbitals in memory, or a builder on the host."""

from collections import OrderedDict
from dataclasses import dataclass
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.functionals.base import Functional
from dftfd.functionals.pytree import put_together, taken_apart
from dftfd.libcint.gto import component_count
from dftfd.runtime.memory import Need
from dftfd.terms.traced import TracedEnergy, linear_map
from dftfd.xc.code import shared
from dftfd.xc.derivatives_by_numbers import KEPT, Kept, SemilocalOnGrid, drop_oldest
from dftfd.xc.in_jax import (
    OrbitalsOnGrid,
    double_integral_energy,
    double_integral_of_density,
    orbitals_on_grid,
    semilocal_energy,
)
from dftfd.xc.kernel import XCKernel

ORBITAL_WORK = 3
"""Arrays of the size of the orbitals on a grid that a gradient of two spins in memory needs beside them; measured on
benzene, rounded up."""


def orbitals_in_memory(molecule, grid, order: int) -> OrbitalsOnGrid:
    """The orbitals on a Quadrature."""
    points, weights = grid.on(molecule)
    return orbitals_on_grid(molecule, points, weights, order)


def need_of_orbitals(molecule, grid, order: int) -> Need:
    """Bytes of them, and of a gradient that works on them."""
    bytes_of_one = 8.0 * component_count(order) * molecule.n_ao * len(grid.on(molecule)[1])
    return Need({"all orbitals on the grid": (1 + ORBITAL_WORK) * bytes_of_one})


class _Semilocal(TracedEnergy):
    """E_xc of the terms without integrals."""

    component = "xc"

    def names(self, functional):
        return (self.component,) if functional.is_semilocal else ()

    def varies(self, name, numbers):
        return bool(taken_apart(numbers.functional.semilocal_part)[1])


class _DoubleIntegral(TracedEnergy):
    """E of the terms with double integrals."""

    component = "nonlocal"

    def names(self, functional):
        return (self.component,) if functional.is_nonlocal else ()

    def varies(self, name, numbers):
        return bool(taken_apart(numbers.functional.nonlocal_part)[1])


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class SemilocalInMemory(_Semilocal):
    """With the orbitals on a quadrature, grid."""

    grid: OrbitalsOnGrid

    def energy(self, name, P, numbers):
        return semilocal_energy(numbers.functional.semilocal_part, P, self.grid)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class DoubleIntegralInMemory(_DoubleIntegral):
    """With the orbitals on a quadrature, grid."""

    grid: OrbitalsOnGrid

    def energy(self, name, P, numbers):
        return double_integral_energy(numbers.functional.nonlocal_part, P, self.grid)


class _OnHost:
    """The density on the grid of a builder (xc.matrix), of which the last ones are kept: derivatives follow values."""

    def __init__(self, builder):
        self.builder = builder
        self.points, self.weights = builder.grid
        self._density_of = Kept(lambda P: builder.density(0.5 * (P + P.transpose(0, 2, 1))), KEPT)

    def density(self, P) -> Any:
        """(spin, channel, point)."""
        shape = len(P), self.builder.kernel.channels, len(self.weights)
        return linear_map(self._density_of, self.builder.matrix, shape, P)


class SemilocalOnHost(_OnHost, _Semilocal):
    """By compiled code of the functional's structure, whose numbers are arguments."""

    def __init__(self, builder):
        super().__init__(builder)
        self._codes: OrderedDict = OrderedDict()

    def energy(self, name, P, numbers):
        part, density = numbers.functional.semilocal_part, self.density(P)
        structure = taken_apart(part)[0]
        if structure not in self._codes:
            self._codes[structure] = _code(part, len(density), self.points, self.weights)
            drop_oldest(self._codes)
        return _with_numbers(self._codes[structure], part, density)

    def at(self, P, numbers):
        """Of whatever functional: nothing is kept but the density on the grid."""
        density, points, weights = self.builder.density(P), self.points, self.weights

        def energy(numbers):
            part = numbers.functional.semilocal_part
            return _with_numbers(_code(part, len(density), points, weights), part, density)

        return energy


class DoubleIntegralOnHost(_OnHost, _DoubleIntegral):
    """By code of JAX alone, all pairs of points at a time."""

    def energy(self, name, P, numbers):
        part, density = numbers.functional.nonlocal_part, self.density(P)
        return double_integral_of_density(part, density, jnp.asarray(self.points), jnp.asarray(self.weights))


def _code(part, n_spin, points, weights) -> SemilocalOnGrid:
    structure, values = taken_apart(part)
    like = put_together(structure, [np.ones(np.shape(v)) for v in values])
    return SemilocalOnGrid(shared(XCKernel, like, n_spin, arrays_vary=True).code, points, weights)


def _with_numbers(on: SemilocalOnGrid, part, density):
    return on.energy(density, jnp.concatenate([jnp.zeros(0), *(jnp.ravel(v) for v in taken_apart(part)[1])]))


def by_terms(slopes: Functional) -> dict[str, dict[str, Any]]:
    """{name of a term: {parameter: derivative}} of a Functional of derivatives; terms of one name are added up."""
    found: dict[str, dict[str, Any]] = {}
    for _, slope in slopes.terms:
        of_term = found.setdefault(slope.name, {})
        for name, value in slope.parameters.items():
            if any(isinstance(x, jax.Array) for x in tree_leaves(value)):  # integers stay as they are
                value = tree_map(lambda x: float(x) if jnp.ndim(x) == 0 else np.asarray(x), value)
                of_term[name] = value if name not in of_term else tree_map(add, of_term[name], value)
    return found
