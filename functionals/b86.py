"""Becke's 1986 exchange with the modified gradient correction, B86b, and its reparametrisation.

A. D. Becke, J. Chem. Phys. 85, 7184 (1986). doi:10.1063/1.451353
I. Hamada, Phys. Rev. B 89, 121103 (2014). doi:10.1103/PhysRevB.89.121103
"""

from dftfd.functionals.common import (
    C_X,
    reduced_gradient_squared,
    slater_exchange,
    spin_gradient_squared,
    spin_scaled,
)
from dftfd.functionals.numerics import real_power
from dftfd.functionals.registry import functional

_C_SPIN = -C_X * 2 ** (1 / 3)
"""e_x = -C rho_s^(4/3) of one spin of the uniform gas."""


@functional("gga_x_b86", doi="10.1063/1.450025")
@spin_scaled
def b86_exchange(n, *, beta=0.0036, gamma=0.004):
    r"""e_x = e_x^LDA - beta rho_s^(4/3) x^2 / (1 + gamma x^2) for each spin, x = |nabla rho_s| / rho_s^(4/3).

    A. D. Becke, J. Chem. Phys. 84, 4524 (1986), eq. 13.
    """
    x2 = spin_gradient_squared(n)
    return slater_exchange(n) * (1 + beta / _C_SPIN * x2 / (1 + gamma * x2))


@functional("gga_x_b86_mgc", doi="10.1063/1.451353")
@spin_scaled
def b86b_exchange(n, *, beta=0.00375, gamma=0.007):
    r"""e_x = e_x^LDA - beta rho_s^(4/3) x^2 / (1 + gamma x^2)^(4/5) for each spin, x = |nabla rho_s| / rho_s^(4/3)."""
    x2 = spin_gradient_squared(n)
    return slater_exchange(n) * (1 + beta / _C_SPIN * x2 * real_power(1 + gamma * x2, -4 / 5))


@functional("gga_x_b86_r", doi="10.1103/PhysRevB.89.121103")
@spin_scaled
def b86r_exchange(n, *, mu=10 / 81, kappa=0.7114):
    r"""F_x = 1 + mu s^2 / (1 + mu s^2 / kappa)^(4/5), for vdW-DF2 (rev-vdW-DF2)."""
    s2 = reduced_gradient_squared(n)
    return slater_exchange(n) * (1 + mu * s2 * real_power(1 + mu / kappa * s2, -4 / 5))
