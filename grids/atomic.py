"""The quadrature of one free atom: radii, radial shells times Lebedev's rules with pruning, quality levels 0 to 9.

Radial quadratures have nodes r_k [bohr] and weights w_k [bohr^3] with

    int_0^inf f(r) r^2 dr  ~  sum_k w_k f(r_k).

Every scheme maps a quadrature on a finite interval to [0, inf); the weights contain the Jacobian and r^2. Nodes ascend.

V. I. Lebedev, D. N. Laikov, Dokl. Math. 59, 477 (1999). The nodes come from scipy.integrate.lebedev_rule.

Near the nucleus the density is nearly spherical and far out it is small, so the full angular rule is spent only on the
shells between. A scheme takes the nodes r (shell,) [bohr] in ascending order and returns the Lebedev sizes (shell,).
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.integrate import lebedev_rule

from dftfd.errors import InputError, UnsupportedError

BOHR_IN_ANGSTROM = 0.52917721092  # CODATA 2010, the value PySCF uses; radial scalings carry it into the points

HEAVIEST_ELEMENT = 118

# fmt: off
_BRAGG_SLATER_ANGSTROM = (
    1.999999,                                                       # no element
    0.35, 1.40,
    1.45, 1.05, 0.85, 0.70, 0.65, 0.60, 0.50, 1.50,                 # Li - Ne
    1.80, 1.50, 1.25, 1.10, 1.00, 1.00, 1.00, 1.80,                 # Na - Ar
    2.20, 1.80,                                                     # K, Ca
    1.60, 1.40, 1.35, 1.40, 1.40, 1.40, 1.35, 1.35, 1.35, 1.35,     # Sc - Zn
    1.30, 1.25, 1.15, 1.15, 1.15, 1.90,                             # Ga - Kr
    2.35, 2.00,                                                     # Rb, Sr
    1.80, 1.55, 1.45, 1.45, 1.35, 1.30, 1.35, 1.40, 1.60, 1.55,     # Y - Cd
    1.55, 1.45, 1.45, 1.40, 1.40, 2.10,                             # In - Xe
    2.60, 2.15,                                                     # Cs, Ba
    1.95, 1.85, 1.85, 1.85, 1.85, 1.85, 1.85,                       # La - Eu
    1.80, 1.75, 1.75, 1.75, 1.75, 1.75, 1.75, 1.75,                 # Gd - Lu
    1.55, 1.45, 1.35, 1.35, 1.30, 1.35, 1.35, 1.35, 1.50,           # Hf - Hg
    1.90, 1.80, 1.60, 1.90, 1.45, 2.10,                             # Tl - Rn
    1.80, 2.15,                                                     # Fr, Ra
    1.95, 1.80, 1.80,                                               # Ac - Pa
    *(1.75,) * 27,                                                  # U - Og
)

_TREUTLER_AHLRICHS_SCALE = (
    1.0,                                                            # no element
    0.8, 0.9,
    1.8, 1.4, 1.3, 1.1, 0.9, 0.9, 0.9, 0.9,                         # Li - Ne
    1.4, 1.3, 1.3, 1.2, 1.1, 1.0, 1.0, 1.0,                         # Na - Ar
    1.5, 1.4,                                                       # K, Ca
    1.3, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.1, 1.1, 1.1,               # Sc - Zn
    1.1, 1.0, 0.9, 0.9, 0.9, 0.9,                                   # Ga - Kr: end of the published table
    2.0, 1.7,                                                       # Rb, Sr
    1.5, 1.5, 1.35, 1.35, 1.25, 1.2, 1.25, 1.3, 1.5, 1.5,           # Y - Cd
    1.3, 1.2, 1.2, 1.15, 1.15, 1.15,                                # In - Xe
    2.5, 2.2, 2.5,                                                  # Cs, Ba, La
    *(1.5,) * 29,                                                   # Ce - Rn
    2.5, 2.1, 3.685,                                                # Fr, Ra, Ac
    *(1.5,) * 29,                                                   # Th - Og
)

_GILL_JOHNSON_POPLE = (
    1.0,                                                            # no element
    1.0000, 0.5882,
    3.0769, 2.0513, 1.5385, 1.2308, 1.0256, 0.8791, 0.7692, 0.6838, # Li - Ne
    4.0909, 3.1579, 2.5714, 2.1687, 1.8750, 1.6514, 1.4754, 1.3333, # Na - Ar
)
# fmt: on


def _frozen(values) -> np.ndarray:
    table = np.array(values)
    table.setflags(write=False)
    return table


BRAGG_SLATER = _frozen(_BRAGG_SLATER_ANGSTROM) / BOHR_IN_ANGSTROM
"""Empirical radii [bohr]: J. C. Slater, J. Chem. Phys. 41, 3199 (1964), doi:10.1063/1.1725697; rare gases, At and the
heaviest elements, which Slater left out, are filled in as in PySCF."""
BRAGG_SLATER.setflags(write=False)

TREUTLER_AHLRICHS_SCALE = _frozen(_TREUTLER_AHLRICHS_SCALE)
"""xi, the extent of the radial grid M4 [bohr]: O. Treutler, R. Ahlrichs, J. Chem. Phys. 102, 346 (1995),
doi:10.1063/1.469408, for H to Kr; from Rb up to Lr the values are those of Psi4 and PySCF,
which end there; 1.5 is continued to Og."""

GILL_JOHNSON_POPLE = _frozen(_GILL_JOHNSON_POPLE)
"""Slater-rule radii of the SG-1 grid [bohr]: P. M. W. Gill, B. G. Johnson, J. A. Pople, Chem. Phys. Lett. 209, 506
(1993), doi:10.1016/0009-2614(93)80125-9."""


def sg1_radius(atomic_number: int) -> float:
    """Radius of an element in the SG-1 grid [bohr]; the scheme is published for H to Ar."""
    if atomic_number >= len(GILL_JOHNSON_POPLE):
        raise UnsupportedError(
            f"SG-1 pruning was asked for an element with Z = {atomic_number}, but it is defined from H to Ar. "
            "Use pruning='nwchem'."
        )
    return float(GILL_JOHNSON_POPLE[atomic_number])


Quadrature = tuple[np.ndarray, np.ndarray]


def treutler_ahlrichs(n: int, atomic_number: int) -> Quadrature:
    r"""M4 grid of Treutler and Ahlrichs: nodes (n,) [bohr], weights (n,) [bohr^3].

    r(x) = xi / ln 2  (1 + x)^0.6  ln(2 / (1 - x)),   x in (-1, 1)

    on the Chebyshev nodes of the second kind, with an extent xi for each element.

    O. Treutler, R. Ahlrichs, J. Chem. Phys. 102, 346 (1995). doi:10.1063/1.469408
    """
    angle = _chebyshev_angles(n)[::-1]
    one_plus_x = 2.0 * np.cos(0.5 * angle) ** 2
    one_minus_x = 2.0 * np.sin(0.5 * angle) ** 2  # 1 - cos would lose digits at the outermost nodes
    scale = TREUTLER_AHLRICHS_SCALE[atomic_number] / math.log(2.0)
    logarithm = np.log(2.0 / one_minus_x)
    r = scale * one_plus_x**0.6 * logarithm
    dr_dx = scale * one_plus_x**0.6 * (0.6 / one_plus_x * logarithm + 1.0 / one_minus_x)
    return r, r**2 * dr_dx * np.pi / (n + 1) * np.sin(angle)


def mura_knowles(n: int, atomic_number: int) -> Quadrature:
    r"""Log3 grid of Mura and Knowles: nodes (n,) [bohr], weights (n,) [bohr^3].

    r(x) = -alpha ln(1 - x^3),   x_k = (k - 1/2) / n,  k = 1 ... n

    alpha is 7 for alkali and alkaline-earth metals up to Ca and 5.2 otherwise. The paper has 5 and end-point nodes; 5.2
    and mid-points are PySCF's choice.

    M. E. Mura, P. J. Knowles, J. Chem. Phys. 104, 9848 (1996). doi:10.1063/1.471749
    """
    alpha = 7.0 if atomic_number in (3, 4, 11, 12, 19, 20) else 5.2
    x = (np.arange(n) + 0.5) / n
    r = -alpha * np.log1p(-(x**3))
    dr_dx = 3.0 * alpha * x**2 / (1.0 - x**3)
    return r, r**2 * dr_dx / n


def gauss_chebyshev(n: int, atomic_number: int) -> Quadrature:
    r"""Grid of Krack and Koester, the same for all elements: nodes (n,) [bohr], weights (n,) [bohr^3].

    r(x) = 1 - ln(1 + x) / ln 2,   x in (-1, 1)

    on the nodes of a Gauss-Chebyshev quadrature transformed to unit weight, with t = k pi / (n + 1):
    x_k = 1 - 2k / (n + 1) + 2/pi (1 + 2/3 sin^2 t) cos t sin t,   w_k = 16 sin^4 t / (3 (n + 1)).
    Three terms cancel in 1 + x at the outermost nodes, where x_k' = -w_k (n + 1) / pi is integrated instead.

    M. Krack, A. M. Koester, J. Chem. Phys. 108, 3226 (1998). doi:10.1063/1.475719
    """
    t = _chebyshev_angles(n)
    one_minus_x = _integral_of_sin4(t) * 16.0 / (3.0 * np.pi)
    one_plus_x = one_minus_x[::-1]
    log2_one_plus_x = np.log(one_plus_x) / math.log(2.0)
    # Near the nucleus r is small: ln(1 + x) = ln 2 + ln(1 - (1 - x) / 2).
    r = np.where(t < 0.5 * np.pi, -np.log1p(-0.5 * np.minimum(one_minus_x, 1.0)) / math.log(2.0), 1.0 - log2_one_plus_x)
    dr_dx = 1.0 / (math.log(2.0) * one_plus_x)
    return r, r**2 * dr_dx * 16.0 / (3.0 * (n + 1)) * np.sin(t) ** 4


def _integral_of_sin4(t: np.ndarray) -> np.ndarray:
    """int_0^t sin^4 u du to full relative accuracy, by a Gauss-Legendre rule of 20 points on each interval [0, t]."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = 0.5 * t
    return half * (np.sin(half[:, None] * (1.0 + nodes[None, :])) ** 4 @ weights)


