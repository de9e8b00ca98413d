"""Proofs checked once more, box by box, in Arb's ball arithmetic, with derivatives formed in another way.

Arb (F. Johansson, IEEE Trans. Comput. 66, 1281 (2017), doi:10.1109/TC.2017.2690633) has rigorous elementary functions of
its own. Nothing of the prover's intervals and derivatives is used: Taylor coefficients follow from the recurrences of
power series, and the derivative along ln r_s is the next coefficient. The tree of boxes says where to look, no more: that
the boxes cover the domain follows from walking through it. A box that this arithmetic finds too large is cut further.

Shared with the prover is the factored program. It is compared with the energy's own, unfactored, at random points with 60
digits.
"""

import random
import time
from fractions import Fraction

from dftfd.autofd.scalar.program import ScalarProgram, evaluate
from dftfd.errors import MissingDependencyError
from dftfd.verify.inequality import FACE, PROVED, Inequality, cut

BITS, DEEPEST = 106, 24
"""Precision of the balls; cuts of a box beyond those of the tree."""


def _arb():
    try:
        import flint
    except ImportError as error:
        raise MissingDependencyError(
            "rechecking proofs needs python-flint (Arb): pip install 'dftfd[proofs]'."
        ) from error
    return flint


class _Between:
    """Numbers from lo to hi, whose ends are balls: not below the least of lo, not above the largest of hi."""

    __slots__ = ("lo", "hi")

    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi

    def __add__(self, other):
        if isinstance(other, _Between):
            return _Between(self.lo + other.lo, self.hi + other.hi)
        return _Between(self.lo + other, self.hi + other)

    __radd__ = __add__

    def __neg__(self):
        return _Between(-self.hi, -self.lo)

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        if not isinstance(other, _Between):
            if other >= 0:
                return _Between(self.lo * other, self.hi * other)
            if other <= 0:
                return _Between(self.hi * other, self.lo * other)
            other = _Between(other, other)
        if self.lo >= 0 and other.lo >= 0:
            return _Between(self.lo * other.lo, self.hi * other.hi)
        products = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        low, high = products[0], products[0]
        for x in products[1:]:
            low, high = low.min(x), high.max(x)
        return _Between(low, high)

    __rmul__ = __mul__

    def __truediv__(self, number):
        return self * (1 / number)

    def __rtruediv__(self, number):
        if not (self.lo > 0 or self.hi < 0):
            unknown = self.lo * float("nan")
            return _Between(unknown, unknown)
        return _Between(1 / self.hi, 1 / self.lo) * number

    def __pow__(self, n: int):
        if n < 0:
            return 1 / self**-n
        if n % 2 == 0 and not self.lo >= 0:
            size = abs(self)
            return _Between(size.lo**n, size.hi**n)
        return _Between(self.lo**n, self.hi**n)

    def __abs__(self):
        if self.lo >= 0:
            return self
        if self.hi <= 0:
            return -self
        return _Between(self.lo * 0, (-self.lo).max(self.hi))

    def __lt__(self, x):
        return bool(self.hi < x)

    def __le__(self, x):
        return bool(self.hi <= x)

    def __gt__(self, x):
        return bool(self.lo > x)

    def __ge__(self, x):
        return bool(self.lo >= x)

    def __eq__(self, x):
        return bool(self.lo == x) and bool(self.hi == x)

    def __ne__(self, x):
        return bool(self.hi < x) or bool(self.lo > x)

    __hash__ = None

    def is_finite(self):
        return self.lo.is_finite() and self.hi.is_finite()

    def union(self, other):
        if not isinstance(other, _Between):
            other = _Between(other, other)
        return _Between(self.lo.min(other.lo), self.hi.max(other.hi))

    def intersection(self, other):
        if not isinstance(other, _Between):
            other = _Between(other, other)
        return _Between(self.lo.max(other.lo), self.hi.min(other.hi))

    def through(self, name):
        """An increasing function of Arb's, by its name."""
        return _Between(getattr(self.lo, name)(), getattr(self.hi, name)())

    def erfc(self):
        return _Between(self.hi.erfc(), self.lo.erfc())

    def cosh(self):
        return abs(self).through("cosh")

    def sgn(self):
        return self.through("sgn")

    def sin(self):
        return self.lo.union(self.hi).sin()

    def cos(self):
        return self.lo.union(self.hi).cos()


