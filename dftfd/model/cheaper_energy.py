"""An energy that costs less than that of a calculation: on a coarse grid, without double integrals, with fitted ones.

It finds starts of an SCF and first vectors of a response, which the whole energy then corrects.
"""

from dataclasses import replace

from dftfd.model.calculation import Calculation, Ingredients
from dftfd.terms import CoulombExchangeEnergy, DoubleIntegralEnergy, SemilocalEnergy
from dftfd.terms.on_grid import GridOrbitals, Quadrature

COARSE_LEVEL = 0

HEAVY_ATOMS = 4
"""From this number on a coarse grid saves more cycles on the fine one than it costs to build."""


def cheaper_ingredients(ingredients: Ingredients, progress, looks=False) -> tuple[Ingredients | None, str]:
    """The calculation with what costs most left out, and what that is; (None, "") where little would be saved.

    A coarse grid does not help to save cycles where these are spent on exact integrals; a look at several states,
    `looks`, needs no more than it gives.
    """
    calculation, energy = ingredients.calculation, ingredients.energy
    semilocal, double = energy.of_kind(SemilocalEnergy), energy.of_kind(DoubleIntegralEnergy)
    coarse = has_finer_grid(calculation) and (looks or _is_large(calculation))
    if semilocal is None or not (coarse or double):
        return None, ""
    words: list[str] = []
    cheaper = semilocal
    if coarse:
        words.append(f"on grid level {COARSE_LEVEL}")
        estimates = not semilocal.kernel.exact_exchange
        made = lambda: GridOrbitals(calculation.molecule, progress, estimates=estimates)
        orbitals = ingredients.orbitals.of_looks if looks else made()
        orbitals.room = ingredients.orbitals.room
        grid, molecule = Quadrature(COARSE_LEVEL), calculation.molecule
        cheaper = type(semilocal)(
            semilocal.functional, calculation.n_spin, molecule, grid, orbitals, progress, semilocal.arrays_vary
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
    elif not looks and calculation.density_fit:
        fitted = energy.of_kind(CoulombExchangeEnergy)
        other[id(fitted)] = CoulombExchangeEnergy(fitted.builder.for_estimates(), fitted.exact_exchange)
    kept = (other.get(id(term), term) for term in energy.terms)
    return ingredients.with_terms(*filter(None, kept)), " ".join(words)


def has_finer_grid(calculation: Calculation) -> bool:
    """Whether a coarse grid is coarser than the one that is asked for."""
    return calculation.grid.finer_than(COARSE_LEVEL + 1)


def _is_large(calculation: Calculation) -> bool:
    """Whether the semilocal matrix is most of the work."""
    heavy = sum(charge > 2 for charge in calculation.molecule.atomic_numbers)
    return heavy >= HEAVY_ATOMS and calculation.density_fit
