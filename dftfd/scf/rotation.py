r"""Rotations of orbitals, C -> C exp(kappa) with antisymmetric kappa: gradient and Hessian of the energy.

With occupations n (a diagonal matrix) and D = [kappa, n], the density in the basis of the orbitals is
n + D + [kappa, D]/2 + ..., so that to second order

    E(kappa) = E + tr(F D) + 1/2 tr(F [kappa, D]) + 1/2 <D, F'>,      F' = response of F to D

Derivatives for a pair of orbitals, p less occupied than q, are gradient g_pq = 2 (n_q - n_p) F_pq and Hessian times
kappa (H kappa)_pq = -2 A_pq, A = ([D, F] + [n, [F, kappa]])/2 + [n, F']. It holds for any occupations, and for orbitals
that two spins share (restricted open shell) as the sum over spins. Pairs of equal occupation do not change the density
and are no variables.

Orbitals may turn into i times others, too: kappa = i s with symmetric s, D = i [s, n], and the same A with [s, n] and
F'/i. For full and empty orbitals the two Hessians are 2 n (A + B) and 2 n (A - B) of linear response theory.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from dftfd.scf.orbitals import with_positive_largest
from dftfd.scf.problem import Problem, ResponseBuilder, State


@dataclass(frozen=True, eq=False)
class Rotations:
    """The variables of one set of orbitals per spin, or of one that both spins share, in one flat vector.

    occupations: (set, spin in set, mo).   pairs: per set the indices (p, q) of variables, p less occupied than q.
    active: per set the orbitals that have electrons.
    """

    occupations: np.ndarray
    pairs: tuple[tuple[np.ndarray, ...], ...]
    active: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, problem: Problem, state: State) -> "Rotations":
        n = state.mo_occ[None] if problem.shared_orbitals else state.mo_occ[:, None]
        differs = (n[:, :, :, None] != n[:, :, None, :]).any(axis=1)
        total = n.sum(axis=1)
        less, same = total[:, :, None] < total[:, None, :], total[:, :, None] == total[:, None, :]
        pairs = differs & (less | np.tril(same, -1))
        return cls(n, tuple(map(np.nonzero, pairs)), tuple(np.flatnonzero(n_s.any(axis=0)) for n_s in n))

    @property
    def size(self) -> int:
        """Number of variables."""
        return sum(len(p) for p, _ in self.pairs)

    def flat(self, matrices) -> np.ndarray:
        """The variables' elements of (set, ..., mo, mo), as vectors (..., size)."""
        return np.concatenate([M[..., p, q] for M, (p, q) in zip(matrices, self.pairs, strict=True)], axis=-1)

    def matrices(self, x, imaginary: bool = False) -> np.ndarray:
        """kappa (set, ..., mo, mo) of vectors x (..., size): antisymmetric, or the symmetric s of kappa = i s."""
        n_sets, _, n_mo = self.occupations.shape
        kappa = np.zeros((n_sets, *x.shape[:-1], n_mo, n_mo))
        for K, (p, q), part in zip(kappa, self.pairs, self._split(x), strict=True):
            K[..., p, q] = part
            K[..., q, p] = part if imaginary else -part
        return kappa

    def _split(self, x):
        """Per set the variables of vectors (..., size)."""
        return np.split(x, np.cumsum([len(p) for p, _ in self.pairs])[:-1], axis=-1)

    def changes(self, X, C) -> list[np.ndarray]:
        """Changes dC of active orbitals, per spin (trial, active, ao), with the density's change by X (trial, size).

        dC_q = sum_p C_p x_pq (n_q - n_p); dP = sum_q dC_q C_q^T +- C_q dC_q^T of real and of imaginary rotations.
        """
        found: list[np.ndarray] = []
        for n_set, (p, q), active, part in zip(self.occupations, self.pairs, self.active, self._split(X), strict=True):
            for n in n_set:
                D = np.zeros((len(X), len(active), len(n)))
                D[:, np.searchsorted(active, q), p] = part * (n[q] - n[p])
                found.append(D @ C[len(found)].T)
        return found

    def forces(self, dF, C) -> np.ndarray:
        """-2 [n, F'] of the variables (trial, size) from F' on the active orbitals, per spin (trial, active, ao)."""
        columns, dF = [], iter(zip(dF, C, strict=True))
        for n_set, (p, q), active in zip(self.occupations, self.pairs, self.active, strict=True):
            column = 0.0
            for n, (dF_s, C_s) in zip(n_set, dF, strict=False):
                column = column + 2.0 * (n[q] - n[p]) * (dF_s @ C_s)[:, np.searchsorted(active, q), p]
            columns.append(column)
        return np.concatenate(columns, axis=-1)

    def by_set(self, spin_matrices) -> np.ndarray:
        """(spin, ...) as (set, spin in set, ...)."""
        return np.reshape(spin_matrices, (*self.occupations.shape[:2], *np.shape(spin_matrices)[1:]))


