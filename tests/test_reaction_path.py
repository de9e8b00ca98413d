"""Transition states and reaction paths: saddle points by exact Hessians, downhill on both sides, files, refusals."""

import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.errors import InputError
from dftfd.tasks.optimization import optimize
from dftfd.tasks.reaction_path import reaction_path

CLOSE_TO_SADDLE = "C 0 0 0; N 0 0 1.19; H 0 1.1 0.4"
GIVEN = {"xc": "hf", "conv_tol": 1e-10}


@pytest.fixture(scope="module")
def saddle():
    """Between HCN and HNC."""
    return optimize(dftfd.molecule(CLOSE_TO_SADDLE, basis="sto-3g"), **GIVEN, transition_state=True)


def distances(x):
    return np.linalg.norm(x[:, None] - x[None], axis=2) * 0.529177210903


def test_a_saddle_point_has_no_force_and_one_imaginary_mode(saddle):
    vibrations = saddle.result.vibrations()
    assert saddle.converged and np.abs(saddle.result.forces()).max() < 5e-4
    assert vibrations.n_imaginary == 1 and "transition state converged" in str(saddle)


def test_a_minimum_can_begin_with_second_derivatives():
    """Exact ones, or those of something cheaper: the same minimum as from a guess."""
    water = dftfd.molecule("O 0 0 0.2; H 0 0.76 -0.49; H 0 -0.7 -0.49", basis="sto-3g")
    cheaper = dftfd.run_scf(water, "hf", density_fit=True).hessian()
    found = [optimize(water, **GIVEN, hessian=h) for h in (None, "exact", cheaper)]
    for one in found[1:]:
        assert one.converged and not one.transition_state
        assert one.energies[-1] == pytest.approx(found[0].energies[-1], abs=1e-7)
    for wrong, words in ((np.zeros((2, 3, 2, 3)), r"\(3, 3, 3, 3\) expected"), ("guess", "'exact'")):
        with pytest.raises(InputError, match=words):
            optimize(water, **GIVEN, hessian=wrong)


@pytest.mark.slow
def test_the_path_goes_down_to_both_isomers(saddle, tmp_path):
    """Its ends are the minima that optimisations find, HCN and HNC; energies fall monotonically from the top."""
    path = reaction_path(saddle.result, optimizer={"trust": 0.2})
    assert path.converged and path.lengths[path.top] == 0.0 and (np.diff(path.lengths) > 0).all()
    assert (np.diff(path.energies[: path.top + 1]) > -1e-7).all() and (np.diff(path.energies[path.top :]) < 1e-7).all()
    ends = {}
    for text in ("H 0 0 -1.07; C 0 0 0; N 0 0 1.15", "H 0 0 2.17; N 0 0 1.16; C 0 0 0"):
        minimum = optimize(dftfd.molecule(text, basis="sto-3g"), **GIVEN)
        ends[round(minimum.energies[-1], 3)] = minimum.energies[-1]
    for k, barrier in zip((0, -1), path.barriers, strict=True):
        assert path.energies[k] == pytest.approx(ends[round(path.energies[k], 3)], abs=2e-5)
        assert barrier == pytest.approx(path.energies[path.top] - path.energies[k])
        assert sorted(distances(path.coordinates[k])[2])[1] < 1.1  # hydrogen is bound to one of both
    for ending in (".xyz", ".csv"):
        path.write(tmp_path / f"path{ending}")
    table = np.genfromtxt(tmp_path / "path.csv", delimiter=",", names=True)
    np.testing.assert_array_equal(table["energy_hartree"], path.energies)
    assert (tmp_path / "path.xyz").read_text().count("energy_hartree") == len(path.energies)
    with pytest.raises(InputError, match="must end in"):
        path.write(tmp_path / "path.txt")


def test_what_is_no_saddle_is_refused(saddle):
    minimum = dftfd.run_scf(dftfd.molecule("H 0 0 0; F 0 0 0.95", basis="sto-3g"), "hf")
    with pytest.raises(InputError, match="0 modes are imaginary"):
        reaction_path(minimum)
    vibrations = saddle.result.vibrations()
    with pytest.raises(InputError, match="another geometry"):
        reaction_path(minimum, vibrations)
    with pytest.raises(InputError, match="for given isotopes"):
        reaction_path(saddle.result, vibrations.with_isotopes({0: 13}))
    beside = dftfd.run_scf(dftfd.molecule("H 0 0 0; ghost-H 0 0 0.95", basis="sto-3g", spin=1), "hf")
    with pytest.raises(InputError, match="ghost atoms have none"):
        reaction_path(beside)


@pytest.mark.slow  # 2.5 s; the same saddle point by functions: above
def test_the_commands(capsys, tmp_path):
    words = [CLOSE_TO_SADDLE, "--basis", "sto-3g", "--xc", "hf"]
    trajectory = ["--trajectory", str(tmp_path / "saddle.xyz")]
    assert main(["optimize", *words, *trajectory, "--transition-state"]) == 0
    assert "transition state converged" in capsys.readouterr().out
    assert main(["reaction-path", *words, "--output", str(tmp_path / "p.txt")]) == 2
    assert main(["reaction-path", *words, "--optimize", "--max-steps", "1"]) == 3
    said = capsys.readouterr()
    assert "reaction path" in said.out and "NOT CONVERGED" in said.out
