"""What an operator is, and the table in which operators are found by name.

An operator is meaning, signature, evaluation, derivative (JVP) and transpose, in this order, in one file. <f, g> is the
integral of f g over the domains. The transpose T of a linear operator O fulfils <O f, g> = <f, T(O) g>.

Rules build nodes through the table: `op.nabla(f)` is what the file that defines nabla has registered, so no operator
imports another.
"""

from dftfd.autofd.core.domain import Signature
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.operator_table import op
from dftfd.errors import NoRuleError


class Operator:
    """Base of all operators; each is used through one instance.

    name: for messages and the printed graph.
    linear: True if the result is linear in all operands together.
    singular: not 0 if the result is a distribution, which integrals consume: 2 if it has no values, 1 if it has but may
        jump, so that a quadrature over its argument is not used.
    passes_arguments: True if it hands its arguments on to its one operand, which may take others besides; then
        `argument_below` says where they go.
    """

    name = ""
    linear = False
    singular = 0
    passes_arguments = False

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
            [op.zeros(f.signature) if t is None else t for f, t in zip(node.operands, tangents, strict=True)]
        )

    def array_tangent(self, node: Function, tangents) -> Function:
        """Derivative of `node` along a change of the arrays that it carries."""
        raise NoRuleError(
            f"{node!r} contains arrays that depend on the variable being differentiated; operator {self.name!r} "
            "has no rule for that."
        )

    def transpose(self, node: Function, cotangent: Function, needed: tuple[bool, ...]) -> list:
        """Cotangents of the operands, None where not `needed`.

        For a nonlinear operator this is the transpose of its derivative at `node`."""
        raise NoRuleError(f"operator {self.name!r} has no transpose rule.")

    def separate(self, node: Function) -> tuple[Function | None, list]:
        """A node over distributions as a regular function, None for zero, and terms with deltas; see dirac.py."""
        raise NoRuleError(
            f"a Dirac distribution can't pass through operator {self.name!r} in {node!r}: only linear combinations, "
            "products with functions, and integrals of it are defined here."
        )

    def argument_below(self, node: Function, i: int) -> int | None:
        """Number of the operand's argument that gets argument i of the node; None: the operand does not see it."""
        raise NotImplementedError

    # a node of the operator as the outer function of a composition node(inner_1, inner_2, ...)

    def linear_arguments(self, node: Function) -> tuple[int, ...]:
        """Numbers of the arguments in which the node is known to be linear: `along` and `against` are asked there."""
        return ()

    def along(self, node: Function, inner, changes: dict) -> Function:
        """Derivative of node(*inner) where inner functions of linear arguments change, {number: change}."""
        raise NotImplementedError

    def against(self, node: Function, inner, i: int, cotangent: Function) -> Function:
        """Cotangent of the inner function of the linear argument i."""
        raise NotImplementedError

    def transpose_outer(self, node: Function, inner, cotangent: Function) -> Function:
        """Cotangent of the node itself: the density moves with the inner functions."""
        return op.transport(cotangent, inner, node.domains)

    def plus(self, a: Function, b: Function) -> Function:
        """Sum of cotangents, a being a node of this operator."""
        return a + b

    def label(self, node: Function) -> str:
        return self.name
