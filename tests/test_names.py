"""Names and expressions of functionals: what they mean is what they mean in PySCF, and nothing else is accepted."""

import json
import re
import types
import warnings

import numpy as np
import pytest
from pyscf.dft import libxc as pyscf_libxc

import dftfd
from dftfd.cli.verdicts import functionals_of
from dftfd.errors import FunctionalError, InputError, InputWarning
from dftfd.functionals import catalogue
from dftfd.functionals.base import Functional
from dftfd.functionals.definition import from_definition
from dftfd.functionals.jax_xc_formula import is_installed
from dftfd.functionals.names import MAX_LENGTH, refuse_part
from dftfd.functionals.registry import get_functional, list_functionals, register
from dftfd.interop import libxc
from dftfd.model.input_warnings import warn_about_functional
from dftfd.verify import sampling

needs_jax_xc = pytest.mark.skipif(not is_installed(), reason="no jax-xc for this Python")

SAME_IN_PYSCF = [
    "pbe",
    "PBE",
    "pbe,pbe",
    "gga_x_pbe",
    "GGA_X_PBE,GGA_C_LYP",
    "gga_x_pbe,",
    "pbe,",
    ",pbe",
    ",lyp",
    "b88",
    "b88,",
    "b88,lyp",
    "b88,pbe",
    "blyp",
    "bpbe",
    "lda",
    "lda,",
    "slater,",
    "slater,vwn5",
    "lda,vwn",
    "lda,vwn5",
    "lda,vwn3",
    "lda,vwn_rpa",
    "svwn",
    "lda,pw",
    "lda,pw_mod",
    "lda,pwmod",
    "spw92",
    "b3lyp",
    "b3lyp5",
    "0.5*b3lyp",
    "hyb_gga_xc_b3lyp",
    "pbe0",
    "pbeh",
    "hyb_gga_xc_pbeh",
    "hf",
    "HF,lyp",
    "0.25*HF + 0.75*PBE, PBE",
    ".25*hf+.75*pbe,pbe",
    "hf*0.2 + b88*0.8, lyp",
    "pbe*0.5, lyp*0.3",
    "lda - 0.5*b88 , lyp",
    "gga_x_b88 + gga_c_lyp",
    "1e-1*lda + 9.0E-1*b88, 0.19*vwn + 0.81*lyp",
]


def meaning_in_pyscf(text):
    """(terms, exact exchange) that PySCF reads out of an expression."""
    hybrid, numbered = pyscf_libxc.parse_xc(text)
    names = {code: name.lower() for name, code in pyscf_libxc.XC_CODES.items() if libxc.is_known(name)}
    full = pyscf_libxc.hybrid_coeff(text) if numbered or hybrid[0] else 0.0
    return [(float(c), names[int(i)]) for i, c in numbered], full


def energy_density(terms):
    """Energies at points that tell functionals apart, evaluated by libxc for either reading of a name."""
    return libxc.reference(terms, sampling.sample(2, "dense", 25), n_spin=2).energy


@pytest.mark.parametrize("text", SAME_IN_PYSCF)
def test_expressions_mean_what_they_mean_in_pyscf(text):
    """Equal energy density (both readings evaluated by libxc) and equal exact exchange, for 44 expressions."""
    terms, full = meaning_in_pyscf(text)
    ours = get_functional(text)
    ours_terms = [(float(c), term.name) for c, term in ours.terms]
    np.testing.assert_allclose(energy_density(ours_terms), energy_density(terms), rtol=1e-12, atol=1e-14)
    assert dict(ours.exact_exchange).get(0.0, 0.0) == pytest.approx(full, abs=1e-15)


@pytest.mark.parametrize(
    "text, names",
    [
        ("pbe", {"gga_x_pbe": 1.0, "gga_c_pbe": 1.0}),
        ("lda,vwn", {"lda_x": 1.0, "lda_c_vwn": 1.0}),
        ("s,vwn", {"lda_x": 1.0, "lda_c_vwn": 1.0}),
        ("becke,lyp", {"gga_x_b88": 1.0, "gga_c_lyp": 1.0}),
        ("lda,pw92", {"lda_x": 1.0, "lda_c_pw": 1.0}),
        ("2*gga_x_pbe - gga_x_pbe*0.5", {"gga_x_pbe": 1.5}),
        ("  pbe ,  lyp ", {"gga_x_pbe": 1.0, "gga_c_lyp": 1.0}),
    ],
)
def test_terms_of_an_expression(text, names):
    """The terms behind an expression, with coefficients added up; some names PySCF does not know."""
    found = {}
    for coefficient, term in get_functional(text).terms:
        found[term.name] = found.get(term.name, 0.0) + coefficient
    assert found == names


