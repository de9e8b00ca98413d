"""The result of a scan, and its files."""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dftfd.errors import DamagedFileError, FileError, InputError
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, HARTREE_IN_KCAL
from dftfd.runtime.arguments import public
from dftfd.runtime.documents import refusing_damage
from dftfd.runtime.files import ENDINGS, picture, read_bytes, write_text
from dftfd.runtime.json_reader import parse_json
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.records import HEAD, digest, pieces_of
from dftfd.system.internal_coordinates import KINDS, UNITS
from dftfd.tasks.trajectory import electrons_in

FORMAT, RECORD = 1, "a scan"
LARGEST_FILE = 2**28  # bytes


@dataclass(frozen=True, eq=False, repr=False)
class Scan(ShownAsText):
    """Energies along an internal coordinate.

    symbols (atom,).   atoms: the two, three or four whose distance, angle or dihedral angle is scanned, from 0.
    values (point,) [angstrom or degree], energies (point,) [hartree] (free energies with smearing, NaN where none was
    found), converged (point,): SCF, and geometry in a relaxed scan.   coordinates (point, atom, 3) [bohr].
    relaxed: whether all else was optimised.   model: what the energies were computed with, in words.
    n_computed: points that were not read from a file.
    """

    symbols: tuple[str, ...]
    atoms: tuple[int, ...]
    relaxed: bool
    model: str
    values: np.ndarray
    energies: np.ndarray
    converged: np.ndarray
    coordinates: np.ndarray
    n_computed: int = 0

    @property
    def what(self) -> str:
        """The coordinate in words, atoms named from 1 as everywhere and numbered from 0: 'distance of H1 F2 (0 1)'."""
        named = " ".join(f"{self.symbols[a]}{a + 1}" for a in self.atoms)
        return f"{KINDS[len(self.atoms)]} of {named} ({' '.join(map(str, self.atoms))})"

    @property
    def _title(self) -> str:
        """The model without what only tells records apart."""
        return re.sub(r" [0-9a-f]{12}$", "", self.model).replace(" auto ", " ")

    @property
    def relative(self) -> np.ndarray:
        """Energies above the lowest that converged [kcal/mol]."""
        lowest = np.min(self.energies, where=self.converged, initial=np.inf)
        return (self.energies - (lowest if np.isfinite(lowest) else np.nan)) * HARTREE_IN_KCAL

    def __str__(self):
        unit = UNITS[len(self.atoms)]
        lines = [f"{'relaxed' if self.relaxed else 'rigid'} scan, {self.what}: {self._title}"]
        lines.append(f"{unit:>12}{'energy / hartree':>20}{'kcal/mol':>12}")
        for value, energy, above, good in zip(self.values, self.energies, self.relative, self.converged, strict=True):
            note = "" if good else "  NOT CONVERGED"
            lines.append(f"{value:12.5f}{energy:20.10f}{above:12.3f}{note}")
        return "\n".join(lines)

    @public
    def plot(self, path: Path) -> None:
        """Write the curve as a picture, .png, .svg or .pdf; needs Matplotlib. Points without convergence are hollow.

        InputError for an unknown ending, FileError where the file cannot be written.
        """
        with picture(path) as figure:
            axes, good = figure.subplots(), self.converged
            axes.plot(self.values, self.relative, "-", color="0.6", lw=1)
            axes.plot(self.values[good], self.relative[good], "o", color="C0")
            axes.plot(self.values[~good], self.relative[~good], "o", color="C3", mfc="none")
            axes.set(xlabel=f"{self.what} / {UNITS[len(self.atoms)]}", ylabel="energy / kcal mol$^{-1}$")
            axes.set_title(self._title, fontsize=9)

    @public
    def save(self, path: Path) -> None:
        """Write everything as JSON, for `dftfd.load_scan(path)`."""
        write_text(path, json.dumps(self._document(), indent=1))

    @public
    def write(self, path: Path) -> None:
        """Write a table (.csv), the geometries (.xyz), everything (.json) or the curve (.png, .svg, .pdf)."""
        writers = {".csv": self._csv, ".xyz": self._xyz}
        if path.suffix in ENDINGS:
            self.plot(path)
        elif path.suffix == ".json":
            self.save(path)
        elif path.suffix in writers:
            write_text(path, writers[path.suffix]())
        else:
            check_ending(path)

    def _csv(self):
        rows = zip(self.values, self.energies, self.relative, self.converged, strict=True)
        head = f"{KINDS[len(self.atoms)]}_{UNITS[len(self.atoms)]},energy_hartree,relative_kcal_mol,converged"
        return "\n".join([head, *(f"{float(v)!r},{float(e)!r},{float(r)!r},{bool(c)}" for v, e, r, c in rows), ""])

    def _xyz(self):
        lines = []
        for value, energy, x in zip(self.values, self.energies, self.coordinates * BOHR_IN_ANGSTROM, strict=True):
            comment = (
                f"{electrons_in(self.model)}{KINDS[len(self.atoms)]}={float(value)!r} energy_hartree={float(energy)!r}"
            )
            lines += [str(len(self.symbols)), comment]
            lines += [
                f"{symbol} " + " ".join(f"{a:.10f}" for a in row) for symbol, row in zip(self.symbols, x, strict=True)
            ]
        return "\n".join([*lines, ""])

    def _document(self):
        points = zip(self.values, self.energies, self.converged, self.coordinates, strict=True)
        above = [{"kcal_mol": float(e) if math.isfinite(e) else None} for e in self.relative]
        document = {
            "dftfd_scan": FORMAT,
            "symbols": list(self.symbols),
            "atoms": list(self.atoms),
            "relaxed": self.relaxed,
            "model": self.model,
            "points": [piece_of(*point) | more for point, more in zip(points, above, strict=True)],
        }
        return document | {"check": digest(document)}


