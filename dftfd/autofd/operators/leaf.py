"""Leaves of the graph: functions given by Python code, constants and zeros.

function(code, X, Y, params=(a,))   (x, y) -> code(a, x, y)

JVP         of the arrays: (x, y) -> d code(a, x, y) / da . da
transpose   none: a leaf has no operands. Its arrays belong to JAX, which differentiates through their use.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

from dftfd.autofd.core.closure import freeze, label_of, lift_closure
from dftfd.autofd.core.domain import Domain, Signature, spec_of
from dftfd.autofd.core.function import Function, Zeros, constant_code, is_still
from dftfd.autofd.core.inverses import register_inverse
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.errors import SignatureError


class Leaf(Operator):
    """Code of a point and of the arrays that the node carries. Linear in nothing: it has no operands."""

    name = "function"

    def signature(self, operands, arrays, static):
        code, domains = static["code"], static["domains"]
        return Signature(domains, _checked(jax.eval_shape(code, *arrays, *(d.spec for d in domains)), code))

    def evaluate(self, node, *args):
        return node.static["code"](*node.arrays, *args)

    def array_tangent(self, node, tangents) -> Function:
        """Derivative along a change of the arrays, a function of the same point."""
        moving = [(i, dx) for i, dx in enumerate(tree_leaves(tangents)) if not is_still(dx)]
        positions = tuple(i for i, _ in moving)
        static = {"code": ArrayTangent(node.static["code"], positions), "domains": node.domains}
        return Function(self, (), (node.arrays, [dx for _, dx in moving]), static, node.signature)

    def label(self, node):
        return label_of(node.static["code"])


leaf = Leaf()


class ArrayTangent(Code):
    """(arrays, tangents, *point) -> derivative of code(*arrays, *point) when the leaves at `positions` move."""

    def __init__(self, code, positions):
        self.code, self.positions = code, positions
        self.__name__ = f"d[{label_of(code)}]"

    def __call__(self, arrays, tangents, *args):
        leaves, structure = tree_flatten(arrays)

        def moved(*values):
            full = list(leaves)
            for i, v in zip(self.positions, values, strict=True):
                full[i] = v
            return self.code(*tree_unflatten(structure, full), *args)

        return jax.jvp(moved, tuple(leaves[i] for i in self.positions), tuple(tangents))[1]


def _checked(result, code):
    """The spec of what code returns."""
    if isinstance(result, list) or not tree_leaves(result):
        raise SignatureError(
            f"{label_of(code)} returns {'a list' if isinstance(result, list) else result}; an array expected, or a "
            "tuple or dictionary of arrays."
        )
    result = tree_map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), result)
    for part in tree_leaves(result):
        if not jnp.issubdtype(part.dtype, jnp.inexact):
            raise SignatureError(
                f"{label_of(code)} returns {part.dtype}; functions return float or complex arrays. "
                "Compare and select inside one function, with jax.numpy.where."
            )
    return result


@op.register
def function(code: Callable, *domains: Domain, params: tuple = ()) -> Function:
    """The function of points of `domains` that `code(*params, *points)` computes.

    params: arrays, or pytrees of them, that JAX transformations see (differentiable, dynamic under jit). Arrays in the
        closure of `code` are treated in the same way. Other values in the closure are constants.
    """
    _check_domains(domains, label_of(code))
    params = tuple(tree_map(jnp.asarray, p) for p in params)
    _check_count(code, len(params) + len(domains), len(domains))
    code, lifted = lift_closure(code)
    try:
        code, arrays, result = freeze(code, (*lifted, *params), [d.spec for d in domains])
    except jax.errors.ConcretizationTypeError as error:
        raise SignatureError(
            f"{label_of(code)} asks for the value of its argument (if, while, float, int), but it is a program of any "
            "point. Choose with jax.numpy.where or jax.lax.cond."
        ) from error
    signature = Signature(tuple(domains), _checked(result, code))
    return Function(leaf, (), arrays, {"code": code, "domains": tuple(domains)}, signature)


def _check_count(code, count, domains):
    """Raise if code does not take `count` arguments."""
    try:
        arguments = inspect.signature(code)
    except (TypeError, ValueError):
        return  # it does not tell
    try:
        arguments.bind(*range(count))
    except TypeError as error:
        without = "no domain was named" if not domains else f"{domains} domain(s) were named"
        raise SignatureError(
            f"{label_of(code)}{arguments} does not take {count} argument(s), params first, then one point of each "
            f"domain, and {without}. Name one for each argument: function(code, X, Y, params=(a,)) for code of "
            "(a, x, y)."
        ) from error


def _check_domains(domains, name):
    for d in domains:
        if not isinstance(d, Domain):
            raise SignatureError(f"{name}: {d!r} is not a Domain; declare the spaces of the arguments, such as R^3.")


@op.register
def constant(value: Any, *domains: Domain) -> Function:
    """The function with the same value at every point of `domains`."""
    value = tree_map(_inexact, value)
    static = {"code": constant_code, "domains": tuple(domains)}
    return Function(leaf, (), (value,), static, Signature(tuple(domains), spec_of(value)))


def _inexact(x):
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(np.float64)


@op.register
def zeros(signature: Signature) -> Function:
    """The zero function of a signature."""
    return Function(leaf, (), (), {"code": Zeros(signature.result), "domains": signature.domains}, signature)


@op.register
def identity(domain: Domain) -> Function:
    """x -> x on a domain."""
    return function(_identity, domain)


def _identity(x):
    return x


def _zero(y):
    return jnp.zeros((), jnp.result_type(y))


register_inverse(_identity, _identity, _zero)
