"""All of JAX that is used beyond its promised interface: jax.core, jax.interpreters and jax.experimental.hijax.

Tracers and abstract values are needed everywhere; the rest serves the door to JAX's own syntax. JAX 0.10 to 0.12.
"""

# ruff: noqa: F401
import jax
from jax.core import ShapedArray, Tracer
from jax.experimental.hijax import HiType, Zero, is_undefined_primal, register_hitype
from jax.extend.core import Primitive, get_opaque_trace_state, set_current_trace, take_current_trace
from jax.interpreters import ad, batching
from jax.interpreters.partial_eval import DynamicJaxprTracer, JaxprTracer
from jax.tree_util import tree_leaves


def is_tracer(value) -> bool:
    """True for an array that stands for a value inside a JAX transformation."""
    return isinstance(value, Tracer)


def holds_tracers(value) -> bool:
    """True if a pytree contains an array that stands for a value inside a JAX transformation."""
    return any(map(is_tracer, tree_leaves(value)))


def is_traced_array(x) -> bool:
    """True for an array, not a function, that stands for a value inside a JAX transformation."""
    return is_tracer(x) and hasattr(x.aval, "shape")


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
