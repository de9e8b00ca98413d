"""Formulas as they were written, at one point in Arb's arithmetic, with Taylor coefficients along ln x_0 by Arb's own
power series: for the second check of proofs."""

from fractions import Fraction

from dftfd.verify.ball_formulas import OnBalls, Scaled, Truth, all_known, as_fraction
from dftfd.verify.ball_intervals import TESTS


class Unsettled(ArithmeticError):
    """A comparison is open at a point: on a switch."""


class OnPoint(OnBalls):
    """The algebra of JAX's operations at a point: values are Scaled of Arb's series and no monomial."""

    def __init__(self, flint, point, order, moves_first: bool):
        self.arb, self._series, self._length = flint.arb, flint.arb_series, order + 1
        self.moves_first, self.literal, self._none = moves_first, False, ()
        self.variables = [self._scaled(self._of([x])) for x in point]
        if moves_first:
            x, coefficients = self.arb(point[0]), []
            for k in range(order + 1):
                coefficients.append(x)
                x = x / (k + 1)
            self.variables[0] = self._scaled(self._of(coefficients))

    def _of(self, coefficients):
        return self._series(coefficients, self._length)

    @staticmethod
    def _scaled(series, known: bool | None = True) -> Scaled:
        return Scaled((), series, known)

    def series_of(self, value):
        return self._of([self.rational(Fraction(value))])

    def number(self, value) -> Scaled:
        return self._scaled(self._of([self.arb(value)]) if isinstance(value, float) else self.series_of(value))

    def _unknown(self):
        return self.arb("nan")

    def constant(self, value):
        if value.dtype.kind == "f" and not abs(value) < float("inf"):
            return self._scaled(self._of([self._unknown()]), False)
        return super().constant(value)

    def plain(self, x: Scaled, powers=None):
        return x.series

    def times(self, series, number):
        return series * self.arb(number)

    def _product(self, s, t):
        return s * t

    @staticmethod
    def _is_zero(series) -> bool:
        return all(c == 0 for c in series.coeffs())

    def add(self, x: Scaled, y: Scaled, sign: int = 1) -> Scaled:
        total = x.series + y.series if sign > 0 else x.series - y.series
        return self._scaled(total, all_known(x.known, y.known))

    def mul(self, x: Scaled, y: Scaled) -> Scaled:
        return self._scaled(x.series * y.series, all_known(x.known, y.known))

    def power(self, x: Scaled, p: Fraction) -> Scaled:
        if p == 0:
            return self._scaled(self.series_of(1), x.known)
        test = None if p.denominator == 1 and p > 0 else "ne0" if p.denominator == 1 else "ge0" if p > 0 else "gt0"
        known = x.known if test is None else all_known(x.known, self._test(test, x).inside)
        return self._scaled(self._power(x.series, p), known)

    def _power(self, s, p: Fraction):
        if p < 0 and s[0] == 0:
            return self._of([self._unknown()])
        if p.denominator == 1 and abs(p) <= 64:
            return s ** int(p) if p > 0 else self.series_of(1) / s ** int(-p)
        if self._is_zero(s) and p > 0:
            return self.series_of(0)
        if s[0] < 0 and p.denominator == 1:
            return (-s) ** self.rational(p) * (-1 if p % 2 else 1)
        return s ** self.rational(p)

    def _test(self, test: str, x: Scaled) -> Truth:
        truth = TESTS[test](x.series[0])
        if truth is None:
            raise Unsettled
        return Truth(truth, truth, frozenset(), x.known)

    @staticmethod
    def _finite(x: Scaled) -> Truth:
        raise Unsettled

    def _general_power(self, x: Scaled, y: Scaled) -> Scaled:
        e = y.series[0]
        if not e.is_exact() or any(c != 0 for c in y.series.coeffs()[1:]):
            return self._function("exp", self.mul(y, self._function("log", x)))
        man, two = e.man_exp()
        exact = Fraction(int(man)) * Fraction(2) ** int(two)
        return self.power(x, exact if self.literal or exact != float(exact) else as_fraction(float(exact)))

    def _clipped(self, op, s):
        return s if self._test("lt0" if op == "min0" else "gt0", self._scaled(s)).inside else self.series_of(0)

    def _unary(self, name, s):
        rule = _FUNCTIONS.get(name)
        return rule(self, s) if rule else getattr(s, name)()


def _hyperbolic(a, s, sign):
    return (s.exp() + (-s).exp() * sign) * a.arb(0.5)


def _odd(a, s, f):
    if s[0] < 0:
        return -f(-s)
    if s[0] >= 0:
        return f(s)
    raise Unsettled


def _sign(a, s):
    if a._is_zero(s):
        return a.series_of(0)
    if s[0] > 0 or s[0] < 0:
        return a.series_of(1 if s[0] > 0 else -1)
    raise Unsettled


_FUNCTIONS = {
    "expm1": lambda a, s: s.exp() - a.series_of(1),
    "log1p": lambda a, s: (s + a.series_of(1)).log(),
    "sinh": lambda a, s: _hyperbolic(a, s, -1),
    "cosh": lambda a, s: _hyperbolic(a, s, 1),
    "tanh": lambda a, s: _hyperbolic(a, s, -1) / _hyperbolic(a, s, 1),
    "asinh": lambda a, s: _odd(a, s, lambda x: (x + (x * x + a.series_of(1)).sqrt()).log()),
    "logistic": lambda a, s: a.series_of(1) / ((-s).exp() + a.series_of(1)),
    "cbrt": lambda a, s: _odd(a, s, lambda x: a._power(x, Fraction(1, 3))),
    "abs": lambda a, s: _sign(a, s) * s,
    "sign": _sign,
    "lambert_w": lambda a, s: s.lambertw(),
}
"""Those that Arb's series do not have by these names."""
