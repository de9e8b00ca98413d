"""Scalar programs on NumPy arrays, one operation after the other, without compilation.

High derivatives have thousands of operations, which take minutes to compile and microseconds to carry out. On chunks
of points that fit the cache NumPy needs about a nanosecond per operation and point.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import jax
import numpy as np
from scipy import special

from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate
from dftfd.autofd.scalar.vocabulary import ALIASES, EXACT
from dftfd.errors import UnsupportedError

FUNCTIONS: dict[str, Callable] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "max": np.maximum, "min": np.minimum, "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "pow": np.power, "square": np.square,
    "one_minus_square": lambda x: (1 - x) * (1 + x),
    "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": special.expit, "erf": special.erf, "erfc": special.erfc,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "atan2": np.arctan2,
    "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "not": np.invert, "is_finite": np.isfinite,
    "shift_right_arithmetic": np.right_shift, "shift_left": np.left_shift,
    "select_n": lambda which, no, *yes: np.where(which, yes[0], no) if len(yes) == 1 else np.choose(which, (no, *yes)),
}  # fmt: skip
_WITH_PARAMETERS: dict[str, Callable] = {
    "integer_pow": lambda x, y: np.power(x, float(y)) if y < 0 else _natural_power(x, y),
    "convert_element_type": lambda x, new_dtype, **_: _converted(np.asarray(x), new_dtype),
    "bitcast_convert_type": lambda x, new_dtype: np.asarray(x, order="C").view(new_dtype),  # () stays ()
    "entry": lambda results, result, index: results[result][..., index],
}
_REAL_ONLY = frozenset(["div", "pow", "integer_pow", "abs", "sign"])  # of integers JAX has them in its own way


class OnNumpy:
    """Scalars are arrays (point,), or numbers."""

    def __init__(self, n_points: int):
        self.n_points = n_points

    def constant(self, value):
        return value

    def apply(self, node, args):
        if node.op in FUNCTIONS and (node.real or node.op not in _REAL_ONLY):
            return FUNCTIONS[node.op](*args)
        if node.op in _WITH_PARAMETERS and (node.real or node.op not in _REAL_ONLY):
            return _WITH_PARAMETERS[node.op](*args, **node.params)
        if node.op == "call" and node.code.name in ALIASES:
            return (np.stack(np.broadcast_arrays(*args), axis=-1),)
        if node.op == "call" and (program := _value_program(Operation(node.kind, node))):
            rows = (np.broadcast_to(out, self.n_points) for out in evaluate(program, self, args))
            sizes = [int(np.prod(v.aval.shape)) for v in node.code.eqn.outvars]
            return tuple(np.stack([next(rows) for _ in range(size)], axis=-1) for size in sizes)
        if not node.real and (exact := exactly(node.op, node.params, [np.asarray(a) for a in args])) is not None:
            return exact
        results = _compiled(Operation(node.kind, node))(*(np.broadcast_to(a, self.n_points) for a in args))
        return tuple(map(np.asarray, results)) if node.op == "call" else np.asarray(results)


def run_on_numpy(program, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs (point,) of a program for inputs (point,). Put np.errstate(all="ignore") around it: branches that are
    not selected may overflow."""
    n_points = inputs[0].shape[0]
    return [np.broadcast_to(out, n_points) for out in evaluate(program, OnNumpy(n_points), inputs)]


def exactly(name: str, params: dict, values: list[np.ndarray]):
    """What XLA makes of constants, to the last bit, without compilation; None where NumPy is not known to give it."""
    kinds = {value.dtype.kind for value in values}
    if name in EXACT and (kinds <= set("fb") or name != "div"):
        return FUNCTIONS[name](*values)
    if name == "integer_pow" and kinds == {"f"} and params["y"] >= 0:
        return _natural_power(values[0], params["y"])
    same_size = name != "bitcast_convert_type" or values[0].itemsize == np.dtype(params["new_dtype"]).itemsize
    if name in ("convert_element_type", "bitcast_convert_type") and kinds <= set("fi") and same_size:
        return _WITH_PARAMETERS[name](*values, **params)
    if kinds == {"i"} and len(values) == 2:
        a, b = values
        if name in ("div", "rem") and np.all(b > 0):
            rest = np.fmod(a, b)
            return rest if name == "rem" else (a - rest) // b
        if name in ("shift_left", "shift_right_arithmetic") and np.all((b >= 0) & (b < 8 * a.itemsize)):
            return FUNCTIONS[name](a, b)
    return None


@dataclass(frozen=True)
class Operation:
    """What a node does with its operands."""

    kind: tuple
    node: Node = field(compare=False)


@lru_cache(maxsize=256)
def _value_program(operation: Operation) -> ScalarProgram | None:
    """The value of a function with a derivative rule as straight-line code, which needs no compilation, else None."""
    whole = operation.node.code
    try:
        return whole.program if whole.has_rule else None
    except UnsupportedError:
        return None


@lru_cache(maxsize=256)
def _compiled(operation: Operation):
    """An operation that NumPy does not have, on arrays (point,), by JAX."""
    node = operation.node
    bind = lambda *args: node.code.bind(*args, **node.params)
    return jax.jit(jax.vmap(bind) if node.args else bind)


def _natural_power(x, y: int):
    """x^y by repeated squaring, as XLA does it."""
    result = None
    while y:
        if y & 1:
            result = x if result is None else result * x
        y >>= 1
        x = x * x
    return result if result is not None else np.ones_like(x)


def _converted(x, dtype):
    """x as another type; real numbers become the nearest integer there is, as in XLA."""
    if x.dtype.kind != "f" or np.dtype(dtype).kind not in "iu":
        return x.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    inside = np.where((x > low) & (x < high), x, 0.0).astype(dtype)
    return np.where(x >= high, np.array(high, dtype), np.where(x <= low, np.array(low, dtype), inside))
