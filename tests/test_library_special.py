"""Special functions of the short-range functionals, against 40-digit arithmetic and numerical integrals (mpmath)."""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import dftfd
from dftfd.functionals import wpbe
from dftfd.functionals.attenuation import short_range_fraction_by_b2
from dftfd.functionals.special import exponential_integrals, log_plus_v1
from dftfd.xc.pointwise import pointwise_kernel
from tests.sample import sample

ARGUMENTS = (1e-20, 1e-6, 0.03, 0.9, 2.4999, 2.5, 3.0, 20.0, 1e5)


@pytest.fixture(autouse=True)
def forty_digits():
    with mpmath.workdps(40):
        yield


def relative_error(value, exact):
    return float(abs(mpmath.mpf(float(value)) / exact - 1))


def exponential_integral(a, x):
    """Gamma(a) exp(x) Gamma(1 - a, x)."""
    return mpmath.gamma(a) * mpmath.exp(x) * mpmath.gammainc(1 - a, x)


@pytest.mark.parametrize("x", ARGUMENTS)
def test_scaled_exponential_integrals_hold_fourteen_digits(x):
    """V_1/2 to V_4 on both sides of the border between series and continued fraction."""
    for k, V in enumerate(exponential_integrals(jnp.asarray(x), 8), 1):
        assert relative_error(V, exponential_integral(mpmath.mpf(k) / 2, mpmath.mpf(x))) < 3e-14


@pytest.mark.parametrize("x", ARGUMENTS)
def test_derivatives_of_the_exponential_integrals_are_integrals_of_higher_order(x):
    """d^3 V_1 / dx^3 = -V_4, and d/dx (ln x + V_1) = V_1."""
    third = functools.reduce(lambda f, _: jax.grad(f), range(3), lambda x: exponential_integrals(x, 2)[1])
    assert relative_error(third(jnp.asarray(x)), -exponential_integral(4, mpmath.mpf(x))) < 3e-14
    slope = jax.grad(log_plus_v1)(jnp.asarray(x))
    assert relative_error(slope, exponential_integral(1, mpmath.mpf(x))) < 3e-14


@functools.cache
def compiled_derivative(code, order):
    """d^n code / dx^n, compiled once for all arguments."""
    return jax.jit(functools.reduce(lambda f, _: jax.grad(f), range(order), code))


@pytest.mark.parametrize("b2", [1e-12, 1e-3, 0.8, 2.25, 2.9999, 3.0, 3.01, 8.0, 30.0, 60.0, 1e6])
def test_short_range_fraction_and_its_derivatives_hold_thirteen_digits(b2):
    """F(b^2) / b^2 on both sides of the border, F Gill's function, against the closed form in 80 digits."""

    def exact(b2):
        b = mpmath.sqrt(b2)
        brackets = mpmath.sqrt(mpmath.pi) * mpmath.erf(b) + (1 / b - 1 / (2 * b**3)) * mpmath.exp(-b2)
        return (1 - 4 / (3 * b) * (brackets - 3 / (2 * b) + 1 / (2 * b**3))) / b2

    for order, tolerance in enumerate((1e-14, 5e-14, 2e-13, 1e-12)):
        with mpmath.workdps(80):
            value = mpmath.diff(exact, mpmath.mpf(b2), order)
        found = compiled_derivative(short_range_fraction_by_b2, order)(jnp.asarray(b2))
        assert relative_error(found, value) < tolerance


