"""The density at grid points as rows of numbers, its channels: the one layout that everything on a grid shares.

    n | n_x n_y n_z | n_xx n_xy n_xz n_yy n_yz n_zz | e_x e_x_lr | tau

Arrays are (spin, channel, point); one spin is the total density of a restricted run, two are alpha and beta. There are
as many derivatives as an `order` (0, 1 or 2) asks for, then energy densities of exact exchange (terms.local_hybrid) and
tau = 1/2 sum_i |grad phi_i|^2 where they are needed. n_xy is one variable, which stands for n_xy and n_yx.

Orbitals and their derivatives, the components A_c of (component, ao, point), have the same order, without tau and on to
third derivatives.
"""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.functionals.densities import EXACT_EXCHANGE

GRADIENT, HESSIAN, TAU = slice(1, 4), slice(4, 10), -1

PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
"""(i, j) of the n_ij in their order."""

ROW = np.zeros((3, 3), dtype=int)
"""Row of n_ij, and of A_ij."""
for _row, (_i, _j) in enumerate(PAIRS, start=HESSIAN.start):
    ROW[_i, _j] = ROW[_j, _i] = _row

_POWERS = [(i, j, n - i - j) for n in range(4) for i in range(n, -1, -1) for j in range(n - i, -1, -1)]
RAISED = np.array([[_POWERS.index(tuple(np.add(p, axis))) for p in _POWERS[:10]] for axis in np.eye(3, dtype=int)])
"""Component d/dx_i A_c of each component c up to second derivatives, (3, component)."""

HIGHEST = {"rho": 2, "tau": 0, "e_x": 0, "e_x_lr": 0}
"""Order of the derivatives that there are channels for."""


def derivative_count(order: int) -> int:
    """Number of derivatives up to an order in three dimensions, values included; n_xy and n_yx are one."""
    return math.comb(order + 3, 3)


def channel_count(order: int, tau: bool, exchange: Sequence[str] = ()) -> int:
    """Number of channels of one spin."""
    return derivative_count(order) + len(exchange) + int(tau)


def without_exact_exchange(functional, ingredients, what: str) -> None:
    """UnsupportedError for a functional that has an energy density of exact exchange among its ingredients."""
    if any(name in ingredients for name in EXACT_EXCHANGE):
        raise UnsupportedError(
            f"functional {functional.name[:60]!r} takes the exact-exchange energy density, {what}; it has its energy, "
            "matrix, response and forces in calculations (dftfd.run_scf)."
        )


def channels_for(functional, orders) -> tuple[int, bool]:
    """(order, whether tau is needed) from the derivatives that a lowered functional takes; UnsupportedError beyond."""
    for ingredient, highest in HIGHEST.items():
        if orders.get(ingredient, 0) > highest:
            raise UnsupportedError(
                f"functional {functional.name!r} needs derivatives of {ingredient} of order {orders[ingredient]}; "
                f"matrices and forces are built from {' and '.join(f'{n} to order {k}' for n, k in HIGHEST.items())}."
            )
    return orders.get("rho", 0), "tau" in orders


def ao_order(kernel) -> int:
    """Order of the AO derivatives that energy and matrix of a kernel need."""
    return max(kernel.order, int(kernel.needs_tau))


def both_spins(x):
    """x (2, ...) of alpha and beta; one spin, (1, ...), is the total, shared equally."""
    return x if len(x) == 2 else jnp.stack([0.5 * x[0]] * 2)


def jets(density, order: int, exchange: Sequence[str] = ()) -> dict[str, list]:
    """What a lowered functional asks for at one point, from density (spin, channel).

    rho: [value (2,), gradient (2, 3), Hessian (2, 3, 3)] up to `order`.   tau: [value (2,)].   exchange: the names of
    energy densities of exact exchange that have channels.
    """
    density = both_spins(density)
    rows = (0, GRADIENT, ROW)[: order + 1]
    others = {name: [density[:, row]] for row, name in enumerate(exchange, start=derivative_count(order))}
    return {"rho": [density[:, which] for which in rows], "tau": [density[:, TAU]]} | others
