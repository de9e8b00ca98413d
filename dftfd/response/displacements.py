r"""Second derivatives by the nuclei as differences of forces between displaced geometries, each solved anew.

    d2E/dR_a dR_b = -(F_a(R_b + h) - F_a(R_b - h)) / 2h,   error h^2 F''' / 6, or from four points h^4 F^(5) / 30

It serves every energy that has forces. Dipole moments and polarisabilities at the same geometries give their
derivatives at no more cost, or at that of their responses. What is computed is on disk after each displacement.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dftfd.errors import CheckpointError, DamagedFileError, InputWarning
from dftfd.model.forces import nuclear_forces
from dftfd.model.identity import identity_of, require_energy_again
from dftfd.model.nearby import solution_at
from dftfd.model.option_values import for_json
from dftfd.model.options import ENERGY, SEARCH, STATE
from dftfd.model.solved_calculation import SolvedCalculation
from dftfd.response.differences import Differences
from dftfd.response.kept_functions import require_same_number
from dftfd.response.polarizability import polarizabilities
from dftfd.runtime.hdf5 import MAGIC, read_tree
from dftfd.runtime.json_reader import as_json, parse_json
from dftfd.runtime.progress import Progress
from dftfd.runtime.records import Record, recorded
from dftfd.scf.convergence import Convergence

CLOSE = {"energy": 1e-10, "orbital_gradient": 1e-9}
"""Convergence at displaced geometries [hartree]: what is left of the orbital gradient enters forces to first order."""


class Displacements:
    """What is known at displaced geometries: rows of forces, dipole moment and, where wanted, polarisability."""

    def __init__(self, result: SolvedCalculation, differences: Differences, record: Record):
        n = result.molecule.n_atoms
        self.done = np.zeros(3 * n * differences.points, dtype=bool)
        self.rows = np.zeros((len(self.done), 3 * n + 3 + (9 if differences.raman else 0)))
        self._record = record
        if not record.pieces:
            record.add({"energy": result.energy})
        for k, piece in enumerate(record.pieces):
            try:
                self._take(piece, k, result)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise record.damaged(k, error) from error

    def _take(self, piece, k, result: SolvedCalculation):
        if k == 0:
            require_energy_again(self._record.path, piece["energy"], result.energy, result.settings.options.conv_tol)
            return
        number, row = int(piece["number"]), np.array(piece["row"], dtype=float)
        if number < 0 or row.shape != self.rows[number].shape or not np.isfinite(row).all():
            raise ValueError(f"row {number}")
        self.rows[number], self.done[number] = row, True

    def add(self, number: int, row) -> None:
        """A displacement is done."""
        self.rows[number], self.done[number] = row, True
        self._record.add({"number": number, "row": row.tolist()})


@contextmanager
def recorded_displacements(
    result: SolvedCalculation, differences: Differences, path, restart: bool
) -> Iterator[Displacements]:
    """Those of a result, in the record of that path where there is one."""
    options = replace(result.settings.options, xc=result.functional)
    identity = identity_of(result.molecule, options, ENERGY, STATE, SEARCH)
    identity |= {"differences": f"{differences}{', raman' if differences.raman else ''}"}
    earlier = partial(_of_hdf5, path, result, differences)
    with recorded(path, "displacements of nuclei", identity, restart, earlier) as record:
        yield Displacements(result, differences, record)


def _of_hdf5(path, result: SolvedCalculation, differences, content) -> list[dict] | None:
    """The pieces in a file of an earlier version, HDF5, which did not hold the program of the formula."""
    if not content.startswith(MAGIC):
        return None
    part: Any = read_tree(path, "a record of displacements").get("displacements")
    try:
        if parse_json(part["identity"]) != _earlier_identity(result, differences):
            raise CheckpointError(
                f"{path} is the record of another molecule, geometry, model or step; take another name."
            )
        rows = zip(part["done"].tolist(), part["rows"].tolist(), strict=True)
        pieces = [{"number": number, "row": row} for number, (done, row) in enumerate(rows) if done > 0]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFileError(f"{path} holds no record of displacements: {error!r}.") from error
    said = f"{path} is of an earlier version, which compared energy and options, not the formula itself."
    warnings.warn(said, InputWarning, stacklevel=2)
    return [{"energy": result.energy}, *pieces]


def _earlier_identity(result: SolvedCalculation, differences):
    molecule, options = result.molecule, result.settings.options.plain(ENERGY, STATE)
    names = ("symbols", "charge", "spin", "cartesian", "ghost", "atom_basis", "atom_ecp")
    potential = result.calculation.surroundings.potential
    known = {
        "molecule": {name: getattr(molecule, name) for name in names},
        "coordinates": molecule.coordinates.round(8).tolist(),
        "options": options,
        "functional": result.settings.definition,
        "potential": None if potential is None else potential.name,
        "energy": round(result.energy, 6),
        "differences": [differences.points, differences.step, differences.raman],
    }
    return as_json(known, for_json)


def by_differences(
    result: SolvedCalculation, differences: Differences, record: Displacements, progress: Progress
) -> dict[str, Any]:
    """hessian (atom, 3, atom, 3), dipole_derivatives (atom, 3, 3) and polarizability_derivatives of a result.

    The last axes of the derivatives are those of dipole moment and polarisability; None where they are not wanted.
    Raises NotConvergedError where the SCF at a displaced geometry does not converge.
    """
    n = result.molecule.n_atoms
    shape = 3 * n, differences.points
    thresholds = Convergence(CLOSE["energy"], result.settings.options.max_cycles, CLOSE["orbital_gradient"])
    with progress.stage("displacements"):
        for number, (coordinate, place) in enumerate(np.ndindex(shape)):
            if not record.done[number]:
                x = result.molecule.coordinates.copy()
                x[divmod(coordinate, 3)] += differences.shifts[place] * differences.step
                displaced = solution_at(result, x, thresholds, Progress())
                require_same_number(displaced, result, f"displacement {number + 1}")
                record.add(number, _row(displaced, differences.raman))
                progress.note(f"displacement {number + 1} of {len(record.rows)}")
            progress.part(number + 1, len(record.rows))
    slopes = np.stack([differences.derivative(rows) for rows in record.rows.reshape(*shape, -1)])
    forces, dipole, polarizability = np.split(slopes, [3 * n, 3 * n + 3], axis=1)
    return {
        "hessian": -forces.reshape(n, 3, n, 3),
        "dipole_derivatives": dipole.reshape(n, 3, 3),
        "polarizability_derivatives": polarizability.reshape(n, 3, 3, 3) if differences.raman else None,
    }


def _row(displaced, raman) -> np.ndarray:
    """Forces, dipole moment and polarisability at a displaced geometry in one row."""
    parts = [nuclear_forces(displaced, progress=Progress()).values.ravel(), displaced.dipole]
    if raman:
        parts.append(polarizabilities(displaced, [0.0], Progress())[0].ravel())
    return np.concatenate(parts)
