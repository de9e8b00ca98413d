"""Text of a formula in libxc's notation with all that it includes: $include, $define, $ifdef and its kin."""

import re
from collections.abc import Callable

from dftfd.errors import FunctionalError
from dftfd.functionals.maple_limits import MAX_CHARACTERS, MAX_INCLUDES

_DIRECTIVE = re.compile(r"\$\s*(?P<what>[a-z]+)\s*(?P<rest>.*)")
_INCLUDED = re.compile(r"[\"<](?P<name>[^\"<>]+)[\">]")


def expanded(name: str, find: Callable[[str], str], defined: set[str]) -> str:
    """Text of a file with all that it includes.

    find: text of a file by the name in $include.   defined: names that $define has given; changed in place.
    """
    return "\n".join(_expanded(name, find, defined, [0, 0]))


def _expanded(name, find, defined, count):
    """The lines.   count: of files and characters up to here; changed in place."""
    text = find(name)
    count[:] = count[0] + 1, count[1] + len(text)
    if count[0] > MAX_INCLUDES:
        raise FunctionalError(f"{name}: more than {MAX_INCLUDES} files are included; does a file include itself?")
    if count[1] > MAX_CHARACTERS:
        raise FunctionalError(f"{name}: more than {MAX_CHARACTERS} characters with all that is included.")
    lines: list[str] = []
    kept: list[tuple[bool, bool]] = []  # of each open $ifdef, whether this part counts, and whether one has counted
    for number, line in enumerate(text.split("\n"), 1):
        match = _DIRECTIVE.match(line)
        if match is None:
            if all(here for here, _ in kept):
                lines.append(line)
            continue
        what, rest = match["what"], match["rest"].strip()
        if not _conditional(what, rest, kept, defined, f"{name}, line {number}"):
            continue
        if not all(here for here, _ in kept):
            continue
        if what == "include":
            included = _INCLUDED.match(rest)
            if included is None:
                raise FunctionalError(f'{name}, line {number}: $include {rest} found; $include "file.mpl" expected.')
            lines += _expanded(included["name"], find, defined, count)
        elif what == "define":
            defined.add(rest.split()[0] if rest else "")
        elif what == "undef":
            defined.discard(rest)
        else:
            raise FunctionalError(
                f"{name}, line {number}: ${what} found; include, define, undef, ifdef, elif, else, endif are known."
            )
    if kept:
        raise FunctionalError(f"{name}: an $ifdef without $endif.")
    return lines


def _conditional(what, rest, kept, defined, where) -> bool:
    """Follow $ifdef and its kin; True for any other directive."""
    if what in ("ifdef", "ifndef"):
        here = (rest in defined) == (what == "ifdef")
        kept.append((here, here))
        return False
    if what not in ("elif", "else", "endif"):
        return True
    if not kept:
        raise FunctionalError(f"{where}: ${what} without $ifdef.")
    _, once = kept.pop()
    if what != "endif":
        here = not once and (what == "else" or rest in defined)
        kept.append((here, once or here))
    return False
