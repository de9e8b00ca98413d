"""Energy and matrix of functionals with double integrals, for density matrices."""

from dftfd.xc.matrix import MatrixBuilder, XCContribution
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel


class NonlocalXCBuilder(MatrixBuilder):
    """Energy and matrix of a kernel for density matrices in the basis of `store`."""

    kernel: NonlocalXCKernel

    def build(self, P, C_occ=None) -> XCContribution:
        """Energy, matrix and electron numbers of P; arguments as in XCBuilder.build."""
        points, weights = self.grid
        density = self.density(P, C_occ)
        energy, potential = self.kernel(points, weights, density)
        return XCContribution(energy, self.matrix(potential), density[:, 0] @ weights)
