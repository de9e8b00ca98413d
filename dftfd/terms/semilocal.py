"""The exchange-correlation energy of a functional's terms without integrals."""

from functools import cached_property

from dftfd.functionals.base import Functional
from dftfd.terms.lowered import lowered
from dftfd.terms.on_grid import GridOrbitals, gradient_on_grid
from dftfd.terms.term import Contribution, Term
from dftfd.xc.device import DeviceXCBuilder, accelerated_devices
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder, ao_order
from dftfd.xc.response import XCResponseBuilder


class SemilocalEnergy(Term):
    """E_xc[rho, tau] of a semilocal functional on a grid, on the accelerator where there is one.

    grid: a level, or (points, weights).   orbitals: those of the molecule on its grids.
    """

    components = {"xc": "exchange-correlation"}
    stage = "semilocal derivatives"

    def __init__(self, functional: Functional, n_spin: int, molecule, grid, orbitals: GridOrbitals, progress):
        self.functional, self.grid, self._molecule = functional, grid, molecule
        self.kernel = lowered(XCKernel, functional, n_spin)
        self._orbitals, self._progress = orbitals, progress
        self._devices = accelerated_devices()
        orbitals.reserve(grid, ao_order(self.kernel), keep=self._devices is None)

    @cached_property
    def builder(self):
        """Object with `build(P, C_occ)`."""
        store = self._orbitals.store(self.grid)
        if self._devices is None:
            return XCBuilder(self.kernel, store, self._progress.part)
        return DeviceXCBuilder(self.kernel, store, self._devices)

    @cached_property
    def _response(self):
        return XCResponseBuilder(self.kernel, self._orbitals.store(self.grid))

    def prepare(self, progress):
        self.builder  # noqa: B018

    def evaluate(self, P, C_occ=None):
        found = self.builder.build(P, C_occ)
        return Contribution({"xc": found.energy}, found.matrix, found.n_electrons)

    @property
    def lacks_response(self):
        models = ", ".join(repr(term.name) for _, term in self.functional.terms if not term.has_energy)
        return models and (
            f"{models} is a model of the potential alone: without an energy there is no Hessian, so neither stability "
            "nor second-order or direct minimisation exists; use convergence='auto', 'diis' or 'adiis'."
        )

    def response(self, P, C_occ=None):
        return self._response.at(P, C_occ)

    def gradient(self, P, C_occ, grid_response, progress):
        return gradient_on_grid(self._molecule, self.kernel, self.grid, P, C_occ, grid_response, progress)
