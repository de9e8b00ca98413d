"""Many molecules with the same options: in this process, in several, or on the workers of a Dask cluster.

Molecules are independent, so each outcome is given as it comes, and one that fails (bad input, no convergence, a
process that dies) is reported and does not hold up the others.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.batch.entries import TASKS, Entry, Outcome, Outcomes, failure, read_entries, run_entry
from dftfd.batch.processes import in_processes, on_cluster, require_client
from dftfd.errors import FunctionalError, InputError, InputWarning, shown
from dftfd.functionals.definition import portable
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional, is_of_library
from dftfd.model.identity import versions
from dftfd.model.option_values import for_json
from dftfd.model.options import ENERGY, RUN, SEARCH, START, STATE, Options
from dftfd.results.tree import MOLECULE_TEXT
from dftfd.runtime import records
from dftfd.runtime.arguments import LONGEST_SEQUENCE, Kind, accepted, anything, choice, each, public, text, whole
from dftfd.runtime.chosen_terms import ChosenTerm
from dftfd.runtime.documents import require_types
from dftfd.runtime.files import read_bytes
from dftfd.tasks.optimization import text_of_constraints

__all__ = ["Outcome", "Outcomes", "run_batch"]


def _as_many(value):
    if isinstance(value, str | bytes | Mapping) or (isinstance(value, np.ndarray) and value.dtype.kind not in "UO"):
        raise ValueError  # one text or a table of numbers, not many molecules
    found = tuple(islice(value, LONGEST_SEQUENCE + 1))
    return accepted(len(found) <= LONGEST_SEQUENCE, found)


def _sent(options: Options) -> dict:
    """The options that are not the default, as other processes get them; InputError where they cannot be sent."""
    changed = options.changed()
    for name, value in changed.items():
        if name == "xc":
            continue
        try:
            ForkingPickler.dumps(value)
        except Exception as error:  # whatever somebody's object says to it
            raise InputError(f"{name}={shown(value)} cannot be sent to other processes; use jobs=1.") from error
    try:
        functional = get_functional(options.xc)
    except FunctionalError:  # about which each entry will complain
        return changed
    return (
        changed if isinstance(options.xc, str) and is_of_library(functional) else changed | {"xc": portable(functional)}
    )


def _require_own(options: Options, own: Mapping) -> Options:
    """The options of one entry; InputError where its own are none, or belong to the batch."""
    if given := Options.given_to("run_batch", **own).changed(RUN).keys():
        raise InputError(f"{min(given)}= cannot be an option of one molecule of a batch.")
    return Options.given_to("run_batch", **{**vars(options), **own})


def _refuse_shared(options: Options, queue) -> None:
    """InputError where molecules that differ share what the batch says of orbitals, atoms or points of one."""
    for name in sorted(options.by_number()):
        kinds: dict[Any, str] = {}
        for entry in queue:
            if (one := entry.molecule) is not None and name not in entry.options:
                place = one.coordinates.tobytes() if name == "grid" else b""
                kinds.setdefault((one.symbols, one.charge, one.spin, place), entry.name)
        if len(kinds) > 1:
            first, other, *_ = kinds.values()
            raise InputError(
                f"{name}= is for one molecule, and {shown(first)} and {shown(other)} are two; give each its own, as "
                f"(name, molecule, {{{name!r}: ...}})."
            )


_SEARCH = ("constraints", "coordinate_system", "max_steps", "optimizer", "grid_response")


def _require_search(task, search):
    """The arguments of an optimisation; InputError for others, and for other tasks."""
    if search and task not in ("optimization", "frequencies"):
        raise InputError(f"search= belongs to task='optimization' or 'frequencies', this is task={task!r}.")
    for name in search:
        if name not in _SEARCH:
            raise InputError(f"search= holds {shown(name)}; arguments of optimize expected: {', '.join(_SEARCH)}.")
    fixed = {"constraints": text_of_constraints(search["constraints"])} if search.get("constraints") else {}
    return search | fixed  # the text of a file, which other machines need not have


def _asked(task, search):
    """What a record's answers depend on besides options, nothing for energies."""
    return {} if task == "energy" else {"task": task} | ({"search": search} if search else {})


def _sent_entries(entries, together: Mapping):
    """Entries as other processes get them; `together`: their options by the identity of their own."""
    sent = {key: _sent(options) for key, options in together.items()}
    for entry in entries:
        known = sent.get(id(entry.options), {})
        own = {name: known.get(name, value) for name, value in entry.options.items()}
        yield replace(entry, options=own) if own else entry


