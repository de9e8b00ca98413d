r"""Second derivatives by the nuclei as differences of forces between displaced geometries, each solved anew.

    d2E/dR_a dR_b = -(F_a(R_b + h) - F_a(R_b - h)) / 2h,   error h^2 F''' / 6, or from four points h^4 F^(5) / 30

It serves every energy that has forces. Dipole moments and polarisabilities at the same geometries give their
derivatives at no more cost, or at that of their responses. What is computed is on disk after each displacement.
"""

import json
import os
from typing import Any

import numpy as np

from dftfd.errors import DamagedFileError, FileError, InputError
from dftfd.model.forces import nuclear_forces
from dftfd.model.nearby import solution_at
from dftfd.model.option_values import for_json
from dftfd.model.options import ENERGY, STATE
from dftfd.response.differences import Differences
from dftfd.response.kept_functions import require_same_number
from dftfd.response.polarizability import polarizabilities
from dftfd.runtime.files import check_writable
from dftfd.runtime.hdf5 import read_tree, write_tree
from dftfd.runtime.progress import Progress
from dftfd.scf.convergence import Convergence

FORMAT = 1
CLOSE = {"energy": 1e-10, "orbital_gradient": 1e-9}
"""Convergence at displaced geometries [hartree]: what is left of the orbital gradient enters forces to first order."""


class Record:
    """What is known at displaced geometries: rows of forces, dipole moment and, where wanted, polarisability."""

    def __init__(self, result, differences: Differences, path, restart: bool):
        n = result.molecule.n_atoms
        self._path, self._width = path, 3 * n + 3 + (9 if differences.raman else 0)
        self._identity = identity_of(result, differences)
        self.done = np.zeros(3 * n * differences.points, dtype=np.int64)
        self.rows = np.zeros((len(self.done), self._width))
        if path is None:
            if restart:
                raise InputError("restart=True needs the record= of the interrupted run.")
            return
        check_writable(path)
        if os.path.exists(path):
            if not restart:
                raise FileError(f"{path} exists: go on from it with restart=True (--restart), or choose another name.")
            self._go_on()

    def _go_on(self):
        part: Any = read_tree(self._path, "a record of displacements").get("displacements")
        try:
            if int(part["format"]) != FORMAT:
                raise FileError(f"{self._path} has format {part['format']}; this version reads format {FORMAT}.")
            identity, done, rows = str(part["identity"]), part["done"], part["rows"]
            if done.shape != self.done.shape or rows.shape != self.rows.shape:
                identity = ""
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise DamagedFileError(f"{self._path} holds no record of displacements: {error}.") from error
        if identity != self._identity:
            raise InputError(
                f"{self._path} is the record of another molecule, geometry, model or step; go on with the same, or "
                "choose another file."
            )
        if not np.isfinite(rows[done > 0]).all():
            raise DamagedFileError(f"{self._path} is damaged: numbers that are not finite.")
        self.done[:], self.rows[:] = done > 0, np.where(done[:, None] > 0, rows, 0.0)

    def add(self, number: int, row) -> None:
        """A displacement is done."""
        self.rows[number], self.done[number] = row, 1
        if self._path is not None:
            part = {"format": FORMAT, "identity": self._identity, "done": self.done, "rows": self.rows}
            write_tree(self._path, {"displacements": part})


def identity_of(result, differences: Differences) -> str:
    """What the numbers of a record depend on, as text."""
    molecule, options = result.molecule, result.settings.options.plain(ENERGY, STATE)
    names = ("symbols", "charge", "spin", "cartesian", "ghost", "atom_basis", "atom_ecp")
    potential = result.calculation.surroundings.potential
    return json.dumps(
        {
            "molecule": {name: getattr(molecule, name) for name in names},
            "coordinates": molecule.coordinates.round(8).tolist(),
            "options": {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in options.items()},
            "functional": result.settings.definition,
            "potential": None if potential is None else potential.name,
            "energy": round(result.energy, 6),
            "differences": [differences.points, differences.step, differences.raman],
        },
        default=for_json,
        sort_keys=True,
    )


def by_differences(result: Any, differences: Differences, record: Record, progress: Any) -> dict[str, Any]:
    """hessian (atom, 3, atom, 3), dipole_derivatives (atom, 3, 3) and polarizability_derivatives of a result.

    The last axes of the derivatives are those of dipole moment and polarisability; None where they are not wanted.
    Raises NotConvergedError where the SCF at a displaced geometry does not converge.
    """
    n = result.molecule.n_atoms
    shape = 3 * n, differences.points
    thresholds = Convergence(CLOSE["energy"], result.settings.max_cycles, CLOSE["orbital_gradient"])
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
