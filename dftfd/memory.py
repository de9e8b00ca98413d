"""What a calculation will allocate, estimated before it does, and the leaner way where that would be too much.

Matrices, quadrature points and the three-centre tensor have to fit. Orbitals on the grid and exact two-electron
integrals are kept as far as there is room; the rest is computed again in every cycle.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dftfd.ao_store import default_block_size
from dftfd.errors import ResourceError
from dftfd.grids.molecular import BYTES_PER_POINT, grid_size
from dftfd.interop.gto import component_count
from dftfd.resources import in_bytes
from dftfd.threads import worker_count

MATRICES = 60
"""Matrices (ao, ao) per spin: DIIS, the Fock build, a checkpoint in the making; measured, rounded up."""

WORKER_MATRICES = 4
"""Matrices (ao, ao) that a worker holds besides its share of the result: the blocks of fitted exchange."""

COMPILED = 200 * 2**20
"""Bytes of compiled programs and of what compiles them."""

BLOCK_BUFFERS = 6
"""Buffers of the size of a block's orbitals that a worker holds while it builds the matrix."""


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
            largest = max(self.fixed, key=self.fixed.get)
            raise ResourceError(
                f"the calculation needs at least {in_bytes(self.needed)}, of which {in_bytes(self.fixed[largest])} for "
                f"{largest}; the limit is {in_bytes(self.budget)}. {ADVICE.get(largest, 'Use a smaller basis set')}, "
                "allow more by max_memory (--max-memory), or take a larger machine."
            )


ADVICE = {
    "the fitting tensor": "Use exact integrals (density_fit=False, --no-density-fit) or a smaller basis set",
    "the grid": "Use a lower grid_level",
    "compiled programs": "Nothing can be made smaller",
}


def memory_plan(molecule, n_spin: int, grids, order: int, integrals: tuple[dict, dict], budget: int) -> MemoryPlan:
    """The plan of a calculation.

    grids: levels, or (points, weights), of its quadrature grids.   order: of the AO derivatives on them.
    integrals: what the builder of J and K will allocate, as its `memory` tells.
    """
    n_ao = molecule.n_ao
    sizes = [grid_size(molecule.atomic_numbers, g) if isinstance(g, int) else len(g[0]) for g in grids]
    block = 8 * component_count(order) * n_ao
    fixed = {
        "compiled programs": COMPILED,
        "matrices": 8 * (MATRICES * n_spin + worker_count() * (n_spin + WORKER_MATRICES)) * n_ao**2,
        **integrals[0],
    }
    flexible = dict(integrals[1])
    if sizes:
        points = default_block_size(n_ao, max(sizes))
        fixed["the grid"] = BYTES_PER_POINT * sum(sizes) + worker_count() * BLOCK_BUFFERS * points * block
        flexible["orbitals on the grid"] = sum(sizes) * block
    return MemoryPlan(fixed, flexible, budget)
