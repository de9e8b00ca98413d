"""Energies of molecules with their derivatives by numbers of a functional: here, in processes, or on a Dask cluster.

Processes and cluster are those of batches (dftfd.batch); a process keeps the integrals of the molecules it met.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dftfd.batch.cluster import on_cluster
from dftfd.batch.entries import failure
from dftfd.batch.processes import in_processes
from dftfd.errors import FileError, InputError, NotConvergedError, NumericalError, ResourceError
from dftfd.functionals.definition import made_again
from dftfd.model.options import Options
from dftfd.system.molecule import Molecule
from dftfd.training.self_consistent import DifferentiableSCF

ERRORS: dict[int, type[Exception]] = {
    error.exit_code: error for error in (NotConvergedError, NumericalError, FileError, ResourceError)
}
"""What the exit code of a failure elsewhere stands for; InputError for others."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A molecule whose energy is asked for.

    fit: what it belongs to.   options: of run_scf.   functional: as other processes get it, whose parameters `names`
    are the flat numbers `at`.   guess: density matrix to begin with, or None.
    """

    number: int
    name: str
    fit: str
    molecule: Molecule
    options: dict
    functional: Any
    names: tuple[str, ...]
    at: np.ndarray
    guess: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Answer:
    """Energy [hartree], its derivatives by the flat numbers, density matrix (spin, ao, ao)."""

    number: int
    name: str
    energy: float
    slope: np.ndarray
    P: np.ndarray
    error: str | None = None


def energy_and_slope(scf: DifferentiableSCF, functional_at, flat, guess) -> tuple[float, np.ndarray, np.ndarray]:
    """(E, dE/dp, P) of the functional that functional_at makes of flat numbers p."""

    def energy(p):
        found = scf(functional_at(p), guess=guess)
        return found.energy, found.density_matrix

    (E, P), slope = jax.value_and_grad(energy, has_aux=True)(jnp.asarray(flat))
    return float(E), np.asarray(slope), np.asarray(P)


_met: dict[tuple[str, str], DifferentiableSCF] = {}
"""Molecules of the fit that this process works for."""


def answered(asked: Asked) -> Any:
    """The Answer, or the Outcome of a failure."""
    try:
        functional = made_again(asked.functional)
        _, unravel = ravel_pytree({name: functional.parameters[name] for name in asked.names})
        for key in [key for key in _met if key[0] != asked.fit]:
            del _met[key]
        key = asked.fit, asked.name
        if key not in _met:
            _met[key] = DifferentiableSCF(asked.molecule, Options(xc=functional, **asked.options))
        found = energy_and_slope(_met[key], lambda p: functional.with_parameters(**unravel(p)), asked.at, asked.guess)
        return Answer(asked.number, asked.name, *found)
    except Exception as error:
        return failure(cast(Any, asked), error)


@dataclass
class Elsewhere:
    """Processes, or the workers of a Dask client, that answer; `close` ends the processes."""

    jobs: int
    client: Any = None
    workers: list = field(default_factory=list)

    def answers(self, asked: Iterable[Asked]) -> Iterator[Answer]:
        """As they come; raises what the first failure stands for."""
        task: Any = answered  # batches ask of an entry that it has a number and a name
        entries: list[Any] = list(asked)
        arriving: Any = (
            in_processes(task, entries, min(self.jobs, len(entries)), self.workers)
            if self.client is None
            else on_cluster(task, entries, self.client)
        )
        for answer in arriving:
            if answer.error is not None:
                arriving.close()
                raise ERRORS.get(answer.exit_code, InputError)(f"{answer.name}: {answer.error}")
            yield answer

    def close(self) -> None:
        """Ends the processes."""
        for worker in self.workers:
            worker.stop()
        self.workers.clear()
