"""Checkpoints: the file of a result that is not finished, with what it takes to go on from there.

    /mol, /scf, /dftfd/format, text, arrays     the result so far, as `result.save` writes it
    /dftfd/loop/text                            JSON: whether a minimiser is at work
    /dftfd/loop/memory, lowest                  Fock matrices and errors of DIIS, orbitals of the lowest energy so far

It is replaced after every cycle; the file of the cycle before stays as `<name>.previous`. A checkpoint that cannot be
written costs the checkpoint, not the calculation.
"""

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dftfd.errors import CheckpointError, CheckpointWarning, DamagedFileError, FileError, FunctionalError, InputWarning
from dftfd.model.calculation import Calculation
from dftfd.model.identity import identity_of
from dftfd.model.option_values import same_value
from dftfd.model.options import ENERGY, START, STATE, Options
from dftfd.results.result import SCFResult
from dftfd.results.result_file import require_orbitals, require_shapes, result_of_tree
from dftfd.results.tree import MOLECULE_TEXT, result_tree
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.documents import begins_as_ours, read_tree, refusing_damage, write_tree
from dftfd.runtime.files import check_writable
from dftfd.runtime.json_reader import as_json, parse_json
from dftfd.runtime.records import require_same
from dftfd.scf.problem import Snapshot, Solution, State

MAX_MEMORY_ENTRIES = 64


class Checkpoint:
    """Where a run leaves its state after every cycle.

    overwrite: replace a file whatever it holds.   failure: why the last state is not in the file, None where it is.
    """

    def __init__(self, path, overwrite: bool = False):
        self.path, self.overwrite = as_path.checked("checkpoint", path), overwrite
        self.failure: FileError | None = None
        self._found = _identity_of_file(self.path)

    @property
    def written(self) -> bool:
        """Whether a state of this run is on the disk; asked of the disk, as Ctrl-C may come right behind a write."""
        return _identity_of_file(self.path) not in (None, self._found)

    def prepare(self, calculation: Calculation) -> None:
        """Tell now, not after the first cycle, that the file cannot be written; CheckpointError rather than replace
        what is no checkpoint, or one of another molecule, basis or functional. Empty and damaged ones hold nothing."""
        if not self.overwrite and os.path.isfile(self.path) and os.path.getsize(self.path):
            _refuse_foreign(self.path, calculation)
        self._attempt(lambda: check_writable(self.path))

    def write(self, result: SCFResult, snapshot: Snapshot) -> None:
        """Replace the file. result: that of the snapshot."""
        tree = result_tree(result)
        memory = {name: np.stack(entries) for name, entries in snapshot.memory.items()}
        loop = {"text": json.dumps({"minimising": snapshot.minimising}), "memory": memory}
        if snapshot.lowest is not snapshot.solution.state:
            names = ("mo_energy", "mo_occ", "mo_coeff", "entropy_term")
            loop["lowest"] = {name: getattr(snapshot.lowest, name) for name in names}
        tree["dftfd"]["loop"] = loop
        self._attempt(lambda: write_tree(self.path, tree, previous=previous_generation(self.path)))

    def _attempt(self, action):
        try:
            action()
            self.failure = None
        except FileError as error:
            if self.failure is None:
                warnings.warn(f"no checkpoint: {error} The calculation continues.", CheckpointWarning, stacklevel=5)
            self.failure = error


def _identity_of_file(path):
    """What tells one file of this name from the next; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns


def _refuse_foreign(path, calculation):
    if not begins_as_ours(path):
        raise CheckpointError(f"{path} exists and is not a checkpoint of dftfd; it is kept. Take another name.")
    try:
        part = read_tree(path, "a checkpoint").get("dftfd")
        if not isinstance(part, dict) or "loop" not in part:
            raise CheckpointError(f"{path} exists and is not a checkpoint; it is kept.")
        text = parse_json(part["text"], finite=False)
        found = text["molecule"] | {"method": text["options"]["method"], "functional": text["settings"]["functional"]}
    except (DamagedFileError, KeyError, TypeError, ValueError):
        return
    molecule, functional = calculation.molecule, calculation.functional
    here = {name: getattr(molecule, name) for name in MOLECULE_TEXT}
    here |= {"method": calculation.method, "functional": functional.name}
    different = [name.replace("atom_", "") for name in here if found.get(name) != as_json(here[name])]
    if different:
        raise CheckpointError(
            f"{path} exists and holds {''.join(map(str, found['symbols']))} with {found['functional']}, which differs "
            f"in {', '.join(different)}; it is kept. Take another name, or remove it."
        )


def as_checkpoint(checkpoint, restart, overwrite: bool = False) -> Checkpoint | None:
    """The Checkpoint of run_scf's options; a run that was resumed goes on writing the file that it came from."""
    checkpoint = restart if checkpoint is None else checkpoint
    return checkpoint if checkpoint is None or isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint, overwrite)


def previous_generation(path) -> Path:
    """Where the checkpoint before the last one is kept."""
    return Path(f"{path}.previous")


