"""Spaces with a quadrature: exactness, measures with a density, products, random points."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dftfd import autofd
from dftfd.errors import QuadratureError


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_interval_is_exact_to_degree_2n_minus_1(n):
    """Gauss-Legendre on [-1, 3]: powers of x integrate to (3^(k+1) - (-1)^(k+1)) / (k+1), and not beyond 2n - 1."""
    X = autofd.interval(n, -1.0, 3.0)
    x, w = np.asarray(X.points) - 1, np.asarray(X.weights)  # centred, so the moments are (2^(k+1) - (-2)^(k+1))/(k+1)
    for k in range(2 * n):
        exact = 0.0 if k % 2 else 2 * 2.0 ** (k + 1) / (k + 1)
        assert np.sum(w * x**k) == pytest.approx(exact, rel=1e-12, abs=1e-12 * 2.0**k)
    assert abs(np.sum(w * x ** (2 * n)) / (2 * 2.0 ** (2 * n + 1) / (2 * n + 1)) - 1) > 1e-16 * 4**-n


def test_panels_split_the_interval():
    """A hundred panels resolve a peak that one rule of as many points per panel does not; the length stays."""
    peak = lambda x: 1 / (1e-4 + (x - 0.37) ** 2)
    exact = 100 * (np.arctan(63.0) + np.arctan(37.0))
    coarse, fine = (autofd.integrate(autofd.function(peak, autofd.interval(12, 0.0, 1.0, panels=p))) for p in (1, 100))
    assert abs(fine / exact - 1) < 1e-10 < abs(coarse / exact - 1)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_hermite_moments(n):
    """The integral of u^(2k) exp(-u^2) is Gamma(k + 1/2), u = (x - centre) / width, exact to degree 2n - 1."""
    from scipy.special import gamma

    X = autofd.gauss_hermite(n, centre=0.5, width=2.0)
    u = (np.asarray(X.points) - 0.5) / 2.0
    for k in range(0, min(n, 12)):
        assert np.sum(np.asarray(X.weights) * u ** (2 * k)) == pytest.approx(2.0 * gamma(k + 0.5), rel=1e-12)
    assert float(X.density(jnp.asarray(2.5))) == pytest.approx(np.exp(-1.0))


@pytest.mark.slow  # 1 s; test_adjoint_identity has nabla with a weighted measure
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.floats(-2, 2), min_size=5, max_size=5), st.lists(st.floats(-2, 2), min_size=5, max_size=5))
def test_nabla_and_its_transpose_with_a_weighted_measure(a, b):
    """<nabla f, g> = <f, nabla^T g> with the measure exp(-x^2) dx for polynomials of degree 4, to 1e-12 of the size."""
    polynomial = lambda c: autofd.function(lambda c, x: jnp.polyval(c, x), HERMITE, params=(jnp.array(c),))
    f, g = polynomial(a), polynomial(b)
    _, pull = autofd.vjp(autofd.nabla, f)
    left, right = autofd.integrate(autofd.nabla(f) * g), autofd.integrate(f * pull(g)[0])
    size = 1 + float(autofd.integrate(abs(f) + abs(g))) ** 2
    assert abs(float(left) - float(right)) < 1e-12 * size


HERMITE = autofd.gauss_hermite(20)


def test_periodic_is_exact_for_trigonometric_polynomials():
    """n points integrate exp(2 pi i k x / L) to L for k = 0 and to 0 up to |k| = n - 1; at k = n aliasing sets in."""
    n, length = 9, 3.0
    X = autofd.periodic(n, length, start=-0.4)
    x, w = np.asarray(X.points), np.asarray(X.weights)
    moments = [abs(np.sum(w * np.exp(2j * np.pi * k * x / length))) for k in range(n + 1)]
    np.testing.assert_allclose(moments, [length] + [0.0] * (n - 1) + [length], atol=1e-13)


@pytest.mark.parametrize("n", [8, 9])
def test_fourier_interpolates_and_is_periodic(n):
    """Through the values at the points, with the period, exact for a band-limited function and its derivative."""
    X = autofd.periodic(n, 3.0, start=0.2)
    code = lambda x: 0.3 + np.sin(2 * np.pi * x / 3.0) - 0.5 * np.cos(6 * np.pi * x / 3.0)
    f = autofd.fourier(X, code(np.asarray(X.points)))
    np.testing.assert_allclose(jax.vmap(f)(X.points), code(np.asarray(X.points)), atol=1e-14)
    assert float(f(0.77)) == pytest.approx(code(0.77), abs=1e-13)
    assert float(f(0.77 + 3.0)) == pytest.approx(code(0.77), abs=1e-13)
    slope = (2 * np.pi / 3) * np.cos(2 * np.pi * 0.77 / 3) + np.pi * np.sin(2 * np.pi * 0.77)
    assert float(autofd.nabla(f)(0.77)) == pytest.approx(slope, abs=1e-12)


def test_values_of_a_fourier_function_can_be_differentiated():
    """d/dv_j of the integral of f^2 is 2 w_j v_j: the interpolation is exact for the square's aliasing-free part."""
    X = autofd.periodic(9)
    values = jnp.asarray(np.sin(np.asarray(X.points)))
    slope = jax.grad(lambda v: autofd.integrate(autofd.fourier(X, v) ** 2))(values)
    np.testing.assert_allclose(slope, 2 * X.weights * values, atol=1e-13)


