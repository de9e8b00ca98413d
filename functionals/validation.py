"""What is asked of a functional before it is registered.

Its energy per volume is formed from unknown densities, lowered, and evaluated with its derivatives at a few dozen
points of ordinary densities, without compiling anything. Refused, with the point where it shows: a formula that raises;
a result that is no real float64 scalar, or single precision on the way; NaN or infinity; derivatives that are missing,
not finite, or not those of the energy; values that change with the spin labels, or from one evaluation to the next;
values or slopes of the lowered formula, which calculations use, that are not those of the formula itself.
Functionals with double integrals are looked at in validation_pairs.py.
"""

from numbers import Number
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from dftfd.autofd import Function, function
from dftfd.autofd.lowering import lower
from dftfd.autofd.scalar.derive import with_gradient
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import DftfdError, NotSemilocalError
from dftfd.functionals.base import SPACE, EnergyTerm
from dftfd.functionals.validation_pairs import require_valid_pairs
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

SLOPES = ((1e-5, 1e-4), (3e-2, 0.1))
"""Relative steps of the differences that derivatives are compared with, and tolerances; the wide one finds jumps."""

_POINTS = 36
_STAY_FINITE = "see dftfd.functionals.numerics for roots and quotients that stay finite"


def require_valid(term: EnergyTerm, spin_symmetric: bool = True) -> None:
    """Raise FunctionalError unless a term can be registered; `spin_symmetric`: the spins have to be interchangeable."""
    try:
        program, again = (_program(term, formed(term)) for _ in range(2))
    except NotSemilocalError:
        return require_valid_pairs(term, spin_symmetric)
    for node in program.program.nodes:
        if str(node.params.get("new_dtype", "")) in ("float32", "float16", "bfloat16"):
            raise refused(term, f"computes in {node.params['new_dtype']} on the way; float64 expected")
    _require_no_zero_divisor(term, program)
    derivative = _differentiated(term, program)
    x = sane_points(program.n_inputs, _POINTS)
    with np.errstate(all="ignore"):
        energy, repeated = (np.array(run_on_numpy(p.program, list(x))[0]) for p in (program, again))
        require_repeatable(term, energy, repeated, x)
        gradient = np.stack(run_on_numpy(derivative, list(x))[1:])
        require_finite(term, energy, gradient, x, _STAY_FINITE)
        _require_as_written(term, program, energy, gradient, x)
        if spin_symmetric:
            _require_symmetric(term, program, derivative, energy, gradient, x)
        if term.has_energy:
            for step, tolerance in SLOPES:
                _require_slope(term, program, gradient, x, step, tolerance)


def lowered_code(e: Function):
    """(code, shapes of its arguments, number of jets of rho, of tau): an energy as code of the jets and the point."""
    lowered = lower(e)
    n_rho, n_tau = (lowered.orders.get(name, 0) + 1 for name in ("rho", "tau"))

    def code(*arrays):
        *jets, r = arrays
        return lowered({"rho": list(jets[:n_rho]), "tau": list(jets[n_rho:])}, r)

    shapes = [(2,) + (3,) * k for n in (n_rho, n_tau) for k in range(n)]
    return code, [jax.ShapeDtypeStruct(s, np.float64) for s in (*shapes, (3,))], n_rho, n_tau


def _program(term, e: Function):
    """Scalar program of the energy in the entries of the jets of rho and tau, and the point."""
    code, specs, n_rho, n_tau = lowered_code(e)
    try:
        program = point_program(code, *specs)
    except DftfdError:
        raise
    except Exception as error:  # noqa: BLE001
        raise refused(term, f"raised {type(error).__name__} when evaluated: {one_line(error)}") from error
    return _Jets(program, n_rho, n_tau)


class _Jets:
    """A scalar program with the orders of the jets that are its inputs."""

    def __init__(self, program, n_rho: int, n_tau: int):
        self.program, self.n_rho, self.n_tau = program, n_rho, n_tau
        self.n_inputs = (n_rho, n_tau)
        self.swapped = swapped_positions(n_rho, n_tau)


