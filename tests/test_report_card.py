"""Report cards: known facts about functionals, faults that must be found, and the command `dftfd show`."""

import numpy as np
import pytest

import dftfd
from dftfd.autofd import dot, nabla
from dftfd.cli import main
from dftfd.functionals.common import slater_exchange, spin_scaled, total_density
from dftfd.functionals.registry import term
from dftfd.interop import libxc
from dftfd.interop.libxc import evaluate
from dftfd.verify.conditions import CONDITIONS, Parts
from dftfd.verify.model_systems import OneOrbital
from dftfd.verify.report_card import enhancement_factor, report_card


def outcome(functional, condition):
    return CONDITIONS[condition](Parts(dftfd.get_functional(functional)))


KNOWN = {
    # PBE: the conditions (d) to (g) of Phys. Rev. Lett. 77, 3865, and what it gives up
    ("pbe", "uniform gas, exchange"): True,
    ("pbe", "uniform gas, correlation"): True,
    ("pbe", "spin scaling of exchange"): True,
    ("pbe", "coordinate scaling of exchange"): True,
    ("pbe", "Lieb-Oxford bound"): True,
    ("pbe", "E_c <= 0"): True,
    ("pbe", "scaling of correlation"): True,
    ("pbe", "T_c >= 0"): True,
    ("pbe", "E_c = 0 for one electron"): False,
    # larger kappa: the bound is given up (Phys. Rev. Lett. 80, 891 says so)
    ("revpbe", "Lieb-Oxford bound"): False,
    # B88 grows like s / ln s; LYP: correlation of opposite spins, positive where gradients are large
    ("gga_x_b88", "uniform gas, exchange"): True,
    ("gga_x_b88", "exchange of hydrogen"): True,
    ("gga_x_b88", "Lieb-Oxford bound"): False,
    ("gga_c_lyp", "E_c = 0 for one electron"): True,
    ("gga_c_lyp", "uniform gas, correlation"): False,
    ("gga_c_lyp", "E_c <= 0"): False,
    # SCAN has the energy of hydrogen as a norm; Becke and Roussel's hole is hydrogen's
    ("scan", "exchange of hydrogen"): True,
    ("scan", "E_c = 0 for one electron"): True,
    ("mgga_x_br89", "exchange of hydrogen"): True,
    # B3LYP: the fractions of exchange add up to one; VWN's RPA fit is no fit to the gas
    ("b3lyp", "uniform gas, exchange"): True,
    ("b3lyp", "uniform gas, correlation"): False,
    # TPSS, SCAN, r2SCAN were made to meet them; rSCAN lost two, r2SCAN got them back (J. Phys. Chem. Lett. 11, 8208)
    ("tpss", "exchange of hydrogen"): True,
    ("tpss", "E_c = 0 for one electron"): True,
    ("tpss", "E_c <= 0"): True,
    ("tpss", "Lieb-Oxford bound"): True,
    ("scan", "Lieb-Oxford bound"): True,
    ("scan", "E_c <= 0"): True,
    ("scan", "coordinate scaling of exchange"): True,
    ("rscan", "uniform gas, exchange"): False,
    ("rscan", "coordinate scaling of exchange"): False,
    ("r2scan", "uniform gas, exchange"): True,
    ("r2scan", "coordinate scaling of exchange"): True,
    # tau of PC07opt is neither the uniform gas's (0.906 of it) nor that of one orbital
    ("r2scanl", "uniform gas, exchange"): False,
    ("scanl", "E_c = 0 for one electron"): False,
    # OPTX starts at 1.05151; P86 changes sign; RPBE and PW91 obey the bound, OPTX does not
    ("gga_x_optx", "uniform gas, exchange"): False,
    ("gga_x_optx", "Lieb-Oxford bound"): False,
    ("gga_c_p86", "E_c <= 0"): False,
    ("rpbe", "Lieb-Oxford bound"): True,
    ("pw91", "Lieb-Oxford bound"): True,
    # a length of its own; complete exact exchange at long range; a potential made for its tail
    ("hse06", "coordinate scaling of exchange"): False,
    ("wb97x", "v_xc -> -1/r"): True,
    ("camb3lyp", "v_xc -> -1/r"): False,
    ("lb94", "v_xc -> -1/r"): True,
    ("gga_k_vw", "kinetic energy of hydrogen"): True,
    ("gga_k_vw", "uniform gas, kinetic energy"): False,
    ("lda_k_tf", "uniform gas, kinetic energy"): True,
    ("lda_k_tf", "kinetic energy of hydrogen"): False,
    ("lda_k_tf", "coordinate scaling of kinetic energy"): True,
    # not tested: no exchange of its own, no energy at a point, no energy at all, no term of the kind
    ("gga_xc_b97_d", "uniform gas, exchange"): None,
    ("pbe0", "Lieb-Oxford bound"): None,
    ("lb94", "uniform gas, exchange"): None,
    ("gga_x_b88", "E_c <= 0"): None,
    ("hartree", "uniform gas, exchange"): None,
    # integrals vanish in the uniform gas, and have an unknown share elsewhere
    ("vdw_df2", "uniform gas, correlation"): True,
    ("vdw_df2", "E_c = 0 for one electron"): None,
    ("vdw_df2", "Lieb-Oxford bound"): None,
    ("wb97m_v", "hydrogen without self-interaction"): None,
}


