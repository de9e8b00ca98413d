"""Differences of whole calculations, and whether they can be trusted: by two orders, and by longer and shorter steps.

A difference has an estimate of its error, how far a lower order is from it. Where the energy is rough, as CAM-B3LYP's
of a dilute spin is, estimates of all usual steps are tiny and the derivative is none of them: the polarisability of Li
is 133.3 by fields of 3e-5 to 4e-3, and 133.8 by fields of 1e-6, as by response. Shorter steps show it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

STEP, FIELD = 0.01, 0.0005
"""Displacements [bohr] and fields [hartree/(e bohr)] of differences."""
SCALES = (1.0, 0.25, 0.5, 2.0, 4.0, 2**-4, 2**-6, 2**-8)
"""Of steps: the first alone where it agrees, all of them where it does not."""
BARS = 4.0
"""Noise of a five-point difference by how far the three-point one is from it: 3.5 of first, 3.9 of second ones."""


class Trial:
    """Which of the scales differences are taken with; grids that are what is off are two levels finer with each."""

    number = 0


class Difference(NamedTuple):
    """Of steps `scale` times the usual ones. tolerance: of a comparison with it.   error: estimated by two orders."""

    scale: float
    value: float
    tolerance: float
    error: float


def threshold(conv_tol: float, energy: float) -> float:
    """Convergence [hartree] of a step's SCF, which starts from the middle: as h^2, to a few roundings of the energy.

    A looser one ends where it starts: in fields of 1e-6 the dipole of NaH, 1e-11 hartree, is that of no field.
    """
    return max(conv_tol * min(1.0, SCALES[Trial.number]) ** 2, 4 * float(np.spacing(abs(energy))))


def slope(value: Callable[[float], Any], step: float) -> tuple[Any, float]:
    """Five-point derivative of value(t) at 0, and how far the three-point one is from it."""
    step *= SCALES[Trial.number]
    near, far = (np.asarray(value(t)) - np.asarray(value(-t)) for t in (step, 2 * step))
    best = (8 * near - far) / (12 * step)
    return best, float(np.abs(best - near / (2 * step)).max())


def bend(value: Callable[[float], float], middle: float, step: float) -> tuple[float, float]:
    """Five-point second derivative of value(t) at 0, whose value is `middle`, and how far the three-point one is.

    With other steps the middle is found anew, as tightly converged as the rest.
    """
    step, middle = step * SCALES[Trial.number], value(0.0) if Trial.number else middle
    near, far = (value(t) + value(-t) - 2 * middle for t in (step, 2 * step))
    best = (16 * near - far) / (12 * step**2)
    return best, abs(best - near / step**2)


def judged(found: list[Difference], got: float) -> tuple[str, str]:
    """("right", "wrong" or "rough", in words) of a number by differences of several steps.

    A difference is certain to BARS times its error, or what is left at its step of the error of a shorter one, since
    noise grows as steps shrink. It is the most certain one that decides. Where others are further from it than both
    are certain to, and than would be accepted, the differences contradict each other. Then a number within their range
    is neither right nor wrong.
    """
    found = sorted(found)
    scale, value, tolerance, error = np.array(found).T
    bar = BARS * np.maximum.accumulate(scale * error) / scale
    best = int(np.argmin(bar))
    far = np.abs(value - value[best])
    contradicted = far > bar + bar[best] + tolerance[best]
    if contradicted.any():
        other = int(np.argmax(np.where(contradicted, far, -1.0)))
        usable = bar < far[other]
        if np.min((value - bar)[usable]) <= got <= np.max((value + bar)[usable]):
            pair = [f"{value[k]:.8g} +- {bar[k]:.1g} by {scale[k]:g} of the steps" for k in sorted((best, other))]
            return "rough", f"differences contradict each other, {' and '.join(pair)}; found {got:.8g}"
    off = f"{abs(got - value[best]):.1e}"
    if abs(got - value[best]) <= tolerance[best]:
        return "right", f"{off} by {scale[best]:g} of the steps, within {tolerance[best]:.1e}"
    return "wrong", f"off by {off} by {scale[best]:g} of the steps, within {tolerance[best]:.1e} expected"
