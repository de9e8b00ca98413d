"""Images of inner functions, measures of explicit quadratures, nabla of integrals, complex values, powers at zero.

Each was silently wrong once. Changes of functionals are central differences of their values.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd import autofd as fd
from dftfd.errors import NoRuleError, QuadratureError, SignatureError
from tests.sample import sample

X, P = fd.interval(30, 0.0, 1.0), fd.periodic(36)
x = fd.identity(X)
f = fd.function(lambda x: jnp.sin(3 * x) + 1.5, X)
d = fd.function(lambda x: jnp.exp(-x), X)
w = fd.function(lambda x: 1 + x * x, X)
wave = fd.function(lambda x: jnp.sin(x) + 1.5, P)
ripple = fd.function(lambda x: jnp.cos(2 * x), P)


def change(E, f, d, h=1e-4):
    return (8 * (E(f + h * d) - E(f - h * d)) - (E(f + 2 * h * d) - E(f - 2 * h * d))) / (12 * h)


def assert_pairs(E, f=f, d=d, grad=fd.grad):
    assert float(fd.integrate(grad(E)(f) * d)) == pytest.approx(float(change(E, f, d)), rel=1e-8)


# ---- compositions


INNER = (x / 2.0, fd.tanh(x), 0.0 * x, x**2, 1.0 - x, (2.0 * x - 1.0) ** 2, fd.sin(3.0 * x) ** 2)


@pytest.mark.parametrize("g", sample(INNER, at=[0, 2, 5]))
def test_gradient_in_the_outer_function(g):
    """Onto a part of the space, constant, one-to-one and not: int w f(g)^2."""
    assert_pairs(lambda f: fd.integrate(w * f(g) ** 2))


@pytest.mark.parametrize("g", [2.0 * x - 1.0, x - 0.3, fd.exp(x), -x, fd.tan(2.0 * x), 0.0 * x + 2.0])
def test_an_inner_function_that_leaves_the_space_is_refused(g):
    """f would be evaluated where the space has ended, out of reach of the pairing."""
    with pytest.raises(NoRuleError, match="outside the space"):
        fd.grad(lambda f: fd.integrate(w * f(g) ** 2))(f)


@pytest.mark.parametrize("turns", sample([1, 2, -3], [-3]))
def test_a_circle_wound_around_several_times(turns):
    """Each point has that many preimages."""
    g = float(turns) * fd.identity(P) + 0.4
    E = lambda f: fd.integrate((2.0 + ripple) * f(g) ** 2)
    assert_pairs(E, wave, wave + ripple)
    y, n = 1.3, abs(turns)
    preimages = (y - 0.4 + 2 * np.pi * np.arange(n)) / turns
    assert float(fd.grad(E)(wave)(y)) == pytest.approx(
        sum(float((2 + ripple(p)) * 2 * wave(y)) for p in preimages) / n, rel=1e-12
    )


def test_values_of_the_image():
    """x/2 has the density 2 ct(2y) below 1/2 and none above; x^2 on [-1, 1] two preimages."""
    v = fd.grad(lambda f: fd.integrate(w * f(x / 2.0)))(f)
    assert float(v(0.3)) == pytest.approx(2 * (1 + 0.36)) and float(v(0.7)) == 0.0
    Z = fd.interval(30, -1.0, 1.0)
    u = fd.function(lambda z: jnp.exp(z), Z)
    v = fd.grad(lambda f: fd.integrate(u * f(fd.identity(Z) ** 2)))(f)
    assert float(v(0.25)) == pytest.approx(np.exp(0.5) + np.exp(-0.5))
    with pytest.raises(NoRuleError, match="register_inverse"):
        fd.grad(lambda f: fd.integrate(f(fd.sin(x))))(f)(0.3)


def test_a_wrong_inverse_gives_no_values():
    """What is registered is tried: a wrong branch, a missing one, a wrong determinant."""
    cases = [
        (lambda x: 0.25 * x + 0.1, lambda y: 4 * y, None),
        (lambda x: (x - 0.5) ** 2, lambda y: 0.5 + jnp.sqrt(y), None),
        (lambda x: 0.5 * x + 0.1, lambda y: 2 * (y - 0.1), lambda y: 0.0 * y),
    ]
    for g, inverse, logabsdet in cases:
        fd.register_inverse(g, inverse, logabsdet)
        v = fd.grad(lambda f, g=g: fd.integrate(w * f(fd.function(g, X))))(f)
        assert float(fd.integrate(v * d)) == pytest.approx(float(fd.integrate(w * d(fd.function(g, X)))), rel=1e-12)
        with pytest.raises(NoRuleError, match="one-to-one|determinant"):
            v(0.2)


# ---- measures


def rule(a, b, n=20):
    t, v = np.polynomial.legendre.leggauss(n)
    return (a + b) / 2 + (b - a) / 2 * t, (b - a) / 2 * v


@pytest.mark.parametrize("grad", sample([fd.grad, jax.grad], [fd.grad]))
def test_explicit_quadratures(grad):
    """Another rule of the measure, a multiple of it, one that the function sets; other measures are refused."""
    assert_pairs(lambda f: fd.integrate(f**2, quadrature=rule(0, 1)) + fd.integrate(f), grad=grad)
    assert_pairs(lambda f: fd.integrate(f**2, quadrature=(X.points, 2 * X.weights)) + fd.integrate(f), grad=grad)
    halves = lambda f: fd.integrate(f * f, quadrature=rule(0, 0.5)) + fd.integrate(f * f, quadrature=rule(0.5, 1))
    with pytest.raises(QuadratureError, match="another measure"):
        grad(halves)(f)
    bare = fd.function(lambda x: jnp.sin(3 * x), fd.Domain(()))
    with pytest.raises(QuadratureError, match="different quadratures"):
        grad(halves)(bare)


def test_weights_that_depend_on_the_function():
    """(int f)^2, one factor in the weights."""
    assert_pairs(lambda f: fd.integrate(f, quadrature=(X.points, X.weights * fd.integrate(f))))


@pytest.mark.parametrize("factor", [np.nan, np.inf, 1j])
def test_weights_are_finite_and_real(factor):
    with pytest.raises(QuadratureError, match="finite|complex"):
        fd.integrate(f, quadrature=(X.points, np.asarray(X.weights) * factor))
    with pytest.raises(QuadratureError, match="finite|complex"):
        fd.integrate(fd.function(jnp.sin, fd.Domain((), points=X.points, weights=np.asarray(X.weights) * factor)))


@pytest.mark.parametrize(
    "options",
    [
        {"ends": (0.2, 1.0)},
        {"ends": (0.0, 2.0)},
        {"ends": (1.0, 0.0)},
        {"ends": (0.0, np.inf), "periodic": True},
        {"ends": "here"},
        {"periodic": True},
        {"surface": True},
        {"ends": (0.0, 1.0), "discrete": True},
    ],
)
def test_what_a_space_declares_is_checked(options):
    with pytest.raises(QuadratureError):
        fd.Domain((), points=X.points, weights=X.weights, **options)


# ---- boundaries


def test_nabla_of_an_integral_moves_inside():
    """int (d/dx int k(x, y) f(y) dy)^2 dx: nothing is required of f at the ends; equal to nabla written inside."""
    k = fd.function(lambda x, y: jnp.exp(-5 * (x - y) ** 2), X, X)
    outside, inside = lambda f: fd.integrate(fd.nabla(k @ f) ** 2), lambda f: fd.integrate((fd.nabla(k, 0) @ f) ** 2)
    assert float(fd.grad(outside)(f)(0.4)) == pytest.approx(float(fd.grad(inside)(f)(0.4)), rel=1e-12)
    assert_pairs(outside)
    assert_pairs(lambda f: fd.integrate(fd.laplacian(fd.sin(k @ f)) * w))


def test_boundary_terms_on_request():
    """int f'^2: with the terms at the ends the gradient pairs with every change, without them it is -2 f''."""
    S = fd.interval(30, 0.0, 1.0, surface=True)
    E = lambda f: fd.integrate(fd.nabla(f) ** 2)
    assert_pairs(E, fd.function(lambda x: jnp.sin(3 * x), S), fd.function(lambda x: jnp.exp(-x), S))
    assert float(fd.grad(E)(f)(0.3)) == pytest.approx(18 * np.sin(0.9), rel=1e-12)


