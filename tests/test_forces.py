"""Forces against finite differences of our own energies: every ingredient, method and kind of integral.

No number here comes from the code for forces: they are compared with five-point differences of tightly converged
energies, and with what symmetry requires.
"""

from dataclasses import replace

import numpy as np
import pytest

import dftfd
from dftfd.errors import NotConvergedError, UnsupportedError
from dftfd.fitted_gradient import fitted_gradient
from dftfd.forces import nuclear_forces
from dftfd.interop.two_electron import auxiliary_basis
from dftfd.scf.orbitals import occupied_orbitals

BENT = "O 0 0.02 0.1173; H 0.1 0.7572 -0.4692; H 0 -0.7572 -0.4692"
TIGHT = {"conv_tol": 2e-14, "grid_level": 0, "nlc_grid_level": 0}
STEP = 1e-3


def water(**options):
    return dftfd.molecule(BENT, **{"basis": "6-31g"} | options)


def cation():
    return water(charge=1, spin=1)


def five_point(energy, step):
    """Derivative at 0 of energy(x): its error is step^4 E^(5)/30."""
    return sum(w * (energy(k * step) - energy(-k * step)) for k, w in ((1, 8), (2, -1))) / (12 * step)


def check(molecule, xc, method="auto", coordinates=((1, 1),), tolerance=1e-8, step=STEP, **options):
    """Compares forces along some coordinates with differences of the (free) energy; returns the result."""
    options = TIGHT | options
    result = dftfd.run_scf(molecule, xc=xc, method=method, **options)
    assert result.converged
    forces = result.forces()

    for atom, axis in coordinates:

        def energy(x, atom=atom, axis=axis):
            R = molecule.coordinates.copy()
            R[atom, axis] += x
            return dftfd.run_scf(molecule.at(R), xc=xc, method=method, guess=result, **options).free_energy

        assert forces[atom, axis] == pytest.approx(-five_point(energy, step), abs=tolerance)
    return result


def assert_sum_vanishes(forces):
    assert np.abs(forces.sum(axis=0)).max() < 1e-11


slow = pytest.mark.slow


@pytest.mark.filterwarnings("ignore:the energy of 'scan'")  # on a coarse grid, which the forces are exact for, too
@pytest.mark.parametrize("density_fit", [True, False], ids=["fitted", "exact"])
@pytest.mark.parametrize(
    "xc",
    [
        "lda,vwn",
        "pbe",
        "r2scan",
        pytest.param("scan", marks=slow),
        pytest.param("mgga_x_br89", marks=slow),
        pytest.param("r2scanl", marks=slow),
        pytest.param("b3lyp", marks=slow),
        pytest.param("camb3lyp", marks=slow),
        pytest.param("wb97x-v", marks=slow),
    ],
)
def test_forces_are_the_gradient_of_the_energy(xc, density_fit):
    """Local, gradient, tau, Laplacian, hybrid, range-separated, nonlocal functionals: to 1e-8, sum to 1e-11."""
    assert_sum_vanishes(check(water(), xc, density_fit=density_fit).forces())


@pytest.mark.parametrize("density_fit", [True, False], ids=["fitted", "exact"])
@pytest.mark.parametrize("method", ["UKS", "ROKS"])
@pytest.mark.parametrize("xc", [pytest.param("pbe", marks=slow), pytest.param("r2scan", marks=slow), "b3lyp"])
def test_forces_of_radicals(xc, method, density_fit):
    """The energy-weighted density of both kinds of open shell, one formula, to 1e-8 hartree/bohr."""
    assert_sum_vanishes(check(cation(), xc, method, density_fit=density_fit).forces())


@slow
@pytest.mark.parametrize("density_fit", [True, False], ids=["fitted", "exact"])
def test_forces_with_effective_core_potentials(density_fit):
    """Hydrogen iodide, 28 electrons of iodine in its core potential; a grid of the full nuclear charge."""
    molecule = dftfd.molecule("H 0 0 0; I 0 0.1 1.6", basis="def2-svp")
    assert_sum_vanishes(check(molecule, "pbe", coordinates=((0, 2), (1, 1)), density_fit=density_fit).forces())


def density_hessian_functional():
    """A made-up energy with every entry of the density's Hessian: e = -0.01 tr(H H) / (1 + n^2)."""

    @dftfd.functional("test_hessian_squared")
    def hessian_squared(n):
        H = dftfd.autofd.nabla(dftfd.autofd.nabla(n))
        return dftfd.autofd.dot(H, H) / (1 + n * n) * -0.01

    return hessian_squared


@slow
def test_forces_of_a_functional_of_the_density_hessian():
    """All second derivatives of the density, which need third derivatives of the orbitals."""
    check(water(), dftfd.get_functional("lda,vwn") + density_hessian_functional())


