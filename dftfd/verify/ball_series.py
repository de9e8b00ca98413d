"""Power series in ln x_0 with gradients, on boxes, in Arb's arithmetic; derivatives by recurrences."""

import copy
from fractions import Fraction

from dftfd.verify.ball_intervals import FUNCTIONS, SLOPES, TESTS, Between, clip, met, union


class Coefficient:
    """v: of the values on the box; c: at the centre; g: {input: v} of the gradient, inputs above 0."""

    __slots__ = ("v", "c", "g")

    def __init__(self, v, c, g):
        self.v, self.c, self.g = v, c, g

    def __add__(self, other):
        g = dict(self.g)
        for k, b in other.g.items():
            g[k] = g[k] + b if k in g else b
        return Coefficient(self.v + other.v, self.c + other.c, g)

    def __mul__(self, other):
        g = {k: a * other.v for k, a in self.g.items()}
        for k, b in other.g.items():
            b = self.v * b
            g[k] = g[k] + b if k in g else b
        return Coefficient(self.v * other.v, self.c * other.c, g)

    def times(self, x):
        return Coefficient(self.v * x, self.c * x, {k: a * x for k, a in self.g.items()})

    def through(self, f, slope):
        """f of it, slope: f' on balls."""
        d = slope(self.v) if self.g else None
        return Coefficient(f(self.v), f(self.c), {k: a * d for k, a in self.g.items()})


class BallSeries:
    """Taylor coefficients in t of f(exp(t) x_0, ...), and the inputs that f depends on."""

    __slots__ = ("a", "depends")

    def __init__(self, a, depends):
        self.a, self.depends = a, depends


