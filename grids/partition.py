r"""Partition of space into atomic cells.

A point r belongs to atom A with the share  w_A(r) = P_A(r) / sum_B P_B(r),  where

    P_A = prod_{B != A} [1 - g(nu_AB)] / 2,   nu_AB = mu_AB + a_AB (1 - mu_AB^2),   mu_AB = (r_A - r_B) / R_AB;

r_A = |r - A| and R_AB = |A - B| are distances, g is an odd step from -1 to 1, and a_AB = -a_BA moves the border between
a large and a small atom.

A. D. Becke, J. Chem. Phys. 88, 2547 (1988). doi:10.1063/1.454033
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.grids.atomic import BRAGG_SLATER

Step = Callable[[jax.Array], jax.Array]

NEGLIGIBLE = 1e-15
"""Slopes by the logarithm of a cell function that are left out; a gradient sums some 1e5 of any sign."""

MANY, NEAREST = 64, 16
"""Atoms from which on those without a share in a block of points are left out, and the nearest atoms whose borders
show it: for fewer atoms they cost as much as they save."""

LEAST_BOUND, INVISIBLE = 1e-20, 1e-17
"""Bounds of cell functions beside the largest one from which on they are formed, and what the others may add up to
beside the sum of those that are."""


def becke_step(nu: jax.Array) -> jax.Array:
    """g = p(p(p(nu))) with p(x) = (3 x - x^3) / 2: Becke's step, of third iteration (eqs. 19 to 21)."""
    for _ in range(3):
        nu = 0.5 * nu * (3.0 - nu * nu)
    return nu


def stratmann_step(nu: jax.Array) -> jax.Array:
    r"""Step of Stratmann, Scuseria and Frisch, which is exactly -1 or 1 outside |nu| < 0.64.

    g = (35 t - 35 t^3 + 21 t^5 - 5 t^7) / 16,   t = nu / 0.64                            (eqs. 11, 14)

    R. E. Stratmann, G. E. Scuseria, M. J. Frisch, Chem. Phys. Lett. 257, 213 (1996). doi:10.1016/0009-2614(96)00600-8
    """
    t = jnp.clip(nu / 0.64, -1.0, 1.0)
    t2 = t * t
    return t * (35.0 + t2 * (-35.0 + t2 * (21.0 - 5.0 * t2))) / 16.0


PARTITION_SCHEMES: dict[str, Step] = {"becke": becke_step, "stratmann": stratmann_step}


def becke_adjustment(atomic_numbers: np.ndarray) -> np.ndarray:
    r"""a_AB (atom, atom) from Bragg-Slater radii R:  a_AB = (R_B / R_A - R_A / R_B) / 4  within [-1/2, 1/2].

    Becke's appendix, eqs. A2 to A6, with chi = R_A / R_B inserted.
    """
    return _adjustment(BRAGG_SLATER[atomic_numbers])


def treutler_adjustment(atomic_numbers: np.ndarray) -> np.ndarray:
    """As `becke_adjustment`, with the square roots of the radii: Treutler and Ahlrichs' softer shift of the borders.

    O. Treutler, R. Ahlrichs, J. Chem. Phys. 102, 346 (1995). doi:10.1063/1.469408
    """
    return _adjustment(np.sqrt(BRAGG_SLATER[atomic_numbers]))


def no_adjustment(atomic_numbers: np.ndarray) -> np.ndarray:
    """Borders midway between the nuclei, whatever the elements."""
    return np.zeros((len(atomic_numbers), len(atomic_numbers)))


def _adjustment(radii: np.ndarray) -> np.ndarray:
    ratio = radii[:, None] / radii[None, :]
    return np.clip(0.25 * (ratio.T - ratio), -0.5, 0.5)  # beyond 1/2, nu would not be monotonic in mu


RADIUS_ADJUSTMENTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "treutler": treutler_adjustment,
    "becke": becke_adjustment,
    "none": no_adjustment,
}


