"""Global hybrids, double hybrids and other combinations with conventional names.

The numbers are those of libxc and PySCF; where a name of theirs differs from the combination's, both are registered.

Double hybrids have second-order perturbation theory as a part,

    E_c^PT2 = c_os E_os + c_ss E_ss,   E_os = sum_ij,ab (ia|jb)^2 / (e_i + e_j - e_a - e_b) over opposite spins,

and E_ss the antisymmetrised sum over equal spins, of the orbitals that the rest of the functional gives.

S. Grimme, J. Chem. Phys. 124, 034108 (2006). doi:10.1063/1.2148954
"""

from dataclasses import replace

from dftfd.functionals import b88, bc95, lda, lyp, minnesota, p86, pbe, pw91, pw92, scan, tpss
from dftfd.functionals.base import Functional, exact_exchange
from dftfd.functionals.registry import register, reparametrised


def hybrid(a: float, exchange, correlation):
    """a E_x^HF + (1 - a) E_x + E_c."""
    return a * exact_exchange + (1 - a) * exchange + correlation


register((lda.exchange + lda.vwn5_correlation).named("svwn"))
register((lda.exchange + pw92.mod_correlation).named("spw92"))
register((b88.exchange + lyp.correlation).named("blyp"))
register((b88.exchange + pbe.correlation).named("bpbe"))
register((pw91.mpw91_exchange + pw91.correlation).named("mpw91"))
register((exact_exchange + lyp.correlation).named("hflyp"))
register((exact_exchange + pw92.mod_correlation).named("hfpw92"))

# C. Adamo, V. Barone, J. Chem. Phys. 110, 6158 (1999). doi:10.1063/1.478522
pbe0 = register(hybrid(0.25, pbe.exchange, pbe.correlation), "pbe0", doi="10.1063/1.478522")
register(pbe0, "hyb_gga_xc_pbeh")

# V. N. Staroverov, G. E. Scuseria, J. Tao, J. P. Perdew, J. Chem. Phys. 119, 12129 (2003). doi:10.1063/1.1626543
tpssh = register(hybrid(0.10, tpss.tpss_exchange, tpss.tpss_correlation), "tpssh", doi="10.1063/1.1626543")
register(tpssh, "hyb_mgga_xc_tpssh")

# K. Hui, J.-D. Chai, J. Chem. Phys. 144, 044114 (2016). doi:10.1063/1.4940734
_SCAN0 = "10.1063/1.4940734"
scan0_exchange = register(0.25 * exact_exchange + 0.75 * scan.scan_exchange, "hyb_mgga_x_scan0", doi=_SCAN0)
scan0 = register(scan0_exchange + scan.scan_correlation, "scan0", doi=_SCAN0)

# M. Bursch, H. Neugebauer, S. Ehlert, S. Grimme, J. Chem. Phys. 156, 134105 (2022). doi:10.1063/5.0086040
r2scan0 = register(hybrid(0.25, scan.r2scan_exchange, scan.r2scan_correlation), "r2scan0", doi="10.1063/5.0086040")
register(r2scan0, "hyb_mgga_xc_r2scan0")

# Y. Zhao, D. G. Truhlar, Theor. Chem. Acc. 120, 215 (2008), whose sum a_i w^i holds the factor 1 - 0.54 already.
m062x_exchange = register(0.54 * exact_exchange + minnesota.m062x_exchange, "hyb_mgga_x_m06_2x")
m062x = register(m062x_exchange + minnesota.m062x_correlation, "m062x")
register(m062x, "m06_2x")

# Y. Zhao, D. G. Truhlar, J. Phys. Chem. A 109, 5656 (2005): mPW exchange and BC95 correlation, both refitted.
_PW6B95 = "10.1021/jp050536c"
pw6b95_exchange = reparametrised(pw91.mpw91_exchange, "gga_x_mpw91_pw6b95", doi=_PW6B95, b=0.00538, c=1.7382, d=3.8901)
pw6b95 = register(hybrid(0.28, pw6b95_exchange, bc95.pw6b95_correlation), "hyb_mgga_xc_pw6b95")
register(pw6b95, "pw6b95")


def _b3lyp(local_correlation):
    """E_xc = (1 - a0) E_x^S + a0 E_x^HF + ax (E_x^B88 - E_x^S) + (1 - ac) E_c^VWN + ac E_c^LYP, a0 = 0.20, ax = 0.72,
    ac = 0.81. P. J. Stephens et al., J. Phys. Chem. 98, 11623 (1994). doi:10.1021/j100096a001"""
    a0, ax, ac = 0.20, 0.72, 0.81
    exchange = a0 * exact_exchange + (1 - a0 - ax) * lda.exchange + ax * b88.exchange
    return exchange + (1 - ac) * local_correlation + ac * lyp.correlation


# The B3LYP of Gaussian, libxc and PySCF takes VWN's fit to the random phase approximation; b3lyp5 takes VWN5.
_B3LYP = "10.1021/j100096a001"
register(register(_b3lyp(lda.vwn_rpa_correlation), "b3lyp", doi=_B3LYP), "hyb_gga_xc_b3lyp")
register(register(_b3lyp(lda.vwn5_correlation), "b3lyp5", doi=_B3LYP), "hyb_gga_xc_b3lyp5")


opposite_spins = register(Functional("pt2_os", pt2=(1.0, 0.0)))
equal_spins = register(Functional("pt2_ss", pt2=(0.0, 1.0)))
pt2 = register(Functional("pt2", pt2=(1.0, 1.0)))

# S. Grimme, J. Chem. Phys. 124, 034108 (2006). doi:10.1063/1.2148954
b2plyp = register(
    0.53 * exact_exchange + 0.47 * b88.exchange + 0.73 * lyp.correlation + 0.27 * pt2,
    "b2plyp",
    doi="10.1063/1.2148954",
)

# G. Santra, N. Sylvetsky, J. M. L. Martin, J. Phys. Chem. A 123, 5129 (2019). doi:10.1021/acs.jpca.9b03157
# The numbers that belong to D4; they were fitted with core electrons left out of the perturbation theory.
revdsd_pbep86 = register(
    0.69 * exact_exchange
    + 0.31 * pbe.exchange
    + 0.4210 * p86.correlation
    + 0.5922 * opposite_spins
    + 0.0636 * equal_spins,
    "revdsd_pbep86",
    doi="10.1021/acs.jpca.9b03157",
)


def orbitals_alone(functional: Functional) -> Functional:
    """The functional without perturbation theory, whose orbitals a double hybrid takes."""
    return replace(functional, pt2=())
