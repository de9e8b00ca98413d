"""ASE Atoms, recognised by what they offer, so that ASE itself is not needed."""

import numpy as np

from dftfd.errors import InputError, UnsupportedError
from dftfd.system.geometry import Geometry, parse_atom_list


def is_ase_atoms(source) -> bool:
    """True for an object with the methods of `ase.Atoms` that are read here."""
    return all(hasattr(source, name) for name in ("get_chemical_symbols", "get_positions", "get_pbc"))


def from_ase(atoms) -> Geometry:
    """Symbols and positions [angstrom] of an ASE Atoms; element 'X' is refused, periodic directions too.

    Initial charges and magnetic moments are per-atom guesses in ASE; total charge and spin are given to `molecule`.
    """
    if np.any(atoms.get_pbc()):
        raise UnsupportedError("these ASE Atoms are periodic; only molecules are supported (atoms.pbc = False).")
    positions = np.asarray(atoms.get_positions(), dtype=float)
    symbols = list(atoms.get_chemical_symbols())
    if positions.shape != (len(symbols), 3):
        raise InputError(f"ASE Atoms with {len(symbols)} symbols have positions of shape {positions.shape}.")
    return parse_atom_list(list(zip(symbols, positions, strict=True)))
