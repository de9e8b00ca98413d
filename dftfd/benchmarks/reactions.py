"""A benchmark set as data: molecules, reactions between them with reference energies, and the subsets they belong to.

The documented form is one JSON or TOML file (docs/benchmark.md); sets of other makers are read into the same.
Energies of reactions are in kcal/mol here, whatever unit a file has.
"""

import math
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import DftfdError, FileError, InputError, InputWarning, shown
from dftfd.libcint.mole import HARTREE_IN_EV, HARTREE_IN_KCAL, is_open_atom
from dftfd.runtime.arguments import Kind, instance, mapping, number, refuse_unknown, text, whole
from dftfd.runtime.files import read_bytes
from dftfd.runtime.json_reader import parse_json
from dftfd.system.comment_line import warn_about_name
from dftfd.system.geometry import parse_geometry, read_geometry_file

UNITS = {"kcal/mol": 1.0, "hartree": HARTREE_IN_KCAL, "ev": HARTREE_IN_KCAL / HARTREE_IN_EV, "kj/mol": 1 / 4.184}
"""Units of reference energies, in kcal/mol."""

FORM = 1
"""Version of the form of files."""

MAX_BYTES, MAX_TOML = 64 * 2**20, 2 * 10**6
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_NAME = re.compile(rf"""(?<![\w"'-])(?:{_PART}){{20}}""")
_OF_DOCUMENT = "dftfd_benchmark name title source basis weighting unit subsets molecules reactions".split()
_CHARGE = whole(-100, 100)
_POSITIVE = number(lambda x: x >= 0, "a finite number of at least 0")
_COEFFICIENT = number(lambda x: x != 0, "a finite number other than 0")
_CHARGE_KEY = "charge"
FREE: dict[str, dict[str, int]] = {"H+": {"H": 1, _CHARGE_KEY: 1}, "e-": {_CHARGE_KEY: -1}}
"""What particles are made of that equations name and that have no energy."""

_BALANCED = 1e-3
"""Atoms and charges that coefficients such as 0.3333 may miss."""


@dataclass(frozen=True)
class Species:
    """A molecule of a set.

    atoms: as `dftfd.molecule` reads them, 'O 0 0 0.1; H ...' [angstrom].   spin: unpaired electrons.
    basis: where a set says that this molecule needs one.   reason: why it cannot be computed here, empty where it can.
    """

    name: str
    atoms: str
    charge: int = 0
    spin: int = 0
    basis: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Reaction:
    """A reference energy: sum of coefficient times energy over (name of a molecule, coefficient) [kcal/mol].

    weight: of its error in a weighted mean, None without.   published: functional -> the energy that another program
    found for it [kcal/mol].
    """

    name: str
    subset: str
    stoichiometry: tuple[tuple[str, float], ...]
    reference: float
    weight: float | None = None
    published: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Subset:
    """What is known of a subset.

    kind: its class, 'barrier heights'.   source: in words, with a DOI.   mean_reference: mean absolute reference energy
    of the whole subset [kcal/mol], where its reactions here are a part of it.
    published: functional -> mean absolute error that others found [kcal/mol].
    """

    name: str
    kind: str = ""
    source: str = ""
    mean_reference: float | None = None
    published: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchmarkSet:
    """Reactions and their molecules.

    basis: the one that a run takes where none is given.   weighting: the name of the mean that the weights of reactions
    define, 'WTMAD-2', empty without.   left_out: (reaction, reason) of what is not computed.   notes: of checks.
    """

    name: str
    species: Mapping[str, Species]
    reactions: tuple[Reaction, ...]
    subsets: Mapping[str, Subset] = field(default_factory=dict)
    title: str = ""
    source: str = ""
    basis: str | None = None
    weighting: str = ""
    left_out: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, reactions: Iterable[Reaction]) -> "BenchmarkSet":
        """The set with some of its reactions and the molecules that they need."""
        kept = tuple(reactions)
        needed = {name for reaction in kept for name, _ in reaction.stoichiometry}
        species = {name: one for name, one in self.species.items() if name in needed}
        return replace(self, species=species, reactions=kept)

    def sample(self, count: int, seed: int) -> "BenchmarkSet":
        """The first `count` reactions in the order that a seed gives; a larger count holds a smaller one."""
        order = np.random.default_rng(seed).permutation(len(self.reactions))[:count]
        return self.of(self.reactions[k] for k in order)

    def only(self, names: Iterable[str]) -> "BenchmarkSet":
        """The subsets of these names, case aside; InputError for one that is not there."""
        known = {reaction.subset.lower(): reaction.subset for reaction in self.reactions}
        for name in names:
            if name.lower() not in known:
                raise InputError(f"{self.name} has no subset {name!r}; it has {', '.join(sorted(known.values()))}.")
        wanted = {name.lower() for name in names}
        return self.of(reaction for reaction in self.reactions if reaction.subset.lower() in wanted)


