"""Extrapolation of the Fock matrix from those of earlier cycles: direct inversion in the iterative subspace.

P. Pulay, Chem. Phys. Lett. 73, 393 (1980). doi:10.1016/0009-2614(80)80396-4
P. Pulay, J. Comput. Chem. 3, 556 (1982). doi:10.1002/jcc.540030413

Energy-based DIIS: convex combinations of earlier Fock matrices, for the cycles far from convergence.

EDIIS interpolates the energy of sum_k c_k P_k, quadratic in the density,

    E(c) = sum_k c_k E_k - 1/4 sum_kl c_k c_l <P_k - P_l, F_k - F_l>

and ADIIS expands it about the last density P_n,

    E(c) = E_n + sum_k c_k <P_k - P_n, F_n> + 1/2 sum_kl c_k c_l <P_k - P_n, F_l - F_n>

both minimised over c_k >= 0, sum_k c_k = 1. (Signs and factors belong to F = dE/dP.)

K. N. Kudin, G. E. Scuseria, E. Cances, J. Chem. Phys. 116, 8255 (2002). doi:10.1063/1.1470195
X. Hu, W. Yang, J. Chem. Phys. 132, 054109 (2010). doi:10.1063/1.3304922
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.optimize

from dftfd.runtime.threads import threads_for_matrices

# Singular values of the scaled Pulay equations below this fraction of the largest are left out.
SINGULAR = 1e-13
ROUNDING = 1e-14
"""Length of an error, in units of the norm of its Fock matrix, that is rounding."""


def commutator(F, P, S, X, C_occ=None):
    """Error (spin, mo, mo): the orbital gradient X^T (F P S - S P F) X in the orthonormal basis.

    C_occ: per spin (ao, occupied) with P = C_occ C_occ^T, which saves work.
    """
    if C_occ is None:
        FPS = np.stack([X.T @ (F_s @ P_s @ S) @ X for F_s, P_s in zip(F, P, strict=True)])
    else:
        FPS = np.stack([(X.T @ (F_s @ C)) @ ((C.T @ S) @ X) for F_s, C in zip(F, C_occ, strict=True)])
    return FPS - FPS.transpose(0, 2, 1)


@dataclass(frozen=True)
class DIIS:
    """The last `space` Fock matrices and their errors, oldest first; cosines: of the angles between two errors."""

    space: int = 8
    focks: tuple = ()
    errors: tuple = ()
    lengths: np.ndarray = field(default_factory=lambda: np.zeros(0))
    cosines: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(cls, space: int, focks, errors) -> "DIIS":
        """From matrices and errors, oldest first."""
        made = cls(space)
        for F, error in zip(focks, errors, strict=True):
            made = made.push(F, error)
        return made

    def push(self, F, error):
        """The history with one more pair; the oldest one leaves when the space is full."""
        error = error.ravel()
        lengths = np.append(self.lengths, np.linalg.norm(error))
        scales = np.maximum(lengths, np.finfo(float).tiny)
        unit = error / scales[-1]
        row = np.array([e @ unit for e in (*self.errors, error)]) / scales
        cosines = np.block([[self.cosines, row[:-1, None]], [row]])
        last = slice(-self.space, None)
        focks, errors = (*self.focks, F)[last], (*self.errors, error)[last]
        return DIIS(self.space, focks, errors, lengths[last], cosines[last, last])

    def extrapolate(self):
        """The combination sum_k c_k F_k, sum_k c_k = 1, whose error sum_k c_k e_k is smallest.

        The newest F where its error is rounding: symmetry fixes the orbitals, errors tell nothing of the occupations.
        """
        if self.lengths[-1] <= ROUNDING * np.linalg.norm(self.focks[-1]):
            return self.focks[-1]
        return combination(pulay_coefficients(self.lengths, self.cosines), self.focks)


def combination(coefficients, matrices):
    """sum_k c_k M_k."""
    found, term = coefficients[0] * matrices[0], np.empty_like(matrices[0])
    for c, M in zip(coefficients[1:], matrices[1:], strict=True):
        found += np.multiply(M, c, out=term)
    return found


def pulay_coefficients(lengths, cosines):
    """Coefficients c_k that minimise |sum_k c_k e_k|^2 under sum_k c_k = 1.

    Near convergence the errors span ten orders of magnitude, so the textbook matrix <e_k|e_l> is hopelessly scaled.
    With unit vectors e_k / d_k and c_k = y_k u_k, u_k = d_min / d_k, the bordered equations

        [0  u^T] [lambda]   [1]
        [u   G ] [  y   ] = [0],      G_kl = <e_k|e_l> / (d_k d_l)

    have entries of order one whatever the errors; linearly dependent errors are handled by the pseudo-inverse.
    """
    smallest = int(np.argmin(lengths))
    if lengths[smallest] <= np.finfo(float).tiny:
        return np.eye(len(lengths))[smallest]
    u = lengths[smallest] / lengths
    bordered = np.block([[np.zeros((1, 1)), u[None, :]], [u[:, None], cosines]])
    right = np.zeros(len(u) + 1)
    right[0] = 1.0
    y = np.linalg.lstsq(bordered, right, rcond=SINGULAR)[0][1:]
    c = y * u
    return c / c.sum()


@dataclass(frozen=True)
class EnergyDIIS:
    """The last `space` energies, density and Fock matrices, oldest first. kind: 'adiis' or 'ediis'."""

    kind: str = "adiis"
    space: int = 8
    energies: tuple = ()
    densities: tuple = ()
    focks: tuple = ()

    def push(self, energy, P, F):
        """The history with one more state."""
        return replace(
            self,
            energies=(*self.energies, energy)[-self.space :],
            densities=(*self.densities, P)[-self.space :],
            focks=(*self.focks, F)[-self.space :],
        )

    def coefficients(self):
        """c_k of the minimum."""
        products = np.array([[np.sum(P * F) for F in self.focks] for P in self.densities])  # <P_k, F_l>
        if self.kind == "ediis":
            diagonal = np.diagonal(products)
            linear = np.array(self.energies) - max(self.energies)
            quadratic = -0.5 * (diagonal[:, None] + diagonal[None, :] - products - products.T)
        else:
            linear = products[:, -1] - products[-1, -1]
            quadratic = products - products[-1:, :] - products[:, -1:] + products[-1, -1]
            quadratic = (quadratic + quadratic.T) / 2
        return minimise_on_simplex(linear, quadratic)

    def extrapolate(self, matrices):
        """sum_k c_k M_k of matrices that belong to the history."""
        return combination(self.coefficients(), matrices[-len(self.focks) :])


def minimise_on_simplex(linear, quadratic):
    """The c >= 0, sum c = 1, that minimise linear . c + 1/2 c quadratic c; the best of searches from all corners."""
    n = len(linear)
    if n == 1:
        return np.ones(1)

    def value(t):
        weight = t @ t
        c = t * t / weight
        slope = linear + quadratic @ c
        gradient = 2 * t / weight * (slope - c @ slope)
        return linear @ c + 0.5 * c @ quadratic @ c, gradient

    starts = [np.ones(n), *(np.full(n, 0.1) + np.eye(n)[k] for k in range(n))]
    found = [scipy.optimize.minimize(value, t, jac=True, method="BFGS", options={"gtol": 1e-9}) for t in starts]
    t = min(found, key=lambda result: result.fun).x
    return t * t / (t @ t)


ENERGY_DIIS_ENDS = 0.1
"""Gradient norm [hartree] below which energy DIIS has done its work."""

_ENERGY_DIIS = ("energies", "densities", "focks")


class Extrapolation:
    """The Fock matrix of the next cycle: damping, energy DIIS far from the solution, commutator DIIS, level shift."""

    def __init__(self, problem, strategy):
        self._problem, self._strategy = problem, strategy
        self._diis = DIIS(strategy.diis_space)
        far = strategy.start in ("adiis", "ediis")
        self._energy_diis = EnergyDIIS(strategy.start, strategy.diis_space) if far else None
        self._previous = None

    def entries(self) -> dict[str, tuple]:
        """The memory by name, the oldest entries first."""
        named = {"focks": self._diis.focks, "errors": self._diis.errors}
        if self._energy_diis is not None:
            named |= {f"energy_diis_{name}": getattr(self._energy_diis, name) for name in _ENERGY_DIIS}
        if self._previous is not None:
            named["previous"] = (self._previous,)
        return {name: entries for name, entries in named.items() if entries}

    def restore(self, memory) -> None:
        """Take over the memory of `entries()`, or arrays of it; what is missing is learned anew."""
        entries = {name: tuple(array) for name, array in memory.items()}
        self._diis = DIIS.of(self._diis.space, entries.get("focks", ()), entries.get("errors", ()))
        self._previous = entries.get("previous", (None,))[0]
        if self._energy_diis is not None:
            found: dict[str, Any] = {name: entries.get(f"energy_diis_{name}", ()) for name in _ENERGY_DIIS}
            self._energy_diis = replace(self._energy_diis, **found)

    def push(self, state):
        """Adds a state to the history; returns its Fock matrix for orbitals."""
        S, X = self._problem.S, self._problem.X
        F = self._problem.fock_of_orbitals(state)
        if len(F) == len(state.P):
            error = commutator(F, state.P, S, X, state.C_occ)
        else:
            error = commutator(F, state.P.sum(axis=0, keepdims=True), S, X)
        self._diis = self._diis.push(F, error)
        if self._energy_diis is not None:
            self._energy_diis = self._energy_diis.push(state.free_energy, state.P, state.F)
        return F

    def next(self, state, gradient_norm):
        """What to diagonalise after `state`, whose gradient norm [hartree] is given (NaN for the first)."""
        with threads_for_matrices(len(self._problem.S)):
            F = self.push(state)
        near = gradient_norm < ENERGY_DIIS_ENDS
        if self._energy_diis is not None and not near:
            F = self._energy_diis.extrapolate(self._diis.focks)
        else:
            F = self._diis.extrapolate()
        if self._strategy.damping and self._previous is not None and not near:
            F = (1.0 - self._strategy.damping) * F + self._strategy.damping * self._previous
        self._previous = F
        return F + self._level_shift(state, len(F)) if self._strategy.level_shift else F

    def _level_shift(self, state, n_matrices):
        """Raises the orbitals that are empty in `state`: shift (S - S P S / capacity).

        V. R. Saunders, I. H. Hillier, Int. J. Quantum Chem. 7, 699 (1973). doi:10.1002/qua.560070407
        """
        S = self._problem.S
        P = state.P if n_matrices == len(state.P) else state.P.sum(axis=0, keepdims=True)
        capacity = 2.0 if n_matrices == 1 else 1.0
        return self._strategy.level_shift * (S - S @ P @ S / capacity)
