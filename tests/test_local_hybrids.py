"""Exact exchange as an ingredient: against exact exchange from integrals, and derivatives against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf.dft import libxc, numint

import dftfd
from dftfd.autofd import compose
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, total_density, uniform_kinetic_energy
from dftfd.functionals.registry import get_functional
from dftfd.functionals.validation import trial_of
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.three_centre import PairPotentials
from dftfd.runtime.progress import Progress
from tests.sample import sample

WATER = "O 0 0 0.12; H 0 0.75 -0.45; H 0.1 -0.75 -0.46"
OH = "O 0 0 0; H 0.3 0.1 0.9"
HEH = "He 0 0 0.1; H 0 0.2 0.9"
AMIDOGEN = "N 0 0 0.1; H 0 0.8 -0.5; H 0.1 -0.8 -0.52"
"""Without the degenerate shell of OH, whose turning on a grid costs next to nothing."""
OPTIONS = {"density_fit": False, "grid_level": 2, "conv_tol": 1e-11}


def local(formula, **parameters) -> Functional:
    return Functional("local", ((1.0, EnergyTerm.from_formula(formula, "local")),)).with_parameters(**parameters)


def shares(network, s2, z):
    """Of exact exchange and of its long range, by a layer of a network."""
    return jax.nn.sigmoid(network @ jnp.stack([s2 / (1 + s2), z, jnp.ones_like(z)]))


def of_dm21_s_features(rho, tau, e_x, e_x_lr, *, omega=0.4, network=np.array([[0.3, -0.2, -1.0], [0.5, 0.4, -2.0]])):  # noqa: B008
    """A mixture, chosen point by point, of local, exact and long-range exact exchange (J. Kirkpatrick et al., 2021)."""
    n, tau = total_density(rho), tau[0] + tau[1]
    z = tau / (tau + uniform_kinetic_energy(n))
    share = compose(shares, network, reduced_gradient_squared(n), z)
    exact, long_range = e_x[0] + e_x[1], e_x_lr[0] + e_x_lr[1]
    return (1 - share[0]) * slater_exchange(n) + share[0] * exact + share[1] * (long_range - exact)


DM21_LIKE = local(of_dm21_s_features)

PBE75 = 0.75 * get_functional("gga_x_pbe") + get_functional("gga_c_pbe")
LOCAL = 0.45 * get_functional("lda_x")
SN_X, SN_LR_X = get_functional("sn_x"), get_functional("sn_lr_x", omega=0.3)
PAIRS = {
    "full range": (0.25 * SN_X + PBE75, get_functional("pbe0")),
    "long range": (0.4 * SN_LR_X + PBE75, PBE75 + Functional("lr", exact_exchange=((0.3, 0.4),))),
    "both": (
        0.15 * SN_X + 0.4 * SN_LR_X + PBE75,
        PBE75 + Functional("cam", exact_exchange=((0.0, 0.15), (0.3, 0.4))),
    ),
    "both, local": (
        0.15 * SN_X + 0.4 * SN_LR_X + LOCAL,
        LOCAL + Functional("cam", exact_exchange=((0.0, 0.15), (0.3, 0.4))),
    ),
}


@pytest.mark.parametrize("omega", [0.0, 0.4])
def test_potentials_of_pairs_are_pyscf_s_integrals(omega):
    """Contracted as formed and screened, against all integrals at once; with slopes."""
    molecule = dftfd.molecule(WATER, basis="6-31g*")
    mole, rng = to_pyscf(molecule), np.random.default_rng(0)
    points, X = rng.normal(size=(11, 3)), rng.normal(size=(2, molecule.n_ao, 11))
    with mole.with_range_coulomb(omega):
        A, slopes = (mole.intor(name, grids=points) for name in ("int1e_grids", "int1e_grids_ip"))
    found = PairPotentials(molecule, omega)
    np.testing.assert_allclose(found(points, X), np.einsum("pmn,anp->amp", A, X), atol=1e-11)
    np.testing.assert_allclose(found.slopes(points, X), np.einsum("xpmn,anp->axmp", slopes, X), atol=1e-11)


@pytest.mark.slow  # 1.4 s and more; responses of one: the next test; forces: below
@pytest.mark.parametrize(
    "kind, atoms, spin, basis",
    [
        ("both", "H 0 0 0; H 0.1 0.2 0.75", 0, "6-31g**"),
        pytest.param("both", WATER, 0, "6-31g", marks=pytest.mark.slow),  # 6 s; so are the open shells
        pytest.param("full range", OH, 1, "6-31g", marks=pytest.mark.slow),
        pytest.param("long range", OH, 1, "6-31g", marks=pytest.mark.slow),
        pytest.param("both", OH, 1, "6-31g", marks=pytest.mark.slow),
    ],
)
def test_semi_numerical_exchange_makes_global_hybrids(kind, atoms, spin, basis):
    """Energies and forces against exact exchange from integrals over both electrons, to the error of the grid."""
    molecule = dftfd.molecule(atoms, spin=spin, basis=basis)
    ours, expected = (dftfd.run_scf(molecule, xc, **OPTIONS | {"grid_level": 3}) for xc in PAIRS[kind])
    assert ours.energy == pytest.approx(expected.energy, abs=1e-6)
    np.testing.assert_allclose(ours.forces(), expected.forces(), atol=1e-5)


@pytest.mark.parametrize("kind", sample(["both, local", "both", "long range"], at=[0]))
def test_response_of_semi_numerical_exchange_is_a_global_hybrid_s(kind):
    """Excitations, full and TDA, singlets and triplets, and a polarisability."""
    molecule = dftfd.molecule(HEH, charge=1, basis="6-31g")
    ours, expected = (dftfd.run_scf(molecule, xc, **OPTIONS) for xc in PAIRS[kind])
    np.testing.assert_allclose(ours.polarizability(), expected.polarizability(), rtol=1e-5, atol=1e-5)
    for options in ({}, {"tda": True}, {"spin": "triplet"}):
        found, other = (result.excitations(2, **options).energies for result in (ours, expected))
        np.testing.assert_allclose(found, other, atol=2e-6)


@pytest.mark.slow  # 5 s each; the response of a closed shell is above, forces of an open one below
@pytest.mark.parametrize("kind", ["both", "long range"])
def test_excitations_of_an_open_shell_are_a_global_hybrid_s(kind):
    molecule = dftfd.molecule(AMIDOGEN, spin=1, basis="sto-3g")
    found, other = (dftfd.run_scf(molecule, xc, **OPTIONS).excitations(3).energies for xc in PAIRS[kind])
    np.testing.assert_allclose(found, other, atol=2e-6)


@pytest.mark.parametrize(
    "name, atoms, spin",
    sample([("lh07t_svwn", HEH, 1), ("lc_lh07t_svwn", HEH, 1), (DM21_LIKE, HEH, 1)], at=[2]),
)
def test_the_matrix_is_the_derivative_of_the_energy(name, atoms, spin):
    """F = dE/dP to 1e-9 hartree, by five-point differences along a change of the density."""
    molecule = dftfd.molecule(atoms, spin=spin, basis="6-31g")
    result = dftfd.run_scf(molecule, name, **OPTIONS | {"grid_level": 1})
    dP = dftfd.run_scf(molecule, "hf", density_fit=False).density_matrix - result.density_matrix
    energy, P, h = result.calculation.energy(Progress()), result.density_matrix + 0.5 * dP, 0.02
    E = {k: sum(energy.evaluate(P + k * h * dP).energies.values()) for k in (-2, -1, 1, 2)}
    slope = (8 * (E[1] - E[-1]) - (E[2] - E[-2])) / (12 * h)
    assert np.sum(energy.evaluate(P).F * dP) == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize(
    "name, atoms, spin",
    [
        pytest.param("lh07t_svwn", "F 0 0 0; H 0.1 0.2 0.9", 0, marks=pytest.mark.slow),
        ("lc_lh07t_svwn", HEH, 1),
        pytest.param("lh07t_svwn", AMIDOGEN, 1, marks=pytest.mark.slow),
        pytest.param("lc_lh07t_svwn", "F 0 0 0; H 0.1 0.2 0.9", 0, marks=pytest.mark.slow),
        pytest.param(DM21_LIKE, HEH, 1, marks=pytest.mark.slow),
    ],
)
def test_forces_of_local_hybrids_are_differences(name, atoms, spin):
    """Along a direction that moves every nucleus, 1e-7 hartree/bohr; the net force is zero."""
    molecule = dftfd.molecule(atoms, spin=spin, basis="3-21g")
    energy = lambda molecule: dftfd.run_scf(molecule, name, **OPTIONS | {"grid_level": 1}).energy
    forces = dftfd.run_scf(molecule, name, **OPTIONS | {"grid_level": 1}).forces()
    x, h = molecule.coordinates, 2e-3
    along = np.random.default_rng(1).normal(size=x.shape)
    at = [energy(molecule.at(x + k * h * along)) for k in (-2, -1, 1, 2)]
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
    assert -np.sum(forces * along) == pytest.approx(slope, abs=1e-7)
    np.testing.assert_allclose(forces.sum(axis=0), 0.0, atol=1e-11)


def test_lh07t_svwn_is_the_formula_with_another_program_s_ingredients():
    """E_xc of a converged density from PySCF's densities, tau and pair potentials, and libxc's VWN: 1e-9 hartree."""
    molecule = dftfd.molecule(AMIDOGEN, spin=1, basis="6-31g")
    result = dftfd.run_scf(molecule, "lh07t_svwn", **OPTIONS | {"grid_level": 1})
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, 1)
    mole, points, weights = to_pyscf(molecule), np.asarray(grid.points), np.asarray(grid.weights)
    ao, exchange, densities = numint.eval_ao(mole, points, deriv=1), 0.0, []
    A = mole.intor("int1e_grids", grids=points)
    for P in result.density_matrix:
        n, *gradient, tau = numint.eval_rho(mole, ao, P, xctype="MGGA", with_lapl=False)
        X = ao[0] @ P
        e_x = -0.5 * np.einsum("pm,pmn,pn->p", X, A, X)
        g = 0.48 * np.sum(np.square(gradient), axis=0) / (8 * n * tau)
        local = -0.75 * (3 / np.pi) ** (1 / 3) * 2 ** (1 / 3) * n ** (4 / 3)
        exchange, densities = exchange + weights @ (g * e_x + (1 - g) * local), [*densities, n]
    eps = libxc.eval_xc("lda,vwn", densities, spin=1)[0] - libxc.eval_xc("lda,", densities, spin=1)[0]
    assert result.energies["xc"] == pytest.approx(exchange + weights @ (sum(densities) * eps), abs=1e-9)


@pytest.mark.parametrize(
    "atoms, charge",
    [
        ("H 0 0 0;", 0),
        *(pytest.param(*of, marks=pytest.mark.slow) for of in (("Li 0 0 0;", 2), ("H 0 0 0; H 0 0 1.06", 1))),
    ],
)
def test_one_electron_has_no_self_interaction(atoms, charge):
    """With g = t = 1 exchange is exact where one orbital alone has a density: hydrogen, its ions, H2+ are HF's."""
    molecule = dftfd.molecule(atoms, charge=charge, spin=1, basis="def2-svp")
    exact = dftfd.run_scf(molecule, "hf", density_fit=False).energy
    found = dftfd.run_scf(molecule, get_functional("lh07t_x", a=1.0), density_fit=False)
    assert found.converged and found.energy == pytest.approx(exact, abs=1e-8)


