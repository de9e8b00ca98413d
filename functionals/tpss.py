"""TPSS and revTPSS.

J. Tao, J. P. Perdew, V. N. Staroverov, G. E. Scuseria, Phys. Rev. Lett. 91, 146401 (2003).
doi:10.1103/PhysRevLett.91.146401. Equation numbers are those of this Letter, unless revTPSS is named.
J. P. Perdew, J. Tao, V. N. Staroverov, G. E. Scuseria, J. Chem. Phys. 120, 6898 (2004), the derivation.
doi:10.1063/1.1665298
J. P. Perdew, A. Ruzsinszky, G. I. Csonka, L. A. Constantin, J. Sun, Phys. Rev. Lett. 103, 026403 (2009).
doi:10.1103/PhysRevLett.103.026403
"""

from dftfd.autofd import maximum, sqrt
from dftfd.functionals import pw92
from dftfd.functionals.common import (
    fermi_wavevector,
    lifted_spins,
    polarisation,
    polarisation_gradient_squared,
    reduced_gradient_squared,
    slater_exchange,
    spin_powers,
    spin_scaled,
    spin_scaling_factor,
    total_density,
    uniform_kinetic_energy,
    weizsaecker_kinetic_energy,
    wigner_seitz_radius,
)
from dftfd.functionals.numerics import SPIN_FLOOR, admissible_tau, presence
from dftfd.functionals.pbe import BETA, correlation_gradient_squared, gradient_correction
from dftfd.functionals.registry import functional, register

_TPSS, _REVTPSS = "10.1103/PhysRevLett.91.146401", "10.1103/PhysRevLett.103.026403"
_MU_GE = 10 / 81
_PHI_POLARISED = 2 ** (-1 / 3)


def enhancement(p, t, z_term, *, kappa, b, c, e, mu):
    r"""F_x(p, z) = 1 + kappa - kappa / (1 + x/kappa),                                              (eqs. 5, 10)

    x = { [10/81 + c z_term] p + 146/2025 q^2 - 73/405 q sqrt((3z/5)^2/2 + p^2/2) + (10/81)^2 p^2/kappa
        + 2 sqrt(e) 10/81 (3z/5)^2 + e mu p^3 } / (1 + sqrt(e) p)^2,
    q = 9/20 (alpha - 1) / sqrt(1 + b alpha (alpha - 1)) + 2p/3,   alpha = 5p/3 (1/z - 1)           (eqs. 7, 8)

    p = s^2.   t = tau / tau_unif: 3z/5 = p/t and alpha = t - 5p/3, which are smooth where z and p vanish.
    """
    alpha = t - 5 / 3 * p
    q = 9 / 20 * (alpha - 1) / sqrt(1 + b * alpha * (alpha - 1)) + 2 / 3 * p
    z2 = p * p / (t * t)
    series = (
        (_MU_GE + c * z_term) * p
        + 146 / 2025 * q * q
        - 73 / 405 * q * p * sqrt(0.5 + 0.5 / (t * t))
        + _MU_GE**2 / kappa * p * p
        + 2 * e**0.5 * _MU_GE * z2
        + e * mu * p * p * p
    )
    x = series / (1 + e**0.5 * p) ** 2
    return 1 + kappa - kappa / (1 + x / kappa)


def _p_t_z(n, tau):
    """s^2, tau / tau_unif and z = tau_W / tau."""
    p, tau_unif = reduced_gradient_squared(n), uniform_kinetic_energy(n)
    t = admissible_tau(tau, weizsaecker_kinetic_energy(n), tau_unif) / tau_unif
    return p, t, 5 / 3 * p / t


@functional("mgga_x_tpss", doi=_TPSS)
@spin_scaled
def tpss_exchange(n, tau, *, kappa=0.804, b=0.40, c=1.59096, e=1.537, mu=0.21951):
    """e_x = e_x^LDA F_x (eqs. 5 to 10) with the term c z^2 p / (1 + z^2)^2."""
    p, t, z = _p_t_z(n, tau)
    z_term = (z / (1 + z * z)) ** 2
    return slater_exchange(n) * enhancement(p, t, z_term, kappa=kappa, b=b, c=c, e=e, mu=mu)


@functional("mgga_x_revtpss", doi=_REVTPSS)
@spin_scaled
def revtpss_exchange(n, tau, *, kappa=0.804, b=0.40, c=2.35203946, e=2.16769874, mu=0.14):
    """e_x = e_x^LDA F_x with the term c z^3 p / (1 + z^2)^2."""
    p, t, z = _p_t_z(n, tau)
    z_term = z * (z / (1 + z * z)) ** 2
    return slater_exchange(n) * enhancement(p, t, z_term, kappa=kappa, b=b, c=c, e=e, mu=mu)


