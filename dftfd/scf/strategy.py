"""How to reach convergence: the plans behind `convergence="auto"`, "hard", ... of run_scf."""

from dataclasses import dataclass

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
