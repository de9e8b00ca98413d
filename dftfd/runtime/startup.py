"""Before anything is loaded: Ctrl-C and errors of the command `dftfd`, room for the libraries, a parent that is gone.

An exception between two steps of an import may end in any error, or in none. Until the command is ready to answer,
Ctrl-C therefore ends the process at once, as it does any program: nothing has been computed, nothing is being written.
A Python program that imports dftfd keeps its own answer.
"""

import gc
import os
import resource
import signal
import sys
import threading
import time
from contextlib import contextmanager
from multiprocessing import current_process

from dftfd.errors import DftfdError, ResourceError

ADDRESS_SPACE, PER_CORE, CORES = 3 * 2**29, 2**28, 16
"""Bytes of address space that the libraries and a small calculation take, and more for each core's threads.

With less, threads that cannot start end the process by a signal, or wait for ever. Measured with JAX 0.10.2 on one and
two cores (2.0 and 2.2 GB for water); more than CORES are not counted.
"""

OF_BATCH = "dftfd-batch-of-"
"""How the names of a batch's processes begin, before the number of their parent."""

GLANCE = 0.2
"""Seconds between two looks of such a process at whether its parent is there."""


def end_at_once_on_interrupt() -> None:
    """Leave Ctrl-C to the system if this process is the command; dftfd.cli takes it over."""
    if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def load_without_collections() -> None:
    """Let the command load its libraries without a search for garbage, which finds none: `loaded` turns it on again."""
    if is_command():
        gc.disable()


def loaded() -> None:
    """Collect garbage from here on, but never look again at what the libraries have made, which stays to the end."""
    gc.freeze()
    gc.enable()


def end_with_parent() -> None:
    """Where this process is one of a batch, end it with the one that started it, in the midst of imports or a run.

    Nobody would hear what it computes. Ctrl-C is the parent's business.
    """
    name = current_process().name
    if not name.startswith(OF_BATCH):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch():
        while os.getppid() == int(name.removeprefix(OF_BATCH)):
            time.sleep(GLANCE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="dftfd-parent").start()


@contextmanager
def said_by_the_command():
    """Inside, an error that dftfd raises on purpose ends the command with its line and exit code."""
    try:
        yield
    except DftfdError as error:
        if not is_command():
            raise
        print("dftfd: error:", error, file=sys.stderr)
        sys.exit(error.exit_code)


def require_address_space() -> None:
    """Raise ResourceError where the limit of the address space (ulimit -v) is too low to load the libraries."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    needed = ADDRESS_SPACE + PER_CORE * min(CORES, cores)
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise ResourceError(
            f"the address space is limited to {limit / 2**30:.2f} GiB (ulimit -v), but the libraries take up to "
            f"{needed / 2**30:.2f} GiB of it; raise the limit, or bound what a calculation takes by --max-memory."
        )


def is_command() -> bool:
    """Whether the process was started as `dftfd ...` or `python -m dftfd ...`, and is not one of its batch."""
    if current_process().name != "MainProcess":
        return False
    words = sys.orig_argv
    as_module = "-m" in words[:-1] and words[words.index("-m") + 1] == "dftfd"
    return as_module or bool(sys.argv) and os.path.basename(sys.argv[0]) == "dftfd"
