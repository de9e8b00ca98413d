"""Correlation of the uniform gas as Perdew and Wang fitted it in 1992; most gradient corrections are built on it.

J. P. Perdew, Y. Wang, Phys. Rev. B 45, 13244 (1992). doi:10.1103/PhysRevB.45.13244
"""

import functools
from typing import NamedTuple

from dftfd.autofd import Function, log1p, sqrt
from dftfd.functionals.common import (
    polarisation,
    spin_fractions,
    spin_interpolation,
    total_density,
    wigner_seitz_radius,
)
from dftfd.functionals.numerics import nonnegative
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
    q = _denominator(sqrt(rs), A, beta1, beta2, beta3, beta4)
    return -2 * A * (1 + alpha1 * rs) * log1p(1 / q)


def _denominator(x: Function, A, beta1, beta2, beta3, beta4, **_) -> Function:
    """The argument's denominator in eq. 10, x = r_s^(1/2)."""
    return 2 * A * (x * (beta1 + x * (beta2 + x * (beta3 + x * beta4))))


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
    r"""e_c(rho_a, rho_b) - e_c(rho_a, 0) - e_c(0, rho_b), the part of the correlation that is between the spins,

    = n { (e0 - e1) [1 - f zeta^4] - minus_alpha f (1 - zeta^4) / f''(0) } + sum_s rho_s [e1(n) - e1(rho_s)]

    With a and b the shares of the spins, 1 - zeta^4 = 4ab (1 + zeta^2) and

    1 - f = ab [ 1/(1 + a^(1/3) + a^(2/3)) + 1/(1 + b^(1/3) + b^(2/3)) ] / (1 - 2^(-1/3)),

    so every part is small as it stands where one spin is rare.

    H. Stoll, C. M. E. Pavlidou, H. Preuss, Theor. Chim. Acta 49, 143 (1978). doi:10.1007/PL00020511
    """
    n, f, z2 = total_density(rho), spin_interpolation(rho), polarisation(rho) ** 2
    e0, e1, minus_alpha = (G(wigner_seitz_radius(n)) for G in fits(digits))
    a, b = (0.5 * u for u in spin_fractions(rho))
    ratio = lambda x: 1 / (1 + x ** (1 / 3) + x ** (2 / 3))
    not_f, not_z4 = a * b * (ratio(a) + ratio(b)) / (1 - 2 ** (-1 / 3)), 4 * a * b * (1 + z2)
    between = n * ((e0 - e1) * (not_f + f * not_z4) - minus_alpha * f * not_z4 / digits.fz20)
    up, down = (_dilution(nonnegative(rho[s]), rho[1 - s], digits) for s in (0, 1))
    return between + rho[0] * up + rho[1] * down


def _dilution(n_s: Function, other: Function, digits: Digits) -> Function:
    """e1(n_s + other) - e1(n_s) without a difference: r_s of n_s is t times that of n_s + other.

    r_s of n_s, its root and its fit are those of `polarised_correlation`, which stands beside this: code shares them.
    """
    A, row = digits.A[1], {name: column[1] for name, column in _TABLE_I.items()}
    r, r_s = wigner_seitz_radius(n_s + other), wigner_seitz_radius(n_s)
    x, x_s = sqrt(r), sqrt(r_s)
    u = x_s / x
    t = u * u
    t_less_1 = other / (n_s * (1 + t + t * t))
    q, q_t = (_denominator(y, A, **row) for y in (x, x_s))
    b1, b2, b3, b4 = (row[f"beta{k}"] for k in range(1, 5))
    slope = b1 + x * (b2 * (u + 1) + x * (b3 * (t + u + 1) + x * b4 * (u + 1) * (t + 1)))
    q_t_less_q = 2 * A * x * t_less_1 / (u + 1) * slope
    logs = log1p(q_t_less_q / (q * (q_t + 1)))
    return -2 * A * ((1 + row["alpha1"] * r) * logs - row["alpha1"] * r * t_less_1 * log1p(1 / q_t))


@functional("lda_c_pw", doi=_DOI)
def correlation(rho):
    """Correlation of the uniform gas, eqs. 8 to 10, with the digits of table I as printed."""
    return total_density(rho) * correlation_energy(rho, PRINTED)


@functional("lda_c_pw_mod", doi=_DOI)
def mod_correlation(rho):
    """lda_c_pw with more digits in A and f''(0), as the PBE reference code has them."""
    return total_density(rho) * correlation_energy(rho)
