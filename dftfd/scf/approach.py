"""A start close to the solution, from an energy that costs less: that of a coarser grid, or without double integrals.

The Fock matrix F of the full energy and F' of the cheaper one differ by a matrix that hardly changes with the density.
One full matrix, at a density P_k, therefore corrects the cheaper problem,

    F(P_k) + [F'(P) - F'(P_k)],

whose solution P_k+1 is off by the change of that difference alone (defect correction). Each round costs one full matrix
and takes two to three digits off the full gradient. From what two full matrices have shown a round to gain, it is known
when the next would find nothing left to gain: then the corrected problem's solution is the result, with its matrix, and
its energy to second order in the last change of the density. Else the full problem goes on from the last density, where
it has not converged there, with the memory of the extrapolation: its Fock matrices and errors move by the difference of
the two problems at the last density.

K. Bohmer, P. W. Hemker, H. J. Stetter, Computing Suppl. 5, 1 (1984). doi:10.1007/978-3-7091-7023-6_1
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dftfd.scf.convergence import Convergence, Cycle
from dftfd.scf.diis import Extrapolation, commutator
from dftfd.scf.problem import Problem, State

SCOUTING = 1e-2
"""Orbital gradient [hartree] to which the cheaper problem is solved first: what is left out moves the density more."""

MEMORY = 16
"""Fock matrices that DIIS of the cheaper problem remembers, rounds before included: a cheap cycle costs little more
than its linear algebra, and a fifth fewer of them are needed than with eight."""

ROUND_GAIN = 1e-3
"""What a round is to take the full gradient down by: the corrected problem is solved as well as that."""

LEAST_GAIN, ROUNDS = 0.1, 4
"""A round that gains less than this factor is the last, and so is this one: DIIS of the full problem does better."""

SMALLEST_GAP = 0.03
"""Gap [hartree] below which the order of the orbitals may depend on what is left out; no correction is tried then."""

RIVAL = 0.01
"""States whose cheaper energies are this close [hartree] to the lowest are ordered by the full energy."""

SAME_DENSITY = 0.3
"""Norm of the difference of two density matrices, in orthonormal orbitals, below which they are one state."""


@dataclass(frozen=True, eq=False)
class Approach:
    """A state of the full problem, the memory of the extrapolation, and the table of the cheaper problem's cycles.

    change: what another round would change the full energy by [hartree], NaN where there was none: it is above its
    minimum by a multiple of the squared gradient, whose last change is known.   states: how many different ones the
    given starts led to.   corrected: whether the state's matrix and energy are those of the last corrected problem,
    whose gradient in the full one is known to be next to nothing.
    """

    state: State
    memory: dict[str, tuple]
    history: tuple[Cycle, ...]
    change: float = float("nan")
    states: int = 1
    corrected: bool = False


@dataclass(frozen=True, eq=False)
class _Found:
    """Where DIIS of a problem ended, and what it remembers."""

    problem: Problem
    state: State
    memory: dict[str, tuple]
    converged: bool


def approach(
    cheaper: Problem,
    full: Problem,
    starts,
    strategy,
    max_cycles: int,
    convergence: Convergence,
    between: Problem | None = None,
    rehearsal: Problem | None = None,
) -> Approach | None:
    """Where to start the full problem, from the lowest state that the densities `starts` (each (spin, ao, ao)) lead to.

    convergence: of the full problem; rounds end where it is far exceeded.   between: a problem that costs less than the
    full one and is closer to it than the cheaper one: one matrix of it corrects the cheaper problem first.
    rehearsal: the full problem with small errors, which takes its place in the first round.
    None where the cheaper problem does not help: if it does not converge in `max_cycles`, or, from a single start, to a
    gap that is next to nothing.
    """
    strategy = replace(strategy, diis_space=max(MEMORY, strategy.diis_space))
    table: list[Cycle] = []
    tried = [_solution(cheaper, cheaper.start(P), {}, strategy, SCOUTING, max_cycles, table) for P in starts]
    different = _different([found for found in tried if found.converged], full)
    if not different:
        return None
    first = rehearsal or full
    found, state = _lowest(different, between or first)
    if between is not None:
        if smallest_gap(found.state) < SMALLEST_GAP:
            return None
        found = _corrected_solution(cheaper, found, state, strategy, SCOUTING, max_cycles, table)
        if not found.converged:
            return None
        state = _same_orbitals(first, found.state)
    reached = None if len(starts) == 1 else Approach(state, {}, (), states=len(different))
    gradient, gain = full.gradient_norm(state), 1.0
    for _ in range(ROUNDS):
        if smallest_gap(found.state) < SMALLEST_GAP:
            return reached and replace(reached, history=tuple(table))
        target = max(ROUND_GAIN * gradient, 0.3 * convergence.far_gradient)
        found = _corrected_solution(cheaper, found, state, strategy, target, max_cycles, table)
        if not found.converged or smallest_gap(found.state) < SMALLEST_GAP:
            return reached and replace(reached, history=tuple(table))
        change = gain * (found.state.energy - state.energy)
        if gain * gradient < convergence.far_gradient and abs(change) < convergence.energy:
            return Approach(found.state, found.memory, tuple(table), change, len(different), corrected=True)
        before, state = state, _same_orbitals(full, found.state)
        before_gradient, gradient = gradient, full.gradient_norm(state)
        found = _moved(found, full, state)
        gain = min(1.0, gradient / before_gradient) if before_gradient else 0.0
        change = (state.energy - before.energy) * gain**2
        reached = Approach(state, found.memory, tuple(table), change, len(different))
        done = gradient < convergence.far_gradient and abs(reached.change) < convergence.energy
        if done or gradient > LEAST_GAIN * before_gradient:
            break
    return reached


def _corrected_solution(cheaper, found, full_state, strategy, target, max_cycles, table) -> _Found:
    """From the orbitals of `found`, of which `full_state` is made too, to those of the problem corrected there."""
    corrected = replace(cheaper, fock=_Corrected(full_state, _changes(cheaper, full_state)))
    begin = replace(found.state, evaluation=full_state.evaluation)
    memory = found.memory if found.state is full_state else _moved(found, corrected, begin).memory
    return _solution(corrected, begin, memory, strategy, target, max_cycles, table)


def _different(found, full):
    """Those of different states, ascending in the cheaper energy."""
    kept: list[tuple] = []
    root = full.X.T @ full.S
    for one in sorted(found, key=lambda one: one.state.energy):
        P = root @ one.state.P @ root.T
        if all(np.linalg.norm(P - other) > SAME_DENSITY for _, other in kept):
            kept.append((one, P))
    return [one for one, _ in kept]


def _lowest(found, full):
    """(what was found, state of the full problem) of the lowest full energy among those of close cheaper energies."""
    limit = found[0].state.energy + RIVAL
    rivals = [(one, _same_orbitals(full, one.state)) for one in found if one.state.energy <= limit]
    return min(rivals, key=lambda rival: rival[1].energy)


@dataclass(frozen=True, eq=False)
class _Corrected:
    """A Fock callback: the full matrix at a state, and what the cheaper problem says of the change from there.

    The energy, and each component of it, is that of a matrix that changes in proportion to the density.
    """

    state: State
    changes: Callable

    def __call__(self, P, C_occ):
        before: Any = self.state.evaluation
        changes, dP = self.changes(P, C_occ), P - self.state.P
        matrices = dict(before.matrices)
        energies = dict(before.energies)
        for name, V in before.matrices.items():
            if name in changes:
                matrices[name] = V + changes[name]
            energies[name] += float(np.sum((V + matrices[name]) * dP)) / 2
        F = sum(changes.values(), start=before.F)
        return replace(before, F=F, energies=energies, matrices=matrices)


def _changes(problem, state):
    """(P, C_occ) -> how much the matrices of `problem` differ from those at a state's density."""
    if problem.incremental_build is not None:
        return problem.incremental_build(state.P, state.C_occ)
    before = problem.fock(state.P, state.C_occ).matrices
    return lambda P, C_occ: {name: V - before[name] for name, V in problem.fock(P, C_occ).matrices.items()}


