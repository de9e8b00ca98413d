"""One molecule of a batch: what is to be computed, and what became of it."""

import csv
import glob
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from dftfd.errors import (
    DftfdError,
    FileError,
    InputError,
    InputWarning,
    NotConvergedError,
    NumericalError,
    ResourceError,
    one_line,
    shown,
    warnings_named,
)
from dftfd.functionals import supports
from dftfd.functionals.definition import Portable, made_again
from dftfd.functionals.registry import get_functional
from dftfd.results.qcschema import atomic_result
from dftfd.results.result import SCFResult
from dftfd.results.summary import DOUBT
from dftfd.runtime.arguments import public
from dftfd.runtime.documents import refusing_damage
from dftfd.runtime.files import check_writable, without_waiting, write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.plain_text import csv_table
from dftfd.runtime.progress import as_progress
from dftfd.scf.orbitals import occupied_orbitals
from dftfd.system.comment_line import warn_about_name
from dftfd.system.geometry import (
    electrons_of,
    frame_of,
    is_coordinate_text,
    read_geometries,
    read_text,
    said_beside,
    said_by_first,
    split_frames,
)
from dftfd.system.molecule import Molecule, molecule
from dftfd.system.smiles import is_smiles
from dftfd.tasks.optimization import optimize
from dftfd.tasks.run import run_scf

REASONS = {1: "internal error", 2: "bad input", 3: "not converged", 4: "NaN or Inf", 5: "file", 6: "resources"}
"""What exit codes say."""


@dataclass(frozen=True, repr=False)
class Outcome(ShownAsText):
    """What became of one molecule.

    energy [hartree], None where there is none.   error: None, or one line.   exit_code: as the command line's.
    seconds: wall time.   warnings: one line each.   document: QCSchema AtomicResult, None where there is no result.
    largest_force [hartree/bohr], steps of the geometry: of gradients and optimisations.
    """

    number: int
    name: str
    energy: float | None
    converged: bool
    error: str | None
    exit_code: int
    seconds: float
    warnings: tuple[str, ...] = ()
    document: dict | None = None
    largest_force: float | None = None
    steps: int | None = None

    @property
    def model(self) -> str | None:
        """Functional and basis set of the result, None where there is none."""
        return None if self.document is None else f"{_of(self, 'method')} / {_of(self, 'basis')}"

    def __str__(self):
        if self.error is None:
            return f"{self.name}  {self.energy:.10f} hartree  {self.seconds:.1f} s"
        return f"{self.name}  {REASONS[self.exit_code].upper()}: {self.error}"


COLUMNS = {
    "molecule": lambda o: o.name,
    "functional": lambda o: _of(o, "method"),
    "basis": lambda o: _of(o, "basis"),
    "charge": lambda o: None if o.document is None else round(o.document["molecule"]["molecular_charge"]),
    "multiplicity": lambda o: None if o.document is None else o.document["molecule"]["molecular_multiplicity"],
    "energy_hartree": lambda o: None if o.energy is None else repr(o.energy),
    "converged": lambda o: "yes" if o.converged else "no",
    "steps": lambda o: o.steps,
    "largest_force_hartree_per_bohr": lambda o: o.largest_force,
    "seconds": lambda o: f"{o.seconds:.2f}",
    "error": lambda o: o.error,
}
"""Columns of the table that `Outcomes.write` writes."""


def _of(outcome, name):
    return None if outcome.document is None else outcome.document["model"][name]


class Outcomes(ShownAsText, list[Outcome]):
    """The outcomes of a batch, in the order of the input; they print as a table."""

    @property
    def failed(self) -> "Outcomes":
        """Those without a result, or whose result is no solution."""
        return Outcomes(outcome for outcome in self if outcome.error is not None)

    @public
    def write(self, path: Path) -> None:
        """The table as a file, .csv: a row for each molecule, energies with all digits, empty where there is none."""
        check_table(path)
        rows = ([read(outcome) for read in COLUMNS.values()] for outcome in self)
        write_text(path, csv_table(list(COLUMNS), rows))

    def __repr__(self) -> str:
        return f"<{len(self)} outcomes, {len(self.failed)} failed>"

    def __str__(self):
        wide = max([len(o.name) for o in self] + [8])
        steps, forces = (any(getattr(o, name) is not None for o in self) for name in ("steps", "largest_force"))
        head = f"{'molecule':<{wide}}{'energy / hartree':>20}" + (f"{'steps':>7}" if steps else "")
        models = sorted({o.model for o in self if o.model is not None})
        lines = ["; ".join(models)] if models else []
        lines += [head + (f"{'max force':>11}" if forces else "") + f"{'seconds':>10}"]
        for o in self:
            line = f"{o.name:<{wide}}" + (f"{'-':>20}" if o.energy is None else f"{o.energy:20.10f}")
            line += (f"{'-' if o.steps is None else o.steps:>7}") if steps else ""
            line += (f"{'-':>11}" if o.largest_force is None else f"{o.largest_force:11.2e}") if forces else ""
            lines.append(line + f"{o.seconds:10.1f}" + (f"  {REASONS[o.exit_code].upper()}" if o.error else ""))
        return "\n".join(lines)


