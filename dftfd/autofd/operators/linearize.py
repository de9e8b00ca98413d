"""linearize: derivative along a direction, as a function of point and direction.   (L f)(x, y) = f'(x) y

JVP         L df
transpose   -div_x of the integral over y of ct(x, y) y dmu(y), from
            <L f, ct> = int f'(x) . [int y ct(x, y) dmu(y)] dx  and the transpose of nabla. Needs a quadrature on the
            space of directions. Inside a composition, D f(g(x)) dg(x), the directions are given by a function and no
            quadrature is needed but the inverse of g; see `compose`.
"""

import functools
import operator

import jax
import jax.numpy as jnp
from jax.tree_util import tree_map

from dftfd.autofd.core.domain import Domain, Signature, same_spec, value_space
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.structure import HasKey
from dftfd.errors import NoRuleError, SignatureError


def linearize(f: Function, argnums: int | tuple[int, ...] = 0, tangent=None) -> Function:
    """(x_1..x_n, y_i for i in argnums) -> sum_i d_i f(x) y_i.

    tangent: the Domain of the directions y (a tuple of them if argnums is one). The transpose integrates over it, so
        give it a quadrature if the result is to be differentiated with respect to f.
    """
    if not isinstance(f, Function):
        raise SignatureError(f"linearize takes a Function, {type(f).__name__} found.")
    several = not isinstance(argnums, int)
    argnums = tuple(argnums) if several else (argnums,)
    if not argnums or not all(0 <= i < len(f.domains) for i in argnums) or len(set(argnums)) != len(argnums):
        raise SignatureError(f"linearize: argnums {argnums} are not different arguments of {f!r}.")
    tangent = (tangent if several else (tangent,)) if tangent is not None else None
    spaces = tangent or tuple(value_space(f.domains[i].spec) for i in argnums)
    for i, space in zip(argnums, spaces, strict=True):
        if not isinstance(space, Domain) or not same_spec(space.spec, f.domains[i].spec):
            raise SignatureError(f"linearize: directions {space!r} do not fit argument {i} of {f!r}.")
    if _by_nabla(f, argnums):
        return functools.reduce(operator.add, _products(f, argnums, spaces))
    return Function(_linearize, (f,), (), {"argnums": argnums, "spaces": spaces})


def _by_nabla(f: Function, argnums) -> bool:
    """True if nabla has to move inside: functions under differentiation enter f at other points than its argument."""
    if not f.tags:
        return False
    from dftfd.autofd.operators.nabla import acts_elsewhere

    return any(acts_elsewhere(f, i) for i in argnums)


def gradients_inside(f: Function, argnums) -> list[Function] | None:
    """nabla f for each argument, where they have to move inside; else None. NoRuleError for arguments without nabla."""
    from dftfd.autofd.operators.nabla import nabla

    if not _by_nabla(f, argnums):
        return None
    for i in argnums:
        if not f.domains[i].is_array or not jnp.issubdtype(f.domains[i].dtype, jnp.floating):
            raise NoRuleError(
                f"{f!r} contains a function under differentiation at other points than its argument {i}, which is no "
                "real array; the derivative with respect to that argument has no transpose."
            )
    return [nabla(f, i) for i in argnums]


def _products(f, argnums, spaces):
    """nabla_i f(x) . y_i"""
    from dftfd.autofd.operators.broadcast import broadcast
    from dftfd.autofd.operators.compose import compose
    from dftfd.autofd.operators.leaf import identity

    count, domains = len(f.domains), f.domains + spaces
    for k, gradient in enumerate(gradients_inside(f, argnums)):
        y = broadcast(identity(spaces[k]), domains, (count + k,))
        yield compose(Along(), broadcast(gradient, domains, tuple(range(count))), y)


class Along(HasKey):
    """(gradient, y) -> gradient . y, the sum over the last axes of the gradient, those of y"""

    __name__ = "along"

    def __call__(self, gradient, y):
        return tree_map(lambda a: jnp.tensordot(a, y.astype(a.dtype), y.ndim), gradient)

    def structural_key(self):
        return ("along",)


def pushforward(f: Function, argnums: tuple[int, ...]) -> Function:
    """`linearize` with directions that are values of functions."""
    return linearize(f, argnums)


class Linearize(Operator):
    name, linear = "linearize", True

    def signature(self, operands, arrays, static):
        (f,) = operands
        return Signature(f.domains + static["spaces"], f.result)

    def evaluate(self, node, *args):
        (f,), argnums = node.operands, node.static["argnums"]
        point, directions = args[: len(f.domains)], args[len(f.domains) :]
        return jax.jvp(*restricted(f.evaluate, point, argnums), tuple(directions))[1]

    def transpose(self, node, cotangent, needed):
        if cotangent.operator is _settled:
            return [cotangent.operands[0]]
        from dftfd.autofd.operators.integrate import integrate_over

        (f,), argnums, spaces = node.operands, node.static["argnums"], node.static["spaces"]
        count = len(f.domains)
        for space in spaces:
            if space.points is None:
                raise NoRuleError(
                    f"the transpose of linearize with respect to {f!r} integrates over the directions {space!r}, which "
                    "have no quadrature. Give linearize a tangent domain with points and weights."
                )
        over = tuple(range(count, count + len(spaces)))
        moments = [integrate_over(_times_argument(cotangent, count + k), over) for k in range(len(spaces))]
        return [sum_of_transposed_gradients(moments, argnums)]


_linearize = Linearize()


def restricted(code, args, argnums):
    """Code as a function of the arguments in `argnums` alone, and their values."""

    def of_chosen(*values):
        full = list(args)
        for i, v in zip(argnums, values, strict=True):
            full[i] = v
        return code(*full)

    return of_chosen, tuple(args[i] for i in argnums)


class Outer(HasKey):
    """(c, y) -> c y^T: the axes of y are appended to those of each array in c."""

    __name__ = "outer product"

    def __call__(self, c, y):
        return tree_map(lambda a: jnp.tensordot(a, y, 0), c)

    def structural_key(self):
        return ("outer product",)


def _times_argument(ct, position):
    from dftfd.autofd.operators.broadcast import broadcast
    from dftfd.autofd.operators.compose import compose
    from dftfd.autofd.operators.leaf import identity

    y = broadcast(identity(ct.domains[position]), ct.domains, (position,))
    return compose(Outer(), ct, y)


def sum_of_transposed_gradients(moments, argnums):
    """sum_i nabla_i^T moments_i"""
    from dftfd.autofd.operators.nabla import transposed_nabla

    return functools.reduce(operator.add, (transposed_nabla(m, i) for m, i in zip(moments, argnums, strict=True)))


class Settled(Operator):
    """Cotangent of a derivative node (linearize, pullback) that holds the cotangent of the function below it."""

    name, linear, singular = "settled cotangent", True, 2

    def signature(self, operands, arrays, static):
        return static["signature"]


_settled = Settled()


def settled(cotangent: Function, node: Function) -> Function:
    """A cotangent for `node`, whose transpose hands `cotangent` on."""
    return Function(_settled, (cotangent,), (), {"signature": node.signature}, node.signature)


def add_settled(a: Function, b: Function) -> Function | None:
    """Sum of two settled cotangents, None if they are not."""
    if a.operator is not _settled or b.operator is not _settled:
        return None
    return Function(_settled, (a.operands[0] + b.operands[0],), (), a.static, a.signature)
