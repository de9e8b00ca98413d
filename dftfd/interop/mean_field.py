"""A result as a PySCF mean-field object, and the entries of PySCF's checkpoint files."""

from dataclasses import replace
from typing import Any

import numpy as np
from pyscf import dft

from dftfd.errors import UnsupportedError
from dftfd.functionals.double_hybrids import without_pt2
from dftfd.functionals.empirical_dispersion import find_pair
from dftfd.functionals.registry import get_functional
from dftfd.interop.numint import ROWS, Library, numint
from dftfd.libcint.mole import quiet, to_pyscf
from dftfd.libcint.two_electron import auxiliary_basis

KINDS = {"RKS": dft.rks.RKS, "UKS": dft.uks.UKS, "ROKS": dft.roks.ROKS}


def mean_field(result: Any) -> Any:
    """A converged-looking PySCF object of the same energy, with the result's orbitals, on a Mole of its own.

    The functional is PySCF's own where its name stands for the same formula with the same parameters, else dftfd's by
    `dftfd.interop.numint`. Raises UnsupportedError where PySCF has no place for the functional, or the Hamiltonian has
    terms it would not know.
    """
    calculation = result.calculation
    surroundings = calculation.surroundings
    given = (
        surroundings.relativity,
        surroundings.electric_field.any(),
        len(surroundings.charges),
        surroundings.potential,
        surroundings.solvent,
    )
    if any(given):
        raise UnsupportedError(
            "to_pyscf() cannot hand over electric fields, potentials, point charges, solvents or relativity."
        )
    without_pt2(result.functional, "of which a mean field is a part only; hand over that of its orbitals alone")
    name, of_dispersion = _pyscf_functional(result)
    mf = KINDS[result.method](to_pyscf(result.molecule).copy(), xc=name)
    if not _is_pyscfs(name, replace(calculation.functional, dispersion=None)):
        mf._numint = numint(replace(calculation.functional, dispersion=None))
    if calculation.density_fit:
        mf = mf.density_fit(auxbasis=auxiliary_basis(result.molecule, bool(calculation.functional.exact_exchange))[0])
    if calculation.grid.moves:
        mf.grids.level, mf.nlcgrids.level = calculation.grid.level, calculation.nlc_level
    else:
        mf.grids.coords, mf.grids.weights = calculation.grid.given
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
    if not version.startswith(("d3", "d4")) or "+" in version:
        raise UnsupportedError(
            f"to_pyscf() cannot hand over the correction {version!r} of {name!r}, which PySCF lacks."
        )
    pair = find_pair(name.lower(), get_functional) or {"functional": name}
    attributes = {"disp": f"{version}:{method}"}
    return pair["functional"], attributes | ({"nlc": False} if pair.get("without_vv10") else {})


def _is_pyscfs(name, functional) -> bool:
    """True where PySCF's functional of this name has the same energy, exact exchange and VV10."""
    theirs, ours = dft.libxc, Library(functional)
    try:
        with quiet():
            rows = ROWS[theirs.xc_type(name)]
            rho = _DENSITIES[:, 0] if rows == 1 else _DENSITIES[:, :rows]
            pairs = (
                (theirs.rsh_coeff(name), ours.rsh_coeff()),
                (theirs.nlc_coeff(name), ours.nlc_coeff()),
                (theirs.eval_xc1(name, rho, 1, 0)[0], ours.energy_per_electron(_DENSITIES)),
            )
    except (KeyError, ValueError, NotImplementedError):  # how PySCF says that it does not know a name
        return False
    return all(_close(*pair) for pair in pairs)


def _close(a, b):
    a, b = (np.hstack([np.ravel(part) for part in _flat(x)] or [np.zeros(1)]) for x in (a, b))
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-7, atol=1e-12)


def _flat(x):
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, (tuple, list)) else [x]


def _densities():
    """(spin, component, point): density, gradient and a tau above its bound, at a few points."""
    rho = np.random.default_rng(1).uniform(0.05, 0.5, (2, 5, 12))
    rho[:, 4] += np.sum(rho[:, 1:4] ** 2, axis=1) / (8 * rho[:, 0])
    return rho


_DENSITIES = _densities()


def orbital_entries(result: Any) -> dict:
    """e_tot, mo_energy, mo_occ and mo_coeff in the shapes that PySCF gives them for the method."""
    arrays = {name: np.array(getattr(result, name)) for name in ("mo_energy", "mo_occ", "mo_coeff")}
    if result.method == "RKS":
        arrays = {name: array[0] for name, array in arrays.items()}
    elif result.method == "ROKS":
        arrays = {name: array.sum(axis=0) if name == "mo_occ" else array[0] for name, array in arrays.items()}
    return {"e_tot": result.energy, **arrays}


def mole_text(molecule: Any) -> str:
    """The Mole as JSON, as PySCF's checkpoint files hold it."""
    with quiet():
        return to_pyscf(molecule).dumps()