# --------------------------------------------------------------------------------------------------------------- checks


def checked(found: BenchmarkSet) -> BenchmarkSet:
    """The set without reactions that cannot be computed or lose atoms, each listed with its reason.

    Looked at: molecules that are missing, geometries, charges and spins that no electron count allows, and the balance
    of atoms; a molecule alone is a total energy. Duplicates and changes of charge are noted. InputError for weights
    that are negative or not finite, with which no mean has a meaning.
    """
    made_of = {name: composition(species) for name, species in found.species.items()}
    kept, left_out, charged = [], list(found.left_out), []
    for reaction in found.reactions:
        label = f"{reaction.subset}/{reaction.name}"
        if reaction.weight is not None and not 0 <= reaction.weight < math.inf:
            raise InputError(f"{found.name}: the weight of {shown(label)} is {reaction.weight}; at least 0 expected.")
        if reason := _unusable(reaction, made_of):
            left_out.append((label, reason))
            continue
        kept.append(reaction)
        if len(_molecules(reaction)) > 1 and abs(_gain(reaction, made_of)[_CHARGE_KEY]) > _BALANCED:
            charged.append(label)
    notes = [*found.notes, *_duplicates(kept)]
    if charged:
        notes.append(f"{len(charged)} of {len(kept)} reactions change the charge, {charged[0]} the first")
    return replace(found.of(kept), left_out=tuple(dict.fromkeys(left_out)), notes=tuple(dict.fromkeys(notes)))


def require_balanced(found: BenchmarkSet) -> None:
    """InputError, with what is missing, unless reactions keep atoms and charge; particles of FREE may take part."""
    made_of: dict[str, Any] = {name: composition(species) for name, species in found.species.items()} | FREE
    for reaction in found.reactions:
        for name, _ in _molecules(reaction):
            if isinstance(made_of[name], str):
                raise InputError(f"{shown(reaction.name)}: {name}: {made_of[name]}.")
        gain = {key: count for key, count in _gain(reaction, made_of).items() if abs(count) > _BALANCED}
        charge = gain.pop(_CHARGE_KEY, 0.0)
        lacks = [
            f"{abs(count):.6g} {symbol} on the {'left' if count > 0 else 'right'}" for symbol, count in gain.items()
        ]
        lacks += [f"charge {charge:+.6g} on the left"] if charge else []
        if lacks or not _molecules(reaction):
            raise InputError(f"{shown(reaction.name)} does not balance; missing: {', '.join(lacks) or 'all species'}.")


def require_reactions(found: BenchmarkSet) -> None:
    """InputError for a set of which no reaction can be computed."""
    if not found.reactions:
        reason = f": {found.left_out[0][0]}: {found.left_out[0][1]}" if found.left_out else ""
        raise InputError(f"{found.name} has no reaction that can be computed{reason}.")


def composition(species: Species) -> str | dict[str, int]:
    """How many atoms of each element a molecule has, with its charge; words where it cannot be computed."""
    if species.reason:
        return species.reason
    try:
        names = parse_geometry(species.atoms, f"molecule {species.name!r}").names
    except DftfdError as error:
        return str(error)
    atoms = Counter(name.symbol for name in names if not name.ghost)
    electrons = sum(ATOMIC_NUMBERS[symbol] * count for symbol, count in atoms.items()) - species.charge
    if electrons < 1 or not 0 <= species.spin <= electrons or (electrons - species.spin) % 2:
        return f"charge {species.charge:+d} and {species.spin} unpaired do not go with {electrons} electrons"
    return dict(atoms) | {_CHARGE_KEY: species.charge}


def _molecules(reaction):
    return [(name, coefficient) for name, coefficient in reaction.stoichiometry if coefficient]


def _unusable(reaction, made_of) -> str:
    """Why a reaction cannot be computed, or means nothing; empty where it can."""
    if not all(map(math.isfinite, (reaction.reference, *(x for _, x in reaction.stoichiometry)))):
        return "its reference or a coefficient is not finite"
    for name, _ in reaction.stoichiometry:
        if isinstance(found := made_of.get(name, "no such molecule"), str):
            return f"{name}: {found}"
    if not (molecules := _molecules(reaction)):
        return "it has no molecules"
    gain = _gain(reaction, made_of)
    charge = gain.pop(_CHARGE_KEY)
    lost = {symbol: count for symbol, count in gain.items() if abs(count) > _BALANCED}
    protons = lost.keys() == {"H"} and abs(lost["H"] - charge) < _BALANCED  # bare ones, which have no energy
    if len(molecules) == 1 or not lost or protons:
        return ""
    return "its atoms do not balance, " + ", ".join(f"{symbol} {count:+.6g}" for symbol, count in lost.items())


