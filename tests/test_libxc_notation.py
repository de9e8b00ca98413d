"""Formulas in libxc's notation: what a text means, and what is refused. All texts here are the tests' own."""

import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.interpolate

import dftfd
from dftfd.cli import main
from dftfd.errors import FileError, FunctionalError, MissingDependencyError, UnsupportedError
from dftfd.functionals import catalogue, jax_xc_formula, libxc_tree
from dftfd.functionals.maple_kernel import expanded
from dftfd.functionals.maple_numbers import cubic_splines, dilogarithm, plain
from dftfd.functionals.maple_program import Definitions, Evaluation
from dftfd.functionals.maple_text import parse
from dftfd.functionals.named_files import functional_of_formula
from dftfd.interop import libxc
from dftfd.verify.point_comparison import compare
from dftfd.verify.sampling import sample
from dftfd.xc.pointwise import pointwise_kernel
from tests.sample import sample as some

COMMON = """
(* Our own words for what many formulas use. *)
$ifdef two
c_x := -4/3*sqrt(2/Pi):
$else
c_x := -3/4*(3/Pi)^(1/3):
$endif
to_s := x -> x/(2*(6*Pi^2)^(1/3)):
of_spin := (F, rs, z, x) -> c_x*((1 + z)/2)^(4/3)*2^(1/3)*(3/(4*Pi))^(1/3)/rs*F(to_s(x)):
"""
EXCHANGE = """
(* type: gga_exc *)
$include "common.mpl"
params_a_mu := 0.21:     # of our own
params_a_kappa := 0.8:
F := s -> 1 + params_a_kappa*(1 - params_a_kappa/(params_a_kappa + params_a_mu*s^2)):
f := (rs, z, xt, xs0, xs1) -> of_spin(F, rs, z, xs0) + of_spin(F, rs, -z, xs1):
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with our common words, and no tree of libxc's."""
    (tmp_path / "common.mpl").write_text(COMMON)
    return tmp_path


def written(folder, text, name="own_x.mpl"):
    (folder / name).write_text(text)
    return folder / name


def value(text, *arguments, name="g"):
    """What a procedure of a text gives for numbers."""
    work = Evaluation(Definitions(parse(text, "text")).names, lambda name: None)
    return plain(work.run(name, *arguments))


def numbers_of(functional, n_spin, count=40):
    """(energy, first derivatives) at points."""
    (energy,), slopes = pointwise_kernel(functional, n_spin)(sample(n_spin, "dense", count), 1, compiled=False)
    return energy, slopes


