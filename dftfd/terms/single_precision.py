r"""Fitted exchange in single precision, for cycles whose results others correct.

Far from the solution 7 digits are plenty. Near it the change of K from a known density is asked for, of orbitals
D = C - C_0 and S = (C + C_0) / 2 with both sets turned to be as close as can be:

    K[C C^T] - K[C_0 C_0^T] = M + M^T,   M_ij = sum_Q,o X[D]_Q,o,i X[S]_Q,o,j,   X[C]_Q,o,i = sum_k C_k,o B_Q,ki

X[C_0] is kept. Its rounding errors are 1e-7 of that change, not of K, and vanish with it.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from dftfd.runtime import kept_memory
from dftfd.runtime.precision import to_single
from dftfd.runtime.threads import share_out

_BLOCK_BYTES = 4 * 2**20
"""Of the tensor at a time: it should stay in a worker's cache."""


class SingleTensor:
    """The fitting tensor, unpacked: (aux, ao, ao) in single precision, from one in double (terms.pair_tensor)."""

    def __init__(self, B, n_ao: int):
        self._values = kept_memory.empty(len(B) * n_ao**2, np.float32).reshape(len(B), n_ao, n_ao)
        self._block = max(1, _BLOCK_BYTES // (4 * n_ao**2))
        self._share_out(partial(self._fill, B))

    @staticmethod
    def nbytes(n_auxiliary: int, n_ao: int, n_orbitals: int) -> int:
        """Bytes of the values, and of X of that many orbitals from which changes are asked for."""
        return 4 * n_auxiliary * n_ao * (n_ao + n_orbitals)

    def exchange(self, C) -> np.ndarray:
        """K (ao, ao) of the density C C^T of orbitals C (ao, occupied)."""
        return sum(self._share_out(partial(self._exchange, np.ascontiguousarray(C.T, dtype=np.float32))))

    def changes_from(self, before) -> Callable:
        """C -> K (ao, ao) of C less K of `before`, both (ao, occupied)."""
        n_orbitals = before.shape[1]
        X = kept_memory.empty(self._values[:, :n_orbitals].size, np.float32).reshape(len(self._values), n_orbitals, -1)
        self._share_out(partial(self._transform, before.T.astype(np.float32), X))

        def change(C):
            U, _, V = np.linalg.svd(C.T @ before)
            D = (C @ (U @ V) - before).T.astype(np.float32)
            M = sum(self._share_out(partial(self._change, D, X)))
            return M + M.T

        return change

    def _share_out(self, code):
        return share_out(range(0, len(self._values), self._block), code)

    def _fill(self, B, starts):
        wide = np.empty((self._block, *self._values.shape[1:]))
        for start in starts:
            to_single(B.unpacked(start, wide), self._values[start : start + self._block])

    def _exchange(self, C, starts):
        n_occ, n = C.shape
        X, product, K = np.empty((self._block, n_occ, n), C.dtype), np.empty((n, n), C.dtype), np.zeros((n, n))
        for start in starts:
            B = self._values[start : start + self._block]
            half = np.matmul(C, B, out=X[: len(B)]).reshape(-1, n)
            K += np.matmul(half.T, half, out=product)
        return K

    def _transform(self, C, X, starts):
        for start in starts:
            rows = slice(start, start + self._block)
            np.matmul(C, self._values[rows], out=X[rows])

    def _change(self, D, X, starts):
        """M of one worker, with X[S] = X + X[D] / 2."""
        n_occ, n = D.shape
        of_D, of_S = np.empty((2, self._block, n_occ, n), D.dtype)
        product, M = np.empty((n, n), D.dtype), np.zeros((n, n))
        for start in starts:
            B, middle = (values[start : start + self._block] for values in (self._values, X))
            changed = np.matmul(D, B, out=of_D[: len(B)])
            both = np.multiply(changed, 0.5, out=of_S[: len(B)])
            both += middle
            M += np.matmul(changed.reshape(-1, n).T, both.reshape(-1, n), out=product)
        return M
