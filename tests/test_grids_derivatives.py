"""Derivatives of grids with respect to the nuclear positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import dft, gto
from pyscf.grad import rks

from dftfd.grids import partition
from dftfd.grids.molecular import grid_owners, molecular_grid, pull_back, weight_changes, weight_curvature
from dftfd.grids.partition import PARTITION_SCHEMES, becke_adjustment, cells, owner_share
from tests.sample import sample

CHARGES = (8, 1, 3)
COORDINATES = np.array([[0.0, 0.1, 0.2], [0.0, 1.4, -0.9], [0.3, -2.6, -1.1]])
PARTITIONS = tuple(PARTITION_SCHEMES)


def grid_at(coordinates, **options):
    return molecular_grid(CHARGES, coordinates, **({"level": 0} | options))


def integral(coordinates, **options):
    """int f with an f fixed in space, so that all of the derivative is quadrature error."""
    grid = grid_at(coordinates, **options)
    x, y, z = grid.points.T
    return jnp.sum(grid.weights * jnp.exp(-0.7 * (x**2 + 0.5 * y**2 + (z - 0.3) ** 2)) * (1.0 + x + y * z))


def central_difference(function, x, direction, step=2e-3):
    """Directional derivative, exact to fourth order in the step."""
    slope = lambda h: (np.asarray(function(x + h * direction)) - np.asarray(function(x - h * direction))) / (2 * h)
    return (4 * slope(step / 2) - slope(step)) / 3


@pytest.mark.parametrize("partition", PARTITIONS)
def test_points_and_weights_follow_the_nuclei(partition, rng):
    """Forward derivatives: points move with their owner, weights as a finite difference says."""
    direction = rng.normal(size=COORDINATES.shape)
    grid, tangent = jax.jvp(
        lambda R: (g := grid_at(R, partition=partition), (g.points, g.weights))[1], (COORDINATES,), (direction,)
    )
    owner = np.asarray(grid_at(COORDINATES).owner)
    np.testing.assert_allclose(tangent[0], direction[owner], rtol=0, atol=1e-14)
    expected = central_difference(lambda R: grid_at(R, partition=partition).weights, COORDINATES, direction)
    scale = np.maximum(1.0, np.abs(np.asarray(grid[1])))
    assert np.max(np.abs(tangent[1] - expected) / scale) < 1e-8


@pytest.mark.parametrize("partition", sample(PARTITIONS, ["becke"]))
def test_reverse_derivative_of_an_integral(partition, rng):
    """d(int f)/dR backwards equals the finite difference and the forward derivative."""
    value = jax.jit(lambda R: integral(R, partition=partition))
    gradient = jax.grad(value)(COORDINATES)
    direction = rng.normal(size=COORDINATES.shape)
    along = float(np.sum(gradient * direction))
    _, forward = jax.jvp(value, (COORDINATES,), (direction,))
    assert along == pytest.approx(float(forward), rel=1e-12, abs=1e-14)
    difference = central_difference(value, COORDINATES, direction)
    assert along == pytest.approx(float(difference), abs=1e-9)


@pytest.mark.parametrize("partition", sample(PARTITIONS, ["becke"]))
def test_pulling_back_is_the_transpose_of_the_derivative(partition, rng):
    """<slopes, d(grid) dR> = <pull_back(slopes), dR>, with the forward derivative, which shares no code, to 1e-12.

    An atom without points (a ghost without an element) is among them.
    """
    charges, coordinates = (*CHARGES, 0), np.vstack([COORDINATES, [[1.0, 1.0, 1.5]]])
    direction = rng.normal(size=coordinates.shape)
    at = lambda R: (g := molecular_grid(charges, R, 0, partition=partition), (g.points, g.weights))[1]
    (points, weights), (d_points, d_weights) = jax.jvp(at, (coordinates,), (direction,))
    by_points, by_weights = rng.normal(size=points.shape), rng.normal(size=weights.shape)
    gradient = pull_back(charges, coordinates, by_points, by_weights, 0, partition=partition)
    expected = float(np.sum(by_points * d_points) + np.sum(by_weights * d_weights))
    assert np.sum(gradient * direction) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("partition", sample(PARTITIONS, ["becke"]))
def test_pulling_back_leaves_out_atoms_without_a_share_and_nothing_else(partition, rng):
    """The same transpose for a chain of twelve atoms, most of which have no share in a block of points, to 1e-12."""
    charges, coordinates = (6, 1, 8) * 4, np.outer(np.arange(12.0), [2.2, 0.3, -0.4]) + rng.normal(size=(12, 3)) / 4
    direction = rng.normal(size=coordinates.shape)
    at = lambda R: (g := molecular_grid(charges, R, 0, partition=partition), (g.points, g.weights))[1]
    (points, weights), (d_points, d_weights) = jax.jvp(at, (coordinates,), (direction,))
    by_points, by_weights = rng.normal(size=points.shape), rng.normal(size=weights.shape)
    gradient = pull_back(charges, coordinates, by_points, by_weights, 0, partition=partition)
    expected = float(np.sum(by_points * d_points) + np.sum(by_weights * d_weights))
    assert np.sum(gradient * direction) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@pytest.mark.slow  # test_pulling_back_leaves_out_atoms_without_a_share... is quick
@pytest.mark.parametrize("bound", [partition.LEAST_BOUND, 1.0])
def test_many_atoms_without_a_share_are_left_out(bound, rng, monkeypatch):
    """Shares and both their derivatives to the last digits as with all of 28 atoms, whose farthest are left out, and
    where so many would be that it is found out and all are taken.
    """
    centers = np.outer(np.arange(28.0), [2.4, 0.3, -0.4]) + rng.normal(size=(28, 3)) / 4
    adjustment, direction = jnp.asarray(becke_adjustment(np.array([6, 1, 8, 1] * 7))), rng.normal(size=centers.shape)
    owner = np.repeat(np.int32(5), 40)
    points, by_share = centers[5] + rng.normal(size=(40, 3)), rng.normal(size=40)

    def found():
        at = jax.jit(lambda R: owner_share(points, owner, cells(R, adjustment, 28), PARTITION_SCHEMES["becke"]))
        share, change = jax.jvp(at, (centers,), (direction,))
        return share, change, *jax.vjp(at, centers)[1](by_share)

    rows, product = [], partition._product
    monkeypatch.setattr(partition, "_product", lambda *given: [rows.append(len(given[1])), product(*given)][1])
    expected, all_rows = found(), set(rows)
    monkeypatch.setattr(partition, "MANY", 20)
    monkeypatch.setattr(partition, "LEAST_BOUND", bound)
    rows.clear()
    for a, b in zip(found(), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15 * np.abs(b).max())
    assert all_rows == {28} and min(rows) == 3


def test_second_derivative_of_an_integral(rng):
    """Hessian times vector equals the finite difference of the gradient, and the Hessian is symmetric."""
    gradient = jax.jit(jax.grad(integral))
    u, v = rng.normal(size=(2, *COORDINATES.shape))
    hessian_v, hessian_u = (jax.jvp(gradient, (COORDINATES,), (direction,))[1] for direction in (v, u))
    np.testing.assert_allclose(hessian_v, central_difference(gradient, COORDINATES, v), rtol=0, atol=1e-8)
    assert float(jnp.sum(u * hessian_v)) == pytest.approx(float(jnp.sum(v * hessian_u)), rel=1e-10)


def test_derivatives_of_weights_by_all_nuclei_at_once(rng):
    """Those of each atom's points are the forward derivative of the grid along any direction."""
    direction = rng.normal(size=COORDINATES.shape)
    _, along = jax.jvp(lambda R: grid_at(R).weights, (COORDINATES,), (direction,))
    owners = grid_owners(CHARGES, 0)
    for atom in range(len(CHARGES)):
        found = np.einsum("axp,ax->p", weight_changes(CHARGES, COORDINATES, atom, 0), direction)
        np.testing.assert_allclose(found, np.asarray(along)[owners == atom], rtol=1e-9, atol=1e-13)


