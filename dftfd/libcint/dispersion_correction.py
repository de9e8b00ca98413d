"""D3, D4 and gCP corrections, by simple-dftd3 and dftd4 through pyscf-dispersion."""

import ctypes
from collections.abc import Mapping

import numpy as np

from dftfd.errors import FunctionalError, MissingDependencyError, NumericalError
from dftfd.libcint.mole import mole_of_nuclei, quiet

_WITH_GCP = ("hf3c", "pbeh3c", "b973c", "r2scan3c")
"""Methods of which simple-dftd3 has gCP or its short-range part, with the basis set that belongs to them."""

_ANY = "pbe"
"""A functional with parameters, for a model that gets others."""


def dispersion_correction(
    molecule, version: str, functional: str, numbers: Mapping[str, float] | None = None
) -> tuple[float, np.ndarray]:
    """Energy [hartree] and its gradient (atom, 3) [hartree/bohr]; ghosts have no part in it.

    version, functional: 'd3bj', ..., 'd4' or 'gcp', and the name of the parameters in simple-dftd3 and dftd4.
    numbers: D4's, in the place of dftd4's own of this name: damping, and ga and gc of the charge scaling. With no name
    (an empty one), the damping s8, a1, a2, s6 of 'd3bj', 'd3bjatm' or 'd4'.
    Raises MissingDependencyError without the package, FunctionalError where there are no parameters.
    """
    real = np.flatnonzero(~np.array(molecule.ghost))
    model = _model(mole_of_nuclei(molecule), version, functional, dict(numbers or {}))
    with quiet():
        found = model.get_counterpoise(grad=True) if version == "gcp" else model.get_dispersion(grad=True)
    energy, gradient = float(found["energy"]), np.zeros((molecule.n_atoms, 3))
    gradient[real] = found["gradient"]
    if not (np.isfinite(energy) and np.isfinite(gradient).all()):
        raise NumericalError(f"the {version} dispersion correction of {molecule.formula} is NaN or Inf.")
    return energy, gradient


def _model(nuclei, version, functional, numbers):
    try:
        from pyscf.dispersion import dftd3, dftd4, gcp
    except ImportError as error:
        raise MissingDependencyError(
            f"the {version} correction needs pyscf-dispersion: pip install 'dftfd[dispersion]'."
        ) from error
    try:
        with quiet():
            if version == "gcp":
                return _counterpoise(gcp, nuclei, functional.replace("-", ""))
            if version == "d4":
                scaling = {name: numbers.pop(name) for name in ("ga", "gc") if name in numbers}
                model = dftd4.DFTD4Dispersion(nuclei, xc=functional or _ANY, **scaling)
                if numbers:
                    model.set_param(**numbers)
                return model
            has_three, version = version.endswith("atm"), version.removesuffix("atm")
            model = dftd3.DFTD3Dispersion(nuclei, xc=functional or _ANY, version=version, atm=has_three)
            return model if functional else _damped(dftd3, model, has_three, **numbers)
    except RuntimeError as error:
        raise FunctionalError(f"there is no {version} correction of {functional!r}: {error}.") from error


def _damped(package, model, has_three, *, s8, a1, a2, s6=1.0):
    """The D3 model with other parameters, for which pyscf-dispersion has no function."""
    library = package.libdftd3
    library.dftd3_new_rational_damping.restype = type(model._param)
    error = library.dftd3_new_error()
    numbers = s6, s8, float(has_three), a1, a2, 14.0  # the last one: exponent of the three-body term's damping
    param = library.dftd3_new_rational_damping(error, *map(ctypes.c_double, numbers))
    try:
        package.error_check(error)
    finally:
        library.dftd3_delete_error(ctypes.byref(error))
    library.dftd3_delete_param(ctypes.byref(model._param))
    model._param = param
    return model


def _counterpoise(package, nuclei, method):
    """gCP of a 3c method. pyscf-dispersion has a list of its own of what it hands to simple-dftd3, which has more."""
    allowed = getattr(package, "_white_list", None)
    if isinstance(allowed, set):
        allowed.update(_WITH_GCP)
    if method not in _WITH_GCP:  # simple-dftd3 has no error for a name that it does not know, and no energy
        raise FunctionalError(f"there is no gCP of {method!r}; there is one of {', '.join(_WITH_GCP)}.")
    try:
        return package.GCP(nuclei, method=method)
    except RuntimeError as error:
        raise MissingDependencyError(
            f"this version of pyscf-dispersion does not offer gCP of {method!r}, as 1.7.0 does: "
            "pip install 'pyscf-dispersion==1.7.0'."
        ) from error
