"""SymPy expressions as scalars that JAX programs can run on."""

import math
from fractions import Fraction

import numpy as np

from dftfd.autofd.scalar.on_objects import Objects
from dftfd.errors import MissingDependencyError

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
