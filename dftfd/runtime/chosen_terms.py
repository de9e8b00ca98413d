"""Terms of users beside those of dftfd, `run_scf(..., terms=[...])`: chosen by code, or by a registered name.

A maker is code of a molecule, and of further arguments, that gives a Term: mostly a class. With `energy_term(name)` it
gets a name by which command lines, batches, records and files know it, as in "dft+u(shell=\"2p\", U=0.2)".
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dftfd.errors import InputError, closest_names, shown, users_code
from dftfd.runtime.json_reader import parse_json, plain_values
from dftfd.runtime.written_numbers import real

_makers: dict[str, Callable] = {}
_NAME = re.compile(r"[A-Za-z][\w+.-]*")
_ARGUMENT = re.compile(r"""((?:\[[^\]]*\]|"[^"]*"|'[^']*'|[^,\[\]"'])+)(?:,|$)""")
_UNCLEAR = re.compile(r"""[+-]?\.?[0-9]\S*\s|.*[()=;"']""")
"""Of a value without quotes around it: a number and words, brackets, what separates arguments."""


def energy_term(name: str) -> Callable[[Callable], Callable]:
    """Decorator: the class, or code of a molecule that gives a Term, has this name in `terms=`, `--term` and files."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"energy_term({shown(name)}): a name of letters, digits and + . - _ expected.")

    def register(maker):
        known = _makers.get(name.lower())
        if known is not None and (known.__module__, known.__qualname__) != (maker.__module__, maker.__qualname__):
            raise InputError(f"the energy term {name!r} is {known.__module__}.{known.__qualname__}; take another name.")
        _makers[name.lower()] = maker
        return maker

    return register


@dataclass(frozen=True, eq=False)
class ChosenTerm:
    """A maker of terms with its arguments but the molecule.   name: the registered one, "" where there is none."""

    maker: Callable
    arguments: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @classmethod
    def of(cls, given) -> "ChosenTerm":
        """What was given in `terms=`: a maker, functools.partial of one, or the text of a registered one."""
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            return term_named(given)
        if not callable(given):
            raise InputError(
                f"terms= holds {shown(given)}; code of a molecule that gives a Term expected, such as its class, or "
                "functools.partial(Class, U=0.2), or a registered name."
            )
        arguments: Mapping[str, Any] = {}
        if isinstance(given, partial) and not given.args:
            given, arguments = given.func, given.keywords
        return cls(given, arguments, registered_name(given))

    def __eq__(self, other):
        same = isinstance(other, ChosenTerm) and self.maker is other.maker
        return same and plain_values(self.arguments) == plain_values(other.arguments)

    def __hash__(self):
        return hash(self.maker)

    def __str__(self):
        """The text that gives it back; InputError for one without a name or with arguments that are no plain values."""
        if not self.name:
            raise InputError(
                f"the energy term {shown(self.maker)} has no name that files, records or other processes could know it "
                "by; register its class by @energy_term('name')."
            )
        try:
            words = (
                f"{key}={json.dumps(plain_values(value), allow_nan=False)}" for key, value in self.arguments.items()
            )
            return f"{self.name}({', '.join(words)})" if self.arguments else self.name
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the energy term {self.name!r} has arguments that cannot be written into a file: numbers, text and "
                "lists of them expected."
            ) from error

    @property
    def words(self) -> str:
        """What outputs call it: its text, or of what has none the name of its code."""
        try:
            return str(self)
        except InputError:
            return getattr(self.maker, "__name__", type(self.maker).__name__)

    @property
    def components(self) -> Mapping[str, str]:
        """Names of its energies, and the words for them, as far as the maker tells."""
        return getattr(self.maker, "components", {})

    def fingerprint(self, molecule) -> list[str]:
        """Energies [hartree] at densities of no meaning, by which the code behind a name is known again."""
        P = np.diag(1.0 / (1.0 + np.arange(molecule.n_ao))) + 0.1 / molecule.n_ao
        term, densities = self(molecule), (P[None], np.stack([P, P / 2]))
        return [f"{energy:.9e}" for P in densities for energy in term.evaluate(P).energies.values()]

    def __call__(self, molecule) -> Any:
        """The term of a molecule; InputError where the code fails."""
        with users_code(f"the energy term {shown(self.maker)} cannot be made for this molecule"):
            return self.maker(molecule, **self.arguments)


def _argument(words) -> tuple[str, Any]:
    """(name, value) of 'U=0.2': JSON, or plain text."""
    name, equals, value = (part.strip() for part in words.partition("="))
    if not (equals and name.isidentifier()):
        raise InputError(f"{shown(words.strip())} is not an argument of an energy term; name=value expected.")
    try:
        return name, parse_json(value)
    except ValueError:
        if (number := real(value)) is not None:  # .15, which JSON does not know
            return name, number
        if re.fullmatch("'[^']*'", value):
            return name, value[1:-1]
        if _UNCLEAR.match(value):
            raise InputError(
                f"{shown(words.strip())}: the value is neither a number nor text; write {name}=0.15, or text in quotes."
            ) from None
        return name, value


def _arguments(text) -> dict[str, Any]:
    """Values by name of 'U=0.2, shell="2p"'; InputError where a part of it is none, or there twice."""
    found, start = dict[str, Any](), 0
    while text[start:].strip():
        piece = _ARGUMENT.match(text, start)
        name, value = _argument(piece[1] if piece else text[start:])
        if piece is None or name in found:
            why = "is not understood" if piece is None else "names one argument twice"
            raise InputError(f"the arguments of an energy term, {shown(text.strip())}: {shown(name)} {why}.")
        found[name], start = value, piece.end()
    return found


def term_named(text: str, makers: Mapping[str, Callable] = _makers) -> ChosenTerm:
    """That of a text such as 'name' or 'name(U=0.2, shell="2p")', of these makers by name."""
    name, opening, arguments = text.strip().partition("(")
    name = name.strip()
    if opening and not arguments.endswith(")"):
        raise InputError(f"{shown(text)} lacks a bracket at its end; 'name(U=0.2, shell=\"2p\")' expected.")
    maker = makers.get(name) or makers.get(name.lower())
    if maker is None:
        close = ", ".join(closest_names(name, list(makers))) or "none: nothing is registered"
        raise InputError(
            f"unknown energy term {shown(text)}; the closest names are {close}. Import the file that registers it, or "
            "write it on the command line as FILE.py:NAME."
        )
    return ChosenTerm(maker, _arguments(arguments.removesuffix(")")), registered_name(maker))


def makers_in(module) -> dict[str, Callable]:
    """The code of a module that may be meant by a name: its own names, and those that it registers."""
    own = {name: code for name, code in vars(module).items() if getattr(code, "__module__", None) == module.__name__}
    registered = {name: maker for name, maker in _makers.items() if maker.__module__ == module.__name__}
    return {name: code for name, code in own.items() if callable(code) and not name.startswith("_")} | registered


def registered_name(maker) -> str:
    """The name that a maker was registered with, "" without."""
    return next((name for name, known in _makers.items() if known is maker), "")