def piece_of(value, energy, converged, coordinates) -> dict:
    """A point as files hold it."""
    energy = float(energy) if math.isfinite(energy) else None
    return {"value": float(value), "energy": energy, "converged": bool(converged), "coordinates": coordinates.tolist()}


def point_of(piece, n_atoms) -> tuple[float, float, bool, np.ndarray]:
    """(value, energy, converged, coordinates) of a piece; raises what wrong ones lead to."""
    energy = math.nan if piece["energy"] is None else float(piece["energy"])
    x = np.array(piece["coordinates"], dtype=float)
    if x.shape != (n_atoms, 3) or not math.isfinite(value := float(piece["value"])) or not np.isfinite(x).all():
        raise ValueError("a point")
    return value, energy, bool(piece["converged"]), x


def check_ending(path: Path) -> None:
    """InputError where a scan is not written under such a name."""
    known = [".csv", ".xyz", ".json", *ENDINGS]
    if path.suffix not in known:
        raise InputError(f"cannot tell the format of {str(path)!r}: {', '.join(known)} expected.")


@public
def load_scan(path: Path) -> Scan:
    """The scan that a file holds, as `Scan.save` and `path=` write it. FileError for anything else."""
    content = read_bytes(path, LARGEST_FILE)
    with refusing_damage(path, "is not a scan that dftfd wrote; give another file", FileError):
        if content.startswith(HEAD):
            document, *points = pieces_of(path, RECORD)
        else:
            document = parse_json(content)
            if document["dftfd_scan"] != FORMAT:
                raise ValueError
            check = document.pop("check", None)
            if check is not None and check != digest(document):
                raise DamagedFileError(f"{path} is not what was written, its checksum differs; give another file.")
            points = document["points"]
        symbols, atoms = tuple(map(str, document["symbols"])), tuple(map(int, document["atoms"]))
        if len(atoms) not in KINDS or max(atoms) >= len(symbols):
            raise ValueError
        values, energies, converged, x = zip(*(point_of(point, len(symbols)) for point in points), strict=True)
        arrays = np.array(values), np.array(energies), np.array(converged, dtype=bool), np.array(x)
        return Scan(symbols, atoms, bool(document["relaxed"]), str(document["model"]), *arrays)