def check_table(path: Path) -> None:
    """InputError unless the name ends in .csv, FileError for a place that can't be written to."""
    if path.suffix.lower() != ".csv":
        raise InputError(f"a batch's table is a .csv file, {shown(str(path), 120)} was given.")
    check_writable(path)


def is_table(path: Path) -> bool:
    """Whether a file begins as those do that `Outcomes.write` writes."""
    head = csv_table(list(COLUMNS), ()).encode()
    with open(path, "rb", opener=without_waiting) as stream:
        return stream.read(len(head)) == head


INTERNAL_ERROR = 1
NAME_LENGTH = 60


@dataclass(frozen=True)
class Entry:
    """A molecule, its place in the batch and what to call it; or the error that its input ended in.

    options: for `run_scf`, where they differ from the batch's.
    """

    number: int
    name: str
    molecule: Molecule | None
    error: Exception | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_entries(molecules, options: dict) -> list[Entry]:
    """The entries of a batch; patterns and trajectories stand for several.

    options: for `dftfd.molecule`. Input that is no molecule becomes an entry with its error.
    """
    entries: list[Entry] = []
    for item in molecules:
        item, own = (item[:2], item[2]) if _has_options(item) else (item, {})
        try:
            sources = list(_sources(item, options))
        except DftfdError as error:
            entries.append(Entry(len(entries), _name(item), None, error, own))
            continue
        for name, source in sources:
            try:
                source, given = source if isinstance(source, _Row) else (source, {})
                system, problem = source, None
                if not isinstance(source, Molecule):
                    with warnings_named(name):
                        system = molecule(source, **{**options, **given})
                    if name != source and _is_named(item):  # a file has warned of its own name
                        _warn_about_name(name, system, {n for n, x in {**options, **given}.items() if x is not None})
            except DftfdError as error:
                system, problem = None, error
            entries.append(Entry(len(entries), name, cast(Molecule | None, system), problem, own))
    return entries


def _is_named(item):
    """Whether what an entry is called is a name: of a pair, or of a file's rows and frames."""
    return isinstance(item, os.PathLike | tuple) or (isinstance(item, str) and not is_coordinate_text(item))


def _warn_about_name(name, found, given):
    """Warn where the name of a row, a frame or a pair speaks of a charge or spin that is neither read nor given."""
    symbols = [symbol for symbol, is_ghost in zip(found.symbols, found.ghost, strict=True) if not is_ghost]
    has = {about: getattr(found, about) for about in {"charge", "spin"} - given}
    stem = os.path.splitext(os.path.basename(re.sub(r"@[0-9]+\Z", "", name)))[0]
    warn_about_name(f"molecule {shown(name)} of the batch", stem, symbols, has)


def _has_options(item):
    """True for (name, molecule, options)."""
    return isinstance(item, tuple) and len(item) == 3 and isinstance(item[0], str) and isinstance(item[2], Mapping)


def stands_for_many(source: str) -> bool:
    """True for a pattern, a table of molecules, and a file of several frames."""
    if is_coordinate_text(source) or _is_one(source):
        return False
    if not os.path.isfile(source):
        return _is_pattern(source)
    if source.lower().endswith(TABLE):
        return True
    return len(split_frames(read_text(source))) > 1


def _sources(item, options) -> Iterator[tuple[str, object]]:
    """Names and sources of molecules behind one entry of a batch.

    options: those of the batch's molecules.
    """
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        yield item
    elif isinstance(item, os.PathLike) or (isinstance(item, str) and not is_coordinate_text(item)):
        if _is_one(str(item)):
            yield str(item), str(item)
            return
        for path in _paths(str(item)):
            if path.lower().endswith(TABLE):
                yield from _rows(path)
                continue
            if path.lower().endswith(".json"):
                raise InputError(
                    f"{path!r} is a QCSchema document, which specifies its own calculation, but molecules of a "
                    "batch share their options. Run it alone."
                )
            frames = split_frames(read_geometries(path))
            unsaid = said_by_first(frames, range(len(frames)), said_beside(path)) if frames[1:] else {}
            unsaid = {about: words for about, words in unsaid.items() if options.get(about) is None}
            if unsaid:
                warnings.warn(
                    f"file {shown(path)} says {', '.join(unsaid.values())}, but another frame no "
                    f"{' or '.join(unsaid)}; give {', '.join(f'{about}=' for about in unsaid)}, or write it into each.",
                    InputWarning,
                    stacklevel=4,
                )
            yield from ((f"{path}@{k}", text) for k, text in enumerate(frames)) if frames[1:] else [(path, path)]
    else:
        yield _name(item), item


