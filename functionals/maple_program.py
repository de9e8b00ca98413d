"""Meaning of formulas in libxc's notation: a program of definitions, and calls of what it defines on values of JAX.

As in Maple, a definition is worked out where it stands as far as its names are known by then, and for the rest when it
is asked for; procedures look their names up when they are called. What a formula may do is what stands here: nothing of
a file is executed as Python.

A function takes values. A form sees its arguments before they are worked out: it binds a variable (add, series, diff),
or chooses which of them count (piecewise). `work` is the `dftfd.functionals.maple_program.Evaluation` that asks.
"""

import functools
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import FunctionalError, shown
from dftfd.functionals import maple_numbers as numbers
from dftfd.functionals.maple_numbers import (
    OF_ONE_NUMBER,
    PI,
    Series,
    in_context,
    is_constant,
    is_known,
    is_zero,
    plain,
    require_condition,
    require_number,
)
from dftfd.functionals.maple_text import (
    MAX_ENTRIES,
    MAX_ORDER,
    Assignment,
    Choice,
    Listing,
    Name,
    Operation,
    Procedure,
    Range,
    bounded,
    derivative,
    spend,
)

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
        raise FunctionalError("throw_out_large_n of what is not a series.")
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
        raise FunctionalError("nops of what is not a list.")
    return x


def _larger(a, b):
    a, b = map(require_number, (a, b))
    return max(a, b) if is_known(a) and is_known(b) else jnp.maximum(plain(a), plain(b))


def _smaller(a, b):
    a, b = map(require_number, (a, b))
    return min(a, b) if is_known(a) and is_known(b) else jnp.minimum(plain(a), plain(b))


PARAMETER = "params_a_"
"""What names of parameters begin with."""

_COMPARED = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
_CONSTANTS: dict[str, Any] = {
    "Pi": PI,
    "DBL_EPSILON": sys.float_info.epsilon,
    "M_PI": PI,
    "Digits": Fraction(20),
    "true": True,
    "false": False,
    "Polarization": "pol",
}


@dataclass(frozen=True, eq=False)
class Later:
    """A definition that could not be worked out where it stands, with what was known there."""

    value: Any
    known: Mapping[str, Any]


class Definitions:
    """What the statements of a formula define, by name.

    own_parameters: whether numbers that a text gives to params_a_NAME stay open, as `parameters` by NAME.
    """

    def __init__(self, statements, own_parameters=False):
        self.names: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.own_parameters = own_parameters
        work = Evaluation(self.names, lambda name: None)
        with bounded("a definition"), in_context():
            for statement in statements:
                self._define(work, statement)

    def _define(self, work, statement):
        if isinstance(statement, Choice):
            for inner in work.chosen(statement, {}):
                self._define(work, inner)
        elif isinstance(statement, Assignment):
            try:
                value = work.value(statement.value, {})
            except UnknownName:
                spend(len(self.names))
                value = Later(statement.value, dict(self.names))
            if self.own_parameters and statement.name.startswith(PARAMETER) and _is_open(value):
                self.parameters[statement.name.removeprefix(PARAMETER)] = _as_floats(value)
                self.names.pop(statement.name, None)
            else:
                self.names[statement.name] = value


def _is_open(value) -> bool:
    """Whether a value can be a parameter: a number, or a list of numbers."""
    return all(map(_is_open, value)) if isinstance(value, tuple) else is_known(value) and not isinstance(value, bool)


def _as_floats(value):
    return tuple(map(_as_floats, value)) if isinstance(value, tuple) else float(plain(value))


