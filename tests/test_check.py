"""The comparison with libxc: that it passes where it should, fails where it should, and says what it did."""

import json
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
from pyscf.dft import libxc as pyscf_libxc

import dftfd
from dftfd.cli import main
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals import jax_xc_formula
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import get_functional
from dftfd.interop import libxc
from dftfd.verify import check as potentials
from dftfd.verify import point_comparison as pointwise
from dftfd.verify import sampling
from dftfd.verify.check import pointwise_rows, reference_densities
from dftfd.verify.point_comparison import counterpart
from dftfd.verify.reports import Decision, Report, Row
from tests.verification import regression, tables

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data/regression/libxc.h5"


def random_variables(rng, n_spin=2, n_points=20):
    return sampling.sample(n_spin, "dense", n_points, seed=int(rng.integers(1000)))


# ---- the interface to libxc


@pytest.mark.parametrize("name", ["lda_c_pw", "gga_x_b88", "mgga_c_scan", "hyb_gga_xc_b3lyp"])
def test_libxc_through_its_c_interface_equals_pyscf(name, rng):
    """Energies and all first and second derivatives, order of components included, are those of PySCF's wrapper."""
    rho = rng.uniform(0.1, 1.0, (2, 1, 15))
    gradient, tau = rng.normal(size=(2, 3, 15)), rng.uniform(3.0, 5.0, (2, 1, 15))
    family = pyscf_libxc.xc_type(name)
    rows = {"LDA": [rho], "GGA": [rho, gradient], "MGGA": [rho, gradient, tau]}[family]
    expected = pyscf_libxc.eval_xc1(name, np.concatenate(rows, axis=1), spin=1, deriv=2)
    sigma = [np.sum(gradient[s] * gradient[t], axis=0) for s, t in ((0, 0), (0, 1), (1, 1))]
    x = np.stack([*rho[:, 0], *sigma, *np.zeros((2, 15)), *tau[:, 0]])
    ours = libxc.reference([(1.0, name)], x, n_spin=2)
    used = {"LDA": [0, 1], "GGA": [0, 1, 2, 3, 4], "MGGA": [0, 1, 2, 3, 4, 7, 8]}[family]
    pairs = [(i, j) for k, i in enumerate(used) for j in used[k:]]
    flat = [ours.energy / rho.sum(axis=0)[0], *ours.first[used], *(ours.second[i, j] for i, j in pairs)]
    np.testing.assert_allclose(flat, expected, rtol=1e-13, atol=1e-14)


def test_laplacian_functionals_are_evaluated_too(rng):
    """Becke-Roussel exchange depends on the Laplacian, which PySCF's wrapper refuses; against central differences."""
    x = random_variables(rng)
    terms = [(1.0, "mgga_x_br89")]
    d = libxc.reference(terms, x, 2)
    assert libxc.needs_laplacian("mgga_x_br89") and np.all(d.first[5:7] != 0)
    step = 1e-4 * np.abs(x[5])
    up, down = x.copy(), x.copy()
    up[5] += step
    down[5] -= step
    slope = (libxc.reference(terms, up, 2).energy - libxc.reference(terms, down, 2).energy) / (2 * step)
    np.testing.assert_allclose(d.first[5], slope, rtol=1e-5)


def test_exact_exchange_of_libxcs_hybrids():
    """By the papers: B3LYP 0.2; CAM-B3LYP 0.19 + 0.46 erf; HSE06 0.25 at short range, so minus 0.25 at long range."""
    assert libxc.exact_exchange("gga_x_pbe") == ()
    assert libxc.exact_exchange("hyb_gga_xc_b3lyp") == ((0.0, 0.2),)
    assert dict(libxc.exact_exchange("hyb_gga_xc_cam_b3lyp")) == pytest.approx({0.0: 0.19, 0.33: 0.46})
    assert dict(libxc.exact_exchange("hyb_gga_xc_hse06")) == pytest.approx({0.0: 0.25, 0.11: -0.25})


def test_what_libxc_cannot_do_is_refused(rng):
    """Unknown names, wrong arrays, potentials without an energy (LB94): typed errors, libxc never ends the process."""
    with pytest.raises(FunctionalError, match="no functional 'gga_x_nobody'"):
        libxc.reference([(1.0, "gga_x_nobody")], random_variables(rng), 2)
    with pytest.raises(FunctionalError, match="expected \\(9, point\\)"):
        libxc.reference([(1.0, "gga_x_pbe")], np.ones((5, 3)), 2)
    with pytest.raises(UnsupportedError, match="has no energy"):
        libxc.reference([(1.0, "gga_x_lb")], random_variables(rng), 2)


