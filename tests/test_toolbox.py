"""The toolbox's page names every block, and the five example functionals are what their texts say."""

import inspect
import re
import runpy
from pathlib import Path

import pytest

import dftfd
from dftfd.functionals import common, numerics, pairs
from tests.verification import tables

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "functionals"


def test_the_page_names_every_block():
    """Each public function of common and pairs, and no name that is not there."""
    page = (ROOT / "docs" / "toolbox.md").read_text()
    page = re.sub(r"<!-- table (.*?) -->", lambda match: eval(match[1], vars(tables)), page)
    named = set(re.findall(r"`@?([a-z_]+)[`(]", page))
    for module in (common, pairs):
        own = {name for name, f in inspect.getmembers(module, inspect.isfunction) if f.__module__ == module.__name__}
        assert {name for name in own if not name.startswith("_")} <= named
    known = {name for module in (common, numerics, pairs) for name in dir(module)}
    assert named - known <= {"numerics", "pairs", "n", "rho", "get_functional"}, named - known
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "tau_meta_gga.py",
        "correlation.py",
        "hybrid.py",
        "range_separated.py",
        "nonlocal_correlation.py",
    }


@pytest.fixture
def example(capsys):
    """The module of an example, not run as a script."""
    return lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="example")["main"]()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tau_meta_gga", "correlation"])
def test_formulas_equal_libxcs_of_their_names(example, name):
    report = example(name)
    assert report.passed and len(report.rows) > 10, str(report)


@pytest.mark.slow
def test_the_hybrid(example):
    """Share of exact exchange and formulas are libxc's of that name; the energy is that of the expression."""
    report, energy = example("hybrid")
    assert report.passed and report.rows[0].quantity == "exact exchange fraction"
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="def2-svp")
    written = dftfd.run_scf(water, xc="0.3333333333333333*HF + 0.6666666666666667*PBE, PBE")
    assert energy == pytest.approx(written.energy, abs=1e-9)


@pytest.mark.slow
def test_the_range_separated_functional(example):
    """The highest orbital sinks as more exchange is exact; at 0.33 it is that of the library's parts."""
    homos = example("range_separated")
    assert homos[0.2] > homos[0.33] > homos[0.5]
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="def2-svp")
    parts = dftfd.get_functional("lda_x_erf", omega=0.33) + dftfd.long_range_exchange(0.33)
    result = dftfd.run_scf(water, xc=parts + dftfd.get_functional("lda_c_vwn"))
    assert homos[0.33] == pytest.approx(27.2114 * result.frontier[0][0], abs=1e-5)


@pytest.mark.slow
def test_the_double_integral(example):
    own, library = example("nonlocal_correlation")
    assert own == pytest.approx(library, abs=1e-7)
