"""Point evaluation f -> f(x0), and the Dirac distribution that is its transpose.

JVP         df(x0)
transpose   ct delta(x - x0): not a function. It may stand in a graph, but evaluating it is an error.
"""

import jax.numpy as jnp

from dftfd.autofd.domain import Domain, Signature
from dftfd.autofd.function import Function
from dftfd.autofd.operators.base import Operator
from dftfd.errors import NoRuleError


class PointEvaluation(Operator):
    name, linear = "at", True

    def signature(self, operands, arrays, static):
        return Signature((), operands[0].result)

    def evaluate(self, node):
        return node.operands[0].evaluate(*node.arrays)

    def transpose(self, node, cotangent, needed):
        return [dirac(cotangent, node.operands[0].domains, node.arrays)]


class Dirac(Operator):
    name, linear = "dirac", True

    def signature(self, operands, arrays, static):
        return Signature(static["domains"], operands[0].result)

    def evaluate(self, node, *args):
        place = ", ".join(str(a) for a in node.arrays)
        raise NoRuleError(
            f"a Dirac distribution at ({place}) has no values: it comes from differentiating f(x0) with respect to f. "
            "Integrate it against a function, or replace f(x0) by an integral with a narrow weight."
        )

    def transpose(self, node, cotangent, needed):
        return [at(cotangent, *node.arrays)]


_at, _dirac = PointEvaluation(), Dirac()


def at(f: Function, *points) -> Function:
    """f(x0) as a function of no arguments."""
    return Function(_at, (f,), tuple(jnp.asarray(p) for p in points))


def dirac(strength: Function, domains: tuple[Domain, ...], points) -> Function:
    """strength * delta(x - x0), the transpose of point evaluation."""
    return Function(_dirac, (strength,), tuple(points), {"domains": tuple(domains)})
