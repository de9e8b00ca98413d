"""What the tests of the original implementation state (sail-sg/autofd at c733c2b), in the notation of this package.

One item here for each of its 141, with the same name; the statements are retyped, not the code. Where the notation
differs the docstring says how; five items (argmax, argmin, equal) are refused here by a typed error, which the test
requires: functions have float or complex values. Points are float64, so values agree to 1e-12.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import tree_leaves, tree_map

import dftfd.autofd as fd
from dftfd.errors import SignatureError

pytestmark = pytest.mark.slow  # 7 s; quick tests of test_autofd_* have each of these features


def space(*shape, name="", **options):
    return fd.Domain(shape, name=name, **options)


_x, _w = np.polynomial.legendre.leggauss(12)
LINE = space(points=(_x + 1) / 2, weights=_w / 2, name="x")
OTHER = space(points=(_x + 1) / 2, weights=_w / 2, name="y")
MATRIX, MATRIX2 = space(3, 5, name="m"), space(3, 5, name="m2")
A, B, C = space(5, 4, name="a"), space(4, 3, name="b"), space(3, 2, name="c")
RNG = np.random.default_rng(12)


def points_of(f):
    """A random point of each argument."""
    return [jnp.asarray(RNG.normal(size=d.shape)) for d in f.domains]


def same(found, expected, atol=1e-12):
    """Equal trees of arrays."""
    tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=atol), found, expected)


def same_type(f, g):
    """Functions of the same arguments with values of the same shapes."""
    assert [d.shape for d in f.domains] == [d.shape for d in g.domains]
    assert f.result == g.result


def on_matrices(code, count=1):
    return fd.function(code, *(MATRIX, MATRIX2)[:count])


# ---- shapes of functions and of their derivatives (general_array_test.py)

total, rows = on_matrices(lambda x: x.sum()), on_matrices(lambda x: x.sum(axis=1))
rows_columns = on_matrices(lambda x: (x.sum(axis=1), x.sum(axis=0)))
of_each = on_matrices(lambda x, y: (x.sum(axis=1), y.sum(axis=0)), 2)
nested = on_matrices(lambda x, y: ((x.sum(axis=1), y.sum()), x.sum(axis=0)), 2)


def test_spec():
    assert total.shape == () and rows.shape == (3,) and total.domains[0].shape == (3, 5)
    assert tree_map(lambda s: s.shape, rows_columns.result, is_leaf=lambda s: hasattr(s, "shape")) == ((3,), (5,))


def derivative(f, argnums):
    """nabla takes one argument; of several there is one derivative for each."""
    several = isinstance(argnums, tuple)
    return fd.zip_functions(*(fd.nabla(f, k) for k in argnums)) if several else fd.nabla(f, argnums)


@pytest.mark.parametrize(
    "f, argnums, has_aux",
    [
        (total, 0, False), (rows, 0, False), (rows_columns, 0, True), (rows_columns, 0, False),
        *((f, k, aux) for f in (of_each, nested) for k in (0, 1, (0, 1)) for aux in (True, False)),
    ],
)  # fmt: skip
def test_jacobian(f, argnums, has_aux):
    """The derivative has the shapes of jax.jacrev's; has_aux: of the first part, the second comes along."""
    found = fd.zip_functions(derivative(f[0], argnums), f[1]) if has_aux else derivative(f, argnums)
    code = lambda k: jax.eval_shape(jax.jacrev(f.evaluate, argnums=k, has_aux=has_aux), *(d.spec for d in f.domains))
    several = isinstance(argnums, tuple)
    parts = [code(k) for k in (argnums if several else (argnums,))]
    aux = [parts[0][1]] if has_aux else []
    expected = tree_leaves([p[0] for p in parts] if has_aux else parts) + tree_leaves(aux)
    assert [s.shape for s in tree_leaves(found.result)] == [s.shape for s in expected]


# ---- zip and split

sums = on_matrices(lambda x: jnp.sum(x, axis=-1))
largest = on_matrices(jnp.max)
least = on_matrices(lambda x: x.min(axis=0))
picked = on_matrices(lambda x: (x[:, 0], x[0, 0], x[0, :]))


def test_concat_split():
    together, (x,) = fd.zip_functions(sums, largest, least), points_of(sums)
    expected = (sums(x), largest(x), least(x))
    same(together(x), expected)
    parts = jax.linear_transpose(fd.zip_functions, sums, largest, least)(together)
    same(tuple(p(x) for p in parts), expected)
    (joined,) = jax.linear_transpose(fd.split, together)(fd.split(together))
    same(joined(x), expected)