def test_an_expression_keeps_its_text_as_its_name():
    """Output and errors show what the user wrote."""
    assert get_functional("0.25*HF + 0.75*PBE, PBE").name == "0.25*hf + 0.75*pbe, pbe"
    assert get_functional("PBE").name == "pbe"


@pytest.mark.parametrize("text, expected", [("pbee", "pbe"), ("gga_x_pbf", "gga_x_pbe"), ("b3lpy", "b3lyp")])
def test_unknown_names_are_answered_with_the_closest_three(text, expected):
    """The message lists three names that are served, the meant one among them."""
    with pytest.raises(FunctionalError, match=f"unknown functional '{text}'") as error:
        get_functional(text)
    suggestions = str(error.value).split("names are ")[1].rstrip(".").split(", ")
    assert len(suggestions) == 3 and expected in suggestions
    assert set(suggestions) <= {*list_functionals(), *catalogue.names()}


@pytest.mark.parametrize(
    "text",
    [
        "pbe,pbe,pbe",
        "pbe pbe",
        "pbe++pbe",
        "0.5pbe",
        "0.5**pbe",
        "pbe,+",
        "*pbe",
        "1.0*",
        "pbe/2",
        "(pbe)",
        "pbe;lyp",
        "0x10*pbe",
        "1e*pbe",
        "__import__('os')",
        "pbe\n,pbe)",
        "{pbe}",
        "pbe, pbe + ",
        "130,101",
        "130,",
        ",101",
        "libxc:130,libxc:101",
        "402,",
        "0.5*101 + 0.5*130, 130",
    ],
)
def test_malformed_expressions_are_refused(text):
    """What is not a sum of names is a FunctionalError that shows the text; no part of it is evaluated."""
    with pytest.raises(FunctionalError):
        get_functional(text)


@pytest.mark.parametrize("text", ["", "   ", ",", " , ", "a" * (MAX_LENGTH + 1)])
def test_empty_and_endless_expressions_are_refused(text):
    with pytest.raises(FunctionalError, match="empty|one side of the comma|characters"):
        get_functional(text)


@pytest.mark.parametrize("value", [None, True, 1.0, ["pbe"], b"pbe", {}])
def test_what_is_no_name_is_refused(value):
    """Types other than text and Functional: a FunctionalError, which is an InputError with exit code 2."""
    with pytest.raises(InputError, match="functional") as error:
        get_functional(value)
    assert error.value.exit_code == 2


def test_registration_refuses_duplicates_and_bad_names():
    """A name is taken once; names are lower-case words, so that expressions can be read."""
    pbe = get_functional("pbe")
    with pytest.raises(FunctionalError, match="'pbe' is registered already"):
        register(pbe)
    with pytest.raises(FunctionalError, match="'gga_x_pbe' is registered already"):

        @dftfd.functional("gga_x_pbe")
        def again(n):
            return n

    for name in ("PBE", "my functional", "2pbe", "", "a*b", "a,b", 3, None):
        with pytest.raises(FunctionalError, match="not a name for a functional|registered already"):
            register(pbe.named(name) if isinstance(name, str) else pbe, name if name is not None else "")
    with pytest.raises(FunctionalError, match="a Functional expected"):
        register("pbe", "test_names_text")
    with pytest.raises(FunctionalError, match="no option 'dio'; the closest ones are doi, kind, spin_symmetric"):
        dftfd.functional("test_names_options", dio="10.1/1")
    assert not {"test_names_text", "test_names_options"} & set(list_functionals())


def test_a_registered_functional_is_found_by_name_and_in_expressions():
    """@dftfd.functional enters a formula that expressions can use at once, in any case."""

    @dftfd.functional("gga_x_test_names", doi="10.0/none")
    def mine(n, *, c=2.0):
        return c * n

    assert isinstance(mine, Functional) and mine.dois == ("10.0/none",)
    assert get_functional("gga_x_test_names") is not None and "gga_x_test_names" in list_functionals()
    assert [term.name for _, term in get_functional("Test_Names,LYP").terms] == ["gga_x_test_names", "gga_c_lyp"]
    assert get_functional("gga_x_test_names", c=3.0).parameters == {"c": 3.0}


