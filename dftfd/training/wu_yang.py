r"""The potential of a density by direct maximisation: Wu and Yang's functional of a potential.

    W[b] = T_s[P_b] + tr(P_b - P_t)(H_0 + sum_t b_t g_t) - smoothing |nabla sum_t b_t g_t|^2

P_b are the orbitals that the lowest eigenvectors of H_0 + sum_t b_t g_t make, P_t is the target. W is concave; without
smoothing it is largest where the densities agree as far as the functions g_t can tell. Its derivatives are exact:

    dW/db_t = int g_t (n_b - n_t) - 2 smoothing <nabla g_t, nabla v_b>
    d2W/db_t db_u = 2 f sum_ia <i|g_t|a><a|g_u|i> / (e_i - e_a) - 2 smoothing <nabla g_t, nabla g_u>

with f electrons in an orbital: the response of orbitals that do not feel each other, in a sum instead of an equation.

Q. Wu, W. Yang, J. Chem. Phys. 118, 2498 (2003). doi:10.1063/1.1535422. Smoothing: T. Heaton-Burgess, F. A. Bulat,
W. Yang, Phys. Rev. Lett. 98, 256401 (2007). doi:10.1103/PhysRevLett.98.256401
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from dftfd.scf.orbitals import density_matrix, diagonalise

NEGLIGIBLE = 1e-13
"""Eigenvalues of the Hessian below this share of the largest belong to potentials that the density does not feel."""

SHORTEST = 2.0**-20
"""Share of a Newton step below which none goes uphill any more."""


@dataclass(frozen=True)
class Optimum:
    """Where W of one spin is largest.

    coefficients: b (function,).   mo_energy, mo_occ: (mo,).   mo_coeff: (ao, mo).   P: (ao, ao).
    complaint: why this is not the maximum, empty where it is.
    """

    coefficients: np.ndarray
    mo_energy: np.ndarray
    mo_occ: np.ndarray
    mo_coeff: np.ndarray
    P: np.ndarray
    complaint: str


class WuYang:
    """W of one spin.

    overlaps: <m| g_t |n> (function, ao, ao).   gradients: <nabla g_t, nabla g_u> (function, function) [bohr].
    F: H_0 (ao, ao) [hartree].   X: orthonormaliser (ao, mo).   target: P_t (ao, ao).   n_occupied, capacity: orbitals
    that are filled and electrons in each.
    """

    def __init__(self, overlaps, gradients, F, X, target, n_occupied: int, capacity: int):
        self._overlaps, self._gradients = overlaps, gradients
        self._F, self._X, self._target = F, X, target
        self._n, self._capacity = n_occupied, capacity

    def optimum(self, smoothing: float, tolerance: float, max_cycles: int, start=None) -> Optimum:
        """The maximum by Newton's method from coefficients b, or where it ends, with a complaint.

        tolerance: of the gradient's largest element [e].
        """
        b = np.zeros(len(self._overlaps)) if start is None else start
        there: Any = (b, self.at(b, smoothing))
        cycle = 0
        while there is not None:
            b, (W, orbitals, P) = there
            slope = self.slope(b, P, smoothing)
            left = float(np.abs(slope).max(initial=0.0))
            if left < tolerance:
                return self._optimum(b, orbitals, P, "")
            db, rise = self._newton(orbitals, slope, smoothing)
            there = None if cycle == max_cycles else self._uphill(b, db, rise, W, smoothing)
            cycle += there is not None
        return self._optimum(b, orbitals, P, self._complaint(cycle, left, orbitals[0][0]))

    def _optimum(self, b, orbitals, P, complaint):
        (e,), (C,) = orbitals
        return Optimum(b, e, self._filling(), C, P, complaint)

    def _filling(self):
        filling = np.zeros(self._X.shape[1])
        filling[: self._n] = self._capacity
        return filling

    def at(self, b, smoothing: float) -> tuple:
        """W [hartree] at b, its orbitals (mo_energy, mo_coeff), with an axis of one spin, and their density matrix."""
        F = self._F + np.tensordot(b, self._overlaps, 1)
        orbitals = diagonalise(F[None], self._X)
        P = density_matrix(orbitals[1], self._filling()[None])[0]
        return float(np.sum((P - self._target) * F) - smoothing * b @ self._gradients @ b), orbitals, P

    def slope(self, b, P, smoothing: float) -> np.ndarray:
        """dW/db (function,) [e] where the orbitals have P."""
        felt = np.tensordot(self._overlaps, P - self._target, 2)
        return felt - 2.0 * smoothing * self._gradients @ b

    def curvature(self, orbitals, smoothing: float) -> np.ndarray:
        """-d2W/db db (function, function) [e / hartree] of orbitals as `at` has them."""
        (e,), (C,) = orbitals
        moved = C[:, : self._n].T @ self._overlaps @ C[:, self._n :]  # (function, occupied, empty)
        gaps = e[None, self._n :] - e[: self._n, None]
        moved = (moved / np.sqrt(np.maximum(gaps, np.finfo(float).tiny))).reshape(len(moved), -1)
        return 2.0 * self._capacity * moved @ moved.T + 2.0 * smoothing * self._gradients

    def _newton(self, orbitals, slope, smoothing):
        """Newton's step, and how much W would rise along it to first order."""
        values, vectors = scipy.linalg.eigh(self.curvature(orbitals, smoothing))
        felt = values > NEGLIGIBLE * values[-1]
        along = vectors[:, felt].T @ slope
        return vectors[:, felt] @ (along / values[felt]), float(along**2 @ (1.0 / values[felt]))

    def _uphill(self, b, db, rise, W, smoothing):
        """(b, what is there) as far along the step as W rises; None where it does not, beyond rounding."""
        share, noise = 1.0, 1e-14 * max(1.0, abs(W), float(np.abs(self._target * self._F).sum()))
        while share > SHORTEST:
            there = self.at(b + share * db, smoothing)
            if there[0] - W > 1e-4 * share * rise - noise:
                return b + share * db, there
            share /= 2
        return None

    def _complaint(self, cycles, left, e):
        gap = e[self._n] - e[self._n - 1] if 0 < self._n < len(e) else np.inf
        close = f"; orbitals {self._n - 1} and {self._n} are {gap:.1e} hartree apart" if gap < 1e-3 else ""
        return (
            f"the potential has not converged after {cycles} cycles: {left:.1e} electrons are left of the gradient"
            f"{close}; use more smoothing, a smaller potential basis, or more max_cycles."
        )
