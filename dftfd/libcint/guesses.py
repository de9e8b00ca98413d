"""Starting densities: superposed atoms, Hueckel orbitals, superposed atomic potentials, another basis.

All are numbers over basis functions; total densities hold the electrons of neutral atoms or of the molecule.
"""

import numpy as np
import scipy.linalg
from pyscf import gto
from pyscf.df import incore

from dftfd.errors import InputError, UnsupportedError
from dftfd.libcint.atoms import atomic_orbitals, superposed_atoms
from dftfd.libcint.basis_sets import load_basis
from dftfd.libcint.mole import overlap_integrals, quiet, to_pyscf

SAP_BASIS = "sapgraspsmall"
"""Gaussian fit of atomic potentials. S. Lehtola et al., J. Chem. Phys. 152, 144105 (2020). doi:10.1063/5.0004046"""

WOLFSBERG_HELMHOLZ = 1.75


def atomic_density(molecule) -> np.ndarray:
    """Total density (ao, ao) of superposed spherical Hartree-Fock atoms in the molecule's own basis."""
    with quiet():
        return superposed_atoms(to_pyscf(molecule))


def hueckel_density(molecule) -> np.ndarray:
    """Total density (ao, ao) of the orbitals of an extended Hueckel matrix over orbitals of atoms.

    H_ij = K S_ij (e_i + e_j) / 2 between occupied orbitals of the atoms, H_ii = e_i.
    R. Hoffmann, J. Chem. Phys. 39, 1397 (1963). doi:10.1063/1.1734456
    """
    mole = to_pyscf(molecule)
    with quiet():
        energies, C, occupations = atomic_orbitals(mole)
    energies, C = energies[occupations > 0], C[:, occupations > 0]
    S = C.T @ mole.intor_symmetric("int1e_ovlp") @ C
    H = WOLFSBERG_HELMHOLZ * S * (energies[:, np.newaxis] + energies) / 2
    np.fill_diagonal(H, energies)
    occupied = C @ scipy.linalg.eigh(H, S)[1][:, : molecule.n_electrons // 2]
    return 2.0 * occupied @ occupied.T


def atomic_potentials(molecule) -> np.ndarray:
    """Matrix (ao, ao) [hartree] of the superposed potentials of the atoms' electrons; with H_core it gives orbitals.

    That of PySCF 2.14 (`hf.make_sap`) is over spherical functions where the molecule's are Cartesian.
    """
    mole = to_pyscf(molecule)
    V = np.zeros((mole.nao, mole.nao))
    for place, fit in zip(molecule.coordinates, fitted_potentials(molecule), strict=True):
        charges = gto.mole.fakemol_for_cgtf_charge(place[None], fit[:, 0], fit[:, 1])
        charges.cart = mole.cart
        V -= incore.aux_e2(mole, charges).reshape(V.shape)
    return V


def fitted_potentials(molecule) -> list[np.ndarray]:
    """Exponents and charges (n, 2) of each atom's potential; UnsupportedError and InputError where there is none."""
    if any(ecp is not None for ecp in molecule.atom_ecp):
        raise UnsupportedError("guess='sap' knows atoms with all their electrons only; choose guess='atom'.")
    found = []
    for symbol, ghost in zip(molecule.symbols, molecule.ghost, strict=True):
        try:
            fit = np.array(load_basis(SAP_BASIS, symbol)[0][1:], dtype=float)
        except InputError as error:
            raise InputError(f"guess='sap' has no atomic potential for {symbol}; choose guess='atom'.") from error
        found.append(fit * [1.0, 0.0 if ghost else 1.0])
    return found


def projected_density(source, P, target) -> np.ndarray:
    """Density matrices (spin, ao, ao) of one molecule's basis in that of another, by least squares.

    P' = Q P Q^T with Q = S_22^-1 S_21, where S_21 is the overlap between both sets of functions.
    """
    old, new = to_pyscf(source), to_pyscf(target)
    Q = scipy.linalg.solve(
        new.intor_symmetric("int1e_ovlp"), gto.mole.intor_cross("int1e_ovlp", new, old), assume_a="pos"
    )
    return np.stack([Q @ P_s @ Q.T for P_s in P])


def moved_density(old, P, new, threshold: float) -> np.ndarray:
    """P at a new geometry: T P T^T with T = S_new^-1/2 S_old^1/2, idempotent in the new overlap where it was so before.

    Eigenvalues of S_new up to the threshold are left out.
    """
    s, U = scipy.linalg.eigh(overlap_integrals(old))
    root = U * np.sqrt(np.maximum(s, 0.0)) @ U.T
    s, U = scipy.linalg.eigh(overlap_integrals(new))
    kept = s > threshold
    T = (U[:, kept] / np.sqrt(s[kept])) @ (U[:, kept].T @ root)
    return T @ P @ T.T
