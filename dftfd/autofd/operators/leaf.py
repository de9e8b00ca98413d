"""Leaves of the graph: functions given by Python code, constants and zeros.

function(code, X, Y, params=(a,))   (x, y) -> code(a, x, y)
"""

import types

import jax
import jax.numpy as jnp
from jax.tree_util import tree_leaves, tree_map, tree_structure

from dftfd.autofd.domain import Domain, Signature, spec_of
from dftfd.autofd.function import Function
from dftfd.autofd.operators.base import Operator
from dftfd.autofd.structure import HasKey, Identity, holds_arrays, structural_key
from dftfd.errors import LeakError, SignatureError


class Leaf(Operator):
    """Code of a point and of the arrays that the node carries. Linear in nothing: it has no operands."""

    name = "function"

    def signature(self, operands, arrays, static):
        domains = static["domains"]
        code = static["code"]
        result = jax.eval_shape(code, *arrays, *[d.spec for d in domains])
        result = tree_map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype), result)
        for leaf in tree_leaves(result):
            if not jnp.issubdtype(leaf.dtype, jnp.inexact):
                raise SignatureError(
                    f"{label_of(code)} returns {leaf.dtype}; functions return float or complex arrays. "
                    "Compare and select inside one function, with jax.numpy.where."
                )
        return Signature(domains, result)

    def evaluate(self, node, *args):
        return node.static["code"](*node.arrays, *args)

    def array_tangent(self, node, tangents) -> Function:
        """Derivative along a change of the arrays, a function of the same point."""
        return Function(
            self,
            (),
            (node.arrays, tangents),
            {"code": ArrayTangent(node.static["code"]), "domains": node.domains},
            node.signature,
        )

    def label(self, node):
        return label_of(node.static["code"])


leaf = Leaf()


class ArrayTangent(HasKey):
    """(arrays, tangents, *point) -> derivative of code(*arrays, *point) along the tangents."""

    def __init__(self, code):
        self.code = code
        self.__name__ = f"d[{label_of(code)}]"

    def __call__(self, arrays, tangents, *args):
        return jax.jvp(lambda *a: self.code(*a, *args), tuple(arrays), tuple(tangents))[1]

    def structural_key(self):
        return ("array tangent", structural_key(self.code))


def label_of(code) -> str:
    return getattr(code, "__name__", type(code).__name__)


def function(code, *domains: Domain, params=()) -> Function:
    """The function of points of `domains` that `code(*params, *points)` computes.

    params: arrays, or pytrees of them, that JAX transformations see (differentiable, dynamic under jit). Arrays that
    `code` closes over are found and treated the same way.
    """
    _check_domains(domains, label_of(code))
    params = tuple(tree_map(jnp.asarray, p) for p in params)
    code, lifted = _lift_closure(code)
    return Function(leaf, (), (*lifted, *params), {"code": code, "domains": tuple(domains)})


def _check_domains(domains, name):
    for d in domains:
        if not isinstance(d, Domain):
            raise SignatureError(f"{name}: {d!r} is not a Domain; declare the spaces of the arguments, such as R^3.")


class Lifted(HasKey):
    """Code whose closed-over arrays have become leading arguments."""

    def __init__(self, code, positions):
        self.code, self.positions, self.__name__ = code, positions, label_of(code)
        kept = [None if i in positions else c for i, c in enumerate(code.__closure__)]
        self._kept = kept
        self._template = types.FunctionType(
            code.__code__,
            code.__globals__,
            code.__name__,
            code.__defaults__,
            tuple(types.CellType() if c is None else c for c in kept),
        )
        self._template.__kwdefaults__ = code.__kwdefaults__

    def __call__(self, *args):
        values = iter(args[: len(self.positions)])
        cells = tuple(types.CellType(next(values)) if c is None else c for c in self._kept)
        t = self._template
        code = types.FunctionType(t.__code__, t.__globals__, t.__name__, t.__defaults__, cells)
        code.__kwdefaults__ = t.__kwdefaults__
        return code(*args[len(self.positions) :])

    def structural_key(self):
        t = self._template
        kept = tuple(None if c is None else structural_key(c.cell_contents) for c in self._kept)
        defaults = structural_key((t.__defaults__, t.__kwdefaults__))
        return ("lifted", t.__code__, Identity(t.__globals__), self.positions, kept, defaults)


def _lift_closure(code):
    """(code, arrays): closed-over arrays, and pytrees and Functions holding them, moved to leading arguments."""
    if not isinstance(code, types.FunctionType) or not code.__closure__:
        return code, ()
    positions, values = [], []
    for i, cell in enumerate(code.__closure__):
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        functions = tree_leaves(value, is_leaf=lambda v: isinstance(v, Function))
        if any(isinstance(f, Function) and f.tags for f in functions):
            raise LeakError(
                f"{label_of(code)} closes over a function that is being differentiated, so its derivative would be "
                "lost. Build the expression with operators: compose(code, f) instead of function(lambda x: code(f(x)))."
            )
        if holds_arrays(value):
            positions.append(i)
            values.append(value)
    return (Lifted(code, tuple(positions)), tuple(values)) if positions else (code, ())


def _constant(value, *args):
    return value


def constant(value, *domains: Domain) -> Function:
    """The function with the same value at every point of `domains`."""
    value = tree_map(jnp.asarray, value)
    static = {"code": _constant, "domains": tuple(domains)}
    return Function(leaf, (), (value,), static, Signature(tuple(domains), spec_of(value)))


def is_constant(node: Function) -> bool:
    return node.operator is leaf and node.static["code"] is _constant


class Zeros(HasKey):
    """Code of the zero function with a given result."""

    __name__ = "zero"

    def __init__(self, result):
        self.result = result

    def __call__(self, *args):
        return tree_map(lambda s: jnp.zeros(s.shape, s.dtype), self.result)

    def structural_key(self):
        return ("zero", tree_structure(self.result), *map(structural_key, tree_leaves(self.result)))


def zeros(signature: Signature) -> Function:
    """The zero function of a signature."""
    return Function(leaf, (), (), {"code": Zeros(signature.result), "domains": signature.domains}, signature)


def is_zero(node: Function) -> bool:
    return node.operator is leaf and isinstance(node.static["code"], Zeros)


def identity(domain: Domain) -> Function:
    """x -> x on a domain."""
    return function(_identity, domain)


def _identity(x):
    return x
