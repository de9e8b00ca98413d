"""What a benchmark would take, told before it begins: molecules, their sizes, memory, processor time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dftfd.benchmarks.energies import How, cost, distinct_molecules, name_of
from dftfd.benchmarks.reactions import BenchmarkSet
from dftfd.errors import ResourceError
from dftfd.runtime.memory import memory_shared_among
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress, in_time
from dftfd.system.molecule import Molecule
from dftfd.tasks.run import plan_scf

SECONDS = 1.15e-5
"""Processor seconds per unit of `cost`: diet:150, PBE, def2-SVP, fitted integrals, grid level 3 (docs/benchmark.md)."""


@dataclass(frozen=True, repr=False)
class Plan(ShownAsText):
    """Which calculations a benchmark is made of.

    molecules: those that differ, by name.   failed: molecule -> why it cannot be computed.   memory: functional -> what
    the largest molecule takes, in words.
    """

    name: str
    n_reactions: int
    functionals: tuple[str, ...]
    molecules: Mapping[str, Molecule]
    failed: Mapping[str, str]
    memory: Mapping[str, str]

    @property
    def n_ao(self) -> dict[str, int]:
        """Number of basis functions of each molecule."""
        return {name: system.n_ao for name, system in self.molecules.items()}

    @property
    def seconds(self) -> float:
        """Processor time of all functionals, were they PBE; exact exchange takes about twice as long."""
        return SECONDS * sum(map(cost, self.molecules.values())) * len(self.functionals)

    def __str__(self):
        largest, sizes = _largest(self.molecules), self.n_ao.values()
        falling = np.sort(list(map(cost, self.molecules.values())))[::-1]
        half = int(np.searchsorted(np.cumsum(falling), falling.sum() / 2)) + 1
        lines = [
            f"{self.name}: {self.n_reactions} reactions, {len(sizes)} molecules that differ, "
            f"{len(sizes) * len(self.functionals)} calculations",
            f"  basis functions   {min(sizes)} to {max(sizes)}; the {half} largest molecules are half the work",
            f"  processor time    of the order of {in_time(self.seconds)} (pure functionals, fitted integrals; twice "
            "that with exact exchange)",
        ]
        lines += [f"  {largest} / {xc}: {words}" for xc, words in self.memory.items()]
        return "\n".join([*lines, *(f"  cannot be computed: {name}: {why}" for name, why in self.failed.items())])


def _largest(molecules) -> str:
    return max(molecules, key=lambda name: molecules[name].n_ao)


class _Facts(Progress):
    """Keeps what is told of a calculation."""

    def __init__(self):
        super().__init__()
        self.texts: list[str] = []

    def note(self, text):
        self.texts.append(text)


def plan_of(found: BenchmarkSet, functionals: Sequence[Any], how: How) -> Plan:
    """What `compute` would do with the same arguments. The memory looked at is that of the largest molecule."""
    distinct, _, failed = distinct_molecules(found, how)
    molecules = dict(distinct.values())
    largest = molecules[_largest(molecules)]
    return Plan(
        found.name,
        len(found.reactions),
        tuple(map(name_of, functionals)),
        molecules,
        failed,
        {name_of(xc): _memory(largest, how.density or xc, how) for xc in functionals},
    )


def _memory(system, xc, how) -> str:
    """What a calculation takes of the part of the memory that a process has, in words."""
    told = _Facts()
    try:
        with memory_shared_among(how.jobs):
            plan_scf(system, told, **how.options | {"xc": xc})
    except ResourceError as error:
        return str(error)
    return next(text for text in told.texts if text.startswith("memory"))
