r"""Forces on the nuclei: the exact derivative of the energy that was computed, for any functional.

The energy is stationary in orbitals and occupations, so its derivative is that at fixed density matrices, except that
orthonormal orbitals stay orthonormal where the overlap S changes:

    dE/dR = sum over the terms of the energy of dE_term/dR at fixed P - tr(W dS/dR)

Terms on a grid depend on R through the centres of the orbitals and, through points and weights, the grid itself.

P. Pulay, Mol. Phys. 17, 197 (1969). doi:10.1080/00268976900100941; the grid: B. G. Johnson, P. M. W. Gill, J. A. Pople,
J. Chem. Phys. 98, 5612 (1993). doi:10.1063/1.464906
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.linalg

from dftfd.errors import NumericalError
from dftfd.functionals import supports
from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import overlap_integrals
from dftfd.runtime.arguments import Kind, accepted, public
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import as_progress
from dftfd.runtime.threads import blas_threads
from dftfd.scf.orbitals import occupied_orbitals


@dataclass(frozen=True, eq=False, repr=False)
class Forces(ShownAsText):
    """values: forces on the nuclei, (atom, 3) [hartree/bohr].   coordinates: (atom, 3) [bohr].

    grid_response: whether the quadrature grid's motion is part of them.   fixed_grid: the points were given by the
    caller and stay where they are.
    """

    values: np.ndarray
    coordinates: np.ndarray
    symbols: tuple[str, ...]
    grid_response: bool
    fixed_grid: bool = False

    @property
    def net(self) -> np.ndarray:
        """Sum of the forces (3,) [hartree/bohr]; zero for a molecule by itself whose grid moves with it."""
        return self.values.sum(axis=0)

    @property
    def torque(self) -> np.ndarray:
        """sum_A R_A x F_A (3,) [hartree]: minus the derivative of the energy by a rotation of the nuclei.

        The grid's directions are fixed in space, so it is as large as the energy's dependence on the orientation.
        """
        return np.cross(self.coordinates, self.values).sum(axis=0)

    def __str__(self):
        grid = (
            "fixed in space" if self.fixed_grid else "response included" if self.grid_response else "response LEFT OUT"
        )
        rows = [f"forces / (hartree/bohr), quadrature grid: {grid}"]
        rows += [
            f"{symbol:>4}{number:<4d}" + "".join(f"{component:18.10f}" for component in force)
            for number, (symbol, force) in enumerate(zip(self.symbols, self.values, strict=True), start=1)
        ]
        for name, vector in (("net", self.net), ("torque", self.torque)):
            rows.append(f"{name:>8}" + "".join(f"{component:18.2e}" for component in vector))
        return "\n".join(rows)


_RESULT = Kind(
    "a result, from dftfd.run_scf(...)", lambda value: accepted(hasattr(type(value), "require_converged"), value)
)


@public
def nuclear_forces(
    result: Annotated[Any, _RESULT],
    grid_response: bool = True,
    progress: Any = None,
) -> Forces:
    """Nuclear forces, minus the derivative of the energy of a converged result.

    With smeared occupations, of the free energy. A grid given as points does not move.

    grid_response: False omits the motion of the quadrature grid with the nuclei, as many programs do. The forces are
    then not the gradient of the energy and do not add up to zero.
    progress: as in run_scf.

    Raises NotConvergedError without convergence, UnsupportedError for model potentials, which have no energy.
    """
    calculation = result.calculation
    molecule = calculation.molecule
    result.require_converged("forces")
    require_forces(calculation.functional)
    progress = as_progress(progress)
    P, C_occ = result.density_matrix, occupied_orbitals(result.mo_coeff, result.mo_occ)
    energy = calculation.energy(progress)
    F = energy.evaluate(P, C_occ).F if result.fock is None else result.fock
    S = overlap_integrals(molecule)
    W = energy_weighted_density(S, P, F, result.mo_coeff[0], calculation.linear_dependence)
    with blas_threads(1):
        gradient = energy.gradient(P, C_occ, grid_response, progress) - overlap_derivative(molecule, W)
    if not np.isfinite(gradient).all():
        raise NumericalError("the forces contain NaN or Inf; look for coinciding nuclei or extreme exponents.")
    fixed = not calculation.grid.moves
    return Forces(-gradient, molecule.coordinates, molecule.symbols, grid_response and not fixed, fixed)


def point_charge_forces(result) -> np.ndarray:
    """Minus the derivative of a converged result's (free) energy by the positions of its point charges, (charge, 3).

    The energy is stationary in the density matrix and no basis function moves with a charge (Hellmann, Feynman).
    Raises as `nuclear_forces`.
    """
    calculation = result.calculation
    result.require_converged("forces on point charges")
    require_forces(calculation.functional)
    P = result.density_matrix.sum(axis=0)
    with blas_threads(1):
        return -calculation.surroundings.point_charge_gradient(calculation.molecule, P)


def require_energy(functional) -> None:
    """Raise UnsupportedError, naming them, where terms are model potentials: their total is incomplete."""
    supports.require("energy differences", functional)


def require_forces(functional) -> None:
    """Raise UnsupportedError where the energy has no analytic forces, or there is none."""
    supports.require("forces", functional)


def energy_weighted_density(S, P, F, C, threshold: float) -> np.ndarray:
    r"""W (ao, ao), so that -tr(W dS) is the energy's change as orthonormal orbitals follow a change of the overlap.

    C -> C (1 - 1/2 C^T dS C) gives W = 1/2 sum_s (P_s F_s C C^T + C C^T F_s P_s): the same for closed, open and
    restricted open shells and for fractional occupations, since it is stationarity that all have in common.
    Where eigenvectors of S are left out (eigenvalues up to `threshold`), the kept ones turn into them as S changes.
    """
    PF = sum(P_s @ F_s for P_s, F_s in zip(P, F, strict=True))
    W = PF @ C @ C.T
    if C.shape[1] < len(S):
        s, U = scipy.linalg.eigh(S)
        kept, out = s > threshold, s <= threshold
        turned = (U[:, kept].T @ PF @ U[:, out]) / (s[kept][:, None] - s[out])
        W -= 2.0 * U[:, kept] @ turned @ U[:, out].T
    return 0.5 * (W + W.T)
