"""What terms on quadrature grids share: grids, the orbitals on them, and the derivative by the nuclei."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from dftfd.errors import UnsupportedError
from dftfd.grids.molecular import BYTES_PER_POINT, grid_points, grid_size, molecular_grid, pull_back
from dftfd.libcint.gto import component_count
from dftfd.runtime.array_types import DensityMatrix, OccupiedOrbitals
from dftfd.runtime.memory import Need
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import worker_count
from dftfd.system.molecule import Molecule
from dftfd.terms.term import Contribution, Term, no_change
from dftfd.xc.ao_store import CUTOFF, AOStore, default_block_size, mean_orbitals
from dftfd.xc.channels import ao_order
from dftfd.xc.code import shared
from dftfd.xc.gradient import BentGradientBuilder, GradientBuilder
from dftfd.xc.kernel import FunctionalKernel, Kernel
from dftfd.xc.nonlocal_kernel import NonlocalXCResponse
from dftfd.xc.transitions import Transitions, TripletKernel, equal_spins, opposite_spins

BLOCK_BUFFERS = 4
"""Buffers of the size of a block's orbitals that a worker holds while it builds the matrix."""

NEGLIGIBLE_WEIGHT = 1e-14
"""Weight [bohr^3] up to which points are left out of a gradient: in a grid of level 3 a tenth of them, which lie in the
cells of other atoms. Their part in a force is about as large."""

FORCES = 1e-8
"""Cutoff of orbitals and their slopes in a gradient: 1e-10 hartree/bohr of the forces on caffeine."""

ESTIMATE = 1e-4
"""Cutoff of orbitals on the grid of an energy that others correct."""

LEAST_WEIGHT = 1e-15
"""Weight [bohr^3] up to which points are left out of energies: in caffeine's grid of level 3 a twelfth of them, whose
weights add up to 1e-12, where an energy per volume is a few hundred hartree at most."""

NEXT_TO_A_NUCLEUS = 0.3
"""Distance [bohr] within which no point is left out: the shells next to a nucleus have weights of 1e-16, but energies
per volume of 4e3 (neon) to 1e9 hartree (radon)."""

WORTH_A_LOOK = 2**28
"""Bytes of all orbitals on a grid from which on it is counted how many of them reach its points."""


