"""The SCF table, one line per cycle, the thresholds that end it, and the plans that `convergence=` of run_scf names."""

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
    orbital_gradient: another threshold of that norm [hartree], for what it enters to first order.
    """

    energy: float = 1e-9
    max_cycles: int = 50
    orbital_gradient: float | None = None

    def __post_init__(self):
        CONV_TOL.checked("conv_tol", self.energy)
        MAX_CYCLES.checked("max_cycles", self.max_cycles)

    @property
    def gradient(self):
        """Threshold of the orbital gradient norm [hartree]."""
        return float(np.sqrt(self.energy)) if self.orbital_gradient is None else self.orbital_gradient

    @property
    def far_gradient(self):
        """Orbital gradient norm [hartree] below which nothing is left to check: a thirtieth of the threshold.

        The energy is off by its square over a gap: 1e-6 hartree are 3e-11 at a gap of 0.03.
        """
        return self.gradient / 30

    def reached_by(self, cycle):
        """Whether a cycle meets both thresholds."""
        return abs(cycle.energy_change) < self.energy and cycle.gradient_norm < self.gradient

    def is_far_exceeded_by(self, cycle):
        """Whether a closing check would tell nothing: the gradient is below a thirtieth of its threshold."""
        return self.reached_by(cycle) and cycle.gradient_norm < self.far_gradient

    def confirmed_by(self, check):
        """Whether the closing check agrees within 10 times the energy and 3 times the gradient threshold.

        PySCF asks for one of the two; with a tiny gap that lets an energy pass that is wrong by nearly 10 thresholds.
        """
        return abs(check.energy_change) < 10 * self.energy and check.gradient_norm < 3 * self.gradient


LATEST = 50  # cycle after which DIIS is given up
START_CYCLES = 15  # of energy DIIS before a minimiser that takes over anyway


@dataclass(frozen=True)
class Strategy:
    """A plan for the SCF cycle.

    start: 'cdiis', or 'adiis' / 'ediis' as long as the gradient is large.
    level_shift [hartree]: added to empty orbitals.   damping: share of the previous Fock matrix, 0 to 1.
    minimiser: None, 'newton' or 'direct'; it takes over after LATEST cycles, or, with `always_minimises`, once the
        gradient is small or after START_CYCLES.
    follow: analyse the result's internal stability and go on downhill where it is a saddle point.
    looks: where several states may compete, choose among several starts and look at the end whether it goes downhill,
        both with a cheaper energy.
    """

    start: str = "cdiis"
    level_shift: float = 0.0
    damping: float = 0.0
    minimiser: str | None = None
    always_minimises: bool = False
    follow: bool = False
    looks: bool = False
    diis_space: int = 8

    def hands_over(self, history) -> bool:
        """Whether the table says that it is the minimiser's turn."""
        if self.minimiser is None:
            return False
        cycles = [cycle for cycle in history if cycle.number > 0 and not cycle.extra]
        if self.always_minimises:
            return cycles[-1].gradient_norm < 0.1 or cycles[-1].number >= START_CYCLES
        return cycles[-1].number >= LATEST


STRATEGIES = {
    "auto": Strategy(minimiser="newton", looks=True),
    "fast": Strategy(minimiser="newton"),
    "hard": Strategy(start="adiis", level_shift=0.2, minimiser="newton", always_minimises=True, follow=True),
    "diis": Strategy(),
    "adiis": Strategy(start="adiis"),
    "ediis": Strategy(start="ediis"),
    "second-order": Strategy(minimiser="newton", always_minimises=True),
    "direct": Strategy(minimiser="direct", always_minimises=True),
}
