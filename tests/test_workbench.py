"""The workbench's page: its JavaScript gives Python's numbers, for other parameters too; what it says of atoms is known
from elsewhere; the page needs nothing from outside."""

import functools
import itertools
import re
import runpy
import sys
from dataclasses import replace

import numpy as np
import pytest
from pyscf import dft, gto, scf
from typer.testing import CliRunner

import dftfd
from dftfd.autofd.scalar.program import Node, ScalarProgram
from dftfd.benchmarks.collections import read_set
from dftfd.cli.commands import app
from dftfd.errors import FileError, FunctionalError, UnsupportedError
from dftfd.functionals.named_files import functional_in_file
from dftfd.interactive.molecules import ATOMS, all_nine, atom, bonds, species
from dftfd.interactive.workbench import ARITHMETIC, OnJavaScript
from dftfd.interop import libxc
from dftfd.system.geometry import parse_geometry
from dftfd.translate.on_c import FORMS, TRUTHS, Piece, statements_of
from dftfd.verify.local_conditions import CONDITIONS
from dftfd.verify.model_systems import C_X, energy, gas
from dftfd.verify.point_comparison import scaled_error
from dftfd.xc.channels import family_of
from dftfd.xc.pointwise import pointwise_kernel
from tests.javascript import needs_node, run_javascript
from tests.test_export import ARITY, IN_NUMPY

N = 9
QUICK = ("pbe",)
SLOW = ("scan", "b3lyp", "tpss", "m06_l", "lda,vwn", "r2scan_l")


def script_of(page) -> str:
    return re.search(r"<script>(.*)</script>", page.html, re.S)[1]


@functools.cache
def script_for(name: str) -> str:
    """The script of a functional's page, written once for all tests."""
    return script_of(dftfd.workbench(name))


def close(found, expected, tolerance):
    """Relative, where the numbers are none that floating point can't hold."""
    return np.all(np.abs(np.asarray(found) - expected) <= tolerance * np.abs(expected) + 1e-300)


ENERGIES_AND_SLOPES = """
const one = BENCH.functionals[0], found = ["Ne", "N"].map(name => BENCH.atoms.find(a => a.symbol === name));
const order = one.parts.some(p => `${p.name}_2` in KERNELS) ? 2 : 1;
print(found.map(a => evaluate(one, kindsOf(one), order, a.x, [a.change, a.change])));
"""

CONDITIONS_AT_POINTS = """
const one = BENCH.functionals[0];
const values = ([rs, s]) => {
  const point = [at({rs, s})], c = scaled(one, ["c"], point);
  const x = enhancement(one, ["x"], point), far = enhancement(one, ["c"], [at({rs: 100, s})]);
  return Object.values(CONDITIONS).map(([, , code]) => code({c: c.map(v => v[0]), x: x[0], far: far[0]}));
};
print([Object.keys(CONDITIONS), ...[[0.5, 0.3], [2, 1.7], [6, 4]].map(values)]);
"""

PLACES = [(0.5, 0.3), (2.0, 1.7), (6.0, 4.0)]
"""(r_s, s) of the conditions above."""


@needs_node
def test_every_operation_in_javascript_is_numpy_s(tmp_path):
    """Each form at several arguments, to 4e-15; truth values choose between b and c."""
    left_out = {"lgamma"}
    nodes = [Node("input", value=k) for k in range(3)]
    names = [n for n in (*FORMS, "gt", "ge", "lt", "le", "eq", "ne", "is_finite") if n not in left_out]
    for name in names:
        nodes.append(Node(name, tuple(range(ARITY.get(name, 1))), real=name not in TRUTHS))
        nodes += [Node("select_n", (len(nodes) - 1, 1, 2))] * (name in TRUTHS)
    outputs = tuple(i for i, n in enumerate(nodes) if n.op != "input" and n.real)
    program = ScalarProgram(tuple(nodes), outputs, 3)
    written, texts = statements_of(program, [Piece("a"), Piece("b"), Piece("c")], OnJavaScript)
    body = "\n".join([*written.inside, f"return [{', '.join(texts)}];"])
    arguments = list(itertools.product((0.0, 0.3, 1.0, -0.7, 2.5, 1e-300, 5e8, 700.0, -700.0), (0.5, -2.0)))
    script = f"{ARITHMETIC}\nconst f = (a, b, c) => {{\n{body}\n}};\n"
    found = run_javascript(
        f"{script}print({[list(pair) for pair in arguments]}.map(([a, b]) => f(a, b, 1.5)));", tmp_path
    )
    with np.errstate(all="ignore"):
        for (a, b), row in zip(arguments, found, strict=True):
            for name, value in zip(names, row, strict=True):
                expected = IN_NUMPY[name](*np.array([a, b, 1.5])[: ARITY.get(name, 1)])
                expected = (1.5 if expected else b) if name in TRUTHS else expected
                near = 5e-14 if name == "erfc" else 4e-15
                assert np.isclose(float(value), expected, rtol=near, atol=0, equal_nan=True), (name, a, b, value)


