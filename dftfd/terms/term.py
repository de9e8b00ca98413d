"""What a term of the energy is. The energy of a molecule is a list of them; everything else is a sum over the list."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.runtime.array_types import (
    ChangeOfOrbitals,
    DensityMatrix,
    MatrixJet,
    NuclearGradient,
    NuclearHessian,
    NumberOfElectrons,
    OccupiedOrbitals,
    OrbitalChanges,
    OrbitalRows,
    PartOfFock,
)
from dftfd.runtime.memory import Need
from dftfd.runtime.progress import Progress
from dftfd.system.molecule import Molecule
from dftfd.terms.traced import TracedEnergy, linear_energy


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a term adds at a density matrix P.

    energies: by the names of the term's components [hartree].   matrices: their derivatives by P [hartree]; of a
    component that does not depend on P there is none.   n_electrons: by quadrature, None without one.
    """

    energies: Mapping[str, float]
    matrices: Mapping[str, PartOfFock] = field(default_factory=dict)
    n_electrons: NumberOfElectrons | None = None


@dataclass(frozen=True, eq=False)
class PySCFPart:
    """What a term is in a PySCF mean field.

    functional: the part of the functional that is the term's, for PySCF's numerical integration and its exchange.
    attributes: of the mean field, 'disp' or, of an object in it, 'grids.level'.   auxiliary_basis: fitting functions of
    Coulomb and exchange energy, None for exact integrals.
    """

    functional: Functional | None = None
    attributes: Mapping[str, object] = field(default_factory=dict)
    auxiliary_basis: Mapping | None = None


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives of a term by the nuclei at a fixed density matrix P.

    hessian: d2E/dRdR [hartree/bohr^2].   on_orbitals: per spin dF/dR C of the orbitals C that were given.
    """

    hessian: NuclearHessian
    on_orbitals: Sequence[Annotated[np.ndarray, "atom 3 orbital ao"]]

    def __add__(self, other: "Curvature") -> "Curvature":
        on_orbitals = [a + b for a, b in zip(self.on_orbitals, other.on_orbitals, strict=True)]
        return Curvature(self.hessian + other.hessian, on_orbitals)


class Term(ABC):
    """One piece of the energy as a functional of the density matrix P; one spin is the total density.

    Making a term is cheap; what it computes once, `prepare` does, or its first use.
    """

    components: ClassVar[Mapping[str, str]]
    """Names of its energies in results, and the words for them in tables."""

    stage: ClassVar[str]
    """The stage of `gradient` in progress reports: 'semilocal derivatives'."""

    is_linear: ClassVar[bool] = False
    """Whether the energy is a constant and tr(P M) with a matrix M that does not depend on P.

    A linear term says so and is complete; others write `response` and `traced`, or refuse.
    """

    @abstractmethod
    def evaluate(self, P: DensityMatrix, C_occ: OccupiedOrbitals | None = None) -> Contribution:
        """Energies and matrix at P."""

    def incremental_build(
        self, P: DensityMatrix, C_occ: OccupiedOrbitals | None = None
    ) -> Callable[..., Mapping[str, PartOfFock]]:
        """Incremental Fock build: (P', C_occ') -> matrices at P' minus those at P, less exact than by `evaluate`.

        Their error is a small part of the difference itself, so it vanishes where P' comes close to P.
        """
        before = self.evaluate(P, C_occ).matrices

        def changes(P, C_occ=None):
            return {name: V - before[name] for name, V in self.evaluate(P, C_occ).matrices.items()} if before else {}

        return changes

    def response(self, P: DensityMatrix, C: OrbitalRows, triplet: bool = False) -> ChangeOfOrbitals:
        """How the Fock matrix at P changes with orbitals, in its action on them: for a linear term not at all.

        C: the orbitals that change, all that have electrons among them.   triplet: P is a
        closed shell's, and beta orbitals change opposite to the alpha ones; then F is alpha's.
        Not asked for where `lacks_response` is not empty.
        """
        if not self.is_linear:
            raise UnsupportedError(
                f"the energy term {type(self).__name__} has no response: write the method, or is_linear = True if its "
                "energy is linear in the density matrix."
            )
        return no_change

    def without_slow_response(self) -> "Term":
        """The same with the response to changes that are too fast for nuclei, those of a solvent, to follow."""
        return self

    @property
    def lacks_response(self) -> str:
        """Why the term has no second derivative, in a sentence; empty where it has one.

        Such a term is never left out of a Hessian: what needs the Hessian refuses with this sentence.
        """
        return ""

    @abstractmethod
    def gradient(
        self, P: DensityMatrix, C_occ: OccupiedOrbitals | None, grid_response: bool, progress: Progress
    ) -> NuclearGradient:
        """dE/dR [hartree/bohr] at fixed P.

        grid_response: the quadrature grid moves with the nuclei.   progress: as in run_scf, told of parts done.
        """

    def curvature(
        self, P: DensityMatrix, C_occ: OccupiedOrbitals | None, C: OrbitalRows, progress: Progress
    ) -> Curvature | None:
        """Second derivatives by the nuclei, with the grid's motion; None where differences of first ones are as good.

        C: the orbitals that derivatives of the Fock matrix are wanted on.
        """
        return None

    @property
    def bends(self) -> bool:
        """Whether second derivatives along a change of the density are there: `bent_matrices`, `bent_gradient`.

        Else the term is a polynomial of second degree in P, of which a few points give them.
        """
        return False

    def bent_matrices(self, P: MatrixJet) -> MatrixJet:
        """The matrix at P_0 + e P_1 + e^2/2 P_2 and its first two derivatives by e."""
        raise NotImplementedError

    def bent_gradient(self, P: MatrixJet, grid_response: bool, progress: Progress) -> NuclearGradient:
        """The second derivative of `gradient` by e at the same P."""
        raise NotImplementedError

    def traced(self, molecule: Molecule, in_memory: bool) -> TracedEnergy:
        """The same energy in code that JAX transforms; UnsupportedError where there is none.

        in_memory: of arrays, which compiled programs take, else by operations of the host, evaluated at once.
        """
        if not self.is_linear:
            raise UnsupportedError(
                f"the energy term {type(self).__name__} is not linear in the density matrix and has no JAX code; "
                "leave it out, use run_scf, or write its traced()."
            )
        return linear_energy(self, molecule.n_ao)

    def need_in_memory(self, molecule: Molecule) -> Need:
        """Bytes of the arrays of `traced` in memory, and of a gradient that works on them."""
        return Need()

    def with_numbers(self, functional: Functional, surroundings) -> "Term":
        """The same for a functional of the same structure, with other numbers, and for other surroundings."""
        return self

    def parameter_gradient(self, P: DensityMatrix, functional: Functional) -> Mapping[str, Mapping[str, Any]]:
        """{name of a term of the functional: {parameter: dE/dp [hartree per unit of p]}} at fixed P."""
        return {}

    def in_pyscf(self) -> PySCFPart:
        """What the term is in a PySCF mean field; UnsupportedError where PySCF has no place for it."""
        words = " and ".join(self.components.values())
        raise UnsupportedError(
            f"to_pyscf() cannot hand over the energy of '{words}', which a PySCF mean field cannot hold; run the "
            "calculation without it."
        )

    def memory(self) -> Need:
        """Bytes that the term takes; grids and the orbitals on them are `GridOrbitals`' to tell."""
        return Need()

    def keep_within(self, room: float) -> float:
        """Decides what is kept within `room` bytes and what is computed anew; returns the bytes that are taken."""
        return 0.0

    def prepare(self, progress: Progress) -> None:  # noqa: B027 -- most terms have nothing to do
        """Computes now what `evaluate` needs at every density."""


def no_change(dC: OrbitalChanges, imaginary: float = 0.0) -> list[float]:
    """The response of a term that is linear in P."""
    return [0.0] * len(dC)
