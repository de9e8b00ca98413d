"""Functions as arrays of their values: the spaces of the tests, with matrices that differentiate and interpolate.

Nothing here uses dftfd's operators. A function on a space is the vector of its values at the n points of the
quadrature; polynomials (Gauss quadratures) and trigonometric polynomials (periodic cells) of low degree are exact in
this representation, so an energy becomes plain JAX code of a vector, and jax.grad of it is the second opinion.
"""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import hermite, laguerre, legendre

from dftfd import autofd as fd


class Line:
    """One coordinate: points, weights, values of basis functions anywhere (point, basis) and their slopes."""

    def __init__(self, domain, kind):
        self.domain, self.kind = domain, kind
        self.x, self.w = np.asarray(domain.points), np.asarray(domain.weights)
        n = len(self.x)
        self.scale = np.abs(self.basis(self.x, n)).max(axis=0)
        self.inverse = np.linalg.inv(self.basis(self.x, n) / self.scale)
        self.D = (self.slopes(self.x, n) / self.scale) @ self.inverse

    def variable(self, x):
        if self.kind == "legendre":
            low, high = float(self.domain.extent.low), float(self.domain.extent.high)
            return (2 * x - low - high) / (high - low), 2 / (high - low)
        return x, 1.0

    def basis(self, x, n):
        if self.kind == "fourier":
            k = np.arange(1, n // 2 + 1)
            return np.concatenate([np.ones((len(x), 1)), np.cos(np.outer(x, k)), np.sin(np.outer(x, k))], 1)[:, :n]
        t, _ = self.variable(x)
        module = {"legendre": legendre.legvander, "hermite": hermite.hermvander, "laguerre": laguerre.lagvander}
        return module[self.kind](t, n - 1)

    def slopes(self, x, n):
        if self.kind == "fourier":
            k = np.arange(1, n // 2 + 1)
            parts = [np.zeros((len(x), 1)), -k * np.sin(np.outer(x, k)), k * np.cos(np.outer(x, k))]
            return np.concatenate(parts, 1)[:, :n]
        t, factor = self.variable(x)
        value = {"legendre": legendre.legval, "hermite": hermite.hermval, "laguerre": laguerre.lagval}[self.kind]
        derivative = {"legendre": legendre.legder, "hermite": hermite.hermder, "laguerre": laguerre.lagder}[self.kind]
        return factor * np.stack([value(t, derivative(np.eye(n)[k])) for k in range(n)], axis=1)

    def at(self, points):
        """Matrix from values at the points of the quadrature to values at other points."""
        return (self.basis(np.ravel(points), len(self.x)) / self.scale) @ self.inverse


class Space:
    """A space of the tests.

    domain: of dftfd.   gradient: one matrix (point, point) for each coordinate.   at: points -> interpolation matrix.
    map: code of a point that maps the space into itself and is no symmetry of the test functions.
    wild: functions such as sin(f) are resolved by the points, so they may be differentiated.
    vanishing: changes of f vanish at the ends with so many derivatives less one, where boundary terms are dropped.
    degree: largest degree of polynomials that are integrated exactly; None if that does not matter.
    """

    def __init__(self, name, domain, lines, map, wild, vanishing=0, degree=None, factor=1.0):
        self.name, self.domain, self.lines, self.map = name, domain, lines, map
        self.wild, self.vanishing, self.degree, self.factor = wild, vanishing, degree, factor
        self.x, self.w = np.asarray(domain.points), np.asarray(domain.weights)
        self.n, self.vector = len(self.x), domain.shape != ()
        self.gradient = []
        for i in range(len(lines)):
            parts = [line.D if i == j else np.eye(len(line.x)) for j, line in enumerate(lines)]
            matrix = parts[0]
            for part in parts[1:]:
                matrix = np.kron(matrix, part)
            self.gradient.append(matrix)

    def at(self, points):
        points = np.reshape(points, (len(points), -1))
        rows = [line.at(points[:, i]) for i, line in enumerate(self.lines)]
        matrix = rows[0]
        for part in rows[1:]:
            matrix = np.einsum("ka,kb->kab", matrix, part).reshape(len(points), -1)
        return matrix

    def function(self, seed, vanishing=False):
        """(Function, its values) of a random (trigonometric) polynomial of degree at most 3 in each coordinate."""
        rng, codes = np.random.default_rng(seed), []
        for line in self.lines or [None]:
            c = rng.uniform(-1, 1, 4)
            codes.append(_wave(c) if line is not None and line.kind == "fourier" else _polynomial(c * self.factor))
        bound = _bubble(self.domain, self.vanishing) if vanishing and self.vanishing else None

        def code(x):
            value = jnp.ones(())
            for i, one in enumerate(codes):
                value = value * one(x[i] if self.vector else x)
            return value if bound is None else value * bound(x)

        return fd.function(code, self.domain), jax.vmap(code)(jnp.asarray(self.x))


def _polynomial(c):
    return lambda t: c[0] + 0.5 + t * (c[1] + t * (0.3 * c[2] + 0.1 * c[3] * t))


def _wave(c):
    return lambda t: 0.7 + c[0] * jnp.sin(t) + c[1] * jnp.cos(t) + 0.3 * c[2] * jnp.sin(2 * t) + 0.3 * c[3]


def _bubble(domain, order):
    """Vanishes at the ends with its derivatives below `order`."""
    low, high, cyclic = domain.extent.low, domain.extent.high, domain.extent.periodic

    def code(x):
        t = (x - low) / (high - low)
        return jnp.prod(jnp.where(cyclic, 1.0, 4 * t * (1 - t))) ** order

    return code


def kernel(space, seed):
    """(k, its values (point, point)): a function of two arguments of the space."""
    (f, u), (g, v), (h, s) = (space.function(seed + i) for i in (0, 101, 202))
    pair = (space.domain, space.domain)
    k = fd.broadcast(f, pair, 0) * fd.broadcast(g, pair, 1) + fd.broadcast(h, pair, 0)
    return k, u[:, None] * v[None, :] + s[:, None]


def _gauss(domain):
    return Line(domain, "legendre")


def make_spaces():
    interval = fd.interval(22, 0.0, 1.0)
    kept = fd.interval(22, -0.5, 1.0, surface=True)
    cell = fd.periodic(31)
    half = fd.gauss_laguerre(12, surface=True, length=0.5)
    line = fd.gauss_hermite(14, width=0.6)
    # changes df that vanish at the ends have degree 5 or 7; so many points represent slopes of df dg, too
    sides = [fd.interval(15, 0.0, 1.0), fd.interval(16, -1.0, 1.0)]
    edges = [fd.interval(11, 0.0, 1.0), fd.interval(11, 0.0, 1.0), fd.interval(11, -1.0, 1.0)]
    torus = [fd.periodic(13), fd.interval(15, 0.0, 1.0)]
    points = fd.discrete(np.array([0.1, 0.4, 0.45, 1.3, 2.0]), [1.0, 2.0, 0.5, 1.0, 3.0])
    half_line, whole_line = Line(half, "laguerre"), Line(line, "hermite")
    return {
        s.name: s
        for s in (
            Space("interval", interval, [_gauss(interval)], lambda x: 0.6 * x, True, vanishing=2),
            Space("interval with ends", kept, [_gauss(kept)], lambda x: x * x, True),
            Space("periodic", cell, [Line(cell, "fourier")], lambda x: 2.0 * x + 0.3, True),
            Space("half line", half, [half_line], lambda x: 0.5 * x + 0.2, False, degree=18, factor=0.6),
            Space("line", line, [whole_line], lambda x: 0.8 * x - 0.1, False, degree=22, factor=0.6),
            Space("square", fd.product(*sides), [_gauss(d) for d in sides], lambda r: 0.5 * r, True, 2),
            Space("cube", fd.product(*edges), [_gauss(d) for d in edges], lambda r: 0.5 * r, False, 1, degree=8),
            Space(
                "tube",
                fd.product(*torus),
                [Line(torus[0], "fourier"), _gauss(torus[1])],
                lambda r: r * np.array([1.0, 0.5]) + np.array([0.4, 0.0]),
                False,
                2,
                degree=12,
            ),
            Space("points", points, [], lambda x: x, True),
        )
    }