def test_concat_split_vjp():
    together, pull = jax.vjp(fd.zip_functions, sums, largest, least)
    (x,) = points_of(sums)
    same(tuple(p(x) for p in pull(picked)), (x[:, 0], x[0, 0], x[0, :]))
    parts, pull = jax.vjp(fd.split, together)
    same(pull(parts)[0](x), together(x))


def test_split_nabla():
    f = fd.function(lambda a, b: jnp.sin(a) + jnp.cos(b), LINE, OTHER)

    def one(f):
        da, db = fd.split(fd.zip_functions(fd.nabla(f, 0), fd.nabla(f, 1)))
        return fd.integrate(da * db)

    other = lambda f: fd.integrate(fd.nabla(f, 0) * fd.nabla(f, 1))
    same(jax.grad(one)(f)(1.0, 2.0), jax.grad(other)(f)(1.0, 2.0))


def test_zip_functions():
    columns = on_matrices(lambda x: jnp.sum(x, axis=0))
    assert len(fd.zip_functions(sums).result) == 1
    same_type(fd.zip_functions(sums, columns), rows_columns)
    apart = fd.compose(lambda *values: values, sums, fd.function(columns.evaluate, MATRIX2), share_inputs=False)
    same_type(apart, of_each)


# ---- the operator T on functions

S3, S4, S5 = (jax.ShapeDtypeStruct((n,), np.float64) for n in (3, 4, 5))


def test_linear_transpose():
    """Of several arguments together: they are one argument, a tuple. Of one alone the function would be affine."""
    doubled = fd.function(lambda v: tree_map(lambda x: 2 * x, v), fd.Domain(spec=(S3, S4, S5)))
    t = fd.linear_transpose(doubled)
    y = tuple(jnp.asarray(RNG.normal(size=n)) for n in (3, 4, 5))
    same(t(y), tree_map(lambda x: 2 * x, y))
    assert t.result == (S3, S4, S5)
    alone = fd.function(lambda x, y, z: (2 * x, 2 * y, 2 * z), *(space(n) for n in (3, 4, 5)))
    with pytest.raises(SignatureError, match="not linear in argument 0"):
        fd.linear_transpose(alone, 0)
    only = fd.function(lambda x, y: 2 * x * y[0], space(3), space(4))
    t = fd.linear_transpose(only, 0)
    assert [d.shape for d in t.domains] == [(4,), (3,)] and t.shape == (3,)


def test_linear_transpose_fd():
    """The transpose of T is T: <T f, T f> back to f (Hilbert and Schmidt's pairing)."""
    M = jnp.asarray(RNG.normal(size=(4, 3)))
    f = fd.function(lambda x: M @ x, space(3))
    T = lambda f: fd.linear_transpose(f, 0, None, "hilbert-schmidt")
    (back,) = jax.linear_transpose(T, f)(T(f))
    same_type(back, f)
    (x,) = points_of(f)
    same(back(x), f(x))


# ---- compose

min_plus = fd.function(lambda x, y: jnp.min(x) + y, space(3), space())
sums_and_largest = on_matrices(lambda x, y: jnp.sum(x, axis=-1) + jnp.max(y, axis=-1), 2)
sums_beside_largest = on_matrices(lambda x, y: (jnp.sum(x, axis=-1), jnp.max(y)), 2)
min_plus_minus = fd.function(
    lambda x, y: jnp.min(x[0]) + y - x[1], fd.Domain(spec=(S3, jax.ShapeDtypeStruct((), np.float64))), space()
)


def test_shape():
    """Empty there; here, that the shape of a composition is that of its outer function."""
    assert fd.compose(min_plus, sums, largest).shape == ()


def check_min_plus(composed, *points):
    x = points[0]
    same(composed(*points), x.sum(-1).min() + x.max())


@pytest.mark.parametrize(
    "build, count",
    [
        (lambda: fd.compose(min_plus, sums, largest, share_inputs=False), 2),  # f1(g1, g2)
        (lambda: min_plus(sums, largest), 1),
        (lambda: fd.compose(min_plus, sums, fd.function(jnp.max, MATRIX2), share_inputs=False), 2),
        (lambda: fd.compose(min_plus, sums, largest), 1),
    ],
    ids=["f1_call_g1_g2", "f1_call_g1_g2_share_inputs", "compose_f1_g1_g2", "compose_f1_g1_g2_share_inputs"],
)
def test_f1_of_g1_and_g2(build, count):
    """Arguments are shared unless share_inputs=False is given; f1(g1, g2) shares them."""
    (x,) = points_of(sums)
    check_min_plus(build(), *[x] * count)