@needs_node
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
@pytest.mark.one_in(2)
def test_the_page_s_numbers_are_python_s(name, tmp_path):
    """Energies and slopes in two atoms to 1e-12, their derivatives along directions to 1e-10, where both spins are."""
    functional = dftfd.get_functional(name)
    kernel = pointwise_kernel(functional.semilocal_part, 2)
    levels = 2 if "lapl" in kernel.ingredients else 1
    script = script_for(name) + ENERGIES_AND_SLOPES
    for symbol, rows in zip(("Ne", "N"), run_javascript(script, tmp_path), strict=True):
        known, rows = atom(symbol), np.array(rows, dtype=float)
        dense = known.x[:2].min(axis=0) > 1e-6
        energy, *slopes = kernel.along(known.x, np.stack([known.change] * levels))
        assert close(rows[0][dense], np.asarray(energy)[dense], 1e-12)
        n, moved = known.x[0] + known.x[1], np.abs(known.slope.sum(axis=0))
        for g, expected in enumerate([slopes[0], slopes[1], slopes[1], slopes[2]] if levels == 2 else slopes):
            times = (moved / n) ** (0, 1, 1, 2)[g]  # the natural size of a change
            for k, row in zip(kernel.used, np.asarray(expected) / times, strict=True):
                error = scaled_error(rows[1 + N * g + k] / times, row, n, [family_of(k, 2)])
                assert error[dense].max() < (1e-10 if g else 1e-12), (symbol, g, k)


@needs_node
def test_parameters_are_inputs(tmp_path):
    """Of PBE with another kappa and mu, the energies of atoms are those of that functional."""
    script = script_for("pbe") + (
        "\nstate.values[0] = BENCH.functionals[0].parameters.map(p => ({kappa: 1.245, mu: 0.3})[p.name] ?? p.value);"
        "\nprint(BENCH.atoms.map(a => atomEnergy(BENCH.functionals[0], ['x', 'c'], a)));"
    )
    changed = dftfd.get_functional("pbe", kappa=1.245, mu=0.3)
    for symbol, found in zip(ATOMS, run_javascript(script, tmp_path), strict=True):
        known = atom(symbol)
        e = pointwise_kernel(changed, 2)(list(known.x), 0)[0][0]
        assert abs(found - known.weights @ e) <= 1e-12 * abs(found)


@needs_node
def test_potentials_are_libxc_s(tmp_path):
    """PBE's in helium, by libxc's derivatives on the same density, to 1e-10; and by differences of its slopes."""
    script = script_for("pbe") + (
        "\nconst he = BENCH.atoms.find(a => a.symbol === 'He'), one = BENCH.functionals[0];"
        "\nprint([potential(one, ['x', 'c'], he), one.libxc.He]);"
    )
    found, by_libxc = map(np.array, run_javascript(script, tmp_path))
    he = atom("He")
    inside = (he.r > 1e-3) & (he.r < 8)
    assert close(found[inside], by_libxc[inside], 1e-10)
    slopes = libxc.reference(((1.0, "gga_x_pbe"), (1.0, "gga_c_pbe")), he.x, 2, 1).first
    flux = he.r**2 * (2 * slopes[2] + slopes[3]) * he.slope[0]
    by_differences = slopes[0] - np.gradient(flux, np.log(he.r), edge_order=2) / he.r**3
    assert close(found[inside], by_differences[inside], 5e-2)


