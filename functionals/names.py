"""Functional expressions in the notation of PySCF and libxc.

    expression  = exchange ["," correlation]      without a comma, names mean exchange and correlation together
    part        = [sign] term {sign term}
    term        = [number "*"] one | one "*" number
    one         = name ["(" parameter "=" number {"," parameter "=" number} ")"]

"pbe" is a combination, "pbe,pbe" names its parts, "pbe," is exchange alone, ",lyp" correlation alone. A name may be a
number of libxc's ("130"), exact exchange ("hf", of short or long range "sr_hf(0.3)", "lr_hf(0.3)", or
"rsh(alpha; beta; omega)"), or be looked up in libxc's catalogue alone ("libxc:gga_x_pbe", "libxc:101").
Numbers in brackets are other values of parameters: "pbe(kappa=0.9)", "own_x(mu=0.2, kappa=0.8), pbe".
A suffix after the whole adds a dispersion correction ("pbe-d3bj", see dftfd.functionals.empirical_dispersion).
"""

import functools
import math
import operator
import re
from dataclasses import replace

from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals import catalogue
from dftfd.functionals.aliases import COMBINATIONS, from_other_programs, in_ascii, refuse_ambiguous
from dftfd.functionals.base import Functional, exact_exchange, long_range_exchange, require_fraction
from dftfd.functionals.empirical_dispersion import find_pair
from dftfd.functionals.registry import is_of_library, list_functionals, lookup, parses_expressions, unknown_name
from dftfd.runtime.written_numbers import real

MAX_LENGTH = 1000
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_EXACT = rf"(?:[sS][rR]|[lL][rR])_?[hH][fF]\(\s*{_NUMBER}\s*\)|[rR][sS][hH]\([^()]*\)"
_NAME = rf"{_EXACT}|(?:[lL][iI][bB][xX][cC]:)?(?:[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9]+)*|\d+(?![\d.]))"
_SETTING = rf"\s*[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?\s*=\s*[+-]?{_NUMBER}\s*"
_ONE = rf"(?P<name>{_NAME})(?:\s*\((?P<settings>{_SETTING}(?:[,;]{_SETTING})*)\))?"
_TERM = re.compile(
    rf"\s*(?P<sign>[+-]?)\s*(?:(?P<before>{_NUMBER})\s*\*\s*)?{_ONE}(?:\s*\*\s*(?P<after>{_NUMBER}))?\s*"
)
# Short names that are not libxc's name without its prefix. The meanings are PySCF's.
_EXCHANGE_ALIASES = {
    "lda": "lda_x",
    "slater": "lda_x",
    "s": "lda_x",
    "becke": "gga_x_b88",
    "b": "gga_x_b88",
    "revpbe": "gga_x_pbe_r",
    "pbesol": "gga_x_pbe_sol",
    "m06l": "mgga_x_m06_l",
    "m062x": "hyb_mgga_x_m06_2x",
    "mn15l": "mgga_x_mn15_l",
}
_CORRELATION_ALIASES = {
    "vwn5": "lda_c_vwn",
    "vwn3": "lda_c_vwn_rpa",
    "vwnrpa": "lda_c_vwn_rpa",
    "pw92": "lda_c_pw",
    "pwmod": "lda_c_pw_mod",
    "pbesol": "gga_c_pbe_sol",
    "m06l": "mgga_c_m06_l",
    "m062x": "mgga_c_m06_2x",
    "mn15l": "mgga_c_mn15_l",
}
_SIDES = {
    "x": (
        ("lda_x_", "gga_x_", "mgga_x_", "hyb_gga_x_", "hyb_mgga_x_", "lda_k_", "gga_k_", "mgga_k_", ""),
        _EXCHANGE_ALIASES,
    ),
    "c": (("lda_c_", "gga_c_", "mgga_c_", ""), _CORRELATION_ALIASES),
    "xc": (
        ("", "lda_xc_", "gga_xc_", "mgga_xc_", "hyb_lda_xc_", "hyb_gga_xc_", "hyb_mgga_xc_"),
        {name: "=" + meaning for name, meaning in COMBINATIONS.items()},
    ),
}
"""Beginnings that a short name leaves out, the first that is known counting, and names that are none of libxc's."""


