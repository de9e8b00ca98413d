"""Local density approximations: Slater exchange, Vosko-Wilk-Nusair and Perdew-Wang correlation."""

import math

from dftfd.autofd import Function, arctan, log, log1p, sqrt
from dftfd.functionals.common import (
    polarisation,
    slater_exchange,
    spin_interpolation,
    spin_scaled,
    total_density,
    wigner_seitz_radius,
)
from dftfd.functionals.registry import functional


@functional("lda_x", doi="10.1017/S0305004100016108")
@spin_scaled
def exchange(n):
    r"""Exchange of the uniform gas, e_x = -3/4 (3/pi)^(1/3) n^(4/3).

    P. A. M. Dirac, Proc. Camb. Phil. Soc. 26, 376 (1930); J. C. Slater, Phys. Rev. 81, 385 (1951).
    """
    return slater_exchange(n)


# ---- Perdew and Wang. The three fits G of eq. 10: unpolarised gas, polarised gas, minus the spin stiffness.

_PW92 = dict(
    A=(0.031091, 0.015545, 0.016887),
    alpha1=(0.21370, 0.20548, 0.11125),
    beta1=(7.5957, 14.1189, 10.357),
    beta2=(3.5876, 6.1977, 3.6231),
    beta3=(1.6382, 3.3662, 0.88026),
    beta4=(0.49294, 0.62517, 0.49671),
)
_PW92_MOD_A = (0.0310907, 0.01554535, 0.0168869)
_FZ20 = 1.709921  # f''(0), printed digits
_FZ20_MOD = 1.709920934161365617563962776245


def pw92_fit(rs: Function, A, alpha1, beta1, beta2, beta3, beta4) -> Function:
    """G = -2 A (1 + alpha1 r_s) ln(1 + 1 / (2 A (beta1 r_s^1/2 + beta2 r_s + beta3 r_s^3/2 + beta4 r_s^2))), eq. 10."""
    x = sqrt(rs)
    q = 2 * A * (x * (beta1 + x * (beta2 + x * (beta3 + x * beta4))))
    return -2 * A * (1 + alpha1 * rs) * log1p(1 / q)


def _pw92_rows(A):
    return zip(A, *(_PW92[k] for k in ("alpha1", "beta1", "beta2", "beta3", "beta4")), strict=True)


def pw92_correlation_energy(rho: Function, *, A=_PW92_MOD_A, fz20=_FZ20_MOD) -> Function:
    """eps_c(r_s, zeta) [hartree], eq. 8, with the digits of the PBE reference code unless told otherwise."""
    rs = wigner_seitz_radius(total_density(rho))
    e0, e1, minus_alpha = (pw92_fit(rs, *row) for row in _pw92_rows(A))
    f, z4 = spin_interpolation(rho), polarisation(rho) ** 4
    return e0 - minus_alpha * f * (1 - z4) / fz20 + (e1 - e0) * f * z4


@functional("lda_c_pw", doi="10.1103/PhysRevB.45.13244")
def pw92_correlation(rho):
    """Correlation of the uniform gas. J. P. Perdew, Y. Wang, Phys. Rev. B 45, 13244 (1992), printed digits."""
    return total_density(rho) * pw92_correlation_energy(rho, A=_PW92["A"], fz20=_FZ20)


@functional("lda_c_pw_mod", doi="10.1103/PhysRevB.45.13244")
def pw92_mod_correlation(rho):
    """lda_c_pw with more digits in A and f''(0), as the PBE reference code has them."""
    return total_density(rho) * pw92_correlation_energy(rho)


# ---- Vosko, Wilk and Nusair. Padé fits (4.4) of the unpolarised gas, the polarised gas and the spin stiffness.

_VWN5 = dict(
    A=(0.0310907, 0.01554535, -1 / (6 * math.pi**2)),
    b=(3.72744, 7.06042, 1.13107),
    c=(12.9352, 18.0578, 13.0045),
    x0=(-0.10498, -0.32500, -0.0047584),
)
_VWN_RPA = dict(
    A=(0.0310907, 0.01554535),
    b=(13.0720, 20.1231),
    c=(42.7198, 101.578),
    x0=(-0.409286, -0.743294),
)


def vwn_fit(x: Function, A, b, c, x0) -> Function:
    r"""eps(x), x = sqrt(r_s), eq. 4.4 [hartree].

    A { ln(x^2/X) + 2b/Q atan(Q/(2x+b)) - b x0/X(x0) [ ln((x-x0)^2/X) + 2(b+2x0)/Q atan(Q/(2x+b)) ] },
    X = x^2 + b x + c,   Q = sqrt(4c - b^2)
    """
    Q = math.sqrt(4 * c - b * b)
    X = x * x + b * x + c
    X0 = x0 * x0 + b * x0 + c
    angle = arctan(Q / (2 * x + b))
    first = log(x * x / X) + 2 * b / Q * angle
    second = log((x - x0) ** 2 / X) + 2 * (b + 2 * x0) / Q * angle
    return A * (first - b * x0 / X0 * second)


def _fits(x, table):
    return tuple(vwn_fit(x, *row) for row in zip(*(table[k] for k in ("A", "b", "c", "x0")), strict=True))


@functional("lda_c_vwn", doi="10.1139/p80-159")
def vwn5_correlation(rho):
    """VWN5: fit to Ceperley and Alder. S. H. Vosko, L. Wilk, M. Nusair, Can. J. Phys. 58, 1200 (1980)."""
    n = total_density(rho)
    para, ferro, stiffness = _fits(sqrt(wigner_seitz_radius(n)), _VWN5)
    f, z4 = spin_interpolation(rho), polarisation(rho) ** 4
    return n * (para + stiffness * f * (1 - z4) / _FZ20_MOD + (ferro - para) * f * z4)


@functional("lda_c_vwn_rpa", doi="10.1139/p80-159")
def vwn_rpa_correlation(rho):
    """VWN fit to the random phase approximation, interpolated with f(zeta); the local correlation of B3LYP."""
    n = total_density(rho)
    para, ferro = _fits(sqrt(wigner_seitz_radius(n)), _VWN_RPA)
    return n * (para + (ferro - para) * spin_interpolation(rho))
