"""What a calculation will allocate, estimated before it does, and the leaner way where that would be too much.

Matrices, quadrature points and the three-centre tensor have to fit. Orbitals on the grid and exact two-electron
integrals are kept as far as there is room; the rest is computed again in every cycle.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dftfd.errors import ResourceError
from dftfd.runtime.resources import in_bytes
from dftfd.runtime.threads import worker_count

MATRICES = 60
"""Matrices (ao, ao) per spin: DIIS, the Fock build, a checkpoint in the making; measured, rounded up."""

WORKER_MATRICES = 4
"""Matrices (ao, ao) that a worker holds besides its share of the result: the blocks of fitted exchange."""

COMPILED = 200 * 2**20
"""Bytes of compiled programs and of what compiles them."""


class Need(NamedTuple):
    """fixed: bytes by name that are needed.   flexible: the same for what need not be kept."""

    fixed: Mapping[str, float] = {}
    flexible: Mapping[str, float] = {}


@dataclass(frozen=True)
class MemoryPlan:
    """fixed: bytes by name that are needed.   flexible: the same for what need not be kept.   budget: bytes."""

    fixed: Mapping[str, float]
    flexible: Mapping[str, float]
    budget: int

    @property
    def needed(self) -> float:
        """Bytes without which nothing can be computed."""
        return sum(self.fixed.values())

    @property
    def room(self) -> int:
        """Bytes for what need not be kept."""
        return int(self.budget - self.needed)

    def __str__(self):
        wanted = sum(self.flexible.values())
        parts = ", ".join(f"{name} {in_bytes(n)}" for name, n in (*self.fixed.items(), *self.flexible.items()))
        lean = "" if wanted <= self.room else f"; {', '.join(self.flexible)} partly computed anew in each cycle"
        return f"memory: about {in_bytes(self.needed + wanted)} ({parts}) of {in_bytes(self.budget)}{lean}"

    def require_room(self) -> None:
        """Raise ResourceError where even the leanest way takes more than the budget."""
        if self.room < 0:
            largest = max(self.fixed, key=lambda name: self.fixed[name])
            raise ResourceError(
                f"the calculation needs at least {in_bytes(self.needed)}, of which {in_bytes(self.fixed[largest])} for "
                f"{largest}; the limit is {in_bytes(self.budget)}. {ADVICE.get(largest, 'Use a smaller basis set')}, "
                "allow more by max_memory (--max-memory), or take a larger machine."
            )


ADVICE = {
    "the fitting tensor": "Use exact integrals (density_fit=False, --no-density-fit) or a smaller basis set",
    "the grid": "Use a lower grid_level",
    "all fitted integrals": "Use a smaller basis set",
    "all two-electron integrals": "Use density_fit=True or a smaller basis set",
    "all orbitals on the grid": "Use a lower grid_level or a smaller basis set",
    "compiled programs": "Nothing can be made smaller",
}


def memory_plan(n_ao: int, n_spin: int, needs: Iterable[Need], budget: int) -> MemoryPlan:
    """The plan of a calculation with n_ao basis functions whose parts need what they say."""
    fixed: dict[str, float] = {
        "compiled programs": COMPILED,
        "matrices": 8 * (MATRICES * n_spin + worker_count() * (n_spin + WORKER_MATRICES)) * n_ao**2,
    }
    flexible: dict[str, float] = {}
    for need in needs:
        for total, part in ((fixed, need.fixed), (flexible, need.flexible)):
            for name, n_bytes in part.items():
                total[name] = total.get(name, 0.0) + n_bytes
    return MemoryPlan(fixed, flexible, budget)
