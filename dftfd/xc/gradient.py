r"""The derivative of exchange-correlation energies with respect to where orbitals and grid points are.

The energy of a block is a function of weights, points and the components A_c of the orbitals (values and derivatives).
A kernel gives its slopes v with respect to weights and density channels, and with them those by the components,
D_c = dE/dA_c, the same for any functional:

    D_0 = 2 P (v_0 A_0 + sum_i v_i A_i + sum_{i<=j} v_ij A_ij),   D_ij = 2 v_ij P A_0,
    D_i = 2 v_i P A_0 + 2 sum_{j != i} v_ij P A_j + 4 v_ii P A_i + v_tau P A_i

Moving point p by dr, or the centre of orbital mu by -dr, changes the components by A_c -> A_c + dr . nabla A_c:

    dE/dr_p = sum_mu X_mu,p,   dE/dR_mu = -sum_p X_mu,p,   X_mu,p = sum_c D_c,mu,p nabla A_c,mu,p

Neither D_c nor nabla A_c is formed: dftfd.xc.moved_orbitals has the sums of X.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from dftfd.runtime.array_types import MatrixJet
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import FunctionalKernel, Slopes
from dftfd.xc.matrix import MatrixBuilder, jet_of_products
from dftfd.xc.moved_orbitals import MovedOrbitals


@dataclass(frozen=True, eq=False)
class XCGradient:
    """Slopes of the energy at fixed density matrices.

    orbitals: (atom, 3), by the centres of each atom's orbitals [hartree/bohr].   points: (point, 3), by the grid's
    points.   weights: (point,), by its weights.   nuclei: (atom, 3), by an explicit dependence on them, or 0.
    """

    orbitals: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    nuclei: np.ndarray | float = 0.0


def density_times(A, form, scratch, out):
    """P A for A (..., ao, point), written to `out`.   form: (P, None) or (None, occupied orbitals C)."""
    P, C = form
    if C is None:
        return np.matmul(P, A, out=out)
    orbitals = np.matmul(C.T, A, out=scratch("orbitals", *A.shape[:-2], C.shape[1], A.shape[-1]))
    return np.matmul(C, orbitals, out=out)


class GradientBuilder(MatrixBuilder):
    """XCGradient of a kernel; `store` has the AO derivatives that its matrices need."""

    def __init__(self, kernel, store: AOStore, progress=None):
        super().__init__(kernel, store, progress)
        most = max(len(block.aos) for block in store.blocks)
        self._moved = MovedOrbitals(
            store.basis, kernel.order, kernel.needs_tau, most, store.block_size, len(store.blocks)
        )

    def build(self, P, C_occ=None) -> XCGradient:
        """Slopes of the energy of P; arguments as in XCBuilder.build."""
        P, C_occ = self._checked(P, C_occ)
        slopes = self.kernel.slopes(*self.grid, self.density(P, C_occ)) if self.kernel.whole_grid else None
        return self._of_slopes(P, slopes, C_occ)

    def _of_slopes(self, P, slopes, C_occ=None) -> XCGradient:
        """That of densities P, linear in them where the kernel's slopes on the whole grid are given."""
        n = self.store.n_points
        points, weights = np.zeros((n, 3)), np.zeros(n)
        done = itertools.count(1)
        parts = self._on_workers(self._build_part, P, C_occ, slopes, points, weights, done)
        return XCGradient(sum(parts), points, weights, 0.0 if slopes is None else slopes.nuclei)

    def _build_part(self, part, scratch, P, C_occ, slopes, points, weights, done) -> np.ndarray:
        """Sum (atom, 3) over the blocks of one worker; writes to `points` and `weights`."""
        form = self._moved.form
        by_atom = np.zeros((len(self.store.basis.atm), 3))
        for index in part:
            block = self.store.blocks[index]
            ao, n_ao = self._values(index, scratch), len(block.aos)
            forms = [self._density_form(index, s, P, C_occ) for s in range(len(P))]
            PA = [scratch(f"PA {s}", form.n_products, form.n_orbitals, ao.shape[2]) for s in range(len(P))]
            for products, of_spin in zip(PA, forms, strict=True):
                density_times(ao[: form.n_alone], of_spin, scratch, products[: form.n_alone, :n_ao])
            of_block = self._slopes_of_block(
                index, ao, [products[: form.n_alone, :n_ao] for products in PA], slopes, scratch
            )
            by_point = of_block.points.copy()
            for potential, of_spin, products in zip(of_block.density, forms, PA, strict=True):
                if form.n_products > form.n_alone:
                    out = scratch("weighted", *ao.shape[1:])
                    weighted = np.einsum("cmp,cp->mp", ao[form.rest], potential[form.rest], out=out)
                    density_times(weighted, of_spin, scratch, products[-1, :n_ao])
                of_atoms, of_points = self._moved(block, products, potential)
                by_atom -= of_atoms
                by_point += of_points
            self._add_other_slopes(index, ao, of_block, by_atom, by_point)
            n = len(block.members)
            points[block.members] = by_point.T[:n]
            weights[block.members] = of_block.weights[:n]
            if self._progress is not None:
                self._progress(next(done), len(self.store.blocks))
        return by_atom

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

    def _add_other_slopes(self, index, ao, slopes, by_atom, by_point):
        """Adds to by_atom (atom, 3) and by_point (3, point) what these channels change with orbitals and points."""


class BentGradientBuilder(GradientBuilder):
    """Second derivatives along e of the XCGradient of densities P_0 + e P_1 + e^2/2 P_2."""

    kernel: FunctionalKernel

    def build(self, P: MatrixJet, C_occ=None) -> XCGradient:
        """The slopes at P_0 to second order in e."""
        jets = [self._checked(P_k, None)[0] for P_k in P]
        found = self.kernel.second_slopes(*self.grid, *(self.density(P_k) for P_k in jets))
        nothing = np.zeros_like(found.second.weights), np.zeros_like(found.second.points)
        of_density = (Slopes(nothing[0], potential, nothing[1]) for potential in (found.change, found.potential))
        whole, along, potential = (
            self._of_slopes(*pair) for pair in zip(jets, (found.second, *of_density), strict=True)
        )
        orbitals = whole.orbitals + 2.0 * along.orbitals + potential.orbitals
        points = whole.points + 2.0 * along.points + potential.points
        return XCGradient(orbitals, points, whole.weights, whole.nuclei)
