r"""Reaction energies of candidates on fixed densities, and fits of their parameters under cuts.

    minimise  sum_i w_i (Delta E_i(p) - reference_i)^2 / sum_i w_i + ridge + sum_k [K max(0, m - g_k(p))]^2

g_k >= 0 are conditions at points at which earlier candidates broke them (dftfd.discovery.candidate_conditions).
Parameters that the energy is linear in start from linear least squares, positive ones are varied by their logarithm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from dftfd.discovery import expressions
from dftfd.discovery.candidate_conditions import Cut, values_of_cuts
from dftfd.discovery.forms import Candidate, Form, Gas, exchange_ingredients, native_correlation, native_exchange
from dftfd.discovery.points import TrainingPoints
from dftfd.libcint.mole import HARTREE_IN_KCAL

RIDGE = 1e-3
"""kcal/mol for a parameter of 1, or a logarithm of 1: decides where the data do not."""

STEEPNESS, MARGIN = 1000.0, 2e-3
"""K [kcal/mol] and m, of the cuts."""

HOPELESS = 1e5
"""Root mean square error [kcal/mol] at the start of a fit above which it is not tried."""

WORTHLESS = 1e6
"""Residual [kcal/mol] of a reaction or a cut for which the formula has no value."""

LARGEST_C, LOG_P = 50.0, (-9.0, 9.0)
"""Bounds of a parameter's size, and of the logarithm of a positive one."""


class Problem:
    """Reactions of one role and what is fixed about their energies."""

    def __init__(self, points: TrainingPoints, form: Form):
        self.points, self.form = points, form
        self.x = exchange_ingredients(points.x_s2, points.x_alpha)
        self.gas = Gas.of(points.c_rs, points.c_zeta, points.c_s2, points.c_alpha)
        fixed = np.array(points.base)
        if form.exchange and "x" not in form.parts:
            fixed = fixed + points.sum_x(native_exchange(form.exchange, points.x_s2, points.x_alpha))
        if form.correlation and "c" not in form.parts:
            gas = points.c_rs, points.c_zeta, points.c_s2, points.c_alpha
            fixed = fixed + points.sum_c(native_correlation(form.correlation, *gas))
        if "x" in form.parts:
            fixed = fixed + points.sum_x(np.ones_like(points.x_s2))
        self._fixed = points.errors(fixed) * HARTREE_IN_KCAL
        self._empty = points.sum_c(self.gas.energy(form, 0.0)) if "c" in form.parts else np.zeros_like(points.base)
        self.stoichiometry = points.stoichiometry * HARTREE_IN_KCAL
        self.weight = np.sqrt(points.reaction_weight / points.reaction_weight.sum())

    def errors(self, candidate: Candidate) -> np.ndarray:
        """Computed less reference (reaction,) [kcal/mol]; NaN where a formula has no value."""
        with np.errstate(all="ignore"):
            E = 0.0
            if candidate.x is not None:
                E = E + self.points.sum_x(expressions.at_points(candidate.x, self.x))
            if candidate.c is None:
                E = E + self._empty
            else:
                hole = expressions.at_points(candidate.c, self.gas.at)
                E = E + self.points.sum_c(self.gas.energy(self.form, hole))
            return self._fixed + self.stoichiometry @ E

    def with_slopes(self, candidate: Candidate) -> tuple[np.ndarray, np.ndarray]:
        """(errors, (reaction, parameter) their derivatives)."""
        with np.errstate(all="ignore"):
            E, columns = np.zeros_like(self.points.base), []
            if candidate.x is not None:
                hole, slopes = expressions.with_slopes(candidate.x, self.x, self.points.x_weight)
                E = E + self.points.sum_x(hole)
                columns += [self._x_sums(slope) for slope in slopes]
            if candidate.c is None:
                E = E + self._empty
            else:
                hole = expressions.at_points(candidate.c, self.gas.at)
                E = E + self.points.sum_c(self.gas.energy(self.form, hole))
                weight = self.points.c_weight * self.gas.slope(self.form, hole)
                _, slopes = expressions.with_slopes(candidate.c, self.gas.at, weight)
                columns += [np.add.reduceat(slope, self.points.c_offsets[:-1]) for slope in slopes]
            J = np.stack(columns, axis=1) if columns else np.zeros((len(E), 0))
            return self._fixed + self.stoichiometry @ E, self.stoichiometry @ J

    def _x_sums(self, slope):
        return np.add.reduceat(slope, self.points.x_offsets[:-1])

    def columns(self, part: str, candidate: Candidate, terms: Sequence[expressions.Tree]) -> np.ndarray:
        """(reaction, term) what adding each term to a hole does to the energies, to first order [kcal/mol]."""
        with np.errstate(all="ignore"):
            if part == "x":
                E = [self.points.sum_x(expressions.at_points(t, self.x)) for t in terms]
            else:
                hole = 0.0 if candidate.c is None else expressions.at_points(candidate.c, self.gas.at)
                slope = self.gas.slope(self.form, hole)
                E = [self.points.sum_c(slope * expressions.at_points(t, self.gas.at)) for t in terms]
        return self.stoichiometry @ np.stack(E, axis=1)

    def rms(self, errors) -> float:
        """Weighted root mean square [kcal/mol]."""
        found = float(np.sqrt(np.sum((self.weight * errors) ** 2)))
        return found if np.isfinite(found) else np.inf

    def mean_absolute(self, errors) -> float:
        """Weighted mean absolute error [kcal/mol]."""
        found = float(np.sum(self.weight**2 * np.abs(errors)))
        return found if np.isfinite(found) else np.inf


