"""`dftfd.workbench`: a functional as one page of HTML, evaluated in the browser while its parameters are moved.

Its energy per volume and derivatives are JavaScript functions with its parameters as inputs. f(m, x, p, seeds, y) fills
rows y for m points: x holds a row for each of nine variables of two spins, of which it reads those it needs; p the
parameters; seeds a set of rows for each direction. y begins with the energy; functions of higher order have the slopes
next, then slopes' derivatives along the first direction, the second, both.
"""

import base64
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.errors import FunctionalError, MissingDependencyError, UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import get_functional, is_of_library, lookup
from dftfd.interactive.molecules import ATOMS, Atom, Bond, Species, atom, bonds, species
from dftfd.interop import libxc
from dftfd.results.web_page import PALETTE
from dftfd.runtime.arguments import public
from dftfd.runtime.notebook import Page
from dftfd.runtime.version import VERSION
from dftfd.translate.on_c import OnC, Piece, number_text, statements_of
from dftfd.translate.programs import Parameter, SpinPrograms, changeable_parameters
from dftfd.translate.sympy_terms import SympyTerm, to_sympy
from dftfd.verify.conditions import Parts
from dftfd.verify.passport import atom_tables
from dftfd.verify.point_comparison import counterpart
from dftfd.xc.channels import FAMILIES, VARIABLES

MOST = 2
"""Functionals side by side."""

LONGEST_FORMULA = 400
"""Operations up to which a formula is written out."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Workbench(Page):
    """The page of one or two functionals."""

    functionals: tuple[Functional, ...] = ()


@public
def workbench(functional: Any, other: Any = None) -> Workbench:
    """A self-contained page for one functional, or for two side by side, which works without a network.

    functional, other: name, expression or Functional. The page shows the semilocal part: enhancement factors, the
    potential in atoms compared with libxc's and the exact one, the kernel, local exact conditions, energies of atoms
    compared with exact ones, smoothness and cost. The browser evaluates them while sliders change the parameters.
    Raises UnsupportedError for functionals without a semilocal energy, FunctionalError if both functionals are the
    same.

        dftfd.workbench("pbe", "r2scan").write("page.html")
    """
    chosen = [as_functional(f) for f in (functional, other) if f is not None]
    if len({f.name for f in chosen}) < len(chosen):
        raise FunctionalError(f"the functional {chosen[0].name!r} was given twice; give two names that differ.")
    for f in chosen:
        require_page(f)
    parts = [parts_of(f) for f in chosen]
    code = "\n".join(javascript(_name(i, p), p) for i, of_one in enumerate(parts) for p in of_one)
    names = [f"{_name(i, p)}_{k}" for i, of_one in enumerate(parts) for p in of_one for k in p.orders]
    data = {
        "imports": _imports(chosen),
        "functionals": [_functional_data(i, *pair) for i, pair in enumerate(zip(chosen, parts, strict=True))],
        "atoms": [_atom_data(atom(symbol)) for symbol in ATOMS],
        "bonds": [_bond_data(bond) for bond in bonds()],
        "species": [_species_data(one) for one in species()],
    }
    script = "\n".join(
        [
            f"const BENCH = {_json(data)};",
            f"{ARITHMETIC}\n{code}\nconst KERNELS = {{{', '.join(names)}}};",
            (_HERE / "workbench.js").read_text(encoding="utf-8"),
        ]
    )
    title = f"workbench of {' and '.join(f.name for f in chosen)}"
    return Workbench(title, _page(chosen, script), tuple(chosen))


# ------------------------------------------------------------------------------------------------------------- kernels


ARITHMETIC = """\
const {sqrt, cbrt, sin, cos, tan, sinh, cosh, asin, acos, atan, acosh, atanh, floor, ceil, pow, atan2} = Math;
const fabs = Math.abs, exp2 = x => 2**x, cube_root = Math.cbrt, is_number = Number.isFinite;
const exp_of = Math.exp, expm1_of = Math.expm1, log_of = Math.log, log1p_of = Math.log1p;
const tanh_of = Math.tanh, asinh_of = Math.asinh, INFINITY = Infinity, NAN = NaN;
const larger = (a, b) => a > b || a !== a ? a : b, smaller = (a, b) => a < b || a !== a ? a : b;
const sign_of = x => x > 0 ? 1 : x < 0 ? -1 : x;

