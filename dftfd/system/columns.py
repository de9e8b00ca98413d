"""Columns of the lines of atoms in xyz files; files that begin with others than element, x, y, z are refused."""

import re

from dftfd.elements import ATOMIC_NUMBERS, parse_atom_name
from dftfd.errors import InputError, shown
from dftfd.runtime.written_numbers import real, whole

_PERIODIC = re.compile(
    r"""lattice\s*=|(?<!\w)(?:(?:cell|box)\s*(?:[=:]\s*["'\[(]+\s*[0-9]|[=:]?(?:\s+[0-9.]{1,12}){3})|pbc\s*=\s*["'\[(]?(?:\s|,|F(?:alse)?)*T)""",
    re.I,
)
_NOT_PERIODIC = re.compile(r"""pbc\s*=\s*["']?\s*F\s+F\s+F""", re.I)
_PROPERTIES = re.compile(r"properties\s*=\s*(\S+)", re.I)
_COLUMNS = {"charge": re.compile(r"charges?$|^q$", re.I), "spin": re.compile(r"magmoms?$|spins?$|^moments?$", re.I)}


def check_columns(comment: str, source: str) -> None:
    """Refuse unit cells and other columns than element, x, y, z, both of which extended xyz keeps in this line."""
    if _PERIODIC.search(comment) and not _NOT_PERIODIC.search(comment):
        raise InputError(
            f"{source}: the comment line holds a periodic cell ('Lattice=', 'cell=', 'pbc='); only molecules are "
            "supported."
        )
    layout = _PROPERTIES.search(comment)
    if layout and not layout[1].lower().startswith("species:s:1:pos:r:3"):
        raise InputError(
            f"{source}: the columns {shown(layout[1])} do not start as 'species:S:1:pos:R:3', that is element, x, y, z."
        )


def refuse_types(comment: str, rows: list[list[str]], source: str) -> None:
    """InputError for the numbers of atom types that LAMMPS writes where elements stand."""
    if comment.startswith("Atoms. Timestep") and rows and all(row[0].isdigit() for row in rows):
        raise InputError(
            f"{source}: the atoms of LAMMPS, as {shown(' '.join(rows[0]))}, have numbers of types, not of elements: "
            "write symbols (dump_modify element)."
        )


def said_of_columns(comment: str, rows: list[list[str]]) -> dict[str, str]:
    """Columns of extended xyz that tell of charge and spin, by these words, where they do not add up to zero.

    Initial ones, which programs take for an input, where they are not zero throughout.
    """
    layout, start = _PROPERTIES.search(comment), 0
    words, columns = layout[1].strip("\"'").split(":") if layout else [], {}
    for name, count in zip(words[::3], words[2::3], strict=False):
        columns[name] = [real(row[start]) or 0.0 for row in rows if start < len(row)]
        start += whole(count) or 0
    return told_of_sums(columns)


def told_of_sums(columns: dict[str, list[float]]) -> dict[str, str]:
    """The names of columns that tell of charge and spin by their sums, by which of the two they are about."""
    found = {}
    for name, values in columns.items():
        is_said = any(values) if name.lower().startswith("initial_") else abs(sum(values)) > 0.5
        for about in (about for about, pattern in _COLUMNS.items() if is_said and pattern.search(name)):
            found[about] = name
    return found


def check_further_columns(comment: str, rows: list[list[str]], source: str) -> None:
    """Refuse lines that have something else than x, y, z behind the element: atomic numbers, codes, flags.

    They have more columns than four, and x is a whole number in all lines before three columns with points, or one and
    the same before numbers with points, or any but zero in all of them, or counts the lines, or is the element's atomic
    number or mass, or y and the next but one are 0 or 1 (MOPAC's flags). A comment that tells the columns is believed.
    Where lines have different numbers of columns, one may have a blank or a comma within a number.
    """
    from dftfd.libcint.mole import average_masses  # PySCF, which help and lists do not wait for

    widths = [sum(1 for word in row[1:] if any(map(str.isdigit, word))) for row in rows]
    if widths and min(widths) < max(widths):
        k = widths.index(max(widths))
        raise InputError(
            f"{source}: {shown(' '.join(rows[k]))} has {widths[k]} numbers, another line {min(widths)}; as many "
            "columns for each atom expected."
        )
    if not rows or min(map(len, rows)) < 5 or _PROPERTIES.search(comment):
        return
    columns = [list(column) for column in zip(*rows, strict=False)]
    pointed = [all(word.count(".") == 1 and real(word) is not None for word in column) for column in columns]
    has_points = any("." in word for column in columns[2:5] for word in column)
    is_pointed, is_constant = pointed[2:5] == [True] * 3, len(set(columns[1])) == 1 < len(rows)
    is_whole = not any(set(".eEdD") & set(word) for word in columns[1])
    is_code = (is_pointed or (is_constant and has_points)) if is_whole else is_pointed and is_constant
    is_code &= is_whole or bool(real(columns[1][0]))  # a plane x = 0 is written with points, too
    is_flag = pointed[1:6] == [True, False, True, False, True] and set(columns[2]) | set(columns[4]) <= {"0", "1"}
    is_number = [real(word) for word in columns[1]] == [
        ATOMIC_NUMBERS[parse_atom_name(word, "atom").symbol] for word in columns[0]
    ]
    masses = average_masses([ATOMIC_NUMBERS[parse_atom_name(word, "atom").symbol] for word in columns[0]])
    is_mass = all(abs((real(word) or 0) - mass) < 0.05 for word, mass in zip(columns[1], masses, strict=True))
    is_index = len(rows) > 1 and columns[1] in ([str(k + start) for k in range(len(rows))] for start in (0, 1))
    if is_code or is_flag or is_number or is_index or is_mass:
        raise InputError(
            f"{source}: column {3 if is_flag else 2} of the lines of atoms, {shown(' '.join(rows[0]))}, holds atomic "
            "numbers, masses, codes or flags; 'El x y z' expected, coordinates with points."
        )
