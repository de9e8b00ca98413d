"""Functionals as JAX pytrees: coefficients, real parameters, fractions of exact exchange and PT2 are the leaves.

So `jax.grad` of an energy with respect to a Functional gives a Functional of derivatives, and a jitted function that
takes a Functional runs for other parameter values without compiling again. Names, formulas, whole numbers, switches and
the plain omegas of exact exchange belong to the structure, and with them the same omega of a term, which is one number
with it. An omega that is an array or traced, as with_parameters(omega=) sets it in both, is one leaf for both. Where a
Functional is not an argument, its numbers are constants.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import jax
from jax.tree_util import tree_flatten, tree_flatten_with_path, tree_unflatten

from dftfd.functionals.base import COEFFICIENT, Functional
from dftfd.functionals.exchange_ranges import require_range
from dftfd.functionals.parameters import Switch


class _Structure:
    """Everything but the leaves. Terms of other names are other structures: what a jitted function returns has the
    structure of the call that was traced, and names with it. The functional's own name, which tells values of
    parameters, is carried along and not compared."""

    def __init__(self, functional: Functional, key):
        self.functional, self.key = functional, key

    def __eq__(self, other):
        return isinstance(other, _Structure) and (self.names, self.key) == (other.names, other.key)

    def __hash__(self):
        return hash((self.names, self.key))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(term.name for _, term in self.functional.terms)


@dataclass(frozen=True)
class _Fixed:
    """The omega of a term that is a plain range of exact exchange."""

    omega: float


@dataclass(frozen=True)
class _Leaf:
    """A range of exact exchange that is the leaf of this number."""

    number: int


def _is_leaf(value) -> bool:
    return not isinstance(value, bool | int | Switch | str | dict | tuple | list) and (
        isinstance(value, Real) or hasattr(value, "dtype")
    )


def _parameters(functional: Functional, term) -> dict:
    """Those of a term, with a fixed omega as such."""
    omega = term.parameters.get("omega")
    if isinstance(omega, Real) and any(isinstance(w, Real) and w == omega for w, _ in functional.exact_exchange):
        return {**term.parameters, "omega": _Fixed(float(omega))}
    return dict(term.parameters)


def _flatten(functional: Functional):
    leaves, terms, of_terms = [], [], []
    for coefficient, term in functional.terms:
        leaves.append(coefficient if hasattr(coefficient, "dtype") else float(coefficient))
        values, structure = tree_flatten(_parameters(functional, term))
        kept = tuple(None if _is_leaf(v) else v for v in values)
        omega = term.parameters.get("omega")
        of_terms += [(omega, k) for k, v in enumerate(filter(_is_leaf, values), start=len(leaves)) if v is omega]
        leaves.extend(v for v in values if _is_leaf(v))
        terms.append((term.formula, term.ingredients, term.has_energy, structure, kept))
    leaves.extend(fraction for _, fraction in functional.exact_exchange)
    omegas: list[Any] = []
    for omega, _ in functional.exact_exchange:
        if isinstance(omega, Real):
            omegas.append(omega)
            continue
        shared = next((k for known, k in of_terms if known is omega), None)
        omegas.append(_Leaf(len(leaves) if shared is None else shared))
        leaves += [omega] * (shared is None)
    leaves.extend(functional.pt2)
    return leaves, _Structure(functional, (tuple(terms), tuple(omegas), functional.dispersion, len(functional.pt2)))


def _unflatten(structure: _Structure, leaves) -> Functional:
    leaves, terms = list(leaves), []
    given = iter(leaves)
    rows, omegas, dispersion, n_pt2 = structure.key
    for (_, term), (_, _, _, tree, kept) in zip(structure.functional.terms, rows, strict=True):
        coefficient = next(given)
        values = [next(given) if v is None else v.omega if isinstance(v, _Fixed) else v for v in kept]
        terms.append((coefficient, term.with_values(tree_unflatten(tree, values))))
    fractions = [next(given) for _ in omegas]
    ranges = [leaves[omega.number] if isinstance(omega, _Leaf) else omega for omega in omegas]
    known, pt2 = structure.functional, tuple(leaves[len(leaves) - n_pt2 :])
    exact_exchange = tuple(zip(ranges, fractions, strict=True))
    return Functional(known.name, tuple(terms), exact_exchange, dispersion, known.papers, pt2)


jax.tree_util.register_pytree_node(Functional, _flatten, _unflatten)


def owners(functional: Functional) -> list[tuple[int | None, str]]:
    """(term, parameter) that each leaf belongs to: (term, COEFFICIENT), or (None, COEFFICIENT) for fractions of
    exact exchange and PT2, (None, "omega") for a range that no term has."""
    found: list[tuple[int | None, str]] = []
    for place, (_, term) in enumerate(functional.terms):
        found.append((place, COEFFICIENT))
        rows, _ = tree_flatten_with_path(_parameters(functional, term))
        found += [(place, path[0].key) for path, v in rows if _is_leaf(v)]
    fractions, pt2 = ([(None, COEFFICIENT)] * len(pairs) for pairs in (functional.exact_exchange, functional.pt2))
    n_leaves = len(jax.tree_util.tree_leaves(functional))
    ranges = n_leaves - len(found) - len(fractions) - len(pt2)
    return [*found, *fractions, *[(None, "omega")] * ranges, *pt2]


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


def plain_numbers(functional: Functional) -> Functional:
    """The functional with its arrays without axes as numbers."""
    found = jax.tree_util.tree_map(lambda x: float(x) if getattr(x, "shape", None) == () else x, functional)
    for (_, before), (_, term) in zip(functional.terms, found.terms, strict=True):
        if "is_nonlocal" in vars(before):
            vars(term)["is_nonlocal"] = before.is_nonlocal  # as its formula is, whatever its numbers
    for omega, _ in found.exact_exchange:
        require_range(omega)
    return found
