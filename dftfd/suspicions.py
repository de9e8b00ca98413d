"""Requests that are legal but look like a mistake: they run, with a warning (dftfd.errors.InputWarning).

Distances that look like the wrong unit are warned about where the geometry is read (dftfd/geometry_checks.py).
"""

import re
import warnings

import numpy as np

from dftfd.errors import InputWarning
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import lookup

ELECTRON_ERROR = 1e-3
"""Share of the electrons that no grid made for the molecule loses: level 0 errs by up to 9e-4, level 1 by 5e-6."""

SCAN_LEVEL = 5
"""Grid level from which SCAN's energy is good to half a millihartree; at level 3 water errs by 0.9, Ar2 by 6."""

_EXCHANGE = re.compile(r"(^|_)x(_|$)")
_SCAN = re.compile(r"_(rev)?scan")  # but not rSCAN, r++SCAN, r2SCAN and r4SCAN, made to be smoother


_INNER_SHELLS = (*range(21, 31), *range(39, 49), *range(57, 81), *range(89, 113))
"""Atomic numbers of elements whose d or f shells are being filled."""


DEAR_EXCHANGE = 120
"""Basis functions from which on exact exchange takes most of the time, on a coarse grid as on a fine one."""


def may_have_several_states(calculation) -> bool:
    """Whether an SCF may end in one of several states: elements with open d or f shells, and other open shells.

    Those of other elements are left out where it would cost much to look, with exact exchange in large molecules.
    """
    molecule = calculation.molecule
    dear = calculation.functional.exact_exchange and molecule.n_ao > DEAR_EXCHANGE
    return molecule.spin != 0 and not dear or any(Z in _INNER_SHELLS for Z in molecule.atomic_numbers)


def warn_about_functional(spec, functional: Functional, grid) -> None:
    """Warn about exchange without correlation under a short name, and about SCAN on a coarse grid.

    spec: what the user wrote.   grid: the level, or points and weights.
    """
    names = [term.name for _, term in functional.terms]
    short = isinstance(spec, str) and "," not in spec and lookup(spec.strip()) is None
    if short and names and all(map(_EXCHANGE.search, names)):
        _warn(
            f"functional {spec.strip()!r} is exchange alone ({', '.join(names)}), without correlation; write "
            f"'{spec.strip()},' if this is meant, or name a correlation functional after the comma."
        )
    if isinstance(grid, int) and grid < SCAN_LEVEL and any(map(_SCAN.search, names)):
        _warn(
            f"the energy of {functional.name!r} needs a fine grid: level {grid} leaves errors of millihartrees, use "
            f"grid_level={SCAN_LEVEL} or the smoother r2scan."
        )


def warn_about_electrons(result) -> None:
    """Warn where the grid holds another number of electrons than the orbitals of an SCFResult."""
    error, count = result.electron_number_error, float(np.sum(result.mo_occ))
    if error is not None and abs(error) > ELECTRON_ERROR * count:
        _warn(
            f"the grid holds {count + error:.4f} electrons instead of {count:.4g}: it is too coarse for the density, "
            "use a higher grid_level."
        )


def _warn(text):
    warnings.warn(text, InputWarning, stacklevel=4)
