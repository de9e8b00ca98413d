"""Functions with a tracer in them, and their graphs as parameters of a JAX primitive; see jax_syntax."""

import itertools
import weakref

from jax.tree_util import tree_structure, tree_unflatten

from dftfd.autofd.core.function import SYMBOLIC, Function, copy_as, parts
from dftfd.autofd.core.graph import over, rewrite, variable
from dftfd.autofd.core.jax_adapter import DynamicJaxprTracer, Primitive, holds_tracers, is_tracer
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.packed import assemble
from dftfd.autofd.jax_door.jax_leaves import FunctionType, KnownLeaf, OpenLeaf, TangentLeaf, check_not_watched
from dftfd.errors import LeakError

INSIDE_VMAP = (
    "a function that JAX is differentiating is evaluated inside vmap within the functional; integrate or broadcast it."
)


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


_LONGEST = 1000  # characters of a printed graph


class Graph:
    """An operator graph as a parameter of a primitive; prints as an expression.

    linear: numbers of the operands in which it is known to be linear, together: tangents.
    """

    def __init__(self, structure, linear=()):
        self.structure, self.linear = structure, linear

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
        words: list[str] = []
        symbols = 0
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

    def rule(node, operands):
        known = node.operator is symbolic and isinstance(node.arrays[0], Function)
        return copy_as(node.arrays[0], Function) if known else over(node, operands)

    return rewrite(root, rule)


def with_symbols_as_variables(root: Function, tag, chosen=None) -> Function:
    """The graph with the symbolic nodes (those in `chosen`: number -> Function) marked as variables."""
    number = itertools.count()

    def rule(node, operands):
        if node.operator is not symbolic:
            return over(node, operands)
        k = next(number)
        if chosen is None:
            return variable(node, tag, k)
        return variable(chosen[k], tag, k) if k in chosen else node

    return rewrite(root, rule)


# ---- the primitives

_ENDED = "a function belongs to a transformation by JAX that has ended; return results from the functional."


class FunctionPrimitive(Primitive):
    """A primitive with operands or results of a FunctionType."""

    def is_high(self, *avals, **params):
        return True

    def is_effectful(self, params):  # type: ignore[override]  # JAX declares None, for primitives that never have effects
        return False

    def to_lojax(self, *args, **params):
        if any(is_tracer(x) and isinstance(x.aval, FunctionType) for x in args):
            raise LeakError(_ENDED)
        return self.impl(*args, **params)


open_p = FunctionPrimitive("function")  # the argument as the functional sees it
evaluate_p = FunctionPrimitive("functional")  # the value of a graph without arguments
evaluate_p.multiple_results = True
build_p = FunctionPrimitive("operator")  # the function that a graph is
unpack_p = FunctionPrimitive("arrays")  # the arrays that a known function carries, inside jit
unpack_p.multiple_results = True


# ---- Functions, and what JAX has in their place


class Origins:
    """Functions by the tracers that were made of them, as long as these live."""

    def __init__(self):
        self._found = {}

    def add(self, tracer, f):
        key = id(tracer)
        self._found[key] = (weakref.ref(tracer, lambda _: self._found.pop(key, None)), f)

    def of(self, value):
        """The function that a tracer was made of, or None."""
        return self._found.get(id(value), (None, None))[1]


origins = Origins()


def as_function(value) -> Function:
    """A leaf or a tracer of one as a Function to compute with."""
    if isinstance(value, Function):
        return copy_as(value, Function)
    origin = origins.of(value)
    if origin is not None:
        return origin
    aval = value.aval
    if aval.kind == "known" and isinstance(value, DynamicJaxprTracer):  # jit, eval_shape: nobody differentiates here
        return assemble(aval.structure, unpack_p.bind(value) if aval.avals else ())
    return symbol(value)


def as_value(f: Function, kind: str, linear=()):
    """A Function as a leaf, or as a tracer if it contains tracers."""
    if SYMBOLIC not in f.tags and not holds_tracers(parts(f)[0]):
        return leaf_of(f, kind)
    check_not_watched(f)
    leaves, structure = parts(f)
    value = build_p.bind(*leaves, graph=Graph(structure, _places(leaves, linear)), kind=kind)
    if SYMBOLIC not in f.tags and is_tracer(value):
        origins.add(value, f)
    return value


def leaf_of(f, kind):
    return copy_as(f, {"known": KnownLeaf, "symbolic": OpenLeaf, "tangent": TangentLeaf}[kind], opaque=False)


def _places(leaves, chosen):
    """Numbers of the leaves that are among the objects `chosen`."""
    chosen = {id(x) for x in chosen}
    return tuple(k for k, x in enumerate(leaves) if id(x) in chosen)


def value_by_jax(node, linear=()):
    """The value of a graph without arguments, with tracers of functions in it."""
    leaves, structure = parts(node)
    graph = Graph(structure, _places(leaves, linear))
    return tree_unflatten(tree_structure(node.result), evaluate_p.bind(*leaves, graph=graph))
