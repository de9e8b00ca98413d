"""The scalars that an energy per volume is a function of, and its derivatives by them, as libxc names and orders both.

    one spin    rho | sigma | lapl | tau
    two spins   rho_a rho_b | sigma_aa sigma_ab sigma_bb | lapl_a lapl_b | tau_a tau_b

with sigma_st = grad rho_s . grad rho_t, lapl the Laplacian of rho, tau = 1/2 sum occ |grad phi|^2. A derivative is an
ascending tuple of positions in `VARIABLES`: (0, 2) is d2e / (drho_a dsigma_aa), () the energy itself.
"""

import itertools

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
    """The family of a variable."""
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
