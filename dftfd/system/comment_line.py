"""What the comment line of an xyz file says of the molecule: charge, unpaired electrons, unit, isotopes.

    charge=1 multiplicity=2      Charge and multiplicity: -1 2      total charge 1, mult: 2      q=1      -1 2

Entries `key=value` of other keys, and text in quotes behind them, say nothing. A line that speaks of a charge or a
multiplicity in words that are not understood is refused: nobody is told otherwise that the molecule is another one.
"""

import os
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError, InputWarning, shown
from dftfd.runtime.written_numbers import DASHES, whole
from dftfd.system.molfile import warn_of_isotopes

_ENTRY = re.compile(r"""(?<![\w.-])([A-Za-z_]\w*)\s*=\s*("[^"]*"|'[^']*'|[^\s,;]+)""")
_LENGTHS = (
    r"(?:units?|coordinates?|coords?|geometr(?:y|ies)|positions?|lengths?|distances?|structure)\W{1,3}(?:(?:in|are)\s)?"
)
_AU = r"a\.?u\.?|atomic units|a_?0"
_BOHR = re.compile(
    rf"(?<![\w/])bohrs?(?![\w/])|[(\[](?:{_AU})[)\]]|\b{_LENGTHS}[(\[]?(?:{_AU}|atomic)(?!\w)|^(?:in )?(?:{_AU})$"
    rf"|positions\{{atomic_unit\}}|(?<!\w)(?:xyz|[rxyz])\s?(?:in\s|/\s?)(?:bohr|{_AU})(?!\w)",
    re.I,
)
_OTHER = r"pm|picomet(?:er|re)s?|nm|nanomet(?:er|re)s?|met(?:er|re)s?|fractional|crystal|direct|alat|frac"
_NOT_READ = re.compile(
    rf"\b{_LENGTHS}[(\[]?(?P<unit>{_OTHER})(?!\w)|[(\[](?P<bracketed>(?-i:pm|nm))[)\]]\s*$"
    rf"|^(?:in )?(?P<alone>{_OTHER})$|(?P<kind>fractional|crystal|scaled|reduced|relative|lattice) coord",
    re.I,
)
_ANGSTROM = re.compile(r"(?<![\w/])(?:[aå]ngstr(?:[oö]|oe)ms?|Å)(?![\w/])", re.I)

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
_WORD_BEFORE = re.compile(rf"{_WORD}(?:\W{{1,3}}(?:of|for|on)(?:\W{{1,3}}the)?)?\W{{0,3}}\Z", re.I)
_PER_E = re.compile(r"(?<![\w.-])(q|charge)\s?(?:/\s?\|?e\|?|[(\[]\|?e\|?[)\]])(?=\s?[=:])", re.I)
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
_BEFORE = re.compile(r"(?<!\w)_\Z")
"""A word about electrons, perhaps with a stray blank or comma in it, before a number."""
_CUT_SHORT = re.compile(
    r"(?<![\w.:'’-])(?:c|ch|chr|cha|char|charg|crg|mu|mul|multi|mlt|s|sp|spi|n?el|ne|ms|s?z|\w{0,9}magneti[sz]ation|\w{1,9}chrg|\w{1,9}chg)"
    r"(?:\s?[=:]\s?|\s(?:is|equals?)\s)(?:[+-]?[0-9](?:\.0*)?|(?:minus |plus )?(?:one|two|three|four|five))(?![\w.:])",
    re.I,
)
"""What may be meant as charge, multiplicity or spin and is none of their names, with a small number: c=-2, c is 2."""
_OF_ELECTRONS = re.compile(r"charge|chrg|n_?elec|^electrons|multiplicity|(?<![a-z])spin", re.I)
_IONS = (
    r"(?:thio|per|di|pyro)?(?:sul(?:f|ph)|selen|carbon|oxal|chrom|molybd|tungst|silic|mangan|succin|malon)(?:ate|ite)"
    r"|(?:per|super)oxide"
)
"""Names of ions that are neutral molecules with a closed shell on paper, when they stand alone."""
_DEUTERATED = (
    r"(?<![A-Za-z0-9])(?:D2?(?:O|S|F|Cl|Br|CN)(?![a-z0-9])|HDO|HOD|CDCl3|(?:[A-Z][a-z]?[0-9]?){0,6}(?:C|N|O|S|Si)D[2-9])"
    r"|(?i:deuter(?:ated|ium|ide)|tritiated|tritium|heavy water|isotop(?:e|ologue|omer)s?(?!\w))"
)
_ISOTOPES = re.compile(rf"{_DEUTERATED}|\w-d[1-9][0-9]?(?!\w)|(?<![\w.])\^?(?:13C|15N|1[78]O|[23]H)(?!\w)")
_ISOTOPES_IN_NAMES = re.compile(rf"{_DEUTERATED}|(?<![A-Za-z0-9])(?:d2o|hdo|hod|cdcl3)(?![A-Za-z0-9])")
_FIELD = re.compile(
    r"(?<![a-z])(?:(?:electric|external|multipole|finite|e)[ _-]?field|(?<!force[ _-])field(?=\s?[=:]))"
    r"(?:[ _-]?strength)?(?:_?[xyz](?![a-z]))?"
    r"\W{0,5}(?:of |along |in )?[xyz]?\W{0,5}(?:0(?:\.0*)?[\s,;]+-?){0,2}[0-9.]*[1-9][0-9.e-]*",
    re.I,
)
"""An electric field that is not zero: multipole_field={'Z': -0.004} of GSCDB, efield=0 0 0.01."""
_UNIT_IN_NAMES = re.compile(r"(?<![a-z])(bohr|angstrom)s?(?![a-z])", re.I)
_NUMBER = re.compile(r"(?<![\w.])(?:[0-9]+|[+-][1-9]\.0*)(?![\w.])")
_ALONE = re.compile(r"[(\[]?([+-]?[0-9]{1,2})[\s,;/]{1,9}([0-9]{1,2})[)\]]?")
_UNIT_AT_END = re.compile(r"\s(?:in |units? ?[=:]? ?)?[(\[]?(?:bohrs?|angstroms?|au|a\.u\.)[)\]]?\Z", re.I)
_SIGNED = re.compile(
    r"^[^0-9A-Za-z.]*[0-9]{1,2}[^0-9A-Za-z.]+[0-9]{1,2}[^0-9A-Za-z.]*$|"
    r"^[(\[]?[+-][0-9]{1,2}(?![\w.])|^[+-]?[0-9]{1,2}[\s,;/]{1,9}[+-][0-9]{1,2}$"
    r"|(?<![\w.])[+-][0-9]{1,2}[\s,;/]{1,9}[1-9][)\]]?$|^[(\[]?[1-9][+-][)\]]?$|^[+-]{1,4}$"
)
_AND_MORE = re.compile(r"\n[\s,;/]{0,9}[+-]?[0-9]+(?![\w.])")
_COUNT = r"(?:one|two|three|four|five|six|[1-6])(?![\w.])"
_MENTIONS = {
    "charge": re.compile(
        r"(?<![A-Za-z])(?i:(?:mono|di|tri)?(?:cation|anion)(?:ic)?|ions?(?!\W?(?:pair|channel|exchange|mobility|trap))|(?:de)?protonated|ioni[sz]ed"
        r"|(?:posi|nega)tive(?:ly)? (?:ion|charged)|qtot [+-]?[1-9]|-{0,2}c [+-][1-9]|n_el\s?[=:]\s?[1-9]"
        r"|(?:oxidation|oxidation_state|valence|formal|ioni[sz]ation|ion|net|qtot|total_q)\s?[=:]\s?[+-]?[1-9]"
        r"|(?:singly|doubly|triply|negative|positive|unit)\W?charged?|charged"
        rf"|(?:charge\W{{1,3}}(?:of |is )?(?:minus |plus )?|minus |plus ){_COUNT}"
        rf"|{_COUNT} electrons? (?:removed|added|more|less)|{_COUNT} (?:extra|additional|excess|missing) electrons?"
        rf"|(?:singly|doubly|triply|[1-3]e|{_COUNT}[ -]electron) (?:reduced|oxidi[sz]ed)"
        r"|(?<![^\W_])[cq][ =:]{0,3}[+-]?[1-9][ _,;|]{0,3}m[ =:]{0,3}[1-9](?!\w)"
        r"|--?(?:c|q|chrg|charge)[ =][+-]?[1-9]|q ?[+-]?[1-9](?![\w.])"
        r"|(?<!\w)z ?= ?(?:[+-]{1,3}|[1-9][+-]|\+[1-9])(?![\w.])"
        r"|\A[(\[][+-]?[1-3](?:\.0*)?[ ,;/]+[1-7](?:\.0*)?[)\]](?= |\Z)|\A[+-]?[1-9]\.0*[ ,;/]+[1-7](?:\.0*)?\Z"
        r"|\A[+-]?[1-3][ ,]+[1-7][ ,]+(?=[+-]?[0-9]*\.[0-9])|\A[1-4][ ,]+[1-7][ ,]+[A-Z(\[]\S*"
        rf"|(?:\A|[,;(] ?)c of [+-]?[1-9]|\A\W*(?:{_IONS})\W*\Z)(?![A-Za-z])"
        r"|(?<![\w.=:+-])[+-][1-9](?![\w.])|(?<![\w.+-])[1-9][+-](?![\w.+-])|_[+-][1-9](?![0-9.])"
        r"|[_-](?:minus|plus)(?![A-Za-z])|[\w)\]][)\].\u00b7\u2022*^ ][+-]\Z"
        r"|(?<![\w+\-\[(])(?:(?:[A-Z][a-z]?[0-9]{0,2}){1,20}|\[(?:[A-Z][a-z]?[0-9]{0,2}){1,20}\])(?:\^?[0-9]?[+-]|\+[1-9]|\s[0-9][+-]|\s?\([0-9]?[+-][0-9]?\))(?![\w+\-\]])"
    ),
    "spin": re.compile(
        rf"(?<![a-z])(?:{'|'.join(list(_NAMES)[1:])}|octet|nonet|hextet|(?:du|quadru|quintu|sextu)plet"
        r"|(?:bi|di)?radical|(?:high|intermediate)[ -]spin"
        r"|open[ -]shell|(?:one|two|three|four|five) unpaired|dublett?|triplett"
        r"|T1 (?:state|geometry|minimum|opt(?:imi[sz]\w{1,6})?|structure|surface))(?![a-z])"
        r"|(?<![^\W_])[cq][ =:]{0,3}[+-]?[0-9][ _,;|]{0,3}m[ =:]{0,3}[2-9](?!\w)"
        r"|(?<![\w.])\^[2-7](?=(?-i:[A-Z]))|(?:anti)?ferromagnetic"
        r"|(?<!\w)<?S\s?(?:(?:\^|\*\*)?2>?\s?=|(?:\^|\*\*)2>?|\(S\+1\)\s?=?)\s?(?:0\.[5-9]|[1-9])"
        r"|(?<![a-z])tripl?(?![a-z])|(?<![a-z])moment\W{1,3}[1-9](?:\.[0-9]*)?\s?(?:mu_?b|\u03bcb|bohr magnetons?)"
        r"|(?<!\w)(?:i?nspin|ispin|2S|M)\s?[=:]\s?[2-9](?![\w.])|(?<!\w)(?:nupdown|nopen|(?:total_)?magmom)\s?[=:]\s?-?[1-9]"
        r"|\A[(\[][+-]?[0-3](?:\.0*)?[ ,;/]+[2-7](?:\.0*)?[)\]](?= |\Z)"
        r"|\A[+-]?[0-9]\.0*[ ,;/]+[2-7](?:\.0*)?\Z"
        r"|\A[0-2][ ,]+[2-7][ ,;]+(?=[#!(A-Za-z]|[+-]?[0-9]*\.[0-9])|(?<![a-z])mult[2-9](?![\w.])"
        r"|(?<![\w.])[X~]?\^?[2-7](?:Sigma|Pi|Delta|[\u03a3\u03a0\u0394]|(?:[AB]|(?-i:T))_?[123][gu]?)(?![a-z0-9\u03b1-\u03c9])"
        r"|(?<![\w.])\^?[2-7](?-i:[SPDF])_?[0-9](?:/2)?(?!\w)"
        r"|(?<![\w.])[X~]?\^?[2-7](?-i:[ABE])_?[12]?['\"\u2032]{1,2}(?!\w)"
        r"|(?<![\w.])[X~]?\^?[2-7](?-i:[ABE]_?[gu])(?=[\s)\],;.]{0,3}(?:\Z|states?|min|geom|TS))"
        r"|(?<![\w.])\^?[2-7][\u03a3\u03a0\u0394SPDF](?=[gu+-]|\Z)|\A\W*(?:state\W+)?(?:[TQ]_?[0-9]|D[1-9])\W*\Z"
        rf"|(?<![a-z_])(?:multiplicity|mult|spin)\W{{1,3}}(?:of |is )?{_COUNT}"
        r"|(?<!\S)--?(?:m|mult|u|uhf) [1-9](?![\w.])"
        r"|(?<!\w)m (?:of|is|equals?) (?:[2-9]|two|three|four)(?![\w.])"
        r"|(?<![\w./-])uhf [1-9](?![\w.])|(?<!\w)n_?(?:alpha|beta|[ab])(?:\s?[=:]\s?| )[0-9]|[0-9] (?:alpha|beta)(?!\w)"
        r"|(?<![\w.=])0 [2-7]\Z",
        re.I,
    ),
}
_LINK = r"(?![a-z])[\W_]{0,5}(?:(?:is|are|of|equals?|to)[\W_]{1,5})?"
_WORDS = "one|two|three|four|five|six|seven"
_NEARBY = {
    "charge": re.compile(
        r"(?:ch(?:a?r)?ge?(?:s|_\w{0,9})?|(?<![a-z])ch\.|icharg|ladung|carg[ao]|carica|(?<![a-z])(?:q|q_?tot|tot(?:al)?_?q|z_?tot"
        rf"|n_?elec\w{{0,6}}))(?:[\W_]state)?{_LINK}(?:(?:minus |plus |negative )?(?:{_WORDS})(?![a-z])"
        r"|(?<![.\d])[+-]?[1-9][0-9]?(?:\.0*)?(?![\w.%])|[+-]{1,3}(?=\s?(?:[,;)\]]|\Z))|\+{1,3}(?![\w+])"
        r"|[+-]?(?-i:I{1,3}|IV)(?!\w)"
        r"|(?:minus|plus|negative|positive)(?![a-z]))",
        re.I,
    ),
    "spin": re.compile(
        r"(?:mult?(?:ip\w{0,9}|p|i)?|mlt|unpaired(?:[ _]?electrons?)?|(?<![a-z])(?:spins?(?:_?\w{0,12})|n?uhf|n_?open"
        r"|n?somos?|open_shells?|two_?s|mag(?:mom|neti[sz]ation)?|n_?a(?:lpha)?\s?-\s?n_?b(?:eta)?)"
        r"|(?<![\w.])(?:2\s?\*?\s?s|s_?z|m_?s)(?=[\s:=]{0,3}(?:[=:>]|is|equals?)))"
        rf"{_LINK}(?:(?:{_WORDS})(?![a-z])|-?[2-9](?:\.0*)?(?![\w.%/-]))",
        re.I,
    ),
}
"""A word about electrons, whatever it is joined to, and a number beside it: imult=3, charge equals -2.0."""
_LONGEST = 10_000


