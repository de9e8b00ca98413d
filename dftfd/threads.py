"""The one place that decides how many threads run and who may start more.

Work on blocks of grid points is split over a few Python threads; NumPy, libcint and XLA release the interpreter lock.
Inside such a thread every BLAS and OpenMP call must stay single-threaded: two-thread OpenBLAS on a 100 x 1000 block
runs tens of times slower than one thread, and nested teams fight for the cores. Between such tasks BLAS rests with one
thread too: NumPy and SciPy bring an OpenBLAS each, whose idle threads go on asking for work for 30 ms and take it from
the workers. Where one large operation on matrices is the work, `blas_threads` lets it have all cores.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from dftfd.errors import InputError

Result = TypeVar("Result")


def worker_count() -> int:
    """Number of worker threads: OMP_NUM_THREADS where it is set, else the cores this process may use."""
    requested = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if not requested:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not requested.isdecimal() or int(requested) < 1:
        raise InputError(f"OMP_NUM_THREADS={requested!r} is not a number of threads; expected a positive integer.")
    return int(requested)


@lru_cache(maxsize=1)
def _native_libraries() -> ThreadpoolController:
    """The loaded BLAS and OpenMP libraries. Scanned once (5 ms): all of ours are loaded with NumPy, SciPy and PySCF."""
    return ThreadpoolController()


def blas_threads(count: int) -> AbstractContextManager:
    """Context in which BLAS uses `count` threads; OpenBLAS keeps the number per process."""
    return _native_libraries().limit(limits=count, user_api="blas")


def run_on_workers(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run every task on its own thread, native libraries limited to one thread each; results in the tasks' order.

    The first exception of a task is raised here after all tasks have ended.
    """
    libraries = _native_libraries()

    def run(task):
        with libraries.limit(limits=1, user_api="openmp"):  # OpenMP keeps this setting per calling thread
            return task()

    with blas_threads(1):
        if len(tasks) == 1:
            return [run(tasks[0])]
        with ThreadPoolExecutor(max_workers=max(1, len(tasks)), thread_name_prefix="dftfd") as pool:
            return list(pool.map(run, tasks))


def share_out(items: Sequence, code: Callable[[Sequence], Result]) -> list[Result]:
    """code(items of one worker) for each worker, of which each gets every n-th item; nothing where there is no item."""
    n_parts = min(worker_count(), len(items))
    return run_on_workers([lambda k=k: code(items[k::n_parts]) for k in range(n_parts)])


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
