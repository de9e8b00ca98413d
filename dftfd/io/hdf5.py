"""Trees of numbers and text in HDF5 files, written whole and read within bounds."""

from collections.abc import Mapping

import h5py
import numpy as np

from dftfd.errors import FileError
from dftfd.io.files import written_whole

MAX_BYTES = 4 * 2**30
"""Arrays above this size are not read: a small file can announce any shape."""


def write_tree(path, tree: Mapping) -> None:
    """Write nested mappings of arrays, numbers and text; groups are mappings. The file appears whole or not at all."""
    with written_whole(path) as temporary, h5py.File(temporary, "w", libver=("earliest", "v110")) as file:
        _write(file, tree)


def _write(group, tree):
    for name, value in tree.items():
        if isinstance(value, Mapping):
            _write(group.create_group(name), value)
        else:
            group[name] = value


def read_tree(path, what: str = "an HDF5 file") -> dict:
    """The tree of a file: groups as dicts, text as str, numbers as arrays. FileError for anything else, by name.

    Links out of the file, objects and references are refused, so nothing but numbers and text comes in.
    """
    try:
        with h5py.File(path, "r") as file:
            return _read(file, path)
    except FileError:
        raise
    except (OSError, KeyError, RuntimeError, ValueError, UnicodeDecodeError) as error:
        raise FileError(f"cannot read {path} as {what}: {error}.") from error


def _read(group, path):
    tree = {}
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise FileError(f"{path}: {group.name}/{name} is a link to another place; refused.")
        item = group[name]
        tree[name] = _read(item, path) if isinstance(item, h5py.Group) else _read_data(item, path)
    return tree


def _read_data(item, path):
    where = f"{path}: {item.name}"
    if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual:
        raise FileError(f"{where} does not hold its own data; refused.")
    if item.nbytes > MAX_BYTES:
        raise FileError(f"{where} announces {item.nbytes / 2**30:.1f} GiB, more than {MAX_BYTES / 2**30:.0f}; refused.")
    if h5py.check_string_dtype(item.dtype) is not None and item.shape == ():
        return item.asstr()[()]
    if item.dtype.kind not in "iufb":
        raise FileError(f"{where} holds {item.dtype}; expected numbers or one text.")
    return np.asarray(item[()])
