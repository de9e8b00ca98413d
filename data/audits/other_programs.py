"""Calculators of ASE, executables and dftfd itself, beside the methods of PySCF."""

from pathlib import Path

from ase.calculators.emt import EMT

from dftfd.interop.asked_ase import ASETarget
from dftfd.interop.asked_program import read_program
from dftfd.verify.code_own import OwnTarget

HERE = Path(__file__).parent


def tight_binding(method):
    """A calculator of tblite (pip install tblite)."""

    def make(charge=0, multiplicity=1):
        from tblite.ase import TBLite

        return TBLite(method=method, charge=charge, multiplicity=multiplicity, accuracy=1e-3, verbosity=0)

    return make


def emt():
    return ASETarget(EMT)


def gfn1():
    return ASETarget(tight_binding("GFN1-xTB"), "tblite 0.8.0 GFN1-xTB", with_electrons=True)


def gfn2():
    return ASETarget(tight_binding("GFN2-xTB"), "tblite 0.8.0 GFN2-xTB", with_electrons=True)


def psi4_hf():
    return read_program(HERE / "psi4_hf.toml").in_basis("sto-3g")


def psi4_pbe():
    return read_program(HERE / "psi4_pbe.toml").in_basis("sto-3g")


def own_hf():
    return OwnTarget("hf", "sto-3g", density_fit=False)


def own_pbe():
    return OwnTarget("pbe", "sto-3g")


def own_m06l():
    return OwnTarget("m06-l", "sto-3g")


def own_pcm():
    return OwnTarget("hf", "sto-3g", solvent="water", solvent_model="iefpcm", density_fit=False)
