"""Points and values of a user's file against dftfd, or, where the file has points alone, dftfd against libxc at them.

The file is a table with a header, columns between commas or blanks. Variables as libxc names them decide the number of
spins: rho, sigma, lapl, tau, or rho_a, rho_b, sigma_aa, .., tau_b. Other columns are values: exc (per electron), e (per
volume), and derivatives by libxc's names, vrho, v2rhosigma, .., of two spins with the component's number in libxc's
order, vrho_0, vrho_1, vsigma_0, ...
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.errors import InputError, shown
from dftfd.functionals.base import Functional
from dftfd.interop import libxc
from dftfd.interop.libxc import MAX_ORDER
from dftfd.runtime.written_numbers import as_real
from dftfd.system.geometry import read_text
from dftfd.verify import point_comparison as pointwise
from dftfd.verify.point_comparison import counterpart
from dftfd.verify.reports import Row
from dftfd.xc.channels import FAMILIES, VARIABLES, family_of, named_components
from dftfd.xc.pointwise import pointwise_kernel

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
    reference = libxc.reference(terms, x, n_spin, order=2, threshold=pointwise.LIBXC_THRESHOLD)
    found = pointwise.compare(pointwise.lowered_derivatives(functional, n_spin)(x), reference, x, n_spin)
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
        errors = pointwise.scaled_error(column * size, ours, n, [family_of(k, n_spin) for k in place])
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
