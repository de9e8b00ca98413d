"""Roots and powers of arrays, written for speed as well.

In XLA on a CPU a float64 cbrt or pow costs ten nanoseconds, thirty times an exp, and powers with exponents n/2, n/3,
n/4 and n/6 fill exchange-correlation kernels. They are built here from square roots and one vectorised cube root.
"""

import functools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.jit, inline=True)  # traced once; formulas have dozens
def _by_halley(x):
    high = (jax.lax.bitcast_convert_type(x, jnp.int64) >> 32).astype(jnp.int32)
    seed = (high // 3 + np.int32(0x2A9F7893)).astype(jnp.int64) << 32
    y = jax.lax.bitcast_convert_type(seed, jnp.float64)
    for _ in range(3):
        cube = y * y * y
        y = y * ((cube + 2 * x) / (2 * cube + x))
    return jnp.where(x > 0, jnp.where(x < np.inf, y, x), x)


@jax.custom_jvp
def _cube_root(x):
    """Real cube root of float64 x >= 0 to 1 ulp: a seed from a third of the exponent, three Halley steps."""
    return _by_halley(x)


@_cube_root.defjvp
def _cube_root_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    y = _cube_root(x)
    return y, dx / (3 * y * y)


def cbrt(x: Any) -> Any:
    """Real cube root, of negative numbers too."""
    x = jnp.asarray(x)
    if x.dtype != jnp.float64:
        return jnp.cbrt(x)
    return jnp.sign(x) * _cube_root(jnp.abs(x))


def _positive_root(x, denominator):
    """x^(1/denominator); NaN for negative x, as pow has it."""
    if denominator == 2:
        return jnp.sqrt(x)
    if denominator == 4:
        return jnp.sqrt(jnp.sqrt(x))
    if denominator == 3:
        return _cube_root(jnp.where(x >= 0, x, jnp.nan))
    return jnp.sqrt(_cube_root(jnp.where(x >= 0, x, jnp.nan)))


@functools.cache
def _power_above_one(k, denominator):
    """x -> x^p, p = k / denominator, as a whole power times a root, with the derivative p x^(p - 1): 0 where x is 0."""
    whole, rest = divmod(k, denominator)

    def power(x):
        return x**whole * _positive_root(x, denominator) ** rest

    power = jax.custom_jvp(power)

    @power.defjvp
    def _(primals, tangents):
        (x,), (dx,) = primals, tangents
        return power(x), (k / denominator) * _static_power(x, (k - denominator) / denominator) * dx

    return power


def _static_power(x, exponent):
    if exponent == int(exponent) and abs(exponent) < 64:
        return x ** int(exponent)
    if jnp.result_type(x) == jnp.float64:
        for denominator in (2, 3, 4, 6):
            k = round(exponent * denominator)
            if exponent == k / denominator and abs(k) < 64:
                k, denominator = Fraction(k, denominator).as_integer_ratio()
                whole, rest = divmod(k, denominator)
                if whole > 0:
                    return _power_above_one(k, denominator)(x)
                root = _positive_root(x, denominator) ** rest
                return root if whole == 0 else x**whole * root
    return x**exponent


def power(x: Any, exponent: Any) -> Any:
    """x ** exponent of arrays; exponents that are numbers n/2, n/3, n/4, n/6 avoid the slow general pow."""
    if isinstance(exponent, bool) or not isinstance(exponent, int | float):
        return jnp.power(x, exponent)
    if isinstance(x, int | float):
        return x**exponent
    return _static_power(x, exponent)
