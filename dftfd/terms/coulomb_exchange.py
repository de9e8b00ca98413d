r"""Coulomb and exact exchange energy: one term, since they share the two-electron integrals, exact or fitted.

    E_J = 1/2 tr(P J[P]),   E_x = -1/2 sum_omega f_omega sum_s tr(P_s K_omega[P_s])

The sum is over the spins of an unrestricted density. A restricted one holds P = 2 P_alpha, whose K[P] = 2 K[P_alpha]:
half of it is the energy of both spins, and half of K the potential of each.
"""

import numpy as np

from dftfd.functionals.base import Functional
from dftfd.terms.integrals import CoulombExchange, share
from dftfd.terms.term import Contribution, PySCFPart, Term


class CoulombExchangeEnergy(Term):
    """E_J and E_x from a builder of J and K.

    exact_exchange: pairs (omega, fraction): fraction of exact exchange with the operator 1/r for omega = 0, else with
        its long-range part erf(omega r)/r [1/bohr].
    """

    components = {"coulomb": "Coulomb", "exact_exchange": "exact exchange"}
    stage = "two-electron derivatives"

    def __init__(self, builder: CoulombExchange, exact_exchange=()):
        self.builder, self.exact_exchange = builder, tuple(exact_exchange)

    def with_few_for_exchange(self) -> "CoulombExchangeEnergy":
        """The same with a response of exchange from a few fitting functions, which others correct."""
        return CoulombExchangeEnergy(self.builder.with_few_for_exchange(), self.exact_exchange)

    def evaluate(self, P, C_occ=None):
        J, scaled = self._coulomb_and_exchange(P, C_occ)
        energies = {"coulomb": 0.5 * float(np.sum(P * J))}
        if not scaled:
            return Contribution(energies, {"coulomb": J[None]})
        energies["exact_exchange"] = -0.5 * sum(float(np.sum(P * K)) for K in scaled)
        return Contribution(energies, {"coulomb": J[None], "exact_exchange": -sum(scaled)})

    def changes_from(self, P, C_occ=None):
        change = self.builder.changes_from(P, C_occ, [omega for omega, _ in self.exact_exchange])

        def changes(P, C_occ=None):
            J, K = change(P, C_occ)
            if not K:
                return {"coulomb": J[None]}
            scaled = (share(P) * f * K_f for (_, f), K_f in zip(self.exact_exchange, K, strict=True))
            return {"coulomb": J[None], "exact_exchange": -sum(scaled)}

        return changes

    def response(self, P, C, triplet=False):
        def change(dC, imaginary=0.0):
            real = 1.0 - imaginary
            found: list = [0.0] * len(C) if triplet or not real else self._coulomb_on_orbitals(C, dC, real)
            for omega, fraction in self.exact_exchange:
                for s, pair in enumerate(zip(C, dC, strict=True)):
                    K = self.builder.exchange_on_orbitals(*pair, omega, real - imaginary)
                    found[s] = found[s] - share(P) * fraction * K
            return found

        return change

    def _coulomb_on_orbitals(self, C, dC, factor):
        """Per spin (trial, orbital, ao): J of the change of the whole density, on the orbitals, times a factor."""
        half = factor * sum(np.matmul(dC_s.transpose(0, 2, 1), C_s) for C_s, dC_s in zip(C, dC, strict=True))
        J = self.builder.coulomb_of_each(half + half.transpose(0, 2, 1))
        return [C_s @ J for C_s in C]

    def gradient(self, P, C_occ, grid_response, progress):
        return self.builder.gradient(P, C_occ, self.exact_exchange)

    def gradient_by_ranges(self, P) -> dict[float, float]:
        """dE/domega [hartree bohr] at fixed P by each omega > 0 of `exact_exchange`."""
        K = {omega: self.builder.exchange_by_range(P, omega) for omega, _ in self.exact_exchange if omega}
        return {w: -0.5 * share(P) * f * float(np.sum(P * K[w])) for w, f in self.exact_exchange if w}

    def curvature(self, P, C_occ, C, progress):
        return self.builder.curvature(P, C_occ, C, self.exact_exchange)

    def in_pyscf(self):
        exact_exchange = Functional("exact exchange", exact_exchange=self.exact_exchange)
        return PySCFPart(exact_exchange, auxiliary_basis=self.builder.fitting_functions)

    def memory(self):
        return self.builder.memory([omega for omega, _ in self.exact_exchange])

    def keep_within(self, room):
        self.builder = self.builder.within(room, [omega for omega, _ in self.exact_exchange])
        return sum(self.memory().flexible.values())

    def prepare(self, progress):
        progress.fact(self.builder.describe())

    def _coulomb_and_exchange(self, P, C_occ):
        """J (ao, ao), and -dE_x/dP (spin, ao, ao) of each operator; the first comes with J, in one pass."""
        if not self.exact_exchange:
            return self.builder.coulomb(P), []
        (first, _), *others = self.exact_exchange
        J, K = self.builder.coulomb_and_exchange(P, C_occ, omega=first)
        matrices = [K, *(self.builder.exchange(P, C_occ, omega=omega) for omega, _ in others)]
        return J, [share(P) * f * K for (_, f), K in zip(self.exact_exchange, matrices, strict=True)]
