"""Chachiyo's gradient correction to his local correlation.

T. Chachiyo, H. Chachiyo, Comput. Theor. Chem. 1172, 112669 (2020). doi:10.1016/j.comptc.2019.112669
"""

import math

from dftfd.autofd import exp, log1p
from dftfd.functionals.common import gradient_squared, spin_scaling_factor, total_density
from dftfd.functionals.lda import chachiyo_energy
from dftfd.functionals.registry import functional


@functional("gga_c_chachiyo", doi="10.1016/j.comptc.2019.112669")
def correlation(rho, *, h=0.06672632, a=-0.01554535, b_para=20.4562557, b_ferro=27.4203609):
    """e_c = n eps (1 + t^2)^(h/eps),   t = (pi/3)^(1/6) / 4 |nabla n| / n^(7/6);   f(zeta) = 2 (1 - phi^3) in eps."""
    n, phi = total_density(rho), spin_scaling_factor(rho)
    eps = chachiyo_energy(rho, 2 * (1 - phi * phi * phi), a, b_para, b_ferro)
    t2 = (math.pi / 3) ** (1 / 3) / 16 * gradient_squared(n) * n ** (-7 / 3)
    return n * eps * exp(h / eps * log1p(t2))
