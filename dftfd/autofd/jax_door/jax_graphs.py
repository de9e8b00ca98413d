"""Functions with a tracer in them, and their graphs as parameters of a JAX primitive; see jax_syntax."""

import jax

from dftfd.autofd.core.function import SYMBOLIC, Function, _homes, current_trace, nodes_of
from dftfd.autofd.core.graph import variable
from dftfd.autofd.core.operator import Operator
from dftfd.errors import LeakError

INSIDE_VMAP = (
    "a function that JAX is differentiating is evaluated inside vmap within the functional; integrate or broadcast it."
)


def copy_as(f: Function, kind: type, **changes) -> Function:
    """The same node as an object of another class."""
    new = object.__new__(kind)
    for name in Function.__slots__:
        if name != "__weakref__":
            setattr(new, name, changes.get(name, getattr(f, name)))
    if f in _homes:
        _homes[new] = _homes[f]
    return new


class Symbolic(Operator):
    """A function known to JAX: its only array is a tracer of a FunctionType, or the leaf that came in its place."""

    name = "symbolic"

    def signature(self, operands, arrays, static):
        return getattr(getattr(arrays[0], "aval", arrays[0]), "signature", None)

    def evaluate(self, node, *args):
        if isinstance(node.arrays[0], Function):
            return node.arrays[0].evaluate(*args)
        raise LeakError(INSIDE_VMAP)

    def array_tangent(self, node, tangents):
        (tangent,) = tangents
        return copy_as(tangent, Function) if isinstance(tangent, Function) else symbol(tangent)


symbolic = Symbolic()


def symbol(value) -> Function:
    """A Function that stands for a tracer."""
    return Function(symbolic, (), (value,), {}, None, frozenset([SYMBOLIC]))


def evaluation_trace():
    """The trace in which JAX computes with values."""
    with jax.ensure_compile_time_eval():
        return current_trace()


_LONGEST = 1000  # characters of a printed graph


class Graph:
    """An operator graph as a parameter of a primitive; prints as an expression.

    linear: numbers of the operands in which it is known to be linear, together: tangents.
    """

    def __init__(self, structure, linear=()):
        self.structure, self.linear = structure, linear

    @property
    def root(self):
        """(domains and result) of the graph."""
        return self.structure.program[-1][5]

    def functions(self):
        """Numbers of the operands that are functions."""
        found, start = [], 0
        for operator, _, count, *_ in self.structure.program:
            if operator is symbolic:
                found.append(start)
            start += count
        return found

    def __hash__(self):
        return hash((self.structure, self.linear))

    def __eq__(self, other):
        return isinstance(other, Graph) and self.structure == other.structure and self.linear == other.linear

    def __repr__(self):
        words, symbols = [], 0
        for operator, children, _, _, static, _, _ in self.structure.program:
            inside = [words[c] for c in children]
            if operator is symbolic:
                words.append(f"f{symbols}")
                symbols += 1
            elif "code" in static:
                words.append(getattr(static["code"], "__name__", "code").replace("<lambda>", "lambda"))
            elif operator.name == "compose":
                words.append(f"{inside[0]}({', '.join(inside[1:])})")
            else:
                words.append(f"{operator.name}({', '.join(inside)})")
            if len(words[-1]) > _LONGEST:  # shared nodes stand there again and again
                words[-1] = words[-1][:_LONGEST] + "..."
        return words[-1]


def inlined(root: Function) -> Function:
    """The graph with known functions in the places where they stand."""
    done = {}
    for node in nodes_of(root):
        if node.operator is symbolic and isinstance(node.arrays[0], Function):
            done[id(node)] = copy_as(node.arrays[0], Function)
        elif any(done[id(f)] is not f for f in node.operands):
            done[id(node)] = node.replace(operands=[done[id(f)] for f in node.operands])
        else:
            done[id(node)] = node
    return done[id(root)]


def with_symbols_as_variables(root: Function, tag, chosen=None) -> Function:
    """The graph with the symbolic nodes (those in `chosen`: number -> Function) marked as variables."""
    done, count = {}, 0
    for node in nodes_of(root):
        done[id(node)] = node
        if node.operator is symbolic:
            if chosen is None:
                done[id(node)] = variable(node, tag, count)
            elif count in chosen:
                done[id(node)] = variable(chosen[count], tag, count)
            count += 1
        elif any(done[id(f)] is not f for f in node.operands):
            done[id(node)] = node.replace(operands=[done[id(f)] for f in node.operands])
    return done[id(root)]
