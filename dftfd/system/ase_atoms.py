"""ASE's Atoms: symbols and positions, and what they say of charge and spin, without ASE itself."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dftfd.errors import InputError, InputWarning, UnsupportedError, shown
from dftfd.runtime.written_numbers import real
from dftfd.system.columns import told_of_sums, warn_of_constraints
from dftfd.system.comment_line import said_behind, said_in, unit_of
from dftfd.system.geometry import Geometry, parse_atom_list
from dftfd.system.molfile import warn_of_isotopes

_WORDS = {"charge": ("charge",), "spin": ("spin", "multiplicity")}
_OF_ELECTRONS = re.compile(r"\s*(?:[0-9][+-]|(?:doub|trip|quart|quint|sext|sept)let)\s*", re.I)
_USUAL: dict[str, tuple] = {"charge": (0,), "spin": (0, 1), "multiplicity": (1,)}
"""Entries of info that programs understand differently, and their values that say nothing."""


def is_ase_atoms(source) -> bool:
    """True for an object with the methods of `ase.Atoms` that are read here, so that ASE itself is not needed."""
    return all(hasattr(source, name) for name in ("get_chemical_symbols", "get_positions", "get_pbc"))


def from_ase(atoms) -> Geometry:
    """Symbols and positions [angstrom] of an ASE Atoms; element 'X' is refused, periodic directions too.

    Initial charges and magnetic moments that are not zero say the molecule's charge and spin, by their sums. Entries of
    info, other columns and a calculator's magnetic moment only mention them. Constraints are not read.
    """
    if np.any(atoms.get_pbc()):
        raise UnsupportedError("these ASE Atoms are periodic; only molecules are supported (atoms.pbc = False).")
    positions = np.asarray(atoms.get_positions(), dtype=float)
    symbols = list(atoms.get_chemical_symbols())
    if positions.shape != (len(symbols), 3):
        raise InputError(f"ASE Atoms with {len(symbols)} symbols have positions of shape {positions.shape}.")
    found = parse_atom_list(list(zip(symbols, positions, strict=True)))
    if "masses" in getattr(atoms, "arrays", {}):
        warn_of_isotopes("these ASE Atoms")
    if kinds := dict.fromkeys(type(constraint).__name__ for constraint in getattr(atoms, "constraints", ())):
        warn_of_constraints(f"the constraint of these ASE Atoms ({', '.join(kinds)})")
    said: dict[str, Any] = {"charge": _sum_of(atoms, "charges"), "spin": _sum_of(atoms, "magnetic_moments")}
    moments = _initial(atoms, "magnetic_moments")
    if moments.size and moments.min() < -0.05 and moments.max() > 0.05:
        warnings.warn(
            f"the initial magnetic moments of these ASE Atoms have both signs; only their sum, {said['spin']}, counts: "
            "give method='UKS' and broken_symmetry=[...], the atoms whose spins are down.",
            InputWarning,
            stacklevel=6,
        )
    mentions = {name: word for name, word in _mentions(atoms).items() if said[name] is None}
    return replace(found, **said, mentions=mentions)


def _mentions(atoms) -> dict[str, str]:
    """Words about charge and spin by what they are about."""
    calculator = getattr(atoms, "calc", None)
    columns = dict(getattr(atoms, "arrays", {})) | getattr(calculator, "results", {})
    columns = {name: np.ravel(column) for name, column in columns.items() if np.size(column) == len(atoms)}
    found = told_of_sums({name: list(column) for name, column in columns.items() if column.dtype.kind in "iuf"})
    moment = _plain(getattr(calculator, "results", {}).get("magmom", 0.0))
    if isinstance(moment, int | float) and abs(moment) > 0.5:
        found["spin"] = f"magmom of its calculator {moment:g}"
    for where, entries in (("calculator", getattr(calculator, "parameters", {})), ("info", getattr(atoms, "info", {}))):
        entries = _flat(entries)
        values = {str(key).lower(): _plain(value) for key, value in entries.items()}
        known = {word for words in _WORDS.values() for word in words}
        others = {key: value for key, value in values.items() if key not in known and value is not None}
        others |= {
            k: np.ravel(v).tolist() for k, v in entries.items() if "field" in str(k).lower() and _plain(v) is None
        }
        found |= said_behind(f"{key}={value}" for key, value in others.items())
        for name, words in _WORDS.items():
            for word in (word for word in words if word in values and values[word] not in (None, *_USUAL[word])):
                found[name] = f"{where} {word}={shown(values[word], 20)}"
    return _said_by_flags(getattr(atoms, "info", {})) | found


def _said_by_flags(entries) -> dict[str, str]:
    """What flags of info say, which ASE makes of a comment line: {'O2': True, 'anion': True}.

    InputError for coordinates in bohr or another unit: ASE takes all for angstrom.
    """
    comment, where = " ".join(str(key) for key, value in entries.items() if value is True), "the info of these Atoms"
    if unit_of(comment, where) == "bohr":
        raise InputError(f"{where} says {shown(comment)}: multiply the positions by ase.units.Bohr and leave it out.")
    try:
        said = said_in(comment, where)
    except InputError:
        return {"charge": comment}
    return said["mentions"] | {about: comment for about in ("charge", "spin") if said.get(about)}


def _flat(entries) -> dict:
    """Entries of mappings within mappings, such as key_value_pairs and data of a row of ASE's database."""
    inner = [_flat(value) for value in entries.values() if isinstance(value, Mapping)]
    return {k: v for some in (*inner, entries) for k, v in some.items() if not isinstance(v, Mapping)}


def _plain(value):
    """A number, '2-' or a word of multiplicity, also as the one entry of a list or an array; None for anything else."""
    value = value.tolist() if hasattr(value, "tolist") else value
    while isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        number = real(value.strip())
        return (value if _OF_ELECTRONS.fullmatch(value) else None) if number is None else number
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _initial(atoms, name) -> np.ndarray:
    return np.asarray(getattr(atoms, f"get_initial_{name}", lambda: 0.0)(), dtype=float)


def _sum_of(atoms, name) -> int | None:
    """The sum of an ASE Atoms' initial charges or moments, None where all are zero."""
    values = _initial(atoms, name)
    if not np.any(values):
        return None
    total = float(values.sum())
    if values.ndim > 1 or not abs(total - round(total)) < 1e-3:
        raise InputError(
            f"the initial {name.replace('_', ' ')} of these ASE Atoms add up to {shown(total)}, no whole number: set "
            f"them to what the molecule has, or to zero, by set_initial_{name}()."
        )
    return round(total)
