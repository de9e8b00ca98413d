"""dftfd as a library: source distribution on the oldest Python, wheel on the newest that is there.

The figures of the last run, for `docs/house.md`, are printed: `pytest -s tests/test_install.py`.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dftfd
from dftfd.cli.installation import INDEX
from dftfd.runtime.json_reader import shipped_json

ROOT = Path(__file__).parents[1]
WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
OLDEST, NEWEST = "3.11", ("3.14", "3.13", "3.12")


def interpreter(version):
    """A Python of this version, on the path or among pyenv's; None without one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]
    asks = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for python in filter(None, found):  # those of pyenv on the path may be empty shells
        done = subprocess.run([python, "-c", asks], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return python
    return None


def told(*command, cwd):
    """What a command printed; where it fails, that is the test's message."""
    surroundings = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XLA_", "JAX_"))
    }
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=surroundings, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The wheel and the source distribution, by kind, built from the sources."""
    folder = tmp_path_factory.mktemp("package")
    pip = (sys.executable, "-m", "pip")
    reached = subprocess.run(
        [*pip, "download", "--no-deps", "--quiet", "-d", str(folder / "reached"), "typer"],
        capture_output=True,
        check=False,
    )
    if reached.returncode:
        pytest.skip("pip reaches no package index")
    told(sys.executable, "-m", "venv", "builder", cwd=folder)
    builder = folder / "builder" / "bin" / "python"
    told(builder, "-m", "pip", "install", "--quiet", "hatchling>=1.27", cwd=folder)
    told(builder, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    (wheel,), (source,) = folder.glob("dftfd-*.whl"), folder.glob("dftfd-*.tar.gz")
    return {"wheel": wheel, "source": source}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("versions, kind", [((OLDEST,), "source"), (NEWEST, "wheel")])
def test_in_an_empty_environment(versions, kind, package, tmp_path):
    """`pip install dftfd[plots]` alone: commands, the whole catalogue, the energy and forces of the sources, pages."""
    found = [(version, python) for version in versions if (python := interpreter(version))]
    if not found:
        pytest.skip(f"there is no Python {' or '.join(versions)}")
    version, python = found[0]
    told(python, "-m", "venv", "env", cwd=tmp_path)
    run = tmp_path / "env" / "bin"
    constraints = ("--constraint", ROOT / "constraints.txt")
    began = time.perf_counter()
    told(run / "pip", "install", "--quiet", *constraints, f"dftfd[plots] @ {package[kind].as_uri()}", cwd=tmp_path)
    took = time.perf_counter() - began
    assert told(run / "dftfd", "--version", cwd=tmp_path).strip() == dftfd.__version__
    assert json.loads(told(run / "dftfd", "doctor", "--json", cwd=tmp_path))["problems"] == []
    own = len(told(run / "dftfd", "list", cwd=tmp_path).split())
    told(run / "dftfd", "get-libxc", cwd=tmp_path)
    names = told(run / "dftfd", "list", cwd=tmp_path).split()
    index = shipped_json("dftfd", INDEX)
    assert names == [*sorted(index["own"]), *(f"libxc:{name}" for name in index["libxc"])]
    told(run / "dftfd", "run", "He 0 0 0;", "--xc", "libxc:gga_x_pbe_mol", "--basis", "sto-3g", cwd=tmp_path)
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
    size = sum(
        file.stat().st_size for file in (tmp_path / "env").rglob("*") if file.is_file() and not file.is_symlink()
    )
    print(
        f"\nPython {version}, {kind} of {package[kind].stat().st_size / 1e6:.1f} MB: installed in {took:.0f} s, "
        f"{size / 1e6:.0f} MB with all packages; dftfd list {own} names, {len(names)} after dftfd get-libxc"
    )
