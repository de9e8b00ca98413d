r"""The fitting tensor B_Q,ij for Coulomb matrices, each pair of basis functions with the digits that it deserves.

    J_ij = sum_Q B_Q,ij sum_kl B_Q,kl P_kl

By the Schwarz inequality sum_Q B_Q,ij^2 is nearly (ij|ij). Pairs whose bound sqrt (ij|ij) is small are kept in single
precision, whose 7 digits leave an error below 1e-11, and those below what counts are not kept. J stays the exact
derivative of the energy, since both have the same B.
"""

from functools import cached_property

import numpy as np

from dftfd.libcint.two_electron import (
    WORK_BYTES,
    fitting_tensor_blocks,
    fitting_tensor_size,
    schwarz_bounds,
)
from dftfd.runtime import kept_memory
from dftfd.runtime.threads import blas_threads, share_out, worker_count

SINGLE, DROPPED = 1e-4, 1e-12
"""Bounds sqrt (ij|ij) [sqrt hartree] below which a pair is kept in single precision, and not at all."""

_WIDEST = 5
"""Functions of a shell, of d as a rule, that are transformed at least at a time."""

_BLOCK_BYTES = 2 * 2**20
"""Of a worker's rows at a time, which are read twice and should stay in its cache."""


class PairTensor:
    """B of a molecule and its fitting functions for the operator 1/r; `nbytes` is known before it is computed."""

    def __init__(self, molecule, auxiliary: dict):
        self._molecule, self._auxiliary = molecule, auxiliary
        self.n_auxiliary, _ = fitting_tensor_size(molecule, auxiliary)
        bounds = schwarz_bounds(molecule)
        self._double = np.flatnonzero(bounds >= SINGLE)
        self._single = np.flatnonzero((bounds < SINGLE) & (bounds >= DROPPED))

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self.n_auxiliary * (8 * len(self._double) + 4 * len(self._single))

    @property
    def work_bytes(self) -> int:
        """Bytes that computing it takes besides: four copies of the integrals of a shell with all functions."""
        widest = 8 * self.n_auxiliary * _WIDEST * self._molecule.n_ao
        return min(2 * self.nbytes, max(WORK_BYTES, 4 * widest))

    @cached_property
    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        """B of the pairs in double and in single precision."""
        rows = self.n_auxiliary
        double = kept_memory.empty(rows * len(self._double)).reshape(rows, -1)
        single = kept_memory.empty(rows * len(self._single), np.float32).reshape(rows, -1)
        n_rows = 0
        with blas_threads(worker_count()):
            kept = np.sort(np.concatenate([self._double, self._single]))
            for pairs, block in fitting_tensor_blocks(self._molecule, self._auxiliary, kept):
                n_rows = len(block)  # fewer than fitting functions where some depend on others
                for positions, values in ((self._double, double), (self._single, single)):
                    first, last = np.searchsorted(positions, [pairs[0], pairs[-1] + 1])
                    chosen = np.searchsorted(pairs, positions[first:last])
                    values[:n_rows, first:last] = block.take(chosen, axis=1, mode="clip")
        return double[:n_rows], single[:n_rows]

    def coulomb(self, folded) -> tuple[np.ndarray, np.ndarray]:
        """(B P (n, aux), B^T B P (n, pair)) of densities (n, pair) packed over i >= j, where i > j stands for both."""
        double, single = self._values
        P_double, P_single = (np.ascontiguousarray(folded[:, kept]) for kept in (self._double, self._single))
        fits, size = np.empty((len(folded), len(double))), max(1, _BLOCK_BYTES // (8 * folded.shape[1]))

        def part(starts):
            J_double, J_single = np.zeros_like(P_double), np.zeros_like(P_single)
            in_double = np.empty((size, P_single.shape[1]))
            for start in starts:
                rows = slice(start, min(start + size, len(double)))
                B, b = double[rows], in_double[: rows.stop - start]
                b[...] = single[rows]
                fits[:, rows] = P_double @ B.T + P_single @ b.T
                J_double += fits[:, rows] @ B
                J_single += fits[:, rows] @ b
            return J_double, J_single

        J = np.zeros(folded.shape)
        for J_double, J_single in share_out(range(0, len(double), size), part):
            J[:, self._double] += J_double
            J[:, self._single] += J_single
        return fits, J
