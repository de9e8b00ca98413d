"""Checkpoints: what they hold, going on from them, and which are refused."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from pyscf.scf import chkfile

import dftfd
from dftfd.errors import CheckpointError, CheckpointWarning, InputError, InputWarning
from dftfd.results.checkpoint import Checkpoint, previous_generation
from dftfd.runtime import files
from dftfd.runtime.progress import Progress

WATER = "O 0 0 0; H 0 0 0.96; H 0 0.93 -0.24"
OPTIONS = {"xc": "lda,vwn", "grid_level": 0}


class Killed(Exception):
    """Stands for the end of a process."""


class KilledAt(Progress):
    """Ends the run when the cycle with this number is done, and its checkpoint not yet written."""

    def __init__(self, number):
        super().__init__()
        self._number = number

    def cycle(self, cycle):
        if cycle.number == self._number:
            raise Killed


def water(basis="sto-3g", **options):
    return dftfd.molecule(options.pop("text", WATER), basis=basis, **options)


def killed_run(path, cycle=4, molecule=None, **options):
    """A run that ends after `cycle` cycles, of which the one before is in its checkpoint."""
    with pytest.raises(Killed):
        dftfd.run_scf(molecule or water(), **OPTIONS | options, checkpoint=path, progress=KilledAt(cycle))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "water.chk"


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"convergence": "adiis"}, marks=pytest.mark.slow),
        pytest.param({"convergence": "hard"}, marks=pytest.mark.slow),
        {"convergence": "second-order", "conv_tol": 1e-10},
        pytest.param({"convergence": "direct", "conv_tol": 1e-11}, marks=pytest.mark.slow),
        pytest.param({"damping": 0.3, "level_shift": 0.2}, marks=pytest.mark.slow),
        {"smearing": 0.01},
        pytest.param(
            {"method": "UKS", "xc": "hf", "occupations": [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1]]}, marks=pytest.mark.slow
        ),
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "diis",
)
def test_a_run_goes_on_where_it_was(path, options):
    """The energy is that of the run that nobody stopped, within 1e-10; DIIS takes the very same cycles."""
    whole = dftfd.run_scf(water(), **OPTIONS | options)
    killed_run(path, 3, **options)
    resumed = dftfd.run_scf(water(), **OPTIONS | options, restart=path)
    assert resumed.converged and resumed.energy == pytest.approx(whole.energy, abs=1e-10)
    if options.get("convergence") not in ("hard", "second-order", "direct"):
        assert repr(resumed.history) == repr(whole.history)
    assert repr(resumed.history[:3]) == repr(whole.history[:3])
    finished = dftfd.run_scf(water(), **OPTIONS | options, restart=path)
    assert finished.cycles == resumed.cycles and finished.energy == pytest.approx(whole.energy, abs=1e-10)


@pytest.mark.parametrize("method, spin", [("RKS", 0), ("UKS", 2), ("ROKS", 2)])
def test_pyscf_reads_a_checkpoint(path, method, spin):
    """PySCF's own loader finds molecule, energy and orbitals of the last cycle that was written."""
    molecule = water(text="O 0 0 0; O 0 0 1.2", spin=spin)
    killed_run(path, 3, molecule, method=method)
    mole, entries = chkfile.load_scf(str(path))
    result = dftfd.load_result(path)
    assert not result.converged and result.cycles == 2 and entries["e_tot"] == result.energy
    assert mole.nelectron == 16 and mole.nao == entries["mo_coeff"].shape[-2] == 10
    assert dftfd.run_scf(molecule, **OPTIONS, method=method, restart=path).converged


def test_both_generations_are_kept(path):
    """The file holds the last cycle, the other the one before; nothing else lies around."""
    killed_run(path, 4)
    assert dftfd.load_result(path).cycles == 3
    assert dftfd.load_result(previous_generation(path)).cycles == 2
    assert sorted(p.name for p in path.parent.iterdir()) == ["water.chk", "water.chk.previous"]


def test_orphans_are_removed(path):
    """The temporary file of a process that is dead disappears with the next write; that of a living one stays."""
    host = os.uname().nodename
    dead = path.parent / f".water.chk.{host}-999999999.xy.tmp"
    alive = path.parent / f".water.chk.{host}-{os.getppid()}.xy.tmp"
    for file in (dead, alive):
        file.write_bytes(b"")
    killed_run(path, 2)
    assert not dead.exists() and alive.exists()


