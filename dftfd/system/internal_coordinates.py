"""Distances, angles and dihedral angles of a molecule, and how its parts move when one of them is set.

Atoms count from 0. Two atoms give a distance [angstrom], three the angle at the second, four the dihedral angle about
the middle two [degree], with the sign of IUPAC, clockwise. What is bonded to the last atom moves along with it.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from dftfd.errors import InputError, InputWarning
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, covalent_radii
from dftfd.system.molecule import Molecule

BOND = 1.3
"""Bonded atoms are nearer than so many times the sum of their covalent radii."""

KINDS = {2: "distance", 3: "angle", 4: "dihedral"}
UNITS = {2: "angstrom", 3: "degree", 4: "degree"}
_STRAIGHT = 1e-8  # sine of an angle below which three atoms lie on a line


def neighbours(molecule: Molecule) -> list[set[int]]:
    """The atoms that each atom is bonded to; ghosts have no bonds."""
    radii, positions, n = covalent_radii(molecule.atomic_numbers), molecule.coordinates, molecule.n_atoms
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    real = ~np.array(molecule.ghost)
    bonded = (distances < BOND * (radii[:, None] + radii[None])) & real[:, None] & real[None] & ~np.eye(n, dtype=bool)
    return [set(np.flatnonzero(row).tolist()) for row in bonded]


def reached(bonds: Sequence[set[int]], start: int) -> list[int]:
    """The atoms that hang together with one, itself included, ascending."""
    found, front = {start}, [start]
    while front:
        new = bonds[front.pop()] - found
        found |= new
        front += new
    return sorted(found)


def value_of(coordinates: np.ndarray, atoms: Sequence[int]) -> float:
    """The distance [angstrom] or angle [degree] of atoms at coordinates (atom, 3) [bohr]."""
    p = [np.asarray(coordinates)[a] for a in atoms]
    if len(p) == 2:
        return float(np.linalg.norm(p[1] - p[0]) * BOHR_IN_ANGSTROM)
    if len(p) == 3:
        u, v = p[0] - p[1], p[2] - p[1]
        return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(u, v)), u @ v)))
    u, axis, v = p[1] - p[0], p[2] - p[1], p[3] - p[2]
    left, right = np.cross(u, axis), np.cross(axis, v)
    return float(np.degrees(np.arctan2(np.linalg.norm(axis) * (u @ right), left @ right)))


def warn_about_distances(what: str, values: Sequence[float], present: float) -> None:
    """Warn where all distances [angstrom] are those of another unit, beside the present one: picometres, nanometres.

    Twenty times as far apart no bond, and a fifth as far, nothing but a collision is left.
    """
    for unit, is_unit in (
        ("picometres", min(values) > 20 * present),
        ("nanometres", max(values) < 0.2 * present),
    ):
        if is_unit:
            warnings.warn(
                f"{what}: {' to '.join(f'{v:g}' for v in dict.fromkeys((values[0], values[-1])))} angstrom, where the "
                f"atoms are {present:.4g} angstrom apart now; are {unit} meant? Angstrom are expected.",
                InputWarning,
                stacklevel=5,
            )


def warn_about_dihedrals(what: str, values: Sequence[float]) -> None:
    """Warn where dihedral angles [degree] are at most a turn in radians, with some of its simple fractions."""
    twelfths = [6 * v / np.pi for v in values if v]
    are_fractions = [
        abs(x - round(x)) < 2e-3 and abs(v) > 0.1 for x, v in zip(twelfths, filter(None, values), strict=True)
    ]
    if any(are_fractions) and max(map(abs, values)) < 6.3:
        warnings.warn(f"{what}: are these radians? Degrees are expected.", InputWarning, stacklevel=5)


def with_value(molecule: Molecule, atoms: Sequence[int], value: float) -> np.ndarray:
    """Coordinates (atom, 3) [bohr] where the atoms have this distance or angle: one side moves as it is.

    InputError where the two sides hang together in another way, as in a ring.
    """
    moving = far_side(molecule, atoms)
    x = np.array(molecule.coordinates)
    p = [x[a] for a in atoms]
    change = value - value_of(x, atoms)
    if len(atoms) == 2:
        along = (p[1] - p[0]) / np.linalg.norm(p[1] - p[0])
        x[moving] += change / BOHR_IN_ANGSTROM * along
        return x
    axis = _normal(p[0] - p[1], p[2] - p[1]) if len(atoms) == 3 else p[2] - p[1]
    x[moving] = p[1] + (x[moving] - p[1]) @ _rotation(axis, np.radians(change)).T
    return x


def far_side(molecule: Molecule, atoms: Sequence[int]) -> list[int]:
    """The atoms that hang together with the last one (of four: with the third) where the bond before it is cut."""
    near, far = (atoms[1], atoms[2]) if len(atoms) == 4 else atoms[-2:]
    bonds = neighbours(molecule)
    bonds[near].discard(far)
    bonds[far].discard(near)
    found = reached(bonds, far)
    fixed, moved = (atoms[:-1], atoms[-1]) if len(atoms) < 4 else (atoms[:2], atoms[3])
    joined = [a for a in fixed if a in found]
    if joined or moved not in found:
        where = f"atoms {', '.join(map(str, atoms))}: "
        why = (
            f"atom {joined[0]} hangs together with atom {far} in another way, as in a ring, so no side moves as it is"
            if joined
            else f"atom {moved} does not hang together with atom {far}, about whose bond it should turn"
        )
        raise InputError(f"{where}{why}; scan it relaxed.")
    return found


def _normal(u, v):
    """A vector normal to both; to u where they lie on a line."""
    normal = np.cross(u, v)
    if np.linalg.norm(normal) > _STRAIGHT * np.linalg.norm(u) * np.linalg.norm(v):
        return normal
    return np.cross(u, np.eye(3)[np.argmin(np.abs(u))])


def _rotation(axis, angle):
    """Rotation by an angle about an axis, by the right hand (Rodrigues)."""
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
