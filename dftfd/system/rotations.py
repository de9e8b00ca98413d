"""Rotations of a rigid molecule: moments of inertia, motions of the whole, and how many turn it into itself."""

import numpy as np

LINEAR = 1e-6
"""Smallest moment of inertia over the largest, up to which a molecule is linear: a bend of about 0.1 degrees."""

SAME_PLACE = 5e-3
"""Half the distance [bohr] up to which an atom counts as turned onto another: ten times what optimisations leave."""


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
    """How many rotations turn a molecule into itself, doing nothing included; atoms are alike by their mass.

    A rotation is known from where it takes two atoms that do not lie on a line with the centre.
    """
    r = coordinates - masses @ coordinates / masses.sum()
    n = n_rotations(masses, coordinates)
    if n < 3:
        return 2 if n == 2 and _same(masses, r, -r, tolerance) else 1
    far = np.linalg.norm(r, axis=1)
    a = int(np.argmax(far))
    b = int(np.argmax(np.linalg.norm(np.cross(r[a], r), axis=1)))
    frame = _frame(r[a], r[b])
    found = 0
    for i in np.flatnonzero((np.abs(far - far[a]) < tolerance) & np.isclose(masses, masses[a], atol=1e-6)):
        for j in np.flatnonzero((np.abs(far - far[b]) < tolerance) & np.isclose(masses, masses[b], atol=1e-6)):
            if abs(np.linalg.norm(r[i] - r[j]) - np.linalg.norm(r[a] - r[b])) < 2 * tolerance:
                found += _same(masses, r, r @ (frame.T @ _frame(r[i], r[j])), tolerance)
    return found


def _frame(x, y):
    """Orthonormal rows: along x, in the plane of x and y, across it."""
    e_1 = x / np.linalg.norm(x)
    e_3 = np.cross(x, y) / np.linalg.norm(np.cross(x, y))
    return np.array([e_1, np.cross(e_3, e_1), e_3])


def _same(masses, before, after, tolerance) -> bool:
    """Whether each atom has come to lie on one of its mass."""
    distances = np.linalg.norm(before[:, None] - after[None], axis=2)
    alike = np.isclose(masses[:, None], masses[None], atol=1e-6)
    return bool((np.where(alike, distances, np.inf).min(axis=0) < 2 * tolerance).all())
