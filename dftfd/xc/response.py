r"""Response of the exchange-correlation matrix to a change of the density matrix, on the quadrature grid.

    dV[dP] = d/dt V_xc[P + t dP] at t = 0

It is the derivative of the very number that `XCBuilder` differentiates: at each point the kernel's potential with
respect to the density jet is differentiated once more, forward along the jet of dP. No second derivative is written
down, whatever the ingredients of the functional.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.scalar.derive import with_gradient
from dftfd.autofd.scalar.on_jax import run, run_in_one_loop
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import NumericalError
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import MatrixBuilder

MAX_KERNELS = 16


class XCResponseKernel:
    """kernel(points, weights, density, tangent) -> change of the potential, all (spin, channel, point).

    The directional derivative, along `tangent`, of the potential that an XCKernel returns for `density`: the program of
    the potential, differentiated once more and carried out in one loop over the points like that of the SCF.
    """

    def __init__(self, kernel: XCKernel):
        self._shape = kernel.n_spin, kernel.channels
        self._call = jax.jit(self._weighted)
        self._energy_density = kernel.energy_density

    @functools.cached_property
    def _program(self):
        """Entries of density, of its change, and of the point -> changes of the entries of the potential."""
        n = math.prod(self._shape)
        arrays = (jax.ShapeDtypeStruct(shape, np.float64) for shape in (self._shape, (3,)))
        slopes = with_gradient(point_program(self._energy_density, *arrays), count=n)

        def change(*inputs):
            density, tangent, point = inputs[:n], inputs[n : 2 * n], inputs[2 * n :]
            potential = lambda *x: tuple(run(slopes, [*x, *point])[1:])
            return jax.jvp(potential, density, tangent)[1]

        return point_program(change, *[jax.ShapeDtypeStruct((), np.float64)] * (2 * n + 3), inline=True)

    def __call__(self, points, weights, density, tangent):
        return self._call(points, weights, density, tangent)

    def _weighted(self, points, weights, density, tangent):
        entries = lambda channels: list(channels.reshape(-1, channels.shape[-1]))
        rows = run_in_one_loop(self._program, [*entries(density), *entries(tangent), *points.T])
        return jnp.stack(rows).reshape(density.shape) * weights[None, None, :]


@functools.lru_cache(maxsize=MAX_KERNELS)
def response_kernel(kernel: XCKernel) -> XCResponseKernel:
    """The response kernel of a kernel, compiled once."""
    return XCResponseKernel(kernel)


class XCResponseBuilder(MatrixBuilder):
    """The linear map dP -> dV at a density matrix; build it with `XCResponseBuilder(kernel, store).at(P)`."""

    def __init__(self, kernel: XCKernel, store: AOStore):
        super().__init__(kernel, store)
        self._response = response_kernel(kernel)

    def at(self, P, C_occ=None) -> Callable[[np.ndarray], np.ndarray]:
        """The map from symmetric dP (spin, ao, ao) to dV (spin, ao, ao) [hartree] at P; C_occ as in `XCBuilder.build`.

        The density on the grid is kept: 8 bytes for each spin, channel and point.
        """
        P, C_occ = self._checked(P, C_occ)
        densities = np.empty((len(self.store.blocks), len(P), self.kernel.channels, self.store.block_size))
        self._on_workers(self._keep_densities, P, C_occ, densities)

        def change(dP):
            dP, _ = self._checked(dP, None)
            M = sum(self._on_workers(self._change_part, dP, densities))
            if not np.all(np.isfinite(M)):
                raise NumericalError(
                    "the second derivative of the functional is not finite at some grid point; its response cannot be "
                    "used here: choose convergence='diis'."
                )
            return M + M.transpose(0, 2, 1)

        return change

    def _keep_densities(self, part, scratch, P, C_occ, densities):
        for index in part:
            self._density(index, self._values(index, scratch), P, C_occ, densities[index], scratch)

    def _change_part(self, part, scratch, dP, densities):
        M = np.zeros_like(dP)
        tangent = scratch("tangent", len(dP), self.kernel.channels, self.store.block_size)
        for index in part:
            block = self.store.blocks[index]
            ao = self._values(index, scratch)
            self._density(index, ao, dP, None, tangent, scratch)
            change = self._response(block.points, block.weights, densities[index], tangent)
            self._add_half_matrix(index, ao, np.asarray(change), M, scratch)
        return M
