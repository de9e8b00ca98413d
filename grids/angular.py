"""Lebedev quadrature on the unit sphere.

V. I. Lebedev, D. N. Laikov, Dokl. Math. 59, 477 (1999). The nodes come from scipy.integrate.lebedev_rule.
"""

from functools import cache

import numpy as np
from scipy.integrate import lebedev_rule

from dftfd.errors import InputError

# Degree up to which spherical harmonics are integrated exactly -> number of points.
_POINTS_OF_DEGREE = {
    3: 6, 5: 14, 7: 26, 9: 38, 11: 50, 13: 74, 15: 86, 17: 110, 19: 146, 21: 170, 23: 194, 25: 230, 27: 266, 29: 302,
    31: 350, 35: 434, 41: 590, 47: 770, 53: 974, 59: 1202, 65: 1454, 71: 1730, 77: 2030, 83: 2354, 89: 2702, 95: 3074,
    101: 3470, 107: 3890, 113: 4334, 119: 4802, 125: 5294, 131: 5810,
}  # fmt: skip

LEBEDEV_SIZES = tuple(_POINTS_OF_DEGREE.values())
_DEGREE_OF_POINTS = {points: degree for degree, points in _POINTS_OF_DEGREE.items()}


@cache
def lebedev(n_points: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Directions (n_points, 3) and weights (n_points,) with  int f d(Omega) ~ sum_k w_k f(direction_k),  sum w = 4 pi.

    Weights of the rules with 74, 230 and 266 points are partly negative. Raises InputError for a size that is not in
    `LEBEDEV_SIZES`. The arrays are shared between callers and read-only.
    """
    if n_points not in _DEGREE_OF_POINTS:
        nearest = sorted(sorted(LEBEDEV_SIZES, key=lambda size: abs(size - n_points))[:3])
        raise InputError(
            f"there is no Lebedev rule with {n_points} points; the nearest have {', '.join(map(str, nearest))}."
        )
    directions, weights = lebedev_rule(_DEGREE_OF_POINTS[n_points])
    directions = np.ascontiguousarray(directions.T)
    directions.setflags(write=False)
    weights.setflags(write=False)
    return directions, weights