def test_sums_over_points_have_no_partial_integration():
    N = fd.discrete([0.0, 1.0, 2.0])
    u = fd.function(jnp.sin, N)
    assert float(fd.integrate(u)) == pytest.approx(np.sin(1.0) + np.sin(2.0))
    with pytest.raises(NoRuleError, match="separate points"):
        fd.grad(lambda f: fd.integrate(fd.nabla(f) ** 2))(u)


# ---- complex values, zeros, spaces


def test_complex_jacobians():
    """The imaginary part stays, or the Jacobian is refused."""
    of_integral = fd.jacrev(lambda f: jax.lax.complex(fd.integrate(f), 2 * fd.integrate(f)))
    assert complex(of_integral(f)(0.3)) == pytest.approx(1 + 2j)
    of_phase = fd.jacrev(lambda a: jnp.exp(jax.lax.complex(0.0 * a, a)))
    np.testing.assert_allclose(of_phase(jnp.array(0.3)), 1j * np.exp(0.3j))
    z = jnp.array(1 + 2j)
    for jacobian in (fd.jacfwd(lambda z: jnp.abs(z) ** 2), fd.jacrev(lambda z: z * z)):
        with pytest.raises(SignatureError, match="holomorphic"):
            jacobian(z)


@pytest.mark.parametrize("p", sample([4 / 3, 1.5, 5 / 3, 7 / 6, 2.5, 1.25, 17 / 6], [4 / 3, 2.5]))
def test_powers_have_a_derivative_at_zero(p):
    """0 as in JAX; elsewhere p x^(p-1), and the second derivative as JAX's."""
    zero = fd.function(lambda x: 0.0 * x, X)
    assert float(fd.grad(lambda f: fd.integrate(f**p))(zero)(0.3)) == 0.0
    ours, theirs = (lambda v: fd.power(v, p)), (lambda v: jnp.power(v, p))
    for v in (0.7, 1e-30):
        assert float(jax.grad(ours)(v)) == pytest.approx(float(jax.grad(theirs)(v)), rel=1e-13)
    assert float(jax.grad(jax.grad(ours))(0.7)) == pytest.approx(float(jax.grad(jax.grad(theirs))(0.7)), rel=1e-12)
    assert np.isnan(ours(jnp.array(-1.0)))


@pytest.mark.parametrize("door", [jax.jvp, fd.jvp])
def test_tangents_live_on_the_space_of_their_function(door):
    with pytest.raises(SignatureError, match="domains"):
        door(lambda f: fd.integrate(f), (f,), (wave,))
