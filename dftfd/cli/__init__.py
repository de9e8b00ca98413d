"""The command `dftfd`.

Exit codes: 0 done, 2 bad input, 3 not converged, 4 NaN or Inf, 5 file, 6 memory, 130 interrupted.

Errors are one line on standard error; `--debug` shows the traceback. Chemistry is imported by the commands when they
run, so `dftfd --help` and a mistyped option answer at once.
"""

import errno
import functools
import io
import os
import sys
import time

from typer import Abort
from typer.main import get_command

from dftfd.cli import electrons, formulas, installation, nuclei, verdicts  # noqa: F401  each registers its commands
from dftfd.cli.commands import app
from dftfd.cli.interrupts import INTERRUPTED, InterruptWatch
from dftfd.cli.terminal import complain, computed, say, unprinted
from dftfd.errors import DftfdError, FileError, InputError, ResourceError
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
