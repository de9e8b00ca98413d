"""The semilocal energy of a functional that takes the exact-exchange energy density as well: a local hybrid.

Exact exchange point by point is a channel of the density:

    e_x(r) = -1/2 sum_mnls chi_m P_mn A_nl P_ls chi_s = -1/2 X . G,   X = P chi,   G = A X,   for each spin,

with the basis functions chi and the potentials A (ao, ao) of their pairs at r (libcint.three_centre): integrals over
one electron are analytic, those over the other a sum over the grid (semi-numerical; R. A. Friesner, Chem. Phys. Lett.
116, 39 (1985), doi:10.1016/0009-2614(85)80121-4). In a local hybrid e_x is mixed with other energy densities point by
point (J. Jaramillo, G. E. Scuseria, M. Ernzerhof, J. Chem. Phys. 118, 1068 (2003), doi:10.1063/1.1528936). With
v = dE/de_x and one half of the symmetric sum as everywhere in xc.matrix,

    dE/dP = M + M^T,   M = -1/2 sum_p v_p chi(p) G(p)^T.

A restricted run's total density has e_x = -1/4 X . G, the sum of both spins.
"""

import numpy as np

from dftfd.errors import FunctionalError, NumericalError, UnsupportedError
from dftfd.libcint.gto import component_count
from dftfd.libcint.three_centre import PairPotentials
from dftfd.terms.on_grid import gradient_on_grid
from dftfd.terms.semilocal import SemilocalEnergy
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import without_exact_exchange
from dftfd.xc.code import shared
from dftfd.xc.gradient import GradientBuilder
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import MatrixBuilder, XCBuilder, require_finite_response
from dftfd.xc.transitions import TripletKernel


def share(n_spin: int) -> float:
    """e_x / (X . G)."""
    return -0.5 if n_spin == 2 else -0.25


class _Rows:
    """The channels of exact exchange of a kernel, with the potentials of pairs that each takes."""

    def __init__(self, kernel, molecule):
        ranges = kernel.functional.exact_exchange_ranges
        if len(ranges) != len(kernel.exact_exchange):
            raise UnsupportedError(
                f"functional {kernel.functional.name!r} takes exact-exchange energy densities of several ranges, omega "
                f"= {', '.join(str(omega) for omega in ranges if omega)}; one besides 1/r is served."
            )
        for omega in ranges[len(ranges) - ("e_x_lr" in kernel.exact_exchange) :]:
            if not omega > 0:
                message = f"functional {kernel.functional.name[:60]!r} has omega={omega} of e_x_lr; omega > 0 expected."
                raise FunctionalError(message)
        start = component_count(kernel.order)
        self.of_channel = {start + k: PairPotentials(molecule, omega) for k, omega in enumerate(ranges)}

    def potentials(self, points, X) -> dict[int, np.ndarray]:
        """G (spin, ao, point) by channel, for X of the same shape."""
        return {row: of_pairs(points, X) for row, of_pairs in self.of_channel.items()}

    def write(self, density, X, G) -> None:
        """Writes e_x to its channels of the density (spin, channel, point)."""
        for row, of_row in G.items():
            density[:, row] = share(len(X)) * np.einsum("smp,smp->sp", X, of_row)


def density_on_orbitals(ao, aos, P) -> np.ndarray:
    """X = P chi (spin, ao, point) for the orbitals chi = ao[0] of a block, `aos` of all."""
    return np.stack([P_s.take(aos, axis=1) @ ao[0] for P_s in P])


def add_products(M, aos, ao, v, G) -> None:
    """Adds sum_p v chi G^T, half of a symmetric sum, to M (spin, ao, ao); v (spin, point), G (spin, ao, point)."""
    for M_s, v_s, G_s in zip(M, v, G, strict=True):
        M_s[aos] += (v_s * ao[0]) @ G_s.T


