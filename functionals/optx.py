"""Handy and Cohen's optimised exchange OPTX.

N. C. Handy, A. J. Cohen, Mol. Phys. 99, 403 (2001). doi:10.1080/00268970010018431
"""

from dftfd.functionals import lyp, pbe
from dftfd.functionals.common import C_X, slater_exchange, spin_gradient_squared, spin_scaled
from dftfd.functionals.registry import functional, register


@functional("gga_x_optx", doi="10.1080/00268970010018431")
@spin_scaled
def exchange(n, *, a1=1.05151, a2=1.43169, gamma=0.006):
    r"""e_x = a1 e_x^LDA - a2 rho_s^(4/3) u^2 for each spin,   u = gamma x^2 / (1 + gamma x^2),
    x = |nabla rho_s| / rho_s^(4/3).
    """
    x2 = spin_gradient_squared(n)
    u = gamma * x2 / (1 + gamma * x2)
    return slater_exchange(n) * (a1 + a2 / (-C_X * 2 ** (1 / 3)) * u * u)


olyp = register((exchange + lyp.correlation).named("olyp"))
opbe = register((exchange + pbe.correlation).named("opbe"))
