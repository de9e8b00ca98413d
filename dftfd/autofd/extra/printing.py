"""The operator graph as text."""

import numpy as np
from jax.tree_util import tree_leaves

from dftfd.autofd.core.codes import is_constant
from dftfd.autofd.core.domain import describe, spec_of
from dftfd.autofd.core.function import Function, nodes_of
from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.autofd.operators.compose import composition
from dftfd.autofd.operators.leaf import leaf

_SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"}


def show(f: Function, depth: int | None = None) -> str:
    """The graph of a Function as an indented tree, one node a line: what it does, and the type of its result.

    The first line is the signature. A node that is used several times is numbered where it is first shown, and is
    that number everywhere else. Code applied to the values of functions stands directly above them.

    depth: deepest level to show; default all.

    >>> from dftfd.autofd import Domain, function, nabla, show
    >>> n = function(lambda x: x * x, Domain(name="x"))
    >>> print(show(n**2 * nabla(n)))
    (x:float64[]) -> float64[]
    multiply: float64[]
    ├─ · ** 2: float64[]
    │  └─ #1 <lambda>: float64[]
    └─ nabla: float64[]
       └─ #1
    """
    uses: dict[int, int] = {}
    for node in nodes_of(f):
        for operand in _shown_operands(node):
            uses[id(operand)] = uses.get(id(operand), 0) + 1
    tree = _Tree({key for key, count in uses.items() if count > 1}, depth)
    tree.write(f)
    return "\n".join([str(f.signature), *tree.lines])


class _Tree:
    """Lines written so far, and the numbers of nodes that are `shared` (by id)."""

    def __init__(self, shared, depth):
        self.shared, self.depth = shared, depth
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}

    def write(self, root):
        """All lines; without recursion, since graphs may be deep."""
        stack = [(root, "", "", 0)]
        while stack:
            node, first, rest, level = stack.pop()
            self._line(node, first, rest, level, stack)

    def _line(self, node, first, rest, level, stack):
        """The node after the indentation `first`; its operands, after `rest`, are put on the stack."""
        if id(node) in self.numbers:
            self.lines.append(f"{first}#{self.numbers[id(node)]}")
            return
        number = ""
        if id(node) in self.shared:
            self.numbers[id(node)] = len(self.numbers) + 1
            number = f"#{self.numbers[id(node)]} "
        self.lines.append(f"{first}{number}{label(node)}: {describe(node.result)}")
        operands = _shown_operands(node)
        if self.depth is not None and level >= self.depth and operands:
            self.lines.append(f"{rest}└─ ...")
            return
        for k, operand in reversed(list(enumerate(operands))):
            last = k == len(operands) - 1
            stack.append((operand, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), level + 1))


def _shown_operands(node) -> tuple[Function, ...]:
    """Operands that stand below a node: of a composition, the inner functions; the outer one where it has a graph."""
    if node.operator is not composition:
        return node.operands
    outer, *inner = node.operands
    return tuple(inner) if _is_code(outer) else (outer, *inner)


def _is_code(outer) -> bool:
    """True for a function that one line describes: code, or the derivative of code."""
    return outer.operator is leaf or (len(outer.operands) == 1 and outer.operands[0].operator is leaf)


def label(node: Function) -> str:
    """What one node does, in a few words."""
    if node.operator is composition:
        outer = node.operands[0]
        return _code_label(outer) if _is_code(outer) else "compose"
    return _code_label(node) if node.operator is leaf else node.operator.label(node)


def _code_label(f):
    if f.operator is not leaf:
        return _derivative_label(f)
    if is_constant(f):
        value = f.arrays[0]
        known = not any(map(is_tracer, tree_leaves(value))) and np.size(value) == 1
        return f"constant {float(value):.6g}" if known else "constant"
    code = f.static["code"]
    name = f.operator.label(f).lstrip("_")
    left, right = getattr(code, "left", None), getattr(code, "right", None)
    if left is not None:
        return f"{left:.6g} {_SYMBOLS[name]} ·"
    if right is not None:
        return f"· {_SYMBOLS[name]} {right:.6g}"
    arrays = [describe(spec_of(a)) for a in tree_leaves(f.arrays)]
    return f"{name} of arrays {', '.join(arrays)}" if arrays else name


def _derivative_label(f):
    """pullback or pushforward of code, with the arguments it is taken in where there are several."""
    (code,) = f.operands
    arguments = f.static.get("argnums", ())
    some = f" in {', '.join(map(str, arguments))}" if len(code.domains) > len(arguments) else ""
    return f"{f.operator.label(f)} of ({_code_label(code)}){some}"
