r"""From a molecular grid to a few hundred weighted points that integrate smooth functions of the ingredients alike.

A semilocal energy sees a density through a measure in a few dimensions: sum_p w_p e_x(n_p) F_x(s^2_p, alpha_p) is a sum
over points in the plane (s^2, alpha), of both spins together by spin scaling. Points in the plane with other weights
replace it where they have the same moments

    sum_p w_p f_k(p) = sum_q W_q f_k(q),   W_q of the sign of w,

of polynomials f_k in x = s / (1 + s), y = alpha / (1 + alpha), for correlation also in r = r_s / (1 + r_s) and zeta^2.
Their number is at most that of the moments (Caratheodory, Tchakaloff), and since weights keep their sign the error of
any function is at most twice the measure times its distance from the polynomials. Three functions that grow as
s^(1/2) and s, as enhancement factors of GGAs in tails do, are added, for correlation the number of electrons.

Points of one small cell are first replaced by their centre; then 2 m groups at a time are reduced to m:
C. Litterer, T. Lyons, Ann. Appl. Probab. 22, 1301 (2012), doi:10.1214/11-AAP788.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from dftfd.functionals.common import C_F, C_X, FERMI
from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import GRADIENT, TAU, both_spins
from dftfd.xc.matrix import Scratch, density_jet
from dftfd.xc.pointwise import pointwise_kernel

LEVEL = 4
"""Grid level of the ingredients; the SCF may have a coarser grid, whose error in its density is of second order."""

EMPTY = 1e-20
"""Density [bohr^-3] up to which a point has no energy: 1e6 bohr^3 of it are 1e-14 electrons."""

X_DEGREES, C_DEGREES = (18, 30), (8, 3, 8, 12)
"""Degrees in (x, y) and in (r, zeta^2, x, y); of a product the parts of each degree sum to at most 1."""

X_CELLS, C_CELLS = (512, 512), (128, 24, 96, 96)
"""Cells whose points are replaced by their centre before."""

VACUUM = 1e-9
"""Spin density [bohr^-3] below which points are dropped."""

RANK = 1e-12
"""Eigenvalue of the functions' Gram matrix, relative to the largest, below which a combination of them is dropped."""


@dataclass(frozen=True)
class Ingredients:
    """The density of a molecule on a quadrature grid.

    weights: (point,) [bohr^3].   rho: (2, point) [bohr^-3].   sigma: (3, point), aa, ab, bb [bohr^-8].
    tau: (2, point), 1/2 sum occ |grad phi|^2 [hartree bohr^-3].
    """

    weights: np.ndarray
    rho: np.ndarray
    sigma: np.ndarray
    tau: np.ndarray

    def energy(self, xc) -> float:
        """Semilocal energy of a functional, of its name or itself, on this density [hartree]."""
        there = self.rho.sum(axis=0) > EMPTY
        rows = np.concatenate([self.rho, self.sigma, np.zeros_like(self.rho), self.tau])[:, there]
        (e_xc,) = pointwise_kernel(get_functional(xc).semilocal_part, 2)(rows, 0, compiled=False)
        return float(e_xc[0] @ self.weights[there])


def ingredients_on_grid(result, level: int = LEVEL) -> Ingredients:
    """Ingredients of an SCFResult's density on the grid of a level; NotConvergedError where it is no solution."""
    result.require_converged("the density on a grid")
    spins = zip(result.mo_coeff, result.mo_occ, strict=True)
    occupied = [C[:, occ > 0] * np.sqrt(occ[occ > 0]) for C, occ in spins]
    return ingredients_of_orbitals(result.molecule, occupied, level)


def ingredients_of_orbitals(molecule, occupied, level: int = LEVEL) -> Ingredients:
    """Ingredients of orbitals (ao, occupied) of each spin, columns times the root of their occupation.

    One spin is that of a closed shell, with occupations 2; its density is shared equally.
    """
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    store = AOStore(molecule, np.asarray(grid.points), np.asarray(grid.weights), 1, memory_limit=0)
    scratch, parts = Scratch(), []
    for index, block in enumerate(store.blocks):
        ao = store.values(index, scratch("values", store.scratch_size))
        jet = np.empty((len(occupied), 5, store.block_size))
        for s, C in enumerate(occupied):
            density_jet(ao, None, C[block.aos], 1, True, jet[s], scratch)
        parts.append(jet)
    jet = np.asarray(both_spins(np.concatenate(parts, axis=-1)))
    gradient = jet[:, GRADIENT]
    sigma = np.stack([np.sum(gradient[s] * gradient[t], axis=0) for s, t in ((0, 0), (0, 1), (1, 1))])
    weights = np.concatenate([block.weights for block in store.blocks])
    return Ingredients(weights, np.maximum(jet[:, 0], 0.0), sigma, np.maximum(jet[:, TAU], 0.0))


