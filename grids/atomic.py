"""The quadrature of one free atom: radial shells times angular rules, and the quality levels 0 to 9."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dftfd.grids.angular import PRUNING_SCHEMES, lebedev
from dftfd.grids.radial import RADIAL_SCHEMES

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
