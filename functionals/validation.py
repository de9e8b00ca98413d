"""What is asked of a functional before it is registered.

Its energy per volume is formed from unknown densities, lowered, and evaluated with its derivatives at a few dozen
points of ordinary densities, without compiling anything. Refused, with the point where it shows: a formula that raises;
a result that is no real float64 scalar, or single precision on the way; NaN or infinity; derivatives that are missing,
not finite, or not those of the energy; values that change with the spin labels, or from one evaluation to the next.
"""

import math

import jax
import numpy as np

from dftfd.autofd import Function
from dftfd.autofd.lowering import lower, placeholder
from dftfd.autofd.numpy_program import run_on_numpy
from dftfd.autofd.point_program import point_program, with_gradient
from dftfd.errors import DftfdError, FunctionalError, NotSemilocalError
from dftfd.functionals.base import SPACE, EnergyTerm

SYMMETRY_TOLERANCE = 1e-9
SLOPES = ((1e-5, 1e-4), (3e-2, 0.1))
"""Relative steps of the differences that derivatives are compared with, and tolerances; the wide one finds jumps."""

_K_F = (6 * math.pi**2) ** (1 / 3)
_POINTS = 36


def require_valid(term: EnergyTerm, spin_symmetric: bool = True) -> None:
    """Raise FunctionalError unless a term can be registered; `spin_symmetric`: the spins have to be interchangeable."""
    try:
        program, again = (_program(term, _formed(term)) for _ in range(2))
    except NotSemilocalError:
        return  # integrals: the result's type is known, its values need a quadrature
    for node in program.nodes:
        if str(node.params.get("new_dtype", "")) in ("float32", "float16", "bfloat16"):
            raise _refused(term, f"computes in {node.params['new_dtype']} on the way; float64 expected")
    derivative = _differentiated(term, program)
    x = sane_points(program.n_inputs)
    with np.errstate(all="ignore"):
        energy, repeated = (np.array(run_on_numpy(p, list(x))[0]) for p in (program, again))
        _require_repeatable(term, energy, repeated, x)
        gradient = np.stack(run_on_numpy(derivative, list(x))[1:])
        _require_finite(term, energy, gradient, x)
        if spin_symmetric:
            _require_symmetric(term, program, derivative, energy, gradient, x)
        if term.has_energy:
            for step, tolerance in SLOPES:
                _require_slope(term, program, gradient, x, step, tolerance)


def _formed(term) -> Function:
    """The energy per volume as a graph, or a FunctionalError that tells what the formula did."""
    try:
        e = term.energy_density(placeholder("rho", SPACE, (2,)), placeholder("tau", SPACE, (2,)))
    except FunctionalError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a user's formula raises
        raise _refused(term, f"raised {type(error).__name__}: {_one_line(error)}") from error
    if e.result.dtype != np.float64:
        raise _refused(term, f"returned {e.result.dtype}; a real float64 energy per volume expected")
    return e


def _program(term, e: Function):
    """Scalar program of the energy in the entries of the jets of rho and tau, and the point."""
    lowered = lower(e)
    orders = lowered.orders
    shapes = [(2,) + (3,) * k for k in range(orders.get("rho", 0) + 1)]
    shapes_tau = [(2,) + (3,) * k for k in range(orders.get("tau", 0) + 1)]

    def code(*arrays):
        *jets, r = arrays
        return lowered({"rho": list(jets[: len(shapes)]), "tau": list(jets[len(shapes) :])}, r)

    specs = [jax.ShapeDtypeStruct(s, np.float64) for s in (*shapes, *shapes_tau, (3,))]
    try:
        program = point_program(code, *specs)
    except DftfdError:
        raise
    except Exception as error:  # noqa: BLE001
        raise _refused(term, f"raised {type(error).__name__} when evaluated: {_one_line(error)}") from error
    return _Jets(program, len(shapes), len(shapes_tau))


class _Jets:
    """A scalar program with the orders of the jets that are its inputs."""

    def __init__(self, program, n_rho: int, n_tau: int):
        self.program, self.n_rho, self.n_tau = program, n_rho, n_tau
        self.nodes, self.outputs = program.nodes, program.outputs
        self.needed, self.last_uses = program.needed, program.last_uses
        self.n_inputs = (n_rho, n_tau)
        self.swapped = _swapped_positions(n_rho, n_tau)


def _swapped_positions(n_rho, n_tau) -> list[int]:
    """Positions of the inputs after the spins have changed places."""
    order, start = [], 0
    for count in [3**k for k in range(n_rho)] + [3**k for k in range(n_tau)]:
        order += [*range(start + count, start + 2 * count), *range(start, start + count)]
        start += 2 * count
    return [*order, *range(start, start + 3)]


