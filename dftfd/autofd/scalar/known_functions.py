"""The table of functions that proofs know: enclosures of value, first and second derivative, and where it is defined.

What is not in this table, and no sum, product, power, comparison or choice, is refused. Derivatives are formulas of
x and y = f(x), which are Intervals or Duals; across a jump nothing is known of them, across a kink the first one is
the hull of both sides and nothing is known of the second.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dftfd.autofd.scalar.elementary_bounds import FUNCTIONS
from dftfd.autofd.scalar.intervals import Interval, fraction

_HALF = Fraction(1, 2)
_ERF = Interval(1.1283791670955125, 1.1283791670955128)
"""2 / sqrt(pi)."""


class Operation(NamedTuple):
    """value: Interval -> Interval.   slope, curvature: (x, y) -> f'(x), f''(x).

    domain: (comparison with zero, number): the function is defined where it is true of x + number; None: everywhere.
    """

    value: Callable[[Interval], Interval]
    slope: Callable[[Any, Any], Any]
    curvature: Callable[[Any, Any], Any]
    domain: tuple[str, float] | None = None


def power_domain(p: Fraction) -> tuple[str, float] | None:
    """Where x^p is defined, as in `Operation.domain`."""
    if p.denominator == 1:
        return ("ne0", 0.0) if p < 0 else None
    return ("gt0" if p < 0 else "ge0"), 0.0


def _of(name, x):
    return FUNCTIONS[name](x) if isinstance(x, Interval) else x.unary(name)


def _bell(x):
    """2 / sqrt(pi) exp(-x^2)."""
    return _of("exp", x.power(Fraction(2)).scaled(-1.0)).times(_ERF)


def _one_minus(x):
    return x.scaled(-1.0).plus(1.0)


def _third(x, numerator: int, denominator: int):
    return x.times(fraction(Fraction(numerator, denominator)))


def _zero_beside_a_jump(x):
    """0 where x is of one sign; where it may be zero nothing is known."""
    if isinstance(x, Interval):
        one_sign = (np.asarray(x.lo) > 0) | (np.asarray(x.hi) < 0)
        zero = np.where(one_sign, 0.0, np.nan)
        return Interval(zero, zero)
    flat = _zero_beside_a_jump(x.r)
    return type(x)(flat, _zero_beside_a_jump(x.c), dict.fromkeys(x.g, flat), x.boxes)


def _lambert_curvature(x, y):
    return y.plus(2.0).scaled(-1.0) * (_of("exp", y.scaled(2.0)) * y.plus(1.0).power(Fraction(3))).power(Fraction(-1))


_RULES: dict[str, tuple] = {
    "exp": (lambda x, y: y, lambda x, y: y),
    "expm1": (lambda x, y: _of("exp", x), lambda x, y: _of("exp", x)),
    "log": (lambda x, y: x.power(Fraction(-1)), lambda x, y: x.power(Fraction(-2)).scaled(-1.0), ("gt0", 0.0)),
    "log1p": (
        lambda x, y: x.plus(1.0).power(Fraction(-1)),
        lambda x, y: x.plus(1.0).power(Fraction(-2)).scaled(-1.0),
        ("gt0", 1.0),
    ),
    "atan": (
        lambda x, y: x.power(Fraction(2)).plus(1.0).power(Fraction(-1)),
        lambda x, y: x.scaled(-2.0) * x.power(Fraction(2)).plus(1.0).power(Fraction(-2)),
    ),
    "asinh": (
        lambda x, y: x.power(Fraction(2)).plus(1.0).power(-_HALF),
        lambda x, y: x.scaled(-1.0) * x.power(Fraction(2)).plus(1.0).power(Fraction(-3, 2)),
    ),
    "tanh": (
        lambda x, y: _one_minus(y.power(Fraction(2))),
        lambda x, y: y.scaled(-2.0) * _one_minus(y.power(Fraction(2))),
    ),
    "sinh": (lambda x, y: _of("cosh", x), lambda x, y: y),
    "cosh": (lambda x, y: _of("sinh", x), lambda x, y: y),
    "sin": (lambda x, y: _of("cos", x), lambda x, y: y.scaled(-1.0)),
    "cos": (lambda x, y: _of("sin", x).scaled(-1.0), lambda x, y: y.scaled(-1.0)),
    "erf": (lambda x, y: _bell(x), lambda x, y: x.scaled(-2.0) * _bell(x)),
    "erfc": (lambda x, y: _bell(x).scaled(-1.0), lambda x, y: x.scaled(2.0) * _bell(x)),
    "logistic": (
        lambda x, y: y * _one_minus(y),
        lambda x, y: y * _one_minus(y) * y.scaled(-2.0).plus(1.0),
    ),
    "lambert_w": (
        lambda x, y: (_of("exp", y) * y.plus(1.0)).power(Fraction(-1)),
        _lambert_curvature,
        ("ge0", 0.0),
    ),
    "cbrt": (
        lambda x, y: _third(y.power(Fraction(-2)), 1, 3),
        lambda x, y: _third(y.power(Fraction(-5)), -2, 9),
    ),
    "abs": (lambda x, y: _of("sign", x), lambda x, y: _zero_beside_a_jump(x)),
    "sign": (lambda x, y: _zero_beside_a_jump(x), lambda x, y: _zero_beside_a_jump(x)),
}

OPERATIONS = {name: Operation(FUNCTIONS[name], *rules) for name, rules in _RULES.items()}
"""By the names that nodes have."""
