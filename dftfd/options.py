"""Options of a calculation, checked before anything expensive begins."""

from numbers import Integral

import numpy as np

from dftfd.errors import InputError, closest_names

METHODS = ("auto", "RKS", "UKS")
GRID_LEVELS = range(10)


def refuse_unknown(given, known):
    """Raise InputError for the first name in `given`, with the closest ones of `known`."""
    for name in given:
        closest = ", ".join(closest_names(name, known))
        raise InputError(f"run_scf has no option {name!r}; the closest ones are {closest}.")


def checked_method(method, spin):
    """'RKS' or 'UKS'; 'auto' is RKS for spin 0."""
    known = {name.lower(): name for name in METHODS}
    if not isinstance(method, str) or method.lower() not in known:
        raise InputError(f"unknown method {method!r}; allowed: {', '.join(METHODS)}.")
    method = known[method.lower()]
    if method == "auto":
        return "RKS" if spin == 0 else "UKS"
    if method == "RKS" and spin != 0:
        raise InputError(f"RKS needs spin 0, but the molecule has spin {spin}; use method='UKS' or 'auto'.")
    return method


def checked_grid(grid, level):
    """The grid that was given as (points (point, 3), weights (point,)), or the level of the one to build."""
    if grid is None:
        if not isinstance(level, Integral) or isinstance(level, bool) or level not in GRID_LEVELS:
            raise InputError(f"grid level must be a whole number from 0 to {GRID_LEVELS[-1]}, not {level!r}.")
        return int(level)
    try:
        points, weights = (np.asarray(array, dtype=np.float64) for array in grid)
    except (TypeError, ValueError) as error:
        raise InputError(f"grid must be a pair (points (n, 3), weights (n,)): {error}.") from error
    if points.ndim != 2 or points.shape[1] != 3 or weights.shape != points.shape[:1] or not len(points):
        raise InputError(f"grid has points {points.shape} and weights {weights.shape}, expected (n, 3) and (n,).")
    if not (np.all(np.isfinite(points)) and np.all(np.isfinite(weights))):
        raise InputError("grid has points or weights that are NaN or Inf.")
    return points, weights
