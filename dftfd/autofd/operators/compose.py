"""compose: h(x) = f(g_1(x), ..., g_n(x))

JVP         dh = df(g) + sum_i L_i f(g; dg_i)        L_i f: derivative of f along its i-th argument
transpose   of g_i: x -> (d_i f (g(x)))^T ct(x)      pointwise, from <d_i f dg_i, ct> = <dg_i, (d_i f)^T ct>
            of f: ct(g^-1) |det D g^-1| by substitution, needs the inverse of g: see core/inverses.py
            of f in D f(g) dg: nabla^T of the same density for ct dg^T, from <D f(g) dg, ct> = <nabla f, density>_y
            of f in D f(g)^T c: the same with c ct^T

Arithmetic of functions, f + g, f * 2, 2 / f and f ** (1/3), is composition with +, *, / and powers.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.domain import Signature, describe, same_spec, value_space
from dftfd.autofd.core.function import Function, check_same_domains
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.roots import power
from dftfd.autofd.core.structure import Code
from dftfd.errors import SignatureError


@op.register
def compose(outer: Callable, *inner: Any, share_inputs: bool = True) -> Function:
    """x -> outer(inner_1(x), ..., inner_n(x)).

    outer: a Function, or Python code of the inner values.   inner: Functions on the same domains; numbers and arrays
    stand for constants.
    share_inputs: False gives each inner Function arguments of its own, one after the other: (x, y) -> f(g(x), h(y)).
    """
    domains = next((g.domains for g in inner if isinstance(g, Function)), None)
    if domains is None:
        raise SignatureError("compose needs at least one inner Function; to evaluate, call the function on points.")
    if share_inputs:
        functions = [g if isinstance(g, Function) else op.constant(g, *domains) for g in inner]
    else:
        functions = _with_own_arguments(inner)
    for g in functions[1:]:
        check_same_domains(functions[0], g, "compose")
    f = outer if isinstance(outer, Function) else op.function(outer, *(value_space(g.result) for g in functions))
    if len(f.domains) != len(functions):
        raise SignatureError(f"{f!r} takes {len(f.domains)} argument(s), composed with {len(functions)}.")
    for i, (d, g) in enumerate(zip(f.domains, functions, strict=True)):
        if not same_spec(d.spec, g.result):
            raise SignatureError(
                f"argument {i} of {f!r} takes {describe(d.spec)}, but {g!r} returns {describe(g.result)}."
            )
    return Function(composition, (f, *functions))


def _with_own_arguments(inner) -> list[Function]:
    """The inner Functions, each a function of its own part of the arguments of all."""
    functions = [g for g in inner if isinstance(g, Function)]
    domains = tuple(d for g in functions for d in g.domains)
    widened, start = [], 0
    for g in inner:
        if isinstance(g, Function):
            widened.append(op.broadcast(g, domains, tuple(range(start, start + len(g.domains)))))
            start += len(g.domains)
        else:
            widened.append(op.constant(g, *domains))
    return widened


class Compose(Operator):
    name = "compose"

    def signature(self, operands, arrays, static):
        outer, *inner = operands
        return Signature(inner[0].domains, outer.result)

    def evaluate(self, node, *args):
        outer, *inner = node.operands
        values = []
        for g in inner:
            values.append((yield g, args))
        return (yield outer, values)

    def label(self, node):
        outer = node.operands[0]
        return outer.operator.label(outer)

    def tangent(self, node, tangents):
        outer, *inner = node.operands
        d_outer, *d_inner = tangents
        terms = [] if d_outer is None else [compose(d_outer, *inner)]
        changed = tuple(i for i, d in enumerate(d_inner) if d is not None)
        linear = {i: d_inner[i] for i in outer.operator.linear_arguments(outer) if i in changed}
        changed = tuple(i for i in changed if i not in linear)
        if linear:
            terms.append(outer.operator.along(outer, inner, linear))
        short = [_slope(outer, inner, i, d_inner[i]) for i in changed]
        if changed and None not in short:
            terms += short
        elif changed:
            terms.append(compose(op.pushforward(outer, changed), *inner, *(d_inner[i] for i in changed)))
        return functools.reduce(operator.add, terms)

    def transpose(self, node, cotangent, needed):
        outer, *inner = node.operands
        rules = outer.operator
        parts = [rules.transpose_outer(outer, inner, cotangent) if needed[0] else None]
        wanted = tuple(i for i in range(len(inner)) if needed[1 + i])
        found = {i: rules.against(outer, inner, i, cotangent) for i in rules.linear_arguments(outer) if i in wanted}
        wanted = tuple(i for i in wanted if i not in found)
        short = {i: _slope(outer, inner, i, cotangent) for i in wanted}
        if None not in short.values():
            found |= short
        elif wanted:
            pulled = compose(op.pullback(outer, wanted), *inner, cotangent)
            found |= {i: op.item(pulled, k) if len(wanted) > 1 else pulled for k, i in enumerate(wanted)}
        return parts + [found.get(i) for i in range(len(inner))]

    def separate(self, node):
        return op.separate_composition(node)


composition = Compose()


def _slope(outer, inner, position, change):
    """`change` times the derivative of code that knows it (arithmetic of real functions of equal shape), else None."""
    rule = getattr(outer.code, "slope", None)
    if rule is None or change.singular or outer.tags or not all(same_spec(g.result, outer.result) for g in inner):
        return None
    if not isinstance(outer.result, jax.ShapeDtypeStruct) or not jnp.issubdtype(outer.result.dtype, jnp.floating):
        return None
    return rule(position, inner, change)


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
