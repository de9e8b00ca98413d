"""GMTKN55 as its authors give it: a folder for each subset, reactions in `.res`, molecules in folders of their own.

    $tmer {alh3,al,h}/$f  x -1 1 3 $w 213.169        molecules, x, coefficients, reference energy [kcal/mol]

`.CHRG` and `.UHF` hold charge and unpaired electrons, zero without. BH76 has its reaction energies in `.resRC`.
L. Goerigk et al., Phys. Chem. Chem. Phys. 19, 32184 (2017). doi:10.1039/C7CP04913G

Diet GMTKN55: parts of GMTKN55 that stand for the whole, in one file of the layout of gambort/DietGMTKN55.

    Amino20x4:                      subset
      28:                           number of the reaction in it
        Energy: 5.2160              [kcal/mol]
        Weight: 23.3100             of the absolute error in WTMAD-2
        Species:
          GLU_xbi:
            Count: -1
            Charge: 0
            UHF: 0                  unpaired electrons
            Elements: [ N, H ]
            Positions:              [angstrom]
              - [   1.83378,   0.42401,   0.16100]

The layout is YAML; what stands in these files is read by its indentation, and nothing else of YAML is understood.
T. Gould, Phys. Chem. Chem. Phys. 20, 27735 (2018). doi:10.1039/C8CP05554H
"""

import re
from itertools import product
from pathlib import Path

from dftfd.benchmarks.reactions import BenchmarkSet, Reaction, Species, Subset, atom_text, checked
from dftfd.errors import DftfdError, FileError, InputError, shown
from dftfd.runtime.files import read_bytes
from dftfd.runtime.written_numbers import as_real, as_whole, whole
from dftfd.system.geometry import parse_geometry, read_text

SOURCE = "GMTKN55: L. Goerigk et al., Phys. Chem. Chem. Phys. 19, 32184 (2017), doi:10.1039/C7CP04913G"
MEAN_REFERENCE = 56.84
"""Mean over the 55 subsets of the mean absolute reference energy [kcal/mol], eq. 2 there."""

CLASSES = {
    "basic properties and reactions of small systems": "W4-11 G21EA G21IP DIPCS10 PA26 SIE4x4 ALKBDE10 YBDE18 AL2X6 "
    "HEAVYSB11 NBPRC ALK8 RC21 G2RC BH76RC FH51 TAUT15 DC13",
    "reactions of large systems and isomerisations": "MB16-43 DARC RSE43 BSR36 CDIE20 ISO34 ISOL24 C60ISO PArel",
    "barrier heights": "BH76 BHPERI BHDIV10 INV24 BHROT27 PX13 WCPT18",
    "intermolecular noncovalent interactions": "RG18 ADIM6 S22 S66 HEAVY28 WATER27 CARBHB12 PNICO23 HAL59 AHB21 CHB6 "
    "IL16",
    "intramolecular noncovalent interactions": "IDISP ICONF ACONF Amino20x4 PCONF21 MCONF SCONF UPU23 BUT14DIOL",
}
CLASS_OF = {subset.lower(): kind for kind, names in CLASSES.items() for subset in names.split()}

_CALL = re.compile(r"^\s*(?:\$tmer|tmer2\+\+)\s+(.*?)\sx\s+(.*?)\s*\$w\s+(\S+)")
_BEGINS = re.compile(r"\s*(?:\$\{?tmer|tmer2\+\+)")
_EXPECTED = "'$tmer A/$f B/$f x -1 1 $w 12.3'"
_BRACES = re.compile(r"\{([^{}]*)\}")
MAX_BYTES = 4 * 2**20


def is_gmtkn55(path) -> bool:
    """Whether a folder holds subsets, or is one."""
    path = Path(path)
    return path.is_dir() and ((path / ".res").is_file() or any(path.glob("*/.res")))


