"""Stability of a solution: the lowest eigenvalue of the energy's Hessian in orbital rotations.

A negative one means that the solution is a saddle point: internal, within the method, or external, from restricted to
unrestricted orbitals. R. Seeger, J. A. Pople, J. Chem. Phys. 66, 3045 (1977). doi:10.1063/1.434318
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from dftfd.errors import NotConvergedError
from dftfd.runtime.notebook import ShownAsText
from dftfd.scf.convergence import Convergence
from dftfd.scf.problem import Problem, State
from dftfd.scf.rotation import EnergyModel, canonical, rotated
from dftfd.scf.second_order import direct_minimisation, newton

UNSTABLE = -1e-4
"""Eigenvalues [hartree] below this are negative for sure; rotations of degenerate orbitals give zero, up to noise."""

LOOKS, GLANCE = 24, 0.03
"""Products with the cheaper Hessian that a look at the end of an SCF may cost, and the residual that ends it before.

Most end within 12; the instability of CoH (-0.015 hartree, B3LYP) shows after 12 to 20, depending on the first vectors.
"""

SUSPICIOUS = -3e-3
"""Eigenvalue [hartree] of the cheaper Hessian below which it is tried whether the energy falls; a coarse grid turns
the zeros of degenerate orbitals into numbers up to a third of this."""

CERTAIN = 3 * SUSPICIOUS
"""Eigenvalue [hartree] of the cheaper Hessian below which any fall is gone after: no grid makes that of a zero."""

NOISE = 1e-4
"""Fall of the energy [hartree] that is no other state, but the grid's dependence on how a density is turned: 7e-5 for a
d hole of linear FeCl2 at level 3."""

DOWN = Convergence(1e-5, 40)
"""How far the cheaper energy is followed downhill, by direct minimisation."""

DIFFERENCE = 3e-3
"""Length of the change of the density matrix, in orthonormal orbitals, whose Fock matrix stands for the derivative."""

FILLED = 0.5
"""Occupation from which on an orbital's change may be divided by it."""

RESIDUAL = 1e-4
MAX_VECTORS = 60  # of the space that is searched; then it begins anew from the best KEPT
KEPT = 8
MAX_PRODUCTS = 600
MAX_FOLLOWED = 6
STEPS = (0.1, 0.2, 0.4, 0.8)  # lengths of orbital rotations that are tried along an instability
SOFT = 0.01
"""Hessian eigenvalue [hartree] below which two orbitals are nearly degenerate, so that their exchange is tried."""


@dataclass(frozen=True, eq=False, repr=False)
class Stability(ShownAsText):
    """Lowest Hessian eigenvalues [hartree]: internal, and for a restricted closed shell external (RKS -> UKS).

    They are None where there is no rotation, or no such analysis. A value below zero is an instability.
    guess: density matrix (spin, ao, ao) of lower energy, down the steeper of the instabilities, with two spins where
        that is external (then go on with method='UKS'); None for a stable solution.
    noise: how far a finer grid moves an eigenvalue that is hardly negative [hartree]. Degenerate orbitals, as of an
        open-shell atom, turn into each other at no cost, except what the grid makes of it: no instability.
    """

    internal: float | None
    external: float | None = None
    guess: np.ndarray | None = field(default=None, repr=False)
    noise: float = 0.0

    @property
    def is_stable(self) -> bool:
        """True if no eigenvalue is below the noise."""
        return all(value is None or value > UNSTABLE - self.noise for value in (self.internal, self.external))

    def __str__(self):
        parts = []
        for name, value in (("internal", self.internal), ("external, RKS to UKS", self.external)):
            if value is not None:
                word = "stable" if value > UNSTABLE - self.noise else "UNSTABLE"
                noise = f", noise of the grid {self.noise:.6f}" if UNSTABLE - self.noise < value <= UNSTABLE else ""
                parts.append(f"{word} ({name}: lowest Hessian eigenvalue {value:.6f} hartree{noise})")
        return "; ".join(parts) or "no orbital rotation to analyse"


def lowest_rotation(model: EnergyModel, antisymmetric: bool = False, products: int | None = None):
    """(lowest eigenvalue, eigenvector) of the Hessian; (None, None) without variables.

    antisymmetric: within rotations that turn alpha and beta orbitals oppositely, for a state of equal spins.
    products: how many Hessian-vector products to spend; the eigenvalue is then an upper bound.
    """
    size = model.rotations.size
    if not size:
        return None, None
    if not antisymmetric:
        return lowest_eigenpair(model.hessian_times, model.diagonal, products=products)
    half = size // 2

    def times(x):
        return model.hessian_times(np.concatenate([x, -x]))[:half]

    value, vector = lowest_eigenpair(times, model.diagonal[:half], products=products)
    return value, np.concatenate([vector, -vector])


