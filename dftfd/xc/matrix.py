"""Exchange-correlation energy and matrix: a lowered functional on an AO store, in one pass over the blocks.

For each block: density jet -> kernel -> contribution to the matrix. Two properties of the kernel steer the work, the
order of the jet and whether the kinetic energy density is needed; no case is made of LDA, GGA or meta-GGA.
"""

import itertools
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from dftfd.errors import InputError, NumericalError
from dftfd.libcint.gto import component_count
from dftfd.runtime import memory
from dftfd.runtime.array_types import (
    DensityMatrix,
    DensityOnGrid,
    FockMatrix,
    NumberOfElectrons,
    OccupiedOrbitals,
    Points,
    Weights,
    to_single,
)
from dftfd.runtime.threads import run_on_workers, split_evenly, worker_count
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import GRADIENT, HESSIAN, PAIRS, ROW, TAU, ao_order, without_exact_exchange
from dftfd.xc.kernel import Kernel

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class XCContribution:
    """energy [hartree], matrix = dE/dP [hartree], n_electrons: integral of the density."""

    energy: float
    matrix: FockMatrix
    n_electrons: NumberOfElectrons


class Scratch:
    """Named work arrays that are allocated once and reused: fresh large arrays cost a page fault per 4 kB."""

    def __init__(self, dtype=np.float64):
        self._flat: dict[str, np.ndarray] = {}
        self._dtype = dtype

    def __call__(self, name: str, *shape: int) -> np.ndarray:
        """An uninitialised array; valid until the next request for the same name."""
        size = math.prod(shape)
        if name not in self._flat or self._flat[name].size < size:
            self._flat[name] = memory.aligned(size, self._dtype)
        return self._flat[name][:size].reshape(shape)


def density_jet(ao, P, C, order: int, tau: bool, out: np.ndarray, scratch: Scratch) -> None:
    r"""Density, its derivatives up to `order` (0, 1, 2) and tau on a block, written to `out` (channel, point).

    n = L_0 . R_0,   n_i = 2 L_0 . R_i,   n_ij = 2 (X_0 . A_ij + L_i . R_j),   tau = 1/2 sum_i L_i . R_i

    ao: (component, ao, point), A_0 | A_i | A_ij.   P: (ao, ao), symmetric.   C: (ao, occupied) with P = C C^T, or None.
    The dot sums over orbitals; X = P A. Without C: L = X, R = A. With C: L = R = C^T A, the occupied orbitals; where
    only L_0 is needed, L_0 = C (C^T A_0) and R = A is cheaper.
    """
    _, n_ao, n_points = ao.shape
    n_left = 4 if order >= 2 or tau else 1
    if C is None:
        left, right = np.matmul(P, ao[:n_left], out=scratch("X", n_left, n_ao, n_points)), ao
        X_0 = left[0]
    else:
        orbitals = np.matmul(C.T, ao[:n_left], out=scratch("orbitals", n_left, C.shape[1], n_points))
        left = right = orbitals
        if order >= 2 or (order == 1 and not tau):
            X_0 = np.matmul(C, orbitals[0], out=scratch("X", n_ao, n_points))
        if n_left == 1 and order == 1:
            left, right = X_0[None], ao
    if order < 2:
        X_0 = None
    jet_of_products(left, right, X_0, ao, order, tau, out)


def jet_of_products(left, right, X_0, ao, order: int, tau: bool, out: np.ndarray) -> None:
    """What `density_jet` writes, from L, R and X_0 of its formulas; L and X are the same where R = A."""
    np.einsum("mp,mp->p", left[0], right[0], out=out[0])
    if order >= 1:
        np.einsum("mp,imp->ip", left[0], right[GRADIENT], out=out[GRADIENT])
        out[GRADIENT] *= 2.0
    if order >= 2:
        np.einsum("mp,jmp->jp", X_0, ao[HESSIAN], out=out[HESSIAN])
        for row, (i, j) in zip(out[HESSIAN], PAIRS, strict=True):
            row += np.einsum("mp,mp->p", left[1 + i], right[1 + j])
        out[HESSIAN] *= 2.0
    if tau:
        np.einsum("imp,imp->p", left[1:], right[GRADIENT], out=out[TAU])
        out[TAU] *= 0.5


