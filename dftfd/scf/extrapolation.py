"""What the SCF cycle diagonalises next, from the Fock matrices so far."""

from dataclasses import replace
from typing import Any

import numpy as np

from dftfd.scf.diis import DIIS, EnergyDIIS, commutator

ENERGY_DIIS_ENDS = 0.1
"""Gradient norm [hartree] below which energy DIIS has done its work."""

_ENERGY_DIIS = ("energies", "densities", "focks")


class Extrapolation:
    """The Fock matrix of the next cycle: damping, energy DIIS far from the solution, commutator DIIS, level shift."""

    def __init__(self, problem, strategy):
        self._problem, self._strategy = problem, strategy
        self._diis = DIIS(strategy.diis_space)
        far = strategy.start in ("adiis", "ediis")
        self._energy_diis = EnergyDIIS(strategy.start, strategy.diis_space) if far else None
        self._previous = None

    def arrays(self) -> dict[str, np.ndarray]:
        """The memory as arrays by name, the oldest entries first."""
        named = {"focks": self._diis.focks, "errors": self._diis.errors}
        if self._energy_diis is not None:
            named |= {f"energy_diis_{name}": getattr(self._energy_diis, name) for name in _ENERGY_DIIS}
        if self._previous is not None:
            named["previous"] = (self._previous,)
        return {name: np.stack(entries) for name, entries in named.items() if entries}

    def restore(self, arrays) -> None:
        """Take over the memory of `arrays()`; what is missing is learned anew."""
        entries = {name: tuple(array) for name, array in arrays.items()}
        self._diis = DIIS.of(self._diis.space, entries.get("focks", ()), entries.get("errors", ()))
        self._previous = entries.get("previous", (None,))[0]
        if self._energy_diis is not None:
            found: dict[str, Any] = {name: entries.get(f"energy_diis_{name}", ()) for name in _ENERGY_DIIS}
            self._energy_diis = replace(self._energy_diis, **found)

    def push(self, state):
        """Adds a state to the history; returns its Fock matrix for orbitals."""
        S, X = self._problem.S, self._problem.X
        F = self._problem.fock_of_orbitals(state)
        if len(F) == len(state.P):
            error = commutator(F, state.P, S, X, state.C_occ)
        else:
            error = commutator(F, state.P.sum(axis=0, keepdims=True), S, X)
        self._diis = self._diis.push(F, error)
        if self._energy_diis is not None:
            self._energy_diis = self._energy_diis.push(state.free_energy, state.P, state.F)
        return F

    def next(self, state, gradient_norm):
        """What to diagonalise after `state`, whose gradient norm [hartree] is given (NaN for the first)."""
        F = self.push(state)
        near = gradient_norm < ENERGY_DIIS_ENDS
        if self._energy_diis is not None and not near:
            F = self._energy_diis.extrapolate(self._diis.focks)
        else:
            F = self._diis.extrapolate()
        if self._strategy.damping and self._previous is not None and not near:
            F = (1.0 - self._strategy.damping) * F + self._strategy.damping * self._previous
        self._previous = F
        return F + self._level_shift(state, len(F)) if self._strategy.level_shift else F

    def _level_shift(self, state, n_matrices):
        """Raises the orbitals that are empty in `state`: shift (S - S P S / capacity).

        V. R. Saunders, I. H. Hillier, Int. J. Quantum Chem. 7, 699 (1973). doi:10.1002/qua.560070407
        """
        S = self._problem.S
        P = state.P if n_matrices == len(state.P) else state.P.sum(axis=0, keepdims=True)
        capacity = 2.0 if n_matrices == 1 else 1.0
        return self._strategy.level_shift * (S - S @ P @ S / capacity)
