"""Geometry optimisation: the minimum, what is on disk while it runs, and how it goes on after an interruption."""

import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

import dftfd
from dftfd.errors import CheckpointError, FileError, InputError, NotConvergedError
from dftfd.runtime.progress import Progress
from dftfd.tasks.optimization import Frame, TrajectoryWriter, read_trajectory
from tests.compilations import compilations

BENT = "O 0 0.02 0.1173; H 0.1 0.7572 -0.4692; H 0 -0.7572 -0.4692"
OPTIONS = {"xc": "lda,vwn", "grid_level": 1}


def water():
    return dftfd.molecule(BENT, basis="6-31g")


class Stop(Exception):
    """An interruption from outside."""


class StopAfter(Progress):
    """Interrupts an optimisation when it has told a number of steps."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def note(self, text):
        self.steps -= text.startswith("step")
        if not self.steps:
            raise Stop


@pytest.fixture(scope="module")
def uninterrupted():
    return dftfd.optimize(water(), **OPTIONS)


def test_a_minimum_is_found(uninterrupted):
    """Forces vanish to geomeTRIC's threshold, the energy fell, and the path ends where the result is."""
    assert uninterrupted.converged and uninterrupted.n_computed == len(uninterrupted.energies)
    assert np.linalg.norm(uninterrupted.forces[-1], axis=1).max() < 4.5e-4 < np.abs(uninterrupted.forces[0]).max()
    assert uninterrupted.energies[-1] < uninterrupted.energies[0]
    np.testing.assert_array_equal(uninterrupted.coordinates[-1], uninterrupted.molecule.coordinates)
    assert "geometry converged" in str(uninterrupted)


def test_steps_start_from_the_last_density(uninterrupted):
    """The last step, a small one, takes fewer cycles than a start from superposed atoms."""
    cold = dftfd.run_scf(uninterrupted.molecule, **OPTIONS)
    assert uninterrupted.result.cycles < cold.cycles
    assert uninterrupted.result.energy == pytest.approx(cold.energy, abs=1e-9)


def test_a_moved_density_keeps_its_electrons():
    """tr(P S) is the electron number in the new overlap, so one exact electron pair has no first-cycle purification."""
    old = dftfd.run_scf(dftfd.molecule("He 0 0 0; He 0 0 3", basis="6-31g"), xc="hf")
    new = old.molecule.at([[0, 0, 0], [0.2, 0, 4.0]])
    from dftfd.libcint.mole import overlap_integrals
    from dftfd.tasks.run import starting_density

    calculation = replace(old.calculation, molecule=new)
    P, _ = starting_density(old, calculation.build(Progress()))
    S = overlap_integrals(new)
    assert np.trace(P[0] @ S) == pytest.approx(4.0, abs=1e-12)
    np.testing.assert_allclose(P[0] @ S @ P[0], 2 * P[0], atol=1e-12)


@pytest.mark.slow  # 0.9 s; nor do energies at another geometry: test_pyscf_numint
def test_steps_compile_nothing_anew():
    """After the first energy and gradient of a functional, no other geometry makes JAX compile."""
    dftfd.optimize(water(), max_steps=1, **OPTIONS)
    with compilations() as compiled:
        jax.jit(lambda x: x * 3.0 + 1.0)(1.0)
    assert compiled, "compilations are counted"
    with compilations() as compiled:
        assert len(dftfd.optimize(water(), max_steps=2, **OPTIONS).energies) > 1
    assert not compiled


def test_an_interrupted_optimisation_goes_on(uninterrupted, tmp_path):
    """Steps are on disk when they are told; a frame cut off by the interruption is dropped; the path is the same."""
    path = tmp_path / "path.xyz"
    with pytest.raises(Stop):
        dftfd.optimize(water(), trajectory=path, progress=StopAfter(2), **OPTIONS)
    assert len(read_trajectory(path)) == 2
    with path.open("a") as file:
        file.write("3\nProperties=species:S:1:pos:R:3:forces:R:3 energy=-75.")
    resumed = dftfd.optimize(water(), trajectory=path, restart=True, **OPTIONS)
    assert resumed.converged and resumed.n_computed == len(uninterrupted.energies) - 2
    np.testing.assert_allclose(resumed.coordinates, uninterrupted.coordinates, atol=1e-5)
    frames = read_trajectory(path)
    np.testing.assert_array_equal([frame.energy for frame in frames], resumed.energies)
    np.testing.assert_array_equal(frames[-1].forces, resumed.forces[-1])


