"""Scalar programs as C99: an algebra whose scalars are pieces of C, and whose operations write statements.

What is used once stands inside the expression that uses it, what is used twice or more, and what becomes long, in a
variable. Selections are C's own, on values that are there already, so a loop over points has no branches.
"""

import hashlib
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from dftfd.autofd.scalar.program import ScalarProgram, evaluate
from dftfd.errors import UnsupportedError

CUBE_ROOT = "_cube_root"
"""Of functions with derivative rules the one that C code has a way of its own for (dftfd.autofd.core.roots)."""

_LONGEST = 96
"""Characters that an expression without a variable of its own may have."""

_LARGEST_POWER = 64

FORMS = {
    "add": "{} + {}", "add_any": "{} + {}", "sub": "{} - {}", "mul": "{}*{}", "div": "{}/{}", "neg": "-{}",
    "square": "{0}*{0}", "one_minus_square": "(1.0 - {0})*(1.0 + {0})", "rsqrt": "1.0/sqrt({})",
    "logistic": "1.0/(1.0 + exp_of(-{}))", "max": "larger({}, {})", "min": "smaller({}, {})", "sign": "sign_of({})",
    "abs": "fabs({})", "lgamma": "lgamma({})", "pow": "pow({}, {})", "atan2": "atan2({}, {})",
    "clamp": "smaller(larger({1}, {0}), {2})",
    **{name: f"{name}_of({{}})" for name in "exp expm1 log log1p tanh asinh".split()},
    **{name: f"{name}({{}})" for name in "sqrt cbrt exp2 sin cos tan sinh cosh asin acos atan".split()},
    **{name: f"{name}({{}})" for name in "acosh atanh erf erfc floor ceil".split()},
}  # fmt: skip
"""Of real numbers, by their operands."""

TRUTHS = {
    "gt": "{} > {}", "ge": "{} >= {}", "lt": "{} < {}", "le": "{} <= {}", "eq": "{} == {}", "ne": "{} != {}",
    "and": "{} & {}", "or": "{} | {}", "xor": "{} ^ {}", "not": "!{}", "is_finite": "is_number({})",
}  # fmt: skip
"""Operations whose results are 0 or 1."""

_REPEATED = frozenset(["square", "one_minus_square"])
"""Forms in which an operand stands twice, so that it needs a name."""


@dataclass(frozen=True)
class Piece:
    """A piece of C: an expression, whether it is the same at all points, a truth value, a name or number, a number, a
    whole number."""

    text: str
    uniform: bool = False
    truth: bool = False
    atom: bool = True
    number: bool = False
    whole: bool = False

    @property
    def operand(self) -> str:
        """As part of a longer expression."""
        return self.text if self.atom else f"({self.text})"


@dataclass(frozen=True)
class Vector:
    """Several results of one operation: an array in C."""

    name: str


