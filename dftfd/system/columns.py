"""Columns of xyz files: which of them are x, y, z, and what others tell of charge and spin.

The format has 'El x y z' and allows further columns behind. Extended xyz names its columns in the comment line and is
believed. Elsewhere the numbers must bear the order out: three columns of another place that are written with one number
of decimals, where the first three are not, or that make the better molecule, may be meant, and the file is refused.
"""

import itertools
import re
import warnings

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS, parse_atom_name
from dftfd.errors import InputError, InputWarning, shown
from dftfd.runtime.written_numbers import real, whole
from dftfd.system.molfile import warn_of_isotopes

_NAMED_CELL = (
    r"cell_?(?:lengths?|vectors?|parameters?|size)|cell (?:parameters|vectors)|unit ?cell|box ?(?:size|lengths?)"
)
_THREE = r"[0-9.]{1,12}(?:[\s,]+[0-9.]{1,12}){2}"
_ANGLES = r"(?:[\s,]+(?:[3-9][0-9]|1[0-4][0-9])(?:\.[0-9]*)?){3}"
_PERIODIC = re.compile(
    r"""lattice\s*[=:]|(?<!\w)(?:(?:cell|box)\s*(?:[=:]\s*["'\[(]+\s*[0-9]|[=:]?(?:\s+[0-9.]{1,12}){3})"""
    r"""|pbc\s*[=:]\s*["'\[(]?(?:[\s,0]|F(?:alse)?)*(?:T|1|xyz)|cell[({]"""
    rf"""|(?:{_NAMED_CELL}|translation vectors|cryst1|%pbc)[\s=:\["'(,]*[0-9])"""
    rf"""|(?<![\w-])periodic(?:ity)?\s*[=:]\s*(?:true|yes|[1-3])|^[\s#]*{_THREE}{_ANGLES}\s*$""",
    re.I,
)
_NOT_PERIODIC = re.compile(r"""pbc\s*=\s*["']?\s*F\s+F\s+F""", re.I)
_PROPERTIES = re.compile(r"properties\s*=\s*(\S+)", re.I)
_GHOST = re.compile(r"[(\[]?(?:gh|ghost|bq|dummy|ghost=(?:true|t|1))[)\]]?", re.I)
_COLUMNS = {
    "charge": re.compile(r"charges?$|^q$|^oxidation_states?$", re.I),
    "spin": re.compile(r"magmoms?$|spins?$|^moments?$", re.I),
}


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
    named = _named_columns(comment, rows)
    return told_of_sums({name: [real(words[0]) or 0.0 for words in column] for name, column in named.items()})


def _named_columns(comment, rows) -> dict[str, list[list[str]]]:
    """The words of each atom by the names of columns, where the comment of extended xyz tells them."""
    layout, start = _PROPERTIES.search(comment), 0
    words, columns = layout[1].strip("\"'").split(":") if layout else [], {}
    for name, count in zip(words[::3], words[2::3], strict=False):
        end = start + (whole(count) or 0)
        columns[name] = [row[start:end] for row in rows if start < len(row)] if end > start else []
        start = end
    return columns


def words_behind(comment: str, rows: list[list[str]]) -> list[str]:
    """What stands behind the numbers of atoms from the first word on, such as 'bohr' or '! triplet', each once.

    Nothing where the comment of extended xyz tells the columns; elements are no words.
    """
    if _PROPERTIES.search(comment):
        return []
    is_plain = lambda word: real(word) is not None or word.capitalize() in ATOMIC_NUMBERS
    return list(dict.fromkeys(" ".join(itertools.dropwhile(is_plain, row[4:])).lstrip("/! ") for row in rows))