/* erf by its series with positive terms, erfc beyond 2 by its continued fraction. */
function erf(x) {
  const a = fabs(x);
  if (!(a < 6)) return a === a ? sign_of(x) : x;
  let term = a, sum = a;
  for (let k = 1; term > 1e-17*sum; ++k) { term *= 2*a*a/(2*k + 1); sum += term; }
  return sign_of(x)*sum*exp_of(-a*a)*1.1283791670955126;
}
function erfc(x) {
  if (!(x > 2)) return 1 - erf(x);
  let tail = 0;
  for (let k = 200; k > 0; --k) tail = k/2/(x + tail);
  return exp_of(-x*x)*0.5641895835477563/(x + tail);
}
"""
"""What C's functions, whose names they keep, are here. exp and its kin are those of the browser, good to one or two
units in the last place."""


class OnJavaScript(OnC):
    """Scalars are pieces of JavaScript."""

    language: ClassVar[str] = "JavaScript"
    types: ClassVar[tuple[str, str]] = ("", "")
    number_of_truth: ClassVar[str] = "Number({})"
    has_tables: ClassVar[bool] = False

    @staticmethod
    def _table(name, matrix) -> str:
        rows = ", ".join(f"[{', '.join(map(number_text, row))}]" for row in matrix)
        return f"const {name} = [{rows}];\n"

    @staticmethod
    def _product(table, shape, given, operands, found) -> list[str]:
        return [
            f"const {given} = [{', '.join(operands)}];",
            f"const {found} = {table}.map(row => row.reduce((sum, w, j) => sum + w*{given}[j], 0));",
        ]


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
    """The semilocal terms by kind. UnsupportedError for model potentials and what is no semilocal energy."""
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


def as_functional(given) -> Functional:
    return given if isinstance(given, Functional) else get_functional(given)


# ---------------------------------------------------------------------------------------------------------------- data


def _name(index: int, part: Part) -> str:
    return f"f{index}_{part.kind}"


def _functional_data(index: int, functional: Functional, parts: list[Part]) -> dict:
    """parameters: numbers behind sliders.   places: which of them each part takes, in its order."""
    numbers: dict[tuple, int] = {}
    described: list[dict] = []
    of_parts = []
    for part in parts:
        places = []
        for p in part.parameters:
            for k, value in enumerate(p.values):
                key = (p.name, k, value)
                if key not in numbers:
                    numbers[key] = len(described)
                    label = f"{p.name}[{k}]" if p.is_list else p.name
                    described.append({"name": p.name, "key": p.key, "label": label, "value": value, "list": p.is_list})
                places.append(numbers[key])
        of_parts.append({"kind": part.kind, "name": _name(index, part), "used": part.programs.used, "places": places})
    families = {family for part in parts for family in part.programs.families}
    return {
        "name": functional.name,
        "parameters": described,
        "parts": of_parts,
        "ingredients": [family for family in FAMILIES if family in families],
        "kinetic": [part.kind for part in parts] == ["k"],
        "hybrid": bool(functional.exact_exchange),
        "whole": not (any(w for w, _ in functional.exact_exchange) or functional.is_nonlocal or _later(functional)),
        "exactExchange": sum(fraction for omega, fraction in functional.exact_exchange if omega == 0),
        "operations": [sum(part.program(order).length for part in parts) for order in (0, 1)],
        "libxc": _libxc_potentials(functional, "lapl" in families),
    }


def _imports(functionals) -> str:
    """Lines of Python that come before the functionals: formulas of one's own are in files, which have to be run."""
    lines: dict[str, None] = {}
    for _, term in (pair for f in functionals for pair in f.terms):
        if is_of_library(Functional("", ((1.0, term),))):
            continue
        path = Path(inspect.unwrap(term.formula).__code__.co_filename)
        if not path.is_file():
            lines[f"# behind the code of {term.name}"] = None
            continue
        lines[f"import {path.stem}  # {path.name}, which has to lie in this folder"] = None
        if lookup(term.name) is None:
            lines[f"dftfd.functional({json.dumps(term.name)})({path.stem}.{term.name})"] = None
    return "\n".join(["import dftfd", *([""] if lines else []), *lines])


