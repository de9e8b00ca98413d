"""Intervals of real numbers, many at once, rounded outwards.

An Interval holds arrays lo and hi, (box,) or (): the set of reals between them, ends included. Each function returns
intervals that contain every value of the function on its arguments. NaN as an end says that nothing is known, so what
is undefined somewhere in an argument is never taken for something known; infinite ends say that there is no bound.

Sums, products and roots are rounded to the nearest number by IEEE 754, off by half an ulp at most; ends are moved by
one ulp or more. (Sums that are too small for that are exact.) NumPy's elementary functions are off by 4 ulp at most
(its vector code; the C library's by 2 in glibc's own list); their ends are moved by 32. Ends of the Lambert function
are verified by the inverse.

G. Alefeld, G. Mayer, J. Comput. Appl. Math. 121, 421 (2000) (interval analysis). doi:10.1016/S0377-0427(00)00342-3
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

_ULP, _LIBRARY, _TINY = 2.0**-52, 2.0**-47, 1e-300
"""Relative distance by which ends move: after arithmetic, after an elementary function; and in absolute terms."""


def down(x, relative=_ULP):
    """A lower bound of the real number that x is the rounding of."""
    return x - (np.abs(x) * relative + _TINY)


def up(x, relative=_ULP):
    return x + (np.abs(x) * relative + _TINY)


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """lo <= x <= hi, of arrays of one shape."""

    lo: np.ndarray | float
    hi: np.ndarray | float

    def __add__(self, other: "Interval") -> "Interval":
        lo, hi = self.lo + other.lo, self.hi + other.hi
        return Interval(lo - np.abs(lo) * _ULP, hi + np.abs(hi) * _ULP)

    def __sub__(self, other: "Interval") -> "Interval":
        lo, hi = self.lo - other.hi, self.hi - other.lo
        return Interval(lo - np.abs(lo) * _ULP, hi + np.abs(hi) * _ULP)

    def __neg__(self) -> "Interval":
        return Interval(-self.hi, -self.lo)

    def __mul__(self, other: "Interval") -> "Interval":
        a, b = self, other
        if np.all(a.lo >= 0):
            if np.all(b.lo >= 0):
                return Interval(np.maximum(down(a.lo * b.lo), 0.0), up(a.hi * b.hi))
            return Interval(down(np.minimum(a.lo * b.lo, a.hi * b.lo)), up(np.maximum(a.lo * b.hi, a.hi * b.hi)))
        if np.all(b.lo >= 0):
            return b * a
        products = a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi
        least = np.minimum(np.minimum(products[0], products[1]), np.minimum(products[2], products[3]))
        largest = np.maximum(np.maximum(products[0], products[1]), np.maximum(products[2], products[3]))
        return Interval(down(least), up(largest))

    def times(self, other: "Interval") -> "Interval":
        return self * other

    def scaled(self, number: float) -> "Interval":
        return self * exactly(number)

    def plus(self, number: float) -> "Interval":
        return self + exactly(number)

    def reciprocal(self) -> "Interval":
        """1 / x; nothing is known where x may vanish, but for one that is zero at an end alone."""
        lo, hi = np.asarray(self.lo, dtype=float), np.asarray(self.hi, dtype=float)
        one_sign = (lo > 0) | (hi < 0)
        low = np.where(one_sign, down(1 / hi), np.where((lo == 0) & (hi > 0), down(1 / hi), np.nan))
        high = np.where(one_sign, up(1 / lo), np.where((hi == 0) & (lo < 0), up(1 / lo), np.nan))
        # an end at zero: no bound on that side
        high = np.where((lo == 0) & (hi > 0), np.inf, high)
        low = np.where((hi == 0) & (lo < 0), -np.inf, low)
        return Interval(low, high)

    def power(self, p: Fraction) -> "Interval":
        """x^p, of x >= 0 where p is not an integer; odd roots of negative numbers are `cbrt`."""
        if p == 1:
            return self
        if p.denominator == 1 and p < 0:
            return self.power(-p).reciprocal()
        if p.denominator == 1:
            return self._natural_power(int(p))
        if p == Fraction(1, 2):
            return Interval(np.maximum(down(np.sqrt(self.lo)), 0.0), up(np.sqrt(self.hi)))
        if p.denominator == 4:
            return self.power(Fraction(1, 2)).power(Fraction(1, 2)).power(Fraction(p.numerator))
        if p == Fraction(1, 3):
            return monotone(np.cbrt, Interval(_defined(self.lo, 0.0), self.hi), least=0.0)
        if p < 0:
            return self.power(-p).reciprocal()
        e = float(p)  # off by half an ulp: relative error ln(x) p 2^-53 of the power
        a, b = (np.power(np.asarray(x, dtype=float), e) for x in (self.lo, self.hi))
        slack = lambda x: _LIBRARY + e * 2.0**-52 * np.abs(np.log(np.maximum(x, 1e-300)))
        return Interval(np.maximum(down(a, slack(self.lo)), 0.0), up(b, slack(self.hi)))

    def _natural_power(self, n: int) -> "Interval":
        if n == 0:
            return exactly(1.0)
        if n % 2:
            return monotone(lambda x: _repeated(x, n), self)
        ends = _repeated(self.lo, n), _repeated(self.hi, n)
        inside = (np.asarray(self.lo) <= 0) & (np.asarray(self.hi) >= 0)
        least = np.where(inside, 0.0, np.maximum(down(np.minimum(*ends), _LIBRARY), 0.0))
        return Interval(least, up(np.maximum(*ends), _LIBRARY))

    def meet(self, other: "Interval") -> "Interval":
        """What lies in both; an end that is not known gives way."""
        return Interval(np.fmax(self.lo, other.lo), np.fmin(self.hi, other.hi))

    def hull(self, other: "Interval") -> "Interval":
        return Interval(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))

    @property
    def width(self):
        return self.hi - self.lo


def exactly(x) -> Interval:
    """The interval of one floating-point number."""
    return Interval(x, x)


ZERO, UNKNOWN = exactly(0.0), Interval(np.nan, np.nan)


def fraction(x: Fraction) -> Interval:
    """Of a rational number, which is rounded correctly."""
    try:
        near = float(x)
    except OverflowError:
        return UNKNOWN
    return exactly(near) if Fraction(near) == x else Interval(down(near), up(near))


def _repeated(x, n: int):
    """x^n by multiplication; n - 1 roundings at most."""
    result = x
    for _ in range(n - 1):
        result = result * x
    return result


def _defined(x, least):
    return np.where(np.asarray(x) >= least, x, np.nan)


def monotone(f, x: Interval, least: float = -np.inf, largest: float = np.inf) -> Interval:
    """An increasing function with values between least and largest."""
    return Interval(np.maximum(down(f(x.lo), _LIBRARY), least), np.minimum(up(f(x.hi), _LIBRARY), largest))


def _lambert_w(x: Interval) -> Interval:
    """W(x) e^W(x) = x, x >= 0: each end is kept if its inverse lies on the right side."""
    low = np.maximum(down(special.lambertw(_defined(x.lo, 0.0)).real, 2.0**-44), 0.0)
    high = up(special.lambertw(_defined(x.hi, 0.0)).real, 2.0**-44)
    low_inverse, high_inverse = (exactly(w) * FUNCTIONS["exp"](exactly(w)) for w in (low, high))
    return Interval(
        np.where(np.isfinite(low) & ((low == 0) | (low_inverse.hi <= x.lo)), low, np.nan),
        np.where(high_inverse.lo >= x.hi, high, np.nan),
    )


def _absolute(x: Interval) -> Interval:
    ends = np.abs(x.lo), np.abs(x.hi)
    inside = (np.asarray(x.lo) <= 0) & (np.asarray(x.hi) >= 0)
    return Interval(np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends))


def _even(f):
    """Of a function that increases with |x|."""
    return lambda x: monotone(f, _absolute(x))


def _bounded(f):
    """Of sine and cosine, whose slope and values lie between -1 and 1."""

    def enclosed(x):
        middle = x.lo + 0.5 * (x.hi - x.lo)
        reach = np.maximum(up(x.hi - middle), up(middle - x.lo)) + _LIBRARY
        value = f(middle)
        return Interval(np.maximum(down(value - reach), -1.0), np.minimum(up(value + reach), 1.0))

    return enclosed


def _sign(x: Interval) -> Interval:
    return Interval(np.sign(x.lo), np.sign(x.hi))


FUNCTIONS = {
    "exp": lambda x: monotone(np.exp, x, least=0.0),
    "expm1": lambda x: monotone(np.expm1, x, least=-1.0),
    "log": lambda x: monotone(np.log, Interval(_defined(x.lo, 0.0), x.hi)),
    "log1p": lambda x: monotone(np.log1p, Interval(_defined(x.lo, -1.0), x.hi)),
    "cbrt": lambda x: monotone(np.cbrt, x),
    "atan": lambda x: monotone(np.arctan, x),
    "asinh": lambda x: monotone(np.arcsinh, x),
    "sinh": lambda x: monotone(np.sinh, x),
    "tanh": lambda x: monotone(np.tanh, x, -1.0, 1.0),
    "erf": lambda x: monotone(special.erf, x, -1.0, 1.0),
    "erfc": lambda x: _decreasing(special.erfc, x, 0.0, 2.0),
    "logistic": lambda x: monotone(special.expit, x, 0.0, 1.0),
    "cosh": _even(np.cosh),
    "sin": _bounded(np.sin),
    "cos": _bounded(np.cos),
    "abs": _absolute,
    "sign": _sign,
    "lambert_w": _lambert_w,
}


def _decreasing(f, x: Interval, least: float, largest: float) -> Interval:
    return Interval(np.maximum(down(f(x.hi), _LIBRARY), least), np.minimum(up(f(x.lo), _LIBRARY), largest))


# ---- the program's operations beside functions

COMPARISONS = {
    "lt0": lambda x: _truth(x.hi < 0, ~(x.lo >= 0)),
    "le0": lambda x: _truth(x.hi <= 0, ~(x.lo > 0)),
    "gt0": lambda x: _truth(x.lo > 0, ~(x.hi <= 0)),
    "ge0": lambda x: _truth(x.lo >= 0, ~(x.hi < 0)),
    "eq0": lambda x: _truth((x.lo == 0) & (x.hi == 0), ~((x.lo > 0) | (x.hi < 0))),
    "ne0": lambda x: _truth((x.lo > 0) | (x.hi < 0), ~((x.lo == 0) & (x.hi == 0))),
}
"""Truth values are intervals of 0 and 1: (1, 1) true, (0, 0) false, (0, 1) open."""


def _truth(certain, possible) -> Interval:
    return Interval(np.where(certain, 1.0, 0.0), np.where(possible, 1.0, 0.0))


def logic(op: str, *args: Interval) -> Interval:
    """and, or, not of truth values."""
    if op == "not":
        return Interval(1 - args[0].hi, 1 - args[0].lo)
    join = np.minimum if op == "and" else np.maximum
    lo, hi = args[0].lo, args[0].hi
    for a in args[1:]:
        lo, hi = join(lo, a.lo), join(hi, a.hi)
    return Interval(lo, hi)


def chosen(truth: Interval, no: Interval, yes: Interval, either: Interval | None = None) -> Interval:
    """What a truth value selects; where it is open, `either`, or all of both."""
    either = no.hull(yes) if either is None else either
    pick = lambda n, y, e: np.where(truth.lo == 1, y, np.where(truth.hi == 0, n, e))
    return Interval(pick(no.lo, yes.lo, either.lo), pick(no.hi, yes.hi, either.hi))


def clipped(op: str, x: Interval) -> Interval:
    """min(x, 0) or max(x, 0)."""
    f = np.minimum if op == "min0" else np.maximum
    return Interval(f(x.lo, 0.0), f(x.hi, 0.0))
