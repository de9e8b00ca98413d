"""What validations share: a formula on unknown densities, points of ordinary ones, comparisons, and how they refuse."""

import contextlib
import itertools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import Function
from dftfd.errors import DftfdError, FunctionalError
from dftfd.functionals.common import FERMI
from dftfd.functionals.densities import EXACT_EXCHANGE, unknown_densities

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
