"""What is asked of a functional before it is registered.

Its energy per volume is formed from unknown densities, lowered, and evaluated with its derivatives at a few dozen
points of ordinary densities, without compiling anything. Refused, with the point where it shows: a formula that raises;
a result that is no real float64 scalar, or single precision on the way; NaN or infinity; derivatives that are missing,
not finite, or not those of the energy; values that change with the spin labels, or from one evaluation to the next;
values or slopes of the lowered formula, which calculations use, that are not those of the formula itself.

Functionals with double integrals are lowered to pairs of points, as for a calculation, and evaluated on a few points
with weights, where densities are ordinary, each paired with all and with itself. Refused besides: what can't be
lowered, and pair kernels that are other numbers as scalar code. Jumps are not looked for: the wide step that finds them
would change a kernel of short range by orders of magnitude.
"""

import functools
from numbers import Number
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from dftfd.autofd import function
from dftfd.autofd.lowering.jets import CELL_VOLUME, lower
from dftfd.autofd.lowering.two_points import lower_nonlocal
from dftfd.autofd.scalar.derive import with_gradient
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import point_program, scalar_program
from dftfd.errors import NotSemilocalError, UnsupportedError
from dftfd.functionals.base import EnergyTerm
from dftfd.functionals.densities import EXACT_EXCHANGE, SPACE
from dftfd.functionals.validation_points import (
    Trial,
    differentiable,
    formed,
    one_line,
    refused,
    require_double_precision,
)

SYMMETRY_TOLERANCE = 1e-9


def require_valid(term: EnergyTerm, spin_symmetric: bool = True) -> None:
    """Raise FunctionalError unless a term can be registered; `spin_symmetric`: the spins have to be interchangeable."""
    trial, again = trial_of(term), trial_of(term)
    with np.errstate(all="ignore"):
        require_double_precision(term, trial.code, trial.specs)
        trial.require_sound()
        energy, gradient = trial.slopes(trial.x)
        _require_repeatable(trial, energy, again.energies(trial.x))
        _require_finite(trial, "energy", energy[None])
        _require_finite(trial, "derivative of the energy", gradient)
        trial.require_as_written(energy, gradient)
        if spin_symmetric:
            _require_symmetric(trial, energy, gradient)
        if term.has_energy:
            for step, tolerance in trial.steps:
                _require_slope(trial, energy, gradient, step, tolerance)


def trial_of(term: EnergyTerm) -> "PointTrial | PairTrial":
    """A term on points, semilocal or with double integrals."""
    try:
        return PointTrial(term)
    except NotSemilocalError:
        return PairTrial(term)


def _require_repeatable(trial, energy, repeated):
    """Two evaluations give the same."""
    same = np.isclose(energy, repeated, rtol=trial.rounding, atol=0.0, equal_nan=True)
    reason = lambda i, at: (
        f"gave {energy[i]:.12g} and then {repeated[i]:.12g} {at}; a formula may depend on its arguments only"
    )
    trial.refuse_where(~same, reason)


def _require_finite(trial, what, values):
    wrong = ~np.isfinite(values)
    reason = lambda i, at: f"has the {what} {values[wrong[:, i], i][0]} {at}; finite values expected, {trial.hint}"
    trial.refuse_where(wrong.any(axis=0), reason)


def _require_symmetric(trial, energy, gradient):
    """Of models of the potential the two parts have to change places with the spins."""
    swapped = trial.x[trial.swapped]
    if trial.term.has_energy:
        ours, theirs = trial.of_spins(energy, gradient, trial.x), trial.of_spins(*trial.slopes(swapped), swapped)
    else:
        ours, theirs = gradient[0], trial.slopes(swapped)[1][1]
    reason = lambda i, at: (
        f"{trial.verb} {ours[i]:.12g}, and {theirs[i]:.12g} with the spins exchanged, {at}; if that is meant, "
        "register it with spin_symmetric=False"
    )
    trial.refuse_where(np.abs(ours - theirs) > SYMMETRY_TOLERANCE * (np.abs(ours) + np.abs(theirs)), reason)


