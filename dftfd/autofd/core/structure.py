"""Structural keys: when are two pieces of Python the same operator?

A function is traced and compiled once per structure, so a lambda that is created again in each call of an energy
functional must be recognised. Its key is its code and the keys of everything that it closes over and of the module
variables that it names, so that code which reads a variable is not taken for the same code with another value. Values
that can't be compared by content are compared by identity and kept alive, so an identity is never used twice.
"""

import contextvars
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
        return _function_key(value)
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


_pending: contextvars.ContextVar[tuple] = contextvars.ContextVar("dftfd_pending_keys", default=())
"""Functions may refer to themselves."""


def _function_key(function):
    if function in _pending.get():
        return Identity(function.__code__)
    token = _pending.set((*_pending.get(), function))
    try:
        return (
            "def",
            function.__code__,
            globals_key(function),
            tuple(_cell_key(c) for c in function.__closure__ or ()),
            structural_key(function.__defaults__),
            structural_key(function.__kwdefaults__),
        )
    finally:
        _pending.reset(token)


def _cell_key(cell):
    try:
        return structural_key(cell.cell_contents)
    except ValueError:  # an empty cell: a name that is bound later
        return Identity(cell)


def globals_key(function):
    """Keys of the module variables that a Python function names; functions of its own module by their code."""
    variables = function.__globals__
    named = sorted(name for name in _names(function.__code__) if name in variables)
    return (Identity(variables), *((name, _global_key(variables[name], variables)) for name in named))


def _global_key(value, variables):
    elsewhere = isinstance(value, types.FunctionType) and value.__globals__ is not variables
    return Identity(value) if elsewhere else structural_key(value)


@functools.cache
def _names(code):
    """Global and attribute names in a code object and in the code objects inside it."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return frozenset(code.co_names).union(*map(_names, inner))


class HasKey:
    """Base of callables that know their own structural key."""

    __slots__ = ()

    def structural_key(self):
        raise NotImplementedError

    def spec_of_result(self, *specs):
        """The spec of what it gives, where that is known without tracing it; else None."""
        return None


class Code(HasKey):
    """Base of code that is what its class says and what it was made with."""

    def structural_key(self):
        return (type(self), *(structural_key(value) for _, value in sorted(vars(self).items())))