def _correlation(rho, tau, beta, C0, d):
    r"""e_c = n eps (1 + d eps z^3),                                                                 (eq. 11)

    eps = eps^PBE (1 + C z^2) - (1 + C) z^2 sum_s (rho_s/n) max(eps^PBE(rho_s, 0), eps^PBE(rho_a, rho_b))    (eq. 12)
        = eps^PBE (1 - z^2) - (1 + C) z^2 sum_s (rho_s/n) max(eps^PBE(rho_s, 0) - eps^PBE(rho_a, rho_b), 0),
    C(zeta, xi) = C(zeta, 0) / {1 + xi^2 [(1 + zeta)^(-4/3) + (1 - zeta)^(-4/3)]/2}^4,              (eq. 14)
    xi = |nabla zeta| / (2 k_F),   C(zeta, 0) = C0_0 + C0_1 zeta^2 + C0_2 zeta^4 + C0_3 zeta^6

    beta: gradient coefficient of PBE's correlation as code of r_s.
    """
    n, phi = total_density(rho), spin_scaling_factor(rho)
    uniform, rs = pw92.correlation_energy(rho), wigner_seitz_radius(n)
    pbe = uniform + gradient_correction(uniform, phi, correlation_gradient_squared(n, phi), beta(rs))

    def excess(n_s):
        """What the energy per electron of this spin alone is above that of both."""
        alone = pw92.polarised_correlation(n_s) / n_s
        t2 = correlation_gradient_squared(n_s, _PHI_POLARISED)
        alone = alone + gradient_correction(alone, _PHI_POLARISED, t2, beta(wigner_seitz_radius(n_s)))
        return maximum(alone - pbe, 0.0)

    excess_up, excess_down = lifted_spins(excess, rho)
    # Without the other spin both energies are equal, and rounding would choose the maximum's derivative. A spin that is
    # rare raises that of both, as phi^3 does, so zero is the limit.
    # The step of a step has no curvature at its end, where the potential is 1e7 hartree.
    beside = lambda n: presence(SPIN_FLOOR * presence(n))
    excess_up, excess_down = beside(rho[1]) * excess_up, beside(rho[0]) * excess_down
    mean_excess = (rho[0] * excess_up + rho[1] * excess_down) / n
    zeta2 = polarisation(rho) ** 2
    up, down = spin_powers(rho, -4 / 3)
    xi2 = polarisation_gradient_squared(rho) / (4 * fermi_wavevector(n) ** 2)
    fading = 1 / (1 + 0.5 * xi2 * (up + down))
    C = (C0[0] + zeta2 * (C0[1] + zeta2 * (C0[2] + zeta2 * C0[3]))) * fading**4
    tau_W = weizsaecker_kinetic_energy(n)
    z = tau_W / admissible_tau(tau[0] + tau[1], tau_W, uniform_kinetic_energy(n))
    z2 = z * z
    eps = pbe * (1 - z2) - (1 + C) * z2 * mean_excess
    return n * eps * (1 + d * eps * z2 * z)


@functional("mgga_c_tpss", doi=_TPSS)
def tpss_correlation(rho, tau, *, beta=BETA, C0=(0.53, 0.87, 0.50, 2.26), d=2.8):
    """PBE's correlation, self-interaction corrected, eqs. 11 to 14: `_correlation`."""
    return _correlation(rho, tau, lambda rs: beta, C0, d)


def revtpss_beta(rs):
    """beta(r_s) = beta_PBE (1 + 0.1 r_s) / (1 + 0.1778 r_s), eq. 3 of revTPSS; printed: 0.066725."""
    return BETA * (1 + 0.1 * rs) / (1 + 0.1778 * rs)


@functional("mgga_c_revtpss", doi=_REVTPSS)
def revtpss_correlation(rho, tau, *, C0=(0.59, 0.9269, 0.6225, 2.1540), d=2.8):
    """TPSS's correlation with beta(r_s) = beta_PBE (1 + 0.1 r_s) / (1 + 0.1778 r_s), eq. 3: `revtpss_beta`."""
    return _correlation(rho, tau, revtpss_beta, C0, d)


tpss = register((tpss_exchange + tpss_correlation).named("tpss"))
revtpss = register((revtpss_exchange + revtpss_correlation).named("revtpss"))