class Cells(NamedTuple):
    """What the cells of a molecule are made from. Atoms beyond the real ones are padding and own nothing.

    centers: (atom, 3) [bohr].
    inverse_distance: (atom, atom) [1/bohr], 0 where there is no pair.
    adjustment: a, (atom, atom).
    no_pair: (atom, atom), 1 on the diagonal and where an atom is padding, else 0.
    is_real: (atom,), 1 or 0.
    """

    centers: jax.Array
    inverse_distance: jax.Array
    adjustment: jax.Array
    no_pair: jax.Array
    is_real: jax.Array


def cells(centers: jax.Array, adjustment: jax.Array, n_atoms: jax.Array) -> Cells:
    """Cells of the first `n_atoms` of the centers (atom, 3) [bohr] with border shifts `adjustment` (atom, atom)."""
    index = jnp.arange(len(centers))
    is_real = index < n_atoms
    is_pair = is_real[:, None] & is_real[None, :] & (index[:, None] != index[None, :])
    distance = _length(centers[:, None, :] - centers[None, :, :])
    inverse_distance = jnp.where(is_pair, 1.0 / jnp.where(is_pair, distance, 1.0), 0.0)
    return Cells(centers, inverse_distance, adjustment, jnp.where(is_pair, 0.0, 1.0), jnp.where(is_real, 1.0, 0.0))


def owner_share(points: jax.Array, owner: jax.Array, borders: Cells, step: Step) -> jax.Array:
    """Share w (point,) of each point (point, 3) [bohr] that its `owner` (point,) keeps, between 0 and 1.

    Work grows as points times atoms times those that have a share nearby, memory as points times atoms, in derivatives
    too. No border of a cell vanishes for Becke's step, which reaches its limits only as the eighth power of 1 - |nu|,
    but the product of all does.
    """
    distance = _length(points[None, :, :] - borders.centers[:, None, :])
    product = _cell_products(step, distance, borders)
    own = jnp.take_along_axis(product, owner[None, :], axis=0)[0]
    return own / jnp.sum(product, axis=0)


def share_slopes(points, owner, borders: Cells, step: Step) -> jax.Array:
    """Slopes (atom, 3, point) of `owner_share` by each centre, as points move with their owners.

    One loop over pairs of atoms serves all centres. What does not change as everything moves together is left out: the
    slope by the owner is minus the sum of the others.
    """
    vector, distance, is_own, G = _slopes_by_logarithms(jnp.ones(len(points)), points, owner, borders, step)
    centers = borders.centers

    def accumulate(carry, partner):
        (by_distance, by_centre), (distance_to_partner, inverse, shift, no_pair, center) = carry, partner
        mu = _mu(distance, distance_to_partner, inverse, no_pair)
        by_mu = G * _relative_slope(step, mu, shift)
        stretched = by_mu * (distance - distance_to_partner[None, :]) * (inverse**3)[:, None]
        along = stretched[:, None, :] * (centers - center[None, :])[:, :, None]
        carry = by_distance + by_mu * inverse[:, None], by_centre - along
        return carry, (inverse @ by_mu, jnp.sum(along, axis=0))

    partners = (distance, borders.inverse_distance, borders.adjustment.T, borders.no_pair, centers)
    start = jnp.zeros_like(distance), jnp.zeros((len(centers), 3, len(points)))
    (by_distance, by_centre), (to_partner, by_partner) = jax.lax.scan(accumulate, start, partners)
    by_distance = (by_distance - to_partner) / jnp.where(distance > 0.0, distance, 1.0)
    by_centre = by_centre + by_partner - by_distance[:, None, :] * jnp.moveaxis(vector, 2, 1)
    others = jnp.where(is_own[:, None, :], 0.0, by_centre)
    return jnp.where(is_own[:, None, :], -jnp.sum(others, axis=0, keepdims=True), others)


