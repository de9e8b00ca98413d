"""Scores of functionals with error bars: on fixed densities, self-consistent, and on sets apart from the training.

An evaluation of held-out reactions is counted in a ledger, in all three tiers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dftfd.benchmarks import BenchmarkSet, Verdict, benchmark, read_set
from dftfd.benchmarks.reactions import Reaction, composition
from dftfd.benchmarks.verdict import CONFIDENCE, RESAMPLES, SEED, interval
from dftfd.discovery.points import ROLES, TrainingPoints, count_evaluation
from dftfd.errors import InputError, shown
from dftfd.functionals.named_files import functional_in_file, names_file
from dftfd.libcint.mole import HARTREE_IN_KCAL

SETS = ("w4-17", "g21ip", "dbh22", "bh46", "a24", "mixed")
"""Sets that come with dftfd whose reactions the training points have."""

BASIS = "def2-qzvp"
"""Of the training points, and of tier 2 where no other is given."""


@dataclass(frozen=True)
class Score:
    """Mean absolute error of a functional [kcal/mol], or the mean of weight times absolute error.

    low, high: where it lies with 95 % confidence, by bootstrap over reactions.   errors: (reaction,) computed less
    reference [kcal/mol], of the reactions `names`.   weights: (reaction,).   n_missing: reactions without an energy.
    """

    mean_absolute: float
    low: float
    high: float
    errors: np.ndarray
    names: tuple[str, ...]
    weights: np.ndarray
    n_missing: int = 0

    def __str__(self):
        missing = f", {self.n_missing} without an energy" if self.n_missing else ""
        return f"{self.mean_absolute:.2f} [{self.low:.2f}, {self.high:.2f}] kcal/mol, n = {len(self.names)}{missing}"


def score_of(errors, names: Sequence[str], weights=None, n_missing: int = 0) -> Score:
    """The Score of errors (reaction,) [kcal/mol], with weights (reaction,) if given; InputError for other numbers."""
    errors = np.asarray(errors, dtype=float)
    weights = np.ones(len(names)) if weights is None else np.asarray(weights, dtype=float)
    if not len(names) or any(x.shape != (len(names),) or not np.all(np.isfinite(x)) for x in (errors, weights)):
        raise InputError(
            f"errors {errors.shape} and weights {weights.shape} of {len(names)} reactions; finite numbers, one for "
            "each of at least one reaction, expected."
        )
    magnitude = weights * np.abs(errors)
    return Score(float(magnitude.mean()), *interval(magnitude), errors, tuple(names), weights, n_missing)


def ratio(score: Score, other: Score) -> tuple[float, float, float]:
    """(ratio, low, high) of the mean error of one to that of another, by bootstrap over the reactions both have.

    Reactions are resampled in pairs, so what makes a reaction hard for both does not widen the interval. At least 10 %
    below with 95 % confidence is high <= 0.9. Raises InputError without common reactions.
    """
    places = {name: k for k, name in enumerate(other.names)}
    common = [k for k, name in enumerate(score.names) if name in places]
    if not common:
        raise InputError("the two scores have no reaction in common; compute them on the same set.")
    theirs = [places[score.names[k]] for k in common]
    a = (score.weights * np.abs(score.errors))[common]
    b = (other.weights * np.abs(other.errors))[theirs]
    drawn = np.random.default_rng(SEED).integers(len(a), size=(RESAMPLES, len(a)))
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(a[drawn].mean(axis=1) / b[drawn].mean(axis=1), [tail, 100 - tail])
    return float(a.mean() / b.mean()), float(low), float(high)


# --------------------------------------------------------------------------------------------------------------- tiers


def score_on_fixed_densities(points: TrainingPoints, F_x, eps_c) -> Score:
    """Tier 1: an enhancement factor (x point,) and a correlation energy per electron (c point,) [hartree].

    The mean has the roots of `points.reaction_weight` as weights.
    """
    errors, weight = points.errors(points.energies(F_x, eps_c)) * HARTREE_IN_KCAL, np.sqrt(points.reaction_weight)
    return score_of(errors, points.reaction_names, weight / weight.mean())


def score_self_consistent(xc: Any, points: TrainingPoints, limit: int | None = None, **options) -> dict[str, Score]:
    """Tier 2: functional -> Score, self-consistent, on the reactions of points, such as `points.of("validation")`.

    xc: functional, its name, FILE.py:NAME (the file is executed), or a list of these.   limit: only this many
    reactions, those of the fewest points, which are the smallest molecules.   options: of `dftfd.benchmark`, such as
    basis= (def2-qzvp by default), jobs= and record=.
    """
    sizes = (points.stoichiometry != 0) @ (np.diff(points.x_offsets) + np.diff(points.c_offsets))
    order = np.argsort(sizes, kind="stable")[: len(sizes) if limit is None else limit]
    found = benchmark_set_of([points.reaction_names[k] for k in sorted(order)])
    return scores_of(benchmark(found, _functionals(xc), **{"basis": BASIS} | options))


def score_on_benchmark(
    xc: Any, name: Any, points: TrainingPoints, ledger: Any, why: str, **options: Any
) -> dict[str, Score]:
    """Tier 3: functional -> Score on a set that the search has not seen, after a line in the file `ledger`.

    name: a set as `dftfd.benchmark` takes it, 'diet:150' with data=.   points: all training points; reactions of the
    set are left out whose molecules have the formulas, charges and spins of one that was used for training or
    validation.   why: for the ledger.   options: of `dftfd.benchmark`.
    """
    found = name if isinstance(name, BenchmarkSet) else read_set(name, options.pop("data", None))
    found = without_reactions(found, benchmark_set_of(used_reactions(points)))
    count_evaluation(ledger, f"the set {found.name}", [f"{r.subset}/{r.name}" for r in found.reactions], why)
    return scores_of(benchmark(found, _functionals(xc), **options))


def used_reactions(points: TrainingPoints) -> list[str]:
    """Names of the reactions that a search reads, for training or validation."""
    return [n for n, role in zip(points.reaction_names, points.role, strict=True) if role in ROLES[:2]]


def benchmark_set_of(names: Sequence[str]) -> BenchmarkSet:
    """Reactions of the sets that come with dftfd, by the names SUBSET/NAME that training points give them."""
    species, known = known_reactions()
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"no set of {', '.join(SETS)} has the reaction {shown(unknown[0])}, as SUBSET/NAME.")
    return BenchmarkSet("training points", species, ()).of(_of_set(*known[name]) for name in names)


@cache
def known_reactions() -> tuple[dict[str, Any], dict[str, tuple[Reaction, str]]]:
    """Molecules SET/NAME and reactions SUBSET/NAME, with the name of their set, of the sets that come with dftfd."""
    species: dict[str, Any] = {}
    known: dict[str, tuple[Reaction, str]] = {}
    for which in SETS:
        found = read_set(which)
        species |= {f"{which}/{key}": one for key, one in found.species.items()}
        known |= {f"{r.subset}/{r.name}": (r, which) for r in found.reactions}
    return species, known


def _of_set(reaction, which):
    """A reaction whose molecules are named SET/NAME."""
    pairs = tuple((f"{which}/{key}", c) for key, c in reaction.stoichiometry)
    return Reaction(reaction.name, reaction.subset, pairs, reaction.reference, reaction.weight)


def without_reactions(found: BenchmarkSet, others: BenchmarkSet) -> BenchmarkSet:
    """The set without reactions that have the formulas, charges and spins of one of the others, in either direction."""
    seen = {key for reaction in others.reactions for key in _keys(reaction, others.species)}
    return found.of(r for r in found.reactions if seen.isdisjoint(_keys(r, found.species)))


def _keys(reaction, species: Mapping):
    def made_of(name):
        atoms = composition(species[name])  # words of a molecule that can't be computed, which is like no other one
        return (name, atoms) if isinstance(atoms, str) else (tuple(sorted(atoms.items())), species[name].spin)

    pairs = [(made_of(name), c) for name, c in reaction.stoichiometry]
    return {frozenset((what, sign * c) for what, c in pairs) for sign in (1, -1)}


def scores_of(verdict: Verdict) -> dict[str, Score]:
    """functional -> Score of a verdict, with the weights of its set where all reactions have one."""
    scores = {}
    for xc in verdict.functionals:
        known = verdict.known(xc)
        weights = [reaction.weight for reaction, _ in known]
        scores[xc] = score_of(
            [error for _, error in known],
            [f"{reaction.subset}/{reaction.name}" for reaction, _ in known],
            None if None in weights else weights,
            len(verdict.benchmark_set.reactions) - len(known),
        )
    return scores


def _functionals(xc):
    given = xc if isinstance(xc, list | tuple) else [xc]
    return [functional_in_file(one) if isinstance(one, str) and names_file(one) else one for one in given]