def read_gmtkn55(path, subsets=()) -> BenchmarkSet:
    """The set, or the subsets of these names. FileError and InputError where it is not as expected."""
    path = Path(path)
    single = (path / ".res").is_file()
    folders = {path.name: path} if single else {p.parent.name: p.parent for p in sorted(path.glob("*/.res"))}
    sources = {name: (folder, ".res") for name, folder in folders.items()}
    sources |= {f"{name}RC": (folder, ".resRC") for name, folder in folders.items() if (folder / ".resRC").is_file()}
    known = {name.lower(): name for name in sources}
    for name in subsets:
        if name.lower() not in known:
            raise InputError(f"{path} has no subset {name!r}; it has {', '.join(sorted(sources))}.")
    chosen = [known[name.lower()] for name in subsets] or sorted(sources)
    species: dict[str, Species] = {}
    reactions: list[Reaction] = []
    described = {}
    for name in chosen:
        folder, file = sources[name]
        found = _reactions(folder / file, name, folder.name)
        mean = sum(abs(reaction.reference) for reaction in found) / max(1, len(found))
        described[name] = Subset(name, CLASS_OF.get(name.lower(), ""), SOURCE, mean)
        reactions += [_weighted(reaction, mean) for reaction in found]
        for label in {label for reaction in found for label, _ in reaction.stoichiometry}:
            species.setdefault(label, _molecule(folder, label))
    return checked(BenchmarkSet("GMTKN55", species, tuple(reactions), described, source=SOURCE, weighting="WTMAD-2"))


def _weighted(reaction, mean):
    """WTMAD-2 is the mean over all reactions of this weight times the absolute error."""
    weight = MEAN_REFERENCE / mean if mean else None
    return Reaction(reaction.name, reaction.subset, reaction.stoichiometry, reaction.reference, weight)


def _reactions(file, subset, folder) -> list[Reaction]:
    reactions: list[Reaction] = []
    for number, line in enumerate(read_bytes(file, MAX_BYTES).decode("utf-8", "replace").splitlines(), start=1):
        if not _BEGINS.match(line):
            continue
        if (match := _CALL.match(line)) is None:
            raise FileError(f"{file}, line {number}: {shown(line.strip())} is not a reaction; expected {_EXPECTED}.")
        names = [f"{folder}/{name}" for name in _expanded(match[1])]
        try:
            pairs = zip(names, map(as_real, match[2].split()), strict=True)
            reactions.append(Reaction(str(len(reactions) + 1), subset, _summed(pairs), as_real(match[3])))
        except ValueError as error:
            raise FileError(f"{file}, line {number}: {len(names)} molecules, not a reaction ({error}).") from error
    if not reactions:
        raise FileError(f"{file} holds no reactions; expected lines {_EXPECTED}.")
    return reactions


def _summed(pairs):
    """One coefficient for each name, in the order of their first appearance."""
    total: dict[str, float] = {}
    for name, coefficient in pairs:
        total[name] = total.get(name, 0.0) + coefficient
    return tuple(total.items())


def _expanded(words) -> list[str]:
    """Names of molecules, braces unfolded as a shell does: 'P_{TT,TG}/$f' are P_TT and P_TG."""
    names = []
    for word in words.split():
        parts = _BRACES.split(word.removesuffix("/$f"))
        choices = [part.split(",") if k % 2 else [part] for k, part in enumerate(parts)]
        names += ["".join(pieces).removesuffix("/$f") for pieces in product(*choices)]
    return names


def _molecule(folder, label) -> Species:
    place = folder / label.partition("/")[2]
    try:
        if not (place / "struc.xyz").is_file():
            return Species(label, "", reason=f"{place / 'struc.xyz'} is missing")
        geometry = parse_geometry(read_text(place / "struc.xyz"), str(place / "struc.xyz"))
        charge, spin = _whole(place / ".CHRG"), _whole(place / ".UHF")
        if geometry.charge not in (None, charge) or geometry.spin not in (None, spin):
            return Species(label, "", reason=f"{place}: struc.xyz says another charge or spin than .CHRG and .UHF")
        return Species(label, atom_text(geometry), charge, spin)
    except DftfdError as error:
        return Species(label, "", reason=str(error))


def _whole(file) -> int:
    """The number that stands in a file; 0 without the file."""
    if not file.is_file():
        return 0
    words = read_bytes(file, 1000).decode("utf-8", "replace").split()
    if (value := whole(words[0]) if words else None) is None:
        raise FileError(f"{file} holds no whole number.")
    return value


DIET_SOURCE = "Diet GMTKN55: T. Gould, Phys. Chem. Chem. Phys. 20, 27735 (2018), doi:10.1039/C8CP05554H"
DIET_BYTES, MAX_LINES, MAX_DEPTH = 32 * 2**20, 500_000, 12


def is_diet(path) -> bool:
    """Whether it is a file of such a set, or a folder with some."""
    path = Path(path)
    return path.suffix.lower() in (".yaml", ".yml") if path.is_file() else bool(_files(path))


