"""Geometry optimisation: energies and forces step by step, the path on disk, and how to go on after an interruption.

The optimiser is deterministic. An optimisation that is restarted runs again from the first geometry with the energies
and forces that the trajectory holds, at no cost, and so knows all it knew when it was interrupted.
"""

import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

import numpy as np
import scipy.linalg

from dftfd.errors import CheckpointError, DamagedFileError, FileError, InputError, InputWarning
from dftfd.functionals.registry import get_functional
from dftfd.interop.geometric import MINIMUM, SADDLE, minimise
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, HARTREE_IN_EV, overlap_integrals
from dftfd.model.forces import nuclear_forces, require_forces
from dftfd.model.identity import identity_of, require_energy_again, short
from dftfd.model.options import ENERGY, START, STATE, Options
from dftfd.response.excitations import SPINS, Excitations
from dftfd.response.hessian import second_derivatives
from dftfd.results.document import numbers
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import Kind, array, public, whole
from dftfd.runtime.files import write_text
from dftfd.runtime.json_reader import parse_json
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress, as_progress
from dftfd.runtime.records import DIGITS, checksum, locked_new, require_same
from dftfd.runtime.written_numbers import as_real, as_whole
from dftfd.system.geometry import read_text
from dftfd.system.molecule import Molecule
from dftfd.tasks.run import run_scf

_COLUMNS = "Properties=species:S:1:pos:R:3:forces:R:3:forces_hartree_bohr:R:3"
_EARLIER = "Properties=species:S:1:pos:R:3:forces:R:3 energy="
_UNITS = "angstrom, eV, eV/angstrom"
_IDENTITY, _CHECK = re.compile(r" identity=(\S+)"), re.compile(rf" check=([0-9a-f]{{{DIGITS}}})$")
_BEGIN = "Properties="
_FORCE = HARTREE_IN_EV / BOHR_IN_ANGSTROM  # eV/angstrom


