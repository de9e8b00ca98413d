"""Records: what is done of a long run, in a file that the same run goes on from after an interruption.

A record is lines of JSON. The first one says what the run was (kind and identity), each other one is a finished piece.
Lines carry a checksum, are written with one call, and are on the disk when `add` returns, so an interruption cuts the
last one short at most, which the next run takes away. One process at a time has a record.

    {"record": "a scan", "identity": {"functional": "pbe", "formula": "#0123456789abcdef", ...}, "check": "..."}
    {"value": 0.9, "energy": -1.1, ..., "check": "0123456789abcdef"}

An identity holds by name all that the numbers depend on; digests (#...) stand for what is long. Records whose pieces
bring keys of their own, as those of batches, have no first line of this kind.
"""

import fcntl
import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.errors import CheckpointError, DamagedFileError, FileError, InputError, InputWarning, shown
from dftfd.runtime.files import check_writable, read_bytes, unfinished, write_bytes
from dftfd.runtime.json_reader import as_json, parse_json

MAX_BYTES = 8 * 2**30
"""Records above this size are refused unread."""

HEAD, KEYED = b'{"record": ', b'{"key": '
"""How files begin."""

DIGITS = 16  # of checksums and digests
_CHECK = re.compile(rf', "check": "([0-9a-f]{{{DIGITS}}})"}}$'.encode())


def checksum(text: bytes) -> str:
    """Hexadecimal digits that another text has with a chance of 2^-64."""
    return hashlib.sha256(text).hexdigest()[:DIGITS]


def digest(value) -> str:
    """What stands in an identity for a long value, arrays by their numbers."""
    text = json.dumps(value, sort_keys=True, default=_plain)
    return f"#{checksum(text.encode())}"


def _plain(value):
    if isinstance(value, np.ndarray):
        return [list(value.shape), (value + 0).tolist()]  # -0.0 + 0 is 0.0
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no digest")


def require_same(path, what: str, there: Mapping, here: Mapping) -> None:
    """CheckpointError, with all that differs, unless a record is of the run that is to go on.

    what: the file, 'record of a scan'.   there: identity in the file.   here: that of the run.
    """
    here = {name: value for name, value in as_json(here).items() if name in there or name != "PySCF"}  # new in records
    names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    if "JAX" in names:  # which traces the same formula to another program
        names = [name for name in names if name != "formula"]
    if names:
        differences = "; ".join(_difference(name, there.get(name), here.get(name)) for name in names)
        raise CheckpointError(
            f"{path} is the {what} of another calculation: {differences}. Continue with the same calculation, or "
            "use another name."
        )


def _difference(name, there, here):
    if name == "formula":
        return "the formula of the functional has changed"
    if any(isinstance(value, str) and value.startswith("#") for value in (there, here)):
        return f"other {name}"
    said = ["the default" if value is None else shown(value, 40) for value in (there, here)]
    return f"{name} {said[0]} instead of {said[1]}"


@contextmanager
def locked(path) -> Iterator[None]:
    """Inside, no other process has the same file; FileError where one has it now.

    The lock is a hidden file beside, which goes with the process whatever ends it, and lasts while the file itself is
    replaced.
    """
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    try:
        handle = _lock(path, lock)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}.") from error
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(lock)
        os.close(handle)


def _lock(path, lock) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(lock)):  # else its last owner has removed it meanwhile
                    return handle
        except BlockingIOError as error:
            os.close(handle)
            raise FileError(f"{path} is in use by another run; wait for it to end, or use another name.") from error
        except OSError as error:  # a file system without locks
            said = f"{path} cannot be locked ({error.strerror}); let one run at a time write it."
            warnings.warn(said, InputWarning, stacklevel=2)
            return handle
        os.close(handle)


@contextmanager
def recorded(
    path, what: str, identity: Mapping | None, restart: bool | None = None, earlier: Callable | None = None
) -> Iterator["Record"]:
    """The Record in a file, locked; without a file one that is kept in memory.

    what: its kind, 'a scan'.   identity: what its numbers depend on, None where its pieces say so themselves.
    restart: whether a file that exists is gone on from, or refused; None always goes on.
    earlier: (contents as bytes) -> None, or the pieces of a file of an earlier version, for the run at hand.

    Raises CheckpointError for the record of another run, DamagedFileError for lines that are not as they were written,
    FileError for other files and for one in use.
    """
    if path is None:
        if restart:
            raise InputError(f"restart=True needs the record= of the run that was interrupted, {what}.")
        yield Record(None, what, identity)
        return
    with locked_new(path, restart):
        record = Record(Path(path), what, identity, earlier)
        try:
            yield record
        finally:
            record.close()


@contextmanager
def locked_new(path, restart: bool | None) -> Iterator[None]:
    """`locked`; FileError for a file that exists where restart is False, and for one that cannot be written.

    Ctrl-C names the file, and how to go on from it.
    """
    check_writable(path)
    with locked(path):
        require_new_record(path, restart)
        unfinished[str(path)] = "" if restart is None else " with --restart"
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException:
            del unfinished[str(path)]
            raise
        del unfinished[str(path)]


