"""Geometry text -> atoms. Numbers are read as numbers; nothing in a geometry is ever evaluated.

Four forms are understood:

    coordinates   one atom per line or between semicolons, 'O 0.0 0.0 0.117; H 0.0 0.757 -0.469'
    Z-matrix      'O; H 1 0.96; H 1 0.96 2 104.5', see dftfd.system.zmatrix
    mol, SD       files of version V2000, see dftfd.system.molfile
    xyz           a line with the number of atoms, a comment line, then one atom per line

Fields are separated by blanks or commas; `#` starts a comment. Numbers: see dftfd.runtime.written_numbers, which tells
decimal commas from separating ones. The comment line of xyz may say charge, multiplicity and unit, see
dftfd.system.comment_line. So may the end of a file's name, `oh.xyz:-1`, `no2.xyz:0,2`: charge and multiplicity.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS, AtomName, parse_atom_name
from dftfd.errors import FileError, InputError, UnsupportedError, odd_character, shown
from dftfd.runtime.files import decoded, read_bytes
from dftfd.runtime.written_numbers import fields, has_unclear_commas, real, separated
from dftfd.system.comment_line import check_columns, refuse_types, said_in, said_of_columns
from dftfd.system.foreign_files import foreign_format
from dftfd.system.molfile import atoms_of, is_molfile, records
from dftfd.system.zmatrix import cartesian, is_zmatrix

MAX_FILE_BYTES = 32 * 2**20
"""Geometry files above this size are refused unread; 32 MiB hold about half a million atoms."""

MAX_ATOMS = 20_000
"""Larger systems are beyond every method here; refused before their atoms are looked at."""

_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.I)
_FRAME = re.compile(r"(?P<file>.+)@(?P<number>-?[0-9]{1,9})", re.DOTALL)
_ELECTRONS = re.compile(r"(?P<file>.+):(?P<charge>[+-][0-9]{1,3}|0)(?:,(?P<multiplicity>[0-9]{1,3}))?", re.DOTALL)
_QM9 = re.compile(r"(?:gdb|tag)\s+[0-9]+\s", re.I)
_UNITS = re.compile(r"\s*(?:units?\s*[=:]?\s*)?\(?(?:angstroms?|bohr|a\.?u\.?)\)?\s*", re.I)


@dataclass(frozen=True, eq=False)
class Geometry:
    """Atoms as they stand in the input: `names` and `coordinates` (atom, 3) in the unit of the input.

    charge, spin: what the input says of the molecule, None where it says nothing.   unit: 'bohr' or 'angstrom' where
    it says so.   mentions: words of a comment line, such as 'anion', by what they are about, 'charge' or 'spin'.
    """

    names: tuple[AtomName, ...]
    coordinates: np.ndarray
    charge: int | None = None
    spin: int | None = None
    unit: str | None = None
    mentions: Mapping[str, str] = field(default_factory=dict)


def is_coordinate_text(source: str) -> bool:
    """True for text that holds coordinates: with a newline or a semicolon. Anything else is taken as a path.

    So is text that is no atom up to the first of them, where a file has it for its name.
    """
    if "\n" not in source and ";" not in source:
        return False
    first = re.split(r"[\n;]", source.lstrip(" ;\n"), maxsplit=1)[0]
    return _is_atom(first) or "\0" in source or not os.path.lexists(source)


def _named(found):
    """A Geometry of names and places, (name, r)."""
    return _collect([(parse_atom_name(name, f"atom {k}"), r) for k, (name, r) in enumerate(found, start=1)])


def parse_geometry(text: str, source: str = "coordinates") -> Geometry:
    """The atoms of a coordinate string or of xyz text, which is recognised by its first line, a bare atom count.

    source: what to call the text in error messages.
    """
    text = text.removeprefix("\ufeff")
    lines = text.splitlines()
    if is_molfile(lines):
        found, charge, spin = atoms_of(lines, source)
        _check_count(len(found))
        return replace(_named(found), charge=charge, spin=spin, unit="angstrom")
    first = next((line for line in lines if line.strip()), "")
    if first.strip().isascii() and first.strip().isdigit():
        return _parse_xyz(lines, lines.index(first), source)
    try:
        return _parse_entries(lines, source)
    except InputError as error:
        if advice := foreign_format(text):
            raise InputError(f"{source} is no geometry that is read: {advice}.") from error
        raise


def _parse_entries(lines, source) -> Geometry:
    """Atoms, or a Z-matrix, in lines or between semicolons."""
    entries = [(n, e) for n, line in enumerate(lines, 1) for e in line.split("#", 1)[0].split(";") if e.strip(" \t,")]
    _check_count(len(entries) // 4)  # a Z-matrix may have lines for three values with each atom
    rows = fields([entry.replace("=", " = ") for _, entry in entries], [f"{source}, line {n}" for n, _ in entries])
    if is_zmatrix(rows):
        return _named(cartesian(rows, source))
    atoms: list = []
    for (number, entry), row in zip(entries, rows, strict=True):
        if len(row) != 4:
            raise _line_error(source, number, entry)
        _check_count(len(atoms) + 1)
        atoms.append(_parse_atom(row, f"atom {len(atoms) + 1}", f"{source}, line {number}"))
    remarks = " ; ".join(line.strip(" \t#") for line in lines if line.lstrip().startswith("#"))
    return replace(_collect(atoms), **said_in(remarks, source))


def read_geometry_file(path) -> Geometry:
    """The atoms of an xyz file (or of a text file that holds plain coordinate lines), or of a frame, see `frame_of`.

    A missing, unreadable or oversized file raises FileError; contents that are no geometry, and frames that are not
    there, raise InputError. What `electrons_of` reads from the name counts before what the comment line says.
    """
    named = electrons_of(str(path))
    if named is not None:
        said: dict[str, Any] = named[1]
        return replace(read_geometry_file(named[0]), **said)
    chosen = frame_of(str(path))
    if chosen is None:
        return parse_geometry(read_text(path), source=f"file {str(path)!r}")
    file, number = chosen
    frames = split_frames(read_text(file))
    if not -len(frames) <= number < len(frames):
        raise InputError(
            f"file {file!r} has {len(frames)} frames, @0 to @{len(frames) - 1} or @-1 for the last; there is no "
            f"@{number}."
        )
    return parse_geometry(frames[number], source=f"file {str(path)!r}")


def frame_of(path: str) -> tuple[str, int] | None:
    """(file, number) of FILE@NUMBER, a frame of a trajectory counted from 0, or from the end with -1, as ASE does.

    None for other names, and where a file has the name as it stands.
    """
    match = _FRAME.fullmatch(path)
    return (match["file"], int(match["number"])) if match and not os.path.lexists(path) else None


def electrons_of(path: str) -> tuple[str, dict[str, Any]] | None:
    """(file, charge and spin) of FILE:CHARGE or FILE:CHARGE,MULTIPLICITY, as oh.xyz:-1 and no2.xyz:0,2.

    None for other names, for charges without a sign but 0, and where a file has the name as it stands.
    """
    match = _ELECTRONS.fullmatch(path)
    if match is None or os.path.lexists(path):
        return None
    found = {"charge": int(match["charge"])}
    if match["multiplicity"] is not None:
        found["spin"] = int(match["multiplicity"]) - 1
        if found["spin"] < 0:
            raise InputError(f"{shown(path)}: multiplicity 0 does not exist; it is the unpaired electrons plus one.")
    return match["file"], found


def split_frames(text: str) -> list[str]:
    """The records of an SD file, or frames of an xyz trajectory, cut by the numbers of atoms that they announce.

    Any other text comes back as a whole.

    Lines between frames that announce nothing make it such another text, for `parse_geometry` to refuse.
    """
    lines = text.splitlines()
    if is_molfile(lines):
        return records(text)
    frames, start = [], 0
    while start < len(lines):
        count = lines[start].strip()
        if not (count.isascii() and count.isdigit() and len(count) < 10):
            return [text]
        end = start + int(count) + 2
        frames.append("\n".join(lines[start:end]))
        start = next((k for k in range(end, len(lines)) if lines[k].strip()), len(lines))
    return frames or [text]


def parse_atom_list(entries) -> Geometry:
    """The atoms of a sequence of (symbol, (x, y, z)) or (symbol, x, y, z)."""
    entries = list(entries)
    _check_count(len(entries))
    return _collect([_read_entry(entry, f"atom {index}") for index, entry in enumerate(entries, start=1)])


def is_ase_atoms(source) -> bool:
    """True for an object with the methods of `ase.Atoms` that are read here, so that ASE itself is not needed."""
    return all(hasattr(source, name) for name in ("get_chemical_symbols", "get_positions", "get_pbc"))


def from_ase(atoms) -> Geometry:
    """Symbols and positions [angstrom] of an ASE Atoms; element 'X' is refused, periodic directions too.

    Initial charges and magnetic moments that are not zero say the molecule's charge and spin, by their sums.
    """
    if np.any(atoms.get_pbc()):
        raise UnsupportedError("these ASE Atoms are periodic; only molecules are supported (atoms.pbc = False).")
    positions = np.asarray(atoms.get_positions(), dtype=float)
    symbols = list(atoms.get_chemical_symbols())
    if positions.shape != (len(symbols), 3):
        raise InputError(f"ASE Atoms with {len(symbols)} symbols have positions of shape {positions.shape}.")
    found = parse_atom_list(list(zip(symbols, positions, strict=True)))
    said: dict[str, Any] = {"charge": _sum_of(atoms, "charges"), "spin": _sum_of(atoms, "magnetic_moments")}
    info = {str(key).lower(): value for key, value in getattr(atoms, "info", {}).items()}
    words = {"charge": ("charge",), "spin": ("spin", "multiplicity")}  # of which programs make different things
    usual = {"charge": (0,), "spin": (0, 1), "multiplicity": (1,)}
    mentions = {
        name: f"info {word}={shown(info[word], 20)}"
        for name in words
        for word in words[name]
        if word in info and info[word] not in usual[word] and said[name] is None
    }
    return replace(found, **said, mentions=mentions)


def _sum_of(atoms, name) -> int | None:
    """The sum of an ASE Atoms' initial charges or moments, None where all are zero."""
    values = np.asarray(getattr(atoms, f"get_initial_{name}", lambda: 0.0)(), dtype=float)
    if not np.any(values):
        return None
    total = float(values.sum())
    if values.ndim > 1 or not abs(total - round(total)) < 1e-3:
        raise InputError(
            f"the initial {name.replace('_', ' ')} of these ASE Atoms add up to {shown(total)}, no whole number: set "
            f"them to what the molecule has, or to zero, by set_initial_{name}()."
        )
    return round(total)


