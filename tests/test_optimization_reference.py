"""Minima and numbers of steps against PySCF with geomeTRIC; data/reference/make_geometry_cases.py made them."""

import json
from pathlib import Path

import numpy as np
import pytest

import dftfd
from dftfd.tasks.optimization import read_trajectory

FILE = Path(__file__).parents[1] / "data/reference/geometry_cases.json"
CASES = {case["id"]: case for case in json.loads(FILE.read_text())["cases"]}


def minimum(case, **options):
    given = case["input"]
    molecule = dftfd.molecule([(symbol, xyz) for symbol, *xyz in given["atoms"]], basis=given["basis"])
    settings = {name: given[name] for name in ("density_fit", "grid_level", "nlc_grid_level")}
    return dftfd.optimize(molecule, given["xc"], conv_tol=1e-10, **settings, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.one_in(2)
def test_minima_equal_those_of_pyscf(name, tmp_path):
    """The same geometry to 1e-4 bohr in no more steps, and the same again after an interruption half way."""
    reference = CASES[name]["reference"]
    path = tmp_path / "path.xyz"
    found = minimum(CASES[name], trajectory=path)
    assert found.converged and len(found.energies) <= len(reference["energies"])
    np.testing.assert_allclose(found.molecule.coordinates, reference["coordinates"], atol=1e-4, rtol=0)
    half = len(found.energies) // 2
    path.write_text("".join(map(str, read_trajectory(path)[:half])))
    resumed = minimum(CASES[name], trajectory=path, restart=True)
    assert resumed.converged and resumed.n_computed <= len(reference["energies"]) - half
    np.testing.assert_allclose(resumed.molecule.coordinates, reference["coordinates"], atol=1e-4, rtol=0)
