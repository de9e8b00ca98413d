"""The energy that an SCF starts with where it pays: of a coarse grid, without double integrals, of fitted integrals.

For large molecules it saves cycles of the full energy. Where several states may compete, it tries several starting
densities, of which the lowest is gone on with, and looks at the end whether it goes downhill.
"""

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
from dftfd.terms import CoulombExchangeEnergy

SMALL_GAP, EXCHANGE_GAP = 0.125, 0.3
"""Gap [hartree] from which on a closed shell is not asked whether its electrons would rather part, and what a whole
exact exchange adds to it."""

DOUBTFUL = 0.1
"""Hessian eigenvalue [hartree] on the coarse grid, with exchange from few fitting functions, below which that of the
calculation is asked for: up to 0.08 apart for N2 at 1.75 angstrom (SCAN), 0.02 with PBE, PBE0, CAM-B3LYP and r2SCAN."""

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
    ended = ", its last matrix corrected" if begun.corrected else ""
    words = f"{len(begun.history)} of them in a preliminary SCF {words}{states}{ended}"
    progress.note(f"preliminary SCF: {words.replace(' of them in a preliminary SCF', ' cycles')}")
    return cheaper, begun, words


def spin_instability(ingredients: Ingredients, state: State, progress) -> float | None:
    """Hessian eigenvalue [hartree] with which a closed shell goes downhill to different orbitals for both spins.

    The direction is a cheaper energy's, the value there the calculation's own: an upper bound of its lowest. None where
    it does not go downhill, and where the gap is too large for it: a semilocal Hessian is the gap less about 0.1
    hartree for frontier orbitals in the same place, and exact exchange widens the gap by what it takes off again.
    """
    calculation = ingredients.calculation
    share = sum(fraction for _, fraction in calculation.functional.exact_exchange)
    if calculation.method != "RKS" or not calculation.has_finer_grid:
        return None
    if smallest_gap(state) > SMALL_GAP + EXCHANGE_GAP * share:
        return None
    whole = ingredients.unrestricted(progress)
    found = cheaper_ingredients(whole, progress, True)
    if found is None:
        return None
    evaluation = FockEvaluation(np.repeat(state.F, 2, axis=0), state.evaluation.energies, None)
    P, energies, coefficients = (np.repeat(a, 2, axis=0) for a in (state.P / 2, state.mo_energy, state.mo_coeff))
    both = State(P, evaluation, energies, np.repeat(state.mo_occ / 2, 2, axis=0), coefficients)
    exchange = found.ingredients.energy.of_kind(CoulombExchangeEnergy)
    rough = _parting(found.ingredients, exchange.with_few_for_exchange(), both)
    value, direction = lowest_rotation(rough, antisymmetric=True, products=LOOKS)
    if value is None or value > DOUBTFUL:
        return None
    curvature = _parting(whole, whole.energy.of_kind(CoulombExchangeEnergy), both).hessian_times(direction)
    value = float(direction @ curvature / (direction @ direction))
    return value if value < SUSPICIOUS else None


def _parting(ingredients: Ingredients, exchange: CoulombExchangeEnergy, state: State) -> EnergyModel:
    """The energy in rotations that turn alpha and beta orbitals oppositely: exchange of one spin stands for both.

    exchange: what takes the place of the Coulomb and exchange energy, whose Coulomb part does not change.
    """
    calculation = ingredients.calculation
    rest = (term for term in ingredients.energy.terms if not isinstance(term, CoulombExchangeEnergy))
    problem = ingredients.with_terms(*rest).problem(Aufbau(calculation.n_occupied, calculation.capacity))

    def response(P, C):
        of_rest, of_exchange = difference_response(problem, P, C), exchange.response(P, C[:1], triplet=True)

        def change(dC):
            (dF,) = of_exchange(dC[:1])
            return [of_spin + sign * dF for of_spin, sign in zip(of_rest(dC), (1.0, -1.0), strict=True)]

        return change

    return EnergyModel(problem, state, response)
