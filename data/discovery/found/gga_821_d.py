"""gga_821_d, found by dftfd discover.

    e_x = e_x^LDA (1 + 0.242612 * exp(-(4.21303 * s2)) * s2 + 0.802591 * u(0.257648 * s2))
    e_c = n eps_c^PW92 (1 + 3.50605 * exp(-(7.35596 * s2)) * u(s2)
                          - 1.03434 * exp(-(0.0217608 * s2 * t2)) * u(u(10.0 * t2)))

Dispersion: d3bj s8=1.92848 a1=0.618509 a2=3.02055.
"""

from dataclasses import replace

from dftfd import functional, register
from dftfd.autofd import exp
from dftfd.functionals import pw92
from dftfd.functionals.common import (
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
    spin_scaling_factor,
    total_density,
)
from dftfd.functionals.pbe import correlation_gradient_squared


def u(x):
    """x / (1 + x), proved more easily so."""
    return 1 - 1 / (1 + x)


@functional("gga_x_gga_821_d")
@spin_scaled
def exchange(n, *, a1=0.24261234525504713, b1=4.213029171169084, a2=0.8025907367326611, b2=0.257647864511577):
    s2 = reduced_gradient_squared(n)
    return slater_exchange(n) * (1 + a1 * exp(-(b1 * s2)) * s2 + a2 * u(b2 * s2))


@functional("gga_c_gga_821_d")
def correlation(
    rho,
    *,
    a1=3.506047424702162,
    b1=7.355963385885834,
    a2=-1.0343387966487316,
    b2=0.021760761283216277,
    b3=10.000000000000002,
):
    n, eps = total_density(rho), pw92.correlation_energy(rho)
    phi = spin_scaling_factor(rho)
    t2 = correlation_gradient_squared(n, phi)
    s2 = reduced_gradient_squared(n)
    return n * (eps * (1 + a1 * exp(-(b1 * s2)) * u(s2) + a2 * exp(-(b2 * s2 * t2)) * u(u(b3 * t2))))


gga_821_d = register(
    replace(exchange + correlation, dispersion=("d3bj", "s8=1.92848 a1=0.618509 a2=3.02055")).named("gga_821_d")
)
