"""JAX programs on arrays of arbitrary scalars: symbols, polynomials, anything with + and *.

A program is traced to its equations, and each is carried out on NumPy arrays of objects. An algebra says what the
scalars are: how numbers become scalars and what the elementary functions of them are. Operations that only move
elements are carried out by JAX itself on the elements' positions.
"""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from dftfd.autofd.series_program import INLINED, bind, closed
from dftfd.autofd.structure import is_tracer
from dftfd.errors import UnsupportedError

_INLINED = INLINED | {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
_MOVES = frozenset(
    "reshape broadcast_in_dim transpose squeeze expand_dims slice dynamic_slice dynamic_update_slice concatenate stack "
    "unstack pad gather scatter rev split select_n".split()
)
_SUMS = frozenset({"scatter-add", "cumsum", "reduce_window_sum"})
_SAME = frozenset({"copy", "copy_p", "real", "convert_element_type", "stop_gradient", "reduce_precision"})
_ARITHMETIC: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "add_any": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "square": lambda a: a * a,
    "one_minus_square": lambda a: 1 - a * a,
}
MAX_ELEMENTS = 4096  # of one array of objects


class NotInAlgebra(UnsupportedError):
    """The program needs an operation that the algebra does not have."""


class Algebra:
    """What the scalars are."""

    functions: dict[str, Callable] = {}  # primitive name -> function of scalars

    def scalar(self, number):
        """A number, a Python float or a JAX scalar, as an element of the algebra."""
        raise NotImplementedError

    def custom(self, name: str) -> Callable | None:
        """The function of scalars that stands for a Python function with a custom derivative, by its name."""
        return None

    def choose(self, condition, cases):
        """cases[condition] for a condition that depends on symbols."""
        raise NotInAlgebra("a condition on an unknown value")


def run_objects(program: Jaxpr, constants, arguments, algebra: Algebra) -> list:
    """Results of a program on arrays: NumPy object arrays of the algebra's scalars, or plain JAX arrays."""
    values = dict(zip(program.constvars, constants, strict=True))
    values.update(zip(program.invars, arguments, strict=True))
    read = lambda v: v.val if isinstance(v, Literal) else values[v]
    for eqn in program.eqns:
        operands = [read(v) for v in eqn.invars]
        outcome = _apply(eqn, operands, algebra) if any(map(is_object, operands)) else _numeric(eqn, operands)
        values.update(zip(eqn.outvars, outcome, strict=True))
    return [read(v) for v in program.outvars]


def is_object(value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def lifted(value, algebra: Algebra) -> np.ndarray:
    """The value as an object array."""
    if is_object(value):
        return value
    shape = np.shape(value)
    out = np.empty(shape, object)
    if out.size > MAX_ELEMENTS:
        raise NotInAlgebra(f"an array of {out.size} numbers; at most {MAX_ELEMENTS} are handled one by one")
    for place in np.ndindex(*shape):
        out[place] = algebra.scalar(value[place] if shape else value)
    return out


def _numeric(eqn, operands) -> list:
    """An equation without symbols; at once if its operands are known."""
    if any(map(is_tracer, operands)):
        return bind(eqn, operands)
    with jax.ensure_compile_time_eval():
        return bind(eqn, operands)


def _apply(eqn, operands, algebra) -> list:
    name, params = eqn.primitive.name, eqn.params
    if name in _INLINED:
        return _call(eqn, operands, algebra)
    if name in _SAME:
        if not jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.inexact):
            raise NotInAlgebra(f"rounding ({name}) of an unknown value")
        return list(operands)
    if name == "select_n" and is_object(operands[0]):
        return [_choose(algebra, *operands)]
    if name in _MOVES:
        return _move(eqn, operands, algebra)
    if name in _ARITHMETIC:
        return [_elementwise(_ARITHMETIC[name], algebra, *operands)]
    if name == "integer_pow":
        return [_elementwise(lambda a: a ** params["y"], algebra, *operands)]
    if name == "reduce_sum":
        return [_summed(lifted(operands[0], algebra), tuple(params["axes"]))]
    if name in _SUMS:
        return [_sum_of_elements(eqn, operands, algebra)]
    if name == "dot_general":
        return [_contract(*(lifted(x, algebra) for x in operands), params["dimension_numbers"])]
    if name in algebra.functions:
        return [_elementwise(algebra.functions[name], algebra, *operands)]
    raise NotInAlgebra(f"the operation {name!r}")


def _call(eqn, operands, algebra) -> list:
    inner = closed(eqn.params[_INLINED[eqn.primitive.name]])
    if eqn.primitive.name.startswith("custom"):
        known = algebra.custom(function_name(inner))
        if known is not None:
            return [_elementwise(known, algebra, *operands)]
    return run_objects(inner.jaxpr, inner.consts, operands, algebra)


