"""Rotations of a rigid molecule: moments of inertia, motions of the whole, and how many turn it into itself."""

from typing import NamedTuple

import numpy as np

LINEAR = 1e-6
"""Smallest moment of inertia over the largest, up to which a molecule is linear: a bend of about 0.1 degrees."""

SAME_PLACE = 5e-3
"""Half the distance [bohr] up to which an atom counts as turned onto another: ten times what optimisations leave."""

FAR = 4.0
"""How many times as far the rest of a group may be: coordinates with two digits [angstrom] are 0.03 bohr off."""


def moments_of_inertia(masses, coordinates) -> tuple[np.ndarray, np.ndarray]:
    """Moments (3,) [u bohr^2], ascending, and principal axes in the columns of (3, 3)."""
    r = coordinates - masses @ coordinates / masses.sum()
    second = np.einsum("a,ax,ay->xy", masses, r, r)
    moments, axes = np.linalg.eigh(np.trace(second) * np.eye(3) - second)
    return np.maximum(moments, 0.0), axes


def n_rotations(masses, coordinates) -> int:
    """How many directions a molecule can be turned in: 0 for an atom, 2 for a linear molecule, else 3."""
    moments, _ = moments_of_inertia(masses, coordinates)
    if moments[-1] < LINEAR:
        return 0
    return 2 if moments[0] < LINEAR * moments[-1] else 3


def rigid_motions(masses, coordinates) -> np.ndarray:
    """Translations and rotations as orthonormal rows (6, 5 or 3; 3 atom) of mass-weighted displacements."""
    root = np.sqrt(masses)[:, None]
    r = coordinates - masses @ coordinates / masses.sum()
    _, axes = moments_of_inertia(masses, coordinates)
    turning = axes[:, 3 - n_rotations(masses, coordinates) :].T  # that of a linear molecule has no moment
    motions = [*(root * e for e in np.eye(3)), *(root * np.cross(e, r) for e in turning)]
    q, _ = np.linalg.qr(np.array([motion.ravel() for motion in motions]).T)
    return q.T


def symmetry_number(masses, coordinates, tolerance: float = SAME_PLACE) -> int:
    """How many rotations turn a molecule into itself, doing nothing included; atoms are alike by their mass."""
    return symmetry(masses, coordinates, tolerance).number


class Symmetry(NamedTuple):
    """number: of the rotations that turn a molecule into itself.

    nearly: that of the largest group which leaves no atom farther off than FAR times the tolerance.   off: the largest
    distance [bohr] of an atom from its place under that group's rotations.
    """

    number: int
    nearly: int
    off: float


def symmetry(masses, coordinates, tolerance: float = SAME_PLACE) -> Symmetry:
    """The rotations that turn a molecule into itself.

    Rounded coordinates may pass for some rotations of a group and not for others. As many are taken as make a group:
    more, up to FAR times the tolerance, or else fewer.
    """
    r = coordinates - masses @ coordinates / masses.sum()
    n = n_rotations(masses, coordinates)
    if n < 3:
        off = _off(masses, r, -r) if n == 2 else np.inf
        number, nearly = (2 if off < factor * tolerance else 1 for factor in (2, 2 * FAR))
        return Symmetry(number, nearly, off if nearly > 1 else 0.0)
    errors = _permutations(masses, r, 2 * FAR * tolerance)
    limits = sorted({2 * tolerance, *errors.values()})
    sets = [{p: error for p, error in errors.items() if error <= limit} for limit in limits]
    groups = {limit: group for limit, group in zip(limits, sets, strict=True) if _is_closed(group)}
    looser = [len(group) for limit, group in groups.items() if limit >= 2 * tolerance]
    stricter = [len(group) for limit, group in groups.items() if limit < 2 * tolerance]
    largest = list(groups.values())[-1]
    return Symmetry(looser[0] if looser else stricter[-1], len(largest), max(largest.values()))


def _permutations(masses, r, limit) -> dict[tuple[int, ...], float]:
    """Atoms that rotations put in each atom's place, and how far off [bohr], at most `limit`, they leave one at least.

    A rotation is known from where it takes two atoms that do not lie on a line with the centre.
    """
    far = np.linalg.norm(r, axis=1)
    a = int(np.argmax(far))
    b = int(np.argmax(np.linalg.norm(np.cross(r[a], r), axis=1)))
    frame = _frame(r[a], r[b])
    alike = np.isclose(masses[:, None], masses[None], atol=1e-6)
    found = {}
    for i in np.flatnonzero((np.abs(far - far[a]) < limit) & alike[a]):
        for j in np.flatnonzero((np.abs(far - far[b]) < limit) & alike[b]):
            if j == i or abs(np.linalg.norm(r[i] - r[j]) - np.linalg.norm(r[a] - r[b])) > 2 * limit:
                continue
            turned = r @ (frame.T @ _frame(r[i], r[j]))
            distances = np.where(alike, np.linalg.norm(turned[:, None] - r[None], axis=2), np.inf)
            places = distances.argmin(axis=1)
            if len(set(places.tolist())) == len(r):
                error = _distance_at_best(r, r[places])
                if error <= limit:
                    found[tuple(places.tolist())] = error
    return found


def _distance_at_best(before, after) -> float:
    """The largest distance of an atom from its place after the rotation with the smallest squared distances.

    W. Kabsch, Acta Cryst. A 32, 922 (1976). doi:10.1107/S0567739476001873
    """
    U, _, V = np.linalg.svd(before.T @ after)
    turn = U @ np.diag([1.0, 1.0, np.sign(np.linalg.det(U @ V))]) @ V
    return float(np.linalg.norm(before @ turn - after, axis=1).max())


def _is_closed(group) -> bool:
    """Whether one permutation after another is always one of them."""
    return all(tuple(p[k] for k in q) in group for p in group for q in group)


def _frame(x, y):
    """Orthonormal rows: along x, in the plane of x and y, across it."""
    e_1 = x / np.linalg.norm(x)
    e_3 = np.cross(x, y) / np.linalg.norm(np.cross(x, y))
    return np.array([e_1, np.cross(e_3, e_1), e_3])


def _off(masses, before, after) -> float:
    """The largest distance [bohr] of a place from the nearest atom of its mass."""
    distances = np.linalg.norm(before[:, None] - after[None], axis=2)
    alike = np.isclose(masses[:, None], masses[None], atol=1e-6)
    return float(np.where(alike, distances, np.inf).min(axis=0).max())
