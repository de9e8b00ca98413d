"""Local density approximations: exchange of the uniform gas, X-alpha, and fits to its correlation energy."""

import math

from dftfd.autofd import Function, arctan, log, log1p, sqrt
from dftfd.functionals.common import (
    polarisation,
    slater_exchange,
    spin_interpolation,
    spin_scaled,
    total_density,
    wigner_seitz_radius,
)
from dftfd.functionals.numerics import where_less
from dftfd.functionals.registry import functional


@functional("lda_x", doi="10.1017/S0305004100016108")
@spin_scaled
def exchange(n):
    r"""Exchange of the uniform gas, e_x = -3/4 (3/pi)^(1/3) n^(4/3).

    P. A. M. Dirac, Proc. Camb. Phil. Soc. 26, 376 (1930); J. C. Slater, Phys. Rev. 81, 385 (1951).
    """
    return slater_exchange(n)


# ---- Vosko, Wilk and Nusair. Padé fits (4.4) of the unpolarised gas, the polarised gas and the spin stiffness.

_VWN5 = dict(
    A=(0.0310907, 0.01554535, -1 / (6 * math.pi**2)),
    b=(3.72744, 7.06042, 1.13107),
    c=(12.9352, 18.0578, 13.0045),
    x0=(-0.10498, -0.32500, -0.0047584),
)
_VWN_RPA = dict(
    A=(0.0310907, 0.01554535),
    b=(13.0720, 20.1231),
    c=(42.7198, 101.578),
    x0=(-0.409286, -0.743294),
)


_FZ20 = 1.709920934161365617563962776245  # f''(0)


def vwn_fit(x: Function, A, b, c, x0) -> Function:
    r"""eps(x), x = sqrt(r_s), eq. 4.4 [hartree].

    A { ln(x^2/X) + 2b/Q atan(Q/(2x+b)) - b x0/X(x0) [ ln((x-x0)^2/X) + 2(b+2x0)/Q atan(Q/(2x+b)) ] },
    X = x^2 + b x + c,   Q = sqrt(4c - b^2)

    The logarithms are -ln(1 + y) of X less its numerator, y, which is small at low density.
    """
    Q = math.sqrt(4 * c - b * b)
    X0 = x0 * x0 + b * x0 + c
    angle = arctan(Q / (2 * x + b))
    first = 2 * b / Q * angle - log1p((b + c / x) / x)
    second = 2 * (b + 2 * x0) / Q * angle - log1p(((b + 2 * x0) * x + c - x0 * x0) / (x - x0) ** 2)
    return A * (first - b * x0 / X0 * second)


def _fits_of(fit, x, table):
    """The fit with each row of parameters in turn."""
    return tuple(fit(x, *row) for row in zip(*table.values(), strict=True))


@functional("lda_c_vwn", doi="10.1139/p80-159")
def vwn5_correlation(rho):
    """VWN5: fit (4.4) to Ceperley and Alder. S. H. Vosko, L. Wilk, M. Nusair, Can. J. Phys. 58, 1200 (1980)."""
    n = total_density(rho)
    para, ferro, stiffness = _fits_of(vwn_fit, sqrt(wigner_seitz_radius(n)), _VWN5)
    f, z4 = spin_interpolation(rho), polarisation(rho) ** 4
    return n * (para + stiffness * f * (1 - z4) / _FZ20 + (ferro - para) * f * z4)


@functional("lda_c_vwn_rpa", doi="10.1139/p80-159")
def vwn_rpa_correlation(rho):
    """VWN fit (4.4) to the random phase approximation, interpolated with f(zeta); the local correlation of B3LYP."""
    n = total_density(rho)
    para, ferro = _fits_of(vwn_fit, sqrt(wigner_seitz_radius(n)), _VWN_RPA)
    return n * (para + (ferro - para) * spin_interpolation(rho))


# ---- X-alpha, Perdew and Zunger, Chachiyo.


@functional("lda_c_xalpha", doi="10.1103/PhysRev.81.385")
@spin_scaled
def xalpha_correction(n, *, alpha=1.0):
    r"""What turns Slater exchange into X-alpha: (3 alpha / 2 - 1) e_x^LDA(n), so lda_x + lda_c_xalpha = X-alpha.

    alpha = 2/3 gives Dirac's exchange, alpha = 1 Slater's potential. J. C. Slater, Phys. Rev. 81, 385 (1951).
    """
    return (1.5 * alpha - 1) * slater_exchange(n)


_PZ81 = dict(
    gamma=(-0.1423, -0.0843),
    beta1=(1.0529, 1.3981),
    beta2=(0.3334, 0.2611),
    A=(0.0311, 0.01555),
    B=(-0.048, -0.0269),
    C=(0.0020, 0.0007),
    D=(-0.0116, -0.0048),
)


def pz81_fit(rs: Function, gamma, beta1, beta2, A, B, C, D) -> Function:
    """eps of the unpolarised or the polarised gas [hartree].

    r_s >= 1: gamma / (1 + beta1 sqrt(r_s) + beta2 r_s) (eq. C3);   r_s < 1: A ln r_s + B + C r_s ln r_s + D r_s (C5).
    The published digits leave a jump of 3e-5 hartree at r_s = 1.
    """
    ln = log(rs)
    dense = A * ln + B + C * rs * ln + D * rs
    return where_less(rs, 1.0, dense, gamma / (1 + beta1 * sqrt(rs) + beta2 * rs))


def pz81_correlation_energy(rho: Function) -> Function:
    """eps_c(r_s, zeta) [hartree] = eps^U + f(zeta) (eps^P - eps^U), eq. C13."""
    para, ferro = _fits_of(pz81_fit, wigner_seitz_radius(total_density(rho)), _PZ81)
    return para + (ferro - para) * spin_interpolation(rho)


@functional("lda_c_pz", doi="10.1103/PhysRevB.23.5048")
def pz81_correlation(rho):
    """Fit to Ceperley and Alder. J. P. Perdew, A. Zunger, Phys. Rev. B 23, 5048 (1981), appendix C."""
    return total_density(rho) * pz81_correlation_energy(rho)


@functional("lda_c_chachiyo", doi="10.1063/1.4958669")
def chachiyo_correlation(rho, *, a=-0.01554535, b_para=20.4562557, b_ferro=27.4203609):
    r"""eps = a ln(1 + b/r_s + b/r_s^2), a = (ln 2 - 1) / (2 pi^2) to eight digits, half of it polarised.

    T. Chachiyo, J. Chem. Phys. 145, 021101 (2016), with eps(zeta) interpolated by f(zeta) (eqs. 1 to 4).
    """
    return total_density(rho) * chachiyo_energy(rho, spin_interpolation(rho), a, b_para, b_ferro)


def chachiyo_energy(rho: Function, f: Function, a, b_para, b_ferro) -> Function:
    """eps_c(r_s, zeta) [hartree], interpolated between unpolarised and polarised gas by f(zeta)."""
    y = 1 / wigner_seitz_radius(total_density(rho))
    para, ferro = a * log1p(b_para * (y + y * y)), a / 2 * log1p(b_ferro * (y + y * y))
    return para + (ferro - para) * f
