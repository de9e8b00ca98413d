"""Taylor mode: series through array programs, derivatives of functionals along a line, its cost."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd import autofd
from dftfd.autofd.core.roots import power
from dftfd.autofd.operators.elementary import cbrt
from dftfd.errors import LeakError, NoRuleError, SignatureError

ORDER = 4


def nested(code, x, order):
    """Derivatives by forward mode inside forward mode, JAX's own."""
    values = []
    for _ in range(order + 1):
        values.append(code)
        code = lambda x, f=code: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
    return jax.jit(lambda x: [f(x) for f in values])(x)


def along(code, x, order=ORDER):
    return jax.jit(lambda x: autofd.derivatives_along(code, (x,), (jnp.ones_like(x),), order))(x)


def matrix(x):
    return jnp.array([[2.0, 0.1], [0.1, 1.0]]) + x * jnp.array([[1.0, 0.2], [0.2, 3.0]])


def loops(x):
    y = jax.lax.fori_loop(0, 3, lambda i, c: c * jnp.sin(x), x)
    z = jax.lax.cond(x > 0, jnp.sin, jnp.cos, x)
    c, w = jax.lax.scan(lambda c, a: (jnp.sin(c + x), c * a), x, jnp.arange(3.0))
    _, q = jax.lax.while_loop(lambda c: c[0] < 5.0, lambda c: (1.5 * c[0] + x, c[1] * jnp.cos(c[0])), (x, x))
    return y + z + c + w.sum() + q


@jax.custom_jvp
def custom_loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, c: c * jnp.sin(x), x)


@custom_loop.defjvp
def _custom_loop_jvp(primals, tangents):
    ((x,), (dx,)) = primals, tangents
    s, c = jnp.sin(x), jnp.cos(x)
    return custom_loop(x), jax.lax.fori_loop(0, 1, lambda i, t: t * (s**3 + 3 * x * s**2 * c), dx)


CODES = {
    "cube root": cbrt,
    "powers": lambda x: power(x, 5 / 3) + power(x, 1 / 6) + x ** jnp.sin(x),
    "simple powers": lambda x: x**-3 + x**4 + x**1.3,
    "quotient": lambda x: jnp.sin(x) / (1 + x * x),
    "exponentials": lambda x: jnp.exp(x) + jnp.expm1(x) + jnp.log(x) + jnp.log1p(x) + jnp.exp2(x),
    "circular": lambda x: jnp.sin(x) * jnp.cos(x) + jnp.tan(x) + jnp.arctan(x) + jnp.arcsin(x / 9) + jnp.arccos(x / 9),
    "hyperbolic": lambda x: jnp.tanh(x) + jnp.sinh(x) * jnp.cosh(x) + jnp.arcsinh(x) + jnp.arctanh(x / 9),
    "roots": lambda x: jnp.sqrt(x) + jax.lax.rsqrt(x) + jnp.cbrt(x),
    "special": lambda x: jax.scipy.special.erf(x) + jax.scipy.special.gammaln(x) + jnp.logaddexp(x, 1.0),
    "activations": lambda x: jax.nn.relu(x) + jax.nn.silu(x) + jax.nn.gelu(x) + jax.nn.sigmoid(x) + jax.nn.softplus(x),
    "selections": lambda x: (
        jnp.where(x > 1, jnp.sin(x), x) + jnp.abs(-(x**3)) + jnp.maximum(x**2, 1.0) + jnp.clip(x, 0, 9)
    ),
    "reductions": lambda x: (
        jnp.max(jnp.stack([x**3, x])) + jnp.prod(jnp.stack([x, x * x])) + jnp.sort(jnp.stack([x, -x]))[0]
    ),
    "atan2": lambda x: jnp.arctan2(x, 1 + x * x),
    "linear algebra": lambda x: (
        jnp.linalg.cholesky(matrix(x))[1, 1] + jnp.linalg.solve(matrix(x), jnp.stack([x, x**2]))[0]
    ),
    "determinant": lambda x: jnp.linalg.det(matrix(x)),
    "products": lambda x: ((x * jnp.ones((3, 3))) @ jnp.full((3, 3), x**2))[0, 0] + jnp.cumsum(jnp.stack([x, x]))[1],
    "indexing": lambda x: jnp.take(jnp.stack([x, x * x]), jnp.array([1, 0])) @ jnp.array([2.0, 3.0]),
    "complex": lambda x: jnp.real(jnp.exp(1j * x.astype(complex) * x)),
    "loops": loops,
    "loop in a custom derivative": custom_loop,
    "checkpoint": lambda x: jax.checkpoint(lambda x: jnp.sin(x) * jnp.tan(x))(x),
    "vmap": lambda x: jax.vmap(cbrt)(x * jnp.arange(1.0, 4.0)).sum(),
    "jvp inside": lambda x: jax.jvp(cbrt, (x,), (x * x,))[1],
    "gradient inside": jax.grad(lambda x: jnp.sin(cbrt(x))),
}


