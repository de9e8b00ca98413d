"""Monomials x^i y^j z^k in libcint's order: by degree, i descending, then j."""

from functools import lru_cache

import numpy as np
import scipy.special


def monomial_powers(l: int) -> np.ndarray:
    """Exponents (i, j, k) of the monomials of degree l, i descending, then j: xx xy xz yy yz zz; (monomial, 3)."""
    return np.array([(i, j, l - i - j) for i in range(l, -1, -1) for j in range(l - i, -1, -1)])


@lru_cache
def slopes_of_monomials(l: int, order: int) -> np.ndarray:
    """d^s of the monomials of degree l in those of degree l - order, (s, monomial, monomial)."""
    s, c, m = monomial_powers(order), monomial_powers(l), monomial_powers(l - order)
    falling = scipy.special.poch(c - s[:, None] + 1, s[:, None]).prod(axis=2)
    return falling[:, :, None] * (c[:, None] - s[:, None, None] == m).all(axis=3)


def monomials(l: int, R) -> list[np.ndarray]:
    """x^i y^j z^k of each degree up to l, (monomial, ...), at R (3, ...)."""
    found = [np.ones((1, *R.shape[1:]), R.dtype)]
    for degree in range(1, l + 1):
        before = found[-1]
        found.append(np.concatenate([before * R[0], before[-degree:] * R[1], before[-1:] * R[2]]))
    return found
