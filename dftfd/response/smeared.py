r"""The static response of smeared occupations, which move electrons between orbitals.

The density matrix that minimises the free energy E - T S at fixed numbers of electrons follows a change dF of F by

    dP_pq = a_pq (dF_pq - delta_pq dmu),   a_pq = (n_p - n_q) / (e_p - e_q),   a_pp = n'(e_p)

in the orbitals, with dmu so that each spin keeps its electrons. With a = -b^2 and dP_pq = b_pq u_pq, and the response
K of the energy's terms, the equations for a perturbation h are symmetric, and positive at a minimum of the free energy:

    (1 + b K b) u = -b h    among the u that move no electrons in or out,   sum_p b_pp u_pp = 0

S. de Gironcoli, Phys. Rev. B 51, 6773 (1995). doi:10.1103/PhysRevB.51.6773
"""

import numpy as np

from dftfd.model.solved_calculation import SolvedCalculation
from dftfd.response.subspaces import driven_response
from dftfd.runtime.progress import Progress

MAX_PRODUCTS = 1000


class SmearedResponse:
    """1 + b K b of a result with smeared occupations, on vectors (trial, size): all pairs p >= q of each spin.

    UnsupportedError where a term of the energy has no response.
    """

    is_local = True

    def __init__(self, result: SolvedCalculation, progress=None):
        result.require_converged("linear response")
        self._progress = progress or Progress()
        calculation = result.calculation
        energy = calculation.build(self._progress).energy
        energy.require_response()
        self._C = result.mo_coeff
        with self._progress.stage("response of the functional"):
            rows = [np.ascontiguousarray(C.T) for C in self._C]
            self._response = energy.orbital_response(result.density_matrix, rows)
        self._rows, self._columns = np.tril_indices(self._C.shape[2])
        # a pair p > q stands for pq and qp
        self._weight = np.where(self._rows == self._columns, 1.0, np.sqrt(2.0))
        smearing = calculation.smearing(*result.settings.options.smearing)
        b = np.sqrt(-np.stack([smearing.slopes(*spin) for spin in zip(result.mo_energy, result.mo_occ, strict=True)]))
        self._b = b[:, self._rows, self._columns]
        moved = self._b * (self._rows == self._columns)
        self._moved = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), np.finfo(float).tiny)
        self.gaps = np.ones(self._b.size)

    def real(self, X) -> np.ndarray:
        """(1 + b K b) X; of what would move electrons in or out, X itself, so that rounding of it stays harmless."""
        U = self._within(X.reshape(-1, *self._b.shape))
        D = np.zeros((*U.shape[:2], self._C.shape[2], self._C.shape[2]))
        D[:, :, self._rows, self._columns] = self._b * U / self._weight
        D = D + np.tril(D, -1).transpose(0, 1, 3, 2)
        dC = [0.5 * D[:, s] @ C.T for s, C in enumerate(self._C)]
        dF = [change @ C for change, C in zip(self._response(dC), self._C, strict=True)]
        return X + self.of_matrices(np.stack(dF, axis=1))

    imaginary = tamm_dancoff = real

    def of_matrices(self, h) -> np.ndarray:
        """b h (trial, size), without what would move electrons in or out, of h (trial, spin, mo, mo)."""
        return self._within(self._b * self._weight * h[:, :, self._rows, self._columns]).reshape(len(h), -1)

    def _within(self, u) -> np.ndarray:
        """u (trial, spin, pair) at fixed numbers of electrons."""
        return u - np.einsum("tsp,sp->ts", u, self._moved)[:, :, None] * self._moved

    def polarizability(self, r, tolerance: float) -> np.ndarray:
        """-tr(r_x dP_y) (k, k) of operators r (k, ao, ao) and the response to them."""
        in_orbitals = np.stack([np.einsum("ap,kab,bq->kpq", C, r, C, optimize=True) for C in self._C], axis=1)
        G = self.of_matrices(in_orbitals)
        u, _ = driven_response(self, G, 0.0, tolerance, MAX_PRODUCTS, self._progress.note)
        return -G @ u.T
