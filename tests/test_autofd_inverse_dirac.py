"""Inverses of functions, Dirac distributions, the pairings of linear_transpose; rules that do not exist."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from dftfd.autofd import (
    Domain,
    Function,
    at,
    broadcast,
    compose,
    exp,
    function,
    grad,
    hvp,
    integrate,
    jvp,
    linear_transpose,
    linearize,
    nabla,
    partial,
    periodic,
    permute,
    register_inverse,
    vjp,
)
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.errors import NoRuleError, SignatureError


def gauss(n, name, low=0.0, high=1.0, ends=None):
    x, w = np.polynomial.legendre.leggauss(n)
    points, weights = low + (high - low) * (x + 1) / 2, (high - low) * w / 2
    return Domain((), points=points, weights=weights, ends=ends or (low, high), name=name)


X, Y = gauss(40, "x"), gauss(30, "y")
LINE = (-np.inf, np.inf)
f = function(lambda x: jnp.sin(3 * x) + 1.5, X)
a = function(lambda x: jnp.cos(x) * x, X)
k = function(lambda x, y: jnp.exp(-((x - y) ** 2)), X, Y)
k2 = function(lambda x, y: x * y, X, X)
R = 0.37


def approx(expected, rel=1e-12):
    """pytest.approx of a JAX scalar."""
    return pytest.approx(float(expected), rel=rel)


# ---- inverses


def test_gradient_with_respect_to_the_outer_function():
    """int a(x) f(x^2) dx has the gradient a(sqrt y) / (2 sqrt y)."""
    g = function(_square, X)
    register_inverse(_square, jnp.sqrt)
    v = grad(lambda f: integrate(a * compose(f, g)))(f)
    assert v(0.49) == approx(np.cos(0.7) * 0.7 / 1.4)


def _square(x):
    return x**2


def test_inverses_of_functions_with_parameters():
    """The inverse gets the arrays that the function carries; derivatives with respect to them flow."""

    def affine(a, x):
        return a[0] * x + a[1]

    register_inverse(affine, lambda a, y: (y - a[1]) / a[0])
    everywhere = gauss(40, "z", -20.0, 20.0, ends=LINE)
    wave = function(lambda x: jnp.exp(-(x**2)), everywhere)
    v = lambda p: grad(lambda f: integrate(wave * compose(f, function(affine, everywhere, params=(p,)))))(wave)(0.6)
    p = jnp.array([2.0, 0.3])
    exact = lambda p: jnp.exp(-(((0.6 - p[1]) / p[0]) ** 2)) / p[0]
    assert v(p) == approx(exact(p))
    import jax

    np.testing.assert_allclose(jax.grad(v)(p), jax.grad(exact)(p), rtol=1e-11)


def test_inverses_of_vector_functions_and_compositions():
    """A rotation followed by a scaling of R^2, with the determinant found numerically."""
    x, w = np.polynomial.hermite.hermgauss(30)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    plane = Domain((2,), points=grid, weights=np.outer(w * np.exp(x**2), w * np.exp(x**2)).ravel(), ends=LINE)
    register_inverse(_turn, _turn_back)
    g = 0.9 * function(_turn, plane)
    gaussian = function(lambda r: jnp.exp(-jnp.sum(r**2) + 0.3 * r[0]), plane)
    other = function(lambda r: jnp.exp(-0.5 * jnp.sum(r**2)) * (1 + r[1]), plane)
    v = grad(lambda f: integrate(other * compose(f, g)))(gaussian)
    r = jnp.array([0.4, -0.2])
    assert v(r) == approx(other(_turn_back(r / 0.9)) / 0.81)
    assert integrate(v * gaussian) == approx(integrate(other * compose(gaussian, g)), rel=1e-10)


_C, _S = np.cos(0.7), np.sin(0.7)


def _turn(r):
    return jnp.stack([_C * r[0] - _S * r[1], _S * r[0] + _C * r[1]])


def _turn_back(r):
    return jnp.stack([_C * r[0] + _S * r[1], -_S * r[0] + _C * r[1]])


def test_missing_inverses_are_named():
    """Integrals need no inverse; values do, and the error says whose is missing and how to register it."""
    g = function(_not_registered, X)
    v = grad(lambda f: integrate(a * compose(f, g)))(f)
    assert integrate(v * f) == approx(integrate(a * compose(f, g)))
    with pytest.raises(NoRuleError, match="_not_registered.*register_inverse"):
        v(0.3)
    diagonal = grad(lambda k: integrate(compose(k, function(_square, X), function(_square, X))))(k2)
    assert integrate(diagonal * k2) == approx(1 / 5)
    with pytest.raises(NoRuleError, match="invertible function of its own argument"):
        diagonal(0.3, 0.2)
    with pytest.raises(NoRuleError, match="outside the space"):
        grad(lambda f: integrate(compose(f, f)))(f)
    with pytest.raises(SignatureError, match="code"):
        register_inverse(exp(f), f)


def test_a_function_of_itself():
    """E = int f(f(x)) dx: dE = int df(f(x)) + f'(f(x)) df(x) dx; the second derivative takes all four terms."""
    third = f / 3.0
    E = lambda f: integrate(compose(f, f))
    first = integrate(compose(a, third) + compose(nabla(third), third) * a)
    assert integrate(grad(E)(third) * a) == approx(first)
    assert jvp(E, (third,), (a,))[1] == approx(first)