def half_matrix(ao, potential, order: int, tau: bool, scratch: Scratch) -> np.ndarray:
    r"""M (ao, ao) of a block, whose symmetric sum M + M^T is dE/dP.

    M = A_0^T (v_0 A_0 / 2 + sum_i v_i A_i + sum_{i<=j} v_ij A_ij) + sum_i A_i^T (sum_{j>=i} v_ij A_j + v_tau A_i / 4)

    potential: (channel, point), derivative of the energy with respect to each channel of `density_jet`; v_ij with
    i < j belongs to n_ij as the one variable that stands for n_ij and n_ji.
    """
    _, n_ao, n_points = ao.shape
    if order == 0:
        M = weighted_gram(ao[0], 0.5 * potential[0], scratch)
    else:
        n_components = component_count(order)
        scale = potential[:n_components].copy()
        scale[0] *= 0.5
        weighted = np.einsum("cmp,cp->mp", ao[:n_components], scale, out=scratch("weighted", n_ao, n_points))
        M = np.matmul(ao[0], weighted.T, out=scratch("M", n_ao, n_ao))
    if order >= 2:
        for i in range(3):
            v = potential[ROW[i, i] : ROW[i, 2] + 1]  # v_ij with j >= i
            np.einsum("jmp,jp->mp", ao[1 + i : 4], v, out=weighted)
            M += np.matmul(ao[1 + i], weighted.T, out=scratch("product", n_ao, n_ao))
    if tau:
        for A in ao[GRADIENT]:
            M += weighted_gram(A, 0.25 * potential[TAU], scratch)
    return M


def weighted_gram(A, v, scratch: Scratch) -> np.ndarray:
    """A diag(v) A^T for v of any sign, as Gram matrices X X^T, which cost half of a general product.

    With X = A sqrt|v|, the points of the rarer sign are subtracted twice.
    """
    n_ao, n_points = A.shape
    X = np.multiply(A, np.sqrt(np.abs(v)), out=scratch("weighted", n_ao, n_points))
    G = X @ X.T
    sign = 1.0 if 2 * np.count_nonzero(v < 0) <= n_points else -1.0
    rare = np.flatnonzero(sign * v < 0)
    if rare.size:
        Y = X[:, rare]
        G -= 2.0 * (Y @ Y.T)
    G *= sign
    return G


def require_finite_response(kernel, change) -> None:
    """NumericalError unless the change of a potential or matrix is finite."""
    if not np.all(np.isfinite(change)):
        raise NumericalError(
            f"the second derivative of functional {kernel.functional.name!r} is not finite at some grid point; its "
            "response cannot be used here: choose convergence='diis'."
        )


