"""A molecule: nuclei, electrons and basis set, checked once and then immutable.

    water = molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="def2-svp")

Everything inside is in atomic units; the unit of the input is converted here, at the boundary.
"""

import os
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np
from scipy.spatial import cKDTree

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError, InputWarning
from dftfd.libcint import mole as bridge
from dftfd.libcint.basis_sets import display_name
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, covalent_radii
from dftfd.runtime.arguments import Kind, array, choice, public, whole
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.notebook import ShownAsText
from dftfd.system.ase_atoms import from_ase, is_ase_atoms
from dftfd.system.basis import (
    basis_remarks,
    cartesian_remarks,
    core_remarks,
    diffuse_remarks,
    require_core,
    resolve_basis,
    resolve_ecp,
)
from dftfd.system.geometry import (
    Geometry,
    is_coordinate_text,
    parse_atom_list,
    parse_geometry,
    read_geometry_file,
)
from dftfd.system.molfile import warn_of_isotopes
from dftfd.system.smiles import atoms_of_smiles, is_smiles

__all__ = ["InputWarning", "Molecule", "molecule"]

DEFAULT_BASIS = "def2-svp"
UNITS = {"angstrom": 1 / bridge.BOHR_IN_ANGSTROM, "bohr": 1.0}
"""Length units of the input, in bohr."""


_OPEN_SHELLS = (*range(21, 30), *range(39, 48), *range(57, 80), *range(89, 112))
"""Atomic numbers of elements with open d or f shells, whose unpaired electrons SMILES do not tell."""

_SOURCES = "a path, coordinate text, a list of (symbol, (x, y, z)), an ASE Atoms or a PySCF Mole"
_BUILT = "a PySCF Mole as its build() leaves it"
_TABLES = "a name, or a dictionary from label, element or 'default' to a name or numbers"
_FEW = whole(-10_000, 10_000)


