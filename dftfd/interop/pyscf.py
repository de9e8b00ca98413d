"""The bridge to PySCF for users: `to_pyscf(molecule)`, `numint(functional)`, `correlated_density(...)`."""

from dftfd.interop.correlated import correlated_density
from dftfd.interop.numint import numint
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, from_pyscf, to_pyscf

__all__ = ["BOHR_IN_ANGSTROM", "correlated_density", "from_pyscf", "numint", "to_pyscf"]
