"""The density at grid points as rows of numbers, its channels, and the variables of an energy per volume.

    n | n_x n_y n_z | n_xx n_xy n_xz n_yy n_yz n_zz | e_x e_x_lr | tau

Arrays are (spin, channel, point); one spin is the total density of a restricted run, two are alpha and beta. There are
as many derivatives as an `order` (0, 1 or 2) asks for, then energy densities of exact exchange (terms.local_hybrid) and
tau = 1/2 sum_i |grad phi_i|^2 where they are needed. n_xy is one variable, which stands for n_xy and n_yx.

Orbitals and their derivatives, the components A_c of (component, ao, point), have the same order, without tau and on to
third derivatives.

Variables are scalars, as libxc names and orders them:

    one spin    rho | sigma | lapl | tau
    two spins   rho_a rho_b | sigma_aa sigma_ab sigma_bb | lapl_a lapl_b | tau_a tau_b

with sigma_st = grad rho_s . grad rho_t, lapl the Laplacian of rho, tau = 1/2 sum occ |grad phi|^2. A derivative is an
ascending tuple of positions in `VARIABLES`: (0, 2) is d2e / (drho_a dsigma_aa), () the energy itself.
"""

import itertools
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
            f"functional {functional.name[:60]!r} takes the exact-exchange energy density, {what}; use it in "
            "calculations (dftfd.run_scf)."
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


FAMILIES = ("rho", "sigma", "lapl", "tau")

VARIABLES = {
    1: FAMILIES,
    2: ("rho_a", "rho_b", "sigma_aa", "sigma_ab", "sigma_bb", "lapl_a", "lapl_b", "tau_a", "tau_b"),
}
"""Names of the variables by number of spins."""

EXCHANGED = (1, 0, 4, 3, 2, 6, 5, 8, 7)
"""VARIABLES[2] with the spins in each other's place."""

MEMBERS = {
    n_spin: {f: tuple(k for k, name in enumerate(names) if name.split("_")[0] == f) for f in FAMILIES}
    for n_spin, names in VARIABLES.items()
}
"""Positions of the variables of each family: MEMBERS[2]["sigma"] is (2, 3, 4)."""

SIGMA_PAIRS = {1: ((0, 0),), 2: ((0, 0), (0, 1), (1, 1))}
"""The spins (s, t) of each sigma."""


def family_of(position: int, n_spin: int) -> str:
    return VARIABLES[n_spin][position].split("_")[0]


def of_spin(spin: int, n_spin: int) -> tuple[int, ...]:
    """Positions of the variables that one spin has a part in."""
    names = VARIABLES[n_spin]
    return tuple(k for k, name in enumerate(names) if n_spin == 1 or "ab"[spin] in name.split("_")[1])


def named_components(n_spin: int, families, order: int) -> dict[str, list[tuple[int, ...]]]:
    """libxc's arrays of one order, {"v2rho2": [(0, 0), (0, 1), (1, 1)], "v2rhosigma": ...}, in its order.

    families: those of rho, sigma, lapl, tau that occur, in this order.
    """
    arrays = {}
    for group in itertools.combinations_with_replacement(families, order):
        powers = {f: group.count(f) for f in dict.fromkeys(group)}
        name = "".join([f"v{order}" if order > 1 else "v", *(f + (str(p) if p > 1 else "") for f, p in powers.items())])
        parts = [itertools.combinations_with_replacement(MEMBERS[n_spin][f], p) for f, p in powers.items()]
        arrays[name] = [sum(some, ()) for some in itertools.product(*parts)]
    return arrays