class MatrixBuilder:
    """From density matrices to densities on the blocks of `store`, and from potentials to matrices.

    kernel: what the densities are for; its attributes `order`, `needs_tau` and `channels` say which are needed.
    P: (spin, ao, ao), symmetric; one spin is the total density of a restricted run, two are alpha and beta, as the
    kernel was made.   C_occ: None, or per spin (ao, occupied) with P[s] = C_occ[s] C_occ[s]^T (columns scaled by the
    square root of their occupation); used where it is cheaper than P.
    has_exact_exchange: whether channels of exact exchange are written (terms.local_hybrid).
    """

    has_exact_exchange = False

    def __init__(self, kernel: Kernel, store: AOStore, progress: Callable[[int, int], None] | None = None):
        """progress: called from the worker threads as progress(blocks done, blocks in all)."""
        if not self.has_exact_exchange:
            ingredients = getattr(kernel, "exact_exchange", ())
            without_exact_exchange(getattr(kernel, "functional", None), ingredients, "which is not known here")
        needed = ao_order(kernel)
        if needed > min(2, store.order):
            raise InputError(
                f"the functional needs AO derivatives of order {needed}, the AO store has order {store.order}; "
                "matrices are built up to order 2. Build the store with a higher order."
            )
        self.kernel = kernel
        self.store = store
        self._progress = progress
        n_workers = min(worker_count(), len(store.blocks))
        self._parts = split_evenly([len(block.aos) ** 2 + 1.0 for block in store.blocks], n_workers)
        self._scratch = [Scratch(store.dtype) for _ in range(n_workers)]

    @cached_property
    def grid(self) -> tuple[Points, Weights]:
        """Points and weights of all blocks one after the other."""
        blocks = self.store.blocks
        return np.concatenate([b.points for b in blocks]), np.concatenate([b.weights for b in blocks])

    def density(self, P: DensityMatrix, C_occ: OccupiedOrbitals | None = None) -> DensityOnGrid:
        """Density of P on `grid`."""
        P, C_occ = self._checked(P, C_occ)
        density = np.empty((len(P), self.kernel.channels, len(self.store.blocks) * self.store.block_size))
        self._on_workers(self._densities, P, C_occ, density)
        return density

    def _densities(self, part, scratch, P, C_occ, density):
        out = scratch("density", len(P), self.kernel.channels, self.store.block_size)
        for index in part:
            self._density(index, self._values(index, scratch), P, C_occ, out, scratch)
            density[..., self._block_slice(index)] = out

    def matrix(self, potential: DensityOnGrid) -> FockMatrix:
        """Matrix of a potential on `grid`, derivatives of an energy."""
        M = sum(self._on_workers(self._half_matrices, potential))
        return M + M.transpose(0, 2, 1)

    def _half_matrices(self, part, scratch, potential):
        M = np.zeros((len(potential), self.store.n_ao, self.store.n_ao))
        for index in part:
            self._add_half_matrix(index, self._values(index, scratch), self._of_block(potential, index), M, scratch)
        return M

    def _block_slice(self, index):
        size = self.store.block_size
        return slice(index * size, (index + 1) * size)

    def _of_block(self, values, index):
        """The part (..., point) of one block of values on `grid`."""
        return np.ascontiguousarray(values[..., self._block_slice(index)])

    def _checked(self, P, C_occ):
        P = np.asarray(P, dtype=self.store.dtype)
        n_ao = self.store.n_ao
        if P.ndim != 3 or P.shape[1:] != (n_ao, n_ao) or P.shape[0] not in (1, 2):
            raise InputError(f"a density matrix of shape {P.shape} was given; expected (1 or 2, {n_ao}, {n_ao}).")
        return P, None if C_occ is None else [np.asarray(C, dtype=self.store.dtype) for C in C_occ]

    def _on_workers(self, code, *args) -> list:
        """code(blocks of one worker, its scratch, *args) for each worker."""
        parts = zip(self._parts, self._scratch, strict=True)
        return run_on_workers([partial(code, part, scratch, *args) for part, scratch in parts])

    def _values(self, index: int, scratch: Scratch) -> np.ndarray:
        """Orbitals of one block (component, ao, point)."""
        return self.store.values(index, scratch("ao", self.store.scratch_size))

    def _density(self, index: int, ao, P, C_occ, out, scratch: Scratch) -> None:
        """Density of one block, written to `out` (spin, channel, point)."""
        for s in range(len(P)):
            P_s, C_s = self._density_form(index, s, P, C_occ)
            density_jet(ao, P_s, C_s, self.kernel.order, self.kernel.needs_tau, out[s], scratch)
        self._require_finite(out)

    def _require_finite(self, density) -> None:
        """NaN ends here: the guards of functionals would take it for a density too small to count."""
        if not np.isfinite(density.sum()):
            value, name = density[~np.isfinite(density)][0], self._functional_name
            raise NumericalError(
                f"the density is {value} somewhere on the grid, before the functional {name!r} is evaluated."
            )

    @property
    def _functional_name(self):
        return getattr(getattr(self.kernel, "functional", None), "name", "")

    def _density_form(self, index: int, s: int, P, C_occ):
        """(P, None) or (None, C) of one spin on the orbitals of a block, whichever is cheaper."""
        aos = self.store.blocks[index].aos
        if C_occ is not None and self._occupied_form_is_cheaper(len(aos), C_occ[s].shape[1]):
            return None, C_occ[s].take(aos, axis=0)
        return P[s].take(aos, axis=0).take(aos, axis=1), None

    def _add_half_matrix(self, index: int, ao, potential, M, scratch: Scratch) -> None:
        """Adds the block's part, for a potential (spin, channel, point), to M (spin, ao, ao)."""
        aos = self.store.blocks[index].aos
        if self.store.dtype == np.float32:
            potential = to_single(np.array(potential))
        for s in range(len(M)):
            rows = scratch("rows", len(aos), self.store.n_ao)  # faster than indexing both axes at once
            rows[...] = 0.0
            rows[:, aos] = half_matrix(ao, potential[s], self.kernel.order, self.kernel.needs_tau, scratch)
            M[s][aos] += rows

    def _occupied_form_is_cheaper(self, n_ao: int, n_occupied: int) -> bool:
        """Compare the multiplications per point of both forms of `density_jet`; n_ao that of the block."""
        order, tau = self.kernel.order, self.kernel.needs_tau
        if order >= 2:
            return 5 * n_occupied < 4 * n_ao
        if tau:
            return n_occupied < n_ao
        return (2 if order else 1) * n_occupied < n_ao


