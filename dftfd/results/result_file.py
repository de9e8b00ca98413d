"""Results read from HDF5 files, whose layout dftfd/results/tree.py tells."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dftfd.elements import AtomName, parse_atom_name
from dftfd.errors import FileError, FunctionalError, InputError, InputWarning, UnsupportedError
from dftfd.functionals.definition import from_definition
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.results.result import SCFResult
from dftfd.results.tree import FORMAT, RESULT_ARRAYS, Settings
from dftfd.runtime.arguments import public
from dftfd.runtime.chosen_terms import term_named
from dftfd.runtime.documents import read_tree, refusing_damage, require_types
from dftfd.runtime.json_reader import as_json, parse_json
from dftfd.scf.convergence import Cycle
from dftfd.system.basis import checked_basis, checked_ecp
from dftfd.system.molecule import Molecule
from dftfd.terms.external import ExternalPotential, checked_potential


@public
def load_result(path: Path, functional: Any = None, external_potential: Any = None) -> SCFResult:
    """Read a result written by `result.save(path)`.

    functional: the Functional, if its name is not registered in this process.   external_potential: as in run_scf, if
    the result has one. Files hold its name and its values at some points, for comparison.

    Raises FileError for other files, FunctionalError if the meaning of the functional's name has changed since,
    InputError for a different potential.
    """
    tree = read_tree(path, "a result")
    result = result_of_tree(tree, path, functional)
    if result.functional.pt2 and "loop" in tree["dftfd"]:
        raise FileError(
            f"{path} is a checkpoint of {result.functional.name!r}, without the perturbation theory that comes last; "
            "finish the run with restart= (--restart)."
        )
    given = checked_potential(external_potential)
    if given is None:
        return result
    surroundings, molecule = result.calculation.surroundings, result.molecule
    if surroundings.potential is None or not given.known_as(surroundings.potential, molecule):
        found = "without external potential" if surroundings.potential is None else "in another external potential"
        raise InputError(f"{path} holds a result {found}, not in {given.name!r} as it was given.")
    return replace(result, calculation=replace(result.calculation, surroundings=replace(surroundings, potential=given)))


def result_of_tree(tree: dict, path, functional=None) -> SCFResult:
    """The result whose `result_tree` was read from a file; raises as `load_result`."""
    part = tree.get("dftfd")
    if not isinstance(part, dict) or not {"format", "text", "arrays"} <= set(part):
        raise FileError(f"{path} contains no result of dftfd; expected a file written by result.save(...).")
    with refusing_damage(path):
        version = int(part["format"])
        if version != FORMAT:
            raise FileError(f"{path} has format {version}; this version of dftfd reads format {FORMAT}.")
        return _result(parse_json(part["text"], finite=False), part["arrays"], part.get("options", {}), functional)


def _result(text, arrays, arrays_of_options, functional) -> SCFResult:
    options = Options(**text["options"] | arrays_of_options | {"terms": _terms(text["options"].get("terms", ()))})
    settings = Settings(options=options, **text["settings"])
    molecule = molecule_of_text(text["molecule"], arrays["coordinates"])
    functional = _functional(settings, text.get("formulas"), functional)
    options = replace(options, xc=functional, external_potential=_potential(text, arrays))
    calculation = Calculation.of(molecule, options)
    _require_same_terms(calculation, text.get("terms", []))
    result = SCFResult(
        calculation=calculation,
        settings=settings,
        history=tuple(_cycle(row) for row in arrays["history"]),
        preliminary=tuple(_cycle(row) for row in arrays.get("preliminary", ())),
        **{name: arrays.get(name) for name in RESULT_ARRAYS},
        **text["result"]
        | {"steps": tuple(map(str, text["result"]["steps"])), "energies": _components(text["result"]["energies"])},
    )
    require_orbitals(calculation, result.mo_energy, result.mo_occ, result.mo_coeff)
    require_shapes({"density_matrix": result.density_matrix}, (calculation.n_spin, *[molecule.n_ao] * 2))
    if (counts := result.n_electrons_quadrature) is not None:
        require_shapes({"n_electrons_quadrature": counts}, (calculation.n_spin,))
    require_types(require_types(result).settings)
    numbers = (result.energy, settings.conv_tol, *result.energies.values(), result.entropy_term)
    if not all(isinstance(value, int | float) and np.isfinite(value) for value in numbers):
        raise ValueError(f"expected numbers, found {numbers}")
    return result


def _components(energies) -> dict:
    """Energies by component; grid functionals were called guests in files written before."""
    return {"grid_functional" if name == "guest" else name: value for name, value in energies.items()}


def require_orbitals(calculation, mo_energy, mo_occ, mo_coeff) -> None:
    """Raise ValueError unless these are finite orbitals of the calculation's basis."""
    n_spin, n_ao, n_mo = calculation.n_spin, calculation.molecule.n_ao, np.shape(mo_energy)[-1]
    require_shapes({"mo_energy": mo_energy, "mo_occ": mo_occ}, (n_spin, n_mo))
    require_shapes({"mo_coeff": mo_coeff}, (n_spin, n_ao, n_mo))


