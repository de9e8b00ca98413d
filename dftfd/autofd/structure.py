"""Structural keys: when are two pieces of Python the same operator?

A function is traced and compiled once per structure, so a lambda that is created again in each call of an energy
functional must be recognised. Its key is its code, its module and the keys of everything that it closes over. Values
that can't be compared by content are compared by identity and kept alive, so an identity is never used twice.
"""

import functools
import types

import jax
import numpy as np

_SMALL = 4096  # bytes; larger NumPy arrays are compared by identity


class Identity:
    """Equal only to a wrapper of the same object, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return id(self.value)

    def __eq__(self, other):
        return isinstance(other, Identity) and self.value is other.value


def structural_key(value):
    """A hashable key; equal keys mean interchangeable values."""
    if isinstance(value, types.FunctionType):
        return (
            "def",
            value.__code__,
            Identity(value.__globals__),
            tuple(_cell_key(c) for c in value.__closure__ or ()),
            structural_key(value.__defaults__),
            structural_key(value.__kwdefaults__),
        )
    if isinstance(value, types.MethodType):
        return ("method", structural_key(value.__func__), structural_key(value.__self__))
    if isinstance(value, functools.partial):
        return ("partial", *map(structural_key, (value.func, value.args, value.keywords)))
    if isinstance(value, float | complex):
        return (type(value), repr(value))
    if isinstance(value, bool | int | str | bytes | type(None)):
        return (type(value), value)
    if isinstance(value, tuple | list):
        return (type(value), *map(structural_key, value))
    if isinstance(value, dict):
        return (dict, *((structural_key(k), structural_key(v)) for k, v in value.items()))
    if isinstance(value, np.ndarray) and value.dtype != object and value.nbytes <= _SMALL:
        return ("ndarray", value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, jax.ShapeDtypeStruct):
        return ("spec", value.shape, np.dtype(value.dtype).str)
    if isinstance(value, HasKey):
        return value.structural_key()
    return Identity(value)


def _cell_key(cell):
    try:
        return structural_key(cell.cell_contents)
    except ValueError:  # an empty cell: a name that is bound later
        return Identity(cell)


class HasKey:
    """Base of callables that know their own structural key."""

    def structural_key(self):
        raise NotImplementedError


@functools.cache
def _concrete_type():
    return type(jax.numpy.zeros(()))


def is_tracer(value) -> bool:
    """True for an array that stands for a value inside a JAX transformation."""
    return isinstance(value, jax.Array) and not isinstance(value, _concrete_type())


def holds_arrays(value) -> bool:
    """True if a pytree contains a JAX array, traced or not."""
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(value))
