"""An energy that costs less than that of a calculation: on a coarse grid, without double integrals, with fitted ones.

It finds starts of an SCF and first vectors of a response, which the whole energy then corrects.
"""

from dataclasses import dataclass, replace

from dftfd.model.calculation import COARSE_LEVEL, Ingredients
from dftfd.terms import CoulombExchangeEnergy, DoubleIntegralEnergy, SemilocalEnergy, Term
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.on_grid import GridOrbitals, Quadrature


@dataclass(frozen=True, eq=False)
class Cheaper:
    """What costs less than a calculation.

    ingredients: the calculation with what costs most left out.   words: what that is.   with_exchange: the same with
    the calculation's own exchange, where that has been left out, too, else None.   rehearsal: the calculation in less
    precision, where that is worth while, else None.
    """

    ingredients: Ingredients
    words: str
    with_exchange: Ingredients | None = None
    rehearsal: Ingredients | None = None


def cheaper_ingredients(ingredients: Ingredients, progress, looks=False) -> Cheaper | None:
    """The calculation with what costs most left out; None where little would be saved.

    A coarse grid does not help to save cycles where these are spent on exact integrals; a look at several states,
    `looks`, needs no more than it gives.
    """
    calculation, energy = ingredients.calculation, ingredients.energy
    semilocal, double = energy.find(SemilocalEnergy), energy.find(DoubleIntegralEnergy)
    coarse = calculation.has_finer_grid if looks else calculation.is_large
    if semilocal is None or not (coarse or double):
        return None
    coulomb = energy.of_kind(CoulombExchangeEnergy)
    words: list[str] = []
    cheaper = semilocal
    if coarse:
        words.append(f"on grid level {COARSE_LEVEL}")
        estimates = not semilocal.kernel.exact_exchange
        made = lambda: GridOrbitals(calculation.molecule, progress, estimates=estimates)
        orbitals = ingredients.orbitals.of_looks if looks else made()
        orbitals.room = ingredients.orbitals.coarse_room
        grid, molecule = Quadrature(COARSE_LEVEL), calculation.molecule
        cheaper = type(semilocal)(
            semilocal.functional, calculation.n_spin, molecule, grid, orbitals, progress, semilocal.arrays_vary
        )
        cheaper.prepare(progress)
    if double is not None:
        words.append("without double integrals")
    other: dict[int, Term | None] = {id(semilocal): cheaper, id(double): None}
    if looks and not calculation.density_fit:
        words.append("with fitted integrals")
        room = ingredients.orbitals.room
        integrals = replace(calculation, density_fit=True).coulomb_exchange(int(room))
        other[id(coulomb)] = in_its_place = CoulombExchangeEnergy(integrals, calculation.functional.exact_exchange)
        in_its_place.keep_within(room)
    whole = rehearsal = None
    rehearsed: dict = {}
    fitted = coulomb.builder
    if not looks and isinstance(fitted, DensityFittedCoulombExchange):
        of_builder = lambda builder: {id(coulomb): CoulombExchangeEnergy(builder, coulomb.exact_exchange)}
        rough = fitted.for_estimates()
        if rough.exchange_is_rough:
            words.append("with few fitting functions for exchange")
            rehearsed = of_builder(fitted.rehearsal())
            whole = _with_terms(ingredients, other | rehearsed)
        other |= of_builder(rough)
    if not looks and calculation.rehearses:
        rehearsal = _with_terms(ingredients, {id(semilocal): semilocal.rehearsal()} | rehearsed)
    return Cheaper(_with_terms(ingredients, other), " ".join(words), whole, rehearsal)


def _with_terms(ingredients, other) -> Ingredients:
    """Ingredients with other terms in the place of some: by the identity of these, None where there is to be none."""
    terms = (other.get(id(term), term) for term in ingredients.energy.terms)
    return ingredients.with_terms(*(term for term in terms if term is not None))
