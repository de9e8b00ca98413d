r"""Polarisabilities: the change of the dipole moment with an electric field, static and at a frequency; and theirs.

    mu_x(w) = alpha_xy(w) F_y,   alpha_xy(w) = -s r_x . R_y(w),

with matrix elements r_x of the position and the response R_y to the perturbation +y (an electron's charge is -1);
s as in LinearResponse. What is left of the equations enters squared. The first hyperpolarisability, by

    mu_x(F) = mu_x + alpha_xy F_y + 1/2 beta_xyz F_y F_z + ...,   beta_xyz = d alpha_xy / d F_z,

is a five-point difference of static polarisabilities between solutions in fields, all of them analytic.

A. D. Buckingham, Adv. Chem. Phys. 12, 107 (1967). doi:10.1002/9780470143582.ch2
"""

import warnings
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from dftfd.errors import InputWarning
from dftfd.libcint.mole import position_integrals
from dftfd.model.solved_calculation import SolvedCalculation, solution_at
from dftfd.response.differences import Differences
from dftfd.response.linear_response import LinearResponse
from dftfd.response.subspaces import driven_response
from dftfd.runtime.arguments import Kind, number
from dftfd.runtime.progress import Progress, as_progress
from dftfd.scf.convergence import Convergence

TOLERANCE, TIGHT = 1e-6, 1e-8
FIELD = 4e-3
"""Field [hartree / (e bohr)] of differences, whose error is of its fourth power."""

LARGEST_USUAL = 1.0
"""Frequency [hartree], 27 eV, above which another unit is more likely: visible light has 2 to 3 eV."""


def _frequency(value):
    omega = number(lambda x: 0 <= x < 1e4).convert(value)
    if omega > LARGEST_USUAL:
        said = f"a frequency of {omega:g} hartree, where 1 eV is 0.0367 and light of 532 nm 0.0856"
        warnings.warn(f"{said}: check the unit.", InputWarning, stacklevel=5)
    return omega


FREQUENCY = Kind("a frequency of 0.0 or more hartree", _frequency)


def polarizabilities(result: SolvedCalculation, frequencies, progress=None, tolerance=TOLERANCE) -> np.ndarray:
    """alpha (frequency, 3, 3) [bohr^3] of a result at frequencies [hartree]; see SCFResult.polarizability."""
    progress = as_progress(progress)
    r, found = position_integrals(result.molecule, 1), []
    if result.settings.options.smearing and not any(frequencies):
        with progress.stage("polarizability"):
            alpha = SmearedResponse(result, progress).polarizability(r, tolerance)
        return np.stack([(alpha + alpha.T) / 2] * len(frequencies))
    in_solvent = result.calculation.surroundings.solvent is not None
    made: dict[bool, LinearResponse] = {}
    for omega in frequencies:
        fast = bool(omega) and in_solvent
        if fast not in made:
            made[fast] = LinearResponse(result, progress=progress, fast=fast)
        response = made[fast]
        G = response.of_operators(r)
        with progress.stage("polarizability"):
            R, _ = response.solve(G, omega, tolerance)
        alpha = -response.scale * G @ R.T
        found.append((alpha + alpha.T) / 2)
    return np.stack(found)


def hyperpolarizabilities(
    result: SolvedCalculation, step: float = FIELD, progress: Any = None
) -> tuple[np.ndarray, float]:
    """Static beta (3, 3, 3) [e^3 bohr^3 / hartree^2] of a result, and by how much it was not symmetric.

    step: of fields [hartree / (e bohr)]. Raises NotConvergedError where an SCF in a field does not converge.
    """
    progress = as_progress(progress)
    differences, beta = Differences(4, step, False), np.empty((3, 3, 3))
    for z in range(3):
        with progress.stage("hyperpolarizability"):
            values = [_polarizability_in(result, z, k * step) for k in differences.shifts]
        beta[:, :, z] = differences.derivative(values)
    symmetric = np.mean([beta.transpose(order) for order in permutations(range(3))], axis=0)
    return symmetric, float(np.abs(beta - symmetric).max())


def _polarizability_in(result: SolvedCalculation, axis, strength) -> np.ndarray:
    """alpha (3, 3) with a field added along an axis."""
    surroundings = result.calculation.surroundings
    field = surroundings.electric_field + strength * np.eye(3)[axis]
    calculation = replace(result.calculation, surroundings=replace(surroundings, electric_field=field))
    thresholds = Convergence(1e-10, result.settings.options.max_cycles, 1e-9)
    there = replace(result, calculation=calculation, fock=None)
    solved = solution_at(there, result.molecule.coordinates, thresholds, Progress())
    return polarizabilities(solved, [0.0], Progress(), TIGHT)[0]


