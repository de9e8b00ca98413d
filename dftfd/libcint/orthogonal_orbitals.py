"""Orthogonal atomic orbitals of PySCF."""

import numpy as np
from pyscf import lo

from dftfd.libcint.atoms import MINIMAL_BASIS
from dftfd.libcint.basis_sets import NO_FILE
from dftfd.libcint.mole import quiet, to_pyscf


def meta_loewdin_orbitals(molecule) -> np.ndarray:
    """Orthonormal orbitals C (ao, ao), each of one atom: core, valence and Rydberg sets orthogonalised in turn."""
    with quiet():
        return np.array(lo.orth_ao(to_pyscf(molecule), "meta_lowdin", NO_FILE + MINIMAL_BASIS), dtype=float)
