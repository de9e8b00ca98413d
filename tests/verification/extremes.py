"""Where densities are extreme: points far beyond molecules, and whether energies and derivatives are finite there."""

import math

import numpy as np

from dftfd.functionals.base import Functional
from dftfd.verify.sampling import variables
from dftfd.xc.code import CHUNK
from dftfd.xc.pointwise import pointwise_kernel


def extreme_points(count: int, seed: int = 1) -> np.ndarray:
    """Points (9, count) in the two-spin variables of `dftfd.xc.pointwise`, the same at every call.

    n: 1e-30 to 1e6.   zeta: a quarter each 0, anywhere, 1 - |zeta| = 1e-16 to 1, and exactly +-1.
    s of each spin: 1e-6 to 1e3, a sixth 0.   Gradients: at any angle, a tenth parallel, a tenth opposite.
    alpha of each spin: 1e-4 to 1e4; a tenth 0, a fifth with tau below tau_W, half of that tau = 0.
    Reduced Laplacian: 1e-4 to 1e3 of either sign, a tenth 0.
    """
    rng = np.random.default_rng(seed)
    log_uniform = lambda low, high, shape: 10 ** rng.uniform(math.log10(low), math.log10(high), shape)
    n, kind = log_uniform(1e-30, 1e6, count), rng.integers(4, size=count)
    minority = np.choose(kind, [np.full(count, 0.5), rng.uniform(0, 0.5, count), log_uniform(1e-16, 1, count) / 2, 0.0])
    rho = n * rng.permuted(np.stack([1 - minority, minority]), axis=0)
    chance = lambda: rng.uniform(size=(2, count))
    s = np.where(chance() < 1 / 6, 0.0, log_uniform(1e-6, 1e3, (2, count)))
    alpha = np.where(chance() < 0.1, 0.0, log_uniform(1e-4, 1e4, (2, count)))
    below, tau_W = chance(), 5 / 3 * s**2
    alpha = np.where(below < 0.1, -tau_W, np.where(below < 0.2, -chance() * tau_W, alpha))
    q = np.where(chance() < 0.1, 0.0, rng.choice([-1, 1], (2, count)) * log_uniform(1e-4, 1e3, (2, count)))
    angle = rng.uniform(size=count)
    cosine = np.where(angle < 0.1, 1.0, np.where(angle < 0.2, -1.0, rng.uniform(-1, 1, count)))
    return variables(rho, s, alpha, q, cosine)


def tail_points(count: int, seed: int = 1) -> np.ndarray:
    """Points (9, count) as in the tails of molecules and atoms, where s grows without limit, the same at every call.

    n of each spin: 1e-30 to 1e-3, two fifths the same in both, a seventh absent.   k = |nabla n| / 2n: 0.01 to 100.
    Gradients: parallel, opposite (they cancel exactly where the spins are alike), or at an angle.
    tau: tau_W = k^2 n / 2 to 100 tau_W.   Laplacian: 4 k^2 n of either sign.
    """
    rng = np.random.default_rng(seed)
    n, k = 10 ** rng.uniform(-30, -3, (2, count)), 10 ** rng.uniform(-2, 2, (2, count))
    alike = rng.uniform(size=count) < 0.4
    n[1], k[1] = np.where(alike, n[0], n[1]), np.where(alike, k[0], k[1])
    n[1] = np.where(rng.uniform(size=count) < 1 / 7, 0.0, n[1])
    gradient, cosine = 2 * k * n, rng.choice([1.0, 1.0, 1.0, -1.0, 0.3, 0.0], count)
    sigma = np.stack([gradient[0] ** 2, gradient[0] * gradient[1] * cosine, gradient[1] ** 2])
    tau = 0.5 * k * k * n * 10 ** rng.choice([0, 0, 0, 0.5, 1, 2], (2, count))
    return np.concatenate([n, sigma, rng.choice([-1, 1, 1], (2, count)) * 4 * k * k * n, tau])


def directions(x: np.ndarray, count: int, used: tuple[int, ...], seed: int = 2) -> np.ndarray:
    """(count, variable, point): at half of the points one of the variables `used` alone, each time another one.

    There derivatives are those with respect to single variables. At the other points each variable changes by a random
    part of itself, so that every cross derivative is in the result.
    """
    rng = np.random.default_rng(seed)
    parts = x * rng.uniform(-1, 1, (count, *x.shape))
    chosen = rng.choice(used, (count, 1, x.shape[1]))
    alone = np.arange(len(x))[:, None] == chosen
    return np.where(rng.uniform(size=x.shape[1]) < 0.5, alone, parts)


def highest_order(functional: Functional) -> int:
    """Order of derivatives that has to be finite: 4 for LDA and GGA, 3 where Laplacian or tau is an ingredient."""
    ingredients = pointwise_kernel(functional.semilocal_part, 2).ingredients
    return 3 if {"lapl", "tau"} & set(ingredients) else 4


def not_finite(functional: Functional, x: np.ndarray, order: int) -> list[np.ndarray]:
    """For each order of derivatives, from 0 to `order`, the points (point,) at which one is not finite.

    First derivatives are with respect to each variable; higher ones are their derivatives along `directions`.
    """
    kernel = pointwise_kernel(functional.semilocal_part, 2)
    found: list[list] = [[] for _ in range(order + 1)]
    step = 64 * CHUNK
    for start in range(0, x.shape[1], step):
        block = x[:, start : start + step]
        values_by_order = kernel.along(block, directions(block, order - 1, kernel.used, seed=start))
        for places, values in zip(found, values_by_order, strict=True):
            wrong = ~np.isfinite(values).reshape(-1, block.shape[1]).all(axis=0)
            places.append(start + np.flatnonzero(wrong))
    return [np.concatenate(places) for places in found]
