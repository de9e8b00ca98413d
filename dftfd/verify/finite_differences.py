"""Derivatives by central differences, extrapolated to step zero, with an estimate of their error.

L. F. Richardson, J. A. Gaunt, Phil. Trans. R. Soc. A 226, 299 (1927). doi:10.1098/rsta.1927.0008
"""

from dataclasses import dataclass

import numpy as np

FIRST_STEPS = (0.1, 0.02, 0.004)
"""Largest step of each ladder, in units of the variable's scale; the others of the ladder are halves of it."""
LEVELS = 4


@dataclass(frozen=True)
class Estimates:
    """Estimate of a derivative and of its error, each (point,).

    Two ladders of steps whose results agree make one estimate; the error is what they differ by, since neither rounding
    nor cancellation inside the code is the same for both.
    """

    value: np.ndarray
    error: np.ndarray


def differences(code, x: np.ndarray, scale: np.ndarray) -> list[dict]:
    """Derivatives of everything that `code` returns: for each variable {key: Estimates}.

    code: x (variable, point) -> {key: (point,)}; called once.   scale: (variable, point), what steps are measured by.
    """
    n_variables, n_points = x.shape
    fractions = np.array([first / 2**level for first in FIRST_STEPS for level in range(LEVELS)])
    steps = fractions[:, None] * scale[:, None, :]  # (variable, step, point)
    moved = np.broadcast_to(x[:, None, None, None, :], (n_variables, n_variables, fractions.size, 2, n_points)).copy()
    for i in range(n_variables):
        moved[i, i] += steps[i][:, None, :] * np.array([1.0, -1.0])[:, None]
    given = code(moved.reshape(n_variables, -1))
    results: list[dict] = [{} for _ in range(n_variables)]
    for key, rows in given.items():
        values = np.reshape(rows, (n_variables, fractions.size, 2, n_points))
        with np.errstate(all="ignore"):
            slopes = (values[:, :, 0] - values[:, :, 1]) / (2 * steps)
            noise = np.finfo(float).eps * np.abs(values).max(axis=2) / steps
        shape = (n_variables, len(FIRST_STEPS), LEVELS, n_points)
        slopes, noise = slopes.reshape(shape), noise.reshape(shape)
        for i in range(n_variables):
            results[i][key] = _extrapolated(slopes[i], noise[i])
    return results


def _extrapolated(slopes, noise) -> Estimates:
    """Romberg's table over the levels of each ladder, and the pair of neighbouring ladders that agrees best."""
    table = slopes  # (ladder, level, point)
    with np.errstate(all="ignore"):
        for k in range(1, LEVELS):
            last = table[:, -1]
            table = table[:, 1:] + (table[:, 1:] - table[:, :-1]) / (4**k - 1)
        value = table[:, 0]
        own = np.abs(value - last) + noise[:, -1]
        error = np.abs(value[1:] - value[:-1]) + np.minimum(own[1:], own[:-1])
    error = np.where(np.isfinite(error), error, np.inf)
    best = np.argmin(error, axis=0)[None]
    middle = np.where(own[1:] < own[:-1], value[1:], value[:-1])
    return Estimates(np.take_along_axis(middle, best, axis=0)[0], np.take_along_axis(error, best, axis=0)[0])
