"""What is asked of a functional with double integrals before it is registered.

It is lowered to pairs of points, as for a calculation, and evaluated on a few points with weights, where densities are
ordinary, each paired with all and with itself. Refused, with the point where it shows: what can't be lowered; a formula
that raises; single precision on the way; NaN or infinity; derivatives by the density that are missing, not finite, or
not the slope of the energy; energies that change with the spin labels, or from one evaluation to the next; pair kernels
that are other numbers as scalar code. Jumps are not looked for: the wide step that finds them would change a kernel of
short range by orders of magnitude.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.lowering import CELL_VOLUME
from dftfd.autofd.lowering_pairs import lower_nonlocal
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import scalar_program
from dftfd.errors import NotSemilocalError, UnsupportedError
from dftfd.functionals.base import EnergyTerm
from dftfd.functionals.validation_points import (
    formed,
    one_line,
    refused,
    require_as_written,
    require_finite,
    require_repeatable,
    require_slope,
    require_symmetric,
    sane_points,
    swapped_positions,
)

STEP, TOLERANCE = 1e-5, 1e-4
"""Relative step of the differences that derivatives are compared with, and tolerance."""

ROUNDING = 1e-9
"""Of the energies of all points: what is not asked of their sums, which hold terms of both signs."""

_POINTS = 8
_SINGLE = re.compile(r"\b(f16|bf16|f32)\[")
_COINCIDING = (
    "also where the two points coincide: leave such pairs out and add the part of one cell, as functionals/hartree.py "
    "does"
)


def require_valid_pairs(term: EnergyTerm, spin_symmetric: bool = True) -> None:
    """Raise FunctionalError unless a term with integrals can be registered."""
    trial, again = (Trial(term) for _ in range(2))
    energy, gradient = trial.slopes(trial.jets)
    require_repeatable(term, energy, np.asarray(jax.jit(again.energies)(again.jets)), trial.x, tolerance=ROUNDING)
    require_finite(term, energy, gradient, trial.x, _COINCIDING)
    _require_as_written(term, trial)
    if spin_symmetric:
        _require_symmetric(term, trial, gradient)
    if term.has_energy:
        _require_slope(term, trial, energy, gradient)


class Trial:
    """A term's energy on `_POINTS` points: code of the jets (entry, point) of rho and tau there.

    x: jets and points, as `sane_points` gives them.   swapped: positions of its entries with the spins exchanged.
    """

    def __init__(self, term: EnergyTerm):
        self.term = term
        expression = formed(term)
        try:
            self.program = lower_nonlocal(expression)
        except NotSemilocalError as error:
            raise refused(term, f"can't be computed on a grid: {one_line(error)}") from error
        self.orders = [self.program.orders.get(name, 0) + 1 for name in ("rho", "tau")]
        if self.program.orders.get(CELL_VOLUME, 0) > 0:
            raise refused(term, "differentiates the cell volume of grid points, which has no derivative")
        self.x, self.swapped = sane_points(tuple(self.orders), _POINTS), swapped_positions(*self.orders)
        self.jets, self.points = self.x[:-3], self.x[-3:].T
        self.weights = np.random.default_rng(7).uniform(0.5, 1.5, _POINTS)
        self._require_double_precision()
        self._value_and_slope = jax.jit(jax.value_and_grad(self._total, has_aux=True))

    def energies(self, jets):
        """Energy per volume at each point."""
        return self._at_points(self.program.outer, self.known(jets))

    def known(self, jets=None):
        """What code at each point knows: jets, volume of the cell, integrals."""
        known = self._named(self.jets if jets is None else jets) | {CELL_VOLUME: [jnp.asarray(self.weights)]}
        for integral in self.program.integrals:
            known = known | {integral.name: [self._integral(integral, known)]}
        return known

    def slopes(self, jets):
        """(energies (point,), derivatives of their weighted sum by each of the jets (entry, point))."""
        try:
            (_, energies), slopes = self._value_and_slope(jets)
        except Exception as error:  # noqa: BLE001
            raise refused(
                self.term,
                f"is not differentiable: {type(error).__name__}: {one_line(error)}; use operators and jax.numpy",
            ) from error
        return np.asarray(energies), np.asarray(slopes)

    def _total(self, jets):
        energies = self.energies(jets)
        return self.weights @ energies, energies

    def _named(self, jets):
        """{"rho": [value (point, 2), gradient (point, 2, 3), ...], "tau": [...]}"""
        named: dict[str, list] = {}
        start = 0
        for name, order in zip(("rho", "tau"), self.orders, strict=True):
            named[name] = []
            for k in range(order):
                rows = jets[start : start + 2 * 3**k].reshape(2, *(3,) * k, _POINTS)
                named[name].append(jnp.moveaxis(rows, -1, 0))
                start += 2 * 3**k
        return named

    def _at_points(self, code, known):
        return jax.vmap(code)(known, jnp.asarray(self.points))

    def _integral(self, integral, known):
        """S at each point, (point, *shape): the sum over all pairs."""
        points = jnp.asarray(self.points)
        charge, left, right = (self._at_points(c, known) for c in (integral.charge, integral.left, integral.right))
        row = lambda r, a: jax.vmap(lambda s, b: integral.kernel(r, a, s, b))(points, right)
        return jnp.einsum("q,pq...->p...", self.weights * charge, jax.vmap(row)(points, left))

    def _require_double_precision(self):
        try:
            code = str(jax.make_jaxpr(self.energies)(self.jets))
        except Exception as error:  # noqa: BLE001
            raise refused(self.term, f"raised {type(error).__name__} when evaluated: {one_line(error)}") from error
        single = _SINGLE.search(code)
        if single:
            name = single[1].replace("f", "float")
            raise refused(self.term, f"computes in {name} on the way; float64 expected")


def _require_as_written(term, trial):
    """The pair kernels as scalar code against themselves, at all pairs of points."""
    known, points = trial.known(), jnp.asarray(trial.points)
    here, there = (np.ravel(i) for i in np.indices((_POINTS, _POINTS)))
    at = lambda tree, places: jax.tree_util.tree_map(lambda array: array[places], tree)
    for integral in trial.program.integrals:
        left, right = (trial._at_points(c, known) for c in (integral.left, integral.right))
        pairs = (points[here], at(left, here), points[there], at(right, there))
        flat = lambda *pair, integral=integral: integral.kernel(*pair).reshape(-1)
        try:
            program = scalar_program(flat, *at(pairs, 0))
        except UnsupportedError:  # calculations use the kernel itself
            continue
        rows = [np.asarray(r) for a in jax.tree_util.tree_leaves(pairs) for r in a.reshape(len(here), -1).T]
        with np.errstate(all="ignore"):
            lowered = np.stack(run_on_numpy(program, rows), axis=1)
        plain = np.asarray(jax.vmap(flat)(*pairs))
        worst = np.argmax(np.abs(lowered - plain), axis=1, keepdims=True)
        lowered, plain = (np.take_along_axis(a, worst, axis=1)[:, 0] for a in (lowered, plain))
        scale = np.abs(plain) + np.abs(plain).max()
        require_as_written(term, "pair kernel", lowered, plain, scale, trial.x[:, here])


def _require_symmetric(term, trial, gradient):
    """The derivatives, of a sum that may count alpha here and beta there; of models of the potential its two parts."""
    swapped = trial.x[trial.swapped][:-3]
    mirrored = trial.slopes(swapped)[1]
    if term.has_energy:
        ours, theirs = np.sum(gradient * trial.jets, axis=0), np.sum(mirrored * swapped, axis=0)
    else:
        ours, theirs = gradient[0], mirrored[1]
    require_symmetric(term, ours, theirs, trial.x, "has the derivative")


def _require_slope(term, trial, energy, gradient):
    """The derivative against central differences along a direction that moves every entry of one point's jets."""
    weights = trial.weights
    direction = trial.jets * np.random.default_rng(6).uniform(0.5, 1.5, (len(gradient), 1))
    derived, numerical, changes = (np.zeros(_POINTS) for _ in range(3))
    for i in range(_POINTS):
        step = np.zeros_like(direction)
        step[:, i] = STEP * direction[:, i]
        up, down = (trial.slopes(trial.jets + s * step)[0] for s in (1, -1))
        change = weights * (up - down) / (2 * STEP)
        derived[i], numerical[i] = gradient[:, i] @ direction[:, i], change.sum()
        changes[i] = np.abs(change).sum()
    allowed = TOLERANCE * (np.abs(derived) + changes) + ROUNDING * np.sum(weights * np.abs(energy))
    require_slope(term, derived, numerical, allowed, trial.x)
