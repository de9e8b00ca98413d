"""Forces against finite differences of our own energies: every ingredient, method and kind of integral.

No number here comes from the code for forces: they are compared with five-point differences of tightly converged
energies, and with what symmetry requires.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from pyscf import qmmm, scf

import dftfd
from dftfd.errors import NotConvergedError, UnsupportedError
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.two_electron import auxiliary_basis
from dftfd.model.forces import nuclear_forces
from dftfd.scf.orbitals import occupied_orbitals
from dftfd.terms.fitted_derivatives import fitted_gradient
from tests.sample import sample

BENT = "O 0 0.02 0.1173; H 0.1 0.7572 -0.4692; H 0 -0.7572 -0.4692"
TIGHT = {"conv_tol": 2e-14, "grid_level": 0, "nlc_grid_level": 0}
STEP = 1e-3
LITHIUM_HYDRIDE = "Li 0 0 0.05; H 0.1 0 1.65"


def water(**options):
    return dftfd.molecule(BENT, **{"basis": "6-31g"} | options)


def cation():
    return water(charge=1, spin=1)


FIVE_POINT = {1: 8 / 12, 2: -1 / 12}  # error step^4 E^(5) / 30
SEVEN_POINT = {1: 45 / 60, 2: -9 / 60, 3: 1 / 60}  # error step^6 E^(7) / 140


def difference(energy, step=STEP, weights=FIVE_POINT):
    """Derivative at 0 of energy(x)."""
    return sum(w * (energy(k * step) - energy(-k * step)) for k, w in weights.items()) / step


def check(molecule, xc, method="auto", coordinates=((1, 1),), step=STEP, weights=FIVE_POINT, **options):
    """Compares forces along some coordinates with differences of the (free) energy, to 1e-8; returns the result."""
    options = TIGHT | options
    result = dftfd.run_scf(molecule, xc=xc, method=method, **options)
    assert result.converged
    forces = result.forces()

    for atom, axis in coordinates:

        def energy(x, atom=atom, axis=axis):
            R = molecule.coordinates.copy()
            R[atom, axis] += x
            return dftfd.run_scf(molecule.at(R), xc=xc, method=method, guess=result, **options).free_energy

        assert forces[atom, axis] == pytest.approx(-difference(energy, step, weights), abs=1e-8)
    return result


def assert_sum_vanishes(forces):
    assert np.abs(forces.sum(axis=0)).max() < 1e-11


slow = pytest.mark.slow


FUNCTIONALS = "lda,vwn pbe r2scan scan mgga_x_br89 r2scanl b3lyp camb3lyp wb97x-v".split()
ALL = [(xc, fitted) for xc in FUNCTIONALS for fitted in (True, False)]


@pytest.mark.filterwarnings("ignore:the energy of 'scan'")  # on a coarse grid, which the forces are exact for, too
@pytest.mark.parametrize(("xc", "density_fit"), sample(ALL, [("lda,vwn", False), ("r2scan", True)]))
def test_forces_are_the_gradient_of_the_energy(xc, density_fit):
    """Local, gradient, tau, Laplacian, hybrid, range-separated, nonlocal functionals: to 1e-8, sum to 1e-11."""
    assert_sum_vanishes(check(water(), xc, density_fit=density_fit).forces())


OPEN = list(itertools.product(("pbe", "r2scan", "b3lyp", "pbe0"), ("UKS", "ROKS"), (True, False)))


@pytest.mark.parametrize(("xc", "method", "density_fit"), sample(OPEN, [("pbe", "UKS", True), ("pbe0", "ROKS", False)]))
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


CHARGES = np.array([[0.6, 3.0, 2.1, -1.9], [-0.4, -2.4, 1.2, 4.7]])
BESIDE_CHARGES = {  # charge of LiH, functional, method, options
    "RKS": (0, "pbe", "RKS", {}),
    "UKS-field-exact": (1, "b3lyp", "UKS", {"electric_field": (0.01, 0.02, -0.03), "density_fit": False}),
    "ROKS": (1, "lda,vwn", "ROKS", {}),
    "smearing": (0, "hf", "RKS", {"smearing": 0.1}),
    "solvent": (0, "hf", "RKS", {"solvent": "water"}),
    "relativity": (0, "hf", "RKS", {"relativity": "x2c"}),
}


@pytest.mark.parametrize("name", sample(BESIDE_CHARGES, ["RKS", "UKS-field-exact", "smearing", "solvent"]))
def test_forces_on_point_charges(name):
    """As all charges are moved along a drawn direction, differences of the (free) energy to 1e-8."""
    charge, xc, method, options = BESIDE_CHARGES[name]
    molecule = dftfd.molecule(LITHIUM_HYDRIDE, basis="sto-3g", charge=charge, spin=charge)
    run = lambda charges, **more: dftfd.run_scf(molecule, xc, method, point_charges=charges, **TIGHT | options | more)
    result = run(CHARGES)
    along = np.random.default_rng(5).normal(size=(2, 3))
    moved = lambda x: run(CHARGES + np.pad(x * along, [(0, 0), (1, 0)]), guess=result).free_energy
    forces = result.point_charge_forces()
    assert forces.shape == (2, 3) and np.abs(forces).max(axis=1).min() > 1e-3
    assert np.sum(forces * along) == pytest.approx(-difference(moved, 1e-2), abs=1e-8)


def test_molecule_and_charges_push_each_other():
    """Forces on nuclei and on charges add up to zero; a charge may sit where a ghost atom does."""
    molecule = dftfd.molecule(f"{LITHIUM_HYDRIDE}; ghost-H 2.0 0.3 -0.2", basis="sto-3g")
    charges = np.vstack([CHARGES, [0.2, *molecule.coordinates[2]]])
    result = dftfd.run_scf(molecule, "pbe", point_charges=charges, **TIGHT)
    assert np.abs(result.point_charge_forces()).max() > 1e-3
    np.testing.assert_allclose(result.forces().sum(axis=0) + result.point_charge_forces().sum(axis=0), 0, atol=1e-9)


def test_forces_on_point_charges_are_those_of_pyscf():
    """RHF and UHF beside charges with exact integrals, PySCF's grad_hcore_mm and grad_nuc_mm: to 1e-7."""
    for charge in (0, 1):
        molecule = dftfd.molecule(LITHIUM_HYDRIDE, basis="sto-3g", charge=charge, spin=charge)
        method = qmmm.mm_charge(scf.HF(to_pyscf(molecule)), CHARGES[:, 1:], CHARGES[:, 0], unit="Bohr")
        method.conv_tol, method.conv_tol_grad = 1e-13, 1e-9
        method.kernel()
        slopes, P = method.nuc_grad_method(), method.make_rdm1()
        P = P if P.ndim == 2 else P.sum(axis=0)
        result = dftfd.run_scf(molecule, "hf", point_charges=CHARGES, density_fit=False, **TIGHT)
        expected = -(slopes.grad_hcore_mm(P) + slopes.grad_nuc_mm())
        np.testing.assert_allclose(result.point_charge_forces(), expected, rtol=0, atol=1e-7)