_LOOK_ALIKES = str.maketrans("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u03bf\u03bd", "aeopcyxisjov")
_LOOK_ALIKES |= str.maketrans(
    "\u0410\u0415\u041e\u0420\u0421\u0425\u041c\u041d\u0422\u0391\u0395\u039f\u03a1\u03a7", "AEOPCXMHTAEOPX"
)
"""Cyrillic and Greek letters that look like Latin ones."""


def _in_latin(comment: str) -> str:
    """A line with look-alikes in Latin words as Latin letters, and digits of any script as 0 to 9."""
    digits = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in comment)
    is_latin = lambda word: any(c.isascii() and c.isalpha() for c in word)
    return re.sub(r"\w+", lambda m: m[0].translate(_LOOK_ALIKES) if is_latin(m[0]) else m[0], digits)


def said_in(comment: str, source: str) -> dict[str, Any]:
    """charge, spin (unpaired electrons) and unit as far as the line says them; InputError for what is not understood.

    mentions: words such as 'anion' and 'triplet' by what they are about, where the line does not say that in numbers.
    """
    comment = " ".join(_in_latin(comment[:_LONGEST].translate(DASHES)).split())
    comment = _PER_E.sub(r"\1", comment)
    title = unicodedata.normalize("NFKC", comment).translate(DASHES)
    if _ISOTOPES.search(title):
        warn_of_isotopes(source)
    if field := _FIELD.search(title):
        where = f"{source}: " if source else ""
        warnings.warn(
            f"{where}{shown(field[0])} is not read: give the field as electric_field= (--electric-field).",
            InputWarning,
            stacklevel=6,
        )
    said: dict[str, Any] = _electrons(comment, source)
    multiplicity = said.pop("multiplicity", None)
    if multiplicity is not None and said.setdefault("spin", multiplicity - 1) != multiplicity - 1:
        raise InputError(
            f"{source}: the comment line says spin={said['spin']} and multiplicity={multiplicity}; spin is the number "
            "of unpaired electrons, multiplicity one more."
        )
    if multiplicity is not None and multiplicity < 1:
        raise InputError(f"{source}: the comment line says multiplicity={multiplicity}, expected a number from 1.")
    if unit := unit_of(comment, source):
        said["unit"] = unit
    patterns = [pair for table in (_NEARBY, _MENTIONS) for pair in table.items()]
    words = {name: found[0] for name, pattern in patterns if (found := pattern.search(title))} | _misspelt(title)
    words |= _of_structure(title)
    return said | {"mentions": {name: word for name, word in words.items() if name not in said}}


