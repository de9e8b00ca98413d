"""The file of a batch: one line of JSON for each molecule, so that an interrupted batch can go on.

A line is written with one call and flushed to the disk before the next outcome is looked at. What an interruption has
cut short is the last line at most, and is removed when the batch goes on.
"""

import fcntl
import hashlib
import json
import os
import warnings
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from dftfd.batch.entries import Entry
from dftfd.batch.outcomes import Outcome
from dftfd.errors import FileError, FunctionalError, InputError, InputWarning
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.model.option_values import for_json
from dftfd.model.options import ENERGY, SEARCH, START, STATE
from dftfd.results.tree import MOLECULE_TEXT
from dftfd.runtime.files import check_writable, require_regular
from dftfd.runtime.version import VERSION

MAX_BYTES = 8 * 2**30
"""Records above this size are refused unread."""


@contextmanager
def recorded(path, options, also=(), asked=None):
    """The Record of a batch with these Options, locked against other batches; `also` as in `run_entry`.

    asked: what else the answers depend on, as the task, by name.

    Raises FileError for a file that is no record, cannot be written, or is in use.
    """
    try:
        check_writable(path)
        with Path(path).open("a+b") as file:
            require_regular(file, path, MAX_BYTES)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Record(file, path, options, also, asked or {})
    except BlockingIOError as error:
        raise FileError(f"{path} is in use by another batch.") from error
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}.") from error


class Record:
    """An open record. Results of the same molecule, formulas and options, by the same version, are known again."""

    def __init__(self, file, path, options, also, asked):
        self._file, self._path, self._options = file, path, options
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
                f"the formula or a parameter of functional {name!r} is not what it was in results that "
                f"{self._path} holds; they are computed anew.",
                InputWarning,
                stacklevel=2,
            )
        return None if found is None else replace(found, number=entry.number, name=entry.name)

    def add(self, entry: Entry, outcome: Outcome) -> None:
        """Write a line."""
        _, context, names = self._of(entry.options)
        keys = {"key": self._key(entry, context), "asked": self._key(entry, names)}
        line = json.dumps(keys | asdict(outcome), allow_nan=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _key(self, entry, context):
        molecule = _text({name: getattr(entry.molecule, name) for name in (*MOLECULE_TEXT, "coordinates")})
        return hashlib.sha256(f"{molecule}\n{context}".encode()).hexdigest()

    def _of(self, own):
        """Name of the functional, what the numbers depend on besides the molecule, and the same by names alone."""
        named = tuple((name, id(value)) for name, value in own.items())
        if named not in self._contexts:
            options = replace(self._options, **own)
            given = options.changed(ENERGY, STATE, START, SEARCH)
            name, formulas = _formulas(options.xc)
            common = {"dftfd": VERSION} | ({"also": self._also} if self._also else {}) | self._more
            texts = [_text({"options": given | {"xc": xc}} | common) for xc in (formulas, name)]
            self._contexts[named] = (name, *texts), own  # own is kept, so that its identities stay its own
        return self._contexts[named][0]

    def _read(self):
        self._file.seek(0)
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]
        known, asked = {}, set()
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                fields = json.loads(line)
                key, question = fields.pop("key"), fields.pop("asked", None)
                outcome = Outcome(**fields | {"warnings": tuple(fields["warnings"])})
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise FileError(f"{self._path}, line {number}: no outcome of a batch; give another file.") from error
            if outcome.document is not None:
                known[key] = outcome
                asked.add(question)
        if not whole and text and not text.startswith(b'{"key": '):
            raise FileError(f"{self._path} is no record of a batch; give another file.")
        self._file.truncate(len(whole))
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
