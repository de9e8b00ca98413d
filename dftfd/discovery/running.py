"""`discover`: a search from its specification to a folder of results."""

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.batch.processes import require_client
from dftfd.discovery.candidate_fits import LARGEST_P, VARIABLES, Demands, Problem, finite
from dftfd.discovery.damping import moved, with_damping_slopes, with_dispersion
from dftfd.discovery.expressions import INGREDIENTS
from dftfd.discovery.forms import OF_CORRELATION, OF_EXCHANGE, Form, equations, file_text
from dftfd.discovery.points import TrainingPoints, ledger_in
from dftfd.discovery.proposers import candidates_in
from dftfd.discovery.search import Found, Refuted, Search, Specification, State
from dftfd.errors import FileError, InputError, closest_names, shown
from dftfd.functionals.registry import get_functional
from dftfd.results.html_report import table
from dftfd.results.web_page import web_page
from dftfd.runtime.arguments import Kind, each, flag, mapping, number, optional, public, refuse_unknown, text, whole
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.files import read_bytes, unfinished, write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.records import digest, recorded
from dftfd.runtime.version import VERSION

RECORD = "a discovery"
SPECIFICATION = Kind("a file .toml or a dictionary with names as keys", lambda value: _specified(value))


def _specified(value):
    if isinstance(value, Specification):
        return value
    return mapping.convert(value) if isinstance(value, Mapping) else as_path.convert(value)


@public
def discover(
    specification: Annotated[Any, SPECIFICATION],
    *,
    folder: Annotated[Path | None, optional(as_path)] = None,
    resume: bool = False,
    candidates: Annotated[Path | None, optional(as_path)] = None,
    points: Any = None,
    generations: Annotated[int | None, optional(whole(1, 10_000_000))] = None,
    hours: Annotated[float | None, optional(number(lambda x: x > 0, "hours above 0"))] = None,
    jobs: Annotated[int, whole(1)] = 1,
    client: Any = None,
    propose_with: Annotated[Sequence[str], each(text, "a list of words")] = (),
    held_out: Annotated[str, text] = "",
    on_step: Callable[["Discovery"], None] = lambda step: None,
) -> "Discovery":
    """Search for functionals: formulas fitted to reaction energies, with proved exact conditions.

    specification: a .toml file, or a dictionary of the same form (docs/discovery.md).
    folder: for the record of the run and, after each generation, its results; None keeps them in memory.
    resume: continue from the record in the folder, with the same results as an uninterrupted run, bit for bit.
    candidates: file of initial formulas, one line of JSON {"x": ..., "c": ...} each.
    points: TrainingPoints instead of those of the specification.
    generations: instead of the specification's.   hours: no new generation begins after this time.
    jobs: number of processes.   client: a dask.distributed.Client, whose workers compute.
    propose_with: command of a program that proposes formulas, for the share of `command` in the specification.
    held_out: reason for computing the errors of held-out reactions at the end. It is recorded in `held_out.jsonl`.
    on_step: called after each generation.

    Raises InputError for invalid arguments, FileError for files, CheckpointError for the record of another search.
    """
    own = read(specification, propose_with)
    own = own if generations is None else replace(own, generations=generations)
    if client is not None:
        require_client(client)
    if points is None:
        points = TrainingPoints.read(own.points)
    if not isinstance(points, TrainingPoints):
        raise InputError(f"points={shown(points)}: a dftfd.discovery.points.TrainingPoints expected.")
    if own.dispersion is not None:
        points = (with_damping_slopes if own.fit_damping else with_dispersion)(points, *own.dispersion)
    if held_out and folder is None:
        raise InputError("held_out= needs a folder, whose held_out.jsonl counts evaluations of held-out reactions.")
    start = [] if candidates is None else candidates_in(candidates, own.form)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    identity = own.identity | {
        "points": digest([points.base, points.x_weight, points.c_weight, points.reference, list(points.role)]),
        "candidates": digest([c.document for c in start]),
        "dftfd": VERSION,
        "NumPy": np.__version__,
    }
    path = None if folder is None else Path(folder) / "record.jsonl"
    if path is not None and not resume and os.path.lexists(path):
        raise FileError(f"{path} exists: continue it with resume=True (--resume), or choose another folder.")
    with recorded(path, RECORD, identity) as record:
        if path is not None:
            unfinished[str(path)] = " with --resume"
        search = Search(own, points, record, start, jobs, client)
        for state in search.generations(None if hours is None else 3600 * hours):
            on_step(_saved(Discovery.of(state), folder))
        errors = {}
        if held_out and folder:
            others = Problem.of_points(points.held_out(ledger_in(Path(folder)), held_out), own.form)
            errors = {f.number: others.mean_absolute(f.candidate, f.multiples) for f in search.state.front()}
        return _saved(Discovery.of(search.state, errors), folder)