_CHARGED = re.compile(
    r"\[[0-9]{0,3}[A-Z][^\s\[\]]{0,9}?([+-]{1,4})([0-9]?)(?::[0-9]+)?\]|(?<=/)[pq]([+-])([0-9])", re.I
)
"""Charged atoms of SMILES, [O-] or [Fe+2]; protons and charge of an InChI, /p-1 or /q+2."""


def _of_structure(title: str) -> dict[str, str]:
    """{'charge': word} for SMILES or an InChI of an ion: one whose charged atoms do not add up to zero."""
    found = [m for m in _CHARGED.finditer(title) if m[1] or "InChI=" in title]
    atoms = [(m[0], int(f"{(m[1] or m[3])[0]}{m[2] or m[4] or len(m[1])}")) for m in found]
    return {"charge": atoms[0][0]} if sum(charge for _, charge in atoms) else {}


_KNOWN_WORDS = {"charge": "charge", "multiplicity": "spin"} | dict.fromkeys(list(_NAMES)[1:], "spin")
_OTHER_WORDS = frozenset(
    "change charges double doubles doublets duplex quarter quarters triple triples triplets triplex".split()
)
"""Words that are no slips."""


def _misspelt(title: str) -> dict[str, str]:
    """Words one slip away from charge, before a small number, and from multiplicity, triplet and others."""
    found: dict[str, str] = {}
    for match in re.finditer(r"(?<![a-z])([a-z]{4,13})(?![a-z])(?:\s?[=:]\s?|\s)?([+-]?[1-9](?![\w.]))?", title, re.I):
        word = match[1].lower()
        about = {"mutl": "spin", "mlut": "spin"}.get(word)
        if word not in _KNOWN_WORDS and word not in _OTHER_WORDS:
            about = about or next((_KNOWN_WORDS[known] for known in _KNOWN_WORDS if _is_slip(word, known)), None)
        if about and (match[2] or word[:1] in "tdqs" and about == "spin"):
            found[about] = match[0].strip()
    return found


