r"""Rotations of orbitals, C -> C exp(kappa) with antisymmetric kappa: gradient and Hessian of the energy.

With occupations n (a diagonal matrix) and D = [kappa, n], the density in the basis of the orbitals is
n + D + [kappa, D]/2 + ..., so that to second order

    E(kappa) = E + tr(F D) + 1/2 tr(F [kappa, D]) + 1/2 <D, F'>,      F' = response of F to D

Derivatives for p > q are gradient g_pq = 2 (n_q - n_p) F_pq and Hessian times kappa
(H kappa)_pq = -2 A_pq, A = ([D, F] + [n, [F, kappa]])/2 + [n, F']. It holds for any occupations, and for orbitals that
two spins share (restricted open shell) as the sum over spins. Pairs of equal occupation do not change the density and
are no variables.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from dftfd.scf.problem import Problem, State


@dataclass(frozen=True, eq=False)
class Rotations:
    """The variables of one set of orbitals per spin, or of one that both spins share, in one flat vector.

    occupations: (set, spin in set, mo).   pairs: per set the indices (p, q), p > q, that are variables.
    """

    occupations: np.ndarray
    pairs: tuple[tuple[np.ndarray, ...], ...]

    @classmethod
    def of(cls, problem: Problem, state: State) -> "Rotations":
        """The variables at a state."""
        n = state.mo_occ[None] if problem.shared_orbitals else state.mo_occ[:, None]
        differs = (n[:, :, :, None] != n[:, :, None, :]).any(axis=1)
        return cls(n, tuple(np.nonzero(np.tril(d, -1)) for d in differs))

    @property
    def size(self) -> int:
        """Number of variables."""
        return sum(len(p) for p, _ in self.pairs)

    def flat(self, matrices) -> np.ndarray:
        """The variables' elements of (set, mo, mo), as one vector."""
        return np.concatenate([M[pair] for M, pair in zip(matrices, self.pairs, strict=True)])

    def matrices(self, x) -> np.ndarray:
        """Antisymmetric kappa (set, mo, mo) of a vector."""
        n_sets, _, n_mo = self.occupations.shape
        kappa = np.zeros((n_sets, n_mo, n_mo))
        start = 0
        for K, (p, q) in zip(kappa, self.pairs, strict=True):
            K[p, q] = x[start : start + len(p)]
            K[q, p] = -K[p, q]
            start += len(p)
        return kappa

    def by_set(self, spin_matrices) -> np.ndarray:
        """(spin, ...) as (set, spin in set, ...)."""
        return np.reshape(spin_matrices, (*self.occupations.shape[:2], *np.shape(spin_matrices)[1:]))


class EnergyModel:
    """Gradient, diagonal and Hessian-vector products of the energy at a state, in its `Rotations`.

    response: the map dP -> dF at the state; None leaves that part of the Hessian out.
    """

    def __init__(self, problem: Problem, state: State, response: Callable | None):
        self.rotations = Rotations.of(problem, state)
        self._C = state.mo_coeff
        self._response: Any = response
        in_orbitals = np.stack([C.T @ F @ C for C, F in zip(state.mo_coeff, state.F, strict=True)])
        self._F = self.rotations.by_set(in_orbitals)
        n = self.rotations.occupations
        difference = n[:, :, None, :] - n[:, :, :, None]  # n_q - n_p
        self.gradient = self.rotations.flat(2.0 * np.sum(difference * self._F, axis=1))
        e = np.diagonal(self._F, axis1=2, axis2=3)
        gaps = difference * (e[:, :, :, None] - e[:, :, None, :])
        self.diagonal = self.rotations.flat(2.0 * np.sum(gaps, axis=1))

    def hessian_times(self, x) -> np.ndarray:
        """H x."""
        kappa = self.rotations.matrices(x)[:, None]
        n, F = self.rotations.occupations, self._F
        D = kappa * (n[:, :, None, :] - n[:, :, :, None])
        A = 0.5 * (_commutator(D, F) + _with_diagonal(n, _commutator(F, kappa)))
        if self._response is not None:
            A = A + _with_diagonal(n, self._change_of_fock(D))
        return self.rotations.flat(-2.0 * np.sum(A, axis=1))

    def _change_of_fock(self, D):
        D = D.reshape(len(self._C), *D.shape[2:])
        dP = np.stack([C @ D_s @ C.T for C, D_s in zip(self._C, D, strict=True)])
        dF = self._response((dP + dP.transpose(0, 2, 1)) / 2)
        return self.rotations.by_set([C.T @ F @ C for C, F in zip(self._C, dF, strict=True)])


def _commutator(A, B):
    return A @ B - B @ A


def _with_diagonal(n, B):
    """[n, B] of a diagonal n."""
    return (n[..., :, None] - n[..., None, :]) * B


def rotated(problem: Problem, state: State, rotations: Rotations, x, number: int) -> State:
    """The state with orbitals C exp(kappa)."""
    turns = [scipy.linalg.expm(kappa) for kappa in rotations.matrices(x)]
    if problem.shared_orbitals:
        turns = turns * 2
    C = np.stack([C_s @ turn for C_s, turn in zip(state.mo_coeff, turns, strict=True)])
    return problem.state_of(state.mo_energy, state.mo_occ, C, number, state.entropy_term)


def canonical(problem: Problem, state: State) -> State:
    """The same density with orbitals that diagonalise the Fock matrix among equally occupied ones.

    Orbital energies are ascending within each group; a full group need not lie below an empty one.
    """
    energies, coefficients = [], []
    n_sets = 1 if problem.shared_orbitals else len(state.P)
    fock = problem.fock_of_orbitals(state)
    for k in range(n_sets):
        n = state.mo_occ if problem.shared_orbitals else state.mo_occ[k : k + 1]
        C, e = state.mo_coeff[k].copy(), np.empty(n.shape[1])
        for group in np.unique(n, axis=1).T:
            members = np.flatnonzero((n == group[:, None]).all(axis=0))
            block = C[:, members]
            e[members], turn = scipy.linalg.eigh(block.T @ fock[k] @ block)
            C[:, members] = block @ turn
        energies.append(e)
        coefficients.append(C)
    repeat = len(state.P) // n_sets
    mo_energy, mo_coeff = np.stack(energies * repeat), np.stack(coefficients * repeat)
    return State(state.P, state.evaluation, mo_energy, state.mo_occ, mo_coeff, state.entropy_term)
