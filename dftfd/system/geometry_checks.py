"""What can be wrong with positions: NaN, atoms on top of each other, numbers in the wrong unit."""

import warnings

import numpy as np
from scipy.spatial import cKDTree

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError, InputWarning
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, covalent_radii

CLOSE = 0.1 / BOHR_IN_ANGSTROM
"""Atoms nearer than this (0.1 angstrom, in bohr) are taken for a mistake unless the caller insists."""

FARTHEST = 1e6
"""Largest coordinate in bohr; beyond it even the exponents of the Gaussians lose their meaning."""


_OF_PDB = {
    "CA": 0.7, "CD": 0.8, "CE": 0.62, "CM": 0.65, "NA": 0.8, "NB": 0.64, "ND": 0.6, "NE": np.inf, "PA": 0.63,
    "PB": 0.82, "HE": np.inf, "HG": 0.8, "HO": 0.6, "CF": 0.62, "CS": 0.6, "NI": 0.8, "NO": 0.6, "OS": 0.75, "PD": 0.87,
}  # fmt: skip
"""Names of PDB files for atoms of C, N, P and H, alpha to eta and those of hemes and nucleotides, and in lower case
types of force fields (GAFF); and what lies between bonds of those and the shortest of the element (CaO, NbN, PaO, OsO4,
NiH), in its covalent distances; noble gases have no bonds.
"""

_OTHER_UNIT = {"angstrom": "bohr", "bohr": "angstrom"}
_NOBLE = (2, 10, 18, 36, 54, 86)
_NOT_READ = {"picometres": 100.0, "nanometres": 0.1}
"""Units that are not read, by how many times too large all distances are where angstrom is taken for them."""


def check_positions(labels, ghost, coordinates, allow_close) -> None:
    """Raise InputError unless there are atoms at finite, distinct positions; coordinates (atom, 3) in bohr."""
    if not labels:
        raise InputError("the molecule has no atoms.")
    _check_finite(labels, coordinates)
    pairs = cKDTree(coordinates).query_pairs(CLOSE, output_type="ndarray")
    if not len(pairs):
        return
    distances = np.linalg.norm(coordinates[pairs[:, 0]] - coordinates[pairs[:, 1]], axis=1)
    nearest = int(np.argmin(distances))
    first, second, distance = *sorted(pairs[nearest]), distances[nearest] * BOHR_IN_ANGSTROM
    nuclei_coincide = any(r == 0 and not (ghost[a] or ghost[b]) for (a, b), r in zip(pairs, distances, strict=True))
    if allow_close and not nuclei_coincide:
        return
    advice = "" if nuclei_coincide else "; pass allow_close=True if this is meant"
    apart = _apart(labels, first, second, f"{distance:.4g}")
    raise InputError(f"{apart}, nearer than 0.1 angstrom{advice}.")


def refuse_names_of_pdb(names, coordinates) -> None:
    """InputError for 'CA' or 'ca' whose neighbour is as near as to carbon, not to calcium; 'Ca' is calcium anywhere.

    As near: below 1.25 covalent distances of the first letter's element. HeH+ and NeH+ have bonds, too.
    """
    limit = lambda name: 0 if name.ghost else _OF_PDB.get(_of_one_case(name.written.rstrip("0123456789")), 0)
    suspects = [k for k, name in enumerate(names) if limit(name)]
    real = [k for k, name in enumerate(names) if not name.ghost]
    if not suspects or len(real) < 2:
        return
    other = lambda k: names[k].written[0].upper() if k in suspects else names[k].symbol
    radius = lambda symbol: float(covalent_radii([ATOMIC_NUMBERS[symbol]])[0])
    distances, neighbours = _nearest_neighbours(coordinates[real])
    for k in suspects:
        d, partner = distances[real.index(k)], real[neighbours[real.index(k)]]
        symbol = names[k].symbol
        is_bond = names[partner].symbol == "H" if symbol in ("He", "Ne") else False
        is_bond |= d > limit(names[k]) * (radius(symbol) + radius(names[partner].symbol))
        origin = "force fields" if names[k].written.islower() else "PDB files"
        if not is_bond and d < 1.25 * (radius(other(k)) + radius(other(partner))):
            raise InputError(
                f"{_apart([name.written for name in names], k, partner, f'{d * BOHR_IN_ANGSTROM:.3f}')}: "
                f"{names[k].written} is a name of {other(k)} in {origin}, and is read as {symbol}; write {other(k)}, "
                f"or {symbol} if that is meant."
            )


