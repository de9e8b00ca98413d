r"""Second derivatives of exchange-correlation energies by where nuclei, and with them orbitals and grid points, are.

At a fixed density matrix P the energy E = sum_p w_p e(n_p) depends on the nuclei through the weights w and through the
density's channels n_c = <A| B_c |P A>, bilinear in the orbitals A on a point p. An orbital of atom a moves by dR_a, a
point by that of its owner o: A changes by (dR_o - dR_a) . nabla A, everything on a point depends on differences, and
the derivative by the owner is minus the sum of all others. With n^a = dn/dR_a, w^a = dw/dR_a and v = de/dn,

    E^ab = sum_p w^ab e + w^a v . n^b + w^b v . n^a + w n^a . f . n^b + w v . n^ab,   f = d2e/dn dn
    F^a  = dF/dR_a = dE^a/dP: the matrix of the potential w^a v + w f n^a, and that of w v with one orbital moved

The matrices are only wanted where they act on the orbitals that have electrons.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from dftfd.libcint.derivatives import MovingCentres, runs
from dftfd.xc.channels import GRADIENT, HESSIAN, RAISED, TAU, ao_order
from dftfd.xc.gradient import density_times
from dftfd.xc.matrix import MatrixBuilder, Scratch, jet_of_products
from dftfd.xc.transitions import Transitions, kernel_hessian


@dataclass(frozen=True, eq=False)
class XCCurvature:
    """hessian: E^ab without w^ab e (atom, 3, atom, 3) [hartree/bohr^2].   on_orbitals: F^a C, per spin (atom, 3,
    orbital, ao).   energies: e (point,), which w^ab takes.
    """

    hessian: np.ndarray
    on_orbitals: list[np.ndarray]
    energies: np.ndarray


def has_curvature(kernel) -> bool:
    """Whether a kernel's energy can be differentiated here: of densities, their gradients and tau at a point alone."""
    return not kernel.whole_grid and kernel.order < 2 and not (kernel.exact_exchange or kernel.knows_the_point)