def _is_slip(word: str, known: str) -> bool:
    """Whether one letter is wrong, missing, too many or exchanged with the next."""
    if word[:1] != known[:1] and word[1:] != known[1:] and word != known[1:]:
        return False
    k = next((k for k, (a, b) in enumerate(zip(word, known, strict=False)) if a != b), min(len(word), len(known)))
    a, b = word[k:], known[k:]
    return word != known and (a[1:] == b[1:] or a[1:] == b or a == b[1:] or a[2:] == b[2:] and a[:2] == b[1::-1])


def ion_of_atoms(comment: str, symbols: Sequence[str]) -> dict[str, str]:
    """{'charge': word} for a formula of just these atoms with a charge, in letters of any size: h2+, oh-, nh4+."""
    atoms, longest_first = Counter(map(str.lower, symbols)), sorted(set(symbols), key=len, reverse=True)
    one = rf"({'|'.join(longest_first)})([0-9]{{0,3}})"
    title = comment[:_LONGEST].translate(DASHES)
    for match in re.finditer(
        rf"(?<![\w+\-\[(])(?:{one}){{1,20}}(?:\^?[0-9]?[+-]|[+-]{{2,3}}|\+[1-9])(?![\w+\-\]])", title, re.I
    ):
        found: Counter = Counter()
        for symbol, count in re.findall(one, match[0], re.I):
            found[symbol.lower()] += int(count or 1)
        if found == atoms:
            return {"charge": match[0]}
    return {}


