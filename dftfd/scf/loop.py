"""The self-consistent field cycle.

It works on callbacks and matrices alone: `fock(P, C_occ)` returns the Fock matrices and the energy's components,
whatever they are made of. Steps and thresholds of plain DIIS follow PySCF, so both codes stop at the same point.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dftfd.scf.diis import DIIS, commutator
from dftfd.scf.energy_diis import EnergyDIIS
from dftfd.scf.occupation import Aufbau
from dftfd.scf.problem import Evaluation, FockBuilder, Problem, State
from dftfd.scf.second_order import direct_minimisation, newton
from dftfd.scf.stability import follow_instability
from dftfd.scf.strategy import STRATEGIES, Strategy
from dftfd.scf.table import Convergence, Cycle

__all__ = ["Convergence", "Cycle", "Evaluation", "FockBuilder", "Problem", "Solution", "State", "solve", "solve_scf"]

ENERGY_DIIS_ENDS = 0.1
"""Gradient norm [hartree] below which energy DIIS has done its work."""


@dataclass(frozen=True)
class Solution:
    """Where the cycle ended. `cycles` does not count closing checks.   steps: what was resorted to, in words."""

    state: State
    converged: bool
    cycles: int
    history: tuple[Cycle, ...]
    steps: tuple[str, ...] = ()


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
    """Self-consistent orbitals of the lowest `n_occupied` orbitals per spin by plain DIIS, from P (spin, ao, ao).

    S is the overlap (ao, ao), X an orthonormaliser (ao, mo). One spin is a restricted run with two electrons per
    orbital. See `solve`.
    """
    problem = Problem(fock, S, X, Aufbau(tuple(n_occupied), 2 if len(n_occupied) == 1 else 1))
    strategy = Strategy(diis_space=diis_space)
    return solve(problem, P, strategy=strategy, convergence=convergence, on_cycle=on_cycle)


def solve(
    problem: Problem,
    P,
    *,
    strategy: Strategy = STRATEGIES["diis"],
    convergence: Convergence | None = None,
    on_cycle: Callable[[Cycle], None] = lambda cycle: None,
) -> Solution:
    """Self-consistent orbitals, starting from the density matrix P (spin, ao, ao).

    Each cycle extrapolates the Fock matrix, diagonalises it, fills orbitals and builds the Fock matrix of the new
    density; `on_cycle` sees each line as it is done. After convergence one diagonalisation without extrapolation must
    confirm the result; its orbitals and energy are returned. Where it does not, as with a nearly vanishing gap, whose
    response amplifies the smallest error, the cycle goes on with what was learned (PySCF would stop here, not
    converged). Where the strategy asks for it, minimisation takes over from the lowest state that was seen.
    Raises NumericalError when an energy or a Fock matrix is not finite.
    """
    convergence = convergence or Convergence()
    run = _Run(problem, strategy, convergence, on_cycle)
    solution = run.iterate(problem.start(P))
    if not solution.converged and run.hands_over:
        solution = run.minimise()
    if strategy.follow and solution.converged and problem.response is not None:
        state, converged, number, steps = follow_instability(
            problem, solution.state, convergence, solution.cycles + 1, run.record
        )
        solution = Solution(state, converged, number, tuple(run.history), (*solution.steps, *steps))
    return solution


@dataclass
class _Run:
    """One calculation on its way: its table, and the lowest state so far."""

    problem: Problem
    strategy: Strategy
    convergence: Convergence
    on_cycle: Callable
    history: list = field(default_factory=list)
    lowest: State | None = None

    def record(self, cycle):
        self.history.append(cycle)
        self.on_cycle(cycle)

    @property
    def hands_over(self):
        """Whether it is the turn of a minimiser, and one is there; the second-order one needs the response."""
        possible = self.strategy.minimiser == "direct" or self.problem.response is not None
        return possible and self.strategy.hands_over(self.history)

    def iterate(self, state) -> Solution:
        """Fixed-point cycles with extrapolation, until convergence, stalling or the last cycle."""
        self.record(Cycle(0, state.energy, *[float("nan")] * 3))
        extrapolation = _Extrapolation(self.problem, self.strategy)
        number = 0
        for number in range(1, self.convergence.max_cycles + 1):
            F = extrapolation.next(state, self.history[-1].gradient_norm)
            state, cycle = self._step(F, state, number)
            self.record(cycle)
            if self.convergence.reached_by(cycle) and not self.strategy.always_minimises:
                closing, check = self._step(self.problem.fock_of_orbitals(state), state, number, extra=True)
                self.record(check)
                if self.convergence.confirmed_by(check):
                    return Solution(closing, True, number, tuple(self.history))
                extrapolation.push(closing)
            elif self.hands_over:
                break
        return Solution(state, False, number, tuple(self.history))

    def minimise(self) -> Solution:
        """Descent from the lowest state."""
        minimiser = newton if self.strategy.minimiser == "newton" else direct_minimisation
        first = self.history[-1].number + 1
        state, converged, number = minimiser(self.problem, self.lowest, self.convergence, first, self.record)
        step = f"{'second order' if minimiser is newton else 'direct minimisation'} from cycle {first}"
        return Solution(state, converged, number, tuple(self.history), (step,))

    def _step(self, F, state, number, extra=False):
        """The next state from the orbitals of F, and its line in the table."""
        new = self.problem.fill(F, number)
        if self.lowest is None or new.free_energy < self.lowest.free_energy:
            self.lowest = new
        gradient = self.problem.gradient_norm(new)
        change = float(np.linalg.norm(new.P - state.P))
        return new, Cycle(number, new.energy, new.energy - state.energy, gradient, change, extra)


class _Extrapolation:
    """The Fock matrix of the next cycle: damping, energy DIIS far from the solution, commutator DIIS, level shift."""

    def __init__(self, problem, strategy):
        self._problem, self._strategy = problem, strategy
        self._diis = DIIS(strategy.diis_space)
        far = strategy.start in ("adiis", "ediis")
        self._energy_diis = EnergyDIIS(strategy.start, strategy.diis_space) if far else None
        self._previous = None

    def push(self, state):
        """Adds a state to the history; returns its Fock matrix for orbitals."""
        S, X = self._problem.S, self._problem.X
        F = self._problem.fock_of_orbitals(state)
        P = state.P if len(F) == len(state.P) else state.P.sum(axis=0, keepdims=True)
        self._diis = self._diis.push(F, commutator(F, P, S, X))
        if self._energy_diis is not None:
            self._energy_diis = self._energy_diis.push(state.free_energy, state.P, state.F)
        return F

    def next(self, state, gradient_norm):
        """What to diagonalise after `state`, whose gradient norm [hartree] is given (NaN for the first)."""
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
