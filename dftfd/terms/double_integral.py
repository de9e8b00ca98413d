"""The exchange-correlation energy of a functional's double integrals: VV10, rVV10, vdW-DF, or a user's own."""

from functools import cached_property

from dftfd.functionals.base import Functional
from dftfd.terms.lowered import lowered
from dftfd.terms.on_grid import GridOrbitals, gradient_on_grid
from dftfd.terms.term import Contribution, Term
from dftfd.xc.matrix import ao_order
from dftfd.xc.nonlocal_matrix import NonlocalXCBuilder, NonlocalXCKernel
from dftfd.xc.nonlocal_response import matrix_response


class DoubleIntegralEnergy(Term):
    """E[rho, tau] of double integrals, on a grid as a whole.

    grid: a level.   orbitals: those of the molecule on its grids.
    """

    components = {"nonlocal": "nonlocal correlation"}
    stage = "nonlocal derivatives"

    def __init__(self, functional: Functional, n_spin: int, molecule, grid, orbitals: GridOrbitals):
        self._functional, self._n_spin, self._molecule, self._grid = functional, n_spin, molecule, grid
        self.kernel = lowered(NonlocalXCKernel, functional, n_spin)
        self._orbitals = orbitals
        orbitals.reserve(grid, ao_order(self.kernel))

    @cached_property
    def builder(self) -> NonlocalXCBuilder:
        """Energy and matrix on the grid."""
        return NonlocalXCBuilder(self.kernel, self._orbitals.store(self._grid))

    def prepare(self, progress):
        self.builder  # noqa: B018

    def evaluate(self, P, C_occ=None):
        found = self.builder.build(P, C_occ)
        return Contribution({"nonlocal": found.energy}, found.matrix, found.n_electrons)

    def response(self, P, C_occ=None):
        return matrix_response(self.builder, P, C_occ)

    def gradient(self, P, C_occ, grid_response, progress):
        kernel = lowered(NonlocalXCKernel, self._functional, self._n_spin, moving_points=True)
        return gradient_on_grid(self._molecule, kernel, self._grid, P, C_occ, grid_response, progress, whole_grid=True)
