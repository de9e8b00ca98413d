"""Spaces that functions live on.

A function R^3 -> R has one argument, a point of a `Domain`. The measure belongs to the space, not to each function on
it, so an integral and the transpose of an integral agree on it. Two domains are the same only if they are the same
object: functions on different spaces that happen to have equal shapes can't be mixed by accident.

The weights of a space are tried against the measure that it says it has. Partial integration on a bump b, which
vanishes with its slopes at the ends of its support, says

    int (nabla b + b nabla log w) w dx = 0

A quadrature with another measure, such as weights that hold the Jacobian sin(theta) of which the space was not told as
its density w, leaves its logarithmic slope, weighted with b. Two bumps of one place and different shapes have to tell
of the same slope: a rule that is too coarse for them tells of two.
"""

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map, tree_structure

from dftfd.autofd.core.jax_adapter import holds_tracers, is_tracer, same_structure
from dftfd.autofd.core.structure import Code, HasKey, Identity, structural_key
from dftfd.errors import InputWarning, QuadratureError, SignatureError, shown

Spec = Any  # pytree of jax.ShapeDtypeStruct


def spec_of(value) -> Spec:
    """Shapes and dtypes of a pytree of arrays."""
    return tree_map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), value)


def same_spec(a: Spec, b: Spec) -> bool:
    """True if two specs have equal structure, shapes and dtypes."""
    if not same_structure(tree_structure(a), tree_structure(b)):
        return False
    pairs = zip(tree_leaves(a), tree_leaves(b), strict=True)
    return all(x.shape == y.shape and x.dtype == y.dtype for x, y in pairs)


def describe(spec: Spec) -> str:
    """A spec in words: 'float64[3]', or the tree of such words."""
    words = tree_map(lambda s: f"{np.dtype(s.dtype).name}[{','.join(map(str, s.shape))}]", spec)
    return words if isinstance(words, str) else str(words).replace("'", "")