TABLE, MAX_CELLS = ".csv", 500_000


def _is_one(source):
    """True for names that say more than the file: a frame, charge and multiplicity, SMILES."""
    return frame_of(source) is not None or electrons_of(source) is not None or is_smiles(source)


class _Row(NamedTuple):
    """A row of a table: where its molecule is, and the charge and spin that it gives."""

    source: str
    given: dict[str, int]


def _rows(path):
    """Names and sources of a table with the columns file and, where they are wanted, name, charge, spin, multiplicity.

    Files are looked for beside the table.
    """
    text = read_text(path, "a table of molecules")
    if text.count("\n") + text.count("\r") + text.count(",") > MAX_CELLS:
        raise FileError(f"{path} has more than {MAX_CELLS} cells.")
    with refusing_damage(path, "is not a table of molecules", FileError):
        table = csv.DictReader(text.splitlines(), skipinitialspace=True)
        columns, rows = [name.strip().lower() for name in table.fieldnames or ()], list(table)
    if len(set(columns)) < len(columns):
        raise InputError(f"{path} has two columns of one name: {', '.join(map(shown, columns))}.")
    if not rows:
        raise InputError(
            f"{path} has no molecules; a header with the column file, and a line for each molecule expected."
        )
    for number, row in enumerate(rows, start=2):
        given = {key.strip().lower(): (value or "").strip() for key, value in row.items() if isinstance(key, str)}
        if "file" not in given or set(given) - {"file", "name", "charge", "spin", "multiplicity"}:
            raise InputError(
                f"{path} has the columns {', '.join(map(shown, given))}; the column file, and optionally name, "
                "charge, spin or multiplicity, expected."
            )
        numbers = {key: given[key] for key in ("charge", "spin", "multiplicity") if given.get(key)}
        is_whole = all(re.fullmatch(r"[+-]?[0-9]{1,3}", text) for text in numbers.values())
        is_whole &= not is_whole or int(numbers.get("multiplicity", 1)) > 0
        if not given["file"] or not is_whole or None in row or {"spin", "multiplicity"} <= set(numbers):
            raise InputError(
                f"{path}, line {number}: a file and whole numbers expected, one in each column, spin or multiplicity; "
                f"{shown(dict(given), 80)} found{f' and {shown(row[None])} behind' if None in row else ''}."
            )
        source = given["file"] if is_smiles(given["file"]) else os.path.join(os.path.dirname(path), given["file"])
        said = {"charge": int(numbers["charge"])} if "charge" in numbers else {}
        if "multiplicity" in numbers or "spin" in numbers:
            said["spin"] = int(numbers["multiplicity"]) - 1 if "multiplicity" in numbers else abs(int(numbers["spin"]))
        yield given.get("name") or given["file"], _Row(source, said)


def _paths(path):
    """The files that a path stands for, sorted."""
    if not _is_pattern(path):
        return [path]
    if not (found := sorted(glob.glob(path, recursive=True))):
        raise FileError(f"no file matches {path!r}.")
    return found


def _is_pattern(path):
    return glob.has_magic(path) and not os.path.lexists(path)


def _name(item):
    if isinstance(item, Molecule):
        return item.formula
    if not isinstance(item, str | os.PathLike):
        return shown(item, NAME_LENGTH)
    text = one_line(str(item), 10 * NAME_LENGTH)
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 3] + "..."


TASKS = {
    "energy": (),
    "gradient": ("forces",),
    "optimization": ("forces",),
    "frequencies": ("second derivatives",),
}
"""What may be computed of each molecule, and the properties that it takes (dftfd.functionals.supports)."""


