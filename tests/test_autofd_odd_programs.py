"""Programs that try to make the operators wrong: odd domains, weights, inner functions, nestings and values.

Each row is right or ends in a typed error. Right means: the integral of the functional derivative times a direction is
the change of the functional, by central differences of its values (fourth order), for a direction that the rules of the
space admit. Rows are a functional on a space; REFUSED names those that have to be refused.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd import autofd as fd
from dftfd.errors import DftfdError

integrate, function, grad = fd.integrate, fd.function, fd.grad


def legendre(n, a, b):
    x, w = np.polynomial.legendre.leggauss(n)
    return a + (b - a) * (x + 1) / 2, w * (b - a) / 2


def trapezoid(n, a, b):
    w = np.full(n, (b - a) / (n - 1))
    w[[0, -1]] /= 2
    return np.linspace(a, b, n), w


def space(rule, **options):
    return fd.Domain((), points=rule[0], weights=rule[1], **options)


BACKWARDS = tuple(v[::-1] for v in legendre(12, 0.0, 1.0))
SPACES = {
    "interval": fd.interval(16, 0.0, 1.0, surface=True),
    "panels": fd.interval(5, 0.0, 1.0, panels=3, surface=True),
    "trapezoid": space(trapezoid(9, 0.0, 1.0), ends=(0.0, 1.0)),
    "backwards": space(BACKWARDS, ends=(0.0, 1.0), surface=True),
    "no ends": space(legendre(12, 0.0, 1.0)),
    "far": fd.interval(14, 0.0, 1.0),
    "weighted": space(
        (legendre(14, 0, 1)[0], legendre(14, 0, 1)[1] * (1 + legendre(14, 0, 1)[0])),
        density=lambda x: 1 + x,
        ends=(0, 1),
        surface=True,
    ),
    "cell": fd.periodic(24, 1.0),
    "one point": fd.discrete([0.3]),
    "signed sum": fd.discrete([0.1, 0.5, 0.9], [1.0, -2.0, 0.5]),
}
CONTINUOUS = ("interval", "panels", "backwards", "weighted", "cell")
INSIDE = tuple(s for s in SPACES if s not in ("cell",))


def f_on(X):
    if X is SPACES["cell"]:
        return function(lambda x: 0.5 + 0.2 * jnp.sin(2 * jnp.pi * x) + 0.1 * jnp.cos(4 * jnp.pi * x), X)
    return function(lambda x: 0.4 + 0.3 * jnp.sin(2 * x) + 0.05 * x**3, X)


def d_on(X):
    if X is SPACES["cell"]:
        return function(lambda x: 0.3 * jnp.cos(2 * jnp.pi * x) + 0.2, X)
    return function(lambda x: jnp.exp(-x) * (0.3 + x), X)


def w_on(X):
    if X is SPACES["cell"]:
        return function(lambda x: 2 + jnp.sin(4 * jnp.pi * x), X)
    return function(lambda x: 1 + x * x, X)


def k_on(X):
    if X is SPACES["cell"]:
        return function(lambda x, y: jnp.exp(jnp.sin(2 * jnp.pi * (x - y))) + jnp.cos(2 * jnp.pi * x), X, X)
    return function(lambda x, y: jnp.exp(-((x - y) ** 2)) * (1 + y), X, X)


def change(E, f, d, h=2e-3):
    """dE[d] by central differences of sixth order."""
    at = lambda t: np.asarray(E(f + t * d))
    return (45 * (at(h) - at(-h)) - 9 * (at(2 * h) - at(-2 * h)) + (at(3 * h) - at(-3 * h))) / (60 * h)


def paired(v, d):
    """Integral of v d, summed over the entries of the values; the real part."""
    return integrate(fd.compose(lambda a, b: jnp.real(jnp.sum(a * b)), v, d))


def verdict(E, f, d, derivative=grad):
    """'right', 'refused', or what was found and expected."""
    try:
        want = change(E, f, d)
        got = paired(derivative(E)(f), d)
        moved = fd.jvp(E, (f,), (d,))[1]
    except DftfdError as error:
        return "refused: " + str(error)[:90]
    close = lambda a: np.allclose(a, want, rtol=2e-7, atol=1e-10)
    return "right" if close(got) and close(moved) else f"wrong: {got} and {moved} found, {want} expected"


# ---- f(g): inner functions of all kinds

WARP = np.linspace(0.2, 0.8, 5)
INNER = {
    "identity": lambda x, X: x,
    "half": lambda x, X: x / 2.0,
    "mirror": lambda x, X: 1.0 - x,
    "shift out": lambda x, X: x + 0.5,
    "square": lambda x, X: x**2,
    "fold": lambda x, X: (2.0 * x - 1.0) ** 2,
    "sine": lambda x, X: 0.5 + 0.4 * fd.sin(7.0 * x),
    "absolute": lambda x, X: abs(x - 0.5),
    "clip": lambda x, X: fd.minimum(x, 0.5),
    "step": lambda x, X: fd.compose(lambda v: jnp.where(v > 0.4, 0.7, 0.2), x),
    "constant": lambda x, X: 0.0 * x + 0.3,
    "constant outside": lambda x, X: 0.0 * x + 3.0,
    "logistic": lambda x, X: fd.sigmoid(x),
    "chain": lambda x, X: fd.log1p(fd.expm1(x) * 0.5),
    "reciprocal": lambda x, X: 1.0 / (1.0 + x),
    "array": lambda x, X: function(lambda a, v: a[0] * v + a[1], X, params=(jnp.array([0.5, 0.25]),)),
    "integral": lambda x, X: (k_on(X) @ w_on(X)) * 0.1,
    "integer root": lambda x, X: x ** (1 / 3),
    "twice around": lambda x, X: 2.0 * x,
    "backwards around": lambda x, X: 0.7 - 3.0 * x,
}


def outer_row(inner, power):
    def row(X):
        w = w_on(X)
        g = INNER[inner](fd.identity(X), X)
        return (lambda f: integrate(w * f(g) ** power)), f_on(X), d_on(X)

    return row


# ---- functionals of one function

QUADRATURES = {
    "the same": lambda X: X.quadrature(),
    "doubled": lambda X: (X.points, 2 * X.weights),
    "finer": lambda X: legendre(30, 0.0, 1.0),
    "finer, negative": lambda X: (lambda x, w: (x, -w))(*legendre(30, 0.0, 1.0)),
    "reversed": lambda X: (X.points[::-1], X.weights[::-1]),
    "half": lambda X: legendre(20, 0.0, 0.5),
    "wider": lambda X: legendre(20, 0.0, 2.0),
    "wrong weights": lambda X: (X.points, X.weights * (1 + X.points)),
    "two points": lambda X: (np.array([0.2, 0.8]), np.array([0.5, 0.5])),
    "zero": lambda X: (X.points, 0 * X.weights),
}
REFUSED_QUADRATURES = ("half", "wider", "wrong weights", "two points", "zero", "NaN", "complex")


def quadrature_row(name, together):
    def row(X):
        rule = QUADRATURES[name](X)
        E = lambda f: integrate(f * f, quadrature=rule)
        return (lambda f: E(f) + integrate(f**3)) if together else E, f_on(X), d_on(X)

    return row


def functional(code):
    """A row from code(f, X, w, k)."""

    def row(X):
        w, k = w_on(X), k_on(X)
        return (lambda f: code(f, X, w, k)), f_on(X), d_on(X)

    return row


def third(f, X, w, k):
    inner = lambda g: integrate(g**3 * w) * integrate(g)
    return integrate(fd.hvp(inner, f, w) * f)


PLAIN = {
    "powers": lambda f, X, w, k: integrate(f**1.5 + f ** (4 / 3) + f**2.5 + f ** (-0.5)),
    "feedback": lambda f, X, w, k: integrate(f * integrate(f * w)) / integrate(f),
    "feedback in a function": lambda f, X, w, k: integrate(fd.exp(f * integrate(f)) * w),
    "point": lambda f, X, w, k: f(0.3) ** 2 * integrate(f),
    "value at a value": lambda f, X, w, k: integrate(f) * jnp.sin(f(0.3)),
    "kernel": lambda f, X, w, k: integrate((k @ f) ** 2 * f),
    "kernel of a power": lambda f, X, w, k: integrate(fd.sin(k @ (f**2)) * w),
    "two kernels": lambda f, X, w, k: integrate((k @ (f * (k @ f))) ** 2),
    "pairs": lambda f, X, w, k: integrate(fd.broadcast(f, (X, X), 0) * fd.broadcast(f, (X, X), 1) * k),
    "three arguments": lambda f, X, w, k: integrate(
        fd.broadcast(f, (X, X, X), 2) * fd.broadcast(k, (X, X, X), (2, 0)) * fd.broadcast(f, (X, X, X), 1)
    ),
    "permuted": lambda f, X, w, k: integrate(fd.permute(fd.broadcast(f, (X, X), 0) * k, (1, 0)) * k),
    "over and again": lambda f, X, w, k: integrate(integrate(fd.broadcast(f, (X, X), 1) * k, 1) ** 3),
    "fixed": lambda f, X, w, k: integrate(fd.partial(fd.broadcast(f, (X, X), 1) * k, 0, 0.4) ** 2),
    "fixed at a number": lambda f, X, w, k: integrate(fd.partial(k, 0, integrate(f)) * f),
    "gradient in it": lambda f, X, w, k: integrate(grad(lambda g: integrate(g**3 * w) * integrate(g))(f) * f),
    "derivative in it": lambda f, X, w, k: fd.jvp(lambda g: integrate(g**3) ** 2, (f,), (f * w,))[1],
    "pull-back in it": lambda f, X, w, k: integrate(fd.vjp(lambda g: g**2 * w, f)[1](f)[0]),
    "third derivative": third,
    "zipped": lambda f, X, w, k: integrate(fd.compose(lambda t: t[0] * t[1], fd.zip_functions(f, f**2))),
    "minimum": lambda f, X, w, k: integrate(fd.minimum(f, w) * w),
    "complex": lambda f, X, w, k: jnp.real(integrate(fd.compose(jnp.exp, f * (0.5 + 1.0j)))) ** 2,
    "braket": lambda f, X, w, k: fd.braket(f * (1.0 + 2.0j), fd.exp(1.0j * f), real=True),
    "itself": lambda f, X, w, k: integrate(f(f) * w),
    "itself, scaled": lambda f, X, w, k: integrate(f(f * 0.5 + 0.1) ** 2),
    "a kernel at it": lambda f, X, w, k: integrate(fd.compose(k, f, fd.identity(X)) ** 2),
    "outer and kernel": lambda f, X, w, k: integrate((k @ f)(fd.identity(X) / 2.0) * w),
    "kernel of outer": lambda f, X, w, k: integrate((k @ f(fd.identity(X) ** 2)) * f),
    "weights from it": lambda f, X, w, k: integrate(f, quadrature=(X.points, X.weights * integrate(f * w))),
    "weights from its values": lambda f, X, w, k: integrate(
        f * w, quadrature=(X.points, X.weights * jnp.stack([f(x) for x in np.asarray(X.points)[:1]])[0])
    ),
}
SLOPES = {
    "Dirichlet": lambda f, X, w, k: integrate(fd.nabla(f) ** 2 * w),
    "of a product": lambda f, X, w, k: integrate(fd.nabla(f * w) * fd.nabla(f**2)),
    "of a kernel": lambda f, X, w, k: integrate(fd.nabla(k @ f) ** 2),
    "of a kernel and it": lambda f, X, w, k: integrate(fd.nabla(f * fd.exp(k @ f)) ** 2),
    "twice of a kernel": lambda f, X, w, k: integrate(fd.laplacian(k @ f) * f),
    "of a kernel at a point": lambda f, X, w, k: fd.nabla(k @ (f**2))(0.3) ** 2,
    "kernel of it": lambda f, X, w, k: integrate((k @ fd.nabla(f)) ** 2),
    "second argument": lambda f, X, w, k: integrate(fd.nabla(fd.broadcast(f, (X, X), 1) * k, 1) ** 2),
    "other argument": lambda f, X, w, k: integrate(fd.nabla(fd.broadcast(f, (X, X), 1) * k, 0) ** 2),
    "feedback": lambda f, X, w, k: integrate(fd.nabla(f) ** 2) * integrate(f) * f(0.3),
    "linearize": lambda f, X, w, k: integrate(fd.compose(fd.linearize(f**2), fd.identity(X), w)),
    "linearize along it": lambda f, X, w, k: integrate(fd.compose(fd.linearize(k @ f), fd.identity(X), f) * w),
    "outer": lambda f, X, w, k: integrate(fd.nabla(f)(1.0 - fd.identity(X)) * w),
    "of an outer": lambda f, X, w, k: integrate(fd.nabla(f(1.0 - fd.identity(X))) ** 2),
    "twice": lambda f, X, w, k: integrate(fd.nabla(fd.nabla(f)) ** 2),
    "at a point": lambda f, X, w, k: fd.nabla(f)(0.3),
    "gradient of a gradient": lambda f, X, w, k: integrate(fd.nabla(grad(lambda g: integrate(g**3))(f)) ** 2),
    "pull-back": lambda f, X, w, k: integrate(fd.vjp(lambda g: fd.nabla(k @ g), f)[1](f)[0] * w),
}

# ---- functions of several arguments and with other values


def pair_row(code, X):
    w, k = w_on(X), k_on(X)
    x = fd.identity(X)
    d = fd.broadcast(d_on(X), (X, X), 0) * fd.broadcast(w, (X, X), 1)
    return (lambda k: code(k, X, w, x)), k, d


PAIRS = {
    "diagonal": lambda k, X, w, x: integrate(fd.compose(k, x, x) ** 2),
    "antidiagonal": lambda k, X, w, x: integrate(fd.compose(k, x, 1.0 - x) ** 2),
    "one fixed": lambda k, X, w, x: integrate(fd.compose(k, x, 0.3) ** 2),
    "both halved": lambda k, X, w, x: integrate(fd.compose(k, x / 2.0, x / 3.0, share_inputs=False) ** 2),
    "exchanged": lambda k, X, w, x: integrate(fd.permute(k, (1, 0)) * k * fd.broadcast(w, (X, X), 0)),
    "square": lambda k, X, w, x: integrate((k @ k) * k),
    "cube": lambda k, X, w, x: integrate(fd.compose(k @ k @ k, x, x)),
    "column": lambda k, X, w, x: integrate(fd.partial(k, 1, 0.3) * (k @ w)),
    "number": lambda k, X, w, x: k(0.3, 0.6) ** 2 * integrate(k, 0)(0.3),
    "quadratures": lambda k, X, w, x: integrate(k * k, quadrature=(X.quadrature(), X.quadrature())),
    "one quadrature": lambda k, X, w, x: integrate(integrate(k * k, 1, quadrature=(X.points, 3 * X.weights)) * w),
    "itself": lambda k, X, w, x: integrate(fd.compose(k, x, fd.compose(k, x, x) * 0.2) ** 2),
}


def vector_row(code, X):
    f, d = f_on(X), d_on(X)
    stack = lambda a, b: fd.compose(lambda u, v: jnp.stack([u, v, u * v]), a, b)
    return (lambda v: code(v, X, w_on(X))), stack(f, d), stack(d, f)


VECTORS = {
    "norm": lambda v, X, w: integrate(fd.dot(v, v) * w),
    "items": lambda v, X, w: integrate(v[0] ** 2 * v[2]),
    "braket": lambda v, X, w: fd.braket(v, v * integrate(v[1])),
    "matrix": lambda v, X, w: integrate(fd.compose(lambda u: jnp.linalg.det(jnp.outer(u, u) + jnp.eye(3)), v)),
    "outer": lambda v, X, w: integrate(fd.dot(v(fd.identity(X) / 2.0), v) * w),
    "entries at points": lambda v, X, w: jnp.sum(v(0.3) ** 2) * integrate(v[1]),
    "integral": lambda v, X, w: jnp.prod(integrate(v * v)),
}


def complex_row(code, X):
    f, d = f_on(X), d_on(X)
    both = lambda a, b: fd.compose(jax.lax.complex, a, b)
    return (lambda z: code(z, X, w_on(X))), both(f, d), both(d, f * 0.5)


COMPLEX = {
    "norm": lambda z, X, w: fd.braket(z, z, real=True),
    "real part of a square": lambda z, X, w: jnp.real(integrate(z * z * w)),
    "imaginary part": lambda z, X, w: jnp.imag(integrate(z**3)),
    "modulus of an integral": lambda z, X, w: jnp.abs(integrate(z * w)) ** 2,
    "phase": lambda z, X, w: jnp.real(integrate(z * (0.3 + 1.0j)) * integrate(fd.conj(z))),
    "outer": lambda z, X, w: jnp.real(integrate(z(fd.identity(X) / 2.0) * z)),
    "at a point": lambda z, X, w: jnp.abs(z(0.3)) ** 2,
}


def rows():
    """{name: (name of the space, row)}"""
    found = {}
    for i, inner in enumerate(INNER):
        chosen = ["cell"] if "around" in inner else [INSIDE[i % len(INSIDE)], "interval", "no ends"]
        for power, where in enumerate(dict.fromkeys(chosen)):
            found[f"f({inner})^{power + 1} on {where}"] = where, outer_row(inner, power + 1)
    for name in QUADRATURES:
        for together in (False, True):
            found[f"quadrature {name}{' and its own' * together}"] = "interval", quadrature_row(name, together)
    for i, (name, code) in enumerate(PLAIN.items()):
        for where in (list(SPACES)[i % len(SPACES)], list(SPACES)[(3 * i + 1) % len(SPACES)]):
            found[f"{name} on {where}"] = where, functional(code)
    for i, (name, code) in enumerate(SLOPES.items()):
        for where in (CONTINUOUS[i % 5], CONTINUOUS[(i + 2) % 5]):
            found[f"slope {name} on {where}"] = where, functional(code)
    tables = ("pair", PAIRS, pair_row), ("vector", VECTORS, vector_row), ("complex", COMPLEX, complex_row)
    for kind, table, make in tables:
        for i, (name, code) in enumerate(table.items()):
            for where in ("interval", list(SPACES)[i % len(SPACES)]):
                found[f"{kind} {name} on {where}"] = where, lambda X, make=make, code=code: make(code, X)
    return found


ROWS = rows()
QUICK = (  # one of each kind, each space
    "f(shift out)^1 on backwards",
    "f(sine)^1 on weighted",
    "quadrature wider",
    "pairs on one point",
    "fixed on trapezoid",
    "third derivative on cell",
    "slope at a point on interval",
    "pair quadratures on signed sum",
    "vector items on panels",
    "complex at a point on interval",
)


def test_there_are_enough_programs():
    assert len(ROWS) >= 200


def check(name):
    where, row = ROWS[name]
    found = verdict(*row(SPACES[where]))
    assert found == "right" or found.startswith("refused"), found
    if any(name.startswith(f"quadrature {q}") for q in REFUSED_QUADRATURES) or "constant outside" in name:
        assert found.startswith("refused") or "no ends" in name or "on one point" in name or "on signed" in name, found


@pytest.mark.parametrize("name", QUICK)
def test_odd_programs(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ROWS if n not in QUICK])
@pytest.mark.one_in(3)
def test_all_odd_programs(name):
    check(name)
