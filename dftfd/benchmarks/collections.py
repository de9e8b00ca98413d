"""Sets by name: those that come with dftfd, files of the documented form, and collections of other makers by a path.

    quick                     a set that comes with dftfd
    sets/mine.json            a file
    gmtkn55:W4-11,BH76        subsets of a collection, which lies at the path that is given as data

Collections are looked for at that path, or, without one, in the folder that the variable DFTFD_BENCHMARKS names, and
there in its own folders too.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dftfd.benchmarks.gmtkn55 import is_diet, is_gmtkn55, read_diet, read_gmtkn55
from dftfd.benchmarks.gscdb import is_gscdb, read_gscdb
from dftfd.benchmarks.quest import is_quest, read_quest
from dftfd.benchmarks.reactions import BenchmarkSet, Reaction, Species, Subset, checked, read_document
from dftfd.benchmarks.refdata import is_refdata, read_refdata
from dftfd.errors import FileError, InputError, MissingDependencyError, closest_names

SHIPPED = Path(__file__).parent / "shipped"
VARIABLE = "DFTFD_BENCHMARKS"


@dataclass(frozen=True)
class Collection:
    """How sets of other makers are recognised and read; `found` is None for those that need no path."""

    read: Callable
    found: Callable[[Path], bool] | None
    lies: str = ""


G2_SOURCE = "G2/97, of ASE: K. Raghavachari, P. C. Redfern, J. A. Pople, J. Chem. Phys. 106, 1063 (1997)"
G2_SUBSETS = ("g2-1", "g2-2")


def read_g2(path=None, subsets=()) -> BenchmarkSet:
    """The atomisation energies of G2-1, G2-2 or both of G2/97, at vertical geometries of MP2(full)/6-31G*.

    ASE's tables hold enthalpies of formation at 298 K. Without zero-point energies and thermal corrections they are
    electronic energies to a few tenths of a kcal/mol. doi:10.1063/1.473182
    """
    try:
        from ase.data import g2
        from ase.symbols import string2symbols
    except ImportError as error:
        raise MissingDependencyError("G2/97 is read from ASE: pip install 'dftfd[ase]'.") from error
    wanted = [name.lower() for name in subsets] or list(G2_SUBSETS)
    if unknown := set(wanted) - set(G2_SUBSETS):
        raise InputError(f"G2/97 has the subsets {' and '.join(G2_SUBSETS)}, not {min(unknown)!r}.")
    species: dict[str, Species] = {}
    reactions: list[Reaction] = []
    data: dict[str, Any] = g2.data
    for name in g2.molecule_names:
        entry = data[name]
        subset = str(entry["database"]).lower()
        if subset not in wanted:
            continue
        molecule = _species(name, entry, string2symbols(entry["symbols"]))
        counts = Counter(string2symbols(entry["symbols"]))
        species[name] = molecule
        for symbol in counts:
            species.setdefault(f"atom {symbol}", _species(f"atom {symbol}", data[symbol], [symbol]))
        pairs = ((name, -1.0), *((f"atom {symbol}", float(count)) for symbol, count in counts.items()))
        reactions.append(Reaction(name, subset, pairs, _atomisation(entry, counts, data)))
    described = {name: Subset(name, "atomisation energies", G2_SOURCE) for name in wanted}
    return checked(BenchmarkSet("G2/97", species, tuple(reactions), described, source=G2_SOURCE))


def _atomisation(entry, counts, data) -> float:
    """Electronic energy of atomisation [kcal/mol]: enthalpies of formation less thermal and zero-point energies."""
    atoms = sum(n * (data[symbol]["enthalpy"] - data[symbol]["thermal correction"]) for symbol, n in counts.items())
    return atoms - entry["enthalpy"] + entry["ZPE"] + entry["thermal correction"]


def _species(name, entry, symbols) -> Species:
    """A molecule of ASE's table; its spin is the sum of the magnetic moments."""
    rows = zip(symbols, entry["positions"], strict=True)
    atoms = "; ".join(f"{symbol} {x} {y} {z}" for symbol, (x, y, z) in rows)
    return Species(name, atoms + ";", 0, round(abs(sum(entry["magmoms"] or (0,)))))


COLLECTIONS = {
    "gmtkn55": Collection(read_gmtkn55, is_gmtkn55, "a folder with SUBSET/.res"),
    "diet": Collection(read_diet, is_diet, "a file AllElements_030.yaml, or a folder with such files"),
    "gscdb": Collection(read_gscdb, is_gscdb, "a folder with Info/DatasetEval.xlsx and xyz_files"),
    "refdata": Collection(read_refdata, is_refdata, "a .din file, or a folder with 10_din"),
    "quest": Collection(read_quest, is_quest, "a folder with data/json and geometries/xyz"),
    "g2-97": Collection(read_g2, None),
}


def shipped_sets() -> list[str]:
    """Names of the sets that come with dftfd."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


def read_set(name: str, data=None) -> BenchmarkSet:
    """The set of a name, as this module says; `data`: where a collection lies.

    Raises InputError for an unknown name, FileError for a file or collection that is missing or damaged.
    """
    word, _, rest = name.partition(":")
    if word.lower() in COLLECTIONS and not os.path.isfile(name):
        collection = COLLECTIONS[word.lower()]
        subsets = [part.strip() for part in rest.split(",") if part.strip()]
        if collection.found is None:
            return collection.read(None, subsets)
        return collection.read(located(word.lower(), data), subsets)
    if name.lower() in shipped_sets():
        return read_document(SHIPPED / f"{name.lower()}.json")
    if os.path.lexists(name):
        return _at(Path(name))
    known = [*shipped_sets(), *COLLECTIONS]
    closest = ", ".join(closest_names(word, known))
    raise InputError(f"no benchmark set {name!r}: no file of that name, nor a known set; the closest are {closest}.")


def _at(path) -> BenchmarkSet:
    """The set of a file or folder, by what it looks like."""
    if path.suffix.lower() in (".json", ".toml"):
        return read_document(path)
    try:
        fitting = [c for c in COLLECTIONS.values() if c.found is not None and c.found(path)]
    except OSError as error:  # folders that may not be read, or go while one looks
        raise FileError(f"cannot read {path}: {error.strerror or error}.") from error
    if fitting:
        return fitting[0].read(path, ())
    raise FileError(f"{path} is in no known format of benchmark sets: {', '.join(COLLECTIONS)}, .json, .toml.")


def located(name: str, data=None) -> Path:
    """Where a collection lies."""
    found = COLLECTIONS[name].found
    place = os.environ.get(VARIABLE, "") if data is None else data
    if not place or found is None:
        raise InputError(f"{name} does not come with dftfd: give its location with --data PATH, data= or {VARIABLE}.")
    path = Path(place)
    if not path.exists():
        raise FileError(f"there is no file or folder {path}, where {name} is expected.")
    inside = sorted(path.iterdir()) if path.is_dir() else []
    for candidate in (path, *inside):
        if found(candidate):
            return candidate
    raise FileError(f"{path} does not contain {name}: {COLLECTIONS[name].lies} expected.")
