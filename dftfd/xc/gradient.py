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
from dftfd.xc.matrix import MatrixBuilder, jet_of_products

_ROWS = 32
"""Orbitals whose slopes are formed at a time."""


@dataclass(frozen=True, eq=False)
class XCGradient:
    """Slopes of the energy at fixed density matrices.

    orbitals: (3, ao), by the centres of the orbitals [hartree/bohr].   points: (point, 3), by the grid's points.
    weights: (point,), by its weights.   nuclei: (atom, 3), by an explicit dependence on them, or 0.
    """

    orbitals: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    nuclei: np.ndarray | float = 0.0


def orbital_slopes(PA, weighted, potential, order: int, tau: bool, D) -> None:
    r"""D_c = dE/dA_c (component, ao, point) for the potential dE/d(channel) (channel, point) of a block.

    D_0 = 2 P (v_0 A_0 + sum_i v_i A_i + sum_{i<=j} v_ij A_ij),   D_ij = 2 v_ij P A_0,
    D_i = 2 v_i P A_0 + 2 sum_{j != i} v_ij P A_j + 4 v_ii P A_i + v_tau P A_i

    PA: (component, ao, point), all that D_i takes.   weighted: P times the part of D_0 / 2 whose components PA does not
    have, or None.   All rows of orbitals are independent of each other.
    """
    np.multiply(PA[0], potential[0], out=D[0])
    for v, A in zip(potential[1 : len(PA)] if order else (), PA[1:], strict=False):
        D[0] += v * A
    if weighted is not None:
        D[0] += weighted
    D[0] *= 2.0
    for c in range(1, component_count(order)):
        np.multiply(PA[0], 2.0 * potential[c], out=D[c])
    if order == 0:
        D[1:] = 0.0
    if order >= 2:
        for i, j in itertools.product(range(3), repeat=2):
            D[1 + i] += (4.0 if i == j else 2.0) * potential[ROW[i, j]] * PA[1 + j]
    if tau:
        D[1:4] += potential[TAU] * PA[1:4]


def density_times(A, P, C, scratch, name):
    """P A for A (..., ao, point), through the occupied orbitals where they are given."""
    out = scratch(name, *A.shape)
    if C is None:
        return np.matmul(P, A, out=out)
    orbitals = np.matmul(C.T, A, out=scratch("orbitals", *A.shape[:-2], C.shape[1], A.shape[-1]))
    return np.matmul(C, orbitals, out=out)