def _require_no_zero_divisor(term, program):
    """A program leaves out what is multiplied by zero, so 0/0 with a parameter does not show in its values."""
    is_zero = lambda value: isinstance(value, Number | jax.Array) and np.shape(cast(Any, value)) == () and value == 0
    zeros = {name: 1 if isinstance(value, int) else 1.0 for name, value in term.parameters.items() if is_zero(value)}
    if not zeros or not _holds_infinity(program.program):
        return
    changed = term.with_parameters(zeros)
    if not _holds_infinity(_program(changed, formed(changed)).program):
        names = ", ".join(map(repr, zeros))
        raise refused(term, f"divides by zero with {names} = 0; values that are finite everywhere expected")


def _holds_infinity(program) -> bool:
    return any(node.op == "const" and np.isinf(node.value) for node in program.nodes)


def _differentiated(term, program):
    try:
        return with_gradient(program.program, count=program.program.n_inputs - 3)
    except Exception as error:  # noqa: BLE001
        raise refused(
            term, f"is not differentiable: {type(error).__name__}: {one_line(error)}; use operators and jax.numpy"
        ) from error


def _require_as_written(term, program, energy, gradient, x):
    """Value and slope against those of the formula as a Function, on polynomials that have these jets at a point.

    The direction of the slope moves every entry.
    """
    shapes = [(2,) + (3,) * k for n in program.n_inputs for k in range(n)]
    splits = np.cumsum([int(np.prod(s)) for s in shapes])

    def at_point(jets, r):
        parts = [part.reshape(s) for part, s in zip(jnp.split(jets, splits[:-1]), shapes, strict=True)]
        rho, tau = (
            function(_polynomial, SPACE, params=(r, *some)) for some in (parts[: program.n_rho], parts[program.n_rho :])
        )
        return term.energy_density(rho, tau)(r)

    moving = len(gradient)
    jets, points = x[:moving].T, x[moving:].T
    direction = jets * np.random.default_rng(8).uniform(0.5, 1.5, jets.shape)
    both = lambda jets, along, r: jax.jvp(lambda j: at_point(j, r), (jets,), (along,))
    code = jax.make_jaxpr(both)(jets[0], direction[0], points[0])  # run without compiling it as a whole
    plain, slope = (np.asarray(v) for v in jax.vmap(jaxpr_as_fun(code))(jets, direction, points))
    parts = np.abs(gradient * direction.T).sum(axis=0)
    scale = np.abs(energy) + parts
    require_as_written(term, "value", energy, plain, scale, x)
    require_as_written(term, "slope", np.sum(gradient * direction.T, axis=0), slope, scale, x)


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


def _require_symmetric(term, program, derivative, energy, gradient, x):
    swapped = x[program.swapped]
    if term.has_energy:
        other = np.asarray(run_on_numpy(program.program, list(swapped))[0])
    else:
        mirrored = run_on_numpy(derivative, list(swapped))[1:]
        energy, other = gradient[0], np.asarray(mirrored[1])
    require_symmetric(term, energy, other, x)


def _require_slope(term, program, gradient, x, step, tolerance):
    """The derivative against a central difference along a direction that moves every entry."""
    moving = len(gradient)
    rng = np.random.default_rng(6)
    direction = np.zeros_like(x)
    direction[:moving] = x[:moving] * rng.uniform(0.5, 1.5, (moving, 1))
    up, down = (np.asarray(run_on_numpy(program.program, list(x + s * step * direction))[0]) for s in (1, -1))
    numerical, derived = (up - down) / (2 * step), np.sum(gradient * direction[:moving], axis=0)
    energy = np.abs(up) + np.abs(down)
    require_slope(term, derived, numerical, tolerance * (np.abs(derived) + energy), x)
