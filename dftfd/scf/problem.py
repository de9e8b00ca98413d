"""What an SCF solves, the Fock callback, the space of orbitals and the rule that fills them; and where it stands.

Every algorithm (DIIS, second order, direct minimisation, stability) works on a `Problem` and on `State`s of it. The
number of spins is that of the density matrices: 1 for a restricted run, 2 for an unrestricted one. A restricted
open-shell run has two spins that share their orbitals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dftfd.errors import NumericalError, UnsupportedError
from dftfd.runtime.array_types import (
    ChangeOfOrbitals,
    DensityMatrix,
    FockMatrix,
    Occupations,
    OccupiedOrbitals,
    OrbitalEnergies,
    OrbitalRows,
    Orbitals,
    Orthonormaliser,
    Overlap,
    PartOfFock,
)
from dftfd.runtime.threads import threads_for_matrices
from dftfd.scf.convergence import Cycle
from dftfd.scf.orbitals import Occupier, density_matrix, diagonalise, occupied_orbitals, orbital_gradient_norm


class Evaluation(Protocol):
    """What the Fock callback returns: F and the energy's components, all in hartree."""

    @property
    def F(self) -> FockMatrix: ...

    @property
    def energies(self) -> Mapping[str, float]: ...

    @property
    def matrices(self) -> Mapping[str, PartOfFock]:
        """The parts of F that belong to components of the energy."""
        ...


# fock(P, C_occ): C_occ is None for the starting density, which has no orbitals.
FockBuilder = Callable[[DensityMatrix, OccupiedOrbitals | None], Evaluation]

# incremental_build(P, C_occ): a callback with the arguments of `fock`. It returns V(P') - V(P) for each V of the
# evaluation's `matrices` that changes, with an error that is a small part of that difference.
Changes = Callable[[DensityMatrix, OccupiedOrbitals | None], Mapping[str, PartOfFock]]
ChangeBuilder = Callable[[DensityMatrix, OccupiedOrbitals | None], Changes]

# response(P, C): how the Fock matrix at P changes with the orbitals C.
ResponseBuilder = Callable[[DensityMatrix, OrbitalRows], ChangeOfOrbitals]


@dataclass(frozen=True)
class EvaluatedDensity:
    """A density and what the Fock callback said of it. A starting density is no more; others are `State`s."""

    P: DensityMatrix
    evaluation: Evaluation

    @property
    def F(self) -> FockMatrix:
        """Fock matrices [hartree] of the density P."""
        return self.evaluation.F

    @property
    def energy(self) -> float:
        """Total energy [hartree]: the sum of the components."""
        return float(sum(self.evaluation.energies.values()))

    @property
    def free_energy(self) -> float:
        """E - T S [hartree]."""
        return self.energy

    @property
    def C_occ(self) -> OccupiedOrbitals | None:
        """The occupied orbitals; a starting density has none."""
        return None


@dataclass(frozen=True)
class State(EvaluatedDensity):
    """Orbitals, the density they make, and what the Fock callback said of that density.

    entropy_term: -T S [hartree] of smeared occupations, else 0.
    """

    mo_energy: OrbitalEnergies
    mo_occ: Occupations
    mo_coeff: Orbitals
    entropy_term: float = 0.0

    @property
    def free_energy(self) -> float:
        """E - T S [hartree]."""
        return self.energy + self.entropy_term

    @property
    def C_occ(self) -> OccupiedOrbitals:
        """The occupied orbitals scaled by sqrt(n)."""
        return occupied_orbitals(self.mo_coeff, self.mo_occ)


