"""Where libxc's formulas are: the source tree that DFTFD_LIBXC_SOURCE or --libxc-source names."""

import os
from pathlib import Path

from dftfd.errors import FileError

VARIABLE, COMMON_FILE = "DFTFD_LIBXC_SOURCE", "util.mpl"


def maple_folder(tree: Path | str | None = None) -> Path | None:
    """The folder maple of a tree, by default of the one that is named; None if none is. FileError for no such tree."""
    named = os.environ.get(VARIABLE) if tree is None else str(tree)
    if not named:
        return None
    found = Path(named).expanduser() / "maple"
    if not (found / COMMON_FILE).is_file():
        raise FileError(
            f"{VARIABLE}={named!r}: {found / COMMON_FILE} is not there; the folder of libxc's source expected."
        )
    return found
