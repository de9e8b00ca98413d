"""Proofs checked once more, box by box, in Arb's ball arithmetic, from the formula as it was given.

No rule of the prover is used. Its tree of boxes says where to look, no more: that the boxes cover the domain follows
from walking through it. Arb has rigorous elementary functions of its own; Taylor coefficients follow from the
recurrences of power series, the derivative along ln r_s is the next coefficient; whether a formula is defined is
decided for each box as a whole. A box that this arithmetic finds too large is cut further. It holds, or is refuted by a
part in which the left side is negative or undefined everywhere, or stays open.

Boxes that hold in this way hold *directly*. Where a formula cancels, which the prover's algebra removes, too many cuts
would be needed. Then the factored program is taken in its place, on the same arithmetic, if its values and Taylor
coefficients at random points of the box are those of the formula in 220 bits. That it is the formula is tested then,
not proved; where the formula is defined is still decided from the formula.

F. Johansson, IEEE Trans. Comput. 66, 1281 (2017) (Arb). doi:10.1109/TC.2017.2690633
"""

import functools
import math
import random
import time
from typing import NamedTuple

from dftfd.autofd.scalar.program import evaluate
from dftfd.errors import InputError, MissingDependencyError
from dftfd.verify.ball_formulas import OnBalls, all_known
from dftfd.verify.ball_intervals import Between, met
from dftfd.verify.ball_programs import OnFactored
from dftfd.verify.ball_series import BallSeries, Coefficient
from dftfd.verify.inequality import FACE, PROVED, Inequality, cut

BITS, ENOUGH, DIRECTLY = 106, 3000, 40
"""Precision of the balls; parts of a box of the tree that are looked at before it stays open, and before the factored
program is taken."""

POINTS, DIGITS, NOISE = 3, 220, 1e-11
"""Of a box at which program and formula are compared; bits of the comparison; what an inexact switch may leave open."""

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


def _left_side(flint, inequality: Inequality, lo, hi, directly: bool = True) -> tuple:
    """Ball of the left side on a box, its gradient {input: ball}, with the sign of that along input 0, and whether it
    is defined in the box."""
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
    return v, gradient, known


def _agrees(flint, inequality, lo, hi) -> bool:
    """Whether the factored program has the formula's values and coefficients at random points of a box."""
    rng, before = random.Random(3), flint.ctx.prec
    flint.ctx.prec = DIGITS
    try:
        for _ in range(POINTS):
            point = [rng.uniform(a, b) for a, b in zip(lo, hi, strict=True)]
            (_, ours, _), (_, theirs, _) = (_series(flint, inequality, point, point, each) for each in (True, False))
            for s, t in zip(ours, theirs, strict=True):
                for i in range(inequality.order + 1):
                    x, y = (u.a[i].c if i < len(u.a) else flint.arb(0) for u in (s, t))
                    if not _upper(abs(x - y)) <= NOISE * (1 + _upper(abs(x))):  # not so for NaN
                        return False
        return True
    finally:
        flint.ctx.prec = before


def _upper(x) -> float:
    return float((x.hi if isinstance(x, Between) else x).upper())


def _is_refuted(flint, inequality, lo, hi) -> bool:
    """Whether the formula is negative or undefined at one of some points of a box, its corners among them."""
    rng, points = random.Random(4), [lo, hi]
    points += [[rng.uniform(a, b) for a, b in zip(lo, hi, strict=True)] for _ in range(POINTS)]
    for point in points:
        v, _, known = _left_side(flint, inequality, point, point)
        if known is False or (v < 0 and known):
            return True
    return False


