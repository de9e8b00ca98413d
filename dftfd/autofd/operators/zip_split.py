"""zip, split and item: between several functions and one function with a tuple of results.

Cases of compose, so their rules are compose's: the transpose of item puts the cotangent into its place, the transpose
of zip splits.
"""

from typing import Any

import jax.numpy as jnp
from jax.tree_util import tree_map

from dftfd.autofd.core.domain import describe
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.errors import SignatureError


class Item(Code):
    """value -> value[index]"""

    def __init__(self, index):
        self.index, self.__name__ = index, f"[{index}]"

    def __call__(self, value):
        return value[self.index]


@op.register
def item(f: Function, index: Any) -> Function:
    """x -> f(x)[index], of an array- or tuple-valued function."""
    if isinstance(index, slice):
        index = slice(index.start, index.stop, index.step)
    try:
        return op.compose(Item(index), f)
    except (IndexError, KeyError, TypeError) as error:
        if isinstance(error, SignatureError):
            raise
        raise SignatureError(f"[{index!r}] of a function with values {describe(f.result)}: no such entry.") from error


def _tuple(*values):
    return values


@op.register
def zip_functions(*functions: Function) -> Function:
    """x -> (f_1(x), ..., f_n(x))"""
    return op.compose(_tuple, *functions)


def split(f: Function) -> tuple[Function, ...]:
    """The parts of a tuple-valued function."""
    if not isinstance(f.result, tuple):
        raise SignatureError(f"split takes a tuple-valued function, {f!r} found.")
    return tuple(item(f, i) for i in range(len(f.result)))


class Stack(Code):
    """n values of equal type as one, with the axes `shape` (product n) put first or last."""

    __name__ = "stack"

    def __init__(self, shape, axis_last):
        self.shape, self.axis_last = shape, axis_last

    def __call__(self, *values):
        return tree_map(self._stack, *values)

    def _stack(self, *arrays):
        stacked, rest = jnp.stack(arrays, axis=-1 if self.axis_last else 0), arrays[0].shape
        return stacked.reshape(rest + self.shape if self.axis_last else self.shape + rest)


@op.register
def stack(functions, shape: tuple[int, ...]) -> Function:
    """The functions side by side in new last axes of the values, of this shape."""
    return op.compose(Stack(shape, axis_last=True), *functions)
