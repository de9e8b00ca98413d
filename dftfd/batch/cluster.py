"""Jobs on the workers of a Dask cluster, which repeats what a lost worker had not finished."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dftfd.arguments import instance
from dftfd.batch.jobs import Job, Outcome, failure
from dftfd.errors import MissingDependencyError, ResourceError


def _distributed():
    try:
        import distributed
    except ImportError as error:
        raise MissingDependencyError("batches on a cluster need Dask: pip install 'dftfd[dist]'.") from error
    except ValueError as error:  # of a configuration file of Dask's that Dask does not take
        raise MissingDependencyError(f"Dask does not start: {error} Mend or remove that file.") from error
    return distributed


@contextmanager
def cluster_client(address: str, timeout: float = 10.0):
    """A dask.distributed.Client of the scheduler at `address`, 'tcp://host:8786'. ResourceError if none answers."""
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


def on_cluster(task: Callable[[Job], Outcome], jobs: Sequence[Job], client) -> Iterator[Outcome]:
    """Outcomes of `task` for all jobs, as they come. Closing the generator cancels what has not begun."""
    token = uuid.uuid4().hex  # keys of their own: no result of another batch is taken for one of this
    waiting = {client.submit(task, job, key=f"dftfd-{token}-{job.number}", pure=False): job for job in jobs}
    arriving = _distributed().as_completed(list(waiting))
    try:
        for future in arriving:
            job = waiting.pop(future)
            yield future.result() if future.status == "finished" else failure(job, _reason(future))
    finally:
        client.cancel(list(waiting))


def _reason(future):
    """Why a job has no outcome: each worker that tried it was lost, or the scheduler was."""
    if future.status == "error":
        return future.exception()
    return ResourceError(f"the cluster gave it up ({future.status}); is the scheduler still there?")