def _gain(reaction, made_of) -> dict[str, float]:
    """Atoms of each element, and charge, on the right of a reaction less those on its left."""
    gain = {_CHARGE_KEY: 0.0}
    for name, coefficient in _molecules(reaction):
        for symbol, count in made_of[name].items():
            gain[symbol] = gain.get(symbol, 0.0) + coefficient * count
    return gain


def _duplicates(reactions) -> list[str]:
    first: dict[Any, str] = {}
    notes = []
    for reaction in reactions:
        key = frozenset(reaction.stoichiometry), reaction.reference
        name = f"{reaction.subset}/{reaction.name}"
        if key in first:
            notes.append(f"{name} is {first[key]} once more")
        else:
            first[key] = name
    return notes


# ---------------------------------------------------------------------------------------------------------- the form


def read_document(path) -> BenchmarkSet:
    """The set of a JSON or TOML file; FileError for a file that cannot be read, InputError for what is no set."""
    path = Path(path)
    content = read_bytes(path, MAX_BYTES)
    try:
        document = _toml(content.decode()) if path.suffix.lower() == ".toml" else parse_json(content)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is neither JSON nor TOML: {error}.") from error
    if not isinstance(document, dict) or "dftfd_benchmark" not in document:
        raise InputError(f"{path} is not a benchmark set: it lacks 'dftfd_benchmark' (docs/benchmark.md has the form).")
    if document["dftfd_benchmark"] != FORM:
        raise InputError(
            f"{path} has form {shown(document['dftfd_benchmark'])} of benchmark sets; form {FORM} is supported."
        )
    return checked(_from_document(document, path))


def _toml(words):
    """Of a document in TOML, whose reader takes time as the square of the parts of a name; ValueError for too much."""
    if len(words) > MAX_TOML or _LONG_NAME.search(words):
        raise ValueError(f"more than {MAX_TOML} characters, or a name of more than 20 parts, a.b.c; write it as JSON")
    return tomllib.loads(words)


def _from_document(document, path) -> BenchmarkSet:
    where = f"{path.name}: "
    _entry(path.name, document, _OF_DOCUMENT)
    in_kcal = Kind(f"one of {', '.join(UNITS)}", lambda unit: UNITS[text.convert(unit).lower()])
    factor = in_kcal.checked(where + "unit", document.get("unit", "kcal/mol"))
    molecules = mapping.checked(where + "molecules", document.get("molecules"))
    reactions = instance(list, tuple, expected="a list of reactions").checked(
        where + "reactions", document.get("reactions")
    )
    name = text.checked(where + "name", document.get("name", path.stem))
    read = tuple(_reaction(entry, f"{where}reaction {k}", factor, name) for k, entry in enumerate(reactions, 1))
    subsets = mapping.checked(where + "subsets", document.get("subsets", {}))
    return BenchmarkSet(
        name=name,
        species={key: _species(key, value, path.parent, where) for key, value in molecules.items()},
        reactions=read,
        subsets={key: _subset(key, value, f"{where}subset {key}", factor) for key, value in subsets.items()},
        title=text.checked(where + "title", document.get("title", "")),
        source=text.checked(where + "source", document.get("source", "")),
        basis=None if document.get("basis") is None else text.checked(where + "basis", document["basis"]),
        weighting=text.checked(where + "weighting", document.get("weighting", "")),
    )


def _species(name, entry, folder, where) -> Species:
    where = f"{where}molecule {name}"
    entry = _entry(where, entry, ("file", "atoms", "charge", "spin", "basis"))
    if {"file", "atoms"} <= entry.keys():
        raise InputError(f"{where} has both a file and atoms; remove one.")
    words = text.checked(f"{where}, atoms", entry.get("atoms")) if "file" not in entry else ""
    try:
        if "file" in entry:
            geometry = read_geometry_file(folder / text.checked(f"{where}, file", entry["file"]))
        else:
            geometry = parse_geometry(words, where)
        if geometry.unit == "bohr":
            raise InputError(f"{where} is marked as in bohr; molecules of sets are in angstrom.")
    except DftfdError as error:
        return Species(name, "", reason=str(error))
    said: dict[str, Any] = {k: getattr(geometry, k) for k in ("charge", "spin") if getattr(geometry, k) is not None}
    atoms = atom_text(geometry) if said or not words else words
    given = {key: _CHARGE.checked(f"{where}, {key}", entry[key]) for key in ("charge", "spin") if key in entry}
    for key in ("charge", "spin"):
        if key not in given and key in geometry.mentions:
            _warn(f"{where}: the geometry says {geometry.mentions[key]!r}, but no {key} as a number; {key}=0 is used.")
        elif key in given and said.get(key, given[key]) != given[key]:
            _warn(f"{where}: the geometry says {key}={said[key]}, but {key}={given[key]} was given and is used.")
    has = {"charge": 0, "spin": 0} | said
    warn_about_name(where, name, geometry.symbols, {key: has[key] for key in has.keys() - given.keys()})
    is_unsaid = "spin" not in {**said, **given, **geometry.mentions}
    if is_unsaid and is_open_atom(geometry.symbols, (said | given).get("charge", 0)):
        _warn(f"{where}: spin=0 is used for this atom, but its ground state has unpaired electrons: give a spin.")
    basis = None if entry.get("basis") is None else text.checked(f"{where}, basis", entry["basis"])
    return Species(name, atoms, basis=basis, **said | given)


