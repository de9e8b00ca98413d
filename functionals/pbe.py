"""PBE exchange and correlation, and its revisions revPBE, RPBE and PBEsol.

J. P. Perdew, K. Burke, M. Ernzerhof, Phys. Rev. Lett. 77, 3865 (1996). doi:10.1103/PhysRevLett.77.3865
"""

import math

from dftfd.autofd import expm1, log1p
from dftfd.functionals import pw92
from dftfd.functionals.common import (
    FERMI,
    gradient_squared,
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
    spin_scaling_factor,
    total_density,
)
from dftfd.functionals.registry import functional, register, variant

_DOI = "10.1103/PhysRevLett.77.3865"
BETA = 0.06672455060314922
MU = 0.2195149727645171
GAMMA = (1 - math.log(2)) / math.pi**2


@functional("gga_x_pbe", doi=_DOI)
@spin_scaled
def exchange(n, *, kappa=0.804, mu=MU):
    r"""Exchange energy per volume [hartree / bohr^3].

    e_x = e_x^LDA(n) F_x(s),   F_x(s) = 1 + kappa - kappa / (1 + mu s^2 / kappa)          (eq. 14)

    n: density, R^3 -> R [bohr^-3].   kappa: Lieb-Oxford bound.   mu: beta pi^2 / 3 (eq. 12).
    """
    return slater_exchange(n) * enhancement(reduced_gradient_squared(n), kappa, mu)


def enhancement(s2, kappa=0.804, mu=MU):
    """F_x(s)."""
    return 1 + kappa - kappa / (1 + mu * s2 / kappa)


@functional("gga_c_pbe", doi=_DOI)
def correlation(rho, *, beta=BETA, gamma=GAMMA):
    r"""Correlation energy per volume [hartree / bohr^3].

    e_c = n (eps_c^LDA(r_s, zeta) + H),
    H = gamma phi^3 ln(1 + beta/gamma t^2 (1 + A t^2) / (1 + A t^2 + A^2 t^4))            (eq. 7)
    A = beta/gamma / (exp(-eps_c^LDA / (gamma phi^3)) - 1)                                 (eq. 8)
    t = |nabla n| / (2 phi k_s n),   k_s^2 = 4 k_F / pi,   phi = ((1+zeta)^(2/3) + (1-zeta)^(2/3)) / 2
    """
    n, phi = total_density(rho), spin_scaling_factor(rho)
    eps = pw92.correlation_energy(rho)
    return n * (eps + gradient_correction(eps, phi, correlation_gradient_squared(n, phi), beta, gamma))


def correlation_gradient_squared(n, phi):
    """t^2 = |nabla n|^2 / (2 phi k_s n)^2,   k_s^2 = 4 k_F / pi."""
    return math.pi / 16 * FERMI ** (-1 / 3) * gradient_squared(n) * n ** (-7 / 3) / (phi * phi)


def gradient_correction(eps, phi, t2, beta, gamma=GAMMA):
    """H(eps_c^LDA, phi, t^2) [hartree], eqs. 7 and 8; beta is a number or a Function."""
    phi3 = phi * phi * phi
    ratio = beta / gamma
    At2 = ratio * t2 / expm1(-eps / (gamma * phi3))
    return gamma * phi3 * log1p(ratio * t2 * (1 + At2) / (1 + At2 + At2 * At2))


pbe = register((exchange + correlation).named("pbe"))


# ---- Other parameters, and another enhancement factor.

# Y. Zhang, W. Yang, Phys. Rev. Lett. 80, 890 (1998). doi:10.1103/PhysRevLett.80.890
# kappa fitted to exchange energies of atoms.
revpbe_exchange = variant(exchange, "gga_x_pbe_r", doi="10.1103/PhysRevLett.80.890", kappa=1.245)
revpbe = register((revpbe_exchange + correlation).named("revpbe"))

# J. P. Perdew et al., Phys. Rev. Lett. 100, 136406 (2008). doi:10.1103/PhysRevLett.100.136406
# mu of the slowly varying gas; beta from surface energies.
_PBESOL = "10.1103/PhysRevLett.100.136406"
pbesol_exchange = variant(exchange, "gga_x_pbe_sol", doi=_PBESOL, mu=10 / 81)
pbesol_correlation = variant(correlation, "gga_c_pbe_sol", doi=_PBESOL, beta=0.046)
pbesol = register((pbesol_exchange + pbesol_correlation).named("pbesol"))


@functional("gga_x_rpbe", doi="10.1103/PhysRevB.59.7413")
@spin_scaled
def rpbe_exchange(n, *, kappa=0.804, mu=MU):
    r"""F_x(s) = 1 + kappa (1 - exp(-mu s^2 / kappa)), eq. 15.

    B. Hammer, L. B. Hansen, J. K. Norskov, Phys. Rev. B 59, 7413 (1999).
    """
    s2 = reduced_gradient_squared(n)
    return slater_exchange(n) * (1 - kappa * expm1(-mu * s2 / kappa))


rpbe = register((rpbe_exchange + correlation).named("rpbe"))