def _parse_xyz(lines, first, source):
    count = int(lines[first].strip()[:9])
    comment = lines[first + 1] if len(lines) > first + 1 else ""
    check_columns(comment, source)
    body = lines[first + 2 :]
    while body and not body[-1].strip():
        body.pop()
    if len(body) == count + 3 and _QM9.match(comment) and body[-1].lstrip().startswith("InChI="):
        body = body[:count]  # QM9: frequencies, SMILES and InChI follow (doi:10.1038/sdata.2014.22)
    if len(body) != count:
        raise _count_error(lines, first, count, len(body), source)
    _check_count(count)
    rows = fields(body, [f"{source}, line {number}" for number in range(first + 3, first + 3 + count)])
    atoms: list = []
    for number, (line, row) in enumerate(zip(body, rows, strict=True), start=first + 3):
        if len(row) < 4 or (len(row) > 4 and has_unclear_commas(line, 3)):
            raise _line_error(source, number, line)
        # Further columns (charges, velocities, forces) are allowed by the format and carry no geometry.
        atoms.append(_parse_atom(row[:4], f"atom {len(atoms) + 1}", f"{source}, line {number}"))
    _check_further_columns(rows, source)
    refuse_types(comment, rows, source)
    said = said_in(comment, source)
    columns = {about: name for about, name in said_of_columns(comment, rows).items() if about not in said}
    return replace(_collect(atoms), **said | {"mentions": columns | said["mentions"]})


