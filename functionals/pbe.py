"""PBE exchange and correlation.

J. P. Perdew, K. Burke, M. Ernzerhof, Phys. Rev. Lett. 77, 3865 (1996). doi:10.1103/PhysRevLett.77.3865
"""

import math

from dftfd.autofd import expm1, log1p
from dftfd.functionals.common import (
    fermi_wavevector,
    gradient_squared,
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
    spin_scaling_factor,
    total_density,
)
from dftfd.functionals.lda import pw92_correlation_energy
from dftfd.functionals.registry import functional, register

_DOI = "10.1103/PhysRevLett.77.3865"
_GAMMA = (1 - math.log(2)) / math.pi**2


@functional("gga_x_pbe", doi=_DOI)
@spin_scaled
def exchange(n, *, kappa=0.804, mu=0.2195149727645171):
    r"""Exchange energy per volume [hartree / bohr^3].

    e_x = e_x^LDA(n) F_x(s),   F_x(s) = 1 + kappa - kappa / (1 + mu s^2 / kappa)          (eq. 14)

    n: density, R^3 -> R [bohr^-3].   kappa: Lieb-Oxford bound.   mu: beta pi^2 / 3 (eq. 12).
    """
    s2 = reduced_gradient_squared(n)
    F_x = 1.0 + kappa - kappa / (1.0 + mu * s2 / kappa)
    return slater_exchange(n) * F_x


@functional("gga_c_pbe", doi=_DOI)
def correlation(rho, *, beta=0.06672455060314922, gamma=_GAMMA):
    r"""Correlation energy per volume [hartree / bohr^3].

    e_c = n (eps_c^LDA(r_s, zeta) + H),
    H = gamma phi^3 ln(1 + beta/gamma t^2 (1 + A t^2) / (1 + A t^2 + A^2 t^4))            (eq. 7)
    A = beta/gamma / (exp(-eps_c^LDA / (gamma phi^3)) - 1)                                 (eq. 8)
    t = |nabla n| / (2 phi k_s n),   k_s^2 = 4 k_F / pi,   phi = ((1+zeta)^(2/3) + (1-zeta)^(2/3)) / 2
    """
    n = total_density(rho)
    eps, phi = pw92_correlation_energy(rho), spin_scaling_factor(rho)
    phi3 = phi * phi * phi
    k_s2 = 4 / math.pi * fermi_wavevector(n)
    t2 = gradient_squared(n) / (4 * phi * phi * k_s2 * n * n)
    A = beta / gamma / expm1(-eps / (gamma * phi3))
    At2 = A * t2
    H = gamma * phi3 * log1p(beta / gamma * t2 * (1 + At2) / (1 + At2 + At2 * At2))
    return n * (eps + H)


pbe = register((exchange + correlation).named("pbe"))
