"""Spaces with a quadrature: intervals, weighted lines, periodic cells, products, clouds of points; interpolation.

A quadrature with n points of an interval is exact for polynomials of degree 2n - 1 (Gauss-Legendre), of a line with
the weight exp(-x^2) likewise (Gauss-Hermite), of a periodic cell for trigonometric polynomials of degree n - 1.

Functions go through values at the points of a space, along each coordinate by itself:

    periodic coordinates, equidistant         trigonometric polynomials
    where one polynomial is well conditioned  the polynomial, as at Gauss' and Chebyshev's points
    else                                      splines of degree 7

They are linear in the values, which are an array of the Function and can be differentiated.
"""

import math
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from scipy.interpolate import make_interp_spline

from dftfd.autofd.core.domain import Domain
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.leaf import function
from dftfd.errors import QuadratureError, SignatureError


def interval(
    n: int, a: float = -1.0, b: float = 1.0, *, panels: int = 1, surface: bool = False, name: str = "x"
) -> Domain:
    """[a, b] with Gauss-Legendre quadrature: n points in each of `panels` equal parts.

    surface: keep boundary terms in functional derivatives, as Dirac terms at a and b; see `Domain`.
    """
    _check_count(n, "interval")
    _check_count(panels, "interval: panels")
    if not np.isfinite([a, b]).all() or not a < b:
        raise QuadratureError(f"interval from {a} to {b}: finite limits in increasing order expected.")
    x, w = np.polynomial.legendre.leggauss(n)
    edges = np.linspace(a, b, panels + 1)
    half, middle = (b - a) / (2 * panels), (edges[1:] + edges[:-1]) / 2
    points = (middle[:, None] + half * x).ravel()
    return _of_known_measure(
        (), points=points, weights=np.tile(half * w, panels), ends=(float(a), float(b)), surface=surface, name=name
    )


def gauss_hermite(n: int, *, centre: float = 0.0, width: float = 1.0, name: str = "x") -> Domain:
    """The real line with the measure exp(-((x - centre) / width)^2) dx and n points.

    The weight belongs to the measure, so `integrate(f)` is the integral of f times it, and the transpose of nabla is
    -div(w g) / w.
    """
    _check_count(n, "gauss_hermite")
    if not width > 0:
        raise QuadratureError(f"gauss_hermite: width {width}; a positive number expected.")
    x, w = scipy.special.roots_hermite(n)
    density = DecayingDensity(centre, width, 2)
    points, weights = centre + width * x, width * w
    return _of_known_measure((), points=points, weights=weights, density=density, ends=(-np.inf, np.inf), name=name)


def gauss_laguerre(
    n: int, *, start: float = 0.0, length: float = 1.0, surface: bool = False, name: str = "x"
) -> Domain:
    """The half line from `start` on with the measure exp(-(x - start) / length) dx and n points.

    The weight belongs to the measure, as with `gauss_hermite`.   surface: as in `interval`.
    """
    _check_count(n, "gauss_laguerre")
    if not (np.isfinite([start, length]).all() and length > 0):
        raise QuadratureError(f"gauss_laguerre: from {start}, decay length {length}; a finite and a positive expected.")
    x, w = scipy.special.roots_laguerre(n)
    density = DecayingDensity(start, length, 1)
    ends = (float(start), np.inf)
    points, weights = start + length * x, length * w
    return _of_known_measure((), points=points, weights=weights, density=density, ends=ends, surface=surface, name=name)


def discrete(points: Any, weights: Any = None, *, name: str = "i") -> Domain:
    """A finite set of points (point, *shape); an integral over it is a weighted sum, weights 1 unless given."""
    points = np.asarray(points, np.float64)
    if points.ndim < 1 or not len(points):
        raise QuadratureError(f"discrete: points of shape {points.shape}; (point, ...) with at least one expected.")
    weights = np.ones(len(points)) if weights is None else weights
    return Domain(points.shape[1:], points=points, weights=weights, discrete=True, name=name)


class DecayingDensity(Code):
    """exp(-((x - origin) / length)^power)"""

    __name__ = "decaying density"

    def __init__(self, origin: float, length: float, power: int):
        self.origin, self.length, self.power = float(origin), float(length), power

    def __call__(self, x):
        return jnp.exp(-(((x - self.origin) / self.length) ** self.power))


