"""Intervals whose ends are Arb's balls, and functions of them; for the second check of proofs alone."""


class Between:
    """Numbers from lo to hi, whose ends are balls: not below the least of lo, not above the largest of hi."""

    __slots__ = ("lo", "hi")

    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi

    def __add__(self, other):
        if isinstance(other, Between):
            return Between(self.lo + other.lo, self.hi + other.hi)
        return Between(self.lo + other, self.hi + other)

    __radd__ = __add__

    def __neg__(self):
        return Between(-self.hi, -self.lo)

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        if not isinstance(other, Between):
            if other >= 0:
                return Between(self.lo * other, self.hi * other)
            if other <= 0:
                return Between(self.hi * other, self.lo * other)
            other = Between(other, other)
        if self.lo >= 0 and other.lo >= 0:
            return Between(self.lo * other.lo, self.hi * other.hi)
        products = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        low, high = products[0], products[0]
        for x in products[1:]:
            low, high = low.min(x), high.max(x)
        return Between(low, high)

    __rmul__ = __mul__

    def __rtruediv__(self, number):
        if not (self.lo > 0 or self.hi < 0):
            unknown = self.lo * float("nan")
            return Between(unknown, unknown)
        return Between(1 / self.hi, 1 / self.lo) * number

    def __pow__(self, n: int):
        if n < 0:
            return 1 / self**-n
        if n % 2 == 0 and not self.lo >= 0:
            size = abs(self)
            return Between(size.lo**n, size.hi**n)
        return Between(self.lo**n, self.hi**n)

    def __abs__(self):
        if self.lo >= 0:
            return self
        if self.hi <= 0:
            return -self
        return Between(self.lo * 0, (-self.lo).max(self.hi))

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

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def is_exact():
        return False

    def is_finite(self):
        return self.lo.is_finite() and self.hi.is_finite()

    def union(self, other):
        lows, highs = _ends(self, other)
        return Between(lows[0].min(lows[1]), highs[0].max(highs[1]))

    def intersection(self, other):
        lows, highs = _ends(self, other)
        return Between(lows[0].max(lows[1]), highs[0].min(highs[1]))

    def through(self, name):
        """An increasing function of Arb's, by its name."""
        return Between(getattr(self.lo, name)(), getattr(self.hi, name)())

    def erfc(self):
        return Between(self.hi.erfc(), self.lo.erfc())

    def cosh(self):
        return abs(self).through("cosh")

    def sgn(self):
        return self.through("sgn")

    def sin(self):
        return self.lo.union(self.hi).sin()

    def cos(self):
        return self.lo.union(self.hi).cos()


for _name in "exp expm1 log log1p atan asinh sinh tanh erf lambertw sqrt".split():
    setattr(Between, _name, lambda self, name=_name: self.through(name))


def _ends(u, v):
    """Lower and upper ends as numbers: of 0 and a wide ball, the larger one would be a ball around 0."""
    pairs = [(x.lo, x.hi) if isinstance(x, Between) else (x, x) for x in (u, v)]
    return [lo.lower() for lo, _ in pairs], [hi.upper() for _, hi in pairs]


def union(u, v):
    return Between(u, u).union(v) if not isinstance(u, Between) else u.union(v)


def met(u, v):
    return v.intersection(u) if isinstance(v, Between) else u.intersection(v)


def clip(v, op, zero):
    """min(v, 0) or max(v, 0)."""
    if not isinstance(v, Between):
        return v.min(zero) if op == "min0" else v.max(zero)
    if op == "min0":
        return Between(v.lo.min(zero), v.hi.min(zero))
    return Between(v.lo.max(zero), v.hi.max(zero))


def _truth(certain, impossible):
    return True if certain else False if impossible else None


TESTS = {
    "lt0": lambda x: _truth(x < 0, x >= 0),
    "le0": lambda x: _truth(x <= 0, x > 0),
    "gt0": lambda x: _truth(x > 0, x <= 0),
    "ge0": lambda x: _truth(x >= 0, x < 0),
    "eq0": lambda x: _truth(x == 0, x != 0),
    "ne0": lambda x: _truth(x != 0, x == 0),
}


def logic(op, values):
    if op == "not":
        return None if values[0] is None else not values[0]
    absorbing = op == "or"
    if any(v is absorbing for v in values):
        return absorbing
    return None if any(v is None for v in values) else not absorbing


def _by_method(name):
    return lambda x: getattr(x, name)()


FUNCTIONS = {
    **{name: _by_method(name) for name in "exp expm1 log log1p atan asinh sinh cosh tanh erf erfc sin cos".split()},
    "lambert_w": _by_method("lambertw"),
    "abs": abs,
    "logistic": lambda x: 1 / (1 + (-x).exp()),
    "cbrt": lambda x: _cube_root(x),
    "sign": _by_method("sgn"),
}


def _cube_root(x):
    if isinstance(x, Between):
        return Between(_cube_root(x.lo), _cube_root(x.hi))
    return x.root(3) if x >= 0 else -((-x).root(3)) if x < 0 else x * float("nan")


SLOPES = {
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
    "logistic": lambda a, x: FUNCTIONS["logistic"](x) * FUNCTIONS["logistic"](-x),
    "lambert_w": lambda a, x: 1 / (x.lambertw().exp() * (1 + x.lambertw())),
    "abs": lambda a, x: x.sgn(),
    "cbrt": lambda a, x: 1 / (3 * FUNCTIONS["cbrt"](x) ** 2),
    "sign": lambda a, x: x * (0 if x > 0 or x < 0 else float("nan")),
}