def test_jet_of_a_molecular_density_equals_finite_differences():
    """Gradient, Hessian and grad tau from libcint against central differences of lower derivatives."""
    water, _, P = reference_densities()
    points = sampling.points_around(12)
    jet, h = potentials.molecular_jet(water, P, points), 1e-3
    for i, step in enumerate(h * np.eye(3)):
        near = {k: potentials.molecular_jet(water, P, points + k * step) for k in (-2, -1, 1, 2)}

        def slope(name, near=near):  # fourth order in h
            f = {k: getattr(jet, name) for k, jet in near.items()}
            return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * h)

        np.testing.assert_allclose(jet.gradient[:, i], slope("value"), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(jet.hessian[:, i], slope("gradient"), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(jet.tau_gradient[:, i], slope("tau"), rtol=1e-6, atol=1e-6)


# ---- the comparison


def test_check_of_a_local_functional_passes():
    """Slater exchange: energies, slopes, f_xc, both forms of the potential, all to rounding (far below tolerance).

    The kept comparison of all functionals has the same rows with the same verdicts.
    """
    report = dftfd.check("lda_x")
    outcome = lambda rows: [(row.quantity, row.n_spin, row.tolerance, row.agrees) for row in rows]
    assert outcome(report.rows) == outcome(regression.read(DATA).reports["lda_x"].rows)
    assert report.passed and not report.notes and report.name == "lda_x"
    quantities = {row.quantity for row in report.rows}
    for needed in ("e, dense", "de/drho, dilute", "d2e/drhodrho, polarised", "v_xc(r), Gaussians"):
        assert needed in quantities
    assert {"v_xc(r), water cation", "matrix, water", "matrix, water cation", "E_xc, water"} <= quantities
    assert max(row.error for row in report.rows) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hyb_gga_xc_b3lyp", "mgga_x_r2scan"])
def test_check_of_gradient_functionals_and_hybrids_passes(name):
    """Every row within its tolerance; hybrids are compared in their semilocal part and say so."""
    report = dftfd.check(name)
    assert report.passed, str(report)
    assert bool(report.notes) == bool(get_functional(name).exact_exchange)
    allowed = 1e-10 if get_functional(name).needs_tau else 1e-12
    assert max(row.error for row in report.rows if row.quantity.startswith("v_xc")) < allowed


def test_a_name_that_the_catalogue_answers_to_is_told():
    """A file that nobody imports is not mistaken for what was compared; asked for by prefix, or registered, no word."""
    if not jax_xc_formula.is_installed():
        pytest.skip("no jax-xc: libxc's catalogue is not served")
    said = "'lda_c_wigner' is registered nowhere: libxc:lda_c_wigner of libxc's catalogue was compared"
    assert said in str(dftfd.check("lda_c_wigner", False))
    assert "registered nowhere" not in str(dftfd.check("libxc:lda_c_wigner", False)) + str(dftfd.check("lda_x", False))


def test_a_wrong_digit_fails_every_row():
    """Slater exchange too large by 1e-8 under libxc's name: points, slopes, kernel, potentials, matrices all see it.

    Extended precision, which computes the same wrong formula, does not excuse it: the difference is smooth.
    """
    wrong = ((1 + 1e-8) * get_functional("lda_x")).named("lda_x")
    report = dftfd.check(wrong)
    assert not report.passed and set(report.failures) == set(report.rows)
    decisions = [row.decision for row in report.rows if row.decision]
    assert len(decisions) > 10 and all(d.ours < 1e-15 and not d.is_rounding for d in decisions)


def test_rounding_in_libxc_is_told_from_a_wrong_formula():
    """1 - |zeta| of a rare spin loses digits in libxc: third derivatives of LYP against 150 digits."""
    lyp = get_functional("gga_c_lyp")
    decided = [row for row in pointwise_rows(lyp, ((1.0, "gga_c_lyp"),), 2) if row.decision]
    assert decided and all(row.passed and not row.agrees for row in decided)
    assert all(d.is_rounding and d.ours < 1e-12 < 1e-11 < d.reference for d in (row.decision for row in decided))


def test_a_wrong_parameter_is_found():
    """mu of PBE exchange off by 1e-9 relative shows in energies and slopes at that size, not in agreement."""
    wrong = get_functional("gga_x_pbe", mu=0.2195149727645171 * (1 + 1e-9))
    x = sampling.sample(1, "dense")
    ours = pointwise.lowered_derivatives(wrong, 1, order=2)(x)
    errors = pointwise.compare(ours, libxc.reference([(1.0, "gga_x_pbe")], x, 1), x, 1)
    for quantity in ("e", "de/dsigma", "d2e/dsigmadsigma"):
        assert 1e-11 < errors[quantity].max() < 1e-8


def test_counterparts():
    """By the functional's own name or that of its twin in the registry, else by its terms' names and coefficients."""
    assert counterpart(get_functional("b3lyp")) == ((1.0, "hyb_gga_xc_b3lyp"),)
    assert counterpart(get_functional("hyb_gga_xc_b3lyp")) == ((1.0, "hyb_gga_xc_b3lyp"),)
    assert counterpart(get_functional("pbe")) == ((1.0, "gga_x_pbe"), (1.0, "gga_c_pbe"))
    assert counterpart(get_functional("0.75*pbe, pbe")) == ((0.75, "gga_x_pbe"), (1.0, "gga_c_pbe"))


def test_functionals_without_a_counterpart_are_refused():
    """Own formulas, changed parameters, exact exchange alone: UnsupportedError naming the term and the reason."""
    own = Functional("own", ((1.0, EnergyTerm.from_formula(lambda n: n * n, "own")),))
    with pytest.raises(UnsupportedError, match="no counterpart of 'own'"):
        dftfd.check(own + get_functional("lda_x"))
    with pytest.raises(UnsupportedError, match="'gga_x_pbe' has its own kappa"):
        dftfd.check(get_functional("pbe", kappa=1.245))
    with pytest.raises(UnsupportedError, match="no semilocal part"):
        dftfd.check("hf")


# ---- all functionals


GOOD = Row("e, dense", 1, 1e-15, "n = 1", 1e-12)
BAD = Row("v_xc(r)", 2, 3e-3, "r = 0", 1e-11)
ROUNDED = Row("d2e/drhodrho, dense", 2, 1e-8, "n = 2", 1e-10, Decision(1e-15, 1e-8, True))
ROWS = {"a": (GOOD,), "b": (GOOD, BAD), "c": (ROUNDED,)}


@pytest.fixture
def compared(monkeypatch):
    """Names in the order in which they are compared; results are `ROWS`, and 'none' has no counterpart."""
    names = []

    def check(name):
        names.append(name)
        if name == "none":
            raise UnsupportedError("no counterpart")
        return Report(name, "libxc", ROWS[name])

    monkeypatch.setattr(regression, "check", check)
    monkeypatch.setattr(regression, "distinct_names", lambda: ["a", "b", "none"])
    return names


def test_results_are_kept_shown_and_explained(tmp_path, compared):
    """Data and tables hold every comparison; what fails without explanation fails; others keep their results."""
    data = tmp_path / "libxc.h5"
    assert not regression.check_all(data)
    assert "### Differences without a known cause" in tables.libxc_causes(tmp_path)
    cause = {"title": "A cause", "why": "Because.", "largest": {"b": {"v_xc*": 6e-3}}}
    (tmp_path / "explanations.json").write_text(json.dumps([cause]))
    assert regression.check_all(data, names=["c"])
    kept = regression.read(data)
    assert {name: r.rows for name, r in kept.reports.items()} == ROWS and kept.skipped == {"none": "no counterpart"}
    causes, counts = tables.libxc_causes(tmp_path), tables.libxc_counts(tmp_path)
    assert "### A cause\n\nBecause.\n" in causes and "| b | v_xc(r) | 2 | 3e-03 |  |  | r = 0 |" in causes
    assert "| c | d2e/drhodrho, dense | 2 | 1e-08 | 1e-15 | 1e-08 | n = 2 |" in tables.libxc_numbers(tmp_path)
    assert "| compared | 3 | 4 |" in counts and "| agree with libxc throughout | 1 | 2 |" in counts
    assert "| differ for a known cause | 1 | 1 |" in counts and "| not compared | 1 |  |" in counts


def test_a_cause_excuses_no_more_than_it_says():
    """Its functional, its quantities, in the region that it names, up to its limit; NaN is more than any limit."""
    row = Row("de/drho, dilute", 1, 3e-7, "n = 1", 1e-10)
    cause = regression.Cause("A cause", "Because.", {"b": {"de/*, dilute": 4e-7, "e, dense": 1.0}})
    assert cause.explains("b", row) and not cause.explains("a", row)
    assert not cause.explains("b", replace(row, error=5e-7))
    assert not cause.explains("b", replace(row, error=float("nan")))
    for other in ("de/drho, polarised", "d2e/drhodrho, dilute", "e, dilute"):
        assert not cause.explains("b", replace(row, quantity=other))


def test_limits_of_the_causes_are_about_twice_what_was_found():
    """None is more than three times the largest recorded error, and a difference three times as large is unexplained.

    What is excused is thus a size that was looked at, not a functional as a whole.
    """
    reports, causes = regression.read(DATA).reports, regression.explanations(DATA.parent / "explanations.json")
    for cause in causes:
        for name, limits in cause.largest.items():
            for quantity, limit in limits.items():
                rows = [row for row in reports[name].rows if fnmatchcase(row.quantity, quantity)]
                worst = max(rows, key=lambda row: row.error)
                assert worst.error < limit < 3 * worst.error, (name, quantity)
                larger = replace(worst, error=3 * worst.error, decision=None)
                assert regression.cause_of(name, larger, causes) is None, (name, quantity)


def test_a_stopped_comparison_goes_on(tmp_path, monkeypatch, compared):
    """What was done before the interruption is kept and not done again; without `resume` all of it is."""
    data = tmp_path / "all.h5"

    def stop(line):
        if line.startswith("b"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regression.check_all(data, tell=stop)
    assert regression.read(data).missing == ("none",)
    regression.check_all(data, resume=True)
    assert compared == ["a", "b", "none"] and regression.read(data).missing == ()
    regression.check_all(data)
    assert compared == ["a", "b", "none"] * 2


@pytest.mark.parametrize(("agreed", "code"), [(True, 0), (False, 1)])
def test_the_verdict_on_all_is_the_exit_code(agreed, code, monkeypatch, tmp_path):
    """`make regression` fails while a disagreement is unexplained."""
    monkeypatch.setattr(regression, "check_all", lambda data, tell, resume: agreed)
    assert regression.main(["--data", str(tmp_path / "d.h5")]) == code


def test_read_only_places_of_a_comparison(tmp_path, capsys):
    """`make regression` says where it cannot write before it compares anything."""
    (tmp_path / "file").touch()
    assert regression.main(["--data", str(tmp_path / "file" / "data.h5")]) == 5
    assert capsys.readouterr().err.startswith("regression: cannot write")


def test_the_data_hold_all_functionals_and_no_difference_without_a_cause():
    """data/regression/libxc.h5, which docs/regression.md shows; and each cause explains something."""
    comparisons, causes = tables.compared()
    assert not comparisons.missing and not regression.unexplained(comparisons, causes)
    failed = [(name, row) for name, report in comparisons.reports.items() for row in report.failures]
    assert all(any(cause.explains(*failure) for failure in failed) for cause in causes), "a cause of nothing"


# ---- the report and the command


def test_report_says_what_failed_and_where():
    """One failing row fails the report and is marked in the table; NaN fails."""
    good = Row("e, dense", 1, 1e-15, "n = 1", 1e-12)
    bad = Row("v_xc(r)", 2, 3e-3, "r = 0", 1e-11)
    assert Report("f", "libxc", (good,)).passed
    report = Report("f", "libxc", (good, bad), ("a note",))
    assert not report.passed and report.failures == (bad,)
    text = str(report)
    assert "FAILED in 1 of 2 rows" in text and "a note" in text and "3.0e-03" in text and "r = 0" in text
    assert not Row("e", 1, float("nan"), "", 1.0).passed


def test_command_reports_the_verdict_as_exit_code(monkeypatch, capsys):
    """`dftfd check` ends with 0 where everything is within tolerance, not 0 otherwise, 2 for a bad name."""
    module = sys.modules["dftfd.verify.check"]
    for error, code in ((1e-15, 0), (1.0, 1)):
        asked = []

        def check(name, with_potentials, error=error, asked=asked, values=None, tolerance=None):
            asked.append(with_potentials)
            return Report(name, "x", (Row("e", 1, error, "", 0.1),))

        monkeypatch.setattr(module, "check", check)
        assert main(["check", "lda_x"]) == main(["check", "lda_x", "--quick"]) == code
        assert asked == [True, False]
    monkeypatch.undo()
    assert main(["check", "no_such_functional"]) == 2
    assert "closest known names" in capsys.readouterr().err


def test_a_difference_tells_its_point_in_libxcs_variables():
    """The point of the largest error gives that error again in libxc; each line fits, the verdict stands at the end."""
    wrong = ((1 + 1e-6) * get_functional("lda_x")).named("lda_x")
    report = dftfd.check(wrong, with_potentials=False)
    row = next(r for r in report.failures if r.quantity == "e, dense" and r.n_spin == 1)
    n = row.point["rho"]
    exact = -0.75 * (3 / np.pi) ** (1 / 3) * n ** (4 / 3)
    assert row.error == pytest.approx(1e-6 * exact / (exact - n ** (4 / 3)), rel=1e-4)  # relative to |e| + n^(4/3)
    lines = str(report).splitlines()
    assert lines[0] == lines[-1] and "FAILED in" in lines[0]
    assert any(f"rho={n!r}" in line for line in lines) and report.to_json()["rows"][0]["point"]
    table = [line for line in lines if line.endswith(("ok", "FAILED")) or "quantity" in line]
    assert max(map(len, table)) < 80
