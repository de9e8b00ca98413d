"""The working day of three users as thirty tasks: a chemist, a designer of functionals, somebody who checks a code.

Each is what one of them did with README and docs alone, on the command line or in a script; what stopped them then
must work now. `make test-all` runs them.
"""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from tests.compilations import compilations

pytestmark = pytest.mark.slow

WATER = "3\nwater\nO 0 0 0.1173\nH 0 0.7572 -0.4692\nH 0 -0.7572 -0.4692\n"
CHEAP = ("--basis", "sto-3g", "--grid-level", "1")
OWN = """
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled


@spin_scaled
def own_x(n, *, mu=0.2):
    return slater_exchange(n) * (1 + mu * reduced_gradient_squared(n)) ** 0.25
"""


@pytest.fixture
def day(tmp_path, monkeypatch, capsys):
    """A folder with water and a dimer, and the command: words -> what it printed, exit code 0 expected."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "water.xyz").write_text(WATER)
    (tmp_path / "dimer.xyz").write_text("2\n\nHe 0 0 0\nHe 0 0 3.0\n")
    (tmp_path / "own.py").write_text(OWN)

    def command(*words, code=0):
        got = main([str(word) for word in words])
        said = capsys.readouterr()
        assert got == code, said.err
        return said.out + said.err

    return command


# ---- the chemist


def test_chemist_energy_of_a_file_with_outputs(day, tmp_path):
    said = day(
        "run", "water.xyz", "--xc", "pbe", *CHEAP, "--output", "w.h5", "--output", "w.molden", "--json", "w.json"
    )
    assert "total energy" in said and (tmp_path / "w.molden").stat().st_size > 1000
    assert dftfd.load_result("w.h5").energy == json.loads((tmp_path / "w.json").read_text())["return_result"]


def test_chemist_cation_by_name(day):
    assert "charge +1" in day("run", "water.xyz:+1,2", "--xc", "pbe", *CHEAP)
    assert "charge +1" in day("run", "water.xyz", "--charge", 1, "--multiplicity", 2, "--xc", "pbe", *CHEAP)


def test_chemist_zmatrix_and_molfile(day, tmp_path):
    energy = float(day("run", "O; H 1 0.96; H 1 0.96 2 104.5", "--xc", "hf", *CHEAP, "--quiet"))
    assert -75.5 < energy < -74.5


def test_chemist_optimises_and_goes_on_from_the_last_frame(day, tmp_path):
    pytest.importorskip("geometric")
    day("optimize", "water.xyz", "--xc", "hf", *CHEAP, "--output", "end.xyz", "--output", "end.h5")
    last, kept = (
        float(day("run", f, "--xc", "hf", *CHEAP, "--quiet")) for f in ("water.optimization.xyz@-1", "end.xyz")
    )
    assert last == pytest.approx(kept, abs=1e-7)
    assert dftfd.load_result("end.h5").energy == pytest.approx(kept, abs=1e-7)


def test_chemist_batch_with_a_record_goes_on(day, tmp_path):
    words = ("run", "water.xyz", "dimer.xyz", "--xc", "hf", *CHEAP, "--record", "r.jsonl")
    assert "2 of 2 molecules converged" in day(*words)
    lines = (tmp_path / "r.jsonl").read_text()
    day(*words)
    assert (tmp_path / "r.jsonl").read_text() == lines


def test_chemist_gradients_and_optimisations_of_many(day):
    pytest.importorskip("geometric")
    assert "max force" in day("gradient", "water.xyz", "dimer.xyz", "--xc", "hf", *CHEAP)
    assert "steps" in day("optimize", "water.xyz", "--xc", "hf", *CHEAP, "--geometries", "ends.xyz")


def test_chemist_scans_a_bond(day, tmp_path):
    words = ("scan", "dimer.xyz", "--bond", 0, 1, "--from", 2.0, "--to", 4.0, "--steps", 3, "--xc", "hf", *CHEAP)
    assert "distance of He1 He2 (0 1)" in day(*words, "--record", "s.json", "--output", "s.png")
    day(*words, "--record", "s.json", "--restart")
    assert np.all(np.diff(dftfd.load_scan("s.json").energies) < 0)


def test_chemist_interaction_energy(day):
    assert "kcal/mol" in day("interaction", "dimer.xyz", "--xc", "hf", *CHEAP)


def test_chemist_table_of_charges_and_mistakes_in_one_line(day, tmp_path):
    (tmp_path / "set.csv").write_text("file,charge,multiplicity\nwater.xyz,0,1\nwater.xyz,1,2\nlost.xyz,0,1\n")
    said = day("run", "set.csv", "--xc", "hf", *CHEAP, code=5)
    assert "2 of 3 molecules converged" in said and "lost.xyz" in said
    said = day("run", "water.xyz", "--xc", "pbr", code=2)
    assert "the closest known names are pbe" in said.splitlines()[-1]


def test_chemist_orbitals_charges_bonds():
    result = dftfd.run_scf(dftfd.molecule("O; H 1 0.96; H 1 0.96 2 104.5", basis="sto-3g"), "pbe", grid_level=1)
    assert result.bond_orders()[0, 1] == pytest.approx(1, abs=0.1) and result.charges()[0] < 0
    r = np.array([0.1, 0.2, 0.3])
    assert np.isfinite(float(result.orbital(0)(r))) and len(result._repr_html_()) > 100


# ---- the designer


def test_designer_formula_in_a_file_runs(day):
    assert "total energy" in day("run", "water.xyz", "--xc", "own.py:own_x", *CHEAP)
    assert "total energy" in day("run", "water.xyz", "--xc", "own.py:0.25*hf + 0.75*own_x, pbe", *CHEAP)
    assert "write the file first" in day("run", "water.xyz", "--xc", "0.25*hf + 0.75*own.py:own_x", *CHEAP, code=2)


def test_designer_shows_and_checks_it(day):
    assert "own_x" in day("show", "own.py:own_x", "--plot", "own.png", "--compare", "pbe", "--surface", "--potential")
    assert "differ" in day("passport", "own.py:own_x", "--compare", "gga_x_pbe", code=1)
    assert "passed" in day("audit", "own.py:own_x").lower()


def test_designer_runs_the_cell_again(recwarn):
    formula = lambda factor: lambda n: factor * n ** (4 / 3)
    dftfd.functional("journey_x")(formula(-0.7))
    dftfd.functional("journey_x")(formula(-0.7))
    assert not recwarn.list
    dftfd.functional("journey_x")(formula(-0.8))
    assert ["'journey_x' is redefined" in str(w.message) for w in recwarn.list] == [True]


def test_designer_scans_a_parameter_without_waiting():
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    run = lambda mu: dftfd.run_scf(helium, dftfd.get_functional("pbe", mu=mu), grid_level=1).energy
    run(0.2)
    with compilations() as compiled:
        energies = [run(mu) for mu in (0.21, 0.22, 0.23)]
    assert not compiled and np.all(np.diff(energies) < 0)


def test_designer_asks_what_a_parameter_does():
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    run = lambda mu: dftfd.run_scf(helium, dftfd.get_functional("pbe", mu=mu), conv_tol=1e-11)
    slope = run(0.22).parameter_gradient()["gga_x_pbe"]["mu"]
    assert slope == pytest.approx((run(0.221).energy - run(0.219).energy) / 2e-3, rel=1e-5)


def test_designer_looks_at_the_potential():
    result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "r2scan", grid_level=1)
    assert float(np.ravel(result.v_xc(np.array([0.0, 0.0, 0.5])))[0]) < 0


def test_designer_mixes_a_hybrid_and_saves_it(tmp_path):
    mixed = dftfd.register(0.3 * dftfd.exact_exchange + 0.7 * dftfd.get_functional("gga_x_pbe"), "journey_hybrid")
    result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), mixed + dftfd.get_functional("gga_c_pbe"))
    result.save(tmp_path / "r.h5")
    assert dftfd.load_result(tmp_path / "r.h5").energy == result.energy


def test_designer_finds_functionals(day):
    assert "mgga_x_scan" in day("list", "scan", "--family", "mgga", "--kind", "x", "--long")
    assert "complete" in day("completion", "bash")


def test_designer_exports_to_c(day, tmp_path):
    day("export", "own.py:own_x", "-o", "c_code")
    assert list((tmp_path / "c_code").glob("*.c"))


def test_designer_batch_in_processes(day):
    said = day("run", "water.xyz", "dimer.xyz", "--xc", "own.py:own_x", *CHEAP, "--jobs", 2)
    assert "2 of 2" in said


# ---- the checker


def test_checker_compares_with_libxc(day):
    assert "passed" in day("check", "lda_x", "--quick")
    assert json.loads(day("check", "lda_x", "--quick", "--json"))["passed"] is True


def test_checker_own_values(day, tmp_path):
    n = np.array([0.1, 1.0])
    exc = -0.75 * (3 / np.pi) ** (1 / 3) * n ** (1 / 3)
    rows = "\n".join(f"{a!r} {e!r}" for a, e in zip(n.tolist(), exc.tolist(), strict=True))
    (tmp_path / "v.txt").write_text("rho exc\n" + rows)
    assert "passed" in day("check", "lda_x", "--values", "v.txt")
    (tmp_path / "v.txt").write_text("rho exc\n" + rows.replace("-", "-1"))
    assert "FAILED" in day("check", "lda_x", "--values", "v.txt", code=1)
    day("oracle", "lda_x", "-o", "exact.csv")
    assert "passed" in day("check", "lda_x", "--values", "exact.csv")


def test_checker_values_to_fourth_order():
    from dftfd.interop.libxc import evaluate

    found = evaluate("lda_x", rho=[0.5], order=4)
    assert found.v4rho4[0] / found.v3rho3[0] == pytest.approx(-5 / 3 / 0.5, rel=1e-12)


def test_checker_audits_somebodys_code(day, tmp_path):
    (tmp_path / "theirs.py").write_text(
        "import numpy as np\n\n\n"
        "def eval_xc(xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):\n"
        "    n = rho if rho.ndim == 1 else rho.sum(axis=0)\n"
        "    v = np.stack([-1.3 * n ** (1 / 3)] * (1 + spin), axis=-1)\n"
        "    return -(n ** (1 / 3)), (v,), None, None\n"
    )
    said = day("audit", "theirs.py:eval_xc", "--xctype", "LDA", code=1)
    assert "3 findings" in said and "vrho" in said


def test_checker_audits_libxc(day):
    assert "lda_x" in day("audit", "lda_x", "--libxc")


def test_checker_same_energy_in_pyscf():
    result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "pbe")
    assert result.to_pyscf().energy_tot(result.to_pyscf().make_rdm1()) == pytest.approx(result.energy, abs=1e-8)


def test_checker_drop_in_for_pyscf():
    from pyscf import dft, gto

    from dftfd.interop.pyscf import numint

    mf = dft.RKS(gto.M(atom="He 0 0 0", basis="6-31g", verbose=0), xc="pbe")
    plain = mf.kernel()
    mf._numint = numint("pbe")
    assert mf.kernel() == pytest.approx(plain, abs=1e-8)


def test_checker_proves_a_condition(day):
    pytest.importorskip("flint")
    assert "proved" in day("prove", "lda_c_vwn_rpa", "--condition", "ec_nonpositive").lower()


def test_checker_wrong_option_names_the_commands_help(day):
    for command in ("run", "check", "scan", "list"):
        assert f"dftfd {command} --help" in day(command, "x", "--no-such-option", code=2)


def test_checker_exit_codes_in_a_process(tmp_path):
    """Bad input 2, missing file 5, as a CI sees it; one line on standard error, nothing on standard output."""
    for words, code in ((["run", "x y", "--xc", "pbe"], 5), (["show", "no_such_functional"], 2)):
        run = subprocess.run([sys.executable, "-m", "dftfd", *words], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout) == (code, "") and run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (["show", "pbe"], 3),
        (["audit", "pbe"], 4),
        (["check", "pbe", "--quick"], 10),
        (["list", "pbe"], 0.6),
    ],
)
def test_nobody_waits(words, seconds):
    """Processor time of a new process, what it takes once compiled programs are kept; twice that on another machine."""
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "dftfd", *words], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2 * seconds
