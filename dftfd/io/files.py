"""Files that appear whole or not at all."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

from dftfd.errors import FileError


def check_writable(path) -> None:
    """Raise FileError now rather than after the calculation if `path` cannot be written."""
    path = Path(path)
    if path.is_dir():
        raise FileError(f"cannot write {path}: it is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: the folder {path.parent} does not exist.")
    if not os.access(path.parent, os.W_OK):
        raise FileError(f"cannot write {path}: no permission to write in {path.parent}.")


@contextmanager
def written_whole(path):
    """Gives the path of a temporary file beside `path`, which replaces it where the block ends without error.

    A reader sees the old file or the whole new one, never a part. Raises FileError where the disk says no.
    """
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        try:
            yield Path(temporary)
            _flush(temporary)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write {path}: {error.strerror or error}.") from error


def write_text(path, text: str) -> None:
    """Write a text file whole."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _flush(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _umask():
    """The process's file mode mask; mkstemp would leave the file private."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