class BallArithmetic:
    """Series on one box.   moves_first: whether they are series in ln x_0; else x_0 is a variable like the others."""

    def __init__(self, flint, lo, hi, order, moves_first: bool):
        self.arb, self.order = flint.arb, order + 1 if moves_first else 0
        self._last = self.order  # whose gradient nobody asks for
        centre = [x + 0.5 * (y - x) for x, y in zip(lo, hi, strict=True)]
        self.sides = [self._between(x, y) for x, y in zip(lo, hi, strict=True)]
        self.centres = [self.arb(x) for x in centre]
        self.offsets = [x - m for x, m in zip(self.sides, self.centres, strict=True)]
        self.moves_first = moves_first
        first = (self.sides[0] * (1 / self.centres[0])).log() if self.moves_first else None
        self.first_offset = first
        one = self.arb(1)
        self.inputs = [
            BallSeries([Coefficient(x, m, {k: one} if k or not self.moves_first else {})], frozenset([k]))
            for k, (x, m) in enumerate(zip(self.sides, self.centres, strict=True))
        ]

    def _between(self, lo, hi):
        return Between(self.arb(lo), self.arb(hi))

    def rational(self, x: Fraction):
        return self.arb(x.numerator) / self.arb(x.denominator)

    def radius(self, p: Fraction) -> BallSeries:
        """x_0^p, whose coefficients are x_0^p p^k / k!."""
        v, c = self._to_power(self.sides[0], p), self._to_power(self.centres[0], p)
        exponent, factor, a = self.rational(p), self.arb(1), []
        for i in range(self.order + 1):
            if i:
                factor = factor * exponent / i
            a.append(Coefficient(v * factor, c * factor, {}))
        return BallSeries(a, frozenset([0]))

    def _to_power(self, x, p: Fraction):
        if p.denominator == 1:
            return x ** int(p)
        low, high = (x.lo.lower(), x.hi.upper()) if isinstance(x, Between) else (x.lower(), x.upper())
        if not (low >= 0 and high >= 0):
            return self.arb("nan") + x
        e = self.rational(p)
        ends = [y**e if y > 0 else (self.arb(0) if p > 0 else self.arb("nan")) for y in (low, high)]
        if isinstance(x, Between):
            return Between(*(ends if p > 0 else ends[::-1]))
        return ends[0].union(ends[1])

    def _met(self, s: BallSeries) -> BallSeries:
        """With values as narrow as the mean value theorem makes them."""
        for i, a in enumerate(s.a):
            if i == self.order and self.moves_first:
                break
            bound = a.c
            for k, g in a.g.items():
                bound = bound + g * self.offsets[k]
            if self.moves_first and 0 in s.depends and i + 1 < len(s.a):
                bound = bound + self.first_offset * s.a[i + 1].v * (i + 1)
            if bound.is_finite():
                v = met(bound, a.v) if a.v.is_finite() else bound
                s.a[i] = Coefficient(v, a.c, a.g)
        return s

    # ---- arithmetic of series

    def series_of(self, value: Fraction) -> BallSeries:
        x = self.rational(value)
        return BallSeries([Coefficient(x, x, {})], frozenset())

    def _sum(self, s, t):
        long, short = (s.a, t.a) if len(s.a) >= len(t.a) else (t.a, s.a)
        a = [x + y for x, y in zip(long, short, strict=False)] + long[len(short) :]
        return self._met(BallSeries(a, s.depends | t.depends))

    def _product(self, s, t):
        length = min(len(s.a) + len(t.a) - 1, self.order + 1)
        a = []
        for i in range(length):
            parts = [s.a[j] * t.a[i - j] for j in range(i + 1) if j < len(s.a) and i - j < len(t.a)]
            total = parts[0]
            for p in parts[1:]:
                total = total + p
            a.append(total if i < self._last or not self.moves_first else Coefficient(total.v, total.c, {}))
        return self._met(BallSeries(a, s.depends | t.depends))

    def _integrated(self, start: Coefficient, s: BallSeries, derivative) -> BallSeries:
        """y with y' = x' z: i y_i = sum_j j x_j z_(i-j); derivative: the coefficients of z up to some order."""
        a = [start]
        for i in range(1, self.order + 1 if len(s.a) > 1 else 1):
            z, total = derivative(a, i), None
            for j in range(1, i + 1):
                if j < len(s.a) and i - j < len(z):
                    part = (s.a[j] * z[i - j]).times(self.rational(Fraction(j, i)))
                    total = part if total is None else total + part
            a.append(self._zero() if total is None else total)
        return BallSeries(a, s.depends)

    def _natural_power(self, s, n: int):
        """By squaring; even ones are not negative."""
        result, square = None, s
        while n:
            if n % 2:
                result = square if result is None else self._product(result, square)
            n //= 2
            if n:
                square = self._product(square, square)
                x = square.a[0]
                square.a[0] = Coefficient(clip(x.v, "max0", self.arb(0)), x.c, x.g)
        return result

    def _power(self, s, p: Fraction):
        if p.denominator == 1 and 0 < p <= 64:
            return self._natural_power(s, int(p))
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
        return self._met(BallSeries(y, s.depends))

    def _unary(self, name, s):
        x = s.a[0]
        simple = SLOPES[name]
        y = x.through(getattr(self, f"_{name}", None) or FUNCTIONS[name], lambda v: simple(self, v))
        if len(s.a) == 1:
            return BallSeries([y], s.depends)
        if name in ("exp", "expm1"):
            e = x.through(FUNCTIONS["exp"], FUNCTIONS["exp"])
            result = self._integrated(y, s, lambda a, i: [e, *a[1:i]])
        else:
            z = SERIES_SLOPES[name](self, s)
            result = self._integrated(y, s, lambda a, i: z.a)
        return self._met(result)

    def _zero(self):
        return Coefficient(self.arb(0), self.arb(0), {})

    def _chosen(self, truth, no, yes):
        """Where a switch may lie in the box, all of both; nothing is known of derivatives across it."""
        inside, at_centre, depends = truth
        jumps, a, zero = inside is None and 0 in depends and self.moves_first, [], self._zero()
        for i in range(self.order + 1 if jumps else max(len(no.a), len(yes.a))):
            n, y = (s.a[i] if i < len(s.a) else zero for s in (no, yes))
            a.append(self._unknown() if i and jumps else self._one_of(inside, at_centre, depends, n, y))
        return BallSeries(a, no.depends | yes.depends | depends)

    def _unknown(self):
        nan = self.arb("nan")
        return Coefficient(nan, nan, dict.fromkeys(range(len(self.sides)), nan))

    def _one_of(self, inside, at_centre, depends, n, y):
        pick = lambda truth, u, v: v if truth else u if truth is False else union(u, v)
        zero, nan, g = self.arb(0), self.arb("nan"), {}
        for k in (set(n.g) | set(y.g) | set(depends)) - ({0} if self.moves_first else set()):
            u, v = n.g.get(k, zero), y.g.get(k, zero)
            g[k] = nan if inside is None and k in depends else pick(inside, u, v)
        return Coefficient(pick(inside, n.v, y.v), pick(at_centre, n.c, y.c), g)

    def _clipped(self, op, s):
        """At a kink the first derivative is that of one of the sides, nothing is known of the second."""
        test = TESTS["lt0" if op == "min0" else "gt0"]
        x, zero = s.a[0], self.arb(0)
        inside, at_centre = test(x.v), test(x.c)
        pick = lambda truth, v: v if truth else zero if truth is False else union(v, zero)
        a = [Coefficient(clip(x.v, op, zero), clip(x.c, op, zero), {k: pick(inside, g) for k, g in x.g.items()})]
        for i, y in enumerate(s.a[1:], 1):
            if i > 1 and inside is None:
                a.append(self._unknown())
                continue
            g = {k: self.arb("nan") if inside is None else pick(inside, v) for k, v in y.g.items()}
            a.append(Coefficient(pick(inside, y.v), pick(at_centre, y.c), g))
        return BallSeries(a, s.depends)


