"""Arithmetic of formulas that are read: exact numbers, constants in sixty digits, values of JAX, truncated series.

An exact number is a Fraction, an irrational constant a Decimal. Both become floats where they meet a value that the
formula is computed for, so constants are rounded once. Exponents stay exact: x^(4/3) is a power of the cube root.
"""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp

from dftfd.autofd.operators.elementary import cbrt
from dftfd.errors import FunctionalError
from dftfd.functionals import special
from dftfd.functionals.maple_special import dilogarithm

DIGITS = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707")
_CONTEXT = Context(prec=DIGITS, Emin=-(10**6), Emax=10**6)
_NEGLIGIBLE = Decimal(10) ** -(DIGITS - 15)
_LARGEST_POWER, _LARGEST_INTEGER = 4096, 64


def is_constant(x: Any) -> bool:
    """True for numbers that are known, exactly or in sixty digits."""
    return isinstance(x, Fraction | Decimal) and not isinstance(x, bool)


def is_known(x: Any) -> bool:
    """True for numbers that branches can be chosen by."""
    return is_constant(x) or isinstance(x, int | float)


def plain(x: Any) -> Any:
    """A value as JAX takes it: floats for constants."""
    return float(x) if is_constant(x) else x


def _decimal(x: Fraction | Decimal) -> Decimal:
    return x if isinstance(x, Decimal) else _CONTEXT.divide(Decimal(x.numerator), Decimal(x.denominator))


def _same_kind(a, b):
    """Both as Fractions, both as Decimals, or neither constant."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a, b
    if is_constant(a) and is_constant(b):
        return _decimal(a), _decimal(b)
    return plain(a), plain(b)


def _require_number(x):
    if isinstance(x, str | tuple) or callable(x):
        raise FunctionalError(f"{type(x).__name__} {str(x)[:40]!r} found where a number is expected.")


def _binary(name, on_context):
    def operation(a, b):
        if isinstance(a, Series) or isinstance(b, Series):
            return getattr(Series, name)(*_both_series(a, b))
        a, b = _same_kind(a, b)
        if isinstance(a, Decimal):
            return on_context(a, b)
        _require_number(a)
        _require_number(b)
        return a + b if name == "plus" else a * b

    return operation


_plus, _times = _binary("plus", _CONTEXT.add), _binary("times", _CONTEXT.multiply)


def is_zero(x: Any) -> bool:
    """Exactly zero, or what is left of sixty digits that cancelled."""
    return (isinstance(x, Fraction) and x == 0) or (isinstance(x, Decimal) and abs(x) < _NEGLIGIBLE)


def add(a: Any, b: Any) -> Any:
    if isinstance(a, Fraction) and a == 0:
        return b
    return a if isinstance(b, Fraction) and b == 0 else _plus(a, b)


def multiply(a: Any, b: Any) -> Any:
    """a b; exactly zero where one is exactly zero, whatever the other, as in symbols."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Fraction) and x in (0, 1):
            return x if x == 0 else y
    return _times(a, b)


def negative(a: Any) -> Any:
    return multiply(Fraction(-1), a)


def divide(a: Any, b: Any) -> Any:
    if isinstance(a, Fraction) and a == 0:
        return a
    if isinstance(b, Series):
        return multiply(a, b.power(Fraction(-1)))
    if isinstance(b, Fraction):
        if b == 0:
            raise FunctionalError("a division by zero.")
        return a if b == 1 else a / b if isinstance(a, Fraction) else _quotient(a, b)
    return _quotient(a, b)


def _quotient(a, b):
    if isinstance(a, Series):
        return multiply(a, divide(Fraction(1), b))
    a, b = _same_kind(a, b)
    _require_number(a)
    _require_number(b)
    return _CONTEXT.divide(a, b) if isinstance(a, Decimal) else a / b


