"""JAX's own syntax: jax.grad(F)(f), jax.jvp, jax.vjp, jax.linearize, jax.linear_transpose, jax.make_jaxpr on Functions.

A Function is one leaf of a pytree, of the type `FunctionType`, whatever it carries: jax.grad(F)(f) is the functional
derivative. `as_pytree(f)` is the pytree of the arrays that f carries, to differentiate with respect to these.

Inside a transformation the functional gets a Function again, with a tracer in it, so all operators work on it and it
can be called. Nothing happens until a value is needed: then the whole graph is bound as one primitive, whose operands
are the function tracers and the arrays of the graph. Its rules are those of the operators (dftfd.autofd.graph); arrays
hidden in the graph can't be overlooked, since each of them is an operand.

Of a function that carries tracers JAX gets a tracer, made by one primitive with these as operands, so their changes
are seen where the function is a result. Who takes such a tracer for a function again gets the function it was made of.

The type of a known function names its graph; it crosses jit as its arrays. A function under differentiation has a type
that can't be lowered, so it can't cross jit, scan, cond or vmap inside a functional without an error.

jax.experimental.hijax and jax.interpreters have no promise of stability; everything but JAX's syntax works without
this file. It serves JAX 0.10 to 0.12: nothing is patched.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd.core.calling import Interpreter, always
from dftfd.autofd.core.codes import zero_tangent
from dftfd.autofd.core.degree import LINEAR, ZERO, of_graph
from dftfd.autofd.core.function import SYMBOLIC, Function, check_same_type, copy_as, home_of, parts
from dftfd.autofd.core.graph import backward, forward, has_variables, is_variable, or_zero, without_variables
from dftfd.autofd.core.jax_adapter import (
    DynamicJaxprTracer,
    JaxprTracer,
    Zero,
    ad,
    batching,
    current_trace,
    evaluation_trace,
    holds_tracers,
    is_undefined_primal,
    set_current_trace,
    shaped,
    type_of_array,
)
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.packed import assemble
from dftfd.autofd.jax_door.jax_graphs import (
    INSIDE_VMAP,
    as_function,
    as_value,
    build_p,
    evaluate_p,
    inlined,
    leaf_of,
    open_p,
    origins,
    symbol,
    symbolic,
    unpack_p,
    value_by_jax,
    with_symbols_as_variables,
)
from dftfd.autofd.jax_door.jax_leaves import CROSSES_JIT, MAPPED, FunctionType, KnownLeaf, MappedLeaf, OpenLeaf
from dftfd.autofd.operators.integrate import check_one_measure
from dftfd.autofd.transforms.outcome import array_cotangents
from dftfd.autofd.transforms.transposition import pairing
from dftfd.errors import LeakError, SignatureError

# ---- rules of the primitives


def _derivative(primals, tangents, graph):
    """The derivative of a graph as a graph, None if it is zero."""
    tag, functions = object(), graph.functions()
    seeds = [None if type(tangents[k]) is Zero else as_function(tangents[k]) for k in functions]
    for k, seed in zip(functions, seeds, strict=True):
        if seed is not None:
            check_same_type(as_function(primals[k]), seed, "jvp", "tangent")
    moving = [
        np.zeros(()) if k in functions else zero_tangent(x) if type(dx) is Zero else dx
        for k, (x, dx) in enumerate(zip(primals, tangents, strict=True))
    ]
    root = with_symbols_as_variables(assemble(graph.structure, primals), tag)
    derivative = forward(root, tag, seeds, moving)
    return None if derivative is None else inlined(without_variables(derivative, tag))


def _evaluate_jvp(primals, tangents, *, graph):
    values = _evaluate(*primals, graph=graph)
    derivative = _derivative(primals, tangents, graph)
    if derivative is None:
        return values, [jnp.zeros_like(v) for v in values]
    value = value_by_jax(derivative, tangents) if SYMBOLIC in derivative.tags else derivative()
    return values, tree_leaves(value)


def _build_jvp(primals, tangents, *, graph, kind):
    value = inlined(assemble(graph.structure, primals))
    derivative = or_zero(_derivative(primals, tangents, graph), graph.structure.signature)
    return as_value(value, kind, [primals[k] for k in graph.linear]), as_value(derivative, "tangent", tangents)


def _evaluate(*leaves, graph):
    node = inlined(assemble(graph.structure, leaves))
    value = value_by_jax(node, [leaves[k] for k in graph.linear]) if SYMBOLIC in node.tags else node()
    return tree_leaves(value)


def _built(*leaves, graph, kind):
    f = inlined(assemble(graph.structure, leaves))
    return as_value(f, kind, [leaves[k] for k in graph.linear]) if SYMBOLIC in f.tags else leaf_of(f, kind)


def _evaluate_transpose(cotangents, *operands, graph):
    structure = tree_structure(graph.structure.signature.result)
    full = [jnp.zeros(type_of_array(c).shape, type_of_array(c).dtype) if type(c) is Zero else c for c in cotangents]
    cotangent = tree_unflatten(structure, full)
    return _transposed(operands, graph, op.constant(cotangent), lambda node: pairing(cotangent, node()))


def _build_transpose(cotangent, *operands, graph, kind):
    if type(cotangent) is Zero:
        return [None] * len(operands)
    cotangent = as_function(cotangent)
    return _transposed(operands, graph, cotangent, lambda node: pairing(cotangent, node))


def _transposed(operands, graph, cotangent, paired):
    """Cotangents of the operands that are undefined, in which the graph is linear.

    cotangent: of the graph's value, as a Function.   paired: node -> <cotangent, node>, a real number.
    """
    functions = graph.functions()
    wanted = [k for k, x in enumerate(operands) if is_undefined_primal(x)]
    nothing = lambda k, x: op.zeros(x.aval.signature) if k in functions else jnp.zeros(x.aval.shape, x.aval.dtype)
    known = [nothing(k, x) if k in wanted else x for k, x in enumerate(operands)]
    results = [None] * len(operands)
    if not set(wanted) <= set(graph.linear):
        _check_linear(graph, known, wanted)

    tag, gradients = object(), [None] * len(functions)
    chosen = {i: known[k] for i, k in enumerate(functions) if k in wanted}
    if chosen:
        root = inlined(with_symbols_as_variables(assemble(graph.structure, known), tag, chosen))
        backward(root, cotangent, tag, gradients)
        for i in chosen:
            gradient = without_variables(or_zero(gradients[i], chosen[i].signature), tag)
            results[functions[i]] = as_value(gradient, "tangent")

    def value(arrays):
        return paired(inlined(assemble(graph.structure, [arrays.get(k, x) for k, x in enumerate(known)])))

    arrays = {k: known[k] for k in wanted if k not in functions}
    whole = inlined(assemble(graph.structure, known))
    slope = lambda k, unit: value(arrays | {k: unit})
    for k, ct in array_cotangents(arrays, value, slope if SYMBOLIC in whole.tags else None, repr(whole)).items():
        results[k] = ct
    return results


def _check_linear(graph, operands, wanted):
    """Raise unless the graph is linear in the operands with the numbers `wanted`."""
    functions, tag = graph.functions(), object()
    chosen = {i for i, k in enumerate(functions) if k in wanted}
    root = with_symbols_as_variables(assemble(graph.structure, operands), tag)
    is_wanted = lambda node: is_variable(node, tag) and node.static["position"] in chosen
    if of_graph(root, is_wanted, {k: LINEAR for k in wanted if k not in functions}) not in (ZERO, LINEAR):
        raise SignatureError(
            f"a transpose is asked for of {graph!r}, which is not linear, or not known to be: jax.linear_transpose "
            "takes linear operators; the transpose of a derivative is jax.vjp(operator, f)[1]."
        )


def _unpacked(f):
    return list(parts(f)[0])


def _refuse_jit(primals, tangents):
    raise LeakError(CROSSES_JIT)


class Mapped:
    """Place of vmap's axis in a function: there is none, so JAX can't move it to where a result has it."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        raise LeakError(MAPPED)


