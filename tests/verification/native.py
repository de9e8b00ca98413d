"""The formulas that the library is made of, each once."""

from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import list_functionals, lookup


def native_formulas() -> dict[str, Functional]:
    """Semilocal energies of one formula by name, one for each formula and set of parameters in the library.

    A formula that stands only inside a functional, with parameters of its own, is named after it too, as in
    "gga_x_ityh of camb3lyp".
    """
    found, seen = {}, set()
    library = sorted((len(f.terms), name, f) for name in list_functionals() if (f := lookup(name)))
    for _, owner, functional in library:
        for _, term in functional.terms:
            key = (term.formula, repr(sorted(term.parameters.items())))
            if _is_native(term) and key not in seen:
                seen.add(key)
                found[f"{term.name} of {owner}" if term.name in found else term.name] = term
    return {name: Functional(name, ((1.0, term),)) for name, term in sorted(found.items())}


def _is_native(term: EnergyTerm) -> bool:
    of_density = not (term.is_nonlocal or term.exact_exchange_densities)
    return term.formula.__module__.startswith("dftfd.functionals.") and term.has_energy and of_density