def periodic(n: int, length: float = 2 * np.pi, *, start: float = 0.0, name: str = "x") -> Domain:
    """A periodic cell [start, start + length) with n equidistant points, spectrally accurate for smooth functions.

    Functions on it must have the period `length`; then the transpose of nabla has no boundary term. `fourier` makes
    such functions from values at the points.
    """
    _check_count(n, "periodic")
    if not (np.isfinite(length) and length > 0):
        raise QuadratureError(f"periodic: length {length}; a positive number expected.")
    points, weights, ends = start + length * np.arange(n) / n, np.full(n, length / n), (start, start + length)
    return _of_known_measure((), points=points, weights=weights, ends=ends, periodic=True, name=name)


def fourier(domain: Domain, values: Any) -> Function:
    """The trigonometric polynomial through values (point, ...) at the points of a domain made by `periodic`.

    The values are an array of the Function and can be differentiated.
    """
    if domain.points is None or domain.shape != ():
        raise QuadratureError(f"fourier takes a domain made by periodic(n, length), {domain!r} found.")
    values = jnp.asarray(values)
    n = len(domain.points)
    if values.shape[:1] != (n,):
        raise QuadratureError(f"fourier: values of shape {values.shape}; the domain has {n} points.")
    length = float(jnp.sum(domain.weights))
    return function(TrigonometricInterpolation(n, float(domain.points[0]), length), domain, params=(values,))


