"""The one place that decides how many threads run and who may start more.

Work on blocks of grid points is split over a few Python threads; NumPy, libcint and XLA release the interpreter lock.
Inside such a thread every BLAS and OpenMP call must stay single-threaded: two-thread OpenBLAS on a 100 x 1000 block
runs tens of times slower than one thread, and nested teams fight for the cores. Between such tasks BLAS rests with one
thread too: NumPy and SciPy bring an OpenBLAS each, whose idle threads go on asking for work for 30 ms and take it from
the workers. Where one large operation on matrices is the work, `blas_threads` lets it have all cores.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from dftfd.errors import InputError

Result = TypeVar("Result")

MOST_THREADS = 1024
"""More than any machine has cores; OpenMP crashes where the system has no room for so many."""


def worker_count() -> int:
    """Number of worker threads: OMP_NUM_THREADS where it is set, else the cores this process may use."""
    requested = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if not requested:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not requested.isdecimal() or len(requested) > 9 or int(requested) < 1:
        raise InputError(f"OMP_NUM_THREADS={requested!r} is not a number of threads; expected a positive integer.")
    if int(requested) > (most := max(MOST_THREADS, os.cpu_count() or 1)):
        raise InputError(
            f"OMP_NUM_THREADS={requested} is more than the {most} threads that dftfd starts; give a smaller number."
        )
    return int(requested)


@lru_cache(maxsize=1)
def _native_libraries() -> ThreadpoolController:
    """The loaded BLAS and OpenMP libraries. Scanned once (5 ms): all of ours are loaded with NumPy, SciPy and PySCF."""
    return ThreadpoolController()


class _SharedBlas:
    """The libraries that keep one number of threads for the process, and what contexts in force ask for."""

    def __init__(self):
        self._lock, self._requests, self._before = threading.Lock(), [], []

    def add(self, request: list[int]) -> None:
        with self._lock:
            if not self._requests:
                self._before = [library.num_threads for library in self._libraries()]
            self._requests.append(request)
            self._set([request[0]] * len(self._before))

    def remove(self, request: list[int]) -> None:
        with self._lock:
            self._requests = [r for r in self._requests if r is not request]
            self._set([self._requests[-1][0]] * len(self._before) if self._requests else self._before)

    def _set(self, counts):
        for library, count in zip(self._libraries(), counts, strict=True):
            # since 3.8 threadpoolctl listens to the first thread alone until that lets go
            let_go = getattr(library, "clear_controlling_thread", lambda force: None)
            let_go(force=True)
            library.set_num_threads(count)
            let_go(force=True)

    @staticmethod
    def _libraries():
        blas = _native_libraries().select(user_api="blas").lib_controllers
        return [library for library in blas if getattr(library, "threading_layer", None) != "openmp"]


_shared_blas = _SharedBlas()


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Context in which BLAS uses `count` threads.

    OpenBLAS keeps the number per process. Of several contexts, nested or of several threads, the newest decides; after
    the last of them the number is what it was before the first. A BLAS on OpenMP has a number for each thread.
    """
    request = [count]
    with _native_libraries().select(threading_layer="openmp").limit(limits=count):
        _shared_blas.add(request)
        try:
            yield
        finally:
            _shared_blas.remove(request)


LARGE_MATRIX = 700
"""Rows from which eigenvectors and products of matrices come sooner from all cores than from one. Of smaller ones the
gain is less than what idle threads of BLAS take from the workers that come after."""


def threads_for_matrices(n_rows: int):
    """Context for products and eigenvectors of (n_rows, n_rows) matrices."""
    return blas_threads(worker_count() if n_rows >= LARGE_MATRIX else 1)


def run_on_workers(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run every task on its own thread, native libraries limited to one thread each; results in the tasks' order.

    The first exception of a task is raised here after all tasks have ended.
    """
    openmp = _native_libraries().select(user_api="openmp")

    def run(task):
        with openmp.limit(limits=1):  # OpenMP keeps this setting per calling thread
            return task()

    with blas_threads(1):
        if len(tasks) <= 1:
            return [run(task) for task in tasks]
        with _threads(len(tasks)) as pool:
            pending = [pool.submit(run, task) for task in tasks]
            wait(pending)
            return [task.result() for task in pending]


_idle: dict[int, list[ThreadPoolExecutor]] = {}
"""Pools by their number of threads that nobody uses now: to start a thread takes a millisecond."""


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of so many threads for oneself; tasks may start tasks of their own."""
    idle = _idle.setdefault(count, [])
    try:
        pool = idle.pop()
    except IndexError:
        pool = ThreadPoolExecutor(count, thread_name_prefix="dftfd")
    try:
        yield pool
    finally:
        idle.append(pool)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads stay behind


def share_out(items: Sequence, code: Callable[[Sequence], Result]) -> list[Result]:
    """code(items of one worker) for each worker, of which each gets every n-th item; nothing where there is no item."""
    n_parts = min(worker_count(), len(items))
    return run_on_workers([partial(code, items[k::n_parts]) for k in range(n_parts)])


def split_evenly(costs: Sequence[float], n_parts: int) -> list[list[int]]:
    """Indices of `costs` in `n_parts` lists of nearly equal total, each ascending; depends on the arguments alone.

    Largest cost first, always to the part with the smallest total so far, which keeps results reproducible.
    """
    parts: list[list[int]] = [[] for _ in range(n_parts)]
    totals = [0.0] * n_parts
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        lightest = totals.index(min(totals))
        parts[lightest].append(index)
        totals[lightest] += costs[index]
    return [sorted(part) for part in parts]


def limit_threads(count: int) -> None:
    """Limit this process, from now on, to `count` threads of its own and of its native libraries."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    _native_libraries().limit(limits=count)
