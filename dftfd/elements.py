"""The periodic table: symbols and atomic numbers, and how atoms are written in input."""

import re
from dataclasses import dataclass, field
from numbers import Integral

from dftfd.errors import InputError, closest_names, odd_character, shown

SYMBOLS = tuple(
    (
        "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr "
        "Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb "
        "Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf "
        "Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og"
    ).split()
)
ATOMIC_NUMBERS = {symbol: number for number, symbol in enumerate(SYMBOLS, start=1)}

_LABEL = re.compile(
    r"(?P<ghost>(?:ghost[-:_]?|(?:x|bq)[-:_]))?(?P<symbol>[a-z]+)(?P<suffix>(?:[0-9@^_][a-z0-9@^_]*)?)", re.I | re.ASCII
)
_IN_SUFFIX = re.compile(r"ghost|(?<![a-z])(?:gh|bq|dummy|du|virtual)(?![a-z])", re.I)
_GHOST_HELP = "Ghost atoms name their element: 'ghost-O', 'X-O' or 'Bq-O'"


@dataclass(frozen=True)
class AtomName:
    """What one atom is called in the input.

    symbol: element, 'O'.   ghost: True for basis functions and grid without nucleus and electrons.
    label: the name that a basis dictionary may use for this atom alone, 'O1' or 'ghost-O1'.   written: in the input.
    """

    symbol: str
    ghost: bool = False
    label: str = ""
    written: str = field(default="", compare=False)


def parse_atom_name(name, where: str) -> AtomName:
    """The element, ghost flag and label behind an input name such as 'O', 'cl', 'H1', 'ghost-O', 'X-O2' or 8.

    where: says in error messages which atom this is, for example 'atom 3'.
    """
    if isinstance(name, Integral) and not isinstance(name, bool):
        name = str(int(name))
    if not isinstance(name, str):
        raise InputError(f"{where}: the element must be a symbol or an atomic number, not {name!r}.")
    name = name.strip()
    if name.isascii() and name.isdigit():
        return _from_number(name, where)
    match = _LABEL.fullmatch(name)
    if match is None:
        raise InputError(
            f"{where}: {shown(name)} is not an element symbol{odd_character(name)}. Expected for example 'O', 'H1' or "
            "'ghost-O'."
        )
    symbol = match["symbol"].capitalize()
    if symbol in ("D", "T"):
        raise InputError(
            f"{where}: {shown(name)} is an isotope of hydrogen: write H, and give the mass to vibrations, isotopes= "
            "(--isotopes)."
        )
    if symbol not in ATOMIC_NUMBERS:
        hint = _GHOST_HELP if symbol in ("X", "Bq", "Ghost") else f"did you mean {', '.join(closest_symbols(symbol))}?"
        raise InputError(f"unknown element {shown(name)} ({where}); {hint}")
    if odd := _IN_SUFFIX.search(match["suffix"]):
        raise InputError(
            f"{where}: {shown(name)} has {odd[0]!r} behind the element, where labels stand. {_GHOST_HELP}."
        )
    ghost = match["ghost"] is not None
    return AtomName(symbol, ghost, ("ghost-" if ghost else "") + symbol + match["suffix"], name)


def closest_symbols(symbol: str) -> list[str]:
    """Up to three element symbols near a misspelt one; those that share its first letter come first."""
    near = closest_names(symbol, SYMBOLS, count=12)
    return sorted(near, key=lambda known: known[0] != symbol[:1].upper())[:3]


def _from_number(digits, where):
    number = int(digits) if len(digits) < 4 else 0
    if not 1 <= number <= len(SYMBOLS):
        raise InputError(f"{where}: atomic number {shown(digits)} is outside 1 to {len(SYMBOLS)}.")
    symbol = SYMBOLS[number - 1]
    return AtomName(symbol, False, symbol, digits)