class XCBuilder(MatrixBuilder):
    """Exchange-correlation energy and its matrix for density matrices in the basis of `store`.

    kernel(points, weights, density (spin, channel, point)) -> (energy, potential (spin, channel, point)), with
    attributes `order`, `needs_tau` and `channels`; see dftfd/xc/kernel.py. Responses stand in dftfd/xc/transitions.py.
    """

    def build(self, P: DensityMatrix, C_occ: OccupiedOrbitals | None = None) -> XCContribution:
        """Energy, matrix and electron numbers of P; arguments as for the class.

        The result depends on the number of workers in the last digits only, and on nothing else.
        """
        P, C_occ = self._checked(P, C_occ)
        start = time.perf_counter()
        done = itertools.count(1)  # shared by the workers; next() is atomic
        parts = self._on_workers(self._build_part, P, C_occ, done)
        energy = sum(part.energy for part in parts)
        M = sum(part.matrix for part in parts)
        log.debug("xc build: %d blocks, %.3f s", len(self.store.blocks), time.perf_counter() - start)
        return XCContribution(energy, M + M.transpose(0, 2, 1), sum(part.n_electrons for part in parts))

    def incremental_build(
        self, P: DensityMatrix, C_occ: OccupiedOrbitals | None = None
    ) -> Callable[[DensityMatrix], FockMatrix]:
        """P' -> matrix at P' less matrix at P, formed from P' - P: rounding errors are those of that."""
        density = np.asarray(self.density(P, C_occ), dtype=np.float64)
        potential = np.empty(density.shape)
        self._on_workers(self._potentials, density, potential)

        def change(changed):
            M = sum(self._on_workers(self._changes_of_part, self._checked(changed - P, None)[0], density, potential))
            return M + M.transpose(0, 2, 1)

        return change

    def _potentials(self, part, scratch, density, potential):
        for index in part:
            block = self.store.blocks[index]
            _, potential[..., self._block_slice(index)] = self.kernel(
                block.points, block.weights, self._of_block(density, index)
            )

    def _changes_of_part(self, part, scratch, dP, density, potential):
        """Half of the change of the matrix, from the blocks of one worker."""
        M, change = np.zeros(dP.shape), scratch("density", *density.shape[:2], self.store.block_size)
        for index in part:
            block, ao = self.store.blocks[index], self._values(index, scratch)
            self._density(index, ao, dP, None, change, scratch)
            changed = self._of_block(density, index) + change
            _, after = self.kernel(block.points, block.weights, changed)
            if not np.isfinite(after).all():
                raise self._not_finite(block, changed)
            self._add_half_matrix(index, ao, after - self._of_block(potential, index), M, scratch)
        return M

    def _build_part(self, part, scratch, P, C_occ, done) -> XCContribution:
        """Sum over the blocks of one worker, in ascending order; `matrix` is M here."""
        n_spin = len(P)
        energy, n_electrons = 0.0, np.zeros(n_spin)
        M = np.zeros(P.shape)
        density = scratch("density", n_spin, self.kernel.channels, self.store.block_size)
        for index in part:
            block = self.store.blocks[index]
            ao = self._values(index, scratch)
            self._density(index, ao, P, C_occ, density, scratch)
            block_energy, potential = self.kernel(block.points, block.weights, density)
            if not (np.isfinite(block_energy) and np.isfinite(potential).all()):
                raise self._not_finite(block, density)
            energy += float(block_energy)
            n_electrons += density[:, 0] @ block.weights
            self._add_half_matrix(index, ao, np.asarray(potential), M, scratch)
            if self._progress is not None:
                self._progress(next(done), len(self.store.blocks))
        return XCContribution(energy, M, n_electrons)

    def _not_finite(self, block, density) -> NumericalError:
        """The error that says where in a block, and for which density, the functional is NaN or Inf."""
        bad = [p for p in range(len(block.weights)) if not self._is_finite_at(block, density, p)]
        first = bad[0] if bad else 0
        return NumericalError(
            f"functional {self._functional_name!r} is NaN or Inf at {len(bad)} of {len(block.weights)} points of a "
            f"block, first where {self._in_words(density[..., first])}. It must stay finite at small densities; see "
            "dftfd.functionals.numerics."
        )

    def _is_finite_at(self, block, density, point: int) -> bool:
        """Whether energy and potential are finite on copies of one point."""
        copies = np.repeat(density[..., point : point + 1], density.shape[-1], axis=-1)
        energy, potential = self.kernel(block.points, np.ones(len(block.weights)), copies)
        return bool(np.isfinite(energy) and np.isfinite(potential).all())

    def _in_words(self, density) -> str:
        """Spin densities, their gradients' lengths and tau of one point from (spin, channel)."""
        values = {"rho": density[:, 0]}
        if self.kernel.order >= 1:
            values["|grad rho|"] = np.linalg.norm(density[:, GRADIENT], axis=1)
        if self.kernel.needs_tau:
            values["tau"] = density[:, TAU]
        return ", ".join(f"{name} = {' and '.join(f'{v:.4g}' for v in row)}" for name, row in values.items())
