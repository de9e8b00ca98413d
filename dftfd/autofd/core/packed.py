"""Functions as pytrees of the arrays that they carry: taken apart, put together, compiled once per graph."""

import jax
from jax.tree_util import tree_map, tree_unflatten

from dftfd.autofd.core.calling import Interpreter, always
from dftfd.autofd.core.function import Function, GraphStructure, is_function, parts
from dftfd.errors import SignatureError


def assemble(structure: GraphStructure, leaves) -> Function:
    """The Function with this structure and these arrays."""
    leaves, nodes, start = tuple(leaves), [], 0
    for operator, children, count, treedef, static, signature, tags in structure.program:
        arrays = tree_unflatten(treedef, leaves[start : start + count])
        start += count
        nodes.append(Function(operator, [nodes[i] for i in children], arrays, static, signature, tags))
    return nodes[-1]


@jax.tree_util.register_pytree_node_class
class Packed:
    """A Function as a pytree of the arrays that it carries; `function` is the Function.

    Trees of derivatives with respect to the arrays are of this class, too. They are no functions, so it has no values.
    """

    __slots__ = ("_function", "_leaves", "_structure")

    def __init__(self, function):
        self._function = function
        self._leaves, self._structure = parts(function)

    @property
    def function(self) -> "Function":
        """The Function that carries these arrays."""
        if self._function is None:
            self._function = assemble(self._structure, self._leaves)
        return self._function

    @property
    def arrays(self) -> tuple:
        """The arrays, in the order of the pytree's leaves."""
        return self._leaves

    def tree_flatten(self):
        return self._leaves, self._structure

    @classmethod
    def tree_unflatten(cls, structure, leaves):
        new = object.__new__(cls)
        new._function, new._leaves, new._structure = None, tuple(leaves), structure
        return new

    def __call__(self, *args):
        raise SignatureError(
            "this is a pytree of the arrays that a function carries, or of derivatives with respect to them, and has "
            "no values; .function is the function that carries these arrays."
        )

    def __repr__(self):
        arrays = ", ".join(f"{x.dtype.name}{list(x.shape)}" for x in self._leaves if hasattr(x, "dtype"))
        return f"arrays of a function: {arrays}"


def pack(tree):
    """A pytree with each Function in it packed."""
    return tree_map(lambda x: Packed(x) if is_function(x) else x, tree, is_leaf=is_function)


def unpack(tree):
    """A pytree with each packed Function taken out."""
    packed = lambda x: isinstance(x, Packed)
    return tree_map(lambda x: x.function if packed(x) else x, tree, is_leaf=packed)


class Compiled(Interpreter):
    """Outside of any evaluation: the program of a graph is traced and compiled once."""

    def answers(self, f):
        return not f.tags

    def value(self, f, args, outer):
        return _compiled(Packed(f), args)


@jax.jit
def _compiled(packed, args):
    return packed.function.evaluate(*args)


always(Compiled())
