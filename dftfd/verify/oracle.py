"""The oracle: energies per volume of the library's formulas and their derivatives, from 150 digits, as tables.

data/oracle/README.md says how the numbers were made, and make_oracle.py makes them again. 50 digits or more were right
before they were rounded to float64; derivatives are differences of energies, so no differentiation by rules is in them.

At other points and for any functional the same is computed anew. To third order 50 digits are right, but for what
cancels in the formula itself. A point is the float64 that its text stands for.
"""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import h5py
import numpy as np

from dftfd.errors import (
    DamagedFileError,
    FunctionalError,
    InputError,
    NumericalError,
    UnsupportedError,
    closest_names,
    shown,
)
from dftfd.functionals.registry import get_functional
from dftfd.runtime.arguments import array, choice, each, either, mapping, path, public, text, whole
from dftfd.runtime.files import write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.verify.extended import DIGITS, ExtendedEnergy, mpmath
from dftfd.verify.point_comparison import columns_of_derivatives, left_out, read_table, variables_of
from dftfd.xc.channels import VARIABLES

GROUPS = ("regular", "polarised", "extreme", "below", "one spin")
"""Kinds of points: what molecules have; one spin nearly alone; far out; tau below tau_W; one spin alone."""

_FILE = Path(__file__).with_name("oracle.h5")


@dataclass(frozen=True, eq=False, repr=False)
class OracleTable(ShownAsText):
    """Numbers of one formula at the points of a group; `dftfd check NAME --values` reads what `write` writes.

    columns: (point,) by name: libxc's variables of two spins, rho_a to tau_b; e, the energy per volume [hartree
        bohr^-3]; its first and second derivatives by libxc's names with the component's number, vrho_0, v2rhosigma_2.
    digits: that it was computed with.
    """

    formula: str
    points: str
    digits: int
    columns: dict[str, np.ndarray]

    def __str__(self):
        count = len(self.columns["e"])
        return f"{self.formula} at {count} points ({self.points}), from {self.digits} digits: {', '.join(self.columns)}"

    @public
    def write(self, path: Path) -> None:
        """Write a table, columns between commas, all digits of float64. FileError where it cannot be written."""
        write_text(path, self.csv())

    def csv(self) -> str:
        """The text of that table."""
        rows = zip(*self.columns.values(), strict=True)
        return "\n".join([",".join(self.columns), *(",".join(repr(float(x)) for x in row) for row in rows), ""])


def oracle_names() -> list[str]:
    """The formulas that the oracle knows."""
    with _opened() as file:
        return sorted(set(file) - {"points"})


@public
def oracle(formula: Annotated[str, text], points: Annotated[str, choice(*GROUPS)] = "regular") -> OracleTable:
    """The oracle's numbers of a formula of the library, such as 'gga_x_pbe', at a group of points.

    FunctionalError for a name that it does not know.

    >>> from dftfd.verify.oracle import oracle
    >>> table = oracle("lda_x")
    >>> n = table.columns["rho_a"]
    >>> bool(abs(table.columns["vrho_0"] / -(6 * n / 3.141592653589793) ** (1 / 3) - 1).max() < 1e-15)
    True
    """
    with _opened() as file:
        known = sorted(set(file) - {"points"})
        if formula not in known:
            close = ", ".join(closest_names(formula, known))
            raise FunctionalError(f"the oracle has no formula {shown(formula)}; the closest are {close}.")
        group, x = file[formula][points], file["points"][points][()]
        moved = [int(k) for k in group.attrs["variables"]]
        named = {place: name for name, place in columns_of_derivatives(2).items()}
        columns = dict(zip(VARIABLES[2], x, strict=True)) | {"e": group["energy"][()]}
        for order, key in ((1, "first"), (2, "second")):
            places = itertools.combinations_with_replacement(moved, order)
            columns |= {named[place]: row for place, row in zip(places, group[key][()], strict=True)}
        return OracleTable(formula, points, int(file.attrs["digits"]), columns)


def _opened():
    try:
        return h5py.File(_FILE)
    except OSError as error:
        raise DamagedFileError(f"cannot read {_FILE}: {error}; install dftfd again.") from error


MOST_DIGITS = 50
HIGHEST_ORDER = 3

_Points = either(path, mapping, expected="the name of a file, or a dictionary of columns, {'rho': [0.1, 1.0], ...}")
_Digits = Annotated[int, whole(1, MOST_DIGITS)] | None


