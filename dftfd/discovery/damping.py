"""Dispersion corrections of the training points, and damping parameters fitted to their reactions.

D3(BJ) is E6(a1, a2) + s8 E8(a1, a2): S. Grimme, S. Ehrlich, L. Goerigk, J. Comput. Chem. 32, 1456 (2011).
doi:10.1002/jcc.21759
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from dftfd.discovery.points import TrainingPoints
from dftfd.discovery.scores import SETS, known_reactions
from dftfd.errors import InputError, InputWarning, shown
from dftfd.functionals.empirical_dispersion import numbers_of
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.system.molecule import Molecule, molecule
from dftfd.terms.dispersion import correction

START, BOUNDS, LARGEST_S8 = (0.4, 5.0), ((0.0, 1.0), (2.0, 8.0)), 5.0
"""Of a1 and a2 [bohr]."""

OF_BJ = "d3bj", "d3bjatm", "d4"
UNITS, STEP = {"s8": 1.0, "a1": 0.15, "a2": 1.0}, 1e-2
"""By how much parameters differ between functionals; step of derivatives by them."""


def with_dispersion(points: TrainingPoints, version: str, parameters: str) -> TrainingPoints:
    """The points with a dispersion correction, as `Functional.dispersion` names it, in the base energies.

    InputError for molecules that are in none of dftfd's own sets, whose geometries are not known.
    """
    return replace(points, base=points.base + _energies(_molecules(points), version, parameters))


def with_damping_slopes(points: TrainingPoints, version: str, parameters: str) -> TrainingPoints:
    """The same, with the correction's derivatives by s8, a1 and a2, times UNITS, as `corrections`.

    InputError for corrections without these parameters.
    """
    known = numbers_of(version, parameters)
    if version not in OF_BJ or not UNITS.keys() <= known.keys():
        raise InputError(
            f"damping parameters of {version} {parameters!r} cannot be fitted: {', '.join(OF_BJ)} with s8, a1 and a2."
        )
    molecules, slopes = _molecules(points), []
    for name, unit in UNITS.items():
        ends = (_energies(molecules, version, _text(known | {name: known[name] + h})) for h in (STEP, -STEP))
        slopes.append((next(ends) - next(ends)) / (2 * STEP) * unit)
    corrected = replace(points, base=points.base + _energies(molecules, version, parameters))
    return replace(corrected, corrections=np.stack(slopes, axis=1))


def moved(dispersion: tuple[str, str], multiples: Sequence[float]) -> tuple[str, str]:
    """The correction with parameters moved by multiples of UNITS, as numbers that are not negative."""
    version, parameters = dispersion
    known = numbers_of(version, parameters)
    steps = zip(UNITS.items(), multiples, strict=True)
    return version, _text(known | {name: max(known[name] + m * unit, 0.0) for (name, unit), m in steps})


def fitted_damping(points: TrainingPoints, errors: np.ndarray, version: str = "d3bj") -> tuple[str, str]:
    """The correction, as `Functional.dispersion`, whose s8, a1 and a2 [bohr] make the errors of reactions smallest.

    errors: (reaction,) [kcal/mol] of a functional without a correction, computed less reference; the sum of their
    squares, with the weights of `points`, is minimised.   version: 'd3bj' or 'd4'.
    """
    needed = np.any(points.stoichiometry != 0, axis=0)
    molecules = [one for one, is_needed in zip(_molecules(points), needed, strict=True) if is_needed]
    S = points.stoichiometry[:, needed] * HARTREE_IN_KCAL
    weight = np.sqrt(points.reaction_weight / points.reaction_weight.sum())

    named = lambda s8, a: {"s8": s8, "a1": a[0], "a2": a[1]}

    def with_s8(a):
        """(s8, residuals) for a1 and a2."""
        E6, whole = (S @ _energies(molecules, version, _text(named(s8, a))) for s8 in (0.0, 1.0))
        r, E8 = weight * (errors + E6), weight * (whole - E6)
        s8 = float(np.clip(-(E8 @ r) / max(E8 @ E8, 1e-30), 0.0, LARGEST_S8))
        return s8, r + s8 * E8

    def loss(a):
        _, residuals = with_s8(a)
        return residuals @ residuals

    options = {"xatol": 1e-3, "fatol": 1e-6, "maxfev": 120}
    a = minimize(loss, START, method="Nelder-Mead", bounds=BOUNDS, options=options).x
    return version, _text(named(with_s8(a)[0], a))


def _text(numbers):
    return " ".join(f"{name}={value:.6g}" for name, value in numbers.items())


def _molecules(points) -> list[Molecule]:
    species, _ = known_reactions()
    if unknown := [name for name in points.molecules if name not in species]:
        raise InputError(
            f"no geometry of {shown(unknown[0])} is known, so it has no dispersion correction; molecules SET/NAME of "
            f"the sets {', '.join(SETS)} have one."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # of long distances in weakly bound molecules of these sets
        found = (species[name] for name in points.molecules)
        return [molecule(one.atoms, "def2-svp", charge=one.charge, spin=one.spin) for one in found]


def _energies(molecules, version, parameters) -> np.ndarray:
    """(molecule,) [hartree]."""
    return np.array([correction(one, version, parameters)[0] for one in molecules])
