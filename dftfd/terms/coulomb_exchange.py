r"""Coulomb and exact exchange energy: one term, since they share the two-electron integrals, exact or fitted.

    E_J = 1/2 tr(P J[P]),   E_x = -1/2 sum_omega f_omega sum_s tr(P_s K_omega[P_s])

The sum is over the spins of an unrestricted density. A restricted one holds P = 2 P_alpha, whose K[P] = 2 K[P_alpha]:
half of it is the energy of both spins, and half of K the potential of each.
"""

import jax.numpy as jnp
import numpy as np

from dftfd.functionals.base import Functional
from dftfd.functionals.exchange_ranges import holders
from dftfd.functionals.pytree import plain_numbers
from dftfd.runtime.memory import Need
from dftfd.terms.integrals import CoulombExchange, share
from dftfd.terms.term import Contribution, PySCFPart, Term
from dftfd.terms.traced_exchange import IntegralsInMemory, IntegralsOnHost

FITTED_WORK = 10
"""Arrays of the size of an operator's fitted integrals that a gradient of two spins needs beside them where all are in
memory; measured on benzene, rounded up. The exact integrals need none."""


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

    def curvature(self, P, C_occ, C, progress):
        return self.builder.curvature(P, C_occ, C, self.exact_exchange)

    def traced(self, molecule, in_memory):
        if not in_memory:
            return IntegralsOnHost(self.builder)
        return IntegralsInMemory({omega: jnp.asarray(self.builder.in_memory(omega)) for omega in sorted(self._omegas)})

    @property
    def _omegas(self):
        return {0.0, *(omega for omega, _ in self.exact_exchange)}

    def need_in_memory(self, molecule):
        n, operators = molecule.n_ao, len(self._omegas)
        if not self.builder.n_auxiliary:
            return Need({"all two-electron integrals": 8.0 * n**4 * operators})
        return Need({"all fitted integrals": 8.0 * n * n * self.builder.n_auxiliary * (operators + FITTED_WORK)})

    def with_numbers(self, functional, surroundings):
        return CoulombExchangeEnergy(self.builder, plain_numbers(functional).exact_exchange)

    def parameter_gradient(self, P, functional):
        """By each range that terms of the functional share with its exact exchange; it stands with the first of them.

        An omega that no term has is no parameter of the functional, and one that differs from the terms' is not theirs.
        """
        found: dict = {}
        for omega, fraction in self.exact_exchange:
            if terms := holders(functional.terms, omega):
                of_term = found.setdefault(terms[0].name, {"omega": 0.0})
                K = self.builder.exchange_by_range(P, omega)
                of_term["omega"] -= 0.5 * share(P) * fraction * float(np.sum(P * K))
        return found

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