def _build_batched(operands, dims, *, graph, kind):
    """Of a function with mapped arrays a leaf that can't be used; the one that it was made of still can."""
    if graph.functions():
        raise LeakError(INSIDE_VMAP)
    return copy_as(assemble(graph.structure, operands), MappedLeaf), Mapped()


def _refuse_vmap(*args, **params):
    raise LeakError(INSIDE_VMAP)


def _function_aval(*avals, graph, kind):
    known = (graph.structure, avals) if kind == "known" else ()
    return FunctionType(graph.structure.signature, kind, *known)


def _array_avals(*avals, graph):
    return list(map(shaped, tree_leaves(graph.structure.signature.result)))


def _opened(f):
    origin = f if isinstance(f, Function) else origins.of(f)
    return open_p.bind(f) if origin is None else copy_as(origin, OpenLeaf)


open_p.def_impl(_opened)
open_p.def_abstract_eval(lambda f: FunctionType(f.signature, "symbolic"))
ad.primitive_jvps[open_p] = lambda primals, tangents: (_opened(*primals), tangents[0])
ad.primitive_transposes[open_p] = lambda ct, f: [ct]

evaluate_p.def_impl(_evaluate)
evaluate_p.def_abstract_eval(_array_avals)
ad.primitive_jvps[evaluate_p] = _evaluate_jvp
ad.primitive_transposes[evaluate_p] = _evaluate_transpose

