"""The energy of one reaction, written as an equation: '2 h2.xyz + o2.xyz:0,3 -> 2 h2o.xyz'.

Its species are computed as those of benchmark sets are (dftfd.benchmarks.energies), by the batch machinery.
"""

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.benchmarks.energies import Computed, How, Step, checked_options, compute, name_of, settings_in_words
from dftfd.benchmarks.reactions import FREE, BenchmarkSet, Reaction, Species, require_balanced, text_of_atoms
from dftfd.errors import DftfdError, FileError, FunctionalError, InputError, shown, warnings_named
from dftfd.functionals.registry import get_functional
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, BOLTZMANN, HARTREE_IN_KCAL, HARTREE_IN_KJ, is_pyscf_mole
from dftfd.model.forces import require_energy
from dftfd.results.document import Document, numbers
from dftfd.results.qcschema import write_json
from dftfd.results.thermochemistry import Thermochemistry, thermochemistry
from dftfd.results.vibrations import KELVIN, PRESSURE, QUASI_HARMONIC
from dftfd.results.web_page import web_page
from dftfd.runtime.arguments import mapping, optional, public, refuse_unknown, whole
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.documents import write_tree
from dftfd.runtime.files import require_ending, write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.system.comment_line import warn_about_name
from dftfd.system.geometry import electrons_of, is_coordinate_text
from dftfd.system.molecule import molecule
from dftfd.system.smiles import is_smiles

ENDINGS = (".json", ".html", ".h5")
_ARROW = re.compile(r"\s*(?:-+>|→|⇌)\s*|\s+<?=+>?\s+")
_PLUS = re.compile(r"(?:^|\s+)\+(?:\s+|$)")
_TERM = re.compile(r"(?:(?P<n>\d{1,4}(?:\.\d{1,9})?)(?:/(?P<d>[1-9]\d{0,3}))?\s+)?(?P<label>\S.*)", re.DOTALL)
_SMALL_BASIS = re.compile(r"svp|sto|3-21|4-31|6-31(?!1)|dz|mini|midi|sv\b", re.IGNORECASE)
_PROTON_MASS = 1.007276466621  # u, CODATA 2018


