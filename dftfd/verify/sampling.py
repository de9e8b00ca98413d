"""Where functionals are compared: points in libxc's variables, and analytic densities."""

import math

import jax.numpy as jnp
import numpy as np

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

_K_F = (6 * math.pi**2) ** (1 / 3)  # k_F = K rho_s^(1/3) of one spin
_TAU_UNIFORM = 0.3 * (6 * math.pi**2) ** (2 / 3)


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
    if n_spin == 1:
        zeta = np.zeros(count)
    rho = 0.5 * n * np.stack([1 + zeta, 1 - zeta])
    gradient = rng.uniform(0.02, LARGEST_S, (2, count)) * 2 * _K_F * rho ** (4 / 3)
    cosine = rng.uniform(-0.95, 0.95, count)
    tau = gradient**2 / (8 * rho) + rng.uniform(0, 5, (2, count)) * _TAU_UNIFORM * rho ** (5 / 3)
    laplacian = rng.uniform(-3, 3, (2, count)) * 4 * _K_F**2 * rho ** (5 / 3)
    if n_spin == 1:
        return np.stack([n, (2 * gradient[0]) ** 2, 2 * laplacian[0], 2 * tau[0]])
    sigma = np.stack([gradient[0] ** 2, gradient[0] * gradient[1] * cosine, gradient[1] ** 2])
    return np.concatenate([rho, sigma, laplacian, tau])


def describe(n_spin: int, x: np.ndarray) -> str:
    """A point of `sample` in words: density, polarisation, reduced gradient of the total density."""
    if n_spin == 1:
        n, sigma = x[0], x[1]
        text = f"n = {n:.2e}"
    else:
        n, sigma = x[0] + x[1], x[2] + 2 * x[3] + x[4]
        text = f"n = {n:.2e}, zeta = {(x[0] - x[1]) / n:+.4f}"
    return f"{text}, s = {math.sqrt(max(sigma, 0.0)) / (2 * (3 * math.pi**2 * n) ** (1 / 3) * n):.2f}"


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
