r"""The derivative of exchange-correlation energies with respect to where orbitals and grid points are.

The energy of a block is a function of weights, points and the components A_c of the orbitals (values and derivatives).
A kernel gives its slopes with respect to weights and density channels; `orbital_slopes` turns the latter into slopes
D_c = dE/dA_c, the same for any functional. Moving point p by dr, or the centre of orbital mu by -dr, changes the
components by A_c -> A_c + dr . nabla A_c, which are components of one order more:

    dE/dr_p = sum_mu X_mu,p,   dE/dR_mu = -sum_p X_mu,p,   X_mu,p = sum_c D_c,mu,p nabla A_c,mu,p
"""

import itertools
from dataclasses import dataclass

import numpy as np

from dftfd.libcint.gto import component_count
from dftfd.xc.channels import RAISED, ROW, TAU
from dftfd.xc.kernel import Slopes
from dftfd.xc.matrix import MatrixBuilder


@dataclass(frozen=True, eq=False)
class XCGradient:
    """Slopes of the energy at fixed density matrices.

    orbitals: (3, ao), by the centres of the orbitals [hartree/bohr].   points: (point, 3), by the grid's points.
    weights: (point,), by its weights.
    """

    orbitals: np.ndarray
    points: np.ndarray
    weights: np.ndarray


def orbital_slopes(ao, potential, P, C, order: int, tau: bool, scratch) -> np.ndarray:
    r"""D_c = dE/dA_c (component, ao, point) for the potential dE/d(channel) (channel, point) of a block.

    D_0 = 2 P (v_0 A_0 + sum_i v_i A_i + sum_{i<=j} v_ij A_ij),   D_ij = 2 v_ij P A_0,
    D_i = 2 v_i P A_0 + 2 sum_{j != i} v_ij P A_j + 4 v_ii P A_i + v_tau P A_i

    Arguments as in dftfd.xc.matrix.density_jet and half_matrix.
    """
    _, n_ao, n_points = ao.shape
    n_density = component_count(order)
    n_moved = 4 if order >= 2 or tau else 1
    D = scratch("D", max(n_density, n_moved), n_ao, n_points)
    PA = _density_times(ao[:n_moved], P, C, scratch, "PA")
    weighted = np.einsum("cmp,cp->mp", ao[:n_density], potential[:n_density], out=scratch("weighted", n_ao, n_points))
    np.multiply(_density_times(weighted, P, C, scratch, "P weighted"), 2.0, out=D[0])
    if order == 0:
        D[1:] = 0.0
    for c in range(1, n_density):
        np.multiply(PA[0], 2.0 * potential[c], out=D[c])
    if order >= 2:
        for i, j in itertools.product(range(3), repeat=2):
            v = potential[ROW[i, j]]
            D[1 + i] += (4.0 if i == j else 2.0) * v * PA[1 + j]
    if tau:
        D[1:4] += potential[TAU] * PA[1:]
    return D


def _density_times(A, P, C, scratch, name):
    """P A, through the occupied orbitals where they are given."""
    out = scratch(name, *A.shape)
    if C is None:
        return np.matmul(P, A, out=out)
    orbitals = np.matmul(C.T, A, out=scratch(f"{name} orbitals", *A.shape[:-2], C.shape[1], A.shape[-1]))
    return np.matmul(C, orbitals, out=out)


class GradientBuilder(MatrixBuilder):
    """XCGradient of a kernel; `store` has AO derivatives of one order more than its matrices need."""

    def build(self, P, C_occ=None) -> XCGradient:
        """Slopes of the energy of P; arguments as in XCBuilder.build."""
        P, C_occ = self._checked(P, C_occ)
        n = self.store.n_points
        points, weights = np.zeros((n, 3)), np.zeros(n)
        slopes = self.kernel.slopes(*self.grid, self.density(P, C_occ)) if self.kernel.whole_grid else None
        done = itertools.count(1)
        parts = self._on_workers(self._build_part, P, C_occ, slopes, points, weights, done)
        return XCGradient(sum(parts), points, weights)

    def _build_part(self, part, scratch, P, C_occ, slopes, points, weights, done) -> np.ndarray:
        """Sum (3, ao) over the blocks of one worker; writes to `points` and `weights`."""
        per_ao = np.zeros((3, self.store.n_ao))
        density = scratch("density", len(P), self.kernel.channels, self.store.block_size)
        for index in part:
            block = self.store.blocks[index]
            ao = self._values(index, scratch)
            if slopes is None:
                self._density(index, ao, P, C_occ, density, scratch)
                of_block = self.kernel.slopes(block.points, block.weights, density)
            else:
                of_block = Slopes(*(self._of_block(s, index) for s in slopes))
            by_point = of_block.points.copy()
            for s in range(len(P)):
                P_s, C_s = self._density_form(index, s, P, C_occ)
                D = orbital_slopes(ao, of_block.density[s], P_s, C_s, self.kernel.order, self.kernel.needs_tau, scratch)
                per_ao[:, block.aos] -= _moved(ao, D, by_point, scratch)
            n = len(block.members)
            points[block.members] = by_point.T[:n]
            weights[block.members] = of_block.weights[:n]
            if self._progress is not None:
                self._progress(next(done), len(self.store.blocks))
        return per_ao


def _moved(ao, D, by_point, scratch) -> np.ndarray:
    """sum_p X (3, ao); adds sum_mu X to by_point (3, point)."""
    by_orbital = np.empty((3, ao.shape[1]))
    X = scratch("X", *D.shape[1:])
    product = scratch("product", *D.shape[1:])
    for x in range(3):
        np.multiply(D[0], ao[RAISED[x, 0]], out=X)
        for c in range(1, len(D)):
            X += np.multiply(D[c], ao[RAISED[x, c]], out=product)
        by_orbital[x] = X.sum(axis=1)
        by_point[x] += X.sum(axis=0)
    return by_orbital
