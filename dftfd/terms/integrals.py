"""Integrals over basis functions: one-electron matrices, and Coulomb and exchange matrices, exact or density-fitted.

With chemists' (ij|kl) and a density matrix P of each spin,

    J_ij = sum_kl (ij|kl) (P^alpha + P^beta)_kl          K^s_ij = sum_kl (ik|jl) P^s_kl

`omega` > 0 replaces 1/r by its long-range part erf(omega r)/r. A restricted run passes one channel that holds the total
density; its K then belongs to the total density too. All numbers are in hartree.
"""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.linalg

from dftfd.errors import InputError, ResourceError
from dftfd.libcint import mole as bridge
from dftfd.libcint import two_electron
from dftfd.libcint.derivatives import exact_coulomb_exchange_derivative, exact_exchange_derivative
from dftfd.runtime.memory import Need, available_memory, in_bytes
from dftfd.runtime.threads import blas_threads, run_on_workers, share_out, worker_count
from dftfd.system.molecule import Molecule
from dftfd.terms.fitted_gradient import fitted_gradient
from dftfd.terms.pair_tensor import PairTensor

IN_CORE_LIMIT = 2 * 2**30
"""Bytes up to which the exact two-electron integrals are kept in memory; larger ones are recomputed in each cycle."""

_BLOCK_BYTES = 4 * 2**20
"""Unpacked three-centre integrals of a worker at a time: they should stay in its cache."""

_RANK_TOLERANCE = 1e-14
"""Eigenvalues of a density matrix below this fraction of the largest are rounding errors of zero."""


_LAST_FITS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
"""Of each molecule, the auxiliary basis, the last density that was fitted, and what came out: forces ask for it again.

A few matrices, where the tensor that they were computed with may be gigabytes.
"""


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
    """The one-electron matrices of a molecule."""
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

    def coulomb_and_exchange(self, P, C_occ=None, omega: float = 0.0):
        """(J, K) of full-range J and K at `omega`; cheaper than two calls where integrals are recomputed."""
        return self.coulomb(P), self.exchange(P, C_occ, omega)

    @abstractmethod
    def gradient(self, P, C_occ: Sequence, exact_exchange: Sequence[tuple[float, float]]) -> np.ndarray:
        """d/dR (atom, 3) [hartree/bohr] of the Coulomb and exact exchange energies at fixed density matrices.

        P (spin, ao, ao) and C_occ as in `exchange`; exact_exchange: pairs (omega, fraction), as of a Functional.
        """

    @abstractmethod
    def describe(self) -> str:
        """One line for the output: how the integrals are obtained."""

    @abstractmethod
    def memory(self, omegas: Sequence[float]) -> Need:
        """Bytes that the first use allocates, and those that it keeps only as far as there is room.

        omegas: ranges of the exchange that will be asked for.
        """

    def within(self, room: float) -> "CoulombExchange":
        """The same integrals, of which at most `room` bytes are kept."""
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
        self._integrals: dict[float, np.ndarray] = {}
        self._direct = two_electron.DirectCoulombExchange(molecule)

    @cached_property
    def in_core(self) -> bool:
        """Whether the integrals are kept."""
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

    def gradient(self, P, C_occ, exact_exchange):
        P = self._check(P)
        fractions = {omega: fraction * share(P) for omega, fraction in exact_exchange}
        gradient = exact_coulomb_exchange_derivative(self.molecule, P, fractions.pop(0.0, 0.0))
        for omega, fraction in fractions.items():
            gradient -= fraction * exact_exchange_derivative(self.molecule, P, omega)
        return gradient

    def describe(self):
        return "exact two-electron integrals, " + ("in memory" if self.in_core else "recomputed in each cycle")

    def memory(self, omegas):
        return Need({}, {"the two-electron integrals": self._kept_bytes} if self.in_core else {})

    def within(self, room):
        return self if room >= self._kept_bytes else ExactCoulombExchange(self.molecule, 0)

    def _contract(self, P, omega, coulomb, exchange, symmetric=True):
        P = (P + P.transpose(0, 2, 1)) / 2 if symmetric else P
        if not self.in_core:
            return self._direct(P, coulomb, exchange, omega, symmetric)
        if omega not in self._integrals:
            self._integrals[omega] = two_electron.packed_eri(self.molecule, omega)
        return two_electron.contract_packed_eri(self._integrals[omega], P, coulomb, exchange, symmetric)