def power(a: Any, e: Any) -> Any:
    """a^e, with roots where e is a ratio of small numbers."""
    _require_number(a)
    _require_number(e)
    if isinstance(e, Fraction):
        if e in (0, 1):
            return a if e == 1 else Fraction(1)
        if isinstance(a, Series):
            return a.power(e)
        if is_constant(a):
            return _constant_power(a, e)
        return _roots(a, e)
    if isinstance(e, Series):
        raise FunctionalError("a series as an exponent; numbers are known.")
    if is_constant(a) and isinstance(e, Decimal):
        return exp(multiply(e, log(a)))
    a, e = plain(a), plain(e)
    return a**e if isinstance(a, float) and isinstance(e, float) else jnp.power(a, e)


def _constant_power(a, e):
    if e.denominator == 1 and abs(e) <= _LARGEST_POWER:
        if a == 0 and e < 0:
            raise FunctionalError("a negative power of zero.")
        if isinstance(a, Fraction) and max(a.numerator.bit_length(), a.denominator.bit_length()) * abs(e) < 10_000:
            return a ** int(e)
        return _CONTEXT.power(_decimal(a), Decimal(int(e)))
    if a <= 0:
        if a == 0 and e > 0:
            return Fraction(0)
        raise FunctionalError(f"the power {e} of {float(a)}, which is no real number.")
    root = round(float(a) ** (1 / e.denominator)) if isinstance(a, Fraction) and a.denominator == 1 else 0
    if root and a < 10**12 and root**e.denominator == a:  # 4^(1/2)
        return Fraction(root) ** e.numerator
    return exp(multiply(e, log(a)))


def _roots(x, e):
    """x^e for a value x."""
    if isinstance(x, float):
        return x**e if e.denominator == 1 or x >= 0 else math.nan
    n, d = e.numerator, e.denominator
    if abs(n) > _LARGEST_INTEGER or d not in (1, 2, 3, 4, 6):
        return jnp.power(x, float(e))
    root = {1: x, 2: lambda: jnp.sqrt(x), 3: lambda: cbrt(x), 4: lambda: jnp.sqrt(jnp.sqrt(x)),
            6: lambda: jnp.sqrt(cbrt(x))}[d]  # fmt: skip
    root = root() if callable(root) else root
    return root**n if n > 0 else 1 / root ** (-n)


def exp(x: Any) -> Any:
    return x.exp() if isinstance(x, Series) else _elementary(x, _CONTEXT.exp, math.exp, jnp.exp)


def log(x: Any) -> Any:
    if isinstance(x, Series):
        return x.log()
    if is_constant(x) and x <= 0:
        raise FunctionalError(f"the logarithm of {float(x)}, which is no real number.")
    return _elementary(x, _CONTEXT.ln, math.log, jnp.log)


def _elementary(x, on_decimal, on_float, on_array):
    if is_constant(x):
        return Fraction(1) if x == 0 and on_decimal is _CONTEXT.exp else on_decimal(_decimal(x))
    _require_number(x)
    return on_float(x) if isinstance(x, float) else on_array(x)


def function(name: str, x: Any) -> Any:
    """A function of one number: of series, floats or values of JAX."""
    if isinstance(x, Series):
        return x.function(name)
    if is_constant(x) and x == 0 and name in _ODD:
        return Fraction(0)
    _require_number(x)
    on_float, on_array = FUNCTIONS[name]
    x = plain(x)
    if isinstance(x, float) and on_float is not None:
        return on_float(x)
    return on_array(jnp.asarray(x, float) if isinstance(x, float) else x)