def test_a_damaged_file_gives_way_to_the_previous_generation(path):
    """Cut short, changed, emptied or gone: the generation before is used, a warning says so, the energy is right."""
    energy = dftfd.run_scf(water(), **OPTIONS).energy
    killed_run(path, 4)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(flipped) // 2] ^= 4
    for damaged in (content[:-100], bytes(flipped), b"", None):
        if damaged is None:
            path.unlink()
        else:
            path.write_bytes(damaged)
        with pytest.warns(CheckpointWarning, match="The previous generation, water.chk.previous, is used"):
            result = dftfd.run_scf(water(), **OPTIONS, restart=path, checkpoint=path.with_name("new.chk"))
        assert result.energy == pytest.approx(energy, abs=1e-10)
    previous_generation(path).write_bytes(b"dftfd")
    path.write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match="is damaged: .* So is its previous generation"):
        dftfd.run_scf(water(), **OPTIONS, restart=path)


@pytest.mark.parametrize(
    "molecule, options, words",
    [
        ({"text": "N 0 0 0; N 0 0 1.1"}, {}, "atoms .O H H. instead of .N N."),
        ({"text": WATER + "1"}, {}, "positions"),
        ({"basis": "6-31g"}, {}, "basis .*sto-3g.* instead of .*6-31g"),
        ({"charge": 1, "spin": 1}, {}, "spin 0 instead of 1"),
        ({}, {"xc": "pbe"}, "is not for the functional 'pbe'"),
        ({}, {"grid_level": 1}, "grid level 0 instead of 1"),
        ({}, {"density_fit": False}, "density fit the default instead of False"),
        ({}, {"method": "UKS"}, "method .RKS. instead of .UKS."),
        ({}, {"smearing": 0.01}, "smearing the default instead of"),
        ({}, {"electric_field": (0, 0, 0.01)}, "field"),
        ({}, {"point_charges": [(1.0, 0, 0, 9.0)]}, "point charges"),
    ],
)
def test_checkpoints_of_another_calculation_are_refused(path, molecule, options, words):
    """The message says what differs; nothing is computed, and the file stays as it was."""
    killed_run(path, 3)
    content = path.read_bytes()
    with pytest.raises(CheckpointError, match=words):
        dftfd.run_scf(water(**molecule), **OPTIONS | options, restart=path)
    assert path.read_bytes() == content


def test_forged_checkpoints_are_refused(path, forged):
    """Right checksums do not help: another version, another energy, wrong shapes, code for text, no state at all."""

    def in_text(name, group, change):
        def edit(file):
            text = json.loads(file[f"dftfd/{name}"].asstr()[()])
            change(text[group] if group else text)
            del file[f"dftfd/{name}"]
            file[f"dftfd/{name}"] = np.bytes_(json.dumps(text))

        return edit

    def put(name, value):
        def edit(file):
            del file[name]
            if value is not None:
                file[name] = np.bytes_(value) if isinstance(value, str) else value

        return edit

    refusals = [
        (in_text("text", "settings", lambda s: s["versions"].update(dftfd="0.0.1")), "version .0.0.1. instead of"),
        (in_text("text", "result", lambda r: r["energies"].update(xc=1.0)), "in this calculation they have"),
        (put("dftfd/format", 1), "has format 1; this version of dftfd reads format 3"),
        (put("dftfd/loop", None), "is a result, not a checkpoint to continue from"),
        (put("dftfd/loop/text", "__import__('os').abort()"), "damaged: JSONDecodeError"),
        (put("dftfd/loop/memory/focks", np.zeros((2, 1, 9, 9))), "focks has the shape"),
        (put("dftfd/loop/memory/errors", np.zeros((9, 49))), "not as many errors"),
        (
            in_text("text", "options", lambda o: o.update(occupations=[2])),
            r"occupations .\(2.0,\). instead of the default",
        ),
    ]
    for change, words in refusals:
        previous_generation(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        killed_run(path, 3)
        previous_generation(path).unlink()
        with pytest.raises(CheckpointError, match=words):
            dftfd.run_scf(water(), **OPTIONS, restart=forged(path, change))


def test_a_checkpoint_that_cannot_be_written_costs_nothing_else(tmp_path):
    """One warning, the energy of the run without checkpoint; the object knows why the file is not there."""
    energy = dftfd.run_scf(water(), **OPTIONS).energy
    for name in (tmp_path / "none" / "x.chk", tmp_path, "/proc/x.chk"):
        checkpoint = Checkpoint(name)
        with pytest.warns(
            CheckpointWarning, match="no checkpoint: cannot write .* The calculation continues"
        ) as caught:
            assert dftfd.run_scf(water(), **OPTIONS, checkpoint=checkpoint).energy == energy
        assert len(caught) == 1 and checkpoint.failure is not None


def test_an_interrupt_right_behind_a_write_is_told_of_it(path, monkeypatch):
    """Ctrl-C while the folder is flushed, when the file is there already: the state is known to be saved."""

    flush = files._flush

    def interrupt(path):
        if Path(path).is_dir():
            raise KeyboardInterrupt
        flush(path)

    checkpoint = Checkpoint(path)
    assert not checkpoint.written
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files, "_flush", interrupt)
        dftfd.run_scf(water(), **OPTIONS, checkpoint=checkpoint)
    assert checkpoint.written and not Checkpoint(path).written
    assert dftfd.run_scf(water(), **OPTIONS, restart=path).converged


