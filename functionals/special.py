r"""Special functions of exchange kernels with derivative rules: Lambert's W, erfcx, roots of the hole models.

All are straight-line code, fixed numbers of iterations from starts that converge for every argument. Derivatives of any
order follow from the rules, in which the function itself stands again.

Scaled exponential integrals of half-integer order, accurate for every x > 0 and to every derivative:

V_a(x) = \int_0^inf t^(a-1) exp(-x t) / (1 + t) dt = Gamma(a) exp(x) Gamma(1 - a, x),   a = 1/2, 1, 3/2, ...

V_1/2 = pi exp(x) erfc(sqrt(x)) and V_1 = exp(x) E_1(x), neither of which overflows. Two relations give all the rest:

V_(a+1) = Gamma(a) x^(-a) - V_a,   d V_a / dx = -V_(a+1)

The first is stable upwards for small x and downwards for large x, where the continued fraction of the incomplete gamma
function starts it (https://dlmf.nist.gov/8.9.E2).
"""

import functools
import math

import jax
import jax.numpy as jnp

from dftfd.functionals.br89 import hole_shape

_BORDER = 2.5
"""Series below, continued fraction above."""
_SERIES_TERMS, _FRACTION_LEVELS = 32, 40
_EULER = 0.57721566490153286061


def _half_powers(x, count):
    """x^(-1/2), x^(-1), ..., x^(-count/2)."""
    r = 1 / jnp.sqrt(x)
    powers = [r]
    for _ in range(count - 1):
        powers.append(powers[-1] * r)
    return powers


def _upwards(x, count):
    """V by series for V_1 and erfc for V_1/2, x <= 2.5."""
    powers = _half_powers(x, count)
    e = jnp.exp(x)
    V = [math.pi * e * jax.scipy.special.erfc(jnp.sqrt(x)), e * (_entire_part(x) - _EULER - jnp.log(x))]
    for k in range(3, count + 1):
        V.append(math.gamma(k / 2 - 1) * powers[k - 3] - V[k - 3])
    return V[:count]


def _entire_part(x):
    """Ein(x) = sum_k (-1)^(k+1) x^k / (k k!)."""
    total = jnp.zeros_like(x)
    for k in range(_SERIES_TERMS, 0, -1):
        total = ((-1) ** (k + 1) / (k * math.factorial(k)) + total) * x
    return total


def _downwards(x, count):
    """V by the continued fraction for the two highest orders, x >= 2.5."""
    powers = _half_powers(x, count)
    V = {k: _fraction(x, k / 2, powers[k - 1]) for k in (count, count - 1) if k > 0}
    for k in range(count - 2, 0, -1):
        V[k] = math.gamma(k / 2) * powers[k - 1] - V[k + 2]
    return [V[k] for k in range(1, count + 1)]


def _fraction(x, a, x_to_minus_a):
    """Gamma(a) x^(1-a) / (x + a - a / (x + a + 2 - 2 (a + 1) / (x + a + 4 - ...)))."""
    tail = x + a + 2 * _FRACTION_LEVELS
    for k in range(_FRACTION_LEVELS, 0, -1):
        tail = x + a + 2 * (k - 1) - k * (a + k - 1) / tail
    return math.gamma(a) * x_to_minus_a * x / tail


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def exponential_integrals(x, count):
    """(V_1/2, V_1, ..., V_count/2) of x > 0, each of the shape of x."""
    count, given = max(count, 2), count
    small = x < _BORDER
    border = jnp.full_like(x, _BORDER)
    low, high = _upwards(jnp.where(small, x, border), count), _downwards(jnp.where(small, border, x), count)
    return tuple(jnp.where(small, a, b) for a, b in zip(low, high, strict=True))[:given]


@exponential_integrals.defjvp
def _exponential_integrals_jvp(count, primals, tangents):
    V = exponential_integrals(primals[0], count + 2)
    return V[:count], tuple(-v * tangents[0] for v in V[2:])


@jax.custom_jvp
def log_plus_v1(x):
    """ln(x) + V_1(x), which tends to -gamma as x -> 0."""
    (v1,) = exponential_integrals(x, 2)[1:]
    small = x < _BORDER
    y = jnp.where(small, x, jnp.full_like(x, _BORDER))
    near = jnp.exp(y) * (_entire_part(y) - _EULER) - jnp.expm1(y) * jnp.log(y)
    return jnp.where(small, near, jnp.log(x) + v1)


@log_plus_v1.defjvp
def _log_plus_v1_jvp(primals, tangents):
    return log_plus_v1(primals[0]), exponential_integrals(primals[0], 2)[1] * tangents[0]


