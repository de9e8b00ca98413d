"""The energy that an SCF starts with where it pays: of a coarse grid, without double integrals, of fitted integrals.

For large molecules it saves cycles of the full energy. Where several states may compete, it tries several starting
densities, of which the lowest is gone on with, and looks at the end whether it goes downhill.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from dftfd.model.calculation import Ingredients
from dftfd.model.cheaper_energy import cheaper_ingredients
from dftfd.model.kohn_sham import FockEvaluation
from dftfd.scf.approach import Approach, approach, smallest_gap
from dftfd.scf.convergence import Convergence
from dftfd.scf.occupation import Aufbau, Occupier
from dftfd.scf.problem import Problem, State
from dftfd.scf.rotation import EnergyModel
from dftfd.scf.stability import LOOKS, SUSPICIOUS, difference_response, lowest_rotation

SMALL_GAP, EXCHANGE_GAP = 0.125, 0.3
"""Gap [hartree] from which on a closed shell is not asked whether its electrons would rather part, and what a whole
exact exchange adds to it."""

MOST_CYCLES = 30
"""Of the cheaper energy from each of several starts."""


def cheaper_start(
    ingredients: Ingredients, problem: Problem, occupy: Occupier, starts, strategy, thresholds: Convergence, progress
) -> tuple[Problem | None, Approach | None, str]:
    """A cheaper problem, where the SCF should start instead of starts[0] (spin, ao, ao), and how that was found.

    None where little would be saved, and where nothing was found, as without any `starts`.
    """
    found = cheaper_ingredients(ingredients, progress, strategy.looks)
    if found is None:
        return None, None, ""
    cheaper, words = found.ingredients.problem(occupy), found.words
    between, rehearsal = (one.problem(occupy) if one else None for one in (found.with_exchange, found.rehearsal))
    if not starts:
        return cheaper, None, ""
    limit = thresholds.max_cycles if len(starts) == 1 else min(thresholds.max_cycles, MOST_CYCLES)
    with progress.stage("approach"):
        begun = approach(cheaper, problem, starts, strategy, limit, thresholds, between, rehearsal)
    if begun is None:
        return cheaper, None, ""
    states = f", the lowest of {begun.states} states" if begun.states > 1 else ""
    ended = ", with a last matrix corrected there" if begun.corrected else ""
    words = f"began with {begun.cycles} cycles {words}{states}{ended}"
    progress.note(f"{words}, which are not listed")
    return cheaper, begun, words


def spin_instability(ingredients: Ingredients, state: State, progress) -> float | None:
    """Hessian eigenvalue [hartree] with which a closed shell goes downhill to different orbitals for both spins.

    None where it does not, and where the gap is too large for it: a semilocal Hessian is the gap less about 0.1 hartree
    for frontier orbitals in the same place, and exact exchange widens the gap by what it takes off again.
    """
    calculation = ingredients.calculation
    share = sum(fraction for _, fraction in calculation.functional.exact_exchange)
    if calculation.method != "RKS" or not calculation.has_finer_grid:
        return None
    if smallest_gap(state) > SMALL_GAP + EXCHANGE_GAP * share:
        return None
    found = cheaper_ingredients(replace(ingredients, calculation=calculation.unrestricted()), progress, True)
    if found is None:
        return None
    evaluation = FockEvaluation(np.repeat(state.F, 2, axis=0), state.evaluation.energies, None)
    P, energies, coefficients = (np.repeat(a, 2, axis=0) for a in (state.P / 2, state.mo_energy, state.mo_coeff))
    both = State(P, evaluation, energies, np.repeat(state.mo_occ / 2, 2, axis=0), coefficients)
    unrestricted = found.ingredients.calculation
    problem = found.ingredients.problem(Aufbau(unrestricted.n_occupied, unrestricted.capacity))
    model = EnergyModel(problem, both, partial(difference_response, problem))
    value, _ = lowest_rotation(model, antisymmetric=True, products=LOOKS)
    return value if value is not None and value < SUSPICIOUS else None
