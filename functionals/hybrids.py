"""Combinations with conventional names: BLYP, SVWN, PBE0, B3LYP."""

from dftfd.functionals import b88, lda, lyp, pbe, pw92
from dftfd.functionals.base import exact_exchange
from dftfd.functionals.registry import register

register((lda.exchange + lda.vwn5_correlation).named("svwn"))
register((lda.exchange + pw92.mod_correlation).named("spw92"))
register((b88.exchange + lyp.correlation).named("blyp"))
register((b88.exchange + pbe.correlation).named("bpbe"))

# C. Adamo, V. Barone, J. Chem. Phys. 110, 6158 (1999). doi:10.1063/1.478522
pbe0 = register((0.25 * exact_exchange + 0.75 * pbe.exchange + pbe.correlation).named("pbe0"))
register(pbe0, "hyb_gga_xc_pbeh")


def _b3lyp(local_correlation):
    """E_xc = (1 - a0) E_x^S + a0 E_x^HF + ax (E_x^B88 - E_x^S) + (1 - ac) E_c^VWN + ac E_c^LYP, a0 = 0.20, ax = 0.72,
    ac = 0.81. P. J. Stephens et al., J. Phys. Chem. 98, 11623 (1994). doi:10.1021/j100096a001"""
    a0, ax, ac = 0.20, 0.72, 0.81
    exchange = a0 * exact_exchange + (1 - a0 - ax) * lda.exchange + ax * b88.exchange
    return exchange + (1 - ac) * local_correlation + ac * lyp.correlation


# The B3LYP of Gaussian, libxc and PySCF takes VWN's fit to the random phase approximation; b3lyp5 takes VWN5.
register(_b3lyp(lda.vwn_rpa_correlation).named("b3lyp"))
register(_b3lyp(lda.vwn_rpa_correlation).named("hyb_gga_xc_b3lyp"))
register(_b3lyp(lda.vwn5_correlation).named("b3lyp5"))
register(_b3lyp(lda.vwn5_correlation).named("hyb_gga_xc_b3lyp5"))
