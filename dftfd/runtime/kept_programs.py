"""The programs that the compilation cache keeps: their folder, its bounds, what is in it. JAX is not loaded for it."""

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_path

from dftfd.errors import FileError, InputError
from dftfd.runtime.memory import memory_size
from dftfd.runtime.written_numbers import real

LIMIT = "1 GB"
DAYS = 90
ENDING = "-cache"  # of JAX's names


def cache_folder() -> Path:
    """Where programs are kept, unless DFTFD_CACHE_DIR is empty."""
    chosen = os.environ.get("DFTFD_CACHE_DIR")
    return (Path(chosen) if chosen else user_cache_path("dftfd") / "programs").absolute()


class Kept(NamedTuple):
    """A compiled program: time of its last use [s since 1970], bytes, file."""

    used: float
    size: int
    path: str


def kept_programs() -> list[Kept]:
    """The programs in the folder, those that were not used for the longest time first."""
    return programs_in(cache_folder()) if cache_folder().is_dir() else []


def forget(programs: Iterable[Kept]) -> int:
    """Remove programs; the number of bytes that became free. FileError where one can't be removed."""
    freed = 0
    for program in programs:
        try:
            os.unlink(program.path)
        except FileNotFoundError:  # another process makes room, too
            continue
        except OSError as error:
            raise FileError(f"cannot remove {program.path}: {error.strerror}.") from error
        freed += program.size
    return freed


def cache_limit() -> int:
    """Bytes that the folder may hold."""
    return memory_size(os.environ.get("DFTFD_CACHE_SIZE") or LIMIT, "DFTFD_CACHE_SIZE")


def longest_unused() -> float:
    """Seconds after which a program that nobody used goes."""
    given = os.environ.get("DFTFD_CACHE_DAYS") or str(DAYS)
    days = math.inf if given.strip().lower() == "inf" else real(given.strip()) or 0.0
    if not days > 0:
        raise InputError(f"DFTFD_CACHE_DAYS={given!r}: a positive number of days expected, such as {DAYS}, or inf.")
    return 86400 * days


def programs_in(folder: Path) -> list[Kept]:
    """The programs of a folder, those that were not used for the longest time first."""
    found = []
    with os.scandir(folder) as entries:  # thousands of programs, which a Path for each would make slow
        for entry in entries:
            if entry.name.endswith(ENDING):
                with suppress(FileNotFoundError):  # another process makes room, too
                    status = entry.stat(follow_symlinks=False)
                    found.append(Kept(status.st_atime, status.st_size, entry.path))
    return sorted(found)
