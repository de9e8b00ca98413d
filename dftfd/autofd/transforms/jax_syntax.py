"""JAX's own syntax: jax.grad(F)(f), jax.jvp, jax.vjp, jax.linearize, jax.linear_transpose, jax.make_jaxpr on Functions.

A Function is one leaf of a pytree, of the type `FunctionType`, whatever it carries: jax.grad(F)(f) is the functional
derivative. `as_pytree(f)` is the pytree of the arrays that f carries, to differentiate with respect to these.

Inside a transformation the functional gets a Function again, with a tracer in it, so all operators work on it and it
can be called. Nothing happens until a value is needed: then the whole graph is bound as one primitive, whose operands
are the function tracers and the arrays of the graph. Its rules are those of the operators (dftfd.autofd.core.graph);
arrays hidden in the graph can't be overlooked, since each of them is an operand.

Of a function that carries tracers JAX gets a tracer, made by one primitive with these as operands, so their changes
are seen where the function is a result. Who takes such a tracer for a function again gets the function it was made of.

The type of a known function names its graph; it crosses jit as its arrays. A function under differentiation has a type
that can't be lowered, so it can't cross jit, scan, cond or vmap inside a functional without an error. hijax and
jax.interpreters have no promise of stability; everything but JAX's syntax works without this file, which serves JAX
0.10 to 0.12: nothing is patched.
"""

import itertools
import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd.core.calling import Interpreter, always
from dftfd.autofd.core.degree import LINEAR, ZERO, of_graph
from dftfd.autofd.core.domain import describe
from dftfd.autofd.core.function import SYMBOLIC, Function, check_same_type, copy_as, home_of, parts, zero_tangent
from dftfd.autofd.core.graph import (
    backward,
    forward,
    has_variables,
    is_variable,
    or_zero,
    over,
    rewrite,
    variable,
    without_variables,
)
from dftfd.autofd.core.jax_adapter import (
    DynamicJaxprTracer,
    HiType,
    JaxprTracer,
    Primitive,
    Zero,
    ad,
    batching,
    current_trace,
    evaluation_trace,
    holds_tracers,
    is_tracer,
    is_undefined_primal,
    register_hitype,
    set_current_trace,
    shaped,
    type_of_array,
)
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.packed import Packed, assemble
from dftfd.autofd.core.structure import structural_key
from dftfd.autofd.operators.integrate import check_one_measure
from dftfd.autofd.transforms.outcome import array_cotangents
from dftfd.autofd.transforms.transposition import pairing
from dftfd.errors import AutofdError, LeakError, SignatureError


def as_leaf(f: Function) -> Function:
    """The same function as JAX sees it inside a transformation: jax.make_jaxpr prints operators, jit refuses it."""
    return copy_as(f, Function, opaque=True)


def as_pytree(f: Function) -> Packed:
    """The arrays that a function carries as a pytree p; p.function is the function.

    For JAX a Function is a vector, whatever it carries. This is the other view of it, a point in the space of its
    parameters: jax.grad(lambda p: E(p.function))(as_pytree(f)) has the derivatives with respect to the arrays.
    """
    return Packed(f)


class _Leaf(Function):
    """Base of leaves. JAX asks its values whether they turn into arrays by a method; these have none."""

    __slots__ = ()

    @property
    def __jax_array__(self):
        raise AttributeError("a leaf is not an array")

    __array__ = __jax_array__


class KnownLeaf(_Leaf):
    """A Function in the role of a leaf: not a registered pytree, so JAX takes it as a value."""

    __slots__ = ()


class OpenLeaf(_Leaf):
    """A leaf whose type does not name the function: its value inside a transformation."""

    __slots__ = ()


class TangentLeaf(_Leaf):
    """A tangent or cotangent."""

    __slots__ = ()


class MappedLeaf(_Leaf):
    """A function with arrays that vmap maps over; it can't leave vmap."""

    __slots__ = ()


# ---- the type of a leaf

CROSSES_JIT = (
    "a function that JAX is differentiating can't cross jit, scan, cond, while or checkpoint inside the functional: "
    "apply these outside, or use dftfd.autofd.grad. To differentiate with respect to arrays that the function carries, "
    "pass dftfd.autofd.as_pytree(f), and use p.function inside."
)


class NotAnArrayError(SignatureError, AttributeError):
    """A property of arrays was asked of a function."""