@dataclass(frozen=True, eq=False, repr=False)
class Molecule(ShownAsText):
    """Nuclei and electrons with a basis set. Build one with `molecule(...)`, which checks and explains its input.

    symbols: element per atom.   coordinates: (atom, 3) in bohr.   charge: total charge.   spin: N_alpha - N_beta.
    cartesian: Cartesian instead of spherical d, f, ... functions.
    ghost: per atom, True for basis functions and grid points without nucleus and electrons.
    atom_basis: per atom, the name of a basis set or its shells ((l, (exponent, coefficient, ...), ...), ...).
    atom_ecp: per atom, None or the effective core potential (core electrons, ...).
    """

    symbols: tuple[str, ...]
    coordinates: np.ndarray
    charge: int
    spin: int
    cartesian: bool
    ghost: tuple[bool, ...]
    atom_basis: tuple = field(repr=False)
    atom_ecp: tuple = field(repr=False)
    labels: tuple[str, ...] = field(repr=False)

    def __post_init__(self):
        coordinates = np.array(self.coordinates, dtype=float)
        coordinates.flags.writeable = False
        object.__setattr__(self, "coordinates", coordinates)
        _check_electrons(self)

    def __str__(self):
        electrons = f"charge {self.charge:+d}, spin {self.spin}, {self.n_electrons} electrons"
        rows = [f"{self.formula}, {electrons}, {self.basis}", f"{'positions / angstrom':>24}"]
        for name, position in zip(self.labels, self.coordinates * bridge.BOHR_IN_ANGSTROM, strict=True):
            rows.append(f"{name:>6}" + "".join(f"{x:16.8f}" for x in position))
        return "\n".join(rows)

    @property
    def n_atoms(self) -> int:
        """Number of centres, ghosts included."""
        return len(self.symbols)

    @property
    def centres(self) -> tuple[str, ...]:
        """The element of each centre, ghosts as 'ghost-O'."""
        return tuple(f"ghost-{name}" if ghost else name for name, ghost in zip(self.symbols, self.ghost, strict=True))

    @cached_property
    def atomic_numbers(self) -> np.ndarray:
        """Full atomic number Z of each centre (atom,), also of ghosts and of atoms with a core potential."""
        return np.array([ATOMIC_NUMBERS[symbol] for symbol in self.symbols])

    @cached_property
    def nuclear_charges(self) -> np.ndarray:
        """Charge that each centre shows to the electrons (atom,): Z less the core electrons, zero for ghosts."""
        core = np.array([ecp[0] if ecp else 0 for ecp in self.atom_ecp])
        return np.where(self.ghost, 0, self.atomic_numbers - core).astype(float)

    @property
    def n_electrons(self) -> int:
        """Number of electrons outside the core potentials."""
        return round(self.nuclear_charges.sum()) - self.charge

    @property
    def n_alpha(self) -> int:
        return (self.n_electrons + self.spin) // 2

    @property
    def n_beta(self) -> int:
        return (self.n_electrons - self.spin) // 2

    @property
    def n_ao(self) -> int:
        """Number of basis functions."""
        return bridge.n_ao(self)

    @cached_property
    def nuclear_repulsion(self) -> float:
        """sum over pairs A < B of Z_A Z_B / R_AB [hartree], with the effective charges of `nuclear_charges`."""
        real = np.flatnonzero(self.nuclear_charges)
        charges, positions = self.nuclear_charges[real], self.coordinates[real]
        energy = 0.0
        for a in range(1, len(real)):
            distances = np.linalg.norm(positions[:a] - positions[a], axis=1)
            energy += charges[a] * float(np.sum(charges[:a] / distances))
        return energy

    @property
    def formula(self) -> str:
        """Sum formula in Hill order with charge, 'C2H6O', 'H2O+', 'C2O4^2-'; ghost centres are not part of it."""
        counts = Counter(symbol for symbol, ghost in zip(self.symbols, self.ghost, strict=True) if not ghost)
        carbon_first = {"C": 0, "H": 1} if "C" in counts else {}
        order = sorted(counts, key=lambda symbol: (carbon_first.get(symbol, 2), symbol))
        text = "".join(symbol + (str(counts[symbol]) if counts[symbol] > 1 else "") for symbol in order)
        sign = "+" if self.charge > 0 else "-"
        return text + (f"^{abs(self.charge)}" if abs(self.charge) > 1 else "") + (sign if self.charge else "")

    @property
    def basis(self) -> str:
        """The basis set in words: one name, or 'H: sto3g, O: def2tzvp'; shells given as numbers are called 'custom'."""
        names = [basis if isinstance(basis, str) else "custom" for basis in self.atom_basis]
        if len(set(names)) == 1:
            return display_name(names[0])
        kinds = sorted(set(zip(self.labels, names, strict=True)))
        return ", ".join(f"{label}: {display_name(name)}" for label, name in kinds)

    @cached_property
    def basis_remarks(self) -> tuple[str, ...]:
        """What the names of basis sets promise and their tables lack, and core potentials beside other sets, a line
        each."""
        of_cores = core_remarks(self.symbols, self.atom_basis, self.atom_ecp)
        return basis_remarks(self.symbols, self.atom_basis) + of_cores

    @cached_property
    def diffuse_remarks(self) -> tuple[str, ...]:
        """Which of its basis sets have no diffuse functions though their names promise them, a line each."""
        return diffuse_remarks(self.symbols, self.atom_basis)

    @cached_property
    def cartesian_remarks(self) -> tuple[str, ...]:
        """Which of its basis sets have spherical d functions here and Cartesian ones elsewhere, a line each."""
        return () if self.cartesian else cartesian_remarks(self.symbols, self.atom_basis)

    @property
    def shortest_distance(self) -> tuple[int, int, float] | None:
        """Indices of the two nearest nuclei and their distance in bohr; None for a single nucleus."""
        return nearest_pair(self.coordinates, self.ghost)

    @public
    def at(self, coordinates: Annotated[np.ndarray, array(None, 3)]) -> "Molecule":
        """The same molecule at other coordinates (atom, 3) [bohr]."""
        if coordinates.shape != self.coordinates.shape:
            raise InputError(f"new coordinates have shape {coordinates.shape}, expected {self.coordinates.shape}.")
        check_positions(self.labels, self.ghost, coordinates, allow_close=True)
        size, before = (np.linalg.norm(r - r.mean(axis=0)) for r in (coordinates, self.coordinates))
        for unit, per_angstrom in {"angstrom": 1.0, **_NOT_READ}.items():
            meant = per_angstrom * BOHR_IN_ANGSTROM * before
            if abs(size - meant) < 0.04 * meant:  # no step of a scan or an optimisation is so long
                warnings.warn(
                    f"the new coordinates are {size / before:.3g} times as far apart as the old ones, as bohr are in "
                    f"{unit}: is that their unit? Bohr are expected.",
                    InputWarning,
                    stacklevel=3,
                )
        apart = lambda r: np.linalg.norm(r[:, None] - r[None], axis=2)
        off = lambda r: np.abs(apart(r) - apart(self.coordinates)).max()
        if len(coordinates) == 3 and off(coordinates) > max(0.2, 4 * off(coordinates.T)):
            warnings.warn(
                "the transposed new coordinates are nearer to the old ones: rows are atoms, columns x, y, z.",
                InputWarning,
                stacklevel=3,
            )
        return replace(self, coordinates=coordinates)


