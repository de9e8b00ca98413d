"""Code that rules recognise: zero and constant functions, and what does not move."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map, tree_structure

from dftfd.autofd.core.function import Function
from dftfd.autofd.core.jax_adapter import holds_tracers
from dftfd.autofd.core.structure import HasKey, structural_key


class Zeros(HasKey):
    """Code of the zero function with a given result."""

    __name__ = "zero"

    def __init__(self, result):
        self.result = result

    def __call__(self, *args):
        return tree_map(lambda s: jnp.zeros(s.shape, s.dtype), self.result)

    def structural_key(self):
        return ("zero", tree_structure(self.result), *map(structural_key, tree_leaves(self.result)))


def constant_code(value, *args):
    """Code of the constant function that carries its value."""
    return value


def is_zero(node: Function) -> bool:
    return isinstance(node.code, Zeros)


def is_constant(node: Function) -> bool:
    return node.code is constant_code


def is_still(tangent) -> bool:
    """True if a tangent is zero, as far as can be known before evaluation."""
    if isinstance(tangent, Function):
        return is_zero(tangent)
    return tangent.dtype == jax.dtypes.float0 or (not holds_tracers(tangent) and not np.any(np.asarray(tangent)))


def zero_tangent(x):
    """The tangent of an array, or of a function that JAX has in the place of one, that does not move."""
    if isinstance(x, Function) or not hasattr(getattr(x, "aval", x), "shape"):
        return np.zeros(())
    return np.zeros(np.shape(x), x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jax.dtypes.float0)
