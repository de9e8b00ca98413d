"""dftfd.energy(molecule, functional)(P): the energy of a density matrix as code that JAX transforms.

The references are the engine's energies, Fock matrices and responses, which NumPy and hand-laid blocks compute; PySCF's
energy and Fock matrix on the same grid; and finite differences of the engine's energies for derivatives by parameters.
"""

import inspect
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import dft

import dftfd
from dftfd.autofd import compose
from dftfd.errors import InputError, ResourceError, UnsupportedError
from dftfd.functionals.base import long_range_exchange
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
from dftfd.libcint.mole import to_pyscf
from dftfd.model.calculation import Calculation
from dftfd.model.options import OPTIONS, Options
from dftfd.runtime.progress import Progress
from tests.verification import pages

BENT = "O 0 0.02 0.1173; H 0.1 0.7572 -0.4692; H 0 -0.7572 -0.4692"
AROUND = {"electric_field": (0.01, 0.02, -0.03), "point_charges": [(0.5, 4.0, 1.0, 1.0)]}
slow = pytest.mark.slow


def bowl(r):
    """A smooth potential without symmetry."""
    return 0.02 * jnp.sum((r - jnp.array([0.3, -0.2, 0.5])) ** 2)


def water(spins=1):
    """Water for one density matrix, its cation for two."""
    return dftfd.molecule(BENT, basis="sto-3g", charge=spins - 1, spin=spins - 1)


def density_near_the_ground_state(molecule, rng, noise=0.02):
    """P (spin, ao, ao) of no solution: the starting density of an SCF, moved at random, and a change dP."""
    result = dftfd.run_scf(molecule, "lda,vwn", grid_level=0, max_cycles=2, allow_unconverged=True, convergence="diis")
    P = result.density_matrix
    changes = rng.normal(size=(2, *P.shape))
    first, second = changes + changes.transpose(0, 1, 3, 2)
    return P + noise * first, 0.1 * second


def engine(molecule, xc, **options):
    """The terms of the engine's energy."""
    return Calculation.of(molecule, Options(xc=xc, **options)).build(Progress()).energy


COARSE = {"grid_level": 0, "nlc_grid_level": 0}
RANGES = dftfd.get_functional("lda_x") + 0.19 * dftfd.exact_exchange + 0.46 * long_range_exchange(0.33)
CASES = [
    pytest.param("pbe", 1, {}, id="GGA, fitted integrals"),
    pytest.param("hf", 1, {"relativity": "x2c"} | AROUND, id="no grid, relativity, field and charges"),
    pytest.param("pbe-d3bj", 1, {"external_potential": bowl}, id="dispersion and a given potential", marks=slow),
    pytest.param("pbe0", 2, {"density_fit": False}, id="hybrid of two spins, exact integrals", marks=slow),
    pytest.param(RANGES, 1, {}, id="range separation, fitted integrals", marks=slow),
    pytest.param(RANGES, 2, {"density_fit": False}, id="range separation, exact integrals", marks=slow),
    pytest.param("mgga_x_tpss", 2, {}, id="kinetic energy density", marks=slow),
    pytest.param("br89", 1, {}, id="Laplacian of the density", marks=slow),
    pytest.param("vv10", 1, {}, id="double integral", marks=slow),
    pytest.param("vdw-df", 2, {}, id="double integral of another kind", marks=slow),
]


@pytest.mark.parametrize(("xc", "spins", "options"), CASES)
def test_energy_gradient_and_second_derivative_are_the_engines(xc, spins, options, rng):
    """Every component to 1e-10 hartree, jax.grad the Fock matrix and jax.jvp of it the response, to 1e-9."""
    molecule, options = water(spins), COARSE | options
    P, dP = density_near_the_ground_state(molecule, rng)
    E, terms = dftfd.energy(molecule, xc, **options), engine(molecule, xc, **options)
    expected = terms.evaluate(P)
    components = E.components(P)
    found = dict.fromkeys(expected.energies, 0.0) | {name: float(energy) for name, energy in components.items()}
    assert found == pytest.approx(expected.energies, abs=1e-10)
    assert float(E(P)) == pytest.approx(sum(expected.energies.values()), abs=1e-10)
    F, dF = jax.jvp(jax.grad(E), (P,), (dP,))
    assert np.asarray(F) == pytest.approx(expected.F, abs=1e-9)
    assert np.asarray(dF) == pytest.approx(terms.response(P)(dP), abs=1e-9)


