"""The way back from `Functional.definition`, a functional written down as plain data.

Formulas stand under their names: whoever reads a definition has to have a functional registered that holds a term of
that name. Everything else, coefficients, parameters, omegas, is in the data.
"""

from dataclasses import replace

from dftfd.errors import FunctionalError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.parameters import in_tuples, parameter_text
from dftfd.functionals.plugins import found_plugins
from dftfd.functionals.registry import list_functionals, lookup, source_of, unknown_name


def from_definition(data: dict, name: str) -> Functional:
    """The functional of a definition under a name.

    FunctionalError if a term's formula is not registered here, or a parameter is a network, whose numbers alone stand
    in a definition.
    """
    terms = tuple((t["coefficient"], _with_parameters(find_term(t["name"]), t["parameters"])) for t in data["terms"])
    exact_exchange = tuple((omega, fraction) for omega, fraction in data["exact_exchange"])
    dispersion = tuple(data["dispersion"]) if "dispersion" in data else None
    return Functional(name, terms, exact_exchange, dispersion)


def _with_parameters(term, values) -> EnergyTerm:
    for key, value in values.items():
        known = term.parameters.get(key)
        if isinstance(value, dict) and not isinstance(known, dict):
            raise FunctionalError(
                f"parameter {key!r} of {term.name!r} is {parameter_text(known)}, which numbers alone do not make again."
            )
    return replace(term, parameters={key: in_tuples(value) for key, value in values.items()})


def find_term(name: str) -> EnergyTerm:
    """The term of this name: a registered formula, part of a registered combination, or one of libxc's catalogue."""
    source, plain = source_of(name)
    if source is not None:
        term = source.find_term(plain)
    else:
        registered = lookup(name)
        functionals = [registered] if registered else _all_functionals()
        term = next((term for f in functionals for _, term in f.terms if term.name == name), None)
    if term is None:
        raise unknown_name(name)
    return term


def _all_functionals():
    """Those of plug-ins last, so that none is imported in vain; a plug-in that fails holds no term of others."""
    plugins = found_plugins()
    for name in sorted(list_functionals(), key=plugins.__contains__):
        try:
            yield lookup(name)
        except FunctionalError:
            if name not in plugins:
                raise


def require_reproducible(functional: Functional) -> None:
    """FunctionalError unless `from_definition` would make this very functional again."""
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
    from_definition(functional.definition, functional.name)
