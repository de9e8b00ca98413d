"""The scripts of README and docs/scf.md run as they stand."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_readme_scripts_run(number, tmp_path, capsys, monkeypatch):
    """Every Python block of the README is a whole script."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / f"readme_{number}.py"
    script.write_text(SCRIPTS[number])
    runpy.run_path(str(script))
    assert "-76." in capsys.readouterr().out


@pytest.mark.parametrize("number, last", [(0, "0.6666"), (1, "stable (internal"), (2, "trap, acts on electrons")])
def test_scripts_on_the_self_consistent_field_run(number, last, tmp_path, capsys):
    """docs/scf.md: fractional occupations, the way from an unstable state to a stable one, a trap."""
    text = re.findall(r"```python\n(.*?)```", (ROOT / "docs/scf.md").read_text(), re.S)[number]
    script = tmp_path / "script.py"
    script.write_text(text)
    found = runpy.run_path(str(script))
    assert last in capsys.readouterr().out
    if "broken" in found:
        assert found["broken"].energy < found["closed"].energy - 0.01 and found["broken"].stability().is_stable
