"""ASE's Atoms as a geometry: symbols, positions, and what they say of charge, spin and isotopes."""

from dataclasses import replace
from typing import Any

import numpy as np

from dftfd.errors import InputError, UnsupportedError, shown
from dftfd.system.columns import told_of_sums
from dftfd.system.comment_line import said_behind
from dftfd.system.geometry import Geometry, parse_atom_list
from dftfd.system.molfile import warn_of_isotopes

_WORDS = {"charge": ("charge",), "spin": ("spin", "multiplicity")}
_USUAL: dict[str, tuple] = {"charge": (0,), "spin": (0, 1), "multiplicity": (1,)}
"""Entries of info that programs understand differently, and their values that say nothing."""


def is_ase_atoms(source) -> bool:
    """True for an object with the methods of `ase.Atoms` that are read here, so that ASE itself is not needed."""
    return all(hasattr(source, name) for name in ("get_chemical_symbols", "get_positions", "get_pbc"))


def from_ase(atoms) -> Geometry:
    """Symbols and positions [angstrom] of an ASE Atoms; element 'X' is refused, periodic directions too.

    Initial charges and magnetic moments that are not zero say the molecule's charge and spin, by their sums. Entries of
    info, other columns and a calculator's magnetic moment only mention them.
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
    said: dict[str, Any] = {"charge": _sum_of(atoms, "charges"), "spin": _sum_of(atoms, "magnetic_moments")}
    mentions = {name: word for name, word in _mentions(atoms).items() if said[name] is None}
    return replace(found, **said, mentions=mentions)


def _mentions(atoms) -> dict[str, str]:
    """Words about charge and spin by what they are about."""
    info = {str(key).lower(): value for key, value in getattr(atoms, "info", {}).items()}
    known = [word for words in _WORDS.values() for word in words]
    plain = {key: value for key, value in info.items() if key not in known and np.ndim(value) == 0}
    found = said_behind(f"{key}={value}" for key, value in plain.items() if not isinstance(value, str | bool))
    columns = {name: column for name, column in getattr(atoms, "arrays", {}).items() if np.ndim(column) == 1}
    found |= told_of_sums({name: list(column) for name, column in columns.items() if column.dtype.kind in "iuf"})
    moment = getattr(getattr(atoms, "calc", None), "results", {}).get("magmom", 0.0)
    if np.ndim(moment) == 0 and abs(moment) > 0.5:
        found["spin"] = f"magmom of its calculator {moment:g}"
    for name, words in _WORDS.items():
        for word in words:
            if word in info and info[word] not in _USUAL[word]:
                found[name] = f"info {word}={shown(info[word], 20)}"
    return found


def _sum_of(atoms, name) -> int | None:
    """The sum of an ASE Atoms' initial charges or moments, None where all are zero."""
    values = np.asarray(getattr(atoms, f"get_initial_{name}", lambda: 0.0)(), dtype=float)
    if not np.any(values):
        return None
    total = float(values.sum())
    if values.ndim > 1 or not abs(total - round(total)) < 1e-3:
        raise InputError(
            f"the initial {name.replace('_', ' ')} of these ASE Atoms add up to {shown(total)}, no whole number: set "
            f"them to what the molecule has, or to zero, by set_initial_{name}()."
        )
    return round(total)