def function_name(program: ClosedJaxpr) -> str:
    """Name of the Python function that a program was traced from."""
    info = program.jaxpr.debug_info
    return info.func_src_info.split(" ")[0] if info is not None and info.func_src_info else ""


def _elementwise(code, algebra, *operands) -> np.ndarray:
    arrays = np.broadcast_arrays(*(lifted(x, algebra) for x in operands))
    out = np.empty(arrays[0].shape, object)
    for place in np.ndindex(*out.shape):
        out[place] = code(*(a[place] for a in arrays))
    return out


def _choose(algebra, condition, *cases) -> np.ndarray:
    cases = [lifted(c, algebra) for c in cases]
    out = np.empty(cases[0].shape, object)
    conditions = np.broadcast_to(condition, out.shape)
    for place in np.ndindex(*out.shape):
        out[place] = algebra.choose(conditions[place], [c[place] for c in cases])
    return out


def _summed(x: np.ndarray, axes) -> np.ndarray:
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = np.transpose(x, [*kept, *axes]).reshape(*(x.shape[i] for i in kept), -1)
    out = np.empty(rows.shape[:-1], object)
    for place in np.ndindex(*out.shape):
        first, *others = rows[place] if rows.shape[-1] else [0.0]
        out[place] = sum(others, start=first)
    return out


def _sum_of_elements(eqn, operands, algebra) -> np.ndarray:
    """A linear operation by its matrix: what it makes of each element alone."""
    direct = lambda *values: eqn.primitive.bind(*values, **eqn.params)
    floats = [jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in eqn.invars]
    if any(is_tracer(x) or is_object(x) for x, moves in zip(operands, floats, strict=True) if not moves):
        raise NotInAlgebra(f"{eqn.primitive.name} at places that are not known beforehand")
    total = lifted(np.zeros(eqn.outvars[0].aval.shape), algebra)
    for k, value in enumerate(operands):
        if not floats[k]:
            continue
        flat = lifted(value, algebra).ravel()
        with jax.ensure_compile_time_eval():
            zeros = [
                jnp.zeros(v.aval.shape) if moves else x
                for v, moves, x in zip(eqn.invars, floats, operands, strict=True)
            ]
            units = jnp.eye(flat.size).reshape(flat.size, *np.shape(value))
            images = np.asarray(jax.vmap(lambda u, k=k, zeros=zeros: direct(*zeros[:k], u, *zeros[k + 1 :]))(units))
        for element, image in zip(flat, images, strict=True):
            for place in zip(*np.nonzero(image), strict=True):
                total[place] = total[place] + element * float(image[place])
    return total


def _contract(a: np.ndarray, b: np.ndarray, dimension_numbers) -> np.ndarray:
    (over_a, over_b), (batch_a, batch_b) = dimension_numbers
    letters = itertools.count()
    labels_a = [next(letters) for _ in range(a.ndim)]
    labels_b = [next(letters) for _ in range(b.ndim)]
    for i, j in itertools.chain(zip(over_a, over_b, strict=True), zip(batch_a, batch_b, strict=True)):
        labels_b[j] = labels_a[i]
    shared = [labels_a[i] for i in batch_a]
    summed = {labels_a[i] for i in over_a}
    free = [x for x in [*labels_a, *labels_b] if x not in summed and x not in shared]
    return np.asarray(np.einsum(a, labels_a, b, labels_b, [*shared, *free], optimize=False), object)


def _move(eqn, operands, algebra) -> list:
    """Elements are numbered, the operation moves the numbers, and the elements follow."""
    elements, numbered = [], []
    for variable, value in zip(eqn.invars, operands, strict=True):
        if not jnp.issubdtype(variable.aval.dtype, jnp.inexact):
            numbered.append(value)
            continue
        flat = lifted(value, algebra)
        positions = np.arange(len(elements), len(elements) + flat.size).reshape(flat.shape)
        numbered.append(positions)
        elements.extend(flat.ravel())
    if any(map(is_tracer, numbered)) or any(map(is_object, numbered)):
        raise NotInAlgebra(f"{eqn.primitive.name} at places that are not known beforehand")
    with jax.ensure_compile_time_eval():
        params = eqn.params
        out = eqn.primitive.bind(*map(jnp.asarray, numbered), **params)
    out = out if eqn.primitive.multiple_results else [out]
    moved = []
    for positions in map(np.asarray, out):
        if positions.size and not 0 <= positions.min() <= positions.max() < len(elements):
            raise NotInAlgebra(f"{eqn.primitive.name} outside of the array")
        result = np.empty(positions.shape, object)
        for place in np.ndindex(*positions.shape):
            result[place] = elements[positions[place]]
        moved.append(result)
    return moved
