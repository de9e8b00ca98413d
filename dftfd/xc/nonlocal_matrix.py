"""Energy, matrix and response of functionals with double integrals, for density matrices."""

from collections.abc import Callable

import numpy as np

from dftfd.xc.matrix import MatrixBuilder, XCContribution
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel
from dftfd.xc.nonlocal_response import NonlocalXCResponse


class NonlocalXCBuilder(MatrixBuilder):
    """Energy and matrix of a kernel for density matrices in the basis of `store`."""

    kernel: NonlocalXCKernel

    def build(self, P, C_occ=None) -> XCContribution:
        """Energy, matrix and electron numbers of P; arguments as in XCBuilder.build."""
        points, weights = self.grid
        density = self.density(P, C_occ)
        energy, potential = self.kernel(points, weights, density)
        return XCContribution(energy, self.matrix(potential), density[:, 0] @ weights)

    def response(self, P, C_occ=None) -> Callable[[np.ndarray], np.ndarray]:
        """The map dP -> dV as XCBuilder.response gives it."""
        change = NonlocalXCResponse(self.kernel, *self.grid, self.density(P, C_occ))
        return lambda dP: self.matrix(change(self.density(dP)))
