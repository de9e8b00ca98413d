"""The fault scripts of examples/faults, with few runs each: what docs/reliability.md promises, fault by fault.

Kills are in test_bad_inputs.py (kill9_then_resume); the whole numbers of runs are those of the scripts with --save.
"""

import importlib.util
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dftfd.errors import FunctionalError

FAULTS = Path(__file__).parents[1] / "examples/faults"
TOLERANCE = 1e-10  # hartree


@pytest.fixture
def faults(monkeypatch, tmp_path):
    """(script, function, runs) -> the figures of so many runs."""
    monkeypatch.syspath_prepend(FAULTS)

    def figures(script, function, runs, **options):
        code = runpy.run_path(str(FAULTS / f"{script}.py"), run_name=script)[function]
        return code(runs, tmp_path, np.random.default_rng(2), **options)

    return figures


@pytest.mark.slow  # 1 s; test_checkpoint.py damages checkpoints in every run
def test_damage(faults):
    """Truncations and bit flips are all found; the previous generation gives the energy, nothing gives a wrong one."""
    found = faults("damage", "damages", 3)
    for kind in ("truncations", "bit flips"):
        assert [found[f"{kind}{what}"] for what in ("", " found", " refused without previous", " resumed")] == [3] * 4
    assert found["largest error of an energy [hartree]"] < TOLERANCE


def test_disks(faults):
    """A full disk and a read-only folder: the result is printed, the exit code is 5, the reason is told."""
    found = faults("disks", "disks", 1)
    for kind in ("full disk", "read-only folder"):
        assert [found[f"{kind}: {what}"] for what in ("result printed", "exit code 5", "reason told")] == [1] * 3


@pytest.mark.slow
def test_interrupts(faults):
    """Ctrl-C ends a run with 130, without a traceback, and its checkpoint can be gone on from; the row tells when."""
    found = faults("interrupts", "interrupts", 1)
    assert found["exit code 130"] == 1 and found["tracebacks"] == 0
    assert found["resumed"] == found["with a checkpoint"]


@pytest.mark.slow
def test_sharing(faults):
    """Processes that share checkpoint and compilation cache: none fails, all energies are right."""
    found = faults("sharing", "sharing", 2, processes=2)
    assert found["failed processes"] == found["warnings"] == found["temporary files left"] == 0
    assert found["right energies"] == found["calculations"] == 4 and found["last checkpoint readable"]


@pytest.mark.slow
def test_endurance(faults):
    """Many runs in one process: memory stays (2 % of noise in so few), fitted results are equal in every bit."""
    found = faults("endurance", "endurance", 30)
    assert found["growth [%]"] < 5.0
    assert found["density fitting: runs compared, different in a bit"] == [3, 0]
    assert found["exact integrals: largest difference of the energy [hartree]"] < 1e-11


@pytest.mark.slow
def test_random_molecules(faults, runs=60):
    """PySCF's DIIS converges no more of them; 97 % of those that both converge agree, the rest of ours are lower.

    Or PySCF's state is unstable. Both start from the same density, with the same points; agreement is 1e-6 hartree.
    """
    found = faults("random_molecules", "random_molecules", runs)
    ours, theirs = found["converged, ours and PySCF's"]
    verdicts = found["verdicts"]
    both = {word: n for word, n in verdicts.items() if word not in ("ours alone", "PySCF's alone", "none")}
    assert sum(verdicts.values()) == runs and ours >= theirs
    assert both.get("same", 0) >= 0.97 * sum(both.values()) and "higher" not in both


@pytest.mark.parametrize("count", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_definitions(faults, count):
    """Sound definitions are taken, and their Fock matrices are the derivatives of their energies; others refused."""
    found = faults("definitions", "definitions", count)
    assert found["sound ones"] == found["broken ones"] == found["broken ones refused"] == count // 2
    assert found["sound ones accepted"] == found["identity holds"] >= 0.95 * found["sound ones"]
    assert found["largest error of the identity"] < 1e-7 and found["over 30 s"] == 0


@pytest.mark.slow
def test_every_way_to_break_a_definition(monkeypatch):
    """Each of the hundred ways, on a sound definition of its own: a FunctionalError of one line."""
    monkeypatch.syspath_prepend(FAULTS)
    ways = runpy.run_path(str(FAULTS / "broken_definitions.py"))["KINDS"]
    attempts = {f"{kind}: {label}": attempt for kind, all_of in ways.items() for label, attempt in all_of.items()}
    assert len(attempts) > 100
    for k, (text, attempt) in enumerate(attempts.items()):
        with pytest.raises(FunctionalError) as caught:
            attempt(np.random.default_rng(k), f"t_{k}")
            pytest.fail(f"accepted: {text}")
        assert str(caught.value) and "\n" not in str(caught.value)


PARSERS = "geometry frames atoms molecule element functional basis memory document file".split()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("name", PARSERS)
def test_parsers_by_coverage(name, tmp_path):
    """20,000 inputs that atheris looks for: no exception but dftfd's."""
    # by a shell, since a program that this process starts itself is charged with its memory, which libFuzzer limits
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, FAULTS / "parsers.py", name, "-atheris_runs=20000"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