def hyper_in_words(beta) -> str:
    """A table of beta (3, 3, 3) [a.u.] with its vector part."""
    rows = ["first hyperpolarizability / (e^3 bohr^3 / hartree^2), static"]
    rows += [
        f"  {x}{y}{z} {beta['xyz'.index(x), 'xyz'.index(y), 'xyz'.index(z)] + 0.0:14.6f}"
        for x, y, z in ("xxx", "xxy", "xxz", "xyy", "xyz", "xzz", "yyy", "yyz", "yzz", "zzz")
    ]
    vector = np.einsum("xyy->x", beta)
    return "\n".join([*rows, "  sum_y beta_xyy " + "".join(f"{value + 0.0:14.6f}" for value in vector)])


def in_words(alpha, omega: float) -> str:
    """A table of alpha (3, 3) [bohr^3] with its mean and anisotropy."""
    mean = np.trace(alpha) / 3
    anisotropy = np.sqrt(1.5 * np.sum((alpha - mean * np.eye(3)) ** 2))
    rows = [f"polarizability / bohr^3 at {omega:g} hartree"]
    rows += [f"  {x} " + "".join(f"{value + 0.0:14.6f}" for value in row) for x, row in zip("xyz", alpha, strict=True)]
    return "\n".join([*rows, f"  mean {mean:.6f}, anisotropy {anisotropy:.6f}"])


MAX_PRODUCTS = 1000


class SmearedResponse:
    r"""1 + b K b of a result with smeared occupations, on vectors (trial, size): all pairs p >= q of each spin.

    UnsupportedError where a term of the energy has no response.

    The static response of smeared occupations, which move electrons between orbitals.

    The density matrix that minimises the free energy E - T S at fixed numbers of electrons follows a change dF of F by

        dP_pq = a_pq (dF_pq - delta_pq dmu),   a_pq = (n_p - n_q) / (e_p - e_q),   a_pp = n'(e_p)

    in the orbitals, with dmu so that each spin keeps its electrons. With a = -b^2 and dP_pq = b_pq u_pq, and the
    response K of the energy's terms, the equations for a perturbation h are symmetric, and positive at a minimum of the
    free energy:

        (1 + b K b) u = -b h    among the u that move no electrons in or out,   sum_p b_pp u_pp = 0

    S. de Gironcoli, Phys. Rev. B 51, 6773 (1995). doi:10.1103/PhysRevB.51.6773
    """

    is_local = True

    def __init__(self, result: SolvedCalculation, progress=None):
        result.require_converged("linear response")
        self._progress = progress or Progress()
        calculation = result.calculation
        energy = calculation.build(self._progress).energy
        energy.require_response()
        self._C = result.mo_coeff
        with self._progress.stage("response of the functional"):
            rows = [np.ascontiguousarray(C.T) for C in self._C]
            self._response = energy.orbital_response(result.density_matrix, rows)
        self._rows, self._columns = np.tril_indices(self._C.shape[2])
        # a pair p > q stands for pq and qp
        self._weight = np.where(self._rows == self._columns, 1.0, np.sqrt(2.0))
        smearing = calculation.smearing(*result.settings.options.smearing)
        b = np.sqrt(-np.stack([smearing.slopes(*spin) for spin in zip(result.mo_energy, result.mo_occ, strict=True)]))
        self._b = b[:, self._rows, self._columns]
        moved = self._b * (self._rows == self._columns)
        self._moved = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), np.finfo(float).tiny)
        self.gaps = np.ones(self._b.size)

    def real(self, X) -> np.ndarray:
        """(1 + b K b) X; of what would move electrons in or out, X itself, so that rounding of it stays harmless."""
        U = self._within(X.reshape(-1, *self._b.shape))
        D = np.zeros((*U.shape[:2], self._C.shape[2], self._C.shape[2]))
        D[:, :, self._rows, self._columns] = self._b * U / self._weight
        D = D + np.tril(D, -1).transpose(0, 1, 3, 2)
        dC = [0.5 * D[:, s] @ C.T for s, C in enumerate(self._C)]
        dF = [change @ C for change, C in zip(self._response(dC), self._C, strict=True)]
        return X + self.of_matrices(np.stack(dF, axis=1))

    imaginary = tamm_dancoff = real

    def of_matrices(self, h) -> np.ndarray:
        """b h (trial, size), without what would move electrons in or out, of h (trial, spin, mo, mo)."""
        return self._within(self._b * self._weight * h[:, :, self._rows, self._columns]).reshape(len(h), -1)

    def _within(self, u) -> np.ndarray:
        """u (trial, spin, pair) at fixed numbers of electrons."""
        return u - np.einsum("tsp,sp->ts", u, self._moved)[:, :, None] * self._moved

    def polarizability(self, r, tolerance: float) -> np.ndarray:
        """-tr(r_x dP_y) (k, k) of operators r (k, ao, ao) and the response to them."""
        in_orbitals = np.stack([np.einsum("ap,kab,bq->kpq", C, r, C, optimize=True) for C in self._C], axis=1)
        G = self.of_matrices(in_orbitals)
        u, _ = driven_response(self, G, 0.0, tolerance, MAX_PRODUCTS, self._progress.note)
        return -G @ u.T
