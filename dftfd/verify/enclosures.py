"""Factored programs on boxes: enclosures of values, of gradients, and of derivatives along one input's logarithm.

A Dual encloses a function on boxes in three ways: its values r, its value c at the centre, its gradient g. By the mean
value theorem f(x) lies in c + sum_k g_k (x_k - m_k), whose excess falls with the square of the width; r is what both
leave. Where a choice is open on a box, f may jump across the switch: the gradient is unknown along all inputs that the
condition depends on, and that of both branches along the others.

A Series [f_0, f_1, f_2] of Duals holds the Taylor coefficients of f(exp(t) x_0, x_1, ...) at t = 0: with x_0 = r_s,
f_1 = r_s df/dr_s and 2 f_2 = r_s d(r_s df/dr_s)/dr_s. Missing ones are zero.

R. E. Moore, R. B. Kearfott, M. J. Cloud, Introduction to Interval Analysis, SIAM 2009, ch. 6.
doi:10.1137/1.9780898717716
E. R. Hansen, Computing 28, 187 (1982) (slopes kept at every operation). doi:10.1007/BF02241819
"""

import functools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dftfd.verify.intervals import (
    COMPARISONS,
    UNKNOWN,
    ZERO,
    Interval,
    chosen,
    clipped,
    exactly,
    fraction,
    logic,
)
from dftfd.verify.known_functions import OPERATIONS

_ONE = Fraction(1)