@public
def molecule(
    source: Any,
    basis: Any = None,
    charge: Annotated[int, _FEW] | None = None,
    spin: Annotated[int, _FEW] | None = None,
    unit: Annotated[str, choice(*UNITS)] = "angstrom",
    cartesian: bool = False,
    ecp: Any = None,
    allow_close: bool = False,
) -> Molecule:
    """Build a molecule from a file, text, a list of atoms, ASE Atoms or a PySCF Mole.

    source: path of an xyz, mol or SD file; coordinates as text (with a newline or ';'), 'O 0 0 0.1; H 0 0.8 -0.5; ...';
        'smiles:CCO' (RDKit); a list of (symbol, (x, y, z)); ASE Atoms; a built PySCF Mole, with its charge, spin and
        basis. Symbols may be of either case, have a label ('H1') or be atomic numbers. 'ghost-O' (or 'X-O', 'Bq-O') is
        a ghost: basis functions and grid points of oxygen without its nucleus and electrons.
    basis: name of a basis set (default 'def2-svp'), or a dictionary from label, element or 'default' to a name or to
        shells [[l, [exponent, coefficient, ...], ...], ...].
    charge, spin: total charge and N_alpha - N_beta. None reads them from the comment line of an xyz file ('charge=1
        spin=1', 'charge=1 multiplicity=2') or the end of the name ('oh.xyz:-1', 'no2.xyz:0,2'), otherwise 0. Explicit
        values take precedence, with a warning if they contradict the file.
    unit: 'angstrom' or 'bohr'.
    cartesian: use Cartesian instead of spherical Gaussians.
    ecp: effective core potentials. None uses those of the basis set. False uses none, which is refused if the basis set
        has no functions for core electrons. Or a name, or a dictionary from label, element or 'default' to a name,
        numbers or None.
    allow_close: accept atoms nearer than 0.1 angstrom.

    Raises InputError for invalid requests (FileError for a missing file) before any integral is computed, and warns
    with InputWarning if distances suggest a wrong unit.
    """
    given = {"charge": charge, "spin": spin}
    is_mole = Kind(_SOURCES, bridge.is_pyscf_mole).checked("source", source)
    if is_mole:
        brought = {"basis": basis, "ecp": ecp, "cartesian": cartesian or None}
        brought |= {name: value or None for name, value in given.items()}
        of_mole = partial(_fields_of_mole, given={n for n, value in brought.items() if value is not None}, unit=unit)
        fields = Kind(_BUILT, of_mole).checked("source", source)
    else:
        geometry = Kind(_SOURCES, partial(_read_source, unit=unit)).checked("source", source)
        _check_unit(geometry, unit)
        with np.errstate(over="ignore"):  # what overflows is refused below, with its name
            coordinates = geometry.coordinates * UNITS[unit]
        fields = {
            "names": geometry.names,
            "coordinates": coordinates,
            **{name: _said_or_given(name, value, geometry) for name, value in given.items()},
            "cartesian": cartesian,
        }
    names = fields.pop("names")
    if is_mole:
        for atom in zip(fields["atom_ecp"], fields["atom_basis"], names, strict=True):
            require_core(*atom)
    labels, ghost = tuple(name.label for name in names), tuple(name.ghost for name in names)
    check_positions(labels, ghost, fields["coordinates"], allow_close)
    refuse_names_of_pdb(names, fields["coordinates"])
    warn_about_types(names)
    if "atom_basis" not in fields:
        of_basis = Kind(_TABLES, partial(resolve_basis, names=names))
        fields["atom_basis"] = of_basis.checked("basis", DEFAULT_BASIS if basis is None else basis)
        of_ecp = Kind(_TABLES, partial(resolve_ecp, names=names, atom_basis=fields["atom_basis"]))
        fields["atom_ecp"] = of_ecp.checked("ecp", ecp)
    result = Molecule(symbols=tuple(name.symbol for name in names), ghost=ghost, labels=labels, **fields)
    if result.n_alpha > result.n_ao:
        raise InputError(
            f"{result.n_alpha} alpha electrons do not fit into the {result.n_ao} basis functions of {result.basis}; "
            "use a larger basis set or a lower spin."
        )
    if not is_mole and spin is None:
        _warn_of_open_atom(geometry, result)
    for remark in result.basis_remarks:
        warnings.warn(remark, InputWarning, stacklevel=3)
    if is_mole:
        _check_mole(result, source)
    if not allow_close and (read := bridge.unit_of(source) if is_mole else unit):
        warn_about_units(result, read)
    return result


