"""Energies along a distance, an angle or a dihedral angle of a molecule.

In a rigid scan one side of the molecule moves as it is (dftfd.system.internal_coordinates). In a relaxed one all else
is optimised at each value, from the geometry of the last. Each calculation starts from the density of the last one.
"""

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.errors import FileError, InputError, NotConvergedError, shown
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.model.forces import require_energy, require_forces
from dftfd.model.options import Options
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import each, number, public, whole
from dftfd.runtime.files import check_writable, read_bytes, write_text
from dftfd.runtime.json_reader import parse_json
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.pictures import ENDINGS, picture
from dftfd.runtime.progress import Progress, as_progress
from dftfd.system.internal_coordinates import KINDS, UNITS, value_of, with_value
from dftfd.system.molecule import Molecule
from dftfd.tasks.counterpoise import HARTREE_IN_KCAL
from dftfd.tasks.optimization import model_in_words, optimize, text_of_constraints
from dftfd.tasks.run import run_scf

FORMAT = 1
LARGEST_FILE = 2**28  # bytes
_SAME = 1e-9  # angstrom or degree: values of a scan that count as equal


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
            comment = f"{KINDS[len(self.atoms)]}={float(value)!r} energy_hartree={float(energy)!r}"
            lines += [str(len(self.symbols)), comment]
            lines += [
                f"{symbol} " + " ".join(f"{a:.10f}" for a in row) for symbol, row in zip(self.symbols, x, strict=True)
            ]
        return "\n".join([*lines, ""])

    def _document(self):
        points = zip(self.values, self.energies, self.converged, self.coordinates, strict=True)
        return {
            "dftfd_scan": FORMAT,
            "symbols": list(self.symbols),
            "atoms": list(self.atoms),
            "relaxed": self.relaxed,
            "model": self.model,
            "points": [
                {"value": float(v), "energy": float(e) if math.isfinite(e) else None, "converged": bool(c)}
                | {"coordinates": x.tolist()}
                for v, e, c, x in points
            ],
        }


def check_ending(path: Path) -> None:
    """InputError where a scan is not written under such a name."""
    known = [".csv", ".xyz", ".json", *ENDINGS]
    if path.suffix not in known:
        raise InputError(f"cannot tell the format of {str(path)!r}: {', '.join(known)} expected.")


@public
def scan(
    molecule: Molecule,
    xc: Any = "pbe",
    method: str = "auto",
    *,
    atoms: Annotated[Sequence[int], each(whole(0), "two, three or four numbers of atoms, from 0")],
    values: Annotated[Sequence[float], each(number(), "a list of distances [angstrom] or angles [degree]")],
    relaxed: bool = False,
    path: Path | None = None,
    restart: bool = False,
    constraints: str | Path | None = None,
    coordinate_system: str = "tric",
    max_steps: Annotated[int, whole(1)] = 100,
    optimizer: dict[str, Any] | None = None,
    guess: Any = "minao",
    progress: Any = None,
    **scf_options: Any,
) -> Scan:
    """Energies of a molecule at values of a distance (two atoms), an angle (three) or a dihedral angle (four).

    molecule, xc, method, guess, scf_options: as in `run_scf`.
    values: [angstrom] or [degree], in the order in which they are computed.
    relaxed: optimise everything else at each value, by geomeTRIC; else one side of the molecule moves as it is.
    path: file (JSON) that holds the points done so far after each; one that exists is refused, unless restart=True:
        then the scan goes on after the points that are in it.
    constraints, coordinate_system, max_steps, optimizer: of a relaxed scan, as in `optimize`.
    progress: as in run_scf; it is told each point.

    A point that does not converge is said not to be and the scan goes on. InputError for atoms that are none, and in a
    rigid scan where the two sides hang together in a ring.
    """
    functional = get_functional(xc)
    options = Options.given_to("scan", xc=functional, method=method, guess=guess, **scf_options)
    if options.grid is not None:
        raise InputError("a given grid stays where it is while the nuclei move; choose a grid_level= to scan.")
    _require_coordinate(molecule, atoms, values)
    (require_forces if relaxed else require_energy)(functional)
    if constraints is not None and not relaxed:
        raise InputError("constraints= are for a relaxed scan; set relaxed=True.")
    fixed = text_of_constraints(constraints)
    words = [model_in_words(molecule, options, True), *([f"with {' '.join(fixed.split())}"] if fixed else [])]
    words.append(program_fingerprint(functional)[:12])
    course = _Course(molecule, atoms, values, relaxed, " ".join(words), path, restart, as_progress(progress))
    search = {"coordinate_system": coordinate_system, "max_steps": max_steps, "optimizer": optimizer}
    solve = _Relaxed(options, fixed, search) if relaxed else _Rigid(options)
    for value in course.left():
        geometry = molecule.at(with_value(course.geometry, atoms, value))
        course.add(value, *solve(geometry, atoms, value))
    return course.scan()


class _Rigid:
    """Energy and convergence at given positions, each from the density of the last one."""

    def __init__(self, options: Options):
        self.options = options
        self.last: SCFResult | None = None

    def start(self) -> dict:
        given = self.options.changed() if self.last is None else self.options.going_on_from(self.last)
        return given | {"progress": Progress()}

    def __call__(self, geometry, atoms, value):
        result = run_scf(geometry, **self.start())
        if result.converged:
            self.last = result
        return float(result.free_energy), result.converged, geometry.coordinates


