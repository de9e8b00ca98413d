"""Z-matrices: each atom by a distance, an angle and a dihedral angle to atoms before it.

    O
    H 1 r                   distance to atom 1
    H 1 r 2 104.5           and angle with atom 2 [degree]
    N 2 1.4 1 109.5 3 -120  and dihedral angle with atom 3 [degree]

    r = 0.96

Atoms count from 1. Lengths have the unit of the input. A name may stand for a number, with a minus sign before it too;
its value follows the atoms. Dihedral angles have the sign of J. B. Hendrickson's and IUPAC's convention, clockwise.
"""

import math
import re
from collections.abc import Sequence

import numpy as np

from dftfd.errors import InputError, shown

_NAME = re.compile(r"(?P<sign>[+-]?)(?P<name>[A-Za-z_]\w*)")
_DIGITS = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(_DIGITS)
_VALUE = re.compile(rf"(?P<name>[A-Za-z_]\w*)\s*[=\s]\s*(?P<number>{_DIGITS})")
FIELDS = (1, 3, 5, 7)
STRAIGHT = 1e-6
"""Sine of the angle below which three atoms lie on a line, where no dihedral angle is defined."""


def is_zmatrix(entries: Sequence[str]) -> bool:
    """Whether entries, a line each, begin as a Z-matrix does: an atom alone, then one with a distance."""
    fields = [entry.replace(",", " ").split() for entry in entries[:2]]
    return len(fields) == 2 and len(fields[0]) == 1 and len(fields[1]) == 3 and fields[1][1] == "1"


def cartesian(entries: Sequence[str], source: str) -> list[tuple[str, list[float]]]:
    """(name, [x, y, z]) of each atom: the first at the origin, the second on the z axis, the third in the xz plane.

    InputError for what can't be read, and for dihedral angles about a straight line.
    """
    values = {m["name"]: float(m["number"]) for e in entries if (m := _VALUE.fullmatch(e.strip()))}
    rows = [e.replace(",", " ").split() for e in entries if not _VALUE.fullmatch(e.strip())]
    atoms: list[tuple[str, list[float]]] = []
    for number, row in enumerate(rows, start=1):
        where = f"{source}, atom {number} of the Z-matrix"
        if len(row) != FIELDS[min(number - 1, 3)]:
            raise InputError(
                f"{where}: {shown(' '.join(row))} has {len(row)} fields, {FIELDS[min(number - 1, 3)]} expected."
            )
        near = [_place(word, number, where) for word in row[1::2]]
        if len(set(near)) != len(near):
            raise InputError(f"{where}: {shown(' '.join(row))} refers to one atom twice.")
        numbers = [_number(word, values, where) for word in row[2::2]]
        atoms.append((row[0], _position([atoms[k][1] for k in near], numbers, where)))
    return atoms


def _place(word, number, where):
    if not (word.isascii() and word.isdecimal() and 1 <= int(word[:9]) < number):
        raise InputError(f"{where}: {shown(word)} is no atom before it; 1 to {number - 1} expected.")
    return int(word) - 1


def _number(word, values, where):
    named = _NAME.fullmatch(word)
    if named and named["name"] in values:
        return -values[named["name"]] if named["sign"] == "-" else values[named["name"]]
    if not _NUMBER.fullmatch(word):
        known = ", ".join(values) or "none"
        raise InputError(f"{where}: {shown(word)} is no number, and no name that has one ({known}).")
    return float(word)


def _position(near, numbers, where):
    """The point at a distance from near[0], an angle with near[1] and a dihedral angle with near[2]."""
    if not near:
        return [0.0, 0.0, 0.0]
    a, distance = np.array(near[0]), numbers[0]
    if not 0 < distance < math.inf:
        raise InputError(f"{where}: its distance is {distance:g}; a positive number expected.")
    if len(near) == 1:
        return (a + [0.0, 0.0, distance]).tolist()
    angle = math.radians(numbers[1])
    along = np.array(near[1]) - a
    along /= np.linalg.norm(along)
    if len(near) == 2:
        aside = np.array([1.0, 0.0, 0.0])
    else:
        away = np.array(near[2]) - near[1]
        aside = away - (away @ along) * along
        if np.linalg.norm(aside) < STRAIGHT * np.linalg.norm(away):
            raise InputError(f"{where}: its neighbours lie on a line, about which there is no dihedral angle.")
        aside /= np.linalg.norm(aside)
        turn = math.radians(numbers[2])
        aside = aside * math.cos(turn) + np.cross(aside, along) * math.sin(turn)
    return (a + distance * (math.cos(angle) * along + math.sin(angle) * aside)).tolist()
