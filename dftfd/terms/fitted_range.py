r"""The derivative of density-fitted exchange by the range omega of its operator erf(omega r)/r.

With integrals A = (Q|ij), metric V and c = V^-1 A the matrix is K = sum_Q A_Q P c_Q, and its derivative

    K' = sum_Q (Z_Q P c_Q + c_Q P Z_Q),   Z = A' - 1/2 V' c,

A' and V' as of dftfd.libcint.range_derivatives. Where fitting functions depend on each other V^-1 is the inverse on the
space that is kept, and Z has a part from its turning. The fitted energy jumps, by some 1e-8 hartree, where the size of
that space changes with omega; between the jumps this is its derivative.
"""

import numpy as np

from dftfd.libcint.range_derivatives import derivative_by_range
from dftfd.libcint.two_electron import coulomb_metric, three_centre_integrals, unpack
from dftfd.runtime.threads import share_out
from dftfd.terms.fitted_gradient import Metric

TENSORS = 5
"""Tensors (aux, pair) that are in memory at a time, at most."""

_BLOCK_BYTES = 4 * 2**20


class FittedRangeDerivative:
    """P (ao, ao) -> K'[P] (ao, ao) for one omega, with the tensors c and Z."""

    def __init__(self, molecule, auxiliary: dict, omega: float):
        self.omega = omega
        metric = Metric(coulomb_metric(molecule, auxiliary, omega))
        A = three_centre_integrals(molecule, auxiliary, omega)
        self._c = metric.solve(A)
        self._Z = metric.half_change(
            derivative_by_range(lambda w: coulomb_metric(molecule, auxiliary, w), omega), A, self._c
        )
        self._Z += derivative_by_range(lambda w: three_centre_integrals(molecule, auxiliary, w), omega)

    def __call__(self, P) -> np.ndarray:
        n = len(P)
        size = max(1, _BLOCK_BYTES // (16 * n * n))

        def part(starts):
            M, (c, Z) = np.zeros((n, n)), np.empty((2, size, n, n))
            for start in starts:
                rows = slice(start, start + size)
                c_Q, Z_Q = (unpack(x[rows], out[: len(x[rows])]) for x, out in ((self._c, c), (self._Z, Z)))
                M += (Z_Q @ P).transpose(1, 0, 2).reshape(n, -1) @ c_Q.reshape(-1, n)
            return M

        M = sum(share_out(range(0, len(self._c), size), part))
        return M + M.T
