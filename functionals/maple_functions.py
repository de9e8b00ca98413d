"""Functions and forms of formulas in libxc's notation, by name.

A function takes values. A form sees its arguments before they are worked out: it binds a variable (add, series, diff),
or chooses which of them count (piecewise). `work` is the `dftfd.functionals.maple_program.Evaluation` that asks.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp

from dftfd.errors import FunctionalError, shown
from dftfd.functionals import maple_numbers as numbers
from dftfd.functionals.maple_limits import MAX_ENTRIES, MAX_ORDER, derivative, spend
from dftfd.functionals.maple_numbers import Series
from dftfd.functionals.maple_scalars import is_known, is_zero, plain, require_condition, require_number
from dftfd.functionals.maple_text import Listing, Name, Operation, Procedure, Range

_PADDING = 4


class Values(tuple):
    """A list.   entries: of it and of all lists in it, which may be one list many times."""

    entries: int

    def __new__(cls, values):
        found = super().__new__(cls, values)
        found.entries = sum(getattr(value, "entries", 1) for value in found)
        spend(len(found))
        if found.entries > MAX_ENTRIES:
            raise FunctionalError(f"a list of {found.entries} entries; {MAX_ENTRIES} are allowed.")
        return found


class Sequence(Values):
    """Values side by side, without brackets of their own."""


class UnknownName(FunctionalError):
    """A name that stands for nothing yet."""


@dataclass(frozen=True, eq=False)
class Closure:
    """A procedure with the arguments of those around it."""

    procedure: Procedure
    around: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Expansion:
    """A truncated series of a named variable: coefficients by the power of t, x = t or x = sign / t at infinity."""

    variable: str
    terms: Mapping[int, Any]
    sign: int
    at_infinity: bool

    def at(self, x):
        t = numbers.divide(Fraction(self.sign), x) if self.at_infinity else x
        low = min(self.terms, default=0)
        total: Any = Fraction(0)
        for k in sorted(self.terms, reverse=True):  # Horner
            total = numbers.add(numbers.multiply(total, t) if total is not None else total, self.terms[k])
        return numbers.multiply(total, numbers.power(t, Fraction(low)))

    def without_high_powers(self, limit):
        kept = {k: c for k, c in self.terms.items() if abs(k) <= limit and not is_zero(c)}
        filled = {k: kept.get(k, Fraction(0)) for k in range(min(kept, default=0), max(kept, default=0) + 1)}
        return Expansion(self.variable, filled, self.sign, self.at_infinity)


def integer(x: Any) -> int:
    if isinstance(x, Fraction) and x.denominator == 1:
        return int(x)
    raise FunctionalError(f"{shown(x, 40)} where a whole number is expected.")


def _variable(tree) -> str:
    if isinstance(tree, Name):
        return tree.name
    raise FunctionalError("an expression where the name of a variable is expected.")


def _repeated(work, arguments, local):
    """Values of the first argument for each number of a range, i = first..last."""
    if len(arguments) != 2 or not isinstance(arguments[1], Operation) or arguments[1].sign != "=":
        raise FunctionalError("add and seq: (expression, i = first..last) expected.")
    name, interval = arguments[1].parts
    if not isinstance(interval, Range):
        raise FunctionalError("add and seq: i = first..last expected.")
    first, last = (integer(work.value(end, local)) for end in (interval.first, interval.last))
    if last - first > MAX_ENTRIES:
        raise FunctionalError(f"{shown(last - first)} terms; {MAX_ENTRIES} are allowed.")
    spend(len(local) * max(0, last - first + 1))
    return [work.value(arguments[0], {**local, _variable(name): Fraction(i)}) for i in range(first, last + 1)]


def _bound(work, tree, local):
    """Names with values from x = a or [x = a, y = b]."""
    equations = tree.parts if isinstance(tree, Listing) else (tree,)
    if not all(isinstance(e, Operation) and e.sign == "=" for e in equations):
        raise FunctionalError("eval: (expression, x = value) expected.")
    return {e.parts[0].name if isinstance(e.parts[0], Name) else "?": work.value(e.parts[1], local) for e in equations}


def _series(work, arguments, local):
    """series(expression, x = point, order) in powers of x - point; taylor the same."""
    if len(arguments) != 3 or not isinstance(arguments[1], Operation) or arguments[1].sign != "=":
        raise FunctionalError("series: (expression, x = point, order) expected.")
    name, point = _variable(arguments[1].parts[0]), arguments[1].parts[1]
    order = integer(work.value(arguments[2], local))
    sign = -1 if isinstance(point, Operation) and point.sign == "neg" else 1
    inner = point.parts[0] if isinstance(point, Operation) and point.sign == "neg" else point
    at_infinity = isinstance(inner, Name) and inner.name == "infinity"
    if not 0 < order <= MAX_ORDER:
        raise FunctionalError(f"a series of order {shown(order)}; 1 to {MAX_ORDER} expected.")
    if not at_infinity and not is_zero(work.value(point, local)):
        raise FunctionalError("series are known around zero and infinity.")
    # what divides by the variable takes terms away, so some more are carried
    variable = Series.variable(sign if at_infinity else 1, -1 if at_infinity else 1, 2 * order + _PADDING)
    found = work.value(arguments[0], {**local, name: variable})
    found = found if isinstance(found, Series) else Series(0, [found])
    kept = [found.of(k) for k in range(found.least, min(found.end, order))]
    if found.end < order:
        raise FunctionalError(f"a series that loses too many terms: {order} wanted, {found.end} known.")
    return Expansion(name, {k: c for k, c in enumerate(kept, found.least)}, sign if at_infinity else 1, at_infinity)


def _require(arguments, counts, message):
    if len(arguments) not in counts:
        raise FunctionalError(message)


# ---- forms, which see their arguments before they are worked out


def _eval(work, arguments, local):
    _require(arguments, (1, 2), "eval: (expression, x = value) expected.")
    if len(arguments) == 1:
        return work.value(arguments[0], local)
    bound = _bound(work, arguments[1], local)
    found = work.value(arguments[0], {**local, **bound})
    if isinstance(found, Expansion) and found.variable in bound:
        return found.at(bound[found.variable])
    return found


def _diff(work, arguments, local):
    """The derivative of an expression at the value that its variable has."""
    if len(arguments) != 2:
        raise FunctionalError("diff: (expression, variable) expected.")
    name = _variable(arguments[1])
    if name not in local:
        raise UnknownName(f"diff by {name!r}, which has no value; eval(diff(...), {name} = ...) gives it one.")

    def of(x):
        inner = type(work)(work.names, work.given)
        return jnp.asarray(plain(require_number(inner.value(arguments[0], {**local, name: x}))), float)

    at = jnp.asarray(plain(require_number(local[name])), float)
    with derivative():
        return jax.jvp(of, (at,), (jnp.ones_like(at),))[1]


def _convert(work, arguments, local):
    if len(arguments) != 2 or arguments[1] != Name("polynom"):
        raise FunctionalError("convert: (series, polynom) is known.")
    return work.value(arguments[0], local)


def _first(work, arguments, local):
    _require(arguments, (1, 2, 3), "simplify, evalf, evalb: an expression expected.")
    return work.value(arguments[0], local)


def _piecewise(work, arguments, local):
    """Value behind the first condition that holds, else the last; both sides are worked out unless it is known."""
    if len(arguments) < 2:
        raise FunctionalError("piecewise: (condition, value, ..., value) expected.")
    condition = require_condition(work.value(arguments[0], local))
    rest = arguments[2:]
    following = lambda: (
        Fraction(0) if not rest else work.value(rest[0], local) if len(rest) == 1 else _piecewise(work, rest, local)
    )
    if isinstance(condition, bool):
        return work.value(arguments[1], local) if condition else following()
    yes, no = (plain(require_number(branch)) for branch in (work.value(arguments[1], local), following()))
    return jnp.where(condition, yes, no)


def _truncated(work, arguments, local):
    """libxc's throw_out_large_n(series, n): powers up to n."""
    _require(arguments, (2,), "throw_out_large_n: (series, n) expected.")
    expansion, limit = (work.value(a, local) for a in arguments)
    if not isinstance(expansion, Expansion):
        raise FunctionalError("throw_out_large_n of what is no series.")
    return expansion.without_high_powers(integer(limit))


