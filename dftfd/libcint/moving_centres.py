"""What integrals of products of two orbitals do as nuclei move, summed over the atoms that the orbitals belong to.

An integral W_mn <m|O|n> depends on the centres of m and n and, where the operator O belongs to an atom, its owner, on
that one's. Everything depends on differences: the derivative by the owner is minus the sum of the others. Orbitals are
differentiated by the electron's position here; moving their centres is minus that.
"""

import numpy as np

from dftfd.libcint.mole import ao_slices


class MovingCentres:
    """The orbitals of a molecule by their atoms."""

    def __init__(self, molecule):
        slices = ao_slices(molecule)
        self.n_atoms = len(slices)
        self.atom_of_ao = np.repeat(np.arange(len(slices)), [stop - start for start, stop in slices])

    def add_first(self, found, Z, C, owner: int | None) -> None:
        """Adds to `found` (atom, 3, orbital, ao) the matrices' derivatives on orbitals C (orbital, ao).

        Z: (3, ao, ao), <nabla_x m|O|n>.
        """
        of_left, of_right = (Z @ C.T).transpose(0, 2, 1), C @ Z  # (3, orbital, ao)
        for atom in range(self.n_atoms):
            own = self.atom_of_ao == atom
            found[atom][:, :, own] -= of_left[:, :, own]
            found[atom] -= np.matmul(C[:, own], Z[:, own])
        if owner is not None:
            found[owner] += of_left + of_right

    def pairs(self, S, twice, aos=None) -> tuple[np.ndarray, list[int]]:
        """K (atom, 3, atom, 3), sums over orbitals by their atoms, and which atoms these are.

        S: (3, 3, ao, ao), W_mn <nabla_x m|O|nabla_y n>.   twice: (3, 3, ao), sum_n W_mn <nabla_x nabla_y m|O|n>.
        aos: the orbitals of both, ascending, where they are not all.
        """
        atoms = self.atom_of_ao if aos is None else self.atom_of_ao[aos]
        present, starts = [atom for atom, _ in runs(atoms)], [rows.start for _, rows in runs(atoms)]
        K = np.add.reduceat(np.add.reduceat(S, starts, axis=2), starts, axis=3).transpose(2, 0, 3, 1).copy()
        diagonal = np.add.reduceat(twice, starts, axis=2)
        for k in range(len(present)):
            K[k, :, k] += diagonal[:, :, k]
        return K, present

    def add_second(self, H, K, present, owner: int | None) -> None:
        """Adds K of `pairs`, and what the owner's motion makes of it, to H (atom, 3, atom, 3)."""
        for a, k in zip(present, K, strict=True):
            for b, part in zip(present, k.transpose(1, 0, 2), strict=True):
                H[a, :, b] += part
        if owner is None:
            return
        of_rows = K.sum(axis=0)
        for b, part in zip(present, of_rows.transpose(1, 0, 2), strict=True):
            H[owner, :, b] -= part
        for a, part in zip(present, K.sum(axis=2), strict=True):
            H[a, :, owner] -= part
        H[owner, :, owner] += of_rows.sum(axis=1)


def runs(atoms):
    """(atom, slice of the orbitals that are its) of ascending numbers of atoms (ao,)."""
    starts = np.flatnonzero(np.diff(atoms, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(atoms)], strict=True):
        yield int(atoms[start]), slice(int(start), int(stop))
