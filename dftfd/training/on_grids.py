"""Densities and semilocal energies on the grids of calculations, as code that JAX differentiates.

What was asked last of each grid is kept, since a derivative begins where the value ended.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from dftfd.functionals.pytree import put_together, taken_apart
from dftfd.xc.code import shared
from dftfd.xc.derivatives_by_numbers import Kept, SemilocalOnGrid
from dftfd.xc.kernel import XCKernel

KEPT = 4
"""Solutions, ingredients and grids that are kept: for a derivative after a value, and for their neighbours."""


def drop_oldest(kept: OrderedDict) -> None:
    while len(kept) > KEPT:
        kept.popitem(last=False)


class OnGrids:
    """Of the XCBuilders of a calculation, each of which is kept with what is known of it."""

    def __init__(self):
        self._kept: OrderedDict = OrderedDict()

    def clear(self) -> None:
        self._kept.clear()

    def density_of(self, builder) -> Callable:
        """Density on the builder's grid of any matrix (spin, ao, ao), that of its symmetric part."""
        code = lambda P: builder.density(0.5 * (P + P.transpose(0, 2, 1)))
        return self._once(("density", id(builder)), builder, lambda: Kept(code))

    def energy(self, builder, part, density) -> Any:
        """E [hartree] of a semilocal functional on a density (spin, channel, point)."""
        key = "energy", id(builder), taken_apart(part)[0]
        on = self._once(key, builder, lambda: _on_grid(part, len(density), *builder.grid))
        return _with_numbers(on, part, density)

    def _once(self, key, builder, make):
        if key not in self._kept:
            self._kept[key] = builder, make()  # with the builder, whose id is its name
            drop_oldest(self._kept)
        return self._kept[key][1]


def semilocal_energy(part, density, points, weights) -> Any:
    """E [hartree] of a semilocal functional on densities (spin, channel, point), of which nothing is kept."""
    return _with_numbers(_on_grid(part, len(density), points, weights), part, density)


def _on_grid(part, n_spin, points, weights) -> SemilocalOnGrid:
    structure, values = taken_apart(part)
    like = put_together(structure, [np.ones(np.shape(v)) for v in values])
    return SemilocalOnGrid(shared(XCKernel, like, n_spin, arrays_vary=True).code, points, weights)


def _with_numbers(on: SemilocalOnGrid, part, density):
    return on.energy(density, jnp.concatenate([jnp.zeros(0), *(jnp.ravel(v) for v in taken_apart(part)[1])]))
