"""The energy on the grid of a calculation as a primitive of JAX, with derivatives by the density and the numbers of a
functional: the code of an XCKernel whose arrays vary, run outside of compiled programs.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import derivative_rules, host_primitive, is_zero, shaped, whole_tangents
from dftfd.errors import UnsupportedError
from dftfd.xc.code import PointCode

POINTS = 1024
"""Points that programs take at a time, away from the blocks of an SCF."""


KEPT = 4
"""Solutions, ingredients and grids that are kept: for a derivative after a value, and for their neighbours."""


def drop_oldest(kept: OrderedDict) -> None:
    while len(kept) > KEPT:
        kept.popitem(last=False)


class Kept:
    """Code of NumPy arrays that keeps its last answers, and gives them again for equal arrays."""

    def __init__(self, code: Callable, most: int = 1):
        self._code, self._most = code, most
        self._known: list[tuple[tuple, Any]] = []

    def __call__(self, *arrays) -> Any:
        for asked, answer in self._known:
            if len(asked) == len(arrays) and all(map(np.array_equal, asked, arrays)):
                return answer
        answer = self._code(*arrays)
        self._known = [*self._known, (tuple(map(np.array, arrays)), answer)][-self._most :]
        return answer


class SemilocalOnGrid:
    """The energy of functionals of one structure on a grid: energy(density, p), which JAX differentiates twice.

    code: of a kernel whose arrays vary; p (count,) are their numbers.
    points (point, 3), weights (point,); density (spin, channel, point).
    """

    def __init__(self, code: PointCode, points, weights):
        self.code, self.points, self.weights = code, points, weights
        self.slopes = Kept(self._slopes)  # energy, its slopes and where they change begin with the same

    def energy(self, density, numbers) -> Any:
        """E [hartree] of density (spin, channel, point) and p (count,)."""
        return ENERGY.bind(density, numbers, on=self)[0]

    def _slopes(self, density, numbers) -> list[np.ndarray]:
        """[E, dE/d density, dE/dp] on NumPy arrays."""
        rows = self._on_blocks(self.code.at(numbers).slopes_by_all, density.reshape(self.code.n, -1), self.points.T)
        return [self.weights @ rows[0], *self._split(rows[1:], density.shape)]

    def changes(self, density, numbers, d_density, d_numbers) -> list[np.ndarray]:
        """How dE/d density and dE/dp change along a direction."""
        n, still = self.code.n, np.zeros(self.points.T.shape)
        direction = d_density.reshape(n, -1), still, np.repeat(d_numbers[:, None], len(self.weights), axis=1)
        code = self.code.at(numbers).changes_by_all
        return self._split(self._on_blocks(code, density.reshape(n, -1), self.points.T, *direction), density.shape)

    def _split(self, rows, shape):
        n, weighted = self.code.n, self.weights * rows
        return [weighted[:n].reshape(shape), weighted[n + 3 :].sum(axis=1)]

    def _on_blocks(self, code, *rows):
        """Outputs (row, point) of code of rows (row, point), in calls of one size."""
        found, n_points = [], len(self.weights)
        for start in range(0, n_points, POINTS):
            size = min(POINTS, n_points - start)
            cut = [np.pad(x[:, start : start + size], ((0, 0), (0, POINTS - size)), mode="edge") for x in rows]
            found.append(np.stack(code(*cut))[:, :size])
        return np.concatenate(found, axis=1)


_WHY_NOT_COMPILED = "energies on the grid of a calculation run outside of compiled programs: take jax.jit off."

SLOPES = host_primitive(
    "slopes_on_grid",
    lambda density, numbers, *, on: on.slopes(np.asarray(density), np.asarray(numbers))[1:],
    lambda density, numbers, *, on: [density, numbers],
    _WHY_NOT_COMPILED,
)
CHANGES = host_primitive(
    "changes_of_slopes_on_grid",
    lambda *arrays, on: on.changes(*map(np.asarray, arrays)),
    lambda density, numbers, *direction, on: [density, numbers],
    _WHY_NOT_COMPILED,
)
ENERGY = host_primitive(
    "energy_on_grid",
    lambda density, numbers, *, on: on.slopes(np.asarray(density), np.asarray(numbers))[:1],
    lambda density, numbers, *, on: [shaped(jax.ShapeDtypeStruct((), np.float64))],
    _WHY_NOT_COMPILED,
)


def _jvp_of_energy(primals, tangents, *, on):
    by_density, by_numbers = SLOPES.bind(*primals, on=on)
    change = jnp.zeros(())
    for slope, tangent in zip((by_density, by_numbers), tangents, strict=True):
        if not is_zero(tangent):
            change += jnp.sum(slope * tangent)
    return ENERGY.bind(*primals, on=on), [change]


def _jvp_of_slopes(primals, tangents, *, on):
    return SLOPES.bind(*primals, on=on), CHANGES.bind(*primals, *whole_tangents(tangents), on=on)


def _jvp_of_changes(primals, tangents, *, on):
    if not all(map(is_zero, tangents[:2])):
        raise UnsupportedError("third derivatives of an energy on the grid of a calculation are not there.")
    return CHANGES.bind(*primals, on=on), CHANGES.bind(*primals[:2], *whole_tangents(tangents[2:]), on=on)


def _transposed_changes(cotangents, density, numbers, *direction, on):
    """The second derivative is symmetric."""
    return [None, None, *CHANGES.bind(density, numbers, *whole_tangents(cotangents), on=on)]


derivative_rules(ENERGY, _jvp_of_energy)
derivative_rules(SLOPES, _jvp_of_slopes)
derivative_rules(CHANGES, _jvp_of_changes, _transposed_changes)
