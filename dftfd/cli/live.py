"""What grows on a terminal while a command runs: the SCF table of a calculation, the lines and the bar of a batch."""

import sys
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from dftfd.cli.terminal import computed, for_terminal, open_displays, say, warn, wrapped
from dftfd.runtime.plain_text import printable
from dftfd.runtime.progress import LogProgress


class LiveProgress(LogProgress):
    """A rich display: notes above, the SCF table, and the stage at work below. Use it in `with` statements.

    What a command says while it is open stands below the cycles so far; those that follow begin another table.
    """

    def __init__(self, console=None):
        super().__init__()
        self.console = console or Console()
        self._name, self._stage = "", None

    def __enter__(self):
        self._table = Table("cycle", box=None, header_style="bold", pad_edge=False)
        for heading in ("energy / hartree", "change", "gradient", "density change"):
            self._table.add_column(heading, justify="right")
        self._live = Live(console=self.console, refresh_per_second=8, transient=False)
        self._live.start()
        open_displays.append(self)
        return self

    def __exit__(self, *error):
        open_displays.remove(self)
        self._stage = None
        self._show()
        self._live.stop()

    @contextmanager
    def paused(self):
        """Inside, the display is closed; after it there is a new one below what was printed."""
        stage = self._stage
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()
            self._stage = stage

    def begin(self, name):
        self._name, self._stage = name, Spinner("dots", Text(name))
        self._show()

    def end(self, name):
        super().end(name)
        self._stage = None
        self._show()

    def part(self, done, total):
        if self._stage is not None:
            self._stage.update(text=Text(f"{self._name}: {100 * done // total} %"))

    def note(self, text):
        if self._table.row_count:  # what is said after cycles stands below them
            with self.paused():
                self._print(text)
        else:
            self._print(text)

    def _print(self, text):
        self.console.print(
            wrapped(printable(text), self.console.width), markup=False, emoji=False, highlight=False, soft_wrap=True
        )

    def cycle(self, cycle):
        numbers = (cycle.energy_change, cycle.gradient_norm, cycle.density_change)
        columns = ["" if cycle.number == 0 else f"{number:.2e}" for number in numbers]
        name = "start" if cycle.number == 0 else "check" if cycle.extra else str(cycle.number)
        self._table.add_row(name, f"{cycle.energy:.10f}", *columns)
        self._show()

    def _show(self):
        parts = [self._table] if self._table.row_count else []
        self._live.update(Group(*parts, *([self._stage] if self._stage else [])))


class BatchDisplay:
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