def _check_mole(result, mole):
    """Refuse what of a Mole was not carried over, warn about what it has beside."""
    Kind(_BUILT, partial(bridge.check_same_system, result)).checked("source", mole)
    if any("mass" in of_atom for of_atom in (mole.nucprop or {}).values()):
        warn_of_isotopes("this PySCF Mole")
    if bridge.changed_since_built(mole):
        warnings.warn(
            "atom, unit, basis or ecp of this PySCF Mole were changed after mole.build(), which is what counts: call "
            "it again if the new values are meant.",
            InputWarning,
            stacklevel=4,
        )


def _said_or_given(name, given, geometry):
    """Charge or spin: the argument, else what the input says, else 0."""
    said = getattr(geometry, name)
    if given is None:
        if name in geometry.mentions:
            warnings.warn(
                f"the input says {geometry.mentions[name]!r}, but no {name} as a number: {name}={said or 0} is "
                f"used; give {name}=, or write the number into the line.",
                InputWarning,
                stacklevel=3,
            )
        return said or 0
    if said not in (None, given):
        warnings.warn(
            f"the input says {name}={said}, but {name}={given} was given and is used.", InputWarning, stacklevel=3
        )
    return given


def _warn_of_open_atom(geometry, result):
    """Warn of a single atom that is taken for a singlet because nothing is said of its spin: O, C, Fe, N+."""
    is_said = geometry.spin is not None or "spin" in geometry.mentions
    if not is_said and bridge.is_open_atom(geometry.symbols, result.charge):
        warnings.warn(
            f"spin=0 is used for the atom {result.formula}, as none is given, but its ground state has unpaired "
            "electrons: give spin= (--spin; --multiplicity is one more).",
            InputWarning,
            stacklevel=4,
        )