def result_of_checkpoint(path) -> SCFResult:
    """The result in a checkpoint, or in a file of `result.save`; raises as `resume`."""
    return _intact(path, lambda file: result_of_tree(read_tree(file, "a checkpoint"), file))


def resume(path, calculation: Calculation, options: Options) -> Snapshot:
    """Where the run that left the checkpoint `path` was, for the same calculation.

    Where the file is damaged or missing the previous generation is taken, with a CheckpointWarning. Raises
    CheckpointError where both are, and for a checkpoint of another molecule, basis, functional, grid, version, ...
    """
    path = as_path.checked("restart", path)
    return _intact(path, lambda file: _read(file, calculation, options))


def _intact(path, read):
    """What `read` finds in the file, else in its previous generation."""
    older = previous_generation(path)
    try:
        return read(path)
    except CheckpointError:
        raise
    except FileError as error:
        if os.path.exists(older) and (isinstance(error, DamagedFileError) or not os.path.exists(path)):
            try:
                found = read(older)
            except DamagedFileError as too:
                raise CheckpointError(f"{error} So is its previous generation: {too}") from error
            warnings.warn(f"{error} The previous generation, {older.name}, is used.", CheckpointWarning, stacklevel=6)
            return found
        raise CheckpointError(str(error)) from error


def _read(path, calculation, options) -> Snapshot:
    tree = read_tree(path, "a checkpoint")
    try:
        result = result_of_tree(tree, path, calculation.functional)
    except FunctionalError as error:
        name = calculation.functional.name
        raise CheckpointError(f"{path} is not for the functional {name!r}, or for an earlier version of it.") from error
    loop = tree["dftfd"].get("loop")
    if loop is None:
        raise CheckpointError(f"{path} is a result, not a checkpoint to continue from; use it as guess={str(path)!r}.")
    with refusing_damage(path):
        text = parse_json(loop["text"])
        _require_same(path, result, calculation, options)
        unknown: Any = None  # what nobody asks of these states
        evaluation = SimpleNamespace(F=unknown, energies=result.energies)
        state = State(result.density_matrix, evaluation, *_orbitals(calculation, vars(result)))
        lowest = State(unknown, unknown, *_orbitals(calculation, loop["lowest"])) if "lowest" in loop else state
        converged = result.converged is True and result.settings.conv_tol <= options.conv_tol
        memory = _checked_memory(loop.get("memory", {}), calculation, state)
        solution = Solution(state, converged, result.history[-1].number, result.history, result.steps)
        snapshot = Snapshot(solution, lowest, memory, bool(text["minimising"]))
    _warn_about_start(path, result.settings.options, options)
    return snapshot


def _orbitals(calculation, entries):
    """Energies, occupations, coefficients and entropy term of a state."""
    orbitals = [np.asarray(entries[name], dtype=float) for name in ("mo_energy", "mo_occ", "mo_coeff")]
    require_orbitals(calculation, *orbitals)
    return *orbitals, float(entries["entropy_term"])


def _checked_memory(memory, calculation, state):
    """The arrays of the extrapolation, in the shapes that the calculation makes them in."""
    matrices, n_matrices = np.shape(state.P), 1 if calculation.method == "ROKS" else calculation.n_spin
    size = n_matrices * np.shape(state.mo_energy)[-1] ** 2
    shapes = {"focks": (n_matrices, *matrices[1:]), "errors": (size,), "previous": (n_matrices, *matrices[1:])}
    shapes |= {"energy_diis_energies": (), "energy_diis_densities": matrices, "energy_diis_focks": matrices}
    for name, array in memory.items():
        if len(array) > MAX_MEMORY_ENTRIES:
            raise ValueError(f"{len(array)} entries in {name}")
        require_shapes({name: array}, (len(array), *shapes[name]))
    if len(memory.get("focks", ())) != len(memory.get("errors", ())):
        raise ValueError("not as many errors as Fock matrices")
    return memory


def _require_same(path, result, calculation, options):
    """Raise CheckpointError, with all that differs, unless the checkpoint is of this calculation."""
    there = _identity(result.calculation, result.settings.options) | {"version": result.settings.versions["dftfd"]}
    require_same(path, "checkpoint", there, _identity(calculation, options))


def _warn_about_start(path, there: Options, here: Options):
    """A line for options of a beginning that a run which goes on does not have; none for those it began with."""
    given = here.changed(START)
    if here.follow_orbitals:  # whose orbitals are those of the guess
        given.pop("guess", None)
    unused = [f"{name}=" for name, value in given.items() if not same_value(value, getattr(there, name))]
    if unused:
        warnings.warn(
            f"{path} is continued; {', '.join(unused)} would start anew and is not used. To start from it, leave "
            "out the restart.",
            InputWarning,
            stacklevel=2,
        )


def _identity(calculation, options: Options):
    """What must agree for a run to go on: the same energy and solution, wherever the search for it began."""
    potential = calculation.surroundings.potential  # options of a file do not hold it
    known = replace(options, xc=calculation.functional, method=calculation.method, external_potential=potential)
    return identity_of(calculation.molecule, known, ENERGY, STATE)
