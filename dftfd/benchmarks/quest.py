"""QUEST: vertical energies of states that have the lowest energy of their charge and spin, which SCF energies give.

    triplets    lowest triplet of a closed-shell molecule, minus its ground state     data/json/*/*.json
    ips         lowest vertical ionisation energy                                     charged/valence_IPs/*.json

Other states of QUEST are excited states of their own spin and are left out. Energies there are in eV, geometries in
angstrom (geometries/xyz/README.md).

P.-F. Loos et al., J. Chem. Theory Comput. 21, 8010 (2025). doi:10.1021/acs.jctc.5c00975 (triplets)
A. Marie, P.-F. Loos, J. Chem. Theory Comput. (2024). doi:10.1021/acs.jctc.4c00216 (ionisation). CC BY-SA 4.0
"""

import re
from dataclasses import replace
from pathlib import Path

from dftfd.benchmarks.reactions import UNITS, BenchmarkSet, Reaction, Species, Subset, atom_text, checked
from dftfd.errors import DftfdError, FileError, InputError
from dftfd.runtime.files import read_bytes
from dftfd.runtime.json_reader import read_json
from dftfd.system.geometry import parse_geometry, read_text

SOURCE = "QUEST: P.-F. Loos et al., J. Chem. Theory Comput. 21, 8010 (2025), doi:10.1021/acs.jctc.5c00975, CC BY-SA 4.0"
SUBSETS = {"triplets": "lowest triplets", "ips": "ionisation energies"}
MAX_BYTES = 16 * 2**20
_CAS = re.compile(r"\s\d+-\d+-\d\b")


def is_quest(path) -> bool:
    """Whether a folder holds the database."""
    return (Path(path) / "data" / "json").is_dir() and (Path(path) / "geometries" / "xyz").is_dir()


def read_quest(path, subsets=()) -> BenchmarkSet:
    """The subsets of these names, both without."""
    path = Path(path)
    for name in subsets:
        if name.lower() not in SUBSETS:
            raise InputError(f"QUEST has the subsets {' and '.join(SUBSETS)} here, not {name!r}.")
    wanted = [name for name in SUBSETS if not subsets or name in {word.lower() for word in subsets}]
    species: dict[str, Species] = {}
    reactions: list[Reaction] = []
    if "triplets" in wanted:
        reactions += _triplets(path, species)
    if "ips" in wanted:
        reactions += _ionisations(path, species)
    described = {name: Subset(name, SUBSETS[name], SOURCE) for name in wanted}
    return checked(BenchmarkSet("QUEST", species, tuple(reactions), described, source=SOURCE))


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
    found = read_json(read_bytes(file, MAX_BYTES), file)
    if not isinstance(found, kind):
        raise FileError(f"{file} holds no {kind.__name__}; it is not of QUEST's form.")
    return found
