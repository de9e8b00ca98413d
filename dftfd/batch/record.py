"""The record of a batch (dftfd.runtime.records): a line for each molecule, so that an interrupted batch can go on.

A line has the key of all that its numbers depend on, so that records may be put together, and the batch reordered.
"""

import hashlib
import json
import os
import warnings
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from dftfd.batch.entries import Entry
from dftfd.batch.outcomes import Outcome
from dftfd.errors import FunctionalError, InputError, InputWarning
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.model.identity import versions
from dftfd.model.option_values import for_json
from dftfd.model.options import ENERGY, SEARCH, START, STATE
from dftfd.results.tree import MOLECULE_TEXT
from dftfd.runtime import records
from dftfd.runtime.chosen_terms import ChosenTerm
from dftfd.runtime.documents import require_types
from dftfd.runtime.files import read_bytes


@contextmanager
def recorded(path, options, also=(), asked=None):
    """The Answers of a batch with these Options, locked against other runs; `also` as in `run_entry`.

    asked: what else the answers depend on, as the task, by name.

    Raises FileError for a file that is no record, is damaged, cannot be written, or is in use.
    """
    with records.recorded(path, "a batch", None) as record:
        yield Answers(record, options, also, asked or {})


class Answers:
    """What a record knows: results of the same molecule, formulas and options, by the same version."""

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
                f"what computes functional {name!r} is not what it was in results that {self._record.path} holds: its "
                "formula, a parameter, or the version of dftfd, JAX or PySCF. They are computed anew.",
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