@parses_expressions
def parse(text: str) -> Functional:
    """The Functional that an expression stands for."""
    shown = text.strip()
    if not shown:
        raise FunctionalError("the functional is empty; give a name such as 'pbe'.")
    if len(shown) > MAX_LENGTH:
        raise FunctionalError(f"a functional of {len(shown)} characters was given; {MAX_LENGTH} are allowed.")
    name = in_ascii(shown)
    pair = None if _is_own(name) else find_pair(name, parse)
    if pair is not None:
        return _corrected(pair).named(name)
    return _expression(name if _is_own(name) else from_other_programs(name), shown).named(name)


def _is_own(name) -> bool:
    """Whether a user registered the name: it then means that."""
    found = lookup(name) if re.fullmatch(r"[a-z0-9_]+", name) else None
    return found is not None and not is_of_library(found)


def _expression(text, shown) -> Functional:
    sides = [side.strip() for side in split_outside(text, ",")]
    if len(sides) > 2:
        raise FunctionalError(f"functional {shown!r} has several commas; 'exchange, correlation' expected.")
    if len(sides) == 1:
        return _sum(text, _combined, shown)
    exchange, correlation = sides
    parts = [_sum(exchange, _exchange, shown)] if exchange else []
    if correlation:
        parts.append(_sum(correlation, _correlation, shown))
        if exchange and correlation in PARTS:
            raise FunctionalError(
                f"{correlation!r} behind the comma of {shown!r} is nonlocal correlation alone, which others complete: "
                f"write '{exchange}, pbe + {correlation}', or 1.0*{correlation} if it is meant."
            )
        if not parts[-1].terms and parts[-1].exact_exchange:
            raise FunctionalError(
                f"{correlation!r} behind the comma of {shown!r} is exact exchange, no correlation; write "
                f"'{f'{exchange} + {correlation}' if exchange else correlation}' if that is meant."
            )
    if not parts:
        raise FunctionalError("the functional is ','; give a name on one side of the comma at least.")
    return functools.reduce(operator.add, parts)


def split_outside(text: str, separator: str) -> list[str]:
    """Parts of a text between separators that stand in no brackets."""
    return re.split(rf"{separator}(?![^()]*\))", text)


def _corrected(pair) -> Functional:
    """The functional of a row of the table of corrections, with its correction."""
    functional = parse(pair["functional"]).settled()
    if pair.get("without_vv10"):
        functional = replace(functional, terms=tuple((c, t) for c, t in functional.terms if not t.is_nonlocal))
    papers = tuple(dict.fromkeys([*functional.papers, *filter(None, [pair.get("doi")])]))
    return replace(functional, dispersion=(pair["corrections"], pair["parameters"]), papers=papers)


_PUBLISHED = {
    ("scan", "rvv10"): "scan_rvv10",
    ("scan", "vv10"): "scan_vv10",
    ("r2scan", "rvv10"): "r2scan + rvv10(b=11.95)",  # doi:10.1103/PhysRevB.106.075422
}
"""Sums of names that are published names themselves, of pairs with another b than that of rPW86 and PBE."""


def _sum(text, resolve, shown) -> Functional:
    terms: list[Functional] = []
    bare: list[str] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if not match or (position > 0 and not match["sign"]):
            raise FunctionalError(
                f"functional {shown!r} can't be read at {text[position:]!r}; a sum such as '0.25*HF + 0.75*PBE, PBE' "
                "expected, of names, with numbers for parameters as in 'pbe(kappa=0.9)'."
            )
        factor = 1.0
        for number in (match["before"], match["after"]):
            factor *= _finite(number) if number else 1.0
        factor = -factor if match["sign"] == "-" else factor
        if (
            re.fullmatch("[0-9]{1,2}", match["name"])
            and match.group().strip() != text.strip()
            and "*" not in match.group()
        ):
            raise FunctionalError(
                f"{shown!r} adds number {match['name']} of libxc to a name; write libxc:{match['name']} if that is "
                "meant, or the name without the blank."
            )
        settings = _settings(match["settings"])
        term = _exact(match["name"]) or _with_range(resolve(_without_hyphens(match["name"].lower())), settings, shown)
        term = term.with_parameters(**settings)
        if is_of_library(term):
            require_fraction(f"{match.group().strip()!r} of functional {shown!r}", factor)
        if match["sign"] == "-" and "*" not in match.group() and match["name"].lower().replace("-", "_") in PARTS:
            raise FunctionalError(
                f"{shown!r} subtracts nonlocal correlation; write '+ {match['name']}', or '- 1.0*{match['name']}' if "
                "that is meant."
            )
        terms.append(term if factor == 1 else factor * term)
        bare.append(match["name"].lower() if match.group().strip(" +") == match["name"] else "")
        position = match.end()
    if published := _PUBLISHED.get((bare[0], bare[-1])) if len(bare) == 2 else None:
        raise FunctionalError(
            f"{shown!r} is published with another b than that of a bare {bare[-1]}; write '{published}', or the sum as "
            f"'{bare[0]} + 1.0*{bare[-1]}'."
        )
    return functools.reduce(operator.add, terms)


