"""Energy density and its derivatives in libxc's variables, ours against libxc's, point by point.

Which libxc functionals a functional corresponds to.
"""

import itertools
import math
import re

import numpy as np
from jax.tree_util import tree_leaves

from dftfd.errors import UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import list_functionals, lookup, source_of
from dftfd.interop import libxc
from dftfd.xc.channels import MEMBERS, VARIABLES
from dftfd.xc.pointwise import pointwise_kernel

_K_F2 = (3 * math.pi**2) ** (2 / 3)
_UNITS = {"rho": (1.0, 1), "sigma": (4 * _K_F2, 8 / 3), "lapl": (4 * _K_F2, 5 / 3), "tau": (0.3 * _K_F2, 5 / 3)}
"""Natural unit c n^p of each variable, as pairs (c, p): n, (2 k_F n)^2, (2 k_F)^2 n, tau of the uniform gas."""

_SHARED_ROUNDING = 1e-13
"""Rounding of the largest component of an array enters the others: mixed derivatives of exchange with respect to both
spins, exactly zero here, are of this size in libxc. At strong polarisation that is far above their natural size."""

LIBXC_THRESHOLD = 1e-30
"""What libxc puts in place of smaller densities and smaller 1 - |zeta| in these comparisons, so that it computes its
formulas. Its own numbers, up to 1e-12 and 2e-16, enter the energies of TPSS correlation and SCAN-L at any density, by
1e-12 and 4e-9 (tests/test_libxc_faults.py)."""


def lowered_derivatives(functional: Functional, n_spin: int, order: int = 2):
    """Code of x (variable, point), libxc's variables: (energy, first, second, ...) of the functional, up to `order`.

    first: (variable, point), second: (variable, variable, point), third: by ascending triples of variables.
    """
    kernel = pointwise_kernel(functional, n_spin)
    count = len(VARIABLES[n_spin])

    def derivatives(x):
        found = kernel.by_component(np.asarray(x), order)
        dense = [np.zeros([count] * k + [x.shape[1]]) for k in range(min(order, 2) + 1)]
        for of_order, array in zip(found, dense, strict=False):
            for component, row in of_order.items():
                for place in set(itertools.permutations(component)):
                    array[place] = row
        return *dense, *found[3:]

    return derivatives


def families(quantity: str) -> list[str]:
    """Variables of a derivative, without spins: ["rho", "sigma"] of "d2e/drhodsigma", [] of "e"."""
    return re.findall(f"d({'|'.join(_UNITS)})", quantity.partition("/")[2])


def components(quantity: str, n_spin: int) -> list[tuple[int, ...]]:
    """The derivatives that belong to a quantity, as ascending tuples of positions in VARIABLES."""
    members = MEMBERS[n_spin]
    return sorted({tuple(sorted(t)) for t in itertools.product(*(members[f] for f in families(quantity)))})


def component(derivatives, place: tuple[int, ...]):
    """One derivative (point,) of those that `lowered_derivatives` or `dftfd.interop.libxc.reference` give."""
    of_order = derivatives[len(place)]
    return of_order.get(place, np.zeros_like(derivatives[0])) if len(place) == 3 else of_order[place]


def quantities(order: int) -> list[str]:
    """Names of energy and derivatives up to an order."""
    named = lambda k: itertools.combinations_with_replacement(_UNITS, k)
    name = lambda group: f"d{len(group) if len(group) > 1 else ''}e/" + "".join(f"d{a}" for a in group)
    return ["e", *(name(group) for k in range(1, order + 1) for group in named(k))]


def compare(ours, reference: libxc.Reference, x: np.ndarray, n_spin: int) -> dict[str, np.ndarray]:
    """Errors (point,) by quantity, largest over the components that belong to it; see `scaled_error`.

    ours: (energy, first, second) or, where the reference has third derivatives, (energy, first, second, third).
    Quantities that vanish on both sides are left out.
    """
    n = x[0] if n_spin == 1 else x[0] + x[1]
    known = 3 if reference.third is not None and len(ours) > 3 else 2 if reference.second is not None else 1
    errors = {}
    for quantity in quantities(known):
        places = components(quantity, n_spin)
        a, b = (np.stack([np.asarray(component(d, place)) for place in places]) for d in (ours, reference))
        if quantity == "e" or np.any(a) or np.any(b):
            error = scaled_error(a, b, n, families(quantity))
            if len(places) > 1:
                error[np.abs(a - b) <= _SHARED_ROUNDING * np.max(np.abs(b), axis=0)] = 0.0
            errors[quantity] = error.max(axis=0)
    return errors


def scaled_error(ours, reference, n, variables):
    r"""|ours - reference| / (|reference| + natural size), dimensionless.

    The natural size of a derivative is n^(4/3), an energy per volume, divided by the natural units of its variables.
    So large components are compared relatively, and those that vanish by symmetry or nearly so are not blown up.
    """
    size = n ** (4 / 3)
    for coefficient, power in (_UNITS[v] for v in variables):
        size = size / (coefficient * n**power)
    return np.abs(ours - reference) / (np.abs(reference) + size)


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
