"""Second derivatives of terms of the energy by the nuclei at fixed density: against differences of first ones."""

from dataclasses import replace

import numpy as np
import pytest

import dftfd
from dftfd.runtime.progress import Progress
from dftfd.scf.orbitals import occupied_orbitals
from dftfd.terms import CoulombExchangeEnergy, OneElectronEnergy, SemilocalEnergy
from tests.sample import sample

BENT = "O 0 0 0.1; H 0.1 0.76 -0.48; F 0 -0.94 -0.5"
RADICAL = "N 0 0 0.1; H 0.1 0.8 -0.5; H 0 -0.78 -0.52"
SHIFTS, WEIGHTS, STEP = (-2, -1, 1, 2), np.array([1.0, -8.0, 8.0, -1.0]) / 12.0, 1e-3
WITH_CURVATURE = OneElectronEnergy, CoulombExchangeEnergy, SemilocalEnergy


def first_derivatives(calculation, kind, P, C_occ, C):
    """Gradient and the Fock matrix on orbitals, in one row, of the term of a kind."""
    term = calculation.energy(Progress()).of_kind(kind)
    on_orbitals = [C_s @ F for C_s, F in zip(C, sum(term.evaluate(P, C_occ).matrices.values(), 0 * P), strict=True)]
    gradient = term.gradient(P, C_occ, True, Progress())
    return np.concatenate([gradient.ravel(), *map(np.ravel, on_orbitals)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("geometry", "xc", "spin", "kinds"),
    sample(
        [
            (BENT, "svwn", 0, (SemilocalEnergy,)),
            (BENT, "tpss", 0, (SemilocalEnergy,)),
            (RADICAL, "pbe", 1, (SemilocalEnergy, CoulombExchangeEnergy, OneElectronEnergy)),
            (RADICAL, "b3lyp", 1, (CoulombExchangeEnergy,)),
            (BENT, "pbe0", 0, (CoulombExchangeEnergy, SemilocalEnergy)),
        ],
        at=[2],
    ),
)
def test_they_are_differences_of_first_ones(geometry, xc, spin, kinds):
    """Relative 2e-8, what five points leave; and everything is the same when the whole molecule moves."""
    molecule = dftfd.molecule(geometry, basis="6-31g", spin=spin)
    result = dftfd.run_scf(molecule, xc, grid_level=0, density_fit=True, conv_tol=1e-5)
    calculation, P = result.calculation, result.density_matrix
    C_occ = occupied_orbitals(result.mo_coeff, result.mo_occ)
    C = [np.ascontiguousarray(C_s[:, n > 0].T) for C_s, n in zip(result.mo_coeff, result.mo_occ, strict=True)]
    for kind in kinds:
        found = calculation.energy(Progress()).of_kind(kind).curvature(P, C_occ, C, Progress())
        n = 3 * molecule.n_atoms
        rows = np.hstack([found.hessian.reshape(n, n), *(part.reshape(n, -1) for part in found.on_orbitals)])
        assert np.abs(rows[:, :n] - rows[:, :n].T).max() < 1e-10 * np.abs(rows).max()
        assert np.abs(rows.reshape(-1, 3, rows.shape[1]).sum(axis=0)).max() < 1e-10 * np.abs(rows).max()
        for coordinate in (1, 5):
            difference = 0.0
            for k, weight in zip(SHIFTS, WEIGHTS, strict=True):
                x = molecule.coordinates.copy()
                x[divmod(coordinate, 3)] += k * STEP
                there = replace(calculation, molecule=molecule.at(x))
                difference = difference + weight / STEP * first_derivatives(there, kind, P, C_occ, C)
            assert np.abs(rows[coordinate] - difference).max() < 2e-8 * np.abs(rows).max()


@pytest.mark.filterwarnings("ignore")
def test_terms_that_have_none_say_so():
    """Core potentials, fields, exact integrals, Laplacians, and fitting functions that depend on others."""
    molecule = dftfd.molecule("H 0 0 0; Br 0 0 1.42", basis="def2-svp")
    orbitals = [np.zeros((1, molecule.n_ao))]
    P = np.zeros((1, molecule.n_ao, molecule.n_ao))
    none = lambda result, kind: (
        result.calculation.energy(Progress()).of_kind(kind).curvature(P, None, orbitals, Progress())
    )
    exact = dftfd.run_scf(molecule, "scanl", grid_level=0, density_fit=False, max_cycles=1)
    assert none(exact, CoulombExchangeEnergy) is None
    assert none(exact, SemilocalEnergy) is None
    in_field = dftfd.run_scf(molecule, "pbe", grid_level=0, electric_field=(0.0, 0.0, 0.01), max_cycles=1)
    assert none(in_field, OneElectronEnergy) is None
