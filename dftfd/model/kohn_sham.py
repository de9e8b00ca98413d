r"""The Kohn-Sham energy of a density matrix as a sum of terms, and its Fock matrix F = dE/dP.

    E[P] = sum of terms (dftfd.terms): nuclei, tr(P H), Coulomb and exact exchange, E_xc[rho, tau, ...], dispersion, ...

P has one matrix (total density) in a restricted run and two (alpha, beta) in an unrestricted one; both go through the
same lines. W. Kohn, L. J. Sham, Phys. Rev. 140, A1133 (1965). doi:10.1103/PhysRev.140.A1133
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.runtime.array_types import (
    ChangeOfOrbitals,
    DensityMatrix,
    FockMatrix,
    NuclearGradient,
    NumberOfElectrons,
    OccupiedOrbitals,
    OrbitalRows,
    PartOfFock,
)
from dftfd.runtime.progress import Progress
from dftfd.terms import COMPONENTS, Term

T = TypeVar("T", bound=Term)
V = TypeVar("V", float, np.ndarray)


@dataclass(frozen=True, eq=False)
class FockEvaluation:
    """F = dE/dP [hartree], energy components [hartree], electrons by quadrature or None.

    matrices: the parts of F that belong to components.
    """

    F: FockMatrix
    energies: Mapping[str, float]
    n_electrons: NumberOfElectrons | None
    matrices: Mapping[str, PartOfFock] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class KohnSham:
    """The energy of one molecule: the sum of its terms. Electrons are counted on the grid of the first that has one."""

    terms: tuple[Term, ...]

    def evaluate(self, P: DensityMatrix, C_occ: OccupiedOrbitals | None = None) -> FockEvaluation:
        """Energy components and Fock matrix of P; C_occ with P = C_occ C_occ^T saves work.

        Components that no term has are zero.
        """
        parts = [term.evaluate(P, C_occ) for term in self.terms]
        energies, matrices = _added(part.energies for part in parts), _added(part.matrices for part in parts)
        n_electrons = next((part.n_electrons for part in parts if part.n_electrons is not None), None)
        F = sum(matrices.values(), start=np.zeros(np.shape(P)))
        return FockEvaluation(F, dict.fromkeys(COMPONENTS, 0.0) | energies, n_electrons, matrices)

    def incremental_build(
        self, P: DensityMatrix, C_occ: OccupiedOrbitals | None = None
    ) -> Callable[..., Mapping[str, PartOfFock]]:
        """(P', C_occ') -> what P' changes of `FockEvaluation.matrices`, by `Term.incremental_build`."""
        changes = [term.incremental_build(P, C_occ) for term in self.terms]
        return lambda P, C_occ=None: _added(change(P, C_occ) for change in changes)

    def orbital_response(self, P: DensityMatrix, C: OrbitalRows, triplet: bool = False) -> ChangeOfOrbitals:
        """The sum of the terms' responses: the exact derivative of `evaluate`'s F; see `Term.response`.

        Raises UnsupportedError where a term has none; nothing is left out.
        """
        self.require_response()
        changes = [term.response(P, C, triplet) for term in self.terms]

        def change(dC, imaginary=0.0):
            found = (term_change(dC, imaginary) for term_change in changes)
            return [sum(parts, start=np.zeros(dC_s.shape)) for dC_s, *parts in zip(dC, *found, strict=True)]

        return change

    def response(self, P: DensityMatrix) -> Callable[[DensityMatrix], FockMatrix]:
        """The linear map dP -> dF at P, dP symmetric; the orbitals are all basis functions."""
        change = self.orbital_response(P, [np.eye(P.shape[1])] * len(P))
        return lambda dP: np.concatenate(change([dP_s[None] / 2 for dP_s in dP]))

    def without_slow_response(self) -> "KohnSham":
        """The same with the response to fast changes; see `Term.without_slow_response`."""
        return KohnSham(tuple(term.without_slow_response() for term in self.terms))

    @property
    def lacks_response(self) -> str:
        """Why there is no response, in a sentence; empty where every term has one."""
        return next((term.lacks_response for term in self.terms if term.lacks_response), "")

    def require_response(self) -> None:
        """Raise UnsupportedError where a term has no response: stability and minimisers would leave it out."""
        if self.lacks_response:
            raise UnsupportedError(self.lacks_response)

    def gradient(
        self, P: DensityMatrix, C_occ: OccupiedOrbitals | None, grid_response: bool, progress: Progress
    ) -> NuclearGradient:
        """dE/dR [hartree/bohr] at fixed P."""
        parts = []
        for term in self.terms:
            with progress.stage(term.stage):
                parts.append(term.gradient(P, C_occ, grid_response, progress))
        return np.sum(parts, axis=0)

    def find(self, kind: type[T]) -> T | None:
        """The term of a class, None without."""
        return next((term for term in self.terms if isinstance(term, kind)), None)

    def of_kind(self, kind: type[T]) -> T:
        """The term of a class that the energy has."""
        found = self.find(kind)
        if found is None:
            raise LookupError(f"the energy has no term of the class {kind.__name__}.")
        return found


def _added(parts: Iterable[Mapping[str, V]]) -> dict[str, V]:
    """What several mappings have under the same name, added up."""
    whole: dict[str, V] = {}
    for part in parts:
        for name, value in part.items():
            whole[name] = whole[name] + value if name in whole else value
    return whole
