"""Numbers as users write them: one reader for geometries, options and tables, linear in the length of the text.

    0.757   -.5   1e-3   1d-3 (Fortran)   1*^-3 (Mathematica)   −0.5 (U+2212 and other dashes as the sign)

A comma between digits, '1,16', is a decimal sign or a separator. `fields` takes it for a decimal sign where all numbers
of a text are written so and blanks separate them; where both could be meant it refuses the line.
"""

import re
from collections.abc import Sequence

from dftfd.errors import InputError, odd_character, shown

LONGEST = 1200
"""Characters of a number; no float64 needs more."""

_EXPONENT = r"(?:(?:[eEdD]|\*\^)[+-]?[0-9]+)?"
_REAL = re.compile(rf"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_EXPONENT}")
_ZERO_FIRST = re.compile(r"[+-]?0[0-9]+")
_WHOLE = re.compile(r"([+-]?[0-9]{1,18})(?:\.0*)?")
_DECIMAL_COMMA = re.compile(rf"[+-]?[0-9]*,[0-9]+{_EXPONENT}")
_TIGHT = re.compile(r"\S,\S")
_SEPARATOR = re.compile(r"[\s,]+")
_EMPTY = re.compile(r",\s*,")
DASHES = dict.fromkeys(map(ord, "\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"), "-")
_FORTRAN = str.maketrans("dD", "ee")


class UnclearNumber(ValueError):
    """Why a text is no number, or more than one; the words follow what is expected in its place."""


def real(word: str) -> float | None:
    """The number that a word is, None for any other word; infinity beyond the largest."""
    word = word.translate(DASHES) if len(word) <= LONGEST else ""
    return float(word.replace("*^", "e").translate(_FORTRAN)) if _REAL.fullmatch(word) else None


def whole(word: str) -> int | None:
    """The whole number of up to 18 digits that a word is, 1 or 1.0; None for any other word."""
    match = _WHOLE.fullmatch(word.translate(DASHES)) if len(word) <= LONGEST else None
    return int(match[1]) if match else None


def require_point(word: str) -> None:
    """UnclearNumber for 047, in which a point was lost: 0.47 or .047."""
    if _ZERO_FIRST.fullmatch(word.translate(DASHES)):
        raise UnclearNumber(f"{shown(word)} begins with 0 and has no point")


def as_real(word: str) -> float:
    """The number that a word is; UnclearNumber for any other word, and for 047."""
    require_point(word)
    if (value := real(word)) is None:
        raise UnclearNumber(f"{shown(word)} is not a number{odd_character(word)}")
    return value


def as_whole(word: str) -> int:
    """The whole number that a word is; UnclearNumber for any other word."""
    if (value := whole(word)) is None:
        raise UnclearNumber(f"{shown(word)} is not a whole number{odd_character(word)}")
    return value


def reals(text: str) -> list[float]:
    """The numbers between blanks or commas; UnclearNumber for other words and for '2,38', which may be one or two."""
    if _EMPTY.search(text):
        raise UnclearNumber("there is nothing between two commas")
    for word in text.split():
        if _is_decimal(word.rstrip(",")):
            one, two = word.rstrip(",").replace(",", "."), word.rstrip(",").replace(",", ", ")
            raise UnclearNumber(f"{shown(word)} may be one number or two: write {one} or '{two}'")
    return [as_real(word) for word in separated(text)]


def separated(line: str) -> list[str]:
    """What stands between blanks and commas."""
    return [field for field in _SEPARATOR.split(line) if field]


def fields(lines: Sequence[str], where: Sequence[str]) -> list[list[str]]:
    """What stands between blanks or commas in lines of one text, decimal commas as points.

    where: what to call each line in an InputError, for commas that may be decimal signs or separators, and for columns
    without anything in them.
    """
    if (empty := next((k for k, line in enumerate(lines) if _EMPTY.search(line)), None)) is not None:
        raise InputError(f"{where[empty]}: {shown(lines[empty].strip())} has nothing between two commas.")
    words = [line.split() for line in lines]
    commas = [(k, word) for k, line in enumerate(words) for word in line if _is_decimal(word.rstrip(","))]
    if not commas:
        return [separated(line) for line in lines]
    k, first = commas[0]
    for line in words:
        for word in line:
            bare = word.rstrip(",")
            if bare[:1] == "," or (not _is_decimal(bare) and ("," in bare or (real(bare) is not None and "." in bare))):
                raise InputError(
                    f"{where[k]}: the comma of {shown(first)} may be a decimal sign or a separator, beside "
                    f"{shown(word)}; write points in all numbers and blanks between them."
                )
    return [[_with_point(word.rstrip(",")) for word in line if word.strip(",")] for line in words]


def has_unclear_commas(line: str, n_numbers: int) -> bool:
    """Whether commas of a line that has further columns may be decimal signs, or blanks in the middle of a number.

    The line is a name and numbers, of which n_numbers count. Separators they are where all of these have points, and no
    more than a few blanks stand beside them.
    """
    words, found = line.split(), separated(line)
    beside_blanks = len(words) > n_numbers and any("," in word.strip(",") for word in words[1 : 1 + n_numbers])
    pointless = _TIGHT.search(line) and not all("." in word for word in found[1 : 1 + n_numbers])
    return bool(beside_blanks or pointless)


def _is_decimal(word):
    return len(word) <= LONGEST and bool(_DECIMAL_COMMA.fullmatch(word.translate(DASHES)))


def _with_point(word):
    return word.replace(",", ".") if _is_decimal(word) else word