def sane_points(orders: tuple[int, int], count: int = _POINTS) -> np.ndarray:
    """Jets (entry, point) of ordinary densities: n = 1e-3 to 1e2, |zeta| up to 0.99, s up to 3, tau above tau_W.

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
        size = rng.uniform(-1, 1, (2, *(3,) * order, count)) * 1.7
        size = sum(np.moveaxis(size, 1, j) for j in range(1, order + 1)) / order  # symmetric
        jet = size * (rho * k**order).reshape(2, *(1,) * order, count)
        jet[..., 0] = 0.0
        gradient = jet if order == 1 else gradient
        rows.append(jet)
    tau_w = 0.0 if gradient is None else np.sum(gradient**2, axis=1) / (8 * rho)
    tau = tau_w + rng.uniform(0.2, 3, (2, count)) * 0.3 * _K_F**2 * rho ** (5 / 3)
    rows.append(tau)
    for order in range(1, orders[1]):
        rows.append(rng.uniform(-1, 1, (2, *(3,) * order, count)) * (tau * k**order).reshape(2, *(1,) * order, count))
    rows.append(rng.uniform(-1, 1, (3, count)))
    return np.concatenate([row.reshape(-1, count) for row in rows])


def _differentiated(term, program):
    try:
        return with_gradient(program.program, count=program.program.n_inputs - 3)
    except Exception as error:  # noqa: BLE001
        raise _refused(
            term, f"is not differentiable: {type(error).__name__}: {_one_line(error)}; use operators and jax.numpy"
        ) from error


def _require_repeatable(term, energy, repeated, x):
    changed = ~((energy == repeated) | (np.isnan(energy) & np.isnan(repeated)))
    if changed.any():
        i = int(np.argmax(changed))
        raise _refused(
            term,
            f"gave {energy[i]:.12g} and then {repeated[i]:.12g} {_place(x, i)}; a formula may depend on its arguments "
            "only",
        )


def _require_finite(term, energy, gradient, x):
    for what, values in (("energy", energy[None]), ("derivative of the energy", gradient)):
        bad = ~np.isfinite(values).all(axis=0)
        if bad.any():
            i = int(np.argmax(bad))
            value = values[~np.isfinite(values[:, i]), i][0]
            raise _refused(
                term,
                f"has the {what} {value} {_place(x, i)}; finite values expected, see dftfd.functionals.numerics for "
                "roots and quotients that stay finite",
            )


def _require_symmetric(term, program, derivative, energy, gradient, x):
    swapped = x[program.swapped]
    if term.has_energy:
        other = np.asarray(run_on_numpy(program.program, list(swapped))[0])
    else:
        mirrored = run_on_numpy(derivative, list(swapped))[1:]
        energy, other = gradient[0], np.asarray(mirrored[1])
    wrong = np.abs(energy - other) > SYMMETRY_TOLERANCE * (np.abs(energy) + np.abs(other))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise _refused(
            term,
            f"gives {energy[i]:.12g}, and {other[i]:.12g} with the spins exchanged, {_place(x, i)}; if that is meant, "
            "register it with spin_symmetric=False",
        )


def _require_slope(term, program, gradient, x, step, tolerance):
    """The derivative against a central difference along a direction that moves every entry."""
    moving = len(gradient)
    rng = np.random.default_rng(6)
    direction = np.zeros_like(x)
    direction[:moving] = x[:moving] * rng.uniform(0.5, 1.5, (moving, 1))
    up, down = (np.asarray(run_on_numpy(program.program, list(x + s * step * direction))[0]) for s in (1, -1))
    numerical, derived = (up - down) / (2 * step), np.sum(gradient * direction[:moving], axis=0)
    energy = np.abs(up) + np.abs(down)
    wrong = np.abs(numerical - derived) > tolerance * (np.abs(derived) + energy)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise _refused(
            term,
            f"is not differentiable: its derivative is {derived[i]:.6g}, the energy's slope {numerical[i]:.6g}, "
            f"{_place(x, i)}; steps, as of floor and argmax, have no use here",
        )


def _place(x, i) -> str:
    """The point in words."""
    return f"at rho = ({x[0, i]:.4g}, {x[1, i]:.4g}) bohr^-3" + (
        ", a uniform density" if i == 0 else f", test point {i}"
    )


def _one_line(error) -> str:
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


def _refused(term, reason: str) -> FunctionalError:
    return FunctionalError(f"functional {term.name!r} {reason.rstrip('.')}.")
