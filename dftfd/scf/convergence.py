"""The SCF table: one line per cycle, and the thresholds that end it."""

from dataclasses import dataclass

import numpy as np

from dftfd.runtime.arguments import number, whole

LINEAR_DEPENDENCE = 1e-6
"""Eigenvalues of the overlap at or below this are dropped; PySCF 2.14 uses the same value."""

CONV_TOL = number(lambda x: x > 0, "a positive number of hartree, such as 1e-9")
MAX_CYCLES = whole(1)
"""What thresholds can be."""


@dataclass(frozen=True)
class Cycle:
    """One line of the SCF table. Energies in hartree; number 0 is the starting density, `extra` the closing check."""

    number: int
    energy: float
    energy_change: float
    gradient_norm: float
    density_change: float
    extra: bool = False


@dataclass(frozen=True)
class Convergence:
    """When to stop: energy change below `energy` [hartree] and orbital gradient norm below sqrt(energy).

    max_cycles: of DIIS, and again of second order where it takes over.
    """

    energy: float = 1e-9
    max_cycles: int = 50

    def __post_init__(self):
        CONV_TOL.checked("conv_tol", self.energy)
        MAX_CYCLES.checked("max_cycles", self.max_cycles)

    @property
    def gradient(self):
        """Threshold of the orbital gradient norm [hartree]."""
        return float(np.sqrt(self.energy))

    def reached_by(self, cycle):
        """Whether a cycle meets both thresholds."""
        return abs(cycle.energy_change) < self.energy and cycle.gradient_norm < self.gradient

    def is_far_exceeded_by(self, cycle):
        """Whether a closing check would tell nothing: the gradient is below a hundredth of its threshold."""
        return self.reached_by(cycle) and cycle.gradient_norm < 0.01 * self.gradient

    def confirmed_by(self, check):
        """Whether the closing check agrees within 10 times the energy and 3 times the gradient threshold.

        PySCF asks for one of the two; with a tiny gap that lets an energy pass that is wrong by nearly 10 thresholds.
        """
        return abs(check.energy_change) < 10 * self.energy and check.gradient_norm < 3 * self.gradient