@pytest.mark.slow  # 1.5 s; both equal the engine's above, and those PySCF's in tests of the SCF
def test_energy_and_fock_matrix_are_pyscfs(rng, pyscf_grid):
    """PBE0 of water with exact integrals on PySCF's grid: energy to 1e-9 hartree, Fock matrix to 1e-8."""
    molecule = water()
    P, _ = density_near_the_ground_state(molecule, rng, noise=0.0)
    points, weights = pyscf_grid(molecule, 1)
    mf = dft.RKS(to_pyscf(molecule), xc="pbe0")
    mf.grids.coords, mf.grids.weights = points, weights
    E = dftfd.energy(molecule, "pbe0", grid=(points, weights), density_fit=False)
    assert float(E(P)) == pytest.approx(mf.energy_tot(P[0]), abs=1e-9)
    assert np.asarray(jax.grad(E)(P)[0]) == pytest.approx(mf.get_fock(dm=P[0]), abs=1e-8)
    assert np.asarray(E.S) == pytest.approx(mf.get_ovlp(), abs=1e-14)
    assert np.asarray(E.H_core) == pytest.approx(mf.get_hcore(), abs=1e-12)


def test_hessian_and_vmap(rng):
    """The full Hessian of helium has the engine's response in its columns; vmap goes over density matrices."""
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    E, terms = dftfd.energy(molecule, "lda_x", grid_level=0), engine(molecule, "lda_x", grid_level=0)
    many = rng.uniform(0.3, 0.6, size=(3, 1, 2, 2))
    many = many + many.transpose(0, 1, 3, 2)
    change = terms.response(many[0])
    H = np.asarray(jax.jit(jax.hessian(E))(many[0]))
    for i, j in np.ndindex(2, 2):
        dP = np.zeros((1, 2, 2))
        dP[0, i, j] += 0.5
        dP[0, j, i] += 0.5
        assert H[..., 0, i, j] == pytest.approx(change(dP), abs=1e-9)
    expected = [sum(terms.evaluate(P).energies.values()) for P in many]
    assert np.asarray(jax.jit(jax.vmap(E))(many)) == pytest.approx(expected, abs=1e-10)
    assert np.asarray(jax.jit(jax.vmap(jax.grad(E)))(many)[2]) == pytest.approx(terms.evaluate(many[2]).F, abs=1e-9)


def test_a_density_matrix_counts_by_its_symmetric_part(rng):
    """So that derivatives by P are symmetric: E(P + A) = E(P) for antisymmetric A."""
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    E = dftfd.energy(molecule, "hf")
    A = np.array([[[0.0, 0.3], [-0.3, 0.0]]])
    P = np.array([[[0.9, 0.4], [0.4, 0.5]]])
    assert float(E(P + A)) == pytest.approx(float(E(P)), abs=1e-14)
    F = np.asarray(jax.grad(E)(P + A))
    assert F == pytest.approx(F.transpose(0, 2, 1), abs=1e-14)


# -------------------------------------------------------------------------------------------- derivatives by parameters


def difference(energy_at, x, h):
    """Central difference of fourth order."""
    return (8 * (energy_at(x + h) - energy_at(x - h)) - energy_at(x + 2 * h) + energy_at(x - 2 * h)) / (12 * h)


