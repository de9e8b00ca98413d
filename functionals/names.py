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
import operator
import re
from dataclasses import replace

from dftfd.errors import FunctionalError
from dftfd.functionals import catalogue
from dftfd.functionals.aliases import COMBINATIONS
from dftfd.functionals.base import Functional, exact_exchange, long_range_exchange
from dftfd.functionals.empirical_dispersion import WITHOUT_VV10, parameter_name, split_dispersion
from dftfd.functionals.registry import list_functionals, lookup, parses_expressions, unknown_name

MAX_LENGTH = 1000
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_EXACT = rf"(?:[sS][rR]|[lL][rR])_?[hH][fF]\(\s*{_NUMBER}\s*\)|[rR][sS][hH]\([^()]*\)"
_NAME = rf"{_EXACT}|(?:[lL][iI][bB][xX][cC]:)?(?:[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9]+)*|\d+(?![\d.]))"
_SETTING = rf"\s*[A-Za-z_]\w*\s*=\s*[+-]?{_NUMBER}\s*"
_ONE = rf"(?P<name>{_NAME})(?:\s*\((?P<settings>{_SETTING}(?:[,;]{_SETTING})*)\))?"
_TERM = re.compile(
    rf"\s*(?P<sign>[+-]?)\s*(?:(?P<before>{_NUMBER})\s*\*\s*)?{_ONE}(?:\s*\*\s*(?P<after>{_NUMBER}))?\s*"
)
_EXCHANGE = ("lda_x_", "gga_x_", "mgga_x_", "hyb_gga_x_", "hyb_mgga_x_", "lda_k_", "gga_k_", "mgga_k_", "")
_CORRELATION = ("lda_c_", "gga_c_", "mgga_c_", "")
_COMBINED = ("", "lda_xc_", "gga_xc_", "mgga_xc_", "hyb_lda_xc_", "hyb_gga_xc_", "hyb_mgga_xc_")

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
_COMBINED_ALIASES = {"pbe1pbe": "pbe0", "b3lypg": "b3lyp"}
_COMBINATIONS = {name.replace("_", ""): meaning for name, meaning in COMBINATIONS.items()}
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


@parses_expressions
def parse(text: str) -> Functional:
    """The Functional that an expression stands for."""
    shown = text.strip()
    if not shown:
        raise FunctionalError("the functional is empty; give a name such as 'pbe'.")
    if len(shown) > MAX_LENGTH:
        raise FunctionalError(f"a functional of {len(shown)} characters was given; {MAX_LENGTH} are allowed.")
    base, version = split_dispersion(shown)
    if version is not None:
        return _corrected(base, version).named(shown.lower())
    sides = [side.strip() for side in split_outside(shown, ",")]
    if len(sides) > 2:
        raise FunctionalError(f"functional {shown!r} has several commas; 'exchange, correlation' expected.")
    if len(sides) == 1:
        return _sum(shown, _combined, shown).named(shown.lower())
    exchange, correlation = sides
    parts = [_sum(exchange, _exchange, shown)] if exchange else []
    parts += [_sum(correlation, _correlation, shown)] if correlation else []
    if not parts:
        raise FunctionalError("the functional is ','; give a name on one side of the comma at least.")
    whole = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return whole.named(shown.lower())


def split_outside(text: str, separator: str) -> list[str]:
    """Parts of a text between separators that stand in no brackets."""
    return re.split(rf"{separator}(?![^()]*\))", text)


def _corrected(base, version) -> Functional:
    """The functional that a dispersion correction goes with, with the correction."""
    method = parameter_name(base)
    functional = parse(WITHOUT_VV10.get(method, base))
    if method in WITHOUT_VV10:
        functional = replace(functional, terms=tuple((c, t) for c, t in functional.terms if not t.is_nonlocal))
    return replace(functional, dispersion=(version, method))


def _sum(text, resolve, shown) -> Functional:
    terms: list[Functional] = []
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
            factor *= float(number) if number else 1.0
        factor = -factor if match["sign"] == "-" else factor
        term = _exact(match["name"]) or _numbered(match["name"]) or resolve(match["name"].lower().replace("-", ""))
        term = term.with_parameters(**_settings(match["settings"]))
        terms.append(term if factor == 1 else factor * term)
        position = match.end()
    return functools.reduce(operator.add, terms)


def _settings(text) -> dict[str, float]:
    """{parameter: number} of 'kappa=0.9, mu=0.2'."""
    pairs = [word.split("=") for word in re.split("[,;]", text or "") if word]
    settings = {name.strip(): float(number) for name, number in pairs}
    if len(settings) < len(pairs):
        raise FunctionalError(f"({text}): one value for each parameter expected.")
    return settings


