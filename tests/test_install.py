"""dftfd as a library: the wheel, built from the sources, in an empty environment of each Python that is there."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dftfd

ROOT = Path(__file__).parents[1]
WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")


def told(*command, cwd):
    """What a command printed; where it fails, that is the test's message."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    reached = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(folder / "reached"), "typer"],
        capture_output=True,
        check=False,
    )
    if reached.returncode:
        pytest.skip("pip reaches no package index")
    told(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", folder, ROOT, cwd=folder)
    (path,) = folder.glob("dftfd-*.whl")
    return path


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_wheel_in_an_empty_environment(python, wheel, tmp_path):
    """`pip install dftfd[plots]` alone: commands, the energy and forces of the sources, pages with their scripts."""
    if shutil.which(python) is None:
        pytest.skip(f"there is no {python}")
    told(python, "-m", "venv", "env", cwd=tmp_path)
    run = tmp_path / "env" / "bin"
    constraints = ("--constraint", ROOT / "constraints.txt") if python == "python3.11" else ()
    told(run / "pip", "install", "--quiet", *constraints, f"dftfd[plots] @ {wheel.as_uri()}", cwd=tmp_path)
    assert told(run / "dftfd", "--version", cwd=tmp_path).strip() == dftfd.__version__
    assert json.loads(told(run / "dftfd", "doctor", "--json", cwd=tmp_path))
    told(run / "dftfd", "run", WATER, "--xc", "pbe", "--output", "water.h5", cwd=tmp_path)
    told(run / "dftfd", "view", "water.h5", "-o", "water.html", cwd=tmp_path)
    told(run / "dftfd", "workbench", "pbe", "-o", "pbe.html", cwd=tmp_path)
    assert "marching tetrahedra" in (tmp_path / "water.html").read_text()
    assert "KERNELS" in (tmp_path / "pbe.html").read_text()
    code = "import dftfd; r = dftfd.load_result('water.h5'); print(dftfd.__file__, r.energy, abs(r.forces()).max())"
    where, energy, force = told(run / "python", "-c", code, cwd=tmp_path).split()
    here = dftfd.run_scf(dftfd.molecule(WATER), "pbe")
    assert where.startswith(str(tmp_path)) and float(energy) == pytest.approx(here.energy, abs=1e-8)
    assert float(force) == pytest.approx(np.abs(here.forces()).max(), abs=1e-6)
