"""Molden files, by PySCF's writer, which knows the format's orders of functions and its normalisation."""

import io
from typing import Any

import numpy as np
from pyscf.tools import molden

from dftfd.errors import UnsupportedError
from dftfd.libcint.mole import quiet, to_pyscf


def molden_text(result: Any) -> str:
    """Geometry, basis set and orbitals of a result in Molden format; unrestricted ones as alpha, then beta."""
    mole, stream = to_pyscf(result.molecule), io.StringIO()
    if max(mole.bas_angular(shell) for shell in range(mole.nbas)) > 4:
        raise UnsupportedError("the Molden format ends at g functions; take a smaller basis set, or an .h5 file.")
    spins = ("Alpha", "Beta") if result.method == "UKS" else ("Alpha",)
    occupations = result.mo_occ if result.method == "UKS" else result.mo_occ.sum(axis=0, keepdims=True)
    with quiet():
        molden.header(mole, stream, ignore_h=False)
        for s, spin in enumerate(spins):
            C, e = np.array(result.mo_coeff[s]), result.mo_energy[s]
            molden.orbital_coeff(mole, stream, C, spin=spin, ene=e, occ=occupations[s], ignore_h=False)
    return stream.getvalue()