class Waves(Code):
    """x -> D(x - x_j) (n,),   D(x) = 1/n sum of exp(i k 2 pi x / length) over |k| <= n/2.

    For even n the highest cosine counts half, so D is real and D(x_i - x_j) = delta_ij.
    """

    def __init__(self, n: int, start: float, length: float):
        self.n, self.start, self.length = n, start, length

    def __call__(self, x):
        angle = (2 * np.pi / self.length) * (x - self.start) - 2 * np.pi * np.arange(self.n) / self.n
        k = np.arange(1.0, (self.n - 1) // 2 + 1)
        kernel = 1 + 2 * jnp.sum(jnp.cos(k[:, None] * angle[None, :]), axis=0)
        if self.n % 2 == 0:
            kernel = kernel + jnp.cos(self.n / 2 * angle)
        return kernel / self.n


class TrigonometricInterpolation(Code):
    """(values (n, ...), x) -> sum_j values_j D(x - x_j), see `Waves`."""

    __name__ = "fourier"

    def __init__(self, n: int, start: float, length: float):
        self.waves = Waves(n, start, length)

    def __call__(self, values, x):
        return jnp.tensordot(self.waves(x), values, 1)


def product(*domains: Domain, name: str = "r") -> Domain:
    """The product space with the tensor-product quadrature: R x R x R gives points of shape (3,).

    Each factor has points of shape () or (m,); their coordinates are put one after another. The densities of the
    measures multiply. It has ends, for compositions, if each factor has.
    """
    if not domains:
        raise QuadratureError("product of no domains; at least one expected.")
    for d in domains:
        if not d.is_array or len(d.shape) > 1:
            raise QuadratureError(f"product: factors have points of shape () or (m,), {d!r} found.")
        if d.surface:
            raise QuadratureError(
                f"product: {d!r} keeps boundary terms, which would be surfaces of the product; make a function of "
                "several arguments instead."
            )
    rules = [d.quadrature() for d in domains]
    sizes = [d.shape[0] if d.shape else 1 for d in domains]
    points, weights = np.zeros((1, 0)), np.ones(1)
    for (x, w), size in zip(rules, sizes, strict=True):
        x, w = np.asarray(x).reshape(len(w), size), np.asarray(w)
        points = np.concatenate([np.repeat(points, len(w), axis=0), np.tile(x, (len(weights), 1))], axis=1)
        weights = np.repeat(weights, len(w)) * np.tile(w, len(weights))
    shapes = tuple(d.shape for d in domains)
    densities = tuple(d.density for d in domains)
    density = ProductDensity(densities, shapes) if any(w is not None for w in densities) else None
    extents = [d.extent for d in domains]
    ends: tuple[np.ndarray, np.ndarray] | None = None
    cyclic: np.ndarray | bool = False
    if all(e is not None for e in extents):
        joined = lambda part: np.concatenate([np.ravel(getattr(e, part)) for e in extents])
        ends, cyclic = (joined("low"), joined("high")), joined("periodic")
    made = Domain(
        (sum(sizes),),
        points=points,
        weights=weights,
        density=density,
        ends=ends,
        periodic=cyclic,
        discrete=any(d.discrete for d in domains),
        name=name,
    )
    made.measure_is_known = all(d.measure_is_known for d in domains)
    return made


class ProductDensity(Code):
    """The product of the factors' densities, each of its own coordinates."""

    __name__ = "product density"

    def __init__(self, densities, shapes):
        self.densities, self.shapes = densities, shapes

    def __call__(self, r):
        value, start = jnp.ones(()), 0
        for density, shape in zip(self.densities, self.shapes, strict=True):
            size = shape[0] if shape else 1
            if density is not None:
                value = value * density(r[start] if shape == () else r[start : start + size])
            start += size
        return value


def from_grid(grid: Any, *, name: str = "r") -> Domain:
    """The space of a grid: any object with `points` (point, d) and `weights` (point,), as a molecular grid has.

    The grid's arrays are constants of the space. To differentiate with respect to the geometry it was made for, pass
    `integrate(f, quadrature=(grid.points, grid.weights))`.
    """
    points, weights = grid.points, grid.weights
    if is_tracer(points) or is_tracer(weights):
        raise QuadratureError(
            "from_grid: the grid is being differentiated or traced; pass its arrays to "
            "integrate(f, quadrature=(points, weights)) instead."
        )
    return Domain(np.shape(points)[1:], points=points, weights=weights, name=name)


def monte_carlo(
    key: Any,
    n: int,
    *,
    box: tuple | None = None,
    sample: Callable | None = None,
    density: Callable | None = None,
    weighted: bool = False,
    name: str = "x",
) -> Domain:
    """A space with n random points: integrals have a statistical error of order 1 / sqrt(n), see `standard_error`.

    box: (low, high), numbers or arrays of shape (d,): points are uniform in the box.
    sample, density: `sample(key)` draws one point, `density(x)` is the probability density it is drawn with.
    weighted: False for the measure dx (importance sampling, weights 1 / (n density)); True for the measure density dx,
        whose density the transpose of nabla then knows.
    """
    _check_count(n, "monte_carlo")
    if is_tracer(key):
        raise QuadratureError(
            "monte_carlo: the key is traced. Draw the points outside of jit, or pass drawn points and weights to "
            "integrate(f, quadrature=(points, weights))."
        )
    if box is not None and sample is None and density is None:
        sample, density = _uniform(*box)
    elif box is not None or sample is None or density is None:
        raise QuadratureError("monte_carlo takes either box=(low, high), or sample= and density= together.")
    points = jax.vmap(sample)(jax.random.split(key, n))
    p = jax.vmap(density)(points)
    if not bool(jnp.all(p > 0)):
        raise QuadratureError("monte_carlo: the density is not positive at all points that were drawn.")
    weights = jnp.full(n, 1 / n) if weighted else 1 / (n * p)
    return _of_known_measure(
        points.shape[1:],
        points=points,
        weights=weights,
        density=density if weighted else None,
        ends=None if weighted else box,
        name=name,
    )


def _uniform(low, high):
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if low.shape != high.shape or not np.all(low < high):
        raise QuadratureError(f"monte_carlo: box from {low} to {high}; low < high of equal shape expected.")
    volume = float(np.prod(high - low))
    sample = lambda key: low + (high - low) * jax.random.uniform(key, low.shape, np.float64)
    return sample, lambda x: jnp.full((), 1 / volume)


def standard_error(f: Function) -> jax.Array:
    """Standard deviation of the Monte Carlo estimate integrate(f), for f of one argument with independent points."""
    (domain,) = f.domains
    points, weights = domain.quadrature()
    n = len(weights)
    values = n * weights * jax.vmap(f.evaluate)(points)
    return jnp.std(values, ddof=1) / np.sqrt(n)


def _of_known_measure(shape, **given) -> Domain:
    """A Domain whose weights are made here, for the measure that it says it has."""
    made = Domain(shape, **given)
    made.measure_is_known = True
    return made


def _check_count(n, what: str):
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise QuadratureError(f"{what}: {n!r} points; a positive integer expected.")


WELL_CONDITIONED, DEGREE, MOST = 100.0, 7, 1000
"""Condition number up to which a polynomial goes through all values, degree of splines, points along a coordinate."""

_known: weakref.WeakKeyDictionary[Domain, tuple] = weakref.WeakKeyDictionary()


def interpolate(domain: Domain, values: Any) -> Function:
    """The smooth function through values (point, ...) at the points of a space.

    domain: with a quadrature of points of shape (), or of points of shape (d,) that are all combinations of their
        coordinates, as those of `product` are.

    Many steps of a descent take it after each: `f = interpolate(X, jax.vmap(f - rate * grad(E)(f))(X.points))`, whose
    graph does not grow.
    """
    if not isinstance(domain, Domain) or domain.points is None or not domain.is_array or domain.discrete:
        raise SignatureError(
            f"interpolate takes a space with points, such as interval(40, 0.0, 1.0), {domain!r} found."
        )
    code, order = _known.get(domain) or _known.setdefault(domain, _made(domain))
    values = jnp.asarray(values)
    if values.shape[:1] != (len(domain.points),):
        raise SignatureError(
            f"interpolate: values of shape {values.shape}; {domain!r} has {len(domain.points)} points."
        )
    return function(code, domain, params=(values[order].reshape(*code.counts, *values.shape[1:]),))


def _made(domain):
    """(code, the point at each place of the table of values)"""
    if len(domain.shape) > 1 or np.iscomplexobj(domain.points):
        raise QuadratureError(f"interpolate: {domain!r}; points of real shape () or (d,) expected.")
    x = np.asarray(domain.points).reshape(len(domain.points), -1)
    axes = [np.unique(column, return_inverse=True) for column in x.T]
    counts = tuple(len(nodes) for nodes, _ in axes)
    places = np.ravel_multi_index(tuple(place.ravel() for _, place in axes), counts)
    if len(x) != np.prod(counts) or len(set(places.tolist())) != len(x):
        raise QuadratureError(
            f"interpolate: the {len(x)} points of {domain!r} are not all combinations of their coordinates; take a "
            "space made by product(X, Y), or give the function as code of parameters."
        )
    extent = domain.extent
    ends = [(None, None, False)] * len(counts)
    if extent is not None:
        ends = list(zip(*(np.ravel(part) for part in (extent.low, extent.high, extent.periodic)), strict=True))
    cardinal = tuple(_along(domain, nodes, *end) for (nodes, _), end in zip(axes, ends, strict=True))
    return Interpolation(cardinal, counts), np.argsort(places)


def _along(domain, nodes, low, high, periodic):
    """Code x -> values (n,) of the functions that are one at a node and zero at the others."""
    n = len(nodes)
    if n > MOST:
        raise QuadratureError(f"interpolate: {n} points along a coordinate of {domain!r}; at most {MOST} are taken.")
    if periodic:
        if not np.allclose(np.diff(nodes), (high - low) / n, rtol=1e-9):
            raise QuadratureError(f"interpolate: {domain!r} is periodic, and its points are not equidistant.")
        return Waves(n, float(nodes[0]), float(high - low))
    finite = low is not None and np.isfinite(low) and np.isfinite(high)
    a, b = (low, high) if finite else (nodes[0], nodes[-1] if n > 1 else nodes[0] + 1.0)
    table = np.polynomial.chebyshev.chebvander((2 * nodes - a - b) / (b - a), n - 1)
    if np.linalg.cond(table) < WELL_CONDITIONED:
        return Polynomials(float(a), float(b), np.linalg.inv(table))
    spline = make_interp_spline(nodes, np.eye(n), k=min(DEGREE, n - 1 - (n % 2)))
    breaks = np.unique(spline.t)[:-1]
    return Pieces(breaks, np.stack([spline(breaks, nu=p) / math.factorial(p) for p in reversed(range(spline.k + 1))]))


class Interpolation(Code):
    """(values (n, m, ..., *shape), point) -> value: a table contracted with each coordinate's cardinal functions."""

    __name__ = "interpolation"

    def __init__(self, cardinal, counts):
        self.cardinal, self.counts = cardinal, counts

    def __call__(self, values, x):
        for k, functions in enumerate(self.cardinal):
            values = jnp.tensordot(functions(x[k] if jnp.ndim(x) else x), values, 1)
        return values


class Polynomials(Code):
    """x -> l_j(x) (n,): Chebyshev's T_k, by T_(m+k) = 2 T_m T_k - T_(m-k), times the inverse of their table."""

    def __init__(self, low: float, high: float, inverse):
        self.low, self.high, self.inverse = low, high, inverse

    def __call__(self, x):
        n, t = len(self.inverse), (2 * x - self.low - self.high) / (self.high - self.low)
        T = jnp.stack([jnp.ones_like(t), t])
        while len(T) < n:
            T = jnp.concatenate([T, 2 * T[-1] * T[1:] - T[-2::-1]])
        return T[:n] @ self.inverse


class Pieces(Code):
    """x -> (n,): polynomials c_k (x - x_i)^(p - k) between breaks x_i, those at the ends beyond them."""

    def __init__(self, breaks, c):
        self.breaks, self.c = breaks, c

    def __call__(self, x):
        i = jnp.clip(jnp.searchsorted(self.breaks, x, side="right") - 1, 0, len(self.breaks) - 1)
        local, t = jnp.asarray(self.c)[:, i], x - jnp.asarray(self.breaks)[i]
        value = local[0]
        for row in local[1:]:
            value = value * t + row
        return value
