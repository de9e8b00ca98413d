"""Safe numerics, the one place where low densities are dealt with.

Below DENSITY_FLOOR the energy and all its derivatives are zero. The formula itself is then evaluated at a harmless
density (the double-where construction), so that derivatives of any order stay finite and formulas stay bare. A spin
that is rare beside a dense one does not cut anything off: other values of its density enter there, smoothly.

What each floor costs is measured in docs/floors.md.
"""

import jax
import jax.numpy as jnp

from dftfd.autofd import Function, compose, elementary

DENSITY_FLOOR = 1e-27
"""Density [bohr^-3] below which a functional's energy is zero. There the LDA potential is 1e-9 hartree."""

SPIN_FLOOR = 1e-24
"""Density of one spin [bohr^-3] below which, smoothly, another value of it enters and its own energies fade out."""

POLARISATION_FLOOR = 1e-24
"""1 - |zeta| below which another value, half of it at least, enters powers. Its power 2/3 is 1e-16."""


def _lifted_total(rho):
    """rho where the total density is above the floor, else the floor, shared equally."""
    return jnp.where(rho.sum() > DENSITY_FLOOR, rho, jnp.full_like(rho, DENSITY_FLOOR / rho.size))


def _masked(value, density):
    return jnp.where(density.sum() > DENSITY_FLOOR, value, jnp.zeros_like(value))


def where_dense(formula, density: Function) -> Function:
    """formula(density) where the density, summed over spins, is above DENSITY_FLOOR, and zero elsewhere.

    nabla of the density that the formula sees is zero below the floor, as that density is constant there.
    """
    e = formula(compose(_lifted_total, density))
    return compose(_masked, e, density) if isinstance(e, Function) else e


def _below(x, floor):
    """x / floor between 0 and 1, with the derivatives of a constant outside."""
    return jnp.where(x > floor, jnp.ones_like(x), jnp.where(x > 0, x * (1 / floor), jnp.zeros_like(x)))


def _smooth_floor(x, floor):
    """x above the floor; below, with t = x / floor, floor (1 + 5t^4 - 6t^5 + 2t^6) / 2."""
    t = _below(x, floor)
    return jnp.where(x > floor, x, floor * (0.5 + t * t * t * t * (2.5 + t * (t - 3))))


def _nonnegative(n):
    return _smooth_floor(n, SPIN_FLOOR)


nonnegative = elementary(_nonnegative, "nonnegative")
"""A spin density that may vanish where the other does not, for powers and quotients: SPIN_FLOOR / 2 at least, with
three continuous derivatives."""


def _presence(n):
    t = _below(n, SPIN_FLOOR)
    return t * t * (3 - 2 * t)


presence = elementary(_presence, "presence")
"""1 above SPIN_FLOOR and 0 where a spin is absent; between, 3 t^2 - 2 t^3 of t = n / SPIN_FLOOR."""


def _x_asinh_x(x2):
    """x asinh(x) from x^2; the series below x = 0.03 has an error of 1e-17 relative."""
    small = x2 < 1e-3
    large = jnp.where(small, jnp.ones_like(x2), x2)
    x = jnp.sqrt(large)
    y = jnp.where(small, x2, jnp.zeros_like(x2))
    series = y * (1 + y * (-1 / 6 + y * (3 / 40 + y * (-15 / 336 + y * (105 / 3456 - y * 945 / 42240)))))
    return jnp.where(small, series, x * jnp.arcsinh(x))


x_asinh_x = elementary(_x_asinh_x, "x_asinh_x")
"""x asinh(x) as a smooth function of x^2."""


def _positive_part(x):
    return _smooth_floor(x, POLARISATION_FLOOR)


positive_part = elementary(_positive_part, "positive_part")
"""1 + zeta or 1 - zeta under roots: POLARISATION_FLOOR / 2 at least, with three continuous derivatives."""


def _where_less(x, limit, below, above):
    return jnp.where(x < limit, below, above)


def where_less(x: Function, limit: float, below: Function | float, above: Function | float) -> Function:
    """`below` where x < limit, else `above`; both are evaluated, so both must be finite everywhere."""
    return compose(_where_less, x, limit, below, above)


def at_least(x: Function, limit: float) -> Function:
    """max(x, limit) with the derivative 1 at the limit itself."""
    return compose(lambda x: jnp.where(x >= limit, x, jnp.full_like(x, limit)), x)


def at_most(x: Function, limit: float) -> Function:
    """min(x, limit) with the derivative 1 at the limit itself."""
    return compose(lambda x: jnp.where(x <= limit, x, jnp.full_like(x, limit)), x)


def _real_power(x, exponent):
    return jnp.exp(exponent * jnp.log(x))


def real_power(x: Function, exponent: float) -> Function:
    """x^p for x >= 1 and any p, several times faster than the general power; error p ln(x) times the rounding unit."""
    return compose(_real_power, x, exponent)


ROOT_FLOOR = 1e-80
"""Least argument of `safe_root`; (2 k_F n)^2 at the density floor is 4e-71."""


def _safe_root(x):
    lifted = jnp.where(x > ROOT_FLOOR, x, jnp.full_like(x, ROOT_FLOOR))
    return jnp.where(x > ROOT_FLOOR, jnp.sqrt(lifted), jnp.zeros_like(x))


safe_root = elementary(_safe_root, "safe_root")
"""sqrt(x), and 0 below ROOT_FLOOR with derivatives 0."""


def _admissible_tau(tau, tau_W, tau_unif):
    least = tau_W + TAU_FLOOR * tau_unif
    y = 4 * (tau - 0.5 * least) / least
    below = jnp.where(y < 0, y, jnp.zeros_like(y))
    return jnp.where(y < 0, least * (0.5 + 0.25 * jnp.tanh(below)), tau)


TAU_FLOOR = 1e-14
"""What `admissible_tau` adds to tau_W, in units of tau_unif."""


def admissible_tau(tau: Function, tau_W: Function, tau_unif: Function) -> Function:
    """tau, kept away from zero where it violates tau >= tau_W by far, for formulas that divide by it.

    Above tau_W / 2 it is tau itself. Below, where no density of orbitals lies, it goes over to tau_W / 4 with two
    continuous derivatives.
    """
    return compose(_admissible_tau, tau, tau_W, tau_unif)


@jax.custom_jvp
def zero_with_slope(rho, v):
    """0 for every density, with the derivative v."""
    return jnp.zeros_like(rho)


@zero_with_slope.defjvp
def _zero_with_slope_jvp(primals, tangents):
    return jnp.zeros_like(primals[0]), primals[1] * tangents[0]
