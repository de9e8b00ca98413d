"""The prover's factored programs on one box in Arb's arithmetic, where the formula itself gives too wide balls."""

import functools
from fractions import Fraction

from dftfd.errors import UnsupportedError
from dftfd.verify.ball_intervals import FUNCTIONS, TESTS, logic
from dftfd.verify.ball_series import BallArithmetic, BallSeries, Coefficient


class OnFactored(BallArithmetic):
    """The algebra of the nodes of factored programs (verify/factored.py)."""

    def __init__(self, flint, lo, hi, order, moves_first: bool):
        super().__init__(flint, lo, hi, order, moves_first)
        self.variables = list(self.inputs)
        if moves_first:
            self.variables[0] = self.radius(Fraction(1))
        self._first = self.variables[0]

    def constant(self, value) -> BallSeries:
        return self.series_of(Fraction(value))

    def apply(self, node, args):
        op = node.op
        if op == "between":
            return self._any_number(node.value, *args)
        if op == "term":
            return self._term(node.value, args)
        if op == "sum":
            return functools.reduce(self._sum, args)
        if op in TESTS:
            x = args[0]
            return *(TESTS[op](y) for y in (x.a[0].v, x.a[0].c)), x.depends
        if op in ("and", "or", "not"):
            depends = frozenset().union(*(a[2] for a in args))
            return *(logic(op, [a[i] for a in args]) for i in (0, 1)), depends
        if op == "select":
            return self._chosen(*args)
        if op in ("min0", "max0"):
            return self._clipped(op, args[0])
        if op not in FUNCTIONS:
            raise UnsupportedError(f"the recheck knows no operation {op!r}: it cannot be made.")
        return self._unary(op, args[0])

    def _any_number(self, x, truth=None) -> BallSeries:
        """Which one may change where a truth value does; nothing is known of derivatives across that."""
        ball = self._between(float(x.lo), float(x.hi))
        depends = truth[2] if truth else frozenset()
        jumps = self.order if truth and truth[0] is None and 0 in depends and self.moves_first else 0
        zero = self.arb(0)
        keys = depends - {0} if self.moves_first else depends
        return BallSeries([Coefficient(ball, ball, dict.fromkeys(keys, zero))] + [self._unknown()] * jumps, depends)

    def _term(self, value, args) -> BallSeries:
        coefficient, powers = value
        factors = [
            self.radius(p) if x is self._first and self.moves_first else self._power(x, p)
            for x, p in zip(args, powers, strict=True)
        ]
        result, number = functools.reduce(self._product, factors), self.rational(coefficient)
        return BallSeries([x.times(number) for x in result.a], result.depends)
