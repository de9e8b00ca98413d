"""The self-consistent field cycle.

It works on callbacks and matrices alone: `fock(P, C_occ)` returns the Fock matrices and the energy's components,
whatever they are made of. Steps and thresholds of plain DIIS follow PySCF, so both codes stop at the same point.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dftfd.errors import CheckpointError
from dftfd.scf.convergence import STRATEGIES, Convergence, Cycle, Strategy
from dftfd.scf.diis import Extrapolation
from dftfd.scf.problem import Problem, Snapshot, Solution, State
from dftfd.scf.rotation import own_orbitals
from dftfd.scf.second_order import direct_minimisation, newton
from dftfd.scf.stability import CERTAIN, MAX_FOLLOWED, NOISE, follow_instability, look_down

SAME_ENERGY = 1e-6
"""How far [hartree] the energy of a snapshot's orbitals may be from the one that it names."""


def solve(
    problem: Problem,
    start,
    *,
    memory: Mapping[str, Sequence] | None = None,
    change: float = float("nan"),
    strategy: Strategy = STRATEGIES["diis"],
    convergence: Convergence | None = None,
    on_cycle: Callable[[Cycle], None] = lambda cycle: None,
    on_snapshot: Callable[[Snapshot], None] | None = None,
    resume: Snapshot | None = None,
    cheaper: Problem | None = None,
) -> Solution:
    """Self-consistent orbitals, starting from the density matrix P (spin, ao, ao), or where `resume` was taken.

    Each cycle extrapolates the Fock matrix, diagonalises it, fills orbitals and builds the Fock matrix of the new
    density; `on_cycle` sees each line as it is done, `on_snapshot` what it takes to go on from there. A start that is a
    state says what `change` of its energy [hartree] is to be expected, and may be the end already. After convergence
    one diagonalisation without extrapolation must confirm the result, unless the gradient is thirty times smaller
    than it has to be; its orbitals and energy are returned. Orbital energies are those of the Fock matrix of the
    returned density. Where the check fails, as with a nearly vanishing gap, whose
    response amplifies the smallest error, the cycle goes on with what was learned (PySCF would stop here, not
    converged). Where the strategy asks for it, minimisation takes over from the lowest state that was seen.
    Raises NumericalError when an energy or a Fock matrix is not finite, CheckpointError where the orbitals of `resume`
    have another energy than it says.
    """
    convergence = convergence or Convergence()
    run = _Run(problem, strategy, convergence, on_cycle, on_snapshot)
    solution = run.begin(start, memory, change) if resume is None else run.go_on(resume)
    if not solution.converged and run.hands_over:
        solution = run.minimise()
    if not solution.converged or problem.response is None:
        return solution
    if strategy.follow:
        state, converged, number, steps = follow_instability(
            problem, solution.state, convergence, solution.cycles + 1, run.record_minimisation
        )
        return Solution(state, converged, number, tuple(run.history), (*solution.steps, *steps))
    return run.look_around(solution, cheaper) if strategy.looks and cheaper is not None else solution


