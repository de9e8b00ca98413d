"""The oracle: energies per volume of the library's formulas and their derivatives, from 150 digits, as tables.

data/oracle/README.md says how the numbers were made, and make_oracle.py makes them again. 50 digits or more were right
before they were rounded to float64; derivatives are differences of energies, so no differentiation by rules is in them.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import h5py
import numpy as np

from dftfd.errors import DamagedFileError, FunctionalError, closest_names, shown
from dftfd.runtime.arguments import choice, public, text
from dftfd.runtime.files import write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.verify.own_points import columns_of_derivatives
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