build_p.def_impl(_built)
build_p.def_abstract_eval(_function_aval)
ad.primitive_jvps[build_p] = _build_jvp
ad.primitive_transposes[build_p] = _build_transpose

unpack_p.def_impl(_unpacked)
unpack_p.def_abstract_eval(lambda f: list(f.avals))
ad.primitive_jvps[unpack_p] = _refuse_jit

for _primitive in (open_p, evaluate_p, unpack_p):
    batching.primitive_batchers[_primitive] = _refuse_vmap
batching.primitive_batchers[build_p] = _build_batched


# ---- what can be done with a tracer of a function


def _add_leaves(x, y):
    """Sum of two tangents."""
    total = as_function(x) + as_function(y)
    check_one_measure(total)
    return as_value(total, "tangent", (x, y))


FunctionType.add = staticmethod(_add_leaves)


def _arithmetic(symbol):
    """Python's operator of this name on tracers of functions, as jax.tree_util.tree_map hands them out inside jit."""
    code = getattr(Function, f"__{symbol}__")
    return staticmethod(lambda tracer, *others: code(as_function(tracer), *map(_as_operand, others)))


def _as_operand(x):
    return as_function(x) if isinstance(getattr(x, "aval", None), FunctionType) else x


for _symbol in "add radd sub rsub mul rmul truediv rtruediv pow rpow neg pos abs".split():
    setattr(FunctionType, f"_{_symbol}", _arithmetic(_symbol))


# ---- where Functions meet JAX


class Door(Interpreter):
    """Where Functions meet JAX: as leaves of pytrees, and called while JAX is differentiating them."""

    def answers(self, f):
        return f.tags == {SYMBOLIC}

    def value(self, f, args, outer):
        return value_by_jax(op.at(f, *args) if args else f)

    def leaf(self, f):
        """The leaf of f as a pytree."""
        if f.operator is symbolic:
            return f.arrays[0]
        if has_variables(f) or not (SYMBOLIC in f.tags or holds_tracers(parts(f)[0])):
            return copy_as(f, OpenLeaf if f.opaque else KnownLeaf)
        if SYMBOLIC in f.tags or f.opaque:
            return self._in_trace(f, lambda: as_value(f, "symbolic"))
        value = self._in_trace(f, lambda: as_value(f, "known"))
        # jax.linear_transpose compares types of results and cotangents, so that of its results does not name the graph
        return self._in_trace(f, lambda: as_value(f, "symbolic")) if isinstance(value, JaxprTracer) else value

    def _in_trace(self, f, make):
        trace = current_trace()
        if trace is not None and trace is not evaluation_trace():
            return make()
        home = home_of(f)  # jax.jvp asks for the leaves of a result when it has left its trace
        if home is None:
            return copy_as(f, KnownLeaf)
        with set_current_trace(home):
            return make()

    def unflatten(self, value):
        """A Function from what JAX has in the place of a leaf."""
        if isinstance(value, MappedLeaf):
            raise LeakError(MAPPED)
        if isinstance(value, Function):
            return copy_as(value, Function)
        aval = getattr(value, "aval", None)
        if not isinstance(aval, FunctionType):
            return symbol(value)  # JAX makes pytrees of other things
        if isinstance(value, DynamicJaxprTracer) and aval.kind != "tangent" or origins.of(value) is not None:
            return as_function(value)
        return symbol(open_p.bind(value))


_door = Door()
always(_door)
jax.tree_util.register_pytree_node(
    Function, lambda f: ((_door.leaf(f),), "function"), lambda structure, leaves: _door.unflatten(leaves[0])
)