def _libxc_potentials(functional, with_laplacian) -> dict | None:
    """libxc's potential in the atoms, of the functional with the published parameters; None where it has none."""
    if with_laplacian:
        return None
    try:
        terms = counterpart(functional)
        places: list[Atom | Bond] = [*map(atom, ATOMS), *bonds()]
        found = {known.symbol: _text(_libxc_potential(terms, known)) for known in places}
    except UnsupportedError:
        return None
    return {"name": " + ".join(name for _, name in terms), **found}


def _libxc_potential(terms, known: Atom | Bond) -> np.ndarray:
    """v of spin alpha (point,): e_n - div(2 e_aa grad n_a + e_ab grad n_b) with libxc's derivatives."""
    derivatives = libxc.reference(terms, known.x, 2, 2)
    if derivatives.second is None:
        raise UnsupportedError("libxc has no second derivatives of it.")
    change = np.einsum("kjp,jp->kp", derivatives.second[2:4], known.change)
    lapl, slope, first = known.x[5:7], known.slope, derivatives.first
    v = first[0] - 2 * (first[2] * lapl[0] + change[0] * slope[0])
    return v - first[3] * lapl[1] - change[1] * slope[1]


@lru_cache(maxsize=32)
def _atom_text(symbol: str) -> dict[str, str]:
    known = atom(symbol)
    arrays = {key: getattr(known, key) for key in ("r", "weights", "x", "change", "laplacian", "slope")}
    return {key: _text(array) for key, array in (arrays | {"hartree": known.hartree_potential}).items()}


def _atom_data(known: Atom) -> dict:
    return _atom_text(known.symbol) | {
        "symbol": known.symbol,
        "exchange": known.exact_exchange,
        "correlation": known.exact_correlation,
        "kinetic": atom_tables()["atoms"][known.symbol]["kinetic_energy"],
        "exact": _exact_data(known),
    }


def _exact_data(known: Atom | Bond) -> dict | None:
    exact = known.exact_potential
    return exact and {"kind": exact[0], "share": float(-exact[1][0] / known.hartree_potential[0])}


def _bond_data(known: Bond) -> dict:
    arrays = {key: _text(getattr(known, key)) for key in ("r", "x", "change", "laplacian", "slope")}
    return arrays | {"symbol": known.symbol, "hartree": _text(known.hartree_potential), "exact": _exact_data(known)}


def _species_data(known: Species) -> dict:
    names = ("name", "energy", "exchange", "atoms", "reference")
    return {key: getattr(known, key) for key in names} | {"x": _text(known.x), "weights": _text(known.weights)}


def _json(data) -> str:
    """JSON that may stand in a script: nothing in it ends the element."""
    return json.dumps(data).replace("<", "\\u003c")


def _text(array) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


# ---------------------------------------------------------------------------------------------------------------- page

_CARDS = (
    ("fx", "Exchange: F<sub>x</sub>(s)", "e<sub>x</sub> over that of the uniform gas of the density."),
    ("fc", "Correlation: F<sub>c</sub>(s, r<sub>s</sub>)", "In the same unit, at the ζ and α of the sliders."),
    ("surface", '<span id="surface-title">F</span>', "Semilocal part; r<sub>s</sub>, ζ as the sliders say."),
    (
        "potential",
        "Potential v<sub>xc</sub>(r) around an atom and along a bond",
        'Spin α, <label class="pick">of <select id="atom"></select></label> The part by the density alone: that of τ '
        "is not multiplicative. libxc's is that of the published parameters.",
    ),
    ("kernel", "Kernel n<sup>2/3</sup> ∂²e/∂n²", "At fixed σ, ∇²n and τ."),
    ("smooth", "Smoothness: F″(s), F‴(s)", "A functional that oscillates here needs fine grids."),
    ("grid", "Grid: log₁₀ |ΔE| over the number of radial points", "Of the atom above, or neon, hartree."),
)


