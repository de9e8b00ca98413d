"""MDL mol and SD files, version V2000: positions, elements, charges and radicals; bonds and data are left aside.

A. Dalby et al., J. Chem. Inf. Comput. Sci. 32, 244 (1992). doi:10.1021/ci00007a012
"""

import itertools
import re
import warnings

from dftfd.errors import InputError, InputWarning, UnsupportedError, shown
from dftfd.runtime.written_numbers import real, whole

END = "$$$$"
"""The line between the records of an SD file."""

_OLD_CHARGES = {1: 3, 2: 2, 3: 1, 5: -1, 6: -2, 7: -3}
"""Charges by the codes of the atoms' lines, which count where no line says M  CHG; code 4 is a doublet."""
_DOUBLET = 4
_AROMATIC = 4


_ALMOST = re.compile(r"\s*m\s*(?:c\s*h\s*g|r\s*a\s*d)(?![A-Za-z])", re.I)
"""A line of charges or radicals, by letters of any size, with blanks anywhere."""


def is_molfile(lines) -> bool:
    """Whether a text is a mol file: its fourth line tells the version."""
    return len(lines) > 3 and lines[3].rstrip()[-5:] in ("V2000", "V3000")


def records(text: str) -> list[str]:
    """The records of an SD file."""
    found = re.split(rf"^{re.escape(END)}[ \t]*\r?\n?", text, flags=re.MULTILINE)
    return [record for record in found if record.strip()]


def atoms_of(lines, source: str) -> tuple[list[tuple[str, list[float]]], int, int | None]:
    """((name, [x, y, z]), ...) in the unit of the input, charge, and spin where radicals are said, else None."""
    if lines[3].rstrip().endswith("V3000"):
        raise UnsupportedError(f"{source} is a mol file of version V3000; V2000 is read.")
    if any(line.strip() == END for line in lines):
        raise InputError(f"{source} holds several molecules; name one as FILE@0, or run a batch.")
    count = lines[3][:3].strip()
    if not (count.isascii() and count.isdecimal()) or len(lines) < 4 + int(count):
        raise InputError(f"{source}, line 4: {shown(lines[3])} does not count the atoms that follow.")
    atoms, codes = [], []
    for number, line in enumerate(lines[4 : 4 + int(count)], start=5):
        position = [x for k in (0, 10, 20) if (x := real(line[k : k + 10].strip())) is not None]
        if len(position) < 3:
            raise InputError(f"{source}, line {number}: three numbers in columns of ten expected, found {shown(line)}.")
        atoms.append((line[31:34].strip(), position))
        codes.append(whole(line[36:39].strip()) or 0)
    tail = list(itertools.takewhile(lambda line: not line.startswith(">"), lines[4 + int(count) :]))
    end = next((k for k, line in enumerate(tail) if line.split() == ["M", "END"]), None)
    if end is None:
        raise InputError(f"{source} has no line 'M  END', before which charges stand: it may have been cut off.")
    for line in filter(_ALMOST.match, tail):
        if line.split()[:2] not in (["M", "CHG"], ["M", "RAD"]) or line in tail[end:]:
            raise InputError(f"{source}: {shown(line)} is not read; 'M  CHG  1   1  -1' before 'M  END' expected.")
    tail = tail[:end]
    if tail and _is_line_of_atom(tail[0]):
        raise InputError(f"{source}, line 4: counts {count} atoms, but {shown(tail[0].strip())} follows as one more.")
    if len(atoms) > 1 and lines[1][20:22] == "2D":
        raise InputError(f"{source} holds a drawing in two dimensions; a geometry in three expected.")
    masses = _property(tail, int(count), "ISO", source)
    if masses or any(whole(line[34:36].strip()) for line in lines[4 : 4 + int(count)]):
        warn_of_isotopes(source)
    charges, radicals = (_property(tail, int(count), name, source) for name in ("CHG", "RAD"))
    if charges is None and radicals is None:
        charges = {k: _OLD_CHARGES[code] for k, code in enumerate(codes, start=1) if code in _OLD_CHARGES}
        radicals = {k: 2 for k, code in enumerate(codes, start=1) if code == _DOUBLET}
    charges, radicals = charges or {}, radicals or {}
    if not set(radicals.values()) <= set(range(4)):
        raise InputError(
            f"{source}: radicals M  RAD of {shown([*radicals.values()])}; 1 to 3 expected, singlet, doublet, triplet."
        )
    if lacks := _unsaturated(lines, [name for name, _ in atoms], charges, radicals):
        warnings.warn(
            f"{source}: {lacks}; hydrogens that are left out are not added, radicals are told by M  RAD.",
            InputWarning,
            stacklevel=5,
        )
    spin = sum(max(value - 1, 0) for value in radicals.values()) if radicals else None
    return atoms, sum(charges.values()), spin