_UP, _DOWN = (rf"(?<![a-z])n?_?(?:{words})(?![a-z])" for words in ("up|alpha|a", "down|dn|dw|beta|b"))
_COUNTS = re.compile(
    rf"{_UP}[\s=:]{{0,3}}(?P<a>[0-9]{{1,4}})\W{{1,5}}{_DOWN}[\s=:]{{0,3}}(?P<b>[0-9]{{1,4}})"
    rf"|(?<![\w.])(?P<c>[0-9]{{1,4}})\s?{_UP}\W{{1,5}}(?P<d>[0-9]{{1,4}})\s?{_DOWN}"
    r"|electrons\W{1,3}(?P<e>[0-9]{1,4})/(?P<f>[0-9]{1,4})(?!\w)",
    re.I,
)
_COUNT_OF_ALL = re.compile(
    r"(?<![\w.-])(?:(?P<a>[0-9]{1,4})(?:e(?![\w+-])|[\s-]?(?:e-|electrons?)(?!\w))"
    r"|(?:n_?e(?:l(?:ec(?:t(?:r(?:ons?)?)?)?)?)?|(?:number|no\.?|count) of electrons|electrons?(?: count)?)"
    r"(?:\s?[=:]\s?|\s(?:is\s)?)(?P<b>[0-9]{1,4})(?:\.0*)?(?![\w./]))",
    re.I,
)
_OF_SOME_ELECTRONS = re.compile(r"valence|active|cas|frozen|core|\bpi\b|unpaired|\becp\b|correlated|transfer", re.I)