class Evaluation:
    """One evaluation of a formula: what was worked out stays while it lasts.

    given: value of a name that no definition has, such as a parameter; None for names that it does not know.
    """

    def __init__(self, names: Mapping[str, Any], given: Callable[[str], Any]):
        self.names, self.given = names, given
        self.results: dict[tuple, tuple] = {}
        self.later: dict[int, Any] = {}

    def run(self, name: str, *arguments: Any) -> Any:
        """The value of a procedure of this name."""
        with bounded(name), in_context():
            return require_number(self.apply(self.look_up(name, {}), arguments))

    # ---- names

    def look_up(self, name, local):
        if name in local:
            return local[name]
        if name in self.names:
            found = self.names[name]
            return self._worked_out(found) if isinstance(found, Later) else found
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        found = self.given(name)
        if found is None:
            raise UnknownName(f"{name!r} stands for nothing.")
        return found

    def _worked_out(self, later):
        if id(later) not in self.later:
            missing = object()
            self.later[id(later)] = missing
            self.later[id(later)] = self.value(later.value, later.known)
        found = self.later[id(later)]
        if type(found) is object:
            raise FunctionalError("a definition in terms of itself.")
        return self._worked_out(found) if isinstance(found, Later) else found

    # ---- expressions

    def value(self, tree, local) -> Any:
        spend(1)
        return getattr(self, f"_{type(tree).__name__.lower()}")(tree, local)

    def _number(self, tree, local):
        return tree.value

    def _text(self, tree, local):
        return tree.text

    def _name(self, tree, local):
        found = self.look_up(tree.name, local)
        return self._worked_out(found) if isinstance(found, Later) else found

    def _listing(self, tree, local):
        parts = (self.value(part, local) for part in tree.parts)
        return Values(entry for part in parts for entry in (part if isinstance(part, Sequence) else (part,)))

    def _procedure(self, tree, local):
        spend(len(local))
        return Closure(tree, dict(local))

    def _choice(self, tree, local):
        return self._block(self.chosen(tree, local), dict(local))

    def _assignment(self, tree, local):
        raise FunctionalError(f"{tree.name} := ... inside of an expression.")

    def _range(self, tree, local):
        raise FunctionalError("a range a..b outside of add and seq.")

    def _entry(self, tree, local):
        array, index = self.value(tree.array, local), self.value(tree.index, local)
        place = integer(index) - 1
        if not isinstance(array, tuple | np.ndarray | jax.Array) or not np.ndim(array):
            raise FunctionalError("an index behind what is not a list.")
        if not 0 <= place < len(array):
            raise FunctionalError(f"entry {shown(place + 1)} of a list of {len(array)}.")
        return array[place]

    def _operation(self, tree, local):
        sign = tree.sign
        if sign in ("and", "or"):
            return self._joined(sign, *(require_condition(self.value(part, local)) for part in tree.parts))
        if sign == "not":
            inner = require_condition(self.value(tree.parts[0], local))
            return not inner if isinstance(inner, bool) else jnp.logical_not(inner)
        parts = [self.value(part, local) for part in tree.parts]
        if sign in ("=", "<>"):
            return self._is_same(*parts) == (sign == "=")
        key = self._key(sign, parts)  # equal expressions of the same values are one value
        if key not in self.results:
            self.results[key] = self._joined_values(sign, parts), sign, parts
        return self.results[key][0]

    @staticmethod
    def _joined_values(sign, parts):
        if sign == "neg":
            return numbers.negative(parts[0])
        if sign == "-":
            return numbers.add(parts[0], numbers.negative(parts[1]))
        if sign in _COMPARED:
            a, b = map(require_number, parts)
            a, b = (a, b) if is_constant(a) and is_constant(b) else (plain(a), plain(b))
            return _COMPARED[sign](a, b)
        return {"+": numbers.add, "*": numbers.multiply, "/": numbers.divide, "^": numbers.power}[sign](*parts)

    @staticmethod
    def _is_same(a, b):
        """Equality as Maple sees it: of numbers and texts, not of what a variable happens to be."""
        known = (is_known(a) and is_known(b)) or (isinstance(a, str) and isinstance(b, str))
        return a == b if known else a is b

    @staticmethod
    def _joined(sign, a, b):
        if isinstance(a, bool) and isinstance(b, bool):
            return a and b if sign == "and" else a or b
        for known, other in ((a, b), (b, a)):
            if isinstance(known, bool):
                return other if known == (sign == "and") else known
        return jnp.logical_and(a, b) if sign == "and" else jnp.logical_or(a, b)

    def chosen(self, tree, local):
        """The statements of the branch whose condition holds."""
        for condition, statements in tree.branches:
            found = True if condition is None else self.value(condition, local)
            if not isinstance(found, bool):
                raise FunctionalError("if ... then with a condition that the density decides; use piecewise.")
            if found:
                return statements
        return ()

    # ---- calls

    def _call(self, tree, local):
        if isinstance(tree.function, Name):
            name = tree.function.name
            if name not in local and name not in self.names and name in FORMS:
                return FORMS[name](self, tree.arguments, local)
            if name in FORMS_OF_LIBXC:
                return FORMS_OF_LIBXC[name](self, tree.arguments, local)
        arguments = [self.value(argument, local) for argument in tree.arguments]
        if isinstance(tree.function, Name) and name not in local and name not in self.names:
            key = self._key(name, arguments)
            if key not in self.results:
                self.results[key] = self._built_in(name, arguments), name, arguments
            return self.results[key][0]
        return self.apply(self.value(tree.function, local), arguments)

    def _built_in(self, name, arguments):
        if name in OF_ONE_NUMBER and len(arguments) == 1:
            return numbers.function(name, arguments[0])
        found = FUNCTIONS.get(name)
        if found is None:
            found = self.given(name)
            if not callable(found):
                raise UnknownName(f"the function {name} of {len(arguments)} arguments stands for nothing.")
        try:
            return found(*arguments)
        except TypeError as error:
            raise FunctionalError(f"{name} with {len(arguments)} arguments: {error}") from error

    @staticmethod
    def _key(function, arguments):
        """What tells a call from others in one evaluation: the arguments themselves, which are kept with the result."""
        return (function, *((a,) if isinstance(a, Fraction) else id(a) for a in arguments))

    def apply(self, function, arguments) -> Any:
        """A procedure of values; a result is remembered with them."""
        if not isinstance(function, Closure):
            if callable(function):
                return function(*arguments)
            return function  # Maple: a number as a function is the number
        key = self._key(id(function), arguments)
        if key not in self.results:
            names = function.procedure.arguments
            spend(len(function.around) + len(names))
            local = {**function.around, **dict(zip(names, arguments, strict=False))}
            # arguments are kept so that no other object takes their place in memory
            self.results[key] = self._block(function.procedure.body, local), function, arguments
        return self.results[key][0]

    def _block(self, statements, local):
        """The value of the last statement; assignments are the block's own."""
        result: Any = None
        for statement in statements:
            if isinstance(statement, Assignment):
                local[statement.name] = self.value(statement.value, local)
            else:
                result = self.value(statement, local)
        if result is None:
            raise FunctionalError("a procedure without a value.")
        return result
