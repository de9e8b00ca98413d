"""What a search is told: a TOML file or a dictionary, checked. docs/discovery.md has the form."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dftfd.discovery.candidate_conditions import VARIABLES, Demands
from dftfd.discovery.expressions import INGREDIENTS
from dftfd.discovery.forms import OF_CORRELATION, OF_EXCHANGE, Form
from dftfd.errors import FileError, InputError, closest_names, shown
from dftfd.runtime.arguments import Kind, each, mapping, number, optional, refuse_unknown, text, whole
from dftfd.runtime.files import read_bytes

LONGEST = 2**20
PROPOSERS = ("evolution", "growth", "enumeration", "command")
_PAIR = Kind("[from, to]", lambda value: _pair(value))


def _pair(value):
    a, b = each(number()).convert(value)
    return float(a), float(b)


@dataclass(frozen=True)
class Specification:
    """A search.

    name: of what is found, NAME_1, NAME_2, ...   form: what is searched.   demands: what has to be proved.
    size: candidates of a generation.   generations: how many.   population: candidates that have children.
    complexity: the largest.   shares: {proposer: share of a generation}.   command: words of a program that proposes.
    proofs: members of the front that the prover gets after a generation.   rounds: fits of one of them under its cuts.
    stop_below: training error [kcal/mol] that ends the search.   points: file of TrainingPoints; None for dftfd's.
    """

    form: Form
    demands: Demands
    name: str = "found"
    seed: int = 0
    size: int = 200
    generations: int = 20
    population: int = 400
    complexity: int = 30
    shares: Mapping[str, float] = field(default_factory=lambda: {"evolution": 0.6, "growth": 0.3, "enumeration": 0.1})
    command: tuple[str, ...] = ()
    proofs: int = 3
    rounds: int = 5
    stop_below: float = 0.0
    points: Path | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What the numbers of a run depend on, but for the points; generations may be added later."""
        form, demands = self.form, self.demands
        return {
            "exchange": f"{form.exchange} {' '.join(form.x)}",
            "correlation": f"{form.correlation} {' '.join(form.c)}",
            "conditions": " ".join(demands.names),
            "domain": {name: list(ends) for name, ends in demands.domain.items()},
            "boxes": demands.boxes,
            "shares": dict(self.shares),
            "command": list(self.command),
        } | {name: getattr(self, name) for name in ("seed", "size", "population", "complexity", "proofs", "rounds")}


_TOP = {
    "name": text,
    "seed": whole(0),
    "size": whole(1, 1_000_000),
    "generations": whole(1, 10_000_000),
    "population": whole(2, 1_000_000),
    "complexity": whole(2, 1000),
    "proofs": whole(0, 1000),
    "rounds": whole(1, 100),
    "stop_below": number(lambda x: x >= 0, "an error in kcal/mol, 0 or more"),
}
_TABLES = ("exchange", "correlation", "conditions", "proposers", "points")


def read_specification(path: Any, command: Sequence[str] = ()) -> Specification:
    """Of a file .toml; FileError for one that cannot be read, InputError for what does not fit.

    command: words of the program that proposes, which no file may name.
    """
    path = Path(path)
    try:
        data = tomllib.loads(read_bytes(path, LONGEST).decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileError(f"{path} is no TOML file: {error}.") from error
    return of_dictionary(data, path.parent, command)


def of_dictionary(data: Mapping, folder: Path | None = None, command: Sequence[str] = ()) -> Specification:
    """Of a dictionary as the file has it.   folder: where the file of points is looked for.   command: as above."""
    where = "discover"
    refuse_unknown(where, data, [*_TOP, *_TABLES])
    given = {name: _TOP[name].checked(f"{where}: {name}", data[name]) for name in _TOP if name in data}
    if not given.get("name", "found").isidentifier():
        raise InputError(f"{where}: name = {shown(given['name'])}: a name of Python is expected, as 'gga1'.")
    x, c = (mapping.checked(f"{where}: {t}", data.get(t, {})) for t in ("exchange", "correlation"))
    form = Form(
        _chosen(x, "exchange", "hole"),
        _chosen(c, "correlation", "factor"),
        _ingredients(x, "exchange", OF_EXCHANGE, ("s2",)),
        _ingredients(c, "correlation", OF_CORRELATION, ("t2",)),
    )
    if not form.parts:
        raise InputError(f"{where}: exchange and correlation are both given; one has to be searched: form = 'hole'.")
    if "y" in form.c and form.correlation == "factor":
        raise InputError(f"{where}: ingredient 'y' belongs to the form 'pbe' of correlation.")
    points = optional(text).checked(f"{where}: points", data.get("points"))
    demands = _demands(mapping.checked(f"{where}: conditions", data.get("conditions", {})))
    if demands.names and "c" in form.parts and "z2" in form.c and demands.domain["zeta"] == (0.0, 0.0):
        raise InputError(
            f"{where}: the conditions' domain has zeta = 0 alone, where every term in z2 vanishes, so they would say "
            "nothing of it: give conditions.domain a range of zeta, as zeta = [0, 0.9], or leave z2 out."
        )
    return Specification(
        form,
        demands,
        points=None if points is None else (folder or Path()) / points,
        command=tuple(command),
        **given,
        **_shares(data, command),
    )


def _chosen(table, part, default):
    refuse_unknown(f"discover: {part}", table, ["form", "ingredients"])
    return text.checked(f"discover: {part} form", table.get("form", default))


def _ingredients(table, part, known, default):
    names = each(text).checked(f"discover: {part} ingredients", table.get("ingredients", default))
    for name in names:
        if name not in known:
            close = ", ".join(closest_names(name, known))
            meaning = "; ".join(INGREDIENTS[n].meaning for n in known)
            raise InputError(
                f"discover: {part} has no ingredient {shown(name)}; the closest are {close}. Known: {meaning}."
            )
    if not any(INGREDIENTS[name].vanishes for name in names):
        own = ", ".join(name for name in known if INGREDIENTS[name].vanishes)
        raise InputError(f"discover: {part}: one ingredient at least has to vanish in the uniform gas: {own}.")
    return tuple(dict.fromkeys(names))


def _demands(table):
    refuse_unknown("discover: conditions", table, ["prove", "domain", "boxes"])
    names = each(text).checked("discover: conditions prove", table.get("prove", []))
    domain = mapping.checked("discover: conditions domain", table.get("domain", {}))
    refuse_unknown("discover: domain", domain, VARIABLES)
    ends = {name: _PAIR.checked(f"discover: domain {name}", value) for name, value in domain.items()}
    return Demands.of(names, ends, whole(1, 10**8).checked("discover: boxes", table.get("boxes", 20_000)))


def _shares(data, command):
    if "proposers" not in data:
        if command:
            raise InputError("discover: propose_with= needs a share, as proposers = {command = 1}.")
        return {}
    table = mapping.checked("discover: proposers", data["proposers"])
    refuse_unknown("discover: proposers", table, PROPOSERS)
    kind = number(lambda x: x >= 0, "a share, 0 or more")
    shares = {name: kind.checked(f"discover: proposers {name}", value) for name, value in table.items()}
    if not sum(shares.values()) > 0:
        raise InputError("discover: proposers have no share; give one, as {evolution = 1}.")
    if bool(shares.get("command")) != bool(command):
        raise InputError(
            "discover: proposers.command has a share, and no program is given, or the reverse; a file names none: "
            "propose_with=[...] (--propose-with)."
        )
    return {"shares": shares}
