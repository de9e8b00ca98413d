"""The ingredients of a calculation for other numbers in its functional, or another field: what stays is kept.

Integrals, grids and orbitals on them depend on the functional's structure alone, and programs of its semilocal part
have its arrays as arguments (xc.operands).
"""

from dataclasses import replace

import jax

from dftfd.functionals.base import Functional
from dftfd.functionals.exchange_ranges import require_range
from dftfd.functionals.pytree import taken_apart
from dftfd.model.calculation import Ingredients
from dftfd.terms import (
    CoulombExchangeEnergy,
    DoubleIntegralEnergy,
    NuclearEnergy,
    OneElectronEnergy,
    SemilocalEnergy,
    Term,
)


def plain_numbers(functional: Functional) -> Functional:
    """The functional with its arrays without axes as numbers."""
    found = jax.tree_util.tree_map(lambda x: float(x) if getattr(x, "shape", None) == () else x, functional)
    for (_, before), (_, term) in zip(functional.terms, found.terms, strict=True):
        if "is_nonlocal" in vars(before):
            vars(term)["is_nonlocal"] = before.is_nonlocal  # as its formula is, whatever its numbers
    for omega, _ in found.exact_exchange:
        require_range(omega)
    return found


def with_numbers(ingredients: Ingredients, functional: Functional, electric_field, progress) -> Ingredients:
    """Ingredients, made for a functional of this structure, with the numbers of another and in a field (3,)."""
    plain, before = plain_numbers(functional), ingredients.calculation
    surroundings = replace(before.surroundings, electric_field=electric_field)
    calculation = replace(before, functional=plain, surroundings=surroundings)
    molecule, orbitals = calculation.molecule, ingredients.orbitals

    def renewed(term: Term) -> Term:
        match term:
            case NuclearEnergy():
                return NuclearEnergy(molecule, surroundings)
            case OneElectronEnergy():
                return OneElectronEnergy(molecule, surroundings)
            case CoulombExchangeEnergy():
                return CoulombExchangeEnergy(term.builder, plain.exact_exchange)
            case SemilocalEnergy():
                part, n_spin = functional.semilocal_part, calculation.n_spin
                arrays = bool(taken_apart(part)[1])
                return SemilocalEnergy(part, n_spin, molecule, term.grid, orbitals, progress, arrays_vary=arrays)
            case DoubleIntegralEnergy():
                part = plain.nonlocal_part
                return DoubleIntegralEnergy(part, calculation.n_spin, molecule, term.grid, orbitals)
        return term

    terms = tuple(map(renewed, ingredients.energy.terms))
    matrices = next(term.matrices for term in terms if isinstance(term, OneElectronEnergy))
    made = replace(ingredients, calculation=calculation, matrices=matrices)
    return made.with_terms(*terms)
