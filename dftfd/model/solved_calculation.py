"""What the packages below results know of an SCFResult, and its solution at another geometry."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from dftfd.functionals.base import Functional
from dftfd.libcint.guesses import moved_density
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.runtime.array_types import DensityMatrix, FockMatrix, Occupations, OrbitalEnergies, Orbitals
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import blas_threads
from dftfd.scf.convergence import Convergence
from dftfd.scf.loop import solve
from dftfd.scf.occupation import MaximumOverlap
from dftfd.system.molecule import Molecule


class UsedSettings(Protocol):
    """What the numbers depend on."""

    @property
    def options(self) -> Options: ...
    @property
    def functional(self) -> str: ...
    @property
    def definition(self) -> Mapping: ...
    @property
    def basis(self) -> str: ...


class SolvedCalculation(Protocol):
    """A calculation and where its SCF ended; see dftfd.SCFResult. `dataclasses.replace` makes others of it."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def calculation(self) -> Calculation: ...
    @property
    def settings(self) -> UsedSettings: ...
    @property
    def molecule(self) -> Molecule: ...
    @property
    def functional(self) -> Functional: ...
    @property
    def method(self) -> str: ...
    @property
    def features(self) -> frozenset[str]: ...
    @property
    def converged(self) -> bool: ...
    @property
    def steps(self) -> tuple[str, ...]: ...
    @property
    def energy(self) -> float: ...
    @property
    def energies(self) -> Mapping[str, float]: ...
    @property
    def mo_energy(self) -> OrbitalEnergies: ...
    @property
    def mo_occ(self) -> Occupations: ...
    @property
    def mo_coeff(self) -> Orbitals: ...
    @property
    def density_matrix(self) -> DensityMatrix: ...
    @property
    def fock(self) -> FockMatrix | None: ...
    def require_converged(self, what: str) -> None: ...


Solved = TypeVar("Solved", bound=SolvedCalculation)


def solution_at(result: Solved, coordinates: np.ndarray, thresholds: Convergence, progress: Progress) -> Solved:
    """The result, an SCFResult, with its molecule's nuclei at coordinates (atom, 3) [bohr], solved again there.

    Occupations follow the same rule; followed orbitals are those of the result. Where the search does not converge,
    the result says so.
    """
    options, molecule = result.settings.options, result.molecule.at(coordinates)
    calculation = replace(result.calculation, molecule=molecule)
    ingredients = calculation.build(progress)
    occupy = calculation.occupier(options)
    if options.follow_orbitals:
        numbers = tuple(tuple(map(float, n)) for n in result.mo_occ)
        occupy = MaximumOverlap(numbers, result.mo_coeff, ingredients.matrices.S)
    P = moved_density(result.molecule, result.density_matrix, molecule, calculation.linear_dependence)
    plan = replace(options.strategy, looks=False, follow=False)
    with blas_threads(1), progress.stage("scf"):
        problem = ingredients.problem(occupy)
        solution: Any = solve(problem, P, strategy=plan, convergence=thresholds, on_cycle=progress.cycle)
    n_electrons = solution.state.evaluation.n_electrons
    return replace(result, calculation=calculation, n_electrons_quadrature=n_electrons, **solution.told)