def warn_of_columns(comment: str, rows: list[list[str]], source: str) -> None:
    """Warn of columns of extended xyz that tell of fixed atoms, and of masses of isotopes: neither is read."""
    from dftfd.libcint.mole import average_masses  # PySCF, which help and lists do not wait for

    columns = {name.lower(): column for name, column in _named_columns(comment, rows).items()}
    if any(word[:1] in "Ff0" for words in columns.get("move_mask", ()) for word in words):
        warn_of_constraints(f"{source}: the column move_mask fixes atoms, and")
    flags = {word for row in rows for word in row[4:]}
    if flags and flags <= {"T", "F"} and "F" in flags and not columns:
        warn_of_constraints(f"{source}: F behind coordinates fixes atoms, and")
    masses = [real(words[0]) or 0.0 for words in columns.get("masses", columns.get("mass", ()))]
    if any(masses) and len(masses) == len(rows):
        usual = average_masses([ATOMIC_NUMBERS[parse_atom_name(row[0], "atom").symbol] for row in rows])
        if np.abs(usual - masses).max() > 0.05:
            warn_of_isotopes(source)


def warn_of_constraints(what: str) -> None:
    """Warn that constraints which stand beside a geometry are not read."""
    warnings.warn(
        f"{what} is not read: give constraints= (--constraints) to an optimisation.", InputWarning, stacklevel=6
    )


def told_of_sums(columns: dict[str, list[float]]) -> dict[str, str]:
    """The names of columns that tell of charge and spin by their sums, by which of the two they are about."""
    found = {}
    for name, values in columns.items():
        is_said = any(values) if name.lower().startswith("initial_") else abs(sum(values)) > 0.5
        for about in (about for about, pattern in _COLUMNS.items() if is_said and pattern.search(name)):
            found[about] = name
    return found


def check_further_columns(comment: str, rows: list[list[str]], source: str) -> None:
    """Refuse lines with more columns than four whose x, y, z may not be those behind the element.

    The first of them is a whole number in all lines before three columns with points, or one and the same before
    numbers with points, or any but zero in all of them, or counts the lines, or is the element's atomic number or mass;
    or y or z is whole, as MOPAC's flags are, beside three columns with points; or x, y, z are whole before columns with
    points, as the references of a Z-matrix; or see `_other_coordinates`.
    A comment that tells the columns is believed. Refuse lines of two atoms.
    Where lines have different numbers of columns, one may have a blank or a comma within a number.
    """
    from dftfd.libcint.mole import average_masses  # PySCF, which help and lists do not wait for

    if ghost := next((word for row in rows for word in row[4:] if _GHOST.fullmatch(word)), None):
        raise InputError(
            f"{source}: {shown(ghost)} stands behind coordinates; ghost atoms name their element: 'ghost-O', 'X-O' or "
            "'Bq-O'."
        )
    if not _PROPERTIES.search(comment) and (two := next(filter(_holds_two_atoms, rows), None)):
        raise InputError(f"{source}: {shown(' '.join(two))} seems to hold two atoms; one in a line expected.")
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
    has_points, has_more = (any("." in word for c in some for word in c) for some in (columns[2:5], columns[4:]))
    is_pointed, is_constant = pointed[2:5] == [True] * 3, len(set(columns[1])) == 1 < len(rows)
    whole_ones = [k for k in (1, 2, 3) if not any(set(".eEdD") & set(word) for word in columns[k])]
    is_whole = 1 in whole_ones
    is_code = (is_pointed or (is_constant and has_points)) if is_whole else is_pointed and is_constant
    is_code &= is_whole or bool(real(columns[1][0]))  # a plane x = 0 is written with points, too
    counting = [k for k in whole_ones if any(map(real, columns[k]))]
    flags = [k for k in whole_ones if k > 1 and pointed[1] and sum(pointed) > 2]
    flags = flags or (counting if sum(pointed) > 2 or (len(whole_ones) == 3 and has_more) else [])
    numbers = [ATOMIC_NUMBERS[parse_atom_name(word, "atom").symbol] for word in columns[0]]
    is_number = [real(word) for word in columns[1]] == numbers
    masses = average_masses(numbers)
    is_mass = all(abs((real(word) or 0) - mass) < 0.05 for word, mass in zip(columns[1], masses, strict=True))
    is_index = len(rows) > 1 and columns[1] in ([str(k + start) for k in range(len(rows))] for start in (0, 1))
    if is_code or flags or is_number or is_index or is_mass:
        raise InputError(
            f"{source}: column {flags[0] + 1 if flags else 2} of the lines of atoms, {shown(' '.join(rows[0]))}, holds "
            "atomic numbers, masses, charges, references, codes or flags; 'El x y z' expected, coordinates with points."
        )
    if other := _other_coordinates(numbers, columns[1:]):
        raise InputError(
            f"{source}: x, y, z of {shown(' '.join(rows[0]))} may be in columns {', '.join(str(k + 2) for k in other)} "
            "instead of 2, 3, 4; leave the other columns out, or tell them in the comment line "
            "(Properties=species:S:1:pos:R:3:charge:R:1)."
        )


