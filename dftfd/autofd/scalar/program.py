"""A formula as straight-line code of scalars, and the one loop that carries it out.

Numbers, arrays, symbols, polynomials, proofs: what the scalars are is said by an algebra. It makes scalars of constants
and carries out one operation at a time; the loop over the operations, and which values are needed, is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from dftfd.autofd.scalar.keys import NoKey, value_key

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Node:
    """One scalar: an input ("input", position), a constant ("const", value), or an operation on other scalars.

    op: name of the operation, see vocabulary.py.   args: numbers of its operands.
    code, params: how JAX computes it, code.bind(*operands, **params): a primitive of JAX, or what reader.py kept whole.
    value: a position, a NumPy scalar, or what else tells it from operations of the same name; see keys.py.
    real: False for integers and truth values, to which the algebra of real numbers does not apply.
    """

    op: str
    args: tuple[int, ...] = ()
    value: Any = None
    code: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    real: bool = True

    @cached_property
    def kind(self) -> tuple:
        """What the operation is, operands apart: equal for the same one; where no key is exact, for no other node."""
        if self.op == "const":
            return self.op, self.value.dtype.str, self.value.tobytes()
        try:
            return self.op, self.value, self.real, value_key(self.params) if self.params else ()
        except NoKey:
            return self.op, object()


@dataclass(frozen=True, eq=False)
class ScalarProgram:
    """Scalar code; each node after its operands, equal nodes once."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    n_inputs: int

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Numbers of the nodes that the outputs depend on, ascending."""
        found, pending = set(), list(self.outputs)
        while pending:
            i = pending.pop()
            if i not in found:
                found.add(i)
                pending.extend(self.nodes[i].args)
        return tuple(sorted(found))

    @cached_property
    def last_uses(self) -> dict[int, list[int]]:
        """By position in `needed`: the values that are needed no more after it."""
        last = {}
        for position, i in enumerate(self.needed):
            last[i] = position
            for a in self.nodes[i].args:
                last[a] = position
        for i in self.outputs:
            last.pop(i, None)
        table: dict[int, list[int]] = {}
        for i, position in last.items():
            table.setdefault(position, []).append(i)
        return table

    @property
    def operations(self) -> frozenset[int]:
        """Numbers of the nodes that have to be carried out: no inputs, no constants."""
        return frozenset(i for i in self.needed if self.nodes[i].args)

    @property
    def length(self) -> int:
        """How many operations that are."""
        return len(self.operations)

    def depends_on(self, positions) -> bool:
        """True if an output depends on one of these inputs."""
        return any(self.nodes[i].op == "input" and self.nodes[i].value in positions for i in self.needed)


class Algebra(Protocol[T]):
    """What the scalars are."""

    def constant(self, value) -> T:
        """A NumPy scalar as a scalar of the algebra."""

    def apply(self, node: Node, args: list[T]) -> T:
        """One operation; UnsupportedError where the algebra does not have it."""


def evaluate(program: ScalarProgram, algebra: Algebra[T], inputs: Sequence[T]) -> list[T]:
    """The program's outputs for inputs that are scalars of the algebra."""
    values: dict[int, T] = {}
    for position, i in enumerate(program.needed):
        node = program.nodes[i]
        if node.op == "input":
            values[i] = inputs[node.value]
        elif node.op == "const":
            values[i] = algebra.constant(node.value)
        else:
            values[i] = algebra.apply(node, [values[a] for a in node.args])
        for dead in program.last_uses.get(position, ()):
            del values[dead]
    return [values[i] for i in program.outputs]
