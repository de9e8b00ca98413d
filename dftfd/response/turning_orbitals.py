"""Orbitals that turn, C exp(e kappa + e^2 z / 2) exp(i e s), and second derivatives by e of what they have, at e = 0.

Those of semilocal energies come from the functional's third derivatives; those of all else are seven-point differences
at given orbitals, in which there is no error of an SCF. The differences' densities are those of orbitals, so they are
nowhere negative.
"""

import numpy as np
import scipy.linalg

from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import overlap_integrals
from dftfd.model.forces import energy_weighted_density
from dftfd.model.kohn_sham import KohnSham
from dftfd.runtime.progress import Progress
from dftfd.terms import CoulombExchangeEnergy

STEP = 0.03
"""Step of e between the points of differences."""

WEIGHTS = np.array([2.0, -27.0, 270.0, -490.0, 270.0, -27.0, 2.0]) / 180.0
SHIFTS = np.arange(-3, 4)
"""Second derivatives from seven points: error h^6 f^(8) / 560."""


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

    def commutator(self, progress) -> np.ndarray:
        """d2/de2 [F, P] (spin, mo, mo) in the orbitals at e = 0: half of the slopes of d2E/de2 by their rotations."""
        p, found = self._jets(), self._along(self._commutator, progress)
        if self._bent:
            f = self._C.transpose(0, 2, 1) @ self._bent_matrices() @ self._C
            for weight, j in ((1.0, 0), (2.0, 1), (1.0, 2)):
                found += weight * (f[2 - j] @ p[j] - p[j] @ f[2 - j])
        return found

    def gradient(self, grid_response: bool, progress) -> np.ndarray:
        """d2/de2 dE/dR (atom, 3) [hartree/bohr] of orbitals that stay orthonormal as the nuclei move."""
        found = self._along(lambda e: self._gradient(e, grid_response), progress)
        if self._bent:
            P = self.density
            weighted = np.concatenate([P[2], 2.0 * P[1], P[0]]), np.concatenate(list(self._bent_matrices()))
            found -= self._overlap_gradient(*weighted)
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

    def _along(self, values, progress) -> np.ndarray:
        """d2/de2 of values(e)."""
        found = 0.0
        for number, (k, weight) in enumerate(zip(SHIFTS, WEIGHTS, strict=True)):
            found = found + weight / STEP**2 * values(STEP * k)
            progress.part(number + 1, len(SHIFTS))
        return np.asarray(found)

    def _bent_matrices(self):
        """Matrices of the semilocal terms and their first two derivatives, (3, spin, ao, ao)."""
        return sum(term.bent_matrices(self.density) for term in self._bent)

    def _occupied(self, e) -> list[np.ndarray]:
        """Per spin complex orbitals (mo, occupied) in those at e = 0, times the roots of their occupations."""
        found = []
        for kappa, s, z, n in zip(self._kappa, self._s, self.z, self._n, strict=True):
            turn = scipy.linalg.expm(e * kappa + e**2 / 2 * z) @ scipy.linalg.expm(1j * e * s)
            found.append(turn[:, n > 0] * np.sqrt(n[n > 0]))
        return found

    def _slopes_of_imaginary_parts(self):
        """P_I', F_I' (spin, ao, ao): slopes by e of the imaginary parts of density and Fock matrix."""
        halves = [C @ (s * n) @ C.T for C, s, n in zip(self._C, self._s, self._n, strict=True)]
        P_I = np.stack([half - half.T for half in halves])
        exchange, functions = self._others.of_kind(CoulombExchangeEnergy), [np.eye(len(self._S))] * len(halves)
        if not exchange.exact_exchange:
            return P_I, np.zeros_like(P_I)
        change = exchange.response(P_I, functions)([half.T[None] for half in halves], 1.0)
        return P_I, np.concatenate(change).transpose(0, 2, 1)

    def _at(self, e):
        """P (spin, ao, ao), its complex orbitals, real ones of their parts, and F without bent terms."""
        complex_orbitals = [C @ c for C, c in zip(self._C, self._occupied(e), strict=True)]
        orbitals = [np.hstack([C.real, C.imag]) if e else C.real for C in complex_orbitals]
        P = np.stack([C @ C.T for C in orbitals])
        return P, complex_orbitals, orbitals, self._others.evaluate(P, orbitals).F

    def _commutator(self, e) -> np.ndarray:
        """[F, P] (spin, mo, mo) in the orbitals at e = 0, without bent terms."""
        F, (P_I, F_I), found = self._at(e)[3], self._imaginary, []
        for s, (C, c) in enumerate(zip(self._C, self._occupied(e), strict=True)):
            p, p_I = (c @ c.conj().T).real, C.T @ self._S @ P_I[s] @ self._S @ C
            f, f_I = C.T @ F[s] @ C, C.T @ F_I[s] @ C
            found.append(f @ p - p @ f - e**2 * (f_I @ p_I - p_I @ f_I))
        return np.stack(found)

    def _gradient(self, e, grid_response) -> np.ndarray:
        """dE/dR (atom, 3) of orthonormal orbitals at e, without bent terms."""
        P, complex_orbitals, orbitals, F = self._at(e)
        P_I, F_I = self._imaginary
        found = -self._overlap_gradient(np.concatenate([P, -(e**2) * P_I]), np.concatenate([F, F_I]))
        for term in self._others.terms:
            given = complex_orbitals if isinstance(term, CoulombExchangeEnergy) and e else orbitals
            found = found + term.gradient(P, given, grid_response, Progress())
        return found

    def _overlap_gradient(self, P, F):
        """tr(W dS/dR) (atom, 3) of products P F, which are summed."""
        return overlap_derivative(self._molecule, energy_weighted_density(self._S, P, F, self._C[0], self._threshold))