def _as_functionals(value):
    given = tuple(text.convert(xc) if isinstance(xc, str) else xc for xc in each(anything).convert(value))
    found = [get_functional(xc) for xc in given]  # FunctionalError for what is none
    return tuple(xc if isinstance(xc, str) else f for xc, f in zip(given, found, strict=True))  # numbers are libxc's


_FUNCTIONALS = Kind("a list of functionals", _as_functionals)
_MOLECULES = Kind("a list of molecules, or of what dftfd.molecule reads", _as_many)


@public
def run_batch(
    molecules: Annotated[Iterable[Any], _MOLECULES],
    xc: Any = "pbe",
    *,
    jobs: Annotated[int, whole(1)] = 1,
    client: Any = None,
    record: Path | None = None,
    also: Annotated[Sequence[Any], _FUNCTIONALS] = (),
    task: Annotated[str, choice(*TASKS)] = "energy",
    search: dict[str, Any] | None = None,
    on_outcome: Callable[[Outcome, int], None] = lambda outcome, total: None,
    molecule_options: dict[str, Any] | None = None,
    **options: Any,
) -> Outcomes:
    """Run many molecules with the same options: a list with one Outcome for each, in the order of `molecules`.

    molecules: Molecules, or inputs of `dftfd.molecule`. A path may be a pattern ('*.xyz') or a trajectory with several
        frames. A pair (name, molecule) gives a name, a triple (name, molecule, options) also options for `run_scf`,
        which override the batch's.
    jobs: number of processes, which share cores and memory.
    client: a dask.distributed.Client, whose workers compute instead. They need dftfd.
    record: file that gets a line of JSON for each finished molecule. Results in it for the same molecule and options
        are reused, so an interrupted batch continues.
    also: functionals whose energies are computed on the same density. Each document holds them by name and component
        [hartree], as extras.dftfd.on_this_density.
    task: "gradient" also computes forces; "optimization" finds the nearest minimum. The document is then that of the
        last geometry, with the energies of the path as extras.dftfd.optimization. "frequencies" adds wavenumbers
        [cm^-1] as extras.dftfd.vibrations, after an optimisation if `search` is given.
    search: arguments of `dftfd.optimize` for optimisations, except options of run_scf, such as max_steps=.
    on_outcome: called with each Outcome when it is finished, and with the number of molecules.
    molecule_options: for `dftfd.molecule`, such as basis=.   options: for `run_scf`.

    Processes import the script that starts them, so call run_batch under `if __name__ == "__main__":`.
    Raises InputError, FileError and MissingDependencyError for the batch as a whole. Errors of a molecule are in its
    Outcome.

    >>> import dftfd
    >>> batch = dftfd.run_batch(["He 0 0 0;", "Ne 0 0 0;"], "lda,vwn", molecule_options={"basis": "sto-3g"})
    >>> [outcome.converged for outcome in batch]
    [True, True]
    """
    checked = Options.given_to("run_batch", xc=xc, **options)
    if given := checked.changed(RUN).keys() - {"max_memory"}:
        raise InputError(f"{min(given)}= is for one molecule; a batch has record= and on_outcome=.")
    elsewhere = jobs > 1 or client is not None
    common = (_sent if elsewhere else Options.changed)(checked)
    search = _require_search(task, search or {})
    others = {xc if isinstance(xc, str) else xc.name: replace(checked, xc=xc) for xc in also}
    sent = {name: _sent(options).get("xc", "pbe") if elsewhere else options.xc for name, options in others.items()}
    work = partial(run_entry, options=common, also=sent, task=task, search=search)
    if client is not None:
        require_client(client)
    queue = read_entries(molecules, molecule_options or {})
    own = {id(entry.options): entry.options for entry in queue if entry.options}
    together = {key: _require_own(checked, options) for key, options in own.items()}
    _refuse_shared(checked, queue)
    outcomes = {}

    def finish(outcome):
        outcomes[outcome.number] = outcome
        on_outcome(outcome, len(queue))

    with nullcontext() if record is None else recorded(record, checked, also, _asked(task, search)) as known:
        waiting = []
        for entry in queue:
            if entry.error is not None:
                finish(failure(entry, entry.error))
            elif known and (found := known.outcome(entry)):
                finish(found)
            else:
                waiting.append(entry)
        waiting = list(_sent_entries(waiting, together)) if elsewhere else waiting
        with closing(_outcomes(work, waiting, jobs, client)) as arriving:
            for outcome in arriving:
                if known:
                    known.add(queue[outcome.number], outcome)
                finish(outcome)
    return Outcomes(outcomes[entry.number] for entry in queue)


