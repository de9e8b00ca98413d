"""The bridge to PySCF for users: `to_pyscf(molecule)` and `numint(functional)`."""

from dftfd.interop.numint import numint
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, from_pyscf, to_pyscf

__all__ = ["BOHR_IN_ANGSTROM", "from_pyscf", "numint", "to_pyscf"]
