r"""The Kohn-Sham energy of a density matrix, its Fock matrix F = dE/dP, and its components.

    E[P] = E_nn + tr(P H) + 1/2 tr(P J[P]) + E_x[P] + E_xc[rho, tau, ...] + E_disp

P has one matrix (total density) in a restricted run and two (alpha, beta) in an unrestricted one; both go through the
same lines. W. Kohn, L. J. Sham, Phys. Rev. 140, A1133 (1965). doi:10.1103/PhysRev.140.A1133
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

COMPONENTS = ("nuclear", "one_electron", "coulomb", "xc", "exact_exchange", "nonlocal", "dispersion")
"""Names of the energy's components, in the order in which they are reported."""


@dataclass(frozen=True, eq=False)
class FockEvaluation:
    """F (spin, ao, ao) = dE/dP [hartree], energy components [hartree], electrons by quadrature (spin,) or None."""

    F: np.ndarray
    energies: Mapping[str, float]
    n_electrons: np.ndarray | None


@dataclass(frozen=True, eq=False)
class KohnSham:
    """The terms of the energy for one molecule, basis and functional.

    nuclear_repulsion [hartree].   H_core: (ao, ao) kinetic energy, nuclear attraction and core potentials.
    coulomb_exchange: builder of J and K, dftfd.integrals.CoulombExchange.
    xc: object with `build(P, C_occ)`, or None where the functional has no semilocal part.
    exact_exchange: pairs (omega, fraction): fraction of exact exchange with the operator 1/r for omega = 0, else with
        its long-range part erf(omega r)/r [1/bohr].
    nonlocal_xc: like xc, for the terms that are double integrals, or None.
    dispersion [hartree]: a correction that does not depend on P.
    xc_response: () -> object with `at(P, C_occ)`, the derivative of xc's matrix; made when first needed.
    """

    nuclear_repulsion: float
    H_core: np.ndarray
    coulomb_exchange: object
    xc: object | None
    exact_exchange: tuple[tuple[float, float], ...] = ()
    nonlocal_xc: object | None = None
    xc_response: Callable[[], object] | None = None
    dispersion: float = 0.0

    def evaluate(self, P, C_occ=None) -> FockEvaluation:
        """Energy components and Fock matrix of P (spin, ao, ao); C_occ with P = C_occ C_occ^T saves work."""
        J, exchange_matrices = self._coulomb_and_exchange(P, C_occ)
        energies = dict.fromkeys(COMPONENTS, 0.0)
        energies["nuclear"] = float(self.nuclear_repulsion)
        energies["dispersion"] = self.dispersion
        energies["one_electron"] = float(np.sum(P * self.H_core))
        energies["coulomb"] = 0.5 * float(np.sum(P * J))
        F = np.repeat((self.H_core + J)[None], len(P), axis=0)
        n_electrons = None
        for component, builder in (("nonlocal", self.nonlocal_xc), ("xc", self.xc)):
            if builder is not None:
                contribution = builder.build(P, C_occ)
                energies[component] = contribution.energy
                F += contribution.matrix
                n_electrons = contribution.n_electrons
        # E_x = -1/2 sum_s tr(P_s K[P_s]) over spins s, dE_x/dP_s = -K[P_s]. A restricted run holds P = 2 P_alpha, whose
        # K[P] = 2 K[P_alpha]: half of both.
        share = 0.5 if len(P) == 1 else 1.0
        for (_, fraction), K in zip(self.exact_exchange, exchange_matrices, strict=True):
            energies["exact_exchange"] -= 0.5 * fraction * share * float(np.sum(P * K))
            F -= fraction * share * K
        return FockEvaluation(F, energies, n_electrons)

    def response(self, P, C_occ=None) -> Callable[[np.ndarray], np.ndarray]:
        """The linear map dP -> dF at P, both (spin, ao, ao), dP symmetric.

        Double integrals (VV10) are left out: methods that use it converge to the same solution a little slower.
        """
        xc_change = None if self.xc is None else self.xc_response().at(P, C_occ)

        def change(dP):
            J, exchange_matrices = self._coulomb_and_exchange(dP, None)
            dF = np.repeat(J[None], len(dP), axis=0)
            if xc_change is not None:
                dF += xc_change(dP)
            share = 0.5 if len(dP) == 1 else 1.0
            for (_, fraction), K in zip(self.exact_exchange, exchange_matrices, strict=True):
                dF -= fraction * share * K
            return dF

        return change

    def _coulomb_and_exchange(self, P, C_occ):
        """J (ao, ao), and K (spin, ao, ao) for each term of `exact_exchange`; the first comes with J, in one pass."""
        if not self.exact_exchange:
            return self.coulomb_exchange.coulomb(P), []
        (first, _), *others = self.exact_exchange
        J, K = self.coulomb_exchange.coulomb_and_exchange(P, C_occ, omega=first)
        return J, [K, *(self.coulomb_exchange.exchange(P, C_occ, omega=omega) for omega, _ in others)]
