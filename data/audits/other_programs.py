"""Calculators of ASE, executables and dftfd itself, beside the methods of PySCF."""

from dataclasses import replace

from ase.calculators.emt import EMT

from dftfd.interop.audit_targets import ASETarget
from dftfd.interop.program_targets import shipped
from dftfd.verify.code_audit import OwnTarget


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
    return replace(shipped("psi4").in_basis("sto-3g"), name="Psi4 1.3.2, RHF/sto-3g")


def psi4_pbe():
    return replace(shipped("psi4").in_basis("sto-3g").of("method", "pbe"), name="Psi4 1.3.2, PBE/sto-3g")


def nwchem_hf():
    return replace(shipped("nwchem").in_basis("sto-3g"), name="NWChem 7.0.2, HF/sto-3g")


def own_hf():
    return OwnTarget("hf", "sto-3g", density_fit=False)


def own_pbe():
    return OwnTarget("pbe", "sto-3g")


def own_m06l():
    return OwnTarget("m06-l", "sto-3g")


def own_pcm():
    return OwnTarget("hf", "sto-3g", solvent="water", solvent_model="iefpcm", density_fit=False)
