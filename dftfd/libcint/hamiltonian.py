"""One-electron operators beyond kinetic energy and nuclei, from PySCF: point charges and scalar relativity."""

import numpy as np
from pyscf.x2c import sfx2c1e

from dftfd.libcint.mole import quiet, to_pyscf


def point_charge_matrix(molecule, charges, positions) -> np.ndarray:
    """-sum_k q_k <mu| 1/|r - R_k| |nu>, (ao, ao) [hartree], of charges (k,) at positions (k, 3) [bohr]."""
    mole = to_pyscf(molecule)
    matrix = np.zeros((mole.nao, mole.nao))
    for charge, position in zip(charges, positions, strict=True):
        with mole.with_rinv_origin(position):
            matrix -= charge * mole.intor_symmetric("int1e_rinv")
    return matrix


def x2c_core_hamiltonian(molecule) -> np.ndarray:
    """Spin-free exact two-component core Hamiltonian (ao, ao) [hartree], one-electron approximation.

    W. Kutzelnigg, W. Liu, J. Chem. Phys. 123, 241102 (2005). doi:10.1063/1.2137315
    """
    with quiet():
        return np.array(sfx2c1e.SpinFreeX2C(to_pyscf(molecule)).get_hcore(), dtype=float)