@pytest.mark.parametrize("n_spin", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_formula_in_this_notation_is_the_library_s_own(folder, n_spin):
    """PBE's enhancement factor, written in this notation, against gga_x_pbe with the same numbers, to rounding."""
    own = functional_of_formula(written(folder, EXCHANGE))
    native = dftfd.get_functional("gga_x_pbe", mu=0.21, kappa=0.8)
    for a, b in zip(numbers_of(own, n_spin), numbers_of(native, n_spin), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_numbers_of_a_text_are_parameters(folder):
    own = functional_of_formula(written(folder, EXCHANGE))
    assert own.parameters == {"kappa": 0.8, "mu": 0.21}
    changed = numbers_of(own.with_parameters(kappa=1.245), 2)[0]
    native = numbers_of(dftfd.get_functional("gga_x_pbe", mu=0.21, kappa=1.245), 2)[0]
    np.testing.assert_allclose(changed, native, rtol=1e-12)


def test_a_kinetic_energy_density_and_a_laplacian_arrive_in_libxc_s_units(folder):
    """e = sum_s tau_s + lapl_s / 10 from t = tau / n^(5/3) and u = lapl / n^(5/3) of the spins."""
    text = """
    (* type: mgga_exc *)
    n := rs -> 3/(4*Pi*rs^3):
    part := (rs, z, u, t) -> (n(rs)*(1 + z)/2)^(5/3)*(t + u/10)/n(rs):
    f := (rs, z, xt, xs0, xs1, u0, u1, t0, t1) -> part(rs, z, u0, t0) + part(rs, -z, u1, t1):
    """
    own = functional_of_formula(written(folder, text.replace("\n    ", "\n")))
    assert own.needs_tau
    x = sample(2, "dense", 40)
    (energy,), _ = pointwise_kernel(own, 2)(x, 1, compiled=False)
    np.testing.assert_allclose(energy, x[7] + x[8] + (x[5] + x[6]) / 10, rtol=1e-12)


def test_a_model_of_the_potential(folder):
    """v = -n^(1/3) of each spin: no energy, and this slope."""
    text = "(* type: lda_vxc *)\nf := (rs, z) -> -((1 + z)*3/(8*Pi*rs^3))^(1/3):\n"
    own = functional_of_formula(written(folder, text))
    assert not own.has_energy
    x = sample(2, "dense", 20)
    (energy,), slopes = pointwise_kernel(own, 2)(x, 1, compiled=False)
    assert np.all(energy == 0)
    np.testing.assert_allclose(slopes, -(x[:2] ** (1 / 3)), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "argument", "expected"),
    [
        ("g := x -> 2^x + 1/3:", 0.5, 2**0.5 + 1 / 3),
        ("g := x -> -x^2:", 3.0, -9.0),
        ("g := x -> 2**(-1/3)*x:", 3.0, 3 / 2 ** (1 / 3)),
        ("a := [1, 4, 9]: g := x -> add(a[i]*x^(i - 1), i=1..3):", 2.0, 45.0),
        ("a := [[1, 2], [3, 4]]: g := x -> a[2][1]*x:", 2.0, 6.0),
        ("b := [seq(i^2, i=1..3)]: g := x -> b[3]*x:", 1.0, 9.0),
        ("g := x -> h(x) + 1: h := x -> 2*x:", 2.0, 5.0),
        ("c := k*2: k := 5: g := x -> c*x:", 1.0, 10.0),
        ("k := 5: c := k*2: k := 7: g := x -> c*x:", 1.0, 10.0),
        ("h := proc(z) if (z=0) then 1 elif z = 1 then 2 else 3 end if end proc: g := x -> h(0) + 10*h(1) + 100*h(x):",
         0.0, 321.0),
        ("h := proc(f, a); k := y -> f(y) + a: k(a): end proc: g := x -> h(t -> t^2, x):", 3.0, 12.0),
        ("g := x -> piecewise(x > 2, 1/x, x > 1, x, 0):", 1.5, 1.5),
        ("g := x -> my_piecewise3(x > 2 or not x < 5 and 1 > 2, 1, 0):", 1.5, 0.0),
        ("g := x -> eval(diff(sin(y)*x, y), y = x):", 0.7, 0.7 * np.cos(0.7)),
        ("g := x -> eval(diff(y*z^2, z), [y=x, z=3]):", 0.5, 3.0),
        ("g := x -> P(3, x) + ChebyshevT(4, x):", 0.3, 0.5 * (5 * 0.027 - 0.9) + np.cos(4 * np.arccos(0.3))),
        ("g := x -> arctan(1, x) + log(x)/ln(10) + sqrt(exp(x)):", 2.0, np.arctan(0.5) + np.log10(2) + np.exp(1)),
        ("g := x -> eval(convert(taylor(sin(y)/y, y = 0, 9), polynom), y = x):", 0.1, np.sin(0.1) / 0.1),
        ("g := x -> LambertW(x*exp(x)):", 0.8, 0.8),
        ("g := x -> 1e0 + 1.e1 + .5e-1*x: # end", 2.0, 11.1),
    ],
)  # fmt: skip
def test_constructs(text, argument, expected):
    """Each against what it means in Python; once with a number that branches see, once with a value of JAX."""
    assert float(value(text, jnp.asarray(argument))) == pytest.approx(expected, rel=1e-13, abs=1e-13)
    if "diff" not in text and "h(x)" not in text and "LambertW" not in text:
        assert float(value(text, argument)) == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_a_series_at_infinity_where_the_function_loses_its_digits():
    """1 - 8/3 a (sqrt(pi) erf(1/2a) + 2a (e - 1) - 4 a^3 (e - 1) - a), e = exp(-1/4a^2), by mpmath in 60 digits."""
    text = """
    less := a -> exp(-1/(4*a^2)) - 1:
    full := a -> 1 - 8/3*a*(sqrt(Pi)*erf(1/(2*a)) + 2*a*less(a) - 2*a*(2*a^2*less(a) + 1/2)):
    g := a -> eval(convert(series(full(b), b = infinity, 40), polynom), b = a):
    """
    for a in (3.0, 20.0, 1e4):
        with mpmath.workdps(60):
            x = mpmath.mpf(a)
            e = mpmath.exp(-1 / (4 * x * x)) - 1
            exact = 1 - mpmath.mpf(8) / 3 * x * (
                mpmath.sqrt(mpmath.pi) * mpmath.erf(1 / (2 * x))
                + 2 * x * e
                - 2 * x * (2 * x * x * e + mpmath.mpf(1) / 2)
            )
        assert float(value(text, jnp.asarray(a))) == pytest.approx(float(exact), rel=1e-13)


def test_directives_choose_lines():
    files = {
        "a": '$define p\n$include "b"\n$undef p\n$include <b>',
        "b": "$ifdef p\none\n$elif q\ntwo\n$else\nthree\n$endif",
    }
    assert expanded("a", files.__getitem__, set()).split() == ["one", "three"]
    assert expanded("b", files.__getitem__, {"q"}).split() == ["two"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f := (rs, z) -> rs:", "type"),
        ("(* type: lda_exc *)\ng := 1:", "defines no f"),
        ("(* type: lda_exc *)\nf := (rs, z) -> rs*:", "line 2"),
        ("(* type: lda_exc *)\nf := (rs, z) -> unheard(rs):", "unheard"),
        ("(* type: lda_exc *)\nf := (rs, z) -> params_a_k*rs:", "params_a_k"),
        ("(* type: lda_exc *)\nf := (rs, z) -> f(rs, z) + 1:", "without end"),
        ("(* type: lda_exc *)\nf := (rs, z) -> rs/0:", "division by zero"),
        ("(* type: lda_exc *)\nf := (rs, z) -> [1, 2][3]*rs:", "entry 3"),
        ("(* type: lda_exc *)\nf := (rs, z) -> rs^[1, 2]:", "number"),
        ("(* type: lda_exc *)\nf := (rs, z) -> add(i, i=1..10^9)*rs:", "terms"),
        ("(* type: lda_exc *)\nf := (rs, z) -> 9^9^9^9*rs:", "expected"),
        ("(* type: lda_exc *)\nf := (rs, z) -> " + "(" * 500 + "rs" + ")" * 500 + ":", "brackets"),
        ("(* type: lda_exc *)\n$ifdef a\nf := (rs, z) -> rs:", "endif"),
        ("(* type: lda_exc *)\nf := (rs, z) -> if rs > 1 then 1 else 2 end if:", "piecewise"),
        ("(* type: lda_exc *)\nf := (rs, z) -> rs $ 2:", "can't be read"),
        ('(* type: lda_exc *)\n$include "own_x.mpl"', "include"),
        ('(* type: lda_exc *)\n$include "/etc/passwd"', "without folders"),
        ("(* type: lda_exc *)\na := b + 1: b := a: f := (rs, z) -> a*rs:", "itself"),
    ],
)
def test_what_is_no_formula_is_refused_in_one_line(folder, text, said):
    with pytest.raises(FunctionalError, match=said) as caught:
        functional_of_formula(written(folder, text))
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(folder):
    with pytest.raises(FileError, match="cannot read"):
        functional_of_formula(folder / "absent.mpl")
    with pytest.raises(FileError, match="DFTFD_LIBXC_SOURCE"):
        functional_of_formula(written(folder, '(* type: lda_exc *)\n$include "absent.mpl"\nf := (rs, z) -> rs:'))