class Domain(HasKey):
    """A space of points, defined by the shape and dtype of a point and, for integrals, a quadrature.

    shape, dtype: of one point; R^3 is `Domain((3,))`.   spec: a pytree of shapes instead, for product spaces.
    points, weights: quadrature nodes `(node, *shape)` and weights `(node,)`, concrete arrays. If the weights are to be
        differentiated, pass them as `integrate(f, quadrature=(points, weights))` instead.
    density: the density w(x) of the measure, a function of one point, if it is not 1 (Gauss-Hermite: exp(-x^2)). The
        transpose of nabla needs it.
    ends: (low, high), the boundary of the space: numbers or arrays of the shape of a point, which may be infinite. The
        transpose of f -> f(g) needs it.
    periodic: the space is a cell from low to high with identified opposite ends; a bool, or one per coordinate.
    discrete: the space is a finite set of points, and an integral is a sum. There is no integration by parts.
    surface: transposes of derivatives keep the boundary terms of integration by parts, as Dirac terms at the ends.
        Without it they are dropped, which is right for functions, or changes of them, that vanish there.
    grid_later: the quadrature is unknown when graphs are built. Integrals are formed without one, and lowering or
        `with_quadrature` supplies it. Evaluation before that raises QuadratureError.
    name: for messages and the printed graph.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (),
        dtype: Any = np.float64,
        *,
        spec: Spec = None,
        points: Any = None,
        weights: Any = None,
        density: Callable | None = None,
        ends: tuple | None = None,
        periodic: Any = False,
        discrete: bool = False,
        surface: bool = False,
        grid_later: bool = False,
        name: str = "",
    ):
        if not isinstance(shape, tuple | list) or not all(isinstance(n, int | np.integer) for n in shape):
            raise SignatureError(f"Domain of shape {shape!r}; a tuple of integers expected: R^3 is Domain((3,)).")
        self.spec = spec if spec is not None else jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype))
        for leaf in tree_leaves(self.spec):
            if not np.issubdtype(leaf.dtype, np.inexact):
                raise SignatureError(
                    f"domain {name or '(unnamed)'} has dtype {np.dtype(leaf.dtype).name}; functions are differentiated "
                    "with respect to points of it, so it must be a float or complex dtype."
                )
        self.name = name
        self.anonymous = False
        self.measure_is_known = False
        self.density = density
        self.grid_later = grid_later
        self.points, self.weights = self._checked_quadrature(points, weights)
        self.discrete, self.surface = bool(discrete), bool(surface)
        self.extent = None if ends is None else Extent.checked(self, ends, periodic)
        if ends is None and np.any(periodic):
            raise QuadratureError(f"{self!r} is periodic, but has no ends; give it ends=(low, high) of one cell.")
        if self.surface and (self.extent is None or self.shape != () or self.discrete):
            raise QuadratureError(
                f"{self!r}: boundary terms are kept on spaces with points of shape () that have ends; give it "
                "ends=(low, high), or make a function of several arguments instead of one of a vector."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> Any:
        return self.spec.dtype

    @property
    def is_array(self) -> bool:
        """True if a point is one array rather than a tree of arrays."""
        return isinstance(self.spec, jax.ShapeDtypeStruct)

    def _checked_quadrature(self, points, weights):
        if points is None and weights is None:
            return None, None
        if points is None or weights is None:
            raise QuadratureError(f"{self!r}: a quadrature has both points and weights; one of them is missing.")
        if not self.is_array:
            raise QuadratureError(f"{self!r}: a space of trees has no quadrature; integrate over its factors.")
        if is_tracer(points) or is_tracer(weights):
            raise QuadratureError(
                f"{self!r}: a quadrature that depends on values inside a JAX transformation can't be part of a domain; "
                "pass integrate(f, quadrature=(points, weights))."
            )
        return checked_rule(points, weights, self, repr(self))

    def structural_key(self) -> Any:
        """Domains are equal by identity, spaces of values by spec."""
        if not self.anonymous:
            return Identity(self)
        leaves, treedef = jax.tree_util.tree_flatten(self.spec)
        return (treedef, *map(structural_key, leaves))

    def quadrature(self) -> tuple[Any, Any]:
        """(points, weights); an error if the space has none."""
        if self.points is None and self.grid_later:
            raise QuadratureError(
                f"{self!r} has no quadrature yet. Attach one to the integrals of a function with "
                "with_quadrature(f, points, weights), or pass quadrature=(points, weights)."
            )
        if self.points is None:
            raise QuadratureError(
                f"{self!r} has no quadrature. Give the domain points and weights, or pass "
                "integrate(f, quadrature=(points, weights))."
            )
        check_real(self.weights, repr(self))
        return self.points, self.weights

    def __repr__(self):
        return f"Domain({self.name + ': ' if self.name else ''}{describe(self.spec)})"


def checked_point(value, domain: Domain, function, position: int):
    """A point of a domain, argument number `position` of a function, as an array of its shape and dtype."""
    if not domain.is_array:
        return value
    array = _as_array(value, domain, function, position)
    if array.shape != domain.shape:
        hint = " To evaluate at many points use jax.vmap(f)(points)." if array.ndim == len(domain.shape) + 1 else ""
        raise SignatureError(
            f"argument {position} of {function!r} has shape {array.shape}, {domain.shape} expected.{hint}"
        )
    if array.dtype != domain.dtype:
        if not np.can_cast(array.dtype, domain.dtype, "same_kind"):
            raise SignatureError(
                f"argument {position} of {function!r} has dtype {array.dtype.name}, {describe(domain.spec)} expected."
            )
        array = array.astype(domain.dtype)
    return array


def _as_array(value, domain, function, position):
    """An array for what was given as a point; NumPy looks at it first, as JAX may not survive deeply nested lists."""
    try:
        if not isinstance(value, jax.Array):
            with contextlib.suppress(jax.errors.TracerArrayConversionError):
                np.asarray(value)
        elif not holds_tracers(value) and value.is_deleted():
            raise ValueError
        return jnp.asarray(value)
    except Exception as error:  # what looking at somebody's object may raise is anything
        raise SignatureError(
            f"argument {position} of {function!r} is {shown(value)}; a point {describe(domain.spec)}, or a Function, "
            "expected."
        ) from error


def checked_rule(points, weights, domain: Domain, what: str):
    """(points, weights) of a quadrature of a space as arrays of JAX; an error unless all fit and are finite numbers."""
    arrays = []
    for name, x, kind in (("points", points, domain.dtype), ("weights", weights, np.complex128)):
        if not is_tracer(x):
            x = np.asarray(x)
            if x.dtype == object or not np.can_cast(x.dtype, np.complex128) or not np.isfinite(x).all():
                raise QuadratureError(
                    f"{what}: the {name} of a quadrature are finite numbers; NaN, infinity or no numbers found."
                )
        if not np.can_cast(x.dtype, kind, "same_kind"):
            raise QuadratureError(
                f"{what}: the {name} of a quadrature have dtype {x.dtype}, {np.dtype(kind)} expected."
            )
        if name == "weights":
            kind = x.dtype if np.issubdtype(x.dtype, np.inexact) else np.float64
        if is_tracer(x):
            arrays.append(x.astype(kind))
        else:
            with jax.ensure_compile_time_eval():
                arrays.append(jnp.asarray(x, kind))
    points, weights = arrays
    if points.ndim < 1 or weights.shape != points.shape[:1] or points.shape[1:] != domain.shape:
        raise QuadratureError(
            f"{what}: points {points.shape} and weights {weights.shape} do not fit, "
            f"(node, {', '.join(map(str, domain.shape))}) and (node,) expected."
        )
    return points, weights


def check_real(weights, what: str):
    """Raise for complex weights: a measure is real here, and a real integrand would lose the imaginary part."""
    if jnp.iscomplexobj(weights):
        raise QuadratureError(f"{what}: the weights of the quadrature are complex. Put the phase into the integrand.")


@dataclass(frozen=True, eq=False)
class Extent(Code):
    """Where a space ends, coordinate by coordinate: arrays of the points' shape.

    low, high: the ends, infinite where there is none.   periodic: whether they are one point.
    """

    low: np.ndarray
    high: np.ndarray
    periodic: np.ndarray

    @staticmethod
    def checked(domain: Domain, ends, periodic) -> "Extent":
        """The declared ends, if they agree with the points, the weights and each other."""
        if not domain.is_array or np.issubdtype(domain.dtype, np.complexfloating) or domain.discrete:
            raise QuadratureError(f"{domain!r}: only continuous spaces of real arrays have ends.")
        try:
            low, high = (np.broadcast_to(np.asarray(x, np.float64), domain.shape) for x in ends)
            cyclic = np.broadcast_to(np.asarray(periodic, bool), domain.shape)
        except (TypeError, ValueError):
            raise QuadratureError(
                f"{domain!r}: ends=(low, high) and periodic of the points' shape expected, {ends!r} and "
                f"{periodic!r} found."
            ) from None
        if not np.all(low < high) or not np.isfinite((high - low)[cyclic]).all():
            raise QuadratureError(
                f"{domain!r}: ends from {low} to {high}; low < high expected, finite where the space is periodic."
            )
        extent = Extent(low, high, cyclic)
        if domain.points is None:
            return extent
        points, weights = np.asarray(domain.points), np.asarray(domain.weights)
        slack = 1e-9 * np.where(np.isfinite(high - low), high - low, 1.0)
        if np.any(points < low - slack) or np.any(points > high + slack):
            raise QuadratureError(f"{domain!r}: points of the quadrature lie outside of the ends, {low} to {high}.")
        volume, total = np.prod(high - low), np.sum(weights)
        if domain.density is None and np.isfinite(volume) and abs(total - volume) > 1e-6 * volume:
            raise QuadratureError(
                f"{domain!r}: the weights add up to {total:.6g}, but its volume is {volume:.6g}. If the measure is "
                "w(x) dx, give the density w."
            )
        return extent

    def contains(self, x, slack: float = 0.0):
        """True where points x (..., *shape) lie in the space; a periodic coordinate always does."""
        margin = slack * np.where(np.isfinite(self.high - self.low), self.high - self.low, 1.0)
        inside = (x >= self.low - margin) & (x <= self.high + margin) | self.periodic
        return inside.all(axis=tuple(range(inside.ndim - self.low.ndim, inside.ndim)))


@dataclass(frozen=True)
class Signature:
    """Type of a function: the domains of its arguments and the spec of its result."""

    domains: tuple[Domain, ...]
    result: Spec

    def __str__(self):
        left = ", ".join((d.name + ":" if d.name else "") + describe(d.spec) for d in self.domains)
        return f"({left}) -> {describe(self.result)}"


def value_space(spec: Spec) -> Domain:
    """The space in which a function with this result takes its values; such spaces are equal if their specs are."""
    space = Domain(spec=spec)
    space.anonymous = True
    return space


def same_domain(a: Domain, b: Domain) -> bool:
    """True if points of one may be used as points of the other."""
    return a is b or ((a.anonymous or b.anonymous) and same_spec(a.spec, b.spec))


def checked_argnums(argnums, f, what: str) -> tuple[int, ...]:
    """argnums, one or several, as a tuple; an error unless they are different arguments of the function f."""
    found = (argnums,) if not isinstance(argnums, tuple | list) else tuple(argnums)
    whole = all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in found)
    if not whole or not found or len(set(found)) != len(found) or not all(0 <= i < len(f.domains) for i in found):
        count = len(f.domains)
        raise SignatureError(
            f"{what}: argnum {argnums!r}, but {f!r} has {count} argument(s); argnums are different numbers from 0 to "
            f"{count - 1}."
        )
    return tuple(int(i) for i in found)


PLACES, FEWEST, POINTS, SHAPES = 24, 4, 100_000, (3, 5)
"""Centres that are looked at, fewer where there are many points, and the powers of the bumps (1 - u^2)^p."""

LEAST, ALIKE = 0.25, 0.25
"""Change of the measure's logarithm over half a bump from which on it counts, and what two bumps may differ by."""

