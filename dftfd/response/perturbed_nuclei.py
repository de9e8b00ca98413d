r"""Second derivatives by the nuclei from coupled-perturbed orbitals: no SCF but the first.

With C(R) = C (1 - 1/2 S^b) exp(kappa^b), in the basis of the orbitals, orbitals stay orthonormal as nucleus b moves,

    (A + B) kappa^b = -G^b,   G^b from  F^b + F'[dP_S] - 1/2 (S^b F + F S^b),   F^b = dF/dR_b at fixed P

dP_S is what the first factor does to the density. The gradient E^a - tr(W S^a) of dftfd.model.forces changes by

    H_ab = E^ab + tr(F^a dP^b) - tr(W S^ab) - tr(S^a dW^b),   E^ab = d2E/dR_a dR_b at fixed P

Terms of the energy that know their E^ab and F^a (Term.curvature) give them. Those of all others are differences of
gradients and Fock matrices at the same density, in which there is no error of an SCF, so that steps can be short; those
of five points are exact to about 1e-9. The motion of the quadrature grid is part of either.

P. Pulay, Adv. Chem. Phys. 69, 241 (1987). doi:10.1002/9780470142943.ch4
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import overlap_integrals, position_integrals
from dftfd.model.forces import energy_weighted_density
from dftfd.model.nearby import solution_at
from dftfd.model.solved_calculation import SolvedCalculation
from dftfd.properties.moments import dipole_moment
from dftfd.response.differences import Differences
from dftfd.response.linear_response import LinearResponse
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import blas_threads
from dftfd.scf.convergence import Convergence
from dftfd.scf.orbitals import occupied_orbitals

TOLERANCE = 1e-9
"""Of the coupled-perturbed equations, as a share of each perturbation: it enters to first order."""


def why_not(result: SolvedCalculation) -> str:
    """Why there are no coupled-perturbed orbitals for a result, in a sentence; empty where there are."""
    calculation = result.calculation
    if result.settings.options.smearing:
        return "smeared occupations, which move electrons between orbitals, have no response here."
    if result.mo_coeff.shape[2] < calculation.molecule.n_ao:
        return "the basis is linearly dependent: functions that are left out change as nuclei move."
    return calculation.energy(Progress()).lacks_response


def by_response(result: SolvedCalculation, differences: Differences, progress: Progress) -> dict[str, Any]:
    """hessian (atom, 3, atom, 3) and dipole_derivatives (atom, 3, 3) of a result; UnsupportedError as `why_not`."""
    if problem := why_not(result):
        raise UnsupportedError(problem)
    molecule = result.molecule
    thresholds = Convergence(1e-10, result.settings.options.max_cycles, 1e-9)
    result = solution_at(result, molecule.coordinates, thresholds, Progress())
    result.require_converged("second derivatives")
    with progress.stage("coupled-perturbed orbitals"):
        perturbed = _Perturbed(result, differences, progress)
    n = molecule.n_atoms
    H, dipoles = perturbed.hessian(), perturbed.dipole_derivatives()
    return {
        "hessian": H.reshape(n, 3, n, 3),
        "dipole_derivatives": dipoles.reshape(n, 3, 3),
        "polarizability_derivatives": None,
    }


class _Perturbed:
    """Changes of orbitals, densities and energy-weighted densities with each coordinate of the nuclei.

    Orbitals that change are those with electrons, per spin (coordinate, orbital, ao). dC: their changes times their
    occupations.   dF: what derivatives of the Fock matrices at the unperturbed density do to them.   dW: (coordinate,
    ao, ao).   skeleton: d2E/dRdR (coordinate, coordinate) at that density.
    """

    def __init__(self, result: SolvedCalculation, differences, progress):
        self._result, self._differences, self._progress = result, differences, progress
        self._molecule, self._coordinates = result.molecule, result.molecule.coordinates
        with blas_threads(1):
            self._response = LinearResponse(result, progress=progress)
            state = self._response.state
            self._C, self._n, self._P, self._F = state.mo_coeff, state.mo_occ, state.P, state.F
            self._occupied = occupied_orbitals(self._C, self._n)
            pairs = zip(self._C, self._response.active_orbitals, strict=True)
            self._active = [np.ascontiguousarray(C[:, active].T) for C, active in pairs]
            self.dS = self._along(lambda molecule: overlap_integrals(molecule))
            with progress.stage("derivatives at fixed density"):
                self.skeleton, self.dF = self._fixed_density()
            self._solve()

    def hessian(self) -> np.ndarray:
        """d2E/dRdR (coordinate, coordinate)."""
        H = self.skeleton.copy()
        for dF, dC in zip(self.dF, self.dC, strict=True):
            H += 2.0 * np.einsum("bqm,aqm->ba", dC, dF, optimize=True)
        W = self._W
        H -= self._along(lambda molecule: overlap_derivative(molecule, W).ravel())
        H -= np.stack([overlap_derivative(self._molecule, dW).ravel() for dW in self.dW])
        return H

    def dipole_derivatives(self) -> np.ndarray:
        """(coordinate, 3) [e]."""
        fixed = self._along(lambda molecule: dipole_moment(molecule, self._P))
        r = position_integrals(self._molecule, 1)
        electrons = sum(
            np.einsum("kqa,xab,qb->kx", dC, r, C, optimize=True) for dC, C in zip(self.dC, self._active, strict=True)
        )
        return fixed - 2.0 * electrons

    def _along(self, code) -> np.ndarray:
        """Derivative of code(molecule) by each coordinate, stacked."""
        found, step = [], self._differences.step
        for b in range(self._coordinates.size):
            values = []
            for k in self._differences.shifts:
                x = self._coordinates.copy()
                x[divmod(b, 3)] += k * step
                values.append(code(self._molecule.at(x)))
            found.append(self._differences.derivative(values))
            self._progress.part(b + 1, self._coordinates.size)
        return np.stack(found)

    def _fixed_density(self):
        """`skeleton` and `dF`: the sum of the terms' own second derivatives and of differences of first ones."""
        P, C_occ, n = self._P, self._occupied, self._coordinates.size
        terms = self._response.energy.terms
        known = [term.curvature(P, C_occ, self._active, self._progress) for term in terms]
        rest = {number for number, found in enumerate(known) if found is None}
        if rest:
            names = ", ".join(word for number in sorted(rest) for word in terms[number].components.values())
            self._progress.fact(f"by differences of gradients and Fock matrices, which takes longer: {names}")

        def first(molecule):
            """Gradient and, per spin, F on the orbitals of the terms without second derivatives."""
            energy = replace(self._result.calculation, molecule=molecule).energy_once(Progress(), rest)
            F = energy.evaluate(P, C_occ).F
            gradient = energy.gradient(P, C_occ, True, Progress())
            return np.concatenate(
                [gradient.ravel(), *((C @ F_s).ravel() for C, F_s in zip(self._active, F, strict=True))]
            )

        sizes = np.cumsum([n, *(C.size for C in self._active)])
        H, *dF = np.split(self._along(first), sizes[:-1], axis=1)
        dF = [part.reshape(n, *C.shape) for part, C in zip(dF, self._active, strict=True)]
        for found in filter(None, known):
            H = H + found.hessian.reshape(n, n)
            dF = [part + of_term.reshape(part.shape) for part, of_term in zip(dF, found.on_orbitals, strict=True)]
        return H, dF

    def _solve(self):
        """Orbitals and what follows from them."""
        response, rotations, C, dS = self._response, self._response.rotations, self._C, self.dS
        active = response.active_orbitals
        in_overlap = []
        for s, (C_s, F) in enumerate(zip(C, self._F, strict=True)):
            XF = C_s @ (C_s.T @ F)  # S^-1 F
            left, right = self._active[s] @ XF.T, self._active[s] @ dS
            in_overlap.append(0.5 * (np.matmul(left, dS) + right @ XF))
        dC_S = [self._overlap_changes(dS, s, active[s]) for s in range(len(C))]
        changes = response.fock_changes(dC_S)
        forces = [dF - part + of_S for dF, part, of_S in zip(self.dF, in_overlap, changes, strict=True)]
        R, _ = response.solve(rotations.forces(forces, C) / response.scale, 0.0, TOLERANCE)
        turned = rotations.changes(R, C)
        self.dC = [a + b for a, b in zip(dC_S, turned, strict=True)]
        dFC = [a + b for a, b in zip(self.dF, response.fock_changes(self.dC), strict=True)]
        self.dW = sum(self._weighted_changes(s, dFC[s], active[s]) for s in range(len(C)))
        self.dW = (self.dW + self.dW.transpose(0, 2, 1)) / 2

    def _overlap_changes(self, dS, s, active):
        """Changes (coordinate, active, ao) of n_q C_q that keep orbitals orthonormal."""
        C, n = self._C[s], self._n[s]
        return -0.5 * n[active][:, None] * np.einsum("kab,bq,ap,cp->kqc", dS, C[:, active], C, C, optimize=True)

    def _weighted_changes(self, s, dFC, active):
        """d(P F X) of one spin with X = S^-1, (coordinate, ao, ao); dFC: the whole dF on orbitals."""
        C, P, F, n = self._C[s], self._P[s], self._F[s], self._n[s][active]
        X, half = C @ C.T, np.einsum("kqa,qb->kab", self.dC[s], self._active[s])
        dP = half + half.transpose(0, 2, 1)
        P_dF = np.einsum("qa,q,kqb->kab", self._active[s], n, dFC, optimize=True)
        return dP @ (F @ X) + P_dF @ X - (P @ F @ X) @ self.dS @ X

    @property
    def _W(self):
        S, threshold = overlap_integrals(self._molecule), self._result.calculation.linear_dependence
        return energy_weighted_density(S, self._P, self._F, self._C[0], threshold)
