"""Proofs checked once more, box by box, in Arb's ball arithmetic, from the formula as it was given.

No rule of the prover is used. Its tree of boxes says where to look, no more: that the boxes cover the domain follows
from walking through it. Arb has rigorous elementary functions of its own; Taylor coefficients follow from the
recurrences of power series, the derivative along ln r_s is the next coefficient; whether a formula is defined is
decided for each box as a whole. A box that this arithmetic finds too large is cut further. It holds, or is refuted by a
part in which the left side is negative or undefined everywhere, or stays open.

Boxes that hold in this way hold *directly*. Where a formula cancels, which the prover's algebra removes, too many cuts
would be needed. Then the prover's factored program, with its conditions of where the formula is defined, is taken in
its place on the same arithmetic. That it is the formula is tested, not proved: at the centre of each such box its
values and Taylor coefficients have to be those of the formula in 106 bits, and the formula has to be defined; a
certificate of another formula is refuted there.

F. Johansson, IEEE Trans. Comput. 66, 1281 (2017) (Arb). doi:10.1109/TC.2017.2690633
"""

import functools
import math
import random
import time
from fractions import Fraction
from typing import Any, NamedTuple

from dftfd.autofd.scalar.program import evaluate
from dftfd.errors import InputError, MissingDependencyError, UnsupportedError
from dftfd.verify.ball_formulas import OnBalls, OnPoint, Unsettled, all_known
from dftfd.verify.ball_intervals import FUNCTIONS, TESTS, Between, logic, met
from dftfd.verify.ball_series import BallArithmetic, BallSeries, Coefficient
from dftfd.verify.inequality import FACE, PROVED, Inequality, cut

BITS, ENOUGH, DIRECTLY = 106, 3000, 40
"""Precision of the balls; parts of a box of the tree that are looked at before it stays open, and before the factored
program is taken."""

FIRST, RARELY = 40, 8
"""Boxes that are tried directly in any case; afterwards they are as long as one in so many held."""

POINTS, NOISE = 3, 1e-11
"""Of a box that may refute it, beside its corners; what an inexact switch may leave open at a point."""

_NARROW = 1e-6
"""Relative width of a side that is not cut any more for an unknown slope."""


def _arb():
    try:
        import flint
    except ImportError as error:
        raise MissingDependencyError(
            "rechecking proofs needs python-flint (Arb): pip install 'dftfd[proofs]'."
        ) from error
    return flint


def _series(flint, inequality: Inequality, lo, hi, directly: bool):
    """(arithmetic, series of the outputs, whether they are defined in the box)."""
    moves_first = inequality.names[:1] == ("rs",) and lo[0] > 0
    if directly:
        if inequality.statement is None:
            raise InputError("the formula of this inequality is not known: make it by prove().")
        algebra = OnBalls(flint, lo, hi, inequality.order, moves_first)
        outputs = inequality.statement.outputs(algebra, inequality.names)
        return algebra, [algebra.plain(x) for x in outputs], all_known(*(x.known for x in outputs))
    program = OnFactored(flint, lo, hi, inequality.order, moves_first)
    *series, (known, _, _) = evaluate(inequality.program, program, program.variables)
    return program, series, known


class OnFactored(BallArithmetic):
    """The algebra of the nodes of factored programs (verify/factored.py) on one box."""

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


class Side(NamedTuple):
    """value: ball of the left side on a box.   gradient: {input: ball}, with the sign of that along input 0.
    known: whether it is defined in the box.   centre: coefficients of each output at the centre.
    """

    value: Any
    gradient: dict
    known: bool | None
    centre: list


def _left_side(flint, inequality: Inequality, lo, hi, directly: bool = True) -> Side:
    algebra, series, known = _series(flint, inequality, lo, hi, directly)
    total, first = algebra.arb(inequality.constant), algebra.arb(0) if algebra.moves_first else None
    total = BallSeries([Coefficient(total, total, {})], frozenset())
    for output, order, coefficient in inequality.terms:
        number, s = algebra.arb(coefficient), series[output]
        if order < len(s.a):
            total = BallSeries([total.a[0] + s.a[order].times(number)], frozenset())
        if algebra.moves_first and order + 1 < len(s.a):
            first = first + s.a[order + 1].v * number * (order + 1)
    x = total.a[0]
    bound, gradient = x.c, dict(x.g)
    for k, g in x.g.items():
        bound = bound + g * algebra.offsets[k]
    if first is not None:
        gradient[0] = first
        bound = bound + first * algebra.first_offset
    v = x.v
    if bound.is_finite():
        v = met(bound, v) if v.is_finite() else bound
    return Side(v, gradient, known, [[a.c for a in s.a] for s in series])