def counts_of_atoms(comment: str, symbols: Sequence[str]) -> dict[str, str]:
    """What numbers of electrons say of charge and spin: '9 electrons', 'nelec=9' or '9 up 7 down' of these atoms.

    Numbers that are far from the sum of the atomic numbers count something else.
    """
    title, total = comment[:_LONGEST], sum(ATOMIC_NUMBERS[symbol] for symbol in symbols)
    if _OF_SOME_ELECTRONS.search(title):
        return {}
    found: dict[str, str] = {}
    if both := _COUNTS.search(title):
        up, down = (int(n) for n in both.groups() if n is not None)
        n, found = up + down, {"spin": both[0]} if up != down and abs(up + down - total) < _NEAR else {}
    elif both := _COUNT_OF_ALL.search(title):
        n = int(both["a"] or both["b"])
    return found | ({"charge": both[0]} if both and 0 < abs(n - total) < _NEAR else {})


_NEAR = 7
"""Charges from which on a number of electrons is that of something else."""

_END = r"[\s_-]?[1-3]?\Z"
_IN_NAMES = {
    "charge": re.compile(
        r"(?<![a-z])(?:mono|di|tri)?(?:cation|anion)(?:ic)?(?![a-z])|(?<![a-z])(?:de)?protonated"
        r"|(?<![a-z])ion(?![a-z]|[\s_-]?pair)|(?<![a-z])(?:charge|chrg|chg|q)[\s_=-]?[+-][1-9](?![\w.])"
        rf"|(?<![a-z])(?:charge|chrg|chg)[\s_=]?[1-9](?![\w.])|[\s_-][1-3]?(?:minus|neg(?:ative)?|plus){_END}"
        rf"|_[+-][1-9](?:_[1-9])?\Z|\A[a-z0-9()\[\]]{{3,}}\^?[0-9]?[+-]{{1,3}}\Z|[(\[][1-9][+-][)\]]\Z"
        rf"|(?<![a-z0-9])[cq][+-]?[1-9]_?m[1-9]\Z|\A\W*(?:{_IONS})\W*\Z",
        re.I,
    ),
    "spin": re.compile(
        rf"(?<![a-z])(?:{'|'.join(list(_NAMES)[1:])}|(?:bi|di)?radical(?:oid)?|rad|high[ _-]?spin|open[ _-]?shell)"
        r"(?![a-z])|(?<![a-z])(?:multiplicity|mult|spin)[\s_=-]?[2-9](?![\w.])|(?<![a-z0-9])[cq][+-]?[0-9]_?m[2-9]\Z"
        r"|\A(?-i:T)1(?:[_-](?:opt|min|geom))?\Z|_[+-][1-9]_[2-9]\Z",
        re.I,
    ),
}
_SIGN_IN_WORDS = re.compile(r"(?:[\s_^-]([1-3]))?[\s_-]?(plus|pos(?:itive)?|minus|neg(?:ative)?)[\s_]?([1-3]?)\Z", re.I)


