"""The scripts of README and docs/scf.md run as they stand."""

from pathlib import Path

import pytest

from tests.verification import pages

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_readme_scripts_run(tmp_path, capsys, monkeypatch):
    """Every Python block of the README prints an energy of water."""
    monkeypatch.chdir(tmp_path)
    pages.run(ROOT / "README.md")
    assert len(pages.pieces((ROOT / "README.md").read_text())) == 2
    printed = capsys.readouterr().out
    assert "-76.3" in printed and printed.rpartition("\n-76.")[1]


@pytest.mark.slow  # 2 s; `make docs` runs every block of every page
def test_scripts_on_the_self_consistent_field_run(tmp_path, capsys, monkeypatch):
    """docs/scf.md: fractional occupations, the way from an unstable state to a stable one, a trap."""
    monkeypatch.chdir(tmp_path)
    found = pages.run(ROOT / "docs/scf.md")
    printed = capsys.readouterr().out
    assert "0.6666" in printed and "stable (internal" in printed and "trap, acts on electrons" in printed
    assert found["broken"].energy < found["closed"].energy - 0.01 and found["broken"].stability().is_stable
