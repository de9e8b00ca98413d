"""What Python code closes over: arrays become arguments, so that JAX and the operators see them."""

import types

import jax
from jax.extend.core import jaxpr_as_fun
from jax.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd.function import Function, pack, unpack
from dftfd.autofd.structure import HasKey, Identity, globals_key, structural_key
from dftfd.errors import LeakError


def label_of(code) -> str:
    """A name of code for messages and printed graphs."""
    return getattr(code, "__name__", type(code).__name__)


def lift_closure(code):
    """(code, arrays): arrays that a Python function closes over, alone or in pytrees, moved to leading arguments.

    The other values that it closes over are fixed: the names may be bound anew later without effect on the Function.
    """
    if not isinstance(code, types.FunctionType) or not code.__closure__:
        return code, ()
    cells = [_Cell(cell, label_of(code)) for cell in code.__closure__]
    return Lifted(code, cells), tuple(a for c in cells for a in c.arrays)


class _Cell:
    """A closed-over value, taken apart into arrays and the rest."""

    def __init__(self, cell, name):
        self.arrays, self.cell = (), None
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
        return (self.structure, *(None if x is None else structural_key(x[0]) for x in self.rest))


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


class Converted(HasKey):
    """Code as a jaxpr whose captured arrays have become leading arguments."""

    def __init__(self, name, jaxpr, result):
        self.__name__, self._jaxpr, self._result = name, jaxpr, result

    def __call__(self, *args):
        count = len(self._jaxpr.constvars)
        closed = jax.extend.core.ClosedJaxpr(self._jaxpr, list(args[:count]))
        return tree_unflatten(self._result, jaxpr_as_fun(closed)(*tree_leaves(args[count:])))

    def structural_key(self):
        return ("jaxpr", Identity(self._jaxpr))


def converted(code, arrays, specs):
    """(code, arrays) where every array that the code captures, however hidden, is one of the arrays.

    For traced arrays inside nested functions, callable objects or partial applications, which `lift_closure` leaves.
    """
    closed, result = jax.make_jaxpr(code, return_shape=True)(*arrays, *specs)
    return Converted(label_of(code), closed.jaxpr, tree_structure(result)), (*closed.consts, *arrays)
