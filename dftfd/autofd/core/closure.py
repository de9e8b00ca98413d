"""What Python code closes over: arrays become arguments, so that JAX and the operators see them."""

import types
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jax.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd.core.fixed_places import refuse_places_outside
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.jax_adapter import holds_tracers
from dftfd.autofd.core.packed import pack, unpack
from dftfd.autofd.core.structure import HasKey, Identity, globals_key, named_key, names_in, structural_key
from dftfd.autofd.scalar.keys import Keys
from dftfd.errors import LeakError

MOST_RESULTS = 4096
# shapes and types of results by code and arguments: the same sums and products come again
_results: dict[Any, Any] = {}


def label_of(code) -> str:
    """A name of code for messages and printed graphs."""
    return getattr(code, "__name__", type(code).__name__)


def lift_closure(code):
    """(code, arrays): arrays that a Python function closes over, alone or in pytrees, moved to leading arguments.

    The other values that it closes over are fixed: the names may be bound anew later without effect on the Function.
    """
    if not isinstance(code, types.FunctionType) or not code.__closure__:
        return code, ()
    cells = [_Cell(cell, label_of(code), names_in(code.__code__)) for cell in code.__closure__]
    return Lifted(code, cells), tuple(a for c in cells for a in c.arrays)


class _Cell:
    """A closed-over value, taken apart into arrays and the rest."""

    def __init__(self, cell, name, names):
        self.arrays: tuple[jax.Array, ...] = ()
        self.names = names
        self.cell = None
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet: a name that the enclosing code binds later
            self.cell = cell
            return
        _check_untagged(value, name)
        leaves, self.structure = tree_flatten(pack(value))
        self.arrays = tuple(x for x in leaves if isinstance(x, jax.Array))
        self.rest = [None if isinstance(x, jax.Array) else (x,) for x in leaves]

    def filled(self, arrays):
        """A cell for the same value with other arrays, taken from the iterator `arrays`."""
        if self.cell is not None:
            return self.cell
        leaves = [next(arrays) if x is None else x[0] for x in self.rest]
        return types.CellType(unpack(tree_unflatten(self.structure, leaves)))

    def structural_key(self):
        if self.cell is not None:
            return Identity(self.cell)
        return (self.structure, *(None if x is None else named_key(x[0], self.names) for x in self.rest))


def _check_untagged(value, name):
    functions = tree_leaves(value, is_leaf=lambda v: isinstance(v, Function))
    if any(isinstance(f, Function) and f.tags for f in functions):
        raise LeakError(
            f"{name} closes over a function that is being differentiated, so its derivative would be lost. Build the "
            "expression with operators: compose(code, f) instead of function(lambda x: code(f(x)))."
        )


class Lifted(HasKey):
    """A Python function whose closed-over arrays have become leading arguments."""

    def __init__(self, code, cells):
        self.__name__, self._code, self._cells = label_of(code), code, cells
        self._count = sum(len(c.arrays) for c in cells)

    def __call__(self, *args):
        code, arrays = self._code, iter(args[: self._count])
        cells = tuple(c.filled(arrays) for c in self._cells)
        filled = types.FunctionType(code.__code__, code.__globals__, code.__name__, code.__defaults__, cells)
        filled.__kwdefaults__ = code.__kwdefaults__
        return filled(*args[self._count :])

    def structural_key(self):
        code = self._code
        defaults = structural_key((code.__defaults__, code.__kwdefaults__))
        return ("lifted", code.__code__, globals_key(code), tuple(c.structural_key() for c in self._cells), defaults)


class Frozen(HasKey):
    """Code as the program that it traced to: state that the code reads is taken as it was then.

    Two are interchangeable if both their code and their programs are equal. Equal code may read a variable that has
    changed, and equal programs may have different derivative rules of their own (jax.custom_jvp).
    consts: None if the arrays that the program captured are its leading arguments.
    """

    def __init__(self, code, jaxpr, consts, result, source_key):
        self.__name__, self.jaxpr, self.consts, self.result = label_of(code), jaxpr, consts, result
        self.source_key = source_key
        of_program = () if consts is None else (_ProgramKeys().program(ClosedJaxpr(jaxpr, consts)),)
        self._key = ("frozen", source_key, *of_program)

    def __call__(self, *args):
        count = len(self.jaxpr.constvars) if self.consts is None else 0
        closed = ClosedJaxpr(self.jaxpr, args[:count] if self.consts is None else self.consts)
        return tree_unflatten(self.result, jaxpr_as_fun(closed)(*tree_leaves(args[count:])))

    def structural_key(self):
        return self._key


def freeze(code, arrays, specs):
    """(code, arrays, spec of the result): code as a program, every traced array that it captures among the arrays.

    arrays: leading arguments.   specs: of the other arguments. Traced arrays are captured by nested functions, callable
    objects and partial applications, which `lift_closure` leaves. Code with a key of its own has no state.
    """
    stateless = isinstance(code, HasKey) and not isinstance(code, Lifted)
    if stateless and not arrays and (result := code.spec_of_result(*specs)) is not None:
        return code, arrays, result
    known = _of_plain_code(code, specs) if stateless and not arrays else None
    if known in _results:
        return code, arrays, _results[known]
    traced = code if stateless else lambda *args: code(*args)  # JAX keeps the program of a function that it has seen
    closed, result = jax.make_jaxpr(traced, return_shape=True)(*arrays, *specs)
    refuse_places_outside(closed)
    jaxpr, structure = closed.jaxpr, tree_structure(result)
    if holds_tracers(closed.consts):
        return Frozen(code, jaxpr, None, structure, Identity(jaxpr)), (*closed.consts, *arrays), result
    if stateless:
        if known is not None:
            _results[known] = result
            if len(_results) > MOST_RESULTS:
                _results.pop(next(iter(_results)))
        return code, arrays, result
    consts = [c if isinstance(c, jax.Array) else np.array(c) for c in closed.consts]  # NumPy arrays may change
    return Frozen(code, jaxpr, consts, structure, structural_key(code)), arrays, result


def _of_plain_code(code, specs):
    """What the spec of the result depends on; None for code that holds arrays or functions, which would be kept."""
    held = tree_leaves(vars(code), is_leaf=lambda value: isinstance(value, HasKey))
    if any(isinstance(value, HasKey | jax.Array) for value in held):
        return None
    leaves, structure = tree_flatten(specs)
    return code.structural_key(), structure, *leaves


class _ProgramKeys(Keys):
    """Keys of programs without the rules of custom derivatives, and without placement; arrays of JAX by identity."""

    def variable(self, variable, names):
        if isinstance(variable, Literal):
            return super().variable(variable, names)
        return names.setdefault(variable, len(names))

    def array(self, array):
        return Identity(array) if isinstance(array, jax.Array) else super().array(array)

    def rule(self, eqn):
        return ()

    def other(self, value):
        return type(value).__qualname__
