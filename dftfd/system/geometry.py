"""Geometry text -> atoms. Numbers are read as numbers; nothing in a geometry is ever evaluated.

Four forms are understood:

    coordinates   one atom per line or between semicolons, 'O 0.0 0.0 0.117; H 0.0 0.757 -0.469'
    Z-matrix      'O; H 1 0.96; H 1 0.96 2 104.5', see `atoms_of_zmatrix`
    mol, SD       files of version V2000, see dftfd.system.molfile
    xyz           a line with the number of atoms, a comment line, then one atom per line

Fields are separated by blanks or commas; `#` starts a comment. Numbers: see dftfd.runtime.written_numbers, which tells
decimal commas from separating ones. The comment line of xyz may say charge, multiplicity and unit, see
dftfd.system.comment_line. So may the end of a file's name, `oh.xyz:-1`, `no2.xyz:0,2`: charge and multiplicity.

Files of other programs are recognised by what they begin with or always have. Nothing is read from them: their keywords
decide what a line of atoms means. Columns of xyz files in another order than element, x, y, z are refused.
"""

import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.elements import AtomName, parse_atom_name
from dftfd.errors import FileError, InputError, InputWarning, odd_character, shown
from dftfd.runtime.arguments import require_bare
from dftfd.runtime.files import decoded, read_bytes
from dftfd.runtime.written_numbers import (
    UnclearNumber,
    fields,
    has_unclear_commas,
    real,
    require_point,
    separated,
    whole,
)
from dftfd.system.columns import (
    check_columns,
    check_further_columns,
    refuse_types,
    said_of_columns,
    warn_of_columns,
    warn_of_constraints,
    words_behind,
)
from dftfd.system.comment_line import (
    counts_of_atoms,
    ion_of_atoms,
    said_behind,
    said_by_name,
    said_by_path,
    said_in,
    unit_of,
    unit_of_path,
)
from dftfd.system.molfile import atoms_of, is_molfile, records, titles

MAX_FILE_BYTES = 32 * 2**20
"""Geometry files above this size are refused unread; 32 MiB hold about half a million atoms."""

MAX_ATOMS = 20_000
"""Larger systems are beyond every method here; refused before their atoms are looked at."""

_IN_NO_ORDER = str, bytes, bytearray, memoryview, Set, Mapping
"""What is no position, though it may have three entries: letters, codes of letters, and what comes in any order."""

_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.I)
_FRAME = re.compile(r"(?P<file>.+)@(?P<number>-?[0-9]{1,9})", re.DOTALL)
_ELECTRONS = re.compile(r"(?P<file>.+):(?P<charge>[+-][0-9]{1,3}|0)(?:,(?P<multiplicity>[0-9]{1,3}))?", re.DOTALL)
_QM9 = re.compile(r"(?:gdb|tag)\s+[0-9]+\s", re.I)
_ATOM_BEHIND = re.compile(r"\w.*[^\w.][A-Za-z]{1,2}[0-9]*(?:[\s,]+[+-]?[0-9]*\.[0-9]+){3}\s*$")
"""Of a remark: words, then an atom."""
_FIXED = re.compile(r"(?:fixed|fix|frozen|freeze|constrained)(?![a-z])", re.I)
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

    @property
    def symbols(self) -> list[str]:
        """The elements of the atoms that are no ghosts."""
        return [name.symbol for name in self.names if not name.ghost]


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
        only = records(text)
        lines = only[0].splitlines() if len(only) == 1 else lines
        found, charge, spin = atoms_of(lines, source)
        require_few_atoms(len(found))
        said = said_by_name(lines[0].strip(), [name for name, _ in found]) | said_behind(titles(lines))
        mentions = {name: word for name, word in said.items() if not {"charge": charge, "spin": spin}[name]}
        return replace(_named(found), charge=charge, spin=spin, unit="angstrom", mentions=mentions)
    first = next((line for line in lines if line.strip()), "")
    if first.strip().isascii() and first.strip().isdigit():
        return _parse_xyz(lines, lines.index(first), source)
    try:
        return _parse_entries(lines, source)
    except InputError as error:
        if advice := foreign_format(text):
            raise InputError(f"{source} is not a geometry that is read: {advice}.") from error
        raise


