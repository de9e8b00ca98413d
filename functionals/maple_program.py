"""Meaning of formulas in libxc's notation: a program of definitions, and calls of what it defines on values of JAX.

As in Maple, a definition is worked out where it stands as far as its names are known by then, and for the rest when it
is asked for; procedures look their names up when they are called. What a formula may do is what stands here: nothing of
a file is executed as Python.
"""

import functools
import math
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp

from dftfd.errors import FunctionalError
from dftfd.functionals import maple_numbers as numbers
from dftfd.functionals.maple_numbers import Series, is_known
from dftfd.functionals.maple_text import (
    Assignment,
    Call,
    Choice,
    Entry,
    Listing,
    Name,
    Number,
    Operation,
    Procedure,
    Range,
    Text,
)

MAX_CALLS, MAX_TERMS = 2_000_000, 10_000
_PADDING = 4
PARAMETER = "params_a_"
"""What names of parameters begin with."""
_COMPARED = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
_CONSTANTS: dict[str, Any] = {
    "Pi": numbers.PI,
    "DBL_EPSILON": sys.float_info.epsilon,
    "M_PI": numbers.PI,
    "Digits": Fraction(20),
    "true": True,
    "false": False,
    "Polarization": "pol",
}


class Sequence(tuple):
    """Values side by side, without brackets of their own."""


class UnknownName(FunctionalError):
    """A name that stands for nothing yet."""


@dataclass(frozen=True, eq=False)
class Closure:
    """A procedure with the arguments of those around it."""

    procedure: Procedure
    around: Mapping[str, Any]


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
        with numbers.in_context():
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
    return tuple(map(_as_floats, value)) if isinstance(value, tuple) else float(value)


