"""`discover`: a search from its specification to a folder of results."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.batch.cluster import require_client
from dftfd.discovery.points import TrainingPoints
from dftfd.discovery.proposers import candidates_in
from dftfd.discovery.results import Discovery, looked
from dftfd.discovery.search import Search
from dftfd.discovery.specification import Specification, of_dictionary, read_specification
from dftfd.errors import FileError, InputError, shown
from dftfd.runtime.arguments import Kind, each, number, optional, public, text, whole
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.files import unfinished
from dftfd.runtime.records import digest, recorded
from dftfd.runtime.version import VERSION

RECORD = "a discovery"
SPECIFICATION = Kind("a file .toml or a dictionary", lambda value: _specified(value))


def _specified(value):
    if isinstance(value, Specification | Mapping):
        return value
    return as_path.convert(value)


@public
def discover(
    specification: Annotated[Any, SPECIFICATION],
    *,
    folder: Annotated[Path | None, optional(as_path)] = None,
    resume: bool = False,
    candidates: Annotated[Path | None, optional(as_path)] = None,
    points: Any = None,
    generations: Annotated[int | None, optional(whole(1, 10_000_000))] = None,
    hours: Annotated[float | None, optional(number(lambda x: x > 0, "hours above 0"))] = None,
    jobs: Annotated[int, whole(1)] = 1,
    client: Any = None,
    propose_with: Annotated[Sequence[str], each(text, "a list of words")] = (),
    look: Annotated[str, text] = "",
    on_step: Callable[[Discovery], None] = lambda step: None,
) -> Discovery:
    """Functionals that a search finds: formulas fitted to reaction energies whose exact conditions are proved.

    specification: a file .toml or a dictionary of the same form (docs/discovery.md).
    folder: gets the record of the run and, after each generation, its results; None keeps them in memory.
    resume: go on from the record in the folder, to the same bits as without the interruption.
    candidates: file of formulas to begin with, a line {"x": ..., "c": ...} of JSON each.
    points: TrainingPoints in the place of those that the specification names.
    generations: in the place of the specification's.   hours: after which no further generation begins.
    jobs: processes.   client: a dask.distributed.Client, whose workers compute.
    propose_with: words of a program that proposes, for the share of `command` in the specification.
    look: why the errors of held-out reactions are to be computed at the end; each look is a line in `looks.jsonl`.
    on_step: told of what is found after each generation.

    Raises InputError for what does not fit, FileError for files, CheckpointError for the record of another search.
    """
    own = read(specification, propose_with)
    own = own if generations is None else replace(own, generations=generations)
    if client is not None:
        require_client(client)
    if points is None:
        points = TrainingPoints.read(own.points)
    if not isinstance(points, TrainingPoints):
        raise InputError(f"points={shown(points)}: a dftfd.discovery.points.TrainingPoints expected.")
    if look and folder is None:
        raise InputError("look= needs a folder, which counts the looks at held-out reactions.")
    start = [] if candidates is None else candidates_in(candidates, own.form)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    identity = own.identity | {
        "points": digest([points.base, points.x_weight, points.c_weight, points.reference, list(points.role)]),
        "candidates": digest([c.document for c in start]),
        "dftfd": VERSION,
        "NumPy": np.__version__,
    }
    path = None if folder is None else Path(folder) / "record.jsonl"
    if path is not None and not resume and os.path.lexists(path):
        raise FileError(f"{path} exists: go on from it with resume=True (--resume), or take another folder.")
    with recorded(path, RECORD, identity) as record:
        if path is not None:
            unfinished[str(path)] = " with --resume"
        search = Search(own, points, record, start, jobs, client)
        for state in search.generations(None if hours is None else 3600 * hours):
            on_step(_kept(Discovery.of(state), folder))
        held_out = (
            looked(search.state.front(), points, own, Path(folder) / "looks.jsonl", look) if look and folder else {}
        )
        return _kept(Discovery.of(search.state, held_out), folder)


def read(given: Any, command: Sequence[str] = ()) -> Specification:
    """The Specification of a file, of a dictionary, or itself.   command: words of a program that proposes."""
    if isinstance(given, Specification):
        return given
    return of_dictionary(given, None, command) if isinstance(given, Mapping) else read_specification(given, command)


def _kept(found: Discovery, folder) -> Discovery:
    if folder is not None:
        found.save(Path(folder))
    return found
