"""The Minnesota meta-GGAs M06-L, M06-2X (its semilocal part) and MN15-L.

Y. Zhao, D. G. Truhlar, J. Chem. Phys. 125, 194101 (2006). doi:10.1063/1.2370993
Y. Zhao, D. G. Truhlar, Theor. Chem. Acc. 120, 215 (2008). doi:10.1007/s00214-007-0310-x
H. S. Yu, X. He, D. G. Truhlar, J. Chem. Theory Comput. 12, 1280 (2016). doi:10.1021/acs.jctc.5b01082
"""

from dftfd.functionals import pbe, pw92
from dftfd.functionals.b97 import average_x2, power_series, saturating, spin_x2
from dftfd.functionals.common import (
    FERMI,
    lifted_spins,
    per_spin,
    reduced_gradient_squared,
    slater_exchange,
    spin_gradient_squared,
    spin_scaled,
    spin_scaling_factor,
    total_density,
    uniform_kinetic_energy,
    weizsaecker_kinetic_energy,
)
from dftfd.functionals.numerics import admissible_tau
from dftfd.functionals.registry import functional, register, reparametrised, variant

_M06L, _M062X, _MN15L = "10.1063/1.2370993", "10.1007/s00214-007-0310-x", "10.1021/acs.jctc.5b01082"
_C_F_SPIN = 0.6 * (2 * FERMI) ** (2 / 3)
"""2 tau / rho_s^(5/3) of the uniform gas."""


def w_of(tau, tau_unif):
    """w = (t - 1) / (t + 1), t = tau_unif / tau: 1 where tau vanishes, 0 in the uniform gas."""
    return (tau_unif - tau) / (tau_unif + tau)


def same_spin_w(n_s, tau_s):
    """w of one spin."""
    return w_of(2.0 * tau_s, uniform_kinetic_energy(2.0 * n_s))


def same_spin_z(n_s, tau_s):
    """z = 2 tau_s / rho_s^(5/3) - C_F."""
    return 2 * tau_s * n_s ** (-5 / 3) - _C_F_SPIN


def vs98(x2, z, d, alpha):
    """h(x, z) = d0/g + (d1 x^2 + d2 z)/g^2 + (d3 x^4 + d4 x^2 z + d5 z^2)/g^3, g = 1 + alpha (x^2 + z).

    T. Van Voorhis, G. E. Scuseria, J. Chem. Phys. 109, 400 (1998). doi:10.1063/1.476577
    """
    r = 1 / (1 + alpha * (x2 + z))
    return r * (d[0] + r * (d[1] * x2 + d[2] * z + r * (x2 * (d[3] * x2 + d[4] * z) + d[5] * z * z)))


@functional("mgga_x_m06_l", doi=_M06L)
@spin_scaled
def m06l_exchange(
    n,
    tau,
    *,
    a=(
        *(0.3987756, 0.2548219, 0.3923994, -2.103655, -6.302147, 10.97615),
        *(30.97273, -23.18489, -56.73480, 21.60364, 34.21814, -9.049762),
    ),
    d=(0.6012244, 0.004748822, -0.008635108, -0.000009308062, 0.00004482811, 0.0),
    alpha=0.00186726,
):
    """e_x = e_x^PBE sum_i a_i w^i + e_x^LDA h(x, z) for each spin, eqs. 1 to 11."""
    tau_unif, x2 = uniform_kinetic_energy(n), spin_gradient_squared(n)
    z = _C_F_SPIN * (tau / tau_unif - 1)
    e_pbe = slater_exchange(n) * pbe.enhancement(reduced_gradient_squared(n))
    return e_pbe * power_series(w_of(tau, tau_unif), a) + slater_exchange(n) * vs98(x2, z, d, alpha)


@functional("mgga_c_m06_l", doi=_M06L)
def m06l_correlation(
    rho,
    tau,
    *,
    c_ss=(0.5349466, 0.5396620, -31.61217, 51.49592, -29.19613),
    d_ss=(0.4650534, 0.1617589, 0.1833657, 0.00046921, -0.004990573, 0.0),
    c_ab=(0.6042374, 177.6783, -251.3252, 76.35173, -12.55699),
    d_ab=(0.3957626, -0.5614546, 0.01403963, 0.0009831442, -0.003577176, 0.0),
    gamma_ss=0.06,
    gamma_ab=0.0031,
    alpha_ss=0.00515088,
    alpha_ab=0.00304966,
):
    r"""e_c = e_ab [g_ab(x) + h_ab(x, z)] + sum_s e_ss [g_ss(x_s) + h_ss(x_s, z_s)] D_s,              (eqs. 12 to 20)

    g = sum_i c_i u^i,   x^2 = x_a^2 + x_b^2,   z = z_a + z_b,   D_s = 1 - tau_W / tau
    """

    def same(n_s, tau_s):
        x2, tau_W = spin_x2(n_s), weizsaecker_kinetic_energy(n_s)
        g = power_series(saturating(x2, gamma_ss), c_ss) + vs98(x2, same_spin_z(n_s, tau_s), d_ss, alpha_ss)
        D = 1 - tau_W / admissible_tau(tau_s, tau_W, uniform_kinetic_energy(n_s))
        return pw92.polarised_correlation(n_s) * g * D

    x2 = 2 * average_x2(rho)
    z_a, z_b = lifted_spins(same_spin_z, rho, tau)
    g = power_series(saturating(x2, gamma_ab), c_ab) + vs98(x2, z_a + z_b, d_ab, alpha_ab)
    return pw92.opposite_spin_correlation(rho) * g + per_spin(same, rho, tau)


