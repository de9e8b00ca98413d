"""Lebedev quadrature on the unit sphere, and pruning: how many angular points each radial shell gets.

V. I. Lebedev, D. N. Laikov, Dokl. Math. 59, 477 (1999). The nodes come from scipy.integrate.lebedev_rule.

Near the nucleus the density is nearly spherical and far out it is small, so the full angular rule is spent only on the
shells between. A scheme takes the nodes r (shell,) [bohr] in ascending order and returns the Lebedev sizes (shell,).
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.integrate import lebedev_rule

from dftfd.errors import InputError
from dftfd.grids.radii import BRAGG_SLATER, sg1_radius

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


# Borders between the five zones, in units of an atomic radius: those of SG-1, which NWChem took over.
_ZONE_BORDERS = {
    "H-He": (0.25, 0.5, 1.0, 4.5),
    "Li-Ne": (0.1667, 0.5, 0.9, 3.5),
    "Na-": (0.1, 0.4, 0.8, 2.5),
}


def unpruned(atomic_number: int, r: np.ndarray, n_angular: int) -> np.ndarray:
    """The full angular rule on every shell."""
    return np.full(len(r), n_angular)


def nwchem(atomic_number: int, r: np.ndarray, n_angular: int) -> np.ndarray:
    """NWChem's pruning in the form PySCF gives it: five zones of the Bragg-Slater radius.

    From the nucleus outwards the sizes are 50, 86, one rule below `n_angular`, `n_angular`, one rule below. Rules of 50
    points are raised to 74 in the middle zones, smaller ones stay as they are.

    M. Valiev et al., Comput. Phys. Commun. 181, 1477 (2010). doi:10.1016/j.cpc.2010.04.018
    """
    if n_angular < 50:
        return unpruned(atomic_number, r, n_angular)
    if n_angular == 50:
        sizes = (50, 74, 74, 74, 50)
    else:
        one_below = LEBEDEV_SIZES[LEBEDEV_SIZES.index(n_angular) - 1]
        sizes = (50, 86, one_below, n_angular, one_below)
    return np.array(sizes)[_zones(atomic_number, r / BRAGG_SLATER[atomic_number])]


def sg1(atomic_number: int, r: np.ndarray, n_angular: int) -> np.ndarray:
    """Pruning of the standard grid SG-1: 6, 38, 86, 194 and 86 points in five zones, whatever `n_angular`; H to Ar.

    P. M. W. Gill, B. G. Johnson, J. A. Pople, Chem. Phys. Lett. 209, 506 (1993). doi:10.1016/0009-2614(93)80125-9
    """
    return np.array((6, 38, 86, 194, 86))[_zones(atomic_number, r / sg1_radius(atomic_number))]


def treutler(atomic_number: int, r: np.ndarray, n_angular: int) -> np.ndarray:
    """Treutler and Ahlrichs' pruning: 14 points on the inner third of the shells, 50 up to the half, then `n_angular`.

    O. Treutler, R. Ahlrichs, J. Chem. Phys. 102, 346 (1995). doi:10.1063/1.469408
    """
    sizes = unpruned(atomic_number, r, n_angular)
    sizes[: len(r) // 2] = 50
    sizes[: len(r) // 3] = 14
    return sizes


def _zones(atomic_number: int, scaled_r: np.ndarray) -> np.ndarray:
    """Zone 0 ... 4 of each shell; a shell on a border belongs to the inner zone."""
    row = "H-He" if atomic_number <= 2 else "Li-Ne" if atomic_number <= 10 else "Na-"
    return np.searchsorted(_ZONE_BORDERS[row], scaled_r, side="left")


PRUNING_SCHEMES: dict[str, Callable[[int, np.ndarray, int], np.ndarray]] = {
    "nwchem": nwchem,
    "sg1": sg1,
    "treutler": treutler,
    "none": unpruned,
}
