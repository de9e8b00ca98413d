"""Values of options: what they can be, how they are written as text, and what a molecule says to them."""

import os
import re
import string
import sys
from collections.abc import Mapping
from numbers import Real
from pathlib import Path

import numpy as np

from dftfd.errors import InputError, shown
from dftfd.runtime.arguments import Kind, accepted, anything, array, choice, each, either, number, path, text, whole
from dftfd.runtime.chosen_terms import ChosenTerm
from dftfd.runtime.memory import memory_size
from dftfd.runtime.written_numbers import UnclearNumber, as_whole, real, reals, separated
from dftfd.system.comment_line import unit_of
from dftfd.system.geometry import read_text

_SETTINGS_OF_JAX = {
    "jax_check_tracer_leaks": (False,),
    "jax_no_tracing": (False,),
    **{f"jax_error_checking_behavior_{kind}": ("ignore",) for kind in ("nan", "divide", "oob")},
    "jax_transfer_guard": ("allow", "log", "log_explicit"),
}
"""What of JAX's settings for finding mistakes is refused, and what it can be."""

SMEARINGS = ("fermi", "gaussian")
SOLVENT_MODELS = ("cpcm", "cosmo", "iefpcm", "ssvpe", "smd")
LARGEST_CONSTANT, LONGEST_NAME = 1e12, 80
LENGTHS = {"bohr": 1.0, "angstrom": 1 / 0.52917721092}
"""Units of the positions of charges, in bohr: PySCF's, which is not loaded where options are read."""

NEARLY = 1.05
"""By how much an optical dielectric constant may be above the static one: those of hydrocarbons are equal but for the
measurements (undecane 1.04 in the Minnesota database)."""


def _grid(value):
    """(points (n, 3), weights (n,)) from such a pair, a Grid, or rows (x, y, z, weight)."""
    if isinstance(value, np.ndarray) and value.ndim == 2:
        value = value[:, :3], value[:, 3:].ravel()
    elif hasattr(value, "points") and hasattr(value, "weights"):
        value = value.points, value.weights
    points, weights = value
    points, weights = array(None, 3).convert(points), array(None).convert(weights)
    if len(points) != len(weights) or not len(points):
        raise InputError(f"grid has {len(points)} points and {len(weights)} weights; give one weight for each point.")
    return points, weights


def _point_charges(value):
    """Rows (charge, x, y, z) in bohr; None for none."""
    is_pair = isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], str)
    value, unit = value if is_pair else (value, "bohr")
    factor = LENGTHS[choice(*LENGTHS).convert(unit)]
    rows = array().convert(value)
    return array(None, 4).convert(rows) * [1.0, factor, factor, factor] if rows.size else None


def _smearing(value):
    kind, width = value if isinstance(value, tuple | list) and len(value) == 2 else ("fermi", value)
    return choice(*SMEARINGS).convert(kind), number(lambda w: w > 0).convert(width)


def _solvent(value):
    """A name, a dielectric constant, or the static and the optical one."""
    if isinstance(value, str):
        name = text.convert(value).strip()
        return accepted(0 < len(name) <= LONGEST_NAME, name)
    constant = number(lambda epsilon: 1.0 < epsilon <= LARGEST_CONSTANT)
    if isinstance(value, tuple | list):
        static, optical = map(constant.convert, value)
        if optical > NEARLY * static:
            raise InputError(
                f"solvent={shown(value)}: the optical dielectric constant {optical:g}, the square of the index of "
                f"refraction, is above the static one, {static:g}; give the static one first, as in (78.4, 1.78)."
            )
        return static, optical
    return constant.convert(value)


def _guess(value):
    if isinstance(value, str):
        return text.convert(value)
    return path.convert(value) if isinstance(value, os.PathLike) else anything.convert(value)


def _memory(value):
    memory_size(value)
    return str(value) if isinstance(value, str) else float(value)


def not_negative(unit, example):
    return number(lambda x: x >= 0, f"a number{unit} of at least 0, such as {example}")


_COLUMNS = {"q": "charge", "charges": "charge", "w": "weight", "weights": "weight"}


def rows_of_text(words: str) -> list[list[float]]:
    """Rows of numbers between semicolons, '1 0 0 5; -1 0 0 -5', or the lines of a file of that name."""
    return _rows(_lines(words)[0])