def _parse_entries(lines, source) -> Geometry:
    """Atoms, or a Z-matrix, in lines or between semicolons."""
    entries = [(n, e) for n, line in enumerate(lines, 1) for e in line.split("#", 1)[0].split(";") if e.strip(" \t,")]
    require_few_atoms(len(entries) // 4)  # a Z-matrix may have lines for three values with each atom
    rows = fields([entry.replace("=", " = ") for _, entry in entries], [f"{source}, line {n}" for n, _ in entries])
    remarks = " ; ".join(line.strip(" \t#") for line in lines if line.lstrip().startswith("#"))
    if swallowed := next(filter(_ATOM_BEHIND.search, remarks.split(" ; ")), None):
        warnings.warn(
            f"{source}: {shown(swallowed)} is a remark that ends as an atom does: is the end of a line missing?",
            InputWarning,
            stacklevel=6,
        )
    said = said_in(remarks, source)
    _add_remarks(said, (line.partition("#")[2] for line in lines if line.lstrip()[:1] != "#"), source)
    if is_zmatrix(rows):
        return replace(_named(atoms_of_zmatrix(rows, source)), **said)
    atoms: list = []
    for (number, entry), row in zip(entries, rows, strict=True):
        if len(row) != 4:
            raise _line_error(source, number, entry)
        require_few_atoms(len(atoms) + 1)
        atoms.append(_parse_atom(row, f"atom {len(atoms) + 1}", f"{source}, line {number}"))
    _warn_of_lost_points(rows, source)
    said["mentions"] = _said_of_atoms(remarks, atoms, said) | said["mentions"]
    return replace(_collect(atoms), **said)


def _said_of_atoms(comment, atoms, said) -> dict[str, str]:
    """What formulas and numbers of electrons mention that are of just these atoms."""
    symbols = [name.symbol for name, _ in atoms if not name.ghost]
    found = counts_of_atoms(comment, symbols) | ion_of_atoms(comment, symbols)
    return {about: word for about, word in found.items() if about not in said}


def read_geometry_file(path) -> Geometry:
    """The atoms of an xyz file (or of a text file that holds plain coordinate lines), or of a frame, see `frame_of`.

    A missing, unreadable or oversized file raises FileError; contents that are no geometry, and frames that are not
    there, raise InputError. What `electrons_of` reads from the name counts before what the comment line says.
    """
    named = electrons_of(str(path))
    if named is not None:
        said: dict[str, Any] = named[1]
        found = read_geometry_file(named[0])
        for name in (name for name in said if getattr(found, name) not in (None, said[name])):
            warnings.warn(
                f"the file says {name}={getattr(found, name)}, but {shown(str(path))} was given and is used.",
                InputWarning,
                stacklevel=6,
            )
        return replace(found, mentions={k: v for k, v in found.mentions.items() if k not in said}, **said)
    chosen = frame_of(str(path))
    if chosen is None:
        return _of_file(read_geometries(path), str(path), str(path))
    file, number = chosen
    frames = split_frames(read_geometries(file))
    if not -len(frames) <= number < len(frames):
        raise InputError(
            f"file {file!r} has {len(frames)} frames, @0 to @{len(frames) - 1} or @-1 for the last; there is no "
            f"@{number}."
        )
    found = _of_file(frames[number], str(path), file)
    return replace(found, mentions=said_by_first(frames, [number % len(frames)], {}) | dict(found.mentions))


def _of_file(text, path, file) -> Geometry:
    """The atoms of a text; what it does not say of charge and spin, the name of its file may mention."""
    found = parse_geometry(text, source=f"file {path!r}")
    named = said_by_path(file, found.symbols) | said_beside(file)
    unsaid = {about: word for about, word in named.items() if getattr(found, about) is None}
    return replace(found, unit=found.unit or unit_of_path(file), mentions=unsaid | dict(found.mentions))


def said_beside(file: str) -> dict[str, str]:
    """'charge=-1 (.CHRG)' by what it is about: of the files .CHRG and .UHF beside a geometry, or of its name.

    xtb, CREST, MindlessGen and GMTKN55 keep charge and unpaired electrons there.
    """
    found: dict[str, str] = {}
    for about, ending in (("charge", ".CHRG"), ("spin", ".UHF")):
        for path in (os.path.join(os.path.dirname(file), ending), os.path.splitext(file)[0] + ending):
            with suppress(FileError):
                if number := whole(read_text(path, "a number").strip()):
                    found[about] = f"{about}={number} ({os.path.basename(path)})"
    return found


def said_by_first(frames: Sequence[str], chosen: Sequence[int], beside: Mapping[str, str]) -> dict[str, str]:
    """'charge=-1 (first frame)', or what files beside say, where a chosen frame of the same atoms does not say it."""
    found: dict[str, str] = {}
    with suppress(InputError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = parse_geometry(frames[0])
        said = {about: value for about in ("charge", "spin") if (value := getattr(first, about))}
        words = {**beside, **{about: f"{about}={value} (first frame)" for about, value in said.items()}}
        for frame in (parse_geometry(frames[k]) for k in chosen if words):
            silent = [about for about in words if getattr(frame, about) is None and frame.symbols == first.symbols]
            found |= {about: words[about] for about in silent}
    return found


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


def read_geometries(path) -> str:
    """The text of a file of one or several geometries; InputError where it seems to end within a number.

    It ends without a newline then, and its last coordinate has fewer decimals than all others, which have as many.
    """
    text = read_text(path)
    rows = [separated(line) for line in text.splitlines()[-50:] if _is_atom(line)]
    if (
        text[-1:] not in "\r\n"
        and len(rows) > 1
        and (last := rows[-1]) == separated(text.splitlines()[-1])
        and len(last) == 4
    ):
        *others, cut = (len(word.partition(".")[2]) for row in rows for word in row[1:4])
        if len(set(others)) == 1 and cut < others[0]:
            raise InputError(
                f"file {shown(str(path))} ends with {shown(last[3])}, {cut} decimals where all other coordinates have "
                f"{others[0]}: it may have been cut off; complete it, or end the line where it is whole."
            )
    return text


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
    require_few_atoms(len(entries))
    return _collect([_read_entry(entry, f"atom {index}") for index, entry in enumerate(entries, start=1)])


def _parse_xyz(lines, first, source):
    count = int(lines[first].strip()[:9])
    comment = lines[first + 1] if len(lines) > first + 1 else ""
    check_columns(comment, source)
    if _is_line_of_atom(comment, "\n".join(lines[first + 2 : first + 3])):
        raise InputError(
            f"{source}, line {first + 2}: {shown(comment.strip())} looks like an atom where xyz has a comment; put a "
            "line between the number of atoms and the first of them."
        )
    body = lines[first + 2 :]
    while body and not body[-1].strip():
        body.pop()
    if len(body) == count + 3 and _QM9.match(comment) and body[-1].lstrip().startswith("InChI="):
        body = body[:count]  # QM9: frequencies, SMILES and InChI follow (doi:10.1038/sdata.2014.22)
    if len(body) != count:
        raise _count_error(lines, first, count, len(body), source)
    require_few_atoms(count)
    rows = fields(body, [f"{source}, line {number}" for number in range(first + 3, first + 3 + count)])
    atoms: list = []
    for number, (line, row) in enumerate(zip(body, rows, strict=True), start=first + 3):
        if len(row) < 4 or (len(row) > 4 and has_unclear_commas(line, 3)):
            raise _line_error(source, number, line)
        # Further columns (charges, velocities, forces) are allowed by the format and carry no geometry.
        atoms.append(_parse_atom(row[:4], f"atom {len(atoms) + 1}", f"{source}, line {number}"))
    check_further_columns(comment, rows, source)
    refuse_types(comment, rows, source)
    warn_of_columns(comment, rows, source)
    _warn_of_lost_points(rows, source)
    said = said_in(comment, source)
    columns = {about: name for about, name in said_of_columns(comment, rows).items() if about not in said}
    said["mentions"] = columns | _said_of_atoms(comment, atoms, said) | said["mentions"]
    _add_remarks(said, [*words_behind(comment, rows), *(line.partition("#")[2] for line in body)], source)
    return replace(_collect(atoms), **said)


def _add_remarks(said, remarks, source):
    """Adds what remarks behind atoms mention of charge and spin, and the unit that they name, bohr before angstrom."""
    remarks = [remark.strip() for remark in remarks if remark.strip()]
    if fixed := next(filter(_FIXED.match, remarks), None):
        warn_of_constraints(f"{source}: {shown(fixed)} behind an atom")
    said["mentions"] = said_behind(remarks) | said["mentions"]
    units = {unit for remark in remarks if (unit := unit_of(remark, source))}
    said["unit"] = said.get("unit") or next((unit for unit in ("bohr", "angstrom") if unit in units), None)


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


def require_few_atoms(n_atoms: int) -> None:
    """InputError above MAX_ATOMS, for readers to call before they look at each."""
    if n_atoms > MAX_ATOMS:
        raise InputError(f"the geometry has more than {MAX_ATOMS} atoms; expected a molecule.")


def _parse_atom(fields, atom, where):
    name = parse_atom_name(fields[0], f"{atom}, {where}" if "file" in where else atom)
    return name, [_parse_number(field, axis, atom, where) for axis, field in zip("xyz", fields[1:], strict=True)]


def _warn_of_lost_points(rows, source):
    """Warn of a coordinate of three digits or more without a point, 121, where most have points."""
    words = [word for row in rows for word in row[1:4]]
    if 2 * sum("." in word for word in words) < len(words):
        return
    if lost := next((word for word in words if word.lstrip("+-").isdigit() and len(word.lstrip("+-")) > 2), None):
        warnings.warn(
            f"{source}: the coordinate {shown(lost)} has no point, most others have one: is one missing?",
            InputWarning,
            stacklevel=6,
        )


def _parse_number(word, axis, atom, where):
    try:
        require_point(word)
    except UnclearNumber as error:
        raise InputError(f"{where}: coordinate {axis} of {atom}: {error}.") from error
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
    if isinstance(position, _IN_NO_ORDER) or not hasattr(position, "__len__") or len(position) != 3:
        raise InputError(f"{atom}: the position is {shown(position)}, {expected}.")
    return parse_atom_name(name, atom), [_real(value, axis, atom) for axis, value in zip("xyz", position, strict=True)]


def _real(value, axis, atom):
    try:
        require_bare(value)
    except UnclearNumber as error:
        raise InputError(f"coordinate {axis} of {atom}: {error}.") from error
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


def _is_line_of_atom(text, below):
    """Whether text is an element and three numbers, an atomic number where the line below begins with one, too."""
    if not _is_atom(text) or (text.strip()[0].isdigit() and not below.strip()[:1].isdigit()):
        return False
    try:
        return bool(parse_atom_name(separated(text)[0], "atom"))
    except InputError:
        return False


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


_READ = "an xyz file (number of atoms, a comment line such as 'charge=-1 multiplicity=2', lines 'El x y z' in angstrom)"
_ADVICE = f"write its atoms into {_READ}"

_KINDS = {
    "a saved result, or another binary file of HDF5": r"\A(?:dftfd sealed HDF5|.HDF\r\n)",
    "a JSON document": r"\A\s*(?:\{|\[\s*[{\[\"])",
    "an output of Gaussian": r"^ ?Entering Gaussian System|^ Gaussian, Inc\.",
    "an output of ORCA": r"^[ \t]*\* O   R   C   A \*",
    "an output of Psi4": r"^[ \t]*Psi4: An Open-Source",
    "a Gaussian cube file": r"\A[^\n]*\n[^\n]*\n *-?[0-9]+( +-?[0-9.]+){3,4} *\n( *-?[0-9]+( +-?[0-9.]+){3} *\n){3}",
    "a Molden file": r"\A\s*\[(?:molden format|atoms)\]",
    "a Molpro input": r"^[ \t]*geometry\s*=\s*\{",
    "a CP2K input": r"^[ \t]*&(?:global|force_eval|coord|motion|subsys)\b",
    "an input of ORCA": r"^[ \t]*![^\n]*|^[ \t]*\*\s*(?:xyz|xyzfile|int|gzmt)\b"
    r"|^[ \t]*%(?:pal|maxcore|scf|method|basis|coords|geom)\b",
    "an input of Gaussian": r"^[ \t]*%(?:chk|oldchk|rwf|mem|nproc\w*|cpu|gpucpu)\s*="
    r"|^[ \t]*#[^\n]*\n(?:[^\n]+\n){0,5}[ \t]*\n(?:[^\n]+\n){1,5}[ \t]*\n\s*[+-]?[0-9]+[\s,]+[0-9]+\s*\n",
    "an input of Q-Chem": r"^[ \t]*\$(?:molecule|rem)\b",
    "an input of GAMESS": r"^[ \t]*\$(?:contrl|data|basis|system)\b",
    "a coord file of Turbomole": r"^[ \t]*\$coord\b|^[ \t]*\$atoms\b",
    "an input of NWChem": r"^[ \t]*geometry\b[^\n={]*\n|^[ \t]*task\s+(?:scf|dft|mp2|ccsd)",
    "an input of Psi4": r"^[ \t]*molecule\s*\w*\s*\{|^[ \t]*set\s*\{|^[ \t]*set\s+\w+\s+\S+\s*$|\benergy\s*\(\s*['\"]",
    "an input of MOPAC": r"\A[^\n]*\b(?:pm[367]|am1|mndo|rm1)\b",
    "a PDB file": r"^(?:atom  |hetatm)\s*[0-9]+\s",
    "an input of FHI-aims": r"^[ \t]*(?:atom|atom_frac|lattice_vector)\s+-?[0-9.]",
    "an input of DALTON": r"\A\s*(?:basis|atombasis|intgrl)\s*\n",
    "an input of ADF": r"^[ \t]*(?:engine\s+\w+|atoms)\s*$(?=[\s\S]*^[ \t]*end\b)",
    "a geometry of DFTB+ (gen)": r"\A\s*[0-9]+\s+[cfs]\s*\n",
    "an xyz file of Tinker": r"\A\s*[0-9]+\s+[^\n]*\n\s*1\s+[a-z]+\S*\s+-?[0-9.]+\s+-?[0-9.]+\s+-?[0-9.]+\s+[0-9]+",
    "a file of XCrySDen": r"^[ \t]*(?:primvec|primcoord|convvec)\b",
    "a CIF file": r"^data_\S*\s*$|^_(?:atom_site|cell)_",
    "a mol2 file": r"^@<tripos>",
    "a file of CML or another XML": r"\A\s*<\?xml|\A\s*<(?:molecule|cml|html|!doctype)",
    "a structure of VASP": r"\A[^\n]*\n\s*-?[0-9.]+\s*\n(?:(?:\s+-?[0-9.]+){3}\s*\n){3}",
    "a program in Python": r"^[ \t]*(?:from\s+\w\S*\s+)?import\s+\w",
}
_PATTERNS = {name: re.compile(pattern, re.I | re.MULTILINE) for name, pattern in _KINDS.items()}
_CURES = {
    "a saved result, or another binary file of HDF5": "dftfd.load_result and `dftfd view` read saved results",
    "a JSON document": "`dftfd run` reads QCSchema inputs, whose name ends in .json",
}
_LONGEST = 8_000


def foreign_format(text: str) -> str:
    """'it looks like an input of ORCA; ...' with what to do; empty for a text that looks like nothing known."""
    beginning = text[:_LONGEST]
    kind = next((name for name, pattern in _PATTERNS.items() if pattern.search(beginning)), None)
    return "" if kind is None else f"it looks like {kind}; {_CURES.get(kind, _ADVICE)}"


_NAMED_VALUE = re.compile(r"(?P<sign>[+-]?)(?P<name>[A-Za-z_]\w*)")
FIELDS = (1, 3, 5, 7)
STRAIGHT = 1e-6
"""Sine of the angle below which three atoms lie on a line, where no dihedral angle is defined."""


def is_zmatrix(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows of fields begin as a Z-matrix does: an atom alone, then one with a distance."""
    return len(rows) > 1 and len(rows[0]) == 1 and len(rows[1]) == 3 and rows[1][1] == "1"


def atoms_of_zmatrix(rows: Sequence[Sequence[str]], source: str) -> list[tuple[str, list[float]]]:
    """(name, [x, y, z]) of each atom: the first at the origin, the second on the z axis, the third in the xz plane.

        O
        H 1 r                   distance to atom 1
        H 1 r 2 104.5           and angle with atom 2 [degree]
        N 2 1.4 1 109.5 3 -120  and dihedral angle with atom 3 [degree]

        r = 0.96

    Atoms count from 1. Lengths have the unit of the input. A name may stand for a number, with a minus sign before it
    too; its value follows the atoms. Dihedral angles have the sign of J. B. Hendrickson's and IUPAC's convention,
    clockwise.

    rows: fields of each line, '=' one of them. InputError for what can't be read, and for dihedral angles
    about a straight line.
    """
    values, rows = _values_of_names(rows, source)
    atoms: list[tuple[str, list[float]]] = []
    for number, row in enumerate(rows, start=1):
        where = f"{source}, atom {number} of the Z-matrix"
        if len(row) != FIELDS[min(number - 1, 3)]:
            raise InputError(
                f"{where}: {shown(' '.join(row))} has {len(row)} fields, {FIELDS[min(number - 1, 3)]} expected."
            )
        near = [_atom_before(word, number, where) for word in row[1::2]]
        if len(set(near)) != len(near):
            raise InputError(f"{where}: {shown(' '.join(row))} refers to one atom twice.")
        numbers = [_value(word, values, where) for word in row[2::2]]
        atoms.append((row[0], _from_neighbours([atoms[k][1] for k in near], numbers, where)))
    return atoms


def _values_of_names(rows, source) -> tuple[dict[str, float], list]:
    """The numbers of the names that atoms refer to, and the rows of the atoms, which end where the first of them is."""
    names = {match["name"] for row in rows for word in row[2::2] if (match := _NAMED_VALUE.fullmatch(word))}
    is_value = [row[1:2] == ["="] or (len(row) == 2 and row[0] in names and real(row[1]) is not None) for row in rows]
    end = is_value.index(True) if True in is_value else len(rows)
    values: dict[str, float] = {}
    for row, good in zip(rows[end:], is_value[end:], strict=True):
        number = real(row[-1])
        if not good or number is None or len(row) > 3 or not _NAMED_VALUE.fullmatch(row[0]):
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


def _atom_before(word, number, where):
    if not (word.isascii() and word.isdecimal() and 1 <= int(word[:9]) < number):
        raise InputError(f"{where}: {shown(word)} is not an atom before it; 1 to {number - 1} expected.")
    return int(word) - 1


def _value(word, values, where):
    named = _NAMED_VALUE.fullmatch(word)
    if named and named["name"] in values:
        value = -values[named["name"]] if named["sign"] == "-" else values[named["name"]]
    else:
        try:
            require_point(word)
        except UnclearNumber as error:
            raise InputError(f"{where}: {error}.") from error
        value = real(word)
    if value is None:
        known = ", ".join(values) or "none"
        raise InputError(
            f"{where}: {shown(word)} is not a number, and no name that has one ({known}){odd_character(word)}."
        )
    if not math.isfinite(value):
        raise InputError(f"{where}: {shown(word)} is too large; a distance or an angle in degrees expected.")
    return value


def _from_neighbours(near, numbers, where):
    """The point at a distance from near[0], an angle with near[1] and a dihedral angle with near[2]."""
    if not near:
        return [0.0, 0.0, 0.0]
    a, distance = np.array(near[0]), numbers[0]
    if not distance > 0:
        raise InputError(f"{where}: its distance is {distance:g}; a positive number expected.")
    if len(near) == 1:
        return (a + [0.0, 0.0, distance]).tolist()
    if 0 < abs(numbers[1]) < 2 * math.pi:
        raise InputError(f"{where}: its angle is {numbers[1]:g}; degrees expected, and no angle of atoms is so small.")
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
