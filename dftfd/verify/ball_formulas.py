"""Formulas as they were written, on one box or at one point in Arb's arithmetic: for the second check of proofs.

Operations are JAX's. A value is a monomial of the inputs that are not negative times a series (ball_series.py), so that
r_s and s, which enter as density and gradient, leave where they cancel; and whether every operation that it needs is
defined on all of the box: True, False, or None where that is open.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dftfd.autofd.scalar.keys import package_function
from dftfd.autofd.scalar.program import evaluate
from dftfd.errors import UnsupportedError
from dftfd.verify.ball_intervals import TESTS, logic
from dftfd.verify.ball_series import SERIES_SLOPES, BallArithmetic, BallSeries


@dataclass(frozen=True, slots=True)
class Scaled:
    """product of input_k^powers[k] times series, a BallSeries.   known: whether it is defined in the box."""

    powers: tuple[Fraction, ...]
    series: Any
    known: bool | None = True


@dataclass(frozen=True, slots=True)
class Truth:
    """inside, centre: True, False or None (open), in the box and at its centre.   depends: inputs."""

    inside: bool | None
    centre: bool | None
    depends: frozenset
    known: bool | None = True


_TESTS = {"lt": "lt0", "le": "le0", "gt": "gt0", "ge": "ge0", "eq": "eq0", "ne": "ne0"}
_ROOTS = {"sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2), "square": Fraction(2)}
_TOTAL = frozenset("exp expm1 atan asinh sinh cosh tanh sin cos erf erfc logistic abs sign cbrt".split())


def all_known(*known) -> bool | None:
    return logic("and", list(known))


def as_fraction(value: float) -> Fraction:
    """The exponent that a float64 stands for: of denominators from 2 to 48 the next one, if it is two ulp away at most;
    a whole number stands for itself alone."""
    exact = Fraction(value)
    near = exact.limit_denominator(48)
    if near.denominator == 1 or abs(exact - near) > 2 * Fraction(float(np.spacing(abs(value)))):
        return exact
    return near


class OnBalls(BallArithmetic):
    """The algebra of JAX's operations on one box.   variables: the inputs."""

    def __init__(self, flint, lo, hi, order, moves_first: bool):
        super().__init__(flint, lo, hi, order, moves_first)
        self.literal = False  # exponents of an inequality's own code are the numbers that they are
        self._none = (Fraction(0),) * len(lo)
        unit = lambda k: tuple(Fraction(int(j == k)) for j in range(len(lo)))
        one = self.series_of(Fraction(1))
        self._positive = [x >= 0 for x in lo]
        self.variables = [
            Scaled(unit(k), one) if self._positive[k] else Scaled(self._none, x) for k, x in enumerate(self.inputs)
        ]

    def number(self, value) -> Scaled:
        return Scaled(self._none, self.series_of(Fraction(value)))

    def constant(self, value):
        if value.dtype.kind == "b":
            return Truth(bool(value), bool(value), frozenset())
        if value.dtype.kind in "iu":
            return int(value)
        if value.dtype.kind != "f":
            raise UnsupportedError(f"the recheck knows no numbers of type {value.dtype}: it cannot be made.")
        if np.isfinite(value):
            return self.number(float(value))
        return Scaled(self._none, BallSeries([self._unknown()], frozenset()), False)

    # ---- monomials

    def plain(self, x: Scaled, powers=None) -> BallSeries:
        """The series of x divided by a monomial, of 1 where none is given."""
        series = x.series
        for k, p in enumerate(x.powers):
            p -= powers[k] if powers else 0
            if p:
                factor = self.radius(p) if k == 0 and self.moves_first else self._power(self.inputs[k], p)
                series = self._product(series, factor)
        return series

    def add(self, x: Scaled, y: Scaled, sign: int = 1) -> Scaled:
        known = all_known(x.known, y.known)
        if self._is_zero(x.series):
            return Scaled(y.powers, self.times(y.series, sign), known)
        if self._is_zero(y.series):
            return Scaled(x.powers, x.series, known)
        shared = tuple(map(min, x.powers, y.powers))
        total = self._sum(self.plain(x, shared), self.times(self.plain(y, shared), sign))
        return Scaled(shared, total, known)

    @staticmethod
    def _is_zero(series: BallSeries) -> bool:
        return len(series.a) == 1 and not series.depends and bool(series.a[0].v == 0)

    @staticmethod
    def where_defined(x: Scaled, y: Scaled) -> Scaled:
        """x, where y is defined, too."""
        return Scaled(x.powers, x.series, all_known(x.known, y.known))

    def times(self, series: BallSeries, number) -> BallSeries:
        if number == 1:
            return series
        return BallSeries([a.times(self.arb(number)) for a in series.a], series.depends)

    def mul(self, x: Scaled, y: Scaled) -> Scaled:
        powers = tuple(a + b for a, b in zip(x.powers, y.powers, strict=True))
        return Scaled(powers, self._product(x.series, y.series), all_known(x.known, y.known))

    def power(self, x: Scaled, p: Fraction) -> Scaled:
        """x^p; the domain is that of real powers."""
        if p == 0:
            return Scaled(self._none, self.series_of(Fraction(1)), x.known)
        test = None if p.denominator == 1 and p > 0 else "ne0" if p.denominator == 1 else "ge0" if p > 0 else "gt0"
        known = x.known if test is None else all_known(x.known, self._test(test, x).inside)
        if p.denominator > 1 and not x.series.a[0].v >= 0:
            return Scaled(self._none, self._power(self.plain(x), p), known)
        return Scaled(tuple(q * p for q in x.powers), self._power(x.series, p), known)

    def _test(self, test: str, x: Scaled) -> Truth:
        """Of the sign of a value; a monomial is positive but where one of its inputs may be zero."""
        zero = any(p and not (self.sides[k].lo > 0) for k, p in enumerate(x.powers))
        a, depends = (self.plain(x) if zero else x.series).a[0], x.series.depends
        if any(x.powers):
            depends |= frozenset(k for k, p in enumerate(x.powers) if p)
        return Truth(TESTS[test](a.v), TESTS[test](a.c), depends, x.known)

    # ---- operations

    def apply(self, node, args):
        op = node.op
        if op == "entry":
            return args[0][node.params["result"]][node.params["index"]]
        if op == "call":
            return self._call(node.code, args)
        if op == "select_n" and len(args) == 3 and isinstance(args[0], Truth):
            return self._choice(*args)
        if op in ("and", "or", "not") and all(isinstance(a, Truth) for a in args):
            inside, centre = (logic(op, [getattr(a, name) for a in args]) for name in ("inside", "centre"))
            depends = frozenset().union(*(a.depends for a in args))
            return Truth(inside, centre, depends, all_known(*(a.known for a in args)))
        if op == "convert_element_type" and node.real and not isinstance(args[0], Scaled):
            return self._converted(args[0])
        if op == "pow" and isinstance(args[1], int):
            return self.power(args[0], Fraction(args[1]))
        if all(isinstance(a, Scaled) for a in args) and (node.real or op in _TESTS or op == "is_finite"):
            return self._real(node, args)
        if op in _TESTS and all(isinstance(a, int) for a in args):
            truth = bool(TESTS[_TESTS[op]](self.arb(args[0] - args[1])))
            return Truth(truth, truth, frozenset())
        raise UnsupportedError(f"the recheck knows no operation {op!r} of these operands: it cannot be made.")

    def _converted(self, x) -> Scaled:
        if isinstance(x, int):
            return self.number(x)
        return self._choice(x, self.number(0), self.number(1))

    def _real(self, node, args) -> Any:
        op = node.op
        if op in ("add", "add_any", "sub"):
            return self.add(args[0], args[1], -1 if op == "sub" else 1)
        if op == "mul":
            return self.mul(*args)
        if op == "div":
            return self.mul(args[0], self.power(args[1], Fraction(-1)))
        if op == "neg":
            return Scaled(args[0].powers, self.times(args[0].series, -1), args[0].known)
        if op in _ROOTS:
            return self.power(args[0], _ROOTS[op])
        if op == "integer_pow":
            return self.power(args[0], Fraction(node.params["y"]))
        if op == "pow":
            return self._general_power(*args)
        if op == "one_minus_square":
            return self.add(self.number(1), self.power(args[0], Fraction(2)), -1)
        if op in ("max", "min"):
            return self._extreme(op, *args)
        if op == "clamp":
            return self._extreme("min", self._extreme("max", args[1], args[0]), args[2])
        if op in _TESTS:
            return self._test(_TESTS[op], self.add(args[0], args[1], -1))
        if op in ("copy", "copy_p") or (op == "convert_element_type" and node.real):
            return args[0]
        if op == "is_finite":
            return self._finite(args[0])
        return self._function(op, args[0])

    @staticmethod
    def _finite(x: Scaled) -> Truth:
        """About rounding, and always open."""
        return Truth(None, None, x.series.depends, x.known)

    def _function(self, op: str, x: Scaled) -> Scaled:
        if op == "exp2":
            log_of_two = self._unary("log", self.series_of(Fraction(2)))
            return self._function("exp", Scaled(x.powers, self._product(x.series, log_of_two), x.known))
        if op in ("log", "log1p", "lambert_w"):
            shifted = self.add(x, self.number(1)) if op == "log1p" else x
            known = self._test("ge0" if op == "lambert_w" else "gt0", shifted).inside
        elif op in _TOTAL and (op in SERIES_SLOPES or op in ("exp", "expm1")):
            known = True
        else:
            raise UnsupportedError(f"the recheck knows no operation {op!r}: it cannot be made.")
        return Scaled(self._none, self._unary(op, self.plain(x)), all_known(x.known, known))

    def _general_power(self, x: Scaled, y: Scaled) -> Scaled:
        exponent, x = y.series.a[0].v, self.where_defined(x, y)
        if self._is_zero(y.series):  # u^(v - v)
            return self.power(x, Fraction(0))
        if not y.series.depends and not any(y.powers) and exponent.is_exact():
            man, e = exponent.man_exp()
            exact = Fraction(int(man)) * Fraction(2) ** int(e)
            return self.power(x, exact if self.literal or exact != float(exact) else as_fraction(float(exact)))
        return self._function("exp", self.mul(y, self._function("log", x)))

    def _extreme(self, op, x: Scaled, y: Scaled) -> Scaled:
        """y + max(x - y, 0)."""
        difference = self.plain(self.add(x, y, -1))
        part = Scaled(self._none, self._clipped("max0" if op == "max" else "min0", difference))
        total = self.add(y, part)
        return Scaled(total.powers, total.series, all_known(x.known, y.known))

    def _choice(self, truth: Truth, no, yes):
        if not isinstance(no, Scaled) or not isinstance(yes, Scaled):
            raise UnsupportedError("the recheck knows no choice between conditions: it cannot be made.")
        known = all_known(truth.known, *([yes.known] if truth.inside is not False else []))
        known = all_known(known, *([no.known] if truth.inside is not True else []))
        if truth.inside is not None:
            taken = yes if truth.inside else no
            return Scaled(taken.powers, taken.series, known)
        shared = tuple(map(min, no.powers, yes.powers))
        both = (self.plain(x, shared) for x in (no, yes))
        return Scaled(shared, self._chosen((truth.inside, truth.centre, truth.depends), *both), known)

    def _call(self, code, args):
        if code.name == "stop_gradient":
            return [args]
        name = package_function(code.eqn)
        if name == "_cube_root":
            return [[self.power(a, Fraction(1, 3)) for a in code.entries(args, self.constant)]]
        if name == "lambert_w":
            return [[self._function("lambert_w", a) for a in code.entries(args, self.constant)]]
        if not code.has_rule:
            raise UnsupportedError(f"the recheck knows no operation {code.name!r}: it cannot be made.")
        flat = iter(evaluate(code.program, self, args))
        return [[next(flat) for _ in range(int(np.prod(v.aval.shape)))] for v in code.eqn.outvars]