def _lines(words, columns=""):
    """(rows between semicolons, remarks) of a text, or of the file of that name.

    columns: their names in order, 'x y z weight', which no heading of the file may contradict.
    """
    if ";" in words or not Path(words).is_file():
        return words, []
    lines = [line.partition("#") for line in read_text(words, "rows of numbers").splitlines()]
    remarks = [remark.strip() for _, _, remark in lines]
    for remark in remarks if columns else ():
        _require_heading(remark, columns.split(), words)
    return ";".join(line for line, _, _ in lines), remarks


def _rows(words) -> list[list[float]]:
    if not (rows := [reals(row) for row in words.split(";") if row.strip()]):
        raise UnclearNumber("there are no numbers in it")
    return rows


def _require_heading(remark, columns, path):
    """InputError for a remark that names the columns in another order."""
    named = [_COLUMNS.get(word, word) for word in re.findall("[a-z]+", remark.lower())]
    named = [word for word in dict.fromkeys(named) if word in columns]
    if len(named) == len(columns) and named != columns:
        raise InputError(f"{path}: the columns are {', '.join(named)}; {', '.join(columns)} expected.")


_UNIT_BEHIND = re.compile(r"[\s,;]+[(\[]?([^\W\d]+)[)\]]?\s*$")
_OF_COLUMNS = r"units?|weights?|coordinates?|positions?|charges?|columns?|all|and|the|in|are|is|e|q|x|y|z|xyz"
_HEADING = re.compile(
    rf"(?:[^a-zå]*(?:{_OF_COLUMNS}|bohrs?|[aå]ngstr(?:[oö]|oe)ms?|angs?|å|a\.u|a)(?![a-z]))+[^a-z]*", re.I
)
_SHORT = re.compile(r"(?<![\w.])(?:(?i:angs?|[aå]ngstr(?:[oö]|oe)ms?)|A|Å)(?!\w)")
"""Angstrom, in headings of columns alone: elsewhere A is a name or an article."""


_OTHER_UNIT = re.compile(r"(?<![\w.])(?:pm|nm|(?:pico|nano)met(?:er|re)s?)(?!\w)")


def _is_heading(remark) -> bool:
    """Whether a remark says nothing but what the columns are and their unit."""
    return bool(_HEADING.fullmatch(remark))


def _unit_of_remark(remark, words) -> str | None:
    """'bohr' or 'angstrom' where a remark of a file of rows names it."""
    if other := _OTHER_UNIT.search(remark):
        raise InputError(f"{words}: the remark {shown(remark)} names {other[0]}; bohr or angstrom expected.")
    is_short = _is_heading(remark) and _SHORT.search(remark)
    return unit_of(remark, words) or ("angstrom" if is_short else None)


def charges_of_text(words):
    """Rows of charges in bohr, or in the unit that stands behind them or in a remark of their file."""
    lines, remarks = _lines(words, "charge x y z")
    if (behind := _UNIT_BEHIND.search(lines)) and behind[1].lower() in LENGTHS:
        lines, remarks = lines[: behind.start()], [behind[1]]
    named = {remark: _unit_of_remark(remark, shown(words)) for remark in remarks}
    if odd := next((remark for remark in named if named[remark] == "angstrom" and not _is_heading(remark)), None):
        raise UnclearNumber(f"its remark {shown(odd)} mentions angstrom: is that their unit? Say # angstrom or # bohr")
    units = {unit for remark, unit in named.items() if unit and _is_heading(remark)}
    if len(units) > 1:
        raise UnclearNumber(f"its remarks name two units, {' and '.join(sorted(units))}")
    return (_rows(lines), *units) if units else _rows(lines)


def grid_of_text(words):
    lines, remarks = _lines(words, "x y z weight")
    if remark := next((remark for remark in remarks if _unit_of_remark(remark, words) == "angstrom"), None):
        raise InputError(f"{words}: {shown(remark)}: positions in bohr expected.")
    return np.array(_rows(lines))


def row_of_text(words):
    (row,) = rows_of_text(words)
    return row


def occupations_of_text(words):
    rows = rows_of_text(words)
    return rows[0] if len(rows) == 1 else rows


def atoms_of_text(words):
    return words if words.strip().isalpha() else [as_whole(word) for word in separated(words)]


