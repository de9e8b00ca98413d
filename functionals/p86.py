"""Perdew's 1986 correlation; Perdew and Wang's 1986 exchange and its refit rPW86, the exchange of vdW-DF2.

J. P. Perdew, Phys. Rev. B 33, 8822 (1986). doi:10.1103/PhysRevB.33.8822
J. P. Perdew, Y. Wang, Phys. Rev. B 33, 8800 (1986). doi:10.1103/PhysRevB.33.8800
E. D. Murray, K. Lee, D. C. Langreth, J. Chem. Theory Comput. 5, 2754 (2009). doi:10.1021/ct900365q
"""

from dftfd.autofd import exp, sqrt
from dftfd.functionals import b88
from dftfd.functionals.common import (
    gradient_squared,
    reduced_gradient_squared,
    slater_exchange,
    spin_powers,
    spin_scaled,
    total_density,
    wigner_seitz_radius,
)
from dftfd.functionals.lda import pz81_correlation_energy
from dftfd.functionals.numerics import real_power, safe_root
from dftfd.functionals.registry import functional, register, variant


@functional("gga_c_p86", doi="10.1103/PhysRevB.33.8822")
def correlation(
    rho,
    *,
    alpha=0.023266,
    beta=7.389e-6,
    gamma=8.723,
    delta=0.472,
    C_x=0.001667,
    C_0=0.002568,
    f=0.19195,
):
    r"""e_c = n eps_c^PZ + exp(-Phi) C(n) |nabla n|^2 / (d n^(4/3)),                                 (eq. 4)

    Phi = f C(inf)/C(n) |nabla n| / n^(7/6),   f = 1.745 * 0.11,                                     (eq. 9)
    C(n) = C_x + (C_0 + alpha r_s + beta r_s^2) / (1 + gamma r_s + delta r_s^2 + 10^4 beta r_s^3),   (eq. 6)
    d = 2^(1/3) sqrt(((1 + zeta)/2)^(5/3) + ((1 - zeta)/2)^(5/3))

    e_c holds |nabla n|^3: at nabla n = 0 its second derivative with respect to sigma diverges as sigma^(-1/2).
    """
    n = total_density(rho)
    rs, g2 = wigner_seitz_radius(n), gradient_squared(n)
    C = C_x + (C_0 + rs * (alpha + beta * rs)) / (1 + rs * (gamma + rs * (delta + 1e4 * beta * rs)))
    Phi = f * (C_x + C_0) / C * safe_root(g2) * n ** (-7 / 6)
    up, down = spin_powers(rho, 5 / 3)
    d = 2 ** (1 / 3) * sqrt(2 ** (-5 / 3) * (up + down))
    return n * pz81_correlation_energy(rho) + exp(-Phi) * C * g2 * n ** (-4 / 3) / d


bp86 = register((b88.exchange + correlation).named("bp86"))


@functional("gga_x_pw86", doi="10.1103/PhysRevB.33.8800")
@spin_scaled
def pw86_exchange(n, *, a=0.0864, b=14.0, c=0.2):
    """F_x = (1 + 15 a s^2 + b s^4 + c s^6)^(1/15), eq. 24."""
    s2 = reduced_gradient_squared(n)
    return slater_exchange(n) * real_power(1 + s2 * (15 * a + s2 * (b + c * s2)), 1 / 15)


rpw86_exchange = variant(pw86_exchange, "gga_x_rpw86", doi="10.1021/ct900365q", a=0.1234, b=17.33, c=0.163)