def test_forces_in_a_field_and_near_charges():
    """A uniform field and fixed point charges act on nuclei and electrons; the forces add up to -dE/d(translation)."""
    options = {"electric_field": (0.01, 0.02, -0.03), "point_charges": [(0.5, 4.0, 1.0, 1.0), (-1.0, 0.0, 0.0, -6.0)]}
    check(water(), "lda,vwn", **options)


def test_smeared_occupations_give_the_gradient_of_the_free_energy():
    """Fermi occupations of a width at which several orbitals are partly filled."""
    result = check(water(), "lda,vwn", smearing=0.1)
    assert np.any((result.mo_occ > 0.01) & (result.mo_occ < 1.99))


def test_removed_linear_dependences_turn_with_the_overlap():
    """A threshold that removes functions from the basis: the kept space itself depends on the geometry."""
    result = check(water(), "lda,vwn", linear_dependence=0.2)
    assert result.mo_coeff.shape[2] < result.molecule.n_ao


def test_a_given_grid_stays_where_it_is():
    """Points handed over as numbers do not move: the forces are the gradient for that grid."""
    molecule = water()
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, 0)
    result = check(molecule, "lda,vwn", grid=(np.asarray(grid.points), np.asarray(grid.weights)))
    assert "fixed in space" in str(nuclear_forces(result))


@slow
def test_forces_with_relativity():
    """The exact two-component Hamiltonian's derivative, by PySCF, to 1e-7."""
    check(water(), "lda,vwn", relativity="x2c", tolerance=1e-7)


@pytest.mark.parametrize("method", ["RKS", "UKS"])
def test_fitted_forces_in_little_memory_are_the_same(method):
    """Projections that do not fit are formed for a few orbitals at a time; the sum is the same to rounding."""
    result = dftfd.run_scf(cation() if method == "UKS" else water(), "hf", method)
    C = occupied_orbitals(result.mo_coeff, result.mo_occ)
    auxiliary, _ = auxiliary_basis(result.molecule, exact_exchange=True)
    arguments = (result.molecule, auxiliary, 0.0, result.density_matrix.sum(axis=0), [(0.5, C_s) for C_s in C])
    whole, pieces = (fitted_gradient(*arguments, memory_limit=limit) for limit in (1e9, 3e4))
    np.testing.assert_allclose(pieces, whole, atol=1e-11)
    assert np.abs(whole).max() > 0.01


@pytest.mark.filterwarnings("ignore:the grid holds")  # the sum rule must hold on a coarse grid, too
def test_ghosts_feel_the_grid_and_their_functions_only():
    """A ghost's basis functions and points have a gradient like any other's, its missing nucleus none."""
    molecule = dftfd.molecule("He 0 0 0; ghost-He 0 0.3 1.1", basis="6-31g")
    assert_sum_vanishes(check(molecule, "lda,vwn", coordinates=((1, 2),)).forces())


def test_torque_is_the_change_of_the_energy_under_rotation():
    """The coarse grid's directions are fixed in space: dE/dtheta of a turning molecule is minus the torque, 1e-8."""
    molecule = water()
    result = dftfd.run_scf(molecule, xc="lda,vwn", **TIGHT)

    def energy(angle):
        turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
        return dftfd.run_scf(molecule.at(molecule.coordinates @ turn.T), xc="lda,vwn", **TIGHT).energy

    torque = nuclear_forces(result).torque[0]
    assert abs(torque) > 1e-5
    assert torque == pytest.approx(-five_point(energy, STEP), abs=1e-8)


def test_forces_without_grid_response_say_so_and_do_not_add_up():
    """The comparison mode is named in the output; its net force is the size of the missing term."""
    result = dftfd.run_scf(water(), xc="lda,vwn", **TIGHT)
    partial = nuclear_forces(result, grid_response=False)
    assert "response LEFT OUT" in str(partial) and "response included" in str(nuclear_forces(result))
    assert np.abs(partial.net).max() > 1e-5
    np.testing.assert_array_equal(partial.values, result.forces(grid_response=False))


def test_forces_need_convergence_and_an_energy():
    """Typed errors: a run that stopped early, and a model of the potential alone, which is named."""
    early = dftfd.run_scf(water(), xc="lda,vwn", max_cycles=1, grid_level=0, convergence="diis")
    with pytest.raises(NotConvergedError, match="converged"):
        early.forces()
    model = dftfd.run_scf(water(), xc="mgga_x_tb09,lda_c_pw", grid_level=0, conv_tol=1e-6)
    with pytest.raises(UnsupportedError, match="'mgga_x_tb09' is a model of the potential alone"):
        model.forces()


def test_forces_of_a_result_without_fock_matrix_are_the_same():
    """A result that was loaded has no Fock matrix; it is computed again."""
    result = dftfd.run_scf(water(), xc="lda,vwn", grid_level=0, conv_tol=1e-12)
    np.testing.assert_allclose(replace(result, fock=None).forces(), result.forces(), atol=1e-10)
