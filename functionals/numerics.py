"""Safe numerics, the one place where low densities are dealt with.

Below DENSITY_FLOOR the energy and all its derivatives are zero. The formula itself is then evaluated at a harmless
density (the double-where construction), so that derivatives of any order stay finite and formulas stay bare.
"""

import jax.numpy as jnp

from dftfd.autofd import Function, compose, elementary

DENSITY_FLOOR = 1e-24
"""Density [bohr^-3] below which a functional's energy is zero. There the LDA potential is 1e-8 hartree."""

POLARISATION_FLOOR = 1e-15
"""Least value of 1 - |zeta| that enters a power; smaller ones are replaced by it."""


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


def _nonnegative(n):
    return jnp.where(n > DENSITY_FLOOR, n, jnp.full_like(n, DENSITY_FLOOR))


nonnegative = elementary(_nonnegative, "nonnegative")
"""max(n, DENSITY_FLOOR), for powers of a spin density that may vanish where the other does not."""


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
    return jnp.where(x > POLARISATION_FLOOR, x, jnp.full_like(x, POLARISATION_FLOOR))


positive_part = elementary(_positive_part, "positive_part")
"""max(x, POLARISATION_FLOOR), for 1 + zeta and 1 - zeta under roots."""
