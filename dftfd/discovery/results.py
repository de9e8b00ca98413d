"""What a search found, and the folder that shows it: functionals as files, front.json, refuted.jsonl, one page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.discovery.candidate_fits import Problem
from dftfd.discovery.python_file import equations, file_text, latex_text
from dftfd.discovery.search import Cheat, Found, State
from dftfd.discovery.specification import Specification
from dftfd.results.html_report import STYLE
from dftfd.runtime.files import write_text
from dftfd.runtime.notebook import ShownAsText

WIDTH, HEIGHT, EDGE = 640, 300, 46
"""Of the picture of the front [pixels]."""


@dataclass(frozen=True, eq=False, repr=False)
class Discovery(ShownAsText):
    """What a search found so far.

    specification: of the search.   front: proved candidates that none of less complexity is better than, the simplest
    first; of all candidates where nothing had to be proved.   cheats: refuted ones, with the point that refutes them.
    generations: done.   counts: of candidates proposed, repeated, fitted, broken (by a small sample), refuted, proved,
    undecided.   held_out: mean absolute errors [kcal/mol] of the front, and of names, where they were looked at.
    """

    specification: Specification
    front: tuple[Found, ...]
    cheats: tuple[Cheat, ...]
    generations: int
    counts: Mapping[str, int]
    held_out: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, state: State, held_out: Mapping[str, float] | None = None) -> "Discovery":
        found = tuple(state.front()), tuple(state.cheats)
        return cls(state.specification, *found, state.generation, dict(state.counts), held_out or {})

    @property
    def passed_by_sampling(self) -> int:
        """Refutations by proof of candidates that a sample of 10,000 points had passed."""
        return sum(cheat.by == "proof" for cheat in self.cheats)

    def name_of(self, found: Found) -> str:
        """Of the functional in its file."""
        return f"{self.specification.name}_{found.number}"

    def __str__(self):
        c = self.counts
        lines = [
            f"{self.specification.name}: {self.generations} generations, {c['fitted']} candidates fitted, "
            f"{c['broken']} broken at a few points, {c['refuted']} refutations by sampling or proof, "
            f"{c['proved']} proved, {c['undecided']} undecided",
            f"{self.passed_by_sampling} of {len(self.cheats)} refutations are by proof after a sample of 10,000 points",
            f"  {'functional':<16s}{'size':>5s}{'training':>10s}{'validation':>12s}{'held out':>10s}  [kcal/mol]",
        ]
        for f in self.front:
            name = self.name_of(f)
            numbers = f.training, f.validation, self.held_out.get(name)
            row = "".join(
                f"{'' if x is None else f'{x:.3f}':>{w}s}" for x, w in zip(numbers, (10, 12, 10), strict=True)
            )
            formulas = "; ".join(equations(self.specification.form, f.candidate))
            lines.append(f"  {name:<16s}{f.candidate.complexity:5d}{row}  {formulas}")
        return "\n".join(lines)

    def save(self, folder: Path) -> None:
        """Write NAME_K.py for each of the front, front.json, refuted.jsonl and index.html into a folder."""
        form = self.specification.form
        for f in self.front:
            notes = [self._errors(f), *(f"{name}: {outcome}" for name, outcome in f.proofs.items())]
            write_text(folder / f"{self.name_of(f)}.py", file_text(form, f.candidate, self.name_of(f), notes))
        document = {
            "counts": dict(self.counts),
            "generations": self.generations,
            "passed_by_sampling": self.passed_by_sampling,
        }
        document["front"] = [self._row(f) for f in self.front]
        write_text(folder / "front.json", json.dumps(document, indent=1) + "\n")
        rows = [
            {"by": c.by, "condition": c.cut.condition, "point": list(c.cut.point)} | self._row(c.found)
            for c in self.cheats
        ]
        write_text(folder / "refuted.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        write_text(folder / "index.html", page_of(self))

    def _errors(self, f):
        validated = "" if f.validation is None else f", of validation reactions {f.validation:.3f}"
        return f"Mean absolute error of training reactions {f.training:.3f}{validated} kcal/mol, on fixed densities."

    def _row(self, f: Found) -> dict[str, Any]:
        form = self.specification.form
        return {
            "name": self.name_of(f),
            "number": f.number,
            "proposer": f.proposer,
            "complexity": f.candidate.complexity,
            "training": f.training if np.isfinite(f.training) else None,
            "validation": f.validation,
            "held_out": self.held_out.get(self.name_of(f)),
            "formulas": equations(form, f.candidate),
            "latex": latex_text(form, f.candidate),
            "proofs": dict(f.proofs),
            **f.candidate.document,
        }


def looked(front: Sequence[Found], points, specification: Specification, ledger: Path, why: str) -> dict[str, float]:
    """{name: mean absolute error of held-out reactions [kcal/mol]}, after a line in the ledger."""
    problem = Problem(points.look(ledger, why), specification.form)
    return {f"{specification.name}_{f.number}": problem.mean_absolute(problem.errors(f.candidate)) for f in front}


def page_of(discovery: Discovery) -> str:
    """One HTML page that needs no network."""
    form, title = discovery.specification.form, escape(f"{discovery.specification.name}: functionals found")
    parts = [f"<h1>{title}</h1>", f"<pre>{escape(str(discovery).splitlines()[0])}</pre>", _picture(discovery)]
    parts.append("<h2>Front of error against complexity</h2>")
    rows = [
        [
            discovery.name_of(f),
            str(f.candidate.complexity),
            f"{f.training:.3f}",
            "" if f.validation is None else f"{f.validation:.3f}",
            "; ".join(equations(form, f.candidate)),
            "; ".join(f"{name}: {outcome}" for name, outcome in f.proofs.items()),
        ]
        for f in discovery.front
    ]
    head = ["functional", "complexity", "training [kcal/mol]", "validation [kcal/mol]", "formula", "conditions"]
    parts.append(_table(head, rows))
    parts.append("<h2>Refuted candidates</h2>")
    parts.append(
        f"<p>{discovery.passed_by_sampling} of {len(discovery.cheats)} refutations are by proof, of candidates that a "
        "sample of 10,000 points had passed.</p>"
    )
    best = sorted(discovery.cheats, key=lambda cheat: cheat.found.score)[:200]
    rows = [
        [
            f"{c.found.score:.3f}",
            c.by,
            c.cut.condition,
            ", ".join(f"{n} = {v:.4g}" for n, v in zip(("rs", "s", "alpha", "zeta"), c.cut.point, strict=True)),
            "; ".join(equations(form, c.found.candidate)),
        ]
        for c in best
    ]
    parts.append(_table(["error [kcal/mol]", "refuted by", "condition", "at", "formula"], rows))
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f"</head><body>\n{body}\n</body></html>\n"
    )


def _table(head, rows):
    line = lambda cells, tag: f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
    body = "\n".join(line(row, "td") for row in rows)
    return f'<div class="scroll"><table><thead>{line(head, "th")}</thead><tbody>\n{body}\n</tbody></table></div>'


def _picture(discovery):
    """The front and the refuted candidates as points, error on a logarithmic scale."""
    front = [(f.candidate.complexity, f.score) for f in discovery.front]
    refuted = [(c.found.candidate.complexity, c.found.score) for c in discovery.cheats]
    drawn = [(x, y) for x, y in (*front, *refuted) if np.isfinite(y) and y > 0]
    if not drawn:
        return ""
    xs, ys = np.array([x for x, _ in drawn]), np.log10([y for _, y in drawn])
    at_x = lambda x: EDGE + (x - xs.min()) / max(np.ptp(xs), 1) * (WIDTH - 2 * EDGE)
    at_y = lambda y: HEIGHT - EDGE - (np.log10(y) - ys.min()) / max(np.ptp(ys), 1e-9) * (HEIGHT - 2 * EDGE)
    dot = lambda x, y, colour: f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="4" fill="{colour}"/>'
    dots = [dot(x, y, "#d62728") for x, y in refuted if np.isfinite(y) and y > 0]
    dots += [dot(x, y, "#1f77b4") for x, y in front if np.isfinite(y) and y > 0]
    said = (
        f"error {10 ** ys.min():.3g} to {10 ** ys.max():.3g} kcal/mol, logarithmic; complexity {xs.min()} to {xs.max()}"
    )
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>Error against complexity: proved candidates '
        f'blue, refuted ones red</title>{"".join(dots)}<text x="{EDGE}" y="{HEIGHT - 8}" font-size="13">{said}; proved '
        "blue, refuted red</text></svg></figure>"
    )
