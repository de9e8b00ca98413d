"""What a benchmark would take, told before it begins: molecules, their sizes, memory, processor time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dftfd.benchmarks.energies import How, cost, distinct_molecules, name_of
from dftfd.benchmarks.reactions import BenchmarkSet
from dftfd.errors import ResourceError
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.runtime.memory import memory_shared_among
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress

SECONDS = 1.15e-5
"""Processor seconds per unit of `cost`: diet:150, PBE, def2-SVP, fitted integrals, grid level 3 (docs/benchmark.md)."""


@dataclass(frozen=True, repr=False)
class Plan(ShownAsText):
    """Which calculations a benchmark is made of.

    n_ao: molecule -> number of basis functions.   costs: molecule -> what `cost` says.   failed: molecule -> why it
    cannot be computed.   memory: functional -> what the largest molecule takes, in words.
    """

    name: str
    n_reactions: int
    functionals: tuple[str, ...]
    n_ao: Mapping[str, int]
    costs: Mapping[str, float]
    failed: Mapping[str, str]
    memory: Mapping[str, str]

    @property
    def seconds(self) -> float:
        """Processor time of all functionals, were they PBE; exact exchange takes about twice as long."""
        return SECONDS * sum(self.costs.values()) * len(self.functionals)

    def __str__(self):
        largest, smallest = max(self.n_ao, key=self.n_ao.__getitem__), min(self.n_ao.values())
        falling = np.sort(list(self.costs.values()))[::-1]
        half = int(np.searchsorted(np.cumsum(falling), falling.sum() / 2)) + 1
        lines = [
            f"{self.name}: {self.n_reactions} reactions, {len(self.n_ao)} molecules that differ, "
            f"{len(self.n_ao) * len(self.functionals)} calculations",
            f"  basis functions   {smallest} to {self.n_ao[largest]}; the {half} largest molecules are half the work",
            f"  processor time    of the order of {_span(self.seconds)} (pure functionals, fitted integrals; twice "
            "that with exact exchange)",
        ]
        lines += [f"  {largest} / {xc}: {words}" for xc, words in self.memory.items()]
        return "\n".join([*lines, *(f"  cannot be computed: {name}: {why}" for name, why in self.failed.items())])


def _span(seconds):
    return (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.0f} h"
    )


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
    systems = dict(distinct.values())
    largest = max(systems.values(), key=lambda system: system.n_ao)
    return Plan(
        found.name,
        len(found.reactions),
        tuple(map(name_of, functionals)),
        {name: system.n_ao for name, system in systems.items()},
        {name: cost(system) for name, system in systems.items()},
        failed,
        {name_of(xc): _memory(largest, how.density or xc, how) for xc in functionals},
    )


def _memory(system, xc, how) -> str:
    """What a calculation takes of the part of the memory that a process has, in words."""
    told = _Facts()
    try:
        with memory_shared_among(how.jobs):
            Calculation.of(system, Options.given_to("run_scf", **how.options | {"xc": xc})).plan(told)
    except ResourceError as error:
        return str(error)
    return next(text for text in told.texts if text.startswith("memory"))
