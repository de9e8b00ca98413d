"""Coulomb and exact exchange energy: one term, since they share the two-electron integrals, exact or fitted.

    E_J = 1/2 tr(P J[P]),   E_x = -1/2 sum_omega f_omega sum_s tr(P_s K_omega[P_s])

The sum is over the spins of an unrestricted density. A restricted one holds P = 2 P_alpha, whose K[P] = 2 K[P_alpha]:
half of it is the energy of both spins, and half of K the potential of each.

JAX differentiates it by the density matrix, by fractions and by ranges. J and K are linear in P. Their integrals are
arrays in memory, or those of a builder on the host; derivatives of K by omega are those of dftfd.libcint.derivatives.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import derivative_rules, host_primitive, is_zero, shaped
from dftfd.functionals.base import Functional
from dftfd.functionals.exchange_ranges import holders, require_range
from dftfd.functionals.pytree import plain_numbers
from dftfd.runtime.memory import Need
from dftfd.terms.integrals import CoulombExchange, share
from dftfd.terms.term import Contribution, PySCFPart, Term
from dftfd.terms.traced import TracedEnergy, symmetric_map
from dftfd.xc.derivatives_by_numbers import drop_oldest

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

    def incremental_build(self, P, C_occ=None):
        change = self.builder.incremental_build(P, C_occ, [omega for omega, _ in self.exact_exchange])

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


_COMPILED = (
    "exact exchange is computed outside of compiled programs: take jax.jit, lax.scan and the like off what calls it."
)


class _CoulombExchange(TracedEnergy, ABC):
    """E_J and E_x of a functional's exact exchange, from any integrals."""

    @abstractmethod
    def coulomb(self, total) -> jax.Array:
        """E_J [hartree] of a total density matrix (ao, ao)."""

    @abstractmethod
    def exchange(self, P, omega) -> jax.Array:
        """E_x [hartree] of the whole exact exchange of a range omega, 0 for 1/r, at P (spin, ao, ao)."""

    def names(self, functional):
        return ("coulomb", "exact_exchange") if functional.exact_exchange else ("coulomb",)

    def energy(self, name, P, numbers):
        if name == "coulomb":
            return self.coulomb(P.sum(axis=0))
        return sum(f * self.exchange(P, omega) for omega, f in numbers.functional.exact_exchange)

    def varies(self, name, numbers):
        plain = all(isinstance(number, Real) for pair in numbers.functional.exact_exchange for number in pair)
        return name == "exact_exchange" and not plain


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class IntegralsInMemory(_CoulombExchange):
    """By omega the integrals of 1/r under 0, else of erf(omega r)/r.

    Exact, (ij|kl) as (ao, ao, ao, ao), or fitted, B as (aux, ao, ao) with (ij|kl) ~ sum_Q B_Qij B_Qkl.
    """

    integrals: dict[float, jax.Array]

    def coulomb(self, total):
        """1/2 sum_ijkl P_ij (ij|kl) P_kl."""
        integrals = self.integrals[0.0]
        if integrals.ndim == 3:
            fitted = jnp.einsum("Qij,ij->Q", integrals, total)
            return 0.5 * fitted @ fitted
        return 0.5 * jnp.sum(total * jnp.einsum("ijkl,kl->ij", integrals, total))

    def exchange(self, P, omega):
        """-1/2 sum_s sum_ijkl P_ij (ik|jl) P_kl, of a restricted P half of that; see dftfd.terms.coulomb_exchange."""
        integrals = self.integrals[omega]
        if integrals.ndim == 3:
            X = jnp.einsum("Qik,skl->sQil", integrals, P)
            energy = jnp.einsum("sQil,sQli->", X, X)
        else:
            energy = jnp.sum(P * jnp.einsum("ikjl,skl->sij", integrals, P))
        return -0.5 * share(P) * energy


