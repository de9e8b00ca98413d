"""Energies along a distance, an angle or a dihedral angle of a molecule.

In a rigid scan one side of the molecule moves as it is (dftfd.system.internal_coordinates). In a relaxed one all else
is optimised at each value, from the geometry of the last. Each calculation starts from the density of the last one.
"""

import json
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.errors import (
    CheckpointError,
    DamagedFileError,
    FileError,
    InputError,
    InputWarning,
    NotConvergedError,
    shown,
)
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, HARTREE_IN_KCAL
from dftfd.model.forces import require_energy, require_forces
from dftfd.model.identity import identity_of, require_energy_again
from dftfd.model.options import Options
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import each, number, public, whole
from dftfd.runtime.documents import refusing_damage
from dftfd.runtime.files import ENDINGS, picture, read_bytes, require_ending, write_text
from dftfd.runtime.json_reader import parse_json
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress, as_progress
from dftfd.runtime.records import HEAD, digest, pieces_of, recorded
from dftfd.system.internal_coordinates import (
    KINDS,
    UNITS,
    neighbours,
    value_of,
    warn_about_dihedrals,
    warn_about_distances,
    with_value,
)
from dftfd.system.molecule import CLOSE, Molecule
from dftfd.tasks.optimization import (
    SAME_GEOMETRY,
    electrons_in,
    identity_of_search,
    model_in_words,
    optimize,
    text_of_constraints,
)
from dftfd.tasks.run import run_scf

FORMAT, RECORD = 1, "a scan"
FORMATS = (".csv", ".xyz", ".json", *ENDINGS)
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
        require_ending(path, *FORMATS, exactly=True)
        if path.suffix.lower() in ENDINGS:
            self.plot(path)
        elif path.suffix.lower() == ".json":
            self.save(path)
        else:
            write_text(path, self._csv() if path.suffix.lower() == ".csv" else self._xyz())

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


@public
def load_scan(path: Path) -> Scan:
    """Read a scan written by `Scan.save` or `path=`. Raises FileError for other files."""
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


_SAME = 1e-9  # angstrom or degree: values of a scan that count as equal


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
    """Energies along a distance (two atoms), an angle (three) or a dihedral angle (four).

    molecule, xc, method, guess, scf_options: as in `run_scf`.
    values: [angstrom] or [degree], in the order in which they are computed.
    relaxed: optimise all other coordinates at each value, with geomeTRIC. Otherwise one side of the molecule moves
        rigidly.
    path: file with a line of JSON for each finished point. An existing file is refused, unless restart=True, which
        continues the scan.
    constraints, coordinate_system, max_steps, optimizer: of a relaxed scan, as in `optimize`.
    progress: as in run_scf, called for each point.

    A point that does not converge is marked, and the scan continues. Raises InputError for invalid atoms, and for a
    rigid scan in a ring.
    """
    functional = get_functional(xc)
    options = Options.given_to("scan", xc=functional, method=method, guess=guess, **scf_options)
    if options.grid is not None:
        raise InputError("a given grid does not move with the nuclei; choose a grid_level= to scan.")
    _require_coordinate(molecule, atoms, values, relaxed)
    (require_forces if relaxed else require_energy)(functional)
    if constraints is not None and not relaxed:
        raise InputError("constraints= are for a relaxed scan; set relaxed=True.")
    fixed = text_of_constraints(constraints)
    words = [model_in_words(molecule, options, True), *([f"with {' '.join(fixed.split())}"] if fixed else [])]
    words.append(program_fingerprint(functional)[:12])
    kind, search = " ".join(words), {"coordinate_system": coordinate_system, "optimizer": optimizer}
    identity = (
        {}
        if path is None
        else identity_of(molecule, options) | {"scanned": f"{KINDS[len(atoms)]} {' '.join(map(str, atoms))}"}
    )
    identity |= {"relaxed": True} | identity_of_search(search | {"constraints": fixed}) if path and relaxed else {}
    earlier = partial(_of_document, path, molecule, atoms, relaxed, kind)
    solve = _Relaxed(options, fixed, search | {"max_steps": max_steps}) if relaxed else _Rigid(options)
    with recorded(path, RECORD, identity, restart, earlier) as record:
        course = _Course(molecule, atoms, values, relaxed, kind, record, as_progress(progress))
        course.require_last(solve)
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
        given = self.options.changed() if self.last is None else self.options.along_from(self.last)
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
    """The points of a scan as they come, in its record; those of an earlier one are taken where they agree."""

    def __init__(self, molecule, atoms, values, relaxed, model, record, progress):
        self.molecule, self.atoms, self.values = molecule, atoms, values
        self._kind, self._record, self._progress = (relaxed, model), record, progress
        self._points: list[tuple[float, float, bool, np.ndarray]] = []
        self.n_computed = 0
        if not record.pieces:
            record.add(self._head())
        for k, value in enumerate(values[: len(record.pieces) - 1], start=1):
            try:
                found, energy, converged, x = point_of(record.pieces[k], molecule.n_atoms)
            except (KeyError, TypeError, ValueError) as error:
                raise record.damaged(k, error) from error
            if abs(found - value) > _SAME or not np.isfinite(energy):
                break
            if not converged:
                progress.note(f"point {k} is kept as NOT CONVERGED; to try it again, remove its line and all after it")
            self._points.append((value, energy, converged, x))

    def _head(self):
        return {"symbols": self.molecule.centres, "atoms": self.atoms} | dict(
            zip(("relaxed", "model"), self._kind, strict=True)
        )

    def left(self):
        """The values that are still to be computed."""
        return self.values[len(self._points) :]

    @property
    def geometry(self) -> Molecule:
        """The molecule from which the next point starts: a relaxed one goes on from the last."""
        return self.molecule.at(self._points[-1][3]) if self._kind[0] and self._points else self.molecule

    def require_last(self, solve):
        """Begin where the last recorded point was; CheckpointError where that has another energy now."""
        known = [point for point in self._points if point[2]]
        if not (known and self.left()):
            return
        _, energy, _, x = known[-1]
        now, _, _ = _Rigid.__call__(solve, self.molecule.at(x), self.atoms, None)
        require_energy_again(self._record.path, energy, now, solve.options.conv_tol)

    def add(self, value, energy, converged, coordinates):
        if len(self._record.pieces) > (kept := len(self._points) + 1):  # points of other values
            self._record.replace(self._record.pieces[:kept])
        self._points.append((value, energy, converged, np.array(coordinates)))
        self.n_computed += 1
        self._record.add(piece_of(*self._points[-1]))
        note = "" if converged else "  NOT CONVERGED"
        place = f"point {len(self._points)} of {len(self.values)}"
        self._progress.note(f"{place}  {value:.5f} {UNITS[len(self.atoms)]}  E = {energy:.10f}{note}")

    def scan(self) -> Scan:
        values, energies, converged, coordinates = zip(*self._points, strict=True)
        arrays = np.array(values), np.array(energies), np.array(converged, dtype=bool), np.array(coordinates)
        relaxed, model = self._kind
        return Scan(self.molecule.centres, self.atoms, relaxed, model, *arrays, self.n_computed)


