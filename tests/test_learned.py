"""Networks as parameters of functionals: registration, derivatives, self-consistent use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import compose
from dftfd.functionals import registry
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
from dftfd.functionals.definition import from_definition
from dftfd.grids.molecular import molecular_grid
from dftfd.interop.libxc import evaluate
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder

eqx = pytest.importorskip("equinox", reason="pip install 'dftfd[learned]'")

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"


def network(seed):
    return eqx.nn.MLP("scalar", "scalar", 4, 1, jax.nn.silu, key=jax.random.key(seed))


@pytest.fixture(scope="module")
def learned():
    """A functional whose enhancement factor is a network of u = s^2 / (1 + s^2), for the time of these tests."""
    before = dict(registry._REGISTRY)

    @dftfd.functional("t_gga_x_network")
    @spin_scaled
    def exchange(n, *, net=network(0), kappa=0.804):  # noqa: B008
        """e_x^LDA (1 + kappa u net(u))."""
        s2 = reduced_gradient_squared(n)
        u = s2 / (1 + s2)
        return slater_exchange(n) * (1 + kappa * u * compose(net, u))

    yield exchange
    registry._REGISTRY.clear()
    registry._REGISTRY.update(before)


def test_a_network_is_a_parameter(learned):
    """It is found by name and replaced like a number; its arrays are leaves, its structure is not; kernels differ."""
    other = dftfd.get_functional("t_gga_x_network", net=network(1))
    leaves = jax.tree_util.tree_leaves(other)
    assert any(getattr(x, "shape", ()) == (4, 1) for x in leaves)
    same, again = jax.tree_util.tree_structure(learned), jax.tree_util.tree_structure(other)
    assert same == again
    x = np.array([[0.3], [0.2]])
    given = dict(rho=x[0], sigma=x[1])
    one, two = (evaluate(f, **given).exc[0] for f in (learned, other))
    assert one != two
    u = 0.2 / (4 * (3 * np.pi**2) ** (2 / 3) * 0.3 ** (8 / 3))
    u = u / (1 + u)
    for f, net, found in ((learned, network(0), one), (other, network(1), two)):
        expected = -0.75 * (3 / np.pi) ** (1 / 3) * 0.3 ** (1 / 3) * (1 + 0.804 * u * float(net(jnp.array(u))))
        assert found == pytest.approx(expected, rel=1e-13), f


@pytest.mark.slow
def test_energies_differentiate_with_respect_to_the_network(learned):
    """dE/d(weights) along a random direction against a central difference of the energy on a few points."""
    grid = molecular_grid([2], np.zeros((1, 3)), n_radial=8, n_angular=6, pruning=None)
    points, weights = jnp.asarray(grid.points), jnp.asarray(grid.weights)
    n = jnp.exp(-2 * jnp.linalg.norm(points, axis=1))
    slope = -2 * n / jnp.linalg.norm(points, axis=1)
    density = jnp.stack([n, *(slope * x for x in points.T)])[None]
    arrays, rest = eqx.partition(network(2), eqx.is_inexact_array)

    @jax.jit
    def energy(arrays):
        f = learned.with_parameters(net=eqx.combine(arrays, rest))
        return XCKernel(f, 1).energy(points, weights, density)

    leaves, structure = jax.tree_util.tree_flatten(arrays)
    rng = np.random.default_rng(3)
    direction = [rng.normal(size=x.shape) for x in leaves]
    moved = lambda t: structure.unflatten([x + t * d for x, d in zip(leaves, direction, strict=True)])
    derived = sum(
        float(jnp.vdot(g, d))
        for g, d in zip(jax.tree_util.tree_leaves(jax.grad(energy)(arrays)), direction, strict=True)
    )
    numerical = float(energy(moved(1e-5)) - energy(moved(-1e-5))) / 2e-5
    assert derived == pytest.approx(numerical, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("spin", [0, 1])
def test_a_network_in_a_self_consistent_calculation(learned, spin):
    """It converges; its matrix is the derivative of its energy, by fourth-order differences in a random direction, and
    its potential as a function of r is there. (That the two agree is test_kernel's matter.)"""
    molecule = dftfd.molecule(WATER if spin == 0 else "Li 0 0 0;", basis="sto-3g", spin=spin)
    result = dftfd.run_scf(molecule, "t_gga_x_network", grid_level=0)
    assert result.converged
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level=0)
    kernel = XCKernel(learned, 2 if spin else 1)
    builder = XCBuilder(kernel, AOStore(molecule, grid.points, grid.weights, kernel.order))
    P = result.density_matrix
    dP = np.random.default_rng(1).normal(size=P.shape) * 1e-2
    dP = dP + dP.transpose(0, 2, 1)
    energy, h = lambda step: builder.build(P + step * dP).energy, 1e-3
    numerical = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    assert float(np.vdot(builder.build(P).matrix, dP)) == pytest.approx(numerical, rel=1e-8)
    assert np.all(np.isfinite(result.v_xc(jnp.array([0.1, 0.2, 0.3]))))


def test_results_with_a_network_are_saved_and_loaded(learned, tmp_path):
    """The file holds the network's numbers; a name that now stands for another network is refused."""
    result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), "t_gga_x_network", grid_level=0)
    result.save(tmp_path / "he.h5")
    assert dftfd.load_result(tmp_path / "he.h5").energy == result.energy
    del registry._REGISTRY["t_gga_x_network"]
    registry.register(learned.with_parameters(net=network(5)), "t_gga_x_network")
    with pytest.raises(dftfd.errors.DftfdError, match="t_gga_x_network"):
        dftfd.load_result(tmp_path / "he.h5")
    with pytest.raises(dftfd.errors.FunctionalError, match="'net'.*cannot be restored from numbers"):
        from_definition(learned.definition, "again")