@dataclass(frozen=True, eq=False)
class Frame:
    """A step of the path on disk: extended xyz, one frame for each energy and gradient that was computed.

    symbols (atom,), positions (atom, 3) [angstrom], energy [hartree], forces (atom, 3) [hartree/bohr].
    model: what the energy was computed with, in words.   identity: all that it depends on besides the positions, None
    where an earlier version wrote the frame.

    In the file, positions are in angstrom, `energy` in eV and `forces` in eV/angstrom, so that ASE and those that
    follow it read them rightly. `energy_hartree` and the columns `forces_hartree_bohr` hold the same in atomic units
    with all their digits. `identity` is JSON (dftfd.model.identity) in which what would end the word is written as in
    addresses (%22), `check` a checksum of the frame. A frame is on disk before the next step begins; one that was cut
    off by the end of the program is ignored. Files of earlier versions, without identity and checksum or in hartree and
    hartree/bohr as their `units` say, are read too.
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
        for symbol, *of_atom in zip(self.symbols, *columns, strict=True):
            rows.append(" ".join([symbol, *(repr(x) for row in of_atom for x in row)]))
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
            raise DamagedFileError("the frame was changed, its checksum differs; remove it and all after it.")
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


SAME_GEOMETRY = 1e-6  # bohr; a recorded step nearer than this is the one that the optimiser asks for

EXACT = "exact"
_HESSIAN = array(None, 3, None, 3)
HESSIAN = Kind(
    "None, 'exact', or an array (atom, 3, atom, 3) of finite numbers",
    lambda value: value if value is None or isinstance(value, str) and value == EXACT else _HESSIAN.convert(value),
)


@dataclass(frozen=True, eq=False, repr=False)
class Optimization(ShownAsText):
    """converged: whether the geometry is; False after max_steps.   result: the SCF at the last geometry.

    coordinates (step, atom, 3) [bohr], energies (step,) [hartree] (free energies with smearing), forces
    (step, atom, 3) [hartree/bohr]: the path, the start included.   n_computed: steps not read from a trajectory.
    transition_state: whether that was looked for, not a minimum.   state: number of an excited state, whose energies
    and forces these are, at the last geometry; 0 for the ground state.   excitations: those at the last geometry.
    """

    converged: bool
    result: SCFResult
    coordinates: np.ndarray
    energies: np.ndarray
    forces: np.ndarray
    n_computed: int
    transition_state: bool = False
    state: int = 0
    excitations: Excitations | None = None

    @property
    def molecule(self) -> Molecule:
        """The molecule at the last geometry."""
        return self.result.molecule

    def __str__(self):
        outcome = "converged" if self.converged else "NOT CONVERGED"
        what = "transition state" if self.transition_state else "geometry"
        what += f" of excited state {self.state}" if self.state else ""
        lines = [f"{what} {outcome} after {len(self.energies)} energies and gradients, positions / angstrom"]
        for symbol, position in zip(self.molecule.centres, self.coordinates[-1] * BOHR_IN_ANGSTROM, strict=True):
            lines.append(f"{symbol:>4}" + "".join(f"{x:16.8f}" for x in position))
        largest = np.linalg.norm(self.forces[-1], axis=1).max()
        lines.append(f"  largest force {largest:.2e} hartree/bohr")
        return "\n".join(lines if self.excitations is None else [*lines, "", str(self.excitations)])


@numbers.register
def _numbers_of_optimization(found: Optimization):
    """What it prints; see dftfd.results.document."""
    return {
        "n_energies": len(found.energies),
        "state": found.state,
        "positions_angstrom": found.coordinates[-1] * BOHR_IN_ANGSTROM,
        "largest_force_hartree_per_bohr": np.linalg.norm(found.forces[-1], axis=1).max(),
        "excitations": {} if found.excitations is None else numbers(found.excitations),
    }


@public
def optimize(
    molecule: Molecule,
    xc: Any = "pbe",
    method: str = "auto",
    *,
    trajectory: Path | None = None,
    restart: bool = False,
    constraints: str | Path | None = None,
    coordinate_system: str = "tric",
    max_steps: Annotated[int, whole(1)] = 100,
    optimizer: dict[str, Any] | None = None,
    transition_state: bool = False,
    hessian: Annotated[Any, HESSIAN] = None,
    state: Annotated[int, whole(0)] = 0,
    tda: bool = False,
    spin: Annotated[str | None, SPINS] = None,
    grid_response: bool = True,
    guess: Any = "minao",
    progress: Any = None,
    **scf_options: Any,
) -> Optimization:
    """Optimise a geometry to the nearest minimum, or transition state, with geomeTRIC.

    molecule, xc, method, guess, scf_options: as in `run_scf`. Each step starts from the density of the last one.
    trajectory: path of an xyz file that gets a frame after each step. An existing file is refused, unless restart=True,
        which continues an interrupted optimisation.
    constraints: text in geomeTRIC's format ('$freeze\\ndistance 1 2'), or the path of such a file.
    coordinate_system: 'tric', 'dlc', 'hdlc', 'prim', 'tric-p' or 'cart'.
    optimizer: other parameters of geomeTRIC by name: {'convergence_set': 'GAU_TIGHT', 'trust': 0.05, ...}.
    transition_state: find a first-order saddle point, uphill along the lowest mode of the Hessian.
    hessian: initial second derivatives: 'exact' to compute them, or an array (atom, 3, atom, 3) [hartree/bohr^2], such
        as another functional's result.hessian(). Default: a model Hessian, for transition states the exact one.
    state: 1, 2, ... for an excited state, by its number at the initial geometry, from where it is followed; 0 for the
        ground state.   tda, spin: kind of excited states, as in `SCFResult.excitations`.
    grid_response: see dftfd.model.forces.nuclear_forces.
    progress: as in run_scf, called for each step; SCF cycles are not shown.

    Raises NotConvergedError if the SCF of a step does not converge. An unconverged geometry has `converged=False`.
    """
    functional = get_functional(xc)  # once, so that its kernel is compiled once
    options = Options.given_to("optimize", xc=functional, method=method, guess=guess, **scf_options)
    if options.grid is not None:
        raise InputError("a given grid does not move with the nuclei; choose a grid_level= to optimise.")
    require_forces(functional)
    search: dict[str, Any] = {"constraints": text_of_constraints(constraints), "options": optimizer}
    search |= {"coordinate_system": coordinate_system, "max_steps": max_steps}
    progress, surface = as_progress(progress), _surface(state, tda, spin, grid_response, transition_state, hessian)
    model = " ".join([model_in_words(molecule, options, grid_response), *([str(surface)] if state else [])])
    more = {"state": str(surface) if state else None, "grid response left out": not grid_response}
    more |= {"transition state": transition_state, "hessian": hessian}
    identity = identity_of(molecule, options) | identity_of_search(search | more) if trajectory else {}
    last: list[SCFResult] = []  # at most one: older results would keep their memory

    def solve(coordinates):
        start = options.along_from(last.pop()) if last else options.changed()
        last.append(run_scf(molecule.at(coordinates), **start | {"progress": Progress()}))
        return last[0]

    def evaluate(coordinates):
        frame = path.recorded(coordinates)
        if frame is None:
            if path.frames and not path.n_computed:
                path.require_last(surface, solve(path.coordinates[-1]))
            with progress.stage("energy and forces"):
                result = solve(coordinates)
                energy, forces = surface.at(result, progress)
            frame = path.add(coordinates, energy, forces, f"{result.all_cycles} cycles")
        return frame.energy, -frame.forces

    with _path(molecule, (model, identity), trajectory, restart, progress) as path:
        exact = transition_state if hessian is None else isinstance(hessian, str)
        beginning = _hessian_of(solve(molecule.coordinates), progress) if exact else _fitting(hessian, molecule)
        search |= {"hessian": beginning, "kind": SADDLE if transition_state else MINIMUM}
        converged, _, _ = minimise(molecule.symbols, molecule.coordinates, evaluate, **search)
        there = last and np.array_equal(last[0].molecule.coordinates, path.coordinates[-1])
        result = last[0] if there else solve(path.coordinates[-1])
        return _outcome(converged, result, path, surface, transition_state)


def identity_of_search(search) -> dict[str, Any]:
    """What decides which steps are taken, how many excepted."""
    given = {
        name: value
        for name, value in search.items()
        if name != "max_steps" and value is not None and value is not False
    }
    return {name.replace("_", " "): short(name, value) for name, value in given.items()}


def _outcome(converged, result, path, surface, transition_state) -> Optimization:
    """What was found; of an excited state with the excitations at the last geometry."""
    if not path.n_computed:
        path.require_last(surface, result)
    energies, forces = path.energies_and_forces
    steps = np.array(path.coordinates), energies, forces, path.n_computed
    if isinstance(surface, GroundState):
        return Optimization(converged, result, *steps, transition_state)
    if surface.excitations is None or surface.excitations.result is not result:
        surface.resume(result, energies[-1])
    return Optimization(converged, result, *steps, state=surface.root + 1, excitations=surface.excitations)


def _surface(state, tda, spin, grid_response, transition_state, hessian) -> Any:
    """The energy to go downhill on; InputError for what excited states do not have."""
    if not state:
        if tda or spin is not None:
            raise InputError("tda= and spin= are for an excited state; choose one, as in state=1.")
        return GroundState(grid_response)
    if transition_state or isinstance(hessian, str):
        raise InputError(
            "exact second derivatives are available for the ground state only; with state= leave out "
            "transition_state= and hessian='exact'."
        )
    return FollowedState(grid_response, state, tda, spin)


def _hessian_of(result, progress):
    """Second derivatives at the start."""
    result.require_converged("second derivatives")
    with progress.stage("second derivatives"):
        return second_derivatives(result, progress=progress).hessian


def _fitting(hessian, molecule):
    """A Hessian that was given, None without; InputError where it is that of other atoms."""
    if hessian is not None and hessian.shape != (molecule.n_atoms, 3, molecule.n_atoms, 3):
        n = molecule.n_atoms
        raise InputError(f"hessian has the shape {hessian.shape}; ({n}, 3, {n}, 3) expected, as of result.hessian().")
    return hessian


@contextmanager
def _path(molecule, kind, trajectory, restart, progress) -> Iterator["_Path"]:
    """The _Path of a trajectory, which no other process writes meanwhile.   kind: (model in words, identity)."""
    if trajectory is None:
        if restart:
            raise InputError("restart=True needs the trajectory of the interrupted optimisation.")
        yield _Path(molecule, kind, None, [], progress)
        return
    with locked_new(trajectory, restart):
        ahead = _earlier_frames(molecule, kind, trajectory)
        yield _Path(molecule, kind, trajectory, ahead, progress)


class _Path:
    """The steps done so far: those read from an earlier trajectory are handed out first, new ones are written."""

    def __init__(self, molecule, kind, trajectory, ahead, progress):
        self.frames, self.coordinates, self.n_computed = [], [], 0
        self._molecule, self._kind, self._progress = molecule, kind, progress
        self._file, self._ahead, self._writer = trajectory, ahead, None

    def require_last(self, surface, result) -> None:
        """Take up the surface at the last recorded geometry; CheckpointError where its energy is another one now."""
        there = self.frames[-1].energy
        require_energy_again(self._file, there, surface.resume(result, there), result.settings.conv_tol)

    def recorded(self, coordinates) -> Frame | None:
        """The frame of an earlier run for these coordinates; where it took another way, the rest is dropped."""
        if not self._ahead:
            return None
        if np.abs(self._ahead[0].positions / BOHR_IN_ANGSTROM - coordinates).max() > SAME_GEOMETRY:
            self._progress.note(
                "the recorded path ends here: the optimiser's step differs from that of the earlier run."
            )
            self._ahead = []
            return None
        return self._taken(coordinates, self._ahead.pop(0), "recorded")

    def add(self, coordinates, energy, forces, note) -> Frame:
        """The frame of a new calculation, written to the trajectory."""
        positions = np.array(coordinates) * BOHR_IN_ANGSTROM
        frame = Frame(self._molecule.centres, positions, float(energy), forces, *self._kind)
        if self._file is not None:
            self._writer = self._writer or TrajectoryWriter(self._file, self.frames)
            self._writer.append(frame)
        self.n_computed += 1
        return self._taken(coordinates, frame, note)

    @property
    def energies_and_forces(self) -> tuple[np.ndarray, np.ndarray]:
        """(step,) [hartree], (step, atom, 3) [hartree/bohr]."""
        return np.array([frame.energy for frame in self.frames]), np.array([frame.forces for frame in self.frames])

    def _taken(self, coordinates, frame, note):
        change = f"{frame.energy - self.frames[-1].energy:10.2e}" if self.frames else " " * 10
        largest = np.linalg.norm(frame.forces, axis=1).max()
        head = f"step {len(self.frames):3d}  E = {frame.energy:.10f}  change {change}"
        self._progress.note(f"{head}  largest force {largest:.2e}  ({note})")
        self.frames.append(frame)
        self.coordinates.append(np.array(coordinates))
        return frame


def model_in_words(molecule, options, grid_response) -> str:
    """What an energy of the path depends on besides the positions, in words, so that no other path is gone on with."""
    of_energy = options.changed(ENERGY, STATE, START)
    of_energy = {name: value for name, value in of_energy.items() if name not in ("xc", "method", "guess")}
    words = [f"{options.xc.name}/{molecule.basis} {options.method} charge {molecule.charge:+d} spin {molecule.spin}"]
    words += [f"{name}={value}" for name, value in sorted(of_energy.items())]
    words += [] if grid_response else ["grid response left out"]
    return " ".join(" ".join(words).replace('"', "'").split())


def _earlier_frames(molecule, kind, trajectory) -> list[Frame]:
    """The frames that a file holds already; CheckpointError where one is of another calculation."""
    frames = read_trajectory(trajectory) if os.path.exists(trajectory) else []
    model, identity = kind
    for frame in frames:
        if frame.symbols not in (molecule.centres, molecule.symbols) or frame.identity is None and frame.model != model:
            raise CheckpointError(
                f"{trajectory} is the path of {''.join(frame.symbols)} with {frame.model}, not of "
                f"{''.join(molecule.symbols)} with {model}; continue with the same, or choose another file."
            )
        if frame.identity is not None:
            require_same(trajectory, "path", frame.identity, identity)
    if any(frame.identity is None for frame in frames):
        warnings.warn(
            f"{trajectory} was written by an earlier version, without the settings of its energies; only the last "
            "energy is compared.",
            InputWarning,
            stacklevel=2,
        )
    return frames


def text_of_constraints(constraints) -> str | None:
    """Constraints as text: given so, or the contents of a file."""
    if constraints is None or isinstance(constraints, str) and "$" in constraints:
        return constraints
    return read_text(constraints, "the text of constraints")


MORE = 2
"""Roots above the one that is followed, among which it may be at the next geometry."""


@dataclass
class GroundState:
    """That of the ground state, of the free energy with smeared occupations."""

    grid_response: bool

    def at(self, result: SCFResult, progress: Progress) -> tuple[float, np.ndarray]:
        """Energy [hartree] and forces (atom, 3) [hartree/bohr] of a result."""
        return result.free_energy, nuclear_forces(result, self.grid_response, Progress()).values

    def resume(self, result: SCFResult, energy: float) -> float:
        """The energy [hartree] at a result's geometry, where an earlier run found `energy`."""
        return result.free_energy


