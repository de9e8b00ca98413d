"""Perdew and Wang's 1986 exchange and its refit rPW86, the exchange of vdW-DF2.

J. P. Perdew, Y. Wang, Phys. Rev. B 33, 8800 (1986). doi:10.1103/PhysRevB.33.8800
E. D. Murray, K. Lee, D. C. Langreth, J. Chem. Theory Comput. 5, 2754 (2009). doi:10.1021/ct900365q
"""

from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
from dftfd.functionals.numerics import real_power
from dftfd.functionals.registry import functional, variant


@functional("gga_x_pw86", doi="10.1103/PhysRevB.33.8800")
@spin_scaled
def pw86_exchange(n, *, a=0.0864, b=14.0, c=0.2):
    """F_x = (1 + 15 a s^2 + b s^4 + c s^6)^(1/15), eq. 24."""
    s2 = reduced_gradient_squared(n)
    return slater_exchange(n) * real_power(1 + s2 * (15 * a + s2 * (b + c * s2)), 1 / 15)


rpw86_exchange = variant(pw86_exchange, "gga_x_rpw86", doi="10.1021/ct900365q", a=0.1234, b=17.33, c=0.163)