def becke(n: int, atomic_number: int) -> Quadrature:
    r"""Grid of Becke: nodes (n,) [bohr], weights (n,) [bohr^3].

    r(x) = r_m (1 + x) / (1 - x),   x in (-1, 1)                                          (eq. 25)

    on the Chebyshev nodes of the second kind; r_m is half the Bragg-Slater radius, the whole one for hydrogen.

    A. D. Becke, J. Chem. Phys. 88, 2547 (1988). doi:10.1063/1.454033
    """
    angle = _chebyshev_angles(n)[::-1]
    midpoint = BRAGG_SLATER[atomic_number] * (1.0 if atomic_number == 1 else 0.5)
    one_minus_x = 2.0 * np.sin(0.5 * angle) ** 2
    r = midpoint / np.tan(0.5 * angle) ** 2
    dr_dx = 2.0 * midpoint / one_minus_x**2
    return r, r**2 * dr_dx * np.pi / (n + 1) * np.sin(angle)


def _chebyshev_angles(n: int) -> np.ndarray:
    """Angles k pi / (n + 1), k = 1 ... n; their cosines are the Chebyshev nodes of the second kind.

    int_-1^1 g(x) dx ~ sum_k pi / (n + 1) sin(angle_k) g(cos angle_k).
    """
    return np.arange(1, n + 1) * (np.pi / (n + 1))


