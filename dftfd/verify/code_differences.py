"""Derivatives of what a program answers, by central differences, with their error bars, and the noise of its answers.

Steps h, 2h and 4h give order 4 twice. Half of what the two differ by is the error bar: where the step is too long they
differ by fifteen times the error of the better one, where the answers are noisy by about the noise of either.
"""

from collections.abc import Callable

import numpy as np

STEP, FIELD_STEP = 0.01, 2e-3
"""Smallest steps, of nuclei and charges [bohr] and of fields [hartree / (e bohr)]."""
NOISE_STEP = 1e-3
"""Step [bohr] of the fourth differences that show the noise: smooth answers leave less than 1e-11 in them."""


def derivative(of: Callable[[float], np.ndarray], step: float) -> tuple[np.ndarray, np.ndarray]:
    """(value, error bar) of the derivative at zero; `of` is called six times."""
    sizes, slopes = [], []
    for k in (1, 2, 4):
        above, below = np.asarray(of(k * step)), np.asarray(of(-k * step))
        slopes.append((above - below) / (2 * k * step))
        sizes.append(np.abs(above))
    fourth = [(4 * slopes[0] - slopes[1]) / 3, (4 * slopes[1] - slopes[2]) / 3]
    rounding = np.finfo(float).eps * np.max(sizes, axis=0) / step
    return fourth[0] + (fourth[0] - fourth[1]) / 15, np.abs(fourth[0] - fourth[1]) / 2 + rounding


def gradient(of: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """(value, error bar) of the derivatives by each number in x, with the shape of x before that of the answer.

    One draw of noise may leave two orders equal by chance, so no bar is below the root mean square of all.
    """
    values, bars = [], []
    for index in np.ndindex(x.shape):
        along = np.zeros(x.shape)
        along[index] = 1.0
        value, bar = derivative(_line(of, x, along), step)
        values.append(value)
        bars.append(bar)
    shape = x.shape + np.shape(values[0])
    bar = np.reshape(bars, shape)
    return np.reshape(values, shape), np.maximum(bar, np.sqrt(np.mean(bar**2)))


def _line(of, x, along):
    return lambda t: of(x + t * along)


def noise(of: Callable[[float], np.ndarray]) -> float:
    """Root mean square of the noise in `of`, from its fourth differences (R. W. Hamming, Numerical Methods, ch. 10)."""
    values = [np.asarray(of(k * NOISE_STEP)) for k in range(-2, 3)]
    fourth = values[0] - 4 * values[1] + 6 * values[2] - 4 * values[3] + values[4]
    return float(np.sqrt(np.mean(fourth**2) / 70))
