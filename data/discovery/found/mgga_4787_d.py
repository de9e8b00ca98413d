"""mgga_4787_d, found by dftfd discover.

    e_x = e_x^LDA (1 + (-0.181407) * w**2 * b + 0.22664 * b + (-0.136036) * u(3.01417 * s2))
    e_c = n eps_c^PW92 (1 + (-0.458881) * u(log1p(t2)))

Dispersion: d3bj s8=4.55753 a1=0.671889 a2=5.46231.
"""

from dataclasses import replace

from dftfd import functional, register
from dftfd.autofd import log1p
from dftfd.functionals import pw92
from dftfd.functionals.common import (
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
    spin_scaling_factor,
    total_density,
    uniform_kinetic_energy,
    weizsaecker_kinetic_energy,
)
from dftfd.functionals.pbe import correlation_gradient_squared


def u(x):
    """x / (1 + x), proved more easily so."""
    return 1 - 1 / (1 + x)


@functional("mgga_x_mgga_4787_d")
@spin_scaled
def exchange(n, tau, *, a1=-0.18140663633017243, a2=0.22663964825746793, a3=-0.13603567674919145, b1=3.014174589522757):
    s2 = reduced_gradient_squared(n)
    tau_W, tau_unif = weizsaecker_kinetic_energy(n), uniform_kinetic_energy(n)
    b = 2 * ((tau_unif + tau_W) / (tau_unif + tau)) - 1
    w = 2 / (1 + tau / tau_unif) - 1
    return slater_exchange(n) * (1 + a1 * w**2 * b + a2 * b + a3 * u(b1 * s2))


@functional("gga_c_mgga_4787_d")
def correlation(rho, *, a1=-0.45888094339267776):
    n, eps = total_density(rho), pw92.correlation_energy(rho)
    phi = spin_scaling_factor(rho)
    t2 = correlation_gradient_squared(n, phi)
    return n * (eps * (1 + a1 * u(log1p(t2))))


mgga_4787_d = register(
    replace(exchange + correlation, dispersion=("d3bj", "s8=4.55753 a1=0.671889 a2=5.46231")).named("mgga_4787_d")
)
