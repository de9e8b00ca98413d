"""Functionals of other packages, through the entry-point group `dftfd.functionals`.

An entry point names a functional and points to a Functional, or to a module-level formula registered by
`@dftfd.functional`:

    [project.entry-points."dftfd.functionals"]
    my_gga_x = "my_package.exchange:my_gga_x"

Names are listed without importing anything. A plug-in is imported when its functional is first asked for; one that
fails spoils nothing but itself.
"""

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from dftfd.errors import FunctionalError
from dftfd.functionals.base import Functional

GROUP = "dftfd.functionals"


def found_plugins() -> dict[str, list[EntryPoint]]:
    """Entry points by name, in lower case; several of one name are kept to be refused."""
    return _found(tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int | None:
    """When something was last installed there or removed [ns]; None if it cannot be seen."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return None


@lru_cache(maxsize=1)
def _found(installed: tuple) -> dict[str, list[EntryPoint]]:
    """Those of the folders as they are: reading the metadata of all packages takes 10 ms, which each name would pay."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name.lower(), []).append(entry)
    return found


def load(name: str) -> Functional | None:
    """The functional of the plug-in with this name, or None if there is none."""
    candidates = found_plugins().get(name, [])
    if not candidates:
        return None
    if len(candidates) > 1:
        sources = ", ".join(f"{e.value} ({_distribution(e)})" for e in candidates)
        raise FunctionalError(f"several plug-ins offer a functional {name!r}: {sources}; uninstall all but one.")
    (entry,) = candidates
    try:
        functional = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plug-in may fail in any way
        text = " ".join(str(error).split())
        raise FunctionalError(
            f"the plug-in {entry.value!r} of {_distribution(entry)} for functional {name!r} can't be loaded: "
            f"{type(error).__name__}: {text}"
        ) from error
    if not isinstance(functional, Functional):
        raise FunctionalError(
            f"the plug-in {entry.value!r} of {_distribution(entry)} gives a {type(functional).__name__}; a Functional, "
            "as @dftfd.functional makes it, expected."
        )
    return functional


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unnamed distribution"
