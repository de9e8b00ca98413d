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

import contextlib
import functools
import itertools
import math
import re
from numbers import Number
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from dftfd.autofd import Function, function
from dftfd.autofd.lowering import CELL_VOLUME, lower, lower_nonlocal
from dftfd.autofd.scalar.derive import with_gradient
from dftfd.autofd.scalar.jaxprs import has_reverse_rule
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import point_program, scalar_program
from dftfd.errors import DftfdError, FunctionalError, NotSemilocalError, UnsupportedError
from dftfd.functionals.base import EnergyTerm
from dftfd.functionals.common import FERMI
from dftfd.functionals.densities import EXACT_EXCHANGE, SPACE, unknown_densities

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
    """Of model potentials the two parts have to change places with the spins."""
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


AS_WRITTEN = 1e-7
"""Tolerance of what a formula gives in lowered form, relative to the size of what that is a sum of."""

_SINGLE = re.compile(r"\b(f16|bf16|f32)\[")
_K_F = (2 * FERMI) ** (1 / 3)  # of one spin


def formed(term) -> Function:
    """The energy per volume as a graph, or a FunctionalError that tells what the formula did."""
    try:
        e = term.energy_density(*unknown_densities())
    except FunctionalError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a user's formula raises
        raise refused(term, f"raised {type(error).__name__}: {one_line(error)}") from error
    if e.result.dtype != np.float64:
        raise refused(term, f"returned {e.result.dtype}; a real float64 energy per volume expected")
    return e