@dataclass(frozen=True, eq=False, repr=False)
class ExactTable(OracleTable):
    """A functional's values and derivatives at given points.

    columns: (point,) by name, the numbers rounded to float64: variables as they were given, e, the energy per volume
        [hartree bohr^-3], and its derivatives by libxc's names, of two spins with the component's number.
    exact: the same as mpmath's numbers.   notes: what is not in the numbers, such as exact exchange.
    """

    exact: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @public
    def write(self, path: Path, digits: _Digits = None) -> None:
        """Write a table, columns between commas. FileError where it cannot be written.   digits: as in `csv`."""
        write_text(path, self.csv(digits))

    @public
    def csv(self, digits: _Digits = None) -> str:
        """The text of that table.   digits: 1 to 50 of each number, points too; None: those that float64 needs."""
        if digits is None:
            return super().csv()
        rows = zip(*self.exact.values(), strict=True)
        in_text = lambda x: mpmath.nstr(x, digits, strip_zeros=False, min_fixed=0, max_fixed=0)
        return "\n".join([",".join(self.exact), *(",".join(map(in_text, row)) for row in rows), ""])


@public
def oracle_at(
    functional: Any, points: Annotated[Any, _Points], order: Annotated[int, whole(0, HIGHEST_ORDER)] = 2
) -> ExactTable:
    """The energy per volume of a functional and its derivatives at given points, computed in 150 digits.

    functional: name, expression or Functional; its semilocal part is evaluated.   order: of the highest derivatives.
    points: file or dictionary of columns in libxc's variables, rho, sigma, lapl, tau, or rho_a, rho_b, sigma_aa, ..,
        tau_b, as `dftfd.check(values=)` reads them; a column that is no variable is left out.

    A variable that is zero at all points is held, as the density of a spin that is not there. InputError where it is
    zero at some of them and derivatives are asked for, UnsupportedError for functionals without energy or with nothing
    but integrals, NumericalError where the formula has no finite value.

    >>> from dftfd.verify.oracle import oracle_at
    >>> table = oracle_at("lda_x", {"rho": [1.0]}, order=1)
    >>> print(table.csv(digits=30).splitlines()[1].split(",")[1])
    -7.38558766382022405884230032681e-1
    """
    whole_functional = get_functional(functional)
    part = whole_functional.semilocal_part
    if not part.terms or not part.has_energy:
        raise UnsupportedError(
            f"functional {whole_functional.name!r} has no energy that is a function of values at a point; the oracle "
            "evaluates semilocal energies."
        )
    source, table = _read(points)
    n_spin = 2 if "rho_a" in table else 1
    x = variables_of(part, table, n_spin, source)
    energy = ExtendedEnergy(part, n_spin)
    places = _places(energy, x, order, source)
    with mpmath.workdps(DIGITS):
        given = {name: tuple(map(mpmath.mpf, map(float, table[name]))) for name in VARIABLES[n_spin] if name in table}
        rows = [_values(energy, point, places, whole_functional.name, k) for k, point in enumerate(x.T, start=1)]
        exact = given | dict(zip(places, zip(*rows, strict=True), strict=True))
        columns = {name: np.array([float(v) for v in column]) for name, column in exact.items()}
    return ExactTable(whole_functional.name, source, DIGITS, columns, exact, left_out(whole_functional))


def _read(points) -> tuple[str, dict[str, np.ndarray]]:
    """(where they are from, in words; columns (point,) by name)."""
    if isinstance(points, Path):
        return str(points), read_table(points)
    columns = each(array(None)).checked("points", [*points.values()])
    if not columns or len({len(column) for column in columns}) > 1 or not len(columns[0]):
        raise InputError("points: columns of one length expected, such as {'rho': [0.1, 1.0], 'sigma': [0.0, 0.5]}.")
    return "points", dict(zip((text.checked("points", name) for name in points), columns, strict=True))


def _places(energy, x, order, source) -> dict[str, tuple[int, ...]]:
    """{column: positions of the variables that its derivative is by}, the energy's own first."""
    moved, names = [], VARIABLES[energy.n_spin]
    for k in energy.used if order else ():
        zero = np.array([not energy.size(point, k) for point in x.T])
        if not zero.any():
            moved.append(k)
        elif not zero.all():
            raise InputError(
                f"{source}, row {int(np.argmax(zero)) + 1}: {names[k]} is zero, on the border of what is defined, and "
                "has no derivatives there; give a small number instead, or ask for order 0, energies alone."
            )
    named: dict[tuple[int, ...], str] = {}
    for name, place in columns_of_derivatives(energy.n_spin).items():
        named.setdefault(place, name)  # of one spin vrho, and not vrho_0
    orders = range(1, order + 1)
    return {"e": ()} | {named[p]: p for o in orders for p in itertools.combinations_with_replacement(moved, o)}


def _values(energy, point, places, name, row):
    """Numbers of 150 digits at a point, one for each place."""
    values = []
    for column, place in places.items():
        try:
            value = energy.derivative(point, place) if place else energy(point)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise NumericalError(f"{name!r} has no value {column} at row {row}: {error}.") from error
        if not isinstance(value, mpmath.mpf) or not mpmath.isfinite(value):
            raise NumericalError(f"{name!r}: {column} at row {row} is {mpmath.nstr(value)}; a finite number expected.")
        values.append(value)
    return values
