"""Which libxc functionals a functional corresponds to."""

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import lookup
from dftfd.interop import libxc


def counterpart(functional: Functional) -> libxc.Terms:
    """The libxc functionals that a functional's semilocal part is a sum of, as pairs (coefficient, name).

    The libxc functional of the same name if there is one, else those that the terms are named after. UnsupportedError
    if libxc lacks one of them or if a term has other parameters than the registered ones.
    """
    if not functional.is_semilocal:
        raise UnsupportedError(f"functional {functional.name!r} has no semilocal part to compare with libxc.")
    if libxc.is_known(functional.name):
        return ((1.0, functional.name),)
    unknown = [term.name for _, term in functional.terms if not libxc.is_known(term.name)]
    if unknown:
        raise UnsupportedError(
            f"libxc {libxc.version()} has no counterpart of {', '.join(map(repr, unknown))}, so there is nothing to "
            f"compare {functional.name!r} with; dftfd.check takes functionals whose terms bear libxc's names."
        )
    for _, term in functional.terms:
        _require_default_parameters(term)
    return tuple((float(c), term.name) for c, term in functional.terms)


def _require_default_parameters(term: EnergyTerm):
    registered = lookup(term.name)
    if registered is None or len(registered.terms) != 1:
        return
    changed = [
        name
        for name, value in registered.terms[0][1].parameters.items()
        if not np.array_equal(np.asarray(term.parameters.get(name)), np.asarray(value))
    ]
    if changed:
        raise UnsupportedError(
            f"{term.name!r} has its own {', '.join(changed)}, and libxc's functional of this name has the published "
            "value; check the functional without changed parameters."
        )
