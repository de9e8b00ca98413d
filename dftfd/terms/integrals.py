"""Integrals over basis functions: one-electron matrices, and Coulomb and exchange matrices, exact or density-fitted.

With chemists' (ij|kl) and a density matrix P of each spin,

    J_ij = sum_kl (ij|kl) (P^alpha + P^beta)_kl          K^s_ij = sum_kl (ik|jl) P^s_kl

`omega` > 0 replaces 1/r by its long-range part erf(omega r)/r. A restricted run passes one channel that holds the total
density; its K then belongs to the total density too. All numbers are in hartree.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from dftfd.errors import InputError
from dftfd.libcint import mole as bridge
from dftfd.libcint import two_electron
from dftfd.libcint.derivatives import derivative_by_range, exact_coulomb_exchange_derivative, exact_exchange_derivative
from dftfd.runtime.memory import Need, available_memory
from dftfd.system.molecule import Molecule
from dftfd.terms.term import Curvature

IN_CORE_LIMIT = 2 * 2**30
"""Bytes up to which the exact two-electron integrals are kept in memory; larger ones are recomputed in each cycle."""

RANK_TOLERANCE = 1e-14
"""Eigenvalues of a density matrix below this fraction of the largest are rounding errors of zero."""


@dataclass(frozen=True, eq=False)
class OneElectron:
    """Matrices over basis functions, (ao, ao) each [hartree]; `dipole` (3, ao, ao) is the position operator [bohr].

    S: overlap.   T: kinetic energy.   V: attraction by nuclei (core-reduced charges) and effective core potentials.
    dipole: <mu| r |nu> with the origin of coordinates as origin; the electrons' dipole is -trace(P dipole).
    """

    S: np.ndarray
    T: np.ndarray
    V: np.ndarray
    dipole: np.ndarray

    @cached_property
    def H_core(self) -> np.ndarray:
        """Core Hamiltonian T + V."""
        return self.T + self.V


def one_electron(molecule: Molecule) -> OneElectron:
    integrals = bridge.one_electron_integrals(molecule)
    return OneElectron(
        S=integrals["overlap"],
        T=integrals["kinetic"],
        V=integrals["nuclear"] + integrals["core_potential"],
        dipole=integrals["dipole"],
    )


class CoulombExchange(ABC):
    """Builds J and K from density matrices P (spin, ao, ao); `molecule` is what they belong to."""

    molecule: Molecule
    fitting_functions: dict | None = None
    """{label of atoms: shells}, as PySCF takes them; None of exact integrals."""
    n_auxiliary: int = 0
    """Their number, zero of exact integrals."""

    def coulomb(self, P) -> np.ndarray:
        """J (ao, ao) of the total density, that is of the sum over the spin channels of P (spin, ao, ao)."""
        return self.coulomb_of_each(self._check(P).sum(axis=0, keepdims=True))[0]

    @abstractmethod
    def coulomb_of_each(self, P) -> np.ndarray:
        """J (n, ao, ao) of symmetric density matrices P (n, ao, ao)."""

    @abstractmethod
    def exchange_on_orbitals(self, C, dC, omega: float = 0.0, crossed: float = 1.0) -> np.ndarray:
        """(K^T + crossed K) C of the matrices sum_q dC_q C_q^T, like dC: C (orbital, ao), dC (trial, orbital, ao).

        For an orbital p and a basis function m it is sum_q (p q|dC_q m) + crossed sum_q (p dC_q|q m).
        """

    @abstractmethod
    def exchange(self, P, C_occ: Sequence | None = None, omega: float = 0.0) -> np.ndarray:
        """K (spin, ao, ao), one per channel of P.

        C_occ: per channel the occupied orbitals (ao, occ), each multiplied by the square root of its occupation, so
        that P = C_occ C_occ^T; saves work where it is known.   omega: 0, or the range of erf(omega r)/r [1/bohr].
        """

    def with_few_for_exchange(self) -> "CoulombExchange":
        """The same J, and an `exchange_on_orbitals` that costs less where there is one, for what others correct."""
        return self

    def coulomb_and_exchange(self, P, C_occ=None, omega: float = 0.0):
        """(J, K) of full-range J and K at `omega`; cheaper than two calls where integrals are recomputed."""
        return self.coulomb(P), self.exchange(P, C_occ, omega)

    def incremental_build(self, P, C_occ=None, omegas=()):
        """(P', C_occ') -> (J of P' less that of P, the same of K (spin, ao, ao) for each of the operators `omegas`)."""

        def change(P_new, C_new=None):
            dP = P_new - P
            if not omegas:
                return self.coulomb(dP), []
            J, K = self.coulomb_and_exchange(dP, None, omegas[0])
            return J, [K, *(self.exchange(dP, None, omega) for omega in omegas[1:])]

        return change

    @abstractmethod
    def gradient(self, P, C_occ: Sequence, exact_exchange: Sequence[tuple[float, float]]) -> np.ndarray:
        """d/dR (atom, 3) [hartree/bohr] of the Coulomb and exact exchange energies at fixed density matrices.

        P (spin, ao, ao) and C_occ as in `exchange`; exact_exchange: pairs (omega, fraction), as of a Functional.
        Complex orbitals have P as the real part of their density matrix C_occ C_occ^+; its imaginary part has exchange,
        too.
        """

    @abstractmethod
    def exchange_by_range(self, P, omega: float, order: int = 1) -> np.ndarray:
        """Derivative of order 1 or 2 by omega > 0 of `exchange` (spin, ao, ao), of symmetric P."""

    def curvature(self, P, C_occ, C, exact_exchange) -> Curvature | None:
        """Second derivatives at fixed density matrices, as of `Term.curvature`, or None."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """One line for the output: how the integrals are obtained."""

    @abstractmethod
    def memory(self, omegas: Sequence[float]) -> Need:
        """Bytes that the first use allocates, and those that it keeps only as far as there is room.

        omegas: ranges of the exchange that will be asked for.
        """

    @abstractmethod
    def in_memory(self, omega: float) -> np.ndarray:
        """All integrals of an operator: exact (ij|kl) (ao, ao, ao, ao), or fitted B (aux, ao, ao)."""

    @abstractmethod
    def anew(self) -> "CoulombExchange":
        """The same without what it has computed."""

    def within(self, room: float, omegas=()) -> "CoulombExchange":
        """The same integrals, of which at most `room` bytes are kept besides what is needed; omegas as in `memory`."""
        return self

    def _check(self, P):
        P, n = np.asarray(P, dtype=float), self.molecule.n_ao
        if P.ndim != 3 or P.shape[1:] != (n, n):
            raise InputError(f"the density matrix has shape {P.shape}, expected (spin, {n}, {n}).")
        return P


class ExactCoulombExchange(CoulombExchange):
    """J and K from the exact integrals: kept in memory up to `in_core_limit` bytes, else recomputed with screening."""

    def __init__(self, molecule: Molecule, in_core_limit: int = IN_CORE_LIMIT, n_operators: int = 1):
        """n_operators: how many will be asked for, 1/r and those of ranges; the limit is that of all together."""
        self.molecule = molecule
        pairs = molecule.n_ao * (molecule.n_ao + 1) // 2
        self._kept_bytes, self._in_core_limit = 4 * pairs * (pairs + 1) * n_operators, in_core_limit
        self._n_operators = n_operators
        self._integrals: dict[float, np.ndarray] = {}
        self._direct = two_electron.DirectCoulombExchange(molecule)
        self._by_range: tuple = None, None  # the last derivative of integrals by a range: (omega, order), integrals

    @cached_property
    def in_core(self) -> bool:
        return self._kept_bytes <= min(self._in_core_limit, available_memory() // 2)

    def coulomb_of_each(self, P):
        return self._contract(P, 0.0, coulomb=True, exchange=False)[0]

    def exchange_on_orbitals(self, C, dC, omega=0.0, crossed=1.0):
        K = self._contract(np.matmul(dC.transpose(0, 2, 1), C), omega, coulomb=False, exchange=True, symmetric=False)[1]
        return C @ (K.transpose(0, 2, 1) + crossed * K)

    def exchange(self, P, C_occ=None, omega=0.0):
        return self._contract(self._check(P), omega, coulomb=False, exchange=True)[1]

    def coulomb_and_exchange(self, P, C_occ=None, omega=0.0):
        if omega != 0.0:
            return super().coulomb_and_exchange(P, C_occ, omega)
        J, K = self._contract(self._check(P), 0.0, coulomb=True, exchange=True)
        return J.sum(axis=0), K

    def exchange_by_range(self, P, omega, order=1):
        P = self._check(P)
        if not self.in_core:
            direct = two_electron.DirectCoulombExchange(self.molecule)
            return derivative_by_range(lambda w: direct(P, False, True, w)[1], omega, order)
        known, integrals = self._by_range
        if known != (omega, order):
            integrals = derivative_by_range(lambda w: two_electron.packed_eri(self.molecule, w), omega, order)
            self._by_range = (omega, order), integrals
        return two_electron.contract_packed_eri(integrals, P, False, True)[1]

    def gradient(self, P, C_occ, exact_exchange):
        P = self._check(P)
        fractions = {omega: fraction * share(P) for omega, fraction in exact_exchange}
        gradient = exact_coulomb_exchange_derivative(self.molecule, P, fractions.pop(0.0, 0.0))
        for omega, fraction in fractions.items():
            gradient -= fraction * exact_exchange_derivative(self.molecule, P, omega)
        if exact_exchange and np.iscomplexobj(C_occ[0]):
            P_I = np.stack([(C @ C.conj().T).imag for C in C_occ])
            for omega, fraction in exact_exchange:
                gradient -= fraction * share(P) * exact_exchange_derivative(self.molecule, P_I, omega)
        return gradient

    def describe(self):
        return "exact two-electron integrals, " + ("in memory" if self.in_core else "recomputed in each cycle")

    def memory(self, omegas):
        return Need({}, {"the two-electron integrals": self._kept_bytes} if self.in_core else {})

    def in_memory(self, omega):
        return two_electron.eri(self.molecule, omega)

    def anew(self):
        return ExactCoulombExchange(self.molecule, self._in_core_limit, self._n_operators)

    def within(self, room, omegas=()):
        return self if room >= self._kept_bytes else ExactCoulombExchange(self.molecule, 0)

    def _contract(self, P, omega, coulomb, exchange, symmetric=True):
        P = (P + P.transpose(0, 2, 1)) / 2 if symmetric else P
        if not self.in_core:
            return self._direct(P, coulomb, exchange, omega, symmetric)
        if omega not in self._integrals:
            drop_ranges(self._integrals, self._n_operators - 1)
            self._integrals[omega] = two_electron.packed_eri(self.molecule, omega)
        return two_electron.contract_packed_eri(self._integrals[omega], P, coulomb, exchange, symmetric)


def drop_ranges(kept: dict, most: int) -> None:
    """Drops what is kept of the ranges that were asked for first, until at most so many operators are left.

    Fits and derivatives ask for one range after the other; 1/r stays.
    """
    for omega in [omega for omega in kept if omega][: max(0, len(kept) - max(most, 1))]:
        del kept[omega]


def signed_factors(P):
    """(sign, C) with P = C_+ C_+^T - C_- C_-^T: of an SCF's density matrix few columns in C_+ and no C_-."""
    occupation, vectors = scipy.linalg.eigh((P + P.T) / 2)
    threshold = RANK_TOLERANCE * max(np.abs(occupation).max(), 1.0)
    for sign in (1.0, -1.0):
        kept = sign * occupation > threshold
        if kept.any():
            yield sign, vectors[:, kept] * np.sqrt(np.abs(occupation[kept]))


def share(P) -> float:
    """The energy of exchange is -share/2 sum_s tr(P_s K[P_s]): a restricted P holds both spins."""
    return 0.5 if len(P) == 1 else 1.0
