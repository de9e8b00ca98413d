"""Functionals as JAX pytrees: coefficients, real parameters, fractions of exact exchange and PT2 are the leaves.

So `jax.grad` of an energy with respect to a Functional gives a Functional of derivatives, and a jitted function that
takes a Functional runs for other parameter values without compiling again. Names, formulas, integer parameters and the
omegas of exact exchange belong to the structure. Where a Functional is not an argument, its numbers are constants.
"""

from numbers import Real
from typing import Any

import jax
from jax.tree_util import tree_flatten, tree_flatten_with_path, tree_unflatten

from dftfd.functionals.base import COEFFICIENT, Functional


class _Structure:
    """Everything but the leaves. Equal structures run the same code; the name is carried along and not compared."""

    def __init__(self, functional: Functional, key):
        self.functional, self.key = functional, key

    def __eq__(self, other):
        return isinstance(other, _Structure) and self.key == other.key

    def __hash__(self):
        return hash(self.key)


def _is_leaf(value) -> bool:
    return not isinstance(value, bool | int | str | dict | tuple | list) and (
        isinstance(value, Real) or hasattr(value, "dtype")
    )


def _flatten(functional: Functional):
    leaves, terms = [], []
    for coefficient, term in functional.terms:
        leaves.append(coefficient if hasattr(coefficient, "dtype") else float(coefficient))
        values, structure = tree_flatten(dict(term.parameters))
        kept = tuple(None if _is_leaf(v) else v for v in values)
        leaves.extend(v for v in values if _is_leaf(v))
        terms.append((term.formula, term.ingredients, term.has_energy, structure, kept))
    leaves.extend(fraction for _, fraction in functional.exact_exchange)
    leaves.extend(functional.pt2)
    omegas = tuple(omega for omega, _ in functional.exact_exchange)
    return leaves, _Structure(functional, (tuple(terms), omegas, functional.dispersion, len(functional.pt2)))


def _unflatten(structure: _Structure, leaves) -> Functional:
    leaves, terms = iter(leaves), []
    rows, omegas, dispersion, n_pt2 = structure.key
    for (_, term), (_, _, _, tree, kept) in zip(structure.functional.terms, rows, strict=True):
        coefficient = next(leaves)
        values = [next(leaves) if v is None else v for v in kept]
        terms.append((coefficient, term.with_values(tree_unflatten(tree, values))))
    exact_exchange = tuple((omega, next(leaves)) for omega in omegas)
    known = structure.functional
    pt2 = tuple(next(leaves) for _ in range(n_pt2))
    return Functional(known.name, tuple(terms), exact_exchange, dispersion, known.papers, pt2)


jax.tree_util.register_pytree_node(Functional, _flatten, _unflatten)


def owners(functional: Functional) -> list[tuple[int | None, str]]:
    """(term, parameter) that each leaf belongs to: (term, COEFFICIENT), or (None, COEFFICIENT) for fractions of
    exact exchange and PT2."""
    found: list[tuple[int | None, str]] = []
    for place, (_, term) in enumerate(functional.terms):
        found.append((place, COEFFICIENT))
        found += [(place, path[0].key) for path, v in tree_flatten_with_path(dict(term.parameters))[0] if _is_leaf(v)]
    return [*found, *[(None, COEFFICIENT)] * (len(functional.exact_exchange) + len(functional.pt2))]


def taken_apart(functional: Functional) -> tuple[Any, list]:
    """(structure, values): arrays, which programs take as arguments, and the rest with all plain numbers.

    Plain numbers stay numbers in a program, as in the engine: formulas may choose their branches by them.
    """
    leaves, tree = tree_flatten(functional)
    plain = tuple(leaf if isinstance(leaf, Real) else None for leaf in leaves)
    return (tree, plain), [leaf for leaf in leaves if not isinstance(leaf, Real)]


def put_together(structure: Any, values) -> Functional:
    """The functional of a structure with these values."""
    (tree, plain), values = structure, iter(values)
    return tree_unflatten(tree, [next(values) if leaf is None else leaf for leaf in plain])