def test_compose_f1_g3_g2():
    x, y = points_of(sums_and_largest)
    composed = fd.compose(min_plus, sums_and_largest, largest, share_inputs=False)
    same(composed(x, y, x), (x.sum(-1) + y.max(-1)).min() + x.max())


def test_compose_f2_g4_g2():
    x, y = points_of(sums_beside_largest)
    composed = fd.compose(min_plus_minus, sums_beside_largest, largest, share_inputs=False)
    same(composed(x, y, x), x.sum(-1).min() + x.max() - y.max())


def test_compose_jvp_type():
    widened = fd.broadcast(largest, (MATRIX, MATRIX2), 0)
    functions = (min_plus_minus, sums_beside_largest, widened)
    value, tangent = jax.jvp(fd.compose, functions, functions)
    same_type(value, tangent)


def test_compose_vjp():
    """Pulled back through x -> 2 x: twice the cotangent."""
    f, g = fd.function(lambda x: x * 2, LINE), fd.function(lambda x: x**2, LINE)
    value, pull = jax.vjp(lambda g: fd.compose(f, g), g)
    same(pull(value)[0](0.7), 2 * value(0.7))


def euler_lagrange(I, f):
    """d I/d f - d/dx d I/d f' + d^2/dx^2 d I/d f'', by JAX on numbers."""
    jet = lambda x: (f(x), jax.grad(f)(x), jax.hessian(f)(x))
    part = lambda k: lambda x: jax.grad(I, argnums=k)(*jet(x))
    return lambda x: part(0)(x) - jax.grad(part(1))(x) + jax.hessian(part(2))(x)


@pytest.mark.parametrize("name", ["higher_order_el", "euler_lagrange"])
def test_euler_lagrange(name):
    """Of f + f' + f'' and of f^2 + f'^2, as there, at ten points."""
    wave = lambda x: jnp.sin(x) + 0.3 * jnp.cos(x)
    linear, squares = lambda f, df, ddf: f + df + ddf, lambda f, df, ddf: f**2 + df**2 + 0.0 * ddf
    I, code = (linear, wave) if name == "higher_order_el" else (squares, jnp.sin)  # noqa: E741
    f = fd.function(code, LINE)
    F = lambda f: fd.integrate(fd.compose(I, f, fd.nabla(f), fd.nabla(fd.nabla(f))))
    x = jnp.asarray(RNG.normal(size=10))
    same(jax.vmap(jax.grad(F)(f))(x), jax.jit(jax.vmap(euler_lagrange(I, code)))(x))


# ---- arithmetic

two_min = on_matrices(lambda x, y: (jnp.min(x, axis=-1), jnp.min(y)), 2)
two_sum = on_matrices(lambda x, y: (jnp.sum(x, axis=-1), jnp.max(y)), 2)


@pytest.mark.parametrize("of", [operator.add, operator.sub], ids=["add", "sub"])
def test_binary_functions(of):
    at = points_of(two_min)
    same(of(two_min, two_sum)(*at), tree_map(of, two_min(*at), two_sum(*at)))


_one = lambda a, b: a**2 + jnp.sin(b)
single = on_matrices(_one, 2)
double = on_matrices(lambda a, b: (a**2, jnp.sin(b)), 2)
shorter = on_matrices(lambda a, b: ((a**2).sum(0), jnp.sin(b).sum(0)), 2)

OVERLOADS = {
    "add": lambda f: ((f + f, lambda v: 2 * v), (f + 1, lambda v: v + 1)),
    "sub": lambda f: (((f + f) - f, lambda v: v), (f - (f + f), lambda v: -v)),
    "neg": lambda f: ((-f, lambda v: -v),),
    "pow": lambda f: ((f**3, lambda v: v**3),),
    "mul": lambda f: ((f * f, lambda v: v**2),),
    "div": lambda f: ((f / f, jnp.ones_like),),
}