def _not_registered(x):
    return x**3


def test_second_derivatives_that_need_the_inverse():
    """d/dg of int a f(g) is a f'(g); its derivative with respect to f is -d/dy of the transported density of a dg."""
    P = periodic(24)
    register_inverse(_shift, lambda y: y - 0.4)
    shift, wave = function(_shift, P), function(lambda x: jnp.sin(x) + 0.3 * jnp.cos(2 * x), P)
    weight, step = function(lambda x: 1 + jnp.cos(x), P), function(lambda x: jnp.sin(2 * x), P)

    def E(f):  # derivative of int weight f(g) along step at g = shift
        return jvp(lambda g: integrate(weight * compose(f, g)), (shift,), (step,))[1]

    def E2(f):
        return integrate(grad(lambda g: integrate(weight * compose(f, g)))(shift) * step)

    exact = lambda y: -(jnp.cos(2 * (y - 0.4)) * 2 * (1 + jnp.cos(y - 0.4)) - jnp.sin(2 * (y - 0.4)) * jnp.sin(y - 0.4))
    for functional in (E, E2):
        assert grad(functional)(wave)(0.9) == approx(exact(0.9))
        assert integrate(grad(functional)(wave) * step) == approx(functional(step))


def _shift(x):
    return x + 0.4


def test_rules_that_do_not_exist():
    """linearize without a quadrature of directions; a moving quadrature in a functional gradient."""
    bare = Domain((), name="bare")
    with pytest.raises(NoRuleError, match="directions.*bare.*tangent domain"):
        vjp(lambda f: linearize(f, 0, bare), f)[1](function(lambda x, t: x * t, X, bare))
    with pytest.raises(NoRuleError, match="moving quadrature"):
        points, weights = jnp.asarray(X.points), jnp.asarray(X.weights)
        grad(lambda f: integrate(jvp(lambda s: _over(f, points * s, weights), (1.0,), (1.0,))[1]))(f)


def _over(f, points, weights):
    """A Function whose graph carries the quadrature."""
    return integrate(broadcast(f, (X, Y), (0,)), 0, quadrature=(points, weights)) * function(jnp.cos, Y)


# ---- Dirac distributions


def test_integrals_of_dirac_terms():
    """grad of f(x0)^2 + int f^2 is 2 f(x0) delta + 2 f: products, sums, quotients and broadcasts are integrated."""
    v = grad(lambda f: f(R) ** 2 + integrate(f * f))(f)
    assert integrate(v * a) == approx(2 * f(R) * a(R) + 2 * integrate(f * a))
    assert integrate(-v * a / 2.0 + a) == approx(-f(R) * a(R) - integrate(f * a) + integrate(a))
    assert integrate(v * exp(a)) == approx(2 * f(R) * np.exp(float(a(R))) + 2 * integrate(f * exp(a)))
    column = integrate(broadcast(v, (Y, X), (1,)) * permute(k, (1, 0)), 1)  # y -> int v(x) k(x, y) dx
    assert column(0.2) == approx(2 * f(R) * k(R, 0.2) + 2 * integrate(f * partial(k, 1, 0.2)))


