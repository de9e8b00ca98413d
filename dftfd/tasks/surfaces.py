"""Energies to go downhill on: that of the ground state, or of an excited state that is followed."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from dftfd.errors import InputError
from dftfd.libcint.mole import overlap_integrals
from dftfd.model.forces import nuclear_forces
from dftfd.response.excitations import Excitations
from dftfd.results.result import SCFResult
from dftfd.runtime.progress import Progress

MORE = 2
"""Roots above the one that is followed, among which it may be at the next geometry."""


@dataclass
class GroundState:
    """That of the ground state, of the free energy with smeared occupations."""

    grid_response: bool

    def at(self, result: SCFResult, progress: Progress) -> tuple[float, np.ndarray]:
        """Energy [hartree] and forces (atom, 3) [hartree/bohr] of a result."""
        return result.free_energy, nuclear_forces(result, self.grid_response, Progress()).values

    def resume(self, result: SCFResult, energy: float) -> float:
        """The energy [hartree] at a result's geometry, where an earlier run found `energy`."""
        return result.free_energy


@dataclass
class FollowedState:
    """That of an excited state, which is followed by how its transition density overlaps with the last one's.

    state: its number at the first geometry, from 1.   tda, spin: as of SCFResult.excitations.
    """

    grid_response: bool
    state: int
    tda: bool
    spin: str | None
    excitations: Excitations | None = None
    root: int = -1
    _last: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        if self.spin == "flip":
            raise InputError("states of flipped spins have no forces here; take spin='triplet', or UKS without spin=.")
        self.root = self.state - 1

    def __str__(self):
        tda = " TDA" if self.tda else ""
        return f"excited state {self.state}{f' {self.spin}' if self.spin else ''}{tda}"

    def at(self, result: SCFResult, progress: Progress) -> tuple[float, np.ndarray]:
        """Energy [hartree] and forces (atom, 3) [hartree/bohr] of the state at a result's geometry."""
        found = self._roots(result)
        shapes = transition_densities(found)
        if self._last is not None:
            overlaps = np.abs(np.einsum("sab,nsab->n", self._last, shapes))
            root = int(np.argmax(overlaps))
            if root != self.root:
                progress.note(f"the state is now number {root + 1} (overlap {overlaps[root]:.2f})")
            self.root = root
        self.excitations, self._last = found, shapes[self.root]
        state = found.state(self.root, self.grid_response, Progress())
        return state.energy, state.forces

    def resume(self, result: SCFResult, energy: float) -> float:
        """Take up the state of this energy [hartree] at a result's geometry, where an earlier run followed it.

        Returns its energy now.
        """
        found = self._roots(result)
        self.root = int(np.argmin(np.abs(result.energy + found.energies - energy)))
        self.excitations, self._last = found, transition_densities(found)[self.root]
        return float(result.energy + found.energies[self.root])

    def _roots(self, result):
        return roots_with_forces(result, max(self.root + 1, self.state) + MORE, self.tda, self.spin)


def roots_with_forces(result: SCFResult, n: int, tda: bool, spin: str | None, progress: Any = None) -> Excitations:
    """The n lowest excitations, in equilibrium with a solvent where there is one; fewer where there are not as many."""
    pairs = sum(int((n_s > 0).sum() * (n_s == 0).sum()) for n_s in result.mo_occ)
    in_solvent = result.calculation.surroundings.solvent is not None
    return result.excitations(min(n, pairs), tda, spin, progress, equilibrium_solvation=in_solvent)


def transition_densities(found: Excitations) -> np.ndarray:
    """X + Y (root, spin, ao, ao) between orthonormalised basis functions (Loewdin's), each of length one.

    Those move with their atoms, so that densities at different geometries can be compared.
    """
    s, U = scipy.linalg.eigh(overlap_integrals(found.ground_state.molecule))
    root = U * np.sqrt(np.maximum(s, 0.0)) @ U.T
    orbitals = zip(found.X, found.Y, found.occupied, found.virtual, strict=True)
    parts = [np.einsum("aq,nqp,bp->nab", root @ C_o, X + Y, root @ C_v, optimize=True) for X, Y, C_o, C_v in orbitals]
    T = np.stack(parts, axis=1)
    return T / np.linalg.norm(T.reshape(len(T), -1), axis=1)[:, None, None, None]