@needs_node
@pytest.mark.parametrize("name", ["pbe", pytest.param("pbe0", marks=pytest.mark.slow)])
def test_molecules_are_python_s(name, tmp_path):
    """Atomisation energies on the stored densities, to 1e-9 kcal/mol: a quarter of PBE0's exchange is exact."""
    script = script_for(name) + "\nprint(molecules(BENCH.functionals[0]));"
    found, functional = run_javascript(script, tmp_path), dftfd.get_functional(name)
    not_exact = 0.75 if name == "pbe0" else 1.0
    kernel, energies = pointwise_kernel(functional.semilocal_part, 2), {}
    for one in species():
        e = np.asarray(kernel(list(all_nine(one.x)), 0)[0][0])
        energies[one.name] = one.energy - not_exact * one.exchange + one.weights @ e
    for one in species():
        if one.reference is not None:
            expected = 627.5094740631 * (sum(energies[a] for a in one.atoms) - energies[one.name])
            assert abs(found[one.name]["atomisation"] - expected) < 1e-9, one.name
            assert found[one.name]["reference"] == one.reference
    if name == "pbe":
        return  # the set has none
    # near those of the functional's own densities, which W4-17's makers of GSCDB computed
    own = {reaction.name: reaction.published[name] for reaction in read_set("w4-17").reactions if reaction.published}
    for molecule in ("hf", "h2o", "co", "h2"):
        assert abs(found[molecule.upper()]["atomisation"] - own[molecule]) < 2.0, molecule


@needs_node
def test_potentials_along_bonds_are_libxc_s(tmp_path):
    """PBE's in N2 to 1e-9; exact exchange of H2 ends as -1/r."""
    script = script_for("pbe") + (
        "\nconst n2 = BENCH.bonds.find(b => b.symbol === 'N2'), one = BENCH.functionals[0];"
        "\nprint([potential(one, ['x', 'c'], n2), one.libxc.N2]);"
    )
    found, by_libxc = map(np.array, run_javascript(script, tmp_path))
    assert close(found, by_libxc, 1e-9)
    h2 = next(bond for bond in bonds() if bond.symbol == "H2")
    v = h2.exact_potential[1]
    assert np.allclose(v[0] * (h2.r[0] - 0.7), 1.0, atol=0.02)  # -1/r, from the middle; a quadrupole adds


def test_stored_derivatives_along_a_bond():
    """PySCF's density of H2 there and at points around: values, slopes, Laplacians by differences."""
    h2 = next(bond for bond in bonds() if bond.symbol == "H2")
    rows = zip("HH", parse_geometry(read_set("w4-17").species["h2"].atoms).coordinates.tolist(), strict=True)
    mole = gto.M(atom=list(rows), basis="def2-QZVPPD", verbose=0)
    P = scf.RHF(mole).run(conv_tol=1e-12).make_rdm1()
    a, b = mole.atom_coords()
    axis = (b - a) / np.linalg.norm(b - a)
    r = h2.r[::20]
    found = lambda shift: np.stack(_of_one_spin(mole, P, a + np.outer(r, axis) + shift))
    here, h = found(0 * axis), 1e-3
    assert np.allclose(h2.x[[0, 2, 5, 7]][:, ::20], here, rtol=1e-5, atol=1e-9)
    slopes = (found(h * axis) - found(-h * axis)) / (2 * h)
    assert np.allclose(h2.change[[0, 2, 5, 7]][:, ::20], slopes, rtol=1e-3, atol=1e-5)
    bent = sum(found(s * h * e) - here for e in np.eye(3) for s in (1, -1)) / h**2
    assert np.allclose(h2.laplacian[[0, 2, 5, 7]][:, ::20], bent, rtol=1e-3, atol=1e-4)


def _of_one_spin(mole, P, points):
    """n, sigma, lapl n and tau of one spin of a closed shell, by PySCF."""
    ao = dft.numint.eval_ao(mole, points, deriv=2)
    n, x, y, z, lapl, tau = dft.numint.eval_rho(mole, ao, P / 2, xctype="MGGA", with_lapl=True)
    return n, x * x + y * y + z * z, lapl, tau


