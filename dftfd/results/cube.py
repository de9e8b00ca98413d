"""Gaussian cube files: values on a box of points, for programs that draw isosurfaces."""

from dataclasses import dataclass

import numpy as np

from dftfd.errors import InputError
from dftfd.runtime.files import write_text

MAX_POINTS = 20_000_000


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


def write_cube(path, box: Box, values, molecule, title: str) -> None:
    """Write values (point,) in the order of `box.points`; lengths in bohr, values in their atomic unit."""
    lines = [f"dftfd: {title}", "OUTER LOOP: X, MIDDLE LOOP: Y, INNER LOOP: Z"]
    lines.append(f"{molecule.n_atoms:5d}" + "".join(f"{x:12.6f}" for x in box.origin))
    for count, step in zip(box.counts, box.steps, strict=True):
        lines.append(f"{count:5d}" + "".join(f"{x:12.6f}" for x in step))
    for number, charge, position in zip(
        molecule.atomic_numbers, molecule.nuclear_charges, molecule.coordinates, strict=True
    ):
        lines.append(f"{number:5d}{charge:12.6f}" + "".join(f"{x:12.6f}" for x in position))
    for row in np.reshape(values, (-1, box.counts[2])):
        lines += ["".join(f"{v:14.6e}" for v in row[k : k + 6]) for k in range(0, len(row), 6)]
    write_text(path, "\n".join(lines) + "\n")
