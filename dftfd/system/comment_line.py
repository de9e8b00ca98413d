"""What the comment line of an xyz file says of the molecule: charge, unpaired electrons, unit, columns.

    charge=1 multiplicity=2      Charge and multiplicity: -1 2      total charge 1, mult: 2      q=1      -1 2

Entries `key=value` of other keys, and text in quotes behind them, say nothing. A line that speaks of a charge or a
multiplicity in words that are not understood is refused: nobody is told otherwise that the molecule is another one.
"""

import re
from typing import Any

from dftfd.errors import InputError, shown
from dftfd.runtime.written_numbers import DASHES, real, whole

_PERIODIC = re.compile(
    r"""lattice\s*=|(?<!\w)(?:cell\s*=\s*["'\[(]+\s*[0-9]|pbc\s*=\s*["'\[(]?(?:\s|,|F(?:alse)?)*T)""", re.I
)
_NOT_PERIODIC = re.compile(r"""pbc\s*=\s*["']?\s*F\s+F\s+F""", re.I)
_PROPERTIES = re.compile(r"properties\s*=\s*(\S+)", re.I)
_ENTRY = re.compile(r"""(?<![\w.-])([A-Za-z_]\w*)\s*=\s*("[^"]*"|'[^']*'|[^\s,;]+)""")
_LENGTHS = (
    r"(?:units?|coordinates?|coords?|geometr(?:y|ies)|positions?|lengths?|distances?|structure)\W{1,3}(?:(?:in|are)\s)?"
)
_AU = r"a\.?u\.?|atomic units|a_?0"
_BOHR = re.compile(
    rf"(?<![\w/])bohrs?(?![\w/])|[(\[](?:{_AU})[)\]]|\b{_LENGTHS}[(\[]?(?:{_AU})(?!\w)|^(?:in )?(?:{_AU})$", re.I
)
_OTHER = r"pm|picomet(?:er|re)s?|nm|nanomet(?:er|re)s?|fractional|crystal|direct"
_NOT_READ = re.compile(
    rf"\b{_LENGTHS}[(\[]?(?P<unit>{_OTHER})(?!\w)|^(?:in )?(?P<alone>{_OTHER})$|(?P<kind>fractional) coord", re.I
)
_ANGSTROM = re.compile(r"(?<![\w/])(?:[aå]ngstr[oö]ms?|Å)(?![\w/])", re.I)