class Evaluation:
    """One evaluation of a formula: what was worked out stays while it lasts.

    given: value of a name that no definition has, such as a parameter; None for names that it does not know.
    """

    def __init__(self, names: Mapping[str, Any], given: Callable[[str], Any]):
        self.names, self.given, self.calls = names, given, 0
        self.results: dict[tuple, tuple] = {}
        self.later: dict[int, Any] = {}

    def run(self, name: str, *arguments: Any) -> Any:
        """The value of a procedure of this name."""
        with numbers.in_context():
            try:
                return self.apply(self.look_up(name, {}), arguments)
            except RecursionError as error:
                raise FunctionalError(f"{name}: a definition that calls itself without end.") from error

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
        return tuple(entry for part in parts for entry in (part if isinstance(part, Sequence) else (part,)))

    def _procedure(self, tree, local):
        return Closure(tree, dict(local))

    def _choice(self, tree, local):
        return self._block(self.chosen(tree, local), dict(local))

    def _assignment(self, tree, local):
        raise FunctionalError(f"{tree.name} := ... inside of an expression.")

    def _range(self, tree, local):
        raise FunctionalError("a range a..b outside of add and seq.")

    def _entry(self, tree, local):
        array, index = self.value(tree.array, local), self.value(tree.index, local)
        place = self._integer(index) - 1
        if isinstance(array, Series | Closure | str | Fraction | float) or not hasattr(array, "__len__"):
            raise FunctionalError("an index behind what is no list.")
        if not 0 <= place < len(array):
            raise FunctionalError(f"entry {place + 1} of a list of {len(array)}.")
        return array[place]

    def _operation(self, tree, local):
        sign = tree.sign
        if sign in ("and", "or"):
            return self._joined(sign, *(self.value(part, local) for part in tree.parts))
        if sign == "not":
            inner = self.value(tree.parts[0], local)
            return not inner if isinstance(inner, bool) else jnp.logical_not(inner)
        parts = [self.value(part, local) for part in tree.parts]
        if sign == "neg":
            return numbers.negative(parts[0])
        if sign == "-":
            return numbers.add(parts[0], numbers.negative(parts[1]))
        if sign in _COMPARED:
            a, b = map(numbers.plain, parts) if not all(map(numbers.is_constant, parts)) else parts
            return _COMPARED[sign](a, b)
        if sign in ("=", "<>"):
            return self._is_same(*parts) == (sign == "=")
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
            if name not in local and name not in self.names and name in _FORMS:
                return _FORMS[name](self, tree.arguments, local)
            if name in _FORMS_OF_LIBXC:
                return _FORMS_OF_LIBXC[name](self, tree.arguments, local)
        arguments = [self.value(argument, local) for argument in tree.arguments]
        if isinstance(tree.function, Name) and name not in local and name not in self.names:
            return self._built_in(name, arguments)
        return self.apply(self.value(tree.function, local), arguments)

    def _built_in(self, name, arguments):
        if name in numbers.FUNCTIONS and len(arguments) == 1:
            return numbers.function(name, arguments[0])
        found = _FUNCTIONS.get(name)
        if found is None:
            found = self.given(name)
            if not callable(found):
                raise UnknownName(f"the function {name} of {len(arguments)} arguments stands for nothing.")
        try:
            return found(*arguments)
        except TypeError as error:
            raise FunctionalError(f"{name} with {len(arguments)} arguments: {error}") from error

    def apply(self, function, arguments) -> Any:
        """A procedure of values; a result is remembered with them."""
        if not isinstance(function, Closure):
            if callable(function):
                return function(*arguments)
            return function  # Maple: a number as a function is the number
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise FunctionalError(f"more than {MAX_CALLS} calls.")
        key = (id(function), *((a,) if isinstance(a, Fraction) else id(a) for a in arguments))
        if key not in self.results:
            names = function.procedure.arguments
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

    def _integer(self, x) -> int:
        if isinstance(x, Fraction) and x.denominator == 1:
            return int(x)
        raise FunctionalError(f"{str(x)[:40]} where a whole number is expected.")

    def _variable(self, tree) -> str:
        if isinstance(tree, Name):
            return tree.name
        raise FunctionalError("an expression where the name of a variable is expected.")

    def repeated(self, arguments, local):
        """Values of the first argument for each number of a range, i = first..last."""
        if len(arguments) != 2 or not isinstance(arguments[1], Operation) or arguments[1].sign != "=":
            raise FunctionalError("add and seq: (expression, i = first..last) expected.")
        name, interval = arguments[1].parts
        if not isinstance(interval, Range):
            raise FunctionalError("add and seq: i = first..last expected.")
        first, last = (self._integer(self.value(end, local)) for end in (interval.first, interval.last))
        if last - first > MAX_TERMS:
            raise FunctionalError(f"{last - first} terms; {MAX_TERMS} are allowed.")
        return [self.value(arguments[0], {**local, self._variable(name): Fraction(i)}) for i in range(first, last + 1)]

    def bound(self, tree, local):
        """Names with values from x = a or [x = a, y = b]."""
        equations = tree.parts if isinstance(tree, Listing) else (tree,)
        if not all(isinstance(e, Operation) and e.sign == "=" for e in equations):
            raise FunctionalError("eval: (expression, x = value) expected.")
        return {self._symbol(e.parts[0]): self.value(e.parts[1], local) for e in equations}

    def _symbol(self, tree):
        return tree.name if isinstance(tree, Name) else "?"

    def expanded(self, arguments, local, is_taylor):
        """series(expression, x = point, order) in powers of x - point; taylor the same."""
        if len(arguments) != 3 or not isinstance(arguments[1], Operation) or arguments[1].sign != "=":
            raise FunctionalError("series: (expression, x = point, order) expected.")
        name, point = self._variable(arguments[1].parts[0]), arguments[1].parts[1]
        order = self._integer(self.value(arguments[2], local))
        sign = -1 if isinstance(point, Operation) and point.sign == "neg" else 1
        inner = point.parts[0] if isinstance(point, Operation) and point.sign == "neg" else point
        at_infinity = isinstance(inner, Name) and inner.name == "infinity"
        if not 0 < order <= MAX_TERMS // 10:
            raise FunctionalError(f"a series of order {order}.")
        if not at_infinity and not numbers.is_zero(self.value(point, local)):
            raise FunctionalError("series are known around zero and infinity.")
        # what divides by the variable takes terms away, so some more are carried
        variable = Series.variable(sign if at_infinity else 1, -1 if at_infinity else 1, 2 * order + _PADDING)
        found = self.value(arguments[0], {**local, name: variable})
        found = found if isinstance(found, Series) else Series(0, [found])
        kept = [found.of(k) for k in range(found.least, min(found.end, order))]
        if found.end < order:
            raise FunctionalError(f"a series that loses too many terms: {order} wanted, {found.end} known.")
        return Expansion(name, {k: c for k, c in enumerate(kept, found.least)}, sign if at_infinity else 1, at_infinity)


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
        kept = {k: c for k, c in self.terms.items() if abs(k) <= limit and not numbers.is_zero(c)}
        filled = {k: kept.get(k, Fraction(0)) for k in range(min(kept, default=0), max(kept, default=0) + 1)}
        return Expansion(self.variable, filled, self.sign, self.at_infinity)


# ---- forms, which see their arguments before they are worked out


def _eval(work, arguments, local):
    if len(arguments) == 1:
        return work.value(arguments[0], local)
    bound = work.bound(arguments[1], local)
    found = work.value(arguments[0], {**local, **bound})
    if isinstance(found, Expansion) and found.variable in bound:
        return found.at(bound[found.variable])
    return found


def _diff(work, arguments, local):
    """The derivative of an expression at the value that its variable has."""
    if len(arguments) != 2:
        raise FunctionalError("diff: (expression, variable) expected.")
    name = work._variable(arguments[1])
    if name not in local:
        raise UnknownName(f"diff by {name!r}, which has no value; eval(diff(...), {name} = ...) gives it one.")

    def of(x):
        inner = Evaluation(work.names, work.given)
        return jnp.asarray(numbers.plain(inner.value(arguments[0], {**local, name: x})), float)

    at = jnp.asarray(numbers.plain(local[name]), float)
    return jax.jvp(of, (at,), (jnp.ones_like(at),))[1]