# many primitives each; "exponentials", "roots" and "jvp inside" are quick
SLOW = {"linear algebra", "powers", "loops", "hyperbolic", "circular", "activations", "special", "vmap"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in CODES])
def test_series_equal_nested_forward_mode(name):
    """Derivatives 0 to 4 agree with JAX's nested jvp, for every kind of primitive and control flow (1e-11)."""
    x = jnp.asarray(1.3)
    np.testing.assert_allclose(along(CODES[name], x), nested(CODES[name], x, ORDER), rtol=1e-11, atol=1e-11)


def test_series_against_closed_forms():
    """x^(1/3), exp(2x), 1/(1-x) and a polynomial have known derivatives; beyond its degree a polynomial gives zero."""
    x, n = jnp.asarray(0.5), 8
    root = [math.prod(1 / 3 - j for j in range(k)) * 0.5 ** (1 / 3 - k) for k in range(n + 1)]
    np.testing.assert_allclose(along(cbrt, x, n), root, rtol=1e-13)
    np.testing.assert_allclose(along(lambda x: jnp.exp(2 * x), x, n), [2**k * math.e for k in range(n + 1)], rtol=1e-13)
    geometric = [math.factorial(k) * 2.0 ** (k + 1) for k in range(n + 1)]
    np.testing.assert_allclose(along(lambda x: 1 / (1 - x), x, n), geometric, rtol=1e-13)
    np.testing.assert_allclose(along(lambda x: x**3, x, n), [0.125, 0.75, 3.0, 6.0] + [0.0] * 5, rtol=1e-14)


def test_series_of_several_arguments_and_results():
    """Pytrees in and out; the k-th derivative of f(x + t a, y + t b) for a bilinear f is known."""
    code = lambda p: {"xy": p["x"] * p["y"], "x": p["x"], "one": jnp.ones(2)}
    point = {"x": jnp.array([1.0, 2.0]), "y": jnp.array([3.0, 5.0])}
    direction = {"x": jnp.array([1.0, -1.0]), "y": jnp.array([0.5, 2.0])}
    zeroth, first, second, third = autofd.derivatives_along(code, (point,), (direction,), 3)
    np.testing.assert_array_equal(first["xy"], [1.0 * 3.0 + 1.0 * 0.5, -5.0 + 4.0])
    np.testing.assert_array_equal(second["xy"], [1.0, -4.0])
    np.testing.assert_array_equal(third["xy"], [0.0, 0.0])
    np.testing.assert_array_equal(first["x"], direction["x"])
    np.testing.assert_array_equal(zeroth["one"], np.ones(2))


@jax.custom_vjp
def reverse_only(x):
    return x * x


reverse_only.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))


def test_missing_rules_and_misuse_are_typed_errors():
    """No forward derivative, mismatched arguments, impossible order."""
    x = jnp.asarray(1.0)
    with pytest.raises(NoRuleError, match="reverse-mode"):
        autofd.derivatives_along(lambda x: jnp.sin(reverse_only(x)), (x,), (x,), 2)
    with pytest.raises(SignatureError, match="differ in structure"):
        autofd.derivatives_along(jnp.add, (x, x), (x,), 2)
    with pytest.raises(SignatureError, match="order -1"):
        autofd.derivatives_along(jnp.sin, (x,), (x,), -1)


# ---- functionals


@pytest.fixture(scope="module")
def space():
    return autofd.periodic(40, name="x")


@pytest.fixture(scope="module")
def f(space):
    return autofd.function(lambda x: 1.5 + jnp.sin(x), space)


@pytest.fixture(scope="module")
def d(space):
    return autofd.function(lambda x: jnp.cos(2 * x) + 0.3 * jnp.sin(x), space)


def energy(f):
    """Local, gradient-dependent, and fed back through a scalar."""
    local = autofd.integrate(autofd.cbrt(f) * autofd.square(autofd.nabla(f)) + autofd.exp(f))
    return local * jnp.sin(autofd.integrate(f * f) / 10)


def test_functional_along_a_line_equals_nested_forward_mode(f, d):
    """d^k/dt^k E[f + t d], k = 0..5, against JAX's jvp nested in t."""
    got = jax.jit(lambda f, d: autofd.taylor(energy, (f,), (d,), 5))(f, d)
    expected = nested(lambda t: energy(f + d * t), jnp.zeros(()), 5)
    np.testing.assert_allclose(got, expected, rtol=1e-11)


def test_derivatives_of_the_gradient_are_functions(f, d):
    """<v, d> = E', <v', d> = E'', <v'', d> = E''' for a periodic space, and v' is the Hessian-vector product."""

    def found():
        changes = autofd.taylor(autofd.grad(energy), (f,), (d,), 2)
        return [autofd.integrate(change * d) for change in changes], changes[1](0.3)

    (paired, change), values = jax.jit(found)(), jax.jit(lambda: autofd.taylor(energy, (f,), (d,), 3))()
    np.testing.assert_allclose(paired, values[1:], rtol=1e-10)
    assert float(change) == pytest.approx(float(jax.jit(autofd.hvp(energy, f, d))(0.3)), rel=1e-11)