def _slopes_by_logarithms(d_share, points, owner, borders: Cells, step: Step):
    """Vectors (atom, point, 3) and distances (atom, point) to points, which atom is the owner, and slopes G (atom,
    point) of a quantity with the slope d_share by `owner_share` by the logarithms of the cell functions.
    """
    vector = points[None, :, :] - borders.centers[:, None, :]
    distance = _length(vector)
    product = _cell_products(step, distance, borders)
    relative = product / jnp.sum(product, axis=0, keepdims=True)
    is_own = jnp.arange(len(product), dtype=owner.dtype)[:, None] == owner[None, :]
    own = jnp.sum(jnp.where(is_own, relative, 0.0), axis=0)
    return vector, distance, is_own, (d_share * own)[None, :] * (jnp.where(is_own, 1.0, 0.0) - relative)


def pull_share_back(d_share, points, owner, borders: Cells, step: Step) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Slopes by points (point, 3), centres (atom, 3) and inverse distances (atom, atom) of a quantity with the slope
    d_share (point,) by `owner_share`. The same as reverse differentiation of it, in one loop over pairs of atoms.

    dw = w sum_A (delta_A,owner - P_A / sum_B P_B) sum_B d(border_AB) / border_AB

    Near a nucleus, and for neighbouring points, most atoms have no share, nor a slope: they are left out as A.
    """
    vector, distance, _, G = _slopes_by_logarithms(d_share, points, owner, borders, step)
    largest = jnp.max(jnp.abs(G), axis=1)
    by_importance = jnp.argsort(-largest)
    n_atoms = len(largest)
    sizes = [*itertools.takewhile(lambda size: size < n_atoms, (4 << k for k in range(n_atoms))), n_atoms]
    smallest = jnp.searchsorted(jnp.array(sizes), jnp.sum(largest > NEGLIGIBLE))
    branches = [partial(_slopes_of_rows, step, size) for size in sizes]
    by_distance, by_inverse = jax.lax.switch(smallest, branches, by_importance, G, distance, borders)
    by_vector = vector * (by_distance / jnp.where(distance > 0.0, distance, 1.0))[..., None]
    return jnp.sum(by_vector, axis=0), -jnp.sum(by_vector, axis=1), by_inverse


def _slopes_of_rows(step, size, by_importance, G, distance, borders):
    """Slopes by distances (atom, point) and inverse distances (atom, atom) of the `size` most important atoms A."""
    rows = by_importance[:size]
    G, distance_of_rows = G[rows], distance[rows]

    def accumulate(by_distance, partner):
        distance_to_partner, inverse, shift, no_pair = partner
        mu = _mu(distance_of_rows, distance_to_partner, inverse, no_pair)
        by_mu = G * _relative_slope(step, mu, shift)
        by_inverse = jnp.sum(by_mu * (distance_of_rows - distance_to_partner[None, :]), axis=1)
        return by_distance + by_mu * inverse[:, None], (inverse @ by_mu, by_inverse)

    of_partners = (borders.inverse_distance[:, rows], borders.adjustment.T[:, rows], borders.no_pair[:, rows])
    start = jnp.zeros_like(distance_of_rows)
    by_distance, (to_partner, by_inverse) = jax.lax.scan(accumulate, start, (distance, *of_partners))
    return (-to_partner).at[rows].add(by_distance), jnp.zeros_like(borders.adjustment).at[:, rows].add(by_inverse)


def _cell_products(step: Step, distance, borders: Cells):
    """P (atom, point) at distances (atom, point); zero of padding, and of many atoms of those next to nothing."""

    def of(rows, partners=slice(None)):
        """The product for some atoms over some partners."""
        pairs = (
            array.T[partners][:, rows] for array in (borders.inverse_distance, borders.adjustment, borders.no_pair)
        )
        return _product(step, distance[rows], distance[partners], *pairs) * borders.is_real[rows, None]

    n_atoms, every = len(distance), slice(None)
    if n_atoms < MANY:
        return of(every)
    real = jnp.where(borders.is_real > 0.0, jnp.min(distance, axis=1), jnp.inf)
    bound = jax.lax.stop_gradient(of(every, jax.lax.top_k(-real, NEAREST)[1]))
    importance = jnp.max(bound / jnp.max(bound, axis=0, keepdims=True), axis=1)
    order = jnp.argsort(-importance)

    def of_largest(size):
        rows, others = order[:size], order[size:]
        product = of(rows)
        is_enough = jnp.all(jnp.sum(bound[others], axis=0) <= INVISIBLE * jnp.sum(product, axis=0))
        return jnp.zeros_like(distance).at[rows].set(product), is_enough

    sizes = n_atoms // 8, n_atoms // 4, n_atoms // 2
    number = jnp.searchsorted(jnp.array(sizes), jnp.sum(importance > LEAST_BOUND))
    few = [partial(of_largest, size) for size in sizes]
    product, is_enough = jax.lax.switch(number, [*few, lambda: (jnp.zeros_like(distance), jnp.array(False))])
    return jax.lax.cond(is_enough, lambda: product, lambda: of(every))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _product(step: Step, distance, to_partners, inverse_distance, adjustment, no_pair):
    """The product (atom, point) of the borders with partners at distances (partner, point), a loop over these; the
    others are (partner, atom), of which the last two are constants."""

    def multiply(product, partner):
        distance_to_partner, inverse, shift, no_pair = partner
        return product * _border(step, _mu(distance, distance_to_partner, inverse, no_pair), shift), None

    partners = (to_partners, inverse_distance, adjustment, no_pair)
    return jax.lax.scan(multiply, jnp.ones_like(distance), partners)[0]


@_product.defjvp
def _product_jvp(step, primals, tangents):
    """dP_A = P_A sum_B d(border_AB) / border_AB: a sum, so that its transpose keeps no intermediate products."""
    distance, to_partners, inverse_distance, adjustment, no_pair = primals
    distance_dot, to_partners_dot, inverse_distance_dot = tangents[:3]

    @jax.checkpoint
    def accumulate(total, partner):
        ((distance_to_partner, inverse), (to_partner_dot, inverse_dot)), (shift, no_pair) = partner
        mu = _mu(distance, distance_to_partner, inverse, no_pair)
        mu_dot = (distance_dot - to_partner_dot[None, :]) * inverse[:, None]
        mu_dot += (distance - distance_to_partner[None, :]) * inverse_dot[:, None]
        return total + _relative_slope(step, mu, shift) * mu_dot, None

    moving = ((to_partners, inverse_distance), (to_partners_dot, inverse_distance_dot))
    relative, _ = jax.lax.scan(accumulate, jnp.zeros_like(distance), (moving, (adjustment, no_pair)))
    product = _product(step, *primals)
    return product, product * relative


def _mu(distance, distance_to_partner, inverse_distance, no_pair):
    """mu_AB (atom A, point) against one partner B; -1 without a pair, where the border's factor is then exactly 1."""
    return (distance - distance_to_partner[None, :]) * inverse_distance[:, None] - no_pair[:, None]


def _border(step: Step, mu, adjustment):
    """[1 - g(nu_AB)] / 2 (atom A, point)."""
    return 0.5 * (1.0 - step(mu + adjustment[:, None] * (1.0 - mu * mu)))


def _relative_slope(step: Step, mu, adjustment):
    """d(border)/d(mu) / border.

    A border vanishes where g reaches 1, and there the step is flat: the limit of its term times P_A is zero.
    """
    border, slope = jax.jvp(lambda mu: _border(step, mu, adjustment), (mu,), (jnp.ones_like(mu),))
    inside = border > 0.0
    return jnp.where(inside, slope / jnp.where(inside, border, 1.0), 0.0)


def _length(vector: jax.Array) -> jax.Array:
    """Euclidean length over the last axis. Its derivative at zero, which is undefined, is taken as zero.

    The value met there never matters: at a nucleus the step is flat, so shares do not depend on the direction.
    """
    square = jnp.sum(vector * vector, axis=-1)
    positive = square > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)