def lowest_eigenpair(times: Callable, diagonal, n_start: int = 3, seed: int = 7, products: int | None = None):
    """Lowest eigenvalue and vector of a symmetric operator by Davidson's method.

    E. R. Davidson, J. Comput. Phys. 17, 87 (1975). doi:10.1016/0021-9991(75)90065-0. The first vectors are those of the
    smallest diagonal elements with some noise, so that no symmetry hides the lowest eigenvector; with more of it where
    there are few products to find one that breaks the symmetry.
    Raises NotConvergedError where the search does not end; but an eigenvalue that is known to be negative is returned,
    and with a number of `products` to spend, whatever they give.
    """
    V, tolerance = _first_vectors(diagonal, n_start, seed, 0.3 if products else 0.01), GLANCE if products else RESIDUAL
    HV = np.stack([times(v) for v in V.T], axis=1)
    for _ in range(V.shape[1], (products or MAX_PRODUCTS) + 1):
        values, vectors = np.linalg.eigh((V.T @ HV + HV.T @ V) / 2)
        value, x = float(values[0]), V @ vectors[:, 0]
        last = _last_root(values) if products else 0
        residuals = HV @ vectors[:, : last + 1] - V @ (vectors * values)[:, : last + 1]
        sizes = np.linalg.norm(residuals, axis=0)
        worst = int(np.argmax(sizes >= tolerance))  # the first that is not settled
        new = residuals[:, worst] / np.maximum(diagonal - min(values[worst], diagonal.min()), 0.05)
        if V.shape[1] >= MAX_VECTORS:
            V, HV = V @ vectors[:, :KEPT], HV @ vectors[:, :KEPT]
        new -= V @ (V.T @ new)
        new -= V @ (V.T @ new)  # once more, against rounding
        size = np.linalg.norm(new)
        if sizes[worst] < tolerance or V.shape[1] == len(diagonal) or size < 1e-12:
            return value, x
        V, HV = np.column_stack([V, new / size]), np.column_stack([HV, times(new / size)])
    if products or value < UNSTABLE:  # the lowest eigenvalue lies below any that a subspace gives
        return value, x
    raise NotConvergedError(
        f"the lowest eigenvalue of the Hessian is {value:.6f} hartree or lower, with a residual of {sizes[0]:.1e} "
        f"after {MAX_PRODUCTS} products: whether the solution is stable is not known; converge it more tightly "
        "(conv_tol=), or use another basis if functions are nearly dependent."
    )


def _last_root(values):
    """Index of the last eigenvalue that a look waits for: the lowest that is no turn of degenerate orbitals.

    Such a turn, at next to nothing, is soon settled and would hide an instability of another symmetry.
    """
    return 0 if values[0] < SUSPICIOUS else min(int(np.searchsorted(values, -SUSPICIOUS)), len(values) - 1)


def _first_vectors(diagonal, n_start, seed, share):
    """Orthonormal (n, n_start) near the unit vectors of the smallest diagonal elements."""
    n, rng = len(diagonal), np.random.default_rng(seed)
    chosen = np.argsort(diagonal, kind="stable")[: min(n_start, n)]
    start = np.zeros((n, len(chosen)))
    start[chosen, np.arange(len(chosen))] = 1.0
    scale = np.maximum(np.abs(diagonal), 0.05)  # noise must not bring in the core orbitals' large elements
    noise = share * rng.normal(size=start.shape) * (scale.min() / scale)[:, None]
    return np.linalg.qr(start + noise)[0]


def energy_model(problem: Problem, state: State) -> EnergyModel:
    """Gradient and full Hessian at a state."""
    return EnergyModel(problem, state, problem.required_response())


def downhill(problem: Problem, state: State, model: EnergyModel, direction, number: int) -> State | None:
    """The lowest of the states some way along a rotation and back, or None if none is below `state`."""
    direction = direction / np.abs(direction).max()
    trials = [
        rotated(problem, state, model.rotations, sign * step * direction, number) for step in STEPS for sign in (1, -1)
    ]
    best = min(trials, key=lambda trial: trial.energy)
    return best if best.energy < state.energy else None