def _holds_two_atoms(row) -> bool:
    """Whether an element and three numbers with points stand behind x, y, z, as in tables of two columns."""
    ends = [k for k in range(4, len(row) - 3) if row[k].capitalize() in ATOMIC_NUMBERS]
    return any(all("." in word and real(word) is not None for word in row[k + 1 : k + 4]) for k in ends)


_VALENCES = {1: (1, 1), 5: (3, 3), 6: (4, 4), 7: (3, 4), 8: (2, 2), 9: (1, 1), 14: (4, 4), 15: (3, 5), 16: (2, 6)} | {
    17: (1, 7), 32: (4, 4), 33: (3, 5), 34: (2, 6), 35: (1, 7), 53: (1, 7)
}  # fmt: skip
"""Fewest and most bonds of an atom that is no metal, by atomic number."""

_MOST_COLUMNS, _MOST_ATOMS, _NEAREST = 7, 1000, 8
_FAIR, _CLEAR = 0.8, 0.1
"""Largest `_strain` of what may be a molecule, or a third of the first three's if that is more; and a difference of it
that tells."""
_APART, _EQUAL, _FLAT = 0.05, 3e-4, 1e-3
"""Distances that differ by more are of two molecules, bonds that differ by less are equal by symmetry, atoms that lie
nearer to a plane or line are on it, in the mean [angstrom]."""


def _other_coordinates(numbers: list[int], columns: list[list[str]]) -> tuple[int, ...] | None:
    """Three columns that may be x, y, z rather than the first three; None where the first three are.

    They contain those of the first three that are zero, which is a plane. Where all are written with one number of
    decimals, the first three are not, and the others make a fair molecule, they may be meant. So may they where they
    are written alike and make the better molecule, in angstrom or bohr: by less strain, by many more equal bonds, or as
    a plane or a line where the first three are none. Of two atoms, the first three have to be no molecule. Those of
    thousands are judged by the decimals alone.
    """
    values = [[real(word) for word in column] for column in columns[:_MOST_COLUMNS]]
    usable = [
        k for k, column in enumerate(values) if None not in column and np.isfinite(np.array(column, dtype=float)).all()
    ]
    first = (0, 1, 2)
    if len(numbers) < 2 or usable[:3] != [0, 1, 2]:
        return None
    are_few = len(numbers) <= _MOST_ATOMS
    zero = {k for k in first if not any(values[k])}
    decimals = []
    for column, of_column in zip(columns, values, strict=False):
        words = [word for word, x in zip(column, of_column, strict=True) if x or "." in word]
        decimals.append({len(word.partition(".")[2]) for word in words} | ({-1} if len(words) < 2 else set()))

    def are_alike(chosen):
        """Whether numbers have one number of decimals, planes x = 0 left out; None where it varies within a column."""
        found = [decimals[k] for k in chosen if any(values[k])]
        return None if any(len(several) > 1 for several in found) else len(set().union(*found)) == 1

    others = [chosen for chosen in itertools.combinations(usable, 3) if zero <= {*chosen} and chosen != first]
    if are_alike(first) is False:
        alike = [chosen for chosen in others if are_alike(chosen) and {0} not in [decimals[k] for k in chosen]]
        is_fair = lambda chosen: not are_few or _strain(numbers, values, chosen)[0] < _FAIR
        return next(filter(is_fair, alike), None)
    if not are_few:
        return None
    strain, n_equal, distances = _strain(numbers, values, first)
    for chosen in (chosen for chosen in others if are_alike(chosen) is not False):
        other, n_other, of_other = _strain(numbers, values, chosen)
        is_less = other < strain - _CLEAR and not (strain < _FAIR and n_other < n_equal)
        is_flatter = _dimension(values, chosen) < _dimension(values, first)
        is_regular = n_other > 0 if n_equal == 0 else n_other >= 2 * n_equal + 3
        is_alike = strain < _FAIR and other < strain + 2 * _CLEAR
        is_better = is_less or (is_alike and (is_regular or is_flatter))
        if len(numbers) == 2:  # numbers of any meaning may be the distance
            is_better = other < _FAIR <= strain
        if other < max(_FAIR, strain / 3) and is_better and np.abs(of_other - distances).max() > _APART:
            return chosen
    return None