@dataclass
class OnC:
    """Scalars are pieces of C.

    before: statements for what is the same at all points.   inside: statements for one point.
    tables: definitions of constant arrays by their names, which tell their contents.
    """

    uses: Counter
    before: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    tables: dict[str, str] = field(default_factory=dict)

    language: ClassVar[str] = "C code"
    types: ClassVar[tuple[str, str]] = ("double ", "int ")
    declaration: ClassVar[str] = "const {type}{name} = {text};"
    choice: ClassVar[str] = "{} ? {} : {}"
    truths: ClassVar[tuple[str, str]] = ("0", "1")
    number_of_truth: ClassVar[str] = "(double){}"
    has_tables: ClassVar[bool] = True

    @classmethod
    def of(cls, program: ScalarProgram) -> Self:
        """An algebra that knows how often each node of a program is used."""
        uses = Counter(id(program.nodes[a]) for i in program.needed for a in program.nodes[i].args)
        uses.update(id(program.nodes[i]) for i in program.outputs)
        return cls(uses)

    def constant(self, value) -> Piece:
        value = np.asarray(value)
        if value.dtype == bool:
            return Piece(self.truths[int(value)], uniform=True, truth=True, number=True)
        if value.dtype.kind in "iu" and self.has_tables:
            return Piece(str(int(value)), uniform=True, number=True, whole=True)
        if value.dtype.kind != "f":
            raise UnsupportedError(f"the integer {value} is not supported in {self.language} of real numbers.")
        return Piece(number_text(float(value)), uniform=True, number=True)

    def apply(self, node, args: list):
        if node.op == "call":
            return self._call(node.code, args)
        if node.op == "entry":
            return Piece(f"{args[0].name}[{node.params['index']}]") if isinstance(args[0], Vector) else args[0]
        if node.op == "look up" and self.has_tables:
            return self._looked_up(node, args)
        if self.has_tables and (any(a.whole for a in args) or _makes_whole(node)):
            return self._of_wholes(node, args)
        if not node.real or any(a.truth for a in args):
            return self._with_truths(node, args)
        if node.op == "integer_pow":
            return self._power(node, args[0])
        if node.op not in FORMS:
            raise UnsupportedError(f"operation {node.op!r} has no form in {self.language}.")
        if node.op in _REPEATED:
            args = [self._named(args[0])]
        return self._piece(node, self._text(FORMS[node.op], args), args)

    def _call(self, code, args):
        """What is kept whole: cube roots, and products of a large constant array (weights) with a vector."""
        if code.name == CUBE_ROOT:
            return self._variable(Piece(f"cube_root({args[0].text})", args[0].uniform, atom=False))
        matrix = code.matrix
        if matrix is None:
            raise UnsupportedError(
                f"operation {code.name!r} has no form in {self.language}; write it as straight-line code."
            )
        table = f"w_{hashlib.sha256(matrix.tobytes()).hexdigest()[:12]}"
        self.tables[table] = self._table(table, matrix)
        given, found = f"a{len(self.inside)}", f"v{len(self.inside)}"
        self.inside += self._product(table, matrix.shape, given, [a.text for a in args], found)
        return Vector(found)

    @staticmethod
    def _table(name, matrix) -> str:
        rows = ",\n".join(f"    {{{', '.join(map(number_text, row))}}}" for row in matrix)
        n_out, n_in = matrix.shape
        return f"static const double {name}[{n_out}][{n_in}] = {{\n{rows}}};\n"

    @staticmethod
    def _product(table, shape, given, operands, found) -> list[str]:
        """Statements: the array `found` is the table times the array `given` of the operands."""
        n_out, n_in = shape
        return [
            f"const double {given}[{n_in}] = {{{', '.join(operands)}}};",
            f"double {found}[{n_out}];",
            f"for (int i = 0; i < {n_out}; ++i) {{ {found}[i] = 0.0; "
            f"for (int j = 0; j < {n_in}; ++j) {found}[i] += {table}[i][j]*{given}[j]; }}",
        ]

    def _looked_up(self, node, places) -> Piece:
        """An entry of a table of numbers; places outside of it are moved to its ends."""
        values = np.asarray(node.code.array)
        table = f"look_{hashlib.sha256(values.tobytes()).hexdigest()[:12]}"
        if table not in self.tables:
            texts = list(map(number_text, values.ravel()))
            rows = ",\n".join(", ".join(texts[k : k + 5]) for k in range(0, len(texts), 5))
            self.tables[table] = f"static const double {table}[{values.size}] = {{\n{rows}}};\n"
        index = "0"
        for place, count in zip(places, values.shape, strict=True):
            before = "" if index == "0" else f"({index})*{count} + "
            index = f"{before}within({place.text}, {count})"
        return self._variable(Piece(f"{table}[{index}]", all(p.uniform for p in places), atom=False))

    def _of_wholes(self, node, args) -> Piece:
        """Operations that take or give whole numbers, those that say which entry is looked up."""
        if node.op == "convert_element_type":
            form = "(double){}" if node.real else "{}" if args[0].whole else "whole_of({})"
            return self._piece(node, self._text(form, args), args, whole=not node.real)
        if node.op == "select_n" and args[0].truth:
            return self._piece(node, self._chosen(args), args, whole=True)
        if node.op in ("add", "sub", "mul"):
            return self._piece(node, self._text(FORMS[node.op], args), args, whole=True)
        if node.op in TRUTHS:
            return self._piece(node, self._text(TRUTHS[node.op], args), args, truth=True)
        raise UnsupportedError(f"operation {node.op!r} on integers has no form in {self.language}.")

    def _with_truths(self, node, args):
        """Operations that take or give truth values."""
        if node.op == "select_n" and args[0].truth and not args[1].truth:
            return self._piece(node, self._chosen(args), args)
        if node.op in TRUTHS and (all(a.truth for a in args) or not any(a.truth for a in args)):
            return self._piece(node, self._text(TRUTHS[node.op], args), args, truth=True)
        if node.op == "select_n" and all(a.truth for a in args):
            which, no, yes = args
            text = f"({which.operand} & {yes.operand}) | (!{which.operand} & {no.operand})"
            return self._piece(node, text, args, truth=True)
        if node.op == "convert_element_type" and node.real and args[0].truth:
            return self._piece(node, self.number_of_truth.format(args[0].operand), args)
        raise UnsupportedError(f"operation {node.op!r} on integers has no form in {self.language}.")

    def _chosen(self, args) -> str:
        which, no, yes = (a.operand for a in args)
        return self.choice.format(which, yes, no)

    @staticmethod
    def _text(form, args):
        within_call = form.rstrip(")").endswith("{}") and form[0].isalpha()
        return form.format(*(a.text if within_call else a.operand for a in args))

    def _power(self, node, x) -> Piece:
        """x^y by repeated squaring, as the other interpreters have it."""
        y = node.params["y"]
        if abs(y) > _LARGEST_POWER:
            return self._piece(node, f"pow({x.text}, {y}.0)", [x])
        factors, square, rest = [], self._named(x), abs(y)
        while rest:
            if rest & 1:
                factors.append(square.text)
            rest >>= 1
            if rest:
                square = self._variable(Piece(f"{square.text}*{square.text}", x.uniform, atom=False))
        text = "*".join(factors) or "1.0"
        return self._piece(node, text if y >= 0 else f"1.0/({text})", [x])

    def _piece(self, node, text, args, truth=False, whole=False) -> Piece:
        piece = Piece(text, all(a.uniform for a in args), truth, atom=False, whole=whole)
        if self.uses[id(node)] > 1 or len(text) > _LONGEST or (piece.uniform and not all(a.number for a in args)):
            return self._variable(piece)
        return piece

    def _named(self, piece):
        return piece if piece.atom else self._variable(piece)

    def _variable(self, piece) -> Piece:
        statements = self.before if piece.uniform else self.inside
        name = f"{'u' if piece.uniform else 't'}{len(statements)}"
        kind = self.types[piece.truth or piece.whole]
        statements.append(self.declaration.format(type=kind, name=name, text=piece.text))
        return Piece(name, piece.uniform, piece.truth, whole=piece.whole)


def _makes_whole(node) -> bool:
    """Whether a node turns a number into a whole one."""
    return node.op == "convert_element_type" and np.dtype(node.params["new_dtype"]).kind in "iu"


def number_text(value: float) -> str:
    """A number in C that is read as the same float64."""
    value = float(value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = repr(abs(value))
    text = text if any(c in text for c in ".e") else f"{text}.0"
    return text if math.copysign(1.0, value) > 0 else f"(-{text})"


def statements_of(program: ScalarProgram, inputs: list[Piece], language: type[OnC] = OnC) -> tuple[OnC, list[str]]:
    """(the algebra with its statements and tables, expressions of the outputs)."""
    algebra = language.of(program)
    outputs = evaluate(program, algebra, inputs)
    return algebra, [piece.text for piece in outputs]
