"""The result of an audit, as a value and as text."""

import io
from dataclasses import dataclass

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text


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


@dataclass(frozen=True)
class AuditReport:
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
        table = Table(box=None, pad_edge=False)
        for heading in ("order", "spins", "components", "passed", "against"):
            table.add_column(heading)
        for row in self.checked:
            table.add_row(str(row.order), str(row.n_spin), str(row.components), str(row.passed), row.against)
        lines = [f"{k}. {finding}" for k, finding in enumerate(self.findings, start=1)]
        return Group(title, table, *map(Text, (*lines, *self.notes)))

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=160, no_color=True).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
