"""Contents that others wrote: whatever they lead to, where they are not what was expected, is one error of one line.

Readers of files take values apart as if they were right, inside of `refusing_damage`; `require_types` looks whether
what they made has the types that its class declares. Files are read by `files.read_bytes`, which takes regular files of
bounded size only, JSON by `json_reader`, spreadsheets by `spreadsheet`, all within bounds. Trees of numbers and text
are HDF5 files behind a seal that tells damage from data:

    bytes 0 to 511    "dftfd", length and SHA-256 of all that follows, filled up with zeros
    then              HDF5

HDF5 calls the first 512 bytes a user block and skips them, so h5py and PySCF open the file as it is. Nothing of a file
reaches the HDF5 library before length and checksum are right.
"""

import dataclasses
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_type_hints

import h5py
import numpy as np

from dftfd.errors import DamagedFileError, FileError, FunctionalError, MissingDependencyError, UnsupportedError, shown
from dftfd.runtime.arguments import kind_of
from dftfd.runtime.files import require_ending, require_regular, without_waiting, write_bytes
from dftfd.runtime.json_reader import parse_json

BLOCK = 512
MAGIC = b"dftfd sealed HDF5\n"
MAX_BYTES = 16 * 2**30
"""Files above this size are refused unread."""

MAX_MEMBERS, MAX_DEPTH = 200, 6
_LIBRARY_ERRORS = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, RecursionError)


def write_tree(path, tree: Mapping, previous=None) -> None:
    """Write nested mappings of arrays, numbers and text; groups are mappings. The file appears whole or not at all.

    previous: a name that the file of before gets, None for none. FileError where the disk says no, InputError for a
    name that ends as files of another format do.
    """
    require_ending(path, ".h5")
    body = io.BytesIO()
    with h5py.File(body, "w", userblock_size=BLOCK, libver=("earliest", "v110")) as file:
        _write(file, tree)
    with body.getbuffer() as buffer:
        buffer[:BLOCK] = seal(buffer[BLOCK:])
        write_bytes(path, buffer, previous)


def seal(content) -> bytes:
    """The first block of a file whose other bytes are `content`."""
    text = b"%slength %d\nsha256 %s\n" % (MAGIC, len(content), hashlib.sha256(content).hexdigest().encode())
    return text.ljust(BLOCK, b"\0")


def _write(group, tree):
    for name, value in tree.items():
        if isinstance(value, Mapping):
            _write(group.create_group(name), value)
        elif isinstance(value, str):
            text = value.encode()
            group.create_dataset(name, data=text, dtype=h5py.string_dtype(length=max(1, len(text))))
        else:
            group[name] = value


def read_tree(path, what: str = "an HDF5 file") -> dict:
    """The tree of a file: groups as dicts, text as str, numbers as arrays.

    Raises FileError for a file that is not there or too large, DamagedFileError for what `write_tree` has not written.
    Links out of the file, objects, references and compressed data are refused: nothing but numbers and text comes in,
    no more than the file's own size of them.
    """
    try:
        with open(path, "rb", opener=without_waiting) as stream:
            size = _verify(path, stream, what)
            with h5py.File(stream, "r") as file:
                return _Reader(path, size).tree(file)
    except FileError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"cannot read {path} as {what}: there is no such file.") from error
    except _LIBRARY_ERRORS as error:
        raise DamagedFileError(f"cannot read {path} as {what}: {error}.") from error


def begins_as_ours(path) -> bool:
    """Whether a file begins as `write_tree` begins it; FileError where it cannot be read."""
    try:
        with open(path, "rb", opener=without_waiting) as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}.") from error


def _verify(path, stream, what) -> int:
    """The file's size; FileError unless length and checksum are right."""
    size_of_file = require_regular(stream, f"{path} as {what}", MAX_BYTES)
    block = stream.read(BLOCK)
    if not block.startswith(MAGIC):
        raise DamagedFileError(f"cannot read {path} as {what}: it does not begin as files of dftfd do.")
    checksum, size = hashlib.sha256(), 0
    while chunk := stream.read(2**20):
        checksum.update(chunk)
        size += len(chunk)
    expected = b"%slength %d\nsha256 %s\n" % (MAGIC, size, checksum.hexdigest().encode())
    if block != expected.ljust(BLOCK, b"\0"):
        raise DamagedFileError(f"{path} is damaged: length or checksum differ from what was written.")
    return size_of_file


