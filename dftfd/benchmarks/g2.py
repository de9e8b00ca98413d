"""G2/97 as ASE brings it: atomisation energies from enthalpies of formation, vertical geometries of MP2(full)/6-31G*.

ASE's tables hold enthalpies at 298 K; without zero-point energies and thermal corrections they are electronic energies
to a few tenths of a kcal/mol. K. Raghavachari, P. C. Redfern, J. A. Pople, J. Chem. Phys. 106, 1063 (1997).
doi:10.1063/1.473182
"""

from collections import Counter
from typing import Any

from dftfd.benchmarks.reactions import BenchmarkSet, Reaction, Species, Subset, checked
from dftfd.errors import InputError, MissingDependencyError

SOURCE = "G2/97, of ASE: K. Raghavachari, P. C. Redfern, J. A. Pople, J. Chem. Phys. 106, 1063 (1997)"
SUBSETS = ("g2-1", "g2-2")


def read_g2(path=None, subsets=()) -> BenchmarkSet:
    """The atomisation energies of G2-1, G2-2 or both."""
    try:
        from ase.data import g2
        from ase.symbols import string2symbols
    except ImportError as error:
        raise MissingDependencyError("G2/97 is read from ASE: pip install 'dftfd[ase]'.") from error
    wanted = [name.lower() for name in subsets] or list(SUBSETS)
    if unknown := set(wanted) - set(SUBSETS):
        raise InputError(f"G2/97 has the subsets {' and '.join(SUBSETS)}, not {min(unknown)!r}.")
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
    described = {name: Subset(name, "atomisation energies", SOURCE) for name in wanted}
    return checked(BenchmarkSet("G2/97", species, tuple(reactions), described, source=SOURCE))


def _atomisation(entry, counts, data) -> float:
    """Electronic energy of atomisation [kcal/mol]: enthalpies of formation less thermal and zero-point energies."""
    atoms = sum(n * (data[symbol]["enthalpy"] - data[symbol]["thermal correction"]) for symbol, n in counts.items())
    return atoms - entry["enthalpy"] + entry["ZPE"] + entry["thermal correction"]


def _species(name, entry, symbols) -> Species:
    """A molecule of ASE's table; its spin is the sum of the magnetic moments."""
    rows = zip(symbols, entry["positions"], strict=True)
    atoms = "; ".join(f"{symbol} {x} {y} {z}" for symbol, (x, y, z) in rows)
    return Species(name, atoms + ";", 0, round(abs(sum(entry["magmoms"] or (0,)))))