@pytest.mark.parametrize("name", OVERLOADS)
@pytest.mark.parametrize("f", [single, double, shorter], ids=["f1", "f2", "f3"])
def test_operator_overload(name, f):
    for found, expected in OVERLOADS[name](f):
        at = points_of(found)
        same(found(*at), tree_map(expected, f(*at)))


# ---- nabla

waves = on_matrices(lambda x: jnp.sum(jnp.sin(x * 2), axis=-1))
NABLA = [
    waves,
    on_matrices(lambda x: jnp.sum(jnp.sin(x * 2))),
    on_matrices(lambda x: (jnp.sum(jnp.sin(x * 2)), jnp.sin(x)[:, 0])),
    fd.function(jnp.sin, LINE),
]


@pytest.mark.parametrize("f", NABLA)
def test_nabla(f):
    (x,) = points_of(f)
    same(fd.nabla(f)(x), jax.jacrev(f.evaluate)(x))


def test_nabla_nabla():
    """Gradients of int |nabla f|^2 and of int |nabla nabla f|^2: -2 div nabla f and 2 (div nabla)^2 f."""
    R3 = space(3, points=np.zeros((1, 3)), weights=np.ones(1))
    f = fd.function(lambda x: jnp.sum(jnp.sin(x)), R3)
    (x,) = points_of(f)
    trace = lambda x: -jnp.trace(x, axis1=-2, axis2=-1)
    F = lambda f: fd.integrate(fd.compose(lambda x: jnp.sum(x**2), fd.nabla(f)))
    same(jax.grad(F)(f)(x), fd.compose(trace, fd.nabla(2 * fd.nabla(f)))(x))
    G = lambda f: fd.integrate(fd.compose(lambda x: jnp.sum(x**2), fd.nabla(fd.nabla(f))))
    inner = fd.compose(trace, fd.nabla(2 * fd.nabla(fd.nabla(f))))
    same(jax.grad(G)(f)(x), fd.compose(trace, fd.nabla(inner))(x))


@pytest.mark.parametrize("f", NABLA)
def test_transpose(f):
    """-div of the gradient, where JAX differentiates twice."""
    (back,) = jax.linear_transpose(fd.nabla, f)(fd.nabla(f))
    same_type(back, f)
    (x,) = points_of(f)
    axes = len(x.shape)
    trace = lambda h: np.asarray(h).reshape(*h.shape[: h.ndim - 2 * axes], x.size, x.size).trace(axis1=-2, axis2=-1)
    same(back(x), tree_map(lambda h: -trace(h), jax.hessian(f.evaluate)(x)))


@pytest.mark.parametrize("f", NABLA)
def test_functional_derivative(f):
    (gradient,) = jax.vjp(fd.nabla, f)[1](fd.nabla(f))
    same_type(gradient, f)


def test_known_functions():
    f, x = fd.function(jnp.sin, LINE), jnp.asarray(RNG.normal(size=100))
    same(jax.vmap(fd.nabla(f))(x), jnp.cos(x))
    same(jax.vmap(jax.vjp(fd.nabla, f)[1](f)[0])(x), -jnp.cos(x))


def test_linearize():
    x, y, dx, dy = (jnp.asarray(RNG.normal(size=(3, 5))) for _ in range(4))
    same(fd.linearize(single, (0,))(x, y, dx), 2 * x * dx)
    same(fd.linearize(single, (1,))(x, y, dy), jnp.cos(y) * dy)
    same(fd.linearize(single, (0, 1))(x, y, dx, dy), 2 * x * dx + jnp.cos(y) * dy)


# ---- functions of values

NAMED = "exp log sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh square sqrt".split()
UNARY = {
    "negative": (operator.neg, jnp.negative),
    **{name: (getattr(fd, name), getattr(jnp, name)) for name in NAMED},
    "abs": (abs, jnp.abs),
    **{name: (fd.elementary(getattr(jnp, name)), getattr(jnp, name)) for name in "sum prod mean max min sign".split()},
    "sigmoid": (fd.sigmoid, jax.nn.sigmoid),
    "relu": (fd.relu, jax.nn.relu),
    "erf": (fd.erf, jax.lax.erf),
}