@dataclass(frozen=True, eq=False, repr=False)
class ReactionEnergy(ShownAsText):
    """The energy of a reaction; None in place of numbers that a species lacks.

    equation: as it was written.   settings: in words.   stoichiometry: (species, coefficient), negative on the left.
    computed: species -> Computed.   thermochemistry: species -> that of the ideal gas, empty without thermo=True.
    notes: what a reader should know.
    """

    equation: str
    settings: Mapping[str, str]
    stoichiometry: tuple[tuple[str, float], ...]
    computed: Mapping[str, Computed]
    thermochemistry: Mapping[str, Thermochemistry]
    notes: tuple[str, ...] = ()

    @property
    def energy(self) -> float | None:
        """Electronic energy of the reaction [hartree]."""
        return self._difference({name: one.energy for name, one in self.computed.items()})

    @property
    def energy_kcal(self) -> float | None:
        """The same in kcal/mol."""
        return None if self.energy is None else self.energy * HARTREE_IN_KCAL

    @property
    def energy_at_zero(self) -> float | None:
        """With zero-point vibrations, at 0 K [hartree]."""
        return self._difference({name: gas.energy_at_zero for name, gas in self.thermochemistry.items()})

    @property
    def enthalpy(self) -> float | None:
        """Enthalpy of the reaction [hartree]."""
        return self._difference({name: gas.enthalpy for name, gas in self.thermochemistry.items()})

    @property
    def gibbs_energy(self) -> float | None:
        """Gibbs energy of the reaction [hartree]."""
        return self._difference({name: gas.gibbs_energy for name, gas in self.thermochemistry.items()})

    @property
    def failed(self) -> tuple[str, ...]:
        """Species without an energy."""
        return tuple(name for name, one in self.computed.items() if one.energy is None)

    def _difference(self, values: Mapping[str, float | None]) -> float | None:
        parts = [(coefficient, values.get(name)) for name, coefficient in self.stoichiometry]
        return None if any(E is None for _, E in parts) else math.fsum(c * E for c, E in parts if E is not None)

    def rows(self) -> dict[str, float | None]:
        """What is told of the reaction [hartree]."""
        found = {"energy": self.energy}
        if self.thermochemistry and self.energy is not None:
            T = f"{next(iter(self.thermochemistry.values())).temperature:g} K"
            found |= {"energy at 0 K": self.energy_at_zero}
            found |= {f"enthalpy, {T}": self.enthalpy, f"Gibbs energy, {T}": self.gibbs_energy}
        return found

    def __str__(self):
        words = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        lines = [self.equation, words, "", f"{'':<24}{'kcal/mol':>14}{'kJ/mol':>14}{'hartree':>18}"]
        for name, E in self.rows().items():
            row = f"{E * HARTREE_IN_KCAL:14.4f}{E * HARTREE_IN_KJ:14.4f}{E:18.10f}" if E is not None else " FAILED"
            lines.append(f"  {name:<22}{row}")
        gibbs = bool(self.thermochemistry)
        lines += ["", f"{'':>8}{'energy / hartree':>20}{'G / hartree' if gibbs else '':>{20 * gibbs}}"]
        for name, coefficient in self.stoichiometry:
            E, gas = self.computed[name].energy, self.thermochemistry.get(name)
            row = f"{coefficient:+8.4g}{'FAILED' if E is None else format(E, '.10f'):>20}"
            row += f"{'-' if gas is None else format(gas.gibbs_energy, '.8f'):>20}" if gibbs else ""
            lines.append(f"{row}  {name}")
        return "\n".join([*lines, *(f"{head}{note}" for head, note in self._remarks())])

    def _remarks(self):
        yield from (("FAILED: ", f"{name}: {self.computed[name].error}") for name in self.failed)
        yield from (("note: ", note) for note in self.notes)
        yield from (("note: ", f"{name}: {said}") for name, one in self.computed.items() for said in one.remarks)
        gases = self.thermochemistry
        for said in dict.fromkeys(said for gas in gases.values() for said in gas.remarks):
            names = [name for name, gas in gases.items() if said in gas.remarks]
            yield "note: ", said if len(names) == len(gases) else f"{', '.join(names)}: {said}"

    @public
    def write(self, path: Path) -> None:
        """Write what is printed, and its numbers, to a file .json, .html or .h5."""
        require_ending(path, *ENDINGS, exactly=True)
        document = Document({"reaction": self})
        if path.suffix.lower() == ".json":
            write_json(path, document.numbers())
        elif path.suffix.lower() == ".h5":
            write_tree(path, document.tree())
        else:
            write_text(path, web_page(self.equation, f"<h1>{escape(self.equation)}</h1>\n{document.html()}"))


@numbers.register
def _numbers_of_reaction(found: ReactionEnergy):
    """What it prints; see dftfd.results.document."""
    rows = found.rows()
    units = {"hartree": 1.0, "kcal_per_mol": HARTREE_IN_KCAL, "kJ_per_mol": HARTREE_IN_KJ}
    energies = {u: {name: E and E * factor for name, E in rows.items()} for u, factor in units.items()}
    species = {
        name: {"coefficient": c, "energy_hartree": found.computed[name].energy}
        | ({"thermochemistry": numbers(found.thermochemistry[name])} if name in found.thermochemistry else {})
        | {"error": found.computed[name].error, "remarks": found.computed[name].remarks}
        for name, c in found.stoichiometry
    }
    about = {"equation": found.equation, "settings": dict(found.settings), "notes": found.notes}
    return about | {"reaction": energies, "species": species}


