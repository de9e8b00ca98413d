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

from dftfd.scf.diis import commutator
from dftfd.scf.loop import solve
from dftfd.scf.problem import Problem, State
from dftfd.scf.table import Convergence

LOOSE, TIGHT = 1e-7, 1e-8
"""Energy thresholds [hartree] of the cheaper problem and of the corrected one."""

SMALLEST_GAP = 0.03
"""Gap [hartree] below which the order of the orbitals may depend on what is left out; nothing is gained then."""


@dataclass(frozen=True, eq=False)
class Approach:
    """A state of the full problem, the memory of the extrapolation, and the cycles of the cheaper problem."""

    state: State
    memory: dict[str, np.ndarray]
    cycles: int


def approach(cheaper: Problem, full: Problem, P, strategy, max_cycles: int) -> Approach | None:
    """Where to start the full problem, from the density P (spin, ao, ao); None where the cheaper one does not help.

    That is if it does not converge in `max_cycles`, or to a gap that is next to nothing.
    """
    first = _solution(cheaper, P, {}, strategy, Convergence(LOOSE, max_cycles))
    if first is None:
        return None
    state, memory, cycles = first
    full_state = _same_orbitals(full, state)
    corrected = replace(cheaper, fock=_Corrected(cheaper.fock, full_state.F - state.F))
    begin = _same_orbitals(corrected, state)
    second = _solution(
        corrected,
        begin,
        _moved(memory, cheaper, state, corrected, begin),
        strategy,
        Convergence(TIGHT, max_cycles),
    )
    if second is None:
        return None
    state, memory, more_cycles = second
    full_state = _same_orbitals(full, state)
    return Approach(full_state, _moved(memory, corrected, state, full, full_state), cycles + more_cycles)


@dataclass(frozen=True, eq=False)
class _Corrected:
    """A Fock callback with a constant matrix added to F, and its trace with P to the energy."""

    fock: object
    shift: np.ndarray

    def __call__(self, P, C_occ):
        evaluation = self.fock(P, C_occ)
        energies = dict(evaluation.energies) | {"correction": float(np.sum(self.shift * P))}
        return replace(evaluation, F=evaluation.F + self.shift, energies=energies)


def _solution(problem, start, memory, strategy, convergence):
    """(state, memory, cycles) of a converged solution with a gap, else None."""
    snapshots = []
    solution = solve(
        problem,
        start,
        memory=memory,
        strategy=replace(strategy, minimiser=None, follow=False),
        convergence=convergence,
        on_snapshot=lambda snapshot: snapshots.__setitem__(slice(None), [snapshot]),
    )
    if not solution.converged or _gap(solution.state) < SMALLEST_GAP:
        return None
    return solution.state, snapshots[-1].memory, solution.cycles


def _same_orbitals(problem, state) -> State:
    return problem.state_of(state.mo_energy, state.mo_occ, state.mo_coeff, 0, state.entropy_term)


def _moved(memory, old: Problem, old_state: State, new: Problem, new_state: State) -> dict:
    """The memory of DIIS in one problem, for another that differs from it by a nearly constant Fock matrix."""
    S, X = new.S, new.X
    F_old, F_new = old.fock_of_orbitals(old_state), new.fock_of_orbitals(new_state)
    P = new_state.P if len(F_new) == len(new_state.P) else new_state.P.sum(axis=0, keepdims=True)
    shift = F_new - F_old
    return {"focks": memory["focks"] + shift, "errors": memory["errors"] + commutator(shift, P, S, X).ravel()}


def _gap(state) -> float:
    """Smallest distance of an empty from an occupied orbital of the same spin [hartree]."""
    gaps = [
        e[n == 0].min(initial=np.inf) - e[n > 0].max(initial=-np.inf)
        for e, n in zip(state.mo_energy, state.mo_occ, strict=True)
    ]
    return float(min(gaps))
