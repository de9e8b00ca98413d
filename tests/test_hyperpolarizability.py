"""The first hyperpolarisability against second differences of dipole moments in fields."""

import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.response.polarizability import hyperpolarizabilities

FLUORIDE = "H 0 0 0; F 0 0 0.95"


def solved(geometry, xc, spin=0, **options):
    molecule = dftfd.molecule(geometry, basis="6-31g", spin=spin)
    return dftfd.run_scf(molecule, xc, conv_tol=1e-10, **{"grid_level": 0} | options)


def second_difference(result, xc, h=8e-3, **options):
    """d2 mu / dF_z2 (3,): five points."""
    mu = {}
    for k in (-2, -1, 0, 1, 2):
        field = [0.0, 0.0, k * h]
        there = dftfd.run_scf(result.molecule, xc, conv_tol=1e-13, electric_field=field, **options)
        mu[k] = there.dipole
    return (-mu[2] + 16 * mu[1] - 30 * mu[0] + 16 * mu[-1] - mu[-2]) / (12 * h**2)


@pytest.mark.parametrize(
    ("xc", "spin", "geometry"),
    [
        ("hf", 0, FLUORIDE),
        pytest.param("pbe", 0, FLUORIDE, marks=pytest.mark.slow),
        pytest.param("b3lyp", 2, "N 0 0 0; H .1 0 1.0", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:the grid holds")
def test_beta_is_the_second_derivative_of_the_dipole(xc, spin, geometry):
    """Dipole moments in stronger fields share nothing with responses; permutations of the axes change nothing."""
    result = solved(geometry, xc, spin)
    beta, asymmetry = hyperpolarizabilities(result)
    wanted = second_difference(result, xc, grid_level=0)
    assert np.abs(beta[:, 2, 2] - wanted).max() < 1e-3 * max(1.0, np.abs(wanted).max())
    assert asymmetry < 1e-4 * np.abs(beta).max()


def test_a_centre_of_symmetry_leaves_nothing(capsys):
    assert np.abs(solved("H 0 0 0; H 0 0 0.74", "hf").hyperpolarizability()).max() < 1e-6
    assert main(["polarizability", FLUORIDE, "--basis", "6-31g", "--xc", "hf", "--hyper"]) == 0
    assert "first hyperpolarizability" in capsys.readouterr().out
