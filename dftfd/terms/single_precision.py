r"""Fitted exchange in single precision, for cycles whose results others correct.

Far from the solution 7 digits are plenty. Near it the change of K from a known density is asked for, of orbitals
D = C - C_0 and S = (C + C_0) / 2 with both sets turned to be as close as can be:

    K[C C^T] - K[C_0 C_0^T] = M + M^T,   M_ij = sum_Q,o X[D]_Q,o,i X[S]_Q,o,j,   X[C]_Q,o,i = sum_k C_k,o B_Q,ki

X[C_0] is kept, or formed anew for each change. Rounding errors are 1e-7 of that change, not of K, and vanish with it.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from dftfd.runtime import kept_memory
from dftfd.runtime.precision import to_single
from dftfd.runtime.threads import share_out

_BLOCK_BYTES = 4 * 2**20
"""Of the tensor at a time: it should stay in a worker's cache."""


class SingleTensor:
    """A fitting tensor in single precision, (aux, ao, ao), from one in double (terms.pair_tensor).

    kept: whether it is kept like that, or unpacked and rounded anew, a few rows at a time, whenever it is used.
    keeps_transformed: whether X of orbitals from which changes are asked for is kept, too.
    """

    def __init__(self, B, n_ao: int, kept: bool = True, keeps_transformed: bool = True):
        self._B, self._shape, self._keeps_transformed = B, (len(B), n_ao, n_ao), keeps_transformed
        self._values: np.ndarray | None = None
        self._block = max(1, _BLOCK_BYTES // (4 * n_ao**2))
        if kept:
            values = kept_memory.empty(len(B) * n_ao**2, np.float32).reshape(self._shape)
            self._share_out(partial(self._fill, values))
            self._B, self._values = None, values

    def exchange(self, C) -> np.ndarray:
        """K (ao, ao) of the density C C^T of orbitals C (ao, occupied)."""
        return sum(self._share_out(partial(self._exchange, np.ascontiguousarray(C.T, dtype=np.float32))))

    def changes_from(self, before) -> Callable:
        """C -> K (ao, ao) of C less K of `before`, both (ao, occupied)."""
        C_0, X = before.T.astype(np.float32), None
        if self._keeps_transformed:
            shape = self._shape[0], *C_0.shape
            X = kept_memory.empty(math.prod(shape), np.float32).reshape(shape)
            self._share_out(partial(self._transform, C_0, X))

        def change(C):
            U, _, V = np.linalg.svd(C.T @ before)
            D = (C @ (U @ V) - before).T.astype(np.float32)
            M = sum(self._share_out(partial(self._change, D, C_0, X)))
            return M + M.T

        return change

    def _share_out(self, code):
        return share_out(range(0, self._shape[0], self._block), code)

    def _rows(self, starts):
        """(which rows, their values (n, ao, ao)) of blocks; valid until the next ones."""
        shape = (0 if self._B is None else self._block, *self._shape[1:])
        wide, narrow = np.empty(shape), np.empty(shape, np.float32)
        for start in starts:
            which = slice(start, start + self._block)
            if self._values is not None:
                yield which, self._values[which]
            else:
                rows = self._B.unpacked(start, wide)
                yield which, to_single(rows, narrow[: len(rows)])

    def _fill(self, values, starts):
        for which, rows in self._rows(starts):
            values[which] = rows

    def _exchange(self, C, starts):
        n_occ, n = C.shape
        X, product, K = np.empty((self._block, n_occ, n), C.dtype), np.empty((n, n), C.dtype), np.zeros((n, n))
        for _, B in self._rows(starts):
            half = np.matmul(C, B, out=X[: len(B)]).reshape(-1, n)
            K += np.matmul(half.T, half, out=product)
        return K

    def _transform(self, C, X, starts):
        for which, B in self._rows(starts):
            np.matmul(C, B, out=X[which])

    def _change(self, D, C_0, X, starts):
        """M of one worker, with X[S] = X[C_0] + X[D] / 2."""
        (n_occ, n), S = D.shape, C_0 + 0.5 * D
        of_D, of_S = np.empty((2, self._block, n_occ, n), D.dtype)
        product, M = np.empty((n, n), D.dtype), np.zeros((n, n))
        for which, B in self._rows(starts):
            changed, both = np.matmul(D, B, out=of_D[: len(B)]), of_S[: len(B)]
            if X is None:
                np.matmul(S, B, out=both)
            else:
                np.multiply(changed, 0.5, out=both)
                both += X[which]
            M += np.matmul(changed.reshape(-1, n).T, both.reshape(-1, n), out=product)
        return M
