"""The source tree of libxc that the environment variable DFTFD_LIBXC_SOURCE names: its formulas, read when asked for.

The tree is the user's (https://libxc.gitlab.io, MPL-2.0), version 7.0.0: folders maple, with the formulas, and src.
"""

import functools
import hashlib
from dataclasses import replace

from dftfd.errors import FileError
from dftfd.functionals.maple_kernel import MapleKernel, read_kernel
from dftfd.runtime.libxc_folder import VARIABLE, maple_folder

VERSION = "7.0.0"
WHERE = f"the source tree of libxc {VERSION} (https://libxc.gitlab.io), named by {VARIABLE} or --libxc-source"


def kernel(file: str, reads) -> MapleKernel:
    """The formula of a file such as "gga_exc/gga_x_pbe".   reads: what it looks at, see `MapleKernel.with_reads`."""
    found = maple_folder()
    if found is None:
        raise FileError(f"libxc's formulas need {WHERE}.")
    return replace(_read(found, file), reads=tuple(reads))


@functools.lru_cache(512)
def _read(folder, file) -> MapleKernel:
    inner, _, name = file.partition("/")
    return read_kernel(folder / inner / f"{name}.mpl", (folder,))


def text_key(formula: MapleKernel) -> str:
    """The text of a formula, with all that it includes, as sixteen letters."""
    return hashlib.sha256(formula.text.encode()).hexdigest()[:16]