# ---- the specification.

LONGEST = 2**20
PROPOSERS = ("evolution", "growth", "enumeration", "command")


def _pair(value):
    a, b = each(number()).convert(value)
    return float(a), float(b)


_OTHERS = ("exchange", "correlation", "conditions", "proposers", "points", "dispersion", "fit_damping")
_PAIR = Kind("[from, to]", _pair)
_TOP = {
    "name": text,
    "seed": whole(0),
    "size": whole(1, 1_000_000),
    "generations": whole(1, 10_000_000),
    "population": whole(2, 1_000_000),
    "complexity": whole(2, 1000),
    "largest_parameter": number(lambda x: 0.1 <= x <= LARGEST_P, f"a number from 0.1 to {LARGEST_P:g}"),
    "proofs": whole(0, 1000),
    "rounds": whole(1, 100),
    "stop_below": number(lambda x: x >= 0, "an error in kcal/mol, 0 or more"),
}


def read(given: Any, command: Sequence[str] = ()) -> Specification:
    """The Specification of a file .toml, of a dictionary as the file has it, or itself.

    command: words of a program that proposes, which no file may name. FileError for a file that cannot be read,
    InputError for what does not fit.
    """
    if isinstance(given, Specification):
        return given
    data, folder = given, Path()
    if not isinstance(given, Mapping):
        try:
            data, folder = tomllib.loads(read_bytes(given, LONGEST).decode()), Path(given).parent
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise FileError(f"{given} is not a TOML file: {error}.") from error
    refuse_unknown("discover", data, [*_TOP, *_OTHERS])
    top = {name: _TOP[name].checked(f"discover: {name}", data[name]) for name in _TOP if name in data}
    if not top.get("name", "found").isidentifier():
        raise InputError(f"discover: name = {shown(top['name'])}: a name of Python is expected, as 'gga1'.")
    (exchange, x), (correlation, c) = (
        _part(data, "exchange", "hole", OF_EXCHANGE, "s2"),
        _part(data, "correlation", "factor", OF_CORRELATION, "t2"),
    )
    form, demands = Form(exchange, correlation, x, c), _demands(data)
    if not form.parts:
        raise InputError("discover: exchange and correlation are both given; one has to be searched: form = 'hole'.")
    if "y" in form.c and form.correlation == "factor":
        raise InputError("discover: ingredient 'y' belongs to the form 'pbe' of correlation.")
    is_polarised = any(demands.domain_of(name)["zeta"][1] > 0 for name in demands.of_form(Form("", form.correlation)))
    if demands.names and "z2" in form.ingredients("c") and not is_polarised:
        raise InputError(
            "discover: the conditions of correlation have zeta = 0 alone, where every term in z2 vanishes, so they "
            "would say nothing of it: give conditions.domain a range of zeta, as zeta = [0, 0.9], name one of them in "
            "conditions.polarised if that is given, or leave z2 out."
        )
    if (points := optional(text).checked("discover: points", data.get("points"))) is not None:
        top["points"] = folder / points
    if (corrected := optional(text).checked("discover: dispersion", data.get("dispersion"))) is not None:
        if (dispersion := get_functional(corrected).dispersion) is None:
            raise InputError(
                f"discover: dispersion = {shown(corrected)}: a functional with the correction that candidates get is "
                "expected, as 'revpbe-d3bj'."
            )
        top["dispersion"] = dispersion
    if (fits := flag.checked("discover: fit_damping", data.get("fit_damping", False))) and "dispersion" not in top:
        raise InputError("discover: fit_damping needs dispersion, whose parameters the fits begin with.")
    top["fit_damping"] = fits
    if "proposers" in data or command:
        top["shares"] = _shares(data.get("proposers", {}), command)
    return Specification(form, demands, command=tuple(command), **top)


def _table(data, part, names):
    found = mapping.checked(f"discover: {part}", data.get(part, {}))
    refuse_unknown(f"discover: {part}", found, names)
    return found


def _part(data, part, form, known, default):
    """(form, ingredients) of exchange or correlation."""
    given = _table(data, part, ["form", "ingredients"])
    names = each(text).checked(f"discover: {part} ingredients", given.get("ingredients", (default,)))
    for name in names:
        if name not in known:
            close = ", ".join(closest_names(name, known))
            meaning = "; ".join(INGREDIENTS[n].meaning for n in known)
            raise InputError(
                f"discover: {part} has no ingredient {shown(name)}; the closest are {close}. Known: {meaning}."
            )
    if not any(INGREDIENTS[name].vanishes for name in names):
        own = ", ".join(name for name in known if INGREDIENTS[name].vanishes)
        raise InputError(f"discover: {part}: one ingredient at least has to vanish in the uniform gas: {own}.")
    return text.checked(f"discover: {part} form", given.get("form", form)), tuple(dict.fromkeys(names))


