"""GSCDB: energies of reactions in a table, a molecule in each xyz file, and total energies of Q-Chem.

`Info/DatasetEval.xlsx` or .csv has rows Reaction, Dataset, Reference [hartree], Stoichiometry ('-1,A,2,B'); the comment
line of `xyz_files/A.xyz` says charge, multiplicity, basis; `Analysis/Molecule_Energies.xlsx` has a row for each
molecule and a column for each functional. ACCDB's tables for MGCDB84 have the same first form without a header.

J. Liang, M. Head-Gordon, GSCDB137, arXiv:2508.13468. Data under CC BY 4.0.
"""

import math
from pathlib import Path

from dftfd.benchmarks.reactions import BenchmarkSet, Reaction, Species, Subset, atom_text, checked
from dftfd.errors import DftfdError, FileError, InputError
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.runtime.spreadsheet import read_table
from dftfd.runtime.written_numbers import as_real, as_whole, real
from dftfd.system.geometry import parse_geometry, read_text

SOURCE = "GSCDB137: J. Liang, M. Head-Gordon, arXiv:2508.13468, CC BY 4.0"
FUNCTIONALS = {
    "B3LYP": "b3lyp",
    "BMK": "bmk",
    "CAMB3LYP": "camb3lyp",
    "M052X": "m052x",
    "M062X": "m062x",
    "MN15": "mn15",
    "PBE0": "pbe0",
    "PW6B95": "pw6b95",
    "SOGGA11X": "sogga11_x",
    "r2SCAN0": "r2scan0",
    "wB97M-V": "wb97m-v",
    "wB97X-V": "wb97x-v",
}
"""Functionals of the table of total energies, and what they are called here."""

SPECIAL_BASIS = "gen"


def is_gscdb(path) -> bool:
    """Whether a folder holds the database."""
    return (Path(path) / "xyz_files").is_dir() and _table(Path(path), "DatasetEval") is not None


def _table(path, name):
    return next((p for ending in (".xlsx", ".csv") if (p := path / "Info" / f"{name}{ending}").is_file()), None)


def read_gscdb(path, subsets=()) -> BenchmarkSet:
    """The reactions of the subsets of these names, of all without; FileError, InputError for another layout."""
    path = Path(path)
    if (table := _table(path, "DatasetEval")) is None:
        raise FileError(f"{path} lacks Info/DatasetEval.xlsx (or .csv).")
    header, *rows = read_table(table)
    columns = {word.strip().lower(): k for k, word in enumerate(header)}
    if not {"reaction", "dataset", "reference", "stoichiometry"} <= columns.keys():
        raise FileError(
            f"{table}: the first row is {header[:4]}; Reaction, Dataset, Reference, Stoichiometry expected."
        )
    rows = [row for row in rows if len(row) > max(columns.values()) and row[columns["stoichiometry"]]]
    known = {row[columns["dataset"]].lower(): row[columns["dataset"]] for row in rows}
    for name in subsets:
        if name.lower() not in known:
            raise InputError(f"{path} has no subset {name!r}; it has {', '.join(sorted(known.values()))}.")
    wanted = {name.lower() for name in subsets} or set(known)
    reactions = [
        _reaction({name: row[k] for name, k in columns.items()}, table)
        for row in rows
        if row[columns["dataset"]].lower() in wanted
    ]
    labels = sorted({label for reaction in reactions for label, _ in reaction.stoichiometry})
    described = _described(path, {reaction.subset for reaction in reactions})
    species = {label: read_molecule(path, label) for label in labels}
    return checked(BenchmarkSet("GSCDB", species, tuple(reactions), described, source=SOURCE))


def _reaction(row, table) -> Reaction:
    name, words = row["reaction"], [word.strip() for word in row["stoichiometry"].split(",")]
    try:
        total: dict[str, float] = {}
        for coefficient, label in zip(words[::2], words[1::2], strict=True):
            total[label] = total.get(label, 0.0) + as_real(coefficient)
        value = HARTREE_IN_KCAL * as_real(row["reference"].strip())
    except ValueError as error:
        raise FileError(f"{table}: reaction {name!r} cannot be read ({error}).") from error
    return Reaction(name, row["dataset"], tuple(total.items()), value)


def _described(path, names):
    """Class and level of theory of each subset, from Info/Datasets, where it is there."""
    described = {name: Subset(name, "", SOURCE) for name in names}
    if (table := _table(path, "Datasets")) is None:
        return described
    header, *rows = read_table(table)
    at = {word: k for k, word in enumerate(header)}
    for row in rows:
        if row and row[0] in names and {"Datatype", "Theory level"} <= at.keys() and len(row) > at["Datatype"]:
            level = row[at["Theory level"]] if len(row) > at["Theory level"] else ""
            described[row[0]] = Subset(row[0], row[at["Datatype"]].lower(), f"{level}; {SOURCE}" if level else SOURCE)
    return described


def read_molecule(path, label) -> Species:
    """A molecule by the name of its xyz file."""
    file = Path(path) / "xyz_files" / f"{label}.xyz"
    if Path(label).name != label or not file.is_file():
        return Species(label, "", reason=f"{file} is missing")
    try:
        lines = read_text(file).splitlines()
        entries = [part.partition("=") for part in (lines + ["", ""])[1].split(",")]
        said = {key.strip().lower(): value.strip() for key, _, value in entries}
        # their comment line has commas, which dftfd's reader takes for blanks: the atoms are read without it
        geometry = parse_geometry("\n".join([lines[0], "", *lines[2:]]), str(file))
        charge, spin = as_whole(said.get("charge", "0")), as_whole(said.get("multiplicity", "1")) - 1
    except (DftfdError, ValueError, IndexError) as error:
        return Species(label, "", reason=f"{file}: {error}")
    reason = ""
    if said.get("multipole_field"):
        reason = "is in an electric field, in Q-Chem's form"
    basis = said.get("basis", "").lower() or None
    if basis in (SPECIAL_BASIS, "mixed"):
        reason, basis = f"needs a basis set of its own ({said['basis']})", None
    return Species(label, atom_text(geometry), charge, spin, basis, reason)


def read_totals(path, xc: str) -> dict[str, float]:
    """Total energies [hartree] of Q-Chem with a functional, by the names of the molecules."""
    path = Path(path)
    files = [path / "Analysis" / f"Molecule_Energies{ending}" for ending in (".xlsx", ".csv")]
    table = next((p for p in files if p.is_file()), None)
    if table is None:
        raise FileError(f"{path} lacks Analysis/Molecule_Energies.xlsx (or .csv).")
    header, *rows = read_table(table)
    at = {_plain(FUNCTIONALS.get(word, word)): k for k, word in enumerate(header) if word}
    if _plain(xc) not in at:
        known = ", ".join(FUNCTIONALS.get(word, word) for word in header if word)
        raise InputError(f"{table} has no energies with {xc!r}; it has {known}.")
    column = at[_plain(xc)]
    found = {row[0]: real(row[column].strip()) for row in rows if len(row) > column}
    # of calculations that they do not have, nothing or a word stands there
    return {name: energy for name, energy in found.items() if energy is not None and math.isfinite(energy)}


def _plain(name):
    return name.lower().replace("-", "").replace("_", "")