@pytest.mark.parametrize("name", list_functionals())
def test_every_registered_name_reads_back(name):
    """Each listed name is accepted and gives the functional of that name."""
    assert get_functional(name).name == name


@pytest.mark.parametrize(
    "text, names", [("130", ["gga_c_pbe"]), (101, ["gga_x_pbe"]), ("101,131", ["gga_x_pbe", "gga_c_lyp"])]
)
def test_numbers_are_libxcs(text, names):
    """A number stands for libxc's functional of that number, alone and in expressions; PySCF reads the same."""
    assert [term.name for _, term in get_functional(text).terms] == names
    assert [name for _, name in meaning_in_pyscf(str(text))[0]] == names
    with pytest.raises(FunctionalError, match="no functional of number 99999"):
        get_functional("99999")


@needs_jax_xc
def test_a_number_with_the_prefix_is_of_the_catalogue():
    """libxc:101 is libxc:gga_x_pbe, not the library's own."""
    assert [term.name for _, term in get_functional("libxc:101,130").terms] == ["libxc:gga_x_pbe", "gga_c_pbe"]
    with pytest.raises(FunctionalError, match="no functional of number 99999"):
        get_functional("libxc:99999")


@pytest.mark.parametrize("text", ["0.2*sr_hf(0.3) + lr_hf(0.3)*0.7", "RSH(0.65; -0.46; 0.33)", "0.3*hf + SR_HF(.2)"])
def test_range_separated_exact_exchange_reads_as_in_pyscf(text):
    """(omega, alpha, beta) of PySCF: long-range fraction alpha, short-range fraction alpha + beta."""
    omega, alpha, beta = pyscf_libxc.rsh_coeff(text)
    fractions = dict(get_functional(text).exact_exchange)
    assert fractions.get(0.0, 0.0) == pytest.approx(alpha + beta, abs=1e-15)
    assert fractions[omega] == pytest.approx(-beta, abs=1e-15)
    for wrong in ("sr_hf(a)", "rsh(1;2)", "lr_hf()"):
        with pytest.raises(FunctionalError):
            get_functional(wrong)


def test_another_fraction_of_exact_exchange_changes_the_semilocal_one_too():
    """PBE0 with 0.4 is the written-out sum; functionals fitted as a whole, or range-separated, refuse."""
    changed, written = get_functional("pbe0", exact_exchange=0.4), get_functional("0.4*hf + 0.6*pbe, pbe")
    assert changed.exact_exchange == written.exact_exchange
    assert [(t.name, c) for c, t in changed.terms] == [(t.name, pytest.approx(c)) for c, t in written.terms]
    assert get_functional("pbe", exact_exchange=0.25).exact_exchange == get_functional("pbe0").exact_exchange
    for name in ("m062x", "hyb_gga_xc_hse06", "hf", "gga_c_pbe"):
        with pytest.raises(FunctionalError, match="fraction can't be changed"):
            get_functional(name, exact_exchange=0.1)


@needs_jax_xc
@pytest.mark.parametrize("name", ["hyb_gga_xc_hse06", "hyb_gga_xc_cam_b3lyp", "libxc:hyb_gga_xc_wb97x"])
def test_omega_changes_exact_exchange_and_formula(name):
    """One omega for both; where a functional has several, one value is refused."""
    changed = get_functional(name, omega=0.15)
    assert {w for w, _ in changed.exact_exchange if w} == {0.15}
    assert {t.parameters["omega"] for _, t in changed.terms if "omega" in t.parameters} == {0.15}
    with pytest.raises(FunctionalError, match="several omegas"):
        get_functional("libxc:hyb_gga_xc_hse03", omega=0.2)