RADIAL_SCHEMES: dict[str, Callable[[int, int], Quadrature]] = {
    "treutler_ahlrichs": treutler_ahlrichs,
    "mura_knowles": mura_knowles,
    "gauss_chebyshev": gauss_chebyshev,
    "becke": becke,
}


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


_LAST_OF_PERIOD = (2, 10, 18, 36, 54, 86)

# Rows: level 0 to 9. Columns: period 1 to 7. The quality levels of PySCF's gen_grid.
# fmt: off
_N_RADIAL = (
    ( 10,  15,  20,  30,  35,  40,  50),
    ( 30,  40,  50,  60,  65,  70,  75),
    ( 40,  60,  65,  75,  80,  85,  90),
    ( 50,  75,  80,  90,  95, 100, 105),
    ( 60,  90,  95, 105, 110, 115, 120),
    ( 70, 105, 110, 120, 125, 130, 135),
    ( 80, 120, 125, 135, 140, 145, 150),
    ( 90, 135, 140, 150, 155, 160, 165),
    (100, 150, 155, 165, 170, 175, 180),
    (200, 200, 200, 200, 200, 200, 200),
)
_N_ANGULAR = (
    (  50,   86,  110,  110,  110,  110,  110),
    ( 110,  194,  194,  194,  194,  194,  194),
    ( 194,  302,  302,  302,  302,  302,  302),
    ( 302,  302,  434,  434,  434,  434,  434),
    ( 434,  590,  590,  590,  590,  590,  590),
    ( 590,  770,  770,  770,  770,  770,  770),
    ( 770,  974,  974,  974,  974,  974,  974),
    ( 974, 1202, 1202, 1202, 1202, 1202, 1202),
    (1202, 1202, 1202, 1202, 1202, 1202, 1202),
    (1454, 1454, 1454, 1454, 1454, 1454, 1454),
)
# fmt: on

N_LEVELS = len(_N_RADIAL)


class AtomicGrid(NamedTuple):
    """Quadrature of all space around one nucleus; the arrays are shared between callers and read-only.

    offsets: positions relative to the nucleus, (point, 3) [bohr], shell by shell outwards.
    volumes: (point,) [bohr^3].
    """

    offsets: np.ndarray
    volumes: np.ndarray


def level_size(atomic_number: int, level: int) -> tuple[int, int]:
    """Numbers of radial shells and of angular points of an element at a quality level."""
    period = int(np.searchsorted(_LAST_OF_PERIOD, atomic_number, side="left"))
    return _N_RADIAL[level][period], _N_ANGULAR[level][period]


@lru_cache(maxsize=64)
def atomic_grid(atomic_number: int, n_radial: int, n_angular: int, radial: str, pruning: str) -> AtomicGrid:
    """Product grid of one free atom,  int f(r) d^3r ~ sum_p volume_p f(offset_p)."""
    lebedev(n_angular)  # refuses a size without a rule before pruning looks for its neighbours
    r, radial_weights = RADIAL_SCHEMES[radial](n_radial, atomic_number)
    sizes = PRUNING_SCHEMES[pruning](atomic_number, r, n_angular)
    offsets, volumes = [], []
    for radius, weight, size in zip(r, radial_weights, sizes, strict=True):
        directions, solid_angles = lebedev(int(size))
        offsets.append(radius * directions)
        volumes.append(weight * solid_angles)
    grid = AtomicGrid(np.concatenate(offsets), np.concatenate(volumes))
    for array in grid:
        array.setflags(write=False)
    return grid
