"""Entries of a batch on the workers of a Dask cluster, which repeats what a lost worker had not finished."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dftfd.batch.entries import Entry, failure
from dftfd.batch.outcomes import Outcome
from dftfd.errors import MissingDependencyError, ResourceError
from dftfd.runtime.arguments import instance


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
            entry = waiting.pop(future)
            yield future.result() if future.status == "finished" else failure(entry, _reason(future))
    finally:
        client.cancel(list(waiting))


def _reason(future):
    """Why an entry has no outcome: each worker that tried it was lost, or the scheduler was."""
    if future.status == "error":
        return future.exception()
    return ResourceError(f"the cluster gave it up ({future.status}); is the scheduler still there?")
