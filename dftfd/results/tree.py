"""Results as HDF5 files: what PySCF's own loader reads, and beside it, under /dftfd, everything that makes up a result.

    /mol, /scf                      as in PySCF's checkpoint files: the Mole, e_tot, mo_energy, mo_occ, mo_coeff
    /dftfd/format                   version of this layout
    /dftfd/text                     JSON: molecule, options, settings, energies, steps, notes
    /dftfd/options                  options that are arrays, such as an electric field
    /dftfd/arrays                   float64: coordinates, orbitals, density matrix, SCF table, ...
    /document                       of a command: text that it printed, and its numbers as JSON

No part of a file is ever executed: text is JSON of numbers and names, and formulas are looked up by their names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.interop.mean_field import mole_text, orbital_entries
from dftfd.model.option_values import for_json
from dftfd.model.options import ENERGY, OPTIONS, SEARCH, START, STATE, Options
from dftfd.runtime.arguments import public
from dftfd.runtime.documents import write_tree
from dftfd.scf.convergence import Cycle


@dataclass(frozen=True)
class Settings:
    """What the numbers depend on, as it was used; those of `options` can be asked for here, as in `settings.conv_tol`.

    functional, definition: its name, and the terms, parameters and exact exchange that the name stood for.
    auxiliary_basis: None for exact Coulomb and exchange integrals.   n_points: of the grid.   guess: where it began, in
    words.   versions: package -> version.   nlc_grid_level: None without double integrals.
    """

    options: Options
    functional: str
    definition: Mapping
    basis: str
    auxiliary_basis: str | None
    n_points: int
    guess: str
    versions: Mapping[str, str]
    nlc_grid_level: int | None = None

    @property
    def grid_level(self) -> int | None:
        """None where the points were given."""
        return self.options.grid_level if self.options.grid is None else None

    def __getattr__(self, name):
        if name not in OPTIONS:
            raise AttributeError(f"Settings has no attribute {name!r}")
        return getattr(self.options, name)


FORMAT = 3
MOLECULE_TEXT = ("symbols", "charge", "spin", "cartesian", "ghost", "atom_basis", "atom_ecp", "labels")
SETTINGS_TEXT = tuple(field.name for field in fields(Settings) if field.name != "options")
RESULT_TEXT = ("energy", "energies", "converged", "cycles", "seconds", "entropy_term", "steps")
RESULT_ARRAYS = ("mo_energy", "mo_occ", "mo_coeff", "density_matrix", "n_electrons_quadrature")
CYCLE = tuple(field.name for field in fields(Cycle))


def _table(cycles):
    return np.array([[getattr(cycle, name) for name in CYCLE] for cycle in cycles], dtype=float)


@public
def save_result(result, path: Path, document: Any = None) -> None:
    """Write a result; the file appears whole or not at all. FileError where it cannot be written.

    document: a dftfd.results.document.Document, what a command prints, which the file then holds, too.
    """
    write_tree(path, result_tree(result) | ({} if document is None else document.tree()))


def result_tree(result) -> dict:
    """What the file of a result holds, as nested dictionaries."""
    molecule = result.molecule
    options = result.settings.options.plain(ENERGY, STATE, START, SEARCH)
    arrays_of_options = {name: value for name, value in options.items() if isinstance(value, np.ndarray)}
    text = {
        "molecule": {name: getattr(molecule, name) for name in MOLECULE_TEXT},
        "options": {name: value for name, value in options.items() if name not in arrays_of_options},
        "settings": {name: getattr(result.settings, name) for name in SETTINGS_TEXT},
        "formulas": {"jax": jax.__version__, "fingerprint": program_fingerprint(result.functional)},
        "result": {name: getattr(result, name) for name in RESULT_TEXT},
        "notes": result.notes,
    }
    arrays = {name: getattr(result, name) for name in RESULT_ARRAYS if getattr(result, name) is not None}
    arrays["coordinates"] = molecule.coordinates
    arrays |= {name: _table(cycles) for name in ("history", "preliminary") if (cycles := getattr(result, name))}
    if (potential := result.calculation.surroundings.potential) is not None:
        text["external_potential"] = {"name": potential.name, "on_nuclei": potential.on_nuclei}
        arrays["external_potential"] = potential.fingerprint(molecule)
    if chosen := result.calculation.terms:
        text["terms"] = [term.fingerprint(molecule) for term in chosen]
    part = {"format": FORMAT, "text": json.dumps(text, default=for_json), "arrays": arrays}
    if arrays_of_options:
        part["options"] = arrays_of_options
    return {"mol": mole_text(molecule), "scf": orbital_entries(result), "dftfd": part}