def require_shapes(arrays, shape) -> None:
    """Raise ValueError unless all arrays are finite numbers of this shape."""
    for name, array in arrays.items():
        if np.shape(array) != shape or not np.all(np.isfinite(array)):
            raise ValueError(f"{name} has the shape {np.shape(array)}, or is not finite; expected {shape}")


def molecule_of_text(text, coordinates) -> Molecule:
    """The Molecule whose MOLECULE_TEXT was written, at coordinates (atom, 3) [bohr]."""
    atoms = zip(text["symbols"], text["ghost"], text["labels"], strict=True)
    names = [AtomName(parse_atom_name(symbol, "symbol").symbol, bool(ghost), label) for symbol, ghost, label in atoms]
    return Molecule(
        symbols=tuple(name.symbol for name in names),
        ghost=tuple(name.ghost for name in names),
        labels=tuple(name.label for name in names),
        atom_basis=tuple(map(checked_basis, text["atom_basis"], names)),
        atom_ecp=tuple(map(checked_ecp, text["atom_ecp"], names)),
        coordinates=coordinates,
        **{name: text[name] for name in ("charge", "spin", "cartesian")},
    )


def _terms(texts) -> tuple:
    """The energy terms of these names; UnsupportedError where they are not known here."""
    try:
        return tuple(map(term_named, texts))
    except InputError as error:
        raise UnsupportedError(f"the result cannot be used here: {error}") from error


def _require_same_terms(calculation, known) -> None:
    """UnsupportedError where the code of an energy term is no longer the one that the result was computed with."""
    for chosen, fingerprint in zip(calculation.terms, known, strict=True):
        if chosen.fingerprint(calculation.molecule) != fingerprint:
            raise UnsupportedError(
                f"the energy term {chosen} gives other energies than when the result was computed; run it again, "
                "or restore the earlier code."
            )


def _potential(text, arrays):
    """What the file knows of the external potential; None where there was none."""
    known = text.get("external_potential")
    return known and ExternalPotential.from_file(known["name"], known["on_nuclei"], arrays["external_potential"])


def _functional(settings, formulas, given):
    """The functional, whose name must still mean the same: terms, parameters and formulas."""
    functional = _of_settings(settings) if given is None else get_functional(given)
    if as_json(functional.definition) != settings.definition:
        raise FunctionalError(
            f"functional {settings.functional!r} stands for other terms or parameters than when the result was "
            "computed; pass the right one as load_result(path, functional=...)."
        )
    if formulas is not None and program_fingerprint(functional) != formulas["fingerprint"]:
        _refuse_formula(settings.functional, formulas["jax"])
    return functional.named(settings.functional)


def _refuse_formula(name, version):
    """A formula that traces to another program: another one with the same JAX, perhaps the same with another JAX."""
    if version == jax.__version__:
        raise FunctionalError(
            f"the formula of functional {name!r} is not the one that the result was computed with; run it again, or "
            "pass the old one as load_result(path, functional=...)."
        )
    warnings.warn(
        f"The result was computed with JAX {version}; whether the formula of {name!r} is still the same cannot be "
        f"determined with JAX {jax.__version__}.",
        InputWarning,
        stacklevel=2,
    )


def _of_settings(settings):
    """The functional of the name; of the definition where that is no name, and where numbers in it were rounded."""
    try:
        found = get_functional(settings.functional)
        if "=" in settings.functional and as_json(found.definition) != settings.definition:
            return from_definition(settings.definition, settings.functional)
        return found
    except FunctionalError as error:
        try:
            return from_definition(settings.definition, settings.functional)
        except FunctionalError:
            raise FunctionalError(
                f"the result's functional {settings.functional!r} is not known here: register it before, or pass it as "
                "load_result(path, functional=...), on the command line as --xc FILE.py:NAME."
            ) from error


def _cycle(row):
    number, energy, change, gradient, density, extra = (float(x) for x in row)
    return Cycle(int(number), energy, change, gradient, density, bool(extra))