def _check_further_columns(rows, source):
    """Refuse lines that have something else than x, y, z behind the element: atomic numbers, codes, flags.

    They have more columns than four, and x is a whole number in all lines before three columns with points, or counts
    the lines, or is the element's atomic number or mass, or y and the next but one are 0 or 1 (MOPAC's flags). Where
    lines have different numbers of columns, one may have a blank or a comma within a number.
    """
    from dftfd.libcint.mole import average_masses  # PySCF, which help and lists do not wait for

    widths = [sum(1 for word in row[1:] if any(map(str.isdigit, word))) for row in rows]
    if widths and min(widths) < max(widths):
        k = widths.index(max(widths))
        raise InputError(
            f"{source}: {shown(' '.join(rows[k]))} has {widths[k]} numbers, another line {min(widths)}; as many "
            "columns for each atom expected."
        )
    if not rows or min(map(len, rows)) < 5:
        return
    columns = [list(column) for column in zip(*rows, strict=False)]
    pointed = [all(word.count(".") == 1 and real(word) is not None for word in column) for column in columns]
    is_code = not any(set(".eEdD") & set(word) for word in columns[1]) and pointed[2:5] == [True] * 3
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


def _count_error(lines, first, count, found, source):
    frames = split_frames("\n".join(lines))
    if len(frames) > 1:
        name = "FILE" if not source.startswith("file") else source[5:].strip("'")
        return InputError(
            f"{source} holds {len(frames)} geometries: name one as {name}@0 to {name}@{len(frames) - 1} (@-1 is the "
            "last), or run a batch."
        )
    return InputError(
        f"{source}: line {first + 1} announces {count} atoms, but {found} lines follow the comment line. "
        "Expected the atom count, a comment line, then one atom per line, a single geometry per file."
    )