def _exact(name) -> Functional | None:
    """Range-separated exact exchange, in PySCF's notation; None for any other name."""
    if "(" not in name:
        return None
    kind, numbers = name.lower().replace("_", "").rstrip(")").split("(")
    try:
        values = [float(v) for v in numbers.split(";")]
    except ValueError:
        values = []
    if len(values) != (3 if kind == "rsh" else 1):
        raise FunctionalError(
            f"{name!r} can't be read; rsh(alpha; beta; omega), sr_hf(omega) or lr_hf(omega) expected."
        )
    if kind == "rsh":
        alpha, beta, omega = values
        return (alpha + beta) * exact_exchange - beta * long_range_exchange(omega)
    long_range = long_range_exchange(values[0])
    return long_range if kind == "lrhf" else exact_exchange - long_range


def _numbered(name) -> Functional | None:
    """The functional of a libxc number; None for a name."""
    number = name.lower().removeprefix(catalogue.PREFIX)
    if not number.isdigit():
        return None
    known = catalogue.name_of(int(number))
    if known is None:
        raise FunctionalError(f"libxc 6.0 has no functional of number {number}.")
    return catalogue.find(known) if number != name else lookup(known) or catalogue.find(known)


def _first(name, prefixes, aliases) -> Functional | None:
    """The functional called `name` after one of the prefixes: a registered one, else one of libxc's catalogue."""
    if name.startswith(catalogue.PREFIX):
        return _catalogued(name.removeprefix(catalogue.PREFIX), prefixes)
    return _registered(name, prefixes, aliases) or _catalogued(name, prefixes)


def _catalogued(name, prefixes):
    return next(filter(None, (catalogue.find(prefix + name) for prefix in prefixes)), None)


def _registered(name, prefixes, aliases):
    """Underscores may be left out, as in PySCF."""
    if name in aliases:
        return lookup(aliases[name])
    found = next(filter(None, (lookup(prefix + name) for prefix in prefixes)), None)
    if found is None:
        plain = {known.replace("_", ""): known for known in list_functionals()}
        wanted = ((prefix + name).replace("_", "") for prefix in prefixes)
        found = next((lookup(plain[text]) for text in wanted if text in plain), None)
    return found


def _required(name, found) -> Functional:
    if found is None:
        raise unknown_name(name)
    return found


def _exchange(name):
    """Before a comma, 'pbe' is gga_x_pbe."""
    return _without(("_c_", "_xc_"), _required(name, _first(name, _EXCHANGE, _EXCHANGE_ALIASES)), name)


def _correlation(name):
    """After a comma, 'pbe' is gga_c_pbe."""
    return _without(("_x_", "_xc_"), _required(name, _first(name, _CORRELATION, _CORRELATION_ALIASES)), name)


def _without(unwanted, found, name):
    """`found`, unless it holds exchange on the side of correlation or the other way round."""
    if any(part in term.name for _, term in found.terms for part in unwanted):
        raise FunctionalError(
            f"{name!r} is not exchange alone or correlation alone, as a side of the comma has to be; it consists of "
            f"{', '.join(term.name for _, term in found.terms)}. Write it without a comma."
        )
    return found


def _combined(name):
    """A registered name or combination; failing that, exchange alone (PySCF's reading of 'lda' or 'b88')."""
    found = _registered(name, _COMBINED, _COMBINED_ALIASES)
    meaning = _COMBINATIONS.get(name.replace("_", ""))
    if found is None and meaning is not None:
        return parse(meaning).settled().named(name)
    found = found or _first(name, _COMBINED, {}) or _first(name, _EXCHANGE, _EXCHANGE_ALIASES)
    if found is None and _first(name, _CORRELATION, _CORRELATION_ALIASES) is not None:
        raise FunctionalError(
            f"{name!r} is correlation alone: write ',{name}' for it, or an exchange functional before the comma, as in "
            f"'b88,{name}'."
        )
    return _required(name, found)


PARTS = {"vv10": "gga_xc_vv10", "rvv10": None, "vdw_df_nl": "vdw_df", "vdw_df2_nl": "vdw_df2"}
"""Nonlocal correlation that is registered by itself, and the name of a whole functional with it."""


def refuse_part(spec, functional: Functional) -> None:
    """Raise FunctionalError for text that names nonlocal correlation alone, where PySCF's 'vv10' is a whole functional.

    A Functional object that is made of it was put together on purpose.
    """
    names = [term.name for _, term in functional.terms]
    if isinstance(spec, str) and names and set(names) <= set(PARTS) and not functional.exact_exchange:
        whole = PARTS[names[0]]
        other = f"the whole functional is {whole!r}; " if whole else ""
        raise FunctionalError(
            f"functional {spec.strip()!r} is nonlocal correlation alone, without exchange: {other}add "
            f"it to another, as in 'pbe + 1.0*{names[0]}', or give dftfd.get_functional({names[0]!r}) if it is meant."
        )
