"""`dftfd run`, `gradient` and `optimize` for many molecules: results as they come, a table, failures counted."""

import sys
from collections import Counter
from contextlib import nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dftfd.batch import run_batch
from dftfd.batch.cluster import cluster_client
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.runtime.files import write_text

REASONS = {1: "internal error", 2: "bad input", 3: "not converged", 4: "NaN or Inf", 5: "file", 6: "resources"}


def run_many(files, molecule_options, options, jobs, record, scheduler, quiet, **task) -> int:
    """Compute a batch, print what becomes of it; returns the exit code, that of the first molecule that failed.

    task: `task=` and `search=` of run_batch; geometries: None, or the xyz file that gets the last of each molecule.
    """
    geometries = task.pop("geometries", None)
    with cluster_client(scheduler) if scheduler else nullcontext() as client, Display(quiet) as display:
        outcomes = run_batch(
            files,
            jobs=jobs,
            client=client,
            record=record,
            on_outcome=display.show,
            molecule_options=molecule_options,
            **task,
            **options,
        )
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if not quiet:
        print(f"\n{table(outcomes)}\n{len(outcomes) - len(failed)} of {len(outcomes)} molecules converged")
    if geometries is not None:
        write_text(geometries, "".join(_frame(o) for o in outcomes if o.document is not None))
    if failed:
        counts = Counter(REASONS[outcome.exit_code] for outcome in failed)
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        print(f"dftfd: error: {len(failed)} of {len(outcomes)} molecules failed: {reasons}.", file=sys.stderr)
    return failed[0].exit_code if failed else 0


def table(outcomes) -> str:
    """A line for each molecule, in the order of the input: energy, steps and largest force where there are, time."""
    wide = max([len(o.name) for o in outcomes] + [8])
    steps, forces = (any(getattr(o, name) is not None for o in outcomes) for name in ("steps", "largest_force"))
    head = f"{'molecule':<{wide}}{'energy / hartree':>20}" + (f"{'steps':>7}" if steps else "")
    lines = [head + (f"{'max force':>11}" if forces else "") + f"{'seconds':>10}"]
    for o in outcomes:
        line = f"{o.name:<{wide}}" + (f"{'-':>20}" if o.energy is None else f"{o.energy:20.10f}")
        line += (f"{'-' if o.steps is None else o.steps:>7}") if steps else ""
        line += (f"{'-':>11}" if o.largest_force is None else f"{o.largest_force:11.2e}") if forces else ""
        lines.append(line + f"{o.seconds:10.1f}" + (f"  {REASONS[o.exit_code].upper()}" if o.error else ""))
    return "\n".join(lines)


def _frame(outcome):
    """The last geometry of an outcome as a frame of an xyz file [angstrom]."""
    molecule = outcome.document["molecule"]
    charge, multiplicity = round(molecule["molecular_charge"]), molecule["molecular_multiplicity"]
    lines = [str(len(molecule["symbols"])), f"{outcome.name} charge={charge} multiplicity={multiplicity}"]
    lines[1] += f" energy_hartree={outcome.energy!r}"
    x = molecule["geometry"]
    for k, symbol in enumerate(molecule["symbols"]):
        lines.append(f"{symbol} " + " ".join(f"{a * BOHR_IN_ANGSTROM:.10f}" for a in x[3 * k : 3 * k + 3]))
    return "\n".join(lines) + "\n"


class Display:
    """A line for each molecule, and below them, on a terminal, the bar."""

    def __init__(self, quiet):
        self._quiet, self._done = quiet, 0
        failed, left = TextColumn("{task.fields[failed]} failed"), TextColumn("{task.fields[left]}")
        columns = (BarColumn(), MofNCompleteColumn(), failed, TimeElapsedColumn(), left)
        self._bar = Progress(*columns, console=Console(), disable=quiet or not sys.stdout.isatty())
        self._task = self._bar.add_task("", total=None, failed=0, left="")
        self._failed = 0

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *error):
        self._bar.stop()

    def show(self, outcome, total, done=None, left=""):
        """Tell of an outcome; `done`: how many there are, where they are not counted here, `left`: time, in words."""
        self._done = self._done + 1 if done is None else done
        self._failed += outcome.error is not None
        text = f"{outcome.energy:.10f}" if outcome.error is None else f"FAILED: {outcome.error}"
        if self._quiet:
            print(f"{outcome.name} {text}", flush=True)
            return
        self._bar.update(self._task, completed=self._done, total=total, failed=self._failed, left=left)
        line = f"{self._done:{len(str(total))}d}/{total}  {outcome.name}  {text}  {outcome.seconds:.1f} s"
        line += f"  {left}" if left and self._bar.disable else ""
        self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        for warning in outcome.warnings:
            print(f"dftfd: warning: {outcome.name}: {warning}", file=sys.stderr)
