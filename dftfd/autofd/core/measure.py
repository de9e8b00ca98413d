r"""Do the weights of a space belong to the measure that it says it has?

Partial integration on a bump b, which vanishes with its slopes at the ends of its support, says

    int (nabla b + b nabla log w) w dx = 0

A quadrature with another measure, such as weights that hold the Jacobian sin(theta) of which the space was not told as
its density w, leaves its logarithmic slope, weighted with b. Two bumps of one place and different shapes have to tell
of the same slope: a rule that is too coarse for them tells of two.
"""

import warnings
from itertools import product

import jax
import numpy as np

from dftfd.errors import InputWarning

PLACES, FEWEST, POINTS, SHAPES = 24, 4, 100_000, (3, 5)
"""Centres that are looked at, fewer where there are many points, and the powers of the bumps (1 - u^2)^p."""

LEAST, ALIKE = 0.25, 0.25
"""Change of the measure's logarithm over half a bump from which on it counts, and what two bumps may differ by."""

PER_AXIS = 6
"""Points of the quadrature that a bump needs for each coordinate."""

MOST_AXES = 3


def warn_about_measure(domain) -> None:
    """Once for each space with points and weights of a user's own: warn where the measure is another than it says."""
    if domain.measure_is_known or domain.points is None or domain.discrete:
        return
    domain.measure_is_known = True
    if words := measure_in_words(domain):
        warnings.warn(words, InputWarning, stacklevel=2)


def measure_in_words(domain) -> str:
    """What is wrong with the measure of a space and what to do, empty where nothing is found."""
    with jax.ensure_compile_time_eval():
        slope = unknown_slope(domain)
    if not slope:
        return ""
    said = "dx" if domain.density is None else "of its density="
    return (
        f"the weights of {domain!r} do not belong to the measure {said}, so derivatives by parts are wrong on it: the "
        f"measure's logarithm changes by {slope:.2g} over half a bump. Give its density, as in Domain(..., "
        "density=lambda x: jnp.sin(x[0])) where sin(x[0]) is in the weights; fd.check(E, f) tells of a functional."
    )


def unknown_slope(domain) -> float:
    """By how much the logarithm of the measure changes over half of a bump, beyond what the space says of it.

    Zero where it is as the space says, and where its points are too few or too far from each other to tell.
    """
    points, weights = (np.asarray(x) for x in (domain.points, domain.weights))
    x = points.reshape(len(points), -1)
    if np.iscomplexobj(x) or np.iscomplexobj(weights) or not 1 <= x.shape[1] <= MOST_AXES:
        return 0.0
    found = [_slope_at(domain, points, x, weights, centre) for centre in centres(x)]
    told = [slope for slope in found if slope is not None]
    return max(told, default=0.0) if sum(slope > 0 for slope in told) > len(told) / 3 else 0.0


def centres(x):
    """Some points, spread over the middle half of each coordinate."""
    low, high = np.quantile(x, 0.2, axis=0), np.quantile(x, 0.8, axis=0)
    inside = x[((x >= low) & (x <= high)).all(axis=1)]
    count = min(len(inside), PLACES, max(FEWEST, POINTS // len(x)))
    return inside[np.linspace(0, len(inside) - 1, count, dtype=int)] if count else inside


def _slope_at(domain, points, x, weights, centre):
    """The largest change along a coordinate over half a bump around a centre that lies well inside; None without."""
    half = half_widths(x, centre)
    if half is None:
        return None
    u = (x - centre) / half
    inside = (np.abs(u) < 1).all(axis=1)
    if inside.sum() < PER_AXIS ** x.shape[1]:
        return None
    u, w = u[inside], weights[inside]
    known = _known_slopes(domain, points[inside], half)
    changes = []
    for power in SHAPES:
        b = np.prod((1 - u**2) ** power, axis=1)
        slopes = -2 * power * u / (1 - u**2) * b[:, None] + b[:, None] * known
        changes.append(-(w @ slopes) / (w @ b))
    first, second = np.array(changes)
    if not np.isfinite(changes).all():
        return None
    certain = (np.abs(first - second) <= ALIKE * np.abs(first)) & (np.abs(first) > LEAST)
    return float(np.abs(first[certain]).max(initial=0.0))


def half_widths(x, centre):
    """Of a box around the centre beyond each of whose corners there are points; None where there is none."""
    away = x - centre
    scale = np.abs(away).max(axis=0)
    if not (scale > 0).all():
        return None
    reach = [(sign * away / scale).min(axis=1).max() for sign in product((1, -1), repeat=x.shape[1])]
    return min(reach) * scale if min(reach) > 0.05 else None


def _known_slopes(domain, points, half):
    """nabla log w of the density that the space was given, in units of the bump."""
    if domain.density is None:
        return np.zeros((len(points), len(half)))
    logarithm = lambda r: jax.numpy.log(domain.density(r))
    return np.asarray(jax.vmap(jax.grad(logarithm))(points)).reshape(len(points), -1) * half