@needs_jax_xc
@pytest.mark.parametrize("text", ["pbe0", "mn15l", "0.3*hf + 0.7*b88, 0.5*lyp", "hyb_gga_xc_hse06", "libxc:mgga_c_m06"])
def test_definitions_make_the_functional_again(text):
    """Through JSON and back: same formulas, coefficients, parameters, exact exchange."""
    f = get_functional(text)
    again = from_definition(json.loads(json.dumps(f.definition)), text)
    assert again.exact_exchange == f.exact_exchange and len(again.terms) == len(f.terms)
    for (a, s), (b, t) in zip(again.terms, f.terms, strict=True):
        assert (a, s.formula, dict(s.parameters)) == (b, t.formula, dict(t.parameters))


def test_numbers_in_brackets_are_parameters():
    """The same functional as `with_parameters` makes, on either side of a comma, in sums and of several parameters."""
    pbe = get_functional("pbe")
    for text, parameters in (
        ("pbe(kappa=0.9)", {"kappa": 0.9}),
        ("PBE( mu=2e-1,kappa = 1 )", {"mu": 0.2, "kappa": 1.0}),
    ):
        assert get_functional(text).definition == pbe.with_parameters(**parameters).definition
    mixed = get_functional("0.25*HF + 0.75*pbe(mu=-0.1; kappa=0.9), pbe(beta=0.05)")
    exchange = get_functional("gga_x_pbe", mu=-0.1, kappa=0.9)
    parts = 0.25 * get_functional("hf") + 0.75 * exchange + get_functional("gga_c_pbe", beta=0.05)
    assert mixed.definition == parts.definition
    assert functionals_of("pbe(mu=0.2,kappa=1),blyp") == ["pbe(mu=0.2,kappa=1)", "blyp"]
    assert functionals_of("lda,vwn; pbe(mu=0.2)") == ["lda,vwn", "pbe(mu=0.2)"]


@pytest.mark.parametrize("words", ["pbe,", ",lyp", "blyp,,pbe"])
def test_a_comma_with_nothing_beside_it_is_no_list(words):
    """'pbe,' is exchange alone wherever one functional is named; in a list it was PBE."""
    with pytest.raises(InputError, match="a comma with nothing on one side"):
        functionals_of(words)
    assert functionals_of("pbe,;") == ["pbe,"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pbe(kapa=1)", "has no parameter 'kapa'; it has"),
        ("pbe(kappa=x)", "as in 'pbe\\(kappa=0.9\\)'"),
        ("pbe(kappa=__import__('os'))", "can't be read at"),
        ("pbe(kappa=1, kappa=2)", "one value for each parameter"),
        ("hf(omega=0.3)", "has no parameter 'omega'; it has none"),
    ],
)
def test_what_brackets_may_not_hold(text, words):
    """Anything but numbers, unknown names, a name twice."""
    with pytest.raises(FunctionalError, match=words):
        get_functional(text)


@pytest.mark.parametrize(
    "theirs, ours",
    [
        ("B3LYP-D3(BJ)", "b3lyp-d3bj"),
        ("b3lyp\N{EN DASH}d3(bj)", "b3lyp-d3bj"),
        ("PBEPBE-D3(0)", "pbe-d3zero"),
        ("PBE1PBE-D3BJ", "pbe0-d3bj"),
        ("mPWPW91-D3BJ", "mpwpw-d3bj"),
        ("PBE0-1/3", "hyb_gga_xc_pbe0_13"),
        ("\N{GREEK SMALL LETTER OMEGA}B97X-V", "wb97x-v"),
        ("\N{OHM SIGN}B97X-V", "wb97x-v"),
        ("r\N{SUPERSCRIPT TWO}SCAN", "r2scan"),
        ("BH&HLYP", "bhandhlyp"),
        ("PBEPBE", "pbe"),
        ("TPSSTPSS", "tpss"),
        ("HSEh1PBE", "hse06"),
        ("mPW1PW91", "mpw1pw"),
        ("B1B95", "hyb_mgga_xc_b88b95"),
        ("SVWN5", "lda,vwn"),
        ("B3LYP/G", "b3lyp"),
        ("HCTH/407", "hcth407"),
        ("HCTH/407+", "gga_xc_hcth_407p"),
        ("M11", "hyb_mgga_x_m11 + mgga_c_m11"),
        ("xPBE", "gga_x_xpbe + gga_c_xpbe"),
    ],
)
def test_names_of_other_programs(theirs, ours):
    """Gaussian's, ORCA's and Q-Chem's names mean what their manuals say, in the dashes and letters of papers."""
    assert get_functional(theirs).definition == get_functional(ours).definition


