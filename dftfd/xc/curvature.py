r"""Second derivatives of exchange-correlation energies by where nuclei, and with them orbitals and grid points, are.

At a fixed density matrix P the energy E = sum_p w_p e(n_p) depends on the nuclei through the weights w and through the
density's channels n_c = <A| B_c |P A>, bilinear in the orbitals A on a point p. An orbital of atom a moves by dR_a, a
point by that of its owner o: A changes by (dR_o - dR_a) . nabla A, everything on a point depends on differences, and
the derivative by the owner is minus the sum of all others. With n^a = dn/dR_a, w^a = dw/dR_a and v = de/dn,

    E^ab = sum_p w^ab e + w^a v . n^b + w^b v . n^a + w n^a . f . n^b + w v . n^ab,   f = d2e/dn dn
    F^a  = dF/dR_a = dE^a/dP: the matrix of the potential w^a v + w f n^a, and that of w v with one orbital moved

The matrices are only wanted where they act on the orbitals that have electrons.
"""

from dataclasses import dataclass

import numpy as np

from dftfd.libcint.mole import ao_slices
from dftfd.xc.channels import GRADIENT, HESSIAN, RAISED, TAU, ao_order
from dftfd.xc.gradient import density_times, orbital_slopes
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
    return not kernel.whole_grid and kernel.order < 2 and getattr(kernel, "bends", False) and not kernel.exact_exchange


