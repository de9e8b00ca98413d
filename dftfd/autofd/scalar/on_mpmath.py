"""Programs in numbers of extended precision, which need mpmath."""

from dftfd.autofd.scalar.on_objects import NotInAlgebra, Objects
from dftfd.errors import MissingDependencyError

try:
    import mpmath as mpmath
except ImportError as error:
    raise MissingDependencyError("extended precision needs mpmath: pip install 'dftfd[verify]'.") from error

FUNCTIONS = {
    "abs": abs,
    "sign": mpmath.sign,
    "max": max,
    "min": min,
    "clamp": lambda low, x, high: min(max(low, x), high),
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda a: 1 / mpmath.sqrt(a),
    "cbrt": lambda a: mpmath.sign(a) * mpmath.cbrt(abs(a)),
    "exp": mpmath.exp,
    "exp2": lambda a: mpmath.mpf(2) ** a,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "logistic": lambda a: 1 / (1 + mpmath.exp(-a)),
    **{name: getattr(mpmath, name) for name in "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh".split()},
    "atan2": mpmath.atan2,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "erf_inv": mpmath.erfinv,
    "lgamma": lambda a: mpmath.log(abs(mpmath.gamma(a))),
    "digamma": mpmath.digamma,
    "pow": lambda a, b: a**b,
    "floor": mpmath.floor,
    "ceil": mpmath.ceil,
    "is_finite": mpmath.isfinite,
    "gt": lambda a, b: a > b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: _truth(a) and _truth(b),
    "or": lambda a, b: _truth(a) or _truth(b),
    "xor": lambda a, b: _truth(a) != _truth(b),
    "not": lambda a: not _truth(a),
}


class OnMpmath(Objects):
    """Scalars are mpmath numbers, integers and truth values. What has no real value is NaN, as in float64: a branch of
    a choice that is not taken need not have one.

    exact: by name, functions with derivative rules as (count of results, *operands) -> list of results; others are
    followed through their program.
    """

    functions = FUNCTIONS

    def __init__(self, exact: dict | None = None):
        self.exact = exact or {}

    def constant(self, value):
        if value.dtype.kind == "f":
            return mpmath.mpf(float(value))
        return bool(value) if value.dtype.kind == "b" else int(value)

    def custom(self, code, args):
        if code.name not in self.exact or any(v.aval.shape for v in (*code.operands, *code.eqn.outvars)):
            return None
        operands = [x if isinstance(x, mpmath.mpf | int) else mpmath.mpf(float(x)) for x in code.numbers(args)]
        return [[result] for result in self.exact[code.name](len(code.eqn.outvars), *operands)]

    def apply(self, node, args):
        try:
            value = super().apply(node, args)
        except (ZeroDivisionError, ValueError):  # at a pole
            return mpmath.nan
        return mpmath.nan if isinstance(value, mpmath.mpc) else value

    def choose(self, condition, cases):
        return cases[int(condition)]


def _truth(value) -> bool:
    if not isinstance(value, bool):
        raise NotInAlgebra("an operation on the bits of integers")
    return value
