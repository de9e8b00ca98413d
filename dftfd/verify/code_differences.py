"""Derivatives of what a program answers, by central differences, with their error bars, and the noise of its answers.

Steps h, 2h and 4h give order 4 twice, and order 2 three times. Half of what the best two differ by is the error bar:
where the step is too long they differ by fifteen (order 2: three) times the error of the better one, where the answers
are noisy by about the noise of either.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

STEP, FIELD_STEP = 0.01, 2e-3
"""Smallest steps, of nuclei and charges [bohr] and of fields [hartree / (e bohr)]."""
NOISE_STEP = 1e-3
"""Step [bohr] of the fourth differences that show the noise: smooth answers leave less than 1e-11 in them."""


class Slope(NamedTuple):
    """A derivative of order 4 with its error bar, and of order 2 with its own."""

    value: np.ndarray
    bar: np.ndarray
    second: np.ndarray
    second_bar: np.ndarray


def derivative(of: Callable[[float], np.ndarray], step: float) -> Slope:
    """The derivative at zero; `of` is called six times."""
    sizes, slopes = [], []
    for k in (1, 2, 4):
        above, below = np.asarray(of(k * step)), np.asarray(of(-k * step))
        slopes.append((above - below) / (2 * k * step))
        sizes.append(np.abs(above))
    fourth = [(4 * slopes[0] - slopes[1]) / 3, (4 * slopes[1] - slopes[2]) / 3]
    rounding = np.finfo(float).eps * np.max(sizes, axis=0) / step
    bars = [np.abs(a - b) / 2 + rounding for a, b in (fourth, slopes[:2])]
    return Slope(fourth[0] + (fourth[0] - fourth[1]) / 15, bars[0], slopes[0], bars[1])


def gradient(of: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float) -> Slope:
    """The derivatives by each number in x, with the shape of x before that of the answer.

    One draw of noise may leave two orders equal by chance, so no bar is below the root mean square of all.
    """
    rows = []
    for index in np.ndindex(x.shape):
        along = np.zeros(x.shape)
        along[index] = 1.0
        rows.append(derivative(_line(of, x, along), step))
    value, bar, second, second_bar = (np.reshape(part, x.shape + np.shape(part[0])) for part in zip(*rows, strict=True))
    least = lambda bar: np.maximum(bar, np.sqrt(np.mean(bar**2)))
    return Slope(value, least(bar), second, least(second_bar))


def _line(of, x, along):
    return lambda t: of(x + t * along)


def noise(of: Callable[[float], np.ndarray]) -> float:
    """Root mean square of the noise in `of`, from its fourth differences (R. W. Hamming, Numerical Methods, ch. 10)."""
    values = [np.asarray(of(k * NOISE_STEP)) for k in range(-2, 3)]
    fourth = values[0] - 4 * values[1] + 6 * values[2] - 4 * values[3] + values[4]
    return float(np.sqrt(np.mean(fourth**2) / 70))
