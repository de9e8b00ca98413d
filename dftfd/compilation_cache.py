"""JAX's persistent compilation cache: a functional is compiled once per machine, not once per process.

The folder is DFTFD_CACHE_DIR, or `xla` under the user's cache directory; an empty DFTFD_CACHE_DIR switches the cache
off. A folder that JAX was told of already (JAX_COMPILATION_CACHE_DIR or jax.config) is left alone. Where the folder
can't be written, everything works without it.

JAX writes into a local folder in place: who reads at that moment, or after the writer was killed, finds half a program,
and JAX never replaces a file that is there. It takes other storage by the prefix of its address, through etils.epath;
under the prefix of this module lies the same local folder, in which files appear whole or not at all.
"""

import logging
import os
from pathlib import Path

import jax
from etils import epath
from platformdirs import user_cache_path

from dftfd.errors import FileError
from dftfd.io.files import write_bytes

SHORTEST_COMPILATION = 0.1  # seconds; quicker ones are not worth a file
PREFIX = "dftfd-whole-files://"

log = logging.getLogger(__name__)


class WholeFile(type(Path())):
    """A path whose files appear whole."""

    def write_bytes(self, data) -> int:
        """A program that can't be kept is compiled again by the next process; nothing else depends on it."""
        try:
            write_bytes(self, data)
        except FileError as error:
            log.info("compiled program not kept: %s", error)
            return 0
        return len(data)


@epath.register_path_cls(PREFIX)
class _Address:
    """An address with the prefix makes a WholeFile."""

    def __new__(cls, address: str):
        return WholeFile(address.removeprefix(PREFIX))


def cache_folder() -> Path | None:
    """Where compiled programs are kept; None if they are not."""
    chosen = os.environ.get("DFTFD_CACHE_DIR")
    if chosen == "":
        return None
    return Path(chosen) if chosen else user_cache_path("dftfd") / "xla"


def enable_compilation_cache() -> None:
    """Point JAX to the folder, unless it has one or the folder can't be written."""
    folder = cache_folder()
    if folder is None or jax.config.jax_compilation_cache_dir is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", f"{PREFIX}{folder.absolute()}")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_COMPILATION)
