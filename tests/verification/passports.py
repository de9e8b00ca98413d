"""Passports of all functionals that come along, each beside libxc's energy on the same points and 50 digits.

    python -m tests.verification.passports

writes data/passports/passports.json (energies of atoms, error bars), which docs/passports.md shows.
"""

import itertools
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dftfd.autofd.scalar.on_mpmath import mpmath
from dftfd.errors import DftfdError, UnsupportedError
from dftfd.functionals.registry import get_functional
from dftfd.interop import libxc
from dftfd.verify.extended import ExtendedEnergy
from dftfd.verify.passport import POINTS, Passport, passport, spherical_density
from dftfd.verify.point_comparison import counterpart
from tests.verification.regression import distinct_names

DATA = Path(__file__).parents[2] / "data" / "passports" / "passports.json"
DIGITS, EXTENDED_ATOM = 50, "N"
LARGE = 1e-8
"""Difference from libxc, relative to what is larger of the energy and one hartree, that is listed with its atom."""


def libxc_difference(found: Passport) -> tuple[float, str] | None:
    """The largest difference from libxc's energies with the same weights, over 1 hartree + |energy|, and its atom.

    libxc has its own thresholds: with smaller ones it gives NaN where there is one spin alone.
    """
    try:
        terms = counterpart(get_functional(found.functional))
        differences = {}
        for symbol, atom in found.atoms.items():
            weights, x = spherical_density(symbol, POINTS[1])
            energy = math.fsum(weights * libxc.reference(terms, x, 2, order=1).energy)
            differences[symbol] = abs(atom.energy - energy) / (1 + abs(energy))
    except UnsupportedError:
        return None
    worst = max(differences, key=lambda symbol: np.nan_to_num(differences[symbol], nan=np.inf))
    return differences[worst], worst


def extended_difference(found: Passport) -> float:
    """Relative difference of nitrogen's energy from the same sum in 50 digits."""
    weights, x = spherical_density(EXTENDED_ATOM, POINTS[1])
    functional = get_functional(found.functional)
    energy = ExtendedEnergy(functional, 2)
    with mpmath.workdps(DIGITS):
        exact = mpmath.fsum(mpmath.mpf(w) * energy(point) for w, point in zip(weights, x.T, strict=True))
        return float(abs(found.atoms[EXTENDED_ATOM].energy - exact) / abs(exact))


def row_of(name: str) -> dict:
    """What is kept of one functional."""
    found = passport(name)
    row = {"atoms": {symbol: [atom.energy, atom.error] for symbol, atom in found.atoms.items()}}
    other = libxc_difference(found)
    row |= {"libxc": None if other is None else {"difference": other[0], "atom": other[1]}}
    return row | {"digits": extended_difference(found)}


def all_rows(tell: Callable[[str], None]) -> tuple[dict, dict]:
    """Rows by name, and reasons of those that have no passport."""
    rows, without = {}, {}
    for name in distinct_names():
        try:
            rows[name] = row_of(name)
        except UnsupportedError as error:
            without[name] = str(error)
        except DftfdError as error:
            raise SystemExit(f"{name}: {error}") from error
        tell(f"{name}: {'no passport' if name in without else rows[name]['digits']}")
    return rows, without


def same_energies(rows: dict) -> list[tuple[str, str]]:
    """Pairs of names whose passports do not tell them apart."""
    return [(a, b) for a, b in itertools.combinations(rows, 2) if not apart(rows[a], rows[b])]


def apart(first: dict, second: dict) -> bool:
    """Whether any atom differs by more than both error bars."""
    pairs = zip(first["atoms"].values(), second["atoms"].values(), strict=True)
    return any(abs(a - b) > da + db for (a, da), (b, db) in pairs)


def stored() -> dict:
    """What DATA holds."""
    return json.loads(DATA.read_text())


def one_line_each(document: dict) -> str:
    """JSON with a line for each functional."""
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in document["functionals"].items()]
    head, tail = ({key: document[key]} for key in ("unit", "without"))
    return f'{json.dumps(head)[:-1]},\n"functionals": {{\n' + ",\n".join(lines) + f"\n}},\n{json.dumps(tail)[1:]}\n"


def main() -> None:
    rows, without = all_rows(lambda text: print(text, file=sys.stderr, flush=True))
    DATA.write_text(one_line_each({"unit": "hartree", "functionals": rows, "without": without}))


if __name__ == "__main__":
    main()