def test_dirac_terms_in_one_of_two_arguments():
    """grad of int k(x0, y)^2 dy with respect to k is 2 k(x0, y) delta(x - x0)."""
    v = grad(lambda k: integrate(partial(k, 0, R) ** 2))(k)
    other = function(lambda x, y: jnp.cos(x * y), X, Y)
    line = partial(k, 0, R) * partial(other, 0, R)
    assert integrate(v * other) == approx(2 * integrate(line))
    over_x = integrate(v * other, 0)
    assert over_x(0.6) == approx(2 * line(0.6))
    over_y = integrate(v * other, 1)  # still a distribution in x
    assert integrate(over_y * f) == approx(2 * f(R) * integrate(line))
    both = grad(lambda k: k(R, 0.2) ** 2)(k)
    assert integrate(both * other) == approx(2 * k(R, 0.2) * other(R, 0.2))
    assert integrate(integrate(both * other, 0) * function(jnp.exp, Y)) == approx(
        2 * k(R, 0.2) * other(R, 0.2) * np.exp(0.2)
    )


class Reflect(Operator):
    """x -> f(1 - x), an operator in a file of its own: meaning, transpose, and where it takes Dirac terms."""

    name, linear = "reflect", True

    def signature(self, operands, arrays, static):
        return operands[0].signature

    def evaluate(self, node, x):
        return (yield node.operands[0], [1 - x])

    def transpose(self, node, cotangent, needed):
        return [reflect(cotangent)]

    def separate(self, node):
        regular, terms = op.separate(node.operands[0])
        moved = [replace(t, points=tuple(1 - p for p in t.points)) for t in terms]
        return None if regular is None else reflect(regular), moved


REFLECTION = Reflect()


def reflect(f, operator=REFLECTION):
    return Function(operator, (f,), (), {})


def test_an_operator_of_another_file_says_where_dirac_terms_go():
    """d f(1 - R)^2 = 2 f(1 - R) df(1 - R); also beside an integral. One that does not say it is refused by name."""

    def energy(f):
        return reflect(f)(R) ** 2 + integrate(reflect(f) ** 2)

    at_point = 2 * f(1 - R) * a(1 - R)
    assert jvp(energy, (f,), (a,))[1] == approx(at_point + 2 * integrate(f * a))
    assert integrate(grad(energy)(f) * a) == approx(at_point + 2 * integrate(f * a))
    silent = type("Silent", (Reflect,), {"name": "silent", "separate": Operator.separate})()
    silent.transpose = lambda node, cotangent, needed: [reflect(cotangent, silent)]
    with pytest.raises(NoRuleError, match="can't pass through operator 'silent'"):
        integrate(grad(lambda f: reflect(f, silent)(R))(f) * a)


def test_second_derivatives_of_point_values():
    """E = f(x0)^3 int f: Hessian-vector products with deltas, paired with a direction."""
    E = lambda f: f(R) ** 3 * integrate(f)
    F, I, A, J = float(f(R)), float(integrate(f)), float(a(R)), float(integrate(a))
    exact = 6 * F * A * A * I + 2 * 3 * F**2 * A * J
    assert integrate(hvp(E, f, a) * a) == approx(exact)
    assert integrate(hvp(E, f, a, "reverse-over-forward") * a) == approx(exact)
    assert integrate(hvp(E, f, a, "reverse-over-reverse") * a) == approx(exact)


def test_transpose_of_point_evaluation():
    """at(f, x0) gives s delta(x - x0); a functional of a distribution can't be differentiated with respect to it."""
    delta = vjp(lambda f: at(f, R), f)[1](at(f, R))[0]
    assert integrate(delta * a) == approx(f(R) * a(R))
    with pytest.raises(NoRuleError, match="variable"):
        grad(lambda g: integrate(g * a))(delta)


def test_distributions_have_no_values():
    """Calling one, powers of one and derivatives of one are errors, also hidden in sums."""
    v = grad(lambda f: f(R) ** 2 + integrate(f))(f)
    with pytest.raises(NoRuleError, match="no values"):
        v(0.2)
    with pytest.raises(NoRuleError, match="no values"):
        (v + f)(0.2)
    with pytest.raises(NoRuleError, match="not linear"):
        integrate(v * v)
    with pytest.raises(NoRuleError, match="nabla"):
        integrate(nabla(v) * f)
    with pytest.raises(NoRuleError, match="not linear"):
        integrate(exp(v))