_ATTENUATED = re.compile(r"ityh|hjs|wpbeh|_erf|sfat|pmgb06")
"""Names of exchange and correlation that are made for a range omega."""


def _with_range(term, settings, shown) -> Functional:
    """What is attenuated, with the range of the exact exchange that its expression names, as in PySCF, where it names
    none itself."""
    if term.exact_exchange or "omega" in settings or not any(_ATTENUATED.search(t.name) for _, t in term.terms):
        return term
    ranges = {omega for name in re.findall(_EXACT, shown) for omega, _ in _exact(name).exact_exchange if omega}
    if len(ranges) > 1:
        raise FunctionalError(f"{shown!r} has several ranges of exact exchange; write {term.name}(omega=...) for one.")
    if not ranges or "omega" in term.parameters:
        return term.with_parameters(omega=ranges.pop()) if ranges else term
    if settings:
        return term
    raise FunctionalError(
        f"{term.name!r} in {shown!r} is exchange of all ranges here and attenuated in PySCF; write gga_x_wpbeh_sr for "
        "that, or gga_x_wpbeh(s_from=1)."
    )


def _without_hyphens(name):
    """Hyphens are left out, but for those behind what a name says of its kind: x-pbe is x_pbe, no xpbe."""
    underscored = name.replace("-", "_")
    if name.endswith("-d") and underscored in catalogue.all_names():
        raise FunctionalError(
            f"{name!r} promises a correction that libxc's {underscored} does not have; write {underscored} for "
            "that, or its short name with the correction."
        )
    return underscored if _FULL.match(underscored) else name.replace("-", "")


def _settings(text) -> dict[str, float]:
    """{parameter: number} of 'kappa=0.9, mu=0.2'."""
    pairs = [word.split("=") for word in re.split("[,;]", text or "") if word]
    settings = {name.strip(): _finite(number) for name, number in pairs}
    if len(settings) < len(pairs):
        raise FunctionalError(f"({text}): one value for each parameter expected.")
    return settings


def _finite(text) -> float:
    """The number of a text; FunctionalError where it is none, or beyond the largest that there is."""
    number = real(text.strip())
    if number is None or not math.isfinite(number):
        raise FunctionalError(f"{text.strip()!r} is not a finite number; coefficients and parameters have to be.")
    return number


def _exact(name) -> Functional | None:
    """Range-separated exact exchange, in PySCF's notation; None for any other name."""
    if "(" not in name:
        return None
    kind, numbers = name.lower().rstrip(")").split("(")
    kind = kind.replace("_", "")
    words = numbers.split(";")
    if None in map(real, map(str.strip, words)) or len(words) != (3 if kind == "rsh" else 1):
        raise FunctionalError(
            f"{name!r} can't be read; rsh(alpha; beta; omega), sr_hf(omega) or lr_hf(omega) expected."
        )
    values = list(map(_finite, words))
    if kind == "rsh":
        alpha, beta, omega = values
        for fraction in (alpha, beta):
            require_fraction(repr(name), fraction)
        return (alpha + beta) * exact_exchange - beta * long_range_exchange(omega)
    long_range = long_range_exchange(values[0])
    return long_range if kind == "lrhf" else exact_exchange - long_range