def follow_instability(problem: Problem, state: State, convergence: Convergence, first: int, record: Callable):
    """(state, converged, cycles, steps): descends by second order until the Hessian has no negative eigenvalue.

    From a minimum with a soft rotation, between two nearly degenerate orbitals, their exchange is tried once: the state
    on the other side, another minimum, may be the lower one.
    """
    steps, number, exchanged = [], first - 1, False
    for _ in range(MAX_FOLLOWED):
        state = canonical(problem, state)
        model = energy_model(problem, state)
        try:
            value, direction = lowest_rotation(model)
        except NotConvergedError as error:
            steps.append(f"stability not known: {error}")
            break
        if value is None or value > (UNSTABLE if exchanged else SOFT):
            break
        if value <= UNSTABLE:
            lower, words = downhill(problem, state, model, direction, number + 1), "internal instability"
            if lower is None:
                break
            state, converged, number = newton(problem, lower, convergence, number + 1, record)
        else:
            exchanged, words = True, "orbitals exchanged along a soft rotation"
            lower, converged, number = _across(problem, state, model, direction, convergence, number, record)
            if lower is None:
                break
            state = lower
        steps.append(f"{words} ({value:.4f} hartree) followed")
        if not converged:
            return state, False, number, tuple(steps)
    return state, True, number, tuple(steps)


def difference_response(problem: Problem, P, C) -> Callable:
    """The response of `Problem` at P, real changes alone, by a difference of two Fock matrices: for every kind of
    term, with nothing more to compile.

    With orbitals that are filled, A = C n^(1/2) + step dC n^(-1/2) makes P + step dP but for step^2, and exchange from
    A takes half of what it takes from P + step dP, which has the rank of twice as many orbitals.
    """
    electrons = [
        np.einsum("oi,ij,oj->o", C_s @ problem.S, P_s, C_s @ problem.S, optimize=True)
        for C_s, P_s in zip(C, P, strict=True)
    ]
    filled = all((n > FILLED).all() for n in electrons)
    roots = [np.sqrt(n)[:, None] for n in electrons] if filled else []
    F = problem.fock(P, tuple((C_s * r).T for C_s, r in zip(C, roots, strict=True)) if filled else None).F
    root = problem.S @ problem.X

    def of_one(*dC):
        half = np.stack([dC_s.T @ C_s for dC_s, C_s in zip(dC, C, strict=True)])
        dP = half + half.transpose(0, 2, 1)
        size = np.sqrt(sum(np.sum((root.T @ dP_s @ root) ** 2) for dP_s in dP))
        step = DIFFERENCE / max(size, np.finfo(float).tiny)
        changed, A = P + step * dP, None
        if filled:
            A = tuple((C_s * r + step * dC_s / r).T for C_s, dC_s, r in zip(C, dC, roots, strict=True))
            changed = np.stack([A_s @ A_s.T for A_s in A])
        dF = (problem.fock(changed, A).F - F) / step
        return [C_s @ dF_s for C_s, dF_s in zip(C, dF, strict=True)]

    def change(dC):
        trials = [of_one(*trial) for trial in zip(*dC, strict=True)]
        return [np.stack(of_spin) for of_spin in zip(*trials, strict=True)]

    return change


def look_down(problem: Problem, cheaper: Problem, state: State, number: int) -> tuple[float | None, State | None]:
    """(lowest Hessian eigenvalue, state lower down or None) at a small part of the cost of an SCF.

    A few Davidson steps on a Hessian whose response is that of a `cheaper` problem (see dftfd.scf.approach) say where
    it may go downhill, and the cheaper energy is followed there; the full one decides. Only a fall of more than NOISE
    counts, unless the eigenvalue is below CERTAIN: in a flat valley the cheaper energy is left long before its end.
    """
    state = canonical(problem, state)
    model = EnergyModel(problem, state, partial(difference_response, cheaper))
    value, direction = lowest_rotation(model, products=LOOKS)
    if value is None or value > SUSPICIOUS:
        return value, None
    here = cheaper.state_of(state.mo_energy, state.mo_occ, state.mo_coeff, number)
    lower = downhill(cheaper, here, model, direction, number)
    if lower is None:
        return value, None
    lower, _, _ = direct_minimisation(cheaper, lower, DOWN, number, lambda cycle, state: None)
    lower = problem.state_of(lower.mo_energy, lower.mo_occ, lower.mo_coeff, number)
    noise = NOISE if value > CERTAIN else 0.0
    return value, lower if lower.energy < state.energy - noise else None


def _across(problem, state, model, direction, convergence, number, record):
    """(state, True, cycles) of the minimum a quarter turn away along a rotation, None where it is not lower."""
    turn = np.pi / 2 * direction / np.abs(direction).max()
    beyond = rotated(problem, state, model.rotations, turn, number + 1)
    lines = []
    other, converged, last = newton(
        problem, beyond, convergence, number + 1, lambda cycle, state: lines.append((cycle, state))
    )
    if not converged or other.energy > state.energy - convergence.energy:
        return None, True, number
    for line in lines:
        record(*line)
    return other, True, last
