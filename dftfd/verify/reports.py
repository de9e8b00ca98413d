"""The results of comparisons and audits, as values and as tables."""

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dftfd.runtime.json_reader import plain_values
from dftfd.runtime.notebook import ShownAsText

WIDEST = 1000
"""Columns of a report before it is known where it is printed: each of its lines is one."""


class Printed(ShownAsText):
    """What rich prints in colour, as plain text, and as data."""

    def to_json(self) -> dict:
        """Plain dictionaries, lists, numbers and text; numbers that are not finite as text."""
        values = asdict(self) | {"passed": self.passed}  # type: ignore[call-overload, attr-defined]  # dataclasses
        return plain_values(values, str)

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=WIDEST, no_color=True).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _table(headings, rows, right=(), **options) -> Table:
    """A table without rules; headings in `right` are those of numbers."""
    table = Table(box=None, pad_edge=False, **options)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left")
    for row in rows:
        table.add_row(*map(str, row))
    return table


SHORT, MANY = 16, 16
"""Characters of a place that stands in the table; rows of a table that scrolls its first line away."""


@dataclass(frozen=True)
class Decision:
    """Errors against extended precision, scaled as all are, at the points where libxc and dftfd differ most.

    ours, reference: the largest errors of dftfd and of libxc.   is_rounding: True if libxc's errors change sign among
    near points.
    """

    ours: float
    reference: float
    is_rounding: bool


@dataclass(frozen=True)
class Row:
    """One quantity on one set of points.

    quantity: what was compared.   n_spin: 1, in terms of the total density, or 2, of alpha and beta.
    error: the largest one.   where: the place of the largest error.   tolerance: what is allowed.
    decision: what extended precision says where the error exceeds the tolerance, see `dftfd.verify.check`.
    point: libxc's variables there by name, where it is a point in them.   values: what was found there, in words.
    """

    quantity: str
    n_spin: int
    error: float
    where: str
    tolerance: float
    decision: Decision | None = None
    point: Mapping[str, float] | None = field(default=None, hash=False)
    values: str = ""

    @property
    def agrees(self) -> bool:
        """True if the error is within the tolerance; an error that is NaN is not."""
        return bool(self.error <= self.tolerance)

    @property
    def passed(self) -> bool:
        """True if the error is within the tolerance, or is rounding in the reference and ours is within it."""
        by_decision = self.decision is not None and self.decision.is_rounding and self.decision.ours <= self.tolerance
        return self.agrees or by_decision

    @property
    def remark(self) -> str:
        """Of a row with a difference: what is known of it, and the point as libxc takes it."""
        what = f"{self.quantity}, {self.n_spin} spin{'s'[: self.n_spin - 1]}"
        if self.decision is not None:
            errors = f"by 150 digits libxc is off by {self.decision.reference:.1e}, dftfd by {self.decision.ours:.1e}"
            what += f": {errors}{', libxc is wrong here by rounding' if self.passed else ''}"
        what += f": {self.values}" if self.values else ""
        at = "" if self.point is None else ", ".join(f"{name}={value!r}" for name, value in self.point.items())
        row = f"{self.where}, " if self.values else ""
        return f"{what}; at {row}{at or self.where}"


@dataclass(frozen=True, repr=False)
class Report(Printed):
    """Comparison of a functional with a reference.

    name: the functional.   reference: what it was compared with.   rows: see `Row`.   notes: what was left out and why.
    """

    name: str
    reference: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True if every row passed."""
        return all(row.passed for row in self.rows)

    @property
    def decided(self) -> tuple[Row, ...]:
        """Rows in which the reference is off by more than the tolerance, by extended precision."""
        return tuple(row for row in self.rows if row.passed and not row.agrees)

    @property
    def failures(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.passed)

    def __rich__(self) -> Group:
        verdict = "passed" if self.passed else f"FAILED in {len(self.failures)} of {len(self.rows)} rows"
        mark = lambda row: "ok" if row.agrees else "decided" if row.passed else "[bold red]FAILED[/bold red]"
        where = lambda r: r.where if len(r.where) <= SHORT else ""
        table = _table(
            ("quantity", "spins", "largest error", "tolerance", "", "at"),
            ((r.quantity, r.n_spin, f"{r.error:.1e}", f"{r.tolerance:.0e}", mark(r), where(r)) for r in self.rows),
            right=("largest error", "tolerance"),
        )
        title = f"{self.name} against {self.reference}: {verdict}"
        remarks = [f"{'decided' if r.passed else 'FAILED'}: {r.remark}" for r in self.rows if not r.agrees]
        last = [title] if len(self.rows) > MANY else []  # the first line has scrolled away
        return Group(Text(title), table, *map(Text, (*remarks, *self.notes, *last)))


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    kind: factor, sign, per electron, order, silent zero, not finite, layouts, other energy, or wrong (none of these).
    quantity: component in libxc's notation.   message: what is wrong, in words.   at: the point that shows it.
    given, expected: the values there, None where there is none.
    """

    kind: str
    quantity: str
    n_spin: int
    message: str
    at: str
    given: float | None
    expected: float | None

    def __str__(self) -> str:
        numbers = "" if self.given is None else f": {self.given:.10g}"
        numbers += "" if self.expected is None else f", {self.expected:.10g} expected"
        spins = "unpolarised" if self.n_spin == 1 else "polarised"
        return f"{self.quantity} ({spins}) {self.message}{numbers}, at {self.at}"


@dataclass(frozen=True)
class Checked:
    """How much was looked at: components of one order for one spin layout that are not zero, and those that passed."""

    order: int
    n_spin: int
    components: int
    passed: int
    against: str


@dataclass(frozen=True, repr=False)
class AuditReport(Printed):
    """What an audit found; `passed` if nothing. notes: what could not be looked at, and why."""

    name: str
    checked: tuple[Checked, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.findings

    def __rich__(self) -> Group:
        count = f"{len(self.findings)} finding{'s' if len(self.findings) > 1 else ''}"
        title = Text(f"Audit of {self.name}: {'nothing wrong found' if self.passed else count}", style="italic")
        table = _table(
            ("order", "spins", "components", "passed", "against"),
            ((row.order, row.n_spin, row.components, row.passed, row.against) for row in self.checked),
        )
        lines = [f"{k}. {finding}" for k, finding in enumerate(self.findings, start=1)]
        return Group(title, table, *map(Text, (*lines, *self.notes)))
