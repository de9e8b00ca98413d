r"""The Hartree energy of a density as a double integral, with the part of two electrons in one cell of the grid.

A self-consistent calculation takes the Coulomb energy from analytic integrals. This one serves orbital-free and
density-only work, and shows how a kernel that diverges at coinciding points is written.
"""

import math

import jax.numpy as jnp

from dftfd.autofd import compose
from dftfd.autofd.lowering import cell_volume
from dftfd.functionals.pairs import guarded, integral_over_there, squared_distance, there
from dftfd.functionals.registry import functional


def _inverse_distance(R2):
    """1 / R, and zero for coinciding points."""
    apart = R2 > 0
    return jnp.where(apart, 1 / jnp.sqrt(jnp.where(apart, R2, jnp.ones_like(R2))), jnp.zeros_like(R2))


def _cell_integral(volume):
    """Integral of 1 / r over a ball of this volume about its centre, 2 pi a^2 with 4 pi a^3 / 3 = volume.

    The weight of a grid point may be negative; the integral then has its sign.
    """
    nonzero = jnp.where(volume != 0, jnp.abs(volume), jnp.ones_like(volume))
    radius = jnp.cbrt(3 / (4 * math.pi) * nonzero)
    return jnp.sign(volume) * 2 * math.pi * radius * radius


@functional("hartree", doi="10.1017/S0305004100011919")
@guarded
def hartree(n):
    r"""Energy per volume [hartree / bohr^3].

    e = 1/2 n(r) \int n(r') / |r - r'| dr'

    On a grid the integral leaves out r' = r and adds n(r) times the integral of 1 / |r - r'| over the cell of r, taken
    as a ball of the volume of the cell. What remains is the error of the cell's shape and of its neighbours.
    """
    R2 = squared_distance(n)
    potential = integral_over_there(there(n) * compose(_inverse_distance, R2))
    own_cell = n * compose(_cell_integral, cell_volume(*n.domains))
    return 0.5 * n * (potential + own_cell)
