"""The way back from `Functional.definition`, a functional written down as plain data.

Formulas stand under their names: whoever reads a definition has to have a functional registered that holds a term of
that name. Everything else, coefficients, parameters, omegas, is in the data.
"""

from dftfd.errors import FunctionalError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import list_functionals, lookup, unknown_name


def from_definition(data: dict, name: str) -> Functional:
    """The functional of a definition under a name; FunctionalError if a term's formula is not registered here."""
    terms = tuple(
        (t["coefficient"], find_term(t["name"]).with_parameters({k: _nested(v) for k, v in t["parameters"].items()}))
        for t in data["terms"]
    )
    exact_exchange = tuple((omega, fraction) for omega, fraction in data["exact_exchange"])
    dispersion = tuple(data["dispersion"]) if "dispersion" in data else None
    return Functional(name, terms, exact_exchange, dispersion)


def find_term(name: str) -> EnergyTerm:
    """The term of this name: a registered formula, or part of a registered combination."""
    found = lookup(name)
    for functional in [found] if found else map(lookup, list_functionals()):
        for _, term in functional.terms:
            if term.name == name:
                return term
    raise unknown_name(name)


def require_reproducible(functional: Functional) -> None:
    """FunctionalError unless `from_definition` would find the very formulas of this functional."""
    for _, term in functional.terms:
        try:
            known = find_term(term.name)
        except FunctionalError:
            known = None
        if known is None or known.formula is not term.formula:
            raise FunctionalError(
                f"{term.name!r} is no registered formula, so another process could not find it; register it with "
                "@dftfd.functional, in a module that is imported there too."
            )


def _nested(value):
    if isinstance(value, list):
        return tuple(_nested(v) for v in value)
    return {k: _nested(v) for k, v in value.items()} if isinstance(value, dict) else value