def test_where_forces_on_point_charges_are_none():
    """No charges, no rows; as for forces on nuclei, no energy and no convergence are refused."""
    helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), "hf")
    assert helium.point_charge_forces().shape == (0, 3)
    model = replace(helium.calculation, functional=dftfd.get_functional("lb94"))
    with pytest.raises(UnsupportedError, match="model potential"):
        replace(helium, calculation=model).point_charge_forces()
    with pytest.raises(NotConvergedError, match="forces on point charges"):
        replace(helium, converged=False).point_charge_forces()


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
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, 1)
    result = check(molecule, "lda,vwn", grid=(np.asarray(grid.points), np.asarray(grid.weights)))
    assert "fixed in space" in str(nuclear_forces(result))


@slow
@pytest.mark.parametrize("density_fit", [True, False], ids=["fitted", "exact"])
def test_forces_with_relativity(density_fit):
    """The exact two-component Hamiltonian, whose eigenvalues near -2 c^2 leave noise of 1e-10 hartree in the energy.

    At the step of the other tests that would be 1e-7 in the difference, hence longer steps and two points more.
    """
    options = {"relativity": "x2c", "density_fit": density_fit}
    check(water(), "lda,vwn", coordinates=((1, 1), (0, 2)), step=2e-2, weights=SEVEN_POINT, **options)


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


