r"""The Coulomb energy of a density matrix with a sum of fitting functions, differentiated without any integral formed.

Both densities are written in Hermite Gaussians once, rho = sum_pt D_pt Lambda_pt and sum_Q y_Q Q = sum_qu H_qu
Lambda_qu, whose interaction is sum D_pt (-1)^|u| d^(t+u) [p|q] H_qu. What remains for each pair of shells is the
potential V_pt of the fit and its derivatives; for each atom of the fit, a force. This is the J engine of

C. A. White, M. Head-Gordon, J. Chem. Phys. 104, 2620 (1996). doi:10.1063/1.470986
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial

import numpy as np

from dftfd.libcint.hermite_density import pairs_of, shells_of
from dftfd.libcint.hermite_gaussians import (
    UNIT_STEPS,
    CoulombOfGaussians,
    derivatives,
    expansion,
    leibniz,
    orders_up_to,
    place_of_sums,
)
from dftfd.libcint.monomials import monomial_powers, monomials, slopes_of_monomials
from dftfd.runtime.threads import run_on_workers, split_evenly, worker_count

NEGLIGIBLE = 1e-13
"""Charges of pairs of primitives, scaled as their derivatives are, that are left out [electrons]."""

_TARGETS = 2048
"""Pairs of primitives of a worker at a time."""

_DERIVATIVES = 2**19
"""Derivatives of integrals with a fit's primitives of a worker at a time: operations on them should take much longer
than to call them, since the interpreter runs one worker at a time."""

_POINT = 1e30
"""Exponent [bohr^-2] of a Gaussian that is a point charge: nothing beside it has digits left."""


class _Sources(ABC):
    """Fitting functions of one angular momentum l and with the same exponents, on several atoms.

    atoms: (atom,).   exponents: (primitive,).   centres: (atom, 3).
    """

    def __init__(self, l, atoms, exponents, centres):
        self.l, self.atoms, self.exponents, self.centres = l, atoms, exponents, centres

    def potentials(self, L: int, exponents, centres) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Some atoms (atom,) and their V (order up to L, atom, target) at Gaussians.

        exponents: (target,).   centres: (3, target).
        """
        gaussians = CoulombOfGaussians(exponents, self.exponents[:, None], *self._orders(L))
        at_a_time = max(1, _DERIVATIVES // (len(orders_up_to(L)) * len(self.exponents) * len(exponents)))
        for start in range(0, len(self.atoms), at_a_time):
            some = slice(start, start + at_a_time)
            R = centres[:, None] - self.centres[some].T[:, :, None]
            radial = gaussians.at((R * R).sum(axis=0)[:, None])
            yield self.atoms[some], self._potential(L, some, radial, R)

    @abstractmethod
    def _orders(self, L) -> tuple[int, int]:
        """The lowest and the highest derivative by R^2 that V up to L takes."""

    @abstractmethod
    def _potential(self, L, some, radial, R) -> np.ndarray:
        """V of these derivatives (n, atom, primitive, target) at R (3, atom, target)."""


class _Harmonic(_Sources):
    """Solid harmonics: h(r) exp(-q r^2) is h(-nabla / 2q) exp(-q r^2), and h(nabla) f = h(R) (2 d/d(R^2))^l f.

    polynomials: h, in monomials of degree l, (atom, primitive, cartesian).
    """

    def __init__(self, l, atoms, exponents, centres, polynomials):
        super().__init__(l, atoms, exponents, centres)
        h = polynomials / (-2.0 * exponents[:, None]) ** l
        self._slopes = [np.einsum("akc,scm->sakm", h, slopes_of_monomials(l, order)) for order in range(l + 1)]

    def _orders(self, L):
        return self.l, self.l + L

    def _potential(self, L, some, radial, R):
        """Leibniz: d^(s + w) (h f) has (s + w over s) d^s h d^w f."""
        if self.l == 0:
            return derivatives(np.einsum("ak,dakn->dan", self._slopes[0][0, some, :, 0], radial), R)
        f, powers = derivatives(radial, R[:, :, None]), monomials(self.l, R)
        V = np.zeros((len(f), *R.shape[1:]))
        for order in range(min(self.l, L) + 1):
            slopes = self._slopes[order][:, some] @ powers[self.l - order].transpose(1, 0, 2)
            for slope, ways, places in zip(slopes, *leibniz(L, order), strict=True):
                product = np.einsum("akn,wakn->wan", slope, f[: len(places)])
                if order:
                    V[places] += ways[:, :, None] * product
                else:
                    V += product
        return V


class _Cartesian(_Sources):
    """All monomials of a degree, whose Hermite Gaussians have orders l, l - 2, ...

    polynomials: (atom, primitive, cartesian).
    """

    def __init__(self, l, atoms, exponents, centres, polynomials):
        super().__init__(l, atoms, exponents, centres)
        powers, orders, nowhere = monomial_powers(l), orders_up_to(l), np.zeros(len(exponents))
        E = expansion(l, 0, exponents, nowhere, nowhere)[:, :, 0]
        of_powers = np.prod([E[:, powers[:, None, x], orders[:, x]] for x in range(3)], axis=0)
        used = np.flatnonzero(of_powers.any(axis=(0, 1)))
        signs = (-1.0) ** orders[used].sum(axis=1)  # derivatives by Q in place of P
        self._H = np.einsum("akc,kcu->auk", polynomials, of_powers[:, :, used] * signs)
        self._of_order = tuple(map(tuple, orders[used]))

    def _orders(self, L):
        return 0, self.l + L

    def _potential(self, L, some, radial, R):
        found = self._H[some] @ derivatives(radial, R[:, :, None])
        return sum(found[places, :, u] for u, places in enumerate(place_of_sums(L, self._of_order)))


def fit_of(functions, y) -> list[_Sources]:
    """The density sum_Q y_Q Q of coefficients y (aux,) of fitting functions (GaussianBasis)."""
    found: list[_Sources] = []
    of_kind = _Cartesian if functions.cartesian else _Harmonic
    for kind in shells_of(functions):
        fit = np.einsum("nk,nka->na", kind.coefficients, y[kind.aos].reshape(*kind.coefficients.shape, -1))
        polynomials = fit @ kind.angular.T
        same: dict[bytes, list] = {}
        for atom in np.unique(kind.atoms):
            rows = np.flatnonzero(kind.atoms == atom)
            same.setdefault(kind.exponents[rows].tobytes(), []).append(rows)
        for rows in map(np.array, same.values()):
            first = rows[:, 0]
            given = kind.atoms[first], kind.exponents[rows[0]], kind.centres[first], polynomials[rows]
            found.append(of_kind(kind.l, *given))
    return found


def points_of(charges, positions) -> list[_Sources]:
    """The density of point charges (k,) at positions (k, 3) [bohr], numbered from 0."""
    polynomials = charges[:, None, None] * (_POINT / np.pi) ** 1.5
    return [_Harmonic(0, np.arange(len(charges)), np.array([_POINT]), positions, polynomials)] if len(charges) else []


def coulomb_slopes(basis, P, sources, n_atoms: int, n_sources: int) -> tuple[np.ndarray, np.ndarray]:
    """d/dR of the energy of the density of P with sources [hartree/bohr], by the centres of both, (atom, 3).

    basis: the orbitals (GaussianBasis).   P: (ao, ao), symmetric.   sources: from `fit_of` or `points_of`.
    n_atoms, n_sources: the numbers of atoms with orbitals, and of those that sources stand on.
    """
    pairs = pairs_of(basis, NEGLIGIBLE, _TARGETS)

    def slopes(part):
        of_orbitals, of_sources = np.zeros((n_atoms, 3)), np.zeros((n_sources, 3))
        for index in part:
            _add_slopes(of_orbitals, of_sources, pairs[index], P, sources)
        return of_orbitals, of_sources

    parts = split_evenly([len(some) * (some.L + 2) ** 3 for some in pairs], worker_count())
    of_orbitals, of_sources = zip(*run_on_workers([partial(slopes, part) for part in parts if part]), strict=True)
    return sum(of_orbitals), sum(of_sources)


def _add_slopes(of_orbitals, of_sources, pairs, P, sources):
    """Adds what some pairs have from all sources."""
    first, orders = pairs.slopes(P), orders_up_to(pairs.L + 1)
    size = (pairs.exponents ** (orders.sum(axis=1)[:, None] / 2.0) * np.abs(first)).max(axis=(0, 1))
    kept = np.flatnonzero(size * (np.pi / pairs.exponents) ** 1.5 > NEGLIGIBLE)
    if not len(kept):
        return
    exponents, centres, first = pairs.exponents[kept], pairs.centres[:, kept], first[:, :, kept]
    density, both, potential = pairs.density(P)[:, kept], np.zeros(first.shape), np.zeros(first.shape[1:])
    for x, places in enumerate(place_of_sums(pairs.L, UNIT_STEPS)):
        both[x, places] = density
    for of_kind in sources:
        for atoms, V in of_kind.potentials(pairs.L + 1, exponents, centres):
            potential += V.sum(axis=1)
            np.subtract.at(of_sources, atoms, np.einsum("xtn,tan->ax", both, V))
    by_first, by_both = (np.einsum("xtn,tn->nx", slopes, potential) for slopes in (first, both))
    for atoms, by_atom in zip(pairs.atoms, (by_first, by_both - by_first), strict=True):
        np.add.at(of_orbitals, atoms[kept], by_atom)
