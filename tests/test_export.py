"""Exported C code: compiled without a warning, it gives the values of extended precision and of our kernels; Fortran
calls it. Programs that call libxc: test_export_libxc.py."""

import ctypes
import importlib.util
import itertools
import re
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from scipy import special

import dftfd
from dftfd.autofd import compose
from dftfd.autofd.scalar.on_numpy import FUNCTIONS
from dftfd.autofd.scalar.program import Node, ScalarProgram
from dftfd.errors import FileError, FunctionalError, UnsupportedError
from dftfd.functionals import jax_xc_formula
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
from dftfd.translate import exporting
from dftfd.translate.c_files import Exported, header
from dftfd.translate.c_text import ARITHMETIC
from dftfd.translate.on_c import FORMS, TRUTHS, OnC, Piece, number_text, statements_of
from dftfd.verify.point_comparison import scaled_error
from dftfd.xc.channels import family_of
from dftfd.xc.pointwise import pointwise_kernel
from tests.exported_code import COMPILER, WARNINGS, Code, exported_to, own_functional, run_test, shared_library
from tests.test_oracle import KNOWN
from tests.verification.oracle_points import errors_to_oracle, oracle_points

TOLERANCES = (1e-12, 1e-11, 1e-10, 1e-9, 1e-9)
"""By order; errors as in `scaled_error`."""

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler: install gcc or clang")


def largest_errors(code, functional, n_spin, order, parameters=None):
    """By order, against our kernel at all points."""
    x, errors = oracle_points(n_spin), []
    n = x[0] if n_spin == 1 else x[0] + x[1]
    kernel = pointwise_kernel(functional.semilocal_part, n_spin)
    reference = kernel.by_component(x, order, compiled=False)
    found, zero = code.derivatives(x, n_spin, order, parameters), np.zeros_like(n)
    kinds = [{c: [family_of(k, n_spin) for k in c] for c in rows} for rows in found]
    lost = None
    for k, rows in enumerate(found):
        scaled = {c: scaled_error(row, reference[k].get(c, zero), n, kinds[k][c]) for c, row in rows.items()}
        if k > 2 and max(error.max() for error in scaled.values()) > TOLERANCES[k]:
            lost = lost or [kernel.by_component(moved, order, compiled=False) for moved in moved_by_a_unit(x)]
            scaled = {c: np.maximum(e - LOST * noise(c, k, reference, lost, n, kinds), 0.0) for c, e in scaled.items()}
        errors.append(max(error.max() for error in scaled.values()))
    return errors


LOST = 10
"""Third and higher derivatives may be off by this many times what a rounding unit in the variables does to our kernel.

Of short-range PBE exchange, where a rare spin varies slowly: its energy is n^2 there, and what it has of sigma is
sigma alone, so d^3e/dn^2 dsigma is the rest of terms that cancel. Eight digits are gone, whoever computes it.
"""


def moved_by_a_unit(x):
    """The points, eight times, each variable moved by a rounding unit up, down or not at all."""
    rng = np.random.default_rng(24)
    return [x * (1 + 2.0**-51 * rng.choice([-1, 0, 1], size=x.shape)) for _ in range(8)]


def noise(component, order, reference, moved, n, kinds):
    """The largest change of our kernel's component between the points and the moved ones."""
    zero = np.zeros_like(n)
    exact = reference[order].get(component, zero)
    changes = [scaled_error(m[order].get(component, zero), exact, n, kinds[order][component]) for m in moved]
    return np.max(changes, axis=0)


@pytest.fixture(scope="module")
def pbe(tmp_path_factory):
    """(folder, what was exported, the compiled code) of PBE exchange to second order, compiled without a warning."""
    folder = tmp_path_factory.mktemp("pbe")
    exported = exported_to(folder, "gga_x_pbe", 2)
    return folder, exported, Code(shared_library(folder, "-O1", "-std=c99", "-pedantic", *WARNINGS), exported)


def require_right(code, name, order):
    """Energies and derivatives of both spins at the 120 points of the oracle, against our kernels, and against 150
    digits, in which no automatic differentiation takes part."""
    functional = dftfd.get_functional(name)
    for n_spin in (1, 2):
        errors = largest_errors(code, functional, n_spin, order)
        assert all(e <= limit for e, limit in zip(errors, TOLERANCES, strict=False)), errors
    known = [limit for (formula, _, quantity), limit in KNOWN.items() if (formula, quantity) == (name, "second")]
    energy, first, second = errors_to_oracle(code, name)
    assert energy < TOLERANCES[0] and first < TOLERANCES[1] and second < max([TOLERANCES[2], *known])


