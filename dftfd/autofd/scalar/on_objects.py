"""Algebras of objects, whatever has + and *: SymPy expressions; numbers of extended precision are in `on_mpmath`.

An algebra says how numbers become scalars and what the elementary functions of them are.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.vocabulary import ALIASES
from dftfd.errors import MissingDependencyError, UnsupportedError

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


MAX_DENOMINATOR = 5040  # numbers p/q up to this q are written as fractions


def require_sympy():
    """The module sympy; an error that says how to get it."""
    try:
        import sympy
    except ImportError as error:
        raise MissingDependencyError('explain needs SymPy: pip install "dftfd[explain]".') from error
    return sympy


def exact(value):
    """A float as a fraction, or a fraction of pi, if it is one to rounding; else as a SymPy float."""
    sympy = require_sympy()
    value = float(value)
    if not math.isfinite(value):
        return sympy.nan if math.isnan(value) else sympy.oo if value > 0 else -sympy.oo
    for unit, symbol in ((1.0, sympy.Integer(1)), (math.pi, sympy.pi)):
        fraction = Fraction(value / unit).limit_denominator(MAX_DENOMINATOR)
        if abs(float(fraction) * unit - value) <= 4e-16 * abs(value) and abs(fraction.numerator) < 10**6:
            return sympy.Rational(fraction.numerator, fraction.denominator) * symbol
    return sympy.Float(value)


class SympyAlgebra(Objects):
    """Elementary functions are SymPy's; a condition on an unknown value gives a Piecewise."""

    def __init__(self):
        s = self.sympy = require_sympy()
        half = s.Rational(1, 2)
        self.functions = {
            "exp": s.exp,
            "exp2": lambda x: 2**x,
            "expm1": lambda x: s.exp(x) - 1,
            "log": s.log,
            "log1p": lambda x: s.log(1 + x),
            "one_minus_square": lambda x: 1 - x**2,
            "sqrt": s.sqrt,
            "rsqrt": lambda x: x**-half,
            "cbrt": lambda x: s.sign(x) * s.Abs(x) ** s.Rational(1, 3),
            "pow": lambda x, y: x**y,
            "logistic": lambda x: 1 / (1 + s.exp(-x)),
            **{
                name: getattr(s, name) for name in "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh".split()
            },
            "atan2": s.atan2,
            "erf": s.erf,
            "erfc": s.erfc,
            "abs": s.Abs,
            "sign": s.sign,
            "max": s.Max,
            "min": s.Min,
            "clamp": lambda low, x, high: s.Min(s.Max(low, x), high),
            **{"gt": s.Gt, "ge": s.Ge, "lt": s.Lt, "le": s.Le, "eq": s.Eq, "ne": s.Ne},
            **{"and": s.And, "or": s.Or, "not": s.Not},
            "is_finite": lambda x: s.true,
        }

    def constant(self, value):
        value = np.asarray(value)
        if value.dtype == bool:
            return self.sympy.true if value else self.sympy.false
        if np.iscomplexobj(value):
            return exact(value.real) + self.sympy.I * exact(value.imag)
        return exact(value)

    def custom(self, code, args):
        return [[a ** self.sympy.Rational(1, 3) for a in args]] if code.name == "_cube_root" else None

    def choose(self, condition, cases):
        """cases[0] where the condition is false, cases[1] where it is true."""
        no, yes = cases
        if condition in (self.sympy.true, self.sympy.false):
            return yes if condition else no
        return yes if yes == no else self.sympy.Piecewise((yes, condition), (no, True))
