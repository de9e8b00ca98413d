"""Sets by name: those that come with dftfd, files of the documented form, and collections of other makers by a path.

    quick                     a set that comes with dftfd
    sets/mine.json            a file
    gmtkn55:W4-11,BH76        subsets of a collection, which lies at the path that is given as data

Collections are looked for at that path, or, without one, in the folder that the variable DFTFD_BENCHMARKS names, and
there in its own folders too.

Sets of aoterodelaroza/refdata: energies in .din files, molecules in xyz files whose second line is 'charge spin+1'.

    -1            coefficient
    nh3_nh3       molecule
    2
    nh3
    0             end of the reaction
    3.133         reference [kcal/mol]

The header, lines with #, names the source. Data of that repository are under the GPL 3.

QUEST: vertical energies of states that have the lowest energy of their charge and spin, which SCF energies give.

    triplets    lowest triplet of a closed-shell molecule, minus its ground state     data/json/*/*.json
    ips         lowest vertical ionisation energy                                     charged/valence_IPs/*.json

Other states of QUEST are excited states of their own spin and are left out. Energies there are in eV, geometries in
angstrom (geometries/xyz/README.md).

P.-F. Loos et al., J. Chem. Theory Comput. 21, 8010 (2025). doi:10.1021/acs.jctc.5c00975 (triplets)
A. Marie, P.-F. Loos, J. Chem. Theory Comput. (2024). doi:10.1021/acs.jctc.4c00216 (ionisation). CC BY-SA 4.0
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dftfd.benchmarks.gmtkn55 import CLASS_OF, is_diet, is_gmtkn55, read_diet, read_gmtkn55
from dftfd.benchmarks.gscdb import is_gscdb, read_gscdb
from dftfd.benchmarks.reactions import UNITS, BenchmarkSet, Reaction, Species, Subset, atom_text, checked, read_document
from dftfd.errors import DftfdError, FileError, InputError, MissingDependencyError, closest_names
from dftfd.runtime.files import read_bytes
from dftfd.runtime.json_reader import read_json
from dftfd.runtime.written_numbers import as_real
from dftfd.system.geometry import parse_geometry, read_text

QUEST_SOURCE = (
    "QUEST: P.-F. Loos et al., J. Chem. Theory Comput. 21, 8010 (2025), doi:10.1021/acs.jctc.5c00975, CC BY-SA 4.0"
)
QUEST_SUBSETS = {"triplets": "lowest triplets", "ips": "ionisation energies"}
QUEST_BYTES = 16 * 2**20
_CAS = re.compile(r"\s\d+-\d+-\d\b")


def is_quest(path) -> bool:
    """Whether a folder holds the database."""
    return (Path(path) / "data" / "json").is_dir() and (Path(path) / "geometries" / "xyz").is_dir()


def read_quest(path, subsets=()) -> BenchmarkSet:
    """The subsets of these names, both without."""
    path = Path(path)
    for name in subsets:
        if name.lower() not in QUEST_SUBSETS:
            raise InputError(f"QUEST has the subsets {' and '.join(QUEST_SUBSETS)} here, not {name!r}.")
    wanted = [name for name in QUEST_SUBSETS if not subsets or name in {word.lower() for word in subsets}]
    species: dict[str, Species] = {}
    reactions: list[Reaction] = []
    if "triplets" in wanted:
        reactions += _triplets(path, species)
    if "ips" in wanted:
        reactions += _ionisations(path, species)
    described = {name: Subset(name, QUEST_SUBSETS[name], QUEST_SOURCE) for name in wanted}
    return checked(BenchmarkSet("QUEST", species, tuple(reactions), described, source=QUEST_SOURCE))


def _triplets(path, species):
    places = _geometries(path / "geometries" / "xyz")
    for file in sorted((path / "data" / "json").glob("*/*.json")):
        states = [entry for entry in _document(file, list) if isinstance(entry, dict)]
        found = [
            e for e in states if str(e.get("State", "")).startswith("^3") and _value(e.get("TBE/AVTZ")) is not None
        ]
        if not found or any(str(e.get("State", "")).startswith("^2") for e in states):
            continue
        label = str(found[0].get("Molecule", file.stem)).strip()
        ground = _molecule(label, places.get(_plain(label)) or places.get(_plain(file.stem)))
        energy = min(_value(entry["TBE/AVTZ"]) for entry in found)
        yield _vertical(label, "triplets", ground, replace(ground, name=f"{label} T", spin=2), energy, species)


def _ionisations(path, species):
    folder = path / "charged" / "valence_IPs"
    places = _geometries(folder / "geometries")
    for file in sorted(folder.glob("*.json")):
        tables = _document(file, dict).get("IP")
        energy = _best(tables)
        if energy is not None:
            ground = _molecule(f"{file.stem} IP", places.get(_plain(file.stem)))
            ion = replace(ground, name=f"{file.stem}+ IP", charge=1, spin=1)
            yield _vertical(file.stem, "ips", ground, ion, energy, species)


def _best(tables):
    """The lowest energy of selected configuration interaction, in the largest basis set that has the first one."""
    for table in tables if isinstance(tables, list) else ():
        energies = table.get("sCI", {}).get("Energy", {}) if isinstance(table, dict) else {}
        for basis in ("aug-cc-pVQZ", "aug-cc-pVTZ"):
            row = energies.get(basis) if isinstance(energies, dict) else None
            values = [_value(x) for x in row] if isinstance(row, list) else []
            if values and values[0] is not None:
                return min(x for x in values if x is not None)
    return None


def _vertical(name, subset, ground, excited, energy, species):
    species[ground.name], species[excited.name] = ground, excited
    pairs = ((excited.name, 1.0), (ground.name, -1.0))
    return Reaction(name, subset, pairs, energy * UNITS["ev"])


def _value(found):
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _plain(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _geometries(folder):
    """xyz files by their names and by those in their comment lines, 'Water 7732-18-5 ...', in lower case."""
    places: dict[str, Path] = {}
    for file in sorted(folder.glob("*.xyz")):
        lines = read_text(file).splitlines()
        comment = _CAS.split(lines[1])[0] if len(lines) > 1 and _CAS.search(lines[1]) else ""
        for name in (comment, *re.findall(r"\(([^()]*)\)", lines[1] if len(lines) > 1 else "")):
            if name.strip():
                places.setdefault(_plain(name), file)
        places[_plain(file.stem)] = file
    return places


def _molecule(name, file) -> Species:
    if file is None:
        return Species(name, "", reason=f"no geometry of {name!r}")
    try:
        lines = read_text(file).splitlines()
        return Species(name, atom_text(parse_geometry("\n".join([lines[0].strip(), "", *lines[2:]]), str(file))))
    except (DftfdError, IndexError) as error:
        return Species(name, "", reason=f"{file}: {error}")


def _document(file, kind):
    found = read_json(read_bytes(file, QUEST_BYTES), file)
    if not isinstance(found, kind):
        raise FileError(f"{file} holds no {kind.__name__}; it is not of QUEST's form.")
    return found


REFDATA_SOURCE = "refdata: A. Otero de la Roza, https://github.com/aoterodelaroza/refdata, GPL 3"
REFDATA_BYTES = 16 * 2**20
_NUMBERS = re.compile(r"\s*(-?\d+)\s+(\d+)\s*")


def is_refdata(path) -> bool:
    """Whether it is a .din file, or a folder of the repository."""
    path = Path(path)
    return path.suffix == ".din" if path.is_file() else any(path.glob("10_din*/*.din"))


def read_refdata(path, subsets=()) -> BenchmarkSet:
    """The set of a .din file, or of the files of these names in the repository at a path."""
    path = Path(path)
    if path.is_file():
        files, root = {path.stem: path}, path.parents[min(1, len(path.parents) - 1)]
    else:
        files, root = {p.stem: p for p in sorted(path.glob("10_din*/*.din"), reverse=True)}, path
        unknown = [name for name in subsets if name.lower() not in files]
        if unknown or not subsets:
            asked = f"no {unknown[0]!r}" if unknown else "many sets"
            raise InputError(
                f"{path} has {asked}; choose one with refdata:NAME, where NAME is one of {', '.join(sorted(files))}."
            )
        files = {name.lower(): files[name.lower()] for name in subsets}
    reactions: list[Reaction] = []
    described = {}
    for name, file in files.items():
        found, said = _reactions(file, name)
        reactions += found
        described[name] = Subset(name, CLASS_OF.get(name, ""), f"{said} ({REFDATA_SOURCE})" if said else REFDATA_SOURCE)
    places = _places(root, files.values())
    labels = sorted({label for reaction in reactions for label, _ in reaction.stoichiometry})
    species = {label: _molecule_of_din(label, places) for label in labels}
    return checked(BenchmarkSet("+".join(files), species, tuple(reactions), described, source=REFDATA_SOURCE))


def _reactions(file, subset) -> tuple[list[Reaction], str]:
    """Reactions, and the first line of the header."""
    lines = [line.strip() for line in read_bytes(file, REFDATA_BYTES).decode("utf-8", "replace").splitlines()]
    said = next((line.lstrip("# ") for line in lines if line.startswith("#") and line.strip("# ")), "")
    rest = iter([line for line in lines if line and not line.startswith("#")])
    reactions: list[Reaction] = []
    try:
        for word in rest:
            total: dict[str, float] = {}
            while (coefficient := as_real(word)) != 0:
                label = next(rest)
                total[label] = total.get(label, 0.0) + coefficient
                word = next(rest)
            reference = as_real(next(rest))
            reactions.append(Reaction(str(len(reactions) + 1), subset, tuple(total.items()), reference))
    except (ValueError, StopIteration, RuntimeError) as error:
        raise FileError(f"{file}: no din file after reaction {len(reactions)}: {error or 'it ends early'}.") from error
    return reactions, said


def _places(root, files):
    """xyz files by name. Folders that share the name of a set come last, so that theirs count."""
    names = {file.stem for file in files}
    folders = [*root.glob("20_*"), *root.glob("30_collection-*"), *root.glob("30_collection-*/*")]
    folders += [file.parent for file in files]
    folders.sort(key=lambda folder: folder.name.partition("_")[2] in names or folder.name in names)
    return {p.stem: p for folder in folders for p in folder.glob("*.xyz")}


def _molecule_of_din(label, places) -> Species:
    if label not in places:
        return Species(label, "", reason=f"{label}.xyz is missing")
    file = places[label]
    try:
        lines = read_text(file).splitlines()
        said = _NUMBERS.fullmatch((lines + ["", ""])[1])
        if said is None:
            return Species(label, "", reason=f"{file}: the second line is not a charge and multiplicity")
        geometry = parse_geometry("\n".join([lines[0], "", *lines[2:]]), str(file))
    except DftfdError as error:
        return Species(label, "", reason=str(error))
    return Species(label, atom_text(geometry), int(said[1]), int(said[2]) - 1)


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