def linear(candidate: Candidate, form: Form) -> np.ndarray:
    """Which parameters the energy is linear in: factors of the terms of a hole."""
    found: list[bool] = []
    for part, tree in (("x", candidate.x), ("c", candidate.c)):
        if tree is None:
            continue
        possible = part == "x" or form.correlation == "factor"
        for t in tree[1:] if tree[0] == "+" else (tree,):
            factors = t[1:] if t[0] == "*" else (t,)
            for factor in factors:
                n = len(expressions.parameters(factor))
                found += [possible and factor[0] == "c"] * n
    return np.array(found, dtype=bool)


@dataclass(frozen=True)
class Fitted:
    """A candidate with fitted parameters.   loss: root mean square with all penalties [kcal/mol].   error: without."""

    candidate: Candidate
    loss: float
    error: float


class Fitter:
    """Fits of candidates to one problem under cuts."""

    def __init__(self, problem: Problem, cuts: Sequence[Cut] = (), evaluations: int = 20):
        self.problem, self.cuts, self.evaluations = problem, cuts, evaluations

    def fit(self, candidate: Candidate, rng: Any, starts: int = 1, weight: float = 1.0) -> Fitted:
        """The best of some starts: the candidate's own parameters, then random ones.   weight: of the cuts."""
        best = self._from(candidate, weight)
        is_unique = linear(candidate, self.problem.form).all() and not self.cuts
        for _ in range(0 if is_unique else starts - 1):
            found = self._from(candidate.at(_random(candidate.signs, rng)), weight)
            best = found if found.loss < best.loss else best
        return best

    def _from(self, candidate, weight) -> Fitted:
        signs = candidate.signs
        if not signs:
            return self._scored(candidate, weight)
        is_p = np.array([s == "p" for s in signs])
        candidate = self._linear_start(candidate, linear(candidate, self.problem.form), is_p)
        if self.problem.rms(self.problem.errors(candidate)) > HOPELESS:
            return Fitted(candidate, np.inf, np.inf)
        if not linear(candidate, self.problem.form).all() or self._broken(candidate):
            candidate = self._nonlinear(candidate, is_p, weight)
        return self._scored(candidate, weight)

    def _broken(self, candidate) -> bool:
        return bool(self.cuts) and bool(np.any(values_of_cuts(self.problem.form, candidate, self.cuts) < MARGIN))

    def _linear_start(self, candidate, is_linear, is_p):
        """With the linear parameters that fit best as the others stand."""
        if not is_linear.any():
            return candidate
        errors, J = self.problem.with_slopes(candidate)
        p = candidate.parameters
        A, b = (
            self.problem.weight[:, None] * J[:, is_linear],
            self.problem.weight * (errors - J[:, is_linear] @ p[is_linear]),
        )
        A = np.vstack([A, RIDGE * np.eye(A.shape[1])])
        b = np.concatenate([b, np.zeros(A.shape[1])])
        if not (np.all(np.isfinite(A)) and np.all(np.isfinite(b))):
            return candidate
        p = p.copy()
        p[is_linear] = np.clip(-np.linalg.lstsq(A, b, rcond=None)[0], -LARGEST_C, LARGEST_C)
        return candidate.at(p)

    def _nonlinear(self, candidate, is_p, weight):
        problem, form = self.problem, self.problem.form
        start = _coded(candidate.parameters, is_p)
        known: dict[bytes, tuple] = {}

        def evaluated(v):
            key = v.tobytes()
            if key not in known:
                known.clear()
                p = np.where(is_p, np.exp(v), v)
                given = candidate.at(p)
                errors, J = problem.with_slopes(given)
                chain = np.where(is_p, p, 1.0)
                r, D = (
                    [problem.weight * errors, RIDGE * v],
                    [problem.weight[:, None] * J * chain, RIDGE * np.eye(len(v))],
                )
                if self.cuts:
                    g, G = values_of_cuts(form, given, self.cuts, slopes=True)
                    inside = g >= MARGIN
                    r.append(np.where(inside, 0.0, weight * STEEPNESS * (MARGIN - g)))
                    D.append(np.where(inside[:, None], 0.0, -weight * STEEPNESS * G * chain))
                known[key] = _penalised(np.concatenate(r), np.vstack(D))
            return known[key]

        lo, hi = np.where(is_p, LOG_P[0], -LARGEST_C), np.where(is_p, LOG_P[1], LARGEST_C)
        start = np.clip(start, lo + 1e-6, hi - 1e-6)
        found = least_squares(
            lambda v: evaluated(v)[0],
            start,
            jac=lambda v: evaluated(v)[1],
            bounds=(lo, hi),
            x_scale="jac",
            max_nfev=self.evaluations,
            ftol=1e-10,
            xtol=1e-10,
            gtol=1e-12,
        )
        return candidate.at(np.where(is_p, np.exp(found.x), found.x))

    def _scored(self, candidate, weight) -> Fitted:
        error = self.problem.rms(self.problem.errors(candidate))
        square = error**2 + RIDGE**2 * float(
            np.sum(_coded(candidate.parameters, [s == "p" for s in candidate.signs]) ** 2)
        )
        if self.cuts:
            g = values_of_cuts(self.problem.form, candidate, self.cuts)
            square += float(np.sum((weight * STEEPNESS * np.maximum(0.0, MARGIN - g)) ** 2))
        loss = float(np.sqrt(square))
        return Fitted(candidate, loss if np.isfinite(loss) else np.inf, error)


def _penalised(r, D):
    """Residuals and their derivatives, where those without a value, or above WORTHLESS, count WORTHLESS."""
    usable = (np.abs(r) < WORTHLESS) & np.isfinite(D).all(axis=1)
    return np.where(usable, r, WORTHLESS), np.where(usable[:, None], D, 0.0)


def _coded(p, is_p):
    return np.where(is_p, np.log(np.where(is_p, np.maximum(p, 1e-4), 1.0)), p)


def _random(signs, rng):
    """A start: positive parameters over four decades, free ones about zero."""
    return np.array([10 ** rng.uniform(-2.5, 1.5) if s == "p" else rng.normal(0, 0.5) for s in signs])
