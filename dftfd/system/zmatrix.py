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

from dftfd.errors import InputError, odd_character, shown
from dftfd.runtime.written_numbers import real

_NAME = re.compile(r"(?P<sign>[+-]?)(?P<name>[A-Za-z_]\w*)")
FIELDS = (1, 3, 5, 7)
STRAIGHT = 1e-6
"""Sine of the angle below which three atoms lie on a line, where no dihedral angle is defined."""


def is_zmatrix(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows of fields begin as a Z-matrix does: an atom alone, then one with a distance."""
    return len(rows) > 1 and len(rows[0]) == 1 and len(rows[1]) == 3 and rows[1][1] == "1"


def cartesian(rows: Sequence[Sequence[str]], source: str) -> list[tuple[str, list[float]]]:
    """(name, [x, y, z]) of each atom: the first at the origin, the second on the z axis, the third in the xz plane.

    rows: fields of each line, '=' one of them. InputError for what can't be read, and for dihedral angles
    about a straight line.
    """
    values, rows = _values(rows, source)
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


def _values(rows, source) -> tuple[dict[str, float], list]:
    """The numbers of the names that atoms refer to, and the rows of the atoms, which end where the first of them is."""
    names = {match["name"] for row in rows for word in row[2::2] if (match := _NAME.fullmatch(word))}
    is_value = [row[1:2] == ["="] or (len(row) == 2 and row[0] in names and real(row[1]) is not None) for row in rows]
    end = is_value.index(True) if True in is_value else len(rows)
    values: dict[str, float] = {}
    for row, good in zip(rows[end:], is_value[end:], strict=True):
        number = real(row[-1])
        if not good or number is None or len(row) > 3 or not _NAME.fullmatch(row[0]):
            raise InputError(f"{source}: {shown(' '.join(row))} follows the Z-matrix; a value, 'r = 0.96', expected.")
        twin = next((name for name in values if name != row[0] and name.lower() == row[0].lower()), None)
        if twin is not None:
            raise InputError(
                f"{source}: the Z-matrix has {shown(twin)} and {shown(row[0])}, one name in other programs; use "
                "names that differ by more than case."
            )
        if values.setdefault(row[0], number) != number:
            raise InputError(f"{source}: the Z-matrix gives {shown(row[0])} two values.")
    return values, list(rows[:end])


def _place(word, number, where):
    if not (word.isascii() and word.isdecimal() and 1 <= int(word[:9]) < number):
        raise InputError(f"{where}: {shown(word)} is not an atom before it; 1 to {number - 1} expected.")
    return int(word) - 1


def _number(word, values, where):
    named = _NAME.fullmatch(word)
    if named and named["name"] in values:
        value = -values[named["name"]] if named["sign"] == "-" else values[named["name"]]
    else:
        value = real(word)
    if value is None:
        known = ", ".join(values) or "none"
        raise InputError(
            f"{where}: {shown(word)} is not a number, and no name that has one ({known}){odd_character(word)}."
        )
    if not math.isfinite(value):
        raise InputError(f"{where}: {shown(word)} is too large; a distance or an angle in degrees expected.")
    return value


def _position(near, numbers, where):
    """The point at a distance from near[0], an angle with near[1] and a dihedral angle with near[2]."""
    if not near:
        return [0.0, 0.0, 0.0]
    a, distance = np.array(near[0]), numbers[0]
    if not distance > 0:
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
