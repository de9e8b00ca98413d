"""Contents that others wrote: whatever they lead to, where they are not what was expected, is one error of one line.

Readers of files take values apart as if they were right, inside of `refusing_damage`; `require_types` looks whether
what they made has the types that its class declares. Files are read by `files.read_bytes`, which takes regular files of
bounded size only, JSON by `json_reader`, HDF5 by `hdf5`, spreadsheets by `spreadsheet`, all within bounds.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_type_hints

from dftfd.errors import DamagedFileError, FileError, FunctionalError, MissingDependencyError, UnsupportedError, shown
from dftfd.runtime.arguments import kind_of
from dftfd.runtime.hdf5 import read_tree, write_tree
from dftfd.runtime.json_reader import parse_json

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
