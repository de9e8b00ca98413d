"""Energy density and its derivatives in libxc's variables, ours against libxc's, point by point.

The counterpart of a functional is the sum of libxc's that its terms are named after.

Points and values of a user's file against dftfd, or, where the file has points alone, dftfd against libxc at them.

The file is a table with a header, columns between commas or blanks. Variables as libxc names them decide the number of
spins: rho, sigma, lapl, tau, or rho_a, rho_b, sigma_aa, .., tau_b. Other columns are values: exc (per electron), e (per
volume), and derivatives by libxc's names, vrho, v2rhosigma, .., of two spins with the component's number in libxc's
order, vrho_0, vrho_1, vsigma_0, ...
"""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from jax.tree_util import tree_leaves

from dftfd.errors import InputError, UnsupportedError, shown
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import list_functionals, lookup, source_of
from dftfd.interop import libxc
from dftfd.interop.libxc import MAX_ORDER
from dftfd.runtime.written_numbers import as_real
from dftfd.system.geometry import read_text
from dftfd.verify.reports import Row
from dftfd.xc.channels import FAMILIES, MEMBERS, VARIABLES, family_of, named_components
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


TOLERANCE = 1e-10
MOST_POINTS = 10**6


def rows_of_file(functional: Functional, path: Path, tolerance: float | None) -> tuple[list[Row], str]:
    """(a Row for each column of values or, without them, for each quantity that libxc has; what was compared with)."""
    table = read_table(path)
    n_spin = 2 if "rho_a" in table else 1
    x = variables_of(functional, table, n_spin, path)
    allowed = TOLERANCE if tolerance is None else tolerance
    values = {name: column for name, column in table.items() if name not in VARIABLES[n_spin]}

    def row(quantity, errors, told=None):
        worst = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
        words = "" if told is None else f"{told[0][worst]:.12g} in the file, {told[1][worst]:.12g} expected"
        point = dict(zip(VARIABLES[n_spin], x[:, worst].tolist(), strict=True))
        return Row(quantity, n_spin, float(errors[worst]), f"row {worst + 1}", allowed, point=point, values=words)

    if values:
        known = _of_columns(functional, x, n_spin, values, path)
        return [row(name, errors, (values[name], ours)) for name, (errors, ours) in known.items()], str(path)
    terms = counterpart(functional)
    reference = libxc.reference(terms, x, n_spin, order=2, threshold=LIBXC_THRESHOLD)
    found = compare(lowered_derivatives(functional, n_spin)(x), reference, x, n_spin)
    return [row(quantity, errors) for quantity, errors in found.items()], f"libxc {libxc.version()}"


def read_table(path: Path) -> dict[str, np.ndarray]:
    """Columns (point,) by name. InputError, with the line, for what is no number."""
    lines = [line for line in read_text(path, "a table of points").splitlines() if line.strip() and line[0] != "#"]
    rows = [re.split(r"\s*,\s*|\s+", line.strip().strip(",")) for line in lines]
    if len(rows) < 2 or len(rows) > MOST_POINTS or len({*rows[0]}) != len(rows[0]):
        raise InputError(
            f"{path}: a header with names of columns and lines of numbers expected; {len(rows)} lines found."
        )
    numbers = np.empty((len(rows) - 1, len(rows[0])))
    for number, row in enumerate(rows[1:], start=1):
        try:
            numbers[number - 1] = [as_real(word) for word in row]
        except ValueError as error:
            raise InputError(
                f"{path}, row {number}: {len(rows[0])} numbers expected, {shown(' '.join(row), 60)} found."
            ) from error
    return dict(zip(rows[0], numbers.T, strict=True))


def variables_of(functional: Functional, table: dict[str, np.ndarray], n_spin: int, path: Any) -> np.ndarray:
    """Rows (variable, point) of all VARIABLES, zero for those that are not needed.   path: whose table, in words."""
    names = VARIABLES[n_spin]
    needed = [names[k] for k in pointwise_kernel(functional, n_spin).used]
    missing = [name for name in dict.fromkeys([*names[:n_spin], *needed]) if name not in table]
    if missing:
        raise InputError(
            f"{path} has no column {', '.join(missing)}, which {functional.name!r} depends on; it has "
            f"{shown(', '.join(table), 80)}. Variables are rho, sigma, lapl, tau, or rho_a, rho_b, sigma_aa, ..."
        )
    x = np.array([table.get(name, np.zeros_like(table[names[0]])) for name in names])
    if not (np.all(np.isfinite(x)) and np.all(x[:n_spin].sum(axis=0) > 0) and np.all(x[:n_spin] >= 0)):
        raise InputError(f"{path}: finite variables with densities above zero expected.")
    return x


def left_out(functional: Functional) -> tuple[str, ...]:
    """A line that says which parts of a functional are no functions of values at a point; () for none."""
    parts = []
    if functional.exact_exchange:
        fractions = ", ".join(f"{c:g}" + (f" (omega = {w:g})" if w else "") for w, c in functional.exact_exchange)
        parts.append(f"exact exchange {fractions}")
    if functional.is_nonlocal:
        parts.append("nonlocal correlation " + ", ".join(term.name for _, term in functional.nonlocal_part.terms))
    return (f"left out: {' and '.join(parts)}; the numbers are of the semilocal part",) if parts else ()


def _of_columns(functional, x, n_spin, values, path):
    """(errors, values of dftfd) (point,) of each column, errors scaled as all are; dftfd counts as right."""
    known = {"exc": (), "e": ()} | columns_of_derivatives(n_spin)
    for name in values:
        if name not in known:
            examples = "vrho, v2rhosigma" if n_spin == 1 else "vrho_0, vrho_1, vsigma_0"
            raise InputError(f"{path} has the column {shown(name)}; exc, e or derivatives such as {examples} expected.")
    order = max(len(known[name]) for name in values)
    by_order = pointwise_kernel(functional, n_spin).by_component(x, order)
    n, found = x[:n_spin].sum(axis=0), {}
    for name, column in values.items():
        place = known[name]
        ours = by_order[len(place)].get(place, np.zeros_like(n))
        size = n if name == "exc" else 1.0
        errors = scaled_error(column * size, ours, n, [family_of(k, n_spin) for k in place])
        found[name] = errors, ours / size
    return found


def columns_of_derivatives(n_spin: int) -> dict[str, tuple[int, ...]]:
    """Derivatives by the names of columns, to the highest order."""
    found = {}
    for order in range(1, MAX_ORDER + 1):
        for name, places in named_components(n_spin, FAMILIES, order).items():
            if len(places) == 1:
                found[name] = places[0]
            found |= {f"{name}_{k}": place for k, place in enumerate(places)}
    return found