class Unsettled(ArithmeticError):
    """A comparison is open at a point: on a switch."""


class OnPoint(OnBalls):
    """The algebra of JAX's operations at a point: values are Scaled of Arb's series along ln x_0 and no monomial."""

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

    def _unknown_series(self):
        return self._of([self.arb("nan")] * self._length)

    def constant(self, value):
        if value.dtype.kind == "f" and not abs(value) < float("inf"):
            return self._scaled(self._unknown_series(), False)
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
        if p.denominator == 1 and abs(p) <= 64:
            return s ** int(p) if p > 0 else self.inverse(s ** int(-p))
        if p < 0 and s[0] == 0:
            return self._unknown_series()
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

    def inverse(self, s):
        """1/s; unknown where s may be zero or is unknown itself, which Arb's division refuses."""
        return self.series_of(1) / s if s[0] > 0 or s[0] < 0 else self._unknown_series()

    def _general_power(self, x: Scaled, y: Scaled) -> Scaled:
        e, x = y.series[0], self.where_defined(x, y)
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
    "tanh": lambda a, s: _hyperbolic(a, s, -1) * a.inverse(_hyperbolic(a, s, 1)),
    "asinh": lambda a, s: _odd(a, s, lambda x: (x + (x * x + a.series_of(1)).sqrt()).log()),
    "logistic": lambda a, s: a.inverse((-s).exp() + a.series_of(1)),
    "cbrt": lambda a, s: _odd(a, s, lambda x: a._power(x, Fraction(1, 3))),
    "abs": lambda a, s: _sign(a, s) * s,
    "sign": _sign,
    "lambert_w": lambda a, s: s.lambertw(),
}
"""Those that Arb's series do not have by these names."""
