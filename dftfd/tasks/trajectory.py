"""A geometry optimisation's path on disk: extended xyz, one frame for each energy and gradient that was computed.

As in every extended xyz file, positions are in angstrom, `energy` in eV and `forces` in eV/angstrom, so that ASE and
those that follow it read them rightly. `energy_hartree` and the columns `forces_hartree_bohr` hold the same in atomic
units with all their digits. A frame is on disk before the next step begins; one that was cut off by the end of the
program is ignored. Files of earlier versions, in hartree and hartree/bohr as their `units` say, are read too.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dftfd.errors import FileError
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.results.summary import HARTREE_IN_EV
from dftfd.runtime.files import write_text
from dftfd.system.geometry import read_text

_COLUMNS = "Properties=species:S:1:pos:R:3:forces:R:3:forces_hartree_bohr:R:3"
_EARLIER = "Properties=species:S:1:pos:R:3:forces:R:3 energy="
_UNITS = "angstrom, eV, eV/angstrom"
_FORCE = HARTREE_IN_EV / BOHR_IN_ANGSTROM  # eV/angstrom


@dataclass(frozen=True, eq=False)
class Frame:
    """symbols (atom,), positions (atom, 3) [angstrom], energy [hartree], forces (atom, 3) [hartree/bohr].

    model: what the energy was computed with, in words.
    """

    symbols: tuple[str, ...]
    positions: np.ndarray
    energy: float
    forces: np.ndarray
    model: str

    def __str__(self):
        energy = f"energy={self.energy * HARTREE_IN_EV!r} energy_hartree={self.energy!r}"
        rows = [str(len(self.symbols)), f'{_COLUMNS} {energy} model="{self.model}" units="{_UNITS}"']
        forces = self.forces * _FORCE
        columns = (self.positions.tolist(), forces.tolist(), self.forces.tolist())
        for symbol, *numbers in zip(self.symbols, *columns, strict=True):
            rows.append(" ".join([symbol, *(repr(x) for row in numbers for x in row)]))
        return "\n".join(rows) + "\n"


class TrajectoryWriter:
    """Writes frames to a file, replacing what it held by `frames` first; each is on disk when `append` returns."""

    def __init__(self, path, frames: Sequence[Frame] = ()):
        self.path = Path(path)
        write_text(self.path, "".join(map(str, frames)))

    def append(self, frame: Frame) -> None:
        """Adds one frame."""
        try:
            with self.path.open("a") as file:
                file.write(str(frame))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror or error}.") from error


def read_trajectory(path) -> list[Frame]:
    """The complete frames of a file that TrajectoryWriter wrote; FileError where it was written by something else."""
    text = read_text(path, "a trajectory that dftfd wrote")
    lines, frames, start = text.split("\n")[:-1], [], 0  # what follows the last line break was cut off
    while start < len(lines):
        try:
            stop = start + 2 + int(lines[start])
            if stop > len(lines):
                break
            frames.append(_frame(lines[start + 1], lines[start + 2 : stop]))
        except ValueError as error:
            raise FileError(f"{path}, line {start + 1}: this is no trajectory of an optimisation.") from error
        start = stop
    return frames


def _frame(head, rows):
    rows = [row.split() for row in rows]
    numbers = np.array([row[1:] for row in rows], dtype=float)
    said = re.search(r'energy(?:_hartree)?=(\S+) model="([^"]*)"', head)
    if said is None:
        raise ValueError
    energy, model = said.groups()
    positions, forces = numbers[:, :3], numbers[:, -3:]  # the last columns are in hartree/bohr
    if numbers.shape[1] != (6 if head.startswith(_EARLIER) else 9):
        raise ValueError(f"{numbers.shape[1]} columns of numbers")
    return Frame(tuple(row[0] for row in rows), positions, float(energy), forces, model)
