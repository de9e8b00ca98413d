"""Structural keys: when are two pieces of Python the same operator?

A function is traced and compiled once per structure, so a lambda that is created again in each call of an energy
functional must be recognised. Its key is its code and the keys of everything that it closes over and of the module
variables that it names, so that code which reads a variable is not taken for the same code with another value. Values
that can't be compared by content are compared by identity and kept alive, so an identity is never used twice. Objects,
classes and modules of users are compared by what they hold at the time, too: code may read their attributes. Installed
packages, whose variables are not settings, are compared by identity alone.
"""

import contextvars
import functools
import os
import site
import sys
import sysconfig
import types
from pathlib import Path

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
    return Identity(value) if isinstance(value, types.ModuleType | type) else _object_key(value)


_pending: contextvars.ContextVar[tuple] = contextvars.ContextVar("dftfd_pending_keys", default=())
"""Functions and objects may refer to themselves."""
_FOLDERS = *site.getsitepackages(), site.getusersitepackages(), sysconfig.get_paths()["stdlib"]
_INSTALLED = tuple(f"{Path(folder).resolve()}{os.sep}" for folder in _FOLDERS)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "dftfd"


@functools.cache
def _is_installed(name: str) -> bool:
    """Whether a module is one of Python, of an installed package or of this one, wherever its folders are."""
    if _is_ours(name):
        return True
    file = getattr(sys.modules.get(name), "__file__", None)  # none in a notebook
    return name in sys.builtin_module_names if file is None else str(Path(file).resolve()).startswith(_INSTALLED)


def _is_pending(value) -> bool:
    return any(value is other for other in _pending.get())


def _object_key(value):
    """Identity, and what an object holds: all of it by users' classes, numbers and text by those of packages.

    Objects of this package have keys of their own where they can change.
    """
    kind, held = type(value), getattr(value, "__dict__", {})
    if _is_ours(kind.__module__) or _is_pending(value):
        return Identity(value)
    if not issubclass(kind, types.SimpleNamespace) and _is_installed(kind.__module__):
        plain = sorted(name for name, one in held.items() if isinstance(one, _PLAIN))
        return (Identity(value), *((name, structural_key(held[name])) for name in plain))
    token = _pending.set((*_pending.get(), value))
    try:
        of_classes: dict = {name: getattr(value, name, None) for base in kind.__mro__ for name in _slots(base)}
        for base in reversed(kind.__mro__):
            of_classes |= {k: v for k, v in vars(base).items() if isinstance(v, _PLAIN) and not k.startswith("__")}
        held = of_classes | held
        return (Identity(value), *((name, structural_key(one)) for name, one in sorted(held.items())))
    finally:
        _pending.reset(token)


_PLAIN = bool | int | float | complex | str | np.ndarray | np.generic


def _slots(kind) -> tuple:
    named = vars(kind).get("__slots__", ())
    return tuple(n for n in ((named,) if isinstance(named, str) else named) if not n.startswith("__"))


def named_key(value, names):
    """Of what code names: of a user's class or module, what the code may read of it."""
    if not isinstance(value, types.ModuleType | type):
        return structural_key(value)
    where = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    if _is_installed(where) or _is_pending(value):
        return Identity(value)
    token = _pending.set((*_pending.get(), value))
    try:
        held = {name: getattr(value, name) for name in names if hasattr(value, name)}
        return (Identity(value), *((name, named_key(one, names)) for name, one in sorted(held.items())))
    finally:
        _pending.reset(token)


def _function_key(function):
    if _is_pending(function):
        return Identity(function.__code__)
    token = _pending.set((*_pending.get(), function))
    try:
        return (
            "def",
            function.__code__,
            globals_key(function),
            tuple(_cell_key(c, names_in(function.__code__)) for c in function.__closure__ or ()),
            structural_key(function.__defaults__),
            structural_key(function.__kwdefaults__),
        )
    finally:
        _pending.reset(token)


def _cell_key(cell, names):
    try:
        return named_key(cell.cell_contents, names)
    except ValueError:  # an empty cell: a name that is bound later
        return Identity(cell)


def globals_key(function):
    """Keys of the module variables that a Python function names; of functions of installed modules, their identity."""
    variables, names = function.__globals__, names_in(function.__code__)
    named = sorted(name for name in names if name in variables)
    return (Identity(variables), *((name, _global_key(variables[name], variables, names)) for name in named))


def _global_key(value, variables, names):
    elsewhere = isinstance(value, types.FunctionType) and value.__globals__ is not variables
    fixed = elsewhere and _is_installed(value.__globals__.get("__name__", ""))
    return Identity(value) if fixed else named_key(value, names)


@functools.cache
def names_in(code):
    """Global and attribute names in a code object and in the code objects inside it."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return frozenset(code.co_names).union(*map(names_in, inner))


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
