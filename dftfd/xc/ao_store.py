"""AO values and derivatives on sorted, screened blocks of grid points.

Points are sorted by a k-d tree into compact blocks of equal size. A block keeps only the shells that reach it, so its
values are a small dense array (component, ao, point), ready for matrix products. Blocks that fit under a memory limit
are kept; the others are evaluated again whenever they are asked for. Nothing goes to disk.
"""

import logging
import threading
import time
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist

from dftfd.errors import InputError
from dftfd.libcint.gto import GaussianBasis, component_count, gaussian_basis
from dftfd.runtime import memory
from dftfd.runtime.array_types import to_single
from dftfd.runtime.memory import available_memory
from dftfd.runtime.threads import share_out, worker_count

log = logging.getLogger(__name__)

BLOCK_SIZE = 1024
CUTOFF = 3e-9


@dataclass(frozen=True, eq=False)
class Block:
    """Neighbouring points and the orbitals that reach them.

    points (point, 3), weights (point,): the last block is filled up with copies of its last point at weight zero.
    aos: (ao,) indices of the significant orbitals, ascending.   shells: their shells.
    members: places of the points in the order in which they were given; shorter than `points` in the last block.
    """

    points: np.ndarray
    weights: np.ndarray
    aos: np.ndarray
    shells: np.ndarray
    members: np.ndarray


SAMPLE = 8
"""Of so many points one is looked at where the orbitals of a grid are estimated."""