def _numbered(name) -> Functional | None:
    """The functional of a libxc number; None for a name."""
    number = name.lower().removeprefix(catalogue.PREFIX)
    if not re.fullmatch("[1-9][0-9]{0,8}", number):
        return None
    known = catalogue.name_of(int(number))
    if known is None:
        raise FunctionalError(f"libxc 6.0 has no functional of number {number}.")
    return catalogue.find(known) if number != name else lookup(known) or catalogue.find(known)


_FULL = re.compile(r"(?P<family>(?:hyb_)?(?:lda_|gga_|mgga_))?(?:x|c|xc|k)_(?=.)")
"""How a name begins that says what it holds, as gga_x_ or hyb_gga_xc_; without a family it says too little."""


def _find(name, side) -> Functional | None:
    """The functional of a name on one side of an expression: a registered one, else one of libxc's catalogue.

    This is the one rule about spelling. An exact name comes first. Underscores and hyphens may be put elsewhere where
    one functional alone is meant, but never after what a name says of its kind: x_pbe is no xpbe. FunctionalError where
    several are meant.
    """
    of_libxc = name.startswith(catalogue.PREFIX)
    text = name.removeprefix(catalogue.PREFIX).replace("-", "_")
    prefixes, aliases = _SIDES[side]
    if not of_libxc:
        exact = _meant(aliases[text], name) if text in aliases else None
        found = exact or next(filter(None, (lookup(prefix + text) for prefix in prefixes)), None)
        if found is not None:
            return found
    own = () if of_libxc else tuple(list_functionals())
    begin = _FULL.match(text)
    if begin is not None:
        return _find_full(text, begin, own)
    group = _spellings(side, own, of_libxc).get(_squashed(text), {})
    targets = tuple(group.values())
    if text != next(iter(group), text) and not _are_one(targets):
        raise _ambiguous(name, targets)
    return _meant(group.get(text, targets[0]), name) if group else None


def _find_full(text, begin, own):
    """As `_find`, for a name that says its kind."""
    known = [*own, *(catalogue.PREFIX + name for name in catalogue.all_names())]
    if begin["family"]:
        same = [name for name in known if _plain(name).startswith(begin[0]) and _squashed(name) == _squashed(text)]
        same.sort(key=lambda name: _plain(name) != text)
        return lookup(same[0]) if same else None
    without = re.compile(r"^(?:hyb_)?(?:lda_|gga_|mgga_)"), re.compile(f"^{_FULL.pattern}")
    close = [name for cut in without for name in known if _squashed(cut.sub("", _plain(name))) == _squashed(text)]
    if close:
        raise _ambiguous(text, close)
    return None


def _plain(target):
    return target.removeprefix(catalogue.PREFIX).removeprefix("=")


def _squashed(name):
    return _plain(name).replace("_", "")


@functools.lru_cache(32)
def _spellings(side, own, of_libxc) -> dict[str, dict[str, str]]:
    """{name without underscores: {short name: what it stands for}}; what counts first comes first."""
    prefixes, aliases = _SIDES[side]
    known = {} if of_libxc else dict(aliases)
    for names, sign in ((own, ""), (catalogue.all_names(), catalogue.PREFIX)):
        for prefix in prefixes:
            for name in names:
                if name.startswith(prefix):
                    known.setdefault(name.removeprefix(prefix), sign + name)
    groups: dict[str, dict[str, str]] = {}
    for short, target in known.items():
        groups.setdefault(_squashed(short), {})[short] = target
    return groups


def _meant(target, name) -> Functional | None:
    """What a name stands for: an expression after "=", or a registered or catalogued name."""
    return parse(_plain(target)).settled().named(name) if target.startswith("=") else lookup(target)


def _are_one(targets) -> bool:
    """Whether names stand for one functional: one of the catalogue is known by its name alone."""
    if len({_squashed(target) for target in targets}) == 1:
        return True
    if any(target.startswith(catalogue.PREFIX) for target in targets):
        return False
    first, *rest = (_required(target, _meant(target, "")).definition for target in targets)
    return all(first == other for other in rest)


def _ambiguous(name, targets) -> FunctionalError:
    """The error for a name that its underscores alone tell from another."""
    full = " or ".join(dict.fromkeys(repr(_plain(target)) for target in targets))
    return FunctionalError(f"{name!r} is not a full name, and its underscores decide what is meant; write {full}.")


