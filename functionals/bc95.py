"""Becke's 1995 meta-GGA correlation, in the parametrisation of PW6B95.

A. D. Becke, J. Chem. Phys. 104, 1040 (1996). doi:10.1063/1.470829
Y. Zhao, D. G. Truhlar, J. Phys. Chem. A 109, 5656 (2005). doi:10.1021/jp050536c
"""

from dftfd.functionals import pw92
from dftfd.functionals.b97 import average_x2, spin_x2
from dftfd.functionals.common import per_spin, uniform_kinetic_energy, weizsaecker_kinetic_energy
from dftfd.functionals.registry import functional, reparametrised


@functional("mgga_c_bc95", doi="10.1063/1.470829")
def correlation(rho, tau, *, c_opp=0.0031, c_ss=0.038):
    r"""e_c = e_c^ab / (1 + c_opp (x_a^2 + x_b^2)) + sum_s e_c^ss D_s / D_s^unif / (1 + c_ss x_s^2)^2,

    D_s = 2 (tau_s - tau_W,s), which vanishes in one-electron regions (eqs. 15 and 16)
    """

    def same(n_s, tau_s):
        D_ratio = 2 * (tau_s - weizsaecker_kinetic_energy(n_s)) / uniform_kinetic_energy(2.0 * n_s)
        return pw92.polarised_correlation(n_s) * D_ratio / (1 + c_ss * spin_x2(n_s)) ** 2

    opposite = pw92.opposite_spin_correlation(rho) / (1 + 2 * c_opp * average_x2(rho))
    return opposite + per_spin(same, rho, tau)


pw6b95_correlation = reparametrised(
    correlation, "mgga_c_bc95_pw6b95", doi="10.1021/jp050536c", c_opp=0.00262, c_ss=0.03668
)