class FunctionType(HiType):
    """Type of a leaf for JAX.

    kind: "known", a given function, whose graph the type names, so it crosses jit as its arrays; "symbolic", inside a
        transformation; "tangent", tangents and cotangents.
    structure, avals: of a known function, its graph and the types of the arrays that it carries.
    """

    def __init__(self, signature, kind, structure=None, avals=()):
        self.signature, self.kind, self.structure, self.avals = signature, kind, structure, tuple(avals)
        leaves, tree = tree_flatten(signature.result)
        domains = tuple(d.structural_key() for d in signature.domains)
        self._space = (domains, tree, tuple(map(structural_key, leaves)))
        self._key = (self._space, kind, structure, self.avals)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotAnArrayError(
            f"JAX treats a function as an array (it asks for {name!r}): transformations that go through all "
            "entries, such as jacfwd, jacrev and hessian, do not exist for functions; use dftfd.autofd.jacrev "
            "where it applies."
        )

    @property
    def dtype(self):  # jax.linear_transpose of JAX 0.10 asks for it
        return tree_leaves(self.signature.result)[0].dtype

    def __hash__(self):
        return hash(self._key)

    def __eq__(self, other):
        if not isinstance(other, FunctionType) or self._space != other._space:
            return False
        # A function that the user has may be given where a tangent is expected. Programs never have arguments of the
        # type "tangent": the functional gets them as "symbolic", so no cached program is found by mistake.
        return self._key == other._key or (self.kind == "tangent") != (other.kind == "tangent")

    def str_short(self, short_dtypes=False, mesh_axis_types=False, **_):
        points = ", ".join(describe(d.spec) for d in self.signature.domains)
        return f"Function[{points} -> {describe(self.signature.result)}]"

    def __repr__(self):
        hint = "; wrap a function in autofd.as_leaf to pass it here" if self.kind == "symbolic" else ""
        return self.str_short() + hint

    def normalize(self):
        # JAX compares a cotangent's type with that of the result that it belongs to, after this
        return FunctionType(self.signature, "tangent") if self.kind == "symbolic" else self

    def to_tangent_aval(self):
        return FunctionType(self.signature, "tangent")

    def vspace_zero(self):
        return copy_as(op.zeros(self.signature), TangentLeaf)

    def vspace_add(self, x, y):
        total = as_function(x) + as_function(y)
        check_one_measure(total)
        return as_value(total, "tangent", (x, y))

    def lo_ty(self):
        if self.kind != "known":
            raise LeakError(CROSSES_JIT)
        return list(self.avals)

    def lower_val(self, value):
        return list(parts(value)[0])

    def raise_val(self, *arrays):
        if self.kind != "known":
            raise LeakError(CROSSES_JIT)
        return copy_as(assemble(self.structure, arrays), KnownLeaf)

    def dec_rank(self, size, spec):
        if self.kind == "mapped":
            return FunctionType(self.signature, "known", self.structure, self.avals)
        raise LeakError(MAPPED)

    def inc_rank(self, size, spec):
        raise LeakError(MAPPED)


MAPPED = (
    "functions can't be mapped over by vmap or scan: use in_axes=None for a function; to map over the arrays that it "
    "carries, pass or return dftfd.autofd.as_pytree(f), and use p.function inside. Jacobians with functions as values: "
    "dftfd.autofd.jacfwd."
)


def check_not_watched(f):
    """Raise for a function that a transformation of this package is differentiating: JAX would not see it."""
    if has_variables(f):
        raise LeakError(
            f"{f!r} is being differentiated by dftfd.autofd, and a JAX transformation was applied to it. Inside "
            "transformations of dftfd.autofd, use those of dftfd.autofd."
        )


def _refuse_function(f):
    raise SignatureError(
        f"a JAX primitive, which takes arrays, was given the function {f!r}: use the operator of dftfd.autofd "
        "(exp, sin, ...), or compose(code, f) with code of one value."
    )


register_hitype(Function, _refuse_function)  # as a pytree it gets a leaf, of a class of its own


class CodeError(AutofdError):
    """JAX was given Python code in the place of an array. No TypeError: JAX would put its own text in its place."""


def _refuse_code(code):
    raise CodeError(
        f"JAX was given Python code, {getattr(code, '__name__', 'a function')!r}, where it takes arrays. A function to "
        "differentiate with respect to declares its spaces: dftfd.autofd.function(code, X)."
    )


register_hitype(types.FunctionType, _refuse_code)  # code has no type for JAX anyway; this says what to write


def _register(leaf_class, kind):
    def type_of(f):
        check_not_watched(f)
        if kind not in ("known", "mapped"):
            return FunctionType(f.signature, kind)
        arrays, structure = parts(f)
        return FunctionType(f.signature, kind, structure, (shaped(jax.typeof(x)) for x in arrays))

    register_hitype(leaf_class, type_of)


_register(KnownLeaf, "known")
_register(OpenLeaf, "symbolic")
_register(TangentLeaf, "tangent")
_register(MappedLeaf, "mapped")


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


class FunctionPrimitive(Primitive):
    """A primitive with operands or results of a FunctionType."""

    def is_high(self, *avals, **params):
        return True

    def is_effectful(self, params):  # type: ignore[override]  # JAX declares None, for primitives that never have effects
        return False

    def to_lojax(self, *args, **params):
        if any(is_tracer(x) and isinstance(x.aval, FunctionType) for x in args):
            raise LeakError(
                "a function belongs to a transformation by JAX that has ended; return results from the functional."
            )
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
            f"the transpose was requested of {graph!r}, which is not linear, or not known to be: "
            "jax.linear_transpose takes linear operators; the transpose of a derivative is jax.vjp(operator, "
            "f)[1]."
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