def _check_unit(geometry, unit):
    """Refuse coordinates that say another unit."""
    if geometry.unit not in (None, unit):
        raise InputError(
            f"the geometry is marked as in {geometry.unit}, but would be read in {unit}: give "
            f"unit={geometry.unit!r} (--unit {geometry.unit}), or remove the word from the comment line or the name."
        )


def _read_source(source, unit) -> Geometry:
    if isinstance(source, str) and is_smiles(source):
        if unit != "angstrom":
            raise InputError(f"positions from SMILES are in angstrom, but unit={unit!r} was given; leave it out.")
        atoms, charge, spin = atoms_of_smiles(source)
        metals = {symbol for symbol, _ in atoms if ATOMIC_NUMBERS[symbol] in _OPEN_SHELLS}
        open_shells = (
            [f"{spin} radical electrons"] if spin > 1 else [f"d or f electrons of {m}" for m in sorted(metals)]
        )
        couplings = {"spin": ", ".join(open_shells)} if open_shells else {}
        return replace(parse_atom_list(atoms), charge=charge, spin=spin, mentions=couplings)
    if isinstance(source, str):
        is_text = is_coordinate_text(source) or not source.strip()
        return parse_geometry(source) if is_text else read_geometry_file(source)
    if isinstance(source, os.PathLike):
        return read_geometry_file(as_path.checked("source", source))
    if is_ase_atoms(source):
        if unit != "angstrom":
            raise InputError(f"ASE Atoms are in angstrom, but unit={unit!r} was given; leave it out.")
        return from_ase(source)
    if isinstance(source, list | tuple):
        return parse_atom_list(source)
    raise InputError(f"cannot read a molecule from {type(source).__name__}; expected {_SOURCES}.")


def _fields_of_mole(mole, given, unit) -> dict:
    if unit != "angstrom":
        raise InputError(f"a PySCF Mole knows its unit, but unit={unit!r} was given; leave it out.")
    if given:
        raise InputError(
            f"a PySCF Mole brings its own charge, spin, basis and core potentials, but {', '.join(sorted(given))} was "
            "given too; change the Mole, or pass its atoms as a list."
        )
    return bridge.from_pyscf(mole)


def _check_electrons(molecule):
    """Refuse charges and spins that no electron count allows."""
    total = round(molecule.nuclear_charges.sum())
    n, spin = molecule.n_electrons, molecule.spin
    if n < 0:
        raise InputError(
            f"charge {molecule.charge:+d} exceeds the total nuclear charge {total} of {molecule.formula!r}."
        )
    if n == 0:
        raise InputError("the molecule has no electrons; lower the charge, or add an atom that is not a ghost.")
    allowed = f"spin is N_alpha - N_beta, allowed here: {_allowed_spins(n)} (--spin; --multiplicity is one more)."
    if abs(spin) > n:
        raise InputError(f"spin={spin} needs {abs(spin)} unpaired of {n} electrons; {allowed}")
    if (n - spin) % 2:
        raise InputError(f"spin={spin} does not fit {n} electrons ({molecule.formula}); {allowed}")


def _allowed_spins(n_electrons, shown=4):
    spins = list(range(n_electrons % 2, n_electrons + 1, 2))
    return ", ".join(map(str, spins[:shown])) + (f", ... up to {spins[-1]}" if len(spins) > shown else "")


CLOSE = 0.1 / BOHR_IN_ANGSTROM
"""Atoms nearer than this (0.1 angstrom, in bohr) are taken for a mistake unless the caller insists."""

FAR = 1000 / BOHR_IN_ANGSTROM
"""Distance of an atom from its nearest neighbour that nobody means, 1000 angstrom in bohr."""

FARTHEST = 1e6
"""Largest coordinate in bohr; beyond it even the exponents of the Gaussians lose their meaning."""


