"""The command `dftfd`.

Exit codes: 0 done, 2 bad input, 3 not converged, 4 NaN or Inf, 5 file, 6 memory, 130 interrupted.

Errors are one line on standard error; `--debug` shows the traceback. Chemistry is imported by the commands when they
run, so `dftfd --help` and a mistyped option answer at once.

Ctrl-C ends a command within seconds, whatever compiled code is at work.

Python raises KeyboardInterrupt between two of its own steps, so a long call into compiled code would hold it up. A
thread that the signal wakes at once gives the command some seconds to end by itself and then ends the process. Nothing
is lost by that: what a run has to go on from is on the disk after every cycle, and files are replaced whole.
"""

import errno
import functools
import io
import os
import signal
import socket
import sys
import threading
import time

from typer import Abort
from typer.main import get_command

from dftfd.cli import chemistry, formulas, installation, verdicts  # noqa: F401  each registers its commands
from dftfd.cli.commands import app
from dftfd.cli.terminal import complain, computed, say, unprinted
from dftfd.errors import DftfdError, FileError, InputError, ResourceError
from dftfd.runtime.files import unfinished
from dftfd.runtime.memory import in_bytes, peak_memory

INTERNAL_ERROR = 1
_built = functools.cache(get_command)  # 20 ms, which in Python each call of `main` would take


def main(arguments=None) -> int:
    """Run the command line (default: that of this process); returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  else what is said there would go to standard output
    if sys.stdout is None:
        return _complain("standard output is closed; redirect it to a file or to /dev/null.", FileError.exit_code)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal cannot show is shown with escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    unprinted.clear()
    computed.clear()
    start = time.perf_counter()
    with InterruptWatch() as watch:
        try:
            code = _built(app)(arguments, standalone_mode=False, prog_name="dftfd", obj=watch)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except Exception as error:
            if "--debug" in arguments:
                raise
            # Ctrl-C in the middle of an import or of the argument parser ends in another error
            code = INTERRUPTED if watch.interrupted or isinstance(error, Abort) else _answer(error)
    if code == INTERRUPTED:
        return _complain(watch.message, INTERRUPTED)
    if computed:
        say(f"\nwall time {time.perf_counter() - start:.1f} s, peak memory {in_bytes(peak_memory())}")
    try:
        sys.stdout.flush()
    except OSError as error:
        unprinted.append(error)
    if unprinted:
        return _unprinted(unprinted[0])
    return code if isinstance(code, int) else 0


def _answer(error):
    """One line and the exit code for an exception that ended a command."""
    if isinstance(error, DftfdError):
        return _complain(error, error.exit_code)
    if isinstance(error, BrokenPipeError) or isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO):
        return _unprinted(error)
    if isinstance(error, RuntimeError) and str(error).startswith("Unable to initialize backend"):
        return _complain(f"JAX does not start: {error} Look at JAX_PLATFORMS.", InputError.exit_code)
    if isinstance(error, MemoryError):
        message = f"out of memory ({error or 'no details'}); use a smaller basis set or grid."
        return _complain(message, ResourceError.exit_code)
    if isinstance(error, OSError) and error.filename is not None:
        return _complain(f"{error.strerror}: {error.filename}.", FileError.exit_code)
    if hasattr(error, "format_message"):  # the argument parser's usage errors
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "dftfd"
        said = error.format_message().rstrip(".")
        end = "" if said.endswith("?") else "."
        return _complain(f"{said}{end} See {command} --help.", InputError.exit_code)
    text = f"internal error: {type(error).__name__}: {error}. Run again with --debug for the traceback, and report it."
    return _complain(text, INTERNAL_ERROR)


def _unprinted(error):
    """The exit code where standard output did not take what was printed, and silence at the end of Python."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # the reader has left, as `head` does: nobody to complain to
        return INTERNAL_ERROR
    return _complain(f"cannot write to standard output: {error.strerror}.", FileError.exit_code)


def _complain(message, code):
    complain(message)
    return code


INTERRUPTED = 130
GRACE = 3.0
"""Seconds that a command has to end by itself."""

AGAIN = 0.02
"""Seconds after which an interrupt that was lost is repeated."""


class InterruptWatch:
    """A `with` statement around a command.

    checkpoint: that of the run, a results.checkpoint.Checkpoint, or None.   interrupted: whether Ctrl-C was heard.
    Records and paths that are being written name themselves (runtime.files.unfinished).
    """

    def __init__(self, grace: float = GRACE):
        self.checkpoint, self.interrupted = None, False
        unfinished.clear()
        self._grace, self._ended = grace, threading.Event()

    @property
    def message(self) -> str:
        """What is said of the interruption."""
        for path, how in [*unfinished.items()]:
            if os.path.exists(path):
                return f"interrupted; finished work is in {path}, continue with the same command{how}"
        if self.checkpoint is None or not self.checkpoint.written:
            return "interrupted"
        return f"interrupted; the last cycle is saved, continue with --restart {self.checkpoint.path}"

    def __enter__(self):
        ours = (signal.SIG_DFL, signal.default_int_handler)  # not a program's own, and not where it is ignored
        self._before = signal.getsignal(signal.SIGINT)
        self._in_use = threading.current_thread() is threading.main_thread() and self._before in ours
        if self._in_use:
            self._wake, self._signalled = socket.socketpair()
            self._signalled.setblocking(False)
            threading.Thread(target=self._watch, daemon=True, name="dftfd-interrupt").start()
            self._fd_before = signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)
            signal.signal(signal.SIGINT, self._interrupt)
            self._hook_before, sys.unraisablehook = sys.unraisablehook, self._say_again
        return self

    def __exit__(self, *error):
        if self._in_use:
            # where the process is the command, all is said and done: what is left is the end of Python
            done = self._before is signal.SIG_DFL
            signal.signal(signal.SIGINT, signal.SIG_IGN if done else self._before)
            signal.set_wakeup_fd(self._fd_before)
            sys.unraisablehook = self._hook_before
            self._ended.set()
            self._signalled.close()

    def _interrupt(self, number, frame):
        self.interrupted = True
        raise KeyboardInterrupt

    def _say_again(self, unraisable):
        """An interrupt in a callback that cannot raise, such as one of the garbage collector, comes once more."""
        if unraisable.exc_type is KeyboardInterrupt:
            main = threading.main_thread().ident
            threading.Timer(AGAIN, signal.pthread_kill, [main, signal.SIGINT]).start()
        else:
            self._hook_before(unraisable)

    def _watch(self):
        with self._wake:
            while (signals := self._wake.recv(64)) and signal.SIGINT not in signals:
                pass
            if signals and not self._ended.wait(self._grace):
                os.write(2, f"dftfd: error: {self.message}\n".encode())
                os._exit(INTERRUPTED)