def said_by_name(name: str, symbols: Sequence[str]) -> dict[str, str]:
    """Words of the name of a file or a species by what they are about: o2_triplet, co3_dianion, so4_2-, no3_minus."""
    name = name[:_LONGEST].translate(DASHES)
    words = {about: found[0].strip(" _") for about, pattern in _IN_NAMES.items() if (found := pattern.search(name))}
    signs = _SIGN_IN_WORDS.sub(lambda m: f"^{m[1] or m[3]}{'+' if m[2][0] in 'pP' else '-'}", name)
    return ion_of_atoms(signs.replace("_", "^"), symbols) | words


def said_by_path(path: str, symbols: Sequence[str]) -> dict[str, str]:
    """The words of a file's name, and of its folder if that is nothing else or the file has no name of its own:
    triplet/o2.xyz, oh-/struc.xyz, o2_anion/opt.xyz."""
    folder = os.path.basename(os.path.dirname(path))
    words = said_by_name(folder, symbols) if folder else {}
    if _CHARGE_STATE.fullmatch(folder):
        words["charge"] = folder
    stem = os.path.splitext(os.path.basename(path))[0]
    is_name = bool(_OF_NO_MOLECULE.fullmatch(stem))
    return {about: word for about, word in words.items() if is_name or word == folder} | said_by_name(stem, symbols)


