"""Total energies of another program: Q-Chem's for small molecules of GSCDB (data/gscdb), fifty in a week, no fitting.

Both sides are converged to 1e-7; what is left is the quadrature: Q-Chem's 99 radial shells of 590 points, ours of level
5. J. Liang, M. Head-Gordon, GSCDB137, arXiv:2508.13468.
"""

import json
from pathlib import Path

import pytest

import dftfd

MOLECULES = json.loads((Path(__file__).parents[1] / "data/gscdb/selection.json").read_text())
FUNCTIONALS = ("b3lyp", "pbe0", "camb3lyp", "wb97x-v")
TOLERANCE = {"b3lyp": 2e-6, "pbe0": 2e-6, "camb3lyp": 2e-6, "wb97x-v": 2e-5}
OTHER_BASIS = {"CHB6_27A": 3.5e-5}
"""K+: Q-Chem is 2.3e-5 to 2.9e-5 lower with each functional, PySCF agrees with us: its set has other functions."""
BROKEN_SYMMETRY = {"W4-17_o3"}
"""Ozone, which Q-Chem computed without spin symmetry: 5.5e-3 hartree below the closed shell."""
CASES = [(m, FUNCTIONALS[k % 4]) for k, m in enumerate(MOLECULES)]
"""Atoms, ions, radicals, triplets and complexes; half a minute of processor time each, ozone five."""


@pytest.mark.slow
@pytest.mark.one_in(7)
@pytest.mark.parametrize("molecule, xc", CASES, ids=[f"{m['name']}-{xc}" for m, xc in CASES])
def test_total_energy_is_qchems(molecule, xc):
    system = dftfd.molecule(
        molecule["atoms"], basis="def2-qzvppd", charge=molecule["charge"], spin=molecule["spin"], unit="angstrom"
    )
    start = (
        {"method": "UKS", "broken_symmetry": "mix", "convergence": "hard"}
        if molecule["name"] in BROKEN_SYMMETRY
        else {}
    )
    result = dftfd.run_scf(system, xc, density_fit=False, grid_level=5, **start)
    assert result.converged
    tolerance = OTHER_BASIS.get(molecule["name"], TOLERANCE[xc])
    assert result.energy == pytest.approx(molecule["energies"][xc], abs=tolerance)
