"""The auditor finds seeded mistakes in otherwise correct derivatives, and nothing in correct ones."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from pyscf.dft import libxc as pyscf_libxc

import dftfd
from dftfd.cli import main
from dftfd.errors import FunctionalError, InputError
from dftfd.functionals.registry import list_functionals
from dftfd.interop.numint import LAYOUT
from dftfd.interop.pyscf import numint
from dftfd.verify.audit import INGREDIENTS, EvalXCSource, differences, named
from dftfd.verify.sampling import inner_points
from dftfd.xc.channels import named_components
from tests.sample import sample
from tests.verification import pages

BASES = {
    "lda,vwn": "LDA",
    "lda,pw": "LDA",
    "pbe": "GGA",
    "b88,lyp": "GGA",
    "pbe,p86": "GGA",
    "tpss": "MGGA",
    "scan": "MGGA",
}
N_MUTATIONS = 300
KINDS = ("factor", "sign", "zero", "missing", "swap", "transposed", "same spin", "per electron")
_known: dict = {}


def right(name):
    """PySCF's eval_xc of a functional, each set of points computed once."""

    def eval_xc(xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
        key = name, spin, deriv, hashlib.sha1(np.ascontiguousarray(rho).tobytes()).digest()
        if key not in _known:
            _known[key] = pyscf_libxc.eval_xc(name, rho, spin=spin, deriv=deriv)
        return _known[key]

    return eval_xc


def mutation(number):
    """(base, xctype, wrong eval_xc, number of spins, names of the wrong components) of one seeded mistake."""
    rng = np.random.default_rng([2026, number])
    while True:
        name = str(rng.choice(list(BASES)))
        n_spin, order, kind = int(rng.integers(1, 3)), int(rng.integers(1, 4)), KINDS[number % len(KINDS)]
        made = mutate(rng, kind, n_spin, order, right(name), BASES[name])
        if made is not None:
            return name, BASES[name], made[0], n_spin, {named(c, n_spin) for c in made[1]}


def mutate(rng, kind, n_spin, order, code, xctype):
    """(wrong code, components that became wrong), or None where the mistake would change nothing."""
    order = 1 if kind == "per electron" else order
    components = named_components(n_spin, ("rho", "sigma", "lapl", "tau"), order)
    names = [n for n in named_components(n_spin, INGREDIENTS[xctype], order) if "lapl" not in n]
    array = str(rng.choice(names))
    members, k = components[array], int(rng.integers(len(components[array])))
    other = int(rng.integers(len(members)))
    factor = 1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-6, -0.5)
    columns = {
        "transposed": np.arange(len(members)).reshape(2, -1).T.ravel() if len(members) % 2 == 0 else None,
        "same spin": np.arange(len(members)) * 0 if n_spin == 2 else None,
        "swap": np.arange(len(members)),
    }
    if kind == "swap":
        columns["swap"][[k, other]] = columns["swap"][[other, k]]

    def change(values, n):
        values = np.array(values, dtype=float).reshape(n.size, len(members))
        if kind in columns:
            return values[:, columns[kind]]
        if kind == "per electron":
            return values / n[:, None]
        values[:, k] *= {"factor": factor, "sign": -1.0, "zero": 0.0}[kind]
        return values

    if kind in columns and columns[kind] is None:
        return None

    def wrong(xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
        out = code(xc_code, rho, spin=spin, deriv=deriv)
        if spin + 1 != n_spin or len(out) <= order or out[order] is None:
            return out
        arrays, place = list(out[order]), LAYOUT[order].index(array)
        density = np.asarray(rho).reshape(spin + 1, -1, np.shape(rho)[-1])[:, 0].sum(axis=0)
        arrays[place] = None if kind == "missing" else change(arrays[place], density)
        return (*out[:order], tuple(arrays), *out[order + 1 :])

    x = inner_points(n_spin, 12)
    before = EvalXCSource(code, xctype, "")(x, n_spin, order)[order]
    after = EvalXCSource(wrong, xctype, "")(x, n_spin, order)[order]
    typical = np.median([np.abs(v).max() for v in before.values()])
    size = lambda c, v: np.abs(v) * np.prod(np.abs(x[list(c)]), axis=0)
    largest = np.max([size(c, v) for c, v in before.items()], axis=0)

    def is_wrong(c, v):
        w = after.get(c, np.zeros_like(v))
        is_rounding = np.maximum(size(c, v), size(c, w)) < 1e-12 * largest  # of components that are exactly zero
        return np.any(~is_rounding & (np.abs(w - v) > 9e-7 * np.abs(v)))

    changed = [c for c, v in before.items() if np.abs(v).max() > 1e-6 * typical and is_wrong(c, v)]
    return (wrong, changed) if changed else None


def assert_found(number):
    name, xctype, wrong, n_spin, quantities = mutation(number)
    report = dftfd.audit(wrong, xctype=xctype)
    found = {f.quantity for f in report.findings if f.n_spin == n_spin}
    assert found & quantities, (number, KINDS[number % len(KINDS)], name, n_spin, quantities, report.findings)
    assert all(f.n_spin == n_spin for f in report.findings), report.findings


@pytest.mark.parametrize("number", range(0, N_MUTATIONS, 15))
def test_mutations_are_found(number):
    """A sample of the seeded mistakes, in the right spin layout and component, and nothing in the other layout."""
    assert_found(number)


@pytest.mark.slow
def test_all_mutations_are_found():
    """300 mistakes: factors down to 1e-6, signs, zeros, arrays left out, swapped and transposed components, spins."""
    for number in range(N_MUTATIONS):
        assert_found(number)


CORRECT_HERE = ["lda_x", "lda_c_pw", "lda_c_vwn", "gga_x_pbe", "gga_x_b88", "gga_c_lyp", "gga_x_optx", "gga_x_pw86"]
CORRECT_LIBXC = [
    *("lda_x", "lda_c_pw", "lda_c_pz", "gga_x_pbe", "gga_x_b88", "gga_x_rpbe", "gga_x_pw91", "gga_c_pbe", "gga_c_lyp"),
    *("gga_c_p86", "gga_xc_hcth_407", "hyb_gga_xc_b3lyp", "mgga_x_tpss", "mgga_x_m06_l", "mgga_c_r2scan"),
]


def correct_by_hand(xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
    """The Thomas-Fermi energy, of first and second order; higher ones are not offered."""
    if deriv > 2:
        raise NotImplementedError
    c, n = 0.3 * (3 * np.pi**2) ** (2 / 3), np.asarray(rho) * (2.0 if spin else 1.0)
    v, f = 5 / 3 * c * n ** (2 / 3), 10 / 9 * c * n ** (-1 / 3)
    if not spin:
        return c * n ** (2 / 3), (v,), (f,) if deriv > 1 else None, None
    e = 0.5 * c * (n[0] ** (5 / 3) + n[1] ** (5 / 3))
    with np.errstate(all="ignore"):
        exc = np.where(rho.sum(axis=0) > 0, e / rho.sum(axis=0), 0.0)
    return exc, (v.T,), (np.stack([2 * f[0], 0 * f[0], 2 * f[1]], axis=1),) if deriv > 1 else None, None


def correct_targets():
    """(what, options) of 30 correct functionals: ours, libxc's, PySCF-style functions."""
    yield from ((name, {}) for name in CORRECT_HERE)
    yield from ((name, {"libxc": True}) for name in CORRECT_LIBXC)
    yield from ((right(name), {"xctype": xctype, "reference": name}) for name, xctype in list(BASES.items())[:5])
    yield numint("gga_x_pbe"), {"reference": "gga_x_pbe"}
    yield correct_by_hand, {"xctype": "LDA"}


@pytest.mark.parametrize("k", sample([0, 8, 11, 23, 29], [8, 11, 29]))
def test_correct_functionals_pass(k):
    """One of ours, two of libxc, PySCF's own eval_xc, a function written by hand."""
    what, options = list(correct_targets())[k]
    report = dftfd.audit(what, **options)
    assert report.passed, report


@pytest.mark.slow
def test_all_correct_functionals_pass():
    """30 correct functionals, to third order where they offer it."""
    targets = list(correct_targets())
    assert len(targets) == 30
    for what, options in targets:
        report = dftfd.audit(what, **options)
        assert report.passed, report


def per_electron(xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
    """An energy per electron of n and |grad n|^2 whose derivatives lack the factor n."""
    n, *gradient = sum(rho)[:4] if spin else rho[:4]
    sigma = sum(g**2 for g in gradient)
    root = np.sqrt(sigma + 1e-3)
    v, w = 0.02 * n, 0.01 / root
    if spin:
        v, w = np.stack([v, v], axis=1), np.stack([w, 2 * w, w], axis=1)
    return 0.01 * n**2 + 0.02 * root, (v, w, None, None), None, None


def test_energy_per_electron_is_told_from_energy_per_volume():
    """The mistake of PySCF's example of a custom functional: every component is named for what it is."""
    report = dftfd.audit(per_electron)
    assert {(f.kind, f.n_spin) for f in report.findings} == {("per electron", 1), ("per electron", 2)}
    assert [c.components - c.passed for c in report.checked] == [2, 5]
    finding = next(f for f in report.findings if (f.quantity, f.n_spin) == ("vsigma", 1))
    n = float(finding.at.split("rho = ")[1].split(",")[0])
    assert finding.expected == pytest.approx(n * finding.given, rel=1e-5)
    assert "no derivatives above order 1 are offered" in report.notes
    assert "vsigma (unpolarised) is the derivative of the energy per electron" in str(report)


def test_values_that_are_not_finite_are_shown_with_their_place():
    """sqrt(sigma) has no derivative at zero gradient, and 0/0 is no energy of no density."""

    def code(xc_code, rho, spin=0, deriv=1, **_):
        n, *g = (rho[0] + rho[1])[:4] if spin else rho[:4]
        root = np.sqrt(sum(c**2 for c in g))
        v, w = np.zeros_like(n), 0.5 / root
        if spin:
            v, w = np.stack([v, v], axis=1), np.stack([w, 2 * w, w], axis=1)
        return root / n, (v, w), None, None

    found = {(f.quantity, f.at.split(":")[0]) for f in dftfd.audit(code).findings if f.kind == "not finite"}
    assert {("vsigma", "gradient zero"), ("e", "n = 0")} <= found


def test_another_energy_than_the_reference_is_a_finding():
    """PW92 is not VWN: said once for each spin layout, and its derivatives are compared with differences alone."""
    report = dftfd.audit(right("lda,pw"), xctype="LDA", reference="lda,vwn")
    assert [f.kind for f in report.findings] == ["other energy", "other energy"]


@pytest.mark.parametrize("rows", [5, 6])
@pytest.mark.parametrize("factor", [1.0, 1 + 1e-5])
def test_meta_ggas_in_pyscfs_two_forms(rows, factor):
    """Five rows and (vrho, vsigma, vtau), or six with a Laplacian and four arrays: a wrong vtau is found in vtau."""

    def eval_xc(xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
        if spin:
            raise NotImplementedError("one spin")
        if rows == 5:
            n, x, y, z, tau = rho
        else:
            n, x, y, z, _, tau = rho
        sigma = x**2 + y**2 + z**2
        root = np.sqrt(1 + sigma)
        exc = -n - 0.1 * root - 0.2 * tau
        first = [exc - n, -0.05 * n / root, -0.2 * factor * n]
        return exc, tuple(first if rows == 5 else [*first[:2], np.zeros_like(n), first[2]]), None, None

    report = dftfd.audit(eval_xc, xctype="MGGA")
    assert [(f.kind, f.quantity) for f in report.findings] == ([] if factor == 1 else [("factor", "vtau")])


def test_what_cannot_be_audited_is_refused():
    """Unknown names, shapes that do not fit, options without meaning."""
    with pytest.raises(FunctionalError, match="unknown functional"):
        dftfd.audit("no_such_functional")
    with pytest.raises(InputError, match="one of 'LDA', 'GGA', 'MGGA'"):
        dftfd.audit(per_electron, xctype="hybrid")
    with pytest.raises(FunctionalError, match=r"vsigma of shape .* expected"):
        dftfd.audit(lambda c, rho, spin=0, deriv=1: (rho[0], (rho[0], rho[1:3].T), None, None))
    with pytest.raises(InputError, match="points=1: give a whole number from 3"):
        dftfd.audit("lda_x", points=1)
    assert "no_such_functional" not in list_functionals()


def test_differences_know_their_error():
    """exp and x^3 at points of [1, 2] to 1e-10, with a bound that holds; noise of 1e-6 shows in the bound."""
    x = np.linspace(1, 2, 9)[None]
    rng = np.random.default_rng(1)
    code = lambda x: {
        "exp": np.exp(x[0]),
        "cube": x[0] ** 3,
        "noisy": np.exp(x[0]) * (1 + 1e-6 * rng.normal(size=x[0].size)),
    }
    (result,) = differences(code, x, x)
    for name, exact in (("exp", np.exp(x[0])), ("cube", 3 * x[0] ** 2)):
        assert np.abs(result[name].value - exact).max() < 1e-9
        assert (np.abs(result[name].value - exact) <= 3 * result[name].error + 1e-13).all()
    assert np.median(result["noisy"].error) > 1e-6


PAGE = Path(__file__).parents[1] / "docs" / "audit.md"


def test_the_first_case_of_the_documentation():
    """docs/audit.md: the script prints the report that is shown; written as an energy, the same functional passes."""
    session, (*_, script, own) = pages.Session(PAGE), pages.pieces(PAGE.read_text())
    assert "2 findings" in script.shown and session.outcome(script).text.strip() == script.shown.strip()
    assert "audit(ni).passed" in own.code
    session.outcome(own)


def test_the_command_audits_files(capsys, tmp_path):
    """A function in a file: the report on standard output, exit code 1 if something was found."""
    path = tmp_path / "mine.py"
    script = next(piece for piece in pages.pieces(PAGE.read_text()) if piece.shown)
    path.write_text(script.code.partition("print(")[0])
    assert main(["audit", f"{path}:made_up"]) == 1
    assert "2 findings" in capsys.readouterr().out
    assert main(["audit", f"{path}:absent"]) == 2
    assert "mine.py has no 'absent'; the closest names are made_up" in capsys.readouterr().err
    assert main(["audit", "lda_x", "--libxc"]) == 0
    assert "nothing wrong found" in capsys.readouterr().out