def _files(path):
    return {int(p.stem.rpartition("_")[2]): p for p in sorted(path.rglob("AllElements_[0-9][0-9][0-9].yaml"))}


def read_diet(path, subsets=()) -> BenchmarkSet:
    """The set of a file; of a folder, the set of the size that `subsets` names, ('30',)."""
    path = Path(path)
    if path.is_dir():
        sizes = _files(path)
        wanted = [word for word in subsets if word.isdecimal() and int(word) in sizes]
        if len(wanted) != 1:
            raise InputError(
                f"{path} has diet sets of {', '.join(map(str, sizes))} reactions; choose one with diet:SIZE."
            )
        path, subsets = sizes[int(wanted[0])], [word for word in subsets if word not in wanted]
    found = checked(_read(path))
    return found.only(subsets) if subsets else found


def _read(path) -> BenchmarkSet:
    species: dict[str, Species] = {}
    reactions, subsets, where = [], {}, "the whole"
    tree = _tree(path)
    try:
        for subset, entries in tree.items():
            for label, entry in entries.items():
                where = f"{subset}/{label}"
                pairs = []
                for name, molecule in entry["Species"].items():
                    key = f"{subset}/{name}" if f"{subset}/{name}" not in species else f"{where}/{name}"
                    made = _molecule_of_diet(key, molecule)
                    known = species.get(f"{subset}/{name}")
                    if known and (known.atoms, known.charge, known.spin) == (made.atoms, made.charge, made.spin):
                        key = f"{subset}/{name}"
                    species.setdefault(key, made)
                    pairs.append((key, as_real(molecule["Count"])))
                weight = as_real(entry["Weight"])
                reactions.append(Reaction(label, subset, tuple(pairs), as_real(entry["Energy"]), weight))
                mean = MEAN_REFERENCE / weight if weight else None
                subsets[subset] = Subset(subset, CLASS_OF.get(subset.lower(), ""), DIET_SOURCE, mean)
    except Exception as error:  # names, lists and numbers may stand anywhere
        raise FileError(f"{path} does not have the layout of Diet GMTKN55: {error!r} in {shown(where)}.") from error
    name = f"diet-{len(reactions)}"
    return BenchmarkSet(name, species, tuple(reactions), subsets, source=DIET_SOURCE, weighting="WTMAD-2")


def _molecule_of_diet(name, entry) -> Species:
    symbols, positions = _row(entry["Elements"]), entry["Positions"]
    atoms = "; ".join(" ".join([symbol, *_row(position)]) for symbol, position in zip(symbols, positions, strict=True))
    return Species(name, atoms + ";", as_whole(entry["Charge"]), as_whole(entry["UHF"]))


def _row(words):
    return [word.strip() for word in words.strip().removeprefix("[").removesuffix("]").split(",")]


def _tree(path) -> dict:
    """Names to names, text or lists of text, as deep as the file's indentation."""
    where = "its first line"
    root: dict = {}
    stack: list[tuple[int, dict, str]] = []  # indentation, the mapping a line of it belongs to, its latest name
    try:
        lines = read_bytes(path, DIET_BYTES).decode().splitlines()
        if len(lines) > MAX_LINES:
            raise ValueError(f"more than {MAX_LINES} lines")
        for number, line in enumerate(lines, start=1):
            where = f"line {number}"
            bare = line.split("#", 1)[0].rstrip()
            if not bare.strip():
                continue
            indent, words = len(bare) - len(bare.lstrip()), bare.strip()
            if len(stack) > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} levels")
            while stack and stack[-1][0] >= indent and not words.startswith("- "):
                stack.pop()
            if words.startswith("- "):
                _, parent, name = stack[-1]
                parent[name] = parent[name] or []
                parent[name].append(words[2:])
                continue
            name, colon, value = words.partition(":")
            if not colon:
                raise ValueError("no colon")
            parent = stack[-1][1][stack[-1][2]] if stack else root
            if name.strip() in parent:
                raise ValueError(f"{shown(name.strip())} occurs twice")
            parent[name.strip()] = value.strip() or {}
            stack.append((indent, parent, name.strip()))
    except (UnicodeDecodeError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise FileError(f"{path}, {where}: not in the layout of Diet GMTKN55 ({error}).") from error
    return root
