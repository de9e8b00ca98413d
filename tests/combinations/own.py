"""Functionals that no library has, one of each kind of code: formulas, a network, code on a grid, a double integral."""

import math

import jax
import jax.numpy as jnp

import dftfd
from dftfd.autofd import compose, dot, exp, function, laplacian, nabla
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
from dftfd.functionals.numerics import nonnegative
from dftfd.functionals.pairs import integral_over_there, squared_distance, there
from dftfd.functionals.registry import list_functionals


def know_own(xc: str) -> None:
    """Make known by name what an expression takes of these."""
    for name, make in OWN.items():
        if name in xc and name not in list_functionals():
            make(name)


def _with_gradients(name):
    @dftfd.functional(name)
    def enhanced(n, *, c=-0.7385587663820224, b=0.004):
        """Slater exchange with a fourth root of the reduced gradient; spin is left out on purpose."""
        squares = dot(nabla(n), nabla(n))
        return c * n ** (4 / 3) * (1 + 4 * b * squares / (n ** (8 / 3) + 1e-10)) ** (1 / 4)


def _with_tau(name):
    @dftfd.functional(name)
    @spin_scaled
    def with_tau(n, tau, *, c=-0.75, a=0.12):
        """Slater exchange, more of it where tau is small."""
        return c * n ** (4 / 3) * (1 + a * n ** (5 / 3) / (n ** (5 / 3) + tau))


def _with_laplacian(name):
    @dftfd.functional(name)
    def with_laplacian(n, *, c=-0.75, a=0.01):
        """A bounded, smooth function of the Laplacian."""
        q = laplacian(n) / (n ** (5 / 3) + 1e-3)
        return c * n ** (4 / 3) * (1 + a * q / (1 + q * q) ** (1 / 2))


def _with_position(name):
    @dftfd.functional(name)
    @spin_scaled
    def with_position(n, *, c=1.0):
        """Slater exchange that depends on where it is, and stays there when the nuclei move."""
        return c * slater_exchange(n) * (1 + function(lambda r: 0.02 * jnp.exp(-jnp.sum(r * r) / 9), *n.domains))


def network():
    """One hidden layer of four units, of a fixed key."""
    import equinox as eqx

    return eqx.nn.MLP("scalar", "scalar", 4, 1, jax.nn.silu, key=jax.random.key(0))


def _learned(name):
    import equinox as eqx

    class Enhancement(eqx.Module):
        network: eqx.nn.MLP

        def __call__(self, s2):
            u = s2 / (1 + s2)
            return 1 + 0.804 * u * jax.nn.sigmoid(self.network(u))

    net = Enhancement(network())

    @dftfd.functional(name)
    @spin_scaled
    def learned(n, *, enhancement=net, c=1.0):
        return c * slater_exchange(n) * compose(enhancement, reduced_gradient_squared(n))


def _on_the_grid(name):
    @dftfd.grid_functional(name)
    def on_the_grid(rho, grad_rho, weights, *, c=-0.9305257363491, b=0.004):
        """Slater exchange of each spin, enhanced by gradients."""
        n43 = jnp.where(rho > 1e-20, rho, 1e-20) ** (4 / 3)
        squares = (grad_rho**2).sum(axis=1)
        return weights @ (c * n43 - b * squares * n43 / (n43**2 + squares / 20)).sum(axis=0)


def _averaged(name):
    @dftfd.functional(name)
    def averaged(n, *, width=1.2, c=-0.7385587663820224):
        """Slater exchange of a density that is averaged over a Gaussian."""
        w = (math.pi * width**2) ** -1.5
        nbar = integral_over_there(there(n) * w * exp(-squared_distance(n) / width**2))
        return c * n * nonnegative(nbar) ** (1 / 3)


OWN = {
    "gga_x_combination": _with_gradients,
    "mgga_x_combination": _with_tau,
    "lapl_x_combination": _with_laplacian,
    "r_x_combination": _with_position,
    "net_x_combination": _learned,
    "grid_x_combination": _on_the_grid,
    "pair_combination": _averaged,
}
"""By name, what makes them known."""
