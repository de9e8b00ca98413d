"""Transformations inside transformations: nothing that a derivative depends on is lost on the way."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd.autofd import (
    Domain,
    at,
    braket,
    compose,
    constant,
    exp,
    function,
    grad,
    hvp,
    integrate,
    jvp,
    nabla,
    partial,
    real,
    square,
    value_and_grad,
    vjp,
)
from dftfd.errors import NoRuleError
from tests.sample import sample

_x, _w = np.polynomial.legendre.leggauss(30)
X = Domain((), points=(_x + 1) / 2, weights=_w / 2, name="x")
f = function(lambda x: jnp.sin(3 * x) + 1.5, X)
A, B, C = (function(code, X) for code in (lambda x: jnp.exp(-x), lambda x: jnp.cos(2 * x), lambda x: x**2 - 0.3))
R = 0.3


def approx(expected, rel=1e-12):
    """pytest.approx of a JAX scalar."""
    return pytest.approx(float(expected), rel=rel)


FUNCTIONALS = {
    "product": lambda f: integrate(f) ** 2 * integrate(exp(f)),
    "normalised": lambda f: integrate(exp(f / jnp.sqrt(integrate(f * f)))),
    "feedback": lambda f: integrate(f * integrate(f * f) * exp(f * integrate(f))),
    "gradient and feedback": lambda f: integrate(exp(f) * square(nabla(f))) * integrate(f),
    "parameters": lambda f: integrate(
        f * function(lambda a, x: jnp.exp(a[0] * x) + a[1], X, params=(jnp.stack([integrate(f), integrate(f * f)]),))
    ),
    "hidden in a nested function": lambda f: _hidden(f),
    "weights of a quadrature": lambda f: integrate(
        f * f, quadrature=(jnp.asarray(X.points), jnp.asarray(X.weights) * integrate(f))
    ),
    "points of a quadrature": lambda f: integrate(
        f * f, quadrature=(jnp.asarray(X.points) * (0.5 + 0.1 * integrate(f)), jnp.asarray(X.weights))
    ),
    "fixed argument": lambda f: integrate(
        partial(function(lambda x, y: jnp.sin(x * y), X, X), 1, 0.2 * integrate(f)) * f
    ),
}


def _hidden(f):
    s = integrate(f)
    inner = lambda v: s * v
    return integrate(compose(lambda v: jnp.sin(inner(v)), f))


def second(E, a, b):
    """d2 E / da db at f by differences of jvp; error about 1e-9."""
    h = 1e-5
    return (jvp(E, (f + h * b,), (a,))[1] - jvp(E, (f - h * b,), (a,))[1]) / (2 * h)


GRIDS = ("gradient and feedback", "weights of a quadrature", "points of a quadrature")


@pytest.mark.parametrize("name", sample(FUNCTIONALS, (*GRIDS, "feedback")))
def test_forward_over_forward_and_its_symmetry(name):
    """jvp of jvp agrees with a finite difference and does not depend on the order (1e-12)."""
    E = FUNCTIONALS[name]
    along = lambda a, b: jvp(lambda f: jvp(E, (f,), (a,))[1], (f,), (b,))[1]
    ab, ba, difference = jax.jit(lambda: (along(A, B), along(B, A), second(E, A, B)))()
    assert ab == approx(difference, rel=1e-7)
    assert ab == approx(ba, rel=1e-12)


MODES = ("forward-over-reverse", "reverse-over-forward", "reverse-over-reverse")
ALL = [(name, mode) for name in FUNCTIONALS if name not in GRIDS for mode in MODES]


@pytest.mark.parametrize(("name", "mode"), sample(ALL, at=range(0, len(ALL), 4)))  # each name, each mode
def test_second_derivatives_are_symmetric(name, mode):
    """<H A, B> = <A, H B> to 1e-12, in every mode, and equal to forward over forward."""
    E = FUNCTIONALS[name]
    left, right, forward = jax.jit(
        lambda: (
            integrate(hvp(E, f, A, mode) * B),
            integrate(A * hvp(E, f, B, mode)),
            jvp(lambda f: jvp(E, (f,), (A,))[1], (f,), (B,))[1],
        )
    )()
    assert left == approx(right, rel=1e-12)
    assert left == approx(forward, rel=1e-11)


def test_second_derivative_with_nabla_on_functions_that_vanish_at_the_boundary():
    """The same where partial integration drops no surface term."""
    E = FUNCTIONALS["gradient and feedback"]
    a, b = (function(code, X) for code in (lambda x: (x * (1 - x)) ** 3, lambda x: x**4 * (1 - x) ** 3))
    left, right = integrate(hvp(E, f, a) * b), integrate(a * hvp(E, f, b))
    assert left == approx(right, rel=1e-11)
    assert left == approx(second(E, a, b), rel=1e-6)


THIRD = {
    "forward over forward over reverse": lambda E, a, b, c: integrate(
        jvp(lambda f: jvp(grad(E), (f,), (a,))[1], (f,), (b,))[1] * c
    ),
    "reverse over reverse over reverse": lambda E, a, b, c: integrate(
        grad(lambda f: integrate(grad(lambda f: integrate(grad(E)(f) * a))(f) * b))(f) * c
    ),
    "reverse over forward over reverse": lambda E, a, b, c: integrate(
        grad(lambda f: integrate(jvp(grad(E), (f,), (a,))[1] * b))(f) * c
    ),
    "forward over reverse over forward": lambda E, a, b, c: integrate(
        jvp(grad(lambda f: jvp(E, (f,), (a,))[1]), (f,), (b,))[1] * c
    ),
}


@pytest.mark.parametrize("mode", sample(THIRD, ["reverse over forward over reverse"]))
@pytest.mark.parametrize("name", sample(["product", "normalised", "feedback"], ["product"]))
def test_third_derivatives_are_symmetric_and_agree(name, mode):
    """All six orders of three directions, and the finite difference of second derivatives."""
    E = FUNCTIONALS[name]
    orders, h = itertools.islice(itertools.permutations((A, B, C)), 0, 6, 2), 1e-4
    hessian = lambda f: jvp(lambda f: jvp(E, (f,), (A,))[1], (f,), (B,))[1]
    *values, difference = jax.jit(
        lambda: [*(THIRD[mode](E, *abc) for abc in orders), (hessian(f + h * C) - hessian(f - h * C)) / (2 * h)]
    )()
    for v in values[1:]:
        assert v == approx(values[0], rel=1e-10)
    assert values[0] == approx(difference, rel=1e-5)


def test_sensitivities_that_depend_on_the_outer_function():
    """d/dc of integral of f c is integral of f: its derivative with respect to f is 1."""
    inner = lambda f: grad(lambda c: integrate(f * c))(2.0)
    assert inner(f) == approx(integrate(f))
    assert grad(inner)(f)(R) == approx(1.0)
    assert jvp(inner, (f,), (A,))[1] == approx(integrate(A))


def test_arrays_and_functions_differentiated_at_different_levels():
    """d/da of the functional gradient at a point, and the functional gradient of d/da."""
    E = lambda f, a: integrate(f * f * a) * jnp.sum(a * a) + integrate(exp(f)) * a
    v = lambda a: at(grad(E)(f, a), R)()
    assert grad(v)(1.3) == approx(jax.grad(lambda a: 2 * f(R) * a**3 + jnp.exp(f(R)) * a)(1.3))
    slope = grad(lambda f: grad(E, argnums=1)(f, 1.3))(f)
    assert slope(R) == approx(2 * f(R) * 3 * 1.3**2 + jnp.exp(f(R)))


def test_inner_gradient_of_an_unrelated_function():
    """An inner transformation of a function that has nothing to do with the outer one is a constant."""
    g = function(lambda x: jnp.cos(x), X)
    E = lambda f: integrate(f * f) * integrate(grad(lambda g: integrate(g**3))(g))
    assert grad(E)(f)(R) == approx(2 * f(R) * 3 * integrate(g * g))


def test_inner_gradient_at_a_function_made_of_numbers_of_the_outer_one():
    """grad(F)(f * s) with s = integral of f: both paths of f count."""
    F = lambda g: integrate(exp(g))
    E = lambda f: integrate(grad(F)(f * integrate(f)) * A)
    d = B
    h = 1e-5
    assert integrate(grad(E)(f) * d) == approx((E(f + h * d) - E(f - h * d)) / (2 * h), rel=1e-8)
    assert jvp(E, (f,), (d,))[1] == approx(integrate(grad(E)(f) * d), rel=1e-12)


def test_complex_numbers_that_depend_on_an_inner_function():
    """Values that are complex, and arrays computed from them that are not analytic, are differentiated as reals."""
    psi = function(lambda x: jax.lax.complex(jnp.cos(2 * x) * (1 + x), jnp.sin(2 * x)), X)
    a = function(lambda x: jax.lax.complex(jnp.cos(x**2), jnp.sin(x**2)), X)
    b = function(lambda x: jax.lax.complex(0.3 * jnp.cos(x), -jnp.cos(x)), X)

    def E(p):
        overlap = braket(a, p)  # complex
        weighted = real(compose(lambda v, s: v * jnp.conj(s) * s * s, p, constant(overlap, X)))
        return integrate(weighted) + jnp.abs(overlap) ** 4

    difference = lambda E, h=1e-5: (E(psi + h * b) - E(psi - h * b)) / (2 * h)
    slope = lambda p: jvp(E, (p,), (a,))[1]
    paired, first, second = jax.jit(lambda: (jnp.real(integrate(grad(E)(psi) * b)), difference(E), difference(slope)))()
    assert paired == approx(first, rel=1e-8)
    for mode in MODES:
        product = jax.jit(lambda p, q, mode=mode: jnp.real(integrate(hvp(E, psi, p, mode) * q)))
        ab, ba = product(a, b), product(b, a)
        assert ab == approx(ba, rel=1e-11), mode
        assert ab == approx(second, rel=1e-7)


def test_arrays_without_entries():
    """A parameter of size zero has no derivative and does no harm."""
    E = lambda f: integrate(
        f * function(lambda a, x: jnp.sum(a) + integrate_free(x), X, params=(jnp.zeros(0) * integrate(f),))
    )
    integrate_free = jnp.cos
    assert integrate(hvp(E, f, A) * B) == pytest.approx(0.0, abs=1e-12)
    assert grad(E)(f)(R) == approx(np.cos(R))


def test_large_arrays_that_do_not_depend_on_the_inner_function():
    """Only arrays that move are followed entry by entry; a table made anew in each run is not one of them."""
    table = np.linspace(0.0, 1.0, 500)

    def E(f):
        g = function(lambda t, x: jnp.sum(jnp.cos(t * x)) / 500, X, params=(table,))
        return integrate(f * f * g) * integrate(f)

    assert integrate(hvp(E, f, A) * B) == approx(integrate(A * hvp(E, f, B)), rel=1e-12)


def test_large_arrays_that_do_are_refused():
    """More than 64 entries would cost as many evaluations; the error says so."""

    def E(f):
        g = function(lambda t, x: jnp.sum(t) * x, X, params=(integrate(f) * jnp.ones(100),))
        return integrate(f * g)

    assert grad(E)(f)(R) == approx(100 * (R * integrate(f) + integrate(f * function(lambda x: x, X))))
    with pytest.raises(NoRuleError, match="100 entries"):
        hvp(E, f, A)


def test_nested_branches_on_values():
    """An if on an integral inside nested transformations."""
    E = lambda f: integrate(f**3) if integrate(f) > 0 else integrate(f)
    assert hvp(E, f, A)(R) == approx(6 * f(R) * A(R))


def test_nested_auxiliary_data():
    """An inner value_and_grad with aux whose parts are used by the outer functional."""

    def E(f):
        (value, aux), v = value_and_grad(lambda f: (integrate(f * f), integrate(f)), has_aux=True)(f)
        return value * aux + integrate(v * A)

    exact = lambda r: 2 * f(r) * integrate(f) + integrate(f * f) + 2 * A(r)
    assert grad(E)(f)(R) == approx(exact(R))


def test_transposed_operators_inside_a_functional():
    """vjp of an operator that uses numbers of the outer function, without and with numbers of the inner one."""
    plain = lambda f: integrate(vjp(lambda g: exp(g) * integrate(f), B)[1](A)[0] * f)
    paired = lambda f: integrate(vjp(lambda g: g * integrate(g * f), B)[1](A)[0] * f)
    h = 1e-5
    for E in (plain, paired):
        assert integrate(grad(E)(f) * C) == approx((E(f + h * C) - E(f - h * C)) / (2 * h), rel=1e-8)
        assert jvp(E, (f,), (C,))[1] == approx(integrate(grad(E)(f) * C), rel=1e-12)


@pytest.mark.slow  # 1 s; test_array_derivatives_of_functional_derivatives is quick
def test_transformations_around_a_nest_by_jax():
    """jit, vmap and an array derivative of a second functional derivative."""
    family = lambda a: function(lambda a, x: a * jnp.sin(3 * x) + 1.5, X, params=(a,))
    second_at = lambda a: hvp(FUNCTIONALS["normalised"], family(a), A)(R)
    plain = second_at(0.8)
    assert jax.jit(second_at)(0.8) == approx(plain, rel=1e-11)
    np.testing.assert_allclose(jax.vmap(second_at)(jnp.array([0.8, 1.0]))[0], plain, rtol=1e-11)
    h = 1e-5
    assert jax.grad(second_at)(0.8) == approx((second_at(0.8 + h) - second_at(0.8 - h)) / (2 * h), rel=1e-6)
