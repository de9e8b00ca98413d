r"""One excited state: its energy, the forces on its nuclei, its relaxed density, for any functional.

An excitation energy is the curvature of the energy E along rotations of the orbitals, real ones by R = X + Y together
with imaginary ones by L = X - Y (dftfd.response.linear_response; s is its scale):

    w = (R . (A + B) R + L . (A - B) L) / 2 = 1/(2s) d2/de2 E[C exp(e R) exp(i e L)]    at e = 0

It is stationary in R and L, but not in the orbitals C, which obey g(C) = 0. Turning them by z, too, with

    s (A + B) z = -db/dkappa,   b = d2E/de2,      C -> C exp(e R + e^2 z / 2) exp(i e L),

makes it so (the Z-vector). Then dw/dR_nuclei is 1/(2s) d2/de2 of the gradient at fixed orbitals, orthonormal as S
changes: that of dftfd.model.forces at the turned orbitals, which need not be stationary for it. So whatever has forces
and a Fock matrix has excited-state forces, quadrature grid included. Second derivatives along e are exact: energies on
a grid have third functional derivatives, all others are polynomials (dftfd.response.turning_orbitals).

N. C. Handy, H. F. Schaefer III, J. Chem. Phys. 81, 5031 (1984). doi:10.1063/1.447489
F. Furche, R. Ahlrichs, J. Chem. Phys. 117, 7433 (2002). doi:10.1063/1.1508368
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dftfd.errors import NumericalError
from dftfd.functionals import supports
from dftfd.model.forces import Forces, nuclear_forces
from dftfd.properties.moments import DEBYE, dipole_moment
from dftfd.response.linear_response import LinearResponse
from dftfd.response.turning_orbitals import TurningOrbitals
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.threads import blas_threads

TOLERANCE = 1e-9
"""Of the equations of z, as a share of their right-hand side, which enters to first order."""


@dataclass(frozen=True, eq=False, repr=False)
class ExcitedState(ShownAsText):
    """One excited state at the geometry of the ground state's calculation. Atomic units.

    energy: of the molecule in this state [hartree].   excitation_energy: above the ground state [hartree].
    forces: on the nuclei, (atom, 3) [hartree/bohr].   dipole: (3,) [e bohr].
    density_matrix: (spin, ao, ao), relaxed: that of the ground state, and what the energy's derivative by any
    one-electron operator has in addition.   what: the state in words.
    """

    energy: float
    excitation_energy: float
    forces: np.ndarray
    dipole: np.ndarray
    density_matrix: np.ndarray = field(repr=False)
    molecule: Any = field(repr=False)
    what: str = ""
    grid_response: bool = True

    @property
    def table(self) -> Forces:
        """The forces as they are printed, with their sum and torque."""
        return Forces(self.forces, self.molecule.coordinates, self.molecule.symbols, self.grid_response)

    def __str__(self):
        size = float(np.linalg.norm(self.dipole) * DEBYE)
        return "\n".join(
            [
                self.what,
                f"  energy {self.energy:.10f} hartree, {self.excitation_energy:.8f} above the ground state",
                "  dipole moment / (e bohr) " + "".join(f"{x + 0.0:12.6f}" for x in self.dipole) + f"  {size:.4f} D",
                str(self.table),
            ]
        )


def excited_state(response: LinearResponse, R, L, what: str, grid_response: bool, progress: Any) -> ExcitedState:
    """The state of one root of a result's equations.

    response: those of the root, triplets' among them.   R, L: X + Y and X - Y (size,), R . L = 1, to first order as
    close as forces are to be.

    Raises UnsupportedError where the energy has no such derivatives, NotConvergedError at an unstable ground state.
    """
    result = response.result
    supports.require("excited states", result.functional, result.features)
    turning, scale = _turning(response, R, L, progress)
    relaxing = response if not response.triplet else LinearResponse(result, progress=progress)
    with progress.stage("relaxation of the excited state's orbitals"), blas_threads(1):
        b = 2.0 * turning.commutator()
        by_set = b.sum(axis=0, keepdims=True) if response.triplet else b
        z, _ = relaxing.solve(relaxing.rotations.flat(by_set)[None] / relaxing.scale, 0.0, TOLERANCE)
        turning.z = np.broadcast_to(relaxing.rotations.matrices(z[0]), b.shape)
    with progress.stage("forces of the excited state"), blas_threads(1):
        slope = turning.gradient(grid_response, progress) / (2.0 * scale)
    if not np.isfinite(slope).all():
        raise NumericalError("the excited state's forces contain NaN or Inf; look for coinciding nuclei.")
    w = 0.5 * float(R @ response.real(R[None])[0] + L @ response.imaginary(L[None])[0])
    P, _, second = turning.density
    P = P + second / (2.0 * scale)
    return ExcitedState(
        energy=result.energy + w,
        excitation_energy=w,
        forces=nuclear_forces(result, grid_response).values - slope,
        dipole=dipole_moment(result.molecule, P),
        density_matrix=P,
        molecule=result.molecule,
        what=what,
        grid_response=grid_response,
    )


def _turning(response, R, L, progress) -> tuple[TurningOrbitals, float]:
    """The orbitals of a root, in the frame of both spins for a triplet, and the scale of vectors there."""
    calculation, state, rotations = response.result.calculation, response.state, response.rotations
    kappa, s, C, n = rotations.matrices(R), rotations.matrices(L, True), state.mo_coeff, state.mo_occ
    energy, scale = response.energy, response.scale
    if response.triplet:
        energy, scale = calculation.unrestricted().energy(progress), 2.0
        kappa, s = (np.concatenate([M, -M]) / np.sqrt(2.0) for M in (kappa, s))
        C, n = np.concatenate([C, C]), np.concatenate([n, n]) / 2.0
    return TurningOrbitals(energy, calculation.molecule, calculation.linear_dependence, C, n, kappa, s), scale
