"""The energy of one functional on the self-consistent density of another: E_2[P_1], not variational in P_1.

With the functional's own density it is the usual energy; the difference of both is the density-driven part.
M.-C. Kim, E. Sim, K. Burke, Phys. Rev. Lett. 111, 073003 (2013). doi:10.1103/PhysRevLett.111.073003
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dftfd.errors import NumericalError
from dftfd.functionals import supports
from dftfd.functionals.registry import get_functional
from dftfd.results.result import SCFResult
from dftfd.runtime.progress import as_progress
from dftfd.scf.orbitals import occupied_orbitals


def energies_on(result: SCFResult, xc: Any) -> dict[str, float]:
    """Components of the energy [hartree] of a functional on the density of a result, and their sum as 'total'.

    Molecule, integrals and grids are the result's. Raises UnsupportedError for double hybrids and models of the
    potential, NumericalError for an energy that is not finite.
    """
    calculation = replace(result.calculation, functional=get_functional(xc))
    supports.require("another density", calculation.functional)
    energy = calculation.build(as_progress(False)).energy
    C_occ = occupied_orbitals(result.mo_coeff, result.mo_occ)
    energies = energy.evaluate(result.density_matrix, C_occ).energies
    total = float(np.sum(list(energies.values())))
    if not np.isfinite(total):
        raise NumericalError(
            f"the energy of {calculation.functional.name!r} on the density of {result.settings.functional!r} is not "
            "finite; compute its own density, or look at the functional where densities are small (dftfd.audit)."
        )
    return {**energies, "total": total}
