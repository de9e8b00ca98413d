"""What an operator is: meaning, signature, evaluation, derivative (JVP) and transpose, in this order, in one file.

<f, g> is the integral of f g over the domains. The transpose T of a linear operator O fulfils <O f, g> = <f, T(O) g>.
"""

import numpy as np

from dftfd.autofd.core.domain import Signature
from dftfd.autofd.core.function import Function
from dftfd.errors import NoRuleError, SignatureError


class Operator:
    """Base of all operators; each is used through one instance.

    name: for messages and the printed graph.
    linear: True if the result is linear in all operands together.
    singular: not 0 if the result is a distribution, which integrals consume: 2 if it has no values, 1 if it has but may
        jump, so that a quadrature over its argument is not used.
    """

    name = ""
    linear = False
    singular = 0

    def signature(self, operands, arrays, static) -> Signature:
        raise NotImplementedError

    def evaluate(self, node: Function, *args):
        """Value of `node` at a point; operands are evaluated with `.evaluate`, or asked for: `yield operand, point`."""
        raise NotImplementedError

    def tangent(self, node: Function, tangents: list) -> Function:
        """Derivative of `node` along the operands' tangents (None: that operand does not change)."""
        if not self.linear:
            raise NoRuleError(f"operator {self.name!r} has no differentiation rule.")
        return node.replace(
            operands=[zeros_like(f) if t is None else t for f, t in zip(node.operands, tangents, strict=True)]
        )

    def array_tangent(self, node: Function, tangents) -> Function:
        """Derivative of `node` along a change of the arrays that it carries."""
        raise NoRuleError(
            f"{node!r} carries arrays that depend on what is being differentiated; operator {self.name!r} has no rule "
            "for that."
        )

    def transpose(self, node: Function, cotangent: Function, needed: tuple[bool, ...]) -> list:
        """Cotangents of the operands, None where not `needed`.

        For a nonlinear operator this is the transpose of its derivative at `node`."""
        raise NoRuleError(f"operator {self.name!r} has no transpose rule.")

    def label(self, node: Function) -> str:
        return self.name


def checked_argnums(argnums, f: Function, what: str) -> tuple[int, ...]:
    """argnums, one or several, as a tuple; an error unless they are different arguments of f."""
    found = (argnums,) if not isinstance(argnums, tuple | list) else tuple(argnums)
    whole = all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in found)
    if not whole or not found or len(set(found)) != len(found) or not all(0 <= i < len(f.domains) for i in found):
        count = len(f.domains)
        raise SignatureError(
            f"{what}: argnum {argnums!r}, but {f!r} has {count} argument(s); argnums are different numbers from 0 to "
            f"{count - 1}."
        )
    return tuple(int(i) for i in found)


def zeros_like(function: Function) -> Function:
    """The function that is zero on the same domains."""
    from dftfd.autofd.operators.leaf import zeros

    return zeros(function.signature)
