"""Arithmetic of functions: f + g, f * 2, 2 / f, f ** (1/3). Cases of compose."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.function import Function, check_same_domains
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.roots import power
from dftfd.autofd.core.structure import Code
from dftfd.errors import SignatureError

_CODES: dict[str, Callable] = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "divide": jnp.divide,
    "power": power,
}


class Binary(Code):
    """(a, b) -> a op b, leaf by leaf; `left` or `right` is a Python number that stands on that side."""

    def __init__(self, name, left=None, right=None):
        self.__name__ = self.name = name
        self.left, self.right, self.code = left, right, _CODES[name]

    def spec_of_result(self, *specs):
        alike = all(
            isinstance(s, jax.ShapeDtypeStruct) and (s.shape, s.dtype) == (specs[0].shape, np.float64) for s in specs
        )
        usual = all(x is None or isinstance(x, int | float) and abs(x) < 2**53 for x in (self.left, self.right))
        return specs[0] if alike and usual else None

    def __call__(self, *values):
        if self.left is not None:
            return tree_map(lambda x: self.code(self.left, _as_complex_as(self.left, x)), *values)
        if self.right is not None:
            return tree_map(lambda x: self.code(_as_complex_as(self.right, x), self.right), *values)
        a, b = values
        a_is_array, b_is_array = isinstance(a, jnp.ndarray), isinstance(b, jnp.ndarray)
        if a_is_array == b_is_array:
            return tree_map(self._of_arrays, a, b)
        if a_is_array:
            return tree_map(lambda y: self._of_arrays(a, y), b)
        return tree_map(lambda x: self._of_arrays(x, b), a)

    def _of_arrays(self, x, y):
        return self.code(_as_complex_as(y, x), _as_complex_as(x, y))

    def inverse(self):
        """Codes of the branches of the inverse where the other side is a number, else none."""
        if self.name == "power" and isinstance(self.right, int) and self.right > 0:
            return (Root(self.right, 1),) if self.right % 2 else (Root(self.right, 1), Root(self.right, -1))
        swap = {"add": "subtract", "subtract": "add", "multiply": "divide", "divide": "multiply"}
        if self.name not in swap or (self.left is None and self.right is None):
            return ()
        if self.right is not None:
            return (Binary(swap[self.name], right=self.right),)
        if self.name in ("subtract", "divide"):  # y = a - x, y = a / x
            return (Binary(self.name, left=self.left),)
        return (Binary(swap[self.name], right=self.left),)

    def slope(self, position, values, change):
        """`change` of the value at `position` times the derivative with respect to it, a Function; None: no short form.

        It is its own transpose. Graphs of sums and products stay sums and products, however often they are derived.
        """
        if self.name == "add":
            return change
        if self.name == "subtract":
            return combine("multiply", -1.0, change) if position == 1 or self.left is not None else change
        if self.name == "multiply":
            numbers = [x for x in (self.left, self.right) if x is not None]
            return combine("multiply", numbers[0] if numbers else values[1 - position], change)
        if self.name == "divide" and position == 0 and self.left is None:
            return combine("divide", change, values[1] if self.right is None else self.right)
        return None


class Root(Code):
    """y -> sign |y|^(1/n), with the sign of y for odd n; even n: NaN for negative y."""

    def __init__(self, n: int, sign: int):
        self.n, self.sign, self.__name__ = n, sign, f"root {n}"

    def __call__(self, y):
        if self.n % 2:
            return jnp.sign(y) * jnp.abs(y) ** (1 / self.n)
        return self.sign * jnp.where(y >= 0, y, jnp.nan) ** (1 / self.n)


def _as_complex_as(other, x):
    """x, made complex if `other` is; the one promotion of types that happens silently."""
    if jnp.iscomplexobj(other) and not jnp.iscomplexobj(x):
        return x.astype(jnp.complex64 if x.dtype == jnp.float32 else jnp.complex128)
    return x


@op.register
def combine(name: str, a, b) -> Function:
    """Pointwise a op b; one of them may be a number or an array."""
    if isinstance(a, Function) and isinstance(b, Function):
        check_same_domains(a, b, name)
        _check_shapes(name, a, b)
        return op.compose(Binary(name), a, b)
    f, other = (a, b) if isinstance(a, Function) else (b, a)
    if isinstance(other, bool | str | bytes) or other is None or callable(other):
        raise SignatureError(f"{name} of {f!r} and {other!r}: a Function, number or array expected.")
    if isinstance(other, int | float | complex):
        return op.compose(Binary(name, **{"right" if f is a else "left": other}), f)
    array = op.constant(jnp.asarray(other), *f.domains)
    return combine(name, f, array) if f is a else combine(name, array, f)


def _check_shapes(name, a, b):
    left, right = tree_leaves(a.result), tree_leaves(b.result)
    scalar = any(len(side) == 1 and side[0].shape == () for side in (left, right))
    if not scalar and [s.shape for s in left] != [s.shape for s in right]:
        raise SignatureError(f"{name} of functions with results of different shape: {a!r} and {b!r}.")
