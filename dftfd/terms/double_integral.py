"""The exchange-correlation energy of a functional's double integrals: VV10, rVV10, vdW-DF, or a user's own."""

from functools import partial

from dftfd.functionals.base import Functional
from dftfd.terms.on_grid import GridEnergy, GridOrbitals
from dftfd.xc.code import shared
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel
from dftfd.xc.nonlocal_matrix import NonlocalXCBuilder


class DoubleIntegralEnergy(GridEnergy):
    """E[rho, tau] of double integrals, on a grid as a whole."""

    components = {"nonlocal": "nonlocal correlation"}
    stage = "nonlocal derivatives"

    def __init__(self, functional: Functional, n_spin: int, molecule, grid, orbitals: GridOrbitals):
        self._kernel_with = partial(shared, NonlocalXCKernel, functional, n_spin)
        super().__init__(self._kernel_with(), molecule, grid, orbitals)

    def made_on(self, store):
        return NonlocalXCBuilder(self.kernel, store)

    @property
    def gradient_kernel(self):
        return self._kernel_with(moving_points=True)
