"""Becke's 1997 power series and its pure GGAs: HCTH and B97-D.

A. D. Becke, J. Chem. Phys. 107, 8554 (1997). doi:10.1063/1.475007
F. A. Hamprecht, A. J. Cohen, D. J. Tozer, N. C. Handy, J. Chem. Phys. 109, 6264 (1998). doi:10.1063/1.477267
A. D. Boese, N. L. Doltsinis, N. C. Handy, M. Sprik, J. Chem. Phys. 112, 1670 (2000). doi:10.1063/1.480732
A. D. Boese, N. C. Handy, J. Chem. Phys. 114, 5497 (2001). doi:10.1063/1.1347371
S. Grimme, J. Comput. Chem. 27, 1787 (2006). doi:10.1002/jcc.20495
"""

from dataclasses import replace

from dftfd.autofd import Function
from dftfd.functionals import pw92
from dftfd.functionals.common import lifted_spins, per_spin, slater_exchange, spin_gradient_squared
from dftfd.functionals.registry import functional, register, variant


def power_series(u: Function, coefficients) -> Function:
    """sum_i c_i u^i; trailing zeros cost nothing."""
    *lower, total = _without_trailing_zeros(coefficients)
    for c in reversed(lower):
        total = c + u * total
    return total


def _without_trailing_zeros(coefficients):
    kept = list(coefficients)
    while len(kept) > 1 and isinstance(kept[-1], int | float) and kept[-1] == 0:
        kept.pop()
    return kept


def saturating(x2: Function, gamma: float) -> Function:
    """u = gamma x^2 / (1 + gamma x^2), from 0 to 1 (eq. 8)."""
    return gamma * x2 / (1 + gamma * x2)


def spin_x2(n_s: Function) -> Function:
    """x^2 = |nabla rho_s|^2 / rho_s^(8/3)."""
    return spin_gradient_squared(2.0 * n_s)


def average_x2(rho: Function) -> Function:
    """(x_a^2 + x_b^2) / 2."""
    up, down = lifted_spins(spin_x2, rho)
    return 0.5 * (up + down)


@functional("gga_xc_hcth_93", doi="10.1063/1.477267")
def hcth93(
    rho,
    *,
    c_x=(1.09320, -0.744056, 5.59920, -6.78549, 4.49357),
    c_ss=(0.222601, -0.0338622, -0.0125170, -0.802496, 1.55396),
    c_ab=(0.729974, 3.35287, -11.5430, 8.08564, -4.47857),
):
    """The form `power_series_energy` (eqs. 3 to 9)."""
    return power_series_energy(rho, slater_exchange, c_x, c_ss, c_ab)


GAMMA_X, GAMMA_SS, GAMMA_AB = 0.004, 0.2, 0.006


def power_series_energy(rho, exchange, c_x, c_ss, c_ab):
    r"""e_xc = sum_s [e_x(rho_s) g_x(x_s^2) + e_c^LDA(rho_s, 0) g_ss(x_s^2)] + e_c^ab g_ab((x_a^2 + x_b^2)/2),

    g(x^2) = sum_i c_i u^i,   u = gamma x^2 / (1 + gamma x^2);   exchange: code of n for the unpolarised gas.
    PW92 with the digits as printed.
    """

    def one_spin(n_s):
        x2 = spin_x2(n_s)
        g_x, g_ss = power_series(saturating(x2, GAMMA_X), c_x), power_series(saturating(x2, GAMMA_SS), c_ss)
        return 0.5 * exchange(2.0 * n_s) * g_x + pw92.polarised_correlation(n_s, pw92.PRINTED) * g_ss

    g_ab = power_series(saturating(average_x2(rho), GAMMA_AB), c_ab)
    return per_spin(one_spin, rho) + pw92.opposite_spin_correlation(rho, pw92.PRINTED) * g_ab


register(hcth93, "hcth93")
register(
    variant(
        hcth93,
        "gga_xc_hcth_120",
        doi="10.1063/1.480732",
        c_x=(1.09163, -0.747215, 5.07833, -4.10746, 1.17173),
        c_ss=(0.489508, -0.260699, 0.432917, -1.99247, 2.48531),
        c_ab=(0.514730, 6.92982, -24.7073, 23.1098, -11.3234),
    ),
    "hcth120",
)
register(
    variant(
        hcth93,
        "gga_xc_hcth_147",
        doi="10.1063/1.480732",
        c_x=(1.09025, -0.799194, 5.57212, -5.86760, 3.04544),
        c_ss=(0.562576, 0.0171436, -1.30636, 1.05747, 0.885429),
        c_ab=(0.542352, 7.01464, -28.3822, 35.0329, -20.4284),
    ),
    "hcth147",
)
register(
    variant(
        hcth93,
        "gga_xc_hcth_407",
        doi="10.1063/1.1347371",
        c_x=(1.08184, -0.518339, 3.42562, -2.62901, 2.28855),
        c_ss=(1.18777, -2.40292, 5.61741, -9.17923, 6.24798),
        c_ab=(0.589076, 4.42374, -19.2218, 42.5721, -42.0052),
    ),
    "hcth407",
)
_b97_d = variant(
    hcth93,
    "gga_xc_b97_d",
    doi="10.1002/jcc.20495",
    c_x=(1.08662, -0.52127, 3.25429),
    c_ss=(0.22340, -1.56208, 1.94293),
    c_ab=(0.69041, 6.30270, -14.97120),
)
register(replace(_b97_d, dispersion=("d2", "b97d")), "b97d")
