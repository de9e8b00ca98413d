"""SCAN and its regularised forms rSCAN and r2SCAN.

J. Sun, A. Ruzsinszky, J. P. Perdew, Phys. Rev. Lett. 115, 036402 (2015), equations of its supplement.
doi:10.1103/PhysRevLett.115.036402
A. P. Bartok, J. R. Yates, J. Chem. Phys. 150, 161101 (2019). doi:10.1063/1.5094646
J. W. Furness, A. D. Kaplan, J. Ning, J. P. Perdew, J. Sun, J. Phys. Chem. Lett. 11, 8208 (2020).
doi:10.1021/acs.jpclett.0c02405
"""

import math

import jax

from dftfd.autofd import Function, elementary, exp, expm1, log1p, sqrt
from dftfd.functionals import pw92
from dftfd.functionals.common import (
    polarisation,
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
from dftfd.functionals.numerics import at_least, at_most, where_less
from dftfd.functionals.pbe import GAMMA, correlation_gradient_squared
from dftfd.functionals.registry import functional, register
from dftfd.functionals.tpss import revtpss_beta

_SCAN, _RSCAN, _R2SCAN = "10.1103/PhysRevLett.115.036402", "10.1063/1.5094646", "10.1021/acs.jpclett.0c02405"
_MU = 10 / 81
_H0X = 1.174
_A1 = 4.9479

# ---- The switch between single-orbital (alpha = 0) and slowly varying (alpha = 1) regions.

# Codes give 1 - f(alpha). Where f is nearly 1, what is multiplied by 1 - f can have huge derivatives.

_STEP = 1e-3
"""exp(-c / |1 - alpha|) is below 1e-260 within this distance of alpha = 1, and set to zero there."""


def scan_switch(alpha: Function, c1: float, c2: float, d: float) -> Function:
    """1 - f(alpha), f = exp(-c1 alpha / (1 - alpha)) below 1, -d exp(c2 / (1 - alpha)) above (eqs. 9, 21)."""
    below = where_less(alpha, 1 - _STEP, 1 - exp(-c1 * alpha / (1 - at_most(alpha, 1 - _STEP))), 1.0)
    return where_less(alpha, 1 + _STEP, below, _beyond(alpha, 1 + _STEP, c2, d))


def _beyond(alpha, start, c2, d):
    return 1 + d * exp(c2 / (1 - at_least(alpha, start)))


_RSCAN_X = (1, -0.667, -0.4445555, -0.663086601049, 1.451297044490, -0.887998041597, 0.234528941479, -0.023185843322)
_RSCAN_C = (1, -0.64, -0.4352, -1.535685604549, 3.061560252175, -1.915710236206, 0.516884468372, -0.051848879792)
"""Coefficients of alpha^0 to alpha^7 in exchange and correlation, table I of rSCAN."""


def rscan_switch(alpha: Function, coefficients, c1: float, c2: float, d: float) -> Function:
    """1 - f(alpha), f with a polynomial between 0 and 2.5 in place of the essential singularity at 1."""
    inner, total = at_most(at_least(alpha, 0.0), 2.5), 0.0
    for c in reversed(coefficients[1:]):
        total = (total - c) * inner
    outer = at_most(alpha, 0.0)
    below = 1 - exp(-c1 * outer / (1 - outer))
    return where_less(alpha, 0.0, below, where_less(alpha, 2.5, total, _beyond(alpha, 2.5, c2, d)))


def _slope_at_one(coefficients):
    """f'(1) of the polynomial."""
    return sum(i * c for i, c in enumerate(coefficients))


# ---- Exchange.


def _decay(s2: Function) -> Function:
    """g_x = 1 - exp(-a1 s^(-1/2)), eq. 7; 1 to the last digit below s^2 = 1e-6."""
    return 1 - exp(-_A1 * at_least(s2, 1e-6) ** (-1 / 4))


def _scan_h1x(s2, alpha, k1):
    """h_x^1 = 1 + k1 - k1 / (1 + x/k1), eqs. 4 and 5."""
    b2 = math.sqrt(5913 / 405000)
    b1, b3 = 511 / 13500 / (2 * b2), 0.5
    b4 = _MU**2 / k1 - 1606 / 18225 - b1**2
    fourth_order = b1 * s2 + b2 * (1 - alpha) * exp(-b3 * (1 - alpha) ** 2)
    x = _MU * s2 * (1 + b4 / _MU * s2 * exp(-abs(b4) / _MU * s2)) + fourth_order * fourth_order
    return 1 + k1 - k1 / (1 + x / k1)


def _iso_orbital(n, tau):
    """alpha = (tau - tau_W) / tau_unif, 0 in a single orbital, 1 in the uniform gas."""
    return (tau - weizsaecker_kinetic_energy(n)) / uniform_kinetic_energy(n)


def _rscan_alpha(excess, tau_unif, tau_r=1e-4, alpha_r=1e-3):
    """alpha' = a^3 / (a^2 + alpha_r), a = (tau - tau_W) / (tau_unif + tau_r), eqs. 8 and 9 of rSCAN."""
    a = excess / (tau_unif + tau_r)
    square = a * a
    return a * (square / (square + alpha_r))


def _exchange(n, s2, h1x, not_f):
    """e_x = e_x^LDA [h_x^0 + (1 - f) (h_x^1 - h_x^0)] g_x, eq. 3."""
    return slater_exchange(n) * (_H0X + not_f * (h1x - _H0X)) * _decay(s2)


@functional("mgga_x_scan", doi=_SCAN)
@spin_scaled
def scan_exchange(n, tau, *, c1=0.667, c2=0.8, d=1.24, k1=0.065):
    """e_x = e_x^LDA F_x(s, alpha), eqs. 3 to 9."""
    s2, alpha = reduced_gradient_squared(n), _iso_orbital(n, tau)
    return _exchange(n, s2, _scan_h1x(s2, alpha, k1), scan_switch(alpha, c1, c2, d))


@functional("mgga_x_rscan", doi=_RSCAN)
@spin_scaled
def rscan_exchange(n, tau, *, c2=0.8, d=1.24, k1=0.065, tau_r=1e-4, alpha_r=1e-3):
    """SCAN's exchange with alpha' and a polynomial switch."""
    excess = tau - weizsaecker_kinetic_energy(n)
    s2, alpha = reduced_gradient_squared(n), _rscan_alpha(excess, uniform_kinetic_energy(n), tau_r, alpha_r)
    return _exchange(n, s2, _scan_h1x(s2, alpha, k1), rscan_switch(alpha, _RSCAN_X, 0.667, c2, d))


@functional("mgga_x_r2scan", doi=_R2SCAN)
@spin_scaled
def r2scan_exchange(n, tau, *, c1=0.667, c2=0.8, d=1.24, k1=0.065, eta=0.001, dp2=0.361):
    r"""SCAN's exchange with abar = (tau - tau_W) / (tau_unif + eta tau_W) and the gradient expansion restored:

    h_x^1 = 1 + k1 - k1 / (1 + x/k1),   x = [C_eta C_2 exp(-p^2 / dp2^4) + mu] p,                  (eqs. 9, 10)
    C_eta = 20/27 + 5 eta / 3,   C_2 = -f'(1) (1 - h_x^0),   p = s^2
    """
    p, tau_W = reduced_gradient_squared(n), weizsaecker_kinetic_energy(n)
    abar = (tau - tau_W) / (uniform_kinetic_energy(n) + eta * tau_W)
    C_eta, C_2 = 20 / 27 + 5 / 3 * eta, -_slope_at_one(_RSCAN_X) * (1 - _H0X)
    x = (C_eta * C_2 * exp(-p * p / dp2**4) + _MU) * p
    return _exchange(n, p, 1 + k1 - k1 / (1 + x / k1), rscan_switch(abar, _RSCAN_X, c1, c2, d))


# ---- Correlation.

_B1C, _B2C, _B3C = 0.0285764, 0.0889, 0.125541
_CHI_INF = 0.12802585262625815
_G_C = 2.363


def _lda0(rs):
    """eps_c^LDA0(r_s) = -b1 / (1 + b2 sqrt(r_s) + b3 r_s), eq. 18."""
    return -_B1C / (1 + _B2C * sqrt(rs) + _B3C * rs)


def _spin_dependence(rho):
    """G_c(zeta) = (1 - 2.3631 (d_x - 1)) (1 - zeta^12), d_x = ((1 + zeta)^(4/3) + (1 - zeta)^(4/3)) / 2, eq. 20.

    libxc has 2.363 in place of the paper's 2.3631, and is followed.
    """
    up, down = spin_powers(rho, 4 / 3)
    return (1 - _G_C * (0.5 * (up + down) - 1)) * (1 - polarisation(rho) ** 12)


def _single_orbital_energy(rs, s2, G_c):
    """eps_c^0 = (eps_c^LDA0 + H_0) G_c,   H_0 = b1 ln(1 + w0 (1 - (1 + 4 chi s^2)^(-1/4))), eqs. 16 to 19."""
    eps = _lda0(rs)
    w0 = expm1(-eps / _B1C)
    return (eps + _B1C * log1p(w0 * (1 - (1 + 4 * _CHI_INF * s2) ** (-1 / 4)))) * G_c


class _Gas:
    """What all three correlations share at a density: n, r_s, phi, eps_c^LSDA, w_1, y = A t^2, G_c, d_s."""

    def __init__(self, rho):
        self.rho, self.n = rho, total_density(rho)
        self.rs, self.phi = wigner_seitz_radius(self.n), spin_scaling_factor(rho)
        self.s2, self.G_c = reduced_gradient_squared(self.n), _spin_dependence(rho)
        self.in_zeta = pw92.interpolation(rho)
        self.eps = self.in_zeta(*(G(self.rs) for G in pw92.fits()))
        self.gphi3 = GAMMA * self.phi * self.phi * self.phi
        self.w1 = expm1(-self.eps / self.gphi3)
        t2 = correlation_gradient_squared(self.n, self.phi)
        self.y = revtpss_beta(self.rs) / (GAMMA * self.w1) * t2
        up, down = spin_powers(rho, 5 / 3)
        self.d_s = 0.5 * (up + down)
        self.tau_unif = uniform_kinetic_energy(self.n) * self.d_s
        self.tau_W = weizsaecker_kinetic_energy(self.n)

    def energy(self, y, not_f):
        """n [eps^0 + (1 - f) (eps^1 - eps^0)], eqs. 11 to 15,

        eps^1 = eps^LSDA + gamma phi^3 ln(1 + w1 (1 - (1 + 4y)^(-1/4)))
        """
        eps1 = self.eps + self.gphi3 * log1p(self.w1 * (1 - (1 + 4 * y) ** (-1 / 4)))
        eps0 = _single_orbital_energy(self.rs, self.s2, self.G_c)
        return self.n * (eps0 + not_f * (eps1 - eps0))


_C1C, _C2C, _DC = 0.64, 1.5, 0.7


@functional("mgga_c_scan", doi=_SCAN)
def scan_correlation(rho, tau):
    """e_c = n [eps_c^1 + f_c(alpha) (eps_c^0 - eps_c^1)], eqs. 10 to 21, alpha = (tau - tau_W) / (tau_unif d_s)."""
    gas = _Gas(rho)
    alpha = (tau[0] + tau[1] - gas.tau_W) / gas.tau_unif
    return gas.energy(gas.y, scan_switch(alpha, _C1C, _C2C, _DC))


@functional("mgga_c_rscan", doi=_RSCAN)
def rscan_correlation(rho, tau):
    """SCAN's correlation with alpha' and a polynomial switch."""
    gas = _Gas(rho)
    alpha = _rscan_alpha((tau[0] + tau[1] - gas.tau_W) / gas.d_s, gas.tau_unif / gas.d_s)
    return gas.energy(gas.y, rscan_switch(alpha, _RSCAN_C, _C1C, _C2C, _DC))


def _slope(code):
    """Derivative of scalar code, for Functions."""
    return elementary(jax.grad(code))


@functional("mgga_c_r2scan", doi=_R2SCAN)
def r2scan_correlation(rho, tau, *, eta=0.001, dp2=0.361):
    r"""SCAN's correlation with abar, and y replaced by y - Delta y, which restores the gradient expansion:

    Delta y = f'(1) / (27 gamma d_s phi^3 w1)
              [20 r_s (d eps^LSDA0/d r_s - d eps^LSDA/d r_s) - 45 eta (eps^LSDA0 - eps^LSDA)] p exp(-p^2 / dp2^4),
    eps^LSDA0 = eps^LDA0 G_c                                                                       (eqs. 16, 17)
    """
    gas = _Gas(rho)
    rs, p = gas.rs, gas.s2
    abar = (tau[0] + tau[1] - gas.tau_W) / (gas.tau_unif + eta * gas.tau_W)
    slope0, slope = _slope(_lda0)(rs) * gas.G_c, gas.in_zeta(*(_slope(G)(rs) for G in pw92.fits()))
    bracket = 20 * rs * (slope0 - slope) - 45 * eta * (_lda0(rs) * gas.G_c - gas.eps)
    delta_y = _slope_at_one(_RSCAN_C) / 27 * bracket * p * exp(-p * p / dp2**4) / (gas.d_s * gas.gphi3 * gas.w1)
    return gas.energy(gas.y - delta_y, rscan_switch(abar, _RSCAN_C, _C1C, _C2C, _DC))


scan = register((scan_exchange + scan_correlation).named("scan"))
rscan = register((rscan_exchange + rscan_correlation).named("rscan"))
r2scan = register((r2scan_exchange + r2scan_correlation).named("r2scan"))
