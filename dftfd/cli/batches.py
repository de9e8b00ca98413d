"""`dftfd run`, `gradient` and `optimize` for many molecules: results as they come, a table, failures counted."""

import sys
from collections import Counter
from contextlib import nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from dftfd.batch import run_batch
from dftfd.batch.cluster import cluster_client
from dftfd.batch.outcomes import REASONS, check_table
from dftfd.cli.terminal import complain, computed, for_terminal, say, warn
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.runtime.files import without_waiting, write_text


def run_many(files, molecule_options, options, jobs, record, scheduler, quiet, **task) -> int:
    """Compute a batch, print what becomes of it; returns the exit code, that of the first molecule that failed.

    task: `task=` and `search=` of run_batch; geometries, table: None, or the xyz file that gets the last geometry of
    each molecule, the .csv file that gets the table.
    """
    geometries, table = task.pop("geometries", None), task.pop("table", None)
    if table is not None:
        check_table(table)
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
    failed = outcomes.failed
    if not quiet:
        say(f"\n{outcomes}\n{len(outcomes) - len(failed)} of {len(outcomes)} molecules converged")
    if table is not None:
        outcomes.write(table)
    if geometries is not None:
        write_text(geometries, "".join(_frame(o) for o in outcomes if o.document is not None))
    if failed:
        counts = Counter(REASONS[outcome.exit_code] for outcome in failed)
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        complain(f"{len(failed)} of {len(outcomes)} molecules failed: {reasons}.")
    return failed[0].exit_code if failed else 0


def are_geometries(path):
    """Whether a file begins as those do that `run_many` writes."""
    with open(path, "rb", opener=without_waiting) as stream:
        return b" energy_hartree=" in stream.read(4096).partition(b"\n")[2].partition(b"\n")[0]


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
        if not self._quiet and error[0] is None:
            computed.append(self._done)

    def show(self, outcome, total, done=None, left=""):
        """Tell of an outcome; `done`: how many there are, where they are not counted here, `left`: time, in words."""
        self._done = self._done + 1 if done is None else done
        self._failed += outcome.error is not None
        text = f"{outcome.energy:.10f}" if outcome.error is None else f"FAILED: {outcome.error}"
        if self._quiet:
            say(f"{outcome.name} {text}")
            return
        self._bar.update(self._task, completed=self._done, total=total, failed=self._failed, left=left)
        line = f"{self._done:{len(str(total))}d}/{total}  {outcome.name}  {text}  {outcome.seconds:.1f} s"
        line += f"  {left}" if left and self._bar.disable else ""
        self._bar.console.print(Text.from_ansi(for_terminal(line, sys.stdout)), highlight=False, soft_wrap=True)
        for warning in outcome.warnings:
            warn(f"{outcome.name}: {warning}")
