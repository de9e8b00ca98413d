"""The bridge to PySCF for users: `to_pyscf(molecule)`, `numint(functional)`, `correlated_density(...)`."""

from typing import Annotated, Any

import numpy as np
import pyscf.cc
import pyscf.fci
import pyscf.mcscf
import pyscf.mp
import pyscf.scf

from dftfd.errors import InputError, NotConvergedError
from dftfd.interop.numint import numint
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, from_pyscf, quiet, to_pyscf
from dftfd.runtime.arguments import choice, each, optional, public, whole
from dftfd.system.molecule import Molecule

__all__ = ["BOHR_IN_ANGSTROM", "correlated_density", "from_pyscf", "numint", "to_pyscf"]

WAVE_FUNCTIONS = ("mp2", "ccsd", "casscf", "fci")

LARGEST_FCI = 5_000_000
"""Determinants of a full configuration interaction: beyond, it takes hours and many gigabytes."""

MOST_ORBITALS = 63
"""PySCF keeps which of them are occupied in the bits of a number."""

Active = Annotated[tuple | None, optional(each(whole(1), "(electrons, orbitals) of the active space"))]


@public
def correlated_density(
    molecule: Molecule, method: Annotated[str, choice(*WAVE_FUNCTIONS)], active: Active = None
) -> np.ndarray:
    """Density matrix P of a wave function: (1, ao, ao), the total one, for a closed shell, otherwise (2, ao, ao).

    method: 'mp2', 'ccsd' (with its Lambda equations), 'casscf' or 'fci', with all electrons correlated, in unrelaxed
        Hartree-Fock orbitals; 'casscf' optimises its own.   active: (electrons, orbitals) of 'casscf'.

    Raises NotConvergedError if PySCF does not converge, InputError for an invalid active space and for full
    configuration interaction with more than LARGEST_FCI determinants.
    """
    if (active is None) == (method == "casscf"):
        raise InputError("active=(electrons, orbitals) belongs to casscf, and casscf needs it.")
    with quiet():
        hartree_fock = _hartree_fock(molecule, method)
        P = np.asarray(_OF[method](hartree_fock, active), dtype=float)
    P = P if P.ndim == 3 else P[None]
    return 0.5 * (P + P.transpose(0, 2, 1))


def _hartree_fock(molecule, method):
    kind = pyscf.scf.RHF if molecule.spin == 0 else pyscf.scf.ROHF if method in ("casscf", "fci") else pyscf.scf.UHF
    mf = kind(to_pyscf(molecule).copy())
    mf.conv_tol, mf.max_cycle = 1e-11, 200
    mf.kernel()
    _require(mf.converged, "Hartree-Fock")
    return mf


def _mp2(mf, active):
    found = pyscf.mp.MP2(mf)
    found.kernel()
    return found.make_rdm1(ao_repr=True)


def _ccsd(mf, active):
    found = pyscf.cc.CCSD(mf)
    found.conv_tol, found.conv_tol_normt, found.max_cycle = 1e-9, 1e-7, 200
    found.kernel()
    _require(found.converged, "CCSD")
    found.solve_lambda()
    _require(found.converged_lambda, "the Lambda equations of CCSD")
    return found.make_rdm1(ao_repr=True)


def _casscf(mf, active):
    electrons, orbitals = _checked_space(mf.mol, active)
    found = pyscf.mcscf.CASSCF(mf, orbitals, electrons)
    found.conv_tol = 1e-10
    found.fix_spin_(ss=mf.mol.spin / 2 * (mf.mol.spin / 2 + 1))
    found.kernel()
    _require(found.converged, "CASSCF")
    return found.make_rdm1() if mf.mol.spin == 0 else np.stack(found.make_rdm1s())


def _checked_space(mole, active):
    if len(active) != 2:
        raise InputError(f"active={active}: give (electrons, orbitals).")
    electrons, orbitals = active
    core = mole.nelectron - electrons
    fits = core >= 0 and core % 2 == 0 and core // 2 + orbitals <= mole.nao
    if not fits or electrons < mole.spin or electrons + mole.spin > 2 * orbitals:
        raise InputError(
            f"active={active} does not fit {mole.nelectron} electrons, {mole.spin} of them unpaired, in {mole.nao} "
            "orbitals; an even number of electrons has to be left outside."
        )
    return electrons, orbitals


def _fci(mf, active):
    n, electrons = mf.mo_coeff.shape[1], mf.mol.nelec
    size = np.prod([float(pyscf.fci.cistring.num_strings(n, k)) for k in electrons])
    if size > LARGEST_FCI:
        raise InputError(f"fci of {size:.1e} determinants: at most {LARGEST_FCI:.0e}; take a smaller basis, or ccsd.")
    closed = mf.mol.spin == 0
    if n > MOST_ORBITALS and not closed:
        raise InputError(f"fci of an open shell in {n} orbitals: PySCF has it up to {MOST_ORBITALS}; take ccsd.")
    found = pyscf.fci.FCI(mf, singlet=closed)
    found.conv_tol = 1e-11
    if not closed:
        pyscf.fci.addons.fix_spin_(found, ss=mf.mol.spin / 2 * (mf.mol.spin / 2 + 1))
    _, vector = found.kernel()
    _require(np.all(found.converged), "full configuration interaction")
    of_spin: Any = found.make_rdm1s(vector, n, electrons)
    P = np.stack([mf.mo_coeff @ D @ mf.mo_coeff.T for D in of_spin])
    return P.sum(axis=0) if mf.mol.spin == 0 else P


def _require(converged, what):
    if not converged:
        raise NotConvergedError(f"{what} has not converged in PySCF; give a density matrix of your own as the target.")


_OF = {"mp2": _mp2, "ccsd": _ccsd, "casscf": _casscf, "fci": _fci}
