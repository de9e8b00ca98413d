r"""Becke and Roussel's exchange, from a hydrogen-like model of the exchange hole.

A. D. Becke, M. R. Roussel, Phys. Rev. A 39, 3761 (1989). doi:10.1103/PhysRevA.39.3761

The hole's shape x solves  x exp(-2x/3) / (x - 2) = 2/3 pi^(2/3) rho^(5/3) / Q  (eq. 21). With r the inverse of the
right side it is (1 - 2/x) exp(2x/3) = r, whose solution is smooth in r from x = 0 at r = -inf through x = 2 at Q = 0.
"""

import math

import jax
import jax.numpy as jnp

from dftfd.autofd import elementary, exp, expm1, laplacian
from dftfd.functionals.common import gradient_squared, per_spin
from dftfd.functionals.registry import functional

_NEWTON_STEPS = 9


@jax.custom_jvp
def _hole_shape(r):
    """x with (1 - 2/x) exp(2x/3) = r.

    F(x) = (x - 2) exp(2x/3) - r x is convex and positive at the start, so Newton's method descends to the root.
    """
    x = jnp.where(r > 0, 3 + 1.5 * jnp.log1p(jnp.maximum(r, 0.0)), 2.0)
    for _ in range(_NEWTON_STEPS):
        e = jnp.exp(2 / 3 * x)
        x = x - ((x - 2) * e - r * x) / ((2 * x - 1) / 3 * e - r)
    return x


@_hole_shape.defjvp
def _hole_shape_jvp(primals, tangents):
    """dx/dr = 3/2 x^2 exp(-2x/3) / (x^2 - 2x + 3)."""
    x = _hole_shape(*primals)
    return x, 1.5 * x * x * jnp.exp(-2 / 3 * x) / (x * x - 2 * x + 3) * tangents[0]


hole_shape = elementary(_hole_shape, "hole_shape")


def hole_potential(n_s, tau_s, gamma):
    r"""Coulomb potential of the hole at the electron [hartree], eqs. 17 and 20.

    U = -(1 - exp(-x) - x exp(-x)/2) / b,   b^3 = x^3 exp(-x) / (8 pi rho),
    Q = (nabla^2 rho - 2 gamma D) / 6,   D = 2 tau - |nabla rho|^2 / (4 rho)                           (eq. 13)
    """
    D = 2 * tau_s - gradient_squared(n_s) / (4 * n_s)
    Q = (laplacian(n_s) - 2 * gamma * D) / 6
    x = hole_shape(1.5 * math.pi ** (-2 / 3) * Q * n_s ** (-5 / 3))
    return 2 * (math.pi * n_s) ** (1 / 3) * exp(x / 3) * (expm1(-x) + 0.5 * x * exp(-x)) / x


@functional("mgga_x_br89", doi="10.1103/PhysRevA.39.3761")
def exchange(rho, tau, *, gamma=0.8):
    """e_x = 1/2 sum_s rho_s U_s (eq. 16).   gamma = 1 is exact for the hole's curvature, 0.8 for the uniform gas."""
    return per_spin(lambda n_s, tau_s: 0.5 * n_s * hole_potential(n_s, tau_s, gamma), rho, tau)