def _warn(words):
    warnings.warn(words, InputWarning, stacklevel=5)


def _entry(where, entry, known) -> dict[str, Any]:
    """A mapping with known keys, and a comment; a misspelt key would be ignored."""
    entry = mapping.checked(where, entry)
    refuse_unknown(where, entry, (*known, "comment"))
    return entry


def atom_text(geometry) -> str:
    """The atoms of a Geometry, as `dftfd.molecule` reads them; InputError for one that is marked as in bohr."""
    if geometry.unit == "bohr":
        raise InputError("the geometry is marked as in bohr; molecules of sets are in angstrom.")
    return text_of_atoms((name.label for name in geometry.names), geometry.coordinates)


def text_of_atoms(labels: Iterable[str], coordinates) -> str:
    """The same of labels and coordinates (atom, 3) [angstrom]."""
    rows = zip(labels, coordinates, strict=True)
    return "; ".join(f"{label} " + " ".join(f"{x:.10g}" for x in position) for label, position in rows) + ";"


def _reaction(entry, where, factor, default) -> Reaction:
    entry = _entry(where, entry, ("name", "subset", "stoichiometry", "reference", "weight", "published"))
    coefficients = mapping.checked(f"{where}, stoichiometry", entry.get("stoichiometry"))
    value = number()
    named = [(key, _COEFFICIENT.checked(f"{where}, {key}", amount)) for key, amount in coefficients.items()]
    weight = None if entry.get("weight") is None else _POSITIVE.checked(f"{where}, weight", entry["weight"])
    return Reaction(
        name=text.checked(f"{where}, name", entry.get("name", where.rpartition(" ")[2])),
        subset=text.checked(f"{where}, subset", entry.get("subset", default)),
        stoichiometry=tuple(named),
        reference=factor * value.checked(f"{where}, reference", entry.get("reference")),
        weight=weight,
        published=_published(entry, where, factor),
    )


def _published(entry, where, factor):
    found = mapping.checked(f"{where}, published", entry.get("published", {}))
    if len({key.lower() for key in found}) < len(found):
        raise InputError(f"{where}, published: names that differ only in case are the same functional.")
    return {key.lower(): factor * number().checked(f"{where}, {key}", x) for key, x in found.items()}


def _subset(name, entry, where, factor) -> Subset:
    entry = _entry(where, entry, ("class", "source", "mean_reference", "published"))
    mean = entry.get("mean_reference")
    return Subset(
        name,
        kind=text.checked(f"{where}, class", entry.get("class", "")),
        source=text.checked(f"{where}, source", entry.get("source", "")),
        mean_reference=None if mean is None else factor * _POSITIVE.checked(f"{where}, mean_reference", mean),
        published=_published(entry, where, factor),
    )


def document_of(found: BenchmarkSet) -> dict:
    """The set as a document of the form, for json.dump."""
    full = {"name": found.name, "title": found.title, "source": found.source, "basis": found.basis}
    return {
        "dftfd_benchmark": FORM,
        **{key: value for key, value in (full | {"weighting": found.weighting}).items() if value},
        "unit": "kcal/mol",
        "subsets": {name: _without_empty(_of_subset(subset)) for name, subset in found.subsets.items()},
        "molecules": {name: _without_empty(_of_species(species)) for name, species in found.species.items()},
        "reactions": [_without_empty(_of_reaction(reaction)) for reaction in found.reactions],
    }


def _without_empty(entry):
    return {key: value for key, value in entry.items() if value not in (None, "", {})}


def _of_subset(subset):
    plain = {"class": subset.kind, "source": subset.source, "mean_reference": subset.mean_reference}
    return plain | {"published": dict(subset.published)}


def _of_species(species):
    return {"atoms": species.atoms, "charge": species.charge, "spin": species.spin, "basis": species.basis}


def _of_reaction(reaction):
    plain = {"name": reaction.name, "subset": reaction.subset, "stoichiometry": dict(reaction.stoichiometry)}
    return plain | {"reference": reaction.reference, "weight": reaction.weight, "published": dict(reaction.published)}