def _page(functionals, script) -> str:
    title = " and ".join(escape(f.name) for f in functionals)
    cards = "\n".join(_card(name, head, text) for name, head, text in _CARDS)
    conditions = _card(
        "conditions",
        "Local exact conditions",
        'Red where violated, over s and r<sub>s</sub>; sampled, not proved. <label id="shown-label" class="pick">of '
        '<select id="shown"></select></label><span id="chips"></span><span id="conditions-none" hidden>None: the names '
        "of the terms do not tell exchange from correlation.</span>",
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: workbench</title><style>{PALETTE}{(_HERE / "workbench.css").read_text(encoding="utf-8")}</style></head>
<body>
<header><h1>{title}</h1><p>Move a parameter, and everything below is evaluated again, here in the page, from the same
program that calculations run. dftfd {VERSION}. {_outside(functionals)}</p></header>
<main><aside aria-label="controls"><fieldset id="place"><legend>Where</legend></fieldset><div id="parameters"></div>
<p><button type="button" id="reset">published values</button> <button type="button" data-copy="link">copy link</button>
</p><h2>As Python</h2><pre id="python" tabindex="0"></pre><button type="button" data-copy="python">copy</button></aside>
<div id="cards">{cards}{conditions}
<section><h2>Atoms</h2><p><small>Hartree-Fock densities; E_x is exact for them, E_c exact for the atom: its
energy (Chakravorty et al. 1993) less Hartree-Fock's. Differences from both in hartree; * without a reference.</small>
</p><div class="scroll" tabindex="0">
<table id="energies"><thead></thead><tbody></tbody></table></div></section>
<section><h2>Molecules</h2><p><small>Hartree-Fock densities. ΔE_x: from exact exchange, hartree. D: atomisation energy,
kcal/mol, with this functional in place of exact exchange, and its difference from W4-17.</small></p>
<div class="scroll" tabindex="0"><table id="molecules"><thead></thead><tbody></tbody></table></div></section>
<section><h2>Cost</h2><p id="cost"></p></section>
<section class="wide"><h2>Formulas</h2>{"".join(map(_formulas, functionals))}</section>
</div></main><script>{script}</script></body></html>
"""


def _card(name, head, text) -> str:
    return (
        f'<section><h2>{head}</h2><p><small>{text}</small></p><canvas id="{name}" role="img"></canvas>'
        f'<div class="legend" id="{name}-legend"></div><div class="value" id="{name}-value"></div></section>\n'
    )


def _later(f) -> list[str]:
    """What a calculation adds to the energy of the density."""
    return ["perturbation theory"] * bool(f.pt2) + ["a dispersion correction"] * (f.dispersion is not None)


def _outside(functionals) -> str:
    """What a functional has that is not on the page."""
    found = []
    for f in functionals:
        rest = [
            f"{fraction:.4g} of {'exact' if not w else 'long-range exact'} exchange" for w, fraction in f.exact_exchange
        ]
        rest += ["double integrals"] * f.is_nonlocal + _later(f)
        if rest:
            found.append(f"{escape(f.name)} has {', '.join(rest)} besides.")
    return " ".join(found)


def _formulas(functional) -> str:
    return "".join(_formula(functional, c, term) for c, term in functional.semilocal_part.terms)


def _formula(functional, coefficient: float, term: EnergyTerm) -> str:
    link = f' <a href="https://doi.org/{escape(term.doi)}">{escape(term.doi)}</a>' if term.doi else ""
    about = escape(inspect.getdoc(term.formula) or "")
    try:
        code = escape(inspect.getsource(term.formula))
        source = f'<details><summary>Code</summary><pre tabindex="0">{code}</pre></details>'
    except (OSError, TypeError):
        source = ""
    head = f'<h2>{coefficient:+.6g} {escape(term.name)}{link}</h2><pre tabindex="0">{about}</pre>'
    return head + _written_out(functional, coefficient, term) + source


def _written_out(functional, coefficient, term) -> str:
    """The energy per volume without polarisation as MathML; nothing without SymPy, or where it fills pages."""
    alone = Functional(functional.name, ((coefficient, term),))
    try:
        if Part("xc", alone).program(0).length > LONGEST_FORMULA:
            return ""
        (shown,) = to_sympy(alone)
        return f'<div class="formula" tabindex="0">{_mathml(shown)}</div>'
    except (MissingDependencyError, UnsupportedError):
        return ""


def _mathml(shown: SympyTerm) -> str:
    from sympy.printing.mathml import mathml

    return f'<math display="block">{mathml(shown.expression, printer="presentation")}</math>'
