"""zip, split and item: between several functions and one function with a tuple of results.

Cases of compose, so their rules are compose's: the transpose of item puts the cotangent into its place, the transpose
of zip splits.
"""

from typing import Any

from dftfd.autofd.domain import describe
from dftfd.autofd.function import Function
from dftfd.autofd.operators.compose import compose
from dftfd.autofd.structure import HasKey, structural_key
from dftfd.errors import SignatureError


class Item(HasKey):
    """value -> value[index]"""

    def __init__(self, index):
        self.index, self.__name__ = index, f"[{index}]"

    def __call__(self, value):
        return value[self.index]

    def structural_key(self):
        return ("item", structural_key(self.index))


def item(f: Function, index: Any) -> Function:
    """x -> f(x)[index], of an array- or tuple-valued function."""
    if isinstance(index, slice):
        index = slice(index.start, index.stop, index.step)
    try:
        return compose(Item(index), f)
    except (IndexError, KeyError, TypeError) as error:
        if isinstance(error, SignatureError):
            raise
        raise SignatureError(f"[{index!r}] of a function with values {describe(f.result)}: no such entry.") from error


def _tuple(*values):
    return values


def zip_functions(*functions: Function) -> Function:
    """x -> (f_1(x), ..., f_n(x))"""
    return compose(_tuple, *functions)


def split(f: Function) -> tuple[Function, ...]:
    """The parts of a tuple-valued function."""
    if not isinstance(f.result, tuple):
        raise SignatureError(f"split takes a tuple-valued function, {f!r} found.")
    return tuple(item(f, i) for i in range(len(f.result)))
