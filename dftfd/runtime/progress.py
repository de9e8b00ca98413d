"""How a calculation tells what it is doing.

`run_scf` reports to one Progress object: stages (grid, integrals, ...) as they begin and end, and the lines of the SCF
table. The base class says nothing; the command line brings its own for terminals.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dftfd.errors import InputError, shown
from dftfd.runtime.notebook import Lines, in_notebook
from dftfd.runtime.plain_text import printable

log = logging.getLogger("dftfd")


def cycle_line(cycle):
    """One line of the SCF table in PySCF's form, which scripts know how to read."""
    if cycle.number == 0:
        return f"init E= {cycle.energy:.15g}"
    head = "Extra cycle " if cycle.extra else f"cycle= {cycle.number}"
    return (
        f"{head} E= {cycle.energy:.15g}  delta_E= {cycle.energy_change:4.3g}  |g|= {cycle.gradient_norm:4.3g}  "
        f"|ddm|= {cycle.density_change:4.3g}"
    )


def in_time(seconds: float) -> str:
    """A time as one would say it: whole minutes, below one seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" if minutes else f"{rest} s"


class Progress:
    """Collects wall times by stage and is otherwise silent."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        """The calculation is over, well or not."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Everything inside the `with` belongs to the stage `name`."""
        start = time.perf_counter()
        self.begin(name)
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
            self.end(name)

    def begin(self, name: str) -> None:
        """A stage begins."""

    def end(self, name: str) -> None:
        """A stage has ended; `seconds[name]` is its time."""

    def part(self, done: int, total: int) -> None:
        """Of the longest step at work, `done` of `total` parts are done; called from several threads."""

    def note(self, text: str) -> None:
        """Something worth a line: a step of an optimisation, what a calculation is about."""

    def fact(self, text: str, key: str | None = None) -> None:
        """A note on how it is computed, the size of the grid, the auxiliary basis, which is given once.

        key: what it says, where the text holds what changes by the minute beside; default: the text.
        """
        told = vars(self).setdefault("_told", set())  # a user's class may not call ours
        if (key or text) not in told:
            told.add(key or text)
            self.note(text)

    def cycle(self, cycle) -> None:
        """A line of the SCF table."""


class LogProgress(Progress):
    """Messages of level INFO (the table, facts) and DEBUG (times) to the logger `dftfd`."""

    def end(self, name):
        log.debug("%s: %.2f s", name, self.seconds[name])

    def note(self, text):
        log.info(text)

    def cycle(self, cycle):
        log.info(cycle_line(cycle))


class PlainProgress(LogProgress):
    """The table in plain lines on a stream, by default standard output."""

    def __init__(self, stream=None):
        super().__init__()
        self._stream = stream or sys.stdout

    def note(self, text):
        print(printable(text), file=self._stream, flush=True)

    def cycle(self, cycle):
        print(cycle_line(cycle), file=self._stream, flush=True)


class NotebookProgress(LogProgress):
    """Facts and the table below a notebook's cell, growing in place."""

    def __init__(self):
        super().__init__()
        self._lines = Lines()

    def note(self, text):
        super().note(text)
        self._lines.add(text)

    def cycle(self, cycle):
        super().cycle(cycle)
        self._lines.add(cycle_line(cycle))


def as_progress(progress: Progress | bool | None) -> Progress:
    """The Progress for an option: None logs and in a notebook shows, False logs alone, True prints to standard output.

    An object is used as it is.
    """
    if progress is None and in_notebook():
        return NotebookProgress()
    if progress is None or progress is False:
        return LogProgress()
    if progress is True:
        return PlainProgress()
    if isinstance(progress, Progress):
        return progress
    raise InputError(f"progress={shown(progress)}: give True, None or a dftfd.runtime.progress.Progress object.")