SLOW = {
    ("wb97x", "v_xc -> -1/r"),
    ("camb3lyp", "v_xc -> -1/r"),
    ("hse06", "coordinate scaling of exchange"),
    ("tpss", "Lieb-Oxford bound"),
    ("scan", "Lieb-Oxford bound"),
    ("scanl", "E_c = 0 for one electron"),
    ("r2scanl", "uniform gas, exchange"),
}


@pytest.mark.parametrize(
    ("name", "condition"), [pytest.param(*k, marks=pytest.mark.slow) if k in SLOW else k for k in KNOWN]
)
def test_known_facts(name, condition):
    """Each is stated in the functional's paper, follows from its form, or is textbook knowledge (comments above)."""
    assert outcome(name, condition).passed is KNOWN[name, condition]


@pytest.mark.parametrize("name", ["lda_x", "gga_x_pbe", pytest.param("mgga_x_scan", marks=pytest.mark.slow)])
def test_the_virial_of_exchange_holds_for_the_derived_potential(name):
    """E_x = int v (3 n + r n') with the potential of an LDA, a GGA and, at tau of one orbital, a meta-GGA."""
    assert outcome(name, "virial of exchange").passed


def faulty(formula, name="t_gga_x_faulty"):
    return term(name)(formula)


def test_faults_are_found():
    """Exchange 1 % too large, of the wrong dimension, or of the total density alone; positive correlation."""
    too_large = faulty(spin_scaled(lambda n: 1.01 * slater_exchange(n)))
    found = outcome(too_large, "uniform gas, exchange")
    assert found.passed is False and "1.0e-02" in found.detail
    of_other_dimension = faulty(spin_scaled(lambda n: slater_exchange(n) + 1e-3 * n))
    assert outcome(of_other_dimension, "coordinate scaling of exchange").passed is False
    assert outcome(of_other_dimension, "virial of exchange").passed is False
    without_spin = faulty(lambda n: slater_exchange(n))
    assert outcome(without_spin, "spin scaling of exchange").passed is False
    assert outcome(without_spin, "uniform gas, exchange").passed
    positive = faulty(lambda rho: 1e-3 * dot(nabla(total_density(rho)), nabla(total_density(rho))), "t_gga_c_faulty")
    assert outcome(positive, "E_c <= 0").passed is False
    assert outcome(positive, "T_c >= 0").passed


def test_a_name_that_tells_no_kind_is_the_reason():
    """To the conditions Slater exchange is none as 'my_functional', alone or in a sum; as 'my_x_functional' it is."""
    slater = spin_scaled(lambda n: slater_exchange(n))
    unknown, correlation = faulty(slater, "my_functional"), dftfd.get_functional("lda_c_pw")
    card = report_card(unknown)
    assert all(c.passed is None and "kind='exchange'" in c.detail for c in card.conditions)
    assert "not tested, as the name 'my_functional' does not show its kind" in str(card)
    assert str(card).count("all conditions") == 1
    found = outcome(unknown + correlation, "uniform gas, correlation")
    assert found.passed is None and "'my_functional'" in found.detail
    named = outcome(faulty(slater, "my_x_functional") + correlation, "uniform gas, exchange")
    assert named.passed


def test_energies_and_potentials_of_one_orbital():
    """E_x^LDA of hydrogen in closed form, v_x^LDA = -(6 rho / pi)^(1/3), exact exchange -5/16 and its range parts.

    int n^(4/3) = pi^(-1/3) 27/64. The long-range part goes to the whole for large omega, and to -omega / sqrt(pi) for
    small omega, where erf(omega r)/r = 2 omega / sqrt(pi).
    """
    hydrogen, lda = OneOrbital(1, 1.0), dftfd.get_functional("lda_x")
    C_x = -0.75 * (3 / np.pi) ** (1 / 3)
    assert hydrogen.energy(lda) == pytest.approx(2 ** (1 / 3) * C_x * np.pi ** (-1 / 3) * 27 / 64, rel=1e-10)
    r = slice(10, 150)
    np.testing.assert_allclose(
        hydrogen.potential(lda)[r], -((6 / np.pi * hydrogen.n[r]) ** (1 / 3)), rtol=1e-12, atol=0
    )
    assert hydrogen.exact_exchange(0.0) == pytest.approx(-5 / 16, rel=1e-10)
    assert hydrogen.exact_exchange(300.0) == pytest.approx(-5 / 16, rel=1e-4)
    assert hydrogen.exact_exchange(1e-3) == pytest.approx(-1e-3 / np.sqrt(np.pi), rel=1e-5)


