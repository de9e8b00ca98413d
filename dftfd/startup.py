"""Ctrl-C while the libraries of the command `dftfd` are loaded.

An exception between two steps of an import may end in any error, or in none. Until the command is ready to answer, the
signal therefore ends the process at once, as it does any program: nothing has been computed, nothing is being written.
A Python program that imports dftfd keeps its own answer.
"""

import os
import signal
import sys


def end_at_once_on_interrupt() -> None:
    """Leave Ctrl-C to the system if this process is the command; dftfd.cli.interrupts takes it over."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _is_command():
    """Whether the process was started as `dftfd ...` or `python -m dftfd ...`."""
    words = sys.orig_argv
    as_module = "-m" in words[:-1] and words[words.index("-m") + 1] == "dftfd"
    return as_module or bool(sys.argv) and os.path.basename(sys.argv[0]) == "dftfd"
