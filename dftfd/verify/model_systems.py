"""Systems with known exact conditions: the electron gas with given reduced variables, and one orbital exp(-Z r)."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.functionals.base import Functional
from dftfd.xc.pointwise import pointwise_kernel

C_X = -0.75 * (3 / math.pi) ** (1 / 3)
"""Exchange of the uniform gas: e_x = C_x n^(4/3)."""
C_F = 0.3 * (3 * math.pi**2) ** (2 / 3)
"""Kinetic energy of the uniform gas: t = C_F n^(5/3)."""

_K_F = (3 * math.pi**2) ** (1 / 3)


def energy(functional: Functional, rho, sigma, lapl, tau) -> np.ndarray:
    """Energy per volume (point,) of a semilocal functional, for one spin or two, arrays as libxc has them."""
    n_spin = 1 if np.ndim(rho) == 1 else 2
    x = np.concatenate([np.reshape(a, (-1, np.shape(rho)[-1])) for a in (rho, sigma, lapl, tau)])
    return pointwise_kernel(functional, n_spin)(x, 0, compiled=False)[0][0]


def gas(rs, s=0.0, alpha=1.0, q=0.0):
    """(rho, sigma, lapl, tau) of the total density for r_s [bohr], s, alpha and the reduced Laplacian q."""
    rs, s, alpha, q = np.broadcast_arrays(*(np.atleast_1d(np.asarray(a, float)) for a in (rs, s, alpha, q)))
    n = 3 / (4 * math.pi * rs**3)
    sigma = (2 * _K_F * s) ** 2 * n ** (8 / 3)
    return n, sigma, 4 * _K_F**2 * q * n ** (5 / 3), sigma / (8 * n) + alpha * C_F * n ** (5 / 3)


def polarised_gas(rs, fraction, s=(0.0, 0.0), alpha=(1.0, 1.0), q=(0.0, 0.0), cosine=1.0):
    """(rho, sigma, lapl, tau) of the spins, of which alpha is the given fraction of the density.

    s, alpha, q: reduced variables of each spin, those of the unpolarised density 2 rho_s.   cosine: between gradients.
    """
    parts = [
        gas(rs / np.cbrt(2 * f), *reduced) for f, *reduced in zip((fraction, 1 - fraction), s, alpha, q, strict=True)
    ]
    rho, sigma, lapl, tau = (np.stack(np.broadcast_arrays(*pair)) for pair in zip(*parts, strict=True))
    sigma = 0.25 * np.stack([sigma[0], np.sqrt(sigma[0] * sigma[1]) * cosine, sigma[1]])
    return 0.5 * rho, sigma, 0.5 * lapl, 0.5 * tau


def wigner_seitz(n):
    """r_s [bohr]."""
    return (3 / (4 * math.pi * n)) ** (1 / 3)


def total_reduced_gradient(sigma, n):
    """s of a total density with sigma = |grad n|^2."""
    return np.sqrt(sigma) / (2 * _K_F * n ** (4 / 3))


@functools.cache
def sample(count: int = 4000):
    """Unpolarised and polarised points: r_s 0.05 to 20, s to 50, alpha 0 to 5, q -1 to 3, any polarisation."""
    rng = np.random.default_rng(17)
    few = count // 4
    gradient = lambda: np.concatenate([rng.uniform(0, 5, count - few), np.exp(rng.uniform(np.log(5), np.log(50), few))])
    reduced = lambda: (gradient(), rng.uniform(0, 5, count), rng.uniform(-1, 3, count))
    rs = np.exp(rng.uniform(np.log(0.05), np.log(20), count))
    fraction = rng.uniform(0, 1, count) ** 3 * (1 - 2e-6) + 1e-6
    one = gas(rs, *reduced())
    s, alpha, q = zip(reduced(), reduced(), strict=True)
    return one, polarised_gas(rs, fraction, s, alpha, q, cosine=rng.uniform(-1, 1, count))


class OneOrbital:
    """One (alpha) or two electrons in the orbital exp(-Z r): n = N Z^3 / pi exp(-2 Z r), with a radial quadrature."""

    def __init__(self, n_electrons: int, Z: float, count: int = 200):
        self.N, self.Z = n_electrons, Z
        x, w = np.polynomial.legendre.leggauss(count)
        u = 0.5 * (x + 1)
        self.r = u / (1 - u) / Z
        self.weights = 0.5 * w / (1 - u) ** 2 / Z * 4 * math.pi * self.r**2
        self.n = n_electrons * Z**3 / math.pi * np.exp(-2 * Z * self.r)

    def energy(self, functional: Functional) -> float:
        """Semilocal energy [hartree]."""
        n, Z = self.n, self.Z
        slope, lapl, tau = -2 * Z * n, 4 * Z * n * (Z - 1 / self.r), 0.5 * Z**2 * n
        if self.N == 2:
            return float(self.weights @ energy(functional, n, slope**2, lapl, tau))
        zero = np.zeros_like(n)
        alpha = lambda a: np.stack([a, zero])
        return float(
            self.weights @ energy(functional, alpha(n), np.stack([slope**2, zero, zero]), alpha(lapl), alpha(tau))
        )

    def exact_exchange(self, omega: float) -> float:
        r"""Exact exchange [hartree] with the operator 1/r (omega = 0) or erf(omega r)/r.

        -N/2 \int\int phi^2 phi'^2 w(|r - r'|) = -N / pi \int F(k)^2 exp(-k^2 / 4 omega^2) dk,   F = (1 + k^2/4Z^2)^-2
        """
        x, w = np.polynomial.legendre.leggauss(200)
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
        kernel, N, Z = pointwise_kernel(functional, 2), self.N, self.Z
        shares = (1.0, 0.0) if N == 1 else (0.5, 0.5)

        def variables(n, g, l):
            both = lambda a: [share * a for share in shares]
            sigma = [s * t * g * g for s, t in ((shares[0], shares[0]), shares, (shares[1], shares[1]))]
            return [*both(n), *sigma, *both(l), *both(g * g / (8 * n))]

        def slope(k, r):
            n = N * Z**3 / math.pi * jnp.exp(-2 * Z * r)
            x = n, -2 * Z * n, 4 * Z * n * (Z - 1 / r)
            _, pull = jax.vjp(lambda *x: kernel.energy(variables(*x)), *x)
            return pull(jnp.ones_like(r))[k]

        derivative = lambda f: lambda r: jax.jvp(f, (r,), (jnp.ones_like(r),))[1]
        r = jnp.asarray(self.r)
        v = slope(0, r) - derivative(lambda r: r * r * slope(1, r))(r) / (r * r)
        if "lapl" in kernel.ingredients:
            v = v + derivative(lambda r: r * r * derivative(functools.partial(slope, 2))(r))(r) / (r * r)
        return np.asarray(v)

    def virial(self, functional: Functional) -> float:
        r"""-\int n r . grad v = \int v (3 n + r n') [hartree]."""
        integrand = self.potential(functional) * (3 - 2 * self.Z * self.r) * self.n
        return float(self.weights @ np.where(self.n > 1e-16, integrand, 0.0))