for _name in "exp expm1 log log1p atan asinh sinh tanh erf lambertw sqrt".split():
    setattr(_Between, _name, lambda self, name=_name: self.through(name))


class _Coefficient:
    """v: of the values on the box; c: at the centre; g: {input: v} of the gradient, inputs above 0."""

    __slots__ = ("v", "c", "g")

    def __init__(self, v, c, g):
        self.v, self.c, self.g = v, c, g

    def __add__(self, other):
        g = dict(self.g)
        for k, b in other.g.items():
            g[k] = g[k] + b if k in g else b
        return _Coefficient(self.v + other.v, self.c + other.c, g)

    def __mul__(self, other):
        g = {k: a * other.v for k, a in self.g.items()}
        for k, b in other.g.items():
            b = self.v * b
            g[k] = g[k] + b if k in g else b
        return _Coefficient(self.v * other.v, self.c * other.c, g)

    def times(self, x):
        return _Coefficient(self.v * x, self.c * x, {k: a * x for k, a in self.g.items()})

    def through(self, f, slope):
        """f of it, slope: f' on balls."""
        d = slope(self.v) if self.g else None
        return _Coefficient(f(self.v), f(self.c), {k: a * d for k, a in self.g.items()})


class _Series:
    """Taylor coefficients in t of f(exp(t) x_0, ...), and the inputs that f depends on."""

    __slots__ = ("a", "depends")

    def __init__(self, a, depends):
        self.a, self.depends = a, depends