class _Near:
    """The shells of a basis that reach a block of points: whose values and derivatives exceed a cutoff somewhere."""

    def __init__(self, basis: GaussianBasis, order: int, cutoff: float):
        self._reach = basis.reach(order, cutoff)
        self._atoms, of_shell = np.unique(basis.centres, axis=0, return_inverse=True)
        self._atom_of_shell = of_shell.reshape(-1)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Their numbers, ascending, for points (point, 3)."""
        distances = np.sqrt(cdist(self._atoms, points, "sqeuclidean").min(axis=1))
        return np.flatnonzero(distances[self._atom_of_shell] < self._reach)


def mean_orbitals(molecule, points: np.ndarray, order: int) -> float:
    """How many orbitals an AOStore keeps in a block of these points (point, 3), nearly: from a part of them."""
    basis, few = gaussian_basis(molecule), points[::SAMPLE]
    near = _Near(basis, order, CUTOFF)
    size = min(default_block_size(basis.n_ao, len(points)) // SAMPLE, len(few))
    counts = [len(basis.aos_of_shells(near(few[members]))) for members in sort_into_blocks(few, size)]
    return float(np.mean(counts))


def default_block_size(n_ao: int, n_points: int) -> int:
    """Points per block, one of three numbers, since kernels are compiled for each.

    A block of few orbitals takes longer to begin than to do, so it is made longer, as long as each worker has several.
    """
    for factor, largest in ((4, 32), (2, 128)):
        if n_ao <= largest and n_points >= 4 * worker_count() * factor * BLOCK_SIZE:
            return factor * BLOCK_SIZE
    return BLOCK_SIZE


def sort_into_blocks(points: np.ndarray, block_size: int) -> list[np.ndarray]:
    """Index lists of compact blocks with exactly `block_size` points each, the last one shorter.

    Recursive bisection across the longest edge of the bounding box, at a multiple of the block size.
    """
    xyz = np.ascontiguousarray(points.T)
    blocks: list[np.ndarray] = []
    pending = [np.arange(len(points))]
    while pending:
        members = pending.pop()
        if len(members) <= block_size:
            blocks.append(members)
            continue
        coordinates = xyz.take(members, axis=1)
        longest = coordinates[np.argmax(np.ptp(coordinates, axis=1))]
        middle = -(-len(members) // block_size) // 2 * block_size
        order = np.argpartition(longest, middle)
        pending += [members[order[middle:]], members[order[:middle]]]
    return blocks


class AOStore:
    """Orbital values of one basis on one grid, in blocks.

    points (point, 3) [bohr], weights (point,): the quadrature, any order, weights of either sign.
    order: highest AO derivative.   block_size: points per block, by default `default_block_size`.
    cutoff: a shell is left out of a block where its values and derivatives stay below this; 0 keeps every shell.
    memory_limit: bytes of AO values to keep; default half of the memory that is available now.
    single: values in single precision, and to 1e-12.

    Values are kept when they are first asked for, or, with `patience` set to n, when they have been asked for n times:
    to write a gigabyte that is read once costs more than to evaluate it anew.
    """

    def __init__(
        self,
        molecule,
        points,
        weights,
        order: int = 1,
        *,
        block_size: int | None = None,
        cutoff: float = CUTOFF,
        memory_limit: float | None = None,
        single: bool = False,
    ):
        start = time.perf_counter()
        points = np.asarray(points, dtype=np.float64)
        weights = np.asarray(weights, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or weights.shape != points.shape[:1] or not len(points):
            raise InputError(
                f"a grid with points {points.shape} and weights {weights.shape} was given; expected (n, 3) and (n,)."
            )
        self.basis: GaussianBasis = gaussian_basis(molecule)
        self.order = order
        self.cutoff = cutoff
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.n_points = len(points)
        block_size = block_size or default_block_size(self.n_ao, len(points))
        self.block_size = min(block_size, -(-len(points) // 8) * 8)
        self.patience = 0
        self.blocks = self._screen(points, weights)
        self._plan(available_memory() / 2 if memory_limit is None else memory_limit)
        self.build_seconds = time.perf_counter() - start
        log.debug("%s", self)

    @property
    def n_ao(self) -> int:
        return self.basis.n_ao

    def in_single_precision(self, cutoff: float) -> "AOStore":
        """The same blocks with other shells, those above `cutoff`, and nothing kept."""
        other = copy(self)
        other.cutoff, other.dtype, near = cutoff, np.dtype(np.float32), _Near(self.basis, self.order, cutoff)

        def screened(block):
            shells = near(block.points)
            return replace(block, aos=self.basis.aos_of_shells(shells), shells=shells)

        other.blocks = [screened(block) for block in self.blocks]
        other._plan(0.0)
        return other

    @property
    def nbytes(self) -> int:
        """Bytes of the values that are kept, or will be."""
        return int(self._starts[self._n_kept]) * self.dtype.itemsize

    @property
    def total_nbytes(self) -> int:
        """Bytes that all values would take."""
        return sum(self._value_counts()) * self.dtype.itemsize

    def __str__(self) -> str:
        mean = np.mean([len(block.aos) for block in self.blocks])
        kept, total = self.nbytes / 1e9, self.total_nbytes / 1e9
        return (
            f"AO store: {self.n_points} points in {len(self.blocks)} blocks of {self.block_size}, "
            f"{mean:.1f} of {self.n_ao} orbitals per block, {kept:.2f} of {total:.2f} GB kept; "
            f"{self.build_seconds:.2f} s"
        )

    def values(self, index: int, scratch: np.ndarray) -> np.ndarray:
        """Orbital values of one block, (component, ao, point).

        scratch: flat array of at least `scratch_size`, used where the block is not kept.
        """
        block = self.blocks[index]
        if index >= self._n_kept:
            return self._evaluated(block, scratch)
        values = self._kept[index]
        if values is None:
            self._asked[index] += 1
            if self._asked[index] <= self.patience:
                return self._evaluated(block, scratch)
            values = self._kept[index] = self._evaluated(block, self._arena[self._starts[index] :])
        return values

    def _evaluated(self, block: Block, out: np.ndarray) -> np.ndarray:
        """Values of a block, written to the beginning of `out` (flat, of the store's precision)."""
        if self.dtype == np.float64:
            return self.basis.evaluate(block.points, self.order, block.shells, out=out)
        size = component_count(self.order) * len(block.aos) * self.block_size
        if getattr(self._wide, "values", None) is None or self._wide.values.size < size:
            self._wide.values = np.empty(size)
        values = self.basis.evaluate(block.points, self.order, block.shells, out=self._wide.values)
        return to_single(values, out[: values.size].reshape(values.shape))

    def overlap(self) -> np.ndarray:
        """Integrals of products of orbitals by the quadrature, (ao, ao): the overlap as the grid has it."""

        def part(indices):
            S = np.zeros((self.n_ao, self.n_ao))
            for index in indices:
                block = self.blocks[index]
                A = self.basis.evaluate(block.points, 0, block.shells)[0]
                S[np.ix_(block.aos, block.aos)] += (A * block.weights) @ A.T
            return S

        return sum(share_out(range(len(self.blocks)), part))

    @property
    def scratch_size(self) -> int:
        """Elements that `values` needs as scratch; zero when every block is kept."""
        return self._largest if self.patience else self._largest_not_kept

    def _value_counts(self) -> list[int]:
        return [component_count(self.order) * len(block.aos) * self.block_size for block in self.blocks]

    def _screen(self, points, weights) -> list[Block]:
        members = sort_into_blocks(points, self.block_size)
        near = _Near(self.basis, self.order, self.cutoff)

        def make(indices: np.ndarray) -> Block:
            filled, block_weights = indices, weights[indices]
            if padding := self.block_size - len(indices):
                filled, block_weights = np.pad(indices, (0, padding), mode="edge"), np.pad(block_weights, (0, padding))
            block_points = np.asfortranarray(points[filled])
            shells = near(block_points)
            return Block(block_points, block_weights, self.basis.aos_of_shells(shells), shells, indices)

        return [make(indices) for indices in members]

    def _plan(self, memory_limit: float):
        """Which blocks may be kept: as many of the first as fit."""
        sizes = self._value_counts()
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        ends = self._starts[1:] * self.dtype.itemsize
        self._n_kept = int(np.searchsorted(ends, memory_limit, side="right"))
        self._largest, self._largest_not_kept = max(sizes), max(sizes[self._n_kept :], default=0)
        self._kept: list[np.ndarray | None] = [None] * self._n_kept
        self._asked = [0] * self._n_kept
        self._lock, self._wide = threading.Lock(), threading.local()
        self.__dict__.pop("_whole", None)

    @property
    def _arena(self) -> np.ndarray:
        """Where kept values stand, one large allocation: the system backs it with huge pages, its first touch is
        several times faster."""
        with self._lock:
            if "_whole" not in self.__dict__:
                self._whole = memory.empty(int(self._starts[self._n_kept]), self.dtype)
            return self._whole
