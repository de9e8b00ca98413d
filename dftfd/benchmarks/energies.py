"""Energies of the molecules of a set: each once for each functional, by the batch machinery, which keeps the record.

What fails or looks wrong climbs a ladder of other ways to the solution; what fails on its last rung is listed.

`plan_of` estimates memory and processor time before anything is computed.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dftfd.batch import Outcome, run_batch
from dftfd.batch.processes import require_client
from dftfd.benchmarks.reactions import BenchmarkSet
from dftfd.errors import DftfdError, InputError, InputWarning, NotConvergedError, NumericalError, ResourceError, shown
from dftfd.functionals.registry import get_functional
from dftfd.model.options import Options
from dftfd.results.tree import MOLECULE_TEXT
from dftfd.runtime.memory import memory_shared_among
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress, in_time
from dftfd.runtime.version import VERSION
from dftfd.system.molecule import Molecule, molecule
from dftfd.tasks.run import plan_scf

LADDER: tuple[Mapping[str, Any], ...] = (
    {"convergence": "hard"},
    {"convergence": "hard", "guess": "atom"},
    {"convergence": "hard", "guess": "hueckel", "max_cycles": 200},
)
"""Options that are tried, one after the other, where a molecule has failed."""

RETRIED = {NotConvergedError.exit_code, NumericalError.exit_code}
"""Exit codes of failures that another way to the solution may mend."""

CONTAMINATION = 0.2
"""<S^2> may exceed s(s + 1) by this much; beyond, a lower state is looked for, and the molecule is listed."""

LOWER = 1e-6
"""Hartree by which another state must lie lower to count."""

COST_EXPONENT = 2.5
"""Time grows with the number of basis functions to about this power, for molecules of benchmark sets."""


@dataclass(frozen=True)
class Computed:
    """What became of a molecule with a functional.

    energy [hartree], None where there is none, for the reason `error`.   components [hartree].   s_squared: <S^2>.
    remarks: what a reader should know: rungs of the ladder, spin contamination, warnings.   seconds: wall time.
    document: QCSchema of an optimisation, of vibrations; None of an energy.
    """

    energy: float | None
    error: str | None = None
    components: Mapping[str, float] = field(default_factory=dict)
    s_squared: float | None = None
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    document: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Step:
    """How far a run is: a molecule with a functional is done.

    seconds_left: estimated from what was done, None while that is too little to tell.
    """

    name: str
    xc: str
    outcome: Outcome
    done: int
    total: int
    seconds_left: float | None


@dataclass(frozen=True)
class How:
    """How energies are computed.

    basis: for molecules that bring none (or all, where `keep_basis` is not set).   options: for run_scf.   density:
    functional whose density all others are evaluated on, None for their own.   jobs, client, record, task, search: of
    the batch.
    """

    basis: str
    options: Mapping[str, Any] = field(default_factory=dict)
    molecule_options: Mapping[str, Any] = field(default_factory=dict)
    density: Any = None
    jobs: int = 1
    client: Any = None
    record: Any = None
    own_basis: bool = False
    task: str = "energy"
    search: Mapping[str, Any] = field(default_factory=dict)


def name_of(xc) -> str:
    """What a functional is called in tables."""
    return xc if isinstance(xc, str) else get_functional(xc).name


def as_many(value) -> tuple:
    """Functionals of a list, or the one that is none."""
    return tuple(value) if type(value) in (list, tuple) else (value,)


def checked_options(task: str, noun: str, given: Mapping[str, Any], client) -> Options:
    """The options of a task of many molecules. InputError for those of one, and for a client that is none."""
    checked = Options.given_to(task, **given)
    if of_one := checked.of_one_molecule():
        raise InputError(f"{min(of_one)}= is for one molecule; a {noun} has record= and on_step=.")
    if placed := checked.changed().keys() & {"electric_field", "point_charges", "external_potential"}:
        warnings.warn(
            f"{min(placed)}= is the same for all molecules of a {noun}, wherever they are and however they are turned.",
            InputWarning,
            stacklevel=4,
        )
    if client is not None:
        require_client(client)
    return checked


def compute(found: BenchmarkSet, functionals: Sequence, how: How, on_step: Callable[[Step], None]) -> dict:
    """(functional, molecule) -> Computed, by names, for all molecules of a set, the cheap ones first."""
    distinct, keys, failed = distinct_molecules(found, how)
    order = sorted(distinct.values(), key=lambda pair: cost(pair[1]))
    computed: dict[tuple[str, str], Computed] = {}
    for name, error in failed.items():
        computed |= {(name_of(xc), name): Computed(None, error) for xc in functionals}
    of_content = _climb(order, functionals, how, on_step)
    for name, key in keys.items():
        first, _ = distinct[key]
        computed |= {(name_of(xc), name): of_content[name_of(xc), first] for xc in functionals}
    return computed


def distinct_molecules(found, how) -> tuple[dict[str, tuple[str, Molecule]], dict[str, str], dict[str, str]]:
    """Content -> name and molecule, of equal ones the first; name -> content; name -> why there is no such molecule.

    Raises InputError where there is none at all.
    """
    systems, failed = _systems(found, how)
    if failed and not systems:
        name, error = next(iter(failed.items()))
        raise InputError(f"no molecule can be computed; {name}: {error}")
    distinct: dict[str, tuple[str, Molecule]] = {}
    keys = {name: _content(system) for name, system in systems.items()}
    for name, key in keys.items():
        distinct.setdefault(key, (name, systems[name]))
    return distinct, keys, failed


def cost(system: Molecule) -> float:
    """What a molecule costs, relative to others."""
    return (2 if system.spin else 1) * system.n_ao**COST_EXPONENT


def _systems(found, how):
    """Molecules by name, and errors of those that are none in this basis set."""
    systems, failed = {}, {}
    for name, species in found.species.items():
        basis = species.basis if how.own_basis and species.basis else how.basis
        try:
            systems[name] = molecule(
                species.atoms, basis, species.charge, species.spin, allow_close=True, **how.molecule_options
            )
        except DftfdError as error:
            failed[name] = str(error)
    return systems, failed


def _content(system) -> str:
    """Text that is equal for equal molecules."""
    named = {name: getattr(system, name) for name in MOLECULE_TEXT}
    return json.dumps([named, system.coordinates.tolist()], default=str)


def _climb(order, functionals, how, on_step) -> dict[tuple[str, str], Computed]:
    """(functional, molecule) -> Computed: all as asked for, then what failed or is in doubt, rung by rung."""
    jobs = [(name, system, xc) for name, system in order for xc in ((how.density,) if how.density else functionals)]
    best = {_label(job): (outcome, ()) for job, outcome in _run(jobs, {}, functionals, how, on_step)}
    for k, rung in enumerate(LADDER):
        if set(rung) & set(how.options):  # what was asked for stays
            continue
        again = [job for job in jobs if _failed(best[_label(job)][0]) or k == 0 and _excess(best[_label(job)][0])]
        words = ", ".join(f"{name}={value}" for name, value in rung.items())
        for job, outcome in _run(again, rung, functionals, how, on_step):
            best[_label(job)] = _better(*best[_label(job)], outcome, words)
    return {
        (name_of(xc), name): _computed(*best[name, name_of(how.density or xc)], name_of(xc) if how.density else None)
        for name, _ in order
        for xc in functionals
    }


def _label(job):
    name, _, xc = job
    return name, name_of(xc)


def _failed(outcome: Outcome) -> bool:
    return outcome.exit_code in RETRIED


def _excess(outcome: Outcome) -> float:
    """By how much <S^2> exceeds s(s + 1), where that is too much; else 0."""
    if outcome.error is not None or outcome.document is None:
        return 0.0
    spin = (outcome.document["molecule"]["molecular_multiplicity"] - 1) / 2
    excess = (outcome.document["extras"]["dftfd"]["s_squared"] or 0.0) - spin * (spin + 1)
    return excess if excess > CONTAMINATION else 0.0


def _better(old: Outcome, said: tuple, new: Outcome, words: str) -> tuple[Outcome, tuple]:
    if new.error is not None or new.energy is None:
        return old, said
    if _failed(old):
        return new, (*said, f"converged with {words}, after: {old.error}")
    if old.energy is not None and new.energy < old.energy - LOWER:
        return new, (*said, f"{words} led to a state lower by {old.energy - new.energy:.6f} hartree")
    return old, said


def _run(jobs, rung, functionals, how, on_step):
    """Pairs of jobs, (name, molecule, functional), and outcomes."""
    if not jobs:
        return ()
    own = {name_of(xc): {"xc": xc, **rung} for _, _, xc in jobs}
    watch = _Watch(jobs, how, on_step)
    outcomes = run_batch(
        [(f"{name} / {name_of(xc)}", system, own[name_of(xc)]) for name, system, xc in jobs],
        jobs[0][2],
        jobs=how.jobs,
        client=how.client,
        record=how.record,
        task=how.task,
        search=dict(how.search),
        also=functionals if how.density else (),
        on_outcome=watch.show,
        **how.options,
    )
    return zip(jobs, outcomes, strict=True)


ENOUGH = 0.05
"""Share of the work whose time tells that of the rest: small molecules come first, and take what starting takes."""


class _Watch:
    """Counts outcomes, and estimates the time that is left from those that were computed, whenever that was."""

    def __init__(self, jobs, how, on_step):
        self._jobs, self._on_step = jobs, on_step
        self._workers = how.jobs if how.client is None else max(1, sum(how.client.nthreads().values()))
        self._left = sum(cost(system) for _, system, _ in jobs)
        self._done, self._cost, self._seconds = 0, 0.0, 0.0

    def show(self, outcome, total):
        name, system, xc = self._jobs[outcome.number]
        self._done += 1
        self._cost, self._seconds = self._cost + cost(system), self._seconds + outcome.seconds
        self._left -= cost(system)
        enough = self._cost > ENOUGH * (self._cost + self._left)
        left = max(0.0, self._left) * self._seconds / self._cost / self._workers if enough else None
        self._on_step(Step(name, name_of(xc), outcome, self._done, total, left))


def _computed(outcome: Outcome, said: tuple, other: str | None) -> Computed:
    """What an outcome says of its functional, or of another one that was evaluated on its density."""
    remarks = (*said, *outcome.warnings)
    if outcome.error is not None or outcome.document is None:
        return Computed(None, outcome.error, remarks=remarks, seconds=outcome.seconds)
    if excess := _excess(outcome):
        remarks += (f"<S^2> is too large by {excess:.2f}",)
    extras = outcome.document["extras"]["dftfd"]
    energies, total = extras["energies"], outcome.energy
    if other is not None:
        refused = extras.get("not_on_this_density", {})
        remarks = tuple(text for text in remarks if text not in refused.values())
        if other in refused:
            return Computed(None, refused[other], remarks=remarks, seconds=outcome.seconds)
        energies = dict(extras["on_this_density"][other])
        total = energies.pop("total")
    document = outcome.document if {"optimization", "vibrations"} & set(extras) else None
    return Computed(total, None, energies, extras["s_squared"], remarks, outcome.seconds, document)


def settings_in_words(how: How, options: Options) -> dict[str, str]:
    """What the numbers depend on."""
    words = {
        "basis": how.basis,
        "grid level": str(options.grid_level),
        "integrals": "fitted" if options.density_fit else "exact",
    }
    if how.density is not None:
        words["density of"] = name_of(how.density)
    others = {name: value for name, value in options.changed().items() if name not in ("grid_level", "density_fit")}
    plain = lambda value: value if type(value) is str else shown(value)
    words |= {name.replace("_", " "): plain(value) for name, value in others.items() if name != "xc"}
    return words | {"dftfd": VERSION}


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
            f"{self.name}: reactions: {self.n_reactions}, different molecules: {len(sizes)}, "
            f"calculations: {len(sizes) * len(self.functionals)}",
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
