r"""Nonlocal correlation of Vydrov and Van Voorhis, VV10, and its revision rVV10.

O. A. Vydrov, T. Van Voorhis, J. Chem. Phys. 133, 244103 (2010). doi:10.1063/1.3521275
R. Sabatini, T. Gorni, S. de Gironcoli, Phys. Rev. B 87, 041108(R) (2013). doi:10.1103/PhysRevB.87.041108

Both depend on the total density alone. Points with a density below DENSITY_THRESHOLD are left out, as in PySCF. Both
kernels are finite at r = r', so coinciding points of a grid count like others.
"""

import math

from dftfd.autofd import Function, sqrt
from dftfd.functionals.common import gradient_squared
from dftfd.functionals.pairs import dense_part, guarded, here, integral_over_there, squared_distance, there
from dftfd.functionals.registry import functional

DENSITY_THRESHOLD = 1e-8
"""Density [bohr^-3] below which a point is left out: its energy, and its part in the energy of others."""


def _omega_and_kappa(n: Function, safe_n: Function, b, C):
    """omega_0 = sqrt(C |nabla n / n|^4 + 4 pi n / 3) (eq. 15), kappa = b 3 pi / 2 (n / (9 pi))^(1/6) (eq. 13)."""
    gap = gradient_squared(n) / (safe_n * safe_n)
    omega = sqrt(C * gap * gap + 4 * math.pi / 3 * safe_n)
    kappa = b * (1.5 * math.pi * (9 * math.pi) ** (-1 / 6)) * safe_n ** (1 / 6)
    return omega, kappa


def _beta(b):
    """Makes the energy of the uniform gas vanish: (3 / b^2)^(3/4) / 32 (eq. 16)."""
    return (3 / (b * b)) ** 0.75 / 32


@functional("vv10", doi="10.1063/1.3521275", kind="correlation")
@guarded
def vv10(n, *, b=5.9, C=0.0093):
    r"""Energy per volume [hartree / bohr^3].

    e = n(r) (beta + 1/2 \int n(r') Phi(r, r') dr'),   Phi = -3 / (2 g g' (g + g'))            (eqs. 9, 10)
    g = omega_0(r) R^2 + kappa(r),   g' = omega_0(r') R^2 + kappa(r'),   R = |r - r'|         (eq. 14)

    b: short-range damping.   C: from C_6 coefficients. Defaults: with rPW86 exchange and PBE correlation.
    """
    dense_n, safe_n = dense_part(n, DENSITY_THRESHOLD)
    omega, kappa = _omega_and_kappa(n, safe_n, b, C)
    R2 = squared_distance(n)
    g = here(omega) * R2 + here(kappa)
    g_there = there(omega) * R2 + there(kappa)
    Phi = -1.5 / (g * g_there * (g + g_there))
    return dense_n * (_beta(b) + 0.5 * integral_over_there(there(dense_n) * Phi))


@functional("rvv10", doi="10.1103/PhysRevB.87.041108", kind="correlation")
@guarded
def rvv10(n, *, b=6.3, C=0.0093):
    r"""Energy per volume [hartree / bohr^3]; the kernel depends on a single function q = omega_0 / kappa.

    e = n beta + 1/2 m(r) \int m(r') Phi(r, r') dr',   m = n / kappa^(3/2)                     (eqs. 5, 6)
    Phi = -3 / (2 (q R^2 + 1) (q' R^2 + 1) (q R^2 + q' R^2 + 2))

    b: as in VV10, refitted with rPW86 exchange and PBE correlation.
    """
    dense_n, safe_n = dense_part(n, DENSITY_THRESHOLD)
    omega, kappa = _omega_and_kappa(n, safe_n, b, C)
    m, q, R2 = dense_n / (kappa * sqrt(kappa)), omega / kappa, squared_distance(n)
    z, z_there = here(q) * R2 + 1, there(q) * R2 + 1
    Phi = -1.5 / (z * z_there * (z + z_there))
    return _beta(b) * dense_n + 0.5 * m * integral_over_there(there(m) * Phi)
