"""Which libxc functionals a functional corresponds to."""

import numpy as np
from jax.tree_util import tree_leaves

from dftfd.errors import UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import list_functionals, lookup, source_of
from dftfd.interop import libxc


def counterpart(functional: Functional) -> libxc.Terms:
    """The libxc functionals that a functional's semilocal part is a sum of, as pairs (coefficient, name).

    One libxc functional if it bears the name of this one or of a registered one that is the same ("b3lyp" is also
    registered as "hyb_gga_xc_b3lyp"); else those that the terms are named after. UnsupportedError if libxc lacks one of
    them, or if a term has other parameters than the registered ones.
    """
    terms = functional.semilocal_part.terms
    if not terms:
        raise UnsupportedError(f"functional {functional.name!r} has no semilocal part to compare with libxc.")
    for name in map(_plain, (functional.name, *_other_names(functional))):
        if libxc.is_known(name):
            return ((1.0, name),)
    unknown = [term.name for _, term in terms if not libxc.is_known(_plain(term.name))]
    if unknown:
        raise UnsupportedError(
            f"libxc {libxc.version()} has no counterpart of {', '.join(map(repr, unknown))}, so there is nothing to "
            f"compare {functional.name!r} with; dftfd.check takes functionals whose terms bear libxc's "
            "names, dftfd.audit all that have a value at a point."
        )
    for _, term in terms:
        _require_default_parameters(term)
    return tuple((float(c), _plain(term.name)) for c, term in terms)


def _plain(name):
    """libxc's own name: those of its catalogue have a prefix here."""
    return source_of(name)[1] if name.startswith("libxc:") else name


def _other_names(functional):
    """Names of registered functionals with the same terms, coefficients, parameters and exact exchange."""
    if len(functional.terms) == 1 and not functional.exact_exchange:
        return []  # a formula is compared under its own name
    library = ((name, lookup(name)) for name in list_functionals())
    return [name for name, known in library if known and _same(known, functional)]


def _same(f: Functional, g: Functional) -> bool:
    if len(f.terms) != len(g.terms) or f.exact_exchange != g.exact_exchange:
        return False
    return all(
        float(a) == float(b) and s.formula is t.formula and not _changed_parameters(s, t)
        for (a, s), (b, t) in zip(f.terms, g.terms, strict=True)
    )


def _changed_parameters(term: EnergyTerm, reference: EnergyTerm) -> list[str]:
    """Names of the parameters, numbers or nested tuples of them, that differ."""
    numbers = lambda t, name: [np.asarray(x).tolist() for x in tree_leaves(t.parameters.get(name))]
    names = {**reference.parameters, **term.parameters}
    return [name for name in names if numbers(term, name) != numbers(reference, name)]


def _require_default_parameters(term: EnergyTerm):
    registered = lookup(term.name)
    if registered is None or len(registered.terms) != 1:
        return
    changed = _changed_parameters(term, registered.terms[0][1])
    if changed:
        raise UnsupportedError(
            f"{term.name!r} has its own {', '.join(changed)}, and libxc's functional of this name has the published "
            "value; check the functional without changed parameters."
        )
