r"""The Kohn-Sham energy of a density matrix as a sum of terms, and its Fock matrix F = dE/dP.

    E[P] = sum of terms (dftfd.terms): nuclei, tr(P H), Coulomb and exact exchange, E_xc[rho, tau, ...], dispersion, ...

P has one matrix (total density) in a restricted run and two (alpha, beta) in an unrestricted one; both go through the
same lines. W. Kohn, L. J. Sham, Phys. Rev. 140, A1133 (1965). doi:10.1103/PhysRev.140.A1133
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.terms import COMPONENTS, Term
from dftfd.terms.term import ChangeOfOrbitals


@dataclass(frozen=True, eq=False)
class FockEvaluation:
    """F (spin, ao, ao) = dE/dP [hartree], energy components [hartree], electrons by quadrature (spin,) or None.

    matrices: the parts of F that belong to components, (spin, ao, ao) or (1, ao, ao).
    """

    F: np.ndarray
    energies: Mapping[str, float]
    n_electrons: np.ndarray | None
    matrices: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class KohnSham:
    """The energy of one molecule: the sum of its terms. Electrons are counted on the grid of the first that has one."""

    terms: tuple[Term, ...]

    def evaluate(self, P, C_occ=None) -> FockEvaluation:
        """Energy components and Fock matrix of P (spin, ao, ao); C_occ with P = C_occ C_occ^T saves work.

        Components that no term has are zero.
        """
        parts = [term.evaluate(P, C_occ) for term in self.terms]
        energies, matrices = _added(part.energies for part in parts), _added(part.matrices for part in parts)
        n_electrons = next((part.n_electrons for part in parts if part.n_electrons is not None), None)
        F = sum(matrices.values(), start=np.zeros(np.shape(P)))
        return FockEvaluation(F, dict.fromkeys(COMPONENTS, 0.0) | energies, n_electrons, matrices)

    def changes_from(self, P, C_occ=None) -> Callable[..., Mapping[str, np.ndarray]]:
        """(P', C_occ') -> what P' changes of `FockEvaluation.matrices`, by `Term.changes_from`."""
        changes = [term.changes_from(P, C_occ) for term in self.terms]
        return lambda P, C_occ=None: _added(change(P, C_occ) for change in changes)

    def orbital_response(self, P, C, triplet: bool = False) -> ChangeOfOrbitals:
        """The sum of the terms' responses: the exact derivative of `evaluate`'s F; see `Term.response`.

        Raises UnsupportedError where a term has none; nothing is left out.
        """
        self.require_response()
        changes = [term.response(P, C, triplet) for term in self.terms]

        def change(dC, imaginary=0.0):
            found = (term_change(dC, imaginary) for term_change in changes)
            return [sum(parts, start=np.zeros(dC_s.shape)) for dC_s, *parts in zip(dC, *found, strict=True)]

        return change

    def response(self, P) -> Callable[[np.ndarray], np.ndarray]:
        """The linear map dP -> dF at P, both (spin, ao, ao), dP symmetric; the orbitals are all basis functions."""
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

    def gradient(self, P, C_occ, grid_response: bool, progress) -> np.ndarray:
        """dE/dR (atom, 3) [hartree/bohr] at fixed P."""
        parts = []
        for term in self.terms:
            with progress.stage(term.stage):
                parts.append(term.gradient(P, C_occ, grid_response, progress))
        return np.sum(parts, axis=0)

    def of_kind(self, kind: type) -> Any:
        """The term of a class, None without."""
        return next((term for term in self.terms if isinstance(term, kind)), None)


def _added(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What several mappings have under the same name, added up."""
    whole: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            whole[name] = whole[name] + value if name in whole else value
    return whole