class _OnBalls:
    """The algebra on one box."""

    def __init__(self, flint, lo, hi, order):
        self.arb, self.order = flint.arb, order + 1
        centre = [x + 0.5 * (y - x) for x, y in zip(lo, hi, strict=True)]
        self.sides = [self._between(x, y) for x, y in zip(lo, hi, strict=True)]
        self.centres = [self.arb(x) for x in centre]
        self.offsets = [x - m for x, m in zip(self.sides, self.centres, strict=True)]
        self.moves_first = lo[0] > 0
        first = (self.sides[0] * (1 / self.centres[0])).log() if self.moves_first else None
        self.first_offset = first
        one = self.arb(1)
        self.inputs = [
            _Series([_Coefficient(x, m, {k: one} if k or not self.moves_first else {})], frozenset([k]))
            for k, (x, m) in enumerate(zip(self.sides, self.centres, strict=True))
        ]
        if self.moves_first:
            self.inputs[0] = self._radius(Fraction(1))
        self._first = self.inputs[0]

    def _between(self, lo, hi):
        return _Between(self.arb(lo), self.arb(hi))

    def rational(self, x: Fraction):
        return self.arb(x.numerator) / self.arb(x.denominator)

    def _radius(self, p: Fraction) -> _Series:
        v, c = self._to_power(self.sides[0], p), self._to_power(self.centres[0], p)
        exponent, factor, a = self.rational(p), self.arb(1), []
        for i in range(self.order + 1):
            if i:
                factor = factor * exponent / i
            a.append(_Coefficient(v * factor, c * factor, {}))
        return _Series(a, frozenset([0]))

    def _to_power(self, x, p: Fraction):
        if p.denominator == 1:
            return x ** int(p)
        low, high = (x.lo.lower(), x.hi.upper()) if isinstance(x, _Between) else (x.lower(), x.upper())
        if low < 0:
            return self.arb("nan") + x
        e = self.rational(p)
        ends = [y**e if y > 0 else (self.arb(0) if p > 0 else self.arb("nan")) for y in (low, high)]
        if isinstance(x, _Between):
            return _Between(*(ends if p > 0 else ends[::-1]))
        return ends[0].union(ends[1])

    def _met(self, s: _Series) -> _Series:
        """With values as narrow as the mean value theorem makes them."""
        for i, a in enumerate(s.a):
            if i == self.order:
                break
            bound = a.c
            for k, g in a.g.items():
                bound = bound + g * self.offsets[k]
            if self.moves_first and 0 in s.depends and i + 1 < len(s.a):
                bound = bound + self.first_offset * s.a[i + 1].v * (i + 1)
            if bound.is_finite():
                v = bound.intersection(a.v) if a.v.is_finite() else bound
                s.a[i] = _Coefficient(v, a.c, a.g)
        return s

    # ---- arithmetic of series

    def constant(self, value: Fraction) -> _Series:
        x = self.rational(value)
        return _Series([_Coefficient(x, x, {})], frozenset())

    def _sum(self, s, t):
        long, short = (s.a, t.a) if len(s.a) >= len(t.a) else (t.a, s.a)
        a = [x + y for x, y in zip(long, short, strict=False)] + long[len(short) :]
        return self._met(_Series(a, s.depends | t.depends))

    def _product(self, s, t):
        length = min(len(s.a) + len(t.a) - 1, self.order + 1)
        a = []
        for i in range(length):
            parts = [s.a[j] * t.a[i - j] for j in range(i + 1) if j < len(s.a) and i - j < len(t.a)]
            total = parts[0]
            for p in parts[1:]:
                total = total + p
            a.append(total if i < self.order else _Coefficient(total.v, total.c, {}))
        return self._met(_Series(a, s.depends | t.depends))

    def _integrated(self, start: _Coefficient, s: _Series, derivative) -> _Series:
        """y with y' = x' z: i y_i = sum_j j x_j z_(i-j); derivative: the coefficients of z up to some order."""
        a = [start]
        for i in range(1, self.order + 1 if len(s.a) > 1 else 1):
            z, total = derivative(a, i), None
            for j in range(1, i + 1):
                if j < len(s.a) and i - j < len(z):
                    part = (s.a[j] * z[i - j]).times(self.rational(Fraction(j, i)))
                    total = part if total is None else total + part
            a.append(total)
        return _Series(a, s.depends)

    def _power(self, s, p: Fraction):
        if p == 1:
            return s
        f = lambda x: self._to_power(x, p)
        e = self.rational(p)
        y = [s.a[0].through(f, lambda x: self._to_power(x, p - 1) * e)]
        if len(s.a) > 1:
            over = s.a[0].through(lambda x: 1 / x, lambda x: -1 / (x * x))
            for i in range(1, self.order + 1):
                total = None
                for j in range(1, i + 1):
                    if j < len(s.a):
                        part = (s.a[j] * y[i - j]).times(self.rational((p * j - (i - j)) / i))
                        total = part if total is None else total + part
                y.append(total * over)
        return self._met(_Series(y, s.depends))

    def _unary(self, name, s):
        x = s.a[0]
        simple = _SLOPES.get(name)
        y = x.through(getattr(self, f"_{name}", None) or _FUNCTIONS[name], lambda v: simple(self, v))
        if len(s.a) == 1:
            return _Series([y], s.depends)
        if name in ("exp", "expm1"):
            e = x.through(_FUNCTIONS["exp"], _FUNCTIONS["exp"])
            result = self._integrated(y, s, lambda a, i: [e, *a[1:i]])
        else:
            z = _SERIES_SLOPES[name](self, s)
            result = self._integrated(y, s, lambda a, i: z.a)
        return self._met(result)

    # ---- operations of programs

    def apply(self, node, args):
        op = node.op
        if op == "between":
            x = self._between(float(node.value.lo), float(node.value.hi))
            return _Series([_Coefficient(x, x, {})], frozenset())
        if op == "term":
            return self._term(node.value, args)
        if op == "sum":
            result = args[0]
            for x in args[1:]:
                result = self._sum(result, x)
            return result
        if op in _TESTS:
            x = args[0]
            return *(_TESTS[op](y) for y in (x.a[0].v, x.a[0].c)), x.depends
        if op in ("and", "or", "not"):
            depends = frozenset().union(*(a[2] for a in args))
            return *(_logic(op, [a[i] for a in args]) for i in (0, 1)), depends
        if op == "select":
            return self._chosen(*args)
        if op in ("min0", "max0"):
            return self._clipped(op, args[0])
        return self._unary(op, args[0])

    def _term(self, value, args):
        coefficient, powers = value
        result = None
        for x, p in zip(args, powers, strict=True):
            factor = self._radius(p) if x is self._first and self.moves_first else self._power(x, p)
            result = factor if result is None else self._product(result, factor)
        number = self.rational(coefficient)
        return _Series([x.times(number) for x in result.a], result.depends)

    def _zero(self):
        return _Coefficient(self.arb(0), self.arb(0), {})

    def _chosen(self, truth, no, yes):
        inside, at_centre, depends = truth
        a, zero = [], self._zero()
        for i in range(max(len(no.a), len(yes.a))):
            n, y = (s.a[i] if i < len(s.a) else zero for s in (no, yes))
            a.append(self._one_of(inside, at_centre, depends, n, y))
        if inside is None and 0 in depends:  # it may jump along ln r_s
            a = a[:1] + [_Coefficient(self.arb("nan"), self.arb("nan"), {})] * self.order
        return _Series(a, no.depends | yes.depends | depends)

    def _one_of(self, inside, at_centre, depends, n, y):
        pick = lambda truth, u, v: v if truth else u if truth is False else _union(u, v)
        zero, nan, g = self.arb(0), self.arb("nan"), {}
        for k in (set(n.g) | set(y.g) | set(depends)) - ({0} if self.moves_first else set()):
            u, v = n.g.get(k, zero), y.g.get(k, zero)
            g[k] = nan if inside is None and k in depends else pick(inside, u, v)
        return _Coefficient(pick(inside, n.v, y.v), pick(at_centre, n.c, y.c), g)

    def _clipped(self, op, s):
        test = _TESTS["lt0" if op == "min0" else "gt0"]
        x, zero = s.a[0], self.arb(0)
        inside, at_centre = test(x.v), test(x.c)
        pick = lambda truth, v: v if truth else zero if truth is False else _union(v, zero)
        clip = (lambda v: v if v <= 0 else zero if v >= 0 else v.lower().union(zero)) if op == "min0" else (
            lambda v: v if v >= 0 else zero if v <= 0 else v.upper().union(zero)
        )
        a = [_Coefficient(_clip(x.v, op, zero), clip(x.c), {k: pick(inside, g) for k, g in x.g.items()})]
        for i, y in enumerate(s.a[1:]):
            jumps = i > 0 and inside is None  # the first derivative may jump, so the second is unknown
            g = {k: self.arb("nan") if inside is None else pick(inside, v) for k, v in y.g.items()}
            v = self.arb("nan") if jumps else pick(inside, y.v)
            a.append(_Coefficient(v, pick(at_centre, y.c), g))
        return _Series(a, s.depends)


