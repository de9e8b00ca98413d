"""dftfd doctor tells what is there, and calls a problem what is one."""

import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy
import pytest

from dftfd.cli import installation, main
from dftfd.functionals import jax_xc_formula

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
OF_DEVELOPERS = {"test", "dev", "all", "docs", "browser"}


def test_what_is_installed_is_told(capsys, monkeypatch, tmp_path):
    """Versions are the packages' own; the document and the text say the same; nothing is wrong here."""
    monkeypatch.setenv("DFTFD_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (tmp_path / "one-cache").write_bytes(bytes(2**21))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["numpy"] == numpy.__version__ and found["problems"] == []
    assert found["workers"] == 3 and found["settings"]["OMP_NUM_THREADS"] == "3"
    assert found["cache"] == {"folder": str(tmp_path), "programs": 1, "size": 2**21, "limit": 10**9}
    assert found["blas"] and all(row["threads"] >= 1 for row in found["blas"])
    assert 0 < found["memory_of_calculations"] < found["memory_available"]
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert f"numpy {numpy.__version__}" in text and "no problem found" in text and "3 workers" in text


def test_features_are_the_extras_of_the_package():
    """Each extra has its words; what it lacks is empty exactly where its packages are installed."""
    assert set(installation.SERVES) == set(PYPROJECT["optional-dependencies"]) - OF_DEVELOPERS
    installed = {row.metadata["Name"].lower() for row in metadata.distributions()}
    for feature in installation.examine().features:
        wanted = [line.partition(">")[0] for line in PYPROJECT["optional-dependencies"][feature.extra]]
        assert list(feature.missing) == [name for name in wanted if name.lower() not in installed]


def test_missing_and_old_packages_are_problems(capsys, monkeypatch):
    """A package that is not there, one that is too new, a setting that is no number, an extra's package."""
    truth = metadata.version
    told = {"h5py": None, "jax": "0.13.1", "ase": None}

    def version(name):
        if name in told and told[name] is None:
            raise metadata.PackageNotFoundError(name)
        return told.get(name) or truth(name)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    monkeypatch.setenv("DFTFD_CACHE_SIZE", "big")
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "h5py is missing" in text and "jax 0.13.1 is installed, but <0.13,>=0.10 is needed" in text
    assert "OMP_NUM_THREADS='many' is not a number of threads" in text and "DFTFD_CACHE_SIZE" in text
    assert "missing ase" in text and "pip install 'dftfd[ase]'" in text and "no problem" not in text


@pytest.mark.parametrize(
    "found, bounds, fits",
    [
        ("0.10.2", "<0.13,>=0.10", True),
        ("0.9.9", "<0.13,>=0.10", False),
        ("0.13", "<0.13,>=0.10", False),
        ("2.0.0rc1", ">=2", True),
        ("0.0.11", "==0.0.11", True),
        ("0.0.12", "==0.0.11", False),
        ("1.0", "", True),
    ],
)
def test_versions_and_their_bounds(found, bounds, fits):
    """By numbers, not by letters: 0.9 is older than 0.10."""
    assert installation._fits(found, bounds) is fits


@pytest.mark.slow  # a process; test_starting_the_command_imports_no_chemistry of test_cli is quick
def test_jax_is_not_loaded_for_it():
    """The command answers before a second has passed, and where JAX does not start."""
    code = (
        "import sys; sys.argv = ['dftfd', 'doctor']; from dftfd.cli import main; main(); sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("No module named pip", 2, "python -m ensurepip"),
        ("WARNING: slow\nERROR: no space left\n", 5, "no space left"),
        ("", 5, "ended without an error"),
    ],
)
def test_why_libxcs_catalogue_was_not_fetched(said, code, words, monkeypatch, capsys):
    """One line; where jax-xc is there, nothing is fetched. tests/test_install.py fetches it."""
    failed = subprocess.CompletedProcess([], int(bool(said)), stdout="", stderr=said)
    monkeypatch.setattr(installation, "run_module", lambda *_: failed)
    monkeypatch.setattr(jax_xc_formula, "is_installed", lambda: False)
    assert main(["get-libxc"]) == code
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
    monkeypatch.setattr(jax_xc_formula, "is_installed", lambda: True)
    assert main(["get-libxc"]) == 0 and "588 functionals of libxc" in capsys.readouterr().out