_OF_PDB = {
    "CA": 0.7, "CD": 0.8, "CE": 0.62, "CM": 0.65, "NA": 0.8, "NB": 0.64, "ND": 0.6, "NE": np.inf, "PA": 0.63,
    "PB": 0.82, "HE": np.inf, "HG": 0.8, "HO": 0.6, "CF": 0.62, "CS": 0.6, "NI": 0.8, "NO": 0.6, "OS": 0.75, "PD": 0.87,
    "CN": 0.7, "CO": 0.76, "CR": 0.75, "CU": 0.8, "HF": 0.55, "HS": 0.6, "NH": 0.7, "NP": 0.62, "OG": np.inf,
    "SG": 0.72, "SM": 0.685,
}  # fmt: skip
"""Names of PDB files for atoms of C, N, O, P, S and H, alpha to eta and those of hemes and nucleotides, and types of
force fields (AMBER, CHARMM, OPLS; GAFF in lower case); and what lies between bonds of those and the shortest of the
element (CaO, NbN, PaO, OsO4, NiH, CrN, CoN, SmO), in its covalent distances; noble gases have no bonds.
"""
_OF_DIMERS = {"CR": 0.58}
"""The same between two atoms of the element, where that is shorter (Cr2)."""

_OTHER_UNIT = {"angstrom": "bohr", "bohr": "angstrom"}
_OF_UNITS = {"angstrom": "long", "bohr": "short"}
"""What bonds are where the other unit was meant."""
_NOBLE = (2, 10, 18, 36, 54, 86)
_CLOSED_S = (4, 12, 25, 30, 48, 80)
"""Be, Mg, Mn, Zn, Cd, Hg, whose dimers are held by dispersion."""
_ALKALI, _HALOGENS = (3, 11, 19, 37, 55), (9, 17, 35, 53)
_MONOVALENT = (1, *_ALKALI, *_HALOGENS, *_NOBLE)
"""Atoms of at most one bond, HeH+'s included."""
_FORMING_SHORT_BONDS = (20, 38, 56, 88, *_OPEN_SHELLS)
"""Metals whose oxides and nitrides have bonds below 0.75 covalent distances."""
_NOT_READ = {"picometres": 100.0, "nanometres": 0.1}
"""Units that are not read, by how many times too large all distances are where angstrom is taken for them."""


def check_positions(labels, ghost, coordinates, allow_close) -> None:
    """Raise InputError unless there are atoms at finite, distinct positions; coordinates (atom, 3) in bohr."""
    if not labels:
        raise InputError("the molecule has no atoms.")
    _check_finite(labels, coordinates)
    pairs = cKDTree(coordinates).query_pairs(CLOSE, output_type="ndarray")
    if not len(pairs):
        return
    distances = np.linalg.norm(coordinates[pairs[:, 0]] - coordinates[pairs[:, 1]], axis=1)
    nearest = int(np.argmin(distances))
    first, second, distance = *sorted(pairs[nearest]), distances[nearest] * BOHR_IN_ANGSTROM
    nuclei_coincide = any(r == 0 and not (ghost[a] or ghost[b]) for (a, b), r in zip(pairs, distances, strict=True))
    if allow_close and not nuclei_coincide:
        return
    advice = "" if nuclei_coincide else "; pass allow_close=True if this is meant"
    apart = _apart(labels, first, second, f"{distance:.4g}")
    raise InputError(f"{apart}, nearer than 0.1 angstrom{advice}.")