class OnIntervals:
    """The algebra of values alone."""

    def __init__(self, inputs: list[Interval]):
        self.inputs = inputs

    def apply(self, node, args):
        op = node.op
        if op == "input":
            return self.inputs[node.value]
        if op == "const":
            return fraction(node.value)
        if op == "between":
            return node.value
        if op == "term":
            coefficient, powers = node.value
            result = fraction(coefficient)
            for x, p in zip(args, powers, strict=True):
                result = result * x.power(p)
            return result
        if op == "sum":
            result = args[0]
            for x in args[1:]:
                result = result + x
            return result
        if op in COMPARISONS:
            return COMPARISONS[op](args[0])
        if op in ("and", "or", "not"):
            return logic(op, *args)
        if op == "select":
            return chosen(*args)
        return clipped(op, args[0]) if op in ("min0", "max0") else OPERATIONS[op].value(args[0])


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Intervals X (box,) of each input, their centres and what lies between."""

    sides: tuple[Interval, ...]
    centres: tuple[Interval, ...]
    offsets: tuple[Interval, ...]

    @staticmethod
    def of(lo: np.ndarray, hi: np.ndarray) -> "Boxes":
        """lo, hi: (input, box)."""
        middle = np.clip(lo + 0.5 * (hi - lo), lo, hi)
        sides = tuple(Interval(a, b) for a, b in zip(lo, hi, strict=True))
        centres = tuple(map(exactly, middle))
        return Boxes(sides, centres, tuple(x - m for x, m in zip(sides, centres, strict=True)))


class Dual:
    """Values r, value at the centre c, gradient g {input: Interval}, of a function on boxes."""

    __slots__ = ("r", "c", "g", "boxes")

    def __init__(self, r: Interval, c: Interval, g: dict, boxes: Boxes):
        self.r, self.c, self.g, self.boxes = r, c, g, boxes

    def _met(self) -> "Dual":
        """With r as narrow as the mean value theorem makes it."""
        bound = self.c
        for k, g in self.g.items():
            bound = bound + g * self.boxes.offsets[k]
        return Dual(self.r.meet(bound), self.c, self.g, self.boxes)

    def __add__(self, other: "Dual") -> "Dual":
        g = dict(self.g)
        for k, b in other.g.items():
            g[k] = g[k] + b if k in g else b
        total = Dual(self.r + other.r, self.c + other.c, g, self.boxes)
        return total._met() if len(g) < len(self.g) + len(other.g) else total

    def __mul__(self, other: "Dual") -> "Dual":
        g = {k: a * other.r for k, a in self.g.items()}
        for k, b in other.g.items():
            b = self.r * b
            g[k] = g[k] + b if k in g else b
        total = Dual(self.r * other.r, self.c * other.c, g, self.boxes)
        return total._met() if len(g) < len(self.g) + len(other.g) else total

    def times(self, x: Interval) -> "Dual":
        return Dual(self.r * x, self.c * x, {k: g * x for k, g in self.g.items()}, self.boxes)

    def scaled(self, number: float) -> "Dual":
        return self.times(exactly(number))

    def plus(self, x: float) -> "Dual":
        shift = exactly(x)
        return Dual(self.r + shift, self.c + shift, self.g, self.boxes)

    def power(self, p: Fraction) -> "Dual":
        if p == 1:
            return self
        slope = self.r.power(p - 1) * fraction(p) if self.g else None
        return Dual(self.r.power(p), self.c.power(p), {k: g * slope for k, g in self.g.items()}, self.boxes)

    def unary(self, name: str) -> "Dual":
        f = OPERATIONS[name].value
        r, c = f(self.r), f(self.c)
        slope = OPERATIONS[name].slope(self.r, r) if self.g else None
        return Dual(r, c, {k: g * slope for k, g in self.g.items()}, self.boxes)


class OnSeries:
    """The algebra of Series, lists of Duals, to an order of 0, 1 or 2. `fixed`: inputs 0 does not move (order 0)."""

    def __init__(self, boxes: Boxes, order: int):
        self.boxes, self.order = boxes, order
        self.inputs = [
            [Dual(x, m, {k: exactly(1.0)}, boxes)]
            for k, (x, m) in enumerate(zip(boxes.sides, boxes.centres, strict=True))
        ]
        self._radius = self.inputs[0]
        self.inputs[0] = self._radius_power(_ONE) if order else self._radius
        self._first = self.inputs[0]

    def _radius_power(self, p: Fraction) -> list[Dual]:
        """x_0^p: each Taylor coefficient is p/k of the one before."""
        series = [self._radius[0].power(p)]
        for k in range(1, self.order + 1):
            series.append(series[-1].times(fraction(p / k)))
        return series

    def number(self, x: Interval) -> list[Dual]:
        return [Dual(x, x, {}, self.boxes)]

    def constant(self, value: Fraction) -> list[Dual]:
        return self.number(fraction(value))

    def apply(self, node, args):
        op = node.op
        if op == "between":
            return self._between(node.value, *args)
        if op == "term":
            return self._term(node.value, args)
        if op == "sum":
            result = args[0]
            for x in args[1:]:
                result = self._sum(result, x)
            return result
        if op in COMPARISONS:
            x = args[0][0]
            return COMPARISONS[op](x.r), COMPARISONS[op](x.c), frozenset(x.g)
        if op in ("and", "or", "not"):
            return (
                logic(op, *(a[0] for a in args)),
                logic(op, *(a[1] for a in args)),
                frozenset().union(*(a[2] for a in args)),
            )
        if op == "select":
            return self._selected(*args)
        if op in ("min0", "max0"):
            return self._clipped(op, args[0])
        return self._unary(op, args[0])

    def _sum(self, a, b):
        if len(a) < len(b):
            a, b = b, a
        return [x + y for x, y in zip(a, b, strict=False)] + a[len(b) :]

    def _product(self, a, b):
        length = min(len(a) + len(b) - 1, self.order + 1)
        result = []
        for k in range(length):
            parts = [a[i] * b[k - i] for i in range(k + 1) if i < len(a) and k - i < len(b)]
            total = parts[0]
            for p in parts[1:]:
                total = total + p
            result.append(total)
        return result

    def _term(self, value, args):
        coefficient, powers = value
        factors = [
            self._radius_power(p) if x is self._first else self._power(x, p) for x, p in zip(args, powers, strict=True)
        ]
        result = functools.reduce(self._product, factors)
        if coefficient == 1:
            return result
        number = fraction(coefficient)
        return [x.times(number) for x in result]

    def _power(self, x, p: Fraction):
        if p == 1:
            return x
        series = [x[0].power(p)]
        if len(x) > 1:
            slope = x[0].power(p - 1).times(fraction(p))
            curvature = x[0].power(p - 2).times(fraction(p * (p - 1) / 2)) if self.order == 2 and p != 2 else None
            if p == 2 and self.order == 2:
                curvature = self.number(exactly(1.0))[0]
            series += self._chain(x, slope, curvature)
        return series

    def _chain(self, x, slope, curvature):
        """[f' x_1, f' x_2 + f''/2 x_1^2]."""
        first = [slope * x[1]]
        if self.order < 2:
            return first
        second = curvature * x[1].power(Fraction(2))
        return [*first, slope * x[2] + second if len(x) > 2 else second]

    def _unary(self, name, x):
        y = x[0].unary(name)
        if len(x) == 1:
            return [y]
        slope = OPERATIONS[name].slope(x[0], y)
        curvature = OPERATIONS[name].curvature(x[0], y).times(exactly(0.5)) if self.order == 2 else None
        return [y, *self._chain(x, slope, curvature)]

    def _between(self, x: Interval, truth=None):
        """Any number in x; which one may change where a truth value does."""
        if truth is None:
            return self.number(x)
        depends = dict.fromkeys(truth[2], ZERO)
        higher = Dual(ZERO, ZERO, depends, self.boxes)
        jumps = self.order if 0 in truth[2] else 0
        return [Dual(x, x, depends, self.boxes), *[_unknown_where_open(truth, higher)] * jumps]

    def _selected(self, truth, no, yes):
        """Along a switch that depends on input 0 the value may jump, and nothing is known of derivatives there."""
        jumps, zero, result = self.order and 0 in truth[2], self.number(ZERO)[0], []
        for k in range(self.order + 1 if jumps else max(len(no), len(yes))):
            n, y = (s[k] if k < len(s) else zero for s in (no, yes))
            found = _select(truth, n, y, self.boxes)
            result.append(_unknown_where_open(truth, found) if k and jumps else found)
        return result

    def _clipped(self, op, x):
        """Of a kink the first derivative is that of one of the sides, the second unknown."""
        sign = COMPARISONS["lt0" if op == "min0" else "gt0"]
        truth = sign(x[0].r), sign(x[0].c), frozenset(x[0].g)
        g = {k: chosen(truth[0], ZERO, v) for k, v in x[0].g.items()}
        result, zero = [Dual(clipped(op, x[0].r), clipped(op, x[0].c), g, self.boxes)], self.number(ZERO)[0]
        for k, d in enumerate(x[1:], 1):
            found = _select(truth, zero, d, self.boxes)
            result.append(_unknown_where_open(truth, found) if k > 1 and 0 in truth[2] else found)
        return result


def _unknown_where_open(truth, d: Dual) -> Dual:
    inside, at_centre, _ = truth
    g = {k: chosen(inside, v, v, UNKNOWN) for k, v in d.g.items()}
    return Dual(chosen(inside, d.r, d.r, UNKNOWN), chosen(at_centre, d.c, d.c, UNKNOWN), g, d.boxes)


def _select(truth, no: Dual, yes: Dual, boxes) -> Dual:
    inside, at_centre, depends = truth
    g = {}
    for k in set(no.g) | set(yes.g) | depends:
        n, y = no.g.get(k, ZERO), yes.g.get(k, ZERO)
        g[k] = chosen(inside, n, y, UNKNOWN if k in depends else None)
    return Dual(chosen(inside, no.r, yes.r), chosen(at_centre, no.c, yes.c), g, boxes)