@pytest.mark.slow
@pytest.mark.parametrize("name, xc", [("N2", "pbe,pbe"), ("H2O", "r2scan")])
def test_stored_grids_hold_the_energies(name, xc):
    """PySCF's Hartree-Fock and quadrature give the functional's energy to half of the last digit shown."""
    geometry = parse_geometry(read_set("w4-17").species[name.lower()].atoms)
    rows = zip([atom.symbol for atom in geometry.names], geometry.coordinates.tolist(), strict=True)
    mole = gto.M(atom=list(rows), basis="def2-QZVPPD", verbose=0)
    mf = scf.RHF(mole).run(conv_tol=1e-11)
    grid = dft.gen_grid.Grids(mole)
    grid.level = 5
    expected = dft.numint.NumInt().nr_rks(mole, grid.build(), xc, mf.make_rdm1())[1]
    one = next(s for s in species() if s.name == name)
    assert one.energy == pytest.approx(mf.e_tot, abs=1e-8)
    kernel = pointwise_kernel(dftfd.get_functional("pbe" if xc == "pbe,pbe" else xc), 2)
    found = one.weights @ np.asarray(kernel(list(all_nine(one.x)), 0)[0][0])
    assert found == pytest.approx(expected, abs=8e-5)


def test_correlation_of_atoms():
    """Helium's from its exact energy (Drake: -2.903724377) and its Hartree-Fock limit; none of an atom without one."""
    assert atom("He").exact_correlation == pytest.approx(-2.903724377 + 2.861679996, abs=1e-5)
    assert atom("H").exact_correlation == 0 and atom("Kr").exact_correlation is None


@needs_node
def test_conditions_are_those_that_are_proved(tmp_path):
    """The page's expressions against those of dftfd.verify, with enhancement factors' differences in r_s."""
    script = script_for("pbe") + CONDITIONS_AT_POINTS
    names, *rows = run_javascript(script, tmp_path)
    assert names == list(CONDITIONS)
    exchange, correlation = map(dftfd.get_functional, ("gga_x_pbe", "gga_c_pbe"))

    def enhancement(functional, rs, s):
        x = gas(rs, s)
        return float(energy(functional, x)[0] / (C_X * x[0][0] ** (4 / 3)))

    for (rs, s), values in zip(PLACES, rows, strict=True):
        along = lambda t, rs=rs, s=s: enhancement(correlation, rs * np.exp(t), s)
        h = 1e-3
        taylor = {
            "x": [enhancement(exchange, rs, s)],
            "c": [along(0.0), (along(h) - along(-h)) / (2 * h), (along(h) + along(-h) - 2 * along(0.0)) / (2 * h * h)],
            "c far": [enhancement(correlation, 100.0, s)],
        }
        for name, found in zip(names, values, strict=True):
            condition = CONDITIONS[name]
            expected = condition.constant + sum(c * taylor[part][k] for part, k, c in condition.terms)
            assert abs(found - expected) < 2e-6, (name, rs, s)


def test_atoms_are_known():
    """Hydrogen in closed form; exact exchange of helium and neon from the literature of Hartree-Fock."""
    h = atom("H")
    n = np.exp(-2 * h.r) / np.pi
    lapl = 4 * n * (1 - 1 / h.r)
    assert np.allclose(h.x[[0, 2, 5, 7]], [n, 4 * n * n, lapl, n / 2], rtol=1e-12, atol=0)
    assert np.allclose(h.change[[0, 7]], [-2 * n, -n], rtol=1e-12, atol=0)
    l_1 = -8 * n * (1 - 1 / h.r) + 4 * n / h.r**2
    assert np.allclose(h.change[5], l_1, rtol=1e-11, atol=0)
    of_lapl = 16 * n * (1 - 1 / h.r) - 16 * n / h.r**2 - 8 * n / h.r**3 + 2 * l_1 / h.r
    middle = h.r > 1e-3
    assert np.allclose(h.laplacian[5][middle], of_lapl[middle], rtol=1e-8, atol=1e-8)
    assert np.allclose(h.hartree_potential, -np.expm1(-2 * h.r) / h.r - np.exp(-2 * h.r), rtol=1e-9)
    # exchange of Hartree-Fock: A. D. Becke, Phys. Rev. A 38, 3098 (1988), to the digits given there
    for symbol, exchange in (("H", -0.3125), ("He", -1.026), ("Be", -2.667), ("Ne", -12.11), ("Ar", -30.19)):
        assert abs(atom(symbol).exact_exchange - exchange) < 6e-3 if symbol == "Ar" else 6e-4