def refuse_names_of_pdb(names, coordinates) -> None:
    """InputError for 'CA' or 'ca' whose neighbour is as near as to carbon, not to calcium; 'Ca' is calcium anywhere.

    As near: below 1.25 covalent distances of the first letter's element. HeH+ and NeH+ have bonds, too.
    """
    word = lambda name: _of_one_case(re.split("[^A-Za-z]", name.written, maxsplit=1)[0])
    limit = lambda name: 0 if name.ghost else _OF_PDB.get(word(name), 0)
    suspects = [k for k, name in enumerate(names) if limit(name)]
    real = [k for k, name in enumerate(names) if not name.ghost]
    if not suspects or len(real) < 2:
        return
    other = lambda k: names[k].written[0].upper() if k in suspects else names[k].symbol
    radius = lambda symbol: float(covalent_radii([ATOMIC_NUMBERS[symbol]])[0])
    distances, neighbours = _nearest_neighbours(coordinates[real])
    for k in suspects:
        d, partner = distances[real.index(k)], real[neighbours[real.index(k)]]
        symbol = names[k].symbol
        is_bond = names[partner].symbol == "H" if symbol in ("He", "Ne") else False
        shortest = _OF_DIMERS.get(word(names[k])) if names[partner].symbol == symbol else None
        is_bond |= d > (shortest or limit(names[k])) * (radius(symbol) + radius(names[partner].symbol))
        origin = "force fields" if names[k].written.islower() else "PDB files"
        if not is_bond and d < 1.25 * (radius(other(k)) + radius(other(partner))):
            raise InputError(
                f"{_apart([name.written for name in names], k, partner, f'{d * BOHR_IN_ANGSTROM:.3f}')}: "
                f"{names[k].written} is a name of {other(k)} in {origin}, and is read as {symbol}; write {other(k)}, "
                f"or {symbol} if that is meant."
            )


def warn_about_types(names) -> None:
    """Warn where all atoms are numbers that run from 1 without a gap: indices or types, sooner than H, He, Li."""
    written = {name.written for name in names}
    numbers = sorted(int(word) for word in written if word.isdigit() and len(word) < 4)
    if len(numbers) == len(written) > 1 and numbers == list(range(1, len(numbers) + 1)):
        symbols = " ".join(dict.fromkeys(name.symbol for name in names))
        warnings.warn(
            f"the atoms have the numbers 1 to {numbers[-1]}, read as atomic numbers, {symbols}: if they are indices or "
            "types, write symbols of elements.",
            InputWarning,
            stacklevel=4,
        )


def _of_one_case(word):
    """'CA' of 'CA' and 'ca'; 'Ca' as it is."""
    return word.upper() if word.islower() else word


def _apart(labels, first, second, distance):
    return f"atoms {first + 1} ({labels[first]}) and {second + 1} ({labels[second]}) are {distance} angstrom apart"


def _check_finite(labels, coordinates):
    bad = np.argwhere(~(np.abs(coordinates) <= FARTHEST))
    if not len(bad):
        return
    atom, axis = bad[0]
    value = coordinates[atom, axis]
    name = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else f"{value:.3g} bohr"
    limit = f"; coordinates beyond {FARTHEST:.0e} bohr are refused" if np.isfinite(value) else ""
    raise InputError(f"coordinate {'xyz'[axis]} of atom {atom + 1} ({labels[atom]}) is {name}{limit}.")


def nearest_pair(coordinates, ghost) -> tuple[int, int, float] | None:
    """Indices and distance [bohr] of the two nearest centres that are no ghosts; None if there are fewer than two."""
    real = np.flatnonzero(~np.asarray(ghost))
    if len(real) < 2:
        return None
    distances, neighbours = _nearest_neighbours(coordinates[real])
    a = int(np.argmin(distances))
    first, second = sorted((int(real[a]), int(real[neighbours[a]])))
    return first, second, float(distances[a])


def _nearest_neighbours(positions):
    distances, indices = cKDTree(positions).query(positions, k=2)
    return distances[:, 1], indices[:, 1]


