"""A result as a PySCF mean-field object, and the entries of PySCF's checkpoint files."""

import numpy as np
from pyscf import dft

from dftfd.errors import UnsupportedError
from dftfd.functionals.dispersion import WITHOUT_VV10, split_dispersion
from dftfd.interop.pyscf import quiet, to_pyscf

KINDS = {"RKS": dft.rks.RKS, "UKS": dft.uks.UKS, "ROKS": dft.roks.ROKS}


def mean_field(result):
    """A converged-looking PySCF object with the result's orbitals and energy, on a Mole of its own.

    Raises UnsupportedError where PySCF has no functional of the name, or the Hamiltonian has terms it would not know.
    """
    calculation = result.calculation
    surroundings = calculation.surroundings
    given = (
        surroundings.relativity,
        surroundings.electric_field.any(),
        len(surroundings.charges),
        surroundings.potential,
    )
    if any(given):
        raise UnsupportedError("to_pyscf() cannot hand over electric fields, potentials, point charges or relativity.")
    name, of_dispersion = _pyscf_functional(result)
    try:
        with quiet():
            dft.libxc.parse_xc(name)
    except (KeyError, ValueError) as error:
        raise UnsupportedError(f"PySCF has no functional {name!r}, so the result cannot become its object.") from error
    mf = KINDS[result.method](to_pyscf(result.molecule).copy(), xc=name)
    if calculation.density_fit:
        mf = mf.density_fit()
    if isinstance(calculation.grid, int):
        mf.grids.level, mf.nlcgrids.level = calculation.grid, calculation.nlc_level
    else:
        mf.grids.coords, mf.grids.weights = calculation.grid
    for attribute, value in (orbital_entries(result) | of_dispersion).items():
        setattr(mf, attribute, value)
    mf.converged, mf.conv_tol = result.converged, result.settings.conv_tol
    return mf


def _pyscf_functional(result):
    """PySCF's name of a result's functional, and the attributes that a dispersion correction sets beside it."""
    name, correction = result.settings.functional, result.calculation.functional.dispersion
    if correction is None:
        return name, {}
    version, method = correction
    attributes = {"disp": f"{version}:{method}"}
    if method in WITHOUT_VV10:
        return WITHOUT_VV10[method], attributes | {"nlc": False}
    return split_dispersion(name)[0], attributes


def orbital_entries(result) -> dict:
    """e_tot, mo_energy, mo_occ and mo_coeff in the shapes that PySCF gives them for the method."""
    arrays = {name: np.array(getattr(result, name)) for name in ("mo_energy", "mo_occ", "mo_coeff")}
    if result.method == "RKS":
        arrays = {name: array[0] for name, array in arrays.items()}
    elif result.method == "ROKS":
        arrays = {name: array.sum(axis=0) if name == "mo_occ" else array[0] for name, array in arrays.items()}
    return {"e_tot": result.energy, **arrays}


def mole_text(molecule) -> str:
    """The Mole as JSON, as PySCF's checkpoint files hold it."""
    with quiet():
        return to_pyscf(molecule).dumps()