@dataclass
class FollowedState:
    """That of an excited state, which is followed by how its transition density overlaps with the last one's.

    state: its number at the first geometry, from 1.   tda, spin: as of SCFResult.excitations.
    """

    grid_response: bool
    state: int
    tda: bool
    spin: str | None
    excitations: Excitations | None = None
    root: int = -1
    _last: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        if self.spin == "flip":
            raise InputError("spin-flip states have no forces; use spin='triplet', or UKS without spin=.")
        self.root = self.state - 1

    def __str__(self):
        tda = " TDA" if self.tda else ""
        return f"excited state {self.state}{f' {self.spin}' if self.spin else ''}{tda}"

    def at(self, result: SCFResult, progress: Progress) -> tuple[float, np.ndarray]:
        """Energy [hartree] and forces (atom, 3) [hartree/bohr] of the state at a result's geometry."""
        found = self._roots(result)
        shapes = transition_densities(found)
        if self._last is not None:
            overlaps = np.abs(np.einsum("sab,nsab->n", self._last, shapes))
            root = int(np.argmax(overlaps))
            if root != self.root:
                progress.note(f"the state is now number {root + 1} (overlap {overlaps[root]:.2f})")
            self.root = root
        self.excitations, self._last = found, shapes[self.root]
        state = found.state(self.root, self.grid_response, Progress())
        return state.energy, state.forces

    def resume(self, result: SCFResult, energy: float) -> float:
        """Take up the state of this energy [hartree] at a result's geometry, where an earlier run followed it.

        Returns its energy now.
        """
        found = self._roots(result)
        self.root = int(np.argmin(np.abs(result.energy + found.energies - energy)))
        self.excitations, self._last = found, transition_densities(found)[self.root]
        return float(result.energy + found.energies[self.root])

    def _roots(self, result):
        return roots_with_forces(result, max(self.root + 1, self.state) + MORE, self.tda, self.spin)