def warn_about_units(molecule, unit: str) -> None:
    """Warn where the shortest distances are bonds in the other unit and none in the one that was given.

    Confusing angstrom and bohr scales every bond by 1.89 or 0.53. Bonds are at least 0.75 covalent distances long,
    between monovalent atoms 0.9, oxides and nitrides of metals 0.66, and up to 1.16, 1.3 between monovalent atoms (H2,
    F2, HeH+). Coordinates in bohr are suspected where some nearest neighbours are 1.89 times as far apart and no atom
    has a nearer one; those in angstrom where a distance is below what any bond has, or below 0.6 angstrom with
    hydrogen. Farther atoms are dissociated or van der Waals partners. Noble gases are left aside but with hydrogen, and
    Be, Mg, Mn, Zn, Cd, Hg among themselves. Where all nearest neighbours are 100 times or a tenth of a covalent
    distance away, the coordinates were picometres or nanometres.
    """
    real = np.flatnonzero(~np.asarray(molecule.ghost))
    if len(real) < 2:
        return
    distances, neighbours = _nearest_neighbours(molecule.coordinates[real])
    numbers = molecule.atomic_numbers[real]
    is_held = ~np.isin(numbers, _NOBLE) | (numbers[neighbours] == 1)
    if 1 < is_held.sum() < len(real):
        real, numbers = real[is_held], numbers[is_held]
        distances, neighbours = _nearest_neighbours(molecule.coordinates[real])
    radii, partners = covalent_radii(numbers), numbers[neighbours]
    ratio = distances / (radii + radii[neighbours])
    angstrom = distances * BOHR_IN_ANGSTROM
    both = lambda some, others: (
        (np.isin(numbers, some) & np.isin(partners, others)) | (np.isin(partners, some) & np.isin(numbers, others))
    )
    n_monovalent = np.isin(numbers, _MONOVALENT).astype(int) + np.isin(partners, _MONOVALENT)
    with_hydrogen = (numbers == 1) | (partners == 1)
    shortest = np.where((n_monovalent == 2) & ~both(_ALKALI, _HALOGENS), 0.9, 0.75)
    shortest[both(_FORMING_SHORT_BONDS, (7, 8))] = 0.66
    is_bond = ratio < np.where(n_monovalent == 2, 2.5, 2.2)
    is_bond &= ~both(_CLOSED_S, _CLOSED_S) & (with_hydrogen | ~(np.isin(numbers, _NOBLE) | np.isin(partners, _NOBLE)))
    too_long = is_bond & np.all((ratio > shortest / BOHR_IN_ANGSTROM) & (angstrom > 1.3)) & (unit == "angstrom")
    too_near = np.array([0.55, 0.62, 0.66] if unit == "bohr" else [0.55] * 3)[n_monovalent]
    too_short = (with_hydrogen & (angstrom < 0.6)) | (ratio < too_near)
    for other, factor in _NOT_READ.items():
        if np.all((ratio / factor > 0.75) & (ratio / factor < 1.3)) and not np.isin(numbers, _NOBLE).all():
            apart = _apart(molecule.labels, int(real[0]), int(real[neighbours[0]]), f"{angstrom[0]:.4g}")
            warnings.warn(
                f"{apart}, which would be a bond in {other}; {unit} was read: write angstrom or bohr.",
                InputWarning,
                stacklevel=4,
            )
            return
    if distances.max() > FAR:
        a = int(np.argmax(distances))
        apart = _apart(molecule.labels, int(real[a]), int(real[neighbours[a]]), f"{angstrom[a]:.4g}")
        warnings.warn(f"{apart}, the nearest: are decimal points missing?", InputWarning, stacklevel=4)
        return
    for suspicious, word in ((too_short, "short"), (too_long, "long")):
        if suspicious.any():
            a = int(np.flatnonzero(suspicious)[np.argmin(distances[suspicious])])
            apart = _apart(molecule.labels, int(real[a]), int(real[neighbours[a]]), f"{angstrom[a]:.3f}")
            asked = (
                f"should the unit be {_OTHER_UNIT[unit]}" if word == _OF_UNITS[unit] else "were they converted twice"
            )
            read = f"the coordinates were read in {unit}: {asked}?"
            warnings.warn(f"{apart}, {word} for a bond; {read}", InputWarning, stacklevel=4)
            return
