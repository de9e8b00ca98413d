"""Electric moments of a density matrix, about the origin of coordinates, and <S^2> of its orbitals."""

import numpy as np

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
