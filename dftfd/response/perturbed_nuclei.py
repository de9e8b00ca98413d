r"""Second derivatives by the nuclei from coupled-perturbed orbitals: no SCF but the first.

With C(R) = C (1 - 1/2 S^b) exp(kappa^b), in the basis of the orbitals, orbitals stay orthonormal as nucleus b moves,

    (A + B) kappa^b = -G^b,   G^b from  F^b + F'[dP_S] - 1/2 (S^b F + F S^b),   F^b = dF/dR_b at fixed P

dP_S is what the first factor does to the density. The gradient g_a(R, P, W) of dftfd.model.forces changes by

    H_ab = d/dR_b g_a(R, P + (R - R_b) dP^b, W) - tr(S^a dW^b)

Derivatives along R_b at given densities are differences of Fock matrices and gradients, in which there is no error of
an SCF, so that steps can be short; those of five points are exact to about 1e-9. It is so for every term of the energy,
quadrature grid included.

P. Pulay, Adv. Chem. Phys. 69, 241 (1987). doi:10.1002/9780470142943.ch4
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import overlap_integrals
from dftfd.model.forces import energy_weighted_density
from dftfd.model.nearby import solution_at
from dftfd.properties.moments import dipole_moment
from dftfd.response.differences import Differences
from dftfd.response.linear_response import LinearResponse
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import blas_threads
from dftfd.scf.convergence import Convergence

TOLERANCE = 1e-9
"""Of the coupled-perturbed equations, as a share of each perturbation: it enters to first order."""


def why_not(result: Any) -> str:
    """Why there are no coupled-perturbed orbitals for a result, in a sentence; empty where there are."""
    calculation = result.calculation
    if result.settings.smearing:
        return "smeared occupations, which move electrons between orbitals, have no response here."
    if result.mo_coeff.shape[2] < calculation.molecule.n_ao:
        return "the basis is linearly dependent: functions that are left out change as nuclei move."
    return calculation.energy(Progress()).lacks_response


def by_response(result: Any, differences: Differences, progress: Any) -> dict[str, Any]:
    """hessian (atom, 3, atom, 3) and dipole_derivatives (atom, 3, 3) of a result; UnsupportedError as `why_not`."""
    if problem := why_not(result):
        raise UnsupportedError(problem)
    molecule = result.molecule
    thresholds = Convergence(1e-10, result.settings.max_cycles, 1e-9)
    result = solution_at(result, molecule.coordinates, thresholds, Progress())
    result.require_converged("second derivatives")
    with progress.stage("coupled-perturbed orbitals"):
        perturbed = _Perturbed(result, differences, progress)
    n = molecule.n_atoms
    rows = []
    with progress.stage("derivatives of the gradient"), blas_threads(1):
        for b in range(3 * n):
            rows.append(differences.derivative([perturbed.gradient_and_dipole(b, k) for k in differences.shifts]))
            rows[-1][: 3 * n] -= overlap_derivative(molecule, perturbed.dW[b]).ravel()
            progress.part(b + 1, 3 * n)
    found = np.array(rows)
    return {
        "hessian": found[:, : 3 * n].reshape(n, 3, n, 3),
        "dipole_derivatives": found[:, 3 * n :].reshape(n, 3, 3),
        "polarizability_derivatives": None,
    }


class _Perturbed:
    """Changes of orbitals, densities and energy-weighted densities with each coordinate of the nuclei.

    dC: per spin (coordinate, orbital, ao), of occupied orbitals C_occ with P = C_occ C_occ^T.   dW: (coordinate, ao,
    ao).
    """

    def __init__(self, result, differences, progress):
        self._result, self._differences, self._progress = result, differences, progress
        self._coordinates = result.molecule.coordinates
        with blas_threads(1):
            self._response = LinearResponse(result, progress=progress)
            state = self._response.state
            self._C, self._n, self._P, self._F = state.mo_coeff, state.mo_occ, state.P, state.F
            occupied = zip(self._C, self._n, strict=True)
            self._occupied = [C[:, n > 0] * np.sqrt(n[n > 0]) for C, n in occupied]
            dS = self._along(lambda molecule: overlap_integrals(molecule))
            self._solve(dS, self._along(self._fock))

    def _at(self, b, k):
        """The molecule with coordinate b shifted by k steps."""
        x = self._coordinates.copy()
        x[divmod(b, 3)] += k * self._differences.step
        return self._result.molecule.at(x)

    def _along(self, code) -> np.ndarray:
        """Derivative of code(molecule) by each coordinate, stacked."""
        found = []
        for b in range(self._coordinates.size):
            found.append(self._differences.derivative([code(self._at(b, k)) for k in self._differences.shifts]))
            self._progress.part(b + 1, self._coordinates.size)
        return np.stack(found)

    def _energy(self, molecule):
        return replace(self._result.calculation, molecule=molecule).energy(Progress())

    def _fock(self, molecule):
        """F (spin, ao, ao) of the unperturbed density at a displaced geometry."""
        return self._energy(molecule).evaluate(self._P, self._occupied).F

    def _solve(self, dS, dF):
        """Orbitals from derivatives (coordinate, ao, ao) of the overlap and (coordinate, spin, ao, ao) of F."""
        response, C = self._response, self._C
        n_spin, rotations = len(C), response.rotations
        X = C @ C.transpose(0, 2, 1)  # S^-1
        matrices = np.stack([dF[:, s] - 0.5 * (dS @ X[s] @ self._F[s] + self._F[s] @ X[s] @ dS) for s in range(n_spin)])
        active = response.active_orbitals
        dC_S = [self._overlap_changes(dS, s, active[s]) for s in range(n_spin)]
        G = response.of_matrices(matrices) + rotations.forces(response.fock_changes(dC_S), C) / response.scale
        R, _ = response.solve(G, 0.0, TOLERANCE)
        turned = rotations.changes(R, C)
        dC = [a + b for a, b in zip(dC_S, turned, strict=True)]
        dFC = response.fock_changes(dC)
        self.dC = [self._of_occupied(dC[s], s, active[s]) for s in range(n_spin)]
        self.dW = sum(self._weighted_changes(s, dS, dF[:, s], dFC[s], active[s]) for s in range(n_spin))
        self.dW = (self.dW + self.dW.transpose(0, 2, 1)) / 2

    def _overlap_changes(self, dS, s, active):
        """Changes (coordinate, active, ao) of n_q C_q that keep orbitals orthonormal."""
        C, n = self._C[s], self._n[s]
        return -0.5 * n[active][:, None] * np.einsum("kab,bq,ap,cp->kqc", dS, C[:, active], C, C, optimize=True)

    def _of_occupied(self, dC, s, active):
        """The same for the orbitals of `_occupied`, in whose norm the occupation is."""
        n = self._n[s][active]
        return dC[:, n > 0] / np.sqrt(n[n > 0])[:, None]

    def _weighted_changes(self, s, dS, dF, dFC, active):
        """d(P F X) of one spin with X = S^-1, (coordinate, ao, ao); dFC: the response's part of dF on orbitals."""
        C, P, F = self._C[s], self._P[s], self._F[s]
        X, occupied = C @ C.T, self._occupied[s]
        half = np.einsum("kqa,bq->kab", self.dC[s], occupied)
        dP = half + half.transpose(0, 2, 1)
        P_dF = P @ dF + np.einsum("aq,q,kqb->kab", C[:, active], self._n[s][active], dFC)
        return dP @ (F @ X) + P_dF @ X - (P @ F @ X) @ dS @ X

    def gradient_and_dipole(self, b, k) -> np.ndarray:
        """Gradient at fixed W, and dipole moment, at a displaced geometry with the density's first-order change."""
        molecule, shift = self._at(b, k), k * self._differences.step
        occupied = [C + shift * dC[b].T for C, dC in zip(self._occupied, self.dC, strict=True)]
        P = np.stack([C @ C.T for C in occupied])
        gradient = self._energy(molecule).gradient(P, occupied, True, Progress())
        gradient = gradient - overlap_derivative(molecule, self._W)
        return np.concatenate([gradient.ravel(), dipole_moment(molecule, P)])

    @property
    def _W(self):
        S, threshold = overlap_integrals(self._result.molecule), self._result.calculation.linear_dependence
        return energy_weighted_density(S, self._P, self._F, self._C[0], threshold)