@public
def reaction(
    equation: str,
    xc: Any = "pbe",
    *,
    species: Annotated[Mapping[str, Any] | None, optional(mapping)] = None,
    optimize: bool = False,
    thermo: bool = False,
    temperature: Annotated[float, KELVIN] = 298.15,
    pressure: Annotated[float, PRESSURE] = 101325.0,
    quasi_harmonic: Annotated[str | None, QUASI_HARMONIC] = None,
    max_steps: Annotated[int, whole(1)] = 100,
    jobs: Annotated[int, whole(1)] = 1,
    client: Any = None,
    record: Annotated[Path | None, optional(as_path)] = None,
    on_step: Callable[[Step], None] = lambda step: None,
    molecule_options: dict[str, Any] | None = None,
    **options: Any,
) -> ReactionEnergy:
    """The energy of a reaction: a ReactionEnergy, which prints in kcal/mol, kJ/mol and hartree.

    equation: '2 h2 + o2.xyz:0,3 -> 2 smiles:O', with blanks around + and =. A species is text that `dftfd.molecule`
        reads, a file without its ending .xyz, a name in `species`, H+ or e- (without energy).
    species: {name: input of `dftfd.molecule`}.   optimize: optimise each geometry first, in at most max_steps steps.
    thermo: enthalpies and Gibbs energies of ideal gases at temperature [K] and pressure [Pa], from frequencies;
        quasi_harmonic as in `Vibrations.thermochemistry`.
    jobs, client, record: as in `run_batch`.   on_step: called with a Step for each finished species.
    molecule_options: for `dftfd.molecule`, such as basis=.   options: for `run_scf`, such as solvent=.

    Raises InputError if atoms or charges do not balance, and for species that cannot be read.

    >>> import dftfd
    >>> found = dftfd.reaction("2 A -> B", "hf", species={"A": "He 0 0 0;", "B": "He 0 0 0; He 0 0 3"})
    >>> round(found.energy_kcal, 1)
    0.0
    """
    require_energy(get_functional(xc))
    checked = checked_options("reaction", "reaction", options, client)
    if thermo and "e-" in equation.split():
        raise InputError(
            "the Gibbs energy of a free electron is a matter of convention; leave out thermo for reactions with e-."
        )
    of_molecule = molecule_options or {}
    refuse_unknown("reaction's molecule_options", of_molecule, ("basis", "cartesian", "ecp", "unit"))
    found = _set_of(equation, species or {}, of_molecule)
    require_balanced(found)
    (written,) = found.reactions
    kept = {name: value for name, value in of_molecule.items() if name not in ("basis", "unit")}
    how = How(of_molecule.get("basis") or "def2-svp", checked.changed(), kept, None, jobs, client, record)
    task = "frequencies" if thermo else "optimization" if optimize else "energy"
    how = replace(how, task=task, search={"max_steps": max_steps} if optimize else {})
    computed = {name: one for (_, name), one in compute(found, (xc,), how, on_step).items()}
    free = [name for name, _ in written.stoichiometry if name in FREE]
    computed |= {name: Computed(0.0) for name in free}
    gases = {}
    if thermo:
        conditions = (temperature, pressure, None, quasi_harmonic)
        gases = {n: _gas(n, one, conditions) for n, one in computed.items() if one.energy is not None}
    settings = {"xc": name_of(xc)} | settings_in_words(how, checked)
    notes = _notes(xc, how, written, checked, gases)
    return ReactionEnergy(equation, settings, written.stoichiometry, computed, gases, notes)


def _gas(name, one, conditions) -> Thermochemistry:
    if name in FREE:  # a proton: it moves, and is nothing else
        return thermochemistry(0.0, 1, np.array([_PROTON_MASS]), np.zeros((1, 3)), np.zeros(0), *conditions)
    kept = one.document["extras"]["dftfd"]["vibrations"]
    masses, coordinates, wavenumbers = (np.array(kept[key]) for key in ("masses", "coordinates", "wavenumbers"))
    return thermochemistry(one.energy, kept["multiplicity"], masses, coordinates, wavenumbers, *conditions)


# ------------------------------------------------------------------------------------------------------ the equation


def _set_of(equation, given, of_molecule) -> BenchmarkSet:
    total: dict[str, float] = {}
    for sign, side in zip((-1, 1), _sides(equation), strict=True):
        for label, coefficient in side:
            total[label] = total.get(label, 0.0) + sign * coefficient
    if unused := given.keys() - total.keys():
        raise InputError(f"species= has {shown(min(unused))}, which is not in the equation {shown(equation)}.")
    if free := given.keys() & FREE.keys():
        raise InputError(f"species= has {shown(min(free))}, a free particle without an energy; take another name.")
    pairs = tuple((label, c) for label, c in total.items() if c)
    species = {label: _species(label, given, of_molecule) for label, _ in pairs if label not in FREE}
    return BenchmarkSet("reaction", species, (Reaction(equation, "", pairs, 0.0),))