def _union(u, v):
    return v.union(u) if isinstance(v, _Between) else u.union(v)


def _clip(v, op, zero):
    """min(v, 0) or max(v, 0)."""
    if op == "min0":
        return _Between(v.lo.min(zero), v.hi.min(zero))
    return _Between(v.lo.max(zero), v.hi.max(zero))


def _truth(certain, impossible):
    return True if certain else False if impossible else None


_TESTS = {
    "lt0": lambda x: _truth(x < 0, x >= 0),
    "le0": lambda x: _truth(x <= 0, x > 0),
    "gt0": lambda x: _truth(x > 0, x <= 0),
    "ge0": lambda x: _truth(x >= 0, x < 0),
    "eq0": lambda x: _truth(x == 0, x != 0),
    "ne0": lambda x: _truth(x != 0, x == 0),
}


def _logic(op, values):
    if op == "not":
        return None if values[0] is None else not values[0]
    absorbing = op == "or"
    if any(v is absorbing for v in values):
        return absorbing
    return None if any(v is None for v in values) else not absorbing


def _by_method(name):
    return lambda x: getattr(x, name)()


_FUNCTIONS = {
    **{name: _by_method(name) for name in "exp expm1 log log1p atan asinh sinh cosh tanh erf erfc sin cos".split()},
    "lambert_w": _by_method("lambertw"),
    "abs": abs,
    "logistic": lambda x: 1 / (1 + (-x).exp()),
    "cbrt": lambda x: _cube_root(x),
    "sign": _by_method("sgn"),
}


