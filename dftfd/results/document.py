"""What a command prints, as one value that its files hold, too.

A Document has parts: a result, its vibrations, the thermochemistry of one temperature. On the screen and in HTML each
part is its text, in JSON and HDF5 its numbers, with all digits and in the units that are printed.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.errors import FileError
from dftfd.libcint.mole import HARTREE_IN_EV, HARTREE_IN_KJ
from dftfd.model.forces import Forces
from dftfd.properties.moments import DEBYE
from dftfd.response.excitations import Excitations, wavelengths
from dftfd.response.excited_states import ExcitedState
from dftfd.results.result import SCFResult
from dftfd.results.summary import outcome
from dftfd.results.thermochemistry import Thermochemistry
from dftfd.results.vibrations import Vibrations, columns
from dftfd.runtime.documents import read_tree
from dftfd.runtime.json_reader import parse_json, plain_values
from dftfd.scf.stability import Stability


@dataclass(frozen=True)
class Document:
    """parts: by name, in the order in which they are printed; `numbers` knows what each of them prints."""

    parts: Mapping[str, Any]

    def __str__(self):
        return "\n\n".join(map(str, self.parts.values()))

    def numbers(self) -> dict[str, dict]:
        """What is printed as JSON has it: numbers, text, lists of them; null for what is not finite."""
        return {name: plain_values(numbers(part), lambda x: None) for name, part in self.parts.items()}

    def html(self, *without: str) -> str:
        """A section for each part but some, for a page that shows them otherwise."""
        return "\n".join(
            f'<h2>{escape(name.capitalize())}</h2><pre tabindex="0">{escape(str(part).strip())}</pre>'
            for name, part in self.parts.items()
            if name not in without
        )

    def tree(self) -> dict[str, dict]:
        """The group of an HDF5 file, beside what the file is for."""
        return {"document": {"text": str(self), "numbers": json.dumps(self.numbers(), allow_nan=False)}}


@dataclass(frozen=True)
class Said:
    """A line that a command adds.   content: its numbers, by name."""

    text: str
    content: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self):
        return self.text


def read_document(path: Path) -> tuple[str, dict]:
    """Text and numbers of the document in an HDF5 file that a command wrote. FileError for other files."""
    part = read_tree(path).get("document")
    if not isinstance(part, dict) or not {"text", "numbers"} <= set(part):
        raise FileError(f"{path} contains no output of a command; expected a file written by --output.")
    return str(part["text"]), parse_json(part["numbers"])


@singledispatch
def numbers(part: Any) -> dict[str, Any]:
    """What a part prints, in the units in which it does. TypeError for a class that has not said so."""
    raise TypeError(f"{type(part).__name__} does not say which numbers it prints; register it with numbers().")


@numbers.register
def _of_said(part: Said):
    return dict(part.content)


@numbers.register
def _of_result(result: SCFResult):
    last, settings = result.history[-1], result.settings
    found: dict[str, Any] = {
        "charge": result.charge,
        "spin": result.spin,
        "n_electrons": result.n_electrons,
        "cycles": result.cycles,
        "outcome": outcome(result),
        "notes": result.notes,
        "energies_hartree": dict(result.energy_table),
        "energy_hartree": result.energy,
        "grid_level": settings.grid_level,
        "n_points": settings.n_points,
        "auxiliary_basis": settings.auxiliary_basis,
        "electrons_on_the_grid": result.n_electrons_quadrature,
        "model": f"{result.method} {settings.functional} / {settings.basis}",
        "solvent": str(result.calculation.surroundings.solvent or ""),
    }
    if result.entropy_term:
        found |= {"entropy_term_hartree": result.entropy_term, "free_energy_hartree": result.free_energy}
    if not result.converged:
        found |= {"energy_change_hartree": last.energy_change, "gradient_norm_hartree": last.gradient_norm}
    if result.has_properties:
        pairs = result.frontier
        found |= {
            "homo_lumo_hartree": pairs,
            "gap_eV": [None if None in pair else (pair[1] - pair[0]) * HARTREE_IN_EV for pair in pairs],
            "dipole_e_bohr": result.dipole,
            "dipole_length_debye": math.hypot(*result.dipole_debye),
            "s_squared": result.s_squared,
        }
    return found


@numbers.register
def _of_stability(part: Stability):
    return {"internal_hartree": part.internal, "external_hartree": part.external, "noise_hartree": part.noise}


@numbers.register
def _of_forces(part: Forces):
    return {
        "forces_hartree_per_bohr": part.values,
        "net_hartree_per_bohr": part.net,
        "torque_hartree": part.torque,
        "grid_response": part.grid_response,
    }


@numbers.register
def _of_excited_state(part: ExcitedState):
    return {
        "state": part.what,
        "energy_hartree": part.energy,
        "excitation_energy_hartree": part.excitation_energy,
        "dipole_e_bohr": part.dipole,
        "dipole_length_debye": np.linalg.norm(part.dipole) * DEBYE,
        **_of_forces(part.table),
    }


@numbers.register
def _of_vibrations(part: Vibrations):
    return {
        "model": part.what,
        **columns(part),
        "left_out_per_cm": part.rigid if part.free else [],
        "largest_force_hartree_per_bohr": np.linalg.norm(part.forces, axis=1).max(),
        "sum_rule_hartree_per_bohr2": part.sum_rule,
        "method": part.method,
    }


@numbers.register
def _of_thermochemistry(part: Thermochemistry):
    unit = 1e3 * HARTREE_IN_KJ
    return {
        "temperature_K": part.temperature,
        "pressure_Pa": part.pressure,
        "symmetry_number": part.symmetry_number,
        "quasi_harmonic": part.quasi_harmonic,
        "remarks": part.remarks,
        "n_imaginary": part.n_imaginary,
        "parts": {
            name: {
                "internal_energy_hartree": motion.energy,
                "entropy_J_per_mol_K": motion.entropy * unit,
                "heat_capacity_J_per_mol_K": motion.heat_capacity * unit,
            }
            for name, motion in part.parts.items()
        },
        "zero_point_energy_hartree": part.zero_point,
        "energy_at_0_K_hartree": part.energy_at_zero,
        "internal_energy_hartree": part.internal_energy,
        "enthalpy_hartree": part.enthalpy,
        "gibbs_energy_hartree": part.gibbs_energy,
        "entropy_J_per_mol_K": part.entropy * unit,
    }


@numbers.register
def _of_excitations(part: Excitations):
    return {
        "model": part.what,
        "n": len(part),
        "spin": part.spin,
        "tda": part.tda,
        "energies_hartree": part.energies,
        "energies_eV": part.energies * HARTREE_IN_EV,
        "wavelengths_nm": wavelengths(part.energies),
        "oscillator_strengths": part.oscillator_strengths,
        "rotatory_strengths": part.rotatory_strengths,
        "characters": part.characters,
        "converged": part.converged,
        "residuals_hartree": part.residuals,
    }