def _product(work, arguments, local):
    return functools.reduce(numbers.multiply, _repeated(work, arguments, local), Fraction(1))


FORMS: dict[str, Callable[[Any, tuple, Mapping], Any]] = {
    "eval": _eval,
    "diff": _diff,
    "convert": _convert,
    "simplify": _first,
    "evalf": _first,
    "evalb": _first,
    "piecewise": _piecewise,
    "my_piecewise3": _piecewise,
    "my_piecewise5": _piecewise,
    "series": _series,
    "taylor": _series,
    "add": lambda work, arguments, local: functools.reduce(
        numbers.add, _repeated(work, arguments, local), Fraction(0)
    ),
    "sum": lambda work, arguments, local: functools.reduce(
        numbers.add, _repeated(work, arguments, local), Fraction(0)
    ),
    "mul": _product,
    "seq": lambda work, arguments, local: Sequence(_repeated(work, arguments, local)),
}  # fmt: skip
FORMS_OF_LIBXC = {"throw_out_large_n": _truncated}
"""Whatever libxc's own text of them says."""


def _arctan(y, x):
    """The angle of (x, y) for x > 0."""
    return numbers.function("arctan", numbers.divide(y, x))


def _recurrence(n, x, step):
    """Polynomials P_0 = 1, P_1 = x, P_(k+1) = step(k, x P_k, P_(k-1))."""
    if not isinstance(n, Fraction) or n.denominator != 1 or not 0 <= n <= 200:
        raise FunctionalError(f"a polynomial of order {shown(n)}; a whole number up to 200 expected.")
    before, now = Fraction(1), x
    if n == 0:
        return before
    spend(3 * int(n))
    for k in range(1, int(n)):
        before, now = now, step(k, numbers.multiply(x, now), before)
    return now