@pytest.mark.parametrize("name", ["gga_x_b88", "gga_x_lb", "mgga_x_br89"])
def test_potential_of_one_orbital_is_that_of_the_points(name):
    """Of a model, libxc's potential at the same points; of an energy of the Laplacian and tau, dE for a change of Z.

    With n_Z the density of exp(-Z r), dE/dZ = int v dn/dZ, dn/dZ = n (3/Z - 2 r).
    """
    f, helium = dftfd.get_functional(name), OneOrbital(2, 1.5)
    v, n = helium.potential(f), helium.n
    if f.has_energy:
        step = 1e-4
        slope = (OneOrbital(2, 1.5 + step).energy(f) - OneOrbital(2, 1.5 - step).energy(f)) / (2 * step)
        inside = np.where(n > 1e-16, v * n * (3 / 1.5 - 2 * helium.r), 0.0)
        assert helium.weights @ inside == pytest.approx(slope, rel=1e-7)
    else:
        dense = n > 1e-5  # x < 300, where libxc has LB94's formula and not its limit
        half, sigma = 0.5 * n[dense], (1.5 * n[dense]) ** 2
        x = np.stack([half, half, sigma, sigma, sigma, *np.zeros((4, half.size))])
        np.testing.assert_allclose(v[dense], libxc.model_potential(name, x, 2)[0], rtol=1e-12)


def test_enhancement_factor_is_the_formula():
    """PBE exchange: F = 1 + kappa - kappa / (1 + mu s^2 / kappa); von Weizsaecker: t / t_TF = 5/3 s^2."""
    s = np.linspace(0, 4, 9)
    kappa, mu = 0.804, 0.2195149727645171
    F = enhancement_factor(dftfd.get_functional("gga_x_pbe"), s, 2.0)
    np.testing.assert_allclose(F, 1 + kappa - kappa / (1 + mu * s * s / kappa), rtol=1e-13)
    np.testing.assert_allclose(
        enhancement_factor(dftfd.get_functional("gga_k_vw"), s, 2.0), 5 / 3 * s * s, rtol=1e-13, atol=1e-14
    )


# ---- the command


def shown(capsys, *arguments):
    assert main(["show", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_show_prints_source_formula_parameters_conditions_and_plot(capsys, tmp_path):
    """All parts of the card for one formula; the picture is written."""
    picture = tmp_path / "x.png"
    out = shown(capsys, "gga_x_pbe", "--plot", str(picture))
    for text in ("in libxc: gga_x_pbe", "ingredients: rho, sigma\n", "https://doi.org/10.1103/PhysRevLett.77.3865"):
        assert text in out
    assert "(eq. 14)" in out and "kappa = 0.804" in out and "mu = 0.219514972765" in out
    assert "  pass  uniform gas, exchange: largest relative deviation" in out
    assert "  FAIL  v_xc -> -1/r: r v_xc = " in out and "enhancement factor" in out
    assert picture.stat().st_size > 5_000


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("lb94", ["a model potential", "pass  v_xc -> -1/r", "all others"]),
        ("hf", ["ingredients: orbitals (exact exchange)", "+1 exact exchange", "pass  v_xc -> -1/r: r v_xc = -1.000"]),
        ("hartree", ["in libxc: no counterpart", "integrals over a second point", "has no semilocal part"]),
        ("gga_k_vw", ["t / t_TF", "pass  kinetic energy of hydrogen: T[H] = 0.500000"]),
        ("0.5*HF + 0.5*LDA", ["+0.5 exact exchange", "+0.5 lda_x", "pass  uniform gas, exchange"]),
    ],
)
def test_show_other_kinds(capsys, name, texts):
    """Model potentials, exact exchange, double integrals, kinetic energies, expressions."""
    out = shown(capsys, name)
    for text in texts:
        assert text in out, out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pbe", "b3lyp", "scanl", "tb09", "wb97m_v", "vdw_df2", "gga_xc_b97_d", "hse06"])
def test_show_whole_functionals(capsys, name):
    """Hybrids, Laplacians, tau, nonlocal terms and potentials come to an end with all conditions about them."""
    card = report_card(name)
    assert len(card.conditions) == len(CONDITIONS)
    assert sum(c.passed is not None for c in card.conditions) >= (1 if name == "tb09" else 2)
    assert str(card).startswith(name)