PER_AXIS = 6
"""Points of the quadrature that a bump needs for each coordinate."""

MOST_AXES = 3


def warn_about_measure(domain) -> None:
    """Once for each space with points and weights of a user's own: warn where the measure is another than it says."""
    if domain.measure_is_known or domain.points is None or domain.discrete:
        return
    domain.measure_is_known = True
    if words := measure_in_words(domain):
        warnings.warn(words, InputWarning, stacklevel=2)


def measure_in_words(domain) -> str:
    """What is wrong with the measure of a space and what to do, empty where nothing is found."""
    with jax.ensure_compile_time_eval():
        slope = unknown_slope(domain)
    if not slope:
        return ""
    said = "dx" if domain.density is None else "of its density="
    return (
        f"the weights of {domain!r} do not belong to the measure {said}, so derivatives by parts are wrong on it: the "
        f"measure's logarithm changes by {slope:.2g} over half a bump. Give its density, as in Domain(..., "
        "density=lambda x: jnp.sin(x[0])) where sin(x[0]) is in the weights; fd.check(E, f) tells of a functional."
    )


def unknown_slope(domain) -> float:
    """By how much the logarithm of the measure changes over half of a bump, beyond what the space says of it.

    Zero where it is as the space says, and where its points are too few or too far from each other to tell.
    """
    points, weights = (np.asarray(x) for x in (domain.points, domain.weights))
    x = points.reshape(len(points), -1)
    if np.iscomplexobj(x) or np.iscomplexobj(weights) or not 1 <= x.shape[1] <= MOST_AXES:
        return 0.0
    found = [_slope_at(domain, points, x, weights, centre) for centre in centres(x)]
    told = [slope for slope in found if slope is not None]
    return max(told, default=0.0) if sum(slope > 0 for slope in told) > len(told) / 3 else 0.0


