"""The examples run, and the numbers they print are what their texts promise."""

import re
import runpy
from pathlib import Path

import jax
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def load(name):
    """The example's module, not run as a script."""
    return runpy.run_path(str(EXAMPLES / name), run_name="example")


def test_every_example_is_tested_here():
    """A new examples/*.py needs a test below."""
    tested = {"01_water.py", "02_potential_along_a_bond.py", "03_own_functional.py", "04_operator_graph.py"}
    tested |= {"05_weighted_density.py", "06_learned_functional.py", "07_refit_of_pbe.py", "08_refit_of_b97.py"}
    tested |= {"12_network_from_derivatives.py", "13_functional_from_potentials.py", "14_plan_for_a_cluster.py"}
    tested |= {"09_grid_functional.py", "10_nudged_elastic_band.py", "11_molecular_dynamics.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_water(capsys):
    """01 prints table, summary, components and dipole of water, as the README shows them; the energy is PySCF's.

    -76.272094 hartree: PySCF 2.14 with density fitting, PBE, def2-SVP, grid level 3; data/reference holds such values.
    """
    load("01_water.py")
    printed = capsys.readouterr().out
    assert "-76.2720937" in printed and "debye" in printed
    assert "cycle= 1 E=" in printed and "energy        -76.27209375 hartree" in printed
    shown = re.search(r"total energy +(-\d+\.\d+)", (ROOT / "README.md").read_text())[1]
    assert shown in printed


@pytest.mark.slow  # 1 s; potentials against libxc: test_check_of_a_local_functional_passes
def test_potential_along_a_bond(tmp_path, monkeypatch, capsys):
    """02: v_xc and libxc's agree to rounding at every point of the picture.

    It is written beside the user, not over the picture that the documentation has of it (finding A15).
    """
    monkeypatch.chdir(tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in ROOT.glob("**/potential*.png")}
    assert load("02_potential_along_a_bond.py")["main"]() < 1e-12
    (picture,) = tmp_path.iterdir()
    assert picture.stat().st_size > 10_000 and picture.name in capsys.readouterr().out
    assert kept and kept == {path: path.stat().st_mtime_ns for path in ROOT.glob("**/potential*.png")}


@pytest.mark.slow  # 3 s; own formulas are quick in test_designers_loop and test_fit
def test_own_functional(capsys):
    """03: a GGA of three lines converges; v_x(r) at 100 points equals the potential by hand to 1e-10, relative near
    the nuclei, and its matrix equals central differences of the energy in random directions to 1e-7."""
    energy, strong, weak = load("03_own_functional.py")["main"]()
    assert -77 < energy < -76
    assert strong < 1e-10 and weak < 1e-7
    assert "cycles" in capsys.readouterr().out


def test_operator_graph(capsys):
    """04: the derived potential of the von Weizsaecker energy equals the one by hand; hydrogen's energy is 1/2."""
    difference, energy = load("04_operator_graph.py")["main"]()
    assert difference < 1e-14
    assert energy == pytest.approx(0.5, abs=1e-8)
    printed = capsys.readouterr().out
    assert "pullback of (divide)" in printed and "└─ #" in printed


@pytest.mark.slow  # 5 s; double integrals in an SCF and their derivatives: test_nonlocal, test_terms
def test_weighted_density(capsys):
    """05: a functional nonlinear in a double integral converges and has the derivative of its energy; the uniform gas
    and coordinate scaling hold to the quadrature's error and to rounding."""
    result, uniform, scaling, matrix = load("05_weighted_density.py")["main"]()
    assert result.converged and -12 < result.energies["nonlocal"] < -11  # between Hartree-Fock and LDA
    assert uniform < 1e-9 and scaling < 1e-13 and matrix < 1e-8
    assert "averaged density" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.one_in(3, of="examples that train")
def test_learned_functional(capsys):
    """06: the loss falls a hundredfold; self-consistent energies of the molecules trained on, and of two that were not,
    err less than PBE's, and the uniform gas's F = 1 and the Lieb-Oxford bound hold by construction."""
    pytest.importorskip("equinox", reason="pip install 'dftfd[learned]'")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # as scripts have it
        history, F, table = load("06_learned_functional.py")["main"]()
    assert history[-1] < 0.01 * history[0]
    assert F[0] == 1 and F == sorted(F) and F[-1] < 1.804
    for name in ("He", "LiH", "Ne", "H2", "Be"):
        (learned, _), (pbe, _) = table[name]
        assert abs(learned) < abs(pbe)
    assert "not trained on" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.one_in(3, of="examples that train")
def test_refit_of_b97():
    """08, on three molecules in a small basis: errors fall, exact conditions are kept."""
    found, mean, (outside, uniform) = load("08_refit_of_b97.py")["main"](quick=True)
    assert np.abs(found.errors).mean() < 0.3 * np.abs(found.errors_before).mean()
    assert outside < 1e-2
    assert uniform < 1e-3
    assert set(mean) == {"pbe", "fit"}


@pytest.mark.slow
@pytest.mark.one_in(3, of="examples that train")
def test_network_from_derivatives():
    """12, on two atoms and molecules: both losses bring the training and the validation molecules closer than PBE."""
    _, rows = load("12_network_from_derivatives.py")["main"](quick=True)
    assert [row["loss"] for row in rows] == ["energies", "energies and slopes"]
    for row in rows:
        assert row["training"] < 1.0 and row["validation"] < 2.0  # PBE: 6 and 10 kcal/mol


@pytest.mark.slow
@pytest.mark.one_in(3, of="examples that train")
def test_functional_from_potentials():
    """13, helium and H2 in a small basis: slopes fall where potentials are learned, energies where they are, too."""
    reached, means = load("13_functional_from_potentials.py")["main"](quick=True)
    before, potentials, both = reached.values()
    assert potentials["slopes"] < before["slopes"]
    assert both["energies"] < before["energies"]
    assert set(means) == set(reached)


@pytest.mark.slow
@pytest.mark.one_in(3, of="examples that train")
def test_refit_of_pbe():
    """07, on two molecules: a larger kappa, as revPBE has it, helps the one that is held out; a bound is kept."""
    free, bound = load("07_refit_of_pbe.py")["main"](quick=True)
    assert free.parameters[0] > 0.804 == bound.parameters[0]
    held_out = [step.validation for step in free.steps if step.accepted]
    assert min(held_out) < 0.6 * held_out[0]
    assert np.abs(free.errors).mean() < np.abs(free.errors_before).mean()


@pytest.mark.slow
def test_grid_functional():
    """08: the force of a functional of integrals by a grid functional's own code is the slope of its energy."""
    force, slope = load("09_grid_functional.py")["main"]()
    assert force == pytest.approx(slope, abs=2e-6)


@pytest.mark.slow
def test_nudged_elastic_band(capsys):
    """10: the climbing image ends where symmetry has the saddle point (5 meV, of a barrier of some 0.2 eV)."""
    pytest.importorskip("ase")
    barrier, by_symmetry = load("10_nudged_elastic_band.py")["main"]()
    assert barrier == pytest.approx(by_symmetry, abs=5e-3) and 0.1 < barrier < 0.5
    assert "barrier" in capsys.readouterr().out


@pytest.mark.slow
def test_molecular_dynamics(capsys):
    """11: the total energy's motion is that of the time step, a quarter of it at half the step (between 3 and 5)."""
    pytest.importorskip("ase")
    long, short = load("11_molecular_dynamics.py")["main"]()
    assert 3.0 < long / short < 5.0 and short < 0.01
    assert "20.0 fs" in capsys.readouterr().out


def test_plan_for_a_cluster(capsys):
    """14: with one worker the time is the work; with one for each calculation it is that of the longest."""
    script = load("14_plan_for_a_cluster.py")
    assert script["time_on"](2, [1.0, 2.0, 3.0]) == 4.0 and script["time_on"](3, [1.0, 2.0, 3.0]) == 3.0
    few = ["g21ip", "--basis", "sto-3g", "--xc", "pbe,b3lyp"]
    work, alone = script["main"]([*few, "--nodes", "1", "--cores", "1"])
    same, together = script["main"]([*few, "--nodes", "100"])
    _, in_threads = script["main"]([*few, "--nodes", "100", "--threads", "8"])
    assert alone == pytest.approx(work) and work == same and together < work / 10
    assert in_threads == pytest.approx(together / 8)
    assert "100 nodes of 32 cores, 400 workers of 8 threads" in capsys.readouterr().out
