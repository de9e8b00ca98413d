"""Arithmetic of formulas that are read: exact numbers, constants in sixty digits, values of JAX, truncated series.

Exponents stay exact: x^(4/3) is a power of the cube root.

An exact number is a Fraction, an irrational constant a Decimal of sixty digits. Both become floats where they meet a
value that the formula is computed for, so constants are rounded once.

Special functions that libxc leaves to its C code, the dilogarithm, splines and integrals, are straight-line code with
rules for their derivatives where those are simpler than the functions.
"""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.operators.elementary import cbrt
from dftfd.errors import FunctionalError, shown
from dftfd.functionals import special
from dftfd.functionals.maple_text import MAX_BITS, MAX_ORDER, MAX_POWER, count_operation, spend

_TERMS = 48
_NODES = 72
_CLUSTERED = 4
"""Nodes of integrals from zero, of which log is integrable, stand at fourth powers of Gauss's."""


def _small_dilogarithm(x):
    """sum x^k / k^2 for |x| <= 1/2."""
    total = jnp.zeros_like(x)
    for k in range(_TERMS, 0, -1):
        total = (total + 1 / (k * k)) * x
    return total


@jax.custom_jvp
def dilogarithm(x):
    """Li_2(x) = - integral of log(1 - t)/t from 0 to x, for x <= 1 (https://dlmf.nist.gov/25.12)."""
    far = x < -1
    inside = jnp.where(far, 1 / jnp.where(far, x, -1.0), x)  # Li_2(x) + Li_2(1/x) = -pi^2/6 - log(-x)^2/2
    negative, large = inside < 0, inside > 0.5
    y = jnp.where(negative, inside / (inside - 1), jnp.where(large, 1 - inside, inside))
    small = _small_dilogarithm(y)
    below = -small - 0.5 * jnp.log1p(-jnp.where(negative, inside, 0.0)) ** 2
    middle = jnp.where(large & (inside < 1), inside, 0.75)
    above = math.pi**2 / 6 - jnp.where(inside < 1, jnp.log(middle) * jnp.log1p(-middle), 0.0) - small
    near = jnp.where(negative, below, jnp.where(large, above, small))
    return jnp.where(far, -near - math.pi**2 / 6 - 0.5 * jnp.log(jnp.where(far, -x, 1.0)) ** 2, near)


@dilogarithm.defjvp
def _dilogarithm_jvp(primals, tangents):
    """-log(1 - x)/x, by its series where that is 0/0."""
    (x,) = primals
    tiny = jnp.abs(x) < 1e-4
    safe = jnp.where(tiny, 0.5, x)
    series = 1 + x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x / 5)))
    return dilogarithm(x), jnp.where(tiny, series, -jnp.log1p(-safe) / safe) * tangents[0]


def cubic_splines(u, coefficients, knots):
    """sum_i c_i B_i(u) of cubic B-splines on equidistant knots, B_i over knots i to i + 4 (de Boor)."""
    step = (knots[len(coefficients)] - knots[0]) / len(coefficients)
    total = jnp.zeros_like(u)
    for c, knot in zip(coefficients, knots, strict=False):
        t = (u - knot) / step
        pieces = (
            t**3,
            4 + t * (-12 + t * (12 - 3 * t)),
            -44 + t * (60 + t * (-24 + 3 * t)),
            (4 - t) ** 3,
        )
        value = jnp.zeros_like(t)
        for k, piece in enumerate(pieces):
            value = jnp.where((t >= k) & (t < k + 1), piece, value)
        total = total + c * value / 6
    return total


