"""Functions as pytrees of the arrays that they carry: taken apart, put together, compiled once per graph.

Code of a leaf that has a method `on_points(*arrays, points)` knows a quicker way to many values, (point, ...), than a
program of JAX; outside of JAX's transformations it is asked for them.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import tree_map, tree_unflatten

from dftfd.autofd.core.calling import Interpreter, always
from dftfd.autofd.core.function import Function, GraphStructure, is_function, nodes_of, parts
from dftfd.autofd.core.jax_adapter import holds_tracers
from dftfd.errors import SignatureError


def assemble(structure: GraphStructure, leaves) -> Function:
    """The Function with this structure and these arrays."""
    leaves, start = tuple(leaves), 0
    nodes: list[Function] = []
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
            "this is a pytree of the arrays of a function, or of derivatives with respect to them, and cannot be "
            "evaluated; use .function, the function with these arrays."
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
        arrays, structure = parts(f)
        if structure.is_quick and len(args) == 1 and not holds_tracers((args, arrays)):
            found = quick_values(f, args[0][None])
            if found is not None:
                return tree_map(lambda values: values[0], found)
        return _compiled(Packed(f), args)


def quick_values(f: Function, points):
    """Values (point, ...) by `on_points` of the leaves that have it, and compositions with them; None where none has.

    Nothing here may be traced.
    """
    values: dict[Function, Any] = {}
    for node in nodes_of(f):
        if hasattr(node.code, "on_points"):
            values[node] = tree_map(jnp.asarray, node.code.on_points(*node.arrays, points))
        elif node.operator.name == "compose" and any(g in values for g in node.operands[1:]):
            outer, *inner = node.operands
            given = [values[g] if g in values else _on_points(Packed(g), points) for g in inner]
            values[node] = _on_points(Packed(outer), *given)
    return values.get(f)


@jax.jit
def _on_points(packed, *points):
    return jax.vmap(packed.function.evaluate)(*points)


@jax.jit
def _compiled(packed, args):
    return packed.function.evaluate(*args)


always(Compiled())
