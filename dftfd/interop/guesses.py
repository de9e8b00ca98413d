"""Starting densities from PySCF: superposed atoms, Hueckel orbitals, superposed atomic potentials, another basis.

All are numbers over basis functions; total densities hold the electrons of neutral atoms or of the molecule.
"""

import numpy as np
import scipy.linalg
from pyscf import gto
from pyscf.scf import hf

from dftfd.errors import InputError, UnsupportedError
from dftfd.interop.pyscf import quiet, to_pyscf

SAP_BASIS = "sapgraspsmall"
"""Gaussian fit of atomic potentials. S. Lehtola et al., J. Chem. Phys. 152, 144105 (2020). doi:10.1063/5.0004046"""


def atomic_density(molecule) -> np.ndarray:
    """Total density (ao, ao) of superposed spherical Hartree-Fock atoms in the molecule's own basis."""
    with quiet():
        return np.array(hf.init_guess_by_atom(to_pyscf(molecule)), dtype=float)


def hueckel_density(molecule) -> np.ndarray:
    """Total density (ao, ao) of the orbitals of an extended Hueckel matrix over orbitals of atoms.

    R. Hoffmann, J. Chem. Phys. 39, 1397 (1963). doi:10.1063/1.1734456
    """
    with quiet():
        return np.array(hf.init_guess_by_huckel(to_pyscf(molecule)), dtype=float)


def atomic_potentials(molecule) -> np.ndarray:
    """Matrix (ao, ao) [hartree] of the superposed potentials of the atoms' electrons; with H_core it gives orbitals."""
    if any(ecp is not None for ecp in molecule.atom_ecp):
        raise UnsupportedError("guess='sap' knows atoms with all their electrons only; choose guess='atom'.")
    mole, table = to_pyscf(molecule), {}
    for (label, _), symbol, ghost in zip(mole._atom, molecule.symbols, molecule.ghost, strict=True):
        try:
            with quiet():
                fit = np.array(gto.basis.load(SAP_BASIS, symbol)[0][1:], dtype=float)  # exponents, charges
        except (RuntimeError, KeyError) as error:
            raise InputError(f"guess='sap' has no atomic potential for {symbol}: {error}.") from error
        table[label] = fit * [1.0, 0.0 if ghost else 1.0]
    with quiet():
        return np.array(hf.make_sap(mole, table), dtype=float)


def projected_density(source, P, target) -> np.ndarray:
    """Density matrices (spin, ao, ao) of one molecule's basis in that of another, by least squares.

    P' = Q P Q^T with Q = S_22^-1 S_21, where S_21 is the overlap between both sets of functions.
    """
    old, new = to_pyscf(source), to_pyscf(target)
    Q = scipy.linalg.solve(
        new.intor_symmetric("int1e_ovlp"), gto.mole.intor_cross("int1e_ovlp", new, old), assume_a="pos"
    )
    return np.stack([Q @ P_s @ Q.T for P_s in P])
