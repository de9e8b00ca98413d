"""Conventional names of the library mean what they mean in PySCF."""

import ctypes

import pytest
from pyscf.dft import libxc as pyscf_libxc

import dftfd
from dftfd.errors import FunctionalError
from dftfd.functionals.jax_xc_formula import is_installed
from dftfd.interop import libxc

NAMES = [
    *(
        "revpbe",
        "rpbe",
        "pbesol",
        "pbesol,pbesol",
        "olyp",
        "opbe",
        "bp86",
        "pw91",
        "optx,lyp",
        "rpw86,pbe",
    ),
    *("hcth_93", "hcth_407", "b97_d", "tpss", "revtpss", "scan", "rscan", "r2scan", "scanl", "r2scanl"),
    *(
        "m06_l",
        "m06l",
        "mn15_l",
        "mn15l",
        "m06l,m06l",
        "b97m_v",
        "tpssh",
        "scan0",
        "r2scan0",
        "m06_2x",
        "m062x",
        "pw6b95",
    ),
    *("hse06", "camb3lyp", "cam-b3lyp", "lcwpbe", "lc_wpbe", "wb97", "wb97x", "wb97x_v", "wb97xv", "wb97m_v", "wb97mv"),
    *("pbe1pbe", "b3lypg", "mpw91", "gga_x_pber", "gga_xc_b97d", "mgga_x_m06l", "pber,pbesol"),
    *("lda,pz", "b88,p86", "mpw91,pw91", "br89,"),
]


def as_sum(functional):
    """{term: coefficient} without exact exchange; the pair of b97m_v and its like counts as one."""
    total = {}
    for coefficient, term in functional.terms:
        total[term.name, str(sorted(term.parameters.items()))] = coefficient
    return total


def pyscf_reading(text):
    """The sum of our functionals that carry the names of the libxc functionals PySCF reads."""
    code = text.replace("cam-b3lyp", "camb3lyp").replace("b97xv", "b97x_v").replace("b97mv", "b97m_v")
    name_of = libxc._c_function("xc_functional_get_name", ctypes.c_char_p, ctypes.c_int)
    parts = [c * dftfd.get_functional(name_of(int(number)).decode()) for number, c in pyscf_libxc.parse_xc(code)[1]]
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize("text", NAMES)
def test_names_are_read_as_in_pyscf(text):
    """Equal terms with equal coefficients and parameters, and equal exact exchange."""
    ours, reference = dftfd.get_functional(text), pyscf_reading(text)
    assert as_sum(ours) == as_sum(reference)
    assert ours.exact_exchange == reference.exact_exchange


@pytest.mark.parametrize("text", ["b3lyp,lyp", "olyp,", ",b3lyp", ",mpw91", "0.5*pbe0 + 0.5*b88, pbe", "wb97x_v,vwn"])
def test_a_combination_on_one_side_of_the_comma_is_refused(text):
    """Correlation would be counted twice; PySCF refuses or misreads such names."""
    with pytest.raises(FunctionalError, match="comma|unknown functional"):
        dftfd.get_functional(text)


@pytest.mark.skipif(not is_installed(), reason="no jax-xc for this Python")
def test_beckes_correlation_of_1988_is_no_exchange():
    """After the comma b88 is libxc's MGGA_C_B88; PySCF 2.14 reads the exchange functional of that name instead."""
    ((coefficient, term),) = dftfd.get_functional(",b88").terms
    assert (coefficient, term.name) == (1.0, "libxc:mgga_c_b88")


def test_a_short_name_of_two_functionals_is_the_simpler_one():
    """PySCF 2.14 reads ",chachiyo" as LDA or GGA, by chance of Python's hash seed.

    Here LDA comes before GGA, and GGA before meta-GGA.
    """
    assert [t.name for _, t in dftfd.get_functional(",chachiyo").terms] == ["lda_c_chachiyo"]


def test_a_new_omega_moves_exact_and_semilocal_exchange_together():
    """The two belong together: one alone would leave part of the exchange out or count it twice."""
    tuned = dftfd.get_functional("wb97x", omega=0.21)
    assert dict(tuned.exact_exchange) == {0.0: 0.157706, 0.21: 0.842294}
    assert all(term.parameters["omega"] == 0.21 for _, term in tuned.terms)
    assert dict(dftfd.get_functional("hse06", omega=0.15).exact_exchange) == {0.0: 0.25, 0.15: -0.25}


@pytest.mark.parametrize("name", ["lyp", "p86", "pw92"])
def test_correlation_alone_is_told_from_an_unknown_name(name):
    """Without a comma PySCF takes a single name for exchange; the answer says how correlation is written."""
    with pytest.raises(FunctionalError, match=f"correlation alone: write ',{name}'"):
        dftfd.get_functional(name)
    assert dftfd.get_functional(f",{name}").name == f",{name}"