_OF = r"(?:(?:total|net|overall|molecular|molecule|formal|system|spin)[ _-]?)?"
_KEYS = {
    "charge": rf"{_OF}(?:charge|chrg|chg)|q(?=\s?[=:]|\Z)",
    "multiplicity": rf"{_OF}(?:multiplicity|multip|mult)|2\s?s\s?\+\s?1|m(?=\s?[=:]|\Z)",
    "spin": r"spin|n?uhf(?=\s?[=:]|\Z)|(?:n_?)?unpaired(?:[ _]electrons)?",
}
_KIND = {name: re.compile(pattern, re.I) for name, pattern in _KEYS.items()}
_NAMES = {name: k for k, name in enumerate("singlet doublet triplet quartet quintet sextet septet".split(), start=1)}
_WORD = rf"(?<![\w.-])(?:{'|'.join(_KEYS.values())})(?![\w-])"
_IS = r"\s{0,9}(?:[=:]|is\s|are\s|of\s)?[\s(\[]{0,9}"
_VALUE = rf"(?:[+-]?[0-9]+(?:\.[0-9]*)?(?:[+-]|/2)?(?!\w|[-.]\w)|(?:neutral|{'|'.join(_NAMES)})(?!\w))"
_AND = r"\W{0,9}(?:and\W{1,9})?"
_BOTH = re.compile(rf"({_WORD}){_AND}({_WORD}){_IS}({_VALUE})[\s,;/&]{{1,9}}(?:and\s)?({_VALUE})", re.I)
_ONE = re.compile(rf"({_WORD}){_IS}({_VALUE})", re.I)
_UNREAD = re.compile(rf"(?P<key>{_WORD})(?:\s*[=:]\s*(?P<value>\S+))?", re.I)
_GLUED = re.compile(
    r"(?:harge|chrg|n_?elec|(?<!\w)electrons|ladung|carga|carica|заряд|电荷|multipli[cz])\w{0,9}[\W_]{0,9}[0-9]|spin\w{0,9}=[0-9]",
    re.I,
)
_BROKEN = re.compile(
    r"(?<![A-Za-z])(?P<word>"
    + "|".join(r"[^0-9A-Za-z]{0,2}".join(word) for word in ("charge", "multiplicity", "mult", "spin"))
    + r")[^0-9A-Za-z]{0,9}[0-9]",
    re.I,
)
"""A word about electrons, perhaps with a stray blank or comma in it, before a number."""
_CUT_SHORT = re.compile(
    r"(?<![\w.:-])(?:c|ch|chr|cha|char|charg|crg|mu|mul|multi|mlt|s|sp|spi|n?el|ms|s?z|\w{0,9}magneti[sz]ation|\w{1,9}chrg|\w{1,9}chg)"
    r"\s?[=:]\s?[+-]?[0-9](?![\w.:])",
    re.I,
)
"""What may be meant as charge, multiplicity or spin and is none of their names, with a small number: c=-2."""
_OF_ELECTRONS = re.compile(r"charge|chrg|n_?elec|^electrons|multiplicity|(?<![a-z])spin", re.I)
_NUMBER = re.compile(r"(?<![\w.])[0-9]+(?![\w.])")
_ALONE = re.compile(r"[(\[]?([+-]?[0-9]{1,2})[\s,;/]{1,9}([0-9]{1,2})[)\]]?")
_UNIT_AT_END = re.compile(r"\s(?:in |units? ?[=:]? ?)?[(\[]?(?:bohrs?|angstroms?|au|a\.u\.)[)\]]?\Z", re.I)
_SIGNED = re.compile(
    r"^[^0-9A-Za-z.]*[0-9]{1,2}[^0-9A-Za-z.]+[0-9]{1,2}[^0-9A-Za-z.]*$|"
    r"^[(\[]?[+-][0-9]{1,2}(?![\w.])|^[+-]?[0-9]{1,2}[\s,;/]{1,9}[+-][0-9]{1,2}$"
    r"|(?<![\w.])[+-][0-9]{1,2}[\s,;/]{1,9}[1-9][)\]]?$"
)
_AND_MORE = re.compile(r"\n[\s,;/]{0,9}[+-]?[0-9]+(?![\w.])")
_MENTIONS = {
    "charge": re.compile(
        r"(?<![A-Za-z])(?i:(?:mono|di|tri)?(?:cation|anion)(?:ic)?|(?:de)?protonated|ioni[sz]ed"
        r"|(?:posi|nega)tive(?:ly)? (?:ion|charged)|qtot [+-]?[1-9]|-{0,2}c [+-][1-9]|n_el\s?[=:]\s?[1-9]"
        r"|(?:oxidation|oxidation_state|valence|formal|ioni[sz]ation|ion|net|qtot|total_q)\s?[=:]\s?[+-]?[1-9])(?![A-Za-z])"
        r"|(?<![\w+\-\[(])(?:(?:[A-Z][a-z]?[0-9]{0,2}){1,20}|\[(?:[A-Z][a-z]?[0-9]{0,2}){1,20}\])(?:\^?[0-9]?[+-]|\+[1-9]|\s[0-9][+-]|\s?\([0-9]?[+-][0-9]?\))(?![\w+\-\]])"
    ),
    "spin": re.compile(
        rf"(?<![a-z])(?:{'|'.join(list(_NAMES)[1:])}|octet|nonet|(?:bi|di)?radical|(?:high|intermediate)[ -]spin"
        r"|open[ -]shell|(?:one|two|three|four|five) unpaired|dublett?|triplett|T1 (?:state|geometry|minimum))(?![a-z])"
        r"|(?<!\w)(?:nspin|2S|M)\s?[=:]\s?[2-9](?![\w.])|(?<!\w)(?:nupdown|nopen|(?:total_)?magmom)\s?[=:]\s?-?[1-9]"
        r"|\A[0-2][ ,]+[2-7][ ,;]+(?=[#!(A-Za-z])|(?<![a-z])mult[2-9](?![\w.])"
        r"|(?<![\w.])\^?[2-7](?:Sigma|Pi|Delta|[AB][123][gu]?)(?![a-z0-9])",
        re.I,
    ),
}
_COLUMNS = {"initial_charges": "charge", "initial_magmoms": "spin", "magmoms": "spin"}
_LONGEST = 10_000


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
    """Columns of extended xyz that tell of charge and spin, by these words, where they are not zero throughout."""
    layout, start, found = _PROPERTIES.search(comment), 0, {}
    words = layout[1].strip("\"'").split(":") if layout else []
    for name, count in zip(words[::3], words[2::3], strict=False):
        about = _COLUMNS.get(name.lower())
        if about and any(real(row[start]) for row in rows if start < len(row)):
            found[about] = name
        start += whole(count) or 0
    return found