def warn_about_types(names) -> None:
    """Warn where all atoms are numbers that run from 1 without a gap: indices or types, sooner than H, He, Li."""
    written = {name.written for name in names}
    numbers = sorted(int(word) for word in written if word.isdigit() and len(word) < 4)
    if len(numbers) == len(written) > 1 and numbers == list(range(1, len(numbers) + 1)):
        symbols = " ".join(dict.fromkeys(name.symbol for name in names))
        warnings.warn(
            f"the atoms have the numbers 1 to {numbers[-1]}, read as atomic numbers, {symbols}: if they are indices or "
            "types, write symbols of elements.",
            InputWarning,
            stacklevel=4,
        )


def _of_one_case(word):
    """'CA' of 'CA' and 'ca'; 'Ca' as it is."""
    return word.upper() if word.islower() else word


def _apart(labels, first, second, distance):
    return f"atoms {first + 1} ({labels[first]}) and {second + 1} ({labels[second]}) are {distance} angstrom apart"


def _check_finite(labels, coordinates):
    bad = np.argwhere(~(np.abs(coordinates) <= FARTHEST))
    if not len(bad):
        return
    atom, axis = bad[0]
    value = coordinates[atom, axis]
    name = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else f"{value:.3g} bohr"
    limit = f"; coordinates beyond {FARTHEST:.0e} bohr are refused" if np.isfinite(value) else ""
    raise InputError(f"coordinate {'xyz'[axis]} of atom {atom + 1} ({labels[atom]}) is {name}{limit}.")


def nearest_pair(coordinates, ghost) -> tuple[int, int, float] | None:
    """Indices and distance [bohr] of the two nearest centres that are no ghosts; None if there are fewer than two."""
    real = np.flatnonzero(~np.asarray(ghost))
    if len(real) < 2:
        return None
    distances, neighbours = _nearest_neighbours(coordinates[real])
    a = int(np.argmin(distances))
    first, second = sorted((int(real[a]), int(real[neighbours[a]])))
    return first, second, float(distances[a])


def _nearest_neighbours(positions):
    distances, indices = cKDTree(positions).query(positions, k=2)
    return distances[:, 1], indices[:, 1]


def warn_about_units(molecule, unit: str) -> None:
    """Warn where distances fit the other unit better than the one that was given.

    Confusing angstrom and bohr scales every bond by 1.89 or 0.53. A hydrogen atom whose nearest neighbour is between
    1.45 and 2.6 covalent distances away and beyond 1.3 angstrom suggests the first where no other atom is bonded (in a
    transition state some are), one nearer than 0.6 angstrom or any pair below 0.55 covalent distances the second. Where
    all nearest neighbours are 100 times or a tenth of a covalent distance away, the coordinates were picometres or
    nanometres. Farther atoms are dissociated or van der Waals partners, not bonds.
    """
    real = np.flatnonzero(~np.asarray(molecule.ghost))
    if len(real) < 2:
        return
    distances, neighbours = _nearest_neighbours(molecule.coordinates[real])
    numbers = molecule.atomic_numbers[real]
    radii = covalent_radii(numbers)
    ratio = distances / (radii + radii[neighbours])
    angstrom = distances * BOHR_IN_ANGSTROM
    hydrogen = numbers == 1
    bonded_to_hydrogen = hydrogen | (numbers[neighbours] == 1)
    too_long = hydrogen & (angstrom > 1.3) & (ratio < 2.6) & np.all(ratio > 1.45)
    too_short = (bonded_to_hydrogen & (angstrom < 0.6)) | (ratio < 0.55)
    for other, factor in _NOT_READ.items():
        if np.all((ratio / factor > 0.75) & (ratio / factor < 1.3)) and not np.isin(numbers, _NOBLE).all():
            apart = _apart(molecule.labels, int(real[0]), int(real[neighbours[0]]), f"{angstrom[0]:.4g}")
            warnings.warn(
                f"{apart}, which would be a bond in {other}; {unit} was read: write angstrom or bohr.",
                InputWarning,
                stacklevel=4,
            )
            return
    for suspicious, word in ((too_short, "short"), (too_long, "long")):
        if suspicious.any():
            a = int(np.flatnonzero(suspicious)[np.argmin(distances[suspicious])])
            apart = _apart(molecule.labels, int(real[a]), int(real[neighbours[a]]), f"{angstrom[a]:.3f}")
            read = f"the coordinates were read in {unit}: should the unit be {_OTHER_UNIT[unit]}?"
            warnings.warn(f"{apart}, {word} for a bond; {read}", InputWarning, stacklevel=4)
            return
