"""The self-consistent field cycle.

It works on callbacks and matrices alone: `fock(P, C_occ)` returns the Fock matrices and the energy's components,
whatever they are made of. Steps and thresholds follow PySCF, so both codes stop at the same point.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Protocol

import numpy as np

from dftfd.errors import InputError, NumericalError
from dftfd.scf.diis import DIIS, commutator
from dftfd.scf.occupation import aufbau
from dftfd.scf.orbitals import density_matrix, diagonalise, occupied_orbitals, orbital_gradient_norm


class Evaluation(Protocol):
    """What the Fock callback returns: F (spin, ao, ao) and the energy's components, all in hartree."""

    F: np.ndarray
    energies: Mapping[str, float]


# fock(P, C_occ): density matrix (spin, ao, ao) and, per spin, the occupied orbitals (ao, occupied) scaled so that
# P = C_occ C_occ^T; None for the starting density, which has no orbitals.
FockBuilder = Callable[[np.ndarray, tuple | None], Evaluation]


@dataclass(frozen=True)
class Convergence:
    """When to stop: energy change below `energy` [hartree] and orbital gradient norm below sqrt(energy)."""

    energy: float = 1e-9
    max_cycles: int = 50

    def __post_init__(self):
        if not (isinstance(self.energy, Real) and np.isfinite(self.energy) and self.energy > 0):
            raise InputError(
                f"conv_tol={self.energy!r} is not an energy threshold: give a positive number, such as 1e-9."
            )
        if not (isinstance(self.max_cycles, Integral) and self.max_cycles >= 1):
            raise InputError(f"max_cycles={self.max_cycles!r}: give a whole number of at least 1.")

    @property
    def gradient(self):
        """Threshold of the orbital gradient norm [hartree]."""
        return float(np.sqrt(self.energy))

    def reached_by(self, cycle):
        """Whether a cycle meets both thresholds."""
        return abs(cycle.energy_change) < self.energy and cycle.gradient_norm < self.gradient

    def confirmed_by(self, check):
        """Whether the closing check agrees within 10 times the energy and 3 times the gradient threshold.

        PySCF asks for one of the two; with a tiny gap that lets an energy pass that is wrong by nearly 10 thresholds.
        """
        return abs(check.energy_change) < 10 * self.energy and check.gradient_norm < 3 * self.gradient


@dataclass(frozen=True)
class Cycle:
    """One line of the SCF table. Energies in hartree; number 0 is the starting density, `extra` the closing check."""

    number: int
    energy: float
    energy_change: float
    gradient_norm: float
    density_change: float
    extra: bool = False


@dataclass(frozen=True)
class State:
    """Orbitals, the density they make, and what the Fock callback said of that density."""

    P: np.ndarray
    evaluation: Evaluation
    mo_energy: np.ndarray | None = None
    mo_occ: np.ndarray | None = None
    mo_coeff: np.ndarray | None = None

    @property
    def F(self):
        """Fock matrices (spin, ao, ao) [hartree] of the density P."""
        return self.evaluation.F

    @property
    def energy(self):
        """Total energy [hartree]: the sum of the components."""
        return float(sum(self.evaluation.energies.values()))


@dataclass(frozen=True)
class Solution:
    """Where the cycle ended. `cycles` does not count closing checks."""

    state: State
    converged: bool
    cycles: int
    history: tuple[Cycle, ...]


def solve_scf(
    fock: FockBuilder,
    S,
    X,
    P,
    n_occupied,
    *,
    convergence: Convergence | None = None,
    diis_space: int = 8,
    on_cycle: Callable[[Cycle], None] = lambda cycle: None,
) -> Solution:
    """Self-consistent orbitals, starting from the density matrix P (spin, ao, ao).

    S is the overlap (ao, ao), X an orthonormaliser (ao, mo), `n_occupied` the occupied orbitals per spin. One spin is a
    restricted run with two electrons per orbital. Each cycle extrapolates the Fock matrix by DIIS, diagonalises it,
    fills the lowest orbitals and builds the Fock matrix of the new density; `on_cycle` sees each line as it is done.
    After convergence one diagonalisation without extrapolation must confirm the result; its orbitals and energy are
    returned. Where it does not, as with a nearly vanishing gap, whose response amplifies the smallest error, the cycle
    goes on with what was learned (PySCF would stop here, not converged).
    Raises NumericalError when an energy or a Fock matrix is not finite.
    """
    convergence = convergence or Convergence()
    capacity = 2 if len(n_occupied) == 1 else 1

    def step(F, number, extra=False):
        """The next state from the orbitals of F, and its line in the table."""
        new = _fill_orbitals(F, X, n_occupied, capacity, fock, number)
        gradient = orbital_gradient_norm(new.mo_coeff, new.mo_occ, new.F, capacity)
        change = float(np.linalg.norm(new.P - state.P))
        return new, Cycle(number, new.energy, new.energy - state.energy, gradient, change, extra)

    def record(cycle):
        history.append(cycle)
        on_cycle(cycle)

    state, history, diis = _checked(fock, P, None, number=0), [], DIIS(diis_space)
    record(Cycle(0, state.energy, *[float("nan")] * 3))
    for number in range(1, convergence.max_cycles + 1):
        diis = _push(diis, state, S, X)
        state, cycle = step(diis.extrapolate(), number)
        record(cycle)
        if not convergence.reached_by(cycle):
            continue
        closing, check = step(state.F, number, extra=True)
        record(check)
        if convergence.confirmed_by(check):
            return Solution(closing, True, number, tuple(history))
        diis = _push(diis, closing, S, X)
    return Solution(state, False, convergence.max_cycles, tuple(history))


def _push(diis, state, S, X):
    return diis.push(state.F, commutator(state.F, state.P, S, X))


def _fill_orbitals(F, X, n_occupied, capacity, fock, number):
    """The state whose orbitals are the lowest ones of F."""
    mo_energy, mo_coeff = diagonalise(F, X)
    mo_occ = aufbau(mo_energy, n_occupied, capacity)
    P = density_matrix(mo_coeff, mo_occ)
    return _checked(fock, P, occupied_orbitals(mo_coeff, mo_occ), number, mo_energy, mo_occ, mo_coeff)


def _checked(fock, P, C_occ, number, *orbitals):
    """The state of density P; NaN and Inf stop the run here, where their origin still has a name."""
    evaluation = fock(P, C_occ)
    for name, value in evaluation.energies.items():
        if not np.isfinite(value):
            raise NumericalError(f"SCF cycle {number}: the energy component {name!r} is {value}.")
    wrong = np.sum(~np.isfinite(evaluation.F))
    if wrong:
        raise NumericalError(f"SCF cycle {number}: the Fock matrix has {wrong} entries NaN or Inf.")
    return State(P, evaluation, *orbitals)
