r"""One excited state: its energy, the forces on its nuclei, its relaxed density, for any functional.

An excitation energy is the curvature of the energy E along rotations of the orbitals, real ones by R = X + Y together
with imaginary ones by L = X - Y (dftfd.response.linear_response; s is its scale):

    w = (R . (A + B) R + L . (A - B) L) / 2 = 1/(2s) d2/de2 E[C exp(e R) exp(i e L)]    at e = 0

It is stationary in R and L, but not in the orbitals C, which obey g(C) = 0. Turning them by z, too, with

    s (A + B) z = -db/dkappa,   b = d2E/de2,      C -> C exp(e R + e^2 z / 2) exp(i e L),

makes it so (the Z-vector). Then dw/dR_nuclei is 1/(2s) d2/de2 of the gradient at fixed orbitals, orthonormal as S
changes: that of dftfd.model.forces at the turned orbitals, which need not be stationary for it. So whatever has forces
and a Fock matrix has excited-state forces, quadrature grid included. Second derivatives along e are differences of
seven points; the density stays that of orbitals, so it is nowhere negative.

N. C. Handy, H. F. Schaefer III, J. Chem. Phys. 81, 5031 (1984). doi:10.1063/1.447489
F. Furche, R. Ahlrichs, J. Chem. Phys. 117, 7433 (2002). doi:10.1063/1.1508368
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from dftfd.errors import InputError, NumericalError
from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import overlap_integrals
from dftfd.model.forces import Forces, energy_weighted_density, require_energy
from dftfd.properties.moments import DEBYE, dipole_moment
from dftfd.response.linear_response import LinearResponse
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import blas_threads
from dftfd.terms import CoulombExchangeEnergy
from dftfd.xc.channels import without_exact_exchange

STEP = 0.03
"""Step of e between the points of differences."""

WEIGHTS = np.array([2.0, -27.0, 270.0, -490.0, 270.0, -27.0, 2.0]) / 180.0
SHIFTS = np.arange(-3, 4)
"""Second derivatives from seven points: error h^6 f^(8) / 560."""

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

    def __str__(self):
        table = Forces(self.forces, self.molecule.coordinates, self.molecule.symbols, self.grid_response)
        size = float(np.linalg.norm(self.dipole) * DEBYE)
        return "\n".join(
            [
                self.what,
                f"  energy {self.energy:.10f} hartree, {self.excitation_energy:.8f} above the ground state",
                "  dipole moment / (e bohr) " + "".join(f"{x + 0.0:12.6f}" for x in self.dipole) + f"  {size:.4f} D",
                str(table),
            ]
        )


class _Turned:
    """Orbitals that are turned by e R + e^2 z / 2 and i e L, and the energy's first derivatives there.

    kappa, s, z: (spin, mo, mo); antisymmetric, symmetric, antisymmetric.   C, n: orbitals and their occupations.
    """

    def __init__(self, energy, molecule, threshold: float, C, n, kappa, s):
        self.energy, self._molecule, self._threshold = energy, molecule, threshold
        self._C, self._n, self._kappa, self._s = C, n, kappa, s
        self.z = np.zeros_like(kappa)
        self._S = overlap_integrals(molecule)
        self._imaginary = self._slopes_of_imaginary_parts()

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
        exchange, functions = self.energy.of_kind(CoulombExchangeEnergy), [np.eye(len(self._S))] * len(halves)
        if not exchange.exact_exchange:
            return P_I, np.zeros_like(P_I)
        change = exchange.response(P_I, functions)([half.T[None] for half in halves], 1.0)
        return P_I, np.concatenate(change).transpose(0, 2, 1)

    def at(self, e):
        """P (spin, ao, ao), orbitals of it with parts of their own for real and imaginary ones, and F, at e."""
        complex_orbitals = [C @ c for C, c in zip(self._C, self._occupied(e), strict=True)]
        orbitals = [np.hstack([C.real, C.imag]) if e else C.real for C in complex_orbitals]
        P = np.stack([C @ C.T for C in orbitals])
        return P, complex_orbitals, orbitals, self.energy.evaluate(P, orbitals).F

    def commutator(self, e) -> np.ndarray:
        """[F, P] (spin, mo, mo) in the orbitals at e = 0: half of the energy's slopes by their rotations."""
        F, (P_I, F_I), found = self.at(e)[3], self._imaginary, []
        for s, (C, c) in enumerate(zip(self._C, self._occupied(e), strict=True)):
            p, p_I = (c @ c.conj().T).real, C.T @ self._S @ P_I[s] @ self._S @ C
            f, f_I = C.T @ F[s] @ C, C.T @ F_I[s] @ C
            found.append(f @ p - p @ f - e**2 * (f_I @ p_I - p_I @ f_I))
        return np.stack(found)

    def gradient_and_density(self, e, grid_response, progress) -> np.ndarray:
        """dE/dR of orthonormal orbitals, and P, at e in one row."""
        P, complex_orbitals, orbitals, F = self.at(e)
        P_I, F_I = self._imaginary
        both = np.concatenate([P, -(e**2) * P_I]), np.concatenate([F, F_I])
        gradient = -overlap_derivative(
            self._molecule, energy_weighted_density(self._S, *both, self._C[0], self._threshold)
        )
        for term in self.energy.terms:
            given = complex_orbitals if isinstance(term, CoulombExchangeEnergy) and e else orbitals
            gradient = gradient + term.gradient(P, given, grid_response, progress)
        return np.concatenate([gradient.ravel(), P.ravel()])


