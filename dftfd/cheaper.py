"""The energy that an SCF starts with where it pays: of a coarse grid for large molecules, without double integrals."""

from dataclasses import replace

from dftfd.calculation import Ingredients, XCBuilders, xc_kernels
from dftfd.scf.approach import Approach, approach
from dftfd.scf.occupation import Occupier

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
    functional = calculation.functional
    if energy.xc is None:
        return None, ""
    coarse = _is_large(calculation)
    if not (coarse or functional.is_nonlocal):
        return None, ""
    words = [f"on grid level {COARSE_LEVEL}"] if coarse else []
    builders = ingredients.builders
    if coarse:
        kernels = xc_kernels(functional.semilocal_part, calculation.n_spin)
        grids = {"semilocal": COARSE_LEVEL}
        builders = XCBuilders(kernels, calculation.molecule, grids, ingredients.room, progress)
    if functional.is_nonlocal:
        words.append("without double integrals")
    return replace(ingredients, energy=replace(energy, xc=builders.semilocal, nonlocal_xc=None)), " ".join(words)


def _is_large(calculation) -> bool:
    """Whether the semilocal matrix is most of the work, and a coarse grid is coarser than the one that is asked for."""
    heavy = sum(charge > 2 for charge in calculation.molecule.atomic_numbers)
    finer = isinstance(calculation.grid, int) and calculation.grid > COARSE_LEVEL + 1
    return finer and heavy >= HEAVY_ATOMS and calculation.density_fit and not calculation.functional.exact_exchange
