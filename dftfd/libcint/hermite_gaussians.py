r"""Coulomb integrals of Hermite Gaussians, and the expansions of products of Gaussians in them.

A Hermite Gaussian is a derivative of a Gaussian by its centre, d_P^t exp(-p |r - P|^2). A product of two Gaussians is a
sum of them, with coefficients E that are a product over x, y, z, and the Coulomb integral of two is a derivative of
that of two Gaussians by the distance of their centres, R^t. Orders t are triples (i, j, k), in libcint's order of
monomials: by i + j + k, i descending, then j.

L. E. McMurchie, E. R. Davidson, J. Comput. Phys. 26, 218 (1978). doi:10.1016/0021-9991(78)90092-X
"""

import math
from functools import lru_cache

import numpy as np
import scipy.special

from dftfd.libcint.monomials import monomial_powers

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
