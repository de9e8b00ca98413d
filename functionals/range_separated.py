"""Range-separated hybrids: exact exchange with 1/r and erf(omega r)/r, and semilocal exchange for the rest.

In the notation of libxc and PySCF, alpha is the fraction of exact exchange at long range and alpha + beta that at short
range. Here alpha + beta is the fraction of 1/r and -beta that of erf(omega r)/r.

T. Yanai, D. P. Tew, N. C. Handy, Chem. Phys. Lett. 393, 51 (2004). doi:10.1016/j.cplett.2004.06.011
J.-D. Chai, M. Head-Gordon, J. Chem. Phys. 128, 084106 (2008). doi:10.1063/1.2834918
N. Mardirossian, M. Head-Gordon, Phys. Chem. Chem. Phys. 16, 9904 (2014). doi:10.1039/c3cp54374a
N. Mardirossian, M. Head-Gordon, J. Chem. Phys. 144, 214110 (2016). doi:10.1063/1.4952647
"""

from dftfd.functionals import b88, b97, b97m, lda, lyp, vv10
from dftfd.functionals.attenuation import attenuated_slater, short_range_b88
from dftfd.functionals.base import exact_exchange, long_range_exchange
from dftfd.functionals.registry import register, reparametrised, term

# ---- CAM-B3LYP: alpha = 0.19 and beta = 0.46 of Yanai's paper.


def _cam_b3lyp(short=0.19, extra=0.46, omega=0.33):
    """E_x = short E_x^HF + extra E_x^LR-HF(omega) + (1 - short - extra) E_x^B88 + extra E_x^SR-B88(omega)."""
    exchange = (1 - short - extra) * b88.exchange + extra * reparametrised(short_range_b88, "gga_x_ityh", omega=omega)
    correlation = 0.19 * lda.vwn5_correlation + 0.81 * lyp.correlation
    return short * exact_exchange + extra * long_range_exchange(omega) + exchange + correlation


cam_b3lyp = register(_cam_b3lyp(), "hyb_gga_xc_cam_b3lyp", doi="10.1016/j.cplett.2004.06.011")
register(cam_b3lyp, "camb3lyp")


def _complement(short, omega):
    """Exact exchange that is complete at long range: `short` of 1/r and 1 - short of erf(omega r)/r."""
    return short * exact_exchange + (1 - short) * long_range_exchange(omega)


# ---- omegaB97, omegaB97X (table I) and omegaB97X-V (table 3).


@term("hyb_gga_xc_wb97", doi="10.1063/1.2834918")
def _wb97(
    rho,
    *,
    omega=0.4,
    c_x=(1.0, 1.13116, -2.74915, 12.0900, -5.71642),
    c_ss=(1.0, -2.55352, 11.8926, -26.9452, 17.0927),
    c_ab=(1.0, 3.99051, -17.0066, 1.07292, 8.88211),
):
    """The B97 power series over the short-range exchange of the uniform gas; coefficients of table I."""
    short_range = lambda n: attenuated_slater(n, omega)
    return b97.power_series_energy(rho, short_range, c_x, c_ss, c_ab)


wb97 = register(_wb97 + _complement(0.0, 0.4), "hyb_gga_xc_wb97")
register(wb97, "wb97")

_wb97x = reparametrised(
    _wb97,
    "hyb_gga_xc_wb97x",
    omega=0.3,
    c_x=(0.842294, 0.726479, 1.04760, -5.70635, 13.2794),
    c_ss=(1.0, -4.33879, 18.2308, -31.7430, 17.2901),
    c_ab=(1.0, 2.37031, -11.3995, 6.58405, -3.78132),
)
wb97x = register(_wb97x + _complement(0.157706, 0.3), "hyb_gga_xc_wb97x")
register(wb97x, "wb97x")

_wb97x_v = reparametrised(
    _wb97,
    "hyb_gga_xc_wb97x_v",
    doi="10.1039/c3cp54374a",
    omega=0.3,
    c_x=(0.833, 0.603, 1.194),
    c_ss=(0.556, -0.257),
    c_ab=(1.219, -1.850),
)
_VV10 = vv10.vv10.with_parameters(b=6.0, C=0.01)
wb97x_v = register(_wb97x_v + _VV10 + _complement(0.167, 0.3), "hyb_gga_xc_wb97x_v")
register(wb97x_v, "wb97xv")

# ---- omegaB97M-V

_POWERS = (
    ((0, 0), (0, 1), (1, 0)),
    ((0, 0), (0, 4), (1, 0), (2, 0), (4, 3)),
    ((0, 0), (1, 0), (2, 0), (2, 1), (6, 0), (6, 1)),
)


@term("hyb_mgga_xc_wb97m_v", doi="10.1063/1.4952647")
def _wb97m_v(
    rho,
    tau,
    *,
    omega=0.3,
    c_x=(0.85, 1.007, 0.259),
    c_ss=(0.443, -1.437, -4.535, -3.390, 4.278),
    c_os=(1.0, 1.358, 2.924, -8.812, -1.390, 9.142),
):
    """The power series of B97M-V over the short-range exchange of the uniform gas (table II)."""
    short_range = lambda n: attenuated_slater(n, omega)
    return b97m.power_series_energy(rho, tau, short_range, _POWERS, c_x, c_ss, c_os)


wb97m_v = register(_wb97m_v + _VV10 + _complement(0.15, 0.3), "hyb_mgga_xc_wb97m_v")
register(wb97m_v, "wb97mv")