@pytest.mark.parametrize("xc", ["lda,vwn", *(pytest.param(xc, marks=slow) for xc in ("pbe", "r2scan", "b3lyp"))])
def test_torque_is_the_change_of_the_energy_under_rotation(xc):
    """The coarse grid's directions are fixed in space: dE/dtheta of a turning molecule is minus the torque, 1e-8."""
    molecule = water()
    result = dftfd.run_scf(molecule, xc=xc, **TIGHT)

    def energy(angle):
        turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
        return dftfd.run_scf(molecule.at(molecule.coordinates @ turn.T), xc=xc, guess=result, **TIGHT).energy

    forces = nuclear_forces(result)
    assert abs(forces.torque[0]) > 1e-5
    assert forces.torque[0] == pytest.approx(-difference(energy), abs=1e-8)
    assert float(str(forces).split("torque")[1].split()[0]) == pytest.approx(forces.torque[0], rel=0.01)


def test_forces_without_grid_response_say_so_and_do_not_add_up():
    """The comparison mode is named in the output; its net force is the size of the missing term."""
    result = dftfd.run_scf(water(), xc="lda,vwn", **TIGHT)
    partial = nuclear_forces(result, grid_response=False)
    assert "response LEFT OUT" in str(partial) and "response included" in str(nuclear_forces(result))
    assert np.abs(partial.net).max() > 1e-5
    np.testing.assert_array_equal(partial.values, result.forces(grid_response=False))


FIELD = {"electric_field": (0.01, 0.02, -0.03), "point_charges": [(0.5, 4.0, 1.0, 1.0)]}
CARTESIAN = {"basis": "cc-pvdz", "cartesian": True}
HYDROGENS = "H 0 0.1 0; H 0 0 0.9; ghost-H 0.7 0 0.4"
HEAVY = "H 0 0 0; I 0 0.1 1.6"
COMBINATIONS = {  # geometry and its options, functional, method, options of run_scf
    "nonlocal-UKS-field": (BENT, {"charge": 1, "spin": 1}, "wb97x-v", "UKS", FIELD),
    "nonlocal-tau-ROKS": (BENT, {"charge": 1, "spin": 1}, "b97m-v", "ROKS", {}),
    "two-double-integrals": (HYDROGENS, {}, "0.5*vdw-df + 0.5*hartree + 0.2*rvv10", "RKS", {"density_fit": False}),
    "vdw-df2-UKS-ghost": (HYDROGENS, {"charge": 1, "spin": 1}, "vdw-df2", "UKS", {}),
    "laplacian-UKS-exact": (BENT, {"charge": 1, "spin": 1}, "r2scanl", "UKS", {"density_fit": False}),
    "tau-ROKS-cartesian": (BENT, {"charge": 1, "spin": 1} | CARTESIAN, "r2scan", "ROKS", {}),
    "tau-UKS-core-potential": (HEAVY, {"basis": "def2-svp", "charge": 1, "spin": 1}, "r2scan", "UKS", {}),
    "hybrid-core-potential-field": (HEAVY, {"basis": "def2-svp"}, "pbe0", "RKS", FIELD),
    "hybrid-dispersion-smearing": (BENT, {}, "b3lyp-d3bj", "RKS", {"smearing": 0.1, "density_fit": False}),
    "screened-UKS-smearing-dispersion": (BENT, {"charge": 1, "spin": 1}, "hse06-d4", "UKS", {"smearing": 0.1}),
    "hartree-fock-dependences": (BENT, {}, "hf", "RKS", {"linear_dependence": 0.2, "density_fit": False} | FIELD),
    "range-separated-ROKS-exact": (BENT, {"charge": 1, "spin": 1}, "camb3lyp", "ROKS", {"density_fit": False}),
    "excited-state": (BENT, {}, "pbe", "UKS", {"occupations": ([1] * 5, [1, 1, 1, 1, 0, 1])}),
}


