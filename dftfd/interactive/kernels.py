"""JavaScript functions of a functional's energy per volume and its derivatives, with its parameters as inputs.

A function f(m, x, p, seeds, y) fills rows y for m points: x holds a row for each of nine variables of two spins, of
which it reads those it needs; p the parameters; seeds a set of rows for each direction. y begins with the energy;
functions of higher order have the slopes next, then slopes' derivatives along the first direction, the second, both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from dftfd.autofd.scalar.on_c import Piece, statements_of
from dftfd.autofd.scalar.on_javascript import OnJavaScript
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.translate.programs import Parameter, SpinPrograms, changeable_parameters
from dftfd.verify.conditions import Parts
from dftfd.xc.variables import VARIABLES

N = len(VARIABLES[2])
_KINDS = ("x", "c", "xc", "k")


@dataclass(frozen=True)
class Part:
    """Terms of one kind, by the letter in their names: x, c, k, or xc for both or what does not tell.

    parameters: of these terms.   programs: with them as inputs, of two spins.
    """

    kind: str
    functional: Functional

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return changeable_parameters(self.functional)

    @cached_property
    def programs(self) -> SpinPrograms:
        return SpinPrograms(self.functional, 2, self.parameters)

    @property
    def with_laplacian(self) -> bool:
        return "lapl" in self.programs.families

    @property
    def orders(self) -> range:
        """0: the energy; 1 and 2: slopes along so many directions."""
        return range(3 if self.with_laplacian else 2)

    def program(self, order: int) -> ScalarProgram:
        return self.programs.program(0) if order == 0 else self.programs.along(order)


def parts_of(functional: Functional) -> list[Part]:
    """The semilocal terms by kind. UnsupportedError for models of the potential and what is no semilocal energy."""
    found: dict[str, list] = {}
    for term in Parts(functional).semilocal().terms:
        kinds = [kind for kind in _KINDS if f"_{kind}_" in f"_{term[1].name}_"]
        found.setdefault(kinds[0] if len(kinds) == 1 else "xc", []).append(term)
    plain = replace(functional, exact_exchange=(), dispersion=None, pt2=())
    return [Part(kind, replace(plain, terms=tuple(found[kind]))) for kind in _KINDS if kind in found]


def javascript(name: str, part: Part) -> str:
    """Definitions of the functions NAME_0, NAME_1, ... of a part."""
    tables: dict[str, str] = {}
    functions = [_function(f"{name}_{order}", part, order, tables) for order in part.orders]
    return "".join([*tables.values(), *functions])


def _function(name, part, order, tables) -> str:
    program, used = part.program(order), part.programs.used
    variables = [VARIABLES[2][k] for k in used]
    n_numbers = sum(len(p.values) for p in part.parameters)
    numbers = [f"p[{k}]" for k in range(n_numbers)]
    seeds = [f"{v}_{level}" for level in range(order) for v in variables]
    inputs = [Piece(v) for v in variables] + [Piece(text, uniform=True) for text in numbers]
    inputs += [Piece(seed) for seed in seeds]
    written, outputs = statements_of(program, inputs, OnJavaScript)
    tables |= written.tables
    rows = list(_rows(variables, used, order))
    depends = {k for k in range(program.n_inputs) if program.depends_on({k})}
    first = len(used) + n_numbers
    read = [rows[k] for k in range(len(used)) if k in depends]
    read += [rows[len(used) + k] for k in range(len(seeds)) if first + k in depends]
    body = [f"const {v} = {row}[i];" for v, row, _ in read] + written.inside
    body += [f"y[{k}][i] = {text};" for k, text in enumerate(outputs)]
    before = [f"const {row} = {source};" for _, row, source in read] + written.before
    lines = "\n".join(before) + "\nfor (let i = 0; i < m; ++i) {\n" + "\n".join(body) + "\n}"
    return f"function {name}(m, x, p, seeds, y) {{\n{lines}\n}}\n"


def _rows(variables, used, order) -> Iterator[tuple[str, str, str]]:
    """(name at a point, name of its row, where that is) of each variable, and of the seeds of each level."""
    for v, k in zip(variables, used, strict=True):
        yield v, f"{v}_row", f"x[{k}]"
    for level in range(order):
        for v, k in zip(variables, used, strict=True):
            yield f"{v}_{level}", f"{v}_{level}_row", f"seeds[{level}][{k}]"


def require_page(functional: Functional) -> None:
    """UnsupportedError for what has no semilocal energy to be shown."""
    if not functional.has_energy or not functional.semilocal_part.terms:
        raise UnsupportedError(
            f"functional {functional.name!r} has no energy per volume of the density, its gradient, Laplacian and tau "
            "that a page could show."
        )