def _at_point(flint, inequality: Inequality, point) -> tuple[list, bool | None] | None:
    """Taylor coefficients of each output at a point, from the formula, and whether it is defined there; None on a
    switch."""
    moves_first = inequality.names[:1] == ("rs",) and point[0] > 0
    algebra = OnPoint(flint, point, inequality.order, moves_first)
    try:
        outputs = inequality.statement.outputs(algebra, inequality.names)  # type: ignore[union-attr]
    except Unsettled:
        return None
    length = range(inequality.order + 1)
    return [[x.series[k] for k in length] for x in outputs], all_known(*(x.known for x in outputs))


def _disagrees(flint, inequality, lo, hi, side: Side) -> bool | None:
    """Whether the factored program is another formula: not within the balls of the formula's own coefficients at the
    centre of a box, or defined where that is not. None where that is open."""
    found = _at_point(flint, inequality, [x + 0.5 * (y - x) for x, y in zip(lo, hi, strict=True)])
    if found is None or found[1] is None:
        return None
    for formula, program in zip(found[0], side.centre, strict=True):
        for k, x in enumerate(formula):
            y = program[k] if k < len(program) else flint.arb(0)
            y = y.lo.union(y.hi) if isinstance(y, Between) else y
            if not (x.is_finite() and y.is_finite()):
                return None if found[1] else True
            if not x.overlaps(y):
                return True
            size = abs(x)
            size = float((size.hi if isinstance(size, Between) else size).upper())
            if not float(x.rad()) + float(y.rad()) <= NOISE * (1 + size):
                return None
    return not found[1]


def _is_refuted(flint, inequality, lo, hi) -> bool:
    """Whether the formula is negative or undefined at one of some points of a box, its corners among them."""
    rng, points = random.Random(4), [lo, hi]
    points += [[rng.uniform(a, b) for a, b in zip(lo, hi, strict=True)] for _ in range(POINTS)]
    for point in points:
        found = _at_point(flint, inequality, point)
        if found is None:
            continue
        v = flint.arb(inequality.constant)
        for output, order, coefficient in inequality.terms:
            v = v + found[0][output][order] * flint.arb(coefficient)
        if found[1] is False or (v < 0 and found[1]):
            return True
    return False


def _holds(flint, inequality, lo, hi, directly: bool = True, enough: int = DIRECTLY) -> bool | None:
    """True, False where a part is surely negative or undefined, None where too many parts would be needed."""
    pending, looked_at, still_open = [(list(lo), list(hi))], 0, False
    while pending:
        low, high = pending.pop()
        looked_at += 1
        side = _left_side(flint, inequality, low, high, directly)
        if not directly and looked_at == 1 and (other := _disagrees(flint, inequality, low, high, side)) is not False:
            return None if other is None else False
        if side.value >= 0 and side.known:
            continue
        if side.known is False or (side.value < 0 and side.known):
            return False
        if looked_at == 1 and _is_refuted(flint, inequality, low, high):
            return False
        sides = [k for k in range(len(low)) if high[k] > low[k]]
        middles = {k: cut(low[k], high[k]) for k in sides}
        sides = [k for k in sides if low[k] < middles[k] < high[k]]
        if looked_at > enough:
            return None
        if not sides:
            still_open = True  # one that is refuted is looked for on
            continue
        if side.known is None:
            k = max(sides, key=lambda j: _share(inequality, j, low, high))
        else:
            k = max(sides, key=lambda j: _change(side.gradient.get(j), j, low, high))
        pending += _halves(low, high, k, middles[k])
    return None if still_open else True


def _halves(lo, hi, k, middle) -> list:
    low, high = list(lo), list(hi)
    low[k], high[k] = middle, middle
    return [(low, hi), (lo, high)]


def _share(inequality, k, lo, hi) -> float:
    """Of a side in that of the domain, in logarithms where both are positive and wide."""
    a, b = float(inequality.lo[k]), float(inequality.hi[k])
    if a > 0 and b > 4 * a:
        return math.log(hi[k] / lo[k]) / math.log(b / a)
    return (hi[k] - lo[k]) / (b - a) if b > a else 0.0


def _change(slope, k, lo, hi) -> float:
    """How much the left side may change along an input; along the first one the slope is that in its logarithm.

    Where a slope is unknown, as across a switch, the side is cut first, until it is narrow: cutting on would bring
    nothing there, while the other sides keep their widths.
    """
    if slope is None:
        return 0.0
    size = abs(slope)
    change = (
        float(size.hi if isinstance(size, Between) else size) * (hi[k] - lo[k]) / (hi[0] if k == 0 and lo[0] > 0 else 1)
    )
    if change == change:
        return change
    return float("inf") if hi[k] - lo[k] > _NARROW * abs(hi[k]) else 0.0