class GradientBuilder(MatrixBuilder):
    """XCGradient of a kernel; `store` has AO derivatives of one order more than its matrices need."""

    def build(self, P, C_occ=None) -> XCGradient:
        """Slopes of the energy of P; arguments as in XCBuilder.build."""
        P, C_occ = self._checked(P, C_occ)
        return self._of_slopes(
            P, C_occ, self.kernel.slopes(*self.grid, self.density(P, C_occ)) if self.kernel.whole_grid else None
        )

    def _of_slopes(self, P, C_occ, slopes) -> XCGradient:
        """That of densities P, linear in them where the kernel's slopes on the whole grid are given."""
        n = self.store.n_points
        points, weights = np.zeros((n, 3)), np.zeros(n)
        done = itertools.count(1)
        parts = self._on_workers(self._build_part, P, C_occ, slopes, points, weights, done)
        return XCGradient(sum(parts), points, weights, 0.0 if slopes is None else slopes.nuclei)

    @property
    def _n_moved(self) -> int:
        """Components of P A that the slopes take."""
        return 4 if self.kernel.order >= 2 or self.kernel.needs_tau else 1

    def _build_part(self, part, scratch, P, C_occ, slopes, points, weights, done) -> np.ndarray:
        """Sum (3, ao) over the blocks of one worker; writes to `points` and `weights`."""
        per_ao = np.zeros((3, self.store.n_ao))
        for index in part:
            block = self.store.blocks[index]
            ao = self._values(index, scratch)
            forms = [self._density_form(index, s, P, C_occ) for s in range(len(P))]
            PA = [density_times(ao[: self._n_moved], *form, scratch, f"PA {s}") for s, form in enumerate(forms)]
            of_block = self._slopes_of_block(index, ao, PA, slopes, scratch)
            by_point = of_block.points.copy()
            for potential, form, PA_s in zip(of_block.density, forms, PA, strict=True):
                weighted = self._weighted(ao, potential, form, scratch)
                per_ao[:, block.aos] -= self._moved(ao, PA_s, weighted, potential, by_point, scratch)
            self._add_other_slopes(index, ao, of_block, per_ao, by_point)
            n = len(block.members)
            points[block.members] = by_point.T[:n]
            weights[block.members] = of_block.weights[:n]
            if self._progress is not None:
                self._progress(next(done), len(self.store.blocks))
        return per_ao

    def _slopes_of_block(self, index, ao, PA, slopes, scratch) -> Slopes:
        """From those of the whole grid, or by the kernel from the products P A of each spin."""
        if slopes is not None:
            return Slopes(*(self._of_block(s, index) for s in slopes[:3]))
        kernel, block = self.kernel, self.store.blocks[index]
        density = scratch("density", len(PA), kernel.channels, self.store.block_size)
        for PA_s, out in zip(PA, density, strict=True):
            jet_of_products(PA_s, ao, PA_s[0], ao, kernel.order, kernel.needs_tau, out)
        self._add_other_channels(index, ao, density)
        self._require_finite(density)
        return kernel.slopes(block.points, block.weights, density)

    def _add_other_channels(self, index, ao, density) -> None:
        """Writes the channels that are no products of orbitals at a point, where a kernel has any."""

    def _add_other_slopes(self, index, ao, slopes, per_ao, by_point) -> None:
        """Adds to per_ao (3, ao) and by_point (3, point) what these channels change with orbitals and points."""

    def _weighted(self, ao, potential, form, scratch):
        """P times sum_c v_c A_c over the components that `_n_moved` leaves out; None without any."""
        rest = slice(self._n_moved, component_count(self.kernel.order))
        if rest.stop <= rest.start:
            return None
        weighted = np.einsum("cmp,cp->mp", ao[rest], potential[rest], out=scratch("weighted", *ao.shape[1:]))
        return density_times(weighted, *form, scratch, "P weighted")

    def _moved(self, ao, PA, weighted, potential, by_point, scratch) -> np.ndarray:
        """sum_p X (3, ao) of a block; adds sum_mu X to by_point (3, point). A few orbitals at a time stay in cache."""
        kernel, (_, n_ao, n_points) = self.kernel, ao.shape
        n_slopes = max(component_count(kernel.order), self._n_moved)
        by_orbital = np.zeros((3, n_ao))
        for start in range(0, n_ao, _ROWS):
            rows = slice(start, min(start + _ROWS, n_ao))
            D = scratch("D", n_slopes, rows.stop - start, n_points)
            few = None if weighted is None else weighted[rows]
            orbital_slopes(PA[:, rows], few, potential, kernel.order, kernel.needs_tau, D)
            for x, c in itertools.product(range(3), range(n_slopes)):
                A = ao[RAISED[x, c], rows]
                by_orbital[x, rows] += np.einsum("mp,mp->m", D[c], A)
                by_point[x] += np.einsum("mp,mp->p", D[c], A)
        return by_orbital


class BentGradientBuilder(GradientBuilder):
    """Second derivatives along e of the XCGradient of densities P_0 + e P_1 + e^2/2 P_2, of a semilocal kernel."""

    def build(self, P, C_occ=None) -> XCGradient:
        """P: (P_0, P_1, P_2), (3, spin, ao, ao)."""
        jets = [self._checked(P_k, None)[0] for P_k in P]
        slopes = self.kernel.second_slopes(*self.grid, *(self.density(P_k) for P_k in jets))
        parts = [self._of_slopes(P_k, None, v) for P_k, v in zip(jets, slopes[::-1], strict=True)]
        orbitals, points = (
            a + 2.0 * b + c for a, b, c in zip(*((part.orbitals, part.points) for part in parts), strict=True)
        )
        return XCGradient(orbitals, points, parts[0].weights)
