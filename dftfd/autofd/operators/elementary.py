"""Elementary functions, for arrays and for Functions alike: exp(f) is x -> exp(f(x))."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import tree_map

from dftfd.autofd.core import roots
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.inverses import register_inverse
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import HasKey, structural_key


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
    pointwise = Pointwise(code, name)

    @functools.wraps(code)
    def apply(*args):
        return op.compose(pointwise, *args) if any(isinstance(a, Function) for a in args) else code(*args)

    return apply


def _erfc(x: Any) -> Any:
    """The complementary error function, 1 - erf(x)."""
    return jax.scipy.special.erfc(x)


absolute = op.register(elementary(jnp.abs), "absolute")
negative = op.register(elementary(jnp.negative), "negative")
sqrt = elementary(jnp.sqrt)
cbrt = elementary(roots.cbrt)
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
    """The sum of the products of all entries of two arrays."""
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


for _one, _other in (
    *((jnp.exp, jnp.log), (jnp.expm1, jnp.log1p), (jnp.exp2, jnp.log2)),
    *((jnp.sinh, jnp.arcsinh), (jnp.tanh, jnp.arctanh), (jnp.tan, jnp.arctan), (jnp.negative, jnp.negative)),
):
    register_inverse(Pointwise(_one), Pointwise(_other))
register_inverse(Pointwise(jnp.square), (Pointwise(jnp.sqrt), Pointwise(_negative_root)))  # of two branches
register_inverse(Pointwise(jnp.abs), (Pointwise(_same), Pointwise(jnp.negative)))
