"""pullback: transposed derivative, as a function of point and cotangent.   (V f)(y, c) = f'(y)^T c

JVP         V df
transpose   inside a composition, (D f(g(x)))^T c(x), that of linearize with the roles of c and the cotangent exchanged;
            see `compose`. As a free function of c it would need a quadrature over cotangents: no rule.
"""

import functools

import jax
import jax.numpy as jnp
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.domain import Signature, value_space
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.structure import HasKey
from dftfd.autofd.operators.linearize import _settled, gradients_inside, restricted
from dftfd.errors import NoRuleError


def pullback(f: Function, argnums: tuple[int, ...]) -> Function:
    """(y_1..y_n, c) -> (d_i f(y))^T c for i in argnums; a tuple if there are several."""
    gradients = gradients_inside(f, argnums)
    if gradients is not None:
        return _by_products(f, gradients)
    return Function(_pullback, (f,), (), {"argnums": argnums})


def _by_products(f, gradients):
    """c . nabla_i f(y), where nabla has to move inside."""
    from dftfd.autofd.operators.broadcast import broadcast
    from dftfd.autofd.operators.compose import compose
    from dftfd.autofd.operators.leaf import identity
    from dftfd.autofd.operators.zip_split import zip_functions

    count, domains = len(f.domains), (*f.domains, value_space(f.result))
    c = broadcast(identity(domains[-1]), domains, (count,))
    parts = [compose(Against(), broadcast(g, domains, tuple(range(count))), c) for g in gradients]
    return zip_functions(*parts) if len(parts) > 1 else parts[0]


class Against(HasKey):
    """(gradient, c) -> c . gradient, summed over the axes of c and over a tree of them"""

    __name__ = "against"

    def __call__(self, gradient, c):
        products = tree_map(lambda a, b: jnp.tensordot(b, a, b.ndim), gradient, c)
        return functools.reduce(jnp.add, tree_leaves(products))

    def structural_key(self):
        return ("against",)


class Pullback(Operator):
    name, linear = "pullback", True

    def signature(self, operands, arrays, static):
        (f,) = operands
        specs = tuple(f.domains[i].spec for i in static["argnums"])
        return Signature((*f.domains, value_space(f.result)), specs if len(specs) > 1 else specs[0])

    def evaluate(self, node, *args):
        (f,) = node.operands
        code, primals = restricted(f.evaluate, args[:-1], node.static["argnums"])
        pulled = jax.vjp(code, *primals)[1](args[-1])
        return pulled if len(pulled) > 1 else pulled[0]

    def transpose(self, node, cotangent, needed):
        if cotangent.operator is _settled:
            return [cotangent.operands[0]]
        raise NoRuleError(
            f"the transpose of {node!r} with respect to its function would integrate over cotangents, a space without "
            "a quadrature."
        )


_pullback = Pullback()
