"""Systems with known exact conditions: the electron gas, and one orbital exp(-Z r)."""

import math
from dataclasses import replace
from functools import cache

import numpy as np

from dftfd.functionals.base import Functional
from dftfd.verify.sampling import total_variables, uniform_density, variables
from dftfd.xc.pointwise import pointwise_kernel

C_X = -0.75 * (3 / math.pi) ** (1 / 3)
"""Exchange of the uniform gas: e_x = C_x n^(4/3)."""
C_F = 0.3 * (3 * math.pi**2) ** (2 / 3)
"""Kinetic energy of the uniform gas: t = C_F n^(5/3)."""


def energy(functional: Functional, x) -> np.ndarray:
    """Energy per volume (point,) of a semilocal functional at x, the variables of one spin (4, point) or two."""
    n_spin = 1 if len(x) == 4 else 2
    alone = lambda term: replace(functional, terms=((1.0, term),))  # so that sums share what was made of their terms
    return sum(c * pointwise_kernel(alone(term), n_spin)(x, 0, compiled=False)[0][0] for c, term in functional.terms)


def gas(rs, s=0.0, alpha=1.0, q=0.0) -> np.ndarray:
    """(4, point), the electron gas of r_s [bohr], s, alpha and the reduced Laplacian q, without polarisation."""
    rs, s, alpha, q = np.broadcast_arrays(*(np.atleast_1d(np.asarray(a, float)) for a in (rs, s, alpha, q)))
    return total_variables(uniform_density(rs), s, alpha, q)


def uniform_gas(rs, fraction) -> np.ndarray:
    """(9, point), the uniform gas of r_s (point,) in which alpha is the given fraction of the density."""
    ones = np.ones((2, len(rs)))
    return variables(uniform_density(rs) * np.stack([fraction, 1 - fraction])[:, None], 0 * ones, ones, 0 * ones, 1.0)


def _with_unused(rows, used, x):
    """Rows of all variables, zero for those that the energy does not depend on."""
    full = np.zeros_like(x)
    full[list(used)] = rows
    return full


_gauss_legendre = cache(np.polynomial.legendre.leggauss)
"""Nodes and weights on [-1, 1] by their number, whose eigenvalue problem takes longer than what they serve here."""


class OneOrbital:
    """One (alpha) or two electrons in the orbital exp(-Z r): n = N Z^3 / pi exp(-2 Z r), with a radial quadrature."""

    def __init__(self, n_electrons: int, Z: float, count: int = 200):
        self.N, self.Z = n_electrons, Z
        x, w = _gauss_legendre(count)
        u = 0.5 * (x + 1)
        self.r = u / (1 - u) / Z
        self.weights = 0.5 * w / (1 - u) ** 2 / Z * 4 * math.pi * self.r**2
        self.n = n_electrons * Z**3 / math.pi * np.exp(-2 * Z * self.r)

    def energy(self, functional: Functional) -> float:
        """Semilocal energy [hartree]."""
        n, Z = self.n, self.Z
        slope, lapl, tau = -2 * Z * n, 4 * Z * n * (Z - 1 / self.r), 0.5 * Z**2 * n
        if self.N == 2:
            return float(self.weights @ energy(functional, np.stack([n, slope**2, lapl, tau])))
        zero = np.zeros_like(n)
        x = np.stack([n, zero, slope**2, zero, zero, lapl, zero, tau, zero])
        return float(self.weights @ energy(functional, x))

    def exact_exchange(self, omega: float) -> float:
        r"""Exact exchange [hartree] with the operator 1/r (omega = 0) or erf(omega r)/r.

        -N/2 \int\int phi^2 phi'^2 w(|r - r'|) = -N / pi \int F(k)^2 exp(-k^2 / 4 omega^2) dk,   F = (1 + k^2/4Z^2)^-2
        """
        x, w = _gauss_legendre(200)
        u = 0.5 * (x + 1)
        k = 2 * self.Z * u / (1 - u)
        screened = np.exp(-((k / (2 * omega)) ** 2)) if omega else 1.0
        return float(
            -self.N / math.pi * np.sum(self.Z * w / (1 - u) ** 2 * (1 + (k / (2 * self.Z)) ** 2) ** -4 * screened)
        )

    def potential(self, functional: Functional) -> np.ndarray:
        r"""v_alpha [hartree] at self.r: the derivative with respect to the density, tau being that of one orbital.

        v = e_n - 1/r^2 d/dr (r^2 e_g) + 1/r^2 d/dr (r^2 d/dr e_l),   e(n, g, l) with g = n', l = n'' + 2 n' / r
        """
        kernel, r, Z = pointwise_kernel(functional, 3 - self.N), self.r, self.Z
        shares, products = (
            np.array(x)[:, None] for x in ([[1.0, 0.0], [1.0, 0.0, 0.0]] if self.N == 1 else [[1.0]] * 2)
        )
        rows = lambda n, sigma, l, tau: np.concatenate([shares * n, products * sigma, shares * l, shares * tau])
        n, slope, second = self.n, -2 * Z * self.n, 4 * Z**2 * self.n  # n, g = n', n''
        tau, zero = Z**2 / 2 * n, np.zeros_like(n)
        l = 4 * Z * n * (Z - 1 / r)
        l_1 = 4 * Z * (slope * (Z - 1 / r) + n / r**2)
        l_2 = 4 * Z * (second * (Z - 1 / r) + 2 * slope / r**2 - 2 * n / r**3)
        x = rows(n, slope**2, l, tau)
        x_1 = rows(slope, 2 * slope * second, l_1, -2 * Z * tau)
        x_2 = rows(second, 16 * Z**2 * slope**2, l_2, 4 * Z**2 * tau)  # n'^2 falls as exp(-4 Z r)
        # tau = n'^2 / 8 n: its derivatives by n and n' are constant here, as n' / n is
        by_n, by_g = rows(zero + 1, zero, zero, zero - Z**2 / 2), rows(zero, 2 * slope, zero, zero - Z / 2)
        by_g_1 = rows(zero, 2 * second, zero, zero)
        by_l = rows(zero, zero, zero + 1, zero)

        def along(*directions):
            _, *found = kernel.along(x, np.stack(directions))
            return [_with_unused(rows, kernel.used, x) for rows in found]

        s, s_1 = along(x_1)
        e_g, e_g_1 = np.sum(s * by_g, axis=0), np.sum(s_1 * by_g + s * by_g_1, axis=0)
        v = np.sum(s * by_n, axis=0) - e_g_1 - 2 * e_g / r
        if "lapl" in kernel.ingredients:
            e_l_2 = np.sum((along(x_1, x_1)[2] + along(x_2)[1]) * by_l, axis=0)
            v += e_l_2 + 2 * np.sum(s_1 * by_l, axis=0) / r
        return v

    def virial(self, functional: Functional) -> float:
        r"""-\int n r . grad v = \int v (3 n + r n') [hartree]."""
        integrand = self.potential(functional) * (3 - 2 * self.Z * self.r) * self.n
        return float(self.weights @ np.where(self.n > 1e-16, integrand, 0.0))
