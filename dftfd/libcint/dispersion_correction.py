"""D3, D4 and gCP corrections, by simple-dftd3 and dftd4 through pyscf-dispersion."""

import numpy as np

from dftfd.errors import FunctionalError, MissingDependencyError, NumericalError
from dftfd.libcint.mole import mole_of_nuclei, quiet

_WITH_GCP = ("hf3c", "pbeh3c", "b973c", "r2scan3c")
"""Methods of which simple-dftd3 has gCP or its short-range part, with the basis set that belongs to them."""


def dispersion_correction(molecule, version: str, functional: str) -> tuple[float, np.ndarray]:
    """Energy [hartree] and its gradient (atom, 3) [hartree/bohr]; ghosts have no part in it.

    version, functional: 'd3bj', ..., 'd4' or 'gcp', and the name of the parameters in simple-dftd3 and dftd4.
    Raises MissingDependencyError without the package, FunctionalError where there are no parameters.
    """
    real = np.flatnonzero(~np.array(molecule.ghost))
    model = _model(mole_of_nuclei(molecule), version, functional)
    with quiet():
        found = model.get_counterpoise(grad=True) if version == "gcp" else model.get_dispersion(grad=True)
    energy, gradient = float(found["energy"]), np.zeros((molecule.n_atoms, 3))
    gradient[real] = found["gradient"]
    if not (np.isfinite(energy) and np.isfinite(gradient).all()):
        raise NumericalError(f"the {version} dispersion correction of {molecule.formula} is NaN or Inf.")
    return energy, gradient


def _model(nuclei, version, functional):
    try:
        from pyscf.dispersion import dftd3, dftd4, gcp
    except ImportError as error:
        raise MissingDependencyError(
            f"the {version} correction needs pyscf-dispersion: pip install 'dftfd[dispersion]'."
        ) from error
    try:
        with quiet():
            if version == "gcp":
                method = functional.replace("-", "")
                allowed: set[str] = getattr(gcp, "_white_list", set())
                allowed.update(_WITH_GCP)  # it lets no other method through
                return gcp.GCP(nuclei, method=method)
            if version == "d4":
                return dftd4.DFTD4Dispersion(nuclei, xc=functional)
            return dftd3.DFTD3Dispersion(
                nuclei, xc=functional, version=version.removesuffix("atm"), atm=version.endswith("atm")
            )
    except RuntimeError as error:
        raise FunctionalError(f"there is no {version} correction of {functional!r}: {error}.") from error