def solvent_of_text(words):
    """A name, or one or two numbers."""
    if any(real(word) is None for word in separated(words)):
        return words
    numbers = tuple(reals(words))
    return numbers if len(numbers) > 1 else numbers[0]


def smearing_of_text(words):
    rest = words.lstrip().lstrip(string.ascii_letters)
    kind = words[: len(words) - len(rest)].strip()
    (width,) = reals(rest)
    return (kind, width) if kind else width or None


MEMORY = Kind("a number of MB, or text such as '800 MB' or '4 GB'", _memory)
GUESS = Kind("a name, a file, a result or a matrix", _guess)
GRID = Kind("a pair (points (n, 3), weights (n,)) of finite numbers, or a Grid of dftfd.molecular_grid", _grid)
CHARGES = Kind(
    "rows (charge, x, y, z) of finite numbers, positions in bohr, or a pair (rows, 'angstrom')", _point_charges
)
SMEARING = Kind(
    "a positive number of hartree, such as 0.01, or a pair such as ('gaussian', 0.01); a kind is one of "
    + ", ".join(SMEARINGS),
    _smearing,
)
SOLVENT = Kind(
    "the name of a solvent, such as 'water', its dielectric constant above 1 (1e10 for a conductor), or a pair of it "
    "and the optical one, such as (78.4, 1.78)",
    _solvent,
)
TERMS = each(
    Kind("code of a molecule that gives a dftfd.terms.Term, or the name of a registered one", ChosenTerm.of),
    expected="a list of terms of the energy: classes, functools.partial of them, or registered names",
)
_SPIN_OCCUPATIONS = each(number(lambda n: n >= 0))
OCCUPATIONS = either(_SPIN_OCCUPATIONS, each(_SPIN_OCCUPATIONS), expected="a list of numbers for each spin")
SYMMETRY = either(choice("mix"), each(whole(0)), expected="'mix', or indices of atoms")


def plain_value(value):
    """Plain data for a checked value; points and weights become rows."""
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return np.column_stack(value)
    if isinstance(value, tuple) and value and isinstance(value[0], ChosenTerm):
        return list(map(str, value))
    return value


def for_json(value):
    """What JSON takes for an array, a mapping or a path."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path | ChosenTerm):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not one")


def same_value(a, b) -> bool:
    """Whether two checked values are equal, arrays by their elements."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return a == b


def require_settings_of_jax() -> None:
    """Raise InputError where JAX was told, after the import of dftfd, what no calculation gets through."""
    config = sys.modules["jax"].config  # options themselves are read before JAX is loaded
    if not config.jax_enable_x64:  # type: ignore[attr-defined]  # JAX does not declare its flags
        raise InputError(
            "JAX's 64-bit mode is off, but dftfd computes in float64; "
            "jax.config.update('jax_enable_x64', True) turns it on again."
        )
    for name, allowed in _SETTINGS_OF_JAX.items():
        if (value := getattr(config, name, None)) not in (None, *allowed):
            raise InputError(
                f"JAX's setting {name}={value!r} stops every calculation; jax.config.update({name!r}, "
                f"{allowed[0]!r}) works with dftfd."
            )


def method_for(method: str, spin: int) -> str:
    """'RKS', 'UKS' or 'ROKS' for a molecule's spin; 'auto' is RKS for spin 0."""
    if method == "auto":
        return "RKS" if spin == 0 else "UKS"
    if method == "RKS" and spin != 0:
        raise InputError(f"RKS needs spin 0, but the molecule has spin {spin}; use method='UKS', 'ROKS' or 'auto'.")
    return method


def occupations_for(occupations, n_spin: int, capacity: int):
    """Per spin a tuple of occupation numbers from 0 to `capacity`; None stays None. One flat list suits one spin."""
    if occupations is None:
        return None
    if n_spin == 1 and all(isinstance(n, Real) for n in occupations):
        occupations = (occupations,)
    if len(occupations) != n_spin or any(isinstance(spin, Real) for spin in occupations):
        raise InputError(f"occupations are given for {len(occupations)} spins, expected {n_spin}.")
    wrong = [n for spin in occupations for n in spin if not 0 <= n <= capacity]
    if wrong or not any(n > 0 for spin in occupations for n in spin):
        raise InputError(
            f"occupations must lie between 0 and {capacity} and not all vanish; found {shown(wrong or occupations)}."
        )
    return occupations