class _Relaxed(_Rigid):
    """The same with all other positions optimised."""

    def __init__(self, options, constraints, search):
        super().__init__(options)
        self.constraints, self.search = constraints, search

    def __call__(self, geometry, atoms, value):
        at = " ".join(str(a + 1) for a in atoms)
        text = f"$set\n{KINDS[len(atoms)]} {at} {value!r}\n{self.constraints or ''}"
        try:
            found = optimize(geometry, constraints=text, **self.start(), **self.search)
        except NotConvergedError:
            return math.nan, False, geometry.coordinates
        self.last = found.result
        return float(found.energies[-1]), found.converged, found.coordinates[-1]


class _Course:
    """The points of a scan as they come, on disk after each; those of an earlier one are taken where they agree."""

    def __init__(self, molecule, atoms, values, relaxed, model, path, restart, progress):
        self.molecule, self.atoms, self.values, self.path = molecule, atoms, values, path
        self._kind, self._progress = (relaxed, model), progress
        self._points: list[tuple[float, float, bool, np.ndarray]] = []
        self.n_computed = 0
        if path is None:
            if restart:
                raise InputError("restart=True needs the path= of the interrupted scan.")
            return
        check_writable(path)
        if os.path.exists(path):
            if not restart:
                raise FileError(f"{path} exists: go on from it with restart=True (--restart), or choose another name.")
            self._go_on(load_scan(path))

    def _go_on(self, before: Scan):
        same = (before.symbols, before.atoms, before.relaxed) == (self.molecule.symbols, self.atoms, self._kind[0])
        if not same or before.model != self._kind[1]:
            how = "relaxed" if before.relaxed else "rigid"
            raise InputError(
                f"{self.path} is a {how} scan of the {before.what} with {shown(before.model, 150)}; go on with the "
                "same molecule, atoms and model, or choose another file."
            )
        for k, value in enumerate(self.values[: len(before.values)]):
            if abs(before.values[k] - value) > _SAME or not np.isfinite(before.energies[k]):
                break
            self._points.append((value, float(before.energies[k]), bool(before.converged[k]), before.coordinates[k]))

    def left(self):
        """The values that are still to be computed."""
        return self.values[len(self._points) :]

    @property
    def geometry(self) -> Molecule:
        """The molecule from which the next point starts: a relaxed one goes on from the last."""
        return self.molecule.at(self._points[-1][3]) if self._kind[0] and self._points else self.molecule

    def add(self, value, energy, converged, coordinates):
        self._points.append((value, energy, converged, np.array(coordinates)))
        self.n_computed += 1
        if self.path is not None:
            self.scan().save(self.path)
        note = "" if converged else "  NOT CONVERGED"
        place = f"point {len(self._points)} of {len(self.values)}"
        self._progress.note(f"{place}  {value:.5f} {UNITS[len(self.atoms)]}  E = {energy:.10f}{note}")

    def scan(self) -> Scan:
        values, energies, converged, coordinates = zip(*self._points, strict=True)
        arrays = np.array(values), np.array(energies), np.array(converged, dtype=bool), np.array(coordinates)
        relaxed, model = self._kind
        return Scan(self.molecule.symbols, self.atoms, relaxed, model, *arrays, self.n_computed)


@public
def load_scan(path: Path) -> Scan:
    """The scan that a file holds, as `Scan.save` and `path=` write it. FileError for anything else."""
    try:
        document = parse_json(read_bytes(path, LARGEST_FILE))
        if document["dftfd_scan"] != FORMAT:
            raise ValueError
        symbols, atoms = tuple(map(str, document["symbols"])), tuple(map(int, document["atoms"]))
        points = [(p["value"], p["energy"], p["converged"], p["coordinates"]) for p in document["points"]]
        values, found, converged, coordinates = zip(*points, strict=True)
        energies = [math.nan if e is None else e for e in found]
        x = np.array(coordinates, dtype=float)
        if x.shape != (len(points), len(symbols), 3) or len(atoms) not in KINDS or max(atoms) >= len(symbols):
            raise ValueError
        arrays = np.array(values, dtype=float), np.array(energies, dtype=float), np.array(converged, dtype=bool), x
        return Scan(symbols, atoms, bool(document["relaxed"]), str(document["model"]), *arrays)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(f"{path} is no scan that dftfd wrote; give another file.") from error


def _require_coordinate(molecule, atoms, values):
    """InputError for atoms and values that are no internal coordinate of the molecule."""
    if len(atoms) not in KINDS or len(set(atoms)) != len(atoms) or any(a >= molecule.n_atoms for a in atoms):
        raise InputError(
            f"atoms={shown(atoms)}: two, three or four different atoms of 0 to {molecule.n_atoms - 1} expected, for a "
            "distance, an angle or a dihedral angle."
        )
    if not values:
        raise InputError("values=[]: at least one distance [angstrom] or angle [degree] expected.")
    kind = KINDS[len(atoms)]
    if kind != "dihedral" and not all(0 < v <= (180 if kind == "angle" else math.inf) for v in values):
        expected = "distances above 0 [angstrom]" if kind == "distance" else "angles above 0, up to 180 [degree]"
        raise InputError(f"values={shown(values)}: {expected} expected.")
    if not np.all(np.isfinite(value_of(molecule.coordinates, atoms))):
        raise InputError(f"atoms={shown(atoms)} have no such coordinate in this geometry.")
