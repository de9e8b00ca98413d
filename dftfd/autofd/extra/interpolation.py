"""Functions through values at the points of a space, along each coordinate by itself.

    periodic coordinates, equidistant         trigonometric polynomials
    where one polynomial is well conditioned  the polynomial, as at Gauss' and Chebyshev's points
    else                                      splines of degree 7

They are linear in the values, which are an array of the Function: derivatives with respect to them flow.
"""

import math
import weakref
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.interpolate import make_interp_spline

from dftfd.autofd.core.domain import Domain
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.structure import Code
from dftfd.autofd.extra.quadratures import Waves
from dftfd.autofd.operators.leaf import function
from dftfd.errors import QuadratureError, SignatureError

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