def centres(x):
    """Some points, spread over the middle half of each coordinate."""
    low, high = np.quantile(x, 0.2, axis=0), np.quantile(x, 0.8, axis=0)
    inside = x[((x >= low) & (x <= high)).all(axis=1)]
    count = min(len(inside), PLACES, max(FEWEST, POINTS // len(x)))
    return inside[np.linspace(0, len(inside) - 1, count, dtype=int)] if count else inside


def _slope_at(domain, points, x, weights, centre):
    """The largest change along a coordinate over half a bump around a centre that lies well inside; None without."""
    half = half_widths(x, centre)
    if half is None:
        return None
    u = (x - centre) / half
    inside = (np.abs(u) < 1).all(axis=1)
    if inside.sum() < PER_AXIS ** x.shape[1]:
        return None
    u, w = u[inside], weights[inside]
    known = _known_slopes(domain, points[inside], half)
    changes = []
    for power in SHAPES:
        b = np.prod((1 - u**2) ** power, axis=1)
        slopes = -2 * power * u / (1 - u**2) * b[:, None] + b[:, None] * known
        changes.append(-(w @ slopes) / (w @ b))
    first, second = np.array(changes)
    if not np.isfinite(changes).all():
        return None
    certain = (np.abs(first - second) <= ALIKE * np.abs(first)) & (np.abs(first) > LEAST)
    return float(np.abs(first[certain]).max(initial=0.0))


def half_widths(x, centre):
    """Of a box around the centre beyond each of whose corners there are points; None where there is none."""
    away = x - centre
    scale = np.abs(away).max(axis=0)
    if not (scale > 0).all():
        return None
    reach = [(sign * away / scale).min(axis=1).max() for sign in product((1, -1), repeat=x.shape[1])]
    return min(reach) * scale if min(reach) > 0.05 else None


def _known_slopes(domain, points, half):
    """nabla log w of the density that the space was given, in units of the bump."""
    if domain.density is None:
        return np.zeros((len(points), len(half)))
    logarithm = lambda r: jax.numpy.log(domain.density(r))
    return np.asarray(jax.vmap(jax.grad(logarithm))(points)).reshape(len(points), -1) * half
