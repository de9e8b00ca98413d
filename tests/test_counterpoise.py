"""Interaction energies with and without the counterpoise correction."""

import pytest
from pyscf import gto, scf

import dftfd
from dftfd.errors import InputError
from dftfd.tasks.energy_differences import fragment

DIMER = "H 0 0 0; F 0 0 0.92; H 0 0 2.7; F 0 0.2 3.6"


def pyscf_energy(atoms):
    return scf.RHF(gto.M(atom=atoms, basis="6-31g", verbose=0)).set(conv_tol=1e-11).kernel()


def test_interaction_of_two_hydrogen_fluorides():
    """Hartree-Fock/6-31G against PySCF's energies of dimer, ghost partners and monomers (1e-8)."""
    molecule = dftfd.molecule(DIMER, basis="6-31g")
    options = {"xc": "hf", "density_fit": False, "conv_tol": 1e-11}
    found = dftfd.interaction_energy(molecule, [(0, 1), (2, 3)], **options)
    whole = pyscf_energy(DIMER)
    first = pyscf_energy("H 0 0 0; F 0 0 0.92; ghost-H 0 0 2.7; ghost-F 0 0.2 3.6")
    second = pyscf_energy("ghost-H 0 0 0; ghost-F 0 0 0.92; H 0 0 2.7; F 0 0.2 3.6")
    assert found.converged and found.energy == pytest.approx(whole - first - second, abs=1e-8)
    plain = dftfd.interaction_energy(molecule, [(0, 1), (2, 3)], counterpoise=False, **options)
    monomers = pyscf_energy("H 0 0 0; F 0 0 0.92") + pyscf_energy("H 0 0 2.7; F 0 0.2 3.6")
    assert plain.energy == pytest.approx(whole - monomers, abs=1e-8)
    assert sum(value for name, value in found.parts.items() if name != "total") == pytest.approx(found.energy, abs=1e-9)
    assert "parts [kcal/mol]" in str(found) and "Coulomb" in str(found)
    assert plain.energy < found.energy  # the superposition error lowers the complex


def test_fragments_have_their_own_charge_and_spin():
    """A proton's functions as ghosts; core potentials of ghosts are left out."""
    molecule = dftfd.molecule("I 0 0 0; H 0 0 1.6", basis="def2-svp")
    iodide = fragment(molecule, [0], charge=-1)
    assert iodide.formula == "I-" and iodide.n_ao == molecule.n_ao and iodide.labels == ("I", "ghost-H")
    hydrogen = fragment(molecule, [1], spin=1)
    assert hydrogen.formula == "H" and hydrogen.atom_ecp == (None, None)
    assert fragment(molecule, [1], spin=1, ghosts=False).n_ao == 5


@pytest.mark.parametrize(
    "fragments, options, message",
    [
        ([(0, 1), (2,)], {}, "must hold each of the atoms"),
        ([(0, 1), (1, 2, 3)], {}, "must hold each of the atoms"),
        ([(0, 1), (2, 3)], {"charges": [1, 0]}, "adding up to 0"),
        ([(0, 1), (2, 3)], {"spins": [0]}, "one of each is expected"),
    ],
)
def test_fragments_that_do_not_make_up_the_molecule(fragments, options, message):
    """Refused before anything is computed."""
    with pytest.raises(InputError, match=message):
        dftfd.interaction_energy(dftfd.molecule(DIMER, basis="sto-3g"), fragments, "hf", **options)
