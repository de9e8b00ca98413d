"""Where functionals are looked at: points in libxc's variables, made of reduced ones, and analytic densities.

Every sample of the package goes through `variables` or `total_variables`, those of the tests (tests/verification) too.
"""

import functools
import math

import jax.numpy as jnp
import numpy as np

from dftfd.xc.channels import MEMBERS, of_spin

REGIONS = {
    "dense": ((1e-3, 1e3), (0.1, 1.0)),
    "dilute": ((2e-7, 1e-3), (0.1, 1.0)),
    "polarised": ((1e-3, 1e3), (1e-4, 0.1)),
}
"""Ranges of the total density n [bohr^-3] and of 1 - |zeta|. Core and valence are dense, the tails dilute.

No spin density is below 1e-8, where libxc's own thresholds begin to count.
"""

LARGEST_S = 5.0
"""Largest reduced gradient s of each spin. Molecules stay below 3 where it matters."""

EDGES = ("n = 0", "n = 1e-14", "gradient zero", "fully polarised", "one orbital (tau = tau_W)")

K_F = (6 * math.pi**2) ** (1 / 3)
"""k_F = K_F rho^(1/3) of one spin."""


def variables(rho, s, alpha, q, cosine) -> np.ndarray:
    """Points (9, point) of density, s, alpha = (tau - tau_W) / tau_unif and reduced Laplacian of each spin, (2, point).

    cosine: of the angle between the gradients. tau is 0 where alpha is that of tau = 0, up to rounding.
    """
    gradient, tau_unif = s * 2 * K_F * rho ** (4 / 3), 0.3 * K_F**2 * rho ** (5 / 3)
    sigma = np.stack([gradient[0] ** 2, gradient[0] * gradient[1] * cosine, gradient[1] ** 2])
    tau = np.maximum(5 / 3 * s**2 + alpha, 0.0) * tau_unif
    return np.concatenate([rho, sigma, q * 4 * K_F**2 * rho ** (5 / 3), tau])


def total_variables(n, s, alpha, q) -> np.ndarray:
    """The same of a total density without polarisation: (4, point) of (point,)."""
    twice = lambda x: np.stack([x, x])
    x = variables(twice(n / 2), twice(s), twice(alpha), twice(q), 1.0)
    return np.stack([n, 4 * x[2], 2 * x[5], 2 * x[7]])


def equal_spins(x) -> np.ndarray:
    """The variables (9, point) of two spins that unpolarised ones (4, point) are the total of."""
    n, sigma, lapl, tau = x
    return np.stack([n / 2, n / 2, sigma / 4, sigma / 4, sigma / 4, lapl / 2, lapl / 2, tau / 2, tau / 2])


def sample(n_spin: int, region: str, count: int = 400, seed: int = 7) -> np.ndarray:
    """Points (variable, count) in the variables of dftfd.interop.libxc, the same at every call.

    n and 1 - |zeta| are log-uniform in their ranges; s is uniform from 0.02 to 5 in each spin, with any angle between
    the gradients; tau is that of von Weizsaecker plus up to five times that of the uniform gas; the reduced Laplacian
    is uniform in (-3, 3).
    """
    rng = np.random.default_rng(seed)
    exponents = (np.log10(limits) for limits in REGIONS[region])
    n, distance = (10 ** rng.uniform(low, high, count) for low, high in exponents)
    zeta = rng.choice([-1.0, 1.0], count) * (1 - distance)
    s, cosine = rng.uniform(0.02, LARGEST_S, (2, count)), rng.uniform(-0.95, 0.95, count)
    alpha, q = rng.uniform(0, 5, (2, count)), rng.uniform(-3, 3, (2, count))
    if n_spin == 1:
        return total_variables(n, s[0], alpha[0], q[0])
    return variables(0.5 * n * np.stack([1 + zeta, 1 - zeta]), s, alpha, q, cosine)


@functools.cache
def wide_sample(count: int = 4000):
    """Unpolarised and polarised points: r_s 0.05 to 20, s to 50, alpha 0 to 5, q -1 to 3, any polarisation."""
    rng = np.random.default_rng(17)
    few = count // 4
    gradient = lambda: np.concatenate([rng.uniform(0, 5, count - few), np.exp(rng.uniform(np.log(5), np.log(50), few))])
    reduced = lambda: (gradient(), rng.uniform(0, 5, count), rng.uniform(-1, 3, count))
    n = uniform_density(np.exp(rng.uniform(np.log(0.05), np.log(20), count)))
    fraction = rng.uniform(0, 1, count) ** 3 * (1 - 2e-6) + 1e-6
    one = total_variables(n, *reduced())
    s, alpha, q = map(np.stack, zip(reduced(), reduced(), strict=True))
    return one, variables(n * np.stack([fraction, 1 - fraction]), s, alpha, q, rng.uniform(-1, 1, count))


