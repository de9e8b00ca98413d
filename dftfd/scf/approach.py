"""A start close to the solution, from an energy that costs less: that of a coarser grid, or without double integrals.

The Fock matrix F of the full energy and F' of the cheaper one differ by a matrix that hardly changes with the density.
One full matrix, at the cheaper solution P_0, therefore corrects the cheaper problem,

    F'(P) + [F(P_0) - F'(P_0)],

whose solution is off in the second order of that change (defect correction). The full problem starts from there, with
the memory of the extrapolation: its Fock matrices and errors move by the difference of the two problems at the last
density. The converged result is that of the full problem alone.
"""

from dataclasses import dataclass, replace

import numpy as np

from dftfd.scf.convergence import Convergence
from dftfd.scf.diis import commutator
from dftfd.scf.loop import solve
from dftfd.scf.problem import FockBuilder, Problem, State

LOOSE, TIGHT = 1e-7, 1e-8
"""Energy thresholds [hartree] of the cheaper problem and of the corrected one."""

SCOUTING = 1e-5
"""Energy threshold [hartree] of the cheaper problem where several densities are tried: states differ by more."""

SMALLEST_GAP = 0.03
"""Gap [hartree] below which the order of the orbitals may depend on what is left out; no correction is tried then."""

RIVAL = 0.01
"""States whose cheaper energies are this close [hartree] to the lowest are ordered by the full energy."""

SAME_DENSITY = 0.3
"""Norm of the difference of two density matrices, in orthonormal orbitals, below which they are one state."""


@dataclass(frozen=True, eq=False)
class Approach:
    """A state of the full problem, the memory of the extrapolation, and the cycles of the cheaper problem.

    states: how many different ones the given starts led to.
    """

    state: State
    memory: dict[str, np.ndarray]
    cycles: int
    states: int = 1


def approach(cheaper: Problem, full: Problem, starts, strategy, max_cycles: int) -> Approach | None:
    """Where to start the full problem, from the lowest state that the densities `starts` (each (spin, ao, ao)) lead to.

    None where the cheaper problem does not help: if it does not converge in `max_cycles`, or, from a single start, to a
    gap that is next to nothing.
    """
    threshold = Convergence(LOOSE if len(starts) == 1 else SCOUTING, max_cycles)
    tried = [_solution(cheaper, P, {}, strategy, threshold) for P in starts]
    cycles = sum(solution.cycles for solution, _ in tried)
    found = _different([pair for pair in tried if pair[0].converged], full)
    if not found:
        return None
    (solution, memory), full_state = _lowest(found, full)
    state = solution.state
    uncorrected = None if len(starts) == 1 else Approach(full_state, {}, cycles, len(found))
    if smallest_gap(state) < SMALLEST_GAP:
        return uncorrected
    corrected = replace(cheaper, fock=_Corrected(cheaper.fock, full_state.F - state.F))
    begin = _same_orbitals(corrected, state)
    memory = _moved(memory, cheaper, state, corrected, begin)
    second, memory = _solution(corrected, begin, memory, strategy, Convergence(TIGHT, max_cycles))
    state, cycles = second.state, cycles + second.cycles
    if not second.converged or smallest_gap(state) < SMALLEST_GAP:
        return uncorrected and replace(uncorrected, cycles=cycles)
    better = _same_orbitals(full, state)
    return Approach(better, _moved(memory, corrected, state, full, better), cycles, len(found))


def _different(found, full):
    """The pairs (solution, memory) of different states, ascending in the cheaper energy."""
    kept: list[tuple] = []
    root = full.X.T @ full.S
    for pair in sorted(found, key=lambda pair: pair[0].state.energy):
        P = root @ pair[0].state.P @ root.T
        if all(np.linalg.norm(P - other) > SAME_DENSITY for _, other in kept):
            kept.append((pair, P))
    return [pair for pair, _ in kept]


def _lowest(found, full):
    """(pair, state of the full problem) of the lowest full energy among those whose cheaper energies are close."""
    limit = found[0][0].state.energy + RIVAL
    rivals = [(pair, _same_orbitals(full, pair[0].state)) for pair in found if pair[0].state.energy <= limit]
    return min(rivals, key=lambda rival: rival[1].energy)


@dataclass(frozen=True, eq=False)
class _Corrected:
    """A Fock callback with a constant matrix added to F, and its trace with P to the energy."""

    fock: FockBuilder
    shift: np.ndarray

    def __call__(self, P, C_occ):
        evaluation = self.fock(P, C_occ)
        energies = dict(evaluation.energies) | {"correction": float(np.sum(self.shift * P))}
        return replace(evaluation, F=evaluation.F + self.shift, energies=energies)  # type: ignore[type-var]  # a dataclass


def _solution(problem, start, memory, strategy, convergence):
    """(solution, memory) of an SCF that only DIIS drives."""
    snapshots: list = []
    solution = solve(
        problem,
        start,
        memory=memory,
        strategy=replace(strategy, minimiser=None, follow=False),
        convergence=convergence,
        on_snapshot=lambda snapshot: snapshots.__setitem__(slice(None), [snapshot]),
    )
    return solution, snapshots[-1].memory


def _same_orbitals(problem, state) -> State:
    return problem.state_of(state.mo_energy, state.mo_occ, state.mo_coeff, 0, state.entropy_term)


def _moved(memory, old: Problem, old_state: State, new: Problem, new_state: State) -> dict:
    """The memory of DIIS in one problem, for another that differs from it by a nearly constant Fock matrix."""
    S, X = new.S, new.X
    F_old, F_new = old.fock_of_orbitals(old_state), new.fock_of_orbitals(new_state)
    P = new_state.P if len(F_new) == len(new_state.P) else new_state.P.sum(axis=0, keepdims=True)
    shift = F_new - F_old
    return {"focks": memory["focks"] + shift, "errors": memory["errors"] + commutator(shift, P, S, X).ravel()}


def smallest_gap(state) -> float:
    """Smallest distance of an empty from an occupied orbital of the same spin [hartree]."""
    gaps = [
        e[n == 0].min(initial=np.inf) - e[n > 0].max(initial=-np.inf)
        for e, n in zip(state.mo_energy, state.mo_occ, strict=True)
    ]
    return float(min(gaps))