class DensityFittedCoulombExchange(CoulombExchange):
    """J and K from (ij|kl) ~ sum_Q B_Q,ij B_Q,kl, with the tensor B (aux, ao (ao + 1) / 2) computed once and kept.

    For J alone B is a PairTensor.

    exact_exchange: whether the functional needs K; it decides, as in PySCF, between a Coulomb fit and a
    Coulomb-and-exchange fit.   memory_limit: bytes allowed for B, by default 70 % of what is available.

    O. Vahtras, J. Almlof, M. W. Feyereisen, Chem. Phys. Lett. 213, 514 (1993). doi:10.1016/0009-2614(93)89151-7
    F. Weigend, Phys. Chem. Chem. Phys. 4, 4285 (2002). doi:10.1039/b204199p
    """

    def __init__(self, molecule: Molecule, exact_exchange: bool, memory_limit: float | None = None):
        self.molecule = molecule
        self._auxiliary, self.auxiliary_basis = two_electron.auxiliary_basis(molecule, exact_exchange)
        self.n_auxiliary, self._n_pairs = two_electron.fitting_tensor_size(molecule, self._auxiliary)
        self._memory_limit = 0.7 * available_memory() if memory_limit is None else memory_limit
        self._tensors: dict[float, np.ndarray] = {}
        self._pairs = None if exact_exchange else PairTensor(molecule, self._auxiliary)
        self._check_memory(self._bytes_of(1))

    def with_few_for_exchange(self) -> "DensityFittedCoulombExchange":
        """The same J, and an exchange on orbitals from a few fitting functions: for estimates that others correct."""
        other, few = copy(self), copy(self)
        few._auxiliary, few._tensors = two_electron.few_fitting_functions(self.molecule), {}
        other.exchange_on_orbitals = few.exchange_on_orbitals  # type: ignore[method-assign]
        return other

    def tensor(self, omega: float = 0.0) -> np.ndarray:
        """B_Q,ij of the operator, packed over i >= j, (aux, ao (ao + 1) / 2)."""
        if omega not in self._tensors:
            self._check_memory(self._bytes_of(len(self._tensors) + 1, whole=True))
            with blas_threads(worker_count()):
                self._tensors[omega] = two_electron.fitting_tensor(self.molecule, self._auxiliary, omega)
        return self._tensors[omega]

    def coulomb_of_each(self, P):
        folded = (P + P.transpose(0, 2, 1))[:, *self._lower]
        diagonal = np.arange(1, P.shape[1] + 1).cumsum() - 1
        folded[:, diagonal] /= 2  # each pair i > j stands for ij and ji
        fits, packed = self._whole_coulomb(folded) if self._pairs is None else self._pairs.coulomb(folded)
        if len(P) == 1:
            _LAST_FITS[self.molecule] = self.auxiliary_basis, P[0].copy(), fits[0]
        return packed[:, self._positions_in_square].reshape(P.shape)

    def _whole_coulomb(self, folded):
        """As PairTensor.coulomb, with the tensor that exchange needs, too."""
        parts = np.array_split(self.tensor(), worker_count())
        fits = [np.empty((len(folded), len(B))) for B in parts]
        product = lambda B, fit: np.matmul(folded, B.T, out=fit) @ B
        packed = np.sum(run_on_workers([partial(product, *pair) for pair in zip(parts, fits, strict=True)]), axis=0)
        return np.concatenate(fits, axis=1), packed

    def _last_fit(self, total):
        """sum_ij B_Q,ij P_ij (aux,) where this density (ao, ao) was the last whose J was asked for, else None."""
        auxiliary, P, fit = _LAST_FITS.get(self.molecule, (None, None, None))
        return fit if auxiliary == self.auxiliary_basis and np.array_equal(P, total) else None

    def exchange(self, P, C_occ=None, omega=0.0):
        P = self._check(P)
        if C_occ is None:
            return np.stack([self._exchange_of_density(P_s, omega) for P_s in P])
        if len(C_occ) != len(P):
            raise InputError(f"orbitals of {len(C_occ)} spin channels were given for {len(P)} density matrices.")
        return np.stack([self._exchange_of_orbitals(np.asarray(C, dtype=float), omega) for C in C_occ])

    def exchange_on_orbitals(self, C, dC, omega=0.0, crossed=1.0):
        n_orbitals, n = C.shape
        B, square = self.tensor(omega), self._positions_in_square
        block = max(1, _BLOCK_BYTES // (8 * n * max(n, n_orbitals)))
        columns = crossed * np.ascontiguousarray(dC.reshape(-1, n).T)

        def part(starts):
            K, full = np.zeros(dC.shape), np.empty((block, n, n))
            for start in starts:
                rows = B[start : start + block]
                BQ = full[: len(rows)]
                np.take(rows, square, axis=1, out=BQ.reshape(-1, n * n), mode="clip")
                half = np.matmul(C, BQ)  # (Q|q m)
                pairs = np.matmul(half, C.T).reshape(-1, n_orbitals).T  # (Q|p q) as (p, Qq)
                half = half.reshape(-1, n)
                if crossed:
                    turned = (half @ columns).reshape(len(rows), n_orbitals, *dC.shape[:2])  # (Q|p dC_q), (Q, p, t, q)
                for t, (K_t, dC_t) in enumerate(zip(K, dC, strict=True)):
                    K_t += pairs @ np.matmul(dC_t, BQ).reshape(-1, n)  # (Q|dC_q m)
                    if crossed:
                        K_t += turned[:, :, t].transpose(1, 0, 2).reshape(n_orbitals, -1) @ half
            return K

        return sum(share_out(range(0, len(B), block), part))

    def gradient(self, P, C_occ, exact_exchange):
        P = self._check(P)
        total = P.sum(axis=0)
        terms: dict[float, list] = {0.0: []}
        terms |= {omega: [(fraction * share(P), C) for C in C_occ] for omega, fraction in exact_exchange}
        return sum(
            fitted_gradient(
                *(self.molecule, self._auxiliary, omega, None if omega else total, exchange),
                memory_limit=self._memory_limit,
                fit=None if omega else self._last_fit(total),
            )
            for omega, exchange in terms.items()
        )

    def describe(self):
        return f"density fitting in {self.auxiliary_basis} ({self.n_auxiliary} functions)"

    def _exchange_of_density(self, P, omega):
        """Factorise P = C_+ C_+^T - C_- C_-^T; a density matrix of an SCF has few columns in C_+ and none in C_-."""
        occupation, vectors = scipy.linalg.eigh((P + P.T) / 2)
        K = np.zeros_like(P)
        threshold = _RANK_TOLERANCE * max(np.abs(occupation).max(), 1.0)
        for sign in (1.0, -1.0):
            kept = sign * occupation > threshold
            if kept.any():
                K += sign * self._exchange_of_orbitals(vectors[:, kept] * np.sqrt(np.abs(occupation[kept])), omega)
        return K

    def _exchange_of_orbitals(self, C, omega):
        """K_ij = sum_Q,o X_Q,o,i X_Q,o,j with X_Q,o,i = sum_k C_k,o B_Q,ki, in blocks of Q, shared by the workers."""
        n, n_occ = C.shape
        if not n_occ:
            return np.zeros((n, n))
        B, transposed, square = self.tensor(omega), np.ascontiguousarray(C.T), self._positions_in_square
        block = max(1, _BLOCK_BYTES // (8 * n * n))

        def part(starts):
            full, X = np.empty((block, n, n)), np.empty((block, n_occ, n))
            K, product = np.zeros((n, n)), np.empty((n, n))
            for start in starts:
                rows = B[start : start + block]
                count = len(rows)
                np.take(rows, square, axis=1, out=full[:count].reshape(count, n * n), mode="clip")  # unchecked: faster
                flat = np.matmul(transposed, full[:count], out=X[:count]).reshape(-1, n)
                K += np.matmul(flat.T, flat, out=product)
            return K

        return sum(share_out(range(0, len(B), block), part))

    @cached_property
    def _lower(self):
        """Rows and columns of the packed lower triangle, in its order."""
        return np.tril_indices(self.molecule.n_ao)

    @cached_property
    def _positions_in_square(self):
        """Where each element of a symmetric matrix (ao ao,) stands in its packed lower triangle."""
        positions = np.empty((self.molecule.n_ao,) * 2, dtype=np.intp)
        positions[self._lower] = positions[self._lower[::-1]] = np.arange(self._n_pairs)
        return positions.ravel()

    def memory(self, omegas):
        return Need({"the fitting tensor": self._bytes_of(len({0.0, *omegas}))})

    def _bytes_of(self, n_tensors, whole=False):
        tensor = 8 * self.n_auxiliary * self._n_pairs
        work = min(two_electron.WORK_BYTES, 2 * tensor)
        if self._pairs is not None and not whole:
            tensor, work = self._pairs.nbytes, self._pairs.work_bytes
        return n_tensors * tensor + 16 * self.n_auxiliary**2 + work

    def _check_memory(self, needed):
        if needed > self._memory_limit:
            raise ResourceError(
                f"density fitting needs {in_bytes(needed)} for {self.n_auxiliary} auxiliary functions and "
                f"{self.molecule.n_ao} basis functions, the limit is {in_bytes(self._memory_limit)}; use a smaller "
                "basis set, more memory, or density_fit=False."
            )


def share(P) -> float:
    """The energy of exchange is -share/2 sum_s tr(P_s K[P_s]): a restricted P holds both spins."""
    return 0.5 if len(P) == 1 else 1.0
