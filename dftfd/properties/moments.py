"""Electric moments of a density matrix, about the origin of coordinates, and <S^2> of its orbitals.

Populations by Mulliken, Loewdin and meta-Loewdin differ in the basis in which the diagonal of the density matrix is
summed over each atom's functions: the atomic orbitals themselves (P S), Loewdin's orthogonal ones (S^1/2 P S^1/2), or
orbitals that are first made atomic natural ones, so that polarisation and diffuse functions of large basis sets do not
carry charge away.

R. S. Mulliken, J. Chem. Phys. 23, 1833 (1955). doi:10.1063/1.1740588
P.-O. Loewdin, J. Chem. Phys. 18, 365 (1950). doi:10.1063/1.1747632
Q. Sun, G. K.-L. Chan, J. Chem. Theory Comput. 10, 3784 (2014). doi:10.1021/ct500512f (meta-Loewdin)
"""

import numpy as np
import scipy.linalg

from dftfd.libcint import mole as bridge

DEBYE = 2.5417464157449032
"""One e bohr in debye, from the CODATA 2014 constants that PySCF uses."""


def dipole_moment(molecule, P) -> np.ndarray:
    """Dipole moment sum_A Z_A R_A - tr(P r) [e bohr], (3,).

    P: (spin, ao, ao). Z_A is the charge that the electrons see. For an ion the value depends on the origin.
    """
    nuclei = molecule.nuclear_charges @ molecule.coordinates
    return nuclei - np.einsum("xab,sab->x", bridge.position_integrals(molecule, 1), P)


def quadrupole_moment(molecule, P) -> np.ndarray:
    r"""Traceless quadrupole moment [e bohr^2], (3, 3), symmetric.

    Theta_xy = 1/2 sum_A Z_A (3 R_x R_y - R^2 delta_xy) - 1/2 tr(P (3 x y - r^2 delta_xy))

    It depends on the origin unless charge and dipole vanish. P: (spin, ao, ao).
    A. D. Buckingham, Q. Rev. Chem. Soc. 13, 183 (1959). doi:10.1039/QR9591300183
    """
    R = molecule.coordinates
    second = np.einsum("a,ax,ay->xy", molecule.nuclear_charges, R, R)
    second -= np.einsum("xyab,sab->xy", bridge.position_integrals(molecule, 2), P)
    return 0.5 * (3.0 * second - np.trace(second) * np.eye(3))


def spin_square(C_occ, S) -> float:
    """<S^2> of one determinant from its occupied alpha and beta orbitals, each (ao, occupied).

    Orbitals scaled by the root of their occupation give the same expression for fractional ones.

    <S^2> = (N_a - N_b)/2 ((N_a - N_b)/2 + 1) + N_b - sum_ij |<i_alpha|j_beta>|^2
    A. Szabo, N. S. Ostlund, Modern Quantum Chemistry (1989), eq. 2.271.
    """
    alpha, beta = C_occ
    n_alpha, n_beta = (float(np.sum(C * (S @ C))) for C in C_occ)
    s_z = 0.5 * (n_alpha - n_beta)
    return float(s_z * (s_z + 1) + n_beta - np.sum((alpha.T @ S @ beta) ** 2))


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


def bond_orders(molecule, P) -> np.ndarray:
    """Mayer's bond orders (atom, atom), for P (spin, ao, ao); the diagonal is zero.

    B_AB = 2 sum over spins, m in A, n in B of (P_s S)_mn (P_s S)_nm, about 1 for a single bond, 2 for a double one.
    I. Mayer, Chem. Phys. Lett. 97, 270 (1983). doi:10.1016/0009-2614(83)80005-0
    """
    PS = np.asarray(P) @ bridge.overlap_integrals(molecule)
    scale = 2.0 if len(PS) == 2 else 1.0  # of one spin, P is the total: (P/2)^2, twice
    pairs = scale * np.einsum("smn,snm->mn", PS, PS)
    slices = bridge.ao_slices(molecule)
    orders = np.array([[pairs[a:b, c:d].sum() for c, d in slices] for a, b in slices])
    np.fill_diagonal(orders, 0.0)
    return orders


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