class LocalExchangeBuilder(XCBuilder):
    """An XCBuilder for kernels with energy densities of exact exchange among their channels."""

    has_exact_exchange = True

    def __init__(self, kernel, store: AOStore, molecule, progress=None):
        super().__init__(kernel, store, progress)
        self._rows = _Rows(kernel, molecule)
        self._at_hand: dict[int, tuple] = {}

    def incremental_build(self, P, C_occ=None):
        before = self.build(P, C_occ).matrix
        return lambda changed: self.build(changed).matrix - before

    def matrix(self, potential):
        raise UnsupportedError("the potential of a local hybrid is not a matrix of the potential's channels alone.")

    def _density(self, index, ao, P, C_occ, out, scratch):
        block = self.store.blocks[index]
        X = density_on_orbitals(ao, block.aos, P)
        G = self._rows.potentials(block.points, X)
        self._rows.write(out, X, G)
        self._at_hand[id(scratch)] = index, G  # of this worker's block, for its matrix
        super()._density(index, ao, P, C_occ, out, scratch)

    def _add_half_matrix(self, index, ao, potential, M, scratch):
        super()._add_half_matrix(index, ao, potential, M, scratch)
        of_block, G = self._at_hand.pop(id(scratch), (None, {}))
        if of_block != index:
            raise NumericalError(f"the matrix of block {index} was asked for without its density.")
        for row, of_row in G.items():
            add_products(M, self.store.blocks[index].aos, ao, share(len(M)) * potential[:, row], of_row)


class LocalExchangeResponse(MatrixBuilder):
    """How the matrix of a local hybrid at P changes with P: d(trial, spin, ao, ao) -> the same.

    triplet: P is a closed shell's total, and changes of alpha are minus those of beta; then the matrix is alpha's.
    Changes i D, D antisymmetric, leave the density as it is, and change the matrix by that of -1/2 v (D chi) A (D chi).
    """

    has_exact_exchange = True

    def __init__(self, kernel, response_kernel, store: AOStore, molecule, P):
        super().__init__(kernel, store)
        self._rows, self._P, self._response_kernel = _Rows(kernel, molecule), P, response_kernel

    def __call__(self, changes, antisymmetric: bool = False) -> np.ndarray:
        """The change of the matrix (trial, spin, ao, ao) for changes of P of this shape."""
        found = sum(self._on_workers(self._part, np.asarray(changes), antisymmetric))
        require_finite_response(self.kernel, found)
        sign = -1.0 if antisymmetric else 1.0
        return found + sign * found.transpose(0, 1, 3, 2)

    def _part(self, part, scratch, changes, antisymmetric):
        out = np.zeros(changes.shape)
        for index in part:
            self._add_block(index, scratch, changes, antisymmetric, out)
        return out

    def _add_block(self, index, scratch, changes, antisymmetric, out):
        kernel, block, P, factor = self.kernel, self.store.blocks[index], self._P, share(len(self._P))
        ao = self._values(index, scratch)
        X = density_on_orbitals(ao, block.aos, P)
        dX = np.stack([density_on_orbitals(ao, block.aos, dP) for dP in changes])
        n_trials, n_spin = len(changes), len(P)
        stacked = np.concatenate([X, dX.reshape(-1, *X.shape[1:])])
        found = self._rows.potentials(block.points, stacked)
        density = np.empty((n_spin, kernel.channels, self.store.block_size))
        self._rows.write(density, X, {row: G[:n_spin] for row, G in found.items()})
        self._density(index, ao, P, None, density, scratch)
        _, v = kernel(block.points, block.weights, density)
        for trial in range(n_trials):
            dG = {row: G[n_spin:].reshape(dX.shape)[trial] for row, G in found.items()}
            if antisymmetric:
                for row in found:
                    add_products(out[trial], block.aos, ao, -factor * v[:, row], dG[row])
                continue
            tangent = np.empty(density.shape)
            for row, G in found.items():
                tangent[:, row] = 2.0 * factor * np.einsum("smp,smp->sp", dX[trial], G[:n_spin])
            self._density(index, ao, changes[trial], None, tangent, scratch)
            dv = self._response_kernel.response(block.points, block.weights, density, tangent)
            self._add_half_matrix(index, ao, dv, out[trial], scratch)
            for row, G in found.items():
                add_products(out[trial], block.aos, ao, factor * dv[:, row], G[:n_spin])
                add_products(out[trial], block.aos, ao, factor * v[:, row], dG[row])


