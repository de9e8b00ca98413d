"""The command list: names of functionals, and what is known of them, from a file; nothing is loaded for it."""

import importlib.util
import json
import shutil
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from dftfd.cli.commands import app
from dftfd.cli.terminal import say
from dftfd.errors import FileError, InputError, closest_names
from dftfd.runtime.json_reader import shipped_json
from dftfd.runtime.libxc_folder import maple_folder

INDEX = "functionals/index.json"
FAMILIES = ("LDA", "GGA", "meta-GGA", "nonlocal", "HF")
KINDS = (
    "exchange",
    "correlation",
    "exchange-correlation",
    "kinetic energy",
    "Coulomb energy",
    "model of the potential",
)

_ALIASES = {
    "mgga": "meta-gga",
    "x": "exchange",
    "c": "correlation",
    "xc": "exchange-correlation",
    "k": "kinetic energy",
}
"""Words of libxc's names."""


@app.command("list")
def list_names(
    pattern: Annotated[str, typer.Argument(help="Show only names that contain this text.")] = "",
    long: Annotated[bool, typer.Option("--long", help="Show family, kind, year, exact exchange, source.")] = False,
    family: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(FAMILIES)}.")] = None,
    kind: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(KINDS)}.")] = None,
    hybrid: Annotated[
        bool | None, typer.Option("--hybrid/--no-hybrid", help="Only those with exact exchange, or without.")
    ] = None,
    uses: Annotated[str | None, typer.Option(help="Only those that use it: sigma, lapl, tau.")] = None,
    since: Annotated[int | None, typer.Option(help="Only those published in this year or later.")] = None,
    json_form: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
):
    """List the known functionals.

    The library's own, and libxc's under libxc:NAME. Of sources, a combination's own comes first, those of its terms
    behind it.
    """
    family, kind = _one_of("family", family, FAMILIES), _one_of("kind", kind, KINDS)
    wanted = {
        name: row
        for name, row in known_functionals().items()
        if pattern.lower() in name.lower()
        and family in (None, row.get("family"))
        and kind in (None, row.get("kind"))
        and hybrid in (None, bool(row.get("exact_exchange")) and row.get("family") != "HF")
        and (uses is None or uses in row.get("uses", ()))
        and (since is None or row.get("year", 0) >= since)
    }
    if json_form:
        print(json.dumps(wanted, indent=1))
        return
    width = max(map(len, wanted), default=0)
    if not long and sys.stdout.isatty():
        _print_in_columns([*wanted], width + 2)
        return
    for name, row in wanted.items():
        say(f"{name:{width}}  {_about(row)}".rstrip() if long else name)


def _print_in_columns(names, width):
    """As many beside one another as the terminal has room for, and how many there are."""
    count = max(1, shutil.get_terminal_size().columns // width)
    height = -(-len(names) // count)
    for k in range(height):
        say("".join(f"{name:{width}}" for name in names[k::height]).rstrip())
    say(f"\n{len(names)} functionals; `dftfd list WORD` shows fewer, --long more of each")


def known_functionals() -> dict[str, dict]:
    """What is known of each functional that can be asked for, by name: the library's, plug-ins', libxc's."""
    try:
        index = shipped_json("dftfd", INDEX)
    except OSError as error:
        raise FileError(f"cannot read {INDEX}: {error.strerror}; install dftfd again.") from error
    plugins = {entry.name.lower(): {"plug-in": entry.value} for entry in entry_points(group="dftfd.functionals")}
    own = dict(sorted((plugins | index["own"]).items()))
    rows, has_jax_xc = index["libxc"], importlib.util.find_spec("jax_xc") is not None
    if maple_folder() is not None:
        rows = {n: r for n, r in rows.items() if has_jax_xc or n not in index["libxc_without_source"]}
        rows = dict(sorted((rows | index["libxc_source"]).items()))
    elif not has_jax_xc:
        rows = {}
    return own | {f"libxc:{name}": row for name, row in rows.items()}


def _one_of(option, given, known):
    if given is None:
        return None
    found = {word.lower(): word for word in known}.get(_ALIASES.get(given.lower(), given.lower()))
    if found is None:
        close = ", ".join(closest_names(given, known))
        raise InputError(f"--{option} {given!r}: one of {', '.join(known)} expected; the closest are {close}.")
    return found


def _about(row):
    """One line: family, kind, year, exact exchange, what it uses, sources."""
    if "plug-in" in row:
        return f"plug-in {row['plug-in']}"
    shares = row.get("exact_exchange", ())
    exchange = " ".join(f"{100 * c:+.4g}%" + (f" beyond 1/{w:g} bohr" if w else "") for w, c in shares)
    parts = [row["family"], row["kind"], str(row.get("year", "")), f"{exchange} exact exchange" if exchange else ""]
    parts += [" ".join(f"{100 * c:.4g}%" for c in dict.fromkeys(row["pt2"])) + " PT2"] if row.get("pt2") else []
    parts += ["nonlocal correlation" if row.get("nonlocal_correlation") else "", "/".join(row.get("uses", ()))]
    parts += [f"doi:{doi}" for doi in row.get("doi", ())]
    return ", ".join(part for part in parts if part)
