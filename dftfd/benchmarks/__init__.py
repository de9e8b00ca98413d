"""Benchmark sets: how good a functional is, as a table of errors."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from dftfd.benchmarks.collections import read_set, shipped_sets
from dftfd.benchmarks.energies import (
    How,
    Plan,
    Step,
    as_many,
    checked_options,
    compute,
    name_of,
    plan_of,
    settings_in_words,
)
from dftfd.benchmarks.reactions import BenchmarkSet, require_reactions
from dftfd.benchmarks.reactions import checked as checked_set
from dftfd.benchmarks.totals import Agreement, compare_totals
from dftfd.benchmarks.verdict import Verdict
from dftfd.errors import InputError, shown
from dftfd.functionals.registry import get_functional
from dftfd.model.forces import require_energy
from dftfd.model.options import Options
from dftfd.runtime.arguments import Kind, accepted, optional, public, refuse_unknown, text, whole
from dftfd.runtime.arguments import path as as_path

__all__ = [
    "Agreement",
    "BenchmarkSet",
    "Plan",
    "Step",
    "Verdict",
    "benchmark",
    "compare_totals",
    "plan_benchmark",
    "read_set",
    "shipped_sets",
]

BASIS = "def2-tzvp"
"""The basis set where neither the call nor the set names one."""

_FUNCTIONALS = Kind("a functional, or a list of them", lambda value: _as_functionals(value))
_DENSITY = Kind("a functional", lambda value: _as_functional(value)[0])


def _as_functional(value):
    """What a functional is called by, and itself; FunctionalError for what is none."""
    xc = text.convert(value) if isinstance(value, str) else value
    return xc, get_functional(xc)


def _as_functionals(value):
    found = tuple(map(_as_functional, as_many(value)))
    for _, functional in accepted(found, found):
        require_energy(functional)
    names = [name_of(xc) for xc, _ in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two functionals are called {shown(twice)}; tables tell them apart by name: rename one.")
    return tuple(xc for xc, _ in found)


_SET = Kind("the name of a set, a path, or a BenchmarkSet", lambda value: _as_set(value))


def _as_set(value):
    if issubclass(type(value), BenchmarkSet):
        return value
    name = str(as_path.convert(value))
    return accepted(name.strip(), name)


_BASIS = Kind("the name of a basis set", lambda value: accepted(text.convert(value).strip(), text.convert(value)))
_OF_MOLECULES = ("cartesian", "ecp")


@public
def benchmark(
    benchmark_set: Annotated[Any, _SET],
    xc: Annotated[Any, _FUNCTIONALS] = "pbe",
    *,
    data: Annotated[Path | None, optional(as_path)] = None,
    only: Sequence[str] = (),
    limit: Annotated[int, whole(1)] | None = None,
    seed: Annotated[int, whole(0, 2**32 - 1)] = 0,
    density: Any = None,
    basis: Annotated[str | None, optional(_BASIS)] = None,
    jobs: Annotated[int, whole(1)] = 1,
    client: Any = None,
    record: Annotated[Path | None, optional(as_path)] = None,
    on_step: Callable[[Step], None] = lambda step: None,
    molecule_options: dict[str, Any] | None = None,
    **options: Any,
) -> Verdict:
    """Errors of functionals for reactions with known energies: a Verdict, which prints as tables.

    benchmark_set: name of a set (`dftfd.benchmarks.shipped_sets()` lists them), path of a set, an external collection
        ('gmtkn55:W4-11'), or a BenchmarkSet. See docs/benchmark.md.
    xc: a functional, or a list.   data: folder of an external collection.   only: names of subsets.
    limit, seed: number of random reactions, and their seed. A larger limit includes the reactions of a smaller one.
    density: functional whose self-consistent density is used for all energies; None: each functional's own.
    basis: for all molecules; by default the set's, otherwise def2-tzvp.   jobs, client, record: as in `run_batch`.
    on_step: called with a Step after each molecule.   molecule_options: cartesian and ecp of `molecule`.
    options: for `run_scf`.

    If a molecule fails, other starts are tried. Molecules without an energy are listed, and the others continue.
    Raises InputError, FileError and MissingDependencyError for the benchmark as a whole.

    >>> import dftfd
    >>> verdict = dftfd.benchmark("g21ip", "pbe", limit=2, basis="6-31g", grid_level=1)
    >>> verdict.statistics("pbe").n
    2
    """
    found, how, checked = _asked(
        benchmark_set,
        How(basis or "", options, molecule_options or {}, density, jobs, client, record),
        data=data,
        only=only,
        limit=limit,
        seed=seed,
    )
    computed = compute(found, xc, how, on_step)
    return Verdict(found, tuple(map(name_of, xc)), computed, settings_in_words(how, checked))


def _asked(benchmark_set, how: How, *, data, only, limit, seed) -> tuple[BenchmarkSet, How, Options]:
    """The set, how its energies are computed, and the options, checked."""
    found = checked_set(benchmark_set) if isinstance(benchmark_set, BenchmarkSet) else read_set(benchmark_set, data)
    found = found.only(only) if only else found
    found = found if limit is None else found.sample(limit, seed)
    require_reactions(found)
    checked = checked_options("benchmark", "benchmark", how.options, how.client)
    density = how.density if how.density is None else _DENSITY.checked("density", how.density)
    refuse_unknown("benchmark's molecule_options", how.molecule_options, _OF_MOLECULES)
    basis = how.basis or found.basis or BASIS
    return found, replace(how, basis=basis, options=checked.changed(), density=density), checked


@public
def plan_benchmark(
    benchmark_set: Annotated[Any, _SET],
    xc: Annotated[Any, _FUNCTIONALS] = "pbe",
    *,
    data: Annotated[Path | None, optional(as_path)] = None,
    only: Sequence[str] = (),
    limit: Annotated[int, whole(1)] | None = None,
    seed: Annotated[int, whole(0, 2**32 - 1)] = 0,
    density: Any = None,
    basis: Annotated[str | None, optional(_BASIS)] = None,
    jobs: Annotated[int, whole(1)] = 1,
    molecule_options: dict[str, Any] | None = None,
    **options: Any,
) -> Plan:
    """What a `benchmark` with these arguments would take: a Plan, which prints molecules, memory and processor time.

    Raises what `benchmark` raises before it computes.

    >>> import dftfd
    >>> plan = dftfd.benchmarks.plan_benchmark("g21ip", "pbe", limit=2, basis="6-31g")
    >>> plan.n_reactions
    2
    """
    how = How(basis or "", options, molecule_options or {}, density, jobs)
    found, how, _ = _asked(benchmark_set, how, data=data, only=only, limit=limit, seed=seed)
    return plan_of(found, xc, how)
