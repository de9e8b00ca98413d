"""Local hybrids: exact exchange mixed point by point, g(r) e_x^exact(r) + (1 - g(r)) e_x^semilocal(r).

Exact exchange itself is the local hybrid g = 1: what global and range-separated hybrids take from integrals over both
electrons has here one of them summed over the grid (semi-numerical exchange).

R. A. Friesner, Chem. Phys. Lett. 116, 39 (1985). doi:10.1016/0009-2614(85)80121-4
J. Jaramillo, G. E. Scuseria, M. Ernzerhof, J. Chem. Phys. 118, 1068 (2003). doi:10.1063/1.1528936
H. Bahmann, A. Rodenberg, A. V. Arbuznikov, M. Kaupp, J. Chem. Phys. 126, 011103 (2007). doi:10.1063/1.2429058
"""

from dftfd.functionals import lda
from dftfd.functionals.attenuation import attenuated_slater
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


@functional("lc_lh07t_x", doi="10.1063/1.2429058")
@spin_scaled
def long_range_corrected_exchange(n, tau, e_x, e_x_lr, *, a=0.48, omega=0.3):
    """e_x = e_x^lr + a t e_x^sr + (1 - a t) e_x^Slater,sr, t = tau_W / tau: exact at long range, local at short range.

    lr: erf(omega r)/r, sr: the rest.   a: as lh07t_x.   omega [1/bohr]: of no paper, to be chosen.
    """
    g = a * t_mixing(n, tau)
    return e_x_lr + g * (e_x - e_x_lr) + (1 - g) * attenuated_slater(n, omega)


register((long_range_corrected_exchange + lda.vwn5_correlation).named("lc_lh07t_svwn"))


@functional("sn_x", doi="10.1016/0009-2614(85)80121-4")
def semi_numerical_exchange(e_x):
    """Exact exchange, summed over the grid: "0.25*sn_x + 0.75*gga_x_pbe, gga_c_pbe" is PBE0."""
    return e_x[0] + e_x[1]


@functional("sn_lr_x", doi="10.1016/0009-2614(85)80121-4")
def semi_numerical_long_range_exchange(e_x_lr, *, omega=0.3):
    """Its part of erf(omega r)/r."""
    return e_x_lr[0] + e_x_lr[1]