def roots_with_forces(result: SCFResult, n: int, tda: bool, spin: str | None, progress: Any = None) -> Excitations:
    """The n lowest excitations, in equilibrium with a solvent where there is one; fewer where there are not as many."""
    pairs = sum(int((n_s > 0).sum() * (n_s == 0).sum()) for n_s in result.mo_occ)
    in_solvent = result.calculation.surroundings.solvent is not None
    return result.excitations(min(n, pairs), tda, spin, progress, equilibrium_solvation=in_solvent)


def transition_densities(found: Excitations) -> np.ndarray:
    """X + Y (root, spin, ao, ao) between orthonormalised basis functions (Loewdin's), each of length one.

    Those move with their atoms, so that densities at different geometries can be compared.
    """
    s, U = scipy.linalg.eigh(overlap_integrals(found.ground_state.molecule))
    root = U * np.sqrt(np.maximum(s, 0.0)) @ U.T
    orbitals = zip(found.X, found.Y, found.occupied, found.virtual, strict=True)
    parts = [np.einsum("aq,nqp,bp->nab", root @ C_o, X + Y, root @ C_v, optimize=True) for X, Y, C_o, C_v in orbitals]
    T = np.stack(parts, axis=1)
    return T / np.linalg.norm(T.reshape(len(T), -1), axis=1)[:, None, None, None]
