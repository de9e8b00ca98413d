"""Reader of the notation that libxc's formulas are written in, a small part of Maple's language: text to a syntax tree.

    statement   = name ":=" expression (":" | ";")        also: proc, if ... then ... elif ... else ... end if
    expression  = numbers, names, + - * / ^, f(a, b), list[i], [a, b], (x, y) -> expression, comparisons, and or not

Comments are (* ... *), and # to the end of a line. Nothing is executed here; dftfd.functionals.maple_program gives the
tree its meaning. Numbers are exact: 0.1 is 1/10.

An untrusted file is answered within seconds. Steps are counted, not seconds, so that a formula is refused everywhere or
nowhere. The limits are several times what the 270 formulas of libxc 7.0.0 take: 70,984 steps (hyb_mgga_x_js18) and
3,484 operations (gga_x_beefvdw) at most.
"""

import re
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import DecimalException
from fractions import Fraction
from typing import Any

from dftfd.errors import DftfdError, FunctionalError, shown

MAX_CHARACTERS, MAX_INCLUDES, MAX_STATEMENTS = 100_000, 60, 5_000
MAX_BRACKETS, MAX_NUMBER, MAX_EXPONENT = 40, 100, 400
"""Of a text: brackets in each other, characters and the exponent of a number."""

MAX_STEPS, MAX_OPERATIONS, MAX_EQUATIONS = 200_000, 5_000, 10_000
"""Of one evaluation: expressions looked at, operations on values of JAX, and those of its compiled program.

libxc's own need at most 59,600 steps (PJS18) and 3,346 operations (BEEF-vdW), in files of 5,443 characters.
"""

MAX_BITS, MAX_ENTRIES, MAX_ORDER, MAX_POWER, MAX_DIFF = 4_000, 10_000, 100, 1_000, 4
"""Of an exact number; of a list with all lists in it; of a series and its powers; derivatives in each other."""


@dataclass
class _Work:
    steps: int = 0
    operations: int = 0
    derivatives: int = 0


_work: ContextVar[_Work | None] = ContextVar("work", default=None)


def spend(steps: int) -> None:
    """Count steps of the evaluation that is under way; FunctionalError where they are too many."""
    work = _work.get()
    if work is not None:
        work.steps += steps
        if work.steps > MAX_STEPS:
            raise FunctionalError(
                f"the formula takes more than {MAX_STEPS} steps to work out; write it in a shorter way."
            )


def count_operation(count: int = 1) -> None:
    """Count operations on values of JAX, which the compiled formula has."""
    work = _work.get()
    if work is not None:
        work.operations += count * 3**work.derivatives
        if work.operations > MAX_OPERATIONS:
            raise FunctionalError(f"the formula has more than {MAX_OPERATIONS} operations; write it shorter.")


@contextmanager
def derivative():
    """Inside, one more derivative is taken: each multiplies the operations of what it is of."""
    work = _work.get() or _Work()
    work.derivatives += 1
    try:
        if work.derivatives > MAX_DIFF:
            raise FunctionalError(f"more than {MAX_DIFF} derivatives in each other.")
        yield
    finally:
        work.derivatives -= 1


@contextmanager
def bounded(what: str):
    """Inside, steps are counted from zero, and whatever a text makes fail is a FunctionalError that names `what`."""
    token = _work.set(_Work())
    try:
        yield
    except DftfdError:
        raise
    except RecursionError as error:
        raise FunctionalError(f"{what}: definitions or expressions in each other without end.") from error
    except DecimalException as error:
        raise FunctionalError(f"{what}: a constant beyond all bounds ({type(error).__name__.lower()}).") from error
    except Exception as error:  # a text can ask any operation for anything
        reason = shown(str(error), 100) if str(error) else type(error).__name__
        raise FunctionalError(f"{what} cannot be worked out: {reason}.") from error
    finally:
        _work.reset(token)


_TOKEN = re.compile(
    r"(?P<space>\s+|\#[^\n]*|\\\n)"
    r"|(?P<number>(?:\d+\.(?!\.)\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<quoted>`[^`\n]*`)"
    r'|(?P<text>"[^"\n]*")'
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>:=|->|\.\.|<=|>=|<>|\*\*|[-+*/^(),:;=<>\[\]{}])",
    re.DOTALL,
)
_WORDS = frozenset("proc end if then elif else fi and or not local global return".split())


