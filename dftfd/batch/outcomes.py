"""What became of the molecules of a batch."""

from dataclasses import dataclass
from pathlib import Path

from dftfd.errors import InputError, shown
from dftfd.runtime.arguments import public
from dftfd.runtime.files import check_writable, without_waiting, write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.plain_text import csv_table

REASONS = {1: "internal error", 2: "bad input", 3: "not converged", 4: "NaN or Inf", 5: "file", 6: "resources"}
"""What exit codes say."""


@dataclass(frozen=True, repr=False)
class Outcome(ShownAsText):
    """What became of one molecule.

    energy [hartree], None where there is none.   error: None, or one line.   exit_code: as the command line's.
    seconds: wall time.   warnings: one line each.   document: QCSchema AtomicResult, None where there is no result.
    largest_force [hartree/bohr], steps of the geometry: of gradients and optimisations.
    """

    number: int
    name: str
    energy: float | None
    converged: bool
    error: str | None
    exit_code: int
    seconds: float
    warnings: tuple[str, ...] = ()
    document: dict | None = None
    largest_force: float | None = None
    steps: int | None = None

    @property
    def model(self) -> str | None:
        """Functional and basis set of the result, None where there is none."""
        return None if self.document is None else f"{_of(self, 'method')} / {_of(self, 'basis')}"

    def __str__(self):
        if self.error is None:
            return f"{self.name}  {self.energy:.10f} hartree  {self.seconds:.1f} s"
        return f"{self.name}  {REASONS[self.exit_code].upper()}: {self.error}"


COLUMNS = {
    "molecule": lambda o: o.name,
    "functional": lambda o: _of(o, "method"),
    "basis": lambda o: _of(o, "basis"),
    "charge": lambda o: None if o.document is None else round(o.document["molecule"]["molecular_charge"]),
    "multiplicity": lambda o: None if o.document is None else o.document["molecule"]["molecular_multiplicity"],
    "energy_hartree": lambda o: None if o.energy is None else repr(o.energy),
    "converged": lambda o: "yes" if o.converged else "no",
    "steps": lambda o: o.steps,
    "largest_force_hartree_per_bohr": lambda o: o.largest_force,
    "seconds": lambda o: f"{o.seconds:.2f}",
    "error": lambda o: o.error,
}
"""Columns of the table that `Outcomes.write` writes."""


def _of(outcome, name):
    return None if outcome.document is None else outcome.document["model"][name]


class Outcomes(ShownAsText, list[Outcome]):
    """The outcomes of a batch, in the order of the input; they print as a table."""

    @property
    def failed(self) -> "Outcomes":
        """Those without a result, or whose result is no solution."""
        return Outcomes(outcome for outcome in self if outcome.error is not None)

    @public
    def write(self, path: Path) -> None:
        """The table as a file, .csv: a row for each molecule, energies with all digits, empty where there is none."""
        check_table(path)
        rows = ([read(outcome) for read in COLUMNS.values()] for outcome in self)
        write_text(path, csv_table(list(COLUMNS), rows))

    def __repr__(self) -> str:
        return f"<{len(self)} outcomes, {len(self.failed)} failed>"

    def __str__(self):
        wide = max([len(o.name) for o in self] + [8])
        steps, forces = (any(getattr(o, name) is not None for o in self) for name in ("steps", "largest_force"))
        head = f"{'molecule':<{wide}}{'energy / hartree':>20}" + (f"{'steps':>7}" if steps else "")
        models = sorted({o.model for o in self if o.model is not None})
        lines = ["; ".join(models)] if models else []
        lines += [head + (f"{'max force':>11}" if forces else "") + f"{'seconds':>10}"]
        for o in self:
            line = f"{o.name:<{wide}}" + (f"{'-':>20}" if o.energy is None else f"{o.energy:20.10f}")
            line += (f"{'-' if o.steps is None else o.steps:>7}") if steps else ""
            line += (f"{'-':>11}" if o.largest_force is None else f"{o.largest_force:11.2e}") if forces else ""
            lines.append(line + f"{o.seconds:10.1f}" + (f"  {REASONS[o.exit_code].upper()}" if o.error else ""))
        return "\n".join(lines)


def check_table(path: Path) -> None:
    """InputError unless the name ends in .csv, FileError for a place that can't be written to."""
    if path.suffix.lower() != ".csv":
        raise InputError(f"a batch's table is a .csv file, {shown(str(path), 120)} was given.")
    check_writable(path)


def is_table(path: Path) -> bool:
    """Whether a file begins as those do that `Outcomes.write` writes."""
    head = csv_table(list(COLUMNS), ()).encode()
    with open(path, "rb", opener=without_waiting) as stream:
        return stream.read(len(head)) == head
