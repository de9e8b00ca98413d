"""Elementary functions, for arrays and for Functions alike: exp(f) is x -> exp(f(x)).

Roots and powers are written for speed as well: in XLA on a CPU a float64 cbrt or pow costs ten nanoseconds, thirty
times an exp, and powers with exponents n/2, n/3, n/4 and n/6 fill exchange-correlation kernels. They are built here
from square roots and one vectorised cube root.
"""

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_map

from dftfd.autofd.function import Function
from dftfd.autofd.operators.compose import compose
from dftfd.autofd.operators.inverse import register_inverse
from dftfd.autofd.structure import HasKey, structural_key


class Pointwise(HasKey):
    """Code on arrays, applied to each array of a tree-valued result."""

    def __init__(self, code, name=None):
        self.code, self.__name__ = code, name or code.__name__

    def __call__(self, *trees):
        return tree_map(self.code, *trees)

    def structural_key(self):
        return ("pointwise", structural_key(self.code))


def elementary(code: Callable, name: str | None = None) -> Callable[..., Any]:
    """Make code on arrays work on Functions too: an argument that is a Function gives a composition.

    Use it to lift any pointwise JAX code: `softplus = elementary(jax.nn.softplus)`.
    """
    lifted = Pointwise(code, name)

    @functools.wraps(code)
    def apply(*args):
        return compose(lifted, *args) if any(isinstance(a, Function) for a in args) else code(*args)

    apply.lifted = lifted
    return apply


@jax.custom_jvp
def _cube_root(x):
    """Real cube root of float64 x >= 0 to 1 ulp: a seed from a third of the exponent, three Halley steps."""
    high = (jax.lax.bitcast_convert_type(x, jnp.int64) >> 32).astype(jnp.int32)
    seed = (high // 3 + jnp.int32(0x2A9F7893)).astype(jnp.int64) << 32
    y = jax.lax.bitcast_convert_type(seed, jnp.float64)
    for _ in range(3):
        cube = y * y * y
        y = y * ((cube + 2 * x) / (2 * cube + x))
    return jnp.where(x > 0, jnp.where(x < np.inf, y, x), x)


@_cube_root.defjvp
def _cube_root_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    y = _cube_root(x)
    return y, dx / (3 * y * y)


def _cbrt(x: Any) -> Any:
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


def _erfc(x: Any) -> Any:
    return jax.scipy.special.erfc(x)


absolute = elementary(jnp.abs)
negative = elementary(jnp.negative)
sqrt = elementary(jnp.sqrt)
cbrt = elementary(_cbrt, "cbrt")
square = elementary(jnp.square)
exp = elementary(jnp.exp)
exp2 = elementary(jnp.exp2)
expm1 = elementary(jnp.expm1)
log = elementary(jnp.log)
log2 = elementary(jnp.log2)
log10 = elementary(jnp.log10)
log1p = elementary(jnp.log1p)
sin = elementary(jnp.sin)
cos = elementary(jnp.cos)
tan = elementary(jnp.tan)
arcsin = elementary(jnp.arcsin)
arccos = elementary(jnp.arccos)
arctan = elementary(jnp.arctan)
sinh = elementary(jnp.sinh)
cosh = elementary(jnp.cosh)
tanh = elementary(jnp.tanh)
arcsinh = elementary(jnp.arcsinh)
arccosh = elementary(jnp.arccosh)
arctanh = elementary(jnp.arctanh)
erf = elementary(jax.scipy.special.erf, "erf")
erfc = elementary(_erfc, "erfc")
real = elementary(jnp.real)
imag = elementary(jnp.imag)
conj = elementary(jnp.conj)
minimum = elementary(jnp.minimum)
maximum = elementary(jnp.maximum)
arctan2 = elementary(jnp.arctan2)
hypot = elementary(jnp.hypot)
logaddexp = elementary(jnp.logaddexp)


def _dot(a: Any, b: Any) -> Any:
    return jnp.sum(a * b)


dot = elementary(_dot, "dot")

# activation functions
sigmoid = elementary(jax.nn.sigmoid)
softplus = elementary(jax.nn.softplus)
silu = elementary(jax.nn.silu)
gelu = elementary(jax.nn.gelu)
elu = elementary(jax.nn.elu)
relu = elementary(jax.nn.relu)


def _negative_root(y):
    return -jnp.sqrt(y)


def _same(x):
    return x


def _register_inverses():
    """Inverses of the elementary functions, those of square and absolute in two branches."""
    for one, other in ((exp, log), (expm1, log1p), (exp2, log2), (sinh, arcsinh), (tanh, arctanh), (tan, arctan)):
        register_inverse(one.lifted, other.lifted)
    register_inverse(negative.lifted, negative.lifted)
    register_inverse(square.lifted, (sqrt.lifted, elementary(_negative_root).lifted))
    register_inverse(absolute.lifted, (Pointwise(_same), negative.lifted))


_register_inverses()