_CHARGE_STATE = re.compile(r"[+-][1-9]|[1-9][+-]|(?:plus|minus|charge|chrg|q)_?[1-9]", re.I)
_OF_NO_MOLECULE = re.compile(
    r"struc(?:ture)?|geom(?:etry)?|opt(?:imi[sz]ed)?|coords?|mol(?:ecule)?|xtbopt|crest_best|input|start|final|initial|min|ts|xyz",
    re.I,
)
"""Names of files in folders of one molecule or job, whose name is the molecule's."""


def unit_of_path(path: str) -> str | None:
    """'bohr' or 'angstrom' where a file's name says it; warns of isotopes in the name."""
    stem = os.path.splitext(os.path.basename(path))[0]
    if _ISOTOPES_IN_NAMES.search(stem.replace("_", " ")):
        warn_of_isotopes(f"the name of {shown(stem)}")
    found = _UNIT_IN_NAMES.search(stem)
    return found[1].lower() if found else None


def warn_about_name(where: str, name: str, symbols: Sequence[str], has: Mapping[str, int]) -> None:
    """Warn where a name speaks of a charge or unpaired electrons and a molecule has none.

    has: its charge and spin, those that may be meant otherwise.
    """
    silent = [f"{w!r}, but has {about}=0" for about, w in said_by_name(name, symbols).items() if has.get(about) == 0]
    if silent:
        warnings.warn(f"{where} is called {silent[0]}.", InputWarning, stacklevel=4)


def unit_of(text: str, source: str) -> str | None:
    """'bohr' or 'angstrom' where a text names it, else None; InputError for units that are not read."""
    text = unicodedata.normalize("NFKC", text)
    if other := _NOT_READ.search(text):
        word = next(filter(None, other.groups()))
        raise InputError(f"{source}: the comment line says {shown(word)}; coordinates in angstrom or bohr are read.")
    return "bohr" if _BOHR.search(text) else "angstrom" if _ANGSTROM.search(text) else None


def said_behind(remarks: Iterable[str]) -> dict[str, str]:
    """Remarks behind atoms that speak of charge or spin, which are of the atom or of the molecule, by these words."""
    found: dict[str, str] = {}
    for remark in filter(str.strip, remarks):
        try:
            said = said_in(remark, "")
        except InputError:
            said = {"charge": 1}
        words = {name: remark.strip() for name in ("charge", "spin") if said.get(name)}
        found |= said.get("mentions", {}) | words
    return found


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
    broken = [
        m
        for m in _BROKEN.finditer(comment)
        if not m["word"].isalpha() or "_" in m[0] or _BEFORE.search(comment, 0, m.start())
    ]
    is_unclear = (
        broken
        or _CUT_SHORT.search(comment)
        or _GLUED.search(rest)
        or (_AND_MORE.search(rest) if len(found) == 1 else not found and _SIGNED.search(comment))
    )
    if is_unclear or (unread and (found or _NUMBER.search(rest))):
        raise InputError(
            f"{source}: the comment line, {shown(comment.strip())}, mentions charge or spin but is not "
            "understood; write charge=-1 multiplicity=2, or remove the words."
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
    is_unclear = _OF_ELECTRONS.search(match[1]) or _WORD_BEFORE.search(match.string[: match.start()][-80:])
    is_unclear = is_unclear and _signed(value)
    return f"{match[1]}={value}" if is_unclear else "|"