def test_what_needs_a_density_alone_refuses(tmp_path):
    molecule = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    f = get_functional("lh07t_svwn")
    result = dftfd.run_scf(molecule, f, density_fit=False, grid_level=1)
    rho, tau = dftfd.density_function(molecule, result.density_matrix, tau=True)
    for refused in (
        lambda: f.energy(rho, tau),
        lambda: f.potential(rho, tau),
        lambda: dftfd.energy(molecule, f),
        lambda: dftfd.differentiable_scf(molecule, xc=f)(f),
        lambda: dftfd.export(f, tmp_path),
        lambda: result.v_xc(np.zeros((1, 3))),
        lambda: result.to_pyscf(),
        lambda: dftfd.audit(f),
    ):
        with pytest.raises(UnsupportedError, match="exact-exchange energy density"):
            refused()


def test_formulas_of_long_range_exchange_say_their_omega():
    with pytest.raises(FunctionalError, match="needs a parameter omega"):
        EnergyTerm.from_formula(lambda e_x_lr: e_x_lr[0], "f")
    molecule = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    with pytest.raises(FunctionalError, match="omega > 0"):
        dftfd.run_scf(molecule, get_functional("sn_lr_x", omega=0.0), density_fit=False)
    two = SN_LR_X + get_functional("sn_lr_x", omega=0.4)
    with pytest.raises(UnsupportedError, match=r"0\.3, 0\.4"):
        dftfd.run_scf(molecule, two, density_fit=False)


