"""Intervals of real numbers, many at once, rounded outwards.

An Interval holds arrays lo and hi, (box,) or (): the set of reals between them, ends included. Each function returns
intervals that contain every value of the function on its arguments. NaN as an end says that nothing is known, so what
is undefined somewhere in an argument is never taken for something known; infinite ends say that there is no bound.

Nothing is assumed of a library of functions. Sums, products, quotients and square roots are rounded to the nearest
number by IEEE 754, off by half an ulp at most; ends are moved by one ulp or more. (Sums that are too small for that are
exact.) Functions are made of these operations, of polynomials with a bound of their rounding and of what they leave
out (`Polynomial`), and of guesses that an inverse confirms (cube roots); the others are in known_functions.py.

G. Alefeld, G. Mayer, J. Comput. Appl. Math. 121, 421 (2000) (interval analysis). doi:10.1016/S0377-0427(00)00342-3
N. J. Higham, Accuracy and Stability of Numerical Algorithms, SIAM 2002, sec. 5.1 (Horner's rule).
doi:10.1137/1.9780898718027
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dftfd.errors import NumericalError

_ULP, _TINY, _LARGEST = 2.0**-52, 1e-300, np.finfo(np.float64).max
"""Distance by which ends move after arithmetic, relative and absolute; the largest number."""


_OPERANDS = np.array([1.0, 1.0, -1.0, -1.0, 2.0**-1022, 2.0**-1074])
_ADDED = np.array([2.0**-53, 1.5 * 2.0**-53, -(2.0**-53), -1.5 * 2.0**-53, -0.75 * 2.0**-1022, 2.0**-1074])
_NEAREST = np.array([1.0, 1.0 + _ULP, -1.0, -1.0 - _ULP, 2.0**-1024, 2.0**-1073])
"""Sums halfway between two numbers and beyond, one that is subnormal, and one of subnormal numbers, by IEEE 754."""


def require_nearest() -> None:
    """Raise NumericalError unless this thread rounds to the nearest number and keeps subnormal ones.

    A library in the process may have changed that: code built with -ffast-math sets subnormal numbers to zero.
    """
    if not np.array_equal(_OPERANDS + _ADDED, _NEAREST):
        raise NumericalError(
            "this thread does not round as IEEE 754 prescribes, to nearest and with subnormal numbers: a library "
            "has changed the rounding mode, or flushes to zero (-ffast-math); prove in a process without it."
        )


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
        if abs(p) >= 2**53:
            return UNKNOWN
        if p.denominator == 1 and p < 0:
            return self.power(-p).reciprocal()
        if p.denominator == 1:
            return self._natural_power(int(p))
        if p < 0:
            return self.power(-p).reciprocal()
        root, rest = self, p.denominator
        for prime, step in ((2, Interval.square_root), (3, Interval._cube_root)):
            while rest % prime == 0:
                root, rest = step(root), rest // prime
        if rest == 1 and p.numerator <= 64:
            return root._natural_power(p.numerator)
        defined = Interval(_defined(self.lo, 0.0), self.hi)
        found = exponential(natural_logarithm(defined) * fraction(p))
        return Interval(found.lo, np.where(np.asarray(self.hi) == 0, 0.0, found.hi))

    def square_root(self) -> "Interval":
        return Interval(np.maximum(down(np.sqrt(self.lo)), 0.0), up(np.sqrt(self.hi)))

    def _cube_root(self) -> "Interval":
        return Interval(cube_root(_defined(self.lo, 0.0)).lo, cube_root(_defined(self.hi, 0.0)).hi)

    def _natural_power(self, n: int) -> "Interval":
        """By multiplication: n - 1 roundings of half an ulp at most."""
        if n <= 1:
            return self if n else exactly(1.0)
        ends, relative = (_repeated(self.lo, n), _repeated(self.hi, n)), n * _ULP
        if n % 2:
            least = np.where(np.asarray(self.lo) >= 0, 0.0, -np.inf)
            return Interval(np.maximum(down(ends[0], relative), least), up(ends[1], relative))
        inside = (np.asarray(self.lo) <= 0) & (np.asarray(self.hi) >= 0)
        least = np.where(inside, 0.0, np.maximum(down(np.minimum(*ends), relative), 0.0))
        return Interval(least, up(np.maximum(*ends), relative))

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


def between(least: Fraction, largest: Fraction) -> Interval:
    """Of two rational numbers."""
    return Interval(fraction(least).lo, fraction(largest).hi)


def _repeated(x, n: int):
    """x^n by squaring; however it is split, n - 1 roundings."""
    result, square = None, x
    while True:
        if n % 2:
            result = square if result is None else result * square
        n //= 2
        if not n:
            return result
        square = square * square


def _defined(x, least):
    return np.where(np.asarray(x) >= least, x, np.nan)


# ---- functions that powers are made of


class Polynomial:
    """sum of c_k x^k where |x| <= reach, by Horner's rule, off by left_out at most from a function that it stands for.

    Rounding of n steps and of the numbers c_k moves the sum by less than (2 n + 2) 2^-53 / (1 - ...) times
    sum |c_k| |x|^k; half a width of x by that times the sum of k |c_k| |x|^(k - 1).
    """

    def __init__(self, coefficients: list[Fraction], reach: Fraction, left_out: Fraction):
        n = len(coefficients)
        size = sum((abs(c) * reach**k for k, c in enumerate(coefficients)), Fraction(0))
        slope = sum((k * abs(c) * reach ** (k - 1) for k, c in enumerate(coefficients) if k), Fraction(0))
        self._numbers, self._reach = [float(c) for c in reversed(coefficients)], float(reach)
        self._error = float(fraction(size * Fraction(2 * n + 4, 2**53) + left_out).hi)
        self._slope = float(fraction(slope).hi)

    def __call__(self, x: Interval) -> Interval:
        middle = 0.5 * x.lo + 0.5 * x.hi
        radius = np.maximum(up(x.hi - middle), up(middle - x.lo))
        total = np.full_like(np.asarray(middle, dtype=float), self._numbers[0])
        for c in self._numbers[1:]:
            total = total * middle + c
        known = np.maximum(np.abs(x.lo), np.abs(x.hi)) <= self._reach
        error = np.where(known, up(self._error + self._slope * radius), np.nan)
        return Interval(down(total - error), up(total + error))


_LN2 = Fraction("0.693147180559945309417232121458176568")
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 33 bits: its product with an exponent is exact
_LN2_LOW = between(_LN2 - Fraction(_LN2_HIGH), _LN2 - Fraction(_LN2_HIGH) + Fraction(1, 10**36))
_REACH = Fraction(36, 100)
_EXP = Polynomial(
    [Fraction(1, math.factorial(k)) for k in range(14)], _REACH, Fraction(3, 2) * _REACH**14 / math.factorial(14)
)
_ATANH = Polynomial([Fraction(1, 2 * k + 1) for k in range(12)], Fraction(3, 100), Fraction(3, 100) ** 12 / 24)
"""atanh(f) / f of f^2."""


def exp_at(x) -> Interval:
    """exp at numbers: 2^k exp(r), |r| <= ln(2)/2. Beyond +-800 the value there, which is a bound, too."""
    x = np.clip(x, -800.0, 800.0)
    k = np.rint(x * 1.4426950408889634)
    r = exactly(x) - exactly(k * _LN2_HIGH) - _LN2_LOW * exactly(k)
    e, k = _EXP(r), np.where(np.isnan(k), 0, k).astype(np.int64)
    scaled = lambda end: np.ldexp(end, k)
    low = np.where(np.isinf(scaled(e.lo)), _LARGEST, down(scaled(e.lo)))
    return Interval(np.maximum(low, 0.0), up(scaled(e.hi)))


def log_at(x) -> Interval:
    """log at numbers: k ln(2) + 2 atanh((m - 1)/(m + 1)), m from sqrt(1/2) to sqrt(2)."""
    x = np.asarray(x, dtype=float)
    m, k = np.frexp(np.where((x > 0) & (x < np.inf), x, np.nan))
    low = m < 0.7071067811865475
    m, k = np.where(low, 2 * m, m), np.where(low, k - 1, k).astype(float)
    f = exactly(m - 1) * (exactly(m) + exactly(1.0)).reciprocal()
    rest = f * _ATANH(f * f) * exactly(2.0)
    whole = exactly(k * _LN2_HIGH) + _LN2_LOW * exactly(k)
    total = rest + Interval(np.where(k == 0, 0.0, whole.lo), np.where(k == 0, 0.0, whole.hi))
    return Interval(np.where(x == 0, -np.inf, total.lo), np.where(x == np.inf, np.inf, total.hi))


def exponential(x: Interval) -> Interval:
    return increasing(exp_at, x)


def natural_logarithm(x: Interval) -> Interval:
    return increasing(log_at, x)


def increasing(at, x: Interval) -> Interval:
    """An increasing function, of `at`, its enclosures at numbers."""
    lo, hi = np.broadcast_arrays(x.lo, x.hi)
    if lo.ndim == 0:
        return Interval(at(lo).lo, at(hi).hi)
    if lo is hi or np.array_equal(lo, hi):
        return at(lo)
    found = at(np.concatenate([lo, hi]))
    return Interval(found.lo[: lo.size], found.hi[lo.size :])


def cube_root(x) -> Interval:
    """Of numbers x >= 0, m 8^q: a guess for m's, off by what its cube confirms."""
    m, e = np.frexp(np.asarray(x, dtype=float))
    q = -(-e // 3)
    m = np.ldexp(m, e - 3 * q)
    guess = np.cbrt(m)
    low, high = guess * (1 - 8 * _ULP), guess * (1 + 8 * _ULP)
    cube = lambda y: exactly(y)._natural_power(3)
    fine = np.isfinite(m)
    low, high = np.where(fine & (cube(low).hi <= m), low, np.nan), np.where(fine & (cube(high).lo >= m), high, np.nan)
    zero = np.asarray(x) == 0
    return Interval(np.where(zero, 0.0, np.ldexp(low, q)), np.where(zero, 0.0, np.ldexp(high, q)))


# ---- the program's operations beside functions

COMPARISONS = {
    "lt0": lambda x: _truth(x.hi < 0, np.logical_not(x.lo >= 0)),
    "le0": lambda x: _truth(x.hi <= 0, np.logical_not(x.lo > 0)),
    "gt0": lambda x: _truth(x.lo > 0, np.logical_not(x.hi <= 0)),
    "ge0": lambda x: _truth(x.lo >= 0, np.logical_not(x.hi < 0)),
    "eq0": lambda x: _truth((x.lo == 0) & (x.hi == 0), np.logical_not((x.lo > 0) | (x.hi < 0))),
    "ne0": lambda x: _truth((x.lo > 0) | (x.hi < 0), np.logical_not((x.lo == 0) & (x.hi == 0))),
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
