"""Derivatives as functions of a point and of what it is multiplied with, from the right or from the left.

linearize   (L f)(x, y) = f'(x) y         derivative along a direction
pullback    (V f)(x, c) = f'(x)^T c       transposed derivative

JVP         L df;   V df
transpose   of L: -div_x of the integral over y of ct(x, y) y dmu(y), from
            <L f, ct> = int f'(x) . [int y ct(x, y) dmu(y)] dx  and the transpose of nabla. Needs a quadrature on the
            space of directions. Inside a composition, D f(g(x)) dg(x) or (D f(g(x)))^T c(x), what they are multiplied
            with is a function and no quadrature is needed but the inverse of g; see `compose`.
            of V as a free function of c: would need a quadrature over cotangents, no rule.
"""

import functools
import operator

import jax
import jax.numpy as jnp
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.domain import Domain, Signature, checked_argnums, same_spec, value_space
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.errors import NoRuleError, SignatureError


@op.register
def linearize(f: Function, argnums: int | tuple[int, ...] = 0, tangent=None) -> Function:
    """(x_1..x_n, y_i for i in argnums) -> sum_i d_i f(x) y_i.

    tangent: the Domain of the directions y (a tuple of them if argnums is one). The transpose integrates over it, so
        give it a quadrature if the result is to be differentiated with respect to f.
    """
    if not isinstance(f, Function):
        raise SignatureError(f"linearize takes a Function, {type(f).__name__} found.")
    several = not isinstance(argnums, int)
    argnums = checked_argnums(argnums, f, "linearize")
    tangent = (tangent if several else (tangent,)) if tangent is not None else None
    spaces = tangent or tuple(value_space(f.domains[i].spec) for i in argnums)
    for i, space in zip(argnums, spaces, strict=True):
        if not isinstance(space, Domain) or not same_spec(space.spec, f.domains[i].spec):
            raise SignatureError(f"linearize: directions {space!r} do not fit argument {i} of {f!r}.")
    if _moves_inside(f, argnums):
        return functools.reduce(operator.add, _products(f, argnums, spaces))
    return Function(_linearize, (f,), (), {"argnums": argnums, "spaces": spaces})


def _moves_inside(f: Function, argnums) -> bool:
    """True if nabla has to move inside: functions under differentiation enter f at other points than its argument."""
    if not f.tags:
        return False
    return any(op.acts_elsewhere(f, i) for i in argnums)


def gradients_inside(f: Function, argnums) -> list[Function] | None:
    """nabla f for each argument, where they have to move inside; else None. NoRuleError for arguments without nabla."""
    return _gradients(f, argnums) if _moves_inside(f, argnums) else None


def _gradients(f: Function, argnums) -> list[Function]:
    for i in argnums:
        if not f.domains[i].is_array or not jnp.issubdtype(f.domains[i].dtype, jnp.floating):
            raise NoRuleError(
                f"{f!r} contains a function under differentiation at other points than its argument {i}, which is no "
                "real array; the derivative with respect to that argument has no transpose."
            )
    return [op.nabla(f, i) for i in argnums]


def _products(f, argnums, spaces):
    """nabla_i f(x) . y_i"""
    count, domains = len(f.domains), f.domains + spaces
    for k, gradient in enumerate(_gradients(f, argnums)):
        y = op.broadcast(op.identity(spaces[k]), domains, (count + k,))
        yield op.compose(Along(), op.broadcast(gradient, domains, tuple(range(count))), y)


class Along(Code):
    """(gradient, y) -> gradient . y, the sum over the last axes of the gradient, those of y"""

    __name__ = "along"

    def __call__(self, gradient, y):
        return tree_map(lambda a: jnp.tensordot(a, y.astype(a.dtype), y.ndim), gradient)


@op.register
def pushforward(f: Function, argnums: tuple[int, ...]) -> Function:
    """`linearize` with directions that are values of functions."""
    return linearize(f, argnums)


class Settled(Operator):
    """Cotangent of a derivative node (linearize, pullback) that holds the cotangent of the function below it."""

    name, linear, singular = "settled cotangent", True, 2

    def signature(self, operands, arrays, static):
        return static["signature"]

    def plus(self, a, b):
        if b.operator is not self:
            return super().plus(a, b)
        return Function(self, (a.operands[0] + b.operands[0],), (), a.static, a.signature)


_settled = Settled()


class Derivative(Operator):
    """What linearize and pullback have in common.

    D f(y) t is linear in the direction t, D f(y)^T c in c: there the derivative is the same node, not one of higher
    order. Subclasses say what these products are made of (`products`), and which rule there is outside of compositions
    (`transpose_alone`).
    """

    linear = True

    def products(self, node: Function, inner, cotangent: Function) -> list[tuple[Function, Function]]:
        raise NotImplementedError

    def transpose_alone(self, node: Function, cotangent: Function) -> Function:
        raise NotImplementedError

    def transpose(self, node, cotangent, needed):
        if cotangent.operator is _settled:
            return [cotangent.operands[0]]
        return [self.transpose_alone(node, cotangent)]

    def linear_arguments(self, node):
        return tuple(range(len(node.operands[0].domains), len(node.domains)))

    def transpose_outer(self, node, inner, cotangent):
        (f,), count = node.operands, len(node.operands[0].domains)
        pairs = self.products(node, inner[count:], cotangent)
        moments = [op.transport(outer_product(c, d), inner[:count], f.domains) for c, d in pairs]
        total = sum_of_transposed_gradients(moments, node.static["argnums"])
        return Function(_settled, (total,), (), {"signature": node.signature}, node.signature)


