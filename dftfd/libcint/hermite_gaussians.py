"""Hermite Gaussians: densities as sums of them, and their Coulomb energies with derivatives.

A Hermite Gaussian is a derivative of a Gaussian by its centre, d_P^t exp(-p |r - P|^2). A product of two Gaussians is a
sum of them, with coefficients E that are a product over x, y, z, and the Coulomb integral of two is a derivative of
that of two Gaussians by the distance of their centres, R^t. Orders t are triples (i, j, k), in libcint's order of
monomials: by i + j + k, i descending, then j.

L. E. McMurchie, E. R. Davidson, J. Comput. Phys. 26, 218 (1978). doi:10.1016/0021-9991(78)90092-X

Both densities are written in Hermite Gaussians once, rho = sum_pt D_pt Lambda_pt and sum_Q y_Q Q = sum_qu H_qu
Lambda_qu, whose interaction is sum D_pt (-1)^|u| d^(t+u) [p|q] H_qu. What remains for each pair of shells is the
potential V_pt of the fit and its derivatives; for each atom of the fit, a force. This is the J engine of

C. A. White, M. Head-Gordon, J. Chem. Phys. 104, 2620 (1996). doi:10.1063/1.470986
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
import scipy.special
from scipy.spatial.distance import cdist

from dftfd.libcint.gto import monomial_powers, monomials, slopes_of_monomials
from dftfd.runtime.threads import run_on_workers, split_evenly, worker_count

_STEPS, _END = 32, 64
"""Points of the table of the Boys function per unit of its argument, and its end."""

_TERMS = 6
"""Of Taylor's series about the nearest of them: (1/64)^6 / 6! / 13 is 2e-15."""


@lru_cache
def orders_up_to(L: int) -> np.ndarray:
    """Orders t with i + j + k <= L, (order, 3)."""
    return np.concatenate([monomial_powers(l) for l in range(L + 1)])


@lru_cache
def place_of_sums(L: int, moved: tuple) -> np.ndarray:
    """Where t + u stands among all orders, for t up to L and u of `moved`, (u, t)."""
    sums = np.asarray(moved)[:, None] + orders_up_to(L)
    (_, j, k), l = sums.transpose(2, 0, 1), sums.sum(axis=2)
    return l * (l + 1) * (l + 2) // 6 + (j + k) * (j + k + 1) // 2 + k


