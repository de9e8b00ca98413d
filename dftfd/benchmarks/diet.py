"""Diet GMTKN55: parts of GMTKN55 that stand for the whole, in one file of the layout of gambort/DietGMTKN55.

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

from pathlib import Path

from dftfd.benchmarks.gmtkn55 import CLASS_OF, MEAN_REFERENCE
from dftfd.benchmarks.reactions import BenchmarkSet, Reaction, Species, Subset, checked
from dftfd.errors import FileError, InputError, shown
from dftfd.runtime.files import read_bytes
from dftfd.runtime.written_numbers import as_real, as_whole

SOURCE = "Diet GMTKN55: T. Gould, Phys. Chem. Chem. Phys. 20, 27735 (2018), doi:10.1039/C8CP05554H"
MAX_BYTES, MAX_LINES, MAX_DEPTH = 32 * 2**20, 500_000, 12


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
                    made = _molecule(key, molecule)
                    known = species.get(f"{subset}/{name}")
                    if known and (known.atoms, known.charge, known.spin) == (made.atoms, made.charge, made.spin):
                        key = f"{subset}/{name}"
                    species.setdefault(key, made)
                    pairs.append((key, as_real(molecule["Count"])))
                weight = as_real(entry["Weight"])
                reactions.append(Reaction(label, subset, tuple(pairs), as_real(entry["Energy"]), weight))
                mean = MEAN_REFERENCE / weight if weight else None
                subsets[subset] = Subset(subset, CLASS_OF.get(subset.lower(), ""), SOURCE, mean)
    except Exception as error:  # names, lists and numbers may stand anywhere
        raise FileError(f"{path} does not have the layout of Diet GMTKN55: {error!r} in {shown(where)}.") from error
    name = f"diet-{len(reactions)}"
    return BenchmarkSet(name, species, tuple(reactions), subsets, source=SOURCE, weighting="WTMAD-2")


def _molecule(name, entry) -> Species:
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
        lines = read_bytes(path, MAX_BYTES).decode().splitlines()
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
