"""QCSchema (version 1), the common language of quantum chemistry programs: AtomicInput in, AtomicResult out.

Geometry in bohr, multiplicity = spin + 1, energies in hartree, dipole moment in e bohr.
D. G. A. Smith et al., WIREs Comput. Mol. Sci. 11, e1491 (2021). doi:10.1002/wcms.1491
"""

import json
from dataclasses import dataclass

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import FunctionalError, InputError, UnsupportedError, shown
from dftfd.functionals.registry import get_functional
from dftfd.libcint.basis_sets import load_ecp
from dftfd.libcint.mole import average_masses, common_masses
from dftfd.runtime.arguments import each, flag, number, refuse_unknown, text
from dftfd.runtime.files import write_text
from dftfd.runtime.json_reader import as_json, parse_json
from dftfd.system.comment_line import warn_about_name
from dftfd.system.geometry import read_text, require_few_atoms
from dftfd.system.molfile import warn_of_isotopes

RETURNS = {
    "energy": lambda result: result.energy,
    "gradient": lambda result: (-result.forces()).ravel().tolist(),
    "hessian": lambda result: result.hessian().ravel().tolist(),
    "properties": lambda result: _named_properties(result) if result.has_properties else {},
}
"""What a document's driver returns."""
DECIDED = ("molecule", "xc", "external_potential", "progress", "checkpoint", "restart")
"""Arguments of run_scf that keywords may not hold, among them those that write files."""


_MOLECULE = (
    "schema_name schema_version validated symbols geometry name identifiers comment molecular_charge "
    "molecular_multiplicity masses real atom_labels atomic_numbers mass_numbers connectivity fragments "
    "fragment_charges fragment_multiplicities fix_com fix_orientation fix_symmetry provenance id extras"
).split()
"""Fields of a molecule in QCSchema; another one may be a charge by another name."""
_DOCUMENT = (
    "schema_name schema_version id molecule driver model keywords protocols extras provenance "
    "properties wavefunction return_result stdout stderr native_files success error"
).split()
"""Fields of an AtomicInput, and of an AtomicResult, which may be sent back."""


@dataclass(frozen=True)
class Request:
    """A calculation. molecule: arguments of dftfd.molecule.   settings: of run_scf.   driver: what is asked for."""

    molecule: dict
    settings: dict
    driver: str = "energy"


def read_input(path) -> Request:
    """The request of an AtomicInput file; keywords are options of run_scf, and cartesian of dftfd.molecule.

    Raises InputError with the field's name where something is missing or of the wrong kind, UnsupportedError for
    drivers that RETURNS does not have.
    """
    where = f"file {str(path)!r}"
    try:
        document = parse_json(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}.") from error
    driver = _field(document, "driver", str, where)
    if driver not in RETURNS:
        raise UnsupportedError(f"{where}: driver {shown(driver)}; known here: {', '.join(RETURNS)}.")
    model, molecule = _field(document, "model", dict, where), _field(document, "molecule", dict, where)
    keywords = document.get("keywords") or {}
    cartesian = keywords.pop("cartesian", False) if isinstance(keywords, dict) else False
    if not isinstance(keywords, dict) or set(keywords) & set(DECIDED):
        raise InputError(
            f"{where}: keywords must be a mapping of options of run_scf without {', '.join(DECIDED)}; "
            f"{shown(keywords)} was given."
        )
    refuse_unknown(where, document, _DOCUMENT)
    refuse_unknown(f"{where}, model", model, ("method", "basis"))
    functional, basis = (_field(model, name, str, f"{where}, model") for name in ("method", "basis"))
    atoms = _molecule_arguments(molecule, f"{where}, molecule")
    atoms |= {"basis": basis, "cartesian": flag.checked(f"{where}, cartesian", cartesian)}
    return Request(atoms, {"xc": functional} | keywords, driver)