@needs_compiler
def test_code_gives_what_our_kernels_give(pbe):
    """To second order; its own test passes."""
    require_right(pbe[2], "gga_x_pbe", 2)
    assert " 0 wrong" in run_test(pbe[0], "-O0", *WARNINGS)


@pytest.mark.slow  # 2 s; second order is quick: test_code_gives_what_our_kernels_give
@needs_compiler
def test_derivatives_of_fourth_order(tmp_path):
    """Exchange of the uniform gas."""
    exported = exported_to(tmp_path, "lda_x", 4)
    code = Code(shared_library(tmp_path, "-O1"), exported)
    require_right(code, "lda_x", 4)
    assert " 0 wrong" in run_test(tmp_path, "-O0", *WARNINGS)


@needs_compiler
def test_the_test_program_fails_for_wrong_code(pbe, tmp_path):
    """One number of a kernel changed in its tenth digit."""
    folder = shutil.copytree(pbe[0], tmp_path / "copy")
    kernel = folder / "gga_x_pbe_order2.c"
    text = kernel.read_text()
    assert "0.7385587663820223" in text
    kernel.write_text(text.replace("0.7385587663820223", "0.7385587664820223"))
    with pytest.raises(subprocess.CalledProcessError) as failure:
        run_test(folder)
    assert failure.value.returncode == 1


@needs_compiler
def test_parameters_may_be_changed_when_the_code_runs(pbe):
    """kappa = 1.245 makes revPBE of PBE; the numbers are those of our kernel of revPBE, not of PBE."""
    _, exported, code = pbe
    assert [p.name for p in exported.parameters] == ["kappa", "mu"]
    revised = dftfd.get_functional("gga_x_pbe", kappa=1.245)
    changed = [1.245, *exported.parameters[1].values]
    assert largest_errors(code, revised, 2, 1, changed)[0] < 1e-14
    assert largest_errors(code, revised, 2, 1)[0] > 1e-3


@needs_compiler
def test_an_own_formula(tmp_path):
    """A name with blanks, parameters, tanh and sqrt."""
    own = own_functional()
    exported = exported_to(tmp_path, own, 1)
    assert " 0 wrong" in run_test(tmp_path, *WARNINGS)
    errors = largest_errors(Code(shared_library(tmp_path), exported), own, 2, 1)
    assert all(e <= limit for e, limit in zip(errors, TOLERANCES, strict=False)), errors


def learned(width, depth):
    """Exchange with a network of s^2 / (1 + s^2) as enhancement factor."""
    eqx = pytest.importorskip("equinox", reason="pip install 'dftfd[learned]'")
    net = eqx.nn.MLP("scalar", "scalar", width, depth, jax.nn.silu, key=jax.random.key(2))

    @spin_scaled
    def energy(n, *, net=net, kappa=0.804):
        s2 = reduced_gradient_squared(n)
        u = s2 / (1 + s2)
        return slater_exchange(n) * (1 + kappa * u * compose(net, u))

    return Functional(f"learned {width}", ((1.0, EnergyTerm.from_formula(energy, "t_learned")),))


@pytest.mark.slow  # 2 s and more; test_an_own_formula is quick
@needs_compiler
@pytest.mark.parametrize(
    ("width", "depth", "order"),
    [(4, 1, 1), (8, 2, 4), (40, 2, 1)],
)
def test_networks(width, depth, order, tmp_path):
    """Weights are numbers of the code, large layers arrays (static const double w_...), products with them loops."""
    functional = learned(width, depth)
    exported = exported_to(tmp_path, functional, order)
    text = (tmp_path / f"{exported.name}_order1.c").read_text()
    assert ("static const double w_" in text) == (width > 32)
    assert [p.name for p in exported.parameters] == ["kappa"]
    assert " 0 wrong" in run_test(tmp_path, *WARNINGS)
    code = Code(shared_library(tmp_path), exported)
    for n_spin in (1, 2):
        errors = largest_errors(code, functional, n_spin, order)
        assert all(e <= limit for e, limit in zip(errors, TOLERANCES, strict=False)), errors


