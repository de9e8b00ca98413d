"""Commutator DIIS: extrapolation of the Fock matrix by direct inversion in the iterative subspace.

P. Pulay, Chem. Phys. Lett. 73, 393 (1980). doi:10.1016/0009-2614(80)80396-4
P. Pulay, J. Comput. Chem. 3, 556 (1982). doi:10.1002/jcc.540030413
"""

from dataclasses import dataclass, replace

import numpy as np

# Singular values of the scaled Pulay equations below this fraction of the largest are left out.
SINGULAR = 1e-13


def commutator(F, P, S, X):
    """Error (spin, mo, mo): the orbital gradient X^T (F P S - S P F) X in the orthonormal basis."""
    FPS = np.stack([X.T @ (F_s @ P_s @ S) @ X for F_s, P_s in zip(F, P, strict=True)])
    return FPS - FPS.transpose(0, 2, 1)


@dataclass(frozen=True)
class DIIS:
    """The last `space` Fock matrices and their errors, oldest first."""

    space: int = 8
    focks: tuple = ()
    errors: tuple = ()

    def push(self, F, error):
        """The history with one more pair; the oldest one leaves when the space is full."""
        return replace(self, focks=(*self.focks, F)[-self.space :], errors=(*self.errors, error.ravel())[-self.space :])

    def extrapolate(self):
        """The combination sum_k c_k F_k, sum_k c_k = 1, whose error sum_k c_k e_k is smallest."""
        c = pulay_coefficients(self.errors)
        return sum(c_k * F_k for c_k, F_k in zip(c, self.focks, strict=True))


def pulay_coefficients(errors):
    """Coefficients c_k that minimise |sum_k c_k e_k|^2 under sum_k c_k = 1.

    Near convergence the errors span ten orders of magnitude, so the textbook matrix <e_k|e_l> is hopelessly scaled.
    With unit vectors e_k / d_k and c_k = y_k u_k, u_k = d_min / d_k, the bordered equations

        [0  u^T] [lambda]   [1]
        [u   G ] [  y   ] = [0],      G_kl = <e_k|e_l> / (d_k d_l)

    have entries of order one whatever the errors; linearly dependent errors are handled by the pseudo-inverse.
    """
    lengths = np.array([np.linalg.norm(e) for e in errors])
    smallest = int(np.argmin(lengths))
    if lengths[smallest] <= np.finfo(float).tiny:
        return np.eye(len(errors))[smallest]
    units = np.stack([e / d for e, d in zip(errors, lengths, strict=True)])
    u = lengths[smallest] / lengths
    bordered = np.block([[np.zeros((1, 1)), u[None, :]], [u[:, None], units @ units.T]])
    right = np.zeros(len(u) + 1)
    right[0] = 1.0
    y = np.linalg.lstsq(bordered, right, rcond=SINGULAR)[0][1:]
    c = y * u
    return c / c.sum()
