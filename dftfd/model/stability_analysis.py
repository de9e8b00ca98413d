"""Stability of a result: the orbital-rotation Hessian of its calculation, and that of the unrestricted one."""

from dataclasses import replace

import numpy as np

from dftfd.errors import InputError
from dftfd.functionals import supports
from dftfd.grids.atomic import N_LEVELS
from dftfd.model.solved_calculation import SolvedCalculation
from dftfd.runtime.progress import Progress
from dftfd.scf.occupation import Aufbau
from dftfd.scf.problem import State
from dftfd.scf.stability import UNSTABLE, Stability, downhill, energy_model, lowest_rotation
from dftfd.terms.on_grid import Quadrature

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