@pytest.mark.parametrize(
    ("name", "omega"), [("lda_x_erf", 0.3), pytest.param("gga_x_ityh", 0.2, marks=pytest.mark.slow)]
)
def test_higher_derivatives_of_a_rare_spin_keep_their_digits(name, omega):
    """Third and fourth by a spin of 1e-14, against Gill's closed form in 120 digits. The energy is nearly as n^2
    there, and what a product of roots leaves of its third derivative, which is none, was larger than the rest."""
    n_s = 1e-16
    x = np.zeros((9, 1))
    x[:2, 0] = 1e-2, n_s

    def exact(n_s):
        b = (6 * mpmath.pi**2 * n_s) ** (mpmath.mpf(1) / 3) / mpmath.mpf(omega)
        brackets = mpmath.sqrt(mpmath.pi) * mpmath.erf(b) + (1 / b - 1 / (2 * b**3)) * mpmath.exp(-b * b)
        gill = 1 - 4 / (3 * b) * (brackets - 3 / (2 * b) + 1 / (2 * b**3))
        third = mpmath.mpf(1) / 3
        return -mpmath.mpf(3) / 4 * (3 / mpmath.pi) ** third * 2**third * n_s ** (4 * third) * gill

    found = pointwise_kernel(dftfd.get_functional(name), 2).by_component(x, 4, compiled=False)
    with mpmath.workdps(160):
        for order in (3, 4):
            value = mpmath.diff(exact, mpmath.mpf(n_s), order, h=mpmath.mpf("1e-36"))
            assert relative_error(found[order][(1,) * order][0], value) < 1e-13


def hole_integral(s, w):
    """F_x(s, w) by integrating the hole, with the fit to erfc in the term with A."""
    A, B, C, D, E = map(mpmath.mpf, (wpbe.A, wpbe.B, wpbe.C, wpbe.D, wpbe.E))
    s2 = s * s
    a1, a2, a3, a4, a5 = wpbe._H
    H = (a1 * s2 + a2 * s2 * s2) / (1 + a3 * s2**2 + a4 * s**5 + a5 * s**6)
    F, h, d = wpbe._F[0] * H + wpbe._F[1], s2 * H, D + s2 * H
    # E G from the normalisation of the hole, int J y^2 dy = -3 pi / 4 (eq. 42 of Ernzerhof and Perdew)
    J = lambda y, EG, f: (
        f(y) * (-A / (y * y) / (1 + 4 * A * y * y / 9) + A / (y * y) * mpmath.exp(-D * y * y)) * mpmath.exp(-h * y * y)
        + (B + C * (1 + s2 * F) * y * y + (E + s2 * EG) * y**4) * mpmath.exp(-d * y * y) * mpmath.erfc(w * y)
    )
    points = [0, 0.3 / (1 + w), 1 / (1 + w), 1, 3, 8, mpmath.inf]
    full = J if w == 0 else None
    one = lambda y: mpmath.mpf(1)
    w, saved = mpmath.mpf(0), w
    without = mpmath.quad(lambda y: y * y * J(y, 0, one), points)
    EG = (-3 * mpmath.pi / 4 - without) / (s2 * mpmath.quad(lambda y: y**6 * mpmath.exp(-d * y * y), points))
    w = mpmath.mpf(saved)
    fit = (
        one
        if full
        else lambda y: (
            sum(a * (w * y) ** i for i, a in enumerate(wpbe._ERFC_A)) * mpmath.exp(-wpbe._ERFC_B * (w * y) ** 2)
        )
    )
    return -mpmath.mpf(8) / 9 * mpmath.quad(lambda y: y * J(y, EG, fit), points)


@pytest.mark.parametrize(
    ("s", "w"),
    sample([(0.5, 0.1), (2.0, 0.6), (0.3, 5.0), (4.0, 13.0), (1.0, 60.0), (9.0, 20.1), (1.0, 3000.0)], at=[0, 3, 6]),
)
def test_short_range_pbe_is_the_integral_of_its_hole(s, w):
    """The closed form with exponential integrals loses no digits, at densities from the core to far outside."""
    with mpmath.workdps(25):
        exact = hole_integral(mpmath.mpf(s), mpmath.mpf(w))
    s2, w = jnp.asarray(s * s), jnp.asarray(w)
    assert relative_error(wpbe._short_range(s2, w), exact) < 1e-12
    if w > wpbe._DILUTE:
        assert relative_error(wpbe._dilute(s2, w) / (w * w), exact) < 1e-12


def test_full_range_pbe_hole_gives_the_published_enhancement():
    """F_x(s, 0) of the hole, against its integral."""
    with mpmath.workdps(25):
        exact = hole_integral(mpmath.mpf(1.5), mpmath.mpf(0))
    assert relative_error(wpbe._full_range(jnp.asarray(2.25)), exact) < 1e-13