def _dimension(values, chosen) -> int:
    """1 for atoms on a line, 2 in a plane, else 3."""
    r = np.array([values[k] for k in chosen]).T
    singular = np.linalg.svd(r - r.mean(axis=0), compute_uv=False)
    return int(np.sum(singular > _FLAT * len(r) ** 0.5))


def _strain(numbers, values, chosen) -> tuple[float, int, np.ndarray]:
    """How far the worst atom is from its valence; how many bonds are equal, if it is fair; distances of neighbours.

    The bonds of an atom are the sum of exp((R - d)/0.3 angstrom) over its neighbours (L. Pauling, J. Am. Chem. Soc. 69,
    542 (1947), doi:10.1021/ja01195a024), with R 3 % above the sum of covalent radii. The strain is the logarithm of the
    ratio to the nearest allowed number, in angstrom or bohr, whichever is better.
    """
    from scipy.spatial import cKDTree  # which help and lists do not wait for, nor for PySCF

    from dftfd.libcint.mole import BOHR_IN_ANGSTROM, covalent_radii

    Z, r = np.array(numbers), np.array([values[k] for k in chosen]).T
    distances, near = cKDTree(r).query(r, k=min(len(Z), _NEAREST + 1))
    distances, near = distances[:, 1:], near[:, 1:]
    R = 1.03 * BOHR_IN_ANGSTROM * covalent_radii(numbers)
    lengths = R[:, None] + R[near]
    fewest, most = np.array([_VALENCES.get(z, (0, 8)) for z in numbers]).T
    if len(Z) == 2:  # radicals, and the short bonds of ions
        fewest, most = np.minimum(fewest, 1), np.maximum(most, 8 if fewest.min() == 0 else 0)
    found = []
    for unit in (1.0, BOHR_IN_ANGSTROM):
        n_bonds = np.exp((lengths - unit * distances) / 0.3).sum(axis=1) + 1e-9
        with np.errstate(divide="ignore"):
            strain = np.maximum(np.log(fewest / n_bonds), np.log(n_bonds / most)).max()
        found.append((float(strain), _equal_bonds(Z, near, unit * distances, lengths) if strain < _FAIR else 0))
    return *min(found), distances


def _equal_bonds(Z, near, distances, lengths) -> int:
    """How many bonds have the length [angstrom] of another one between the same elements."""
    is_bond = (np.arange(len(Z))[:, None] < near) & (distances < 1.25 * lengths)
    one, two = np.broadcast_to(Z[:, None], near.shape)[is_bond], Z[near][is_bond]
    kind, d = np.minimum(one, two) * 200 + np.maximum(one, two), distances[is_bond]
    order = np.lexsort((d, kind))
    return int(np.sum((np.diff(kind[order]) == 0) & (np.diff(d[order]) < _EQUAL)))