_ODD = frozenset("sin tan sinh tanh arctan arcsin arcsinh arctanh erf".split())
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "abs": (abs, jnp.abs),
    "sin": (math.sin, jnp.sin),
    "cos": (math.cos, jnp.cos),
    "tan": (math.tan, jnp.tan),
    "sinh": (math.sinh, jnp.sinh),
    "cosh": (math.cosh, jnp.cosh),
    "tanh": (math.tanh, jnp.tanh),
    "sech": (None, lambda x: 1 / jnp.cosh(x)),
    "arcsin": (math.asin, jnp.arcsin),
    "arccos": (math.acos, jnp.arccos),
    "arctan": (math.atan, jnp.arctan),
    "arcsinh": (math.asinh, jnp.arcsinh),
    "arccosh": (math.acosh, jnp.arccosh),
    "arctanh": (math.atanh, jnp.arctanh),
    "arccsch": (None, lambda x: jnp.arcsinh(1 / x)),
    "erf": (math.erf, jax.scipy.special.erf),
    "erfc": (math.erfc, jax.scipy.special.erfc),
    "Ei": (None, lambda x: -special.scaled_e1(-x) * jnp.exp(x)),  # of negative numbers, as formulas of libxc have it
    "Heaviside": (None, lambda x: jnp.where(x >= 0, 1.0, 0.0)),
    "LambertW": (None, special.lambert_w),
    "xc_E1_scaled": (None, special.scaled_e1),
    "xc_erfcx": (None, special.erfcx),
    "xc_dilogarithm": (None, dilogarithm),
    "xc_mgga_x_br89_get_x": (None, special.becke_roussel_x),
    "xc_mgga_x_mbrxc_get_x": (None, special.multi_reference_x),
}  # fmt: skip
"""By name: of floats, where Python has it, and of values of JAX."""