def integral_from_zero(f):
    """y -> integral of f from 0 to y >= 0, f with at most a logarithm at zero; its derivative is f."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    v = (nodes + 1) / 2
    places, weights = v**_CLUSTERED, weights / 2 * _CLUSTERED * v ** (_CLUSTERED - 1)

    @jax.custom_jvp
    def integral(y):
        total = jnp.zeros_like(y)
        for place, weight in zip(places, weights, strict=True):
            total = total + float(weight) * f(float(place) * y)
        return total * y

    integral.defjvp(lambda primals, tangents: (integral(*primals), f(*primals) * tangents[0]))
    return integral


DIGITS = 60
CONTEXT = Context(prec=DIGITS, Emin=-(10**6), Emax=10**6)
PI = CONTEXT.create_decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707"
)
_NEGLIGIBLE = Decimal(10) ** -(DIGITS - 15)


def is_constant(x: Any) -> bool:
    """True for numbers that are known, exactly or in sixty digits."""
    return isinstance(x, Fraction | Decimal)


def is_known(x: Any) -> bool:
    """True for numbers that branches can be chosen by."""
    return is_constant(x) or isinstance(x, int | float)


def plain(x: Any) -> Any:
    """A value as JAX takes it: floats for constants."""
    if not is_constant(x):
        return x
    try:
        found = float(x)
    except OverflowError:
        found = math.inf
    if math.isinf(found):
        raise FunctionalError("a constant beyond the largest number, 1.8e308.")
    return found


def exact(x: Fraction) -> Fraction | Decimal:
    """An exact number; in sixty digits where it is a ratio of very large numbers."""
    bits = max(x.numerator.bit_length(), x.denominator.bit_length())
    spend(bits >> 6)
    return x if bits <= MAX_BITS else in_digits(x)


def in_digits(x: Fraction | Decimal) -> Decimal:
    """A constant in sixty digits."""
    return x if isinstance(x, Decimal) else CONTEXT.divide(Decimal(x.numerator), Decimal(x.denominator))


def same_kind(a, b):
    """Both as Fractions, both as Decimals, or neither constant."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a, b
    if is_constant(a) and is_constant(b):
        return in_digits(a), in_digits(b)
    return plain(require_number(a)), plain(require_number(b))


def require_number(x):
    """x itself; FunctionalError for texts, lists, procedures, truth values and whatever else is no number."""
    if isinstance(x, bool) or not isinstance(x, Fraction | Decimal | int | float | np.number | np.ndarray | jax.Array):
        raise FunctionalError(f"{type(x).__name__.lower()} {shown(x, 40)} found where a number is expected.")
    return x


def require_condition(x):
    """x itself; FunctionalError for what is neither true nor false, nor a comparison of values."""
    if not isinstance(x, bool) and not (isinstance(x, np.ndarray | jax.Array) and x.dtype == bool):
        raise FunctionalError(f"{type(x).__name__.lower()} {shown(x, 40)} found where a condition is expected.")
    return x


def is_zero(x: Any) -> bool:
    """Exactly zero, or what is left of sixty digits that cancelled."""
    return (isinstance(x, Fraction) and x == 0) or (isinstance(x, Decimal) and abs(x) < _NEGLIGIBLE)


def of_constant(x: Any, on_decimal, on_float, on_array, name: str) -> Any:
    """exp and log: of constants in sixty digits."""
    if is_constant(x):
        spend(20)
        return on_decimal(in_digits(x))
    return _of_value(require_number(x), on_float, on_array, name)


def _of_value(x, on_float, on_array, name):
    if not isinstance(x, float) or on_float is None:
        count_operation(1 if on_float else 100)
        return on_array(jnp.asarray(x, float) if isinstance(x, float) else x)
    try:
        return on_float(x)
    except (ValueError, OverflowError) as error:
        raise FunctionalError(f"{name} of {x:.6g}, which is not a real number.") from error


def of_number(name: str, x: Any) -> Any:
    """A function by its name in OF_ONE_NUMBER of a number or a value of JAX."""
    if is_constant(x) and x == 0 and name in _ODD:
        return Fraction(0)
    return _of_value(plain(require_number(x)), *OF_ONE_NUMBER[name], name)