@dataclass(frozen=True)
class Measure:
    """Weighted points: weights (point,), and the variables (variable, point) that a formula takes there."""

    weights: np.ndarray
    variables: np.ndarray


def exchange_measure(density: Ingredients) -> Measure:
    """LDA exchange energies [hartree] as weights, of each spin by spin scaling, at (s^2, alpha)."""
    weights, variables = [], []
    for s in range(2):
        n, sigma, tau = 2 * density.rho[s], 4 * density.sigma[2 * s], 2 * density.tau[s]
        there = n > 2 * VACUUM
        n, sigma, tau = n[there], sigma[there], tau[there]
        weights.append(0.5 * C_X * density.weights[there] * n ** (4 / 3))
        variables.append(_semilocal(n, sigma, tau, 1.0))
    return Measure(np.concatenate(weights), np.concatenate(variables, axis=1))


def correlation_measure(density: Ingredients) -> Measure:
    """Electrons as weights at (r_s, |zeta|, s^2, alpha) of the total density."""
    there = density.rho.sum(axis=0) > 2 * VACUUM
    up, down = density.rho[:, there]
    n, zeta = up + down, np.abs(up - down) / (up + down)
    sigma, tau = np.array([1.0, 2.0, 1.0]) @ density.sigma[:, there], density.tau[:, there].sum(axis=0)
    d_s = 0.5 * ((1 + zeta) ** (5 / 3) + (1 - zeta) ** (5 / 3))
    r_s = (3 / (4 * np.pi * n)) ** (1 / 3)
    return Measure(density.weights[there] * n, np.stack([r_s, zeta, *_semilocal(n, sigma, tau, d_s)]))


def _semilocal(n, sigma, tau, d_s):
    s2 = sigma / (4 * FERMI ** (2 / 3) * n ** (8 / 3))
    return np.stack([s2, np.maximum(0.0, (tau - sigma / (8 * n)) / (C_F * n ** (5 / 3) * d_s))])


# ------------------------------------------------------------------------------------------------------------ mapping


def _mapped(variables):
    """Coordinates in [0, 1], s / (1 + s) and alpha / (1 + alpha), before them r_s / (1 + r_s) and zeta."""
    s, alpha = np.sqrt(variables[-2]), variables[-1]
    last = [s / (1 + s), alpha / (1 + alpha)]
    return np.stack([variables[0] / (1 + variables[0]), variables[1], *last] if len(variables) == 4 else last)


def _variables(coordinates):
    """The inverse of `_mapped`."""
    inverse = coordinates / (1 - coordinates)
    if len(coordinates) == 2:
        return np.stack([inverse[0] ** 2, inverse[1]])
    return np.stack([inverse[0], coordinates[1], inverse[2] ** 2, inverse[3]])


def _functions(coordinates, degrees) -> np.ndarray:
    """(function, point): polynomials, and for exchange what grows in tails."""
    points = np.array(coordinates)
    if len(points) == 4:
        points[1] **= 2
    powers = [chebvander(2 * x - 1, k).T for x, k in zip(points, degrees, strict=True)]
    found = []
    for exponents in itertools.product(*(range(k + 1) for k in degrees)):
        if sum(e / k for e, k in zip(exponents, degrees, strict=True)) < 1 + 1e-9:
            found.append(np.prod([power[e] for power, e in zip(powers, exponents, strict=True)], axis=0))
    if len(points) == 2:
        grows = 1 / np.sqrt(1 - np.minimum(points[0], 1 - 1e-9))  # (1 + s)^(1/2)
        found += [grows**k * powers[1][j] for k in (1, 2) for j in range(3)]
    else:  # the number of electrons
        r = coordinates[0]
        found.append(1 / _of_uniform_gas((r / (1 - r), coordinates[1])))
    return np.array(found)


