"""pullback: transposed derivative, as a function of point and cotangent.   (V f)(y, c) = f'(y)^T c

JVP         V df
transpose   inside a composition, (D f(g(x)))^T c(x), that of linearize with the roles of c and the cotangent exchanged;
            see `compose`. As a free function of c it would need a quadrature over cotangents: no rule.
"""

import jax

from dftfd.autofd.domain import Signature, value_space
from dftfd.autofd.function import Function
from dftfd.autofd.operators.base import Operator
from dftfd.autofd.operators.linearize import _linearize, _settled, restricted
from dftfd.errors import NoRuleError


def pullback(f: Function, argnums: tuple[int, ...]) -> Function:
    """(y_1..y_n, c) -> (d_i f(y))^T c for i in argnums; a tuple if there are several."""
    return Function(_pullback, (f,), (), {"argnums": argnums})


class Pullback(Operator):
    name, linear = "pullback", True

    def signature(self, operands, arrays, static):
        (f,) = operands
        specs = tuple(f.domains[i].spec for i in static["argnums"])
        return Signature((*f.domains, value_space(f.result)), specs if len(specs) > 1 else specs[0])

    def evaluate(self, node, *args):
        (f,), argnums = node.operands, node.static["argnums"]
        if f.operator is _linearize and min(argnums) >= (count := len(f.operands[0].domains)):
            # (x, y) -> f'(x) y is linear in y: its transpose is that of f' and needs no derivative of the derivative
            argnums = tuple(f.static["argnums"][i - count] for i in argnums)
            f, args = f.operands[0], (*args[:count], args[-1])
        code, primals = restricted(f.evaluate, args[:-1], argnums)
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