def said_in(comment: str, source: str) -> dict[str, Any]:
    """charge, spin (unpaired electrons) and unit as far as the line says them; InputError for what is not understood.

    mentions: words such as 'anion' and 'triplet' by what they are about, where the line does not say that in numbers.
    """
    comment = " ".join(comment[:_LONGEST].translate(DASHES).split())
    said: dict[str, Any] = _electrons(comment, source)
    multiplicity = said.pop("multiplicity", None)
    if multiplicity is not None and said.setdefault("spin", multiplicity - 1) != multiplicity - 1:
        raise InputError(
            f"{source}: the comment line says spin={said['spin']} and multiplicity={multiplicity}; spin is the number "
            "of unpaired electrons, multiplicity one more."
        )
    if multiplicity is not None and multiplicity < 1:
        raise InputError(f"{source}: the comment line says multiplicity={multiplicity}, expected a number from 1.")
    if other := _NOT_READ.search(comment):
        word = other["unit"] or other["alone"] or other["kind"]
        raise InputError(f"{source}: the comment line says {shown(word)}; coordinates in angstrom or bohr are read.")
    if unit := "bohr" if _BOHR.search(comment) else "angstrom" if _ANGSTROM.search(comment) else None:
        said["unit"] = unit
    words = {name: found[0] for name, pattern in _MENTIONS.items() if (found := pattern.search(comment))}
    return said | {"mentions": {name: word for name, word in words.items() if name not in said}}


def _electrons(comment, source) -> dict[str, int]:
    """charge, multiplicity and spin, each as it is written."""
    if alone := _ALONE.fullmatch(_UNIT_AT_END.sub("", comment)):
        if alone[1] == alone[2] == "0":
            return {}
        return {"charge": int(alone[1]), "multiplicity": int(alone[2])}
    rest = _ENTRY.sub(_own_entry, re.sub(r"""["'](\w+)["']\s?:""", r"\1:", comment))
    said: list[tuple[str, str]] = []
    for statement in (_BOTH, _ONE):
        for match in statement.finditer(rest):
            n = len(match.groups()) // 2
            said += zip(match.groups()[:n], match.groups()[n:], strict=True)
        rest = statement.sub("\n", rest)
    found: dict[str, int] = {}
    for key, word in sorted(said, key=lambda pair: pair[0].lower() == "m"):
        _say(found, key, word, source)
    unread = [match for match in _UNREAD.finditer(rest) if match["key"].lower() != "m"]
    if told := next((match for match in unread if match["value"]), None):
        raise InputError(
            f"{source}: the comment line says {told['key']}={shown(told['value'])}, expected a whole number."
        )
    broken = [m for m in _BROKEN.finditer(comment) if not m["word"].isalpha() or "_" in m[0]]
    is_unclear = (
        broken
        or _CUT_SHORT.search(comment)
        or _GLUED.search(rest)
        or (_AND_MORE.search(rest) if len(found) == 1 else not found and _SIGNED.search(comment))
    )
    if is_unclear or (unread and (found or _NUMBER.search(rest))):
        raise InputError(
            f"{source}: the comment line, {shown(comment.strip())}, speaks of charge or spin and is not understood; "
            "write charge=-1 multiplicity=2 in it, or leave the words out."
        )
    return found


def _say(found, key, word, source) -> None:
    """Enters what a key says, unless something else has been said."""
    kind = next(name for name, pattern in _KIND.items() if pattern.fullmatch(key))
    if key.lower() == "m" and "charge" not in found:
        return  # anything, but beside q= a multiplicity
    if word.lower() in _NAMES:
        kind, value = "multiplicity", _NAMES[word.lower()]
    else:
        half = word.removesuffix("/2") if kind == "spin" else word  # S = 3/2 has three unpaired electrons
        value = 0 if word.lower() == "neutral" else _signed(half)
    if value is None:
        raise InputError(f"{source}: the comment line says {key}={shown(word)}, expected a whole number.")
    if found.setdefault(kind, value) != value:
        raise InputError(f"{source}: the comment line says {kind}= twice, with two values.")


def _signed(word):
    """A whole number with its sign before or behind it, '-1' or '1-'."""
    return whole(word[-1] + word[:-1]) if word.endswith(("+", "-")) else whole(word)


def _own_entry(match):
    """An entry key=value about the electrons, out of quotes; nothing of another one."""
    value = match[2].strip("\"' ")
    if any(pattern.fullmatch(match[1]) for pattern in _KIND.values()):
        return f"{match[1]}={value}"
    is_unclear = _OF_ELECTRONS.search(match[1]) and _signed(value)
    return f"{match[1]}={value}" if is_unclear else "|"