def test_the_page_is_whole():
    """One file below 5 MB that loads nothing; names of functionals are text, never code."""
    name = "x</script><b>"
    page = dftfd.workbench(replace(dftfd.get_functional("lda_x"), name=name), "gga_k_vw")
    assert len(page.html) < 5e6 and page.html.count("</script>") == 1 and "<b>" not in page.html
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page.html)
    assert loaded and all(link.startswith("https://doi.org/") for link in loaded)
    assert "fetch(" not in page.html and "import(" not in page.html


def test_what_has_no_page_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="no energy per volume"):
        dftfd.workbench("lb94")
    with pytest.raises(UnsupportedError, match="no energy per volume"):
        dftfd.workbench("hf")
    with pytest.raises(FunctionalError, match="twice"):
        dftfd.workbench("pbe", "pbe")
    path = tmp_path / "page.html"
    path.write_text("kept")
    with pytest.raises(FileError, match="exists"):
        dftfd.workbench("lda").write(path)
    assert path.read_text() == "kept"


def test_the_command_writes_the_page(tmp_path):
    path = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["workbench", "lda", "-o", str(path)])
    assert done.exit_code == 0, done.output
    assert path.read_text().startswith("<!DOCTYPE html>")
    again = CliRunner().invoke(app, ["workbench", "lda", "-o", str(path)])
    assert isinstance(again.exception, FileError)


OWN = """import dftfd
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled

@spin_scaled
def bare(n, *, mu=0.2):
    return slater_exchange(n) * (1 + mu * reduced_gradient_squared(n) / (1 + reduced_gradient_squared(n)))

named = dftfd.functional("gga_x_own_workbench")(bare)
"""


@needs_node
@pytest.mark.parametrize("what", ["bare", *(pytest.param(w, marks=pytest.mark.slow) for w in ("named", "bare, pbe"))])
def test_copied_python_of_a_formula_in_a_file_runs_by_itself(what, tmp_path, monkeypatch, capsys):
    """With names of its own, in the file's folder, with the moved parameter."""
    own = OWN.replace("gga_x_own_workbench", "gga_x_own_workbench_" + what[:4])  # a name for each run
    (tmp_path / "own_for_workbench.py").write_text(own)
    page = dftfd.workbench(functional_in_file(f"{tmp_path}/own_for_workbench.py:{what}"))
    moved = "state.values[0][BENCH.functionals[0].parameters.findIndex(p => p.name === 'mu')] = 0.33;"
    code = moved + "print([`${BENCH.imports}\\n\\nprint(${python()})`]);"
    (copied,) = run_javascript(script_of(page) + code, tmp_path)
    (tmp_path / "copied.py").write_text(copied + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_for_workbench", raising=False)
    runpy.run_path("copied.py")
    assert "mu=0.33" in capsys.readouterr().out, copied


def test_functionals_have_the_page_as_a_method():
    assert dftfd.get_functional("lda_x").workbench().functionals[0].name == "lda_x"


@pytest.mark.slow
def test_the_page_follows_its_sliders(browser, tmp_path):
    """In a browser: nothing on the console, no wider than a phone, axe finds nothing; a moved parameter stands in the
    code to copy and in the address, and the address brings it back."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: pip install 'dftfd[browser]'")
    path, told = tmp_path / "page.html", []
    dftfd.workbench("pbe", "lda").write(path)
    opened = browser.new_page(viewport={"width": 390, "height": 800})
    opened.on("console", lambda message: message.type in ("error", "warning") and told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.goto(path.as_uri())
    opened.get_by_label("kappa, value").fill("1.245")
    opened.get_by_label("kappa, value").press("Enter")
    opened.wait_for_function("document.getElementById('python').textContent.includes('kappa=1.245')")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    again = browser.new_page()
    again.goto(opened.url)
    assert again.get_by_label("kappa, value").input_value() == "1.245"
    found = axe.Axe().run(opened)
    assert not told and found.violations_count == 0, (told, found.generate_report())
