"""Algebras of exact objects: whatever has + and *, symbols for instance.

An algebra says how numbers become scalars and what the elementary functions of them are.
"""

from collections.abc import Callable

import numpy as np

from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.vocabulary import ALIASES
from dftfd.errors import UnsupportedError

ARITHMETIC: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "add_any": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "square": lambda a: a * a,
    "one_minus_square": lambda a: 1 - a * a,
}


class NotInAlgebra(UnsupportedError):
    """The program needs an operation that the algebra does not have."""


class Objects:
    """An algebra by the table `functions` of what operations do, besides arithmetic."""

    functions: dict[str, Callable] = {}  # name of the operation -> function of scalars

    def constant(self, value):
        """A NumPy scalar as an element of the algebra."""
        raise NotImplementedError

    def custom(self, code, args) -> list | None:
        """Lists of the entries of each result of a function with a derivative rule, where the algebra knows it."""
        return None

    def choose(self, condition, cases):
        """cases[condition] for a condition that depends on symbols."""
        raise NotInAlgebra("a condition on an unknown value")

    def apply(self, node, args):
        if node.op in self.functions:
            return self.functions[node.op](*args)
        if node.op in ARITHMETIC:
            return ARITHMETIC[node.op](*args)
        match node.op:
            case "integer_pow":
                return args[0] ** node.params["y"]
            case "select_n":
                return self.choose(args[0], args[1:])
            case "convert_element_type" | "reduce_precision":
                if not node.real:
                    raise NotInAlgebra(f"rounding ({node.op}) of an unknown value")
                return args[0]
            case "call" if node.code.name == "stop_gradient":
                return [[a] for a in args]
            case "call" if node.code.has_rule:
                known = self.custom(node.code, args)
                return self._inside(node.code, args) if known is None else known
            case "call" if node.code.name in ALIASES:
                return [args]
            case "call" if node.code.matrix is not None:
                rows = [[self.constant(entry) for entry in row] for row in node.code.matrix]
                return [[sum(c * x for c, x in zip(row, args, strict=True)) for row in rows]]
            case "entry":
                return args[0][node.params["result"]][node.params["index"]]
        raise NotInAlgebra(f"the operation {node.code.name if node.op == 'call' else node.op!r}")

    def _inside(self, code, args):
        """Through the program of the function's value."""
        flat = iter(evaluate(code.program, self, args))
        return [[next(flat) for _ in range(int(np.prod(v.aval.shape)))] for v in code.eqn.outvars]