@slow
@pytest.mark.filterwarnings("ignore:the grid holds")
@pytest.mark.filterwarnings("ignore:the energy of", "ignore:the exchange of '0.5.vdw-df")
@pytest.mark.parametrize("name", COMBINATIONS)
@pytest.mark.one_in(2)
def test_kinds_of_functionals_and_options_combine(name):
    """Each kind of functional with methods, integrals and surroundings that no other test has it with, to 1e-8."""
    geometry, given, xc, method, options = COMBINATIONS[name]
    molecule = dftfd.molecule(geometry, **{"basis": "6-31g"} | given)
    forces = check(molecule, xc, method, **options).forces()
    if "electric_field" not in options:
        assert_sum_vanishes(forces)


def test_forces_need_convergence():
    """A run that stopped early has none."""
    early = dftfd.run_scf(water(), xc="lda,vwn", max_cycles=1, grid_level=0, convergence="diis")
    with pytest.raises(NotConvergedError, match="converged"):
        early.forces()


@pytest.mark.parametrize("xc", ["mgga_x_tb09,lda_c_pw", "lb94", "mgga_x_bj06", "pbe + 0.1*mgga_x_tb09"])
def test_models_of_the_potential_have_no_forces(xc):
    """A typed error that names the model: analytical and numerical forces, optimisations before they compute."""
    functional = dftfd.get_functional(xc)
    names = [term.name for _, term in functional.terms if not term.has_energy]
    result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), xc="lda,vwn", grid_level=0)
    of_model = replace(result, calculation=replace(result.calculation, functional=functional))
    message = f"'{names[0]}' is a model potential"
    for call in (
        of_model.forces,
        *(lambda f=f: f(water(), xc) for f in (dftfd.optimize, dftfd.numerical_forces)),
    ):
        with pytest.raises(UnsupportedError, match=message):
            call()


def test_what_no_matrix_is_built_for_is_refused_with_ingredient_and_order():
    """Third derivatives of the density, derivatives of tau, before anything is computed; X2C with core potentials."""
    nabla = dftfd.autofd.nabla
    squared = lambda f: dftfd.autofd.dot(f, f)
    functionals = {
        "derivatives of rho of order 3": dftfd.functional("test_third_order")(
            lambda n: squared(nabla(nabla(nabla(n)))) * 1e-3
        ),
        "derivatives of tau of order 1": dftfd.functional("test_nabla_tau")(lambda n, tau: squared(nabla(tau)) * 1e-3),
    }
    for message, functional in functionals.items():
        for call in (dftfd.run_scf, dftfd.optimize, dftfd.numerical_forces):
            with pytest.raises(UnsupportedError, match=message):
                call(water(), functional)
    with pytest.raises(UnsupportedError, match="'x2c' needs all electrons"):
        dftfd.run_scf(dftfd.molecule(HEAVY, basis="def2-svp"), relativity="x2c")


def test_forces_of_a_result_without_fock_matrix_are_the_same():
    """A result that was loaded has no Fock matrix; it is computed again."""
    result = dftfd.run_scf(water(), xc="lda,vwn", grid_level=0, conv_tol=1e-12)
    np.testing.assert_allclose(replace(result, fock=None).forces(), result.forces(), atol=1e-10)


@slow
def test_omega_pbe_without_its_jump_has_forces_of_its_energy():
    """N2 at 1.2 angstrom, where HSE06's energy jumps (finding G6): the functional whose bound on s begins smoothly."""
    molecule = dftfd.molecule("N 0 0 0; N 0 0 1.2", basis="6-31g")
    check(molecule, dftfd.get_functional("hse06", s_from=0), coordinates=((1, 2),))
