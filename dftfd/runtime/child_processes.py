"""The one place where dftfd starts processes: nothing of the current folder is imported in any of them.

`python -c` and `python -m` put the current folder on the path of imports, before the standard library, and
multiprocessing starts its children, and the process that watches over their resources, by `python -c`. A file
`threading.py` that merely lies there would be executed. PYTHONSAFEPATH (Python 3.11) keeps the folder away, from
children of children as well. What the user has put on the path is handed down to the children of multiprocessing.
"""

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from dftfd.errors import ResourceError

_SAFE = "PYTHONSAFEPATH"
_environment = threading.Lock()


def pipe():
    """Both ends of a connection between this process and one that `start_child` starts."""
    return _context().Pipe()


def start_child(target: Callable, arguments: Sequence[Any], name: str):
    """A process that calls `target` of these arguments and ends with this one; a multiprocessing.Process."""
    process = _context().Process(target=target, args=tuple(arguments), name=name, daemon=True)
    with _safe_path():
        process.start()
    return process


def run_module(name: str, arguments: Sequence[str]) -> subprocess.CompletedProcess:
    """`python -m NAME ...` to its end, with what it prints as text."""
    command = [sys.executable, "-P", "-m", name, *arguments]
    environment = os.environ | {_SAFE: "1"}
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def run_program(
    command: Sequence[str], folder: str | os.PathLike, seconds: float, told: str = ""
) -> subprocess.CompletedProcess:
    """A program to its end, in a folder, with what it prints as text; ResourceError after so many seconds.

    told: what it reads from standard input, which then ends.
    """
    try:
        return subprocess.run(
            list(command),
            cwd=folder,
            input=told,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ResourceError(
            f"{command[0]} has not ended within {seconds:g} s; increase the limit, or reduce the calculation."
        ) from error


def _context():
    return multiprocessing.get_context("spawn")  # a fork of a process with threads can hang


@contextmanager
def _safe_path():
    """PYTHONSAFEPATH in the environment; multiprocessing has no other way to give its children an option."""
    with _environment:
        before = os.environ.get(_SAFE)
        os.environ[_SAFE] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SAFE]
            else:
                os.environ[_SAFE] = before
