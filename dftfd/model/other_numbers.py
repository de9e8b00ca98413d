"""The ingredients of a calculation for other numbers in its functional, or another field: what stays is kept.

Integrals, grids and orbitals on them depend on the functional's structure alone, and programs of its semilocal part
have its arrays as arguments (xc.operands).
"""

from dataclasses import replace

from dftfd.functionals.base import Functional
from dftfd.functionals.pytree import plain_numbers
from dftfd.model.calculation import Ingredients
from dftfd.terms import OneElectronEnergy


def with_numbers(ingredients: Ingredients, functional: Functional, electric_field) -> Ingredients:
    """Ingredients, made for a functional of this structure, with the numbers of another and in a field (3,)."""
    before = ingredients.calculation
    surroundings = replace(before.surroundings, electric_field=electric_field)
    calculation = replace(before, functional=plain_numbers(functional), surroundings=surroundings)
    terms = tuple(term.with_numbers(functional, surroundings) for term in ingredients.energy.terms)
    matrices = next(term.matrices for term in terms if isinstance(term, OneElectronEnergy))
    return replace(ingredients, calculation=calculation, matrices=matrices).with_terms(*terms)