def _molecule_arguments(molecule, where):
    refuse_unknown(where, molecule, _MOLECULE)
    symbols, geometry = (_field(molecule, name, list, where) for name in ("symbols", "geometry"))
    require_few_atoms(len(symbols))
    numbers = molecule.get("atomic_numbers")
    if numbers is not None and numbers != [ATOMIC_NUMBERS.get(s) for s in symbols]:
        raise InputError(f"{where}: atomic_numbers are {shown(numbers)}, which are not those of the symbols.")
    for of_fragments, of_whole in (("charges", "molecular_charge"), ("multiplicities", "molecular_multiplicity")):
        if molecule.get(f"fragment_{of_fragments}") is not None and of_whole not in molecule:
            raise InputError(f"{where} has fragment_{of_fragments} without a {of_whole}; give that, too.")
    n, expected = len(geometry), 3 * len(symbols)
    if n != expected:
        raise InputError(f"{where}: geometry has {n} entries; expected {expected} numbers, in bohr.")
    geometry = each(number()).checked(f"{where}, geometry", geometry)
    symbols = each(text).checked(f"{where}, symbols", symbols)
    real = molecule.get("real") or [True] * len(symbols)
    if len(each(flag).checked(f"{where}, real", real)) != len(symbols):
        raise InputError(f"{where}: 'real' has {len(real)} entries for {len(symbols)} symbols.")
    atoms = [
        (symbol if is_real else f"ghost-{symbol}", tuple(geometry[3 * k : 3 * k + 3]))
        for k, (symbol, is_real) in enumerate(zip(symbols, real, strict=True))
    ]
    _tell_of_isotopes(molecule, symbols, where)
    charge, multiplicity = molecule.get("molecular_charge", 0), molecule.get("molecular_multiplicity", 1)
    for name, value in (("molecular_charge", charge), ("molecular_multiplicity", multiplicity)):
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1000 or value != round(value):
            raise InputError(f"{where}: {name} is {shown(value)}; expected a whole number.")
    if multiplicity < 1:
        raise InputError(f"{where}: molecular_multiplicity is {shown(multiplicity)}; it is 1 or more.")
    parts = molecule.get("fragment_charges")
    if parts is not None and sum(each(number()).checked(f"{where}, fragment_charges", parts)) != charge:
        raise InputError(f"{where}: fragment_charges {shown(parts)} do not add up to the molecular_charge {charge}.")
    has = {"charge": round(charge), "spin": round(multiplicity) - 1}
    named = [symbol for symbol, is_real in zip(symbols, real, strict=True) if is_real]
    for name in ("name", "comment"):
        if isinstance(molecule.get(name), str):
            warn_about_name(f"{where}, {name} {shown(molecule[name])},", molecule[name], named, has)
    return {"source": atoms, "unit": "bohr"} | has


def _tell_of_isotopes(molecule, symbols, where):
    """Warn of masses and mass numbers other than those of elements: no calculation that is asked for here has any."""
    numbers = [ATOMIC_NUMBERS.get(symbol.capitalize(), 1) for symbol in symbols]
    usual = np.array([common_masses(numbers), average_masses(numbers)])
    for name, width in (("masses", 0.05), ("mass_numbers", 0.5)):
        if molecule.get(name) is None:
            continue
        given = np.array(each(number()).checked(f"{where}, {name}", molecule[name]))
        if len(given) != len(symbols):
            raise InputError(f"{where}: {name!r} has {len(given)} entries for {len(symbols)} symbols.")
        if ((np.abs(given - usual).min(axis=0) > width) & (given > 0)).any():  # -1 and 0: nothing is said
            warn_of_isotopes(where)
            break


def _field(document, name, kind, where):
    if not isinstance(document, dict) or not isinstance(document.get(name), kind):
        raise InputError(f"{where}: the field {name!r} of QCSchema's AtomicInput is missing or no {kind.__name__}.")
    return document[name]


def _method(settings) -> str:
    """The functional's name; one that no reader knows where the name means another functional than was used."""
    try:
        meant = get_functional(settings.functional)
    except FunctionalError:
        return settings.functional
    same = "=" in settings.functional or as_json(meant.definition) == as_json(settings.definition)
    return settings.functional if same else f"own:{settings.functional}"