def _solution(problem, state, memory, strategy, target, max_cycles, table) -> _Found:
    """DIIS from a state, with what it remembers, until the orbital gradient [hartree] is below `target`.

    Its cycles are added to the table.
    """
    extrapolation, gradient = Extrapolation(problem, strategy), float("nan")
    extrapolation.restore(memory)
    for number in range(1, max_cycles + 1):
        before, state = state, problem.fill(extrapolation.next(state, gradient), number)
        gradient, change = problem.gradient_norm(state), float(np.linalg.norm(state.P - before.P))
        table.append(Cycle(len(table) + 1, state.energy, state.energy - before.energy, gradient, change))
        if gradient < target:
            return _Found(problem, state, extrapolation.entries(), True)
    return _Found(problem, state, extrapolation.entries(), False)


def _same_orbitals(problem, state) -> State:
    return problem.state_of(state.mo_energy, state.mo_occ, state.mo_coeff, 0, state.entropy_term)


def _moved(found: _Found, problem: Problem, state: State) -> _Found:
    """The same in another problem, whose matrix differs by a nearly constant one: what is remembered moves by that."""
    S, X = problem.S, problem.X
    F_old, F_new = found.problem.fock_of_orbitals(found.state), problem.fock_of_orbitals(state)
    P = state.P if len(F_new) == len(state.P) else state.P.sum(axis=0, keepdims=True)
    shift = F_new - F_old
    shifts = {"focks": shift, "errors": commutator(shift, P, S, X).ravel()}
    moved = {name: tuple(M + shifts[name] for M in found.memory[name]) for name in shifts}
    return replace(found, problem=problem, state=state, memory=found.memory | moved)


def smallest_gap(state) -> float:
    """Smallest distance of an empty from an occupied orbital of the same spin [hartree]."""
    gaps = [
        e[n == 0].min(initial=np.inf) - e[n > 0].max(initial=-np.inf)
        for e, n in zip(state.mo_energy, state.mo_occ, strict=True)
    ]
    return float(min(gaps))
