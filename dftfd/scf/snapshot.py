"""An SCF between two cycles, complete enough to go on as if nothing had happened."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dftfd.scf.convergence import Cycle
from dftfd.scf.problem import State


@dataclass(frozen=True)
class Solution:
    """Where the cycle ended. `cycles` does not count closing checks.   steps: what was resorted to, in words."""

    state: State
    converged: bool
    cycles: int
    history: tuple[Cycle, ...]
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run after the last cycle of `solution.history`.

    A run that goes on from a snapshot of its DIIS cycles takes the very steps that it would have taken. One that was
    minimising starts its minimiser anew from the orbitals.

    solution: what would be the outcome if the run ended here.   lowest: the state of the lowest energy so far.
    memory: arrays of the extrapolation by name; empty where a minimiser is at work.
    minimising: whether a minimiser has taken over.
    """

    solution: Solution
    lowest: State
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)
    minimising: bool = False
