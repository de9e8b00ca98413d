"""What the library promises to hold: each functional with its source, its formula and the name it has in libxc."""

import inspect
import re

import pytest

import dftfd
from dftfd.interop import libxc

LISTED = """
lda_x lda_c_xalpha lda_c_pw lda_c_pw_mod lda_c_pz lda_c_vwn lda_c_vwn_rpa lda_c_chachiyo
gga_x_pbe gga_c_pbe pbe revpbe rpbe pbesol gga_x_b88 gga_x_b86 gga_x_b86_mgc gga_x_b86_r pw91 gga_x_pw91 gga_c_pw91
gga_x_optx gga_c_lyp gga_c_p86 b97_d gga_xc_hcth_93 gga_xc_hcth_120 gga_xc_hcth_147 gga_xc_hcth_407
tpss revtpss scan rscan r2scan m06_l mn15_l b97m_v scanl r2scanl mgga_x_br89 tb09 bj06 lb94
b3lyp b3lyp5 pbe0 tpssh scan0 r2scan0 m06_2x pw6b95 hse06 camb3lyp lc_wpbe wb97 wb97x wb97x_v wb97m_v
vv10 rvv10 vdw_df vdw_df2 gga_x_rpw86 hartree lda_k_tf gga_k_vw gga_k_tfvw
""".split()

# Terms without a namesake in libxc: double integrals, exact exchange point by point, and parts of hybrids.
OWN_NAMES = {"vv10", "rvv10", "vdw_df_nl", "vdw_df2_nl", "hartree", "lh07t_x", "lc_lh07t_x", "sn_x", "sn_lr_x"}
PARTS_OF_HYBRIDS = {"gga_x_wpbeh_sr", "gga_x_mpw91_pw6b95", "mgga_c_bc95_pw6b95"}

TERMS = {t.name: t for name in dftfd.list_functionals() for _, t in dftfd.get_functional(name).terms}


@pytest.mark.parametrize("name", LISTED)
def test_is_registered(name):
    """By its libxc name or the conventional one."""
    assert dftfd.get_functional(name).terms


@pytest.mark.parametrize("name", TERMS)
def test_every_formula_has_source_text_and_name(name):
    """A DOI, a docstring with the equation, and libxc's name wherever libxc has the formula."""
    term = TERMS[name]
    assert re.fullmatch(r"10\.\d{4,}/\S+", term.doi)
    assert len(inspect.getdoc(term.formula)) > 20
    assert libxc.is_known(name) != (name in OWN_NAMES | PARTS_OF_HYBRIDS)


def test_combinations_spelled_as_in_other_programs():
    """Gaussian's PBE1PBE, GAMESS' and PySCF's B3LYPG, HF with correlation; one formula under several spellings."""
    same = lambda a, b: dftfd.get_functional(a).terms == dftfd.get_functional(b).terms
    assert same("pbe1pbe", "pbe0") and same("PBE1PBE", "hyb_gga_xc_pbeh") and same("b3lypg", "b3lyp")
    assert dftfd.get_functional("pbe1pbe").exact_exchange == ((0.0, 0.25),)
    hflyp = dftfd.get_functional("hflyp")
    assert hflyp.exact_exchange == ((0.0, 1.0),) and [t.name for _, t in hflyp.terms] == ["gga_c_lyp"]
    assert dftfd.get_functional("pbe", kappa=1.245).parameters["kappa"] == 1.245