@lru_cache(maxsize=2)
def quadrature_grid(molecule, level: int) -> tuple[np.ndarray, np.ndarray]:
    """(points, weights) of a level. Those used last are kept, since cycles, forces and properties share them."""
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    return np.asarray(grid.points), np.asarray(grid.weights)


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Where terms are integrated: on the grid of a level, whose points move with the nuclei, or on points that stay.

    given: those that stay, (points (point, 3), weights (point,)), where there is no level.
    """

    level: int | None
    given: tuple[np.ndarray, np.ndarray] = (np.zeros((0, 3)), np.zeros(0))

    @property
    def moves(self) -> bool:
        """Whether the points move with the nuclei."""
        return self.level is not None

    @property
    def level_with_nuclei(self) -> int:
        """The level of a grid that moves with the nuclei."""
        if self.level is None:
            raise UnsupportedError("given grid points do not move with the nuclei; use grid_level=.")
        return self.level

    @property
    def key(self) -> int:
        """Equal for the same points of one molecule."""
        return id(self) if self.level is None else self.level

    def finer_than(self, level: int, molecule) -> bool:
        """Whether it has more points than the grid of a level."""
        return self.size(molecule) > grid_size(molecule.atomic_numbers, level)

    def in_pyscf(self, grids: str) -> dict[str, Any]:
        """Attributes of a PySCF mean field whose quadrature `grids` ('grids', 'nlcgrids') is this one."""
        if self.moves:
            return {f"{grids}.level": self.level}
        return {f"{grids}.coords": self.given[0], f"{grids}.weights": self.given[1]}

    def on(self, molecule) -> tuple[np.ndarray, np.ndarray]:
        """(points, weights) for a molecule."""
        return self.given if self.level is None else quadrature_grid(molecule, self.level)

    def points(self, molecule) -> np.ndarray:
        """Points (point, 3) for a molecule, without weights."""
        if self.level is None:
            return self.given[0]
        return grid_points(molecule.atomic_numbers, molecule.coordinates, self.level)

    def size(self, molecule) -> int:
        """The number of points, without making them."""
        return len(self.given[0]) if self.level is None else grid_size(molecule.atomic_numbers, self.level)


class GridOrbitals:
    """The orbitals of a molecule on its quadrature grids: one AO store for each grid, whichever terms ask for it.

    Terms say beforehand which order of derivatives they will need on which Quadrature, so that a grid used by several
    is stored once, to the highest order.   estimates: for an energy that others correct: values in single precision,
    and none below ESTIMATE.   rare: few matrices are expected, so that the values may not be kept.
    room, coarse_room: bytes that they may take, and those on a coarse grid beside them.
    """

    def __init__(self, molecule, progress, estimates=False, rare=False):
        self._molecule, self._progress, self._estimates, self._rare = molecule, progress, estimates, rare
        self._reserved, self._stores = {}, {}
        self.room = self.coarse_room = 0.0

    @cached_property
    def of_looks(self) -> "GridOrbitals":
        """Those on coarser grids, of energies with which responses begin: one response after the other has the same."""
        return GridOrbitals(self._molecule, self._progress)

    def reserve(self, grid, order: int, keep: bool = True) -> None:
        """Orbitals and derivatives up to `order` will be needed; keep=False: once, they go to other memory."""
        _, order_before, kept_before = self._reserved.get(grid.key, (grid, 0, True))
        self._reserved[grid.key] = grid, max(order, order_before), keep and kept_before

    def memory(self) -> Need:
        """Bytes of the grids, and of all orbitals on them, as many as reach a block of points."""
        n_ao = self._molecule.n_ao
        grids = [(grid, self.n_points(grid), order) for grid, order, _ in self._reserved.values()]
        sizes = [(n, 8 * component_count(order) * n_ao) for _, n, order in grids]
        if not sizes:
            return Need()
        points = sum(n for n, _ in sizes)
        block = default_block_size(n_ao, max(n for n, _ in sizes)) * max(per_point for _, per_point in sizes)
        fixed = BYTES_PER_POINT * points + worker_count() * BLOCK_BUFFERS * block
        values = [
            n * per_point * (self._share_near(grid, order) if n * per_point > WORTH_A_LOOK else 1.0)
            for (grid, n, order), (_, per_point) in zip(grids, sizes, strict=True)
        ]
        orbitals = {"orbitals on the grid": sum(values)}
        return Need({"the grid": fixed}, **{"later" if self._rare else "flexible": orbitals})

    def _share_near(self, grid, order) -> float:
        """The part of the orbitals that reach a block of points on average."""
        return mean_orbitals(self._molecule, grid.points(self._molecule), order) / self._molecule.n_ao

    def n_points(self, grid) -> int:
        """Number of points of a grid; zero of one that no term asked for."""
        return grid.size(self._molecule) if grid.key in self._reserved else 0

    def store(self, grid) -> AOStore:
        """The orbitals on a grid, of which as many are kept as there is room for."""
        if grid.key not in self._stores:
            _, order, keep = self._reserved[grid.key]
            with self._progress.stage("grid"):
                points, weights = grid.on(self._molecule)
                self._progress.fact(f"grid of {len(points)} points")
            if grid.moves:  # points of a user's own grid have weights of their own kind
                counting = counting_points(self._molecule, points, weights, LEAST_WEIGHT)
                points, weights = points[counting], weights[counting]
            with self._progress.stage("orbitals on the grid"):
                limit = self.room if keep else 0
                cutoff = ESTIMATE if self._estimates else CUTOFF
                precision = {"cutoff": cutoff, "single": self._estimates, "memory_limit": limit}
                store = AOStore(self._molecule, points, weights, order, **precision)
            self.room -= store.nbytes
            self._stores[grid.key] = store
        return self._stores[grid.key]


def counting_points(molecule, points: np.ndarray, weights: np.ndarray, least: float) -> np.ndarray:
    """Whether points are not to be left out (point,): by a weight above `least`, or by a nucleus next to them."""
    counting = np.abs(weights) > least
    thin = np.flatnonzero(~counting)
    distances, _ = cKDTree(molecule.coordinates).query(points[thin], distance_upper_bound=NEXT_TO_A_NUCLEUS)
    counting[thin] = np.isfinite(distances)
    return counting


def gradient_on_grid(
    molecule: Molecule,
    kernel: Kernel,
    grid: Quadrature,
    P: DensityMatrix,
    C_occ: OccupiedOrbitals | None,
    grid_response: bool,
    progress: Progress,
    builder=GradientBuilder,
) -> np.ndarray:
    """dE/dR (atom, 3) [hartree/bohr] at fixed P of the energy of one kernel on a Quadrature."""
    points, weights = grid.on(molecule)
    counting = counting_points(molecule, points, weights, NEGLIGIBLE_WEIGHT)
    order = max(1, ao_order(kernel))  # energy densities of exact exchange move with their orbitals' slopes
    store = AOStore(molecule, points[counting], weights[counting], order, cutoff=FORCES, memory_limit=0)
    slopes = builder(kernel, store, progress.part).build(P, C_occ)
    gradient = slopes.orbitals + slopes.nuclei
    if grid.moves and grid_response:
        by_points, by_weights = np.zeros(points.shape), np.zeros(weights.shape)
        by_points[counting], by_weights[counting] = slopes.points, slopes.weights
        gradient += pull_back(
            molecule.atomic_numbers, molecule.coordinates, by_points, by_weights, grid.level_with_nuclei
        )
    return gradient


class GridEnergy(Term):
    """The energy of one kernel (xc.kernel) on a grid.

    grid: a Quadrature.   orbitals: those of the molecule on its grids; keep: see `reserve`.
    """

    def __init__(self, kernel: Kernel, molecule: Molecule, grid: Quadrature, orbitals: GridOrbitals, keep: bool = True):
        self.kernel, self.grid, self._molecule, self._orbitals = kernel, grid, molecule, orbitals
        orbitals.reserve(grid, ao_order(kernel), keep)

    @abstractmethod
    def made_on(self, store: AOStore):
        """Builder with `build(P, C_occ)` as that of dftfd.xc.matrix.XCBuilder."""

    @cached_property
    def builder(self):
        """Energy, matrix and response on the grid."""
        return self.made_on(self._orbitals.store(self.grid))

    @property
    def gradient_kernel(self):
        """The kernel that `gradient` takes derivatives of."""
        return self.kernel

    def prepare(self, progress):
        self.builder  # noqa: B018

    def evaluate(self, P, C_occ=None):
        found = self.builder.build(P, C_occ)
        (name,) = self.components
        return Contribution({name: found.energy}, {name: found.matrix}, found.n_electrons)

    def gradient(self, P, C_occ, grid_response, progress):
        return self._gradient(P, C_occ, grid_response, progress, GradientBuilder)

    def _gradient(self, P, C_occ, grid_response, progress, builder):
        kernel, molecule = self.gradient_kernel, self._molecule
        return gradient_on_grid(molecule, kernel, self.grid, P, C_occ, grid_response, progress, builder)


class FunctionalEnergy(GridEnergy):
    """That of a kernel of a functional, which has derivatives of higher order."""

    kernel: FunctionalKernel

    bends = True

    def bent_matrices(self, P):
        builder = self.builder
        found = builder.kernel.second_slopes(*builder.grid, *(builder.density(P_k) for P_k in P))
        return np.stack([builder.matrix(V) for V in (found.potential, found.change, found.second.density)])

    def bent_gradient(self, P, grid_response, progress):
        return self._gradient(P, None, grid_response, progress, BentGradientBuilder)

    def response(self, P, C, triplet=False):
        change = self._change_of_potential(self.builder.density(P), Transitions(self.builder, C), triplet)

        def respond(dC, imaginary=0.0):
            if imaginary == 1.0:  # the density does not change
                return no_change(dC)
            found = change(dC)
            return found if imaginary == 0.0 else [(1.0 - imaginary) * of_spin for of_spin in found]

        return respond

    def _change_of_potential(self, density, transitions, triplet):
        """dC -> dV C at a density (spin, channel, point)."""
        kernel = self._kernel_of_two_spins() if triplet else self.builder.kernel
        if not kernel.whole_grid:
            return transitions.change_of_potential(TripletKernel(kernel) if triplet else kernel, density)
        points, weights = self.builder.grid
        change = self._changes(kernel, points, weights, equal_spins(density) if triplet else density)
        of_one = (lambda tangent: change(opposite_spins(tangent))[:1]) if triplet else change
        return lambda dC: transitions.applied([of_one(tangent) for tangent in transitions.densities(dC)])

    def _kernel_of_two_spins(self):
        return shared(type(self.kernel), self.kernel.functional, 2)

    def _changes(self, kernel, points, weights, density) -> Callable:
        """change of the density -> change of the potential, of a kernel for a whole grid."""
        return NonlocalXCResponse(kernel, points, weights, density)
