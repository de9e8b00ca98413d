r"""One excited state: its energy, the forces on its nuclei, its relaxed density, for any functional.

An excitation energy is the curvature of the energy E along rotations of the orbitals, real ones by R = X + Y together
with imaginary ones by L = X - Y (dftfd.response.linear_response; s is its scale):

    w = (R . (A + B) R + L . (A - B) L) / 2 = 1/(2s) d2/de2 E[C exp(e R) exp(i e L)]    at e = 0

It is stationary in R and L, but not in the orbitals C, which obey g(C) = 0. Turning them by z, too, with

    s (A + B) z = -db/dkappa,   b = d2E/de2,      C -> C exp(e R + e^2 z / 2) exp(i e L),

makes it so (the Z-vector). Then dw/dR_nuclei is 1/(2s) d2/de2 of the gradient at fixed orbitals, orthonormal as S
changes: that of dftfd.model.forces at the turned orbitals, which need not be stationary for it. So whatever has forces
and a Fock matrix has excited-state forces, quadrature grid included. Second derivatives along e are exact: energies on
a grid have third functional derivatives, all others are polynomials (TurningOrbitals).

N. C. Handy, H. F. Schaefer III, J. Chem. Phys. 81, 5031 (1984). doi:10.1063/1.447489
F. Furche, R. Ahlrichs, J. Chem. Phys. 117, 7433 (2002). doi:10.1063/1.1508368
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dftfd.errors import NumericalError
from dftfd.functionals import supports
from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import overlap_integrals
from dftfd.model.forces import Forces, energy_weighted_density, nuclear_forces
from dftfd.model.kohn_sham import KohnSham
from dftfd.properties.moments import DEBYE, dipole_moment
from dftfd.response.linear_response import LinearResponse
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import blas_threads
from dftfd.terms import CoulombExchangeEnergy

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


WEIGHTS = np.array([-9, 128, -1008, 8064, -14350, 8064, -1008, 128, -9]) / 5040
SHIFTS = np.arange(-4, 5)
"""Second derivatives from nine points: exact for polynomials up to degree nine."""

REACH = 1.0
"""Size of the last points' turn, which rounding errors alone depend on."""