m06l = register(m06l_exchange + m06l_correlation, "m06l")
register(m06l, "m06_l")

# M06-2X: the same form without the second term of the exchange; made for 54 % of exact exchange.
m062x_exchange = reparametrised(
    m06l_exchange,
    "hyb_mgga_x_m06_2x",
    doi=_M062X,
    a=(
        *(0.46, -0.2206052, -0.09431788, 2.164494, -2.556466, -14.22133),
        *(15.55044, 35.98078, -27.22754, -39.24093, 15.22808, 15.22227),
    ),
    d=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
)
m062x_correlation = variant(
    m06l_correlation,
    "mgga_c_m06_2x",
    doi=_M062X,
    c_ss=(0.3097855, -5.528642, 13.47420, -32.13623, 28.46742),
    d_ss=(0.6902145, 0.09847204, 0.2214797, -0.001968264, -0.006775479, 0.0),
    c_ab=(0.8833596, 33.57972, -70.43548, 49.78271, -18.52891),
    d_ab=(0.1166404, -0.09120847, -0.06726189, 0.00006720580, 0.0008448011, 0.0),
)


# ---- MN15-L

_MN15L_C = (
    (
        (0.670864162, -0.822003903, -1.022407046, 1.689460986, -0.00562032, -0.110293849),
        (0.972245178, -6.697641991, -4.322814495, -6.786641376, -5.687461462),
        (9.419643818, 11.83939406, 5.086951311, 4.302369948),
        (-8.07344065, 2.429988978, 11.09485698),
    ),
    (
        (1.247333909, 3.700485291, 0.867791614, -0.591190518, -0.295305435),
        (-5.825759145, 2.537532196, 3.143390933, 2.939126332),
        (0.599342114, 2.241702738, 2.035713838),
    ),
    (
        (-1.525344043, -2.325875691, 1.141940663, -1.563165026),
        (7.882032871, 11.93400684, 9.852928303),
    ),
    ((0.584030245, -0.720941131, -2.836037078),),
)


@functional("mgga_x_mn15_l", doi=_MN15L)
@spin_scaled
def mn15l_exchange(n, tau, *, c=_MN15L_C, omega=2.5, gamma=0.004):
    r"""e_x = e_x^LDA sum_ijk c_ijk v^i u^j w^k for each spin,                                        (eqs. 2 to 6)

    v = omega rho_s^(1/3) / (1 + omega rho_s^(1/3)),   u = gamma x^2 / (1 + gamma x^2)
    """
    root = omega * (n / 2) ** (1 / 3)
    v, u = root / (1 + root), saturating(spin_gradient_squared(n), gamma)
    w = w_of(tau, uniform_kinetic_energy(n))
    series = power_series(v, [power_series(u, [power_series(w, c_ij) for c_ij in c_i]) for c_i in c])
    return slater_exchange(n) * series


@functional("mgga_c_mn15_l", doi=_MN15L)
def mn15l_correlation(
    rho,
    tau,
    *,
    a=(
        *(0.952058087, -0.756954364, 5.677396094, -5.017104782, -5.10654071),
        *(-4.812053335, 3.397640087, 1.980041517, 10.1231046),
    ),
    b=(
        *(0.819504932, -7.689358913, -0.70532663, -0.600096421, 11.03332527),
        *(5.861969337, 8.913865465, 5.74529876, 4.254880837),
    ),
):
    """e_c = n [eps_c^LSDA sum_i a_i w^i + H^PBE sum_i b_i w^i], w from the total tau and density, eqs. 7 to 10."""
    n, phi, eps = total_density(rho), spin_scaling_factor(rho), pw92.correlation_energy(rho)
    w = w_of(tau[0] + tau[1], uniform_kinetic_energy(n))
    H = pbe.gradient_correction(eps, phi, pbe.correlation_gradient_squared(n, phi), pbe.BETA)
    return n * (eps * power_series(w, a) + H * power_series(w, b))


mn15l = register(mn15l_exchange + mn15l_correlation, "mn15l")
register(mn15l, "mn15_l")