def require_new_record(path, restart: bool | None) -> None:
    """FileError for a file that exists where restart is False."""
    if restart is False and os.path.lexists(path):
        raise FileError(
            f"{path} exists: continue from it with restart=True (--restart), or choose another name (of a path: "
            "--trajectory)."
        )


class Record:
    """Lines of a file; `pieces` are those that are done, as dictionaries."""

    def __init__(self, path: Any, what: str, identity: Any, earlier: Callable | None = None):
        self.path, self.what, self._identity = path, what, identity
        self._stream: Any = None
        self.pieces: list[dict] = []
        if path is not None and os.path.lexists(path):
            self._read(read_bytes(path, MAX_BYTES), earlier)

    def add(self, piece: Mapping) -> None:
        """A piece is done; it is on the disk when this returns."""
        self.pieces.append(dict(piece))
        if self.path is not None:
            begins = not self._stream and not (os.path.exists(self.path) and os.path.getsize(self.path))
            self._append([*(self._head() if begins else []), piece])

    def replace(self, pieces: list[dict]) -> None:
        """Write the file anew with these pieces, whole."""
        self.close()
        self.pieces = pieces
        if self.path is not None:
            write_bytes(self.path, b"".join(map(_line, [*self._head(), *pieces])))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _head(self):
        return [] if self._identity is None else [{"record": self.what, "identity": self._identity}]

    def _append(self, lines):
        try:
            self._stream = self._stream or open(self.path, "ab")  # noqa: SIM115  closed with the record
            end = self._stream.seek(0, os.SEEK_END)
            try:
                self._stream.write(b"".join(map(_line, lines)))
                self._stream.flush()
                os.fsync(self._stream.fileno())
            except OSError:
                with suppress(OSError):
                    self._stream.truncate(end)
                raise
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror or error}.") from error

    def _read(self, text, earlier):
        if earlier is not None and (pieces := earlier(text)) is not None:
            self.replace(pieces)
            return
        head, self.pieces, whole = _contents(self.path, text, self.what, self._identity is not None)
        if head is not None:
            require_same(self.path, f"record of {self.what}", head["identity"], self._identity)
        if whole < len(text):
            os.truncate(self.path, whole)

    def damaged(self, number: int, error: Exception) -> DamagedFileError:
        """The error for a piece, from 0, that holds something else than it has to."""
        line = number + (1 if self._identity is None else 2)
        return DamagedFileError(f"{self.path}, line {line}: no piece of {self.what}: {error!r}; give another file.")


def pieces_of(path, what: str) -> list[dict]:
    """The pieces of a record with an identity, without taking its lock; raises as `recorded`."""
    return _contents(path, read_bytes(path, MAX_BYTES), what, True)[1]


def _contents(path, text: bytes, what: str, has_head: bool) -> tuple[dict | None, list[dict], int]:
    """First line, pieces, and how many bytes are whole lines."""
    start = HEAD if has_head else KEYED
    if text[: len(start)] != start[: len(text)]:
        raise FileError(f"{path} is not a record of {what}; give another file.")
    whole = text[: text.rfind(b"\n") + 1]
    found = [_fields(path, number, line, what, has_head) for number, line in enumerate(whole.splitlines(), start=1)]
    if unchecked := sum(not checked for _, checked in found):
        warnings.warn(
            f"{path} has {unchecked} lines without a checksum, from an earlier version, so changes in them cannot "
            "be detected.",
            InputWarning,
            stacklevel=2,
        )
    pieces = [fields for fields, _ in found]
    head = pieces.pop(0) if has_head and pieces else None
    if head is not None and (head.get("record") != what or not isinstance(head.get("identity"), dict)):
        raise FileError(f"{path} is the record of {shown(head.get('record'))}, not of {what}.")
    return head, pieces, len(whole)


def _fields(path, number, line, what, is_ordered) -> tuple[dict, bool]:
    """What a line holds, and whether it has a checksum, which is right then."""
    found = _CHECK.search(line)
    text = line if found is None else line[: found.start()] + b"}"
    if found is not None and found[1].decode() != checksum(text):
        raise DamagedFileError(
            f"{path}, line {number}: the line was changed, its checksum differs; remove the "
            f"line{' and all after it' if is_ordered else ''}, and it will be computed again."
        )
    try:
        fields = parse_json(text)
        if type(fields) is not dict or found is None and is_ordered:  # records with an identity always had checksums
            raise ValueError
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(
            f"{path}, line {number}: not a line of the record of {what}; give another file."
        ) from error
    return fields, found is not None


def _line(fields: Mapping[str, Any]) -> bytes:
    text = json.dumps(fields, allow_nan=False).encode()
    return text[:-1] + f', "check": "{checksum(text)}"}}\n'.encode()
