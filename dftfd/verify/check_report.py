"""The result of a comparison, as a value and as a table."""

import io
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from dftfd.verify.referee import Decision


@dataclass(frozen=True)
class Row:
    """One quantity on one set of points.

    quantity: what was compared.   n_spin: 1, in terms of the total density, or 2, of alpha and beta.
    error: the largest one.   where: the place of the largest error.   tolerance: what is allowed.
    decision: what extended precision says where the error exceeds the tolerance, see `dftfd.verify.referee`.
    """

    quantity: str
    n_spin: int
    error: float
    where: str
    tolerance: float
    decision: Decision | None = None

    @property
    def agrees(self) -> bool:
        """True if the error is within the tolerance; an error that is NaN is not."""
        return bool(self.error <= self.tolerance)

    @property
    def passed(self) -> bool:
        """True if the error is within the tolerance, or is rounding in the reference and ours is within it."""
        by_decision = self.decision is not None and self.decision.is_rounding and self.decision.ours <= self.tolerance
        return self.agrees or by_decision


@dataclass(frozen=True)
class Report:
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

    def __rich__(self) -> Table:
        verdict = "passed" if self.passed else f"FAILED in {len(self.failures)} of {len(self.rows)} rows"
        table = Table(
            title=f"{self.name} against {self.reference}: {verdict}",
            caption="\n".join(self.notes) or None,
            box=None,
            title_justify="left",
            caption_justify="left",
            pad_edge=False,
        )
        for heading in ("quantity", "spins", "largest error", "tolerance", "", "at"):
            table.add_column(heading, justify="right" if heading in ("largest error", "tolerance") else "left")
        for row in self.rows:
            mark = "ok" if row.agrees else "decided" if row.passed else "[bold red]FAILED[/bold red]"
            table.add_row(row.quantity, str(row.n_spin), f"{row.error:.1e}", f"{row.tolerance:.0e}", mark, row.where)
        return table

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=160, no_color=True).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
