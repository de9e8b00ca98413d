"""Pictures by Matplotlib, which is an extra: they appear whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dftfd.errors import InputError, MissingDependencyError
from dftfd.runtime.files import check_writable, written_whole

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
