"""One molecule of a batch: what is to be computed, and what became of it."""

import glob
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from dftfd.errors import DftfdError, FileError, InputError, NotConvergedError, ResourceError, one_line, shown
from dftfd.functionals.definition import Portable, made_again
from dftfd.results.qcschema import atomic_result
from dftfd.system.geometry import frame_of, is_coordinate_text, read_text, split_frames
from dftfd.system.molecule import Molecule, molecule
from dftfd.tasks.run import run_scf

INTERNAL_ERROR = 1
NAME_LENGTH = 60


@dataclass(frozen=True)
class Entry:
    """A molecule, its place in the batch and what to call it; or the error that its input ended in."""

    number: int
    name: str
    molecule: Molecule | None
    error: Exception | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one molecule.

    energy [hartree], None where there is none.   error: None, or one line.   exit_code: as the command line's.
    seconds: wall time.   warnings: one line each.   document: QCSchema AtomicResult, None where there is no result.
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


def read_entries(molecules, options: dict) -> list[Entry]:
    """The entries of a batch; patterns and trajectories stand for several.

    options: for `dftfd.molecule`. Input that is no molecule becomes an entry with its error.
    """
    entries: list[Entry] = []
    for item in molecules:
        try:
            sources = list(_sources(item))
        except DftfdError as error:
            entries.append(Entry(len(entries), _name(item), None, error))
            continue
        for name, source in sources:
            try:
                system, problem = source if isinstance(source, Molecule) else molecule(source, **options), None
            except DftfdError as error:
                system, problem = None, error
            entries.append(Entry(len(entries), name, system, problem))
    return entries


def stands_for_many(source: str) -> bool:
    """True for a pattern, and for a file of several frames."""
    if is_coordinate_text(source) or frame_of(source) is not None:
        return False
    if not os.path.isfile(source):
        return _is_pattern(source)
    return len(split_frames(read_text(source))) > 1


def _sources(item) -> Iterator[tuple[str, object]]:
    """Names and sources of molecules behind one entry of a batch."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        yield item
    elif isinstance(item, os.PathLike) or (isinstance(item, str) and not is_coordinate_text(item)):
        if frame_of(str(item)) is not None:
            yield str(item), str(item)
            return
        for path in _paths(str(item)):
            if path.lower().endswith(".json"):
                raise InputError(
                    f"{path!r} is taken for a QCSchema document, which has a calculation of its own; molecules of a "
                    "batch share their options. Run it alone."
                )
            frames = split_frames(read_text(path))
            yield from ((f"{path}:{k}", text) for k, text in enumerate(frames, 1)) if frames[1:] else [(path, path)]
    else:
        yield _name(item), item


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


def run_entry(entry: Entry, options: dict) -> Outcome:
    """Compute one molecule. Errors become part of the outcome: what is wrong with one must not end the batch."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            sent = options.get("xc")
            given = options | {"xc": made_again(sent)} if isinstance(sent, Portable) else options
            result = run_scf(cast(Molecule, entry.molecule), **given)  # entries without a molecule are not run
        except Exception as error:
            return failure(entry, error, time.perf_counter() - start)
    lacks, code = None, 0
    if not result.converged:
        lacks, code = f"SCF not converged after {result.cycles} cycles.", NotConvergedError.exit_code
    seconds, said = time.perf_counter() - start, tuple(" ".join(str(w.message).split()) for w in caught)
    document = atomic_result(result)
    return Outcome(entry.number, entry.name, result.energy, result.converged, lacks, code, seconds, said, document)


def failure(entry: Entry, error: BaseException, seconds: float = 0.0) -> Outcome:
    """The outcome of an entry that ended in an error."""
    text = " ".join(str(error).split())
    if isinstance(error, DftfdError):
        code = error.exit_code
    else:
        code = ResourceError.exit_code if isinstance(error, MemoryError) else INTERNAL_ERROR
        text = f"{type(error).__name__}: {text}"
    return Outcome(entry.number, entry.name, None, False, text, code, seconds)
