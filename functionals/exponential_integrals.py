r"""Scaled exponential integrals of half-integer order, accurate for every x > 0 and to every derivative.

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