class _Reader:
    """Reads one file; what it may hold in all is bounded by the file's size, however its groups are linked."""

    def __init__(self, path, size):
        self._path, self._bytes, self._members = path, size, MAX_MEMBERS

    def tree(self, group, depth=MAX_DEPTH):
        self._members -= len(group)
        if self._members < 0 or not depth:
            raise FileError(f"{self._path}: {group.name} is nested too deeply, or has too many parts; refused.")
        tree = {}
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise FileError(f"{self._path}: {group.name}/{name} is a link to another place; refused.")
            item = group[name]
            tree[name] = self.tree(item, depth - 1) if isinstance(item, h5py.Group) else self._data(item)
        return tree

    def _data(self, item):
        where = f"{self._path}: {item.name}"
        if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual or item.chunks is not None:
            raise FileError(f"{where} does not hold its own data as they are; refused.")
        self._bytes -= item.nbytes
        if item.nbytes > item.id.get_storage_size() or self._bytes < 0:
            raise FileError(f"{where} announces {item.nbytes} bytes, more than the file holds; refused.")
        text = h5py.check_string_dtype(item.dtype)
        if text is not None and text.length is None:  # in a heap, whose links the library follows without end
            raise FileError(f"{where} holds text of variable length; refused.")
        if text is not None and item.shape == ():
            return item[()].decode()
        if item.dtype.kind not in "iufb":
            raise FileError(f"{where} holds {item.dtype}; expected numbers or one text.")
        return np.asarray(item[()])


_AS_THEY_ARE = (FileError, FunctionalError, MissingDependencyError, UnsupportedError)


@contextmanager
def refusing_damage(path, said: str = "is damaged", error: type[Exception] = DamagedFileError) -> Iterator[None]:
    """Inside, failures of contents become `error`, '{path} {said}: reason'."""
    try:
        yield
    except _AS_THEY_ARE:
        raise
    except Exception as reason:  # contents can be of any type and size
        raise error(f"{path} {said}: {type(reason).__name__}: {str(reason)[:150]}.") from reason


def require_types(found):
    """An object of a dataclass, if each field has the type that is declared; else ValueError with the field's name."""
    hints = get_type_hints(type(found), include_extras=True)
    for field in dataclasses.fields(found):
        try:
            kind_of(hints[field.name]).convert(getattr(found, field.name))
        except Exception as error:
            raise ValueError(f"{field.name} is {shown(getattr(found, field.name), 40)}") from error
    return found


def write_part(
    path, name: str, version: int, text: Mapping, arrays: Mapping, document: Any = None, default: Callable | None = None
) -> None:
    """Write an object as a group of an HDF5 file, its text as JSON; `saved_part` reads it.

    version: of the format.   document: of a command, kept beside it.   default: of json.dumps.
    """
    tree = {name: {"format": version, "text": json.dumps(text, default=default), "arrays": arrays}}
    write_tree(path, tree if document is None else tree | document.tree())


@contextmanager
def saved_part(path, name: str, version: int) -> Iterator[tuple[dict, dict]]:
    """Text and arrays of a group that `write_part` wrote; inside, failures of contents are a DamagedFileError.

    FileError for files without the group, and of another format.
    """
    part = read_tree(path, name).get(name)
    if not isinstance(part, dict) or not {"format", "text", "arrays"} <= set(part):
        raise FileError(f"{path} holds no {name} of dftfd; expected a file written by {name}.save(...).")
    with refusing_damage(path):
        if int(part["format"]) != version:
            raise FileError(f"{path} has format {part['format']}; this version of dftfd reads format {version}.")
        yield parse_json(part["text"], finite=False), part["arrays"]
