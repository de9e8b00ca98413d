"""Masses of nuclei [u]: most abundant isotopes, averages over isotopes, and chosen ones.

Isotopes: AME2020, M. Wang et al., Chinese Phys. C 45, 030003 (2021). doi:10.1088/1674-1137/abddaf
"""

import warnings
from collections.abc import Mapping, Sequence
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError, InputWarning, shown
from dftfd.libcint.mole import average_masses, common_masses
from dftfd.runtime.arguments import Kind, number, whole

AVERAGE = "average"
_HEAVIEST = 1.6
"""Ratio to the usual mass, above which a mass is another element's; muonium to 7H apart."""

MASSES = {
    "H": {1: 1.007825032, 2: 2.014101778, 3: 3.016049281},
    "He": {3: 3.016029322, 4: 4.002603254},
    "Li": {6: 6.015122887, 7: 7.016003434},
    "B": {10: 10.012936862, 11: 11.009305167},
    "C": {12: 12.0, 13: 13.003354835, 14: 14.003241988},
    "N": {14: 14.003074004, 15: 15.000108899},
    "O": {16: 15.994914619, 17: 16.999131757, 18: 17.999159612},
    "Mg": {24: 23.985041689, 25: 24.985836966, 26: 25.982592972},
    "Si": {28: 27.976926534, 29: 28.976494664, 30: 29.973770137},
    "S": {32: 31.972071174, 33: 32.971458909, 34: 33.967867011, 36: 35.967080692},
    "Cl": {35: 34.968852694, 37: 36.965902573},
    "Fe": {54: 53.939608, 56: 55.934935537, 57: 56.935391951},
    "Br": {79: 78.918337602, 81: 80.916288206},
}
"""Of isotopes by element and mass number, for elements with several that are measured."""


def _as_isotopes(value):
    if value is None or isinstance(value, str):
        if value not in (None, AVERAGE):
            raise ValueError
        return None if value is None else AVERAGE
    if not isinstance(value, Mapping):
        raise TypeError
    return {_ATOM.convert(atom): _mass(value[atom]) for atom in islice(value, 10**6)}


_ATOM = whole(0)


def _mass(value):
    """A mass number as an int, a mass as a float."""
    if isinstance(value, Integral):
        return whole(1, 300).convert(value)
    return number(lambda m: 0.1 < m < 400).convert(value)


ISOTOPES = Kind(
    "None for the most abundant ones, 'average', or {atom: mass number or mass in u}, as {1: 2} for a deuterium",
    _as_isotopes,
)


def isotopes_of_text(words: str) -> Any:
    """Isotopes as the command line writes them: 'average', or '1:2 2:13' for atom 1 of mass number 2, atom 2 of 13."""
    if words.strip() in ("", AVERAGE):
        return words.strip() or None
    pairs = [word.partition(":") for word in words.replace(",", " ").split()]
    is_read = words.isascii() and all(a.isdecimal() and m.replace(".", "", 1).isdecimal() for a, _, m in pairs)
    if not is_read or len({int(atom) for atom, _, _ in pairs}) < len(pairs):
        raise InputError(
            f"{shown(words)} names no isotopes; 'average' or mass numbers, '1:2 2:13', each atom once, expected."
        )
    return {int(atom): float(mass) if "." in mass else int(mass) for atom, _, mass in pairs}


def masses(symbols: tuple[str, ...], isotopes: Any = None, places: Sequence[int] | None = None) -> np.ndarray:
    """Masses (atom,) [u] of elements; isotopes as ISOTOPES has them. InputError for atoms and isotopes not there.

    places: numbers of these atoms in the molecule, by which isotopes name them; None for 0, 1, ...
    """
    numbers = [ATOMIC_NUMBERS[symbol] for symbol in symbols]
    if isotopes == AVERAGE:
        return average_masses(numbers)
    found = common_masses(numbers)
    for atom, symbol in enumerate(symbols):  # more digits where the table has them
        nearest = MASSES.get(symbol, {}).get(round(found[atom]))
        found[atom] = found[atom] if nearest is None else nearest
    places = range(len(symbols)) if places is None else places
    row_of = {place: row for row, place in enumerate(places)}
    for place, mass in (isotopes or {}).items():
        if place not in row_of:
            there = ", ".join(map(str, places[:20])) + (", ..." if len(places) > 20 else "")
            raise InputError(f"isotopes name atom {shown(place)}; atoms with nuclei are {there or 'none'}.")
        atom = row_of[place]
        found[atom] = _of_isotope(symbols[atom], mass)
    return found


def _of_isotope(symbol, mass):
    """The mass [u] of a mass number, or the mass itself; 2.0 of hydrogen is a number: no mass is whole but C's."""
    known = MASSES.get(symbol, {})
    if mass in known:
        return known[mass]
    if isinstance(mass, float):
        usual = float(common_masses([ATOMIC_NUMBERS[symbol]])[0])
        if not usual / _HEAVIEST < mass < usual * _HEAVIEST and not (symbol == "H" and mass < 7):
            warnings.warn(
                f"isotopes: {mass:g} u is no mass of {symbol} ({usual:.3f} u); atoms are numbered from 0.",
                InputWarning,
                stacklevel=3,
            )
        return mass
    listed = f"known are {', '.join(map(str, known))}" if known else f"no isotope of {symbol} has a name here"
    raise InputError(f"isotope {mass} of {symbol}: {listed}; give its mass in u, such as {mass}.0.")