def test_second_derivatives_of_weights(rng):
    """A sum of weights with any factors: against differences of its gradient."""
    factors, direction = rng.normal(size=len(grid_owners(CHARGES, 0))), rng.normal(size=COORDINATES.shape)
    found = np.einsum("axby,ax->by", weight_curvature(CHARGES, COORDINATES, factors, 0), direction)
    nothing = np.zeros((len(factors), 3))
    gradient = lambda R: pull_back(CHARGES, R, nothing, factors, 0)
    expected = central_difference(gradient, COORDINATES, direction, step=1e-3)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


def test_weight_derivatives_equal_those_of_pyscf():
    """All d(weight)/dR against PySCF 2.14's hand-written grid response, `pyscf.grad.rks.grids_response_cc`."""
    mol = gto.M(atom=[(c, r) for c, r in zip(CHARGES, COORDINATES, strict=True)], unit="bohr", basis=[], spin=None)
    grids = dft.gen_grid.Grids(mol)
    grids.level = 0
    expected = np.concatenate([response for _, _, response in rks.grids_response_cc(grids)], axis=2)
    points = np.concatenate([points for points, _, _ in rks.grids_response_cc(grids)])
    ours = grid_at(COORDINATES)
    jacobian = np.asarray(jax.jacfwd(lambda R: grid_at(R).weights)(COORDINATES))
    assert sorted_by_position(ours.points, jacobian) == pytest.approx(
        sorted_by_position(points, expected.transpose(2, 0, 1)), rel=1e-9, abs=1e-9
    )