def test_derivative_by_a_parameter_is_a_difference():
    molecule = dftfd.molecule("Li 0 0 0;", spin=1, basis="sto-3g")
    run = lambda a: dftfd.run_scf(molecule, get_functional("lh07t_svwn", a=a), **OPTIONS | {"grid_level": 1})
    difference = (run(0.481).energy - run(0.479).energy) / 2e-3
    assert run(0.48).parameter_gradient()["lh07t_x"]["a"] == pytest.approx(difference, abs=1e-6)


@pytest.mark.slow  # 1.5 s; parameters as operands: test_shared_code; their derivative: the test above
def test_another_fraction_compiles_nothing_and_is_right():
    """A parameter set by hand is an operand here too."""
    molecule = dftfd.molecule("H 0 0 0; F 0 0 0.92", basis="sto-3g")
    run = lambda a: dftfd.run_scf(molecule, get_functional("lh07t_svwn", a=a), **OPTIONS).energy
    assert run(0.3) != run(0.2)
    no_exact = dftfd.run_scf(molecule, "svwn", **OPTIONS).energy
    assert run(1e-14) == pytest.approx(no_exact, abs=1e-10)


def test_other_formulas_are_traced_without_exact_exchange():
    """Their fingerprints, which stand in saved results, do not depend on ingredients that they do not take."""
    (_, pbe), (_, local_hybrid) = get_functional("gga_x_pbe").terms[0], get_functional("lh07t_x").terms[0]
    jets = lambda term: [spec.shape for spec in trial_of(term).specs]
    assert jets(pbe) == [(2,), (2, 3), (2,), (3,)]
    assert jets(local_hybrid) == [(2,), (2, 3), (2,), (2,), (3,)]


@pytest.mark.slow
def test_second_derivatives_by_the_nuclei_agree_by_both_methods():
    """Orbital response with differences of Fock matrices, against differences of forces; moved as a whole, nothing."""
    molecule = dftfd.molecule("F 0 0 0; H 0.1 0.2 0.9", basis="sto-3g")
    result = dftfd.run_scf(molecule, "lh07t_svwn", **OPTIONS | {"grid_level": 1})
    found = result.hessian(points=4)
    np.testing.assert_allclose(found, result.hessian("differences", points=4, step=2e-3), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-8)
