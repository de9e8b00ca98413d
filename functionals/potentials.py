"""Models of the exchange potential without an energy functional: LB94, BJ06, TB09.

They run in self-consistent calculations, for orbital energies, band gaps and response; there is no energy and no force.

R. van Leeuwen, E. J. Baerends, Phys. Rev. A 49, 2421 (1994). doi:10.1103/PhysRevA.49.2421
A. D. Becke, E. R. Johnson, J. Chem. Phys. 124, 221101 (2006). doi:10.1063/1.2213970
F. Tran, P. Blaha, Phys. Rev. Lett. 102, 226401 (2009). doi:10.1103/PhysRevLett.102.226401
"""

import math

from dftfd.functionals import pw92
from dftfd.functionals.br89 import hole_potential
from dftfd.functionals.common import each_spin, spin_gradient_squared, spin_pair
from dftfd.functionals.numerics import safe_root, x_asinh_x
from dftfd.functionals.registry import potential, register


def lb94_correction(n_s, beta):
    """-beta rho_s^(1/3) x^2 / (1 + 3 beta x asinh x), x = |nabla rho_s| / rho_s^(4/3); -1/r far outside (eq. 55)."""
    x2 = spin_gradient_squared(2.0 * n_s)
    return -beta * n_s ** (1 / 3) * x2 / (1 + 3 * beta * x_asinh_x(x2))


@potential("gga_x_lb", doi="10.1103/PhysRevA.49.2421")
def lb94(rho, *, alpha=1.0, beta=0.05):
    """v_s = alpha v_x^LDA(rho_s) + the correction of `lb94_correction` (eq. 55), v_x^LDA = -(6 rho_s / pi)^(1/3)."""
    slater = lambda n_s: -((6 / math.pi * n_s) ** (1 / 3))
    return spin_pair(*each_spin(lambda n_s: alpha * slater(n_s) + lb94_correction(n_s, beta), rho))


def becke_johnson(n_s, tau_s, c, gamma=0.8):
    """c U^BR + (3c - 2) / pi sqrt(5/12) sqrt(2 tau_s / rho_s), U^BR from Becke and Roussel's hole (eq. 3)."""
    response = safe_root(5 / 6 * tau_s / n_s) / math.pi
    return c * hole_potential(n_s, tau_s, gamma) + (3 * c - 2) * response


@potential("mgga_x_bj06", doi="10.1063/1.2213970")
def bj06(rho, tau):
    """The potential of the exchange hole and a response term, `becke_johnson` with c = 1 (eq. 3)."""
    return spin_pair(*each_spin(lambda n_s, tau_s: becke_johnson(n_s, tau_s, 1.0), rho, tau))


@potential("mgga_x_tb09", doi="10.1103/PhysRevLett.102.226401")
def tb09(rho, tau, *, c=1.0):
    """`becke_johnson` with c fitted to gaps of solids.

    c: -0.012 + 1.023 sqrt(g), g the average of |nabla n| / n [1/bohr] over the cell (eqs. 4 and 5). The average of a
    solid has no meaning for a molecule, so c is a parameter here, 1 unless given.
    """
    return spin_pair(*each_spin(lambda n_s, tau_s: becke_johnson(n_s, tau_s, c), rho, tau))


register(lb94 + pw92.mod_correlation, "lb94")
register(tb09 + pw92.mod_correlation, "tb09")
register(bj06 + pw92.mod_correlation, "bj06")
