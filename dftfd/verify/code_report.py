"""What an audit of a program found, as a table, as data and as a page."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.console import Group
from rich.text import Text

from dftfd.errors import InputError
from dftfd.results.html_report import STYLE, table
from dftfd.runtime.files import write_text
from dftfd.runtime.version import VERSION
from dftfd.verify.code_verdicts import CONSISTENT, FAILED, INCONSISTENT, NOT_OFFERED, UNDECIDED
from dftfd.verify.reports import Printed, _table

HEADINGS = ("check", "molecule", "verdict", "deviation", "limit", "pattern")
ORDERS = ("error bar", "by order 2")
"""What the page of HTML has besides; on the screen it stands with what was found."""


@dataclass(frozen=True)
class Outcome:
    """One check of one molecule.

    verdict: consistent, INCONSISTENT, undecided, not offered or FAILED.   deviation, limit: the largest deviation and
    what error bars allow there [unit].   pattern, evidence: what the deviations have in common, and how one knows.
    bar: error bar of that entry.   second, second_bar: of derivatives, its deviation and error bar by order 2.
    """

    check: str
    molecule: str
    verdict: str
    deviation: float | None = None
    limit: float | None = None
    unit: str = ""
    pattern: str = ""
    evidence: str = ""
    bar: float | None = None
    second: float | None = None
    second_bar: float | None = None

    def __str__(self) -> str:
        head = f"{self.check}, {self.molecule}: {self.verdict}"
        if self.verdict in (FAILED, NOT_OFFERED):
            return f"{head}: {self.evidence}"
        by = f" to {self.limit:.1e}"
        if self.verdict == INCONSISTENT:
            bar, second = self.orders
            by = f" by {self.deviation:.1e} +- {bar} {self.unit}{f' (order 2: {second})' if second else ''}"
        why = f": {self.pattern}" if self.pattern else ""
        return f"{head}{by}{why}{f' ({self.evidence})' if self.evidence else ''}"

    @property
    def row(self) -> tuple[str, ...]:
        """A line of the table."""
        numbers = ("" if x is None else f"{x:.1e}" for x in (self.deviation, self.limit))
        return (self.check, self.molecule, self.verdict, *numbers, self.pattern)

    @property
    def orders(self) -> tuple[str, str]:
        """The error bar, and the deviation by differences of order 2 with its own; empty without."""
        bar = "" if self.bar is None else f"{self.bar:.0e}"
        return bar, "" if self.second is None else f"{self.second:.1e} +- {self.second_bar:.0e}"


@dataclass(frozen=True, repr=False)
class CodeAudit(Printed):
    """Whether a program's answers are consistent with each other.

    name: the program with its version.   outcomes: one for each check of each molecule.   calculations: how many.
    """

    name: str
    outcomes: tuple[Outcome, ...]
    calculations: int

    @property
    def passed(self) -> bool:
        """True if nothing is inconsistent and nothing failed."""
        return not any(outcome.verdict in (INCONSISTENT, FAILED) for outcome in self.outcomes)

    @property
    def findings(self) -> tuple[Outcome, ...]:
        """Outcomes that need attention."""
        return tuple(o for o in self.outcomes if o.verdict in (INCONSISTENT, FAILED, UNDECIDED))

    @property
    def summary(self) -> str:
        """One line."""
        asked = [o for o in self.outcomes if o.verdict != NOT_OFFERED]
        right = sum(o.verdict == CONSISTENT for o in asked)
        return f"{self.name}: {right} of {len(asked)} checks consistent, {self.calculations} calculations"

    @property
    def left_out(self) -> str:
        """What was not asked, in one line; empty without."""
        asked = {o.check for o in self.outcomes if o.verdict != NOT_OFFERED}
        names = dict.fromkeys(o.check for o in self.outcomes if o.check not in asked)
        return f"not offered: {', '.join(names)}" if names else ""

    def _rows(self) -> Sequence[tuple[str, ...]]:
        return [o.row for o in self.outcomes if o.verdict != NOT_OFFERED]

    def __rich__(self) -> Group:
        shown = _table(HEADINGS, self._rows(), right=("deviation", "limit"))
        lines = [f"{k}. {outcome}" for k, outcome in enumerate(self.findings, start=1)]
        return Group(Text(self.summary), shown, *map(Text, (*lines, *([self.left_out] if self.left_out else []))))

    def html(self) -> str:
        """A page of its own."""
        head = (
            f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.name)}</title><style>{STYLE}</style>"
        )
        shown = [o for o in self.outcomes if o.verdict != NOT_OFFERED]
        rows = [tuple(map(escape, (*o.row, *o.orders))) for o in shown]
        body = [
            f"<h1>{escape(self.summary)}</h1>",
            f'<div class="scroll" tabindex="0">{table(rows, (*HEADINGS, *ORDERS))}</div>',
            *(f'<p class="warning">{escape(str(o))}</p>' for o in self.findings),
            f"<p>{escape(self.left_out)}</p><p>dftfd {escape(VERSION)}</p>",
        ]
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n<main>\n'
            + "\n".join(body)
            + "\n</main>\n</body></html>\n"
        )

    def write(self, path: Path) -> None:
        """Write a file .json or .html."""
        texts = {".json": lambda: json.dumps(self.to_json(), indent=1) + "\n", ".html": self.html}
        if path.suffix.lower() not in texts:
            raise InputError(f"{path}: an audit is written as .json or .html.")
        write_text(path, texts[path.suffix.lower()]())
