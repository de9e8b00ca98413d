"""Forces against PySCF's gradients with grid response on the same grid, made by data/reference/make_gradient_cases.py.

Tight convergence on both sides leaves differences near 1e-8 hartree/bohr.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import dftfd
from dftfd.model.forces import nuclear_forces

FILE = Path(__file__).parents[1] / "data/reference/gradient_cases.json"
CASES = {case["id"]: case for case in json.loads(FILE.read_text())["cases"]}
QUICK = ("h2o_pbe_fitted", "hi_pbe_ecp")


def converged(case):
    given = case["input"]
    molecule = dftfd.molecule(
        [(symbol, xyz) for symbol, *xyz in given["atoms"]],
        basis=given["basis"],
        charge=given["charge"],
        spin=given["spin"],
    )
    levels = {name: given[name] for name in ("grid_level", "nlc_grid_level", "density_fit")}
    return dftfd.run_scf(molecule, given["xc"], given["method"], conv_tol=1e-13, **levels)


@pytest.mark.filterwarnings("ignore:the energy of 'scan,scan':UserWarning")  # that grid is what is compared
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_forces_equal_those_of_pyscf(name):
    """Grid response included: 1e-7 hartree/bohr."""
    reference = CASES[name]["reference"]
    result = converged(CASES[name])
    assert result.energy == pytest.approx(reference["energy"], abs=1e-8)
    np.testing.assert_allclose(-result.forces(), reference["gradient"], atol=1e-7, rtol=0)


@pytest.mark.parametrize("name", ["h2o_pbe_fitted", pytest.param("h2o_wb97xv", marks=pytest.mark.slow)])
def test_forces_without_response_equal_those_of_pyscf(name):
    """The comparison mode to 1e-7; what it leaves out is more than that."""
    reference = CASES[name]["reference"]
    partial = -nuclear_forces(converged(CASES[name]), grid_response=False).values
    np.testing.assert_allclose(partial, reference["without_response"], atol=1e-7, rtol=0)
    assert np.abs(np.subtract(reference["gradient"], reference["without_response"])).max() > 1e-5
