"""Perdew-Wang 1991 exchange and correlation, and the modified exchange mPW.

J. P. Perdew et al., Phys. Rev. B 46, 6671 (1992). doi:10.1103/PhysRevB.46.6671
K. Burke, J. P. Perdew, Y. Wang, in Electronic Density Functional Theory, Plenum (1998), p. 81.
"""

import math

from dftfd.autofd import exp, expm1, log1p
from dftfd.functionals import pw92
from dftfd.functionals.common import (
    C_X,
    FERMI,
    fermi_wavevector,
    reduced_gradient_squared,
    slater_exchange,
    spin_gradient_squared,
    spin_scaled,
    spin_scaling_factor,
    total_density,
    wigner_seitz_radius,
)
from dftfd.functionals.numerics import at_least, real_power, x_asinh_x
from dftfd.functionals.pbe import correlation_gradient_squared
from dftfd.functionals.registry import functional, register

_DOI = "10.1103/PhysRevB.46.6671"


@functional("gga_x_pw91", doi=_DOI)
@spin_scaled
def exchange(n, *, a=0.19645, b=7.7956, c=0.2743, d=-0.1508, f=0.004, alpha=100.0):
    r"""e_x = e_x^LDA F(s),   F = [1 + a s asinh(b s) + (c + d exp(-alpha s^2)) s^2] / [1 + a s asinh(b s) + f s^4]

    (eq. 8).
    """
    s2 = reduced_gradient_squared(n)
    root = 1 + a / b * x_asinh_x(b * b * s2)
    return slater_exchange(n) * (root + (c + d * exp(-alpha * s2)) * s2) / (root + f * s2 * s2)


_BETA = 5 * (36 * math.pi) ** (-5 / 3)


@functional("gga_x_mpw91", doi="10.1063/1.475428")
@spin_scaled
def mpw91_exchange(n, *, b=0.00426, c=25 / (2 * FERMI) ** (2 / 3), d=3.72):
    r"""PW91 exchange in Becke's variable x = |nabla rho_s| / rho_s^(4/3), modified; for each spin

    e_x = e_x^LDA - rho_s^(4/3) [b x^2 - (b - beta) x^2 exp(-c x^2) - 10^-6 x^d] / [1 + 6 b x asinh x - 10^-6 x^d / C_x]

    with beta = 5 (36 pi)^(-5/3). C. Adamo, V. Barone, J. Chem. Phys. 108, 664 (1998), eqs. 4 and 9; C_x < 0.
    c is PW91's 100 for s^2 in place of x^2, printed as 1.6455.
    """
    x2 = spin_gradient_squared(n)
    C_x = C_X * 2 ** (1 / 3)
    tail = 1e-6 * real_power(at_least(x2, 1e-60), d / 2)
    top = b * x2 - (b - _BETA) * x2 * exp(-c * x2) - tail
    return slater_exchange(n) * (1 - top / C_x / (1 + 6 * b * x_asinh_x(x2) - tail / C_x))


_C_RG = -0.001667
_NU = 16 / math.pi * FERMI ** (1 / 3)
_C_C0 = 0.004235


def rasolt_geldart(rs, cubic):
    """C_xc(r_s), the gradient coefficient of M. Rasolt, D. J. W. Geldart, Phys. Rev. B 34, 1325 (1986) [hartree]."""
    top = 2.568 + rs * (23.266 + 7.389e-3 * rs)
    return 1e-3 * top / (1 + rs * (8.723 + rs * (0.472 + cubic * rs)))


@functional("gga_c_pw91", doi=_DOI)
def correlation(rho, *, alpha=0.09, cubic=0.0):
    r"""e_c = n (eps_c^LDA + H_0 + H_1),                                                              (eq. 10)

    H_0 = phi^3 beta^2/(2 alpha) ln(1 + 2 alpha/beta (t^2 + A t^4) / (1 + A t^2 + A^2 t^4)),      (eq. 14)
    A = 2 alpha/beta / (exp(-2 alpha eps_c / (phi^3 beta^2)) - 1),                                (eq. 14)
    H_1 = nu (C_c(r_s) - C_c(0) - 3 C_x/7) phi^3 t^2 exp(-100 phi^4 (k_s/k_F)^2 t^2),              (eq. 15)
    t = |nabla n| / (2 phi k_s n),   k_s^2 = 4 k_F / pi,   nu = 16/pi (3 pi^2)^(1/3),   beta = nu C_c(0)

    cubic: coefficient of r_s^3 in the denominator of C_xc; 0.07389 in the paper, absent in libxc, which is followed.
    """
    n, eps, phi = total_density(rho), pw92.correlation_energy(rho, pw92.PRINTED), spin_scaling_factor(rho)
    k_F, beta = fermi_wavevector(n), _NU * _C_C0
    phi3, k_s2 = phi * phi * phi, 4 / math.pi * k_F
    t2 = correlation_gradient_squared(n, phi)
    A = 2 * alpha / beta / expm1(-2 * alpha / beta**2 * eps / phi3)
    At2 = A * t2
    H_0 = beta**2 / (2 * alpha) * log1p(2 * alpha / beta * t2 * (1 + At2) / (1 + At2 + At2 * At2))
    C_c = rasolt_geldart(wigner_seitz_radius(n), cubic) - _C_RG
    H_1 = _NU * (C_c - _C_C0 - 3 / 7 * _C_RG) * t2 * exp(-100 * phi3 * phi * k_s2 / (k_F * k_F) * t2)
    return n * (eps + phi3 * (H_0 + H_1))


pw91 = register((exchange + correlation).named("pw91"))