def test_commands_take_a_formula(folder, capsys):
    path = str(written(folder, EXCHANGE))
    assert main(["read", path]) == 0
    out = capsys.readouterr().out
    assert "kappa" in out and "sigma" in out and "GGA" in out
    assert main(["read", str(written(folder, "f := 1:", "bad.mpl"))]) == 2


@pytest.mark.parametrize("name", some(["self", "rho", "tau", "p"], ["self", "rho"]))
def test_a_parameter_may_have_any_name(folder, name):
    """Also those that Python code around a formula gives to its arguments."""
    text = f"(* type: lda_exc *)\nparams_a_{name} := 0.7:\nf := (rs, z) -> -params_a_{name}/rs:\n"
    own = functional_of_formula(written(folder, text))
    n = sample(1, "dense", 40)[0]
    e, _ = numbers_of(own.with_parameters(**{name: 0.5}), 1)
    np.testing.assert_allclose(e, -0.5 * n ** (4 / 3) * (4 * np.pi / 3) ** (1 / 3), rtol=1e-12)


@pytest.mark.slow  # 1 s; the same formula at points: the first test
def test_a_calculation_with_a_formula(folder):
    """The same energy as the library's own functional, 1e-9 hartree."""
    own = functional_of_formula(written(folder, EXCHANGE))
    native = dftfd.get_functional("gga_x_pbe", mu=0.21, kappa=0.8)
    helium = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    energies = [dftfd.run_scf(helium, f, grid_level=0).energy for f in (own, native)]
    assert energies[0] == pytest.approx(energies[1], abs=1e-9)