@needs_compiler
def test_no_point_gives_anything_but_numbers(pbe):
    """1e5 densities from 0 to 1e8, gradients from 0 to 1e40, both spins, to second order; below the floor, zeros."""
    code = pbe[2]
    rng = np.random.default_rng(3)
    x = np.zeros((9, 100_000))
    x[:2] = 10 ** rng.uniform(-40, 8, (2, x.shape[1]))
    x[[2, 4]] = 10 ** rng.uniform(-80, 40, (2, x.shape[1]))
    x[:, :10], x[0, 10:20], x[1, 20:30] = 0, 0, 0
    found = code.derivatives(x, 2, 2)
    assert all(np.isfinite(row).all() for rows in found for row in rows.values())
    empty = 2 * np.maximum(x[0], x[1]) < 1e-27  # exchange is that of each spin
    assert 10 < empty.sum() and all((row[empty] == 0).all() for rows in found for row in rows.values())


class _OnPython(OnC):
    """Pieces of Python."""

    types, declaration, choice = ("", ""), "{name} = {text}", "{1} if {0} else {2}"
    truths, number_of_truth, has_tables = ("False", "True"), "float({})", False


_OF_PYTHON = """\
from math import cbrt as cube_root, exp as exp_of, expm1 as expm1_of, inf as INFINITY, log as log_of, sqrt
larger, smaller = max, min

def energy(x, p):
"""


