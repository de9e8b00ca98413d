"""The table of functions that proofs know: enclosures of value, first and second derivative, and where it is defined.

What is not in this table, and no sum, product, power, comparison or choice, is refused. Derivatives are formulas of
x and y = f(x), which are Intervals or Duals; across a jump nothing is known of them, across a kink the first one is
the hull of both sides and nothing is known of the second.

Enclosures are made of interval arithmetic alone, so that their ends are bounds whatever a library rounds. F_at(x) are
enclosures at numbers x; functions of intervals follow from where they rise and fall.

F. W. J. Olver et al. (eds.), NIST Digital Library of Mathematical Functions, 4.13, 7.6, 7.9 (erfc's fraction).
https://dlmf.nist.gov
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dftfd.verify.intervals import (
    Interval,
    Polynomial,
    between,
    cube_root,
    down,
    exactly,
    exp_at,
    exponential,
    fraction,
    increasing,
    log_at,
    natural_logarithm,
    up,
)

_ONE, _HALF = exactly(1.0), exactly(0.5)
_PI = Fraction("3.141592653589793238462643383279502884")
PI = between(_PI, _PI + Fraction(1, 10**36))
_ROOT_PI = PI.square_root()


def _where(condition, yes: Interval, no: Interval) -> Interval:
    return Interval(np.where(condition, yes.lo, no.lo), np.where(condition, yes.hi, no.hi))


def _over(x: Interval, y: Interval) -> Interval:
    return x * y.reciprocal()


def _odd(at, x) -> Interval:
    """An odd function, of `at` for numbers >= 0."""
    found = at(np.abs(x))
    return _where(np.asarray(x) < 0, -found, found)


# ---- exponentials

_EXPM1 = Polynomial(
    [Fraction(1, math.factorial(k + 1)) for k in range(14)],
    Fraction(36, 100),
    Fraction(3, 2) * Fraction(36, 100) ** 14 / math.factorial(15),
)
_ALMOST = 1 - 2.0**-50
"""Below tanh(20), and what the smaller exponential leaves of sinh(20)."""


def _expm1_at(x) -> Interval:
    return _where(np.abs(x) <= 0.35, exactly(x) * _EXPM1(exactly(x)), exp_at(x) - _ONE)


def _sinh_at(a) -> Interval:
    e, far = _expm1_at(a), exp_at(a) * _HALF
    near = (e + _over(e, e + _ONE)) * _HALF
    return _where(a > 20, Interval(down(far.lo * _ALMOST), far.hi), near)


def _cosh_at(a) -> Interval:
    return (exp_at(a) + exp_at(-a)) * _HALF


def _tanh_at(a) -> Interval:
    e = _expm1_at(2 * np.minimum(a, 21.0))
    return _where(a > 20, Interval(_ALMOST + 0 * a, 1.0 + 0 * a), _over(e, e + exactly(2.0)))


def _logistic_at(x) -> Interval:
    """1/(1 + e) or e/(1 + e), e = exp(-|x|)."""
    e = exp_at(-np.abs(x))
    return _over(_where(np.asarray(x) < 0, e, _ONE), e + _ONE)


# ---- logarithms

_ATANH_REACH = Fraction(3, 100)
_LOG1P = Polynomial([Fraction(1, 2 * k + 1) for k in range(12)], _ATANH_REACH, _ATANH_REACH**12 / 24)


def _log1p_at(x) -> Interval:
    """2 atanh(x/(2 + x)) where x is small."""
    x = np.asarray(x, dtype=float)
    small = (x >= -0.29) & (x <= 0.41)
    near = exactly(np.where(small, x, 0.0))
    f = _over(near, near + exactly(2.0))
    return _where(small, f * _LOG1P(f * f) * exactly(2.0), natural_logarithm(exactly(x) + _ONE))


def _asinh_at(a) -> Interval:
    """log1p(a + a^2/(1 + sqrt(1 + a^2))), or log(a) + log(1 + sqrt(1 + 1/a^2)) for large a."""
    x = exactly(np.minimum(a, 2.0))
    square = x * x
    inside = x + _over(square, _ONE + (_ONE + square).square_root())
    y = exactly(np.maximum(a, 0.5)).reciprocal()
    far = log_at(np.maximum(a, 0.5)) + natural_logarithm(_ONE + (_ONE + y * y).square_root())
    return _where(a <= 1, increasing(_log1p_at, inside), far)


# ---- circular functions

_ATAN_REACH = Fraction(4, 100)
_ATAN = Polynomial([Fraction((-1) ** k, 2 * k + 1) for k in range(13)], _ATAN_REACH, _ATAN_REACH**13 / 27)


def _atan_at(a) -> Interval:
    """Of 1/a where a > 1; the angle is halved twice."""
    over = exactly(np.maximum(a, 1.0)).reciprocal()
    t = _where(a > 1, Interval(np.maximum(over.lo, 0.0), over.hi), exactly(np.minimum(a, 1.0)))
    for _ in range(2):
        t = _over(t, _ONE + (_ONE + t * t).square_root())
    angle = t * _ATAN(t * t) * exactly(4.0)
    return _where(a > 1, PI * _HALF - angle, angle)


_QUARTER_HIGH = float.fromhex("0x1.921fb544p+0")  # 33 bits of pi/2: its product with the quadrant is exact
_QUARTER_LOW = between(_PI / 2 - Fraction(_QUARTER_HIGH), _PI / 2 - Fraction(_QUARTER_HIGH) + Fraction(1, 10**36))
_CIRCLE = Fraction(64, 100)
_SIN, _COS = (
    Polynomial(
        [Fraction((-1) ** k, math.factorial(2 * k + odd)) for k in range(10)],
        _CIRCLE,
        _CIRCLE**10 / math.factorial(20 + odd),
    )
    for odd in (1, 0)
)


def _circular(x: Interval, shift: int) -> Interval:
    """sin(x + shift pi/2): its value in the middle, and as far away as x reaches, since the slope is 1 at most."""
    middle = 0.5 * x.lo + 0.5 * x.hi
    reach = np.maximum(up(x.hi - middle), up(middle - x.lo))
    near = np.abs(middle) < 1e5
    m = np.where(near, middle, 0.0)
    k = np.rint(m * 0.6366197723675814)
    r = exactly(m) - exactly(k * _QUARTER_HIGH) - _QUARTER_LOW * exactly(k)
    square = r.power(Fraction(2))
    quadrant = (k + shift) % 4
    value = _where(quadrant % 2 == 0, r * _SIN(square), _COS(square))
    value = _where(quadrant >= 2, -value, value)
    low, high = down(value.lo - reach), up(value.hi + reach)
    unknown = np.isnan(middle)
    low, high = np.where(near, np.maximum(low, -1.0), -1.0), np.where(near, np.minimum(high, 1.0), 1.0)
    return Interval(np.where(unknown, np.nan, low), np.where(unknown, np.nan, high))


# ---- error functions

_ERF_REACH = Fraction(226, 100)
_ERF = Polynomial(
    [Fraction((-1) ** k, math.factorial(k) * (2 * k + 1)) for k in range(34)],
    _ERF_REACH,
    _ERF_REACH**34 / (math.factorial(34) * 69),
)
"""sqrt(pi) erf(a) / (2 a) of a^2."""
_DEPTH = 120


def _small_erf(a) -> Interval:
    x = exactly(np.minimum(a, 1.5))
    return _over(x * _ERF(x * x) * exactly(2.0), _ROOT_PI)


def _large_erfc(a) -> Interval:
    """exp(-a^2)/sqrt(pi) / w_0, w_n = a + (n + 1)/2 / w_(n+1), which are at least a."""
    a = np.clip(a, 1.5, 1000.0)
    low, high = a, up(a + up(0.5 * (_DEPTH + 1) / a))
    for n in range(_DEPTH - 1, -1, -1):
        low, high = down(a + down(0.5 * (n + 1) / high)), up(a + up(0.5 * (n + 1) / low))
    square = exactly(a) * exactly(a)
    return _over(exponential(-square), _ROOT_PI * Interval(low, high))


def _erf_at(a) -> Interval:
    return _where(a <= 1.5, _small_erf(a), _ONE - _large_erfc(a))


def _erfc_at(x) -> Interval:
    a = np.abs(x)
    far, near = _large_erfc(a), _small_erf(a)
    right = _where(a <= 1.5, _ONE - near, far)
    left = _where(a <= 1.5, _ONE + near, exactly(2.0) - far)
    return _where(np.asarray(x) < 0, left, right)


# ---- functions of intervals


def _within(least: float, largest: float, x: Interval) -> Interval:
    return Interval(np.maximum(x.lo, least), np.minimum(x.hi, largest))


def _lambert_w(x: Interval) -> Interval:
    """W(x) e^W(x) = x, x >= 0: each end is kept if its inverse lies on the right side."""
    defined = lambda end: np.where(np.asarray(end) >= 0, end, np.nan)
    low = np.maximum(down(special.lambertw(defined(x.lo)).real, 2.0**-44), 0.0)
    high = up(special.lambertw(defined(x.hi)).real, 2.0**-44)
    low_inverse, high_inverse = (exactly(w) * exp_at(w) for w in (low, high))
    return Interval(
        np.where(np.isfinite(low) & ((low == 0) | (low_inverse.hi <= x.lo)), low, np.nan),
        np.where(high_inverse.lo >= x.hi, high, np.nan),
    )


def _absolute(x: Interval) -> Interval:
    ends = np.abs(x.lo), np.abs(x.hi)
    inside = (np.asarray(x.lo) <= 0) & (np.asarray(x.hi) >= 0)
    return Interval(np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends))


def _decreasing(at, x: Interval) -> Interval:
    return increasing(at, Interval(x.hi, x.lo))


def _sign(x: Interval) -> Interval:
    return Interval(np.sign(x.lo), np.sign(x.hi))


FUNCTIONS = {
    "exp": exponential,
    "expm1": lambda x: _within(-1.0, np.inf, increasing(_expm1_at, x)),
    "log": natural_logarithm,
    "log1p": lambda x: increasing(_log1p_at, x),
    "cbrt": lambda x: increasing(lambda y: _odd(cube_root, y), x),
    "atan": lambda x: increasing(lambda y: _odd(_atan_at, y), x),
    "asinh": lambda x: increasing(lambda y: _odd(_asinh_at, y), x),
    "sinh": lambda x: increasing(lambda y: _odd(_sinh_at, y), x),
    "tanh": lambda x: _within(-1.0, 1.0, increasing(lambda y: _odd(_tanh_at, y), x)),
    "erf": lambda x: _within(-1.0, 1.0, increasing(lambda y: _odd(_erf_at, y), x)),
    "erfc": lambda x: _within(0.0, 2.0, _decreasing(_erfc_at, x)),
    "logistic": lambda x: _within(0.0, 1.0, increasing(_logistic_at, x)),
    "cosh": lambda x: _within(1.0, np.inf, increasing(_cosh_at, _absolute(x))),
    "sin": lambda x: _circular(x, 0),
    "cos": lambda x: _circular(x, 1),
    "abs": _absolute,
    "sign": _sign,
    "lambert_w": _lambert_w,
}
"""Enclosures by the names that nodes have; NaN where nothing is known."""


_TWO_OVER_ROOT_PI = Interval(1.1283791670955125, 1.1283791670955128)
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
    return _of("exp", x.power(Fraction(2)).scaled(-1.0)).times(_TWO_OVER_ROOT_PI)


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
        lambda x, y: x.power(Fraction(2)).plus(1.0).power(Fraction(-1, 2)),
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
