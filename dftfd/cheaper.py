"""The energy that an SCF starts with where it pays: of a coarse grid for large molecules, without double integrals."""

from dftfd.calculation import Ingredients
from dftfd.scf.approach import Approach, approach
from dftfd.scf.occupation import Occupier
from dftfd.terms import DoubleIntegralEnergy, SemilocalEnergy
from dftfd.terms.on_grid import GridOrbitals

COARSE_LEVEL = 0

HEAVY_ATOMS = 10
"""From this number on a coarse grid saves more cycles on the fine one than it costs to build."""


def begin_cheaply(ingredients: Ingredients, P, occupy: Occupier, strategy, max_cycles: int, progress):
    """Where the SCF should start instead of P (spin, ao, ao), as an Approach, and how in words; (None, "") for P.

    A strategy that minimises in any case is left to its own start.
    """
    if strategy.always_minimises:
        return None, ""
    cheaper, words = cheaper_ingredients(ingredients, progress)
    if cheaper is None:
        return None, ""
    problems = cheaper.problem(occupy), ingredients.problem(occupy)
    with progress.stage("approach"):
        found: Approach | None = approach(*problems, P, strategy, max_cycles)
    if found is None:
        return None, ""
    words = f"began with {found.cycles} cycles {words}"
    progress.note(words)
    return found, words


def cheaper_ingredients(ingredients: Ingredients, progress) -> tuple[Ingredients | None, str]:
    """The calculation with what costs most left out, and what that is; (None, "") where little would be saved.

    A coarse grid does not help where cycles are spent on exact integrals or exact exchange.
    """
    calculation, energy = ingredients.calculation, ingredients.energy
    semilocal, coarse = energy.of_kind(SemilocalEnergy), _is_large(calculation)
    double = energy.of_kind(DoubleIntegralEnergy)
    if semilocal is None or not (coarse or double):
        return None, ""
    words, cheaper = [], semilocal
    if coarse:
        words.append(f"on grid level {COARSE_LEVEL}")
        orbitals = GridOrbitals(calculation.molecule, progress)
        orbitals.room = ingredients.orbitals.room
        cheaper = SemilocalEnergy(
            semilocal.functional, calculation.n_spin, calculation.molecule, COARSE_LEVEL, orbitals, progress
        )
        cheaper.prepare(progress)
    if double is not None:
        words.append("without double integrals")
    kept = (cheaper if term is semilocal else term for term in energy.terms if term is not double)
    return ingredients.with_terms(*kept), " ".join(words)


def _is_large(calculation) -> bool:
    """Whether the semilocal matrix is most of the work, and a coarse grid is coarser than the one that is asked for."""
    heavy = sum(charge > 2 for charge in calculation.molecule.atomic_numbers)
    finer = isinstance(calculation.grid, int) and calculation.grid > COARSE_LEVEL + 1
    return finer and heavy >= HEAVY_ATOMS and calculation.density_fit and not calculation.functional.exact_exchange