def test_another_language_is_one_file(tmp_path, monkeypatch):
    """A printer for Python and its arithmetic: the energy is that of our kernel, and the files in C are as before."""
    monkeypatch.setattr(exporting, "_WRITERS", dict(exporting._WRITERS))
    before = exporting.files_of(dftfd.get_functional("gga_x_pbe"), 0)

    @exporting.export_language("Python")
    def python_files(exported):
        of_spins = exported.spins[2]
        inputs = [*(Piece(f"x[{k}]") for k in of_spins.used), *(Piece(f"p[{k}]", uniform=True) for k in range(2))]
        written, (energy,) = statements_of(of_spins.program(0), inputs, _OnPython)
        lines = [*written.before, *written.inside, f"return {energy}"]
        return {"python/code.py": _OF_PYTHON + "".join(f"    {line.rstrip(';')}\n" for line in lines)}

    functional = dftfd.get_functional("gga_x_pbe")
    paths = dftfd.export(functional, tmp_path, order=0)
    assert {str(p.relative_to(tmp_path)) for p in paths} == {*before, "python/code.py"}
    spec = importlib.util.spec_from_file_location("code_in_python", tmp_path / "python" / "code.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parameters = [v for p in Exported("gga_x_pbe", functional, 0).parameters for v in p.values]
    x = np.zeros((9, 1))
    x[:5, 0] = 0.21, 0.13, 0.04, 0.01, 0.09
    (expected,) = pointwise_kernel(functional, 2).by_component(x, 0, compiled=False)
    assert module.energy(x[:5, 0], parameters) == pytest.approx(expected[()][0], rel=1e-13, abs=0)


@needs_compiler
def test_what_is_missing_is_said(pbe):
    """No spins but one and two; an array that the functional needs."""
    code = pbe[2]
    rho = np.ones((5, 1))
    results = code.results(1, 5, 0)
    assert code.fill(results, 3, [rho, rho, None, None]) == 1
    assert code.fill(results, 1, [rho, None, None, None]) == 2
    assert code.fill({}, 1, [rho, None, None, None]) == 0  # nothing is wanted
    assert code.fill(results, 1, [rho, rho, None, None]) == 0


def test_code_says_where_it_comes_from():
    """Formula, parameters, DOI, version and fingerprint, and what the calling program has to add."""
    text = header(Exported("mine", dftfd.get_functional("0.25*HF + 0.75*gga_x_pbe"), 0))
    for part in ("kappa = 0.804", "10.1103/PhysRevLett.77.3865", dftfd.__version__, "0.25 * exact exchange with 1/r"):
        assert part in text
    assert re.search(r"fingerprint: [0-9a-f]{64}\n", text)


def test_what_cannot_be_exported_is_refused(tmp_path):
    """Model potentials, exact exchange alone, loops of an unknown number of turns, existing files."""

    def turns(n):
        return compose(lambda x: jax.lax.while_loop(lambda y: y > 1, lambda y: 0.5 * y, x), n)

    looping = Functional("loop", ((1.0, EnergyTerm.from_formula(turns, "t_loop")),))
    for functional in ("lb94", "hf", looping):
        with pytest.raises(UnsupportedError):
            dftfd.export(functional, tmp_path, order=0)
    with pytest.raises(FunctionalError):
        dftfd.export("no_such_name", tmp_path)
    assert dftfd.export("lda_x", tmp_path / "new" / "folder", order=0)
    tmp_path = tmp_path / "new" / "folder"
    with pytest.raises(FileError, match="overwrite"):
        dftfd.export("lda_x", tmp_path, order=0)
    assert dftfd.export("lda_x", tmp_path, order=0, overwrite=True)
    with pytest.raises(FileError):
        dftfd.export("lda_x", tmp_path / "lda_x.h")


IN_NUMPY = FUNCTIONS | {
    "exp2": np.exp2, "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil,
    "lgamma": lambda x: special.gammaln(x) if not 0 < abs(x) < 1e-300 else -np.log(abs(x)),  # SciPy gives inf
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}  # fmt: skip
ARITY = {"clamp": 3} | dict.fromkeys("add add_any sub mul div max min pow atan2 gt ge lt le eq ne".split(), 2)


@needs_compiler
def test_every_operation_in_c_is_numpy_s(tmp_path):
    """Each form at several arguments, those at which logarithms and roots end included, to 1e-15; truth values choose
    between b and c."""
    nodes, names = [Node("input", value=k) for k in range(3)], [*FORMS, "gt", "ge", "lt", "le", "eq", "ne", "is_finite"]
    assert set(TRUTHS) <= {*names, "and", "or", "xor", "not"}
    for name in names:
        is_truth = name in TRUTHS
        nodes.append(Node(name, tuple(range(ARITY.get(name, 1))), real=not is_truth))
        nodes += [Node("select_n", (len(nodes) - 1, 1, 2))] * is_truth
    outputs = tuple(i for i, n in enumerate(nodes) if n.op != "input" and n.real)
    program = ScalarProgram(tuple(nodes), outputs, 3)
    written, texts = statements_of(program, [Piece("a"), Piece("b"), Piece("c")])
    body = "\n".join([*written.inside, *(f"y[{k}] = {text};" for k, text in enumerate(texts))])
    (tmp_path / "f.c").write_text(f"{ARITHMETIC}\nvoid f(double a, double b, double c, double *y) {{\n{body}\n}}\n")
    call = ctypes.CDLL(str(shared_library(tmp_path))).f
    call.argtypes = [ctypes.c_double] * 3 + [ctypes.c_void_p]
    values = (0.0, 0.3, 1.0, -0.7, 2.5, 1e-300, 1e-310, 5e8, 800.0, -800.0, np.inf, np.nan)
    with np.errstate(all="ignore"):
        for a, b in itertools.product(values, (0.5, -2.0, np.nan)):
            y = np.empty(len(outputs))
            call(a, b, 1.5, y.ctypes.data)
            for name, found in zip(names, y, strict=True):
                expected = IN_NUMPY[name](*np.array([a, b, 1.5])[: ARITY.get(name, 1)])
                expected = (1.5 if expected else b) if name in TRUTHS else expected
                assert np.isclose(found, expected, rtol=1e-15, atol=0, equal_nan=True), (name, a, b, found, expected)


def test_numbers_are_read_as_they_are():
    """repr's digits, with a point; signs and infinities."""
    assert [number_text(x) for x in (1, -0.1, 1e300, -0.0)] == ["1.0", "(-0.1)", "1e+300", "(-0.0)"]
    assert number_text(np.inf) == "INFINITY"


FORMULAS = {
    *("lda_x", "lda_c_vwn", "lda_c_pw", "lda_x_erf", "gga_x_pbe", "gga_x_b88", "gga_x_pw91", "gga_x_optx", "gga_c_pbe"),
    *("gga_c_lyp", "gga_c_p86", "gga_x_wpbeh_sr", "hyb_gga_xc_wb97x", "mgga_x_tpss", "mgga_c_tpss", "mgga_x_scan"),
    *("mgga_x_r2scan", "mgga_c_r2scan", "mgga_x_m06_l", "mgga_c_bc95", "mgga_x_br89", "mgga_x_mn15_l", "mgga_k_pc07"),
}
"""Of all rungs; Laplacians, short-range exchange, holes."""


@needs_compiler
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(FORMULAS))
@pytest.mark.one_in(4)
def test_all_rungs_to_fourth_order(name, tmp_path):
    """As the first test, to fourth order."""
    exported = exported_to(tmp_path, name, 4)
    require_right(Code(shared_library(tmp_path, "-O1", *WARNINGS), exported), name, 4)
    assert " 0 wrong" in run_test(tmp_path, "-O0")