class CurvatureBuilder(MatrixBuilder):
    """XCCurvature of a kernel on points that move with one atom, the owner.

    store: of these points, with derivatives of two orders more than matrices need.
    weight_changes: w^a (atom, 3, point).   C: per spin the orbitals (orbital, ao) that F^a acts on.
    """

    def __init__(self, kernel, store, molecule, owner: int, weight_changes, C):
        super().__init__(kernel, store)
        self._owner, self._weight_changes, self._C = owner, weight_changes, C
        self._transitions = Transitions(self, C)
        slices = ao_slices(molecule)
        self._n_atoms = len(slices)
        self._atom_of_ao = np.repeat(np.arange(len(slices)), [stop - start for start, stop in slices])

    def build(self, P, C_occ=None) -> XCCurvature:
        """Of density matrices P; arguments as in XCBuilder.build."""
        P, C_occ = self._checked(P, C_occ)
        energies = np.zeros(self.store.n_points)
        parts = self._on_workers(self._build_part, P, C_occ, energies)
        H, moved, *on_orbitals = (sum(of_part) for of_part in zip(*parts, strict=True))
        for s, found in enumerate(on_orbitals):
            self._add_moved(found, moved[s], self._C[s])
        return XCCurvature(H, on_orbitals, energies)

    def _build_part(self, part, scratch, P, C_occ, energies):
        """Sums over the blocks of one worker: E^ab, Z (spin, 3, ao, ao) of `_moved_matrices`, F^a C of potentials."""
        n, n_ao, n_spin = self._n_atoms, self.store.n_ao, len(P)
        H, moved = np.zeros((n, 3, n, 3)), np.zeros((n_spin, 3, n_ao, n_ao))
        on_orbitals = [np.zeros((n, 3, *C.shape)) for C in self._C]
        for index in part:
            block, ao = self.store.blocks[index], self._values(index, scratch)
            forms = [self._density_form(index, s, P, C_occ) for s in range(n_spin)]
            n_left = 4 if ao_order(self.kernel) else 1
            PA = [density_times(ao[:n_left], *form, scratch, f"PA {s}") for s, form in enumerate(forms)]
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
                self._add_second(ao, PA[s], P_s, v, self._atom_of_ao[block.aos], H, scratch)
        return H, moved, *on_orbitals

    def _density_changes(self, ao, PA, atoms) -> np.ndarray:
        """n^a (atom, 3, spin, channel, point) of a block."""
        kernel, shape = self.kernel, (len(PA), self.kernel.channels, ao.shape[2])
        found = np.zeros((self._n_atoms, 3, *shape))
        for atom, rows in _runs(atoms):
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
        w = np.zeros((self._n_atoms, 3, len(block.weights)))
        w[:, :, :n] = self._weight_changes[:, :, block.members]
        w = w.reshape(-1, w.shape[2])
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
        flat = [found.reshape(-1, *found.shape[2:]) for found in on_orbitals]
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

    def _add_moved(self, found, Z, C) -> None:
        """Adds to F^a C (atom, 3, orbital, ao) what moved orbitals do: those of a the one way, points the other."""
        by_row, by_column = (Z @ C.T).transpose(0, 2, 1), C @ Z  # (3, orbital, ao): moved on the left, on the right
        for atom in range(self._n_atoms):
            of_atom = self._atom_of_ao == atom
            found[atom][:, :, of_atom] -= by_row[:, :, of_atom]
            found[atom] -= np.matmul(C[:, of_atom], Z[:, of_atom])
        found[self._owner] += by_row + by_column

    def _add_second(self, ao, PA, P, v, atoms, H, scratch: Scratch):
        """Adds sum_p v . n^ab of one spin to H, v (channel, point) with weights; P of the block's orbitals."""
        kernel, runs = self.kernel, list(_runs(atoms))
        present = [atom for atom, _ in runs]
        starts = [rows.start for _, rows in runs]
        K = np.zeros((len(runs), 3, len(runs), 3))
        for y in range(3):
            Q = 0.5 * v[0] * ao[1 + y]
            if kernel.order:
                Q += np.einsum("imp,ip->mp", ao[RAISED[y, GRADIENT]], v[GRADIENT])
            bent = [0.25 * v[TAU] * ao[RAISED[y, i]] for i in range(1, 4)] if kernel.needs_tau else []
            for x in range(3):
                S = ao[1 + x] @ Q.T
                for i, right in enumerate(bent, start=1):
                    S += ao[RAISED[x, i]] @ right.T
                S *= 2.0 * P
                K[:, x, :, y] = np.add.reduceat(np.add.reduceat(S, starts, axis=0), starts, axis=1)
        K = K + K.transpose(2, 3, 0, 1)
        D = scratch("D", len(PA), *PA.shape[1:])
        orbital_slopes(PA, None, v, kernel.order, kernel.needs_tau, D)
        for x, y in np.ndindex(3, 3):
            twice = [RAISED[x, RAISED[y, c]] for c in range(len(D))]
            by_ao = sum(np.einsum("mp,mp->m", D_c, ao[c]) for D_c, c in zip(D, twice, strict=True))
            K[range(len(runs)), x, range(len(runs)), y] += np.add.reduceat(by_ao, starts)
        self._add_pairs(K, present, H)

    def _add_pairs(self, K, present, H):
        """Adds K (atom, 3, atom, 3) of the atoms that are present, and what the owner's motion makes of it."""
        owner, of_rows, of_columns = self._owner, K.sum(axis=0), K.sum(axis=2)
        for a, k in zip(present, K, strict=True):
            for b, part in zip(present, k.transpose(1, 0, 2), strict=True):
                H[a, :, b] += part
        for b, part in zip(present, of_rows.transpose(1, 0, 2), strict=True):
            H[owner, :, b] -= part
        for a, part in zip(present, of_columns, strict=True):
            H[a, :, owner] -= part
        H[owner, :, owner] += of_rows.sum(axis=1)


_SECOND = RAISED[:, GRADIENT] - HESSIAN.start
"""Of nabla_x A_i its place among the second derivatives, (3, 3)."""


def _runs(atoms):
    """(atom, slice of the orbitals that are its) of ascending numbers of atoms (ao,)."""
    starts = np.flatnonzero(np.diff(atoms, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(atoms)], strict=True):
        yield int(atoms[start]), slice(int(start), int(stop))