def _of_document(path, molecule, atoms, relaxed, model, content) -> list[dict] | None:
    """Pieces of what `Scan.save` wrote, and of records of earlier versions; CheckpointError for another scan."""
    if content.startswith(HEAD[: len(content)]):
        return None
    before = load_scan(path)
    same = (before.atoms, before.relaxed, before.model) == (atoms, relaxed, model)
    same &= before.symbols in (molecule.centres, molecule.symbols)
    moved = lambda value: with_value(molecule, atoms, value)
    if (
        not same
        or not relaxed
        and any(
            np.abs(x - moved(v)).max() > SAME_GEOMETRY for v, x in zip(before.values, before.coordinates, strict=True)
        )
    ):
        raise CheckpointError(
            f"{path} is a scan of the {before.what} with {shown(before.model, 150)}, or of other atoms; continue with "
            "the same, or take another name."
        )
    warnings.warn(f"{path} lacks some settings that its energies depend on.", InputWarning, stacklevel=2)
    points = zip(before.values, before.energies, before.converged, before.coordinates, strict=True)
    head = {"symbols": before.symbols, "atoms": before.atoms, "relaxed": before.relaxed, "model": before.model}
    return [head, *(piece_of(*point) for point in points)]


def _require_coordinate(molecule, atoms, values, relaxed):
    """InputError for atoms and values that are no internal coordinate of the molecule."""
    if len(atoms) not in KINDS or len(set(atoms)) != len(atoms) or any(a >= molecule.n_atoms for a in atoms):
        raise InputError(
            f"atoms={shown(atoms)}: two, three or four different atoms of 0 to {molecule.n_atoms - 1} expected, for a "
            "distance, an angle or a dihedral angle."
        )
    if not values:
        raise InputError("values=[]: at least one distance [angstrom] or angle [degree] expected.")
    kind, before = KINDS[len(atoms)], [a - 1 for a in atoms]
    bonds = neighbours(molecule)
    are_chained = lambda chain: all(b in bonds[a] for a, b in pairwise(chain))
    if min(before) >= 0 and are_chained(before) and not are_chained(atoms):
        warnings.warn(
            f"atoms={shown(atoms)} are not bonded, as atoms {', '.join(map(str, before))} are: is a count "
            "from 1 meant? Atoms count from 0.",
            InputWarning,
            stacklevel=4,
        )
    if kind != "dihedral" and not all(0 < v <= (180 if kind == "angle" else math.inf) for v in values):
        expected = "distances above 0 [angstrom]" if kind == "distance" else "angles above 0, up to 180 [degree]"
        raise InputError(f"values={shown(values)}: {expected} expected.")
    if len(values) == 3 and _is_number_of_points(*values) and (kind == "distance" or values[2] % 15):
        warnings.warn(
            f"values={shown(values)} are three points; is {values[2]:g} their number? Give each value, as by "
            f"numpy.linspace({values[0]:g}, {values[1]:g}, {values[2]:g}).",
            InputWarning,
            stacklevel=4,
        )
    if not np.all(np.isfinite(present := value_of(molecule.coordinates, atoms))):
        raise InputError(f"atoms={shown(atoms)} have no such coordinate in this geometry.")
    if kind == "distance":
        warn_about_distances("values", values, present)
    elif kind == "dihedral":
        warn_about_dihedrals(f"values={shown(values)}", values)
    for value in () if relaxed or kind == "distance" else values:
        close = molecule.at(with_value(molecule, atoms, value)).shortest_distance
        if close is not None and close[2] < CLOSE:
            a, b, _ = close
            raise InputError(f"values: at {value:g} atoms {a} and {b} meet; angles are in degrees.")


def _is_number_of_points(first, last, number) -> bool:
    """Whether the third of three values may be how many there are: whole, in no order with the others or far off."""
    is_far = abs(number - last) > 5 * abs(last - first)
    return 3 <= number < 100 and number == round(number) and (is_far or (number > last) != (last > first))