def sorted_by_position(points, values):
    """Values in the order of their points, so that grids in different orders can be compared."""
    return np.asarray(values)[np.lexsort(np.round(np.asarray(points), 8).T)]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_common_shift_changes_no_weight(partition):
    """Translational invariance: the derivatives of every weight with respect to all nuclei add up to zero."""
    uniform = np.tile([0.3, -1.0, 0.7], (3, 1))
    weights, tangent = jax.jvp(lambda R: grid_at(R, partition=partition).weights, (COORDINATES,), (uniform,))
    assert np.max(np.abs(tangent) / np.maximum(1.0, np.abs(weights))) < 1e-12


def test_a_single_atom_has_constant_weights():
    """One atom: no weight depends on where it is, and the derivative is zero rather than NaN."""
    derivative = jax.jit(jax.jacfwd(lambda R: molecular_grid([8], R, level=0).weights))(jnp.zeros((1, 3)))
    assert np.max(np.abs(derivative)) == 0.0


@pytest.mark.parametrize("partition", sample(PARTITIONS, ["becke"]))
def test_special_points_have_finite_derivatives(partition):
    """Points on their own nucleus, on another's, midway, and equidistant: derivatives are finite, zero on nuclei."""
    centers = jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 3.0, 1.0]])
    points = jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 1.0], [1.5, 0.0, 1.0]])
    adjustment = jnp.asarray(becke_adjustment(np.array([8, 8, 1])))

    @jax.jit
    def shares(points, centers):
        borders = cells(centers, adjustment, 3)
        return owner_share(points, jnp.zeros(4, dtype=int), borders, PARTITION_SCHEMES[partition])

    np.testing.assert_allclose(shares(points, centers)[:2], [1.0, 0.0], rtol=0, atol=1e-15)
    gradient = jax.jit(jax.grad(lambda *where: jnp.sum(shares(*where)), argnums=(0, 1)))
    by_point, by_center = gradient(points, centers)
    np.testing.assert_allclose(by_point[:2], 0.0, rtol=0, atol=1e-12)
    assert np.all(np.isfinite(by_point)) and np.all(np.isfinite(by_center))
    second = jax.jvp(gradient, (points, centers), (jnp.ones_like(points), centers))[1]
    assert all(np.all(np.isfinite(part)) for part in second)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_shares_add_up_to_one(partition, rng):
    """Partition of unity: at any point the shares of all atoms are non-negative and sum to 1; padding has none."""
    centers = rng.normal(scale=3.0, size=(7, 3))
    centers[5:] = 0.0
    adjustment = np.pad(becke_adjustment(np.array([1, 6, 8, 17, 79])), (0, 2))
    points = rng.normal(scale=5.0, size=(200, 3))
    borders = lambda: cells(jnp.asarray(centers), jnp.asarray(adjustment), 5)
    share = jax.jit(lambda owner: owner_share(jnp.asarray(points), owner, borders(), PARTITION_SCHEMES[partition]))
    shares = np.array([share(np.full(200, atom)) for atom in range(7)])
    assert shares.min() >= 0.0
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(shares[5:], 0.0)
