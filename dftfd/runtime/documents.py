"""Contents that others wrote: whatever they lead to, where they are not what was expected, is one error of one line.

Readers of files take values apart as if they were right, inside of `refusing_damage`; `require_types` looks whether
what they made has the types that its class declares. Files are read by `files.read_bytes`, which takes regular files of
bounded size only, JSON by `json_reader`, HDF5 by `hdf5`, spreadsheets by `spreadsheet`, all within bounds.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_type_hints

from dftfd.errors import DamagedFileError, FileError, FunctionalError, MissingDependencyError, UnsupportedError, shown
from dftfd.runtime.arguments import kind_of

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
