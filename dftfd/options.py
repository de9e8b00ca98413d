"""Options of a calculation, checked before anything expensive begins."""

import inspect
from numbers import Integral, Real

import jax
import numpy as np

from dftfd.errors import InputError, closest_names

METHODS = ("auto", "RKS", "UKS", "ROKS")
SMEARINGS = ("fermi", "gaussian")
GRID_LEVELS = range(10)


def refuse_unknown(function, given):
    """Raise InputError for the first name in `given`, with the closest ones among the options of `function`."""
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    for name in given:
        closest = ", ".join(closest_names(name, known))
        raise InputError(f"{function.__name__} has no option {name!r}; the closest ones are {closest}.")


def require_float64():
    """Raise InputError where JAX was told, after the import of dftfd, to compute in single precision."""
    if not jax.config.jax_enable_x64:
        raise InputError(
            "JAX's 64-bit mode is off, but dftfd computes in float64; "
            "jax.config.update('jax_enable_x64', True) turns it on again."
        )


def checked_method(method, spin):
    """'RKS', 'UKS' or 'ROKS'; 'auto' is RKS for spin 0."""
    known = {name.lower(): name for name in METHODS}
    if not isinstance(method, str) or method.lower() not in known:
        raise InputError(f"unknown method {method!r}; allowed: {', '.join(METHODS)}.")
    method = known[method.lower()]
    if method == "auto":
        return "RKS" if spin == 0 else "UKS"
    if method == "RKS" and spin != 0:
        raise InputError(f"RKS needs spin 0, but the molecule has spin {spin}; use method='UKS', 'ROKS' or 'auto'.")
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


def checked_occupations(occupations, n_spin, capacity):
    """Per spin a tuple of occupation numbers from 0 to `capacity`; None stays None. One flat list suits one spin."""
    if occupations is None:
        return None
    try:
        if n_spin == 1 and all(isinstance(n, Real) for n in occupations):
            occupations = (occupations,)
        numbers = tuple(tuple(float(n) for n in spin) for spin in occupations)
    except TypeError as error:
        raise InputError(f"occupations={occupations!r} are no lists of numbers: {error}.") from error
    if len(numbers) != n_spin:
        raise InputError(f"occupations are given for {len(numbers)} spins, expected {n_spin}.")
    wrong = [n for spin in numbers for n in spin if not 0 <= n <= capacity]
    if wrong or not any(n > 0 for spin in numbers for n in spin):
        raise InputError(f"occupations must lie between 0 and {capacity} and not all vanish; found {wrong or numbers}.")
    return numbers


def checked_smearing(smearing, occupations, method):
    """(kind, width [hartree]) from a width or such a pair; None stays None.

    Refused for ROKS: Roothaan's effective Fock matrix is made of projectors on full, half filled and empty orbitals.
    Where alpha and beta occupations of shared orbitals are fractional, no single matrix has the stationary orbitals as
    its eigenvectors, and the cycle has no fixed point.
    """
    if smearing is None:
        return None
    if method == "ROKS":
        raise InputError(
            "smearing needs method='UKS' or 'RKS', not ROKS: orbitals that both spins share with fractional "
            "occupations are eigenvectors of no Fock matrix; take UKS, or leave smearing out."
        )
    kind, width = smearing if isinstance(smearing, tuple | list) and len(smearing) == 2 else ("fermi", smearing)
    if kind not in SMEARINGS:
        raise InputError(f"unknown smearing {kind!r}; allowed: {', '.join(SMEARINGS)}.")
    if not (isinstance(width, Real) and not isinstance(width, bool) and np.isfinite(width) and width > 0):
        raise InputError(f"smearing width {width!r}: give a positive number of hartree, such as 0.01.")
    if occupations is not None:
        raise InputError("smearing decides the occupations; leave one of the two options out.")
    return kind, float(width)
