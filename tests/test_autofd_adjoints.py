"""<dO(f) df, g> = <df, T(O) g> for every operator, over 200 random functions each, to 1e-10 of the norms.

Random functions are Fourier series on periodic domains, polynomials under the weight of Gauss-Hermite quadrature, and
polynomials on [0, 1] where no derivative is taken; the quadratures are exact for the products that occur, or converged
far below the tolerance, so the identities hold for the numbers and not only for the integrals.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd.autofd import (
    Domain,
    braket,
    broadcast,
    compose,
    constant,
    divergence,
    exp,
    function,
    identity,
    integrate,
    item,
    jvp,
    laplacian,
    linear_transpose,
    linearize,
    nabla,
    partial,
    permute,
    register_inverse,
    sin,
    split,
    vjp,
    zip_functions,
)
from dftfd.autofd.transforms.transposition import pairing
from tests.sample import sample

COUNT = 200


# ---- domains and families of random functions


def periodic(n, name):
    x = 2 * np.pi * np.arange(n) / n
    return Domain((), points=x, weights=np.full(n, 2 * np.pi / n), ends=(0, 2 * np.pi), periodic=True, name=name)


def torus(n):
    x = 2 * np.pi * np.arange(n) / n
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    return Domain((2,), points=grid, weights=np.full(n * n, (2 * np.pi / n) ** 2), name="torus")


def gauss(n, name, density=None):
    x, w = np.polynomial.legendre.leggauss(n)
    x, w = (x + 1) / 2, w / 2
    weights = w if density is None else w * np.array([float(density(y)) for y in x])
    return Domain((), points=x, weights=weights, density=density, name=name)


def hermite(n):
    x, w = np.polynomial.hermite.hermgauss(n)
    return Domain((), points=x, weights=w, density=lambda x: jnp.exp(-(x**2)), name="gauss-hermite")


def plane(n):
    """R^2 under the weight exp(-|x|^2), for linear maps."""
    x, w = np.polynomial.hermite.hermgauss(n)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    return Domain((2,), points=grid, weights=np.outer(w, w).ravel(), name="plane")


P, Q, T2 = periodic(24, "p"), periodic(20, "q"), torus(14)
X, Y, H = gauss(30, "x"), gauss(26, "y"), hermite(24)
W = gauss(30, "w", density=lambda x: 1.0 + 0.5 * x)
V = gauss(30, "v", density=lambda x: jnp.exp(-x))


def fourier(a, x):
    k = jnp.arange(1.0, 4.0)
    return a[0] + jnp.dot(a[1:4], jnp.sin(k * x)) + jnp.dot(a[4:7], jnp.cos(k * x))


def polynomial(a, x):
    return jnp.polyval(a, x)


def on(domain, code, size):
    """params -> Function, and the number of parameters."""
    return lambda a: function(code, domain, params=(a,)), size


p = on(P, fourier, 7)
x = on(X, polynomial, 5)
y = on(Y, polynomial, 5)
w = on(W, polynomial, 5)
v = on(V, polynomial, 5)
h = on(H, polynomial, 5)
pq = (lambda a: function(lambda a, x, y: fourier(a[:7], x) * fourier(a[7:], y), P, Q, params=(a,)), 14)
xy = (lambda a: function(lambda a, x, y: polynomial(a[:4], x) * polynomial(a[4:], y), X, Y, params=(a,)), 8)
wy = (lambda a: function(lambda a, x, y: polynomial(a[:4], x) * polynomial(a[4:], y), W, Y, params=(a,)), 8)
hy = (lambda a: function(lambda a, x, y: polynomial(a[:4], x) * polynomial(a[4:], y), H, Y, params=(a,)), 8)
torus1 = (lambda a: function(lambda a, r: fourier(a[:7], r[0]) * fourier(a[7:], r[1]), T2, params=(a,)), 14)
torus2 = (
    lambda a: function(
        lambda a, r: jnp.stack([fourier(a[:7], r[0]) * jnp.sin(r[1]), fourier(a[7:], r[1]) * jnp.cos(r[0])]),
        T2,
        params=(a,),
    ),
    14,
)
vector = (lambda a: function(lambda a, x: jnp.stack([polynomial(a[:4], x), polynomial(a[4:], x)]), X, params=(a,)), 8)
pvector = (lambda a: function(lambda a, x: jnp.stack([fourier(a[:7], x), fourier(a[7:], x)]), P, params=(a,)), 14)
pair = (lambda a: function(lambda a, x: (polynomial(a[:4], x), {"v": a[4:7] * x}), X, params=(a,)), 7)
wave = (lambda a: function(lambda a, x: jax.lax.complex(fourier(a[:7], x), fourier(a[7:], x)), P, params=(a,)), 14)
pp = (lambda a: function(lambda a, x, y: fourier(a[:7], x) * fourier(a[7:], y), P, P, params=(a,)), 14)
tree_of_two = (lambda a: (x[0](a[:5]), x[0](a[5:])), 10)
number = (lambda a: a[0], 1)

tangent = gauss(6, "direction")
ptangent = (lambda a: function(lambda a, x, t: fourier(a[:7], x) * polynomial(a[7:], t), P, tangent, params=(a,)), 10)
htangent = (lambda a: function(lambda a, x, t: polynomial(a[:4], x) * polynomial(a[4:], t), H, tangent, params=(a,)), 7)
tangent2 = plane(5)
ttangent = (
    lambda a: function(
        lambda a, r, t: fourier(a[:7], r[0]) * jnp.sin(r[1]) * jnp.dot(a[7:], t), T2, tangent2, params=(a,)
    ),
    9,
)

R2, S2 = plane(4), plane(5)
matrix = (lambda a: function(lambda a, r: a.reshape(2, 2) @ r, R2, params=(a,)), 4)
quadratic = (
    lambda a: function(lambda a, s: jnp.stack([a[0] * s[0] ** 2 + a[1], jnp.dot(a[2:], s)]), S2, params=(a,)),
    4,
)

KERNEL = function(lambda x, y: jnp.exp(-((x - y) ** 2)) * (1 + x), X, Y)


def half(t):
    """[0, 1] onto itself."""
    return (t + t**2) / 2


STRETCH = function(lambda x: jnp.expm1(x) / (np.e - 1), X)
register_inverse(STRETCH, lambda y: jnp.log1p(y * (np.e - 1)), lambda y: jnp.log((np.e - 1) / (1 + y * (np.e - 1))))
STRETCH_W = function(half, W)
register_inverse(half, lambda y: (jnp.sqrt(1 + 8 * y) - 1) / 2)  # the determinant numerically
CHAIN = 1.0 - compose(half, identity(X))


def separate(f):
    """f(STRETCH(x), CHAIN(y)) of a function of two arguments on X x X."""
    return compose(f, STRETCH, CHAIN, share_inputs=False)


xx = (lambda a: function(lambda a, x, y: polynomial(a[:4], x) * polynomial(a[4:], y), X, X, params=(a,)), 8)
bump = function(lambda x: (x * (1 - x)) ** 3, X)

# name -> (operator, family of f and df, family of g)
LINEAR = {
    "nabla, periodic": (nabla, p, p),
    "nabla, reverse mode": (lambda f: nabla(f, mode="reverse"), p, p),
    "nabla, weighted measure": (nabla, h, h),
    "nabla, second argument": (lambda f: nabla(f, 1), pq, pq),
    "nabla, two dimensions": (nabla, torus1, torus2),
    "nabla, vector-valued": (nabla, pvector, pvector),
    "divergence": (divergence, torus2, torus1),
    "laplacian": (laplacian, torus1, torus1),
    "laplacian, weighted measure": (laplacian, h, h),
    "compose, outer": (lambda f: compose(f, STRETCH), x, x),
    "compose, outer, numeric determinant, weighted": (lambda f: compose(f, STRETCH_W), w, w),
    "compose, outer, between measures": (
        lambda f: compose(f, function(half, W)),
        v,
        w,
    ),
    "compose, outer, chain": (lambda f: compose(f, CHAIN), x, x),
    "compose, outer, separate inputs": (separate, xx, xx),
    "compose, inner, separate inputs": (
        lambda f: compose(lambda a, b: 2 * a - b, f, constant(1.0, Y) * 0.0, share_inputs=False),
        x,
        xy,
    ),
    "linearize": (lambda f: linearize(f, 0, tangent), p, ptangent),
    "linearize, weighted measure": (lambda f: linearize(f, 0, tangent), h, htangent),
    "linearize, two dimensions": (lambda f: linearize(f, 0, tangent2), torus1, ttangent),
    "linear_transpose": (lambda f: linear_transpose(f, domain=S2), matrix, quadratic),
    "integrate, some": (lambda f: integrate(f, 1), xy, x),
    "integrate, the other": (lambda f: integrate(f, 0), wy, y),
    "integrate, all": (integrate, wy, number),
    "integrate, tree-valued": (lambda f: integrate(f), pair, (lambda a: (a[0], {"v": a[1:4]}), 4)),
    "broadcast": (lambda f: broadcast(f, (Y, X), (1,)), x, (lambda a: permute(xy[0](a), (1, 0)), 8)),
    "broadcast, weighted measure": (lambda f: broadcast(f, (W, Y), (1,)), y, wy),
    "permute": (lambda f: permute(f, (1, 0)), xy, (lambda a: permute(xy[0](a), (1, 0)), 8)),
    "zip": (lambda fs: zip_functions(*fs), tree_of_two, (lambda a: zip_functions(x[0](a[:5]), x[0](a[5:])), 10)),
    "split": (lambda f: split(f), (lambda a: zip_functions(x[0](a[:5]), x[0](a[5:])), 10), tree_of_two),
    "item": (lambda f: f[1], vector, x),
    "item of a tree": (lambda f: item(f, 1)["v"], pair, (lambda a: function(lambda a, x: a * x, X, params=(a,)), 3)),
    "integral transform": (lambda f: KERNEL @ f, y, x),
    "integral transform of the kernel": (lambda k: k @ function(jnp.cos, Y), xy, x),
    "braket": (
        lambda f: braket(function(lambda x: jax.lax.complex(jnp.cos(x), jnp.sin(x)), P), f),
        wave,
        (lambda a: jax.lax.complex(*a), 2),
    ),
    "partial, then smoothed": (lambda f: integrate(partial(f, 1, 0.4) * bump), xy, number),
    "point evaluation": (lambda f: f(0.3), x, number),
    "scaling and negation": (lambda f: -2.0 * f / 3.0 - f, x, x),
}

NONLINEAR = {
    "compose, inner": (lambda f: compose(lambda v, u: v**2 * u, f, nabla(f)), p, p),
    "exp and sin": (lambda f: exp(0.1 * f) * sin(f), x, x),
    "power and quotient": (lambda f: (f**2 + 1.0) ** 0.5 / (2.0 + sin(f)), w, w),
    "tree-valued": (lambda f: f * f, pair, pair),
    "complex": (lambda f: f * f * 0.5, wave, wave),
    "gradient squared": (lambda f: nabla(f) * f, torus1, torus2),
    "integral inside": (lambda f: f * integrate(f * f), x, x),
    "derivative of a composition in its outer function": (
        lambda f: jvp(lambda g: compose(f, g), (WARP_OF,), (PUSH,))[1],
        p,
        p,
    ),
    "transposed derivative of a composition in its outer function": (
        lambda f: vjp(lambda g: compose(f, g), WARP_OF)[1](PUSH)[0],
        p,
        p,
    ),
}
SHIFT = 0.4
WARP_OF = function(lambda x: x + SHIFT, P)  # a shift: invertible on the circle
register_inverse(WARP_OF, lambda y: y - SHIFT)
PUSH = function(lambda x: 1.0 + 0.5 * jnp.cos(x), P)


def parameters(size, seed):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(COUNT, size)))


def norm(value):
    from jax.tree_util import tree_leaves

    from dftfd.autofd import conj, real
    from dftfd.autofd.core.function import is_function

    def one(part):
        if is_function(part):
            return sum(
                jnp.sum(integrate(real(conj(q) * q)))
                for q in [compose(lambda v: jnp.concatenate([jnp.ravel(u) for u in tree_leaves(v)]), part)]
            )
        return jnp.real(jnp.sum(jnp.conj(part) * part))

    return jnp.sqrt(sum(one(part) for part in tree_leaves(value, is_leaf=is_function)))


def defect(operator, families):
    """|<dO df, g> - <df, O^T g>| and the product of norms, for all random functions at once."""
    (make_f, nf), (make_g, ng) = families

    def one(a, b, c):
        f, df, g = make_f(a), make_f(b), make_g(c)
        image = jvp(operator, (f,), (df,))[1]
        back = vjp(operator, f)[1](g)[0]
        left, right = pairing(g, image), pairing(df, back)
        return jnp.abs(left - right), norm(g) * norm(image)

    return jax.jit(jax.vmap(one))(parameters(nf, 1), parameters(nf, 2), parameters(ng, 3))


SLOW = (  # made of others: laplacian is divergence of nabla, a chain is two compositions
    "nabla, reverse mode",
    "nabla, second argument",
    "nabla, vector-valued",
    "laplacian",
    "laplacian, weighted measure",
    "gradient squared",
    "compose, outer, numeric determinant, weighted",
    "compose, outer, chain",
    "compose, outer, separate inputs",
    "linearize, two dimensions",
    "derivative of a composition in its outer function",
)
NAMES = [*LINEAR, *NONLINEAR]


@pytest.mark.parametrize("name", sample(NAMES, [name for name in NAMES if name not in SLOW]))
def test_adjoint_identity(name):
    """The derivative and its transpose, each from its own rules, are adjoint."""
    operator, *families = (LINEAR | NONLINEAR)[name]
    difference, scale = defect(operator, families)
    assert np.max(np.asarray(difference) / np.asarray(scale)) < 1e-10


POINT = {1: 0.37, 2: (0.37, 0.61)}


# The transposes of points and partial evaluations are distributions: test_autofd_inverse_dirac.
TWICE = [n for n in LINEAR if not any(word in n for word in ("braket", "integrate, tree", "point", "partial"))]


@pytest.mark.parametrize("name", sample(TWICE, [name for name in TWICE if name not in SLOW]))
def test_transposing_twice_is_the_identity(name):
    """T(T(O)) f = O f, at a point or as numbers."""
    from jax.tree_util import tree_leaves

    from dftfd.autofd.core.function import is_function

    operator, (make_f, nf), (make_g, ng) = LINEAR[name]
    f, g = make_f(parameters(nf, 4)[0]), make_g(parameters(ng, 5)[0])
    transposed = lambda g: vjp(operator, f)[1](g)[0]
    twice = vjp(transposed, g)[1](f)[0]

    def values(tree):
        found = []
        for part in tree_leaves(tree, is_leaf=is_function):
            if is_function(part):
                point = [jnp.full(d.shape, 0.3 + 0.2 * i) for i, d in enumerate(part.domains)]
                part = part(*point)
            found += [np.ravel(q) for q in tree_leaves(part)]
        return np.concatenate(found)

    np.testing.assert_allclose(values(twice), values(operator(f)), rtol=1e-10, atol=1e-12)