def titles(lines) -> list[str]:
    """What a person wrote: the title, the comment, and data of SD files as 'name: value'."""
    data = [
        f"{match[1]}: {value.strip()}"
        for line, value in itertools.pairwise(lines)
        if (match := re.match(r">.*<([^<>]*)>", line))
    ]
    return [lines[0], lines[2], *data]


def _is_line_of_atom(line):
    return line[31:32].isalpha() and all(real(line[k : k + 10].strip()) is not None for k in (0, 10, 20))


_VALENCES = {"B": 3, "C": 4, "N": 3, "O": 2, "Si": 4, "P": 3, "S": 2, "Ge": 4, "As": 3, "Se": 2}
_VALENCES |= dict.fromkeys(("F", "Cl", "Br", "I"), 1)
"""Fewest bonds of neutral atoms without radical electrons."""

_FREE = {1: 2, 2: 1, 3: 2}
"""Bonds that a radical lacks, by M  RAD's numbers."""

_PER_CHARGE = {"B": -1} | dict.fromkeys(("N", "O", "P", "S", "As", "Se", "F", "Cl", "Br", "I"), 1)
"""How many bonds more a positive charge makes; of other elements any charge takes one: NH4+, BH4-, CH3+, CH3-."""


def _unsaturated(lines, symbols, charges, radicals) -> str | None:
    """The first atom whose bonds add up to less than its valence, in words; None where there is none.

    With hydrogens a whole bond has to be missing, of no radical, bonded to those of `_VALENCES` and hydrogen alone:
    files may have no bonds at all, none to metals, or aromatic ones that charges share.
    charges, radicals: by the numbers of atoms, from 1; of radicals those of M  RAD.
    """
    bonds, is_usual = [0.0] * len(symbols), [True] * len(symbols)
    elements = [symbol.capitalize() for symbol in symbols]
    for line in lines[4 + len(symbols) :][: whole(lines[3][3:6].strip()) or 0]:
        first, second, order = (whole(line[k : k + 3].strip()) or 0 for k in (0, 3, 6))
        if 1 <= min(first, second) <= max(first, second) <= len(symbols):
            for atom, other in ((first, second), (second, first)):
                bonds[atom - 1] += 1.5 if order == _AROMATIC else order
                is_usual[atom - 1] &= elements[other - 1] in {"H", *_VALENCES} and order <= _AROMATIC
    has_hydrogens = "H" in elements
    if has_hydrogens and not any(bonds):
        return None
    for k, symbol in enumerate(elements, start=1):
        charge = charges.get(k, 0)
        of_charge = charge * _PER_CHARGE[symbol] if symbol in _PER_CHARGE else -abs(charge)
        valence = _VALENCES.get(symbol, -9) + of_charge - _FREE.get(radicals.get(k, 0), 0)
        if bonds[k - 1] < valence and (
            not has_hydrogens or (is_usual[k - 1] and bonds[k - 1] <= valence - 1 and k not in radicals)
        ):
            return f"atom {k} ({symbol}) has {bonds[k - 1]:g} bonds of {valence}"
    return None


def _property(lines, n_atoms, name, source) -> dict[int, int] | None:
    """The values of lines such as 'M  CHG  2   1   1   5  -1' by the numbers of atoms; None without any."""
    values: dict[int, int] = {}
    there = [line for line in lines if line.split()[:2] == ["M", name]]
    for line in there:
        words = line.split()[2:]
        numbers = [number for word in words if (number := whole(word)) is not None]
        if not numbers or len(numbers) < len(words) or len(numbers) != 1 + 2 * numbers[0]:
            raise InputError(f"{source}: {shown(line)} is not made of whole numbers, a count and so many pairs.")
        if not all(1 <= atom <= n_atoms for atom in numbers[1::2]):
            raise InputError(f"{source}: {shown(line)} names an atom that is not there; 1 to {n_atoms} are.")
        if len({*numbers[1::2], *values}) < numbers[0] + len(values):
            raise InputError(f"{source}: {shown(line)} names an atom that has been named; one value for each expected.")
        values |= zip(numbers[1::2], numbers[2::2], strict=True)
    return values if there else None


def warn_of_isotopes(source: str) -> None:
    """Warn that a text names isotopes, which are told to vibrations."""
    warnings.warn(
        f"{source} names isotopes, whose masses are left out: give them to vibrations, isotopes= (--isotopes).",
        InputWarning,
        stacklevel=6,
    )