def _of_uniform_gas(variables):
    """A measure of the correlation energy per electron that shapes the weights: |eps_c| of the uniform gas, roughly."""
    r_s, zeta = variables[0], variables[1]
    return 0.0311 * np.log1p(1 / (0.35 * r_s + 0.1 * np.sqrt(r_s))) * (1 - 0.5 * zeta**2)


# -------------------------------------------------------------------------------------------------------- compression


def compressed(measure: Measure, degrees=None, cells=None) -> Measure:
    """A few points with the same moments and weights of one sign; the same for the same measure.

    degrees, cells: of the polynomials and of the first reduction, X_DEGREES, ... by default.
    """
    is_exchange = len(measure.variables) == 2
    cells = cells or (X_CELLS if is_exchange else C_CELLS)
    sign = np.sign(measure.weights.sum()) or 1.0
    weights, coordinates = _centres(
        _scaled(sign * measure.weights, measure.variables), _mapped(measure.variables), cells
    )
    functions = _functions(coordinates, degrees or (X_DEGREES if is_exchange else C_DEGREES))
    found = recombined(_orthonormal(functions, weights, RANK), weights)
    chosen = np.flatnonzero(found)
    variables = _variables(coordinates[:, chosen])
    return Measure(sign * found[chosen] / _scaled(1.0, variables), variables)


def orthonormal_functions(weights, variables, rank=RANK) -> tuple[np.ndarray, np.ndarray]:
    """(functions (function, point), weights (point,) > 0): functions that points integrate, orthonormal by weights."""
    scaled = _scaled(np.abs(weights), variables)
    functions = _functions(_mapped(variables), X_DEGREES if len(variables) == 2 else C_DEGREES)
    return _orthonormal(functions, scaled, rank), scaled


def _scaled(weights, variables):
    """Weights of energies: those of electrons times roughly their correlation energy."""
    return weights * (np.ones(variables.shape[1]) if len(variables) == 2 else _of_uniform_gas(variables))


def _orthonormal(functions, weights, rank):
    values, vectors = np.linalg.eigh((functions * weights) @ functions.T)
    kept = values > rank * values[-1]
    return (vectors[:, kept] / np.sqrt(values[kept])).T @ functions


def _centres(weights, coordinates, cells):
    """Weights and centres of the cells that have points; cells of a sum that is not positive are dropped."""
    place = np.zeros(weights.shape, dtype=np.int64)
    for x, count in zip(coordinates, cells, strict=True):
        place = place * count + np.minimum((x * count).astype(np.int64), count - 1)
    _, cell = np.unique(place, return_inverse=True)
    total = np.bincount(cell, weights)
    there = total > 0
    centres = np.stack([np.bincount(cell, weights * x)[there] for x in coordinates]) / total[there]
    return total[there], np.clip(centres, 0.0, 1.0 - 1e-12)


def recombined(functions, weights) -> np.ndarray:
    """Weights (point,) >= 0, at most as many positive as functions (function, point), with the same sums."""
    weights = np.array(weights, dtype=float)
    m = len(functions)
    while len(there := np.flatnonzero(weights)) > m:
        groups = np.array_split(there, 2 * m) if len(there) > 2 * m else [np.array([k]) for k in there]
        totals = np.array([weights[group].sum() for group in groups])
        means = np.stack([functions[:, g] @ weights[g] / t for g, t in zip(groups, totals, strict=True)], axis=1)
        reduced = _reduced(means, totals)
        for group, before, after in zip(groups, totals, reduced, strict=True):
            weights[group] *= after / before
    return weights


def _reduced(functions, weights):
    """As `recombined`, of some more points than functions: along each null vector until a weight vanishes."""
    m = len(functions)
    basis = np.linalg.qr(functions.T, mode="complete")[0][:, m:].copy()  # (point, null vector)
    weights = weights.copy()
    for k in range(basis.shape[1]):
        v = basis[:, k]
        v = -v if not np.any(v > 0) else v
        rising = np.flatnonzero(v > 1e-14 * np.abs(v).max())
        ratio = weights[rising] / v[rising]
        place = rising[np.argmin(ratio)]
        weights -= ratio.min() * v
        weights[place] = 0.0
        np.maximum(weights, 0.0, out=weights)
        rest = basis[:, k + 1 :]
        rest -= np.outer(v / v[place], rest[place])
        rest[place] = 0.0
    return weights
