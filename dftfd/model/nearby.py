"""The solution of a calculation at a geometry nearby, from the density that it has where it was solved."""

from dataclasses import replace
from typing import Any

import numpy as np

from dftfd.libcint.guesses import moved_density
from dftfd.model.solved_calculation import Solved
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import blas_threads
from dftfd.scf.convergence import Convergence
from dftfd.scf.loop import solve
from dftfd.scf.occupation import MaximumOverlap


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