def _one_plus(algebra, s, sign=1):
    one = algebra.series_of(Fraction(1))
    return algebra._sum(one, BallSeries([x.times(algebra.arb(sign)) for x in s.a], s.depends))


def _over(algebra, s):
    return algebra._power(s, Fraction(-1))


SERIES_SLOPES = {
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
    "abs": lambda a, s: a._unary("sign", s),
    "sign": lambda a, s: _scaled(a, s, a.arb(0 if s.a[0].v > 0 or s.a[0].v < 0 else "nan")),
    "sin": lambda a, s: _of_order(a, a.order - 1)._unary("cos", _shorter(s)),
    "cos": lambda a, s: _scaled(a, _of_order(a, a.order - 1)._unary("sin", _shorter(s)), a.arb(-1)),
    "cbrt": lambda a, s: _cube_root_slope(a, s),
}


def _scaled(a, s, number):
    return BallSeries([x.times(number) for x in s.a], s.depends)


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


def _of_order(a, order: int):
    """The same arithmetic to a lower order: a coefficient that is missing there is left out, and not zero."""
    lower = copy.copy(a)
    lower.order = order
    return lower


def _shorter(s):
    """Without the last coefficient, which a slope does not need; so the recursion of sine and cosine ends."""
    return BallSeries(s.a[:-1], s.depends)


def _cube_root_slope(a, s):
    """x^(-2/3) / 3 of |x|."""
    size = _scaled(a, s, a.arb(-1)) if s.a[0].v < 0 else s
    return _scaled(a, a._power(size, Fraction(-2, 3)), a.arb(1) / 3)


def _lambert_slope(a, s):
    """1 / (exp(W) + x), from W's own coefficients: W' = 1 / (exp(W) (1 + W))."""
    y = [s.a[0].through(FUNCTIONS["lambert_w"], lambda v: SLOPES["lambert_w"](a, v))]
    slope = None
    for i in range(1, a.order + 1):
        w, b = BallSeries(list(y), s.depends), _of_order(a, i - 1)
        slope = _over(b, b._product(b._unary("exp", w), _one_plus(b, w)))
        total = None
        for j in range(1, i + 1):
            if j < len(s.a) and i - j < len(slope.a):
                part = (s.a[j] * slope.a[i - j]).times(a.rational(Fraction(j, i)))
                total = part if total is None else total + part
        y.append(total)
    return slope