def _require_slope(trial, energy, gradient, step, tolerance):
    """The derivative against a central difference along a direction that moves every entry."""
    moving = len(gradient)
    direction = np.zeros_like(trial.x)
    direction[:moving] = trial.x[:moving] * np.random.default_rng(6).uniform(0.5, 1.5, (moving, 1))
    numerical, size = trial.differences(step, direction, energy)
    derived = np.sum(gradient * direction[:moving], axis=0)
    reason = lambda i, at: (
        f"is not differentiable: its derivative is {derived[i]:.6g}, the energy's slope {numerical[i]:.6g}, {at}; "
        "steps, as of floor and argmax, have no use here"
    )
    trial.refuse_where(np.abs(numerical - derived) > tolerance * (np.abs(derived) + size), reason)


class PointTrial(Trial):
    """A semilocal term as scalar code of the jets of its ingredients, and of the point, at each point by itself."""

    count = 36
    hint = "see dftfd.functionals.numerics for roots and quotients that stay finite"
    steps = ((1e-5, 1e-4), (3e-2, 0.1))  # the wide one finds jumps

    def __init__(self, term: EnergyTerm):
        lowered = lower(formed(term))
        super().__init__(term, lowered.orders)
        self.specs = [jax.ShapeDtypeStruct(s, np.float64) for s in (*self.shapes, (3,))]
        self.code = lambda *jets_and_r: lowered(self.named(jets_and_r[:-1]), jets_and_r[-1])

    @functools.cached_property
    def program(self):
        return point_program(self.code, *self.specs)

    @functools.cached_property
    def _derivative(self):
        with differentiable(self.term):
            return with_gradient(self.program, count=self.program.n_inputs - 3)

    def energies(self, x):
        return np.array(run_on_numpy(self.program, list(x))[0])

    def slopes(self, x):
        derivative = self._derivative
        return self.energies(x), np.stack(run_on_numpy(derivative, list(x))[1:])

    def differences(self, step, direction, energy):
        up, down = (self.energies(self.x + s * step * direction) for s in (1, -1))
        return (up - down) / (2 * step), np.abs(up) + np.abs(down)

    def require_sound(self):
        """A program leaves out what is multiplied by zero, so 0/0 with a parameter does not show in its values."""
        is_zero = lambda value: (
            isinstance(value, Number | jax.Array) and np.shape(cast(Any, value)) == () and value == 0
        )
        given = self.term.parameters.items()
        zeros = {name: 1 if isinstance(value, int) else 1.0 for name, value in given if is_zero(value)}
        if not zeros or not self._holds_infinity():
            return
        if not PointTrial(self.term.with_parameters(zeros))._holds_infinity():
            names = ", ".join(map(repr, zeros))
            raise refused(self.term, f"divides by zero with {names} = 0; values that are finite everywhere expected")

    def _holds_infinity(self) -> bool:
        return any(node.op == "const" and np.isinf(node.value) for node in self.program.nodes)

    def require_as_written(self, energy, gradient):
        """Value and slope against those of the formula as a Function, on polynomials that have these jets at a point.

        The direction of the slope moves every entry.
        """

        def at_point(jets, r):
            named = self.named(self.in_shapes(jets))
            given = {name: function(_polynomial, SPACE, params=(r, *jets)) for name, jets in named.items()}
            e_x = (given.get(name, given["tau"]) for name in EXACT_EXCHANGE)  # one that is not there is not asked for
            return self.term.energy_density(given["rho"], given["tau"], *e_x)(r)

        moving = len(gradient)
        jets, points = self.x[:moving].T, self.x[moving:].T
        direction = jets * np.random.default_rng(8).uniform(0.5, 1.5, jets.shape)
        both = lambda jets, along, r: jax.jvp(lambda j: at_point(j, r), (jets,), (along,))
        code = jax.make_jaxpr(both)(jets[0], direction[0], points[0])  # run without compiling it as a whole
        plain, slope = (np.asarray(v) for v in jax.vmap(jaxpr_as_fun(code))(jets, direction, points))
        parts = gradient * direction.T
        scale = np.abs(energy) + np.abs(parts).sum(axis=0)
        self.require_same("value", energy, plain, scale)
        self.require_same("slope", np.sum(parts, axis=0), slope, scale)


def _polynomial(centre, *arrays):
    """The polynomial of the last argument, r, with these derivatives (2,), (2, 3), (2, 3, 3), ... at the centre."""
    *jet, r = arrays
    value, factor = jet[0], 1.0
    for k, derivative in enumerate(jet[1:], start=1):
        for _ in range(k):
            derivative = derivative @ (r - centre)
        factor /= k
        value = value + factor * derivative
    return value


