"""The energy that an SCF starts with where it pays: of a coarse grid, without double integrals, of fitted integrals.

For large molecules it saves cycles of the full energy. Where several states may compete, it tries several starting
densities, of which the lowest is gone on with, and looks at the end whether it goes downhill.
"""

from dataclasses import replace

import numpy as np

from dftfd.model.calculation import Calculation, Ingredients
from dftfd.model.kohn_sham import FockEvaluation
from dftfd.scf.approach import Approach, approach, smallest_gap
from dftfd.scf.convergence import Convergence
from dftfd.scf.occupation import Aufbau, Occupier
from dftfd.scf.problem import Problem, State
from dftfd.scf.rotation import EnergyModel
from dftfd.scf.stability import LOOKS, SUSPICIOUS, difference_response, lowest_rotation
from dftfd.terms import CoulombExchangeEnergy, DoubleIntegralEnergy, SemilocalEnergy
from dftfd.terms.on_grid import GridOrbitals, Quadrature

COARSE_LEVEL = 0

HEAVY_ATOMS = 4
"""From this number on a coarse grid saves more cycles on the fine one than it costs to build."""

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
    found, words = cheaper_ingredients(ingredients, progress, strategy.looks)
    if found is None:
        return None, None, ""
    cheaper = found.problem(occupy)
    if not starts:
        return cheaper, None, ""
    limit = thresholds.max_cycles if len(starts) == 1 else min(thresholds.max_cycles, MOST_CYCLES)
    with progress.stage("approach"):
        begun = approach(cheaper, problem, starts, strategy, limit, thresholds)
    if begun is None:
        return cheaper, None, ""
    states = f", the lowest of {begun.states} states" if begun.states > 1 else ""
    words = f"began with {begun.cycles} cycles {words}{states}"
    progress.note(words)
    return cheaper, begun, words


def cheaper_ingredients(ingredients: Ingredients, progress, looks=False) -> tuple[Ingredients | None, str]:
    """The calculation with what costs most left out, and what that is; (None, "") where little would be saved.

    A coarse grid does not help to save cycles where these are spent on exact integrals or exact exchange; a look at
    several states, `looks`, needs no more than it gives.
    """
    calculation, energy = ingredients.calculation, ingredients.energy
    semilocal, double = energy.of_kind(SemilocalEnergy), energy.of_kind(DoubleIntegralEnergy)
    coarse = _has_finer_grid(calculation) and (looks or _is_large(calculation))
    if semilocal is None or not (coarse or double):
        return None, ""
    words: list[str] = []
    cheaper = semilocal
    if coarse:
        words.append(f"on grid level {COARSE_LEVEL}")
        orbitals = GridOrbitals(calculation.molecule, progress)
        orbitals.room = ingredients.orbitals.room
        cheaper = SemilocalEnergy(
            semilocal.functional, calculation.n_spin, calculation.molecule, Quadrature(COARSE_LEVEL), orbitals, progress
        )
        cheaper.prepare(progress)
    if double is not None:
        words.append("without double integrals")
    other = {id(semilocal): cheaper, id(double): None}
    if looks and not calculation.density_fit:
        words.append("with fitted integrals")
        exact, room = energy.of_kind(CoulombExchangeEnergy), ingredients.orbitals.room
        fitted = replace(calculation, density_fit=True).coulomb_exchange(int(room))
        other[id(exact)] = CoulombExchangeEnergy(fitted, calculation.functional.exact_exchange)
        other[id(exact)].keep_within(room)
    kept = (other.get(id(term), term) for term in energy.terms)
    return ingredients.with_terms(*filter(None, kept)), " ".join(words)


def spin_instability(ingredients: Ingredients, state: State, progress) -> float | None:
    """Hessian eigenvalue [hartree] with which a closed shell goes downhill to different orbitals for both spins.

    None where it does not, and where the gap is too large for it: a semilocal Hessian is the gap less about 0.1 hartree
    for frontier orbitals in the same place, and exact exchange widens the gap by what it takes off again.
    """
    calculation = ingredients.calculation
    share = sum(fraction for _, fraction in calculation.functional.exact_exchange)
    if calculation.method != "RKS" or not _has_finer_grid(calculation):
        return None
    if smallest_gap(state) > SMALL_GAP + EXCHANGE_GAP * share:
        return None
    found, _ = cheaper_ingredients(replace(ingredients, calculation=calculation.unrestricted()), progress, True)
    if found is None:
        return None
    evaluation = FockEvaluation(np.repeat(state.F, 2, axis=0), state.evaluation.energies, None)
    P, energies, coefficients = (np.repeat(a, 2, axis=0) for a in (state.P / 2, state.mo_energy, state.mo_coeff))
    both = State(P, evaluation, energies, np.repeat(state.mo_occ / 2, 2, axis=0), coefficients)
    problem = found.problem(Aufbau(found.calculation.n_occupied, found.calculation.capacity))
    model = EnergyModel(problem, both, difference_response(problem, P))
    value, _ = lowest_rotation(model, antisymmetric=True, products=LOOKS)
    return value if value is not None and value < SUSPICIOUS else None


def _has_finer_grid(calculation: Calculation) -> bool:
    """Whether a coarse grid is coarser than the one that is asked for."""
    return calculation.grid.finer_than(COARSE_LEVEL + 1)


def _is_large(calculation: Calculation) -> bool:
    """Whether the semilocal matrix is most of the work."""
    heavy = sum(charge > 2 for charge in calculation.molecule.atomic_numbers)
    return heavy >= HEAVY_ATOMS and calculation.density_fit