class Recheck(NamedTuple):
    """held: boxes that hold.   total: boxes in all.   unrefuted: none is refuted.   directly: held unfactored, of
    `tried` that were tried so.
    """

    held: int
    total: int
    unrefuted: bool
    directly: int
    tried: int


def recheck_tree(
    inequality: Inequality,
    tree: list[int],
    seconds: float | None = None,
    part: slice = slice(None),
    every: int = 1,
) -> Recheck:
    """For the nodes of a tree, each before its children.

    seconds: when they are over, the boxes that are left are not checked; boxes come in a random order then.
    part: those of the boxes, in the order of the tree, that are looked at.
    every: one box in so many is tried directly, which takes up to a hundred times as long as the factored program.
    """
    flint = _arb()
    tasks = _tasks(inequality, tree)[part]
    before, flint.ctx.prec = flint.ctx.prec, BITS
    try:
        return _checked(flint, inequality, tasks, seconds, every)
    finally:
        flint.ctx.prec = before


def _checked(flint, inequality, tasks, seconds, every) -> Recheck:
    if seconds is not None:
        random.Random(1).shuffle(tasks)
    began, done, directly, tried = time.monotonic(), 0, 0, 0
    for number, (lo, hi, code) in enumerate(tasks):
        if seconds is not None and time.monotonic() - began > seconds:
            break
        check, held = _holds if code is None else functools.partial(_is_monotonous, code=code), None
        if number % every == 0 and (tried < FIRST or RARELY * directly >= tried):
            held = check(flint, inequality, lo, hi)
            tried, directly = tried + 1, directly + bool(held)
        if held is None:
            held = check(flint, inequality, lo, hi, directly=False, enough=ENOUGH)
        if held is False:
            return Recheck(done, len(tasks), False, directly, tried)
        done += bool(held)
    return Recheck(done, len(tasks), True, directly, tried)


def _tasks(inequality, tree) -> list:
    """(lo, hi, None) for each box to be positive, (lo, hi, code) for each that is to be monotonous."""
    tasks: list = []
    pending = [(inequality.lo.tolist(), inequality.hi.tolist())]
    for kind in tree:
        if not pending:  # more nodes than boxes
            return [(inequality.lo.tolist(), inequality.hi.tolist(), -1)]
        lo, hi = pending.pop()
        if kind == PROVED:
            tasks.append((lo, hi, None))
        elif 0 <= kind < len(lo):
            pending += _halves(lo, hi, kind, cut(lo[kind], hi[kind]))
        elif kind >= FACE:
            tasks.append((lo, hi, kind - FACE))
            pending.append(_face(lo, hi, kind - FACE))
        else:
            tasks.append((lo, hi, -1))  # not proved: no sign makes this one right
    if pending:
        tasks.append((inequality.lo.tolist(), inequality.hi.tolist(), -1))
    return tasks


def _face(lo, hi, code):
    low, high = list(lo), list(hi)
    for k in range(len(lo)):
        side = code // 3**k % 3
        if side == 1:
            high[k] = lo[k]
        elif side == 2:
            low[k] = hi[k]
    return low, high


def _is_monotonous(flint, inequality, lo, hi, directly: bool = True, enough: int = DIRECTLY, code=-1) -> bool | None:
    """Rising along inputs that keep their lower side, falling along those that keep the upper one; None if open."""
    if code < 0:
        return False
    signs = {k: 1 if code // 3**k % 3 == 1 else -1 for k in range(len(lo)) if code // 3**k % 3}
    pending, looked_at = [(list(lo), list(hi))], 0
    while pending:
        low, high = pending.pop()
        looked_at += 1
        side = _left_side(flint, inequality, low, high, directly)
        if not directly and looked_at == 1 and (other := _disagrees(flint, inequality, low, high, side)) is not False:
            return None if other is None else False
        slopes = [side.gradient.get(k, flint.arb(0)) * sign for k, sign in signs.items()]
        if side.known and all(slope >= 0 for slope in slopes):
            continue
        if side.known is False or any(slope < 0 for slope in slopes):
            return False
        k = max(range(len(low)), key=lambda j: _share(inequality, j, low, high))
        middle = cut(low[k], high[k])
        if not low[k] < middle < high[k] or looked_at > enough:
            return None
        pending += _halves(low, high, k, middle)
    return True


def values_at(inequality: Inequality, point, bits: int = 220) -> tuple:
    """(ball of the left side, whether it is defined) at a point, of an inequality without derivatives."""
    flint = _arb()
    before, flint.ctx.prec = flint.ctx.prec, bits
    try:
        side = _left_side(flint, inequality, list(point), list(point))
        v = side.value
        return v.lo.union(v.hi) if isinstance(v, Between) else v, bool(side.known)
    finally:
        flint.ctx.prec = before
