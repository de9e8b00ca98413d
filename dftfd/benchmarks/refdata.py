"""Sets of aoterodelaroza/refdata: energies in .din files, molecules in xyz files whose second line is 'charge spin+1'.

    -1            coefficient
    nh3_nh3       molecule
    2
    nh3
    0             end of the reaction
    3.133         reference [kcal/mol]

The header, lines with #, names the source. Data of that repository are under the GPL 3.
"""

import re
from pathlib import Path

from dftfd.benchmarks.gmtkn55 import CLASS_OF
from dftfd.benchmarks.reactions import BenchmarkSet, Reaction, Species, Subset, atom_text, checked
from dftfd.errors import DftfdError, FileError, InputError
from dftfd.runtime.files import read_bytes
from dftfd.runtime.written_numbers import as_real
from dftfd.system.geometry import parse_geometry, read_text

SOURCE = "refdata: A. Otero de la Roza, https://github.com/aoterodelaroza/refdata, GPL 3"
MAX_BYTES = 16 * 2**20
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
        described[name] = Subset(name, CLASS_OF.get(name, ""), f"{said} ({SOURCE})" if said else SOURCE)
    places = _places(root, files.values())
    labels = sorted({label for reaction in reactions for label, _ in reaction.stoichiometry})
    species = {label: _molecule(label, places) for label in labels}
    return checked(BenchmarkSet("+".join(files), species, tuple(reactions), described, source=SOURCE))


def _reactions(file, subset) -> tuple[list[Reaction], str]:
    """Reactions, and the first line of the header."""
    lines = [line.strip() for line in read_bytes(file, MAX_BYTES).decode("utf-8", "replace").splitlines()]
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


def _molecule(label, places) -> Species:
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
