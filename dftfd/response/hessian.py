"""Second derivatives of the energy by the positions of the nuclei, and first ones of its responses to a field."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.errors import InputError, InputWarning, NumericalError
from dftfd.functionals import supports
from dftfd.model.forces import nuclear_forces
from dftfd.model.solved_calculation import SolvedCalculation
from dftfd.response.differences import STEPS, Differences
from dftfd.response.displacements import by_differences, recorded_displacements
from dftfd.response.kept_functions import SHARE, kept_functions
from dftfd.response.perturbed_nuclei import by_response, why_not
from dftfd.runtime.arguments import Kind, choice, number, optional, whole
from dftfd.runtime.progress import as_progress

METHODS = choice("auto", "response", "differences")
POINTS = Kind("2 or 4 points", lambda value: {2: 2, 4: 4}[whole().convert(value)])
STEP = optional(number(lambda h: 1e-5 <= h <= 0.1, "a displacement from 1e-5 to 0.1 bohr"))


@dataclass(frozen=True, eq=False)
class SecondDerivatives:
    """Of a result by the positions of its nuclei.

    hessian: (atom, 3, atom, 3) [hartree/bohr^2], symmetric.   asymmetry: the largest difference [hartree/bohr^2] of
    elements that should be equal, as they were computed.   dipole_derivatives: (atom, 3, 3) [e], the dipole's axis
    last.   polarizability_derivatives: (atom, 3, 3, 3) [bohr^2], or None.   forces: (atom, 3) [hartree/bohr].
    method: how they were found, in words.
    """

    hessian: np.ndarray
    asymmetry: float
    dipole_derivatives: np.ndarray
    polarizability_derivatives: np.ndarray | None
    forces: np.ndarray
    method: str


def second_derivatives(
    result: SolvedCalculation,
    method: str = "auto",
    points: int = 2,
    step: float | None = None,
    raman: bool = False,
    record: Path | None = None,
    restart: bool = False,
    progress: Any = None,
) -> SecondDerivatives:
    """Those of a result; see SCFResult.hessian and SCFResult.vibrations for the arguments."""
    result.require_converged("second derivatives")
    supports.require("second derivatives", result.functional, result.features)
    progress = as_progress(progress)
    if method == "auto":
        method = "differences" if raman or record is not None or restart or why_not(result) else "response"
    kept = _dependent(result) if method == "differences" else None
    differences = Differences(points, _step(result, method, points, step, kept), raman)
    if method == "response":
        if raman or record is not None or restart:
            raise InputError("raman=, record= and restart= are those of method='differences'.")
        found, how = by_response(result, differences, progress), "coupled-perturbed orbitals"
    else:
        with recorded_displacements(result, differences, record, restart) as done:
            found = by_differences(result, differences, done, progress)
        how = "forces at displaced geometries" + (f" ({kept})" if kept else "")
    n = 3 * result.molecule.n_atoms
    H = found["hessian"].reshape(n, n)
    if not np.isfinite(H).all():
        raise NumericalError("second derivatives contain NaN or Inf; look for coinciding nuclei.")
    return SecondDerivatives(
        hessian=((H + H.T) / 2).reshape(found["hessian"].shape),
        asymmetry=float(np.abs(H - H.T).max()),
        dipole_derivatives=found["dipole_derivatives"],
        polarizability_derivatives=found["polarizability_derivatives"],
        forces=nuclear_forces(result, progress=progress).values,
        method=f"{how}, {differences}",
    )


def _dependent(result: SolvedCalculation):
    """The KeptFunctions of a linearly dependent basis, else None."""
    if result.mo_coeff.shape[2] == result.molecule.n_ao:
        return None
    return kept_functions(result.molecule, result.calculation.linear_dependence)


def _step(result: SolvedCalculation, method, points, step, kept):
    fitted_ranges = result.calculation.density_fit and any(omega for omega, _ in result.functional.exact_exchange)
    usual = STEPS["response, fitted ranges" if method == "response" and fitted_ranges else method][points]
    if kept is None:
        return usual if step is None else step
    if step is None:
        return kept.step(points, usual)
    longest = kept.turning * SHARE[points]
    if step > longest:
        warnings.warn(
            f"step={step:g} bohr is long for second derivatives here: {kept}. Leave step= out, or take at most "
            f"{longest:.1g} bohr.",
            InputWarning,
            stacklevel=5,
        )
    return step