# ---- pairings of linear_transpose


def hermite_plane(n):
    x, w = np.polynomial.hermite.hermgauss(n)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    return Domain((2,), points=grid, weights=np.outer(w, w).ravel())


M = jnp.array([[1.0, 2.0], [-0.5, 0.7]])
A2, B2 = hermite_plane(4), hermite_plane(5)
linear = function(lambda r: M @ r, A2)


def test_linear_transpose_is_the_transposed_map():
    """f(x) = M x gives M^T y; twice gives f back; other arguments stay in place."""
    t = linear_transpose(linear, domain=B2)
    y = jnp.array([0.3, -1.1])
    np.testing.assert_allclose(t(y), M.T @ y)
    np.testing.assert_allclose(linear_transpose(t, domain=A2)(y), M @ y)
    bilinear = function(lambda x, r, z: x * z * (M @ r), X, A2, Y)
    np.testing.assert_allclose(linear_transpose(bilinear, 1)(0.5, 2.0, y), M.T @ y)


def test_l2_pairing():
    """int (f^T y) . c(y) dmu(y) = int f(x) . G(x) dmu(x) for linear f and any c; G is linear."""
    c = function(lambda s: jnp.stack([s[0] ** 2 * s[1] + s[1], jnp.sin(s[0])]), B2)
    E = lambda f: integrate(compose(jnp.dot, linear_transpose(f, domain=B2), c))
    G = grad(E)(linear)
    assert integrate(compose(jnp.dot, G, linear)) == approx(E(linear))
    np.testing.assert_allclose(G(jnp.array([2.0, 0.0])), 2 * G(jnp.array([1.0, 0.0])))
    with pytest.raises(Exception, match="quadrature"):
        grad(lambda f: integrate(compose(jnp.dot, linear_transpose(f, domain=B2), c)))(
            function(lambda r: M @ r, Domain((2,)))
        )


def test_hilbert_schmidt_pairing():
    """tr(M^T N): the transpose of f -> f^T is c -> c^T, without any quadrature; c must be linear."""
    bare = Domain((2,))
    g = function(lambda r: M @ r, bare)
    transposed = lambda f: linear_transpose(f, pairing="hilbert-schmidt")
    c = linear_transpose(function(lambda r: jnp.array([[0.0, 1.0], [3.0, 2.0]]) @ r, bare))
    (back,) = vjp(transposed, g)[1](c)
    y = jnp.array([0.3, -1.1])
    np.testing.assert_allclose(back(y), jnp.array([[0.0, 1.0], [3.0, 2.0]]) @ y)
    with pytest.raises(NoRuleError, match="linear cotangent"):
        vjp(transposed, g)[1](compose(lambda v: v**2, c))


def test_inverse_pairing():
    """Eq. 16 of the paper: int y f(c(y)) dy = int f(x) c^-1(x) |det D c^-1(x)| dx."""
    scale = function(lambda x: 2.0 * x, X)
    c = function(_cubic, X)
    register_inverse(_cubic, _cubic_inverse)
    (back,) = vjp(lambda f: linear_transpose(f, domain=X, pairing="inverse"), scale)[1](c)
    t = linear_transpose(scale, domain=X)
    assert integrate(back * scale) == approx(integrate(t * c))
    assert integrate(t * c) == approx(2 * (0.25 * 1 / 2 + 1 / 3) / 1.5, rel=1)  # a positive number of order one


def _cubic(y):
    return jnp.log1p(y * (np.e - 1))


def _cubic_inverse(x):
    return jnp.expm1(x) / (np.e - 1)


def test_errors_of_linear_transpose():
    """Functions that are not linear, wrong domains, unknown pairings: when the graph is built, by name."""
    with pytest.raises(SignatureError, match="not linear in argument 0"):
        linear_transpose(f)
    with pytest.raises(SignatureError, match="not linear"):
        linear_transpose(function(lambda r: M @ r + 1.0, A2))
    with pytest.raises(SignatureError, match="argnum 3"):
        linear_transpose(linear, 3)
    with pytest.raises(SignatureError, match="not the space"):
        linear_transpose(linear, domain=X)
    with pytest.raises(SignatureError, match="pairing"):
        linear_transpose(linear, pairing="L1")