@pytest.mark.parametrize(
    "text, message",
    [
        ("LSDA", "'lda,vwn_rpa'"),
        ("BVWN", "Gaussian's is 'b88,vwn_rpa'"),
        ("RTPSS", "VASP's is 'revtpss'"),
        ("ZLP", "'mgga_xc_zlp', PySCF's and Psi4's"),
        ("B3LYP3", "Molpro's is 'b3lyp'"),
        ("B3P86", "Gaussian's and NWChem's is 'hyb_gga_xc_b3p86_nwchem'"),
        ("b3p86g", "libxc's, PySCF's and Psi4's 'hyb_gga_xc_b3p86'"),
        ("B3P86-D3(BJ)", "'hyb_gga_xc_b3p86_nwchem'"),
        ("B98", "Gaussian's, NWChem's and that of D3 is 'hyb_gga_xc_sb98_2c'"),
        ("b98-d3(bj)", "'hyb_mgga_xc_b98'"),
        ("0.5*b3p86 + 0.5*pbe", "'hyb_gga_xc_b3p86_nwchem'"),
        ("1.0*zlp", "'mgga_xc_zlp', PySCF's and Psi4's"),
        ("rcam_b3lyp - 0.1*hf", "'hyb_gga_xc_rcam_b3lyp'"),
        ("B-P-D3(BJ)", "how Turbomole writes B88 and P86 with VWN V"),
        ("b3-lyp-d3bj", "how Turbomole writes B3LYP with VWN V"),
        ("LC-PBEOP(mu=0.4)", "'mu' may be the range omega.*write libxc:gga_x_ityh_pbe.mu for that, omega= for"),
        ("B3LYP*", "'hyb_gga_xc_b3lyps' is it with VWN III"),
        ("X1B95", "57 % of exchange"),
        ("XB1K", "82 % of exchange"),
        ("whPBE0", "50 % of exchange"),
        ("LDA0", "'.25\\*hf \\+ .75\\*lda, pw_mod'"),
        ("012", "unknown functional '012'"),
        ("RCAM-B3LYP", "restricted calculations of Gaussian, 'camb3lyp'"),
        ("rCAMB3LYP-D3(BJ)", "'hyb_gga_xc_rcam_b3lyp'"),
        ("B3LYP/6-31G*", "functional 'b3lyp', basis '6-31g\\*'"),
        ("X_PBE", "'gga_x_pbe' or "),
        ("x_lyp", "write 'gga_xc_xlyp'"),
        ("X-PBE", "'gga_x_pbe' or "),
        ("c-pbe", "write 'gga_c_pbe'"),
        ("1e400*pbe", "not a finite number"),
        ("pbe(kappa=1e999)", "not a finite number"),
    ],
)
def test_names_that_leave_something_open(text, message):
    """The answer says what to write."""
    with pytest.raises(FunctionalError, match=message):
        get_functional(text)


def test_corrections_of_pbeh_are_those_of_pbe0():
    """libxc's name of PBE0; PBEh-3c is another functional."""
    assert dftfd.get_functional("PBEh-D3BJ").dispersion == dftfd.get_functional("pbe0-d3bj").dispersion
    assert dftfd.get_functional("pbeh-3c").dispersion == ("d3bjatm+gcp", "pbeh3c")


@pytest.mark.parametrize("text", ["scan+rvv10", "SCAN + VV10", "r2scan+rVV10"])
def test_published_pairs_with_nonlocal_correlation_are_no_sums(text):
    """Whose b is another one: SCAN+rVV10 has 15.7 (doi:10.1103/PhysRevX.6.041005), a bare rVV10 6.3."""
    with pytest.raises(FunctionalError, match="is published with another b than that of a bare"):
        get_functional(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SCAN \N{EN DASH} rVV10", "subtracts nonlocal correlation; write '\\+ rvv10'"),
        ("tpss - vv10", "or '- 1.0\\*vv10' if"),
        ("rPW86, VV10", "write 'rpw86, pbe \\+ vv10'"),
        ("scan - 1.0*rvv10", None),
        ("rpw86, 1.0*vv10", None),
    ],
)
def test_dashes_and_commas_before_nonlocal_correlation(text, words):
    """A dash between words was a minus, a comma left the other correlation out; factors say what is meant."""
    if words is None:
        assert any(t.is_nonlocal for _, t in get_functional(text).terms)
        return
    with pytest.raises(FunctionalError, match=words):
        get_functional(text)


