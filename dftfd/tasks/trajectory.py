"""A geometry optimisation's path on disk: extended xyz, one frame for each energy and gradient that was computed.

As in every extended xyz file, positions are in angstrom, `energy` in eV and `forces` in eV/angstrom, so that ASE and
those that follow it read them rightly. `energy_hartree` and the columns `forces_hartree_bohr` hold the same in atomic
units with all their digits. `identity` holds what the energy depends on (dftfd.model.identity) as JSON in which what
would end the word is written as in addresses (%22), `check` a checksum of the frame. A frame is on disk before the next
step begins; one that was cut off by the end of the program is ignored. Files of earlier versions, without identity and
checksum or in hartree and hartree/bohr as their `units` say, are read too.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from dftfd.errors import DamagedFileError, FileError
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, HARTREE_IN_EV
from dftfd.runtime.files import write_text
from dftfd.runtime.json_reader import parse_json
from dftfd.runtime.records import DIGITS, checksum
from dftfd.runtime.written_numbers import as_real, as_whole
from dftfd.system.geometry import read_text

_COLUMNS = "Properties=species:S:1:pos:R:3:forces:R:3:forces_hartree_bohr:R:3"
_EARLIER = "Properties=species:S:1:pos:R:3:forces:R:3 energy="
_UNITS = "angstrom, eV, eV/angstrom"
_IDENTITY, _CHECK = re.compile(r" identity=(\S+)"), re.compile(rf" check=([0-9a-f]{{{DIGITS}}})$")
_BEGIN = "Properties="
_FORCE = HARTREE_IN_EV / BOHR_IN_ANGSTROM  # eV/angstrom


@dataclass(frozen=True, eq=False)
class Frame:
    """symbols (atom,), positions (atom, 3) [angstrom], energy [hartree], forces (atom, 3) [hartree/bohr].

    model: what the energy was computed with, in words.   identity: all that it depends on besides the positions, None
    where an earlier version wrote the frame.
    """

    symbols: tuple[str, ...]
    positions: np.ndarray
    energy: float
    forces: np.ndarray
    model: str
    identity: Mapping | None = None

    def __str__(self):
        energy = f"{electrons_in(self.model)}energy={self.energy * HARTREE_IN_EV!r} energy_hartree={self.energy!r}"
        known = "" if self.identity is None else f" identity={quote(json.dumps(self.identity))}"
        rows = [str(len(self.symbols)), f'{_COLUMNS} {energy} model="{self.model}" units="{_UNITS}"{known}']
        forces = self.forces * _FORCE
        columns = (self.positions.tolist(), forces.tolist(), self.forces.tolist())
        for symbol, *numbers in zip(self.symbols, *columns, strict=True):
            rows.append(" ".join([symbol, *(repr(x) for row in numbers for x in row)]))
        rows[1] += f" check={checksum(chr(10).join(rows[1:]).encode())}"
        return "\n".join(rows) + "\n"


def electrons_in(model: str) -> str:
    """'charge=-1 spin=0 ' of a model in words, as comment lines of xyz say it; nothing where the words do not."""
    said = re.search(r"charge ([+-]?[0-9]+) spin (-?[0-9]+)", model)
    return f"charge={int(said[1])} spin={int(said[2])} " if said else ""


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
            stop = start + 2 + as_whole(lines[start].strip())
            if stop > len(lines):
                break
            frames.append(_frame(lines[start + 1], lines[start + 2 : stop]))
        except DamagedFileError as error:
            raise DamagedFileError(f"{path}, frame {len(frames)}, line {start + 1}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise FileError(f"{path}, line {start + 1}: this is not a trajectory of an optimisation.") from error
        start = stop
    count, head, *_ = [*text.split("\n")[start:], ""]
    if count.strip("0123456789") or head[: len(_BEGIN)] != _BEGIN[: len(head)]:  # not a frame that was cut off
        raise FileError(f"{path}, line {start + 1}: this is not a trajectory of an optimisation.")
    return frames


def _frame(head, rows):
    if check := _CHECK.search(head):
        head = head[: check.start()]
        if checksum("\n".join([head, *rows]).encode()) != check[1]:
            raise DamagedFileError(
                "this is not what was written, its checksum differs; remove the frame and all behind it."
            )
    identity = _IDENTITY.search(head)
    rows = [row.split() for row in rows]
    numbers = np.array([[as_real(word) for word in row[1:]] for row in rows])
    said = re.search(r'energy(?:_hartree)?=(\S+) model="([^"]*)"', head)
    if said is None:
        raise ValueError
    energy, model = said.groups()
    positions, forces = numbers[:, :3], numbers[:, -3:]  # the last columns are in hartree/bohr
    if numbers.shape[1] != (6 if head.startswith(_EARLIER) else 9):
        raise ValueError(f"{numbers.shape[1]} columns of numbers")
    known = parse_json(unquote(identity[1])) if identity else None
    if known is not None and not isinstance(known, dict):
        raise ValueError
    return Frame(tuple(row[0] for row in rows), positions, as_real(energy), forces, model, known)
