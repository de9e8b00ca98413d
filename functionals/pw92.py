"""Correlation of the uniform gas as Perdew and Wang fitted it in 1992; most gradient corrections are built on it.

J. P. Perdew, Y. Wang, Phys. Rev. B 45, 13244 (1992). doi:10.1103/PhysRevB.45.13244
"""

import functools
from typing import NamedTuple

from dftfd.autofd import Function, log1p, sqrt
from dftfd.functionals.common import (
    per_spin,
    polarisation,
    spin_interpolation,
    total_density,
    wigner_seitz_radius,
)
from dftfd.functionals.registry import functional

_DOI = "10.1103/PhysRevB.45.13244"


class Digits(NamedTuple):
    """Digits of A and f''(0): as `PRINTED`, or `LONG`, as the PBE reference code has them."""

    A: tuple[float, float, float]
    fz20: float


PRINTED = Digits((0.031091, 0.015545, 0.016887), 1.709921)
LONG = Digits((0.0310907, 0.01554535, 0.0168869), 1.709920934161365617563962776245)

_TABLE_I = dict(
    alpha1=(0.21370, 0.20548, 0.11125),
    beta1=(7.5957, 14.1189, 10.357),
    beta2=(3.5876, 6.1977, 3.6231),
    beta3=(1.6382, 3.3662, 0.88026),
    beta4=(0.49294, 0.62517, 0.49671),
)


def fit(rs: Function, A, alpha1, beta1, beta2, beta3, beta4) -> Function:
    """G = -2 A (1 + alpha1 r_s) ln(1 + 1 / (2 A (beta1 r_s^1/2 + beta2 r_s + beta3 r_s^3/2 + beta4 r_s^2))), eq. 10."""
    x = sqrt(rs)
    q = 2 * A * (x * (beta1 + x * (beta2 + x * (beta3 + x * beta4))))
    return -2 * A * (1 + alpha1 * rs) * log1p(1 / q)


def fits(digits: Digits = LONG):
    """Codes of r_s: eps_c of the unpolarised gas, of the polarised gas, and minus the spin stiffness."""
    rows = (dict(zip(_TABLE_I, column, strict=True)) for column in zip(*_TABLE_I.values(), strict=True))
    return tuple(functools.partial(fit, A=A, **row) for A, row in zip(digits.A, rows, strict=True))


def interpolation(rho: Function, digits: Digits = LONG):
    """Code of the values of the three fits, at some r_s, that gives eps_c(r_s, zeta) (eq. 8)."""
    f, z4 = spin_interpolation(rho), polarisation(rho) ** 4
    return lambda e0, e1, minus_alpha: e0 - minus_alpha * f * (1 - z4) / digits.fz20 + (e1 - e0) * f * z4


def correlation_energy(rho: Function, digits: Digits = LONG) -> Function:
    """eps_c(r_s, zeta) [hartree]."""
    rs = wigner_seitz_radius(total_density(rho))
    return interpolation(rho, digits)(*(G(rs) for G in fits(digits)))


def polarised_correlation(n_s: Function, digits: Digits = LONG) -> Function:
    """n_s eps_c(r_s, zeta = 1): correlation energy per volume of a gas of one spin."""
    return n_s * fits(digits)[1](wigner_seitz_radius(n_s))


def opposite_spin_correlation(rho: Function, digits: Digits = LONG) -> Function:
    """e_c(rho_a, rho_b) - e_c(rho_a, 0) - e_c(0, rho_b), the part of the correlation that is between the spins.

    H. Stoll, C. M. E. Pavlidou, H. Preuss, Theor. Chim. Acta 49, 143 (1978). doi:10.1007/PL00020511
    """
    same = per_spin(lambda n_s: polarised_correlation(n_s, digits), rho)
    return total_density(rho) * correlation_energy(rho, digits) - same


@functional("lda_c_pw", doi=_DOI)
def correlation(rho):
    """Correlation of the uniform gas, eqs. 8 to 10, with the digits of table I as printed."""
    return total_density(rho) * correlation_energy(rho, PRINTED)


@functional("lda_c_pw_mod", doi=_DOI)
def mod_correlation(rho):
    """lda_c_pw with more digits in A and f''(0), as the PBE reference code has them."""
    return total_density(rho) * correlation_energy(rho)