class TurningOrbitals:
    """kappa, s, z: (spin, mo, mo); antisymmetric, symmetric, antisymmetric.

    C (spin, ao, mo), n (spin, mo): orbitals at e = 0, and their occupations.   threshold: as in run_scf's
    linear_dependence.

    Orbitals that turn, C exp(e kappa + e^2 z / 2) exp(i e s), and second derivatives by e of what they have, at e = 0.

    All of them are exact. Energies on a grid have third functional derivatives. All others are polynomials of second
    degree in the density matrix, so their matrices are linear in it, and their gradient along the expansion of the
    orbitals to second order in e is a polynomial of degree eight: nine points give its second derivative, whatever
    their distance.
    """

    def __init__(self, energy: KohnSham, molecule, threshold: float, C, n, kappa, s):
        self._molecule, self._threshold = molecule, threshold
        self._C, self._n, self._kappa, self._s = C, n, kappa, s
        self.z = np.zeros_like(kappa)
        self._bent = [term for term in energy.terms if term.bends]
        self._others = KohnSham(tuple(term for term in energy.terms if not term.bends))
        self._S = overlap_integrals(molecule)
        self._imaginary = self._slopes_of_imaginary_parts()

    def commutator(self) -> np.ndarray:
        """d2/de2 [F, P] (spin, mo, mo) in the orbitals at e = 0: half of the slopes of d2E/de2 by their rotations."""
        p, f = self._jets(), self._C.transpose(0, 2, 1) @ self._matrices() @ self._C
        back = self._C.transpose(0, 2, 1) @ self._S
        P_I, F_I = self._imaginary
        p_I, f_I = back @ P_I @ back.transpose(0, 2, 1), self._C.transpose(0, 2, 1) @ F_I @ self._C
        found = -2.0 * (f_I @ p_I - p_I @ f_I)
        for weight, j in ((1.0, 0), (2.0, 1), (1.0, 2)):
            found += weight * (f[2 - j] @ p[j] - p[j] @ f[2 - j])
        return found

    def gradient(self, grid_response: bool, progress) -> np.ndarray:
        """d2/de2 dE/dR (atom, 3) [hartree/bohr] of orbitals that stay orthonormal as the nuclei move."""
        P, (P_I, F_I) = self.density, self._imaginary
        weighted = np.concatenate([P[2], 2.0 * P[1], P[0], -2.0 * P_I]), np.concatenate([*self._matrices(), F_I])
        W = energy_weighted_density(self._S, *weighted, self._C[0], self._threshold)
        found = self._gradient_of_polynomials(grid_response, progress) - overlap_derivative(self._molecule, W)
        for term in self._bent:
            found += term.bent_gradient(P, grid_response, progress)
        return found

    @property
    def density(self) -> np.ndarray:
        """P, dP/de, d2P/de2 (3, spin, ao, ao) at e = 0."""
        return self._C @ self._jets() @ self._C.transpose(0, 2, 1)

    def _jets(self):
        """The same in the orbitals."""
        kappa, s, n = self._kappa, self._s, np.stack([np.diag(n) for n in self._n])
        half = (kappa @ kappa + self.z - s @ s) @ n
        second = half + half.transpose(0, 2, 1) + 2.0 * (s @ n @ s - kappa @ n @ kappa)
        return np.stack([n, kappa @ n - n @ kappa, second])

    def _matrices(self):
        """F and its first two derivatives by e, (3, spin, ao, ao)."""
        P = self.density
        constant = self._others.evaluate(np.zeros_like(P[0])).F
        linear = [self._others.evaluate(P_k).F - constant for P_k in P]
        linear[0] += constant
        return sum((term.bent_matrices(P) for term in self._bent), start=np.stack(linear))

    def _slopes_of_imaginary_parts(self):
        """P_I', F_I' (spin, ao, ao): slopes by e of the imaginary parts of density and Fock matrix."""
        halves = [C @ (s * n) @ C.T for C, s, n in zip(self._C, self._s, self._n, strict=True)]
        P_I = np.stack([half - half.T for half in halves])
        exchange, functions = self._others.of_kind(CoulombExchangeEnergy), [np.eye(len(self._S))] * len(halves)
        if not exchange.exact_exchange:
            return P_I, np.zeros_like(P_I)
        change = exchange.response(P_I, functions)([half.T[None] for half in halves], 1.0)
        return P_I, np.concatenate(change).transpose(0, 2, 1)

    def _gradient_of_polynomials(self, grid_response, progress) -> np.ndarray:
        """d2/de2 (atom, 3) of the gradient of all but the terms on a grid, at fixed density matrices."""
        norm = lambda matrices: max(np.linalg.norm(M, 2) for M in matrices)
        size = norm(self._kappa) + norm(self._s) + np.sqrt(norm(self.z))
        step, found = REACH / (SHIFTS[-1] * (size or 1.0)), 0.0
        for number, (k, weight) in enumerate(zip(SHIFTS, WEIGHTS, strict=True)):
            complex_orbitals = [C @ c for C, c in zip(self._C, self._occupied(step * k), strict=True)]
            orbitals = [np.hstack([C.real, C.imag]) for C in complex_orbitals]
            P = np.stack([C @ C.T for C in orbitals])
            for term in self._others.terms:
                given = complex_orbitals if isinstance(term, CoulombExchangeEnergy) else orbitals
                found = found + weight / step**2 * term.gradient(P, given, grid_response, Progress())
            progress.part(number + 1, len(SHIFTS))
        return np.asarray(found)

    def _occupied(self, e) -> list[np.ndarray]:
        """Per spin the expansion of complex orbitals (mo, occupied) to second order, times the roots of occupations."""
        found = []
        for kappa, s, z, n in zip(self._kappa, self._s, self.z, self._n, strict=True):
            turn = np.eye(len(n)) + e * (kappa + 1j * s) + e**2 / 2 * (kappa @ kappa + z - s @ s + 2j * kappa @ s)
            found.append(turn[:, n > 0] * np.sqrt(n[n > 0]))
        return found


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