def _sides(equation):
    """(label, coefficient) of each term on the left and on the right."""
    sides = _ARROW.split(equation.strip())
    if len(sides) != 2 or not all(sides):
        shell = "; in a shell put it in quotes" if equation.rstrip().endswith("-") else ""
        raise InputError(
            f"{shown(equation)} is not an equation; one arrow expected, as in 'a.xyz + 2 b.xyz -> c.xyz'{shell}."
        )
    return [[_term(text, equation) for text in _PLUS.split(side)] for side in sides]


def _term(text, equation):
    match = _TERM.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{shown(equation)}: {shown(text)} is not a species; '2 a.xyz' expected.")
    coefficient = float(match["n"] or 1) / float(match["d"] or 1)
    if not coefficient:
        raise InputError(f"{shown(equation)}: {shown(text)} has the coefficient 0; leave it out.")
    return match["label"], coefficient


def _species(label, given, of_molecule) -> Species:
    source = given.get(label, _source(label))
    if is_pyscf_mole(source):
        raise InputError(
            f"species {shown(label)}: a PySCF Mole brings its own basis set, but the species of a reaction share one; "
            "give its atoms as a list, and molecule_options={'basis': ...}."
        )
    try:
        with warnings_named(f"species {shown(label)}"):
            read = molecule(source, **of_molecule)
    except FileError as error:
        raise FileError(
            f"species {shown(label)}: {error} A species is a file (a.xyz; no2.xyz:0,2 with charge and multiplicity), "
            "'smiles:O', coordinates, a name of species= (--species), H+ or e-, with blanks around + and behind a "
            "coefficient."
        ) from error
    except DftfdError as error:
        said = str(error).partition(" (--spin")[0].rstrip(".")
        hint = "" if said == str(error).rstrip(".") else f"; write {label}:CHARGE,MULTIPLICITY"
        raise type(error)(f"species {shown(label)}: {said}{hint}.") from error
    if label in given:
        warn_about_name(f"species {shown(label)}", label, read.symbols, {"charge": read.charge, "spin": read.spin})
    return Species(label, text_of_atoms(read.labels, read.coordinates * BOHR_IN_ANGSTROM), read.charge, read.spin)


def _source(label):
    """A file whose ending .xyz was left away; any other label as it is."""
    if is_coordinate_text(label) or is_smiles(label) or os.path.lexists(label):
        return label
    file = (electrons_of(label) or (label,))[0]
    return f"{file}.xyz{label[len(file) :]}" if os.path.isfile(f"{file}.xyz") else label


# ------------------------------------------------------------------------------------------------------------- notes


def _notes(xc, how, written, options, gases) -> tuple[str, ...]:
    """What the method lacks for reactions, in one line, and what the numbers of particles and gases stand for."""
    functional, notes, lacks = get_functional(xc), [], []
    if functional.dispersion is None and not functional.is_nonlocal:
        lacks.append(f"{name_of(xc)} has no dispersion correction{_with_dispersion(xc)}")
    if isinstance(how.basis, str) and _SMALL_BASIS.search(how.basis) and "gcp" not in str(functional.dispersion):
        lacks.append(f"{how.basis} is a small basis set, whose error and superposition a larger one shows")
    notes += ["; ".join(lacks)] if lacks else []
    if free := [name for name, _ in written.stoichiometry if name in FREE]:
        notes.append(f"{' and '.join(free)} without energy" + (", the electron at rest" if "e-" in free else ""))
    change = sum(c for name, c in written.stoichiometry if name != "e-")
    if gases and options.solvent is not None and change:
        T, p = (getattr(next(iter(gases.values())), name) for name in ("temperature", "pressure"))
        kT = BOLTZMANN * T  # hartree
        shift = change * kT * HARTREE_IN_KCAL * math.log(1e6 * HARTREE_IN_KJ * kT / p)  # of RT/V, V = 1 l/mol, over p
        notes.append(f"Gibbs energies are of gases at {p:g} Pa; between solutions of 1 mol/l {shift:+.2f} kcal/mol")
    return tuple(notes)


def _with_dispersion(xc) -> str:
    """The name with D4, in brackets, where there is one."""
    if not isinstance(xc, str):
        return ""
    try:
        get_functional(f"{xc}-d4")
    except (FunctionalError, InputError):
        return ""
    return f" ({xc}-d4 has one)"