class Series:
    """c_0 t^k + c_1 t^(k+1) + ...: `terms` known coefficients from the power `least` on, of a variable t.

    Coefficients are numbers or values as everywhere here; leading ones are not zero.
    """

    __slots__ = ("coefficients", "least")

    def __init__(self, least, coefficients):
        skip = 0
        while skip < len(coefficients) and is_zero(coefficients[skip]):
            skip += 1
        self.least, self.coefficients = least + skip, list(coefficients[skip:])

    @classmethod
    def variable(cls, sign, exponent, terms) -> "Series":
        """sign t^exponent with this many known terms."""
        return cls(exponent, [Fraction(sign), *[Fraction(0)] * (terms - 1)])

    @property
    def end(self) -> int:
        """First power that is not known."""
        return self.least + len(self.coefficients)

    def of(self, k) -> Any:
        return self.coefficients[k - self.least] if self.least <= k < self.end else Fraction(0)

    @staticmethod
    def plus(a, b) -> "Series":
        least, end = min(a.least, b.least), min(a.end, b.end)
        return Series(least, [add(a.of(k), b.of(k)) for k in range(least, end)])

    @staticmethod
    def times(a, b) -> "Series":
        terms = min(len(a.coefficients), len(b.coefficients))
        found = []
        for n in range(terms):
            total: Any = Fraction(0)
            for k in range(n + 1):
                total = add(total, multiply(a.coefficients[k], b.coefficients[n - k]))
            found.append(total)
        return Series(a.least + b.least, found)

    def _leading(self):
        if not self.coefficients:
            raise FunctionalError("a series whose known terms are all zero.")
        return self.coefficients[0]

    def power(self, e: Fraction) -> "Series":
        """By n a_0 b_n = sum_k (k (e + 1) - n) a_k b_(n-k)."""
        first = self._leading()
        least = self.least * e
        if least.denominator != 1:
            raise FunctionalError(f"a series of broken powers, ({self.least})*({e}).")
        found = [power(first, e)]
        for n in range(1, len(self.coefficients)):
            total: Any = Fraction(0)
            for k in range(1, n + 1):
                factor = multiply(k * (e + 1) - n, self.coefficients[k])
                total = add(total, multiply(factor, found[n - k]))
            found.append(divide(total, multiply(Fraction(n), first)))
        return Series(int(least), found)

    def _split(self):
        """(constant term, the rest's coefficients from t^1 on) of a series without negative powers."""
        if self.least < 0:
            raise FunctionalError("a function of a series that grows without bound.")
        return self.of(0), [self.of(k) for k in range(1, self.end)]

    def exp(self) -> "Series":
        constant, h = self._split()
        found = [exp(constant)]
        for n in range(1, len(h) + 1):
            total: Any = Fraction(0)
            for k in range(1, n + 1):
                total = add(total, multiply(multiply(Fraction(k, n), h[k - 1]), found[n - k]))
            found.append(total)
        return Series(0, found)

    def derivative(self) -> "Series":
        return Series(self.least - 1, [multiply(Fraction(self.least + k), c) for k, c in enumerate(self.coefficients)])

    def integral(self, constant) -> "Series":
        found = [divide(c, Fraction(self.least + k + 1)) for k, c in enumerate(self.coefficients)]
        start = min(self.least + 1, 0)
        rest = Series(self.least + 1, found)
        return Series(start, [add(rest.of(k), constant if k == 0 else Fraction(0)) for k in range(start, rest.end)])

    def log(self) -> "Series":
        if self.least:
            raise FunctionalError("the logarithm of a series that vanishes or grows without bound.")
        return Series.times(self.derivative(), self.power(Fraction(-1))).integral(log(self._leading()))

    def function(self, name) -> "Series":
        one = Series(0, [Fraction(1), *[Fraction(0)] * max(0, self.end - 1)])
        if name == "arctan" and self.least < 0:
            return self._large_arctan()
        constant, _ = self._split()
        slopes = {
            "erf": lambda: multiply(divide(Fraction(2), power(PI, Fraction(1, 2))), _negated_square(self).exp()),
            "arctan": lambda: Series.plus(one, Series.times(self, self)).power(Fraction(-1)),
            "arcsinh": lambda: Series.plus(one, Series.times(self, self)).power(Fraction(-1, 2)),
        }
        if name in slopes:
            return Series.times(slopes[name](), self.derivative()).integral(function(name, constant))
        if name in ("sin", "cos"):
            return self._circular(constant)[name == "cos"]
        if name in ("sinh", "cosh", "tanh", "sech"):
            return self._hyperbolic(name)
        raise FunctionalError(f"{name} of a series; exp, log, powers, erf, arctan, sin, cos and sinh are known.")

    def _large_arctan(self):
        """sign(x) pi/2 - arctan(1/x)"""
        first = self._leading()
        if not is_known(first):
            raise FunctionalError("arctan of a series that grows with a sign that is not known.")
        half = multiply(Fraction(1 if first > 0 else -1, 2), PI)
        small = self.power(Fraction(-1)).function("arctan")
        return add(half, multiply(Fraction(-1), small))

    def _circular(self, constant):
        _, h = self._split()
        s, c = [function("sin", constant)], [Fraction(1) if is_zero(constant) else function("cos", constant)]
        for n in range(1, len(h) + 1):
            slopes = [multiply(Fraction(k, n), h[k - 1]) for k in range(1, n + 1)]
            ds = _sum(map(multiply, slopes, reversed(c)))
            dc = _sum(map(multiply, slopes, reversed(s)))
            s.append(ds)
            c.append(negative(dc))
        return Series(0, s), Series(0, c)

    def _hyperbolic(self, name):
        up, down = self.exp(), multiply(Fraction(-1), self).exp()
        half = Fraction(1, 2)
        sinh, cosh = multiply(half, add(up, negative(down))), multiply(half, add(up, down))
        inverse = cosh.power(Fraction(-1))
        return {"sinh": sinh, "cosh": cosh, "sech": inverse, "tanh": Series.times(sinh, inverse)}[name]


def _negated_square(series):
    return multiply(Fraction(-1), Series.times(series, series))


def _sum(parts):
    total: Any = Fraction(0)
    for part in parts:
        total = add(total, part)
    return total


def _both_series(a, b):
    """Two series from one and a number."""
    if isinstance(a, Series) and isinstance(b, Series):
        return a, b
    series, number = (a, b) if isinstance(a, Series) else (b, a)
    _require_number(number)
    terms = max(series.end, 1, len(series.coefficients))
    constant = Series(0, [number, *[Fraction(0)] * (terms - 1)])
    return (series, constant) if isinstance(a, Series) else (constant, series)


def in_context() -> Any:
    """Sixty digits for the plain arithmetic of Decimals."""
    return localcontext(_CONTEXT)