def _legendre(n, x):
    step = lambda k, xp, before: numbers.add(
        numbers.multiply(Fraction(2 * k + 1, k + 1), xp), numbers.multiply(Fraction(-k, k + 1), before)
    )
    return _recurrence(n, x, step)


def _chebyshev(n, x):
    return _recurrence(
        n, x, lambda k, xp, before: numbers.add(numbers.multiply(Fraction(2), xp), numbers.negative(before))
    )


def _zeta(n):
    if integer(n) != 3:
        raise FunctionalError("Zeta(3) is known.")
    return 1.2020569031595942854


def _bessel_i(n, x):
    if integer(n) not in (0, 1):
        raise FunctionalError("BesselI of order 0 and 1 is known.")
    scaled = (jax.scipy.special.i0e, jax.scipy.special.i1e)[int(n)]
    x = jnp.asarray(plain(require_number(x)), float)
    return scaled(x) * jnp.exp(jnp.abs(x))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": numbers.exp,
    "log": numbers.log,
    "ln": numbers.log,
    "sqrt": lambda x: numbers.power(x, Fraction(1, 2)),
    "cbrt": lambda x: numbers.power(x, Fraction(1, 3)),
    "arctan": _arctan,
    "max": lambda x, *xs: functools.reduce(_larger, xs, x),
    "min": lambda x, *xs: functools.reduce(_smaller, xs, x),
    "P": _legendre,
    "ChebyshevT": _chebyshev,
    "Zeta": _zeta,
    "BesselI": _bessel_i,
    "nops": lambda x: Fraction(len(_list(x))),
}  # fmt: skip


def _list(x):
    if not isinstance(x, tuple):
        raise FunctionalError("nops of what is no list.")
    return x


def _larger(a, b):
    a, b = map(require_number, (a, b))
    return max(a, b) if is_known(a) and is_known(b) else jnp.maximum(plain(a), plain(b))


def _smaller(a, b):
    a, b = map(require_number, (a, b))
    return min(a, b) if is_known(a) and is_known(b) else jnp.minimum(plain(a), plain(b))
