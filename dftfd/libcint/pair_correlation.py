"""Second-order perturbation theory by PySCF, with fitted or exact integrals."""

import numpy as np
from pyscf import mp, scf
from pyscf.data import elements
from pyscf.mp import dfmp2, dfump2, mp2, ump2

from dftfd.errors import NumericalError
from dftfd.libcint.mole import quiet, to_pyscf
from dftfd.libcint.two_electron import auxiliary_basis

MEGABYTE = 1e6


def core_orbitals(molecule) -> int:
    """Orbitals of closed inner shells, those of core potentials not among them; ghosts have none."""
    found = 0
    for Z, shown, ghost in zip(molecule.atomic_numbers, molecule.nuclear_charges, molecule.ghost, strict=True):
        if not ghost:
            found += max(0, int(elements.chemcore_atm[Z] - round(Z - shown) // 2))
    return found


def second_order_energies(
    molecule, mo_energy, mo_coeff, mo_occ, fitted: bool, frozen: int, max_memory: float
) -> tuple[float, float]:
    """Energies [hartree] of pairs of opposite and of equal spins, at whatever orbitals and orbital energies.

    mo_energy, mo_occ (spin, mo), mo_coeff (spin, ao, mo): full and empty orbitals.   fitted: in PySCF's choice of
    functions for it; else exact.   frozen: how many of the lowest of each spin stay out.   max_memory: bytes.
    A spin without active occupied or without empty orbitals has no excitations and enters no pair.

    F. Weigend, M. Haeser, Theor. Chem. Acc. 97, 331 (1997). doi:10.1007/s002140050269
    """
    excited = [s for s, n in enumerate(mo_occ) if (n > 0).sum() > frozen and (n == 0).any()]
    if not excited:
        return 0.0, 0.0
    if len(excited) < len(mo_occ):  # pairs of one spin alone: half of those of a closed shell of its orbitals
        alone = mo_energy[excited], mo_coeff[excited], 2.0 * mo_occ[excited]
        return 0.0, second_order_energies(molecule, *alone, fitted, frozen, max_memory)[1] / 2.0
    mole = to_pyscf(molecule).copy()
    restricted = len(mo_occ) == 1
    field = (scf.RHF if restricted else scf.UHF)(mole)
    of_spins = lambda a: np.array(a[0] if restricted else a)
    field.mo_energy, field.mo_coeff, field.mo_occ = map(of_spins, (mo_energy, mo_coeff, mo_occ))
    field.converged, field.max_memory = True, max_memory / MEGABYTE
    if fitted:
        code = dfmp2 if restricted else dfump2
        method = (dfmp2.DFRMP2 if restricted else dfump2.DFUMP2)(field, frozen=frozen)
        method.with_df.auxbasis, _ = auxiliary_basis(molecule, True, pairs=True)
    else:
        code, method = (mp2, mp.mp2.RMP2(field, frozen=frozen)) if restricted else (ump2, ump2.UMP2(field, frozen))
    method.verbose, method.max_memory = 0, max_memory / MEGABYTE
    with quiet():
        found, _ = code.kernel(method, with_t2=False)
    energies = float(found.e_corr_os), float(found.e_corr_ss)
    if not np.isfinite(energies).all():
        raise NumericalError("the energy of second order is NaN or Inf; occupied and empty orbitals are degenerate.")
    return energies