@dataclass(frozen=True, eq=False)
class Problem:
    """An SCF problem. S: overlap.   X: orthonormaliser.   occupy: see dftfd.scf.orbitals.

    shared_orbitals: True for a restricted open shell, whose two spins have the same orbitals.
    response: the derivative of the Fock matrix, for second-order methods; None where there is none.
    incremental_build: differences of Fock matrices at less cost; if None, `fock` is called for both densities.
    """

    fock: FockBuilder
    S: Overlap
    X: Orthonormaliser
    occupy: Occupier
    shared_orbitals: bool = False
    response: ResponseBuilder | None = None
    incremental_build: ChangeBuilder | None = None

    def start(self, P: DensityMatrix) -> EvaluatedDensity:
        """A starting density, which has no orbitals."""
        return EvaluatedDensity(P, self._checked(P, None, 0))

    def required_response(self) -> ResponseBuilder:
        """The response; UnsupportedError where there is none."""
        if self.response is None:
            raise UnsupportedError(
                "the second derivative of the energy is not available; use convergence='auto' or 'diis'."
            )
        return self.response

    def fock_of_orbitals(self, state: EvaluatedDensity) -> np.ndarray:
        """The matrices whose eigenvectors are the orbitals, (1 or 2, ao, ao): F, or Roothaan's one for shared ones."""
        return roothaan_fock(state.F, state.P, self.S) if self.shared_orbitals else state.F

    def fill(self, F, number: int) -> State:
        """The state made of the eigenvectors of F (as from `fock_of_orbitals`); `number` names the cycle in errors."""
        with threads_for_matrices(len(self.S)):
            mo_energy, mo_coeff = diagonalise(F, self.X)
        if self.shared_orbitals:
            mo_energy, mo_coeff = (np.repeat(a, 2, axis=0) for a in (mo_energy, mo_coeff))
        mo_occ, entropy_term = self.occupy(mo_energy, mo_coeff)
        return self.state_of(mo_energy, mo_occ, mo_coeff, number, entropy_term)

    def state_of(self, mo_energy, mo_occ, mo_coeff, number: int, entropy_term: float = 0.0) -> State:
        """The state with these orbitals and occupations."""
        with threads_for_matrices(len(self.S)):
            P = density_matrix(mo_coeff, mo_occ)
        C_occ = occupied_orbitals(mo_coeff, mo_occ)
        return State(P, self._checked(P, C_occ, number), mo_energy, mo_occ, mo_coeff, entropy_term)

    def gradient_norm(self, state: State) -> float:
        """Norm of the orbital gradient [hartree], in PySCF's convention."""
        with threads_for_matrices(len(self.S)):
            return orbital_gradient_norm(state.mo_coeff, state.mo_occ, state.F, self.shared_orbitals)

    def _checked(self, P, C_occ, number) -> Evaluation:
        """What the callback says of P; NaN and Inf stop the run here, where their origin still has a name."""
        evaluation = self.fock(P, C_occ)
        for name, value in evaluation.energies.items():
            if not np.isfinite(value):
                raise NumericalError(f"SCF cycle {number}: the energy component {name!r} is {value}.")
        wrong = np.sum(~np.isfinite(evaluation.F))
        if wrong:
            raise NumericalError(f"SCF cycle {number}: the Fock matrix has {wrong} entries NaN or Inf.")
        return evaluation


@dataclass(frozen=True)
class Solution:
    """Where the cycle ended. `cycles` does not count closing checks.   steps: what was resorted to, in words.

    preliminary: the table of cycles of a cheaper energy that went before.
    """

    state: State
    converged: bool
    cycles: int
    history: tuple[Cycle, ...]
    steps: tuple[str, ...] = ()
    preliminary: tuple[Cycle, ...] = ()

    @property
    def told(self) -> dict[str, Any]:
        """What a result tells of it, by the names that it has there."""
        state = self.state
        return {
            "energy": state.energy,
            "energies": dict(state.evaluation.energies),
            "converged": self.converged,
            "cycles": self.cycles,
            "mo_energy": state.mo_energy,
            "mo_occ": state.mo_occ,
            "mo_coeff": state.mo_coeff,
            "density_matrix": state.P,
            "history": self.history,
            "entropy_term": state.entropy_term,
            "steps": self.steps,
            "preliminary": self.preliminary,
            "fock": state.F,
        }


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run after the last cycle of `solution.history`.

    A run that goes on from a snapshot of its DIIS cycles takes the very steps that it would have taken. One that was
    minimising starts its minimiser anew from the orbitals.

    solution: what would be the outcome if the run ended here.   lowest: the state of the lowest energy so far.
    memory: what the extrapolation remembers, by name, the oldest entries first; empty where a minimiser is at work.
    minimising: whether a minimiser has taken over.
    """

    solution: Solution
    lowest: State
    memory: Mapping[str, Sequence] = field(default_factory=dict)
    minimising: bool = False


def roothaan_fock(F, P, S) -> np.ndarray:
    """Effective Fock matrix (1, ao, ao) of a restricted open shell, whose eigenvectors make the energy stationary.

    With projectors on closed (c), open (o) and virtual (v) orbitals, its blocks are F_c = (F_alpha + F_beta)/2 except
    for co: F_beta and ov: F_alpha. The diagonal blocks are a convention, here that of PySCF (Roothaan's). Without beta
    electrons the matrix is F_alpha, since the potential of an empty spin acts on nothing and may have no limit there.
    C. C. J. Roothaan, Rev. Mod. Phys. 32, 179 (1960). doi:10.1103/RevModPhys.32.179
    """
    F_alpha, F_beta = F
    if not P[1].any():
        return F_alpha[None]
    F_c = (F_alpha + F_beta) / 2
    closed, open_ = P[1] @ S, (P[0] - P[1]) @ S
    virtual = np.eye(len(S)) - P[0] @ S
    half = closed.T @ F_c @ closed + open_.T @ F_c @ open_ + virtual.T @ F_c @ virtual
    half = half / 2 + open_.T @ F_beta @ closed + open_.T @ F_alpha @ virtual + virtual.T @ F_c @ closed
    return (half + half.T)[None]