def test_mixed_derivatives_are_symmetric_and_agree_with_nested_jvp(f, d, space):
    """E'''[a, b, c] by polarisation: symmetric under all permutations, equal to jvp of jvp of jvp (1e-9)."""
    g = autofd.function(lambda x: jnp.sin(2 * x + 1), space)
    E = lambda f: autofd.integrate(autofd.exp(f) + f**2 * autofd.nabla(f) ** 2)
    values = [float(autofd.mixed_derivative(E, f, p)) for p in [(d, f, g), (g, d, f), (f, g, d)]]

    def line(r, s, t):
        return E(f + d * r + f * s + g * t)

    zero = jnp.zeros(())
    expected = jax.jit(jax.grad(jax.grad(jax.grad(line, 0), 1), 2))(zero, zero, zero)
    np.testing.assert_allclose(values, float(expected), rtol=1e-9)


def test_operators_and_pytrees(f, d):
    """The derivatives of an operator, along a direction in a function and an array at once; linear in f: two terms."""
    scaled = lambda f, a: {"slope": autofd.nabla(f) * a, "a": a * a}
    zeroth, first, second = autofd.taylor(scaled, (f, jnp.asarray(2.0)), (d, jnp.asarray(3.0)), 2)
    slope = lambda g: float(autofd.nabla(g)(0.4))
    assert float(first["slope"](0.4)) == pytest.approx(2 * slope(d) + 3 * slope(f), rel=1e-14)
    assert float(second["slope"](0.4)) == pytest.approx(6 * slope(d), rel=1e-14)
    assert (zeroth["a"], first["a"], second["a"]) == (4.0, 12.0, 18.0)


def test_taylor_mode_is_differentiable_in_arrays(f, d):
    """d/da of the third derivative along a direction a d: three times as large per unit of a, by homogeneity."""
    third = lambda a: autofd.taylor(energy, (f,), (d * a,), 3)[3]
    value, slope = jax.jit(jax.value_and_grad(third))(jnp.asarray(1.5))
    assert float(slope) == pytest.approx(3 * float(value) / 1.5, rel=1e-12)


def test_inside_another_functional_derivative_is_refused(f, d):
    """A derivative that would be lost raises, for energies and for functions."""
    with pytest.raises(LeakError):
        autofd.grad(lambda g: autofd.taylor(energy, (g,), (d,), 2)[2])(f)
    with pytest.raises(LeakError):
        autofd.grad(lambda g: autofd.integrate(autofd.taylor(autofd.nabla, (g,), (d,), 1)[0]))(f)


# ---- cost


def operations(code, x):
    """Arithmetic operations of the traced program, counted in its equations with their sizes."""
    count = 0
    stack = [jax.make_jaxpr(code)(x).jaxpr]
    while stack:
        program = stack.pop()
        for eqn in program.eqns:
            inner = [
                p
                for p in jax.tree_util.tree_leaves(eqn.params, is_leaf=lambda p: hasattr(p, "eqns"))
                if hasattr(p, "eqns")
            ]
            stack.extend(getattr(p, "jaxpr", p) for p in inner)
            count += 0 if inner else sum(int(np.prod(v.aval.shape)) for v in eqn.outvars)
    return count


def test_cost_grows_like_the_square_of_the_order(f, d):
    """Up to n = 8 the operations grow no faster than n^2; nested forward mode at least doubles with each order."""
    E = lambda f: autofd.integrate(autofd.cbrt(f) * autofd.square(autofd.nabla(f)) + autofd.tanh(f))
    line = lambda t: E(f + d * t)
    zero = jnp.zeros(())
    cost = {
        n: operations(lambda t, n=n: autofd.derivatives_along(line, (t,), (jnp.ones(()),), n), zero) for n in (2, 4, 8)
    }
    assert cost[4] / cost[2] < 4 and cost[8] / cost[4] < 4

    def nest(n):
        g = line
        for _ in range(n):
            g = lambda t, g=g: jax.jvp(g, (t,), (jnp.ones(()),))[1]
        return operations(g, zero)

    nests = [nest(n) for n in (3, 4, 5)]
    assert nests[1] / nests[0] > 2 and nests[2] / nests[1] > 2
    assert cost[8] < nests[2] * 2


@pytest.fixture(scope="module")
def products(f, d):
    """The second derivative applied to d, in three ways."""
    along_d = lambda g: autofd.jvp(energy, (g,), (d,))[1]
    paired = lambda g: autofd.integrate(autofd.grad(energy)(g) * d)
    return {
        "forward over reverse": autofd.jvp(autofd.grad(energy), (f,), (d,))[1],
        "reverse over forward": autofd.grad(along_d)(f),
        "reverse over reverse": autofd.grad(paired)(f),
    }


@pytest.mark.slow  # 1 s; three ways to such products: test_autofd_transforms.py
@pytest.mark.parametrize("way", ["reverse over forward", "reverse over reverse"])
def test_hessian_vector_products_agree(products, way, space):
    """Three ways to a second functional derivative give one function (1e-10 of its size)."""
    expected = jax.jit(jax.vmap(products["forward over reverse"]))(space.points)
    got = jax.jit(jax.vmap(products[way]))(space.points)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10 * float(jnp.abs(expected).max()))