class IntegralsOnHost(_CoulombExchange):
    """Those of a builder of J and K, whose exchange may have any range."""

    def __init__(self, builder: CoulombExchange):
        self.builder = builder

    def coulomb(self, total):
        return 0.5 * jnp.sum(total * symmetric_map(lambda P: self.builder.coulomb(P[None]), total))

    def exchange(self, P, omega):
        return exchange_energy(self.builder, omega, P)

    def at(self, P, numbers):
        coulomb, exchange = float(self.coulomb(P.sum(axis=0))), ExchangeAtDensity(self.builder.anew, P)
        return lambda numbers: coulomb + exchange.energy(numbers.functional.exact_exchange)


def exchange_energy(builder: CoulombExchange, omega, P) -> jax.Array:
    """E_x [hartree] of a range omega, 0 for 1/r, at P (spin, ao, ao)."""
    (K,) = EXCHANGE.bind(P, jnp.asarray(omega, dtype=jnp.float64), builder=builder, order=0)
    return -0.5 * jnp.sum(P * K)


class ExchangeAtDensity:
    """E_x of one density matrix P (spin, ao, ao) as a function of the range; no integrals are kept.

    build: makes a builder of J and K.
    """

    def __init__(self, build: Callable[[], CoulombExchange], P):
        self._build, self._P = build, np.asarray(P)
        self._known: OrderedDict = OrderedDict()

    def energy(self, exact_exchange) -> jax.Array:
        """E_x [hartree] of pairs (omega, fraction)."""
        total: Any = 0.0
        for omega, fraction in exact_exchange:
            (of_range,) = ENERGY.bind(jnp.asarray(omega, dtype=jnp.float64), at=self, order=0)
            total = total + fraction * of_range
        return total

    def number(self, omega: float, order: int) -> float:
        """The derivative of this order by omega of E_x for the fraction 1."""
        if (omega, order) not in self._known:
            K = _matrices(self._P, omega, builder=self._build(), order=order)[0]
            self._known[omega, order] = -0.5 * float(np.sum(self._P * K))
            drop_oldest(self._known)
        self._known.move_to_end((omega, order))
        return self._known[omega, order]


def _matrices(P, omega, *, builder, order):
    P, omega = np.asarray(P), require_range(float(omega))
    P = 0.5 * (P + P.transpose(0, 2, 1))
    return [share(P) * (builder.exchange_by_range(P, omega, order) if order else builder.exchange(P, omega=omega))]


EXCHANGE = host_primitive("exact_exchange", _matrices, lambda P, omega, **_: [P], _COMPILED)
"""(P, omega) -> the derivative of this order by omega of K[P] (spin, ao, ao), of a restricted P half of it."""


def _jvp_of_exchange(primals, tangents, *, builder, order):
    (P, omega), (dP, domega) = primals, tangents
    found = EXCHANGE.bind(P, omega, builder=builder, order=order)
    change = jnp.zeros_like(found[0])
    if not is_zero(dP):
        change += EXCHANGE.bind(dP, omega, builder=builder, order=order)[0]
    if not is_zero(domega):
        change += domega * EXCHANGE.bind(P, omega, builder=builder, order=order + 1)[0]
    return found, [change]


def _transposed_exchange(cotangents, P, omega, **params):
    """K is its own adjoint as a map of P."""
    (cotangent,) = cotangents
    return [None if is_zero(cotangent) else EXCHANGE.bind(cotangent, omega, **params)[0], None]


derivative_rules(EXCHANGE, _jvp_of_exchange, _transposed_exchange)

ENERGY = host_primitive(
    "exact_exchange_at_density",
    lambda omega, *, at, order: [at.number(float(omega), order)],
    lambda omega, **_: [shaped(jax.ShapeDtypeStruct((), np.float64))],
    _COMPILED,
)


def _jvp_of_energy(primals, tangents, *, at, order):
    found, ((omega,), (domega,)) = ENERGY.bind(*primals, at=at, order=order), (primals, tangents)
    if is_zero(domega):
        return found, [jnp.zeros_like(found[0])]
    return found, [domega * ENERGY.bind(omega, at=at, order=order + 1)[0]]


derivative_rules(ENERGY, _jvp_of_energy)
