"""Electrons per atom from a density matrix: Mulliken, Loewdin and meta-Loewdin populations.

The three differ in the basis in which the diagonal of the density matrix is summed over each atom's functions: the
atomic orbitals themselves (P S), Loewdin's orthogonal ones (S^1/2 P S^1/2), or orbitals that are first made atomic
natural ones, so that polarisation and diffuse functions of large basis sets do not carry charge away.

R. S. Mulliken, J. Chem. Phys. 23, 1833 (1955). doi:10.1063/1.1740588
P.-O. Loewdin, J. Chem. Phys. 18, 365 (1950). doi:10.1063/1.1747632
Q. Sun, G. K.-L. Chan, J. Chem. Theory Comput. 10, 3784 (2014). doi:10.1021/ct500512f (meta-Loewdin)
"""

import numpy as np
import scipy.linalg

from dftfd.libcint import mole as bridge

SCHEMES = ("mulliken", "loewdin", "meta-loewdin")


def atomic_populations(molecule, P, scheme: str = "mulliken") -> np.ndarray:
    """Electrons of each atom and spin (spin, atom), for P (spin, ao, ao); scheme: one of SCHEMES."""
    populations = _orbital_populations(molecule, np.asarray(P), scheme)
    return np.stack([populations[:, a:b].sum(axis=1) for a, b in bridge.ao_slices(molecule)], axis=1)


def atomic_charges(molecule, P, scheme: str = "mulliken") -> np.ndarray:
    """Charge of each atom [e], (atom,): nuclear charge less its electrons. Ghosts hold what their functions hold."""
    return molecule.nuclear_charges - atomic_populations(molecule, P, scheme).sum(axis=0)


def atomic_spins(molecule, P, scheme: str = "mulliken") -> np.ndarray:
    """N_alpha - N_beta of each atom, (atom,); zero for P of one spin."""
    populations = atomic_populations(molecule, P, scheme)
    return populations[0] - populations[1] if len(populations) == 2 else np.zeros(molecule.n_atoms)


def _orbital_populations(molecule, P, scheme):
    """Diagonal of the density matrix in the scheme's basis, (spin, ao)."""
    S = bridge.overlap_integrals(molecule)
    if scheme == "mulliken":
        return np.einsum("sab,ba->sa", P, S)
    if scheme == "loewdin":
        e, U = scipy.linalg.eigh(S)
        T = (U * np.sqrt(e)) @ U.T
    else:
        T = bridge.meta_loewdin_orbitals(molecule).T @ S
    return np.einsum("ia,sab,ib->si", T, P, T, optimize=True)