@pytest.mark.slow  # 0.9 s; a path that goes on: the test above
def test_a_finished_path_is_not_computed_again(uninterrupted, tmp_path):
    """A restart of what had converged computes the last point alone, for its result."""
    path = tmp_path / "path.xyz"
    first = dftfd.optimize(water(), trajectory=path, **OPTIONS)
    again = dftfd.optimize(water(), trajectory=path, restart=True, **OPTIONS)
    assert again.converged and again.n_computed == 0
    np.testing.assert_array_equal(again.energies, first.energies)


@pytest.mark.slow
def test_a_killed_optimisation_goes_on(uninterrupted, tmp_path):
    """SIGKILL after the second step, then `dftfd optimize --restart`: the same minimum."""
    path = tmp_path / "path.xyz"
    words = f"optimize {BENT!r} --xc lda,vwn --basis 6-31g --grid-level 1 --trajectory".replace("'", "").split(" ", 1)
    command = [sys.executable, "-m", "dftfd", words[0], BENT, *words[1].replace(BENT, "").split(), str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while not path.exists() or path.read_text().count("energy=") < 2:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert 2 <= len(read_trajectory(path)) < len(uninterrupted.energies)
    subprocess.run([*command, "--restart"], check=True, stdout=subprocess.DEVNULL)
    end = read_trajectory(path)[-1]
    assert end.energy == pytest.approx(uninterrupted.energies[-1], abs=1e-8)


def test_constraints_are_kept(tmp_path):
    """A frozen distance stays; the same from a file; the others relax."""
    text = "$freeze\ndistance 1 2"
    file = tmp_path / "constraints.txt"
    file.write_text(text)
    start = water()
    found = dftfd.optimize(start, constraints=file, **OPTIONS)
    length = [np.linalg.norm(np.subtract(*m.coordinates[:2])) for m in (start, found.molecule)]
    assert found.converged and length[1] == pytest.approx(length[0], abs=1e-5)
    assert abs(np.linalg.norm(found.molecule.coordinates[0] - found.molecule.coordinates[2]) - 1.8) < 0.1
    assert np.abs(found.forces[-1]).max() > 1e-3


def test_what_cannot_be_carried_out_is_said(tmp_path, uninterrupted):
    """Typed errors before anything is computed, and the file of another calculation stays as it is."""
    molecule, path = water(), tmp_path / "path.xyz"
    grid = (np.zeros((1, 3)), np.ones(1))
    for options, message in [
        ({"coordinate_system": "trick"}, "closest: tric"),
        ({"optimizer": {"trsut": 0.1}}, "closest: trust"),
        ({"optimizer": {"trust": "a"}}, "optimizer option trust=.a.: give a value like geomeTRIC.s 0.1"),
        ({"constraints": "$freeze\nlength 1 2"}, "its format is"),
        ({"constraints": "$scan\ndistance 1 2 1.0 2.0 5"}, "several targets"),
        ({"constraints": "$freeze distance 1 2"}, "alone expected"),
        ({"constraints": "$freez\ndistance 1 2"}, "alone expected"),
        ({"constraints": "$freeze\n# distance 1 2"}, "constraints hold none"),
        ({"constraints": "$set\nangle 2 1 3 400"}, "at its end"),
        ({"constraints": "$set\ndistance 1 2 nan"}, "at its end"),
        ({"optimizer": {"convergence_set": "TIGHT"}}, "geomeTRIC does not take"),
        ({"optimizer": {"transition": True}}, "is transition_state=True here"),
        ({"optimizer": {"trust": float("inf")}}, "finite"),
        ({"restart": True}, "needs the trajectory"),
        ({"grid": grid}, "does not move"),
        ({"grid_levle": 1}, "grid_level"),
    ]:
        with pytest.raises((InputError, dftfd.errors.UnsupportedError), match=message):
            dftfd.optimize(molecule, **{**OPTIONS, **options})
    with pytest.raises(InputError, match="single atom"):
        dftfd.optimize(dftfd.molecule("He 0 0 0;", basis="6-31g"), **OPTIONS)
    with pytest.raises(InputError, match="no option"):
        dftfd.optimize(molecule, trajectory=path, grid_levle=1)
    assert not path.exists()
    dftfd.optimize(molecule, trajectory=path, max_steps=1, **OPTIONS)
    before = path.read_text()
    with pytest.raises(FileError, match="restart=True"):
        dftfd.optimize(molecule, trajectory=path, **OPTIONS)
    with pytest.raises(
        CheckpointError, match="of another calculation: grid level 1 instead of 2. Continue with the same calculation"
    ):
        dftfd.optimize(molecule, trajectory=path, restart=True, xc="lda,vwn", grid_level=2)
    assert path.read_text() == before
    (tmp_path / "other.xyz").write_text("2\nhydrogen\nH 0 0 0\nH 0 0 1\n")
    with pytest.raises(FileError, match="not a trajectory"):
        dftfd.optimize(molecule, trajectory=tmp_path / "other.xyz", restart=True, **OPTIONS)
    with pytest.raises(NotConvergedError):
        dftfd.optimize(molecule, max_cycles=1, convergence="diis", **OPTIONS)


@pytest.mark.slow  # 1 s; the command, interrupted and going on: test_records
def test_the_command_optimises(tmp_path, monkeypatch, capsys):
    """`dftfd optimize` prints a line for each step and the minimum; exit code 3 where it has not been reached."""
    from dftfd.cli import main

    monkeypatch.chdir(tmp_path)
    arguments = ["optimize", BENT, "--xc", "lda,vwn", "--basis", "6-31g", "--grid-level", "1"]
    assert main([*arguments, "--max-steps", "1"]) == 3
    captured = capsys.readouterr()
    assert "not converged after 1 steps" in captured.err and "step   0  E = -75.8" in captured.out
    assert main([*arguments, "--restart"]) == 0
    assert "geometry converged" in capsys.readouterr().out
    assert len(read_trajectory("optimization.xyz")) > 2


def test_the_command_compares_a_gradient_with_differences(capsys):
    """`dftfd gradient --numerical`: both columns, equal to the accuracy of a tightly converged density."""
    from dftfd.cli import main

    hydrogen = "H 0 0 0; H 0 0.1 0.8"
    assert main(["gradient", hydrogen, "--xc", "lda,vwn", "--basis", "6-31g", "--grid-level", "0", "--numerical"]) == 0
    out = capsys.readouterr().out
    assert "quadrature grid: response included" in out
    assert float(out.split("largest deviation")[1].split()[0]) < 1e-8
    assert (
        main(["gradient", hydrogen, "--xc", "lda,vwn", "--basis", "sto-3g", "--grid-level", "1", "--no-grid-response"])
        == 0
    )
    assert "response LEFT OUT" in capsys.readouterr().out


FRAME = Frame(("H", "H"), np.array([[0, 0, 0], [0, 0, 0.9]]), -1.125, np.array([[0, 0, 0.05], [0, 0, -0.05]]), "pbe")


def test_ase_reads_a_trajectory_in_its_units(tmp_path):
    """Energy in eV and forces in eV/angstrom, by ASE's own constants; the hartree values are beside them."""
    io, units = pytest.importorskip("ase.io"), pytest.importorskip("ase.units")
    TrajectoryWriter(tmp_path / "path.xyz").append(FRAME)
    atoms = io.read(tmp_path / "path.xyz")
    assert atoms.get_potential_energy() == pytest.approx(-1.125 * units.Hartree, rel=1e-7)
    np.testing.assert_allclose(atoms.get_forces(), FRAME.forces * units.Hartree / units.Bohr, rtol=1e-7)
    assert atoms.info["energy_hartree"] == FRAME.energy
    np.testing.assert_array_equal(atoms.arrays["forces_hartree_bohr"], FRAME.forces)


def test_trajectories_of_earlier_versions_are_read(tmp_path):
    """Energies and forces in hartree and hartree/bohr, as their comment line says."""
    head = 'Properties=species:S:1:pos:R:3:forces:R:3 energy=-1.125 model="pbe" units="angstrom, hartree, hartree/bohr"'
    (tmp_path / "path.xyz").write_text(f"2\n{head}\nH 0 0 0 0 0 0.05\nH 0 0 0.9 0 0 -0.05\n")
    (frame,) = read_trajectory(tmp_path / "path.xyz")
    assert (frame.symbols, frame.energy, frame.model) == (FRAME.symbols, FRAME.energy, FRAME.model)
    np.testing.assert_array_equal(frame.positions, FRAME.positions)
    np.testing.assert_array_equal(frame.forces, FRAME.forces)


@pytest.mark.parametrize("text", ['{"a": 1}', "[1]", "hello", "2\nhello", "12 "])
def test_a_file_without_a_line_break_is_no_empty_path(text, tmp_path):
    """It would be replaced by one; what a frame begins with is one that was cut off."""
    path = tmp_path / "set.json"
    path.write_text(text)
    with pytest.raises(FileError, match="this is not a trajectory"):
        dftfd.optimize(dftfd.molecule("H 0 0 0; H 0 0 0.74", basis="sto-3g"), "hf", trajectory=path, restart=True)
    assert path.read_text() == text
    for begun in ("", "2", "2\nProp", "2\nProperties=species:S:1\nH 0 0"):
        path.write_text(begun)
        assert read_trajectory(path) == []