class Trial:
    """A term on sane points.

    x: entries of the jets of rho, of tau, of e_x and e_x_lr where the formula takes them, and the point, (entry,
    point).   shapes: of each jet.
    swapped: positions of the entries of x after the spins have changed places.
    code, specs: the energy per volume as code of JAX.   steps: relative steps of the differences that derivatives are
    compared with, and tolerances.   rounding: relative, of energies.   hint: to who gets infinity or NaN.

    Each kind knows, as a calculation computes them,
    energies(x): per volume, (point,).   slopes(x): these, and their derivatives by each entry of the jets.
    differences(step, direction, energy): slopes along a direction (entry, point) by differences, and the size of these.
    require_sound(), require_as_written(energy, gradient): raise FunctionalError for what is seen without an evaluation,
    and where the lowered formula gives other numbers than the formula itself.
    """

    count: int
    rounding, verb = 0.0, "gives"
    steps: tuple[tuple[float, float], ...]
    hint: str

    def __init__(self, term, orders):
        self.term, self.orders = term, [orders.get(name, 0) + 1 for name in ("rho", "tau")]
        self._exchange = [name for name in EXACT_EXCHANGE if name in orders]
        self.x = sane_points(tuple(self.orders), self.count, len(self._exchange))
        self.shapes = [(2,) + (3,) * k for n in (*self.orders, *[1] * len(self._exchange)) for k in range(n)]
        places, start = np.arange(len(self.x)), 0
        for size in map(math.prod, self.shapes):
            places[start : start + size] = np.roll(places[start : start + size], size // 2)
            start += size
        self.swapped = places

    def in_shapes(self, jets) -> list:
        """The jets of an array (entry, ...), each (*shape, ...)."""
        splits = np.cumsum([math.prod(s) for s in self.shapes])[:-1]
        parts = zip(jnp.split(jets, splits), self.shapes, strict=True)
        return [part.reshape(*shape, *jets.shape[1:]) for part, shape in parts]

    def named(self, jets) -> dict:
        """Jets by the name of their function, as lowered code takes them."""
        n_rho, n_tau = self.orders
        others = {name: [jet] for name, jet in zip(self._exchange, jets[n_rho + n_tau :], strict=True)}
        return {"rho": list(jets[:n_rho]), "tau": list(jets[n_rho : n_rho + n_tau])} | others

    def of_spins(self, energy, gradient, x) -> np.ndarray:
        """What does not change when the spins change places, (point,)."""
        return energy

    def refuse_where(self, wrong, reason, points=slice(None)) -> None:
        """Raise FunctionalError with reason(i, place in words) for the first of the points where something is wrong."""
        if np.any(wrong):
            i = int(np.argmax(wrong))
            raise refused(self.term, reason(i, place(self.x[:, points], i)))

    def require_same(self, what: str, lowered, plain, scale, points=slice(None)) -> None:
        """Raise FunctionalError where numbers (point,) of the lowered formula are not those of the formula itself."""
        reason = lambda i, at: (
            f"has the {what} {lowered[i]:.10g} as calculations use it and {plain[i]:.10g} as the formula is written, "
            f"{at}; that is a fault of dftfd, or of a formula that gives another result at each evaluation"
        )
        self.refuse_where(~(np.abs(lowered - plain) <= AS_WRITTEN * scale), reason, points)


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
        value = jax.make_jaxpr(at_point)(jets[0], points[0])
        energy_at = lambda jets, r: jaxpr_as_fun(value)(jets, r)[0]
        both = lambda jets, along, r: jax.jvp(lambda j: energy_at(j, r), (jets,), (along,))
        if any(map(has_reverse_rule, value.eqns)):  # which have no forward mode
            both = lambda jets, along, r: (energy_at(jets, r), jax.grad(energy_at)(jets, r) @ along)
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


def require_double_precision(term, code, specs) -> None:
    """Raise FunctionalError for code that raises, or computes with fewer digits than float64 on the way."""
    try:
        text = str(jax.make_jaxpr(code)(*specs))
    except DftfdError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a user's formula raises
        raise refused(term, f"raised {type(error).__name__} when evaluated: {one_line(error)}") from error
    single = _SINGLE.search(text)
    if single:
        name = single[1].replace("f", "float")
        raise refused(term, f"computes in {name} on the way; float64 expected")


@contextlib.contextmanager
def differentiable(term):
    """Around what differentiates a term: says in a FunctionalError what went wrong."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        reason = f"{type(error).__name__}: {one_line(error)}; use operators and jax.numpy"
        raise refused(term, f"is not differentiable: {reason}") from error


def sane_points(orders: tuple[int, int], count: int, exchange: int = 0) -> np.ndarray:
    """Jets (entry, point) of ordinary densities: n = 1e-3 to 1e2, |zeta| up to 0.99, s up to 3, tau above tau_W, e_x up
    to twice that of a uniform density, of which a part is of long range.

    The first point is uniform and unpolarised: every gradient is zero there.
    """
    rng = np.random.default_rng(5)
    n, zeta = 10 ** rng.uniform(-3, 2, count), rng.uniform(-0.9, 0.9, count)
    zeta[1:3] = 0.99, -0.99
    zeta[0] = 0.0
    rho = 0.5 * n * np.stack([1 + zeta, 1 - zeta])
    k = 2 * _K_F * rho ** (1 / 3)  # natural wave vector of each spin
    rows, gradient = [rho], None
    for order in range(1, orders[0]):
        jet = (
            1.7
            * _symmetric(rng.uniform(-1, 1, (2, *(3,) * order, count)))
            * (rho * k**order).reshape(2, *(1,) * order, count)
        )
        jet[..., 0] = 0.0
        gradient = jet if order == 1 else gradient
        rows.append(jet)
    tau_w = 0.0 if gradient is None else np.sum(gradient**2, axis=1) / (8 * rho)
    tau = tau_w + rng.uniform(0.2, 3, (2, count)) * 0.3 * _K_F**2 * rho ** (5 / 3)
    rows.append(tau)
    for order in range(1, orders[1]):
        size = _symmetric(rng.uniform(-1, 1, (2, *(3,) * order, count)))
        rows.append(size * (tau * k**order).reshape(2, *(1,) * order, count))
    point = rng.uniform(-1, 1, (3, count))
    e_x = -1.5 * (3 / (4 * np.pi)) ** (1 / 3) * rho ** (4 / 3) * rng.uniform(0.3, 1.5, (2, count))
    rows += [*[e_x, e_x * rng.uniform(0.1, 0.9, (2, count))][:exchange], point]
    return np.concatenate([row.reshape(-1, count) for row in rows])


def _symmetric(size):
    """Derivatives (spin, xyz, ..., xyz, point), the mean over all orders in which they may be taken."""
    inner = list(itertools.permutations(range(1, size.ndim - 1)))
    return sum(size.transpose(0, *axes, size.ndim - 1) for axes in inner) / len(inner)


def place(x, i) -> str:
    """The point in words."""
    return f"at rho = ({x[0, i]:.4g}, {x[1, i]:.4g}) bohr^-3" + (
        ", a uniform density" if i == 0 else f", test point {i}"
    )


def one_line(error) -> str:
    """An error's text, or what to do instead."""
    if isinstance(error, jax.errors.ConcretizationTypeError):
        return "the formula branches on the value of a density, which it does not have; use jnp.where"
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return "the formula calls NumPy or SciPy with a density's value; use jax.numpy and jax.scipy"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  an exception of the formula's own may fail at that, too
        text = "(its text cannot be read)"
    if isinstance(error, TypeError) and "Function" in text:
        text += "; densities are functions of r: use dftfd.autofd.exp and its like, or compose(jnp.exp, n)"
    return " ".join(text.split())[:300]


def refused(term, reason: str) -> FunctionalError:
    """The error for a term and why it is refused."""
    return FunctionalError(f"functional {term.name!r} {reason.rstrip('.')}.")