def _check_count(n_atoms):
    if n_atoms > MAX_ATOMS:
        raise InputError(f"the geometry has more than {MAX_ATOMS} atoms; expected a molecule.")


def _parse_atom(fields, atom, where):
    name = parse_atom_name(fields[0], f"{atom}, {where}" if "file" in where else atom)
    return name, [_parse_number(field, axis, atom, where) for axis, field in zip("xyz", fields[1:], strict=True)]


def _parse_number(word, axis, atom, where):
    value = real(word)
    if value is not None:
        return value
    if _NOT_FINITE.fullmatch(word):
        return float(word)  # refused with the name of the coordinate once the geometry is complete
    raise InputError(
        f"{where}: coordinate {axis} of {atom} is {shown(word)}, expected a number such as 0.757 or -1.2e-3"
        f"{odd_character(word)}."
    )


def _read_entry(entry, atom):
    expected = "expected (symbol, (x, y, z)) or (symbol, x, y, z)"
    if not isinstance(entry, (list, tuple, np.ndarray)) or len(entry) not in (2, 4):
        raise InputError(f"{atom}: found {shown(entry)}, {expected}.")
    name, position = entry[0], entry[1] if len(entry) == 2 else tuple(entry[1:])
    if isinstance(position, str) or not hasattr(position, "__len__") or len(position) != 3:
        raise InputError(f"{atom}: the position is {shown(position)}, {expected}.")
    return parse_atom_name(name, atom), [_real(value, axis, atom) for axis, value in zip("xyz", position, strict=True)]


def _real(value, axis, atom):
    array = None if isinstance(value, list | tuple | dict) else np.asarray(value)
    if array is None or array.ndim != 0 or array.dtype.kind not in "iuf":
        raise InputError(f"coordinate {axis} of {atom} is {shown(value)}, expected a real number.")
    return float(array)


def _collect(atoms):
    names = tuple(name for name, _ in atoms)
    return Geometry(names, np.array([position for _, position in atoms], dtype=float).reshape(len(names), 3))


def read_text(path, expected: str = "an xyz file") -> str:
    """The text of a regular file of bounded size; FileError, which says what is expected, where there is none."""
    name = shown(str(path))
    try:
        path = Path(path)
        if not path.exists():
            raise FileError(f"file not found: {name}.{_looks_like_coordinates(str(path))}")
        if not path.is_file():
            raise FileError(f"{name} is not a regular file; expected {expected}.")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FileError(f"{name} is larger than {MAX_FILE_BYTES // 2**20} MiB; expected {expected}.")
        data = read_bytes(path, MAX_FILE_BYTES)
    except FileError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {name}: {reason}.{_looks_like_coordinates(str(path))}") from error
    return decoded(data, name, expected)


def _is_atom(text):
    """Whether text begins with a word and three numbers."""
    found = separated(text)
    return len(found) >= 4 and all(real(word) is not None for word in found[1:4])


def _looks_like_coordinates(text):
    advice = " If this is meant as coordinates, separate the atoms by ';' or newlines; a single atom ends with ';'."
    return advice if _is_atom(text) else ""


def _line_error(source, number, line):
    hint = ""
    if _UNITS.fullmatch(line):
        hint = "; give the unit as unit= (--unit)"
    elif len(words := separated(line)) == 2 and all(word.lstrip("+-").isdecimal() for word in words):
        hint = "; give charge and multiplicity as charge=, spin= (--charge, --multiplicity)"
    elif "," in line:
        hint = "; write decimal points, and blanks between numbers"
    return InputError(f"{source}, line {number}: expected 'El x y z', found {shown(line.strip())}{hint}.")