@needs_compiler
@pytest.mark.slow
@pytest.mark.skipif(not jax_xc_formula.is_installed(), reason="no jax-xc for this Python")
@pytest.mark.parametrize("name", ["libxc:gga_x_pbe", "libxc:gga_c_lyp", "libxc:mgga_x_tpss"])
def test_formulas_of_libxc_s_catalogue(name, tmp_path):
    """What jax-xc brings along goes the same way."""
    exported_to(tmp_path, name, 1)
    assert " 0 wrong" in run_test(tmp_path, *WARNINGS)


@needs_compiler
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang") is None, reason="there is no clang")
def test_clean_under_sanitizers_and_as_cpp(tmp_path):
    """clang's address and undefined-behaviour sanitizers; C++ without a warning."""
    exported_to(tmp_path, "mgga_x_scan", 3)
    assert " 0 wrong" in run_test(tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover", compiler="clang")
    assert " 0 wrong" in run_test(tmp_path, "-xc++", *WARNINGS, compiler="clang")


FORTRAN = """
program client
  use gga_x_pbe
  implicit none
  real(c_double), target :: rho(2, 1) = reshape([0.3d0, 0.2d0], [2, 1]), zk(1), vrho(2, 1)
  real(c_double), target :: sigma(3, 1) = reshape([0.1d0, 0.02d0, 0.05d0], [3, 1])
  type(gga_x_pbe_parameters) :: parameters
  type(gga_x_pbe_results) :: results
  results%zk = c_loc(zk)
  results%vrho = c_loc(vrho)
  if (gga_x_pbe_evaluate(2_c_int, 1_c_size_t, c_loc(rho), c_loc(sigma), c_null_ptr, c_null_ptr, &
      parameters, results) /= 0) stop 1
  print *, zk, vrho
end program
"""


@pytest.mark.skipif(shutil.which("gfortran") is None or COMPILER is None, reason="there is no gfortran")
def test_fortran_calls_it(pbe, tmp_path):
    """Energy and slopes of one point, with default parameters, as our kernel has them."""
    (tmp_path / "client.f90").write_text(FORTRAN)
    sources = [pbe[0] / f"gga_x_pbe{part}.c" for part in ("", "_order0", "_order1", "_order2")]
    sources += [pbe[0] / "fortran/gga_x_pbe.f90", tmp_path / "client.f90"]
    flags = ["-Wall", "-Werror", f"-J{tmp_path}", f"-I{pbe[0]}"]
    subprocess.run(["gfortran", *flags, *map(str, sources), "-o", str(tmp_path / "client"), "-lm"], check=True)
    printed = subprocess.run([str(tmp_path / "client")], check=True, capture_output=True, text=True).stdout
    x = np.array([[0.3], [0.2], [0.1], [0.02], [0.05], [0], [0], [0], [0]])
    energy, slopes = pointwise_kernel(dftfd.get_functional("gga_x_pbe"), 2)(x, 1)
    expected = [energy[0, 0] / 0.5, *slopes[:2, 0]]
    np.testing.assert_allclose(np.array(printed.split(), dtype=float), expected, rtol=1e-14)


@pytest.mark.slow  # 2 s, a process; test_code_gives_what_our_kernels_give is quick
def test_a_process_that_does_nothing_else_exports(tmp_path):
    """What was traced before decides whether constants of inner programs are literals: none of it may be needed."""
    code = f"import dftfd; dftfd.export('gga_x_pbe', {str(tmp_path / 'c')!r}, order=1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and any((tmp_path / "c").glob("*_order1.c")), done.stderr