def test_products_of_spaces():
    """Points in the order of the factors, weights and densities multiplied; a separable integral factorises."""
    A, B = autofd.interval(5, 0.0, 2.0), autofd.gauss_hermite(6, width=1.5)
    R = autofd.product(A, autofd.product(A, B))
    assert R.shape == (3,) and R.points.shape == (150, 3)
    value = autofd.integrate(autofd.function(lambda r: r[0] ** 3 * r[1] * r[2] ** 2, R))
    assert float(value) == pytest.approx(4.0 * 2.0 * 1.5**3 * np.sqrt(np.pi) / 2, rel=1e-13)
    assert float(R.density(jnp.array([0.1, 0.2, 1.5]))) == pytest.approx(np.exp(-1.0))


def test_a_grid_is_a_space():
    """Any object with points and weights serves; a traced one is refused with the way out."""
    grid = SimpleNamespace(points=np.eye(3), weights=np.array([1.0, 2.0, 3.0]))
    R = autofd.from_grid(grid)
    assert float(autofd.integrate(autofd.function(lambda r: r @ jnp.array([1.0, 10.0, 100.0]), R))) == 321.0
    with pytest.raises(QuadratureError, match="quadrature="):
        jax.jit(lambda w: autofd.from_grid(SimpleNamespace(points=grid.points, weights=w)).weights)(grid.weights)


def test_monte_carlo_in_a_box_stays_within_its_error():
    """The integral of x y over [0, 1] x [0, 2] is 1; the estimate is within four standard errors, and reproducible."""
    box = dict(box=([0.0, 0.0], [1.0, 2.0]))
    R = autofd.monte_carlo(jax.random.key(7), 20_000, **box)
    f = autofd.function(lambda r: r[0] * r[1], R)
    error = float(autofd.standard_error(f))
    # the variance of 2 x y under uniform sampling is 4 (4/9 - 1/4) = 7/9
    assert error == pytest.approx(np.sqrt(7 / 9 / 20_000), rel=0.03)
    assert abs(float(autofd.integrate(f)) - 1) < 4 * error
    again = autofd.monte_carlo(jax.random.key(7), 20_000, **box)
    np.testing.assert_array_equal(R.points, again.points)


@pytest.mark.parametrize("weighted, exact", [(False, 2.0), (True, 1.0)])
def test_monte_carlo_with_a_density(weighted, exact):
    """Points from exp(-x): integral of x^2 exp(-x) dx = 2 by importance sampling, of x exp(-x) dx = 1 as a measure."""
    X = autofd.monte_carlo(
        jax.random.key(1),
        20_000,
        sample=lambda key: jax.random.exponential(key, (), np.float64),
        density=lambda x: jnp.exp(-x),
        weighted=weighted,
    )
    f = autofd.function(lambda x: x if weighted else x**2 * jnp.exp(-x), X)
    assert abs(float(autofd.integrate(f)) - exact) < 4 * float(autofd.standard_error(f))
    assert (X.density is None) != weighted


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: autofd.interval(0, 0.0, 1.0), "positive integer"),
        (lambda: autofd.interval(4, 1.0, 0.0), "increasing order"),
        (lambda: autofd.interval(4, 0.0, np.inf), "finite limits"),
        (lambda: autofd.gauss_hermite(4, width=-1.0), "width"),
        (lambda: autofd.periodic(4, 0.0), "length"),
        (lambda: autofd.product(), "at least one"),
        (lambda: autofd.product(autofd.Domain(())), "no quadrature"),
        (lambda: autofd.fourier(autofd.periodic(4), np.ones(5)), "4 points"),
        (lambda: autofd.monte_carlo(jax.random.key(0), 4), "either box"),
        (lambda: autofd.monte_carlo(jax.random.key(0), 4, box=(1.0, 0.0)), "low < high"),
        (lambda: jax.jit(lambda k: autofd.monte_carlo(k, 4, box=(0.0, 1.0)).points)(jax.random.key(0)), "traced"),
    ],
)
def test_misuse_is_a_quadrature_error(make, message):
    """Each says what was found and what is expected."""
    with pytest.raises(QuadratureError, match=message):
        make()