@pytest.mark.parametrize(
    ("text", "b"), [("scan_rvv10", 15.7), ("scan + 1.0*rvv10", 6.3), ("r2scan + rvv10(b=11.95)", 11.95)]
)
def test_b_of_nonlocal_correlation(text, b):
    ((value,),) = {tuple(t.parameters["b"] for _, t in get_functional(text).terms if t.is_nonlocal)}
    assert value == b


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("b3lyp(a=0.3)", r"'a' may be a fraction of exchange.*write gga_c_lyp\.a for that, exact_exchange="),
        ("camb3lyp(beta=0.46)", r"'beta' may be a fraction.*\.beta for that"),
        ("b3lyp(b=0.72)", r"'b' may be a fraction of exchange.*write gga_c_lyp\.b"),
        pytest.param("x3lyp(c=0.81)", r"'c' may be a fraction of exchange", marks=needs_jax_xc),
        ("tpssh(c=1.6)", None),
        ("wb97xv(b=5.0)", None),
        ("0.3*HF + 0.7*pbe, lyp(c=0.2)", None),
        ("pbe0(kappa=0.9)", None),
        ("blyp(a=0.05)", None),
        ("b3lyp(beta=0.0041)", None),
        ("b3lyp(b88.a=0.3)", "no parameter 'b88.a'; there is gga_c_lyp.a"),
        ("camb3lyp(lyp.omega=0.3)", "no parameter|write omega="),
    ],
)
def test_a_parameter_of_a_part_that_reads_like_the_fraction_of_exact_exchange_is_refused(spec, said):
    """b3lyp(a=0.3) was LYP with a = 0.3, a correlation six times too large."""
    if said is None:
        assert get_functional(spec).terms
        return
    with pytest.raises(FunctionalError, match=said):
        get_functional(spec)


def test_parameters_by_the_name_of_their_part():
    """The same as the part with that parameter, put into the sum; the name can be read again."""
    changed = get_functional("b3lyp(lyp.a=0.05)")
    (lyp,) = (t for _, t in changed.terms if t.name == "gga_c_lyp")
    assert lyp.parameters == {**get_functional("gga_c_lyp").parameters, "a": 0.05}
    others = [(c, t.name, t.parameters) for c, t in changed.terms if t is not lyp]
    assert others == [(c, t.name, t.parameters) for c, t in get_functional("b3lyp").terms if t.name != lyp.name]
    assert changed.exact_exchange == get_functional("b3lyp").exact_exchange
    by_full_name = get_functional("b3lyp", **{"gga_c_lyp.a": 0.05})
    assert by_full_name.definition == changed.definition == get_functional(by_full_name.name).definition


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        ("25*HF + 75*PBE, PBE", "0.25"),
        ("0.25*hf + 75*pbe, pbe", "0.75"),
        ("b3lyp - 20*hf", "0.2"),
        ("hf*40, lyp", "0.4"),
        ("rsh(65; -46; 0.33)", "0.65"),
        ("19*sr_hf(0.33), lyp", "0.19"),
        ("53*hf + 27*pt2", "0.53"),
    ],
)
def test_percent_for_fractions(text, fraction):
    """25*hf was 25 times exact exchange."""
    with pytest.raises(FunctionalError, match=f"a fraction expected, .*; write {fraction} for percent"):
        get_functional(text)


def test_percent_for_the_fraction_of_exact_exchange():
    """Also in Python; a product of a Functional, and own names, have any factor."""
    with pytest.raises(FunctionalError, match="exact_exchange=25: a fraction expected.*0.25 for percent"):
        get_functional("pbe0", exact_exchange=25)
    assert (25 * get_functional("hf")).exact_exchange == ((0.0, 25.0),)

    @dftfd.functional("gga_x_test_percent")
    def mine(n):
        return -n

    ((coefficient, _),) = get_functional("25*gga_x_test_percent").terms
    assert coefficient == 25


def test_own_names_promise_nothing():
    """A name that ends like one of libxc's with a correction, wb97x_d, means what was registered under it."""

    @dftfd.functional("test_names_d")
    def mine(n):
        return -n

    assert get_functional("test_names_d").definition == mine.definition
    assert len(get_functional("0.5*test_names_d + 0.5*pbe").terms) == 3


