"""Files that appear whole or not at all.

The contents go to a temporary file in the same folder, named after this process, which is flushed to the disk and then
takes the name. Whatever happens in between, a reader finds the old file or the new one. Temporary files of processes
that have died are removed by the next writer of the same name.
"""

import codecs
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dftfd.errors import FileError, InputError, MissingDependencyError, shown

FORMATS = {".h5", ".json", ".html", ".csv", ".xyz", ".molden", ".cube", ".npz", ".tex", ".png", ".svg", ".pdf"}
"""Endings that name the format of some file that dftfd writes."""


def require_ending(path, *endings: str, exactly: bool = False) -> None:
    """InputError for a name that ends as files of another format do; exactly: for all but `endings`."""
    ending = Path(path).suffix.lower()
    if ending not in endings and (exactly or ending in FORMATS):
        name, known = shown(str(path), 120), " or ".join(endings)
        raise InputError(f"cannot write {name} in the format of its ending: the name must end in {known}.")


unfinished: dict[str, str] = {}
"""Files of runs that go on from them, as records, and how: open ones, and those that Ctrl-C has closed."""


def check_writable(path) -> None:
    """Raise FileError now rather than after the calculation if `path` cannot be written."""
    path = Path(path)
    if os.path.isdir(path):  # os.path: Path's questions raise where a folder cannot be searched
        raise FileError(f"cannot write {path}: it is a folder; give the name of a file.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise FileError(f"cannot write {path}: it is not a regular file, and would be replaced by one.")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise FileError(f"cannot write {path}: the file is read-only.")
    if not os.path.isdir(path.parent):
        raise FileError(f"cannot write {path}: the folder {path.parent} does not exist, or cannot be searched.")
    if not os.access(path.parent, os.W_OK):
        raise FileError(f"cannot write {path}: no permission to write in {path.parent}.")


@contextmanager
def written_whole(path, previous=None, lasting=True):
    """Gives the path of a temporary file beside `path`, which replaces it where the block ends without error.

    previous: a name that the file of before gets, None for none. A reader sees the old file or the whole new one, never
    a part. Raises FileError where the disk says no; `path` is then what it was.   lasting: False for what can be made
    again, one of thousands in its folder: it does not wait for the disk, nor does it look for orphans.
    """
    path = Path(path)
    check_writable(path)
    try:
        if lasting:
            remove_orphans(path.parent, _start(path))
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{_start(path)}{os.getpid()}.", suffix=".tmp")
        os.close(handle)
        try:
            yield Path(temporary)
            if lasting:
                _flush(temporary)
            os.chmod(temporary, _mode(path))
            if previous is not None:
                _keep(path, previous, temporary)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        if lasting:
            with suppress(OSError):  # makes the rename permanent, where folders can be flushed; the file itself is
                _flush(path.parent)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write {path}: {error.strerror or error}.") from error


def read_bytes(path, limit: int) -> bytes:
    """The contents of a regular file of at most `limit` bytes; FileError for anything else, at once.

    A pipe that nobody fills is not waited for, a device without end is not read.
    """
    try:
        with open(path, "rb", opener=without_waiting) as stream:
            return stream.read(require_regular(stream, path, limit))  # `limit` bytes would be allocated
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error


def decoded(content: bytes, name: str, expected: str) -> str:
    """The text of a file in UTF-8, UTF-16 or UTF-32; FileError, which says what is expected, for any other bytes.

    The last two are told by their byte order mark, UTF-16 also by the zeros that plain letters have there.
    """
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    if encoding == "utf-8" and len(content) > 3 and 0 in content[:2]:
        encoding = "utf-16-be" if content[0] == 0 else "utf-16-le"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        kind = next((kind for start, kind in _BINARY.items() if content.startswith(start)), "")
        raise FileError(
            f"{name} is not a text file (byte {error.start} is not {encoding.upper()}){kind}; expected {expected}, in "
            "UTF-8."
        ) from error
    if "\0" in text[:1000]:
        raise FileError(f"{name} is not a text file (it holds zeros); expected {expected}.")
    return text.removeprefix("\ufeff")


_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_BINARY = {
    b"dftfd sealed": ", but a saved result, which dftfd.load_result and `dftfd view` read",
    b"\x89HDF": ", but HDF5",
    b"PK\x03\x04": ", but a zip archive or an office document",
    b"\x1f\x8b": ", but compressed by gzip; unpack it",
    b"%PDF": ", but a PDF",
}


def require_regular(stream, path, limit: int) -> int:
    """The size of an open file; FileError unless it is a regular one of at most `limit` bytes."""
    status = os.fstat(stream.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"cannot read {path}: it is not a regular file.")
    if status.st_size > limit:
        raise FileError(f"cannot read {path}: {status.st_size} bytes are more than {limit}.")
    return status.st_size


def without_waiting(path, flags) -> int:
    """A file descriptor, at once: a named pipe would wait for somebody at its other end. An opener for `open`."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def write_text(path, text: str) -> None:
    """Write a text file whole."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path, content, previous=None, lasting=True) -> None:
    """Write bytes whole; `previous` and `lasting` as in `written_whole`."""
    with written_whole(path, previous, lasting) as temporary, open(temporary, "wb") as stream:
        stream.write(content)  # Path.write_bytes would keep a view of the content in the traceback of an error


def remove_orphans(folder, start: str = ".") -> None:
    """Delete temporary files whose names begin so, and that processes on this host left when they died."""
    host = f".{socket.gethostname()}-"
    for name in os.listdir(folder):
        if name.startswith(start) and name.endswith(".tmp"):
            owner = name.rpartition(host)[2].split(".")[0]
            if owner.isdecimal() and not _is_alive(int(owner)):
                with suppress(OSError):  # somebody else's, or gone meanwhile
                    os.unlink(os.path.join(folder, name))


def _keep(path, previous, temporary):
    """Give the file `path` a second name; a hard link, so that it never lacks its first one."""
    link = f"{temporary.removesuffix('.tmp')}.old.tmp"
    try:
        os.link(path, link)
    except FileNotFoundError:
        return
    except OSError:  # a file system without hard links: `path` is missing for a moment, `previous` is not
        os.replace(path, previous)
        return
    os.replace(link, previous)
    Path(link).unlink(missing_ok=True)  # where both were the same file already, the rename has left it


def _start(path):
    """How the names of temporary files begin, before the number of the process."""
    return f".{path.name}.{socket.gethostname()}-"


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _flush(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mode(path):
    """Permissions of the file that is replaced, or those of a new file; mkstemp would leave it private."""
    with suppress(OSError):
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


ENDINGS = (".png", ".svg", ".pdf")


def require_matplotlib() -> None:
    """Raise MissingDependencyError before any work is done for a picture that could not be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("pictures need Matplotlib: pip install 'dftfd[plots]'.") from error


@contextmanager
def picture(path: Path, width: float = 7.0, height: float = 4.0) -> Iterator[Any]:
    """Gives a Matplotlib figure of this size [inch], which is written where the block ends without error.

    InputError for an ending that names no format, FileError where the file cannot be written.
    """
    require_picture(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=150, format=Path(path).suffix[1:].lower())


def require_picture(path: Path) -> None:
    """Raise what `picture` would, before any work is done for it."""
    require_matplotlib()
    from matplotlib.backend_bases import FigureCanvasBase

    if Path(path).suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
        raise InputError(f"cannot tell the format of the picture {str(path)!r}: .png, .svg or .pdf expected.")
    check_writable(path)