def _entries(f: Function, argnums) -> list[Function]:
    """The parts of a function with one value for each of argnums."""
    return [op.item(f, k) for k in range(len(argnums))] if len(argnums) > 1 else [f]


class Linearize(Derivative):
    name = "linearize"

    def signature(self, operands, arrays, static):
        (f,) = operands
        return Signature(f.domains + static["spaces"], f.result)

    def evaluate(self, node, *args):
        (f,), argnums = node.operands, node.static["argnums"]
        point, directions = args[: len(f.domains)], args[len(f.domains) :]
        code, chosen = restricted(f.evaluate, point, argnums)
        return jax.jvp(code, chosen, tuple(directions))[1]

    def along(self, node, inner, changes):
        (f,), count = node.operands, len(node.operands[0].domains)
        argnums = tuple(node.static["argnums"][i - count] for i in changes)
        return op.compose(pushforward(f, argnums), *inner[:count], *changes.values())

    def against(self, node, inner, i, cotangent):
        (f,), count = node.operands, len(node.operands[0].domains)
        return op.compose(pullback(f, (node.static["argnums"][i - count],)), *inner[:count], cotangent)

    def products(self, node, directions, cotangent):
        return [(cotangent, direction) for direction in directions]

    def transpose_alone(self, node, cotangent):
        (f,), argnums, spaces = node.operands, node.static["argnums"], node.static["spaces"]
        count = len(f.domains)
        for space in spaces:
            if space.points is None:
                raise NoRuleError(
                    f"the transpose of linearize with respect to {f!r} integrates over the directions {space!r}, which "
                    "have no quadrature. Give linearize a tangent domain with points and weights."
                )
        over = tuple(range(count, count + len(spaces)))
        moments = [op.integrate_over(_times_argument(cotangent, count + k), over) for k in range(len(spaces))]
        return sum_of_transposed_gradients(moments, argnums)


_linearize = Linearize()


def restricted(code, args, argnums):
    """Code as a function of the arguments in `argnums` alone, and their values."""

    def of_chosen(*values):
        full = list(args)
        for i, v in zip(argnums, values, strict=True):
            full[i] = v
        return code(*full)

    return of_chosen, tuple(args[i] for i in argnums)


class Outer(Code):
    """(c, y) -> c y^T: the axes of y are appended to those of each array in c."""

    __name__ = "outer product"

    def __call__(self, c, y):
        return tree_map(lambda a: jnp.tensordot(a, y, 0), c)


@op.register
def outer_product(c: Function, y: Function) -> Function:
    """x -> c(x) y(x)^T"""
    return op.compose(Outer(), c, y)


def _times_argument(ct, position):
    y = op.broadcast(op.identity(ct.domains[position]), ct.domains, (position,))
    return outer_product(ct, y)


def sum_of_transposed_gradients(moments, argnums):
    """sum_i nabla_i^T moments_i"""
    return functools.reduce(operator.add, (op.transposed_nabla(m, i) for m, i in zip(moments, argnums, strict=True)))


# ---- the transposed derivative


@op.register
def pullback(f: Function, argnums: tuple[int, ...]) -> Function:
    """(y_1..y_n, c) -> (d_i f(y))^T c for i in argnums; a tuple if there are several."""
    gradients = gradients_inside(f, argnums)
    if gradients is not None:
        return _by_products(f, gradients)
    return Function(_pullback, (f,), (), {"argnums": argnums})


def _by_products(f, gradients):
    """c . nabla_i f(y), where nabla has to move inside."""
    count, domains = len(f.domains), (*f.domains, value_space(f.result))
    c = op.broadcast(op.identity(domains[-1]), domains, (count,))
    parts = [op.compose(Against(), op.broadcast(g, domains, tuple(range(count))), c) for g in gradients]
    return op.zip_functions(*parts) if len(parts) > 1 else parts[0]


class Against(Code):
    """(gradient, c) -> c . gradient, summed over the axes of c and over a tree of them"""

    __name__ = "against"

    def __call__(self, gradient, c):
        products = tree_map(lambda a, b: jnp.tensordot(b, a, b.ndim), gradient, c)
        return functools.reduce(jnp.add, tree_leaves(products))


class Pullback(Derivative):
    name = "pullback"

    def signature(self, operands, arrays, static):
        (f,) = operands
        specs = tuple(f.domains[i].spec for i in static["argnums"])
        return Signature((*f.domains, value_space(f.result)), specs if len(specs) > 1 else specs[0])

    def evaluate(self, node, *args):
        (f,) = node.operands
        code, primals = restricted(f.evaluate, args[:-1], node.static["argnums"])
        pulled = jax.vjp(code, *primals)[1](args[-1])
        return pulled if len(pulled) > 1 else pulled[0]

    def along(self, node, inner, changes):
        return op.compose(node, *inner[:-1], *changes.values())

    def against(self, node, inner, i, cotangent):
        (f,), argnums = node.operands, node.static["argnums"]
        return op.compose(pushforward(f, argnums), *inner[: len(f.domains)], *_entries(cotangent, argnums))

    def products(self, node, given, cotangent):
        return [(given[0], direction) for direction in _entries(cotangent, node.static["argnums"])]

    def transpose_alone(self, node, cotangent):
        raise NoRuleError(
            f"the transpose of {node!r} with respect to its function would integrate over cotangents, a space without "
            "a quadrature."
        )


_pullback = Pullback()
