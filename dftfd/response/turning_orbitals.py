"""Orbitals that turn, C exp(e kappa + e^2 z / 2) exp(i e s), and second derivatives by e of what they have, at e = 0.

All of them are exact. Energies on a grid have third functional derivatives. All others are polynomials of second
degree in the density matrix, so their matrices are linear in it, and their gradient along the expansion of the orbitals
to second order in e is a polynomial of degree eight: nine points give its second derivative, whatever their distance.
"""

import numpy as np

from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import overlap_integrals
from dftfd.model.forces import energy_weighted_density
from dftfd.model.kohn_sham import KohnSham
from dftfd.runtime.progress import Progress
from dftfd.terms import CoulombExchangeEnergy

WEIGHTS = np.array([-9, 128, -1008, 8064, -14350, 8064, -1008, 128, -9]) / 5040
SHIFTS = np.arange(-4, 5)
"""Second derivatives from nine points: exact for polynomials up to degree nine."""

REACH = 1.0
"""Size of the last points' turn, which rounding errors alone depend on."""


class TurningOrbitals:
    """kappa, s, z: (spin, mo, mo); antisymmetric, symmetric, antisymmetric.

    C (spin, ao, mo), n (spin, mo): orbitals at e = 0, and their occupations.   threshold: as in run_scf's
    linear_dependence.
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