def _convert(work, arguments, local):
    if len(arguments) != 2 or arguments[1] != Name("polynom"):
        raise FunctionalError("convert: (series, polynom) is known.")
    return work.value(arguments[0], local)


def _first(work, arguments, local):
    return work.value(arguments[0], local)


def _piecewise(work, arguments, local):
    """Value behind the first condition that holds, else the last; both sides are worked out unless it is known."""
    if len(arguments) < 2:
        raise FunctionalError("piecewise: (condition, value, ..., value) expected.")
    condition = work.value(arguments[0], local)
    rest = arguments[2:]
    following = lambda: (
        Fraction(0) if not rest else work.value(rest[0], local) if len(rest) == 1 else _piecewise(work, rest, local)
    )
    if isinstance(condition, bool):
        return work.value(arguments[1], local) if condition else following()
    yes, no = numbers.plain(work.value(arguments[1], local)), numbers.plain(following())
    for branch in (yes, no):
        if isinstance(branch, Series | Closure | tuple | str):
            raise FunctionalError("piecewise of what is no number.")
    return jnp.where(condition, yes, no)


def _truncated(work, arguments, local):
    """libxc's throw_out_large_n(series, n): powers up to n."""
    expansion, limit = (work.value(a, local) for a in arguments)
    if not isinstance(expansion, Expansion):
        raise FunctionalError("throw_out_large_n of what is no series.")
    return expansion.without_high_powers(work._integer(limit))


def _product(work, arguments, local):
    return functools.reduce(numbers.multiply, work.repeated(arguments, local), Fraction(1))


_FORMS: dict[str, Callable[[Evaluation, tuple, Mapping], Any]] = {
    "eval": _eval,
    "diff": _diff,
    "convert": _convert,
    "simplify": _first,
    "evalf": _first,
    "evalb": _first,
    "piecewise": _piecewise,
    "my_piecewise3": _piecewise,
    "my_piecewise5": _piecewise,
    "series": lambda work, arguments, local: work.expanded(arguments, local, False),
    "taylor": lambda work, arguments, local: work.expanded(arguments, local, True),
    "add": lambda work, arguments, local: functools.reduce(
        numbers.add, work.repeated(arguments, local), Fraction(0)
    ),
    "sum": lambda work, arguments, local: functools.reduce(
        numbers.add, work.repeated(arguments, local), Fraction(0)
    ),
    "mul": _product,
    "seq": lambda work, arguments, local: Sequence(work.repeated(arguments, local)),
}  # fmt: skip
_FORMS_OF_LIBXC = {"throw_out_large_n": _truncated}
"""Whatever libxc's own text of them says."""


def _arctan(y, x):
    """The angle of (x, y) for x > 0."""
    return numbers.function("arctan", numbers.divide(y, x))


def _recurrence(n, x, step):
    """Polynomials P_0 = 1, P_1 = x, P_(k+1) = step(k, x P_k, P_(k-1))."""
    if not isinstance(n, Fraction) or n.denominator != 1 or not 0 <= n <= 200:
        raise FunctionalError(f"a polynomial of order {n}; a whole number up to 200 expected.")
    before, now = Fraction(1), x
    if n == 0:
        return before
    for k in range(1, int(n)):
        before, now = now, step(k, numbers.multiply(x, now), before)
    return now


def _legendre(n, x):
    step = lambda k, xp, before: numbers.add(
        numbers.multiply(Fraction(2 * k + 1, k + 1), xp), numbers.multiply(Fraction(-k, k + 1), before)
    )
    return _recurrence(n, x, step)


def _chebyshev(n, x):
    return _recurrence(n, x, lambda k, xp, before: numbers.add(numbers.multiply(Fraction(2), xp), numbers.negative(before)))


def _zeta(n):
    if n != 3:
        raise FunctionalError("Zeta(3) is known.")
    return 1.2020569031595942854


def _bessel_i(n, x):
    if n not in (0, 1):
        raise FunctionalError("BesselI of order 0 and 1 is known.")
    scaled = (jax.scipy.special.i0e, jax.scipy.special.i1e)[int(n)]
    x = jnp.asarray(numbers.plain(x), float)
    return scaled(x) * jnp.exp(jnp.abs(x))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": numbers.exp,
    "log": numbers.log,
    "ln": numbers.log,
    "sqrt": lambda x: numbers.power(x, Fraction(1, 2)),
    "cbrt": lambda x: numbers.power(x, Fraction(1, 3)),
    "arctan": _arctan,
    "max": lambda *xs: functools.reduce(_larger, xs),
    "min": lambda *xs: functools.reduce(_smaller, xs),
    "P": _legendre,
    "ChebyshevT": _chebyshev,
    "Zeta": _zeta,
    "BesselI": _bessel_i,
    "nops": lambda x: Fraction(len(x)),
}  # fmt: skip


def _larger(a, b):
    return max(a, b) if is_known(a) and is_known(b) else jnp.maximum(numbers.plain(a), numbers.plain(b))


def _smaller(a, b):
    return min(a, b) if is_known(a) and is_known(b) else jnp.minimum(numbers.plain(a), numbers.plain(b))
