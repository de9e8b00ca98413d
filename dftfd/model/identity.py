"""What the numbers of a calculation depend on, by name, so that a record of another one is not gone on from."""

import os
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dftfd.errors import CheckpointError, FileError, InputError, shown
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.model.option_values import plain_value
from dftfd.model.options import ENERGY, SEARCH, START, STATE, Options
from dftfd.runtime.files import read_bytes
from dftfd.runtime.records import DIGITS, checksum, digest
from dftfd.runtime.version import VERSION
from dftfd.system.molecule import Molecule
from dftfd.terms.external import checked_potential

PATIENCE = {"max_cycles", "allow_unconverged"}
"""Options that change no number of a converged calculation; what has not converged goes on with more of them."""

SAME_ENERGY = 1e-6
"""Hartree by which an energy that is computed again may differ from a recorded one, at the default threshold."""

LONGEST, MAX_GUESS = 60, 16 * 2**30


def formula_of(functional) -> dict[str, str]:
    """What a functional is: its name, and a digest of formulas, parameters and terms."""
    return {"functional": functional.name, "formula": f"#{program_fingerprint(functional)[:DIGITS]}"}


def versions() -> dict[str, str]:
    """What computes: dftfd, JAX, which traces formulas to programs, PySCF with integrals and basis sets."""
    return {"version": VERSION, "JAX": jax.__version__, "PySCF": metadata.version("pyscf")}


def identity_of(molecule: Molecule, options: Options, *decide: str) -> dict[str, Any]:
    """Identity of a calculation; decide: which options count, by what they decide."""
    return identity_of_options(options, [molecule], *decide) | identity_of_molecule(molecule)


def identity_of_options(options: Options, molecules: Sequence[Molecule], *decide: str) -> dict[str, Any]:
    """Versions, functional, and options that are not the default, of calculations of molecules.

    decide: which options count, by what they decide, by default all that numbers depend on.
    """
    given = options.changed(*(decide or (ENERGY, STATE, START, SEARCH)))
    potential = checked_potential(given.pop("external_potential", None))
    found = versions() | formula_of(get_functional(given.pop("xc", options.xc)))
    if chosen := given.pop("terms", ()):
        found["terms"] = "; ".join(map(str, chosen))
        found["terms' code"] = digest([term.fingerprint(molecule) for term in chosen for molecule in molecules])
    if potential is not None:
        values = [[f"{value:.9e}" for value in potential.fingerprint(molecule)] for molecule in molecules]
        found["external potential"] = digest([potential.on_nuclei, values])
    return found | {name.replace("_", " "): short(name, given[name]) for name in given if name not in PATIENCE}


def identity_of_molecule(molecule: Molecule) -> dict[str, Any]:
    """Atoms, positions, charge, spin and basis functions."""
    atoms = " ".join(
        f"ghost-{name}" if ghost else name for name, ghost in zip(molecule.labels, molecule.ghost, strict=True)
    )
    functions = [molecule.symbols, molecule.atom_basis, molecule.atom_ecp, molecule.cartesian]
    return {
        "atoms": atoms if len(atoms) <= LONGEST else digest(atoms),
        "positions": digest(np.round(molecule.coordinates, 8)),
        "charge": molecule.charge,
        "spin": molecule.spin,
        "basis": molecule.basis,
        "basis functions": digest(functions),
    }


def short(name: str, value):
    """A value of an option as identities hold it; InputError for what has no contents that can be told."""
    try:
        return _plain(value, name == "guess")
    except FileError:
        raise
    except Exception as error:  # of an object that a user gave
        raise InputError(
            f"{name}={shown(value)} cannot be kept in a record; numbers, text, a file or a result expected."
        ) from error


def _plain(value, is_guess):
    """Files and results that a calculation starts from by what is in them."""
    if isinstance(value, Path) or is_guess and isinstance(value, str) and os.path.isfile(value):
        return f"#{checksum(read_bytes(value, MAX_GUESS))}"
    value = plain_value(getattr(value, "density_matrix", value))
    if isinstance(value, bool | int | float | str):
        return value
    rows = value.tolist() if isinstance(value, np.ndarray) else value
    text = repr(rows)
    return text if len(text) <= LONGEST else digest(rows)


def require_energy_again(path, there: float, here: float, conv_tol: float) -> None:
    """CheckpointError unless a recorded energy is found again.

    So nothing is mixed that no identity tells apart: other solutions of the same equations, other libraries.
    """
    if not abs(here - there) <= max(SAME_ENERGY, 10 * conv_tol):
        raise CheckpointError(
            f"{path}: the last recorded energy is {there:.8f}, and {here:.8f} hartree now: another calculation, or "
            "another solution of it; take another name."
        )
