"""Boxes of points in space."""

from dataclasses import dataclass

import numpy as np

from dftfd.errors import InputError

MAX_POINTS = 20_000_000
"""Of a box."""


@dataclass(frozen=True, eq=False)
class Box:
    """Points origin + i a + j b + k c. origin (3,), steps (3, 3) with one row per axis [bohr], counts (3,)."""

    origin: np.ndarray
    steps: np.ndarray
    counts: tuple[int, int, int]

    @classmethod
    def around(cls, coordinates, margin: float = 4.0, spacing: float = 0.2) -> "Box":
        """The box along x, y, z that holds all atoms (atom, 3) with `margin` on every side [bohr]."""
        low, high = np.min(coordinates, axis=0) - margin, np.max(coordinates, axis=0) + margin
        with np.errstate(over="ignore"):
            counts = np.ceil((high - low) / spacing) + 1
            n_points = np.prod(counts)
        if not n_points <= MAX_POINTS:
            raise InputError(f"a box of {n_points:.3g} points is too large; take a wider spacing or a smaller margin.")
        return cls(low, spacing * np.eye(3), tuple(counts.astype(int).tolist()))

    @property
    def points(self) -> np.ndarray:
        """All points (point, 3), the last axis fastest."""
        return self.origin + np.indices(self.counts).reshape(3, -1).T @ self.steps