class LocalExchangeGradientBuilder(GradientBuilder):
    """A GradientBuilder for kernels with energy densities of exact exchange among their channels.

    The potentials A change with the centres of their functions, -(nabla m n|, and with the point, (nabla m n| +
    (m nabla n|.
    """

    has_exact_exchange = True

    def __init__(self, kernel, store: AOStore, molecule, progress=None):
        super().__init__(kernel, store, progress)
        self._rows = _Rows(kernel, molecule)

    def build(self, P, C_occ=None):
        self._P = np.asarray(P)
        self._waiting: dict[int, tuple] = {}  # X, G of a block until its slopes take them
        return super().build(P, C_occ)

    def _add_other_channels(self, index, ao, density):
        X = density_on_orbitals(ao, self.store.blocks[index].aos, self._P)
        G = self._rows.potentials(self.store.blocks[index].points, X)
        self._rows.write(density, X, G)
        self._waiting[index] = X, G

    def _add_other_slopes(self, index, ao, slopes, by_atom, by_point):
        block, P, basis = self.store.blocks[index], self._P, self.store.basis
        atom_of_ao = np.repeat(basis.atoms, np.diff(basis.ao_offsets))
        X, G = self._waiting.pop(index)
        for row, of_pairs in self._rows.of_channel.items():
            v = 2.0 * share(len(P)) * slopes.density[:, row]
            moved = of_pairs.slopes(block.points, X)  # (spin, 3, ao, point)
            for P_s, v_s, X_s, G_s, moved_s in zip(P, v, X, G[row], moved, strict=True):
                D = (P_s.take(block.aos, axis=0) @ G_s) * v_s
                by_orbital = D * ao[1:4]
                by_pair = v_s * X_s * moved_s
                np.subtract.at(by_atom, atom_of_ao[block.aos], by_orbital.sum(axis=-1).T)
                np.subtract.at(by_atom, atom_of_ao, by_pair.sum(axis=-1).T)
                by_point += by_orbital.sum(axis=1) + by_pair.sum(axis=1)


class LocalHybridEnergy(SemilocalEnergy):
    """E_xc[rho, tau, e_x] on a grid."""

    def traced(self, molecule, in_memory):
        without_exact_exchange(self.functional, self.functional.ingredients, "whose integrals JAX does not have")

    def _densities_on(self, store):
        return LocalExchangeBuilder(self.kernel, store, molecule=self._molecule)

    def made_on(self, store):
        return LocalExchangeBuilder(self.kernel, store, self._molecule, self._progress.part)

    def response(self, P, C, triplet=False):
        kernel = TripletKernel(shared(XCKernel, self.functional, 2)) if triplet else self.kernel
        change = LocalExchangeResponse(self.kernel, kernel, self.builder.store, self._molecule, np.asarray(P))

        def respond(dC, imaginary=0.0):
            half = [np.einsum("tqm,qn->tmn", dC_s, C_s) for dC_s, C_s in zip(dC, C, strict=True)]
            halves = np.stack(half, axis=1)  # (trial, spin, ao, ao)
            dF = np.zeros(halves.shape)
            if imaginary != 1.0:
                dF += (1.0 - imaginary) * change(halves + halves.transpose(0, 1, 3, 2))
            if imaginary != 0.0:
                dF += imaginary * change(halves - halves.transpose(0, 1, 3, 2), antisymmetric=True)
            return [np.einsum("tmn,qn->tqm", dF[:, s], C_s) for s, C_s in enumerate(C)]

        return respond

    def gradient(self, P, C_occ, grid_response, progress):
        made = lambda kernel, store, part: LocalExchangeGradientBuilder(kernel, store, self._molecule, part)
        return gradient_on_grid(self._molecule, self.kernel, self.grid, P, C_occ, grid_response, progress, made)
