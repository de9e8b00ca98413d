"""What the packages below results know of an SCFResult: its solution at another geometry, and its stability."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from dftfd.errors import InputError
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.grids.atomic import N_LEVELS
from dftfd.libcint.guesses import moved_density
from dftfd.model.calculation import Calculation, Ingredients
from dftfd.model.options import Options
from dftfd.runtime.array_types import DensityMatrix, FockMatrix, Occupations, OrbitalEnergies, Orbitals
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import blas_threads
from dftfd.scf.convergence import Convergence
from dftfd.scf.loop import solve
from dftfd.scf.orbitals import Aufbau, MaximumOverlap
from dftfd.scf.problem import State
from dftfd.scf.stability import UNSTABLE, Stability, downhill, energy_model, lowest_rotation
from dftfd.system.molecule import Molecule
from dftfd.terms.on_grid import Quadrature


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
    return solved_at(result, coordinates, thresholds, progress)[0]


def solved_at(
    result: Solved, coordinates: np.ndarray, thresholds: Convergence, progress: Progress
) -> tuple[Solved, Ingredients]:
    """`solution_at`, and the integrals and grids computed for it, with which a response continues."""
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
    solved = replace(result, calculation=calculation, n_electrons_quadrature=n_electrons, **solution.told)
    return solved, ingredients


MARGINAL = -5e-3
"""Eigenvalue [hartree] above which a negative one may be the grid's: a finer grid tells how far it is moved."""


def result_stability(result: SolvedCalculation) -> Stability:
    """The lowest Hessian eigenvalues of a result; its integrals are computed again, so that results stay small.

    The Hessian is that of all terms of the energy; UnsupportedError where one has no response.
    """
    supports.require("stability of a state", result.functional, result.features)
    if not result.converged:
        raise InputError("stability is defined for converged results.")
    calculation = result.calculation
    value, guess, noise = _lowest(result, calculation, 1, antisymmetric=False)
    if result.method != "RKS":
        return Stability(value, None, guess, noise)
    external, other_guess, other_noise = _lowest(result, calculation.unrestricted(), 2, antisymmetric=True)
    steeper = external is not None and (value is None or external < value)
    return Stability(value, external, other_guess if steeper else guess, max(noise, other_noise))


def _lowest(result: SolvedCalculation, calculation, repeat, antisymmetric):
    """(lowest eigenvalue, density down there, the grid's noise in it), each of the result's orbitals `repeat` times."""
    problem, state = _state(result, calculation, repeat)
    model = energy_model(problem, state)
    value, direction = lowest_rotation(model, antisymmetric)
    if value is None or value > UNSTABLE:
        return value, None, 0.0
    noise = 0.0
    if value > MARGINAL and calculation.grid.moves:
        finer = replace(calculation, grid=Quadrature(min(calculation.grid.level + 2, N_LEVELS - 1)))
        change = energy_model(*_state(result, finer, repeat)).hessian_times(direction)
        noise = abs(float(direction @ change) / float(direction @ direction) - value)
    if value > UNSTABLE - noise:
        return value, None, noise
    lower = downhill(problem, state, model, direction, 0)
    return value, None if lower is None else lower.P, noise


def _state(result: SolvedCalculation, calculation, repeat):
    """(problem, state) of a result's orbitals, each `repeat` times, in a calculation."""
    ingredients = calculation.build(Progress())
    ingredients.energy.require_response()
    problem = ingredients.problem(Aufbau(calculation.n_occupied, calculation.capacity))
    arrays = (result.mo_energy, result.mo_occ / repeat, result.mo_coeff)
    mo_energy, mo_occ, mo_coeff = (np.repeat(a, repeat, axis=0) for a in arrays)
    P = np.repeat(result.density_matrix / repeat, repeat, axis=0)
    return problem, State(P, problem.start(P).evaluation, mo_energy, mo_occ, mo_coeff)