def _demands(data):
    given = _table(data, "conditions", ["prove", "domain", "boxes", "polarised"])
    names = each(text).checked("discover: conditions prove", given.get("prove", []))
    ends = {k: _PAIR.checked(f"discover: domain {k}", v) for k, v in _table(given, "domain", VARIABLES).items()}
    boxes = whole(1, 10**8).checked("discover: boxes", given.get("boxes", 20_000))
    return Demands.of(names, ends, boxes, optional(each(text)).checked("discover: polarised", given.get("polarised")))


def _shares(given, command):
    kind = number(lambda x: x >= 0, "a share, 0 or more")
    shares = {
        name: kind.checked(f"discover: proposers {name}", value)
        for name, value in _table({"proposers": given}, "proposers", PROPOSERS).items()
    }
    if bool(shares.get("command")) != bool(command):
        raise InputError(
            "discover: proposers.command has a share but no program is given, or the reverse; give a program "
            "with propose_with=[...] (--propose-with), or the share 0."
        )
    if not sum(shares.values()) > 0:
        raise InputError("discover: no proposer has a share; give one, as {evolution = 1}.")
    return shares


# ---- results.


@dataclass(frozen=True, eq=False, repr=False)
class Discovery(ShownAsText):
    """What a search found so far.

    specification: of the search.   front: proved candidates that none of less complexity is better than, the simplest
    first; of all candidates where nothing had to be proved.   refuted: the others, with the point that refutes them.
    generations: done.   counts: of candidates proposed, repeated, fitted, near (the front), broken (by a small sample),
    refuted, proved, undecided.   held_out: {number: mean absolute error [kcal/mol]} of the front, where evaluated.
    """

    specification: Specification
    front: tuple[Found, ...]
    refuted: tuple[Refuted, ...]
    generations: int
    counts: Mapping[str, int]
    held_out: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, state: State, held_out: Mapping[int, float] | None = None) -> "Discovery":
        found = tuple(state.front()), tuple(state.refuted)
        return cls(state.specification, *found, state.generation, dict(state.counts), held_out or {})

    @property
    def passed_by_sampling(self) -> int:
        """Refutations by proof of candidates that a sample of 10,000 points had passed."""
        return sum(r.by == "proof" for r in self.refuted)

    @property
    def better_passed_by_sampling(self) -> int:
        """Those of them whose error is below that of everything proved."""
        least = min((f.score for f in self.front), default=np.inf)
        return sum(r.by == "proof" and r.found.score < least for r in self.refuted)

    def name_of(self, found: Found) -> str:
        """Of the functional in its file."""
        return f"{self.specification.name}_{found.number}"

    def dispersion_of(self, found: Found) -> tuple[str, str] | None:
        """As `Functional.dispersion`: the specification's, with parameters of its own where they were fitted."""
        given = self.specification.dispersion
        return moved(given, found.multiples) if given and found.multiples else given

    @property
    def summary(self) -> list[str]:
        """The counts, in two lines."""
        c = self.counts
        return [
            f"{self.specification.name}: {self.generations} generations, {c['fitted']} candidates fitted, {c['near']} "
            f"near the front, {c['broken']} broken at a few points, {c['refuted']} refutations by sampling or proof, "
            f"{c['proved']} proved, {c['undecided']} undecided",
            f"{self.passed_by_sampling} of {len(self.refuted)} refutations are by proof after a sample of 10,000 "
            f"points ({self.better_passed_by_sampling} with errors below all that is proved)",
        ]

    def __str__(self):
        head = ["functional", "size", "training", "validation", "held out"]
        widths = (-18, 5, 10, 12, 10)
        line = lambda cells: (
            "  " + "".join(f"{x:<{-w}s}" if w < 0 else f"{x:>{w}s}" for x, w in zip(cells, widths, strict=True))
        )
        rows = [*self.summary, line(head) + "  [kcal/mol]"]
        for f in self.front:
            errors = ("" if x is None else f"{x:.3f}" for x in (f.training, f.validation, self.held_out.get(f.number)))
            cells = [self.name_of(f), str(f.candidate.complexity), *errors]
            rows.append(f"{line(cells)}  {'; '.join(equations(self.specification.form, f.candidate))}")
        return "\n".join(rows)

    def save(self, folder: Path) -> None:
        """Write NAME_K.py for each of the front, front.json, refuted.jsonl and index.html into a folder."""
        own = self.specification
        for f in self.front:
            validated = "" if f.validation is None else f", of validation reactions {f.validation:.3f}"
            errors = f"Mean absolute error of training reactions {f.training:.3f}{validated} kcal/mol, fixed densities."
            notes = [errors, *(f"{name}: {outcome}" for name, outcome in f.proofs.items())]
            source = file_text(own.form, f.candidate, self.name_of(f), notes, self.dispersion_of(f))
            write_text(folder / f"{self.name_of(f)}.py", source)
        document = {
            "counts": dict(self.counts),
            "generations": self.generations,
            "passed_by_sampling": self.passed_by_sampling,
            "better_passed_by_sampling": self.better_passed_by_sampling,
            "front": [self._row(f) for f in self.front],
        }
        write_text(folder / "front.json", json.dumps(document, indent=1) + "\n")
        rows = [{"by": by} | cut._asdict() | self._row(f) for f, by, cut in self.refuted]
        write_text(folder / "refuted.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        write_text(folder / "index.html", self._page())

    def _row(self, f: Found) -> dict[str, Any]:
        form = self.specification.form
        return {
            "name": self.name_of(f),
            "number": f.number,
            "proposer": f.proposer,
            "complexity": f.candidate.complexity,
            "score": finite(f.score),
            "training": f.training,
            "validation": f.validation,
            "held_out": self.held_out.get(f.number),
            "formulas": equations(form, f.candidate),
            "proofs": dict(f.proofs),
            **f.candidate.document,
        }

    def _page(self) -> str:
        """One HTML page that needs no network."""
        title = f"{self.specification.name}: functionals found"
        number = lambda x: "" if x is None else f"{x:.3f}"
        said = lambda f: "; ".join(equations(self.specification.form, f.candidate))
        front = [
            [self.name_of(f), str(f.candidate.complexity), number(f.training), number(f.validation), said(f),
             "; ".join(f"{name}: {outcome}" for name, outcome in f.proofs.items())]
            for f in self.front
        ]  # fmt: skip
        refuted = [
            [number(finite(f.score)), by, cut.condition,
             ", ".join(f"{n} = {v:.4g}" for n, v in zip(VARIABLES, cut.point, strict=True)),
             "" if cut.value is None else f"{cut.value:.3g}", said(f)]
            for f, by, cut in sorted(self.refuted, key=lambda r: r.found.score)[:200]
        ]  # fmt: skip
        units = ["functional", "complexity", "training [kcal/mol]", "validation [kcal/mol]", "formula", "conditions"]
        parts = [
            f"<h1>{escape(title)}</h1>",
            *(f"<p>{escape(line)}</p>" for line in self.summary),
            self._picture(),
            "<h2>Front of error against complexity</h2>",
            _html_table(units, front),
            "<h2>Refuted candidates</h2>",
            _html_table(["error [kcal/mol]", "refuted by", "condition", "at", "left side", "formula"], refuted),
        ]
        return web_page(title, "\n".join(parts))

    def _picture(self) -> str:
        """The front and the refuted candidates as points, error on a logarithmic scale."""
        refuted, front = ((c.found, "#d62728") for c in self.refuted), ((f, "#1f77b4") for f in self.front)
        drawn = [(f.candidate.complexity, np.log10(f.score), colour)
                 for f, colour in (*refuted, *front) if 0 < f.score < np.inf]  # fmt: skip
        if not drawn:
            return ""
        (left, right), (low, high) = ((min(values), max(values)) for values in list(zip(*drawn, strict=True))[:2])
        place = lambda x, a, b: (x - a) / max(b - a, 1e-9)
        dots = "".join(
            f'<circle cx="{46 + 548 * place(x, left, right):.1f}" cy="{254 - 208 * place(y, low, high):.1f}" r="4" '
            f'fill="{colour}"/>'
            for x, y, colour in drawn
        )
        said = f"error {10**low:.3g} to {10**high:.3g} kcal/mol, logarithmic; complexity {left} to {right}"
        return (
            '<figure><svg viewBox="0 0 640 300" role="img"><title>Error against complexity: proved candidates blue, '
            f'refuted ones red</title>{dots}<text x="46" y="292" font-size="13">{said}; proved blue, refuted red</text>'
            "</svg></figure>"
        )


def _html_table(head, rows):
    return f'<div class="scroll">{table([map(escape, row) for row in rows], head)}</div>'


def _saved(found: Discovery, folder) -> Discovery:
    if folder is not None:
        found.save(Path(folder))
    return found
