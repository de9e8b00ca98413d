"""Total energies against another program's: how many agree, and what the others are due to.

Both programs take the same geometry, charge, spin and basis set, with exact integrals. Each disagreement is computed
again with one setting tightened at a time; the first that brings the numbers together names its cause.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.benchmarks.collections import located
from dftfd.benchmarks.energies import How, Step, as_many, checked_options, compute, name_of
from dftfd.benchmarks.gscdb import read_molecule, read_totals
from dftfd.benchmarks.reactions import BenchmarkSet, Species, composition
from dftfd.errors import DftfdError, FileError, InputError
from dftfd.functionals.registry import get_functional
from dftfd.model.forces import require_energy
from dftfd.runtime.arguments import number, optional, public, whole
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.documents import refusing_damage
from dftfd.runtime.files import read_bytes, write_text
from dftfd.runtime.json_reader import parse_json
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.plain_text import csv_table
from dftfd.system.molecule import molecule

DEFAULTS: Mapping[str, Any] = {"density_fit": False, "grid_level": 5}
"""Options where none are given: Q-Chem's 99 radial shells of 590 points lie near level 5."""

MAX_BYTES = 64 * 2**20

BASIS = "def2-qzvppd"
"""Of GSCDB's total energies, where a molecule names none."""
AGREE, UNEXPLAINED = "agree", "definition of the functional, basis set, or their settings"

CAUSES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("fitted integrals", {"density_fit": False}),
    ("grid", {"grid_level": 8}),
    ("nonlocal grid", {"nlc_grid_level": 6}),
    ("another SCF state", {"convergence": "hard"}),
    ("another SCF state, of broken spin symmetry", {"convergence": "hard", "method": "UKS", "broken_symmetry": "mix"}),
)
"""What may be behind a disagreement, and the options that tell, in the order in which they are tried."""


@dataclass(frozen=True)
class Total:
    """A molecule with a functional: their and our energy, and the one that decided about its cause [hartree]."""

    molecule: str
    functional: str
    theirs: float
    ours: float | None
    cause: str
    decided: float | None = None

    @property
    def difference(self) -> float | None:
        """Ours less theirs."""
        return None if self.ours is None else self.ours - self.theirs


@dataclass(frozen=True, repr=False)
class Agreement(ShownAsText):
    """All total energies that were compared; agreement is a difference of at most `tolerance` [hartree]."""

    totals: tuple[Total, ...]
    tolerance: float

    @property
    def failed(self) -> bool:
        """Whether a molecule has no energy of ours."""
        return any(one.ours is None for one in self.totals)

    def histogram(self, xc: str) -> dict[str, int]:
        """How many differences lie below powers of ten."""
        found = [abs(one.difference) for one in self.totals if one.functional == xc and one.difference is not None]
        edges = [0.0, *(10.0**k for k in range(-8, 0)), np.inf]
        counts, _ = np.histogram(found, edges)
        return {f"< {edge:.0e}": int(n) for edge, n in zip([*edges[1:-1], np.inf], counts, strict=True)}

    def __str__(self):
        names = list(dict.fromkeys(one.functional for one in self.totals))
        lines = [f"total energies, ours less theirs; agreement within {self.tolerance:.0e} hartree"]
        for xc in names:
            of_xc = [one for one in self.totals if one.functional == xc]
            causes = Counter(one.cause for one in of_xc)
            lines += ["", f"{xc}: {causes[AGREE]} of {len(of_xc)} agree"]
            lines += [f"  {edge:>8} hartree {n:6d}" for edge, n in self.histogram(xc).items() if n]
            lines += [f"  {n} by {cause}" for cause, n in causes.items() if cause != AGREE]
        others = [one for one in self.totals if one.cause != AGREE]
        lines += ["", *(f"{one.molecule} / {one.functional}: {_words(one)}" for one in others)] if others else []
        return "\n".join(lines)

    def csv(self) -> str:
        """A row for each molecule with each functional."""
        rows = [asdict(one) | {"difference": one.difference} for one in self.totals]
        return csv_table(list(rows[0]), (row.values() for row in rows))

    def write(self, path, ending: str | None = None) -> None:
        """Write the rows to a file in the format of its ending, or the one given, .csv or .json."""
        path = Path(as_path.checked("path", path))
        ending = path.suffix.lower() if ending is None else ending
        if ending == ".json":
            rows = [asdict(one) | {"difference": one.difference} for one in self.totals]
            text = json.dumps({"tolerance": self.tolerance, "totals": rows}, indent=1) + "\n"
        elif ending == ".csv":
            text = self.csv()
        else:
            raise InputError(f"{path.name!r}: total energies are written to .csv or .json.")
        write_text(path, text)


def _words(one):
    if one.ours is None:
        return one.cause
    after = "" if one.decided is None else f", {one.decided - one.theirs:+.1e} after"
    return f"{one.difference:+.1e} hartree, {one.cause}{after}"


