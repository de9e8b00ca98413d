"""MDL mol and SD files, version V2000: positions, elements, charges and radicals; bonds and data are left aside.

A. Dalby et al., J. Chem. Inf. Comput. Sci. 32, 244 (1992). doi:10.1021/ci00007a012
"""

import re
import warnings

from dftfd.errors import InputError, InputWarning, UnsupportedError, shown
from dftfd.runtime.written_numbers import real, whole

END = "$$$$"
"""The line between the records of an SD file."""

_OLD_CHARGES = {1: 3, 2: 2, 3: 1, 5: -1, 6: -2, 7: -3}
"""Charges by the codes of the atoms' lines, which count where no line says M  CHG; code 4 is a doublet."""
_DOUBLET = 4


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
    if len(atoms) > 1 and lines[1][20:22] == "2D":
        raise InputError(f"{source} holds a drawing in two dimensions; a geometry in three expected.")
    masses = _property(lines[4 + int(count) :], "ISO", source)
    if masses or any(whole(line[34:36].strip()) for line in lines[4 : 4 + int(count)]):
        warn_of_isotopes(source)
    charges, radicals = (_property(lines[4 + int(count) :], name, source) for name in ("CHG", "RAD"))
    if charges is None and radicals is None:
        spin = codes.count(_DOUBLET)
        return atoms, sum(_OLD_CHARGES.get(code, 0) for code in codes), spin or None
    return atoms, sum(charges or ()), sum(value - 1 for value in radicals) if radicals else None


def _property(lines, name, source) -> list[int] | None:
    """The values of lines such as 'M  CHG  2   1   1   5  -1'; None without any."""
    values: list[int] = []
    there = [line for line in lines if line.startswith(f"M  {name}")]
    for line in there:
        words = line.split()[2:]
        numbers = [number for word in words if (number := whole(word)) is not None]
        if not numbers or len(numbers) < len(words) or len(numbers) != 1 + 2 * numbers[0]:
            raise InputError(f"{source}: {shown(line)} is not made of whole numbers, a count and so many pairs.")
        values += numbers[2::2]
    return values if there else None


def warn_of_isotopes(source: str) -> None:
    """Warn that a text names isotopes, which are told to vibrations."""
    warnings.warn(
        f"{source} names isotopes, whose masses are left out: give them to vibrations, isotopes= (--isotopes).",
        InputWarning,
        stacklevel=6,
    )