def run_entry(
    entry: Entry,
    options: dict,
    also: Mapping[str, Any] | None = None,
    task: str = "energy",
    search: Mapping[str, Any] | None = None,
) -> Outcome:
    """Compute one molecule. Errors become part of the outcome: what is wrong with one must not end the batch.

    also: functionals, by what they are called, whose energy on the density found is computed besides; what one of them
        ends in is told as a warning, and as extras.dftfd.not_on_this_density by its name.
    task: one of TASKS.   search: arguments of `dftfd.optimize` that are no options of a calculation.
    """
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            given = {**options, **entry.options}
            given |= {"xc": _functional(given["xc"])} if "xc" in given else {}
            with supports.wanted(*TASKS[task]):
                result, lacks, found = _computed(cast(Molecule, entry.molecule), given, task, search or {})
            others, refused = _others(result, also or {})
        except Exception as error:
            return failure(entry, error, time.perf_counter() - start)
    code = 0 if lacks is None else NotConvergedError.exit_code
    seconds, said = time.perf_counter() - start, tuple(" ".join(str(w.message).split()) for w in caught)
    said += (*(note for note in result.notes if note.startswith(DOUBT)), *refused.values())
    document = atomic_result(result) | found.pop("document", {})
    if also and result.converged:
        document["extras"]["dftfd"] |= {"on_this_density": others, "not_on_this_density": refused}
    for name in {"optimization", "vibrations"} & found.keys():
        document["extras"]["dftfd"][name] = found.pop(name)
    return Outcome(
        entry.number, entry.name, result.energy, lacks is None, lacks, code, seconds, said, document, **found
    )


def _computed(system, given, task, search):
    """(result, what is missing in words or None, more for the outcome)."""
    if task == "optimization" or search:
        found = optimize(system, **given, **search, progress=False)
        lacks = None if found.converged else f"geometry not converged after {len(found.energies)} steps."
        path = {"converged": found.converged, "energies": found.energies.tolist()}
        more = {"optimization": path, "steps": len(found.energies)} | _with_forces(found.forces[-1])
        if task == "frequencies" and found.converged:
            more["vibrations"] = _vibrations(found.result)
        return found.result, lacks, more
    result = run_scf(system, **given, progress=False)
    if not result.converged:
        return result, f"SCF not converged after {result.cycles} cycles.", {}
    if task == "frequencies":
        return result, None, {"vibrations": _vibrations(result)}
    return result, None, {} if task == "energy" else _with_forces(result.forces())


def _vibrations(result):
    """What the thermochemistry at any temperature depends on besides the energy: masses [u], places [bohr], modes."""
    found = result.vibrations(progress=False)
    arrays = {name: getattr(found, name).tolist() for name in ("masses", "coordinates", "wavenumbers")}
    return arrays | {"multiplicity": found.multiplicity}


def _others(result, functionals):
    """Energies of other functionals on a result's density, and of those that have none the reason, by their names."""
    energies, refused = {}, {}
    for name, xc in functionals.items():
        try:
            energies[name] = energies_on(result, _functional(xc))
        except Exception as error:  # a formula of anybody's may raise anything; the SCF and the others stand
            refused[name] = f"{name} on this density: {_words(error)}"
    return energies, refused


def _with_forces(forces):
    """The largest force, and what of a QCSchema document differs for the driver gradient."""
    document = {"driver": "gradient", "return_result": (-forces).ravel().tolist()}
    return {"largest_force": float(np.linalg.norm(forces, axis=1).max()), "document": document}


def _functional(sent):
    """The functional that was sent from another process; any other as it is."""
    return made_again(sent) if isinstance(sent, Portable) else sent


def failure(entry: Entry, error: BaseException, seconds: float = 0.0) -> Outcome:
    """The outcome of an entry that ended in an error."""
    if isinstance(error, DftfdError):
        code = error.exit_code
    else:
        code = ResourceError.exit_code if isinstance(error, MemoryError) else INTERNAL_ERROR
    return Outcome(entry.number, entry.name, None, False, _words(error), code, seconds)


def _words(error):
    """An error in one line, with its type where it is none of ours."""
    text = " ".join(str(error).split())
    return text if isinstance(error, DftfdError) else f"{type(error).__name__}: {text}"


def energies_on(result: SCFResult, xc: Any) -> dict[str, float]:
    """Components of the energy [hartree] of a functional on the density of a result, and their sum as 'total'.

    E_2[P_1] of a functional on the density P_1 of another is not variational in P_1; the difference from the energy on
    its own density is the density-driven part: M.-C. Kim, E. Sim, K. Burke, Phys. Rev. Lett. 111, 073003 (2013).
    doi:10.1103/PhysRevLett.111.073003

    Molecule, integrals and grids are the result's. Raises UnsupportedError for double hybrids and models of the
    potential, NumericalError for an energy that is not finite.
    """
    calculation = replace(result.calculation, functional=get_functional(xc))
    supports.require("another density", calculation.functional)
    energy = calculation.build(as_progress(False)).energy
    C_occ = occupied_orbitals(result.mo_coeff, result.mo_occ)
    energies = energy.evaluate(result.density_matrix, C_occ).energies
    total = float(np.sum(list(energies.values())))
    if not np.isfinite(total):
        raise NumericalError(
            f"the energy of {calculation.functional.name!r} on the density of {result.settings.functional!r} is "
            "not finite; use its own density, or check the functional at low densities (dftfd.audit)."
        )
    return {**energies, "total": total}