def _required(name, found) -> Functional:
    if found is None:
        raise unknown_name(name)
    return found


def _exchange(name):
    """Before a comma, 'pbe' is gga_x_pbe."""
    return _without(("c", "xc"), _numbered(name) or _required(name, _find(name, "x")), name)


def _correlation(name):
    """After a comma, 'pbe' is gga_c_pbe."""
    return _without(("x", "xc"), _numbered(name) or _required(name, _find(name, "c")), name)


def _without(unwanted, found, name):
    """`found`, unless it holds exchange on the side of correlation or the other way round."""
    if any(term.kind in unwanted for _, term in found.terms):
        side = "exchange alone, as a name before" if "c" in unwanted else "correlation alone, as a name behind"
        raise FunctionalError(
            f"{name!r} is not {side} the comma has to be; it consists of "
            f"{', '.join(term.name for _, term in found.terms)}. Write 'exchange, correlation', or no comma."
        )
    return found


_EXCHANGE_ALONE = ("b88", "chachiyo")
"""Names of exchange in PySCF and in their papers, beside a correlation of the same name that is another's."""
_PROMISE = re.compile(r"(?:_d\d?|_3c|vdw|cf22d)$")
"""How names of libxc's end that promise a dispersion correction, which libxc does not have."""


def _combined(name):
    """A registered name or combination; else the exchange and the correlation of this name, or exchange alone.

    Exchange alone is PySCF's reading of 'lda' or 'b88'. UnsupportedError for a name that promises a correction.
    """
    if (numbered := _numbered(name)) is not None:
        return numbered
    plain = name.removeprefix(catalogue.PREFIX)
    is_full = bool(_FULL.match(plain))
    if name == plain and not _is_own(name):
        refuse_ambiguous(name)
    found = _find(name, "xc")
    if found is None:
        found, alone = _find(name, "x"), is_full or plain in _EXCHANGE_ALONE
        correlation = None if found is not None and alone else _find(name, "c")  # which may need jax-xc
        if found is None and correlation is not None:
            raise FunctionalError(
                f"{name!r} is correlation alone: write ',{name}' for it, or an exchange functional before the comma, "
                f"as in 'b88,{name}'."
            )
        if found is not None and correlation is not None and all(term.kind == "x" for _, term in found.terms):
            found = found + correlation
    found = _required(name, found)
    is_promise = not is_full and is_of_library(found) and any(map(_PROMISE.search, (plain, found.name)))
    if is_promise and found.dispersion is None:
        raise UnsupportedError(
            f"{name!r} promises a dispersion correction that is not here; {_plain(found.name)!r} is libxc's part of it."
        )
    return found


PARTS = {"vv10": "gga_xc_vv10", "rvv10": None, "vdw_df_nl": "vdw_df", "vdw_df2_nl": "vdw_df2"}
"""Nonlocal correlation that is registered by itself, and the name of a whole functional with it."""


def refuse_part(spec, functional: Functional) -> None:
    """Raise FunctionalError for text that names nonlocal correlation alone, where PySCF's 'vv10' is a whole functional.

    The Hartree energy is refused, too.

    A Functional object that is made of them was put together on purpose.
    """
    names = [term.name for _, term in functional.terms]
    if isinstance(spec, str) and "hartree" in names:
        raise FunctionalError(
            f"functional {spec.strip()!r} has the Hartree energy, which every SCF has as its Coulomb energy; leave it "
            "out, or give dftfd.get_functional('hartree') if it is meant to count twice."
        )
    if isinstance(spec, str) and names and set(names) <= set(PARTS) and not functional.exact_exchange:
        whole = PARTS[names[0]]
        other = f"the whole functional is {whole!r}; " if whole else ""
        raise FunctionalError(
            f"functional {spec.strip()!r} is nonlocal correlation alone, without exchange: {other}add "
            f"it to another, as in 'pbe + 1.0*{names[0]}', or give dftfd.get_functional({names[0]!r}) if it is meant."
        )
    if isinstance(spec, str) and not names and not functional.exact_exchange and any(functional.pt2):
        spec = spec.strip()
        raise FunctionalError(f"functional {spec!r} is perturbation theory alone; 'hf + {spec}' is MP2.")