@dataclass
class _Run:
    """One calculation on its way: its table, its extrapolation, and the lowest state so far."""

    problem: Problem
    strategy: Strategy
    convergence: Convergence
    on_cycle: Callable
    on_snapshot: Callable | None = None
    history: list = field(default_factory=list)
    lowest: Any = None
    minimising: bool = False
    steps: tuple[str, ...] = ()

    def __post_init__(self):
        self.extrapolation = Extrapolation(self.problem, self.strategy)

    def solution(self, state, converged=False) -> Solution:
        """The outcome, were the run to end here."""
        return Solution(state, converged, self.history[-1].number, tuple(self.history), self.steps)

    def record(self, cycle, state, converged=False):
        """A line of the table is done; the run would go on from `state`."""
        self.history.append(cycle)
        self.on_cycle(cycle)
        if self.on_snapshot is not None and isinstance(state, State):
            lowest, memory = (state, {}) if self.minimising else (self.lowest, self.extrapolation.entries())
            self.on_snapshot(Snapshot(self.solution(state, converged), lowest, memory, self.minimising))

    def record_minimisation(self, cycle, state):
        """A line of a minimiser's table."""
        self.minimising = True
        self.record(cycle, state, self.convergence.reached_by(cycle))

    def begin(self, start, memory, change) -> Solution:
        """From the starting density, or a state, and what the extrapolation is to remember."""
        state, gradient = start if isinstance(start, State) else self.problem.start(start), np.nan
        if isinstance(state, State):
            self.lowest, gradient = state, self.problem.gradient_norm(state)
        self.extrapolation.restore(memory or {})
        cycle = Cycle(0, state.energy, change, gradient, np.nan)
        final = self._final(state, cycle)
        self.record(cycle, final or state, converged=final is not None)
        return self.solution(final, converged=True) if final else self.iterate(state)

    def go_on(self, snapshot) -> Solution:
        """From where the snapshot was taken, with as many cycles as a new run may have."""
        then = snapshot.solution
        self.history, self.steps = list(then.history), then.steps
        self.minimising = snapshot.minimising and self.strategy.minimiser is not None
        state = self.lowest = self._again(then.state)
        if abs(state.energy - then.state.energy) > SAME_ENERGY:
            raise CheckpointError(
                f"the checkpoint says that its orbitals have the energy {then.state.energy:.9f} hartree, in this "
                f"calculation they have {state.energy:.9f}; refused."
            )
        if then.converged or self.minimising:
            return self.solution(state, then.converged)
        if snapshot.lowest is not then.state:
            self.lowest = self._again(snapshot.lowest)
        self.extrapolation.restore(snapshot.memory)
        return self.iterate(state)

    def _again(self, state) -> State:
        """A state with its Fock matrix, from its orbitals alone."""
        return self.problem.state_of(
            state.mo_energy, state.mo_occ, state.mo_coeff, self.history[-1].number, state.entropy_term
        )

    @property
    def hands_over(self):
        """Whether it is the turn of a minimiser, and one is there; the second-order one needs the response."""
        possible = self.strategy.minimiser == "direct" or self.problem.response is not None
        return possible and (self.minimising or self.strategy.hands_over(self.history))

    def iterate(self, state) -> Solution:
        """Fixed-point cycles with extrapolation, until convergence, the turn of a minimiser or the last cycle."""
        first = self.history[-1].number
        for number in range(first, first + self.convergence.max_cycles + 1):
            if number > first:
                F = self.extrapolation.next(state, self.history[-1].gradient_norm)
                state, cycle = self._step(F, state, number)
                final = self._final(state, cycle)
                self.record(cycle, final or state, converged=final is not None)
                if final:
                    return self.solution(final, converged=True)
            cycle = self.history[-1]
            if self.convergence.reached_by(cycle) and not cycle.extra and not self.strategy.always_minimises:
                closing, check = self._step(self.problem.fock_of_orbitals(state), state, number, extra=True)
                if self.convergence.confirmed_by(check):
                    closing = own_orbitals(self.problem, closing, among_occupied=True) or closing
                    self.record(check, closing, converged=True)
                    return self.solution(closing, converged=True)
                self.extrapolation.push(closing)
                self.record(check, state)
            elif number > 0 and self.hands_over:
                break
        return self.solution(state)

    def _final(self, state, cycle) -> State | None:
        """The state with its own orbital energies where the run ends without a check; None where it goes on.

        A density that symmetry fixes has no gradient, whatever Fock matrix its orbitals come from: their energies are
        computed anew, and the run ends only if they ask for the same occupations.
        """
        ends = self.convergence.is_far_exceeded_by(cycle) and not self.strategy.always_minimises
        return own_orbitals(self.problem, state) if ends else None

    def minimise(self) -> Solution:
        """Descent from the lowest state."""
        minimiser = newton if self.strategy.minimiser == "newton" else direct_minimisation
        first = self.history[-1].number + 1
        step = f"{'second order' if minimiser is newton else 'direct minimisation'} from cycle {first}"
        self.steps = self.steps if self.minimising else (*self.steps, step)
        state, converged, number = minimiser(
            self.problem, self.lowest, self.convergence, first, self.record_minimisation
        )
        return Solution(state, converged, number, tuple(self.history), self.steps)

    def look_around(self, solution, cheaper) -> Solution:
        """The solution, or the lower one to which its instabilities lead, as the `cheaper` problem sees them."""
        for _ in range(MAX_FOLLOWED):
            value, lower = look_down(self.problem, cheaper, solution.state, solution.cycles + 1)
            if value is None or lower is None:
                break
            below = self._descend(lower, solution.state, NOISE if value > CERTAIN else self.convergence.energy)
            if below.converged and below.state.energy > solution.state.energy - NOISE:
                break
            solution, self.steps = below, (*self.steps, f"internal instability ({value:.4f} hartree) followed")
            solution = replace(solution, steps=self.steps)
            if not solution.converged:
                break
        return solution

    def _descend(self, lower, saddle, noise) -> Solution:
        """From a state below a saddle point by DIIS, or, where that climbs back by more than noise, by minimisation."""
        self.extrapolation, self.lowest = Extrapolation(self.problem, self.strategy), lower
        number, fall = self.history[-1].number + 1, lower.energy - saddle.energy
        change = float(np.linalg.norm(lower.P - saddle.P))
        self.record(Cycle(number, lower.energy, fall, self.problem.gradient_norm(lower), change), lower)
        found = self.iterate(lower)
        climbed = found.state.energy > lower.energy + noise
        return self.minimise() if (climbed or not found.converged) and self.strategy.minimiser else found

    def _step(self, F, state, number, extra=False):
        """The next state from the orbitals of F, and its line in the table."""
        new = self.problem.fill(F, number)
        if self.lowest is None or new.free_energy < self.lowest.free_energy:
            self.lowest = new
        gradient = self.problem.gradient_norm(new)
        change = float(np.linalg.norm(new.P - state.P))
        return new, Cycle(number, new.energy, new.energy - state.energy, gradient, change, extra)
