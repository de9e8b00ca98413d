"""The SCF cycle without a strategy, for tests of its steps."""

from collections.abc import Callable

from dftfd.scf.convergence import Convergence, Cycle, Strategy
from dftfd.scf.loop import solve
from dftfd.scf.orbitals import Aufbau
from dftfd.scf.problem import FockBuilder, Problem, Solution


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
