"""A functional's energy on a grid as code whose numbers are arguments: other parameters compile nothing.

XCKernel (xc.kernel) has all numbers in its program, which is the fastest code for one functional and takes half a
second to compile for the next. Here those that are arrays are inputs of the same scalar program, after the density and
the point, and derivatives by them are further outputs. Three programs serve a structure of functionals: energy with its
slopes, and the change of the slopes along any direction, in the SCF, in its response and in derivatives by parameters.
"""

from collections import OrderedDict
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import derivative_rules, host_primitive, is_zero, shaped, whole_tangents
from dftfd.autofd.scalar.derive import retraced, with_forward_derivative, with_gradient
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.pytree import put_together, taken_apart
from dftfd.xc.code import OnPoints, apart
from dftfd.xc.in_jax import double_integral_of_density
from dftfd.xc.kernel import Slopes, XCKernel

MOST_NUMBERS = 400
"""Numbers of a functional that are scalars of one program; twice as many compile for minutes."""

POINTS = 1024
"""Points that programs take at a time, away from the blocks of an SCF."""

KEPT = 16
"""Structures of functionals whose programs are kept."""

_kept: OrderedDict[Any, "ParametricCode"] = OrderedDict()


class ParametricCode:
    """Energy per volume e(x, r, p) of functionals of one structure, x the density's channels and p their numbers.

    n: number of channels of all spins.   count: of numbers.   layout: of the functional's densities, an XCKernel.
    """

    def __init__(self, structure, shapes, n_spin: int):
        self.count = sum(int(np.prod(shape)) for shape in shapes)
        if self.count > MOST_NUMBERS:
            raise UnsupportedError(
                f"a functional with {self.count} numbers that vary; at most {MOST_NUMBERS} are served: hold others "
                "fixed as plain numbers, or train a large network on densities with dftfd.energy."
            )
        some = [np.ones(shape) for shape in shapes]
        self.layout = apart(XCKernel, put_together(structure, some), n_spin)
        self.n = n_spin * self.layout.channels

        def energy(density, point, *values):
            return XCKernel(put_together(structure, values), n_spin).energy_density(density, point)

        specs = [(n_spin, self.layout.channels), (3,), *shapes]
        program = apart(point_program, energy, *(jax.ShapeDtypeStruct(shape, np.float64) for shape in specs))
        self._gradient = with_gradient(program)

    @cached_property
    def all_slopes(self) -> OnPoints:
        """e and its derivatives by x, r and p."""
        return OnPoints(retraced(self._gradient, inline=True))

    @cached_property
    def slopes(self) -> OnPoints:
        """e and its derivatives by x and r."""
        program = retraced(self._gradient, inline=True)
        return OnPoints(replace(program, outputs=program.outputs[: 1 + self.n + 3]))

    @cached_property
    def changes(self) -> OnPoints:
        """The changes of the derivatives by x, r and p along a direction of x, r and p."""
        n = self.n + 3 + self.count
        program = with_forward_derivative(self._gradient, n, inline=True)
        return OnPoints(replace(program, outputs=program.outputs[-n:]))


def parametric_code(functional: Functional, n_spin: int) -> tuple[ParametricCode, np.ndarray]:
    """The code of a functional's structure, and its numbers p (count,)."""
    structure, values = taken_apart(functional)
    shapes = tuple(np.shape(value) for value in values)
    key = structure, shapes, n_spin
    if key not in _kept:
        _kept[key] = ParametricCode(structure, shapes, n_spin)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return _kept[key], np.concatenate([np.zeros(0), *(np.ravel(value) for value in values)])


class ParametricKernel(XCKernel):
    """An XCKernel of which other values of those numbers that are arrays are arguments."""

    def __init__(self, functional: Functional, n_spin: int):
        self.functional, self.n_spin = functional, n_spin
        self._parametric, self._numbers = parametric_code(functional, n_spin)
        layout = self._parametric.layout
        self.order, self.needs_tau, self.channels = layout.order, layout.needs_tau, layout.channels

    def slopes(self, points, weights, density) -> Slopes:
        self._refuse_tracers((points, weights, density))
        e, *rows = self._parametric.slopes(*self._inputs(points, density))
        slopes = np.multiply(weights, np.stack(rows))
        n = self._parametric.n
        return Slopes(e, slopes[:n].reshape(density.shape), slopes[n:])

    def response(self, points, weights, density, tangent):
        n, direction = self._parametric.n, _rows(tangent, np.zeros(points.shape), np.zeros_like(self._numbers))
        rows = self._parametric.changes(*self._inputs(points, density), *direction)
        return np.multiply(weights, np.stack(rows[:n])).reshape(density.shape)

    def _inputs(self, points, density):
        return _rows(density, points, self._numbers)


def _rows(density, points, numbers):
    """Inputs of a program, (row, point) each."""
    n_points = len(points)
    return density.reshape(-1, n_points), points.T, np.repeat(numbers[:, None], n_points, axis=1)


# ------------------------------------------------------------------------------------------------ primitives of JAX


class SemilocalOnGrid:
    """The energy of functionals of one structure on a grid: energy(density, p), which JAX differentiates twice.

    points (point, 3), weights (point,); density (spin, channel, point).
    """

    def __init__(self, code: ParametricCode, points, weights):
        self.code, self.points, self.weights = code, points, weights

    def energy(self, density, numbers) -> Any:
        """E [hartree] of density (spin, channel, point) and p (count,)."""
        return ENERGY.bind(density, numbers, on=self)[0]

    def slopes(self, density, numbers) -> list[np.ndarray]:
        """[E, dE/d density, dE/dp] on NumPy arrays."""
        e, *rows = self._on_blocks(self.code.all_slopes, density, numbers)
        return [self.weights @ e, *self._split(rows, density.shape)]

    def changes(self, density, numbers, d_density, d_numbers) -> list[np.ndarray]:
        """How dE/d density and dE/dp change along a direction."""
        rows = self._on_blocks(self.code.changes, density, numbers, d_density, d_numbers)
        return self._split(rows, density.shape)

    def _split(self, rows, shape):
        n, weighted = self.code.n, np.multiply(self.weights, np.stack(rows))
        return [weighted[:n].reshape(shape), weighted[n + 3 :].sum(axis=1)]

    def _on_blocks(self, program, density, numbers, *direction):
        """Rows (point,) of a program's outputs, in calls of one size."""
        found, n_points = [], len(self.weights)
        for start in range(0, n_points, POINTS):
            block = slice(start, start + POINTS)
            size = len(self.weights[block])
            fill = ((0, 0), (0, POINTS - size))
            inputs = list(_rows(density[..., block], self.points[block], numbers))
            if direction:
                inputs += _rows(direction[0][..., block], np.zeros((size, 3)), direction[1])
            found.append([row[:size] for row in program(*(np.pad(rows, fill, mode="edge") for rows in inputs))])
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]


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


def double_integral_energy_of(functional: Functional, points, weights, density):
    """Energy [hartree] of terms with integrals, in code of JAX alone; density (spin, channel, point)."""
    return double_integral_of_density(functional, density, jnp.asarray(points), jnp.asarray(weights))
