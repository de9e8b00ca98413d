"""Becke's 1988 exchange.

A. D. Becke, Phys. Rev. A 38, 3098 (1988). doi:10.1103/PhysRevA.38.3098
"""

from dftfd.functionals.common import slater_exchange, spin_gradient_squared, spin_scaled
from dftfd.functionals.numerics import x_asinh_x
from dftfd.functionals.registry import functional


@functional("gga_x_b88", doi="10.1103/PhysRevA.38.3098")
@spin_scaled
def exchange(n, *, beta=0.0042):
    r"""Exchange energy per volume, eq. 8, for n = 2 rho_s.

    e_x = e_x^LDA(n) - beta n^(4/3) 2^(-1/3) x^2 / (1 + 6 beta x asinh x),   x = |nabla rho_s| / rho_s^(4/3)
    """
    return unpolarised_exchange(n, beta)


def unpolarised_exchange(n, beta):
    """e_x of a density n = 2 rho_s, both spins equal."""
    x2 = spin_gradient_squared(n)
    return slater_exchange(n) - beta * 2 ** (-1 / 3) * n ** (4 / 3) * x2 / (1 + 6 * beta * x_asinh_x(x2))
