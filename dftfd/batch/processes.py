"""Entries on processes of this machine. A process that dies costs its own entry another attempt, and no other's.

Entries of a batch on the workers of a Dask cluster, which repeats what a lost worker had not finished.
"""

import os
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait

from dftfd.batch.entries import Entry, Outcome, failure
from dftfd.errors import MissingDependencyError, ResourceError
from dftfd.runtime.arguments import instance
from dftfd.runtime.child_processes import pipe, start_child
from dftfd.runtime.memory import limit_memory_share
from dftfd.runtime.startup import OF_BATCH
from dftfd.runtime.threads import limit_threads, worker_count

MAX_ATTEMPTS = 2
"""How often an entry whose process dies is tried."""

MAX_STARTS = 8
"""Processes of a batch that may be killed before they are ready."""

_START = "start"  # where their number stands, beside the entries' attempts


class _Worker:
    """A process that answers entries with outcomes, one at a time."""

    def __init__(self, task, n_workers):
        self.connection, far_end = pipe()
        self.process = start_child(_serve, (far_end, task, n_workers), f"{OF_BATCH}{os.getpid()}")
        far_end.close()
        self.entry: Entry | None = None
        self.ready = False

    @property
    def idle(self) -> bool:
        return self.ready and self.entry is None

    def start(self, entry):
        self.entry = entry
        with suppress(OSError):  # it has just died, as waiting for its answer will tell
            self.connection.send(entry)

    def answer(self) -> Outcome | None:
        """The outcome of its entry; None when it has become ready. EOFError where it has died."""
        try:
            outcome = self.connection.recv()
        except OSError as error:
            raise EOFError from error
        self.ready, self.entry = True, None
        return outcome

    def stop(self):
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(connection, task, n_workers):
    """The life of a worker process, which ends with its parent at the latest (dftfd.runtime.startup)."""
    limit_threads(max(1, worker_count() // n_workers))
    limit_memory_share(n_workers)
    with suppress(EOFError, ConnectionError):
        connection.send(None)
        while True:
            connection.send(task(connection.recv()))


def in_processes(
    task: Callable[[Entry], Outcome], entries: Sequence[Entry], n_workers: int, kept: list | None = None
) -> Iterator[Outcome]:
    """Outcomes of `task` for all entries, as they come, from `n_workers` processes.

    kept: processes of the same task from the last time, which get these entries, too, and stay until whoever has the
    list stops them. Without, closing the generator ends the processes.

    Raises ResourceError where a process cannot even start.
    """
    waiting = deque(entries)
    attempts: Counter = Counter()
    workers: list[_Worker] = [] if kept is None else kept
    try:
        while waiting or any(worker.entry for worker in workers):
            for worker in workers:
                if worker.idle and waiting:
                    worker.start(waiting.popleft())
            while len(workers) < n_workers and sum(not worker.ready for worker in workers) < len(waiting):
                workers.append(_Worker(task, n_workers))
            by_connection = {worker.connection: worker for worker in workers}
            for connection in wait(list(by_connection)):  # they have an answer, or have died
                worker = by_connection[connection]
                try:
                    outcome = worker.answer()
                except EOFError:
                    workers.remove(worker)
                    worker.stop()
                    outcome = _after_death(worker, attempts, waiting)
                if outcome is not None:
                    yield outcome
    finally:
        for worker in [w for w in workers if kept is None or w.entry is not None or not w.ready]:
            workers.remove(worker)
            worker.stop()


def _after_death(worker, attempts, waiting) -> Outcome | None:
    """The failure of a dead worker's entry, or None where it waits for another attempt or there was none."""
    entry, exit_code = worker.entry, worker.process.exitcode
    if not worker.ready:
        attempts[_START] += 1
        if exit_code < 0 and attempts[_START] < MAX_STARTS:  # by a signal, from outside
            return None
        raise ResourceError(
            f"a process of the batch {_end(exit_code)} before its first molecule; a script must call run_batch under "
            "`if __name__ == '__main__':`, and not be read from standard input; if memory ran out, use fewer processes."
        )
    if entry is None:
        return None
    attempts[entry.number] += 1
    if attempts[entry.number] < MAX_ATTEMPTS:
        waiting.append(entry)
        return None
    error = ResourceError(
        f"its process {_end(exit_code)}, {MAX_ATTEMPTS} times; if memory ran out, use fewer processes."
    )
    return failure(entry, error)


def _end(exit_code):
    return f"ended with code {exit_code}" if exit_code >= 0 else f"was ended by signal {-exit_code}"


def _distributed():
    try:
        import distributed
    except ImportError as error:
        raise MissingDependencyError("batches on a cluster need Dask: pip install 'dftfd[dist]'.") from error
    except ValueError as error:  # of a configuration file of Dask's that Dask does not take
        raise MissingDependencyError(f"Dask does not start: {error} Repair or remove that file.") from error
    return distributed


@contextmanager
def cluster_client(address: str, timeout: float = 10.0):
    """A dask.distributed.Client of the scheduler at `address`, 'tcp://host:8786', None for ''.

    ResourceError if none answers.
    """
    if not address:
        yield None
        return
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=timeout)
    except (OSError, ValueError) as error:
        raise ResourceError(f"no Dask scheduler answers at {address!r}: {error or type(error).__name__}.") from error
    with client:
        yield client


def require_client(client) -> None:
    """Raise InputError for what is no dask.distributed.Client."""
    instance(_distributed().Client).checked("client", client)


def on_cluster(task: Callable[[Entry], Outcome], entries: Sequence[Entry], client) -> Iterator[Outcome]:
    """Outcomes of `task` for all entries, as they come. Closing the generator cancels what has not begun."""
    token = uuid.uuid4().hex  # keys of their own: no result of another batch is taken for one of this
    waiting = {client.submit(task, entry, key=f"dftfd-{token}-{entry.number}", pure=False): entry for entry in entries}
    arriving = _distributed().as_completed(list(waiting))
    try:
        for future in arriving:
            if not future.done():  # its worker has died with the outcome, which another one computes again
                arriving.add(future)
                continue
            entry = waiting.pop(future)
            yield future.result() if future.status == "finished" else failure(entry, _reason(future))
    finally:
        client.cancel(list(waiting))


def _reason(future):
    """Why an entry has no outcome: each worker that tried it was lost, or the scheduler was."""
    if future.status == "error":
        return future.exception()
    return ResourceError(f"the cluster gave it up ({future.status}); is the scheduler still there?")
