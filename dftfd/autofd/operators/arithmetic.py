"""Arithmetic of functions: f + g, f * 2, 2 / f, f ** (1/3). Cases of compose."""

import jax.numpy as jnp
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.function import Function
from dftfd.autofd.operators.compose import check_same_domains, compose
from dftfd.autofd.operators.leaf import constant
from dftfd.autofd.structure import HasKey, structural_key
from dftfd.errors import SignatureError


def _power(x, y):
    from dftfd.autofd.elementary import power

    return power(x, y)


_CODES = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "divide": jnp.divide,
    "power": _power,
}


class Binary(HasKey):
    """(a, b) -> a op b, leaf by leaf; `left` or `right` is a Python number that stands on that side."""

    def __init__(self, name, left=None, right=None):
        self.name, self.left, self.right = name, left, right
        self.code = _CODES[name]
        self.__name__ = name

    def __call__(self, *values):
        if self.left is not None:
            return tree_map(lambda x: self.code(self.left, x), *values)
        if self.right is not None:
            return tree_map(lambda x: self.code(x, self.right), *values)
        a, b = values
        if isinstance(b, jnp.ndarray) and not isinstance(a, jnp.ndarray):
            return tree_map(lambda x: self.code(x, b), a)
        return tree_map(self.code, a, b)

    def inverse(self):
        """Code of the inverse where the other side is a number, else None."""
        swap = {"add": "subtract", "subtract": "add", "multiply": "divide", "divide": "multiply"}
        if self.name not in swap or (self.left is None and self.right is None):
            return None
        if self.right is not None:
            return Binary(swap[self.name], right=self.right)
        if self.name in ("subtract", "divide"):  # y = a - x, y = a / x
            return Binary(self.name, left=self.left)
        return Binary(swap[self.name], right=self.left)

    def structural_key(self):
        return ("binary", self.name, structural_key(self.left), structural_key(self.right))


def combine(name: str, a, b) -> Function:
    """Pointwise a op b; one of them may be a number or an array."""
    if isinstance(a, Function) and isinstance(b, Function):
        check_same_domains(a, b, name)
        _check_shapes(name, a, b)
        return compose(Binary(name), a, b)
    f, other = (a, b) if isinstance(a, Function) else (b, a)
    if isinstance(other, bool | str | bytes) or other is None or callable(other):
        raise SignatureError(f"{name} of {f!r} and {other!r}: a Function, number or array expected.")
    if isinstance(other, int | float | complex):
        return compose(Binary(name, **{"right" if f is a else "left": other}), f)
    array = constant(jnp.asarray(other), *f.domains)
    return combine(name, f, array) if f is a else combine(name, array, f)


def _check_shapes(name, a, b):
    left, right = tree_leaves(a.result), tree_leaves(b.result)
    scalar = any(len(side) == 1 and side[0].shape == () for side in (left, right))
    if not scalar and [s.shape for s in left] != [s.shape for s in right]:
        raise SignatureError(f"{name} of functions with results of different shape: {a!r} and {b!r}.")
