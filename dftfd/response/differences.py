"""Central differences by the positions of nuclei, of two and of four points."""

from dataclasses import dataclass

import numpy as np

STEPS = {
    "differences": {2: 5e-3, 4: 2e-2},
    "response": {2: 2e-4, 4: 5e-4},
    "response, fitted ranges": {2: 1e-3, 4: 5e-3},
}
"""Displacement [bohr] by method and number of points, where none is given.

Without an SCF's error they are shorter: what sums over atoms miss zero by is the differences' own error, h^2 F''' / 6.
The metric of erf(omega r)/r is singular to rounding in every fitting basis, which leaves 1e-10 hartree/bohr in forces.
"""

WEIGHTS = {2: ((1, 1 / 2),), 4: ((1, 8 / 12), (2, -1 / 12))}


@dataclass(frozen=True)
class Differences:
    """How differences are taken: points (2 or 4), step [bohr], and whether polarisabilities are wanted, too."""

    points: int
    step: float
    raman: bool

    @property
    def shifts(self) -> tuple[int, ...]:
        """Displacements in units of the step."""
        return tuple(sign * k for k, _ in WEIGHTS[self.points] for sign in (1, -1))

    def derivative(self, values) -> np.ndarray:
        """d/dx of values (shift, ...) in the order of `shifts`."""
        pairs = zip(values[::2], values[1::2], WEIGHTS[self.points], strict=True)
        return sum(weight * (plus - minus) for plus, minus, (_, weight) in pairs) / self.step

    def __str__(self):
        return f"{self.points + 1}-point differences, step {self.step:g} bohr"