def test_derivatives_by_the_parameters_of_a_functional(rng):
    """dE/d kappa of PBE exchange, and dE/da of a hybrid's share of exact exchange, against the engine's energies."""
    molecule = water()
    P, _ = density_near_the_ground_state(molecule, rng)
    x, hf = dftfd.get_functional("gga_x_pbe"), dftfd.exact_exchange
    E = dftfd.energy(molecule, 0.5 * hf + x, grid_level=0)

    def of_the_engine(functional):
        return sum(engine(molecule, functional, grid_level=0).evaluate(P).energies.values())

    with_kappa = lambda kappa: 0.5 * hf + x.with_parameters(kappa=kappa)
    with_share = lambda a: a * hf + (1 - a) * x
    for functional, value in ((with_kappa, 0.8), (with_share, 0.25)):
        derived = jax.jit(jax.grad(lambda v, f=functional: E.with_functional(f(v))(P)))(value)
        numerical = difference(lambda v, f=functional: of_the_engine(f(v)), value, 1e-2)
        assert float(derived) == pytest.approx(numerical, abs=1e-8)


def test_an_energy_is_a_pytree_of_its_arrays(rng):
    """dE/dH_core is the total density; the functional's coefficients are leaves; it goes through jit as an argument."""
    molecule = water(2)
    P, _ = density_near_the_ground_state(molecule, rng)
    E = dftfd.energy(molecule, 0.2 * dftfd.exact_exchange + 0.8 * dftfd.get_functional("lda_x"), grid_level=0)
    slopes = jax.jit(jax.grad(lambda E, P: E(P)))(E, P)
    assert np.asarray(slopes.H_core) == pytest.approx(P.sum(axis=0), abs=1e-12)
    (_, slope), *_ = slopes.functional.exact_exchange
    assert 0.2 * float(slope) == pytest.approx(float(E.components(P)["exact_exchange"]), abs=1e-12)
    assert slopes.n_electrons == E.n_electrons == (5, 4)


@slow
@pytest.mark.parametrize("spins", [1, 2])
def test_derivatives_by_a_network(spins, rng):
    """dE/d(weights) of a learned functional along a random direction against the engine's energies."""
    eqx = pytest.importorskip("equinox", reason="pip install 'dftfd[learned]'")

    @dftfd.functional("t_gga_x_door")
    @spin_scaled
    def learned(n, *, net=eqx.nn.MLP("scalar", "scalar", 4, 1, jax.nn.silu, key=jax.random.key(0))):  # noqa: B008
        s2 = reduced_gradient_squared(n)
        return slater_exchange(n) * (1 + 0.8 * compose(net, s2 / (1 + s2)))

    molecule = water(spins)
    P, _ = density_near_the_ground_state(molecule, rng)
    E = dftfd.energy(molecule, learned, grid_level=0)
    arrays, rest = eqx.partition(learned.parameters["net"], eqx.is_inexact_array)
    moved = lambda t, direction: jax.tree.map(lambda x, d: x + t * d, arrays, direction)
    direction = jax.tree.map(lambda x: rng.normal(size=x.shape), arrays)
    functional = lambda arrays: learned.with_parameters(net=eqx.combine(arrays, rest))
    derivative = jax.jit(jax.grad(lambda arrays, P: E.with_functional(functional(arrays))(P)))(arrays, P)
    derived = sum(float(jnp.vdot(g, d)) for g, d in zip(*map(jax.tree.leaves, (derivative, direction)), strict=True))
    at = lambda t: engine(molecule, functional(moved(t, direction)), grid_level=0).evaluate(P).energies["xc"]
    assert derived == pytest.approx(difference(at, 0.0, 1e-3), abs=1e-8)


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.fixture(scope="module")
def helium():
    """E of helium with PBE and fitted integrals."""
    return dftfd.energy(dftfd.molecule("He 0 0 0;", basis="6-31g"), "pbe", grid_level=0)