@pytest.mark.parametrize("f", [single, double], ids=["f1", "f2"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_compose(name, f):
    """Elementary functions by name; other code, such as a sum over entries, by `elementary`."""
    ours, plain = UNARY[name]
    at = points_of(f)
    same(ours(f)(*at), tree_map(plain, f(*at)))


@pytest.mark.parametrize("f", [single, double], ids=["f1", "f2"])
@pytest.mark.parametrize("code", [jnp.argmax, jnp.argmin])
def test_unary_compose_of_numbers_of_entries(code, f):
    """Refused: whole numbers have no derivative. They may be used inside one function."""
    with pytest.raises(SignatureError, match="functions return float or complex arrays"):
        fd.elementary(code)(f)
    inside = fd.compose(lambda v: tree_map(lambda x: x.ravel()[code(x)], v), f)
    at = points_of(f)
    same(inside(*at), tree_map(lambda x: x.ravel()[code(x)], f(*at)))


BINARY = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "power": operator.pow,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary_compose(name):
    """Of a function with each part of another one: zipped here, as trees of different structure are refused."""
    of = BINARY[name]
    found = fd.zip_functions(*(of(single, part) for part in fd.split(double)))
    at = points_of(found)
    same(found(*at), tree_map(lambda y: getattr(jnp, name)(single(*at), y), double(*at)))
    with pytest.raises(SignatureError):
        of(single, double)


def test_binary_compose_equal():
    """Refused: a truth value is no number."""
    with pytest.raises(SignatureError, match="functions return float or complex arrays"):
        fd.compose(jnp.equal, single, single)


@pytest.mark.parametrize("f", [single, double], ids=["f1", "f2"])
def test_unary_with_params(f):
    total = fd.elementary(functools.partial(jnp.sum, axis=0), "sum")
    at = points_of(f)
    same(total(f)(*at), tree_map(lambda x: x.sum(0), f(*at)))


# ---- arguments

product = fd.function(lambda a, b, c: a @ b @ c, A, B, C)


def test_permute_args():
    a, b, c = points_of(product)
    same(fd.permute(product, (2, 1, 0))(c, b, a), product(a, b, c))
    moved = fd.permute(product, (1, 2, 0))
    (back,) = jax.linear_transpose(lambda f: fd.permute(f, (1, 2, 0)), product)(moved)
    same(back(a, b, c), product(a, b, c))


def test_broadcast():
    f = fd.function(lambda a, b: a @ b, A, B)
    a, b, c = points_of(product)
    same(fd.broadcast(f, (A, B, C), (0, 1))(a, b, c), f(a, b))


def at_one_point(x, name):
    """The space of a matrix whose quadrature is one point of weight one."""
    return space(*x.shape, points=x[None], weights=np.ones(1), name=name)


def test_partial():
    a, b, c = points_of(product)
    same(fd.partial(product, 0, a)(b, c), product(a, b, c))
    same(fd.partial(product, (0, 1), (a, b))(c), product(a, b, c))
    domains = (at_one_point(a, "a"), at_one_point(b, "b"), at_one_point(c, "c"))
    f = fd.function(lambda a, b, c: a @ b @ c, *domains)
    ct = fd.function(lambda b, c: jnp.ones((5, 4)) @ b @ c, *domains[1:])
    (back,) = jax.linear_transpose(lambda a: fd.partial(f, 0, a), a)(ct)
    same(back, fd.integrate(ct) @ c.T @ b.T)
    ct = fd.function(lambda b: jnp.ones((5, 4)) @ b @ jnp.ones((3, 2)), domains[1])
    (back,) = jax.linear_transpose(lambda a: fd.partial(f, (0, 2), (a, c)), a)(ct)
    same(back, fd.integrate(ct) @ c.T @ b.T)


def test_partial_jit():
    """d/df int sin f at f = a + b is cos(a + b), under jit and differentiated."""
    f = fd.function(lambda a, b: a + b, LINE, OTHER)
    F = lambda f: fd.integrate(fd.sin(f))
    loss = jax.jit(lambda a, b: jax.grad(F)(fd.partial(f, 0, a))(b))
    same(loss(1.0, 2.0), np.cos(3.0))
    same(jax.grad(loss)(1.0, 2.0), -np.sin(3.0))


TEN = space(points=np.arange(10.0), weights=np.full(10, 0.1))
sine = fd.function(jnp.sin, TEN)


def test_braket():
    same(fd.braket(sine, fd.function(jnp.cos, TEN)), (np.sin(np.arange(10)) * np.cos(np.arange(10))).mean())


def test_braket_grad():
    gradient = jax.grad(lambda f: fd.braket(f, f, real=True))(sine)
    same(gradient(0.7), 2 * np.sin(0.7))