TOLERANCE = 1e-4
"""Of derivatives by differences."""


class PairTrial(Trial):
    """A term with double integrals as code of the jets (entry, point) of rho and tau at all points together.

    Its derivatives are those of the sum over the points with their weights.
    """

    count = 8
    rounding = 1e-9  # of the energies of all points: what is not asked of their sums, which hold terms of both signs
    hint = (
        "also where the two points coincide: leave such pairs out and add the part of one cell, as "
        "functionals/hartree.py does"
    )
    steps = ((1e-5, TOLERANCE),)
    verb = "has the derivative"

    def __init__(self, term: EnergyTerm):
        try:
            self.program = lower_nonlocal(formed(term))
        except NotSemilocalError as error:
            raise refused(term, f"can't be computed on a grid: {one_line(error)}") from error
        super().__init__(term, self.program.orders)
        self.points, self.specs = jnp.asarray(self.x[-3:].T), [self.x[:-3]]
        self.weights = np.random.default_rng(7).uniform(0.5, 1.5, self.count)

    def require_sound(self):
        if self.program.orders.get(CELL_VOLUME, 0) > 0:
            raise refused(self.term, "differentiates the cell volume of grid points, which has no derivative")

    def known(self, jets):
        """What code at each point knows: jets, volume of the cell, integrals."""
        named = {k: [jnp.moveaxis(a, -1, 0) for a in arrays] for k, arrays in self.named(self.in_shapes(jets)).items()}
        return self.program.known_on(named, self.points, jnp.asarray(self.weights))

    def code(self, jets):
        """Energy per volume at each point."""
        return jax.vmap(self.program.outer)(self.known(jets), self.points)

    def energies(self, x):
        return np.asarray(jax.jit(self.code)(x[:-3]))

    @functools.cached_property
    def _value_and_slope(self):
        def total(jets):
            energies = self.code(jets)
            return self.weights @ energies, energies

        return jax.jit(jax.value_and_grad(total, has_aux=True))

    def slopes(self, x):
        with differentiable(self.term):
            (_, energies), slopes = self._value_and_slope(x[:-3])
        return np.asarray(energies), np.asarray(slopes)

    def of_spins(self, energy, gradient, x):
        """The derivatives, of a sum that may count alpha here and beta there."""
        return np.sum(gradient * x[:-3], axis=0)

    def differences(self, step, direction, energy):
        """Of the sum when the jets of one point after the other move."""
        numerical, size = np.zeros((2, self.count))
        for i in range(self.count):
            moved = np.zeros_like(direction)
            moved[:, i] = step * direction[:, i]
            up, down = (self.slopes(self.x + s * moved)[0] for s in (1, -1))
            change = self.weights * (up - down) / (2 * step)
            numerical[i], size[i] = change.sum(), np.abs(change).sum()
        return numerical, size + self.rounding / TOLERANCE * np.sum(self.weights * np.abs(energy))

    def require_as_written(self, energy, gradient):
        """The pair kernels as scalar code against themselves, at all pairs of points."""
        known = self.known(self.x[:-3])
        here, there = (np.ravel(i) for i in np.indices((self.count, self.count)))
        at = lambda tree, places: jax.tree_util.tree_map(lambda array: array[places], tree)
        for integral in self.program.integrals:
            left, right = (jax.vmap(code)(known, self.points) for code in (integral.left, integral.right))
            pairs = (self.points[here], at(left, here), self.points[there], at(right, there))
            flat = lambda *pair, integral=integral: integral.kernel(*pair).reshape(-1)
            try:
                program = scalar_program(flat, *at(pairs, 0))
            except UnsupportedError:  # calculations use the kernel itself
                continue
            rows = [np.asarray(r) for a in jax.tree_util.tree_leaves(pairs) for r in a.reshape(len(here), -1).T]
            lowered = np.stack(run_on_numpy(program, rows), axis=1)
            plain = np.asarray(jax.vmap(flat)(*pairs))
            worst = np.argmax(np.abs(lowered - plain), axis=1, keepdims=True)
            lowered, plain = (np.take_along_axis(a, worst, axis=1)[:, 0] for a in (lowered, plain))
            scale = np.abs(plain) + np.abs(plain).max()
            self.require_same("pair kernel", lowered, plain, scale, here)