class CurvatureBuilder(MatrixBuilder):
    """XCCurvature of a kernel on points that move with one atom, the owner.

    store: of these points, with derivatives of two orders more than matrices need.
    weight_changes: w^a (atom, 3, point).   C: per spin the orbitals (orbital, ao) that F^a acts on.
    """

    def __init__(self, kernel, store, molecule, owner: int, weight_changes, C):
        super().__init__(kernel, store)
        self._owner, self._weight_changes, self._C = owner, weight_changes, C
        self._transitions = Transitions(self, C)
        self._centres = MovingCentres(molecule)
        self._n_atoms, self._atom_of_ao = self._centres.n_atoms, self._centres.atom_of_ao

    def build(self, P, C_occ=None) -> XCCurvature:
        """Of density matrices P; arguments as in XCBuilder.build."""
        P, C_occ = self._checked(P, C_occ)
        energies = np.zeros(self.store.n_points)
        parts = self._on_workers(self._build_part, P, C_occ, energies)
        H, moved, *on_orbitals = (sum(of_part) for of_part in zip(*parts, strict=True))
        for s, found in enumerate(on_orbitals):
            self._centres.add_first(found, moved[s], self._C[s], self._owner)
        return XCCurvature(H, on_orbitals, energies)

    def _build_part(self, part, scratch, P, C_occ, energies):
        """Sums over the blocks of one worker: E^ab, Z (spin, 3, ao, ao) of `_moved_matrices`, F^a C of potentials."""
        n, n_ao, n_spin = self._n_atoms, self.store.n_ao, len(P)
        H, moved = np.zeros((n, 3, n, 3)), np.zeros((n_spin, 3, n_ao, n_ao))
        on_orbitals = [np.zeros((n, 3, *C.shape)) for C in self._C]
        for index in part:
            block, ao = self.store.blocks[index], self._values(index, scratch)
            if not len(block.aos):  # far from all nuclei there is nothing
                continue
            forms = [self._density_form(index, s, P, C_occ) for s in range(n_spin)]
            n_left = 4 if ao_order(self.kernel) else 1
            PA = [
                density_times(ao[:n_left], form, scratch, scratch(f"PA {s}", n_left, *ao.shape[1:]))
                for s, form in enumerate(forms)
            ]
            density = scratch("density", n_spin, self.kernel.channels, self.store.block_size)
            for PA_s, out in zip(PA, density, strict=True):
                jet_of_products(PA_s, ao, PA_s[0], ao, self.kernel.order, self.kernel.needs_tau, out)
            self._require_finite(density)
            slopes = self.kernel.slopes(block.points, np.ones(len(block.weights)), density)
            energies[block.members] = slopes.weights[: len(block.members)]
            changes = self._density_changes(ao, PA, self._atom_of_ao[block.aos])
            potentials = self._potential_changes(block, density, slopes.density, changes, H)
            self._apply(potentials, ao, block.aos, on_orbitals, scratch)
            for s in range(n_spin):
                v = block.weights * slopes.density[s]
                self._add_moved_matrices(ao, v, block.aos, moved[s], scratch)
                P_s = P[s].take(block.aos, axis=0).take(block.aos, axis=1)
                self._add_second(ao, PA[s], P_s, v, block.aos, H, scratch)
        return H, moved, *on_orbitals

    def _density_changes(self, ao, PA, atoms) -> np.ndarray:
        """n^a (atom, 3, spin, channel, point) of a block."""
        kernel, shape = self.kernel, (len(PA), self.kernel.channels, ao.shape[2])
        found = np.zeros((self._n_atoms, 3, *shape))
        for atom, rows in runs(atoms):
            if atom == self._owner:
                continue
            A = ao[:, rows]
            for s, PA_s in enumerate(PA):
                B, out = PA_s[:, rows], found[atom, :, s]
                out[:, 0] = -2.0 * np.einsum("xmp,mp->xp", A[GRADIENT], B[0])
                if kernel.order:
                    by_two = np.einsum("hmp,mp->hp", A[HESSIAN], B[0])
                    pairs = np.einsum("xmp,imp->xip", A[GRADIENT], B[GRADIENT])
                    out[:, GRADIENT] = -2.0 * (by_two[_SECOND] + pairs)
                if kernel.needs_tau:
                    for x in range(3):
                        out[x, TAU] = -np.einsum("imp,imp->p", A[RAISED[x, GRADIENT]], B[GRADIENT])
        found[self._owner] = -found.sum(axis=0)
        return found

    def _potential_changes(self, block, density, v, changes, H) -> np.ndarray:
        """w^a v + w f n^a (atom 3, spin, channel, point); adds to H what of E^ab is bilinear in first changes."""
        n = len(block.members)
        by_atom = np.zeros((self._n_atoms, 3, len(block.weights)))
        by_atom[:, :, :n] = self._weight_changes[:, :, block.members]
        w = by_atom.reshape(-1, by_atom.shape[2])
        f = kernel_hessian(self.kernel, block.points, block.weights, density)
        n_channels, size = v.shape[0] * v.shape[1], v.shape[2]
        rows = changes.reshape(len(w), n_channels, size)
        found = np.einsum("cdp,adp->acp", f.reshape(n_channels, n_channels, size), rows, optimize=False)
        found += w[:, None] * v.reshape(n_channels, size)
        along = np.einsum("cp,acp->ap", v.reshape(n_channels, size), rows)  # e^a
        pairs = found.reshape(len(w), -1) @ rows.reshape(len(w), -1).T + along @ w.T
        H += pairs.reshape(H.shape)
        return found.reshape(len(w), *v.shape)

    def _apply(self, potentials, ao, aos, on_orbitals, scratch):
        """Adds what potentials (atom 3, spin, channel, point) do to the orbitals of a block."""
        few = ao[: 4 if ao_order(self.kernel) else 1]
        phi = [np.matmul(C.take(aos, axis=1), few) for C in self._C]
        flat = [found.reshape(found.shape[0] * found.shape[1], *found.shape[2:]) for found in on_orbitals]
        for number, potential in enumerate(potentials):
            self._transitions.apply(potential, phi, few, aos, [found[number] for found in flat], scratch)

    def _add_moved_matrices(self, ao, v, aos, Z, scratch):
        """Adds Z_x (3, ao, ao) = sum_p v_c B_c(nabla_x A_m, A_n) of one spin; v (channel, point) with weights."""
        kernel = self.kernel
        weighted = v[0] * ao[0]
        if kernel.order:
            weighted += np.einsum("imp,ip->mp", ao[GRADIENT], v[GRADIENT])
        rows = scratch("rows of Z", len(aos), self.store.n_ao)
        for x in range(3):
            M = ao[1 + x] @ weighted.T
            if kernel.order:
                M += np.einsum("imp,ip->mp", ao[RAISED[x, GRADIENT]], v[GRADIENT]) @ ao[0].T
            if kernel.needs_tau:
                for i in range(1, 4):
                    M += (0.5 * v[TAU] * ao[RAISED[x, i]]) @ ao[i].T
            rows[...] = 0.0
            rows[:, aos] = M
            Z[x][aos] += rows

    def _add_second(self, ao, PA, P, v, aos, H, scratch: Scratch):
        """Adds sum_p v . n^ab of one spin to H, v (channel, point) with weights; P of the block's orbitals."""
        kernel, n_ao = self.kernel, len(aos)
        S, twice = np.empty((3, 3, n_ao, n_ao)), np.empty((3, 3, n_ao))
        for y in range(3):
            Q = 0.5 * v[0] * ao[1 + y]
            if kernel.order:
                Q += np.einsum("imp,ip->mp", ao[RAISED[y, GRADIENT]], v[GRADIENT])
            bent = [0.25 * v[TAU] * ao[RAISED[y, i]] for i in range(1, 4)] if kernel.needs_tau else []
            for x in range(3):
                S[x, y] = ao[1 + x] @ Q.T
                for i, right in enumerate(bent, start=1):
                    S[x, y] += ao[RAISED[x, i]] @ right.T
        S = 2.0 * P * (S + S.transpose(1, 0, 3, 2))
        D = scratch("D", len(PA), *PA.shape[1:])
        D[0] = 2.0 * np.einsum("cmp,cp->mp", PA[: 4 if kernel.order else 1], v[: 4 if kernel.order else 1])
        for i in range(1, len(PA)):  # those of dftfd.xc.gradient
            D[i] = 2.0 * v[i] * PA[0] if kernel.order else 0.0
            D[i] += v[TAU] * PA[i] if kernel.needs_tau else 0.0
        for x, y in itertools.combinations_with_replacement(range(3), 2):
            components = [RAISED[x, RAISED[y, c]] for c in range(len(D))]
            found = sum(np.einsum("mp,mp->m", D_c, ao[c]) for D_c, c in zip(D, components, strict=True))
            twice[x, y] = twice[y, x] = found
        self._centres.add_second(H, *self._centres.pairs(S, twice, aos), self._owner)


_SECOND = RAISED[:, GRADIENT] - HESSIAN.start
"""Of nabla_x A_i its place among the second derivatives, (3, 3)."""
