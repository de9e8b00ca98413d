"""`dftfd run` for many molecules: results as they come, a progress bar on a terminal, failures counted."""

import sys
from collections import Counter
from contextlib import nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dftfd.batch import run_batch
from dftfd.batch.cluster import cluster_client

REASONS = {1: "internal error", 2: "bad input", 3: "not converged", 4: "NaN or Inf", 5: "file", 6: "resources"}


def run_many(files, molecule_options, options, jobs, record, scheduler, quiet) -> int:
    """Compute a batch, print what becomes of it; returns the exit code, that of the first molecule that failed."""
    with cluster_client(scheduler) if scheduler else nullcontext() as client, Display(quiet) as display:
        outcomes = run_batch(
            files,
            jobs=jobs,
            client=client,
            record=record,
            on_outcome=display.show,
            molecule_options=molecule_options,
            **options,
        )
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if not quiet:
        print(f"{len(outcomes) - len(failed)} of {len(outcomes)} molecules converged")
    if failed:
        counts = Counter(REASONS[outcome.exit_code] for outcome in failed)
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        print(f"dftfd: error: {len(failed)} of {len(outcomes)} molecules failed: {reasons}.", file=sys.stderr)
    return failed[0].exit_code if failed else 0


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
