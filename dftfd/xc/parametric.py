"""The kernel of a functional whose numbers change: what of them is an array is an argument of compiled programs.

XCKernel (xc.kernel) writes its derivatives out for each entry and has all numbers in its program, which is the fastest
code for one functional, and takes half a second to compile for the next. Here JAX differentiates on arrays: slower for
a point, and compiled once for all values of the parameters.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.functionals.base import Functional
from dftfd.functionals.pytree import put_together, taken_apart
from dftfd.xc.in_jax import double_integral_of_density
from dftfd.xc.kernel import Slopes, XCKernel

FEWEST = 2048
"""Points that a whole grid is filled up to, or to this number times a power of two: programs for few sizes."""


class ParametricKernel(XCKernel):
    """An XCKernel that compiles nothing for other values of those coefficients and parameters that are arrays."""

    def __init__(self, functional: Functional, n_spin: int):
        super().__init__(functional, n_spin)
        self._structure, self._values = taken_apart(functional)

    def slopes(self, points, weights, density) -> Slopes:
        self._refuse_tracers((points, weights, density))
        found = _slopes(self._structure, self.n_spin, self._values, points, weights, density)
        e, by_density, by_point = map(np.asarray, found)
        return Slopes(e, by_density, by_point.T)

    def response(self, points, weights, density, tangent):
        return np.asarray(_response(self._structure, self.n_spin, self._values, points, weights, density, tangent))


@partial(jax.jit, static_argnums=(0, 1))
def _slopes(structure, n_spin, values, points, weights, density):
    kernel = XCKernel(put_together(structure, values), n_spin)

    def total(density, points):
        e = jax.vmap(kernel.energy_density, in_axes=(-1, 0))(density, points)
        return weights @ e, e

    (by_density, by_point), e = jax.grad(total, argnums=(0, 1), has_aux=True)(density, points)
    return e, by_density, by_point


@partial(jax.jit, static_argnums=(0, 1))
def _response(structure, n_spin, values, points, weights, density, tangent):
    kernel = XCKernel(put_together(structure, values), n_spin)
    potential = jax.grad(lambda density: kernel.energy(points, weights, density))
    return jax.jvp(potential, (density,), (tangent,))[1]


def semilocal_energy_of(functional: Functional, n_spin: int, points, weights, density):
    """Energy [hartree] of terms without integrals; differentiable by their arrays and by density (spin, channel, point).

    The grid is filled up with points of no density, so that grids of many sizes share a few programs.
    """
    return _energy(*taken_apart(functional), n_spin, *_filled_up(points, weights, density))


def double_integral_energy_of(functional: Functional, points, weights, density):
    """The same of terms with integrals."""
    return _double_integral(*taken_apart(functional), *_filled_up(points, weights, density))


def _filled_up(points, weights, density):
    n, size = len(weights), FEWEST
    while size < n:
        size *= 2
    missing = size - n
    points = np.pad(points, ((0, missing), (0, 0)))
    return points, np.pad(weights, (0, missing)), jnp.pad(density, ((0, 0), (0, 0), (0, missing)))


@partial(jax.jit, static_argnums=(0, 2))
def _energy(structure, values, n_spin, points, weights, density):
    return XCKernel(put_together(structure, values), n_spin).energy(points, weights, density)


@partial(jax.jit, static_argnums=0)
def _double_integral(structure, values, points, weights, density):
    return double_integral_of_density(put_together(structure, values), density, points, weights)