@pytest.mark.parametrize(
    ("name", "omega", "is_said"),
    [
        ("hse06", 0.2, True),
        ("hse06", 0.207, True),
        ("hse06", 0.106, False),
        ("hse06", 0.15, False),
        pytest.param("camb3lyp", 0.6236, True, marks=needs_jax_xc),
        pytest.param("camb3lyp", 0.4, False, marks=needs_jax_xc),
    ],
)
def test_omega_in_another_unit(name, omega, is_said):
    """HSE06's 0.11 bohr^-1 are 0.2 angstrom^-1, as papers and inputs of VASP have it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        one = get_functional(f"{name}(omega={omega})")
        other = get_functional(name, omega=omega)
    assert one.definition == other.definition and omega in dict(one.exact_exchange)
    words = [str(w.message) for w in said]
    assert len(words) == 2 * is_said and all("omega is in bohr^-1" in w for w in words)


@needs_jax_xc
def test_a_name_that_ends_in_x_is_no_exchange():
    """SOGGA11-X has correlation, whose name ends in _x; it was said to be exchange alone."""
    with warnings.catch_warnings(action="error"):
        warn_about_functional("sogga11-x", get_functional("sogga11-x"), types.SimpleNamespace(moves=False))
    with pytest.warns(InputWarning, match="is exchange alone"):
        warn_about_functional("b88", get_functional("b88"), types.SimpleNamespace(moves=False))


@pytest.mark.parametrize("number", [7, "130"])
def test_a_number_of_correlation_alone_is_said(number):
    """As exchange alone is; 7 and 11 are whole functionals in Abinit's list."""
    spec = str(number)
    with pytest.warns(InputWarning, match=f"'{spec}' is correlation alone .*write ',{spec}' if this is meant"):
        warn_about_functional(spec, get_functional(number), types.SimpleNamespace(moves=False))
    with warnings.catch_warnings(action="error"):
        for text in (f",{spec}", "gga_c_pbe", "hflyp", "hf + gga_c_pbe"):
            warn_about_functional(text, get_functional(text), types.SimpleNamespace(moves=False))


@pytest.mark.parametrize("text", ["hartree", "pbe + hartree", "1.0*hartree"])
def test_the_hartree_energy_counts_once(text):
    """An SCF has it as Coulomb energy; helium of the functional 'hartree' had 0.37 hartree."""
    with pytest.raises(FunctionalError, match="every SCF has as its Coulomb energy"):
        refuse_part(text, get_functional(text))
    refuse_part(get_functional(text), get_functional(text))


NOT_ONE = {
    "gga_xc_edf1 gga_xc_kt2 gga_xc_kt3 hyb_gga_xc_b3lyp_mcm1 hyb_gga_xc_b3lyp_mcm2 hyb_gga_xc_edf2": "fitted",
    "hyb_gga_xc_lb07 mgga_xc_hle17 hyb_gga_xc_wc04 hyb_gga_xc_wp04 hyb_gga_xc_o3lyp hyb_gga_xc_cam_o3lyp": "fitted",
    "hyb_mgga_xc_x1b95 hyb_mgga_xc_xb1k hyb_gga_xc_whpbe0": "a slip in libxc: the short name is refused",
}
"""Sums of libxc's whose exchange does not add up to 1, and why."""


def test_exchange_of_libxcs_sums_adds_up_to_one():
    """Exact exchange included; a sum that does not is one that was fitted so, or is refused under its short name."""
    odd = set()
    for name, entry in catalogue.table().items():
        shares = [c for c, part in entry["terms"] if "_x_" in part["name"] or part["name"].startswith("lda_x")]
        is_sum = all(re.search("(^|_)[xc](_|$)", part["name"]) for _, part in entry["terms"]) and shares
        omega, long, short_less_long = entry["exact_exchange"]
        total = sum(shares) + long + short_less_long
        if entry["kind"] == "xc" and is_sum and abs(total - 1) > 1e-4:
            odd.add(name)
    assert odd == {name for names in NOT_ONE for name in names.split()}
    for name in next(names for names, why in NOT_ONE.items() if "refused" in why).split():
        with pytest.raises(FunctionalError, match="its paper's is not here"):
            get_functional(name.split("_xc_")[1])