def _holds(flint, inequality, lo, hi, directly: bool = True, enough: int = DIRECTLY) -> bool | None:
    """True, False where a part is surely negative or undefined, None where too many parts would be needed."""
    pending, looked_at, still_open = [(list(lo), list(hi))], 0, False
    while pending:
        low, high = pending.pop()
        looked_at += 1
        v, gradient, known = _left_side(flint, inequality, low, high, directly)
        if v >= 0 and known:
            continue
        if known is False or (v < 0 and known) or (looked_at == 1 and _is_refuted(flint, inequality, low, high)):
            return False
        sides = [k for k in range(len(low)) if high[k] > low[k]]
        middles = {k: cut(low[k], high[k]) for k in sides}
        sides = [k for k in sides if low[k] < middles[k] < high[k]]
        if looked_at > enough:
            return None
        if not sides:
            still_open = True  # one that is refuted is looked for on
            continue
        if known is None:
            k = max(sides, key=lambda j: _share(inequality, j, low, high))
        else:
            k = max(sides, key=lambda j: _change(gradient.get(j), j, low, high))
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
    """held: boxes that hold.   total: boxes in all.   unrefuted: none is refuted.   directly: held unfactored."""

    held: int
    total: int
    unrefuted: bool
    directly: int


def recheck_tree(
    inequality: Inequality, tree: list[int], seconds: float | None = None, part: slice = slice(None)
) -> "Recheck":
    """For the nodes of a tree, each before its children.

    seconds: when they are over, the boxes that are left are not checked; boxes come in a random order then.
    part: those of the boxes, in the order of the tree, that are looked at.
    """
    flint = _arb()
    tasks = _tasks(inequality, tree)[part]
    before, flint.ctx.prec = flint.ctx.prec, BITS
    try:
        return _checked(flint, inequality, tasks, seconds)
    finally:
        flint.ctx.prec = before


def _checked(flint, inequality, tasks, seconds) -> Recheck:
    if seconds is not None:
        random.Random(1).shuffle(tasks)
    began, done, directly = time.monotonic(), 0, 0
    for lo, hi, code in tasks:
        if seconds is not None and time.monotonic() - began > seconds:
            break
        check = _holds if code is None else functools.partial(_is_monotonous, code=code)
        held = check(flint, inequality, lo, hi)
        directly += bool(held)
        if held is None and _is_defined(flint, inequality, lo, hi) and _agrees(flint, inequality, lo, hi):
            held = check(flint, inequality, lo, hi, directly=False, enough=ENOUGH)
        if held is False:
            return Recheck(done, len(tasks), False, directly)
        done += bool(held)
    return Recheck(done, len(tasks), True, directly)


def _is_defined(flint, inequality, lo, hi) -> bool:
    """Whether the formula is defined in a box, cut where that is open."""
    pending, looked_at = [(list(lo), list(hi))], 0
    while pending:
        low, high = pending.pop()
        looked_at += 1
        known = _series(flint, inequality, low, high, True)[2]
        if known:
            continue
        k = max(range(len(low)), key=lambda j: _share(inequality, j, low, high))
        middle = cut(low[k], high[k])
        if known is False or not low[k] < middle < high[k] or looked_at > ENOUGH:
            return False
        pending += _halves(low, high, k, middle)
    return True


def _tasks(inequality, tree) -> list:
    """(lo, hi, None) for each box to be positive, (lo, hi, code) for each that is to be monotonous."""
    tasks: list = []
    pending = [(inequality.lo.tolist(), inequality.hi.tolist())]
    for kind in tree:
        lo, hi = pending.pop()
        if kind == PROVED:
            tasks.append((lo, hi, None))
        elif 0 <= kind < len(lo):
            middle = cut(lo[kind], hi[kind])
            low, high = list(lo), list(hi)
            low[kind], high[kind] = middle, middle
            pending += [(low, hi), (lo, high)]
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
        _, gradient, known = _left_side(flint, inequality, low, high, directly)
        slopes = [gradient.get(k, flint.arb(0)) * sign for k, sign in signs.items()]
        if known and all(slope >= 0 for slope in slopes):
            continue
        if known is False or any(slope < 0 for slope in slopes):
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
        v, _, known = _left_side(flint, inequality, list(point), list(point))
        return v.lo.union(v.hi) if isinstance(v, Between) else v, bool(known)
    finally:
        flint.ctx.prec = before