def _outcomes(task, waiting, jobs, client):
    """Generator of outcomes in the order in which they are done."""
    if client is not None:
        return on_cluster(task, waiting, client)
    if jobs > 1:
        return in_processes(task, waiting, min(jobs, len(waiting)))
    return (task(entry) for entry in waiting)


@contextmanager
def recorded(path, options, also=(), asked=None):
    """The Answers of a batch with these Options, locked against other runs; `also` as in `run_entry`.

    asked: what else the answers depend on, as the task, by name.

    Raises FileError for a file that is no record, is damaged, cannot be written, or is in use.
    """
    with records.recorded(path, "a batch", None) as record:
        yield Answers(record, options, also, asked or {})


class Answers:
    """What a record knows: results of the same molecule, formulas and options, by the same version.

    A line for each molecule has the key of all that its numbers depend on, so that an interrupted batch can go on,
    records may be put together, and the batch reordered.
    """

    def __init__(self, record, options, also, asked):
        self._record, self._options = record, options
        self._also, self._contexts, self._more = [_formulas(xc)[1] for xc in also], {}, asked
        self._known, self._asked = self._read()
        self._has_warned = False

    def outcome(self, entry: Entry) -> Outcome | None:
        """What the file has of the entry: a result, converged or not. Other failures are worth another attempt."""
        name, context, names = self._of(entry.options)
        found = self._known.get(self._key(entry, context))
        if found is None and self._key(entry, names) in self._asked and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"functional {name!r} has changed since the results in {self._record.path} were computed: its "
                "formula, a parameter, or the version of dftfd, JAX or PySCF. These results are computed again.",
                InputWarning,
                stacklevel=2,
            )
        return None if found is None else replace(found, number=entry.number, name=entry.name)

    def add(self, entry: Entry, outcome: Outcome) -> None:
        """Write a line."""
        _, context, names = self._of(entry.options)
        keys = {"key": self._key(entry, context), "asked": self._key(entry, names)}
        self._record.add(keys | asdict(outcome))

    def _key(self, entry, context):
        known = {name: getattr(entry.molecule, name) for name in (*MOLECULE_TEXT, "coordinates")}
        if terms := entry.options.get("terms", self._options.terms):
            known["terms"] = [term.fingerprint(entry.molecule) for term in map(ChosenTerm.of, terms)]
        molecule = _text(known)
        return hashlib.sha256(f"{molecule}\n{context}".encode()).hexdigest()

    def _of(self, own):
        """Name of the functional, what the numbers depend on besides the molecule, and the same by names alone."""
        named = tuple((name, id(value)) for name, value in own.items())
        if named not in self._contexts:
            options = replace(self._options, **own)
            given = options.changed(ENERGY, STATE, START, SEARCH)
            given |= {"guess": _contents(given["guess"])} if "guess" in given else {}
            name, formulas = _formulas(options.xc)
            common = ({"also": self._also} if self._also else {}) | self._more
            texts = [_text({"options": given | {"xc": formulas}} | common | versions())]
            texts += [_text({"options": given | {"xc": name}} | common)]
            self._contexts[named] = (name, *texts), own  # own is kept, so that its identities stay its own
        return self._contexts[named][0]

    def _read(self):
        known, asked = {}, set()
        for number, piece in enumerate(self._record.pieces):
            try:
                fields = dict(piece)
                key, question = fields.pop("key"), fields.pop("asked", None)
                outcome = require_types(Outcome(**fields | {"warnings": tuple(fields["warnings"])}))
            except (KeyError, TypeError, ValueError) as error:
                raise self._record.damaged(number, error) from error
            if outcome.document is not None:
                known[key] = outcome
                asked.add(question)
        return known, asked


def _formulas(xc):
    """Name and contents of a functional; of what is none, about which each entry will complain, that itself."""
    try:
        functional = get_functional(xc)
    except FunctionalError:
        return xc, xc
    return functional.name, (functional.definition, program_fingerprint(functional))


def _text(value):
    """JSON that is equal for equal values."""
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, default=for_json)
    except (TypeError, ValueError) as error:
        raise InputError(f"a batch with a record takes options that JSON can hold: {error}.") from error


def _contents(guess):
    """A starting density as records know it: that of a file by what is in the file."""
    if isinstance(guess, Path) or isinstance(guess, str) and os.path.isfile(guess):
        return f"{guess} {records.checksum(read_bytes(guess, records.MAX_BYTES))}"
    return guess