def _cube_root(x):
    if isinstance(x, _Between):
        return _Between(_cube_root(x.lo), _cube_root(x.hi))
    return x.root(3) if x >= 0 else -((-x).root(3)) if x < 0 else x * float("nan")


_SLOPES = {
    "exp": lambda a, x: x.exp(),
    "expm1": lambda a, x: x.exp(),
    "log": lambda a, x: 1 / x,
    "log1p": lambda a, x: 1 / (1 + x),
    "atan": lambda a, x: 1 / (1 + x * x),
    "asinh": lambda a, x: 1 / (1 + x * x).sqrt(),
    "sinh": lambda a, x: x.cosh(),
    "cosh": lambda a, x: x.sinh(),
    "tanh": lambda a, x: 1 - x.tanh() ** 2,
    "sin": lambda a, x: x.cos(),
    "cos": lambda a, x: -x.sin(),
    "erf": lambda a, x: 2 / a.arb.pi().sqrt() * (-x * x).exp(),
    "erfc": lambda a, x: -2 / a.arb.pi().sqrt() * (-x * x).exp(),
    "logistic": lambda a, x: _FUNCTIONS["logistic"](x) * _FUNCTIONS["logistic"](-x),
    "lambert_w": lambda a, x: 1 / (x.lambertw().exp() * (1 + x.lambertw())),
    "abs": lambda a, x: x.sgn(),
    "cbrt": lambda a, x: 1 / (3 * _FUNCTIONS["cbrt"](x) ** 2),
    "sign": lambda a, x: x * 0,
}


def _one_plus(algebra, s, sign=1):
    one = algebra.constant(Fraction(1))
    return algebra._sum(one, _Series([x.times(algebra.arb(sign)) for x in s.a], s.depends))


def _over(algebra, s):
    return algebra._power(s, Fraction(-1))


_SERIES_SLOPES = {
    "log": lambda a, s: _over(a, s),
    "log1p": lambda a, s: _over(a, _one_plus(a, s)),
    "atan": lambda a, s: _over(a, _one_plus(a, a._power(s, Fraction(2)))),
    "asinh": lambda a, s: a._power(_one_plus(a, a._power(s, Fraction(2))), Fraction(-1, 2)),
    "tanh": lambda a, s: _over(a, a._power(_cosh(a, s), Fraction(2))),
    "sinh": lambda a, s: _cosh(a, s),
    "cosh": lambda a, s: _hyperbolic(a, s, -1),
    "erf": lambda a, s: _bell(a, s, 2),
    "erfc": lambda a, s: _bell(a, s, -2),
    "logistic": lambda a, s: _over(a, _squared_sum(a, s)),
    "lambert_w": lambda a, s: _lambert_slope(a, s),
}


def _scaled(a, s, number):
    return _Series([x.times(number) for x in s.a], s.depends)


def _hyperbolic(a, s, sign):
    up, down = a._unary("exp", s), a._unary("exp", _scaled(a, s, a.arb(-1)))
    return _scaled(a, a._sum(up, _scaled(a, down, a.arb(sign))), a.arb(0.5))


def _cosh(a, s):
    return _hyperbolic(a, s, 1)


def _squared_sum(a, s):
    """(exp(x/2) + exp(-x/2))^2, one over the slope of the logistic function."""
    return a._power(_scaled(a, _cosh(a, _scaled(a, s, a.arb(0.5))), a.arb(2)), Fraction(2))


def _bell(a, s, factor):
    squared = _scaled(a, a._power(s, Fraction(2)), a.arb(-1))
    return _scaled(a, a._unary("exp", squared), factor / a.arb.pi().sqrt())


def _lambert_slope(a, s):
    """1 / (exp(W) + x), from W's own coefficients: W' = 1 / (exp(W) (1 + W))."""
    y = [s.a[0].through(_FUNCTIONS["lambert_w"], lambda v: _SLOPES["lambert_w"](a, v))]
    slope = None
    for i in range(1, a.order + 1):
        w = _Series(list(y), s.depends)
        slope = _over(a, a._product(a._unary("exp", w), _one_plus(a, w)))
        total = None
        for j in range(1, i + 1):
            if j < len(s.a) and i - j < len(slope.a):
                part = (s.a[j] * slope.a[i - j]).times(a.rational(Fraction(j, i)))
                total = part if total is None else total + part
        y.append(total)
    return slope