def atomic_result(result, driver: str = "energy") -> dict:
    """An SCFResult as a QCSchema AtomicResult: plain dictionaries, lists, numbers and text.

    driver: a name of RETURNS. The keywords are the options of run_scf that decide the answer, so it can be sent back.
    A functional whose name means another one, as named("pbe") with other parameters, has the method "own:pbe".
    """
    if driver not in RETURNS:
        raise InputError(f"unknown driver {driver!r} of QCSchema; known here: {', '.join(RETURNS)}.")
    settings, potential = result.settings, result.calculation.surroundings.potential
    keywords = settings.options.document()
    if potential is not None:  # code, of which the name is said
        keywords["external_potential"] = potential.name
    if result.molecule.cartesian:
        keywords["cartesian"] = True
    document = {
        "schema_name": "qcschema_output",
        "schema_version": 1,
        "molecule": _molecule(result),
        "driver": driver,
        "model": {"method": _method(settings), "basis": _basis(result)},
        "keywords": keywords,
        "properties": _properties(result),
        "return_result": RETURNS[driver](result),
        "success": bool(result.converged),
        "provenance": _provenance(settings.versions, "dftfd.run_scf"),
        "extras": {
            "dftfd": {
                "functional": settings.definition,
                "auxiliary_basis": settings.auxiliary_basis,
                "s_squared": result.s_squared if result.has_properties else None,
                "notes": list(result.notes),
                "energies": dict(result.energies),
                "history": [_cycle(cycle) for cycle in result.history],
                "preliminary": [_cycle(cycle) for cycle in result.preliminary],
                "seconds": dict(result.seconds),
                "versions": dict(settings.versions),
            }
        },
    }
    if not result.converged:
        document["error"] = {
            "error_type": "convergence_error",
            "error_message": f"SCF not converged after {result.cycles} cycles.",
        }
    return document


def _basis(result):
    """The name of the basis set, and that core potentials are others than its own, which no document is read with."""
    molecule = result.molecule
    atoms = zip(molecule.atom_basis, molecule.symbols, molecule.ghost, molecule.atom_ecp, strict=True)
    try:
        is_own = all(ecp == load_ecp(basis, symbol) for basis, symbol, ghost, ecp in atoms if not ghost)
    except InputError:  # the set has none in the library
        is_own = False
    return result.settings.basis + ("" if is_own else " with other core potentials")


def _molecule(result):
    """Charge and multiplicity are those of the occupations, which `occupations=` may have decided."""
    molecule = result.molecule
    return {
        "schema_name": "qcschema_molecule",
        "schema_version": 2,
        "name": molecule.formula,
        "symbols": list(molecule.symbols),
        "geometry": molecule.coordinates.ravel().tolist(),
        "molecular_charge": result.charge,
        "molecular_multiplicity": round(abs(result.spin)) + 1,
        "real": [not ghost for ghost in molecule.ghost],
        "fix_com": True,
        "fix_orientation": True,
        "validated": False,
        "provenance": _provenance(result.settings.versions, "dftfd.molecule"),
    }


def _properties(result):
    energies, molecule = result.energies, result.molecule
    return {
        "calcinfo_nbasis": molecule.n_ao,
        "calcinfo_nmo": int(result.mo_energy.shape[1]),
        "calcinfo_nalpha": round((result.n_electrons + result.spin) / 2),
        "calcinfo_nbeta": round((result.n_electrons - result.spin) / 2),
        "calcinfo_natom": molecule.n_atoms,
        "nuclear_repulsion_energy": energies["nuclear"],
        "return_energy": result.energy,
        "scf_one_electron_energy": energies["one_electron"],
        "scf_two_electron_energy": energies["coulomb"] + energies["exact_exchange"],
        "scf_xc_energy": energies["xc"],
        "scf_vv10_energy": energies["nonlocal"],
        "scf_dispersion_correction_energy": energies.get("dispersion", 0.0),
        **({"scf_dipole_moment": result.dipole.tolist()} if result.has_properties else {}),
        "scf_total_energy": result.energy,
        "scf_iterations": result.all_cycles,
    }


def _named_properties(result):
    """What the driver `properties` returns: moments [e bohr, e bohr^2], charges [e], orbital energies [hartree]."""
    return {
        "dipole": result.dipole.tolist(),
        "quadrupole": result.quadrupole.ravel().tolist(),
        "mulliken_charges": result.charges("mulliken").tolist(),
        "lowdin_charges": result.charges("loewdin").tolist(),
        "meta_lowdin_charges": result.charges("meta-loewdin").tolist(),
        "s_squared": result.s_squared,
        "mo_energy": result.mo_energy.tolist(),
    }


def _provenance(versions, routine):
    return {"creator": "dftfd", "version": versions["dftfd"], "routine": routine}


def _cycle(cycle):
    """A line of the SCF table; what the starting density has no value for is null, as JSON knows no NaN."""
    names = ("energy_change", "gradient_norm", "density_change")
    changes = {name: getattr(cycle, name) if cycle.number > 0 else None for name in names}
    return {"cycle": cycle.number, "energy": cycle.energy, **changes}


def printed_numbers(document) -> dict:
    """The entry of extras for what a command prints, a Document; nothing without one."""
    return {} if document is None else {"document": document.numbers()}


def write_json(path, document) -> None:
    """Write a document so that a reader sees the old file or the whole new one, never a part."""
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