class EnergyModel:
    """Gradient, diagonal and Hessian-vector products of the energy at a state, in its `Rotations`.

    response: as of `Problem`; None leaves that part of the Hessian out.
    """

    def __init__(self, problem: Problem, state: State, response: ResponseBuilder | None):
        self.rotations = Rotations.of(problem, state)
        self._C = state.mo_coeff
        self.response: Any = response and response(state.P, self.active_orbitals())
        in_orbitals = np.stack([C.T @ F @ C for C, F in zip(state.mo_coeff, state.F, strict=True)])
        self._F = self.rotations.by_set(in_orbitals)
        n = self.rotations.occupations
        difference = n[:, :, None, :] - n[:, :, :, None]  # n_q - n_p
        self.gradient = self.rotations.flat(2.0 * np.sum(difference * self._F, axis=1))
        e = np.diagonal(self._F, axis1=2, axis2=3)
        gaps = difference * (e[:, :, :, None] - e[:, :, None, :])
        self.diagonal = self.rotations.flat(2.0 * np.sum(gaps, axis=1))

    def active_orbitals(self):
        """Per spin the orbitals with electrons, (orbital, ao)."""
        repeat = len(self._C) // len(self.rotations.active)
        active = [a for a in self.rotations.active for _ in range(repeat)]
        return [np.ascontiguousarray(C[:, a].T) for C, a in zip(self._C, active, strict=True)]

    def hessian_times(self, X, imaginary: float = 0.0) -> np.ndarray:
        """H X for vectors X (..., size), of the energy in real rotations.

        imaginary: the share of the Hessian in imaginary ones, as in (1 - imaginary) H + imaginary H_i.
        """
        trials = np.reshape(X, (-1, X.shape[-1]))
        found = self._without_response(trials, 0.0 if imaginary == 0.5 else imaginary)
        if self.response is not None:
            changes = self.response(self.rotations.changes(trials, self._C), *([imaginary] if imaginary else []))
            found += self.rotations.forces(changes, self._C)
        return found.reshape(X.shape)

    def _without_response(self, X, imaginary):
        """-2 A without F', whose commutators are of (set, spin in set, trial, mo, mo)."""
        kappa = self.rotations.matrices(X, imaginary == 1.0)[:, None]
        n, F = self.rotations.occupations[:, :, None], self._F[:, :, None]
        D = kappa * (n[..., None, :] - n[..., :, None])
        A = 0.5 * (_commutator(D, F) + (n[..., :, None] - n[..., None, :]) * _commutator(F, kappa))
        return self.rotations.flat(-2.0 * np.sum(A, axis=1))


def _commutator(A, B):
    return A @ B - B @ A


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
            C[:, members] = with_positive_largest(block @ turn)
        energies.append(e)
        coefficients.append(C)
    repeat = len(state.P) // n_sets
    mo_energy, mo_coeff = np.stack(energies * repeat), np.stack(coefficients * repeat)
    return State(state.P, state.evaluation, mo_energy, state.mo_occ, mo_coeff, state.entropy_term)


def own_orbitals(problem: Problem, state: State, among_occupied: bool = False) -> State | None:
    """The state with orbitals and orbital energies of its own Fock matrix; None where these ask for other occupations.

    Orbitals of an extrapolated or an earlier Fock matrix may make the right density and still have wrong energies.
    among_occupied: full orbitals stay full even then, as in singlet O2, whose cycles turn one degenerate orbital after
    the other into the lower one; fractions, which follow the energies, do not.
    """
    found = canonical(problem, state)
    mo_occ, _ = problem.occupy(found.mo_energy, found.mo_coeff)
    stays = among_occupied and np.array_equal(state.mo_occ, np.rint(state.mo_occ))
    return found if stays or np.array_equal(mo_occ, state.mo_occ) else None
