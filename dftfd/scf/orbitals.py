"""Orbitals of a Fock matrix and who fills them: orthonormal basis, eigenproblem, occupation numbers, density matrix.

The leading axis `spin` is 1 for a restricted calculation (two electrons per orbital), 2 for an unrestricted one.

An occupier is called with orbital energies (spin, mo) [hartree] and coefficients (spin, ao, mo) and returns occupations
(spin, mo) and the entropy's part -T S [hartree] of the free energy. A restricted run has one spin and capacity 2.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special

from dftfd.errors import InputError, NumericalError
from dftfd.scf.convergence import LINEAR_DEPENDENCE


def canonical_orthonormaliser(S, threshold=LINEAR_DEPENDENCE):
    """The matrix X (ao, mo) of canonical orthogonalisation, X^T S X = 1.

    S = U s U^T gives X = U_k s_k^(-1/2) with the eigenvalues s_k > threshold kept, so an overcomplete basis yields
    fewer orbitals than functions (P.-O. Loewdin, Adv. Quantum Chem. 5, 185 (1970). doi:10.1016/S0065-3276(08)60339-1).
    """
    if not np.all(np.isfinite(S)):
        raise NumericalError("the overlap matrix contains NaN or Inf; check the geometry and the basis set.")
    s, U = scipy.linalg.eigh(S)
    keep = s > threshold
    if not np.any(keep):
        raise InputError(f"no orbital is left: all overlap eigenvalues are below linear_dependence={threshold:g}.")
    return U[:, keep] / np.sqrt(s[keep])


def diagonalise(F, X):
    """Orbital energies (spin, mo) [hartree], ascending, and coefficients C (spin, ao, mo): F C = S C e, C^T S C = 1.

    X is the orthonormaliser. Each orbital's largest coefficient is positive, so signs do not depend on the eigensolver.
    """
    energies, coefficients = [], []
    for F_s in F:
        e, U = scipy.linalg.eigh(X.T @ F_s @ X, driver="evd")  # 0.7 of the time of the default
        energies.append(e)
        coefficients.append(with_positive_largest(X @ U))
    return np.stack(energies), np.stack(coefficients)


def with_positive_largest(C):
    """Orbitals C (ao, mo) with signs that do not depend on the eigensolver: each largest coefficient is positive."""
    largest = C[np.argmax(np.abs(C), axis=0), np.arange(C.shape[1])]
    return C * np.where(largest < 0, -1.0, 1.0)


def density_matrix(C, occupation):
    """P (spin, ao, ao) = sum_i n_i C_i C_i^T."""
    return np.stack([(C_s[:, n != 0] * n[n != 0]) @ C_s[:, n != 0].T for C_s, n in zip(C, occupation, strict=True)])


def occupied_orbitals(C, occupation):
    """Per spin, the occupied orbitals (ao, occupied) scaled by sqrt(n_i), so that P = C_occ C_occ^T."""
    return tuple(C_s[:, n > 0] * np.sqrt(n[n > 0]) for C_s, n in zip(C, occupation, strict=True))


def orbital_gradient_norm(C, occupation, F, shared=False):
    """Norm of the orbital gradient, |g| = (sum_s sum_{p>q} ((n_q - n_p) F_pq)^2)^(1/2) [hartree].

    This is half of dE/d(orbital rotation), PySCF's convention: 2 F_ai for a restricted run with occupied i and virtual
    a, F_ai otherwise. shared: both spins have the same orbitals, whose gradient is the sum of theirs.
    """
    some = np.any(occupation > 0, axis=0)  # what is empty in all spins turns with these alone
    of_spin = [
        (n[None, some] - n[:, None]) * (C_s.T @ (F_s @ C_s[:, some]))
        for C_s, n, F_s in zip(C, occupation, F, strict=True)
    ]
    squares = [g**2 for g in ([sum(of_spin)] if shared else of_spin)]
    return float(np.sqrt(sum(np.sum(g[~some]) + 0.5 * np.sum(g[some]) for g in squares)))


Occupier = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]

# Orbital energies that agree to this many decimals are degenerate; ties are filled in the order of the eigensolver.
DEGENERATE_DECIMALS = 9


def aufbau(mo_energy, n_occupied, capacity):
    """Occupation numbers (spin, mo): per spin the `n_occupied` lowest orbitals hold `capacity` electrons each.

    mo_energy (spin, mo) [hartree]. capacity is 2 for a restricted run and 1 for an unrestricted one; n_occupied has one
    entry per spin and may be zero.
    """
    return _filled(mo_energy, [[capacity] * count for count in n_occupied])


def _filled(mo_energy, numbers):
    """Occupation numbers (spin, mo): numbers[s] belong to the lowest orbitals of spin s, the rest are 0."""
    occupation = np.zeros_like(mo_energy)
    for s, (energies, of_spin) in enumerate(zip(mo_energy, numbers, strict=True)):
        require_room(len(of_spin), energies.size)
        lowest = np.argsort(energies.round(DEGENERATE_DECIMALS), kind="stable")[: len(of_spin)]
        occupation[s, lowest] = of_spin
    return occupation


@dataclass(frozen=True)
class Aufbau:
    """The lowest `n_occupied` orbitals of each spin, full."""

    n_occupied: tuple[int, ...]
    capacity: int

    def __call__(self, mo_energy, mo_coeff):
        return aufbau(mo_energy, self.n_occupied, self.capacity), 0.0


@dataclass(frozen=True, eq=False)
class GivenOccupations:
    """Occupations by ascending orbital energy: numbers[s] belong to the lowest orbitals of spin s, the rest are 0."""

    numbers: tuple[tuple[float, ...], ...]

    def __call__(self, mo_energy, mo_coeff):
        return _filled(mo_energy, self.numbers), 0.0


@dataclass(frozen=True, eq=False)
class MaximumOverlap:
    """Occupations that follow reference orbitals instead of the order of energies: Delta-SCF for excited states.

    Each set of equally occupied reference orbitals passes its number to those orbitals j whose projection
    sum_i <i|j>^2 on the set is largest. The reference stays that of the beginning.

    numbers: as in GivenOccupations, of reference orbitals C (spin, ao, mo).   S: overlap (ao, ao).
    G. M. J. Barca, A. T. B. Gilbert, P. M. W. Gill, J. Chem. Theory Comput. 14, 1501 (2018).
    doi:10.1021/acs.jctc.7b00994
    """

    numbers: tuple[tuple[float, ...], ...]
    C: np.ndarray
    S: np.ndarray

    def __call__(self, mo_energy, mo_coeff):
        occupation = np.zeros_like(mo_energy)
        for s, numbers in enumerate(self.numbers):
            given = np.array(numbers)
            require_room(len(given), mo_energy.shape[1])
            overlaps = (self.C[s].T @ self.S @ mo_coeff[s]) ** 2
            free = np.ones(mo_energy.shape[1], dtype=bool)
            for number in sorted(set(given[given > 0].tolist()), reverse=True):
                members = np.flatnonzero(given == number)
                projection = np.where(free, overlaps[members].sum(axis=0), -1.0)
                chosen = np.argsort(-projection, kind="stable")[: len(members)]
                occupation[s, chosen] = number
                free[chosen] = False
        return occupation, 0.0


MEET = 1e-5
"""Difference of orbital energies, in widths of smearing, below which a derivative stands for a divided difference."""


@dataclass(frozen=True)
class Smearing:
    """Fractional occupations n = capacity f((e - mu)/width), with mu set by the number of electrons of each spin.

    'fermi': f(x) = 1/(1 + exp x), -T S = width sum capacity (f ln f + (1 - f) ln(1 - f));
    N. D. Mermin, Phys. Rev. 137, A1441 (1965). doi:10.1103/PhysRev.137.A1441
    'gaussian': f(x) = erfc(x)/2, -T S = -width sum capacity exp(-x^2)/(2 sqrt(pi));
    C.-L. Fu, K.-M. Ho, Phys. Rev. B 28, 5480 (1983). doi:10.1103/PhysRevB.28.5480
    The free energy E - T S is stationary in orbitals and occupations; the energy alone is not.

    n_electrons: electrons per spin.   width: k_B T, or the Gaussian's sigma [hartree].
    """

    n_electrons: tuple[float, ...]
    capacity: int
    width: float
    kind: str = "fermi"

    def __call__(self, mo_energy, mo_coeff):
        occupation, entropy = np.zeros_like(mo_energy), 0.0
        for s, (energies, n) in enumerate(zip(mo_energy, self.n_electrons, strict=True)):
            share = n / self.capacity
            require_room(share, energies.size)
            if share == 0:
                continue
            if share == energies.size:
                occupation[s] = self.capacity
                continue
            x = (energies - self._chemical_potential(energies, share)) / self.width
            occupation[s] = self.capacity * self._filling(x)
            entropy += self.capacity * self.width * float(np.sum(self._entropy(x)))
        return occupation, entropy

    def slopes(self, energies, occupation) -> np.ndarray:
        """(n_p - n_q) / (e_p - e_q) (mo, mo) of one spin at a fixed chemical potential, dn/de where energies meet."""
        f = occupation / self.capacity
        if self.kind == "fermi":
            slope = -f * (1.0 - f)
        else:
            slope = -np.exp(-(scipy.special.erfcinv(2.0 * f) ** 2)) / np.sqrt(np.pi)
        slope = slope * self.capacity / self.width
        de, dn = (x[:, None] - x for x in (energies, occupation))
        meet = np.abs(de) < MEET * self.width
        found = np.where(meet, (slope[:, None] + slope) / 2, dn / np.where(meet, 1.0, de))
        return np.minimum(found, 0.0)  # but for rounding

    def _chemical_potential(self, energies, share):
        margin = 40.0 * self.width
        return scipy.optimize.brentq(
            lambda mu: np.sum(self._filling((energies - mu) / self.width)) - share,
            energies.min() - margin,
            energies.max() + margin,
            xtol=1e-15,
            rtol=8.9e-16,
        )

    def _filling(self, x):
        return scipy.special.expit(-x) if self.kind == "fermi" else 0.5 * scipy.special.erfc(x)

    def _entropy(self, x):
        if self.kind == "fermi":
            f, g = scipy.special.expit(-x), scipy.special.expit(x)
            return scipy.special.xlogy(f, f) + scipy.special.xlogy(g, g)
        return -np.exp(-(x**2)) / (2.0 * np.sqrt(np.pi))


def require_room(needed, available) -> None:
    """InputError where more orbitals are occupied than there are."""
    if needed > available:
        raise InputError(
            f"{needed:g} orbitals must be occupied but the basis set gives only {available} independent ones; "
            "take a larger basis set or another spin."
        )


def frontier_energies(mo_energy, occupation, least=0.0):
    """Per spin the pair (HOMO, LUMO) of orbital energies [hartree]; None where there is no such orbital.

    least: electrons beyond which an orbital counts as occupied. Smeared occupations are nowhere zero: half of an
    orbital's capacity puts the border at the Fermi level.
    """
    pairs = []
    for energies, n in zip(mo_energy, occupation, strict=True):
        occupied, virtual = energies[n > least], energies[n <= least]
        pairs.append((float(occupied.max()) if occupied.size else None, float(virtual.min()) if virtual.size else None))
    return tuple(pairs)