@pytest.mark.parametrize("x", [-30.0, -1.0, -0.3, -1e-6, 0.2, 0.5, 0.9, 1.0])
def test_dilogarithm(x):
    """Against mpmath; its slope by the series of the definition."""
    with mpmath.workdps(40):
        exact = float(mpmath.polylog(2, x).real)
        exact_slope = float(-mpmath.log(1 - mpmath.mpf(x)) / x) if x < 1 else None
    assert float(dilogarithm(jnp.asarray(x))) == pytest.approx(exact, rel=1e-14)
    if exact_slope is not None:
        assert float(jax.grad(dilogarithm)(jnp.asarray(x))) == pytest.approx(exact_slope, rel=1e-12)


def test_cubic_splines():
    """Against SciPy's, inside of the interval of all of them."""
    knots = np.linspace(-3 / 7, 10 / 7, 14)
    coefficients = np.random.default_rng(1).normal(size=10)
    for u in (0.01, 0.3, 0.77, 0.99):
        expected = scipy.interpolate.BSpline(knots, coefficients, 3)(u)
        found = cubic_splines(jnp.asarray(u), tuple(coefficients), tuple(knots))
        assert float(found) == pytest.approx(float(expected), rel=1e-12)


# ---- libxc's names


def test_a_name_without_jax_xc_and_without_a_tree_says_what_to_do(monkeypatch):
    monkeypatch.setattr(jax_xc_formula, "is_installed", lambda: False)
    with pytest.raises(MissingDependencyError, match=libxc_tree.VARIABLE):
        dftfd.get_functional("libxc:gga_x_pbe_mol")
    assert catalogue.served_names() == []


def test_a_folder_that_is_no_tree_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(libxc_tree.VARIABLE, str(tmp_path))
    with pytest.raises(FileError, match="util.mpl"):
        catalogue.served_names()


TREE = os.environ.get(libxc_tree.VARIABLE, "")
needs_tree = pytest.mark.skipif(not TREE, reason="DFTFD_LIBXC_SOURCE names no source tree of libxc")
SOME = (
    *("lda_c_rpa", "gga_x_hcth_a", "gga_x_gg99", "gga_c_ft97", "hyb_gga_xc_case21", "mgga_x_eel", "mgga_x_lak"),
    *("mgga_x_ktbm_3", "hyb_gga_xc_cam_b3lyp", "mgga_x_scanl", "hyb_mgga_x_js18", "mgga_c_revscan", "gga_x_wpbeh"),
)


@pytest.mark.slow
@needs_tree
@pytest.mark.parametrize("name", SOME)
def test_formulas_of_libxc_agree_with_libxc(name, monkeypatch):
    """Energy to 1e-10 and first derivatives to 1e-8 on points that were not those of the comparison."""
    monkeypatch.setenv(libxc_tree.VARIABLE, TREE)
    functional = catalogue.build_from_source(name).semilocal_part
    for n_spin in (1, 2):
        x = sample(n_spin, "dense", 200)
        energy, found = pointwise_kernel(functional, n_spin)(x, 1, compiled=False), np.zeros_like(x)
        found[list(pointwise_kernel(functional, n_spin).used)] = energy[1]
        reference = libxc.reference([(1.0, name)], x, n_spin, order=1)._replace(second=None)
        for quantity, error in compare((energy[0][0], found, None), reference, x, n_spin).items():
            assert np.quantile(error, 0.99) < (1e-10 if quantity == "e" else 1e-8), (n_spin, quantity)


@pytest.mark.slow
@needs_tree
def test_a_tree_with_another_text_is_refused(monkeypatch, tmp_path):
    """A verdict is of a text: one digit more in a file, and the name is not served."""
    shutil.copytree(Path(TREE) / "maple", tmp_path / "maple")
    path = tmp_path / "maple" / "gga_exc" / "gga_x_wc.mpl"
    path.write_text(path.read_text() + "\nanother := 1:\n")
    monkeypatch.setenv(libxc_tree.VARIABLE, str(tmp_path))
    monkeypatch.setattr(jax_xc_formula, "is_installed", lambda: False)
    assert dftfd.get_functional("libxc:gga_x_pbe").terms
    with pytest.raises(UnsupportedError, match="is not the text"):
        dftfd.get_functional("libxc:gga_x_wc")