_ODD = frozenset("sin tan sinh tanh arctan arcsin arcsinh arctanh erf".split())
OF_ONE_NUMBER: dict[str, tuple[Any, Any]] = {
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


def in_context() -> Any:
    """Sixty digits for the plain arithmetic of Decimals."""
    return localcontext(CONTEXT)


_ROUNDING = Decimal(10) ** -(DIGITS - 10)
_LARGEST_POWER, _LARGEST_INTEGER = 4096, 64


def _plus(a, b):
    if isinstance(a, Series) or isinstance(b, Series):
        return Series.plus(*_both_series(a, b))
    a, b = same_kind(a, b)
    if isinstance(a, Fraction):
        return exact(a + b)
    if isinstance(a, Decimal):
        found = CONTEXT.add(a, b)
        return Fraction(0) if abs(found) <= _ROUNDING * max(abs(a), abs(b)) else found  # Pi - Pi
    return _on_values(lambda: a + b, a, b)


def _times(a, b):
    if isinstance(a, Series) or isinstance(b, Series):
        return Series.times(*_both_series(a, b))
    a, b = same_kind(a, b)
    if isinstance(a, Fraction):
        return exact(a * b)
    return CONTEXT.multiply(a, b) if isinstance(a, Decimal) else _on_values(lambda: a * b, a, b)


def _on_values(operation, *values):
    """An operation of floats or values of JAX; FunctionalError where floats give none."""
    if not all(isinstance(x, float) for x in values):
        count_operation()
        return operation()
    try:
        return operation()
    except (ArithmeticError, ValueError) as error:
        raise FunctionalError(f"numbers beyond all bounds, or a power that is not real: {shown(values)}.") from error


def add(a: Any, b: Any) -> Any:
    if isinstance(a, Fraction) and a == 0:
        return b
    return a if isinstance(b, Fraction) and b == 0 else _plus(a, b)


def multiply(a: Any, b: Any) -> Any:
    """a b; exactly zero where one is exactly zero, whatever the other, as in symbols."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Fraction) and x.denominator == 1 and 0 <= x.numerator <= 1:
            return y if x.numerator else x
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
        return a if b == 1 else exact(a / b) if isinstance(a, Fraction) else _quotient(a, b)
    return _quotient(a, b)


def _quotient(a, b):
    if isinstance(a, Series):
        return multiply(a, divide(Fraction(1), b))
    a, b = same_kind(a, b)
    if isinstance(b, Decimal) and b == 0:
        raise FunctionalError("a division by zero.")
    return CONTEXT.divide(a, b) if isinstance(a, Decimal) else _on_values(lambda: a / b, a, b)


def power(a: Any, e: Any) -> Any:
    """a^e, with roots where e is a ratio of small numbers."""
    if isinstance(e, Series):
        raise FunctionalError("a series as an exponent; numbers are known.")
    require_number(e)
    if isinstance(a, Series):
        if not isinstance(e, Fraction):
            raise FunctionalError("a series to a power that is not a ratio of whole numbers.")
        return Fraction(1) if e == 0 else a.power(e)
    require_number(a)
    if isinstance(e, Fraction):
        if e in (0, 1):
            return a if e == 1 else Fraction(1)
        return _constant_power(a, e) if is_constant(a) else _roots(a, e)
    if is_constant(a) and isinstance(e, Decimal):
        return exp(multiply(e, log(a)))
    a, e = plain(a), plain(e)
    both = isinstance(a, float) and isinstance(e, float)
    return _on_values(lambda: math.pow(a, e) if both else jnp.power(a, e), a, e)


def _constant_power(a, e):
    bits = lambda x: max(x.numerator.bit_length(), x.denominator.bit_length())
    small = lambda x: isinstance(x, Fraction) and bits(x) * abs(e.numerator) <= MAX_BITS
    if e.denominator == 1 and abs(e) <= _LARGEST_POWER:
        if a == 0 and e < 0:
            raise FunctionalError("a negative power of zero.")
        return a ** int(e) if small(a) else CONTEXT.power(in_digits(a), Decimal(int(e)))
    if a <= 0:
        if a == 0 and e > 0:
            return Fraction(0)
        raise FunctionalError(f"the power {shown(e)} of {shown(a)}, which is not a real number.")
    if isinstance(a, Fraction) and a.denominator == 1 and a < 10**12:
        root = Fraction(round(float(a) ** (1 / min(e.denominator, 64))))
        if e.denominator <= 64 and root**e.denominator == a and small(root):  # 4^(1/2)
            return root**e.numerator
    return exp(multiply(e, log(a)))


def _roots(x, e):
    """x^e for a value x."""
    if isinstance(x, float):
        real = e.denominator == 1 or x >= 0
        return _on_values(lambda: math.pow(x, plain(e)), x) if real else math.nan
    count_operation()
    n, d = e.numerator, e.denominator
    if abs(n) > _LARGEST_INTEGER or d not in (1, 2, 3, 4, 6):
        return jnp.power(x, plain(e))
    root = {1: x, 2: lambda: jnp.sqrt(x), 3: lambda: cbrt(x), 4: lambda: jnp.sqrt(jnp.sqrt(x)),
            6: lambda: jnp.sqrt(cbrt(x))}[d]  # fmt: skip
    root = root() if callable(root) else root
    return root**n if n > 0 else 1 / root ** (-n)


def exp(x: Any) -> Any:
    if isinstance(x, Series):
        return x.exp()
    return Fraction(1) if is_constant(x) and x == 0 else of_constant(x, CONTEXT.exp, math.exp, jnp.exp, "exp")


def log(x: Any) -> Any:
    if isinstance(x, Series):
        return x.log()
    if is_constant(x) and x <= 0:
        raise FunctionalError(f"the logarithm of {shown(x)}, which is not a real number.")
    return of_constant(x, CONTEXT.ln, math.log, jnp.log, "log")


def function(name: str, x: Any) -> Any:
    """A function of one number: of series, floats or values of JAX."""
    return x.function(name) if isinstance(x, Series) else of_number(name, x)


class Series:
    """c_0 t^k + c_1 t^(k+1) + ...: `terms` known coefficients from the power `least` on, of a variable t.

    Coefficients are numbers or values as everywhere here; leading ones are not zero.
    """

    __slots__ = ("coefficients", "least")

    def __init__(self, least, coefficients):
        spend(len(coefficients))
        skip = 0
        while skip < len(coefficients) and is_zero(coefficients[skip]):
            skip += 1
        self.least, self.coefficients = least + skip, list(coefficients[skip:])
        if abs(self.least) > MAX_POWER or len(self.coefficients) > 3 * MAX_ORDER:
            raise FunctionalError(f"a series of more than {MAX_ORDER} terms, or of powers above {MAX_POWER}.")

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
        found: list[Any] = [Fraction(0)] * terms
        right = _not_zero(b.coefficients[:terms])
        for i, x in _not_zero(a.coefficients[:terms]):
            for j, y in right:
                if i + j >= terms:
                    break
                found[i + j] = add(found[i + j], multiply(x, y))
            spend(len(right))
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
        found, higher = [power(first, e)], _not_zero(self.coefficients)[1:]
        for n in range(1, len(self.coefficients)):
            total: Any = Fraction(0)
            for k, c in higher:
                if k > n:
                    break
                if not _is_nothing(found[n - k]):
                    total = add(total, multiply(multiply(k * (e + 1) - n, c), found[n - k]))
            found.append(divide(total, multiply(Fraction(n), first)))
            spend(len(higher))
        return Series(int(least), found)

    def _split(self):
        """(constant term, the rest's coefficients from t^1 on) of a series without negative powers."""
        if self.least < 0:
            raise FunctionalError("a function of a series that grows without bound.")
        return self.of(0), [self.of(k) for k in range(1, self.end)]

    def exp(self) -> "Series":
        constant, h = self._split()
        found, higher = [exp(constant)], _not_zero(h)
        for n in range(1, len(h) + 1):
            total: Any = Fraction(0)
            for k, c in higher:
                if k >= n:
                    break
                if not _is_nothing(found[n - k - 1]):
                    total = add(total, multiply(multiply(Fraction(k + 1, n), c), found[n - k - 1]))
            found.append(total)
            spend(len(higher))
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
        spend(2 * len(h) ** 2)
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


def _is_nothing(c) -> bool:
    return type(c) is Fraction and not c


def _not_zero(coefficients) -> list:
    """Pairs of place and coefficient, without those that are exactly zero."""
    return [(k, c) for k, c in enumerate(coefficients) if not _is_nothing(c)]


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
    require_number(number)
    terms = max(series.end, 1, len(series.coefficients))
    constant = Series(0, [number, *[Fraction(0)] * (terms - 1)])
    return (series, constant) if isinstance(a, Series) else (constant, series)
