r"""Where a fit looks next, by Levenberg's and Marquardt's method or by a rule of optax, and at which reactions.

    damped:    (J^T J + lambda diag(J^T J)) dp = -J^T r from the best point, lambda smaller after each step that helps
    stepwise:  dp of a rule such as Adam's, from the gradient J^T r at the last point

Both are functions of what was evaluated alone, and batches of the seed alone, so that a fit that goes over its record
again takes the same way.

K. Levenberg, Q. Appl. Math. 2, 164 (1944). doi:10.1090/qam/10666.   D. W. Marquardt, J. Soc. Indust. Appl. Math. 11,
431 (1963). doi:10.1137/0111030
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import NumericalError

START, LESS, MORE, LARGEST = 1e-2, 1 / 3, 5.0, 1e8
"""Marquardt's parameter: at first, after a step that helps, after one that does not, and where no step does."""

SETTLED = 1e-7
"""Relative fall of the loss below which a fit has ended."""


@dataclass(frozen=True)
class Batches:
    """Which reactions an evaluation looks at: all of them, or after the first one batch after the other.

    size: reactions of a batch at most; None for all.   seed: of the order, another one for each pass over the data.
    """

    total: int
    size: int | None
    seed: int

    def at(self, number: int) -> tuple[np.ndarray, bool]:
        """(indices of reactions in order, whether a pass over the data ends here) of an evaluation, from 1."""
        if self.size is None or number == 1:
            return np.arange(self.total), True
        parts = -(-self.total // self.size)
        epoch, part = divmod(number - 2, parts)
        order = np.random.default_rng([self.seed, epoch]).permutation(self.total)
        return np.sort(np.array_split(order, parts)[part]), part == parts - 1


class Damped:
    """Levenberg and Marquardt."""

    def __init__(self, problem):
        self._problem, self._damping = problem, START

    def after(self, step, r, J, best, before) -> tuple[np.ndarray, str]:
        """(the next point, why the fit has ended, empty where it has not); best: loss, point, ..., r, J."""
        if step.accepted and before < np.inf and before - step.loss < SETTLED * before:
            return best[1], "settled"
        self._damping *= LESS if step.accepted else MORE
        point = self._next(best)
        stuck = self._damping > LARGEST or np.array_equal(point, best[1])
        return point, "settled: no step lowers the loss" if stuck else ""

    def _next(self, best):
        """The point of the damped step from the best one, within bounds: what would leave them is held there."""
        _, point, _, r, J = best
        H, g = J.T @ J, J.T @ r
        at_edge = ((point <= self._problem.lowest) & (g > 0)) | ((point >= self._problem.highest) & (g < 0))
        free = np.flatnonzero(~at_edge)
        move = np.zeros_like(point)
        if len(free):
            A = H[np.ix_(free, free)]
            scale = np.maximum(np.diag(A), max(1e-12 * float(np.diag(A).max()), 1e-300))
            move[free] = -np.linalg.solve(A + self._damping * np.diag(scale), g[free])
        return np.clip(point + move, self._problem.lowest, self._problem.highest)


class Stepwise:
    """A transformation of gradients of optax, on the flat parameters; bounds are kept by projection."""

    def __init__(self, problem, optimiser):
        self._problem, self._optimiser = problem, optimiser
        self._state = optimiser.init(jnp.asarray(problem.start))

    def after(self, step, r, J, best, before) -> tuple[np.ndarray, str]:
        """(the next point, why the fit has ended); without a solution where the last step led there is no gradient."""
        if r is None:
            return best[1], "the last step led to where an SCF has no solution; take smaller ones"
        point = jnp.asarray(step.parameters)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a number to an integer array
            move, self._state = self._optimiser.update(jnp.asarray(J.T @ r), self._state, point)
            found = np.asarray(point + move)
        if found.shape != step.parameters.shape or not np.all(np.isfinite(found)):
            raise NumericalError("fit: the optimiser's step is not finite; take a smaller learning rate.")
        return np.clip(found, self._problem.lowest, self._problem.highest), ""
