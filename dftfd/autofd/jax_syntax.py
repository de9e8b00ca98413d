"""JAX's own syntax: jax.grad(F)(f), jax.jvp, jax.vjp, jax.linearize, jax.linear_transpose, jax.make_jaxpr on Functions.

A Function without arrays is one leaf of a pytree, of the type `FunctionType`, so jax.grad(F)(f) is the functional
derivative. A Function that carries arrays is a pytree of these, so jax.grad(F)(f) is the gradient with respect to
them and f crosses jit, vmap and scan; `as_leaf(f)` makes it a leaf.

Inside a transformation the functional gets a Function again, with a tracer in it, so all operators work on it and it
can be called. Nothing happens until a value is needed: then the whole graph is bound as one primitive, whose operands
are the function tracers and the arrays of the graph. Its rules are those of the operators (dftfd.autofd.graph); arrays
hidden in the graph can't be overlooked, since each of them is an operand.

jit takes a leaf as a constant: the type of a known function names it. A function under differentiation has a type
that can't be lowered, so it can't cross jit, scan, cond or vmap inside a functional without an error.

jax.experimental.hijax and jax.interpreters have no promise of stability; everything but JAX's syntax works without
this file. It serves JAX 0.10 to 0.12: nothing is patched.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.hijax import Zero, is_undefined_primal
from jax.extend.core import Primitive, set_current_trace
from jax.interpreters import ad, batching
from jax.interpreters.partial_eval import DynamicJaxprTracer
from jax.tree_util import tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd import function as _function
from dftfd.autofd.first_order import directions
from dftfd.autofd.function import SYMBOLIC, Function, assemble, parts
from dftfd.autofd.graph import backward, forward, or_zero, without_variables
from dftfd.autofd.jax_graphs import (
    INSIDE_VMAP,
    Graph,
    copy_as,
    current_trace,
    evaluation_trace,
    home_of,
    inlined,
    symbol,
    symbolic,
    with_symbols_as_variables,
)
from dftfd.autofd.jax_leaves import EXPLICIT, RESULT, FunctionType, KnownLeaf, OpenLeaf, TangentLeaf, check_not_watched
from dftfd.autofd.operators.compose import check_same_type
from dftfd.autofd.operators.integrate import check_one_measure
from dftfd.autofd.operators.leaf import constant, zero_tangent, zeros
from dftfd.autofd.operators.partial import at
from dftfd.autofd.structure import holds_tracers, is_tracer
from dftfd.autofd.transposition import pairing
from dftfd.errors import LeakError, NoRuleError

_MAX_ENTRIES = 64  # of an array whose cotangent is found entry by entry in nested transformations
_ENDED = "a function belongs to a transformation by JAX that has ended; return results from the functional."

# ---- Functions with a tracer in them


def _as_function(value) -> Function:
    """A leaf or a tracer of one as a Function to compute with."""
    return copy_as(value, Function) if isinstance(value, Function) else symbol(value)


def _as_value(f: Function, kind: str):
    """A Function as a leaf, or as a tracer if it contains one."""
    if SYMBOLIC not in f.tags:
        if kind == "symbolic":
            return copy_as(f, OpenLeaf)
        return copy_as(f, TangentLeaf, opaque=0 if holds_tracers(parts(f)[0]) else RESULT)
    check_not_watched(f)
    leaves, structure = parts(f)
    return build_p.bind(*leaves, graph=Graph(structure), kind=kind)


def add_leaves(x, y):
    """Sum of two tangents."""
    total = _as_function(x) + _as_function(y)
    check_one_measure(total)
    return _as_value(total, "tangent")


class Door:
    """What dftfd.autofd.function asks for when Functions meet JAX."""

    def leaf(self, f):
        return copy_as(f, OpenLeaf if f.opaque == EXPLICIT else KnownLeaf)

    def evaluate(self, f, args):
        """f(*args) for a graph with tracers of functions."""
        node = at(f, *args) if args else f
        leaves, structure = parts(node)
        return tree_unflatten(tree_structure(node.result), evaluate_p.bind(*leaves, graph=Graph(structure)))

    def materialise(self, f):
        """The tracer that stands for a graph with tracers of functions."""
        if f.operator is symbolic:
            return f.arrays[0]
        trace = current_trace()
        if trace is not None and trace is not evaluation_trace():
            return _as_value(f, "symbolic")
        # jax.jvp asks for the leaves of a result when it has left its trace
        with set_current_trace(home_of(f)):
            return _as_value(f, "symbolic")

    def unflatten(self, value):
        """A Function from what JAX has in the place of a leaf."""
        if isinstance(value, Function):
            return copy_as(value, Function)
        kind = getattr(getattr(value, "aval", None), "kind", None)
        if kind == "known" and isinstance(value, DynamicJaxprTracer):
            return copy_as(value.aval.function, Function)  # jit, eval_shape: nobody differentiates here
        return symbol(open_p.bind(value) if kind in ("known", "tangent") else value)


# ---- the primitives


class FunctionPrimitive(Primitive):
    """A primitive with operands or results of a FunctionType."""

    def is_high(self, *avals, **params):
        return True

    def is_effectful(self, params):
        return False

    def to_lojax(self, *args, **params):
        if any(is_tracer(x) and isinstance(x.aval, FunctionType) for x in args):
            raise LeakError(_ENDED)
        return self.impl(*args, **params)


open_p = FunctionPrimitive("function")  # the argument as the functional sees it
evaluate_p = FunctionPrimitive("functional")  # the value of a graph without arguments
evaluate_p.multiple_results = True
build_p = FunctionPrimitive("operator")  # the function that a graph is


def _derivative(primals, tangents, graph):
    """The derivative of a graph as a graph, None if it is zero."""
    tag, functions = object(), graph.functions()
    seeds = [None if type(tangents[k]) is Zero else _as_function(tangents[k]) for k in functions]
    for k, seed in zip(functions, seeds, strict=True):
        if seed is not None:
            check_same_type(_as_function(primals[k]), seed, "jvp", "tangent")
    moving = [
        np.zeros(()) if k in functions else zero_tangent(x) if type(dx) is Zero else dx
        for k, (x, dx) in enumerate(zip(primals, tangents, strict=True))
    ]
    root = with_symbols_as_variables(assemble(graph.structure, primals), tag)
    twin = with_symbols_as_variables(assemble(graph.structure, moving), tag)
    derivative = forward(root, tag, seeds, twin)
    return None if derivative is None else inlined(without_variables(derivative, tag))


def _evaluate_jvp(primals, tangents, *, graph):
    values = _evaluated(*primals, graph=graph)
    derivative = _derivative(primals, tangents, graph)
    if derivative is None:
        return values, [jnp.zeros_like(v) for v in values]
    return values, tree_leaves(derivative())


def _build_jvp(primals, tangents, *, graph, kind):
    derivative = or_zero(_derivative(primals, tangents, graph), graph.root)
    return _built(*primals, graph=graph, kind=kind), _as_value(derivative, "tangent")


def _evaluated(*leaves, graph):
    return tree_leaves(inlined(assemble(graph.structure, leaves))())


def _built(*leaves, graph, kind):
    return _as_value(inlined(assemble(graph.structure, leaves)), kind)


def _evaluate_transpose(cotangents, *operands, graph):
    structure = tree_structure(graph.root.result)
    full = [jnp.zeros(c.aval.shape, c.aval.dtype) if type(c) is Zero else c for c in cotangents]
    cotangent = tree_unflatten(structure, full)
    return _transposed(operands, graph, constant(cotangent), lambda node: pairing(cotangent, node()))


def _build_transpose(cotangent, *operands, graph, kind):
    if type(cotangent) is Zero:
        return [None] * len(operands)
    cotangent = _as_function(cotangent)
    return _transposed(operands, graph, cotangent, lambda node: pairing(cotangent, node))


def _transposed(operands, graph, cotangent, paired):
    """Cotangents of the operands that are undefined, in which the graph is linear.

    cotangent: of the graph's value, as a Function.   paired: node -> <cotangent, node>, a real number.
    """
    functions = graph.functions()
    wanted = [k for k, x in enumerate(operands) if is_undefined_primal(x)]
    nothing = lambda k, x: zeros(x.aval.signature) if k in functions else jnp.zeros(x.aval.shape, x.aval.dtype)
    known = [nothing(k, x) if k in wanted else x for k, x in enumerate(operands)]
    results = [None] * len(operands)

    tag, gradients = object(), [None] * len(functions)
    chosen = {i: known[k] for i, k in enumerate(functions) if k in wanted}
    if chosen:
        root = inlined(with_symbols_as_variables(assemble(graph.structure, known), tag, chosen))
        backward(root, cotangent, tag, gradients)
        for i in chosen:
            gradient = without_variables(or_zero(gradients[i], chosen[i].signature), tag)
            results[functions[i]] = _as_value(gradient, "tangent")

    def value(arrays):
        leaves = [arrays.get(k, x) for k, x in enumerate(known)]
        return paired(inlined(assemble(graph.structure, leaves)))

    arrays = {k: known[k] for k in wanted if k not in functions}
    for k, ct in _array_cotangents(value, arrays, inlined(assemble(graph.structure, known))).items():
        results[k] = ct
    return results


def _array_cotangents(value, arrays, root):
    """Gradient of the real, linear `value` with respect to arrays."""
    if not arrays:
        return {}
    if SYMBOLIC not in root.tags:
        return jax.grad(value)(arrays)
    found = {}  # an outer transformation differentiates functions in `value`: entry by entry, so that it sees them
    for k, x in arrays.items():
        if x.size > _MAX_ENTRIES:
            raise NoRuleError(
                f"nested derivatives by JAX through an array of {x.size} entries that multiplies functions; "
                f"{_MAX_ENTRIES} entries are allowed. Use the transformations of dftfd.autofd."
            )
        entries = np.zeros(x.shape, object)
        for (entry, component), unit in directions(x):
            slope = value(arrays | {k: unit})
            entries.flat[entry] += slope.astype(x.dtype) * (1 if component == "real" else -1j)
        found[k] = jnp.stack(list(entries.flat)).reshape(x.shape)
    return found


def _refuse_vmap(*args, **params):
    raise LeakError(INSIDE_VMAP)


def _array_avals(*avals, graph):
    return [jax.core.ShapedArray(s.shape, s.dtype) for s in tree_leaves(graph.root.result)]


def _opened(f):
    return copy_as(f, OpenLeaf) if isinstance(f, Function) else open_p.bind(f)


open_p.def_impl(_opened)
open_p.def_abstract_eval(lambda f: FunctionType(f.signature, "symbolic"))
ad.primitive_jvps[open_p] = lambda primals, tangents: (_opened(*primals), tangents[0])
ad.primitive_transposes[open_p] = lambda ct, f: [ct]

evaluate_p.def_impl(_evaluated)
evaluate_p.def_abstract_eval(_array_avals)
ad.primitive_jvps[evaluate_p] = _evaluate_jvp
ad.primitive_transposes[evaluate_p] = _evaluate_transpose

build_p.def_impl(_built)
build_p.def_abstract_eval(lambda *avals, graph, kind: FunctionType(graph.root, kind))
ad.primitive_jvps[build_p] = _build_jvp
ad.primitive_transposes[build_p] = _build_transpose

for _primitive in (open_p, evaluate_p, build_p):
    batching.primitive_batchers[_primitive] = _refuse_vmap

_function.jax_door = Door()
