"""The lowered functional on blocks of grid points: energy, and its derivative with respect to the density jet."""

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.lowering import lower, placeholder
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import SPACE, Functional

_CHANNELS = {0: 1, 1: 4, 2: 10}
_HESSIAN = ((0, 1, 2), (1, 3, 4), (2, 4, 5))  # position of n_ij among n_xx n_xy n_xz n_yy n_yz n_zz


class XCKernel:
    """kernel(points, weights, density) -> (energy, potential) of a functional.

    density: (spin, channel, point). One spin is the total density of a restricted run, two are alpha and beta.
        Channels: n | n_x n_y n_z | n_xx n_xy n_xz n_yy n_yz n_zz, as many as `order` asks for, then tau if
        `needs_tau` (1/2 sum occ |grad phi|^2 of that spin, or of both).
    energy: sum_p w_p e(r_p) [hartree].
    potential: (spin, channel, point), w_p de/d(channel); n_xy is one variable that stands for n_xy and n_yx.

    order: highest derivative of the density, 0, 1 or 2, found by tracing.   channels: their number.
    """

    def __init__(self, functional: Functional, n_spin: int):
        self._lowered = lower(functional.energy_density(*placeholders()))
        self.functional = functional
        self.n_spin = n_spin
        self.order, self.needs_tau = checked_orders(functional, self._lowered.orders)
        self.channels = channel_count(self.order, self.needs_tau)
        self._call = jax.jit(self._weighted)

    def __call__(self, points, weights, density):
        return self._call(points, weights, density)

    def energy_density(self, density, point):
        """Energy per volume at one point from density (spin, channel)."""
        return self._lowered(density_jets(density, self.order), point)

    def _weighted(self, points, weights, density):
        derivative = jax.vmap(jax.value_and_grad(self.energy_density), in_axes=(-1, 0), out_axes=(0, -1))
        e, potential = derivative(density, points)
        return jnp.dot(weights, e), potential * weights[None, None, :]


def placeholders():
    """(rho, tau), the unknown functions of a functional."""
    return placeholder("rho", SPACE, (2,)), placeholder("tau", SPACE, (2,))


def checked_orders(functional: Functional, orders) -> tuple[int, bool]:
    """(order of the density's jet, whether tau is needed) from the lowered derivative orders."""
    if orders.get("tau", 0) > 0 or orders.get("rho", 0) > 2:
        raise UnsupportedError(
            f"functional {functional.name!r} needs derivatives of order {orders}; matrices are built from the "
            "density to order 2 and tau to order 0."
        )
    return orders.get("rho", 0), "tau" in orders


def channel_count(order: int, tau: bool) -> int:
    return _CHANNELS[order] + int(tau)


def density_jets(density, order: int) -> dict[str, list]:
    """Jets of rho and tau for a lowered functional, from density (spin, channel) at one point.

    One spin is the total density, shared equally.
    """
    if density.shape[0] == 1:
        half = 0.5 * density[0]
        density = jnp.stack([half, half])
    return {"rho": _jet(density, order), "tau": [density[:, -1]]}


def _jet(density, order):
    """[value (2,), gradient (2, 3), Hessian (2, 3, 3)] up to `order` from channels (2, channel)."""
    jet = [density[:, 0]]
    if order >= 1:
        jet.append(density[:, 1:4])
    if order >= 2:
        jet.append(density[:, 4 + np.array(_HESSIAN)])
    return jet
