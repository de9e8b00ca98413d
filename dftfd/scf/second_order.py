r"""Second-order minimisation of the energy: Newton's method in a trust region, and quasi-Newton direct minimisation.

Newton: each step minimises the quadratic model of the energy inside a ball, by conjugate gradients that stop at the
ball's surface or where they meet negative curvature (Steihaug, Toint), so the energy falls at every accepted step and
saddle points repel. Lengths are measured with the orbital-energy differences as metric.
T. Steihaug, SIAM J. Numer. Anal. 20, 626 (1983). doi:10.1137/0720042

Where a turn costs next to nothing (the hole of an open shell, which only the grid ties down) the energy has a long
valley, and valleys are bent: a straight step that is worth its while climbs the wall. The gradient at its end tells by
how much, and one correction across the step leads back to the floor.
M. K. Transtrum, B. B. Machta, J. P. Sethna, Phys. Rev. E 83, 036701 (2011). doi:10.1103/PhysRevE.83.036701

Direct minimisation: limited-memory BFGS along geodesics of orbital rotations, needs Fock matrices only.
T. Van Voorhis, M. Head-Gordon, Mol. Phys. 100, 1713 (2002). doi:10.1080/00268970110103642
"""

from collections.abc import Callable

import numpy as np

from dftfd.scf.convergence import Convergence, Cycle
from dftfd.scf.problem import Problem, State
from dftfd.scf.rotation import EnergyModel, canonical, rotated

SMALLEST_METRIC = 0.2
"""Floor [hartree] of the metric: orbital pairs with small or inverted gaps must not take unbounded steps."""

FIRST_RADIUS, LARGEST_RADIUS, SMALLEST_RADIUS = 0.5, 4.0, 1e-5
MAX_PRODUCTS = 30  # Hessian-vector products of one step
WELL_FORESEEN = 0.7  # share of the predicted fall above which a step was good, and may be longer next time
BEND_PRODUCTS = 10  # Hessian-vector products of a correction
LARGEST_BEND = 0.1  # of the step's length: more than that is no correction of it
SOFT = 0.1  # curvature in units of the metric below which a direction is along the valley, not up its walls
TINY_GRADIENT = 1e-13  # elements of a gradient that is all rounding errors
NOISE = 1e-13  # relative rounding error of an energy
MEMORY = 12  # pairs kept by BFGS


def newton(problem: Problem, state: State, convergence: Convergence, first: int, record: Callable):
    """(state, converged, cycles) of a descent from `state`, whose table goes on with cycle number `first`."""
    state, radius = canonical(problem, state), FIRST_RADIUS
    for number in range(first, first + convergence.max_cycles):
        model = EnergyModel(problem, state, problem.required_response())
        if not np.any(np.abs(model.gradient) > TINY_GRADIENT):
            record(Cycle(number, state.energy, 0.0, problem.gradient_norm(state), 0.0), state)
            return state, True, number
        metric = np.sqrt(np.maximum(np.abs(model.diagonal), SMALLEST_METRIC))
        accepted = False
        while not accepted:
            y, reduction, at_border = trust_region_step(model, metric, radius)
            trial = rotated(problem, state, model.rotations, y / metric, number)
            ratio = _share(state, trial, reduction)
            if ratio < WELL_FORESEEN:
                bend = bend_of(problem, model, metric, y, trial)
                if np.linalg.norm(bend) < LARGEST_BEND * np.linalg.norm(y):
                    bent = rotated(problem, state, model.rotations, (y + bend) / metric, number)
                    trial = min(trial, bent, key=lambda found: found.energy)
                    ratio = _share(state, trial, reduction)
            accepted = ratio > 1e-3
            if ratio < 0.25:
                radius = 0.25 * min(radius, float(np.linalg.norm(y)))
            elif ratio > WELL_FORESEEN and at_border:
                radius = min(2.0 * radius, LARGEST_RADIUS)
            if not accepted and radius < SMALLEST_RADIUS:
                return state, False, number
        change, moved = trial.energy - state.energy, float(np.linalg.norm(trial.P - state.P))
        cycle = Cycle(number, trial.energy, change, problem.gradient_norm(trial), moved)
        state = canonical(problem, trial)
        record(cycle, state)
        if convergence.reached_by(cycle):
            return state, True, number
    return state, False, number