def test_a_constant_is_plotted_as_a_line(capsys, tmp_path):
    """Rounding is not blown up to the height of the plot: BR89 at alpha = 1, q = 0 does not depend on s."""
    out = shown(capsys, "mgga_x_br89", "--plot", str(tmp_path / "x.png"))
    lines = [line for line in out.splitlines() if "|" in line and ("o" in line or "*" in line)]
    assert [line.count("*") for line in lines[-1:]] == [61] and "1.001 |" in out and "0.999 |" in out


def test_what_has_no_enhancement_factor_has_a_card_without_picture(capsys, tmp_path):
    """The card is printed, the answer to --plot says why there is none; the constant under BJ06's tail is named."""
    assert main(["show", "bj06", "--plot", str(tmp_path / "x.png")]) == 2
    captured = capsys.readouterr()
    assert "FAIL  v_xc -> -1/r" in captured.out and "v_xc tends to 0.3" in captured.out
    assert "model potential" in captured.err


@pytest.mark.parametrize(("path", "code", "text"), [("x.foo", 2, ".png, .svg or .pdf"), ("none/x.png", 5, "none")])
def test_pictures_that_cannot_be_written_are_answered(capsys, tmp_path, path, code, text):
    """An ending that Matplotlib does not know, a folder that is not there: exit codes of input and of files."""
    assert main(["show", "lda_x", "--plot", str(tmp_path / path)]) == code
    assert text in capsys.readouterr().err


def test_unknown_names_are_answered(capsys):
    """As everywhere: the closest names, exit code 2."""
    assert main(["show", "pbee"]) == 2
    assert "closest known names are pbe" in capsys.readouterr().err


@pytest.mark.slow  # 1.7 s; the next test draws two functionals
def test_two_functionals_and_a_surface_in_one_picture(capsys, tmp_path):
    """Factors over s and alpha: r2SCAN's own F(s, alpha) at points of the surface is what the picture draws."""
    picture = tmp_path / "two.png"
    shown(capsys, "pbe", "--plot", str(picture), "--compare", "revpbe", "--surface")
    assert picture.stat().st_size > 20_000
    s, alpha = np.array([0.5, 2.0]), np.array([0.3, 2.0])
    found = enhancement_factor(dftfd.get_functional("r2scan"), s, 2.0, alpha)
    n = 3 / (4 * np.pi * 2.0**3)
    sigma = (2 * (3 * np.pi**2 * n) ** (1 / 3) * n * s) ** 2
    tau = sigma / (8 * n) + alpha * 0.3 * (3 * np.pi**2) ** (2 / 3) * n ** (5 / 3)
    exc = evaluate("r2scan", rho=np.full(2, n), sigma=sigma, tau=tau, order=0).exc
    np.testing.assert_allclose(found, exc / (-0.75 * (3 / np.pi) ** (1 / 3) * n ** (1 / 3)), rtol=1e-12)
    assert main(["show", "pbe", "--surface"]) == 2 and "--plot FILE.png" in capsys.readouterr().err


def test_potentials_of_two_functionals_in_one_picture(capsys, tmp_path, monkeypatch):
    """LDA exchange's curve is -(3 n / pi)^(1/3), that of exact exchange gives -5/8 Z, n = 2 Z^3/pi e^(-2Zr)."""
    figures = pytest.importorskip("matplotlib.figure")
    drawn, save = [], figures.Figure.savefig
    monkeypatch.setattr(
        figures.Figure, "savefig", lambda figure, *a, **k: (drawn.append(figure), save(figure, *a, **k))
    )
    picture = tmp_path / "two.svg"
    shown(capsys, "lda_x", "--plot", str(picture), "--compare", "pbe", "--potential")
    factor, potentials = drawn[0].axes
    first, second, exact = potentials.get_lines()
    assert [line.get_label() for line in (first, second, exact)] == ["lda_x", "pbe", "exact exchange"]
    Z, r = 27 / 16, first.get_xdata()
    n = 2 * Z**3 / np.pi * np.exp(-2 * Z * r)
    np.testing.assert_allclose(first.get_ydata(), -np.cbrt(3 * n / np.pi), rtol=1e-9)
    assert not np.allclose(second.get_ydata(), first.get_ydata(), rtol=0.01)
    E_x = np.trapezoid(4 * np.pi * r**2 * n * exact.get_ydata() / 2, r)
    assert E_x == pytest.approx(-5 / 8 * Z, abs=1e-3)
    assert main(["show", "pbe", "--potential"]) == 2 and "--plot FILE.png" in capsys.readouterr().err
