"""Special functions that libxc's formulas leave to its C code: dilogarithm, splines, integrals.

All are straight-line code with rules for their derivatives where those are simpler than the functions.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

_TERMS = 48
_NODES = 72
_CLUSTERED = 4
"""Nodes of integrals from zero, of which log is integrable, stand at fourth powers of Gauss's."""


def _small_dilogarithm(x):
    """sum x^k / k^2 for |x| <= 1/2."""
    total = jnp.zeros_like(x)
    for k in range(_TERMS, 0, -1):
        total = (total + 1 / (k * k)) * x
    return total


@jax.custom_jvp
def dilogarithm(x):
    """Li_2(x) = - integral of log(1 - t)/t from 0 to x, for x <= 1 (https://dlmf.nist.gov/25.12)."""
    far = x < -1
    inside = jnp.where(far, 1 / jnp.where(far, x, -1.0), x)  # Li_2(x) + Li_2(1/x) = -pi^2/6 - log(-x)^2/2
    negative, large = inside < 0, inside > 0.5
    y = jnp.where(negative, inside / (inside - 1), jnp.where(large, 1 - inside, inside))
    small = _small_dilogarithm(y)
    below = -small - 0.5 * jnp.log1p(-jnp.where(negative, inside, 0.0)) ** 2
    middle = jnp.where(large & (inside < 1), inside, 0.75)
    above = math.pi**2 / 6 - jnp.where(inside < 1, jnp.log(middle) * jnp.log1p(-middle), 0.0) - small
    near = jnp.where(negative, below, jnp.where(large, above, small))
    return jnp.where(far, -near - math.pi**2 / 6 - 0.5 * jnp.log(jnp.where(far, -x, 1.0)) ** 2, near)


@dilogarithm.defjvp
def _dilogarithm_jvp(primals, tangents):
    """-log(1 - x)/x, by its series where that is 0/0."""
    (x,) = primals
    tiny = jnp.abs(x) < 1e-4
    safe = jnp.where(tiny, 0.5, x)
    series = 1 + x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5)))
    return dilogarithm(x), jnp.where(tiny, series, -jnp.log1p(-safe) / safe) * tangents[0]


def cubic_splines(u, coefficients, knots):
    """sum_i c_i B_i(u) of cubic B-splines on equidistant knots, B_i over knots i to i + 4 (de Boor)."""
    step = (knots[len(coefficients)] - knots[0]) / len(coefficients)
    total = jnp.zeros_like(u)
    for c, knot in zip(coefficients, knots, strict=False):
        t = (u - knot) / step
        pieces = (
            t**3,
            4 + t * (-12 + t * (12 - 3 * t)),
            -44 + t * (60 + t * (-24 + 3 * t)),
            (4 - t) ** 3,
        )
        value = jnp.zeros_like(t)
        for k, piece in enumerate(pieces):
            value = jnp.where((t >= k) & (t < k + 1), piece, value)
        total = total + c * value / 6
    return total


def integral_from_zero(f):
    """y -> integral of f from 0 to y >= 0, f with at most a logarithm at zero; its derivative is f."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    v = (nodes + 1) / 2
    places, weights = v**_CLUSTERED, weights / 2 * _CLUSTERED * v ** (_CLUSTERED - 1)

    @jax.custom_jvp
    def integral(y):
        total = jnp.zeros_like(y)
        for place, weight in zip(places, weights, strict=True):
            total = total + float(weight) * f(float(place) * y)
        return total * y

    integral.defjvp(lambda primals, tangents: (integral(*primals), f(*primals) * tangents[0]))
    return integral
