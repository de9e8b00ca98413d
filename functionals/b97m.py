"""B97M-V: the combinatorially optimised power series in w and u.

N. Mardirossian, M. Head-Gordon, J. Chem. Phys. 142, 074111 (2015). doi:10.1063/1.4907719
"""

from dftfd.functionals import pw92, vv10
from dftfd.functionals.b97 import GAMMA_AB, GAMMA_SS, GAMMA_X, average_x2, saturating, spin_x2
from dftfd.functionals.common import lifted_spins, per_spin, slater_exchange, uniform_kinetic_energy
from dftfd.functionals.minnesota import same_spin_w
from dftfd.functionals.registry import register, term

_TINY = 1e-20
"""Makes w = 1 where both tau vanish."""


def double_series(w, u, powers, coefficients):
    """sum_k c_k w^i u^j over the pairs (i, j) in `powers`."""
    total = 0.0
    for (i, j), c in zip(powers, coefficients, strict=True):
        factors = [f**k for f, k in ((w, i), (u, j)) if k]
        for factor in factors:
            c = c * factor
        total = total + c
    return total


def opposite_spin_w(rho, tau):
    """w = (t - 1) / (t + 1), t = (t_a + t_b) / 2, t_s = tau_unif / tau of each spin, written with r_s = 1 / t_s."""
    r_a, r_b = lifted_spins(lambda n_s, tau_s: 2 * tau_s / uniform_kinetic_energy(2.0 * n_s), rho, tau)
    sum_of_both, product = r_a + r_b + _TINY, 2 * r_a * r_b
    return (sum_of_both - product) / (sum_of_both + product)


def power_series_energy(rho, tau, exchange, powers, c_x, c_ss, c_os):
    r"""e_xc = sum_s [e_x g_x(w_s, u_s) + e_c^ss g_ss(w_s, u_s)] + e_c^os g_os(w, u),   g = sum_k c_k w^i u^j

    exchange: code of n for the unpolarised gas.   powers: pairs (i, j) of each of the three sums.
    """
    powers_x, powers_ss, powers_os = powers

    def one_spin(n_s, tau_s):
        x2, w = spin_x2(n_s), same_spin_w(n_s, tau_s)
        g_x = double_series(w, saturating(x2, GAMMA_X), powers_x, c_x)
        g_ss = double_series(w, saturating(x2, GAMMA_SS), powers_ss, c_ss)
        return 0.5 * exchange(2.0 * n_s) * g_x + pw92.polarised_correlation(n_s) * g_ss

    g_os = double_series(opposite_spin_w(rho, tau), saturating(average_x2(rho), GAMMA_AB), powers_os, c_os)
    return per_spin(one_spin, rho, tau) + pw92.opposite_spin_correlation(rho) * g_os


_POWERS = (
    ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1)),
    ((0, 0), (0, 2), (1, 0), (3, 2), (4, 2)),
    ((0, 0), (0, 1), (0, 3), (1, 0), (3, 2)),
)


@term("mgga_xc_b97m_v", doi="10.1063/1.4907719")
def semilocal(
    rho,
    tau,
    *,
    c_x=(1.0, 1.308, 1.901, 0.416, 3.070),
    c_ss=(1.0, -1.855, -5.668, -20.497, -20.364),
    c_os=(1.0, 1.573, -6.298, 2.535, -6.427),
):
    """The form `power_series_energy` with the coefficients of table III."""
    return power_series_energy(rho, tau, slater_exchange, _POWERS, c_x, c_ss, c_os)


b97m_v = register(semilocal + vv10.vv10.with_parameters(b=6.0, C=0.01), "mgga_xc_b97m_v")
register(b97m_v, "b97mv")
