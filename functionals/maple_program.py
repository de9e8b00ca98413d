"""Meaning of formulas in libxc's notation: a program of definitions, and calls of what it defines on values of JAX.

As in Maple, a definition is worked out where it stands as far as its names are known by then, and for the rest when it
is asked for; procedures look their names up when they are called. What a formula may do is what stands here: nothing of
a file is executed as Python.
"""

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
from dftfd.functionals.maple_functions import (
    FORMS,
    FORMS_OF_LIBXC,
    FUNCTIONS,
    Closure,
    Sequence,
    UnknownName,
    Values,
    integer,
)
from dftfd.functionals.maple_limits import bounded, spend
from dftfd.functionals.maple_scalars import (
    OF_ONE_NUMBER,
    PI,
    in_context,
    is_constant,
    is_known,
    plain,
    require_condition,
    require_number,
)
from dftfd.functionals.maple_text import (
    Assignment,
    Choice,
    Name,
)

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
            raise FunctionalError("an index behind what is no list.")
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
