"""All of JAX that is used beyond its promised interface: jax.core, jax.interpreters and jax.experimental.hijax.

Tracers and abstract values are needed everywhere; the rest serves the door to JAX's own syntax. JAX 0.10 to 0.12.
"""

import jax
from jax.core import ShapedArray, Tracer
from jax.experimental.hijax import HiType as HiType
from jax.experimental.hijax import Zero as Zero
from jax.experimental.hijax import is_undefined_primal as is_undefined_primal
from jax.experimental.hijax import register_hitype as register_hitype
from jax.extend.core import Primitive as Primitive
from jax.extend.core import get_opaque_trace_state, take_current_trace
from jax.extend.core import set_current_trace as set_current_trace
from jax.interpreters import ad as ad
from jax.interpreters import batching as batching
from jax.interpreters import mlir
from jax.interpreters.partial_eval import DynamicJaxprTracer as DynamicJaxprTracer
from jax.interpreters.partial_eval import JaxprTracer as JaxprTracer
from jax.tree_util import tree_leaves

from dftfd.errors import UnsupportedError


def is_tracer(value) -> bool:
    """True for an array that stands for a value inside a JAX transformation."""
    return isinstance(value, Tracer)


def holds_tracers(value) -> bool:
    """True if a pytree contains an array that stands for a value inside a JAX transformation."""
    return any(map(is_tracer, tree_leaves(value)))


def is_traced_array(x) -> bool:
    """True for an array, not a function, that stands for a value inside a JAX transformation."""
    return is_tracer(x) and hasattr(x.aval, "shape")


def type_of_array(x) -> ShapedArray:
    """JAX's type of a variable, tracer or zero that stands for an array; others have no shape."""
    return x.aval


def same_structure(treedef, other) -> bool:
    """Whether two pytrees have the same nodes, of their treedefs, whose comparison JAX does not declare."""
    return treedef == other


def shaped(spec) -> ShapedArray:
    """JAX's type of arrays of this shape and dtype."""
    return ShapedArray(spec.shape, spec.dtype)


def trace_state():
    """An opaque value that is equal only inside one and the same JAX trace."""
    return get_opaque_trace_state(convention="nnx")


def current_trace():
    """The trace that JAX is in; None while another one is suspended."""
    with take_current_trace() as trace:
        return trace


def evaluation_trace():
    """The trace in which JAX computes with values."""
    with jax.ensure_compile_time_eval():
        return current_trace()


def host_primitive(name: str, evaluate, shapes, why_not_compiled: str) -> Primitive:
    """An operation whose values `evaluate(*arrays, **params)`, a list of arrays, computes outside of JAX, at once.

    shapes: (*avals, **params) -> the result's, as ShapedArrays. JAX's derivatives find it by rules that are added to
    it; under vmap it is evaluated for one entry after the other; compiled it is refused with `why_not_compiled`.
    """
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(lambda *arrays, **params: [jax.numpy.asarray(x) for x in evaluate(*arrays, **params)])
    primitive.def_abstract_eval(shapes)

    def one_after_another(arrays, axes, **params):
        size = next(a.shape[axis] for a, axis in zip(arrays, axes, strict=True) if axis is not None)
        entry = lambda a, axis, i: a if axis is None else jax.lax.index_in_dim(a, i, axis, False)
        entries = [[entry(a, axis, i) for a, axis in zip(arrays, axes, strict=True)] for i in range(size)]
        results = [primitive.bind(*arguments, **params) for arguments in entries]
        return [jax.numpy.stack(parts) for parts in zip(*results, strict=True)], [0] * len(results[0])

    def refused(*arguments, **params):
        raise UnsupportedError(why_not_compiled)

    batching.primitive_batchers[primitive] = one_after_another
    mlir.register_lowering(primitive, refused)
    return primitive


def derivative_rules(primitive: Primitive, jvp, transpose=None) -> None:
    """Adds the rules of `jax.interpreters.ad`: jvp(primals, tangents, **params), transpose(cotangents, *args, **p)."""
    ad.primitive_jvps[primitive] = jvp
    if transpose is not None:
        ad.primitive_transposes[primitive] = transpose


def is_zero(tangent) -> bool:
    """Whether a tangent or cotangent is zero by structure."""
    return isinstance(tangent, Zero)


def is_argument(x) -> bool:
    """Whether an operand of a transposition is what the linear map is of."""
    return is_undefined_primal(x)


def whole_tangents(tangents) -> list:
    return [ad.instantiate_zeros(t) for t in tangents]