@public
def compare_totals(
    data: Annotated[Path | None, optional(as_path)] = None,
    xc: Any = "b3lyp",
    *,
    limit: Annotated[int, whole(1)] = 50,
    seed: Annotated[int, whole(0, 2**32 - 1)] = 0,
    max_functions: Annotated[int, whole(1)] = 200,
    tolerance: Annotated[float, number(lambda x: x > 0, "a positive number")] = 1e-5,
    basis: str | None = None,
    jobs: Annotated[int, whole(1)] = 1,
    client: Any = None,
    record: Annotated[Path | None, optional(as_path)] = None,
    on_step: Callable[[Step], None] = lambda step: None,
    **options: Any,
) -> Agreement:
    """Total energies of molecules against those of another program, for one functional or a list.

    data: a copy of GSCDB, or a JSON file, a list of {"name", "atoms", "charge", "spin", "basis", "energies"}, energies
        by functional [hartree], atoms text or rows symbol, x, y, z [angstrom].
    limit, seed: so many molecules in the order that a seed gives; a larger limit holds a smaller one. Those between
        whose basis set is not known have a row without an energy and do not count.
    max_functions: larger molecules are left out.   tolerance: difference [hartree] that counts as agreement.
    basis: where a molecule brings none.   jobs, client, record: as in `run_batch`.   options: for `run_scf`, by default
        exact integrals and grid level 5.

    Raises InputError and FileError for data that cannot be read.
    """
    functionals = as_many(xc)
    for each in functionals:
        require_energy(get_functional(each))
    chosen = {**DEFAULTS, **options}
    checked_options("compare_totals", "comparison", chosen, client)
    theirs, species = _chosen(data, functionals, limit, seed, max_functions, basis)
    how = How(basis or BASIS, chosen, {}, None, jobs, client, record, own_basis=True)
    computed = compute(_set_of(species), functionals, how, on_step)
    found = [
        _total(name, name_of(each), theirs[name_of(each)][name], computed[name_of(each), name], tolerance)
        for each in functionals
        for name in species
        if name in theirs[name_of(each)]
    ]
    for each in functionals:
        found = _explained(found, each, species, how, tolerance, on_step)
    return Agreement(tuple(found), tolerance)


def _set_of(species):
    return BenchmarkSet("totals", species, ())


def _total(name, xc, theirs, computed, tolerance) -> Total:
    if computed.energy is None:
        return Total(name, xc, theirs, None, computed.error or "no energy")
    cause = AGREE if abs(computed.energy - theirs) <= tolerance else UNEXPLAINED
    return Total(name, xc, theirs, computed.energy, cause)


def _explained(found, xc, species, how, tolerance, on_step) -> list[Total]:
    """The totals, those of a functional that disagree with the cause that decides."""
    functional = get_functional(xc)
    for cause, changes in CAUSES:
        if all(how.options.get(name) == value for name, value in changes.items()):
            continue
        if cause == "nonlocal grid" and not functional.is_nonlocal:
            continue
        open_ = {one.molecule: one for one in found if one.functional == name_of(xc) and one.cause == UNEXPLAINED}
        if "method" in changes:
            open_ = {name: one for name, one in open_.items() if species[name].spin == 0}
        if not open_:
            continue
        tightened = replace(how, options={**how.options, **changes})
        again = compute(_set_of({name: species[name] for name in open_}), [xc], tightened, on_step)
        found = [_decided(one, again.get((name_of(xc), one.molecule)), cause, tolerance, open_) for one in found]
    return found


def _decided(one, again, cause, tolerance, open_) -> Total:
    if open_.get(one.molecule) is not one or again is None or again.energy is None:
        return one
    if abs(again.energy - one.theirs) > tolerance:
        return one
    return replace(one, cause=cause, decided=again.energy)


# ----------------------------------------------------------------------------------------------------------------- data


def _chosen(data, functionals, limit, seed, max_functions, basis):
    """Their energies by functional and molecule, and the molecules that are compared."""
    named = [name_of(xc) for xc in functionals]
    if data is not None and Path(data).suffix.lower() == ".json":
        theirs, molecules = _document(Path(data), named)
    else:
        root = located("gscdb", data)
        theirs = {xc: read_totals(root, xc) for xc in named}
        molecules = lambda name: read_molecule(root, name)
    names = sorted(set().union(*theirs.values()))
    order = (names[k] for k in np.random.default_rng(seed).permutation(len(names)))
    species = dict(_small(order, molecules, limit, max_functions, basis))
    if not species:
        raise InputError(f"no molecule of at most {max_functions} basis functions can be compared.")
    return theirs, species


def _small(order, molecules, limit, max_functions, basis) -> Iterator[tuple[str, Species]]:
    count = 0
    for name in order:
        if count == limit:
            return
        one = molecules(name)
        if isinstance(composition(one), str):
            continue
        size = _size(one, basis)
        count += size is not None and size <= max_functions
        if size is None or size <= max_functions:
            yield name, one


def _size(one, basis) -> int | None:
    """Number of basis functions of a molecule; None where its basis set is not known, which its row will tell."""
    try:
        return molecule(one.atoms, one.basis or basis or BASIS, one.charge, one.spin, allow_close=True).n_ao
    except DftfdError:
        return None


def _document(path, functionals: Sequence[str]):
    """Energies and molecules of a JSON file."""
    with refusing_damage(path, "is not a list of molecules with energies, see compare_totals", FileError):
        listed = parse_json(read_bytes(path, MAX_BYTES))
        entries = {str(entry["name"]): entry for entry in listed}
        if len(entries) < len(listed):
            raise ValueError("the name of a molecule occurs twice")
        theirs = {
            xc: {
                name: number().convert(entry["energies"][xc])
                for name, entry in entries.items()
                if xc in entry["energies"]
            }
            for xc in functionals
        }
        species = {name: _species(name, entry) for name, entry in entries.items()}
    for xc, energies in theirs.items():
        if not energies:
            raise InputError(f"{path} has no energies with {xc!r}.")
    return theirs, species.__getitem__


def _species(name, entry) -> Species:
    atoms = entry["atoms"]
    if not isinstance(atoms, str):
        atoms = "; ".join(" ".join(map(str, row)) for row in atoms) + ";"
    return Species(name, atoms, int(entry["charge"]), int(entry["spin"]), entry.get("basis"))
