"""Stability of a solution: the lowest eigenvalue of the energy's Hessian in orbital rotations.

A negative one means that the solution is a saddle point: internal, within the method, or external, from restricted to
unrestricted orbitals. R. Seeger, J. A. Pople, J. Chem. Phys. 66, 3045 (1977). doi:10.1063/1.434318
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dftfd.scf.problem import Problem, State
from dftfd.scf.rotation import EnergyModel, canonical, rotated
from dftfd.scf.second_order import newton
from dftfd.scf.table import Convergence

UNSTABLE = -1e-4
"""Eigenvalues [hartree] below this are negative for sure; rotations of degenerate orbitals give zero, up to noise."""

RESIDUAL = 1e-4
MAX_VECTORS = 100
MAX_FOLLOWED = 6
STEPS = (0.1, 0.2, 0.4, 0.8)  # lengths of orbital rotations that are tried along an instability


@dataclass(frozen=True, eq=False)
class Stability:
    """Lowest Hessian eigenvalues [hartree]: internal, and for a restricted closed shell external (RKS -> UKS).

    They are None where there is no rotation, or no such analysis. A value below zero is an instability.
    """

    internal: float | None
    external: float | None = None

    @property
    def is_stable(self) -> bool:
        """True if no eigenvalue is below the noise."""
        return all(value is None or value > UNSTABLE for value in (self.internal, self.external))

    def __str__(self):
        parts = []
        for name, value in (("internal", self.internal), ("external, RKS to UKS", self.external)):
            if value is not None:
                word = "stable" if value > UNSTABLE else "UNSTABLE"
                parts.append(f"{word} ({name}: lowest Hessian eigenvalue {value:.6f} hartree)")
        return "; ".join(parts) or "no orbital rotation to analyse"


def lowest_rotation(model: EnergyModel, antisymmetric: bool = False):
    """(lowest eigenvalue, eigenvector) of the Hessian; (None, None) without variables.

    antisymmetric: within rotations that turn alpha and beta orbitals oppositely, for a state of equal spins.
    """
    size = model.rotations.size
    if not size:
        return None, None
    if not antisymmetric:
        return lowest_eigenpair(model.hessian_times, model.diagonal)
    half = size // 2

    def times(x):
        return model.hessian_times(np.concatenate([x, -x]))[:half]

    value, vector = lowest_eigenpair(times, model.diagonal[:half])
    return value, np.concatenate([vector, -vector])


def lowest_eigenpair(times: Callable, diagonal, n_start: int = 3, seed: int = 7):
    """Lowest eigenvalue and vector of a symmetric operator by Davidson's method.

    E. R. Davidson, J. Comput. Phys. 17, 87 (1975). doi:10.1016/0021-9991(75)90065-0. The first vectors are those of the
    smallest diagonal elements with some noise, so that no symmetry hides the lowest eigenvector.
    """
    n, rng = len(diagonal), np.random.default_rng(seed)
    chosen = np.argsort(diagonal, kind="stable")[: min(n_start, n)]
    start = np.zeros((n, len(chosen)))
    start[chosen, np.arange(len(chosen))] = 1.0
    scale = np.maximum(np.abs(diagonal), 0.05)  # noise must not bring in the core orbitals' large elements
    noise = 0.01 * rng.normal(size=start.shape) * (scale.min() / scale)[:, None]
    V = np.linalg.qr(start + noise)[0]
    HV = np.stack([times(v) for v in V.T], axis=1)
    while True:
        values, vectors = np.linalg.eigh((V.T @ HV + HV.T @ V) / 2)
        value, c = values[0], vectors[:, 0]
        x = V @ c
        residual = HV @ c - value * x
        if np.linalg.norm(residual) < RESIDUAL or V.shape[1] >= min(n, MAX_VECTORS):
            return float(value), x
        new = residual / np.maximum(diagonal - min(value, diagonal.min()), 0.05)
        for _ in range(2):
            new -= V @ (V.T @ new)
        if np.linalg.norm(new) < 1e-12:
            return float(value), x
        new /= np.linalg.norm(new)
        V, HV = np.column_stack([V, new]), np.column_stack([HV, times(new)])


def energy_model(problem: Problem, state: State) -> EnergyModel:
    """Gradient and full Hessian at a state."""
    return EnergyModel(problem, state, problem.response(state.P, state.C_occ))


def downhill(problem: Problem, state: State, model: EnergyModel, direction, number: int) -> State | None:
    """The lowest of the states some way along a rotation and back, or None if none is below `state`."""
    direction = direction / np.abs(direction).max()
    trials = [
        rotated(problem, state, model.rotations, sign * step * direction, number) for step in STEPS for sign in (1, -1)
    ]
    best = min(trials, key=lambda trial: trial.energy)
    return best if best.energy < state.energy else None


def follow_instability(problem: Problem, state: State, convergence: Convergence, first: int, record: Callable):
    """(state, converged, cycles, steps): descends by second order until the Hessian has no negative eigenvalue."""
    steps, number, converged = [], first - 1, True
    for _ in range(MAX_FOLLOWED):
        state = canonical(problem, state)
        model = energy_model(problem, state)
        value, direction = lowest_rotation(model)
        if value is None or value > UNSTABLE:
            break
        lower = downhill(problem, state, model, direction, number + 1)
        if lower is None:
            break
        steps.append(f"internal instability ({value:.4f} hartree) followed")
        state, converged, number = newton(problem, lower, convergence, number + 1, record)
        if not converged:
            break
    return state, converged, number, tuple(steps)