@lru_cache
def leibniz(L: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """(s + w over s) as (s, w, 1), and where s + w stands (s, w), for s of an order and w with s + w up to L."""
    s, w = monomial_powers(order), orders_up_to(L - order)
    ways = scipy.special.binom(s[:, None] + w, s[:, None]).prod(axis=2)
    return ways[:, :, None], place_of_sums(L - order, tuple(map(tuple, s)))


UNIT_STEPS = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


@lru_cache
def _boys_table(n: int) -> np.ndarray:
    """Taylor coefficients (term, point) of F_n."""
    x = np.arange(_END * _STEPS + 1) / _STEPS
    m = n + np.arange(_TERMS)[:, None]
    values = scipy.special.hyp1f1(m + 0.5, m + 1.5, -x) / (2 * m + 1)
    factorials = scipy.special.factorial(np.arange(_TERMS))[:, None]
    return np.ascontiguousarray(values * (-1.0) ** np.arange(_TERMS)[:, None] / factorials)


def boys(lowest: int, highest: int, x) -> np.ndarray:
    r"""F_n(x) = \int_0^1 t^2n exp(-x t^2) dt for n = lowest ... highest, (highest - lowest + 1, ...), of x (...) >= 0.

    The highest comes from a table, or from its limit without the tail \int_1^oo, which is below 1e-29; the others from
    F_n-1 = (2 x F_n + exp(-x)) / (2n - 1), where nothing cancels.
    """
    out = np.empty((highest - lowest + 1, *x.shape))
    table, from_point = _boys_table(highest), np.minimum(x, _END)
    nearest = np.rint(from_point * _STEPS).astype(np.intp)
    from_point -= nearest / _STEPS
    value = table[-1].take(nearest)
    for coefficients in table[-2::-1]:
        value *= from_point
        value += coefficients.take(nearest)
    if x.max() > _END:
        far = x > _END
        x_far = x[far]
        limit = math.prod(range(1, 2 * highest, 2)) * math.sqrt(math.pi / 4.0)
        value[far] = limit / ((2.0 * x_far) ** highest * np.sqrt(x_far))
    out[-1] = value
    if highest > lowest:
        tail, twice = np.exp(-x), 2.0 * x
        for n in range(highest, lowest, -1):
            below = np.multiply(twice, out[n - lowest], out=out[n - 1 - lowest])
            below += tail
            below *= 1.0 / (2 * n - 1)
    return out


def derivatives(radial, R) -> np.ndarray:
    r"""d^t f for all orders t up to L, (order, ...), of a function f(|R|^2) at R (3, ...).

    radial: (2 d/d(R^2))^n f for n = 0 ... L, (L + 1, ...).   With R^n_0 = radial_n,
    R^n_(t + e_x) = x R^(n+1)_t + t_x R^(n+1)_(t - e_x).
    """
    L = len(radial) - 1
    out = np.empty((math.comb(L + 3, 3), *radial.shape[1:]))
    out[0] = radial[0]
    before, last, first = None, radial[None], 1
    for l in range(1, L + 1):  # of order l, those of l - 1 and of l - 2 are the parents
        n, top, middle = (l + 1) * (l + 2) // 2, l * (l + 1) // 2, l  # raised in x, in y, in z: top + middle + 1
        up = last[:, 1:]
        new = np.empty((n, *up.shape[1:]))
        np.multiply(up, R[0], out=new[:top])
        np.multiply(up[top - middle :], R[1], out=new[top : top + middle])
        np.multiply(up[-1], R[2], out=new[-1])
        if before is not None:
            two, count = before[:, 1:-1], len(before)
            powers = monomial_powers(l - 2) + 1.0
            wide = (-1,) + (1,) * (two.ndim - 1)
            new[:count] += powers[:, 0].reshape(wide) * two
            new[top : top + l - 1] += powers[count - l + 1 :, 1].reshape(wide) * two[count - l + 1 :]
            new[-1] += (l - 1) * two[-1]
        out[first : first + n] = new[:, 0]
        before, last, first = last, new, first + n
    return out


class CoulombOfGaussians:
    """The Coulomb integrals of exp(-p |r - P|^2) and exp(-q |r - Q|^2), and their (2 d/d(R^2))^n, R = P - Q.

    p, q: exponents, that broadcast.   n: lowest ... highest.
    """

    def __init__(self, p, q, lowest: int, highest: int):
        self._orders, self._a = (lowest, highest), p * q / (p + q)
        scale = 2.0 * math.pi**2.5 / (p * q * np.sqrt(p + q)) * (-2.0 * self._a) ** lowest
        self._scales = scale * (-2.0 * self._a) ** np.arange(highest - lowest + 1).reshape(-1, *(1,) * scale.ndim)

    def at(self, squared_distances) -> np.ndarray:
        """(n, ...) at R^2 [bohr^2]."""
        found = boys(*self._orders, self._a * squared_distances)
        for of_order, scale in zip(found, self._scales, strict=True):
            of_order *= scale
        return found


def expansion(i_max: int, j_max: int, p, to_i, to_j) -> np.ndarray:
    """E (pair, i, j, t), t <= i_max + j_max, of x_A^i x_B^j exp(-p x_P^2) for i <= i_max, j <= j_max in one dimension.

    p: (pair,).   to_i, to_j: P - A and P - B (pair,).
    """
    T = i_max + j_max
    E = np.zeros((len(p), i_max + 1, j_max + 1, T + 1))
    E[:, 0, 0, 0] = 1.0
    half, orders = (0.5 / p)[:, None], np.arange(1, T + 1)

    def raise_one(old, new, distance):
        new += distance[:, None] * old
        new[:, 1:] += half * old[:, :-1]
        new[:, :-1] += orders * old[:, 1:]

    for j in range(j_max + 1):
        if j:
            raise_one(E[:, 0, j - 1], E[:, 0, j], to_j)
        for i in range(i_max):
            raise_one(E[:, i, j], E[:, i + 1, j], to_i)
    return E


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