def excited_state(response: LinearResponse, R, L, what: str, grid_response: bool, progress: Any) -> ExcitedState:
    """The state of one root of a result's equations.

    response: those of the root, triplets' among them.   R, L: X + Y and X - Y (size,), R . L = 1, to first order as
    close as forces are to be.

    Raises UnsupportedError where the energy has no such derivatives, NotConvergedError at an unstable ground state.
    """
    result = response.result
    _require_derivatives(result)
    turned, scale = _turned(response, R, L, progress)
    relaxing = response if not response.triplet else LinearResponse(result, progress=progress)
    with progress.stage("relaxation of the excited state's orbitals"):
        values = []
        for number, k in enumerate(SHIFTS):
            values.append(turned.commutator(STEP * k))
            progress.part(number + 1, len(SHIFTS))
        b = 2.0 * np.tensordot(WEIGHTS, np.stack(values), 1) / STEP**2
        by_set = b.sum(axis=0, keepdims=True) if response.triplet else b
        z, _ = relaxing.solve(relaxing.rotations.flat(by_set)[None] / relaxing.scale, 0.0, TOLERANCE)
        turned.z = np.broadcast_to(relaxing.rotations.matrices(z[0]), turned.z.shape)
    rows, shape = [], turned.at(0.0)[0].shape
    with progress.stage("forces of the excited state"), blas_threads(1):
        for number, k in enumerate(SHIFTS):
            rows.append(turned.gradient_and_density(STEP * k, grid_response, Progress()))
            progress.part(number + 1, len(SHIFTS))
    total = rows[3] + np.tensordot(WEIGHTS, np.stack(rows), 1) / (2.0 * scale * STEP**2)
    if not np.isfinite(total).all():
        raise NumericalError("the excited state's forces contain NaN or Inf; look for coinciding nuclei.")
    gradient, P = np.split(total, [3 * result.molecule.n_atoms])
    w = 0.5 * float(R @ response.real(R[None])[0] + L @ response.imaginary(L[None])[0])
    P = P.reshape(shape)
    return ExcitedState(
        energy=result.energy + w,
        excitation_energy=w,
        forces=-gradient.reshape(-1, 3),
        dipole=dipole_moment(result.molecule, P),
        density_matrix=P,
        molecule=result.molecule,
        what=what,
        grid_response=grid_response,
    )


def _turned(response, R, L, progress) -> tuple[_Turned, float]:
    """The orbitals of a root, in the frame of both spins for a triplet, and the scale of vectors there."""
    calculation, state, rotations = response.result.calculation, response.state, response.rotations
    kappa, s, C, n = rotations.matrices(R), rotations.matrices(L, True), state.mo_coeff, state.mo_occ
    energy, scale = response.energy, response.scale
    if response.triplet:
        energy, scale = calculation.unrestricted().energy(progress), 2.0
        kappa, s = (np.concatenate([M, -M]) / np.sqrt(2.0) for M in (kappa, s))
        C, n = np.concatenate([C, C]), np.concatenate([n, n]) / 2.0
    return _Turned(energy, calculation.molecule, calculation.linear_dependence, C, n, kappa, s), scale


def _require_derivatives(result):
    """Raise where the energy of an excited state has no derivative by the positions of the nuclei here."""
    functional = result.functional
    require_energy(functional)
    without_exact_exchange(functional, functional.ingredients, "which has no forces on excited states")
    if not result.calculation.grid.moves:
        raise InputError("a given grid stays where it is while the nuclei move; choose a grid_level= for these forces.")