@pytest.mark.parametrize("P", [np.eye(2), np.zeros((3, 2, 2)), np.zeros((1, 3, 3)), np.full((1, 2, 2), np.nan), "P"])
def test_other_things_than_density_matrices_are_refused(helium, P):
    """The shape that would fit is named, inside of a transformation too."""
    with pytest.raises(InputError, match=r"density matrix of shape \(1 or 2, 2, 2\)"):
        helium(P)


def test_wrong_shapes_are_refused_inside_of_transformations(helium):
    """Where P has no values yet."""
    for P in (jnp.eye(2), jnp.zeros((3, 2, 2))):
        with pytest.raises(InputError, match=r"density matrix of shape \(1 or 2, 2, 2\)"):
            jax.jit(jax.grad(helium))(P)


@pytest.mark.parametrize(
    ("xc", "lacks"),
    [
        ("pbe0", "other fitting functions"),
        ("pbe-d3bj", "another dispersion correction"),
        ("vv10", "a grid for double integrals"),
    ],
)
def test_functionals_that_need_other_arrays_are_refused(helium, xc, lacks):
    """with_functional changes the formula, not what was computed for it."""
    with pytest.raises(InputError, match=lacks):
        helium.with_functional(xc)


def test_other_integrals_and_derivatives_are_refused():
    """A range of exact exchange, a grid, or derivatives of orbitals that are not there."""
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    E = dftfd.energy(molecule, "lda_x", grid_level=0, density_fit=False)
    with pytest.raises(InputError, match="exact exchange of range 0.11"):
        E.with_functional("hse06")
    with pytest.raises(InputError, match="a quadrature grid"):
        dftfd.energy(molecule, "hf", density_fit=False).with_functional("pbe")
    with pytest.raises(InputError, match="derivatives of the orbitals of order 1"):
        E.with_functional("gga_x_pbe")(np.eye(2)[None])


def test_models_of_the_potential_and_large_systems_are_refused():
    """The first have no energy; of the second the bytes are named that they would take, and the limit."""
    with pytest.raises(UnsupportedError, match="gga_x_lb.*has no energy|model potential"):
        dftfd.energy(water(), "lb94")
    large = dftfd.molecule("".join(f"He 0 0 {3 * i};" for i in range(60)), basis="def2-svp")
    with pytest.raises(ResourceError, match=r"needs at least .* GiB, of which .* for all two-electron integrals"):
        dftfd.energy(large, "pbe", density_fit=False, grid_level=0)
    with pytest.raises(InputError, match="energy has no option 'gridlevel'; the closest ones are grid_level"):
        dftfd.energy(water(), "pbe", gridlevel=0)
    with pytest.raises(InputError, match="grid_level=12"):
        dftfd.energy(water(), "pbe", grid_level=12)


def test_options_are_those_of_run_scf():
    """The same names and defaults; those that decide about orbitals, and which density matrix, have no meaning here.

    Solvents and perturbation theory are not code of JAX.
    """
    parameters = dict(list(inspect.signature(dftfd.energy).parameters.items())[2:])
    deciding = {name for name, option in OPTIONS.items() if option.decides == "energy"}
    assert deciding - set(parameters) == {"xc", "method", "linear_dependence"} | {
        "solvent",
        "solvent_model",
        "frozen_core",
    }
    assert {name: p.default for name, p in parameters.items()} == {name: OPTIONS[name].default for name in parameters}


@slow
def test_the_script_of_the_documentation_runs(capsys):
    """docs/energy.md, its blocks one after the other: differences of zero, ten electrons."""
    found = pages.run(Path(__file__).parents[1] / "docs/energy.md")
    assert float(found["E"](found["P"])) < -75
    assert np.asarray(found["F"]) == pytest.approx(found["result"].fock, abs=1e-4)  # of the density before the last
    printed = capsys.readouterr().out.split("\n")
    assert abs(float(printed[0])) < 1e-10 and float(printed[-2]) == pytest.approx(10, abs=1e-3)
