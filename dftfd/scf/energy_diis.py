r"""Energy-based DIIS: convex combinations of earlier Fock matrices, for the cycles far from convergence.

EDIIS interpolates the energy of sum_k c_k P_k, quadratic in the density,

    E(c) = sum_k c_k E_k - 1/4 sum_kl c_k c_l <P_k - P_l, F_k - F_l>

and ADIIS expands it about the last density P_n,

    E(c) = E_n + sum_k c_k <P_k - P_n, F_n> + 1/2 sum_kl c_k c_l <P_k - P_n, F_l - F_n>

both minimised over c_k >= 0, sum_k c_k = 1. (Signs and factors belong to F = dE/dP.)

K. N. Kudin, G. E. Scuseria, E. Cances, J. Chem. Phys. 116, 8255 (2002). doi:10.1063/1.1470195
X. Hu, W. Yang, J. Chem. Phys. 132, 054109 (2010). doi:10.1063/1.3304922
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize


@dataclass(frozen=True)
class EnergyDIIS:
    """The last `space` energies, density and Fock matrices, oldest first. kind: 'adiis' or 'ediis'."""

    kind: str = "adiis"
    space: int = 8
    energies: tuple = ()
    densities: tuple = ()
    focks: tuple = ()

    def push(self, energy, P, F):
        """The history with one more state."""
        return replace(
            self,
            energies=(*self.energies, energy)[-self.space :],
            densities=(*self.densities, P)[-self.space :],
            focks=(*self.focks, F)[-self.space :],
        )

    def coefficients(self):
        """c_k of the minimum."""
        products = np.array([[np.sum(P * F) for F in self.focks] for P in self.densities])  # <P_k, F_l>
        if self.kind == "ediis":
            diagonal = np.diagonal(products)
            linear = np.array(self.energies) - max(self.energies)
            quadratic = -0.5 * (diagonal[:, None] + diagonal[None, :] - products - products.T)
        else:
            linear = products[:, -1] - products[-1, -1]
            quadratic = products - products[-1:, :] - products[:, -1:] + products[-1, -1]
            quadratic = (quadratic + quadratic.T) / 2
        return minimise_on_simplex(linear, quadratic)

    def extrapolate(self, matrices):
        """sum_k c_k M_k of matrices that belong to the history."""
        return sum(c * M for c, M in zip(self.coefficients(), matrices[-len(self.focks) :], strict=True))


def minimise_on_simplex(linear, quadratic):
    """The c >= 0, sum c = 1, that minimise linear . c + 1/2 c quadratic c; the best of searches from all corners."""
    n = len(linear)
    if n == 1:
        return np.ones(1)

    def value(t):
        weight = t @ t
        c = t * t / weight
        slope = linear + quadratic @ c
        gradient = 2 * t / weight * (slope - c @ slope)
        return linear @ c + 0.5 * c @ quadratic @ c, gradient

    starts = [np.ones(n), *(np.full(n, 0.1) + np.eye(n)[k] for k in range(n))]
    found = [scipy.optimize.minimize(value, t, jac=True, method="BFGS", options={"gtol": 1e-9}) for t in starts]
    t = min(found, key=lambda result: result.fun).x
    return t * t / (t @ t)
