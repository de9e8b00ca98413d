"""The energy functional of one calculation: which integrals, grid, functional and surroundings make it up."""

import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dftfd.ao_store import AOStore
from dftfd.device_xc import DeviceXCBuilder, accelerated_devices
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.integrals import DensityFittedCoulombExchange, ExactCoulombExchange, OneElectron
from dftfd.interop.dispersion import dispersion_correction
from dftfd.kernel import XCKernel
from dftfd.kohn_sham import KohnSham
from dftfd.memory import memory_plan
from dftfd.molecule import Molecule
from dftfd.nonlocal_xc import NonlocalXCBuilder, NonlocalXCKernel
from dftfd.options import Options, method_for
from dftfd.resources import memory_budget
from dftfd.scf.occupation import Occupier
from dftfd.scf.orbitals import canonical_orthonormaliser
from dftfd.scf.problem import Problem
from dftfd.surroundings import Surroundings, surroundings_for
from dftfd.xc import XCBuilder, ao_order
from dftfd.xc_response import XCResponseBuilder

MAX_KERNELS = 16
_KERNELS: dict[tuple, XCKernel | NonlocalXCKernel] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True, eq=False)
class Calculation:
    """Checked options that define the energy as a functional of the density matrix; `build` computes what it needs.

    method: 'RKS', 'UKS' or 'ROKS'.   grid: a level, or (points, weights).   nlc_level: that of double integrals.
    """

    molecule: Molecule
    functional: Functional
    method: str
    grid: Any
    nlc_level: int
    density_fit: bool
    linear_dependence: float
    surroundings: Surroundings

    @classmethod
    def of(cls, molecule: Molecule, options: Options) -> "Calculation":
        """The calculation that options ask for; InputError for what does not suit the molecule."""
        return cls(
            molecule=molecule,
            functional=get_functional(options.xc),
            method=method_for(options.method, molecule.spin),
            grid=options.grid_level if options.grid is None else options.grid,
            nlc_level=options.nlc_grid_level,
            density_fit=options.density_fit,
            linear_dependence=options.linear_dependence,
            surroundings=surroundings_for(molecule, options.electric_field, options.point_charges, options.relativity),
        )

    @property
    def n_spin(self) -> int:
        """Number of density matrices."""
        return 1 if self.method == "RKS" else 2

    @property
    def capacity(self) -> int:
        """Electrons that one orbital of one spin can hold."""
        return 3 - self.n_spin

    @property
    def n_occupied(self) -> tuple[int, ...]:
        """Occupied orbitals per spin."""
        return (self.molecule.n_alpha, self.molecule.n_beta)[: self.n_spin]

    def unrestricted(self) -> "Calculation":
        """The same energy for different orbitals of both spins."""
        return replace(self, method="UKS")

    def nlc_grid(self):
        """(points, weights) for the integrals of a nonlocal functional's potential; None for a semilocal one."""
        return quadrature_grid(self.molecule, self.nlc_level) if self.functional.is_nonlocal else None

    def coulomb_exchange(self, budget: int | None = None):
        """The builder of J and K, which may take `budget` bytes; by default most of what is available."""
        if not self.density_fit:
            return ExactCoulombExchange(self.molecule, n_operators=len({0.0, *self._omegas}))
        return DensityFittedCoulombExchange(self.molecule, bool(self.functional.exact_exchange), budget)

    def dispersion(self) -> tuple[float, np.ndarray]:
        """Energy of the functional's dispersion correction [hartree] and its gradient (atom, 3); zeros without one."""
        if self.functional.dispersion is None:
            return 0.0, np.zeros((self.molecule.n_atoms, 3))
        return dispersion_correction(self.molecule, *self.functional.dispersion)

    def build(self, progress, max_memory=None) -> "Ingredients":
        """Integrals, grid and kernels, within a limit of memory as in `dftfd.resources.memory_budget`."""
        molecule = self.molecule
        dispersion, _ = self.dispersion()
        budget = memory_budget(max_memory)
        coulomb_exchange = self.coulomb_exchange(budget)
        kernels = {}
        if self.functional.terms:
            with progress.stage("functional"):
                kernels = xc_kernels(self.functional, self.n_spin)
        plan = self._memory_plan(coulomb_exchange, kernels, budget)
        progress.note(str(plan))
        plan.require_room()
        coulomb_exchange = coulomb_exchange.within(plan.room)
        with progress.stage("integrals"):
            matrices = self.surroundings.one_electron(molecule)
            X = canonical_orthonormaliser(matrices.S, self.linear_dependence)
            progress.note(coulomb_exchange.describe())
        kept = sum(coulomb_exchange.memory(self._omegas)[1].values())
        builders = XCBuilders(kernels, molecule, self._grids(kernels), plan.room - kept, progress)
        energy = KohnSham(
            self.surroundings.nuclear_energy(molecule),
            matrices.H_core,
            coulomb_exchange,
            builders.semilocal,
            self.functional.exact_exchange,
            builders.nonlocal_xc,
            builders.response,
            dispersion,
        )
        return Ingredients(self, matrices, X, coulomb_exchange, builders, energy, plan.room - kept - builders.nbytes)

    @property
    def _omegas(self):
        return [omega for omega, _ in self.functional.exact_exchange]

    def _grids(self, kernels):
        """The grid, a level or points and weights, of each kind of kernel."""
        grids = {"semilocal": self.grid, "nonlocal_xc": self.nlc_level}
        return {part: grids[part] for part in kernels}

    def _memory_plan(self, coulomb_exchange, kernels, budget):
        grids = self._grids(kernels).values()
        order = max(map(ao_order, kernels.values()), default=0)
        integrals = coulomb_exchange.memory(self._omegas)
        return memory_plan(self.molecule, self.n_spin, grids, order, integrals, budget)


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What a calculation has computed before its first cycle.

    X: orthonormaliser (ao, mo).   room: bytes left within the limit of memory.
    """

    calculation: Calculation
    matrices: OneElectron
    X: np.ndarray
    coulomb_exchange: object
    builders: "XCBuilders"
    energy: KohnSham
    room: int

    def problem(self, occupy: Occupier) -> Problem:
        """The SCF problem with a rule for the occupations."""
        return Problem(
            self.energy.evaluate,
            self.matrices.S,
            self.X,
            occupy,
            self.calculation.method == "ROKS",
            self.energy.response,
        )


class XCBuilders:
    """Builders of the semilocal and the nonlocal energy, each None without such terms; the same grid is used once.

    n_points: of the semilocal grid, zero without.   nbytes: of the orbitals that are kept.
    """

    def __init__(self, kernels, molecule, grids, memory_limit, progress):
        """kernels: from `xc_kernels`, with a grid for each.   memory_limit: bytes of orbitals on grids to keep."""
        self.semilocal = self.nonlocal_xc = None
        self.n_points = self.nbytes = 0
        self._kernel = self._store = store = None
        devices = accelerated_devices()
        order = max(map(ao_order, kernels.values()), default=0)
        shared = len(kernels) == 2 and isinstance(grids["semilocal"], int) and len(set(grids.values())) == 1
        for part, kernel in kernels.items():
            if store is None or not shared:
                points, weights = self._grid(molecule, grids[part], progress)
                with progress.stage("orbitals on the grid"):
                    on_devices = part == "semilocal" and devices is not None
                    limit = 0 if on_devices else memory_limit - self.nbytes
                    kept_order = order if shared else ao_order(kernel)
                    store = AOStore(molecule, points, weights, kept_order, memory_limit=limit)
                    self.nbytes += store.nbytes
            if part == "semilocal":
                self.n_points = len(points)
                if devices is None:
                    self.semilocal = XCBuilder(kernel, store, progress.part)
                else:
                    self.semilocal = DeviceXCBuilder(kernel, store, devices)
                self._kernel, self._store = kernel, store
            else:
                self.nonlocal_xc = NonlocalXCBuilder(kernel, store)

    def response(self) -> XCResponseBuilder:
        """The derivative of the semilocal matrix, on the same orbitals."""
        return XCResponseBuilder(self._kernel, self._store)

    @staticmethod
    def _grid(molecule, grid, progress):
        """(points, weights) of a level, or as given."""
        with progress.stage("grid"):
            points, weights = quadrature_grid(molecule, grid) if isinstance(grid, int) else grid
            progress.note(f"grid of {len(points)} points")
        return points, weights


def xc_kernels(functional, n_spin) -> dict:
    """The kernels of a functional's semilocal and nonlocal part, of those that it has."""
    kernels = {}
    if functional.is_semilocal:
        kernels["semilocal"] = lowered(XCKernel, functional.semilocal_part, n_spin)
    if functional.is_nonlocal:
        kernels["nonlocal_xc"] = lowered(NonlocalXCKernel, functional.nonlocal_part, n_spin)
    return kernels


def lowered(kind, functional, n_spin, **options):
    """The kernel of a functional; the same terms are compiled once per process, for the last few functionals."""
    key = (kind, n_spin, *options.items(), *((float(coefficient), id(term)) for coefficient, term in functional.terms))
    with _LOCK:
        kernel = _KERNELS.get(key)
    if kernel is None:
        kernel = kind(functional, n_spin, **options)  # holds the terms, so their ids stay theirs
        with _LOCK:
            while len(_KERNELS) >= MAX_KERNELS:
                del _KERNELS[next(iter(_KERNELS))]
            _KERNELS[key] = kernel
    return kernel


@lru_cache(maxsize=2)
def quadrature_grid(molecule, level: int) -> tuple[np.ndarray, np.ndarray]:
    """(points, weights) of a level. Those used last are kept, since cycles, forces and properties share them."""
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    return np.asarray(grid.points), np.asarray(grid.weights)
