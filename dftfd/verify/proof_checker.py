"""Proofs checked once more, box by box, in Arb's ball arithmetic, with derivatives formed in another way.

Arb has rigorous elementary functions of its own. Nothing of the prover's intervals and derivatives is used: Taylor
coefficients follow from the recurrences of power series, and the derivative along ln r_s is the next coefficient. The
tree of boxes says where to look, no more: that the boxes cover the domain follows from walking through it. A box that
this arithmetic finds too large is cut further.

Shared with the prover is the factored program. Its values are compared with those of the energy's own program at random
points in extended precision.

F. Johansson, IEEE Trans. Comput. 66, 1281 (2017) (Arb). doi:10.1109/TC.2017.2690633
"""

import random
import time
from fractions import Fraction

from dftfd.autofd.scalar.program import ScalarProgram, evaluate
from dftfd.errors import MissingDependencyError
from dftfd.verify.ball_intervals import Between, met
from dftfd.verify.ball_series import JUMPS, BallSeries, OnBalls
from dftfd.verify.inequality import FACE, PROVED, Inequality, cut

BITS, DEEPEST = 106, 24
"""Precision of the balls; cuts of a box beyond those of the tree."""

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


def _left_side(flint, inequality: Inequality, lo, hi) -> tuple:
    """Ball of the left side on a box, its gradient {input: ball}, with the sign of that along input 0, and whether it
    is defined on all of the box."""
    algebra = OnBalls(flint, lo, hi, inequality.order)
    *outputs, (defined, _, _) = evaluate(inequality.program, algebra, algebra.inputs)
    total = algebra.constant(Fraction(inequality.constant))
    first = None
    for output, order, coefficient in inequality.terms:
        number, s = algebra.arb(coefficient), outputs[output]
        if order < len(s.a):
            part = BallSeries([s.a[order].times(number)], frozenset())
            total = BallSeries([total.a[0] + part.a[0]], frozenset())
        if 0 in s.depends and algebra.moves_first:
            slope = s.a[order + 1].v * number * (order + 1) if order + 1 < len(s.a) else algebra.arb(0)
            slope = slope * float("nan") if JUMPS in s.depends else slope
            first = slope if first is None else first + slope
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
    return v, gradient, defined is True


def _holds(flint, inequality, lo, hi, depth=0) -> bool:
    v, gradient, defined = _left_side(flint, inequality, lo, hi)
    if v >= 0 and defined:
        return True
    if depth == DEEPEST:
        return False
    wide = [k for k in range(len(lo)) if hi[k] > lo[k]]
    if not wide:
        return False
    k = max(wide, key=lambda j: _change(gradient.get(j), j, lo, hi))
    middle = cut(lo[k], hi[k])
    low, high = list(lo), list(hi)
    low[k], high[k] = middle, middle
    return _holds(flint, inequality, lo, high, depth + 1) and _holds(flint, inequality, low, hi, depth + 1)


def _change(slope, k, lo, hi) -> float:
    """How much the left side may change along an input; along the first one the slope is that in its logarithm.

    Where a slope is unknown, as across a switch, the side is cut first, until it is narrow: cutting on would bring
    nothing there, while the other sides keep their widths.
    """
    if slope is None:
        return 0.0
    size = abs(slope)
    change = float(size.hi if isinstance(size, Between) else size) * (hi[k] - lo[k]) / (hi[0] if k == 0 else 1)
    if change == change:
        return change
    return float("inf") if hi[k] - lo[k] > _NARROW * abs(hi[k]) else 0.0


def recheck_tree(
    inequality: Inequality, tree: list[int], seconds: float | None = None, part: slice = slice(None)
) -> tuple[int, int, bool]:
    """(boxes checked, boxes in all, all of these hold) for the nodes of a tree, each before its children.

    seconds: when they are over, the boxes that are left are not checked; boxes come in a random order then.
    part: those of the boxes, in the order of the tree, that are looked at.
    """
    flint = _arb()
    flint.ctx.prec = BITS
    tasks = _tasks(inequality, tree)[part]
    if seconds is not None:
        random.Random(1).shuffle(tasks)
    began, done = time.monotonic(), 0
    for lo, hi, code in tasks:
        if seconds is not None and time.monotonic() - began > seconds:
            break
        if not (_holds(flint, inequality, lo, hi) if code is None else _is_monotonous(flint, inequality, lo, hi, code)):
            return done, len(tasks), False
        done += 1
    return done, len(tasks), True


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


def _is_monotonous(flint, inequality, lo, hi, code, depth=0) -> bool:
    """Rising along inputs that keep their lower side, falling along those that keep the upper one."""
    if code < 0:
        return False
    _, gradient, defined = _left_side(flint, inequality, lo, hi)
    sides = {k: code // 3**k % 3 for k in range(len(lo)) if code // 3**k % 3}
    zero = flint.arb(0)
    signs = (gradient.get(k, zero) >= 0 if s == 1 else gradient.get(k, zero) <= 0 for k, s in sides.items())
    fine = defined and all(signs)
    if fine or depth == DEEPEST:
        return fine
    k = max(range(len(lo)), key=lambda j: (hi[j] - lo[j]) / max(abs(hi[j]), 1e-3))
    middle = cut(lo[k], hi[k])
    if not lo[k] < middle < hi[k]:
        return False
    low, high = list(lo), list(hi)
    low[k], high[k] = middle, middle
    return all(_is_monotonous(flint, inequality, a, b, code, depth + 1) for a, b in ((lo, high), (low, hi)))


def values_at(program: ScalarProgram, point, bits: int = 220) -> list:
    """Outputs of a factored program at a point, as balls, and whether they are defined there."""
    flint = _arb()
    before, flint.ctx.prec = flint.ctx.prec, bits
    try:
        algebra = OnBalls(flint, list(point), list(point), 0)
        *outputs, (_, defined, _) = evaluate(program, algebra, algebra.inputs)
        return [*(s.a[0].c for s in outputs), defined]
    finally:
        flint.ctx.prec = before
