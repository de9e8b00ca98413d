"""Local hybrids: exact exchange mixed point by point, g(r) e_x^exact(r) + (1 - g(r)) e_x^semilocal(r).

J. Jaramillo, G. E. Scuseria, M. Ernzerhof, J. Chem. Phys. 118, 1068 (2003). doi:10.1063/1.1528936
H. Bahmann, A. Rodenberg, A. V. Arbuznikov, M. Kaupp, J. Chem. Phys. 126, 011103 (2007). doi:10.1063/1.2429058
"""

from dftfd.functionals import lda
from dftfd.functionals.common import (
    slater_exchange,
    spin_scaled,
    uniform_kinetic_energy,
    weizsaecker_kinetic_energy,
)
from dftfd.functionals.numerics import admissible_tau
from dftfd.functionals.registry import functional, register


def t_mixing(n, tau):
    """t = tau_W / tau, the t-LMF: 1 where one orbital alone has a density, 0 in a uniform gas."""
    tau_W = weizsaecker_kinetic_energy(n)
    return tau_W / admissible_tau(tau, tau_W, uniform_kinetic_energy(n))


@functional("lh07t_x", doi="10.1063/1.2429058")
@spin_scaled
def lh07t_exchange(n, tau, e_x, *, a=0.48):
    """e_x = a t e_x^exact + (1 - a t) e_x^Slater, t = tau_W / tau, of each spin."""
    g = a * t_mixing(n, tau)
    return g * e_x + (1 - g) * slater_exchange(n)


register((lh07t_exchange + lda.vwn5_correlation).named("lh07t_svwn"))