_HALLEY_STEPS, _NEWTON_STEPS = 6, 30
_LEAST = 1e-150
"""Least argument of `erfcx`; its square is still a number."""


@jax.custom_jvp
def lambert_w(z):
    """The principal branch of W exp(W) = z for z >= -1/e.

    Near the branch point W = -1 + p - p^2/3 + 11/72 p^3 - 43/540 p^4, p^2 = 2 (e z + 1), in which 1/e is two numbers
    so that p keeps its digits (https://dlmf.nist.gov/4.13.E6).
    """
    p = jnp.sqrt(jnp.maximum(2 * (math.e * (z + 0.36787944117144233) - 1.2428753672788363e-17 * math.e), 0.0))
    series = -1 + p * (1 + p * (-1 / 3 + p * (11 / 72 + p * (-43 / 540 + p * (769 / 17280 - p * 221 / 8505)))))
    large = jnp.log1p(jnp.maximum(z, 0.0))
    w = jnp.where(z < 0.3, series, large * (1 - jnp.log1p(large) / (2 + large)))
    is_near = p < 0.02
    w = jnp.where(is_near, 0.0, w)
    for _ in range(_HALLEY_STEPS):
        e = jnp.exp(w)
        f = w * e - jnp.where(is_near, 0.0, z)
        w = w - f / (e * (w + 1) - (w + 2) * f / (2 * w + 2))
    return jnp.where(is_near, series, w)


@lambert_w.defjvp
def _lambert_w_jvp(primals, tangents):
    w = lambert_w(*primals)
    return w, tangents[0] / (jnp.exp(w) * (1 + w))


@jax.custom_jvp
def erfcx(x):
    """exp(x^2) erfc(x) for x >= 0, which does not overflow."""
    return exponential_integrals(jnp.maximum(x, _LEAST) ** 2, 2)[0] / math.pi


@erfcx.defjvp
def _erfcx_jvp(primals, tangents):
    """2 x erfcx(x) - 2/sqrt(pi) without the cancellation: -2 x V_3/2(x^2) / pi."""
    x = jnp.maximum(primals[0], _LEAST)
    return erfcx(primals[0]), -2 / math.pi * x * exponential_integrals(x * x, 3)[2] * tangents[0]


def scaled_e1(x):
    """exp(x) E_1(x) for x > 0."""
    return exponential_integrals(x, 2)[1]


def becke_roussel_x(Q):
    """x with x exp(-2x/3) / (x - 2) = 2/3 pi^(2/3) / Q. A. D. Becke, M. R. Roussel, doi:10.1103/PhysRevA.39.3761"""
    return hole_shape(1.5 * math.pi ** (-2 / 3) * Q)


_MULTI_REFERENCE = (32 * math.pi) ** (2 / 3) / 6


def multi_reference_x(Q):
    """x with (1 + x)^(5/3) exp(-2x/3) / (x - 3) = (32 pi)^(2/3) / (6 Q).

    B. Patra, S. Jana, L. A. Constantin, P. Samal, Phys. Rev. B 100, 155140 (2019). doi:10.1103/PhysRevB.100.155140
    """
    return _multi_reference_root(Q / _MULTI_REFERENCE)


@jax.custom_jvp
def _multi_reference_root(r):
    """x with (x - 3) (1 + x)^(-5/3) exp(2x/3) = r.

    The left side rises from -inf at x = -1 through 0 at x = 3. Newton's method for (x - 3) exp(2x/3) - r (1 + x)^(5/3)
    starts above the root and falls towards it; x holds to a rounding unit, 1 + x to 1e-11 at r = -1e8.
    """
    x = jnp.where(r > 0, 5 + 3 * jnp.log1p(jnp.maximum(r, 0.0)), 3.0)
    for _ in range(_NEWTON_STEPS):
        y = jnp.cbrt(1 + x)
        e = jnp.exp(2 / 3 * x)
        f = (x - 3) * e - r * y**5
        x = x - f / ((2 / 3 * x - 1) * e - 5 / 3 * r * y * y)
    return x


@_multi_reference_root.defjvp
def _multi_reference_root_jvp(primals, tangents):
    """dx/dr = 3/2 (1 + x)^(8/3) exp(-2x/3) / (x^2 - 3x + 6)."""
    x = _multi_reference_root(*primals)
    y = jnp.cbrt(1 + x)
    return x, 1.5 * y**8 * jnp.exp(-2 / 3 * x) / (x * x - 3 * x + 6) * tangents[0]