# ---- the walk


def _left_side(flint, inequality: Inequality, lo, hi) -> tuple:
    """Ball of the left side on a box, and its gradient {input: ball}, with the sign of that along input 0."""
    algebra = _OnBalls(flint, lo, hi, inequality.order)
    outputs = evaluate(inequality.program, algebra, algebra.inputs)
    total = algebra.constant(Fraction(inequality.constant))
    first = None
    for output, order, coefficient in inequality.terms:
        number, s = algebra.arb(coefficient), outputs[output]
        if order < len(s.a):
            part = _Series([s.a[order].times(number)], frozenset())
            total = _Series([total.a[0] + part.a[0]], frozenset())
        if 0 in s.depends and algebra.moves_first:
            slope = s.a[order + 1].v * number * (order + 1) if order + 1 < len(s.a) else algebra.arb(0)
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
        v = bound.intersection(v) if v.is_finite() else bound
    return v, gradient


def _holds(flint, inequality, lo, hi, depth=0) -> bool:
    v, gradient = _left_side(flint, inequality, lo, hi)
    if v >= 0:
        return True
    if depth == DEEPEST:
        return False
    wide = [k for k in range(len(lo)) if hi[k] > lo[k]]
    if not wide:
        return False
    weights = {k: _change(gradient.get(k), k, lo, hi) for k in wide}
    k = max(wide, key=lambda j: weights[j] if weights[j] == weights[j] else float("inf"))
    middle = cut(lo[k], hi[k])
    low, high = list(lo), list(hi)
    low[k], high[k] = middle, middle
    return _holds(flint, inequality, lo, high, depth + 1) and _holds(flint, inequality, low, hi, depth + 1)


def _change(slope, k, lo, hi) -> float:
    """How much the left side may change along an input; along the first one the slope is that in its logarithm."""
    if slope is None:
        return 0.0
    size = abs(slope)
    return float(size.hi if isinstance(size, _Between) else size) * (hi[k] - lo[k]) / (hi[0] if k == 0 else 1)


def recheck_tree(inequality: Inequality, tree: list[int], seconds: float | None = None) -> tuple[int, int, bool]:
    """(boxes checked, boxes in all, all of these hold) for the nodes of a tree, each before its children.

    seconds: when they are over, the boxes that are left are not checked; boxes come in a random order then.
    """
    flint = _arb()
    flint.ctx.prec = BITS
    tasks = _tasks(inequality, tree)
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
    tasks, pending = [], [(inequality.lo.tolist(), inequality.hi.tolist())]
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
    _, gradient = _left_side(flint, inequality, lo, hi)
    sides = {k: code // 3**k % 3 for k in range(len(lo)) if code // 3**k % 3}
    zero = flint.arb(0)
    fine = all(gradient.get(k, zero) >= 0 if s == 1 else gradient.get(k, zero) <= 0 for k, s in sides.items())
    if fine or depth == DEEPEST:
        return fine
    k = max(range(len(lo)), key=lambda j: (hi[j] - lo[j]) / max(abs(hi[j]), 1e-3))
    middle = cut(lo[k], hi[k])
    if not lo[k] < middle < hi[k]:
        return False
    low, high = list(lo), list(hi)
    low[k], high[k] = middle, middle
    return all(_is_monotonous(flint, inequality, *box, code, depth + 1) for box in ((lo, high), (low, hi)))


def values_at(program: ScalarProgram, point, bits: int = 220) -> list:
    """Outputs of a factored program at a point, as balls."""
    flint = _arb()
    before, flint.ctx.prec = flint.ctx.prec, bits
    try:
        algebra = _OnBalls(flint, list(point), list(point), 0)
        return [s.a[0].c for s in evaluate(program, algebra, algebra.inputs)]
    finally:
        flint.ctx.prec = before
