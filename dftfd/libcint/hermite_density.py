"""Densities of density matrices as sums of Hermite Gaussians on the lines between the nuclei."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from dftfd.libcint.hermite_gaussians import expansion, orders_up_to
from dftfd.libcint.monomials import monomial_powers

_EXPANDED = 2**22
"""Numbers of the expansions of pairs that are formed at a time."""

_ADDED = 6.0
"""Logarithm of what coefficients and polynomials may add to the exponential factor of a pair."""


class Shells(NamedTuple):
    """The primitives of all shells of one angular momentum l and one number of contractions.

    atoms, exponents: (primitive,).   centres: (primitive, 3).   coefficients: (primitive, contraction).
    aos: (primitive, contraction * orbital of a shell).   angular: (cartesian, orbital of a shell).
    """

    l: int
    atoms: np.ndarray
    exponents: np.ndarray
    centres: np.ndarray
    coefficients: np.ndarray
    aos: np.ndarray
    angular: np.ndarray


def shells_of(basis) -> list[Shells]:
    """All shells of a GaussianBasis."""
    kinds: dict[tuple, list] = {}
    for shell in range(basis.n_shells):
        exponents, coefficients = basis.primitives(shell)
        aos = np.arange(*basis.ao_offsets[shell : shell + 2])
        rows = kinds.setdefault((basis.angular_momentum(shell), coefficients.shape[1]), [])
        for exponent, row in zip(exponents, coefficients, strict=True):
            rows.append((basis.atoms[shell], exponent, basis.centres[shell], row, aos))
    found = []
    for (l, _), rows in sorted(kinds.items(), key=lambda item: item[0]):
        atoms, exponents, centres, coefficients, aos = map(np.array, zip(*rows, strict=True))
        found.append(Shells(l, atoms, exponents, centres, coefficients, aos, basis.angular_matrix(l)))
    return found


@dataclass(frozen=True, eq=False)
class Pairs:
    """Products of primitives i of some shells and j of others, (pair,), each of which stands for ij and ji."""

    first: Shells
    second: Shells
    i: np.ndarray
    j: np.ndarray

    def __len__(self):
        return len(self.i)

    @property
    def L(self) -> int:
        """The highest order of a Hermite Gaussian in a product."""
        return self.first.l + self.second.l

    @property
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of i and of j, (pair,)."""
        return self.first.atoms[self.i], self.second.atoms[self.j]

    @cached_property
    def exponents(self) -> np.ndarray:
        """(pair,)"""
        return self.first.exponents[self.i] + self.second.exponents[self.j]

    @cached_property
    def centres(self) -> np.ndarray:
        """(3, pair) [bohr]"""
        a, b = self.first.exponents[self.i], self.second.exponents[self.j]
        return (a * self.first.centres[self.i].T + b * self.second.centres[self.j].T) / self.exponents

    def density(self, P) -> np.ndarray:
        """Coefficients (order up to L, pair) of the density of a symmetric P (ao, ao)."""
        orders = orders_up_to(self.L)
        factors = [E[:, *self._places(x, orders)] for x, E in enumerate(self._expansions())]
        return np.einsum("ncd,ncdt->tn", self._cartesian(P), np.prod(factors, axis=0))

    def slopes(self, P) -> np.ndarray:
        """How the density changes as i moves, in Hermite Gaussians where the pair is, (3, order up to L + 1, pair)."""
        orders, a = orders_up_to(self.L + 1), self.first.exponents[self.i]
        factors, moved = [], []
        for x, E in enumerate(self._expansions()):
            dE = 2.0 * a[:, None, None, None] * E[:, 1:]  # of x^i exp(-a x^2): 2 a x^(i+1) - i x^(i-1)
            dE[:, 1:] -= np.arange(1, self.first.l + 1)[:, None, None] * E[:, : self.first.l]
            factors.append(E[:, *self._places(x, orders)])
            moved.append(dE[:, *self._places(x, orders)])
        cartesian = self._cartesian(P)
        ways = [[moved[x] if x == y else factors[y] for y in range(3)] for x in range(3)]
        return np.array([np.einsum("ncd,ncdt->tn", cartesian, np.prod(way, axis=0)) for way in ways])

    def _places(self, x, orders):
        """Where the expansions of all products of monomials are, (i, j, t)."""
        i, j = (monomial_powers(shells.l)[:, x] for shells in (self.first, self.second))
        return i[:, None, None], j[:, None], orders[:, x]

    def _expansions(self):
        """Of each axis, with one power more of i, (pair, i, j, t)."""
        to_i, to_j = self.centres - self.first.centres[self.i].T, self.centres - self.second.centres[self.j].T
        given = self.first.l + 1, self.second.l, self.exponents
        return [expansion(*given, to_i[x], to_j[x]) for x in range(3)]

    def _cartesian(self, P):
        """P of monomials, with the exponential factor, (pair, cartesian, cartesian)."""
        first, second, i, j = self.first, self.second, self.i, self.j
        a, b = first.exponents[i], second.exponents[j]
        factor = np.exp(-a * b / (a + b) * ((first.centres[i] - second.centres[j]) ** 2).sum(axis=1))
        factor *= np.where((first is second) & (i == j), 1.0, 2.0)
        shape = len(i), *(n for kind in (first, second) for n in (kind.coefficients.shape[1], kind.angular.shape[1]))
        of_pairs = P[first.aos[i][:, :, None], second.aos[j][:, None, :]].reshape(shape)
        contracted = np.einsum(
            "nk,nkalb,nl->nab", first.coefficients[i], of_pairs, second.coefficients[j], optimize=True
        )
        return np.einsum("ca,nab,db,n->ncd", first.angular, contracted, second.angular, factor, optimize=True)


def pairs_of(basis, negligible: float, at_a_time: int) -> list[Pairs]:
    """All pairs of primitives that may not be negligible, about so many of a kind at a time."""
    found = []
    for first, second in itertools.combinations_with_replacement(shells_of(basis), 2):
        a, b = first.exponents[:, None], second.exponents
        exponents = a * b / (a + b) * cdist(first.centres, second.centres, "sqeuclidean")
        near = exponents < _ADDED - math.log(negligible)
        i, j = np.nonzero(np.triu(near) if first is second else near)
        size = len(first.angular) * len(second.angular) * len(orders_up_to(first.l + second.l + 1))
        count = max(1, math.ceil(len(i) / at_a_time), len(i) * size // _EXPANDED)
        pieces = zip(np.array_split(i, count), np.array_split(j, count), strict=True)
        found += [Pairs(first, second, *piece) for piece in pieces if len(piece[0])]
    return found