def test_devices_are_not_replaced():
    """/dev/full is no file to replace; it is refused before anything is written beside it."""
    checkpoint = Checkpoint("/dev/full")
    with pytest.warns(CheckpointWarning, match="it is not a regular file"):
        checkpoint.prepare(None)
    assert "not a regular file" in str(checkpoint.failure)


def test_a_checkpoint_is_a_guess(path):
    """Also in another basis; another molecule has to be asked for as a result."""
    whole = dftfd.run_scf(water(), **OPTIONS)
    killed_run(path, 5)
    warm = dftfd.run_scf(water(), **OPTIONS, guess=str(path))
    assert warm.energy == pytest.approx(whole.energy, abs=1e-8) and warm.cycles < whole.cycles
    assert dftfd.run_scf(water("6-31g"), **OPTIONS, guess=path).converged
    with pytest.raises(CheckpointError, match="is the checkpoint of H2O / sto-3g, not of N2 / 6-31g"):
        dftfd.run_scf(water("6-31g", text="N 0 0 0; N 0 0 1.1"), **OPTIONS, guess=path)
    with pytest.raises(CheckpointError, match="there is no such file"):
        dftfd.run_scf(water(), **OPTIONS, guess="none.chk")


def test_names_of_checkpoints_are_checked():
    """Numbers, empty names."""
    for wrong in (7, "", b"x"):
        with pytest.raises(InputError, match="give the name of a file"):
            dftfd.run_scf(water(), **OPTIONS, checkpoint=wrong)
    for wrong in (True, 1, 0, "", "a\0b"):  # a number would be an open file: 1 is standard output
        with pytest.raises(InputError, match="restart=.*: give the name of a file"):
            dftfd.run_scf(water(), **OPTIONS, restart=wrong)
    os.fstat(1)


def test_a_beginning_that_a_restart_does_not_have_is_told(path):
    """Another guess or broken symmetry; none of it where the interrupted run began with the same."""
    killed_run(path, guess="core", method="UKS")
    go_on = lambda **options: dftfd.run_scf(water(), **OPTIONS | {"method": "UKS", **options}, restart=path)
    with pytest.warns(InputWarning, match="water.chk is continued; guess=, broken_symmetry= would start anew"):
        go_on(guess="atom", broken_symmetry="mix", checkpoint=path.with_name("other.chk"))
    assert go_on(guess="core").converged


def test_other_documents_are_not_replaced(path):
    """Results, excitations and whatever else dftfd writes into such files."""
    result = dftfd.run_scf(water(), **OPTIONS)
    for keep in (result.save, result.excitations(1).save):
        path.unlink(missing_ok=True)
        keep(path)
        kept = path.read_bytes()
        with pytest.raises(CheckpointError, match="is not a checkpoint; it is kept"):
            dftfd.run_scf(water(), **OPTIONS, checkpoint=path)
        assert path.read_bytes() == kept