def uniform_density(rs):
    """n [bohr^-3] of the Wigner-Seitz radius r_s [bohr]."""
    return 3 / (4 * math.pi * rs**3)


def wigner_seitz(n):
    """r_s [bohr] of n [bohr^-3]."""
    return (3 / (4 * math.pi * n)) ** (1 / 3)


def total_density(x) -> np.ndarray:
    """n (point,) of points with one spin or two."""
    return x[0] if len(x) == 4 else x[0] + x[1]


def total_reduced_gradient(x) -> np.ndarray:
    """s (point,) of the total density."""
    sigma = x[1] if len(x) == 4 else np.maximum(x[2] + 2 * x[3] + x[4], 0.0)
    return np.sqrt(sigma) / (2 * (3 * math.pi**2) ** (1 / 3) * total_density(x) ** (4 / 3))


def inner_points(n_spin: int, count: int) -> np.ndarray:
    """Points of the dense and dilute regions; angles and tau leave room for steps of a tenth in each variable."""
    x = np.concatenate([sample(n_spin, region, count) for region in ("dense", "dilute")], axis=1)
    if n_spin == 1:
        x[3] += 0.5 * x[1] / (8 * x[0])
    else:
        x[3] *= 0.8
        x[7:9] += 0.5 * x[[2, 4]] / (8 * x[:2])
    return x


def edge_points(n_spin: int) -> np.ndarray:
    """(variable, point), one for each of EDGES; the fully polarised one is no edge of a total density."""
    x = sample(n_spin, "dense", len(EDGES), seed=3)
    spins, sigma, tau = (list(MEMBERS[n_spin][family]) for family in ("rho", "sigma", "tau"))
    x[:, 0] = 0.0
    x[:, 1] *= 1e-14 / x[spins, 1].sum()
    x[sigma, 1] *= 1e-14
    x[sigma, 2] = 0.0
    if n_spin == 2:
        x[list(of_spin(1, 2)), 3] = 0.0
    x[tau, 4] = x[sigma, 4][::2] / (8 * x[spins, 4])  # of two spins, aa and bb
    return x


def describe(x: np.ndarray) -> str:
    """A point of `sample` in words: density, polarisation, reduced gradient of the total density."""
    n = total_density(x)
    zeta = f", zeta = {(x[0] - x[1]) / n:+.4f}" if len(x) == 9 else ""
    return f"n = {n:.2e}{zeta}, s = {total_reduced_gradient(x):.2f}"


# ---- analytic densities R^3 -> R^2, one formula whose program serves all; all points lie where they exceed 1e-6


def analytic_density(gaussian_weights, exponents, centres, atom_weights, decay, r):
    """Spin densities (2,) at r (3,): Gaussians exp(-a |r - R|^2) on centres, shells exp(-k |r|) of an atom."""
    gaussians = gaussian_weights @ jnp.exp(-exponents * jnp.sum((r[None, :] - centres) ** 2, axis=1))
    return gaussians + atom_weights @ jnp.exp(-decay * jnp.sqrt(jnp.sum(r**2)))


_EXPONENTS = np.array([2.0, 0.8, 0.5])
_CENTRES = np.array([[0.0, 0.0, 0.0], [0.0, 0.9, 1.1], [0.3, -1.2, 0.8]])
_DECAY = np.array([13.4, 3.9])

ANALYTIC_DENSITIES = {
    "Gaussians": (np.array([[1.5, 0.4, 0.30], [1.2, 0.2, 0.25]]), _EXPONENTS, _CENTRES, np.zeros((2, 2)), _DECAY),
    "Slater atom": (np.zeros((2, 3)), _EXPONENTS, _CENTRES, np.array([[90.0, 5.0], [90.0, 2.0]]), _DECAY),
}
"""Parameters of `analytic_density`: three centres with more alpha than beta, and an atom of nitrogen's size."""


def points_around(count: int = 60, seed: int = 11) -> np.ndarray:
    """Points (count, 3) [bohr] at distances 0.05 to 3 from the origin, in all directions."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    return directions * rng.uniform(0.05, 3.0, count)[:, None]
