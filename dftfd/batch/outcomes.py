"""What became of the molecules of a batch."""

from dataclasses import dataclass

from dftfd.runtime.notebook import ShownAsText

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

    def __str__(self):
        if self.error is None:
            return f"{self.name}  {self.energy:.10f} hartree  {self.seconds:.1f} s"
        return f"{self.name}  {REASONS[self.exit_code].upper()}: {self.error}"


class Outcomes(ShownAsText, list[Outcome]):
    """The outcomes of a batch, in the order of the input; they print as a table."""

    @property
    def failed(self) -> "Outcomes":
        """Those without a result, or whose result is no solution."""
        return Outcomes(outcome for outcome in self if outcome.error is not None)

    def __repr__(self) -> str:
        return f"<{len(self)} outcomes, {len(self.failed)} failed>"

    def __str__(self):
        wide = max([len(o.name) for o in self] + [8])
        steps, forces = (any(getattr(o, name) is not None for o in self) for name in ("steps", "largest_force"))
        head = f"{'molecule':<{wide}}{'energy / hartree':>20}" + (f"{'steps':>7}" if steps else "")
        lines = [head + (f"{'max force':>11}" if forces else "") + f"{'seconds':>10}"]
        for o in self:
            line = f"{o.name:<{wide}}" + (f"{'-':>20}" if o.energy is None else f"{o.energy:20.10f}")
            line += (f"{'-' if o.steps is None else o.steps:>7}") if steps else ""
            line += (f"{'-':>11}" if o.largest_force is None else f"{o.largest_force:11.2e}") if forces else ""
            lines.append(line + f"{o.seconds:10.1f}" + (f"  {REASONS[o.exit_code].upper()}" if o.error else ""))
        return "\n".join(lines)