def trust_region_step(model: EnergyModel, metric, radius):
    """(step y, predicted fall of the energy, whether |y| = radius) in the variables y = metric * x."""
    g = model.gradient / metric
    tolerance = min(0.1, np.sqrt(np.linalg.norm(g))) * np.linalg.norm(g)
    y, Hy = np.zeros_like(g), np.zeros_like(g)
    r, p = -g, -g

    def outcome(step, H_step, at_border):
        return step, -float(g @ step + 0.5 * step @ H_step), at_border

    for _ in range(MAX_PRODUCTS):
        Hp = model.hessian_times(p / metric) / metric
        curvature = p @ Hp
        t = (r @ r) / curvature if curvature > 0 else np.inf
        if curvature <= 0 or np.linalg.norm(y + t * p) >= radius:
            t = _to_border(y, p, radius)
            return outcome(y + t * p, Hy + t * Hp, True)
        y, Hy = y + t * p, Hy + t * Hp
        new = r - t * Hp
        if np.linalg.norm(new) < tolerance:
            break
        p, r = new + (new @ new) / (r @ r) * p, new
    return outcome(y, Hy, False)


def _share(state, trial, reduction):
    """The fall of the energy from one state to the other as a share of the predicted one; 1 where both are noise."""
    change, noise = trial.energy - state.energy, NOISE * max(1.0, abs(state.energy))
    return 1.0 if reduction < 100 * noise and abs(change) < 100 * noise else -change / reduction


def bend_of(problem: Problem, model: EnergyModel, metric, y, trial: State):
    """The correction, across the step y, that takes away what the model did not foresee of the gradient at its end.

    By conjugate gradients that leave soft directions alone: those are the way, and the model knows them badly.
    """
    along = y / np.linalg.norm(y)

    def across(v):
        return v - (along @ v) * along

    unforeseen = EnergyModel(problem, trial, None).gradient - model.gradient - model.hessian_times(y / metric)
    r = p = -across(unforeseen / metric)
    z, target = np.zeros_like(y), 0.1 * np.linalg.norm(r)
    for _ in range(BEND_PRODUCTS):
        Hp = across(model.hessian_times(p / metric) / metric)
        if p @ Hp <= SOFT * (p @ p):
            break
        t = (r @ r) / (p @ Hp)
        z, new = z + t * p, r - t * Hp
        if np.linalg.norm(new) < target:
            break
        p, r = new + (new @ new) / (r @ r) * p, new
    return z


def _to_border(y, p, radius):
    """The t > 0 with |y + t p| = radius."""
    a, b, c = p @ p, y @ p, y @ y - radius**2
    return (-b + np.sqrt(b * b - a * c)) / a


def direct_minimisation(problem: Problem, state: State, convergence: Convergence, first: int, record: Callable):
    """(state, converged, cycles) as `newton`; from Fock matrices alone, in more and cheaper cycles.

    Orbitals are not made canonical on the way, so vectors of earlier steps stay valid along the geodesic.
    """
    state = canonical(problem, state)
    model = EnergyModel(problem, state, None)
    metric = np.sqrt(np.maximum(np.abs(model.diagonal), SMALLEST_METRIC))
    gradient = model.gradient / metric
    steps: list[np.ndarray] = []
    changes: list[np.ndarray] = []
    for number in range(first, first + convergence.max_cycles):
        y = -_bfgs_product(steps, changes, gradient)
        if y @ gradient >= 0:
            y, steps, changes = -gradient, [], []
        y *= min(1.0, FIRST_RADIUS * 2 / max(float(np.linalg.norm(y)), 1e-300))
        trial, y = _line_search(problem, state, model.rotations, y, metric, gradient, number)
        if trial is None:
            return canonical(problem, state), False, number
        change, moved = trial.energy - state.energy, float(np.linalg.norm(trial.P - state.P))
        cycle = Cycle(number, trial.energy, change, problem.gradient_norm(trial), moved)
        state = trial
        record(cycle, state)
        if convergence.reached_by(cycle):
            return canonical(problem, state), True, number
        model = EnergyModel(problem, state, None)
        new = model.gradient / metric
        if y @ (new - gradient) > 1e-10 * (y @ y):
            steps, changes = [*steps, y][-MEMORY:], [*changes, new - gradient][-MEMORY:]
        gradient = new
    return canonical(problem, state), False, number


def _line_search(problem, state, rotations, y, metric, gradient, number):
    """The first of the steps y, y/3, y/9, ... that lowers the energy enough; (None, y) if there is none."""
    noise = NOISE * max(1.0, abs(state.energy)) * 10
    for _ in range(12):
        trial = rotated(problem, state, rotations, y / metric, number)
        if trial.energy - state.energy <= 1e-4 * (y @ gradient) + noise:
            return trial, y
        y = y / 3.0
    return None, y


def _bfgs_product(steps, changes, vector):
    """Inverse Hessian times vector by the two-loop recursion; J. Nocedal, Math. Comp. 35, 773 (1980)."""
    q, weights = vector.copy(), []
    for s, z in zip(reversed(steps), reversed(changes), strict=True):
        a = (s @ q) / (s @ z)
        q -= a * z
        weights.append(a)
    if steps:
        q *= (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for s, z, a in zip(steps, changes, reversed(weights), strict=True):
        q += (a - (z @ q) / (s @ z)) * s
    return q
