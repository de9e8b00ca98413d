"""The exchange-correlation energy of a density matrix in code that JAX transforms, to any order; for small systems.

The engine (dftfd.xc.matrix, dftfd.xc.nonlocal_kernel) writes its derivatives out in NumPy, block by block. Here the
same functional meets the same orbitals and quadrature in one piece, and JAX takes the derivatives.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.lowering.jets import CELL_VOLUME
from dftfd.autofd.lowering.two_points import lower_nonlocal
from dftfd.errors import InputError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import unknown_densities
from dftfd.libcint.gto import component_count
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import ao_order, channels_for, jets, without_exact_exchange
from dftfd.xc.code import shared
from dftfd.xc.device import block_density
from dftfd.xc.kernel import XCKernel

ROWS = 128
"""Points whose pairs with all others are formed at a time."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class OrbitalsOnGrid:
    """A quadrature with the orbitals on it.

    points: (point, 3) [bohr].   weights: (point,) [bohr^3].
    ao: (component, ao, point), values and derivatives, A | A_x A_y A_z | A_xx A_xy A_xz A_yy A_yz A_zz, as many as are
        needed.
    """

    points: jax.Array
    weights: jax.Array
    ao: jax.Array

    @property
    def order(self) -> int:
        """Order of the derivatives of the orbitals."""
        return {component_count(n): n for n in range(3)}[self.ao.shape[0]]


def orbitals_on_grid(molecule, points, weights, order: int) -> OrbitalsOnGrid:
    """The orbitals of a molecule as the engine has them: where it leaves one out, since it is too small, it is zero."""
    store = AOStore(molecule, points, weights, order, memory_limit=0)
    size, scratch = store.block_size, np.empty(store.scratch_size)
    ao = np.zeros((component_count(order), store.n_ao, size * len(store.blocks)))
    for i, block in enumerate(store.blocks):
        ao[:, block.aos, i * size : (i + 1) * size] = store.values(i, scratch)
    points, weights = (np.concatenate([getattr(b, name) for b in store.blocks]) for name in ("points", "weights"))
    return OrbitalsOnGrid(jnp.asarray(points), jnp.asarray(weights), jnp.asarray(ao))


def semilocal_order(functional: Functional) -> int:
    """Order of the derivatives of orbitals that `semilocal_energy` needs."""
    return ao_order(shared(XCKernel, functional, 1))


def double_integral_order(functional: Functional) -> int:
    """The same of `double_integral_energy`."""
    order, tau = _lowered_pairs(functional)[1]
    return max(order, int(tau))


def semilocal_energy(functional: Functional, P, grid: OrbitalsOnGrid):
    """Energy [hartree] of a functional's terms without integrals; P (spin, ao, ao), symmetric."""
    kernel = shared(XCKernel, functional, len(P))
    without_exact_exchange(functional, kernel.exact_exchange, "whose integrals JAX does not have")
    density = _density(functional, P, grid, kernel.order, kernel.needs_tau)
    return kernel.energy(grid.points, grid.weights, density)


def double_integral_energy(functional: Functional, P, grid: OrbitalsOnGrid):
    """Energy [hartree] of a functional's terms with integrals: all pairs of points, so time grows with their square.

    E = sum_p w_p phi(j_p, S_1p, ...),   S_kp = sum_q w_q c(j_q) K(r_p, a(j_p), r_q, b(j_q))

    with jets j, features a and b, and charges c, as in dftfd.xc.nonlocal_kernel.
    """
    density = _density(functional, P, grid, *_lowered_pairs(functional)[1])
    return double_integral_of_density(functional, density, grid.points, grid.weights)


def double_integral_of_density(functional: Functional, density, points, weights):
    """The same of a density (spin, channel, point), whose channels are those of the functional's kernel."""
    program, (order, _) = _lowered_pairs(functional)
    integrals: dict[str, jax.Array] = {}

    def at_points(code):
        """Code of jets and a point, on all points."""

        def at(density, point, weight, integrals):
            known = {name: [S] for name, S in integrals.items()}
            return code(jets(density, order) | {CELL_VOLUME: [weight]} | known, point)

        return jax.vmap(at, in_axes=(-1, 0, 0, 0))(density, points, weights, integrals)

    for integral in program.integrals:
        charge = weights * at_points(integral.charge)
        left, right = at_points(integral.left), at_points(integral.right)
        integrals[integral.name] = _sums_over_pairs(integral, points, charge, left, right)
    return weights @ at_points(program.outer)


def _sums_over_pairs(integral, points, charge, left, right):
    """S (point, ...) = sum_q charge_q K(r_p, left_p, r_q, right_q)."""

    def row(point_and_features):
        point, features = point_and_features
        K = jax.vmap(lambda there, right: integral.kernel(point, features, there, right))(points, right)
        return jnp.tensordot(charge, K, axes=1)

    # checkpointed: reverse mode keeps nothing of the pairs
    return jax.lax.map(jax.checkpoint(row), (points, left), batch_size=min(ROWS, len(points)))


def _lowered_pairs(functional):
    """The program of a functional with integrals, and (order, tau) of the density's jet that it needs."""
    program = lower_nonlocal(functional.energy_density(*unknown_densities()))
    orders = {name: n for name, n in program.orders.items() if name != CELL_VOLUME}
    return program, channels_for(functional, orders)


def _density(functional, P, grid, order, tau):
    """Channels (spin, channel, point) of the density."""
    needed = max(order, int(tau))
    if needed > grid.order:
        raise InputError(
            f"functional {functional.name!r} needs derivatives of the orbitals of order {needed}, and those on the "
            f"grid have {grid.order}; make another energy for it, dftfd.energy(molecule, functional)."
        )
    return block_density(grid.ao[: component_count(needed)], P, order, tau)
