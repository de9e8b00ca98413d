"""Results in QCSchema form (version 1, AtomicResult), the common language of quantum chemistry programs.

Geometry in bohr, multiplicity = spin + 1, energies in hartree, dipole moment in e bohr.
D. G. A. Smith et al., WIREs Comput. Mol. Sci. 11, e1491 (2021). doi:10.1002/wcms.1491
"""

import json

from dftfd.io.files import write_text


def atomic_result(result) -> dict:
    """An SCFResult as a QCSchema AtomicResult document: plain dictionaries, lists, numbers and strings."""
    settings = result.settings
    document = {
        "schema_name": "qcschema_output",
        "schema_version": 1,
        "molecule": _molecule(result.molecule, settings.versions),
        "driver": "energy",
        "model": {"method": settings.functional, "basis": settings.basis},
        "keywords": {
            "method": result.method,
            "density_fit": settings.auxiliary_basis is not None,
            "grid_level": settings.grid_level,
            "conv_tol": settings.conv_tol,
            "max_cycles": settings.max_cycles,
            "guess": settings.guess,
            "linear_dependence": settings.linear_dependence,
        },
        "properties": _properties(result),
        "return_result": result.energy,
        "success": bool(result.converged),
        "provenance": _provenance(settings.versions, "dftfd.run_scf"),
        "extras": {
            "dftfd": {
                "functional": settings.definition,
                "auxiliary_basis": settings.auxiliary_basis,
                "s_squared": result.s_squared if result.has_properties else None,
                "energies": dict(result.energies),
                "history": [_cycle(cycle) for cycle in result.history],
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


def _molecule(molecule, versions):
    return {
        "schema_name": "qcschema_molecule",
        "schema_version": 2,
        "name": molecule.formula,
        "symbols": list(molecule.symbols),
        "geometry": molecule.coordinates.ravel().tolist(),
        "molecular_charge": float(molecule.charge),
        "molecular_multiplicity": abs(molecule.spin) + 1,
        "real": [not ghost for ghost in molecule.ghost],
        "fix_com": True,
        "fix_orientation": True,
        "validated": False,
        "provenance": _provenance(versions, "dftfd.molecule"),
    }


def _properties(result):
    energies, molecule = result.energies, result.molecule
    return {
        "calcinfo_nbasis": molecule.n_ao,
        "calcinfo_nmo": int(result.mo_energy.shape[1]),
        "calcinfo_nalpha": molecule.n_alpha,
        "calcinfo_nbeta": molecule.n_beta,
        "calcinfo_natom": molecule.n_atoms,
        "nuclear_repulsion_energy": energies["nuclear"],
        "return_energy": result.energy,
        "scf_one_electron_energy": energies["one_electron"],
        "scf_two_electron_energy": energies["coulomb"] + energies["exact_exchange"],
        "scf_xc_energy": energies["xc"],
        "scf_vv10_energy": energies["nonlocal"],
        **({"scf_dipole_moment": result.dipole.tolist()} if result.has_properties else {}),
        "scf_total_energy": result.energy,
        "scf_iterations": result.cycles,
    }


def _provenance(versions, routine):
    return {"creator": "dftfd", "version": versions["dftfd"], "routine": routine}


def _cycle(cycle):
    """A line of the SCF table; what the starting density has no value for is null, as JSON knows no NaN."""
    values = {
        "energy_change": cycle.energy_change,
        "gradient_norm": cycle.gradient_norm,
        "density_change": cycle.density_change,
    }
    if cycle.number == 0:
        values = dict.fromkeys(values)
    return {"cycle": cycle.number, "energy": cycle.energy, **values}


def write_json(path, document) -> None:
    """Write a document so that a reader sees the old file or the whole new one, never a part."""
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
