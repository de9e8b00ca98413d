r"""Excitations and driven responses of  M R = w L,  N L = w R  with M = A + B, N = A - B, in growing subspaces.

R = X + Y and L = X - Y have a space each, U and W, whose products with M and N are kept; many vectors are multiplied at
once. In them Thouless' functional gives upper bounds of the lowest w > 0, and the equations with a right-hand side,
M R - w L = -G, N L - w R = 0, are solved by projection. What is left of the equations, divided by the orbital energy
differences, extends the spaces: Davidson's method, and a block Krylov method that all right-hand sides share.
Without exact exchange N is diagonal and W all there is; the Tamm-Dancoff approximation has A alone.

D. J. Thouless, Nucl. Phys. 22, 78 (1961). doi:10.1016/0029-5582(61)90364-9
E. R. Davidson, J. Comput. Phys. 17, 87 (1975). doi:10.1016/0021-9991(75)90065-0
J. Olsen, H. J. Aa. Jensen, P. Joergensen, J. Comput. Phys. 74, 265 (1988). doi:10.1016/0021-9991(88)90081-2
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg

from dftfd.errors import NotConvergedError, UnsupportedError

SMALLEST = 1e-8
"""Length of what is new in a vector, as a share of it, below which it is rounding."""

FALL, MOST_CHEAPER = 1e-3, 20
"""By which share cheaper operators may let residuals fall at a time, and with how many products for each root."""

MAX_CHEAPER = 500
"""Products with cheaper operators in one step of a driven response."""

FLOOR = 0.02
"""Smallest difference [hartree] that a residual is divided by."""


class Operators(Protocol):
    """Products of vectors (trial, size) with M, N and A. gaps: orbital energy differences (size,) [hartree].

    is_local: N is the diagonal `gaps`.
    """

    gaps: np.ndarray
    is_local: bool

    def real(self, X: np.ndarray) -> np.ndarray: ...
    def imaginary(self, X: np.ndarray) -> np.ndarray: ...
    def tamm_dancoff(self, X: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class Roots:
    """values: w (root,) [hartree].   R, L: X + Y and X - Y (root, size) with R . L = 1.   residuals: (root,).

    products: how many vectors were multiplied.
    """

    values: np.ndarray
    R: np.ndarray
    L: np.ndarray
    residuals: np.ndarray
    products: int


class _Space:
    """Orthonormal vectors V (k, size) and their products with an operator."""

    def __init__(self, operator: Callable, size: int):
        self._operator = operator
        self.V, self.products, self.count = np.zeros((0, size)), np.zeros((0, size)), 0

    def extend(self, vectors) -> int:
        """Adds what is new in vectors (trial, size); returns how many that were."""
        kept = self.V
        for vector in vectors:
            vector = vector / max(np.linalg.norm(vector), np.finfo(float).tiny)
            for _ in range(2):  # once more, against rounding
                vector = vector - (kept @ vector) @ kept
                size = np.linalg.norm(vector)
                if size < SMALLEST:
                    break
                vector = vector / size
            else:
                kept = np.vstack([kept, vector])
        new = kept[len(self.V) :]
        if len(new):
            self.products = np.vstack([self.products, self._operator(new)])
        self.V, self.count = kept, self.count + len(new)
        return len(new)

    def projected(self) -> np.ndarray:
        """V P V^T, symmetric."""
        H = self.V @ self.products.T
        return (H + H.T) / 2

    def restart(self, vectors) -> None:
        """Keeps the span of vectors within the space alone."""
        c = scipy.linalg.orth((vectors @ self.V.T).T).T
        self.V, self.products = c @ self.V, c @ self.products


@dataclass(frozen=True, eq=False)
class _Approximation:
    """values w, vectors R and L, and what is left of both equations."""

    values: np.ndarray
    R: np.ndarray
    L: np.ndarray
    rest_R: np.ndarray
    rest_L: np.ndarray

    @property
    def residuals(self):
        lengths = np.sqrt((np.abs(self.R) ** 2).sum(1) + (np.abs(self.L) ** 2).sum(1))
        return np.sqrt((self.rest_R**2).sum(1) + (self.rest_L**2).sum(1)) / np.maximum(lengths, 1e-300)


class _Pair:
    """The spaces of R and of L."""

    def __init__(self, operators: Operators, tda: bool):
        size = len(operators.gaps)
        self.gaps, self.tda, self.local = operators.gaps, tda, operators.is_local or tda
        self.U = _Space(operators.tamm_dancoff if tda else operators.real, size)
        self.W = None if self.local else _Space(operators.imaginary, size)

    @property
    def count(self):
        """Products that were made; those with N, which take no grid, in the place of as many with M."""
        return self.U.count

    def extend(self, R, L) -> int:
        new = self.U.extend(R)
        return new + (0 if self.W is None else self.W.extend(L))

    def restart(self, R, L):
        self.U.restart(R)
        if self.W is not None:
            self.W.restart(L)

    def lowest(self, n: int) -> _Approximation:
        """The n lowest solutions within the spaces."""
        U, H = self.U, self.U.projected()
        if self.tda:
            values, a = scipy.linalg.eigh(H, subset_by_index=(0, min(n, len(H)) - 1))
            R, rest = a.T @ U.V, a.T @ U.products
            rest = rest - values[:, None] * R
            return _Approximation(values, R, R, rest, np.zeros_like(R))
        inverse = self._inverse_of_N()
        m = len(H)
        try:
            squares, a = scipy.linalg.eigh(inverse, H, subset_by_index=(m - min(n, m), m - 1))
        except np.linalg.LinAlgError as error:
            raise _unstable() from error
        if not np.all(squares > 0):
            raise _unstable()
        values, a = 1.0 / np.sqrt(squares[::-1]), a[:, ::-1]
        a = a * np.sqrt(values)
        R, MR, w = a.T @ U.V, a.T @ U.products, values[:, None]
        L, NL = self._partners(w * a.T)
        return _Approximation(values, R, L, MR - w * L, NL - w * R)

    def _inverse_of_N(self):
        """N^-1 between the vectors of U, as far as W knows it."""
        if self.W is None:
            return (self.U.V / self.gaps) @ self.U.V.T
        S = self.U.V @ self.W.V.T
        try:
            return S @ scipy.linalg.cho_solve(scipy.linalg.cho_factor(self.W.projected()), S.T)
        except np.linalg.LinAlgError as error:
            raise _unstable() from error

    def _partners(self, a):
        """L = N^-1 R and N L for R = a U, within W."""
        if self.W is None:
            R = a @ self.U.V
            return R / self.gaps, R
        S = self.U.V @ self.W.V.T
        b = scipy.linalg.solve(self.W.projected(), S.T @ a.T, assume_a="pos").T
        return b @ self.W.V, b @ self.W.products

    def driven(self, G, omega: float) -> _Approximation:
        """R and L of M R - omega L = -G, N L = omega R within the spaces."""
        H = self.U.projected() - (omega**2 * self._inverse_of_N() if omega else 0.0)
        a = scipy.linalg.solve(H, -self.U.V @ G.T, assume_a="sym").T
        R, MR = a @ self.U.V, a @ self.U.products
        L, NL = self._partners(omega * a) if omega else (np.zeros_like(R), np.zeros_like(R))
        return _Approximation(np.full(len(G), omega), R, L, MR - omega * L + G, NL - omega * R)

    def corrections(self, found: _Approximation, which):
        """What the diagonal of the equations makes of what is left of them, for R and for L."""
        w, r1, r2, gaps = found.values[which, None], found.rest_R[which], found.rest_L[which], self.gaps
        if self.tda:
            return _divided(r1, gaps - w, FLOOR), None
        denominator = gaps**2 - w**2
        least = FLOOR * np.maximum(gaps, w)
        return _divided(gaps * r1 + w * r2, denominator, least), _divided(gaps * r2 + w * r1, denominator, least)


def _divided(x, y, least):
    return x / np.where(np.abs(y) < least, np.where(y < 0, -least, least), y)


def _unstable():
    return UnsupportedError(
        "the ground state is not a minimum: the Hessian of its orbitals has an eigenvalue below zero, or "
        "of zero as in a degenerate state, so excitation energies are not real. Continue from "
        "result.stability().guess, or use tda=True."
    )


class _Corrected:
    """Operators that are the full ones on the spaces of a pair and cheaper ones elsewhere, which stand in for those.

    With E = (M - M_0) U on the orthonormal U: M_0 + E U^T + U E^T - U (U^T E) U^T, symmetric and M on U.
    """

    def __init__(self, cheaper: Operators, pair: _Pair):
        self.gaps, self.is_local, self._tda = cheaper.gaps, cheaper.is_local, pair.tda
        self._main = _corrected(cheaper.tamm_dancoff if pair.tda else cheaper.real, pair.U)
        self.real = self.tamm_dancoff = self._main
        self.imaginary = cheaper.imaginary if pair.W is None else _corrected(cheaper.imaginary, pair.W)


def _corrected(operator: Callable, space: _Space) -> Callable:
    if not len(space.V):
        return operator
    U, E = space.V, space.products - operator(space.V)
    G = E @ U.T

    def product(X):
        inside = X @ U.T
        return operator(X) + inside @ E + (X @ E.T - inside @ G) @ U

    return product


def lowest_roots(
    operators: Operators,
    start,
    n: int,
    tda: bool,
    tolerance: float,
    max_products: int,
    note: Callable[[str], None],
    cheaper: Operators | None = None,
) -> Roots:
    """The n lowest excitations; `residuals` tell of those that have not converged within `max_products`.

    start: vectors (R, L), k >= n of each.   tolerance: of the residuals [hartree], of vectors of length one.
    cheaper: operators close to the others. Then corrections are not those of the diagonal, but roots of the cheaper
    ones, put right where the full products are known: a few full products are enough.
    """
    pair, size, silent = _Pair(operators, tda), len(operators.gaps), lambda text: None
    pair.extend(*start)
    largest = max(8 * n, 60, 2 * len(start[0]))
    while True:
        found = pair.lowest(n)
        open_ones = np.flatnonzero(found.residuals > tolerance)
        note(
            f"{len(found.values) - len(open_ones)} of {n} roots, {pair.count} products, largest residual "
            f"{found.residuals.max():.1e}, {found.values[0]:.6f} to {found.values[-1]:.6f} hartree"
        )
        if not len(open_ones) or pair.count >= max_products:
            break
        if cheaper is None:
            R, L = pair.corrections(found, open_ones)
        else:
            limit, until = MOST_CHEAPER * n, max(0.3 * tolerance, FALL * found.residuals.max())
            inner = _Corrected(cheaper, pair), (found.R, found.L), n, tda, until, limit, silent
            better = lowest_roots(*inner)
            R, L = better.R[open_ones], better.L[open_ones]
        if len(pair.U.V) + len(R) > min(largest, size):
            kept = pair.lowest(min(size, n + max(4, n // 2)))
            pair.restart(kept.R, kept.L)
        if not pair.extend(R, L):
            break
    return Roots(found.values, found.R, found.L, found.residuals, pair.count)


def driven_response(
    operators: Operators,
    G,
    omega: float,
    tolerance: float,
    max_products: int,
    note: Callable[[str], None],
    cheaper: Operators | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """R and L (k, size) of M R - omega L = -G, N L - omega R = 0, for all G (k, size) at once.

    tolerance: of what is left of the equations, as a share of the length of each G.   cheaper: as of `lowest_roots`.
    Raises NotConvergedError.
    """
    lengths = np.linalg.norm(G, axis=1)
    given, G, solution = lengths > 0, G[lengths > 0], np.zeros((2, *G.shape))
    pair, omegas = _Pair(operators, False), np.full(len(G), omega)
    found, rest = _Approximation(omegas, 0 * G, 0 * G, G, 0 * G), np.ones(len(G))
    while len(open_ones := np.flatnonzero(rest > tolerance)):
        if cheaper is None:
            R, L = pair.corrections(found, open_ones)
        else:
            inner = _Corrected(cheaper, pair), G[open_ones], omega, max(0.3 * tolerance, FALL * rest.max()), MAX_CHEAPER
            R, L = driven_response(*inner, lambda text: None)
            R, L = R - found.R[open_ones], L - found.L[open_ones]  # what is new in them would pass for rounding
        new = pair.extend(R, L if omega else L[:0])
        if not new or pair.count >= max_products:
            raise NotConvergedError(
                f"the response at omega = {omega:g} hartree has a residual of {rest.max():.1e} after {pair.count} "
                "products: omega may lie at an excitation energy, or the state is nearly unstable."
            )
        found = pair.driven(G, omega)
        rest = np.sqrt((found.rest_R**2).sum(1) + (found.rest_L**2).sum(1)) / lengths[given]
        note(f"response: {pair.count} products, largest residual {rest.max():.1e}")
    solution[:, given] = found.R, found.L
    return solution[0], solution[1]