@dataclass(frozen=True)
class Number:
    value: Fraction


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Operation:
    """+ - * / ^ and comparisons of two, "neg" and "not" of one."""

    sign: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    function: Any
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Entry:
    """array[index]"""

    array: Any
    index: Any


@dataclass(frozen=True)
class Listing:
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Range:
    first: Any
    last: Any


@dataclass(frozen=True)
class Procedure:
    """(a, b) -> body, of one statement, and proc(a, b) body end proc."""

    arguments: tuple[str, ...]
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Choice:
    """if condition then statements elif ... else ... end if: pairs (condition or None, statements)."""

    branches: tuple[tuple[Any, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Assignment:
    name: str
    value: Any


def parse(text: str, where: str) -> tuple[Any, ...]:
    """The statements of a text.   where: name of the file, for messages."""
    if len(text) > MAX_CHARACTERS:
        raise FunctionalError(f"{where}: {len(text)} characters; {MAX_CHARACTERS} are allowed.")
    reader = _Reader(_tokens(text, where), where)
    try:
        statements = reader.statements(())
    except RecursionError as error:
        raise FunctionalError(f"{where}: expressions in each other without end.") from error
    reader.require("end of text")
    return statements


def _tokens(text, where):
    """[(kind, text, line)], with an end."""
    tokens, position, line = [], 0, 1
    while position < len(text):
        if text.startswith("(*", position):
            end = text.find("*)", position + 2) + 2
            if end < 2:
                raise FunctionalError(f"{where}, line {line}: a comment (* without its end *).")
            line += text.count("\n", position, end)
            position = end
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise FunctionalError(f"{where}, line {line}: {text[position : position + 20]!r} can't be read.")
        kind, found = match.lastgroup, match[0]
        if kind != "space":
            tokens.append(("word" if found in _WORDS else kind, found, line))
        line += found.count("\n")
        position = match.end()
    return [*tokens, ("end of text", "end of text", line)]


class _Reader:
    """Descent through the grammar, loosest operation first."""

    def __init__(self, tokens, where):
        self.tokens, self.where, self.position, self.depth = tokens, where, 0, 0

    @property
    def next(self) -> str:
        """The next token, empty for one that is text in quotes."""
        kind, text, _ = self.tokens[self.position]
        return "" if kind == "text" else text

    def take(self, *wanted) -> str:
        """The next token if it is one of these (any if none is given), else an empty text."""
        kind, text, _ = self.tokens[self.position]
        if kind == "end of text" or (wanted and self.next not in wanted):
            return ""
        self.position += 1
        return text

    def require(self, *wanted) -> str:
        if self.next in wanted and self.next == "end of text":
            return self.next
        return self.take(*wanted) or self.refuse(" or ".join(map(repr, wanted)))

    def refuse(self, expected):
        _, text, line = self.tokens[self.position]
        raise FunctionalError(f"{self.where}, line {line}: {text!r} found, {expected} expected.")

    # ---- statements

    def statements(self, ends) -> tuple[Any, ...]:
        """Statements up to one of the words `ends` or the end."""
        found = []
        while self.next not in ends and self.next != "end of text":
            if self.take(":", ";"):
                continue
            found.append(self.statement())
            if len(found) > MAX_STATEMENTS:
                self.refuse(f"no more than {MAX_STATEMENTS} statements")
            if self.next not in ends:
                self.require(":", ";", "end of text")
        return tuple(found)

    def statement(self):
        if self.take("local", "global"):
            while self.take(",") or self.tokens[self.position][0] == "name":
                self.take()
            return Listing(())
        if self.take("return"):
            return self.expression()
        kind, text, _ = self.tokens[self.position]
        if kind in ("name", "quoted") and self.tokens[self.position + 1][1] == ":=":
            self.position += 2
            return Assignment(text, self.expression())
        return self.expression()

    def choice(self):
        branches = []
        condition = self.expression()
        while True:
            self.require("then")
            branches.append((condition, self.statements(("elif", "else", "end", "fi"))))
            if not self.take("elif"):
                break
            condition = self.expression()
        if self.take("else"):
            branches.append((None, self.statements(("end", "fi"))))
        if self.require("end", "fi") == "end":
            self.take("if")
        return Choice(tuple(branches))

    def procedure(self):
        self.require("(")
        names = self.names(")")
        body = self.statements(("end",))
        self.require("end")
        self.take("proc")
        return Procedure(names, body)

    def names(self, end) -> tuple[str, ...]:
        found = []
        while not self.take(end):
            kind, text, _ = self.tokens[self.position]
            if kind != "name":
                self.refuse("a name")
            found.append(self.take())
            self.take(",")
        return tuple(found)

    # ---- expressions

    def expression(self):
        self.depth += 1
        if self.depth > MAX_BRACKETS:
            self.refuse(f"no more than {MAX_BRACKETS} brackets in each other")
        try:
            return self.arrow() or self.alternatives()
        finally:
            self.depth -= 1

    def arrow(self):
        """name -> expression, (names) -> expression; None for anything else."""
        start = self.position
        names: tuple[str, ...] | None = None
        if self.tokens[start][0] == "name" and self.tokens[start + 1][1] == "->":
            names = (self.take(),)
        elif self.next == "(":
            end = start + 1
            while self.tokens[end][0] == "name" or self.tokens[end][1] == ",":
                end += 1
            if self.tokens[end][1] == ")" and self.tokens[end + 1][1] == "->":
                self.take("(")
                names = self.names(")")
        if names is None:
            return None
        self.require("->")
        return Procedure(names, (self.expression(),))

    def alternatives(self):
        return self._joined(self.both, "or")

    def both(self):
        return self._joined(self.negation, "and")

    def negation(self):
        return Operation("not", (self.negation(),)) if self.take("not") else self.comparison()

    def comparison(self):
        left = self.interval()
        sign = self.take("=", "<", ">", "<=", ">=", "<>")
        return Operation(sign, (left, self.interval())) if sign else left

    def interval(self):
        left = self.sum()
        return Range(left, self.sum()) if self.take("..") else left

    def sum(self):
        return self._joined(self.product, "+", "-")

    def product(self):
        return self._joined(self.signed, "*", "/")

    def _joined(self, part, *signs):
        left = part()
        while sign := self.take(*signs):
            left = Operation(sign, (left, part()))
        return left

    def signed(self):
        sign = self.take("-", "+")
        if not sign:
            return self.power()
        part = self.signed()
        return Operation("neg", (part,)) if sign == "-" else part

    def power(self):
        base = self.primary()
        if not self.take("^", "**"):
            return base
        return Operation("^", (base, self.signed() if self.next in "+-" else self.primary()))

    def primary(self):
        kind, text, _ = self.tokens[self.position]
        if kind == "number":
            self.position += 1
            found: Any = Number(self.number(text))
        elif kind in ("name", "quoted"):
            self.position += 1
            found = Name(text)
        elif kind == "text":
            self.position += 1
            found = Text(text[1:-1])
        elif self.take("("):
            found = self.expression()
            self.require(")")
        elif text in ("[", "{"):
            self.take()
            found = Listing(self.arguments("]" if text == "[" else "}"))
        elif self.take("if"):
            return self.choice()
        elif self.take("proc"):
            return self.procedure()
        else:
            self.refuse("an expression")
        return self.applied(found)

    def applied(self, found):
        """What stands behind a primary expression: arguments, indices."""
        while self.next in ("(", "["):
            if self.take("("):
                found = Call(found, self.arguments(")"))
            else:
                self.take("[")
                found = Entry(found, self.expression())
                self.require("]")
        return found

    def arguments(self, end) -> tuple[Any, ...]:
        found = []
        while not self.take(end):
            found.append(self.expression())
            if self.next != end:
                self.require(",")
        return tuple(found)

    def number(self, text) -> Fraction:
        _, _, exponent = text.lower().partition("e")
        if len(text) > MAX_NUMBER or abs(int(exponent or 0)) > MAX_EXPONENT:
            self.refuse("a number of usual size")
        return Fraction(text.rstrip(".") if text.endswith(".") else text.replace(".e", "e").replace(".E", "E"))
