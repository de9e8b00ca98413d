"""Molecule: one meaning for every form of input, PySCF's numbers for every property, a clear refusal for bad input."""

import json
import sys
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscf import gto, lo
from pyscf.data import nist
from pyscf.df import addons
from pyscf.scf import hf, uhf

import dftfd
from dftfd import benchmarks
from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import DftfdError, FileError, InputError, InputWarning, UnsupportedError
from dftfd.libcint.basis_sets import (
    exchange_names,
    exchange_potential,
    exchange_shells,
    load_basis,
    load_ecp,
    normalise_basis_name,
    to_tuples,
)
from dftfd.libcint.guesses import atomic_density, hueckel_density
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, meta_loewdin_orbitals, minao_guess, to_pyscf
from dftfd.libcint.two_electron import auxiliary_basis
from dftfd.system.molecule import Molecule, molecule

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
WATER_LIST = [("O", (0, 0, 0.1173)), ("H", (0, 0.7572, -0.4692)), ("H", (0, -0.7572, -0.4692))]


def pyscf_mole(**options):
    """PySCF's own Mole, built from PySCF's own parser."""
    return gto.M(verbose=0, **options)


# ------------------------------------------------------------------------------------------ forms of one molecule


def test_every_source_gives_the_same_molecule(tmp_path):
    """Text, list, file, path, ASE and PySCF describe one water: equal coordinates to the last bit, equal electrons."""
    ase = pytest.importorskip("ase")
    path = tmp_path / "water.xyz"
    path.write_text("3\n\n" + WATER.replace("; ", "\n") + "\n")
    sources = [
        WATER,
        WATER_LIST,
        str(path),
        path,
        path.read_text(),
        ase.Atoms("OHH", [position for _, position in WATER_LIST]),
        pyscf_mole(atom=WATER, basis="def2-svp"),
    ]
    reference = pyscf_mole(atom=WATER, basis="def2-svp")
    for source in sources:
        mol = molecule(source)
        np.testing.assert_array_equal(mol.coordinates, reference.atom_coords())
        assert (mol.symbols, mol.charge, mol.spin, mol.basis) == (("O", "H", "H"), 0, 0, "def2-svp")
        assert (mol.n_electrons, mol.n_alpha, mol.n_beta, mol.n_ao) == (10, 5, 5, reference.nao)
        assert mol.nuclear_repulsion == pytest.approx(reference.energy_nuc(), abs=1e-13)


def test_the_public_name_is_the_function():
    """`dftfd.molecule` is the function of the module `dftfd.system.molecule`."""
    assert callable(dftfd.molecule) and dftfd.molecule is molecule
    assert dftfd.Molecule is Molecule


def test_units():
    """1 bohr = 0.52917721092 angstrom, the constant of pyscf.data.nist; bohr input is not touched."""
    assert BOHR_IN_ANGSTROM == nist.BOHR == 0.52917721092
    in_bohr = molecule("H 0 0 0; H 0 0 1.4", unit="Bohr")
    assert in_bohr.coordinates[1, 2] == 1.4
    in_angstrom = molecule(f"H 0 0 0; H 0 0 {1.4 * nist.BOHR!r}", unit="ANGSTROM")
    assert in_angstrom.coordinates[1, 2] == pytest.approx(1.4, rel=1e-15)


def test_charged_open_shell_and_cartesian():
    """Electron counts and number of functions as PySCF counts them."""
    mol = molecule("O 0 0 0; O 0 0 1.2", basis="cc-pvtz", charge=1, spin=3, cartesian=True)
    reference = pyscf_mole(atom="O 0 0 0; O 0 0 1.2", basis="cc-pvtz", charge=1, spin=3, cart=True)
    assert (mol.n_alpha, mol.n_beta) == reference.nelec == (9, 6)
    assert mol.n_ao == reference.nao
    assert mol.formula == "O2+"
    assert molecule("F 0 0 0;", charge=-1).formula == "F-"
    assert molecule("O 0 0 0; O 0 0 1.5", charge=-2).formula == "O2^2-"  # O22- could be 22 atoms
    assert molecule("H 0 0 0;", spin=-1).n_beta == 1


def test_formula_follows_hill():
    """Carbon, hydrogen, then the alphabet; case of the input does not matter."""
    assert molecule("cl 0 0 0; h 0 0 1.27", basis="sto-3g").formula == "ClH"
    ethanol = [("O", (0, 0, 4 * k)) for k in range(1)] + [("C", (0, 5, 4 * k)) for k in range(2)]
    ethanol += [("H", (9, 0, 3 * k)) for k in range(6)]
    assert molecule(ethanol, basis="sto-3g").formula == "C2H6O"


def test_ghost_atoms_have_functions_but_no_charge():
    """The ghost partner of a counterpoise calculation: PySCF's 'ghost-O' and ours agree."""
    text = "O 0 0 0; H 0 0.76 0.59; H 0 -0.76 0.59; ghost-O 0 0 3; X-H 0 0.76 3.59; Bq:H 0 -0.76 3.59"
    mol = molecule(text, basis="6-31g*")
    reference = pyscf_mole(atom=text.replace("Bq:", "ghost-"), basis="6-31g*")
    assert mol.ghost == (False, False, False, True, True, True)
    np.testing.assert_array_equal(mol.nuclear_charges, reference.atom_charges())
    np.testing.assert_array_equal(mol.atomic_numbers, [8, 1, 1, 8, 1, 1])
    assert (mol.n_electrons, mol.n_ao, mol.formula) == (10, 36, "H2O") == (10, reference.nao, "H2O")
    assert mol.nuclear_repulsion == pytest.approx(reference.energy_nuc(), abs=1e-13)


def test_basis_per_label_element_and_default():
    """The label is asked before the element, the element before 'default'; PySCF's names give the same functions."""
    text = "O 0 0 0; H1 0 0.76 0.59; H 0 -0.76 0.59; ghost-H 0 0 4"
    mol = molecule(text, basis={"H1": "cc-pvdz", "h": "sto-3g", "ghost-H": "6-31g", "default": "def2-TZVP"})
    reference = pyscf_mole(atom=text, basis={"H1": "cc-pvdz", "H": "sto-3g", "ghost-H": "6-31g", "O": "def2-tzvp"})
    assert mol.n_ao == reference.nao
    np.testing.assert_allclose(to_pyscf(mol).intor("int1e_kin"), reference.intor("int1e_kin"), atol=1e-14)
    assert mol.basis == "H: sto-3g, H1: cc-pvdz, O: def2-tzvp, ghost-H: 6-31g"


def test_basis_as_numbers_and_uncontracted():
    """Shells given as numbers equal PySCF's shells of the same set; 'unc-' removes the contraction."""
    shells = gto.basis.load("sto-3g", "He")
    by_number, by_name = molecule("He 0 0 0;", basis={"He": shells}), molecule("He 0 0 0;", basis="sto-3g")
    np.testing.assert_array_equal(to_pyscf(by_number).intor("int1e_kin"), to_pyscf(by_name).intor("int1e_kin"))
    assert by_number.basis == "custom"
    assert molecule("Ne 0 0 0;", basis="unc-cc-pvdz").n_ao == pyscf_mole(atom="Ne", basis="unc-cc-pvdz").nao


def test_core_potentials_come_with_the_basis():
    """HI in def2-SVP: 28 core electrons of iodine are replaced (26 remain), as with PySCF's explicit ecp='def2-svp'."""
    mol = molecule("H 0 0 0; I 0 0 1.609")
    reference = pyscf_mole(atom="H 0 0 0; I 0 0 1.609", basis="def2-svp", ecp="def2-svp")
    np.testing.assert_array_equal(mol.nuclear_charges, [1, 25])
    np.testing.assert_array_equal(mol.atomic_numbers, [1, 53])
    assert mol.n_electrons == reference.nelectron == 26
    np.testing.assert_allclose(to_pyscf(mol).intor("ECPscalar"), reference.intor("ECPscalar"), atol=1e-14)


def test_core_potentials_by_choice():
    """False and {} switch them off, a name or dictionary chooses; a ghost never has one."""
    text = "H 0 0 0; I 0 0 1.609; ghost-I 0 0 5"
    all_electron = {"default": "sto-3g", "ghost-I": "def2-svp"}
    for none in (False, {}, {"I": None}):
        assert molecule(text, basis=all_electron, ecp=none).n_electrons == 54
    assert molecule(text, ecp="def2-tzvp").n_electrons == 26
    for ecp in ("lanl2dz", gto.basis.load_ecp("lanl2dz", "I")):
        assert molecule(text, basis={"default": "def2-svp", "I": "lanl2dz"}, ecp={"I": ecp}).n_electrons == 8
    assert molecule(text, ecp={"default": "def2-svp"}).n_electrons == 26
    with pytest.raises(InputError, match="has no core potential for H"):
        molecule(text, ecp={"H": "def2-svp"})
    with pytest.raises(InputError, match="no core potential for any element"):
        molecule(WATER, ecp="def2-svp")


@pytest.mark.parametrize(
    ("basis", "ecp", "said"),
    [
        ("sto-3g", "lanl2dz", "stands for 46 electrons, but sto-3g has functions for all electrons"),
        ("def2-svp", "lanl2dz", "stands for 46 electrons, but def2-svp was made for a core potential of 28"),
    ],
)
def test_a_core_potential_beside_another_basis_set_is_said_at_once_and_in_the_notes(basis, ecp, said):
    """PySCF computes without a word; its potential of 46 electrons beside sto-3g leaves functions of the core."""
    with pytest.warns(InputWarning, match=said):
        iodide = molecule("I 0 0 0;", basis=basis, charge=-1, ecp=ecp)
    assert any(said in remark for remark in iodide.basis_remarks)  # which the notes of results begin with


@pytest.mark.parametrize("ecp", [False, {}, {"Ag": None}, {"default": None}])
@pytest.mark.parametrize("basis", ["def2-svp", "lanl2dz", "unc-def2-svp"])
def test_core_electrons_without_functions_are_refused(basis, ecp):
    """Silver without its core potential in a valence basis set ended at -1216 hartree; all electrons have -5198."""
    with pytest.raises(InputError, match="no functions for the 28 core electrons of Ag"):
        molecule("Ag 0 0 0;", basis=basis, spin=1, ecp=ecp)
    assert molecule("Ag 0 0 0;", basis="dyall-v2z", spin=1, ecp=ecp).n_electrons == 47


def test_core_electrons_that_a_mole_forgets_are_refused():
    """PySCF takes no core potential with a basis set unless it is told to."""
    with pytest.raises(InputError, match="no functions for the 28 core electrons of Ag"):
        molecule(pyscf_mole(atom="Ag", basis="def2-svp", spin=1))


def test_a_minimally_augmented_basis_without_polarisation_is_told():
    """PySCF's ma-def2-SVP has def2-SV(P) inside: no p on H, no f on Sc. Of ma-def2-TZVP nothing is missing."""
    with pytest.warns(InputWarning, match="madef2svp lacks p functions of H that def2-svp has"):
        water = molecule(WATER, basis="ma-def2-svp")
    assert water.n_ao == molecule(WATER, basis="def2-svp").n_ao - 2 * 3 + 4
    with pytest.warns(InputWarning, match="madef2svp lacks f functions of Sc"):
        molecule("Sc 0 0 0;", basis="ma-def2-svp", spin=1)
    molecule(WATER, basis="ma-def2-tzvp")
    molecule(WATER, basis={"default": "ma-def2-svp", "H": "def2-svp"})


def test_an_augmented_set_has_what_it_augments():
    """PySCF's def2-QZVPPD has one f function of Mn, the diffuse one; def2-QZVPP and Turbomole's have three more."""
    with pytest.warns(
        InputWarning, match="def2-qzvppd lacks f functions of Mn that def2-qzvpp has; take def2-qzvpp for"
    ):
        molecule("Mn 0 0 0;", basis="def2-qzvppd", spin=5)
    for basis in ("def2-qzvppd", "def2-tzvpd", "aug-cc-pvtz", "6-31++g**"):
        assert not molecule(
            "Fe 0 0 0;" if "cc" not in basis else WATER, basis=basis, spin=4 * ("cc" not in basis)
        ).basis_remarks


@pytest.mark.parametrize(
    ("atom", "basis", "words"),
    [
        ("O", "PAW-L05", "no functions for the core electrons of O: it was made for a pseudopotential"),
        ("H", "PB4-D", r"has no exponent below 1 bohr\^-2 for H: it was not made for electrons"),
        ("H", "epc-8s8p8d", "not made for electrons"),
        ("O", "cc-pVDZ(fi/sf/sc)", "is made for one component of four-component calculations; is 'cc-pvdz' meant"),
    ],
)
def test_sets_for_something_else_than_all_electrons(atom, basis, words):
    """Of the Basis Set Exchange's orbital sets: for projector augmented waves, and for the orbitals of protons."""
    pytest.importorskip("basis_set_exchange")
    with pytest.raises(InputError, match=words):
        molecule(f"{atom} 0 0 0;", basis=basis, spin=2 if atom == "O" else 1)
    assert molecule("Rb 0 0 0; H 0 0 2.4", basis={"Rb": "sto-2g", "H": "sto-2g"}).n_ao


def test_a_basis_without_the_diffuse_functions_of_its_name_is_noted():
    """def2-QZVPPD gives none to Na, PySCF's 6-31++G none to Zn and He. H of 6-31+G is left alone, as was meant."""
    (remark,) = molecule("Na 0 0 0;", "def2-qzvppd", spin=1).diffuse_remarks
    assert remark == "def2-qzvppd has no diffuse functions for Na: it is def2-qzvpp there."
    assert all(molecule(f"{atom} 0 0 0;", "6-31++g**").diffuse_remarks for atom in ("Zn", "He"))
    assert molecule("Ca 0 0 0;", "unc-def2-tzvpd").diffuse_remarks
    for basis in ("6-31+g*", "aug-cc-pvdz", "def2-qzvppd", "cc-pvdz"):
        assert not molecule(WATER, basis).diffuse_remarks


def test_a_basis_that_is_the_next_smaller_one_is_told():
    """Two errors of the Basis Set Exchange: its ano-pVTZ is ano-pVDZ, and its aug-ccX-TZ has ccX-TZ's functions."""
    pytest.importorskip("basis_set_exchange")
    with pytest.warns(InputWarning, match="the table of ano-pvtz is that of ano-pvdz for H, O"):
        water = molecule(WATER, "ano-pvtz")
    assert water.n_ao == molecule(WATER, "cc-pvdz").n_ao
    (remark,) = molecule("O 0 0 0;", "aug-ccx-tz", spin=2).diffuse_remarks
    assert remark == "aug-ccx-tz has no diffuse functions for O: it is ccx-tz there."
    for basis in ("cc-pvtz", "ano-pvqz", "ano-rcc-vtzp", "unc-cc-pvqz"):
        assert not molecule(WATER, basis).basis_remarks


def test_valence_only_sets_never_run_without_their_potential():
    """ma-def2 on cerium needs a potential that the library lacks: refused, not run with all electrons."""
    with pytest.raises(InputError, match="core potential is not in the library"):
        molecule("Ce 0 0 0;", basis="ma-def2-svp")
    assert load_ecp("augccpvdzpp", "I")[0] == 28
    assert load_ecp("ccecpccpvdz", "C")[0] == 2
    assert load_ecp("def2svp", "Kr") is None


@pytest.mark.parametrize(
    "options",
    [
        {"atom": "I 0 0 0; H1 0 0 1.6; X-O 0 0 4", "basis": {"default": "def2-svp", "H1": "6-31g"}, "ecp": "def2-svp"},
        {"atom": "O 0 0 0; O 0 0 2.3", "basis": "cc-pvtz", "spin": 2, "cart": True, "unit": "B"},
        {"atom": "C 0 0 0; O 0 0 1.1", "basis": {"C": "sto-3g", "O": gto.basis.load("6-31g", "O")}, "charge": 2},
        {"atom": "Ne 0 0 0", "basis": {"Ne": gto.uncontract(gto.basis.load("cc-pvdz", "Ne"))}},
        {"atom": "ghost-H@2 0 0 0; He 0 0 2", "basis": "cc-pvdz"},
    ],
)
def test_a_mole_survives_the_way_in_and_out(options):
    """Functions, charges, core potentials and electrons of a PySCF Mole are those of the Mole built back from it."""
    mole = pyscf_mole(**options)
    back = to_pyscf(molecule(mole))
    np.testing.assert_array_equal(back.atom_coords(), mole.atom_coords())
    np.testing.assert_array_equal(back.atom_charges(), mole.atom_charges())
    assert (back.nelec, back.cart, back.nao) == (mole.nelec, mole.cart, mole.nao)
    np.testing.assert_allclose(hf.get_hcore(back), hf.get_hcore(mole), atol=1e-13)


def test_moles_that_cannot_be_carried_over_are_refused():
    """A periodic cell, an unbuilt Mole, changed charges, or arguments that contradict the Mole."""
    from pyscf.pbc import gto as pbc_gto

    mole = pyscf_mole(atom="He 0 0 0")
    for extra, message in (
        ({"basis": "sto-3g"}, "but basis was given"),
        ({"charge": 1, "spin": 1}, "charge, spin was given"),
        ({"unit": "bohr"}, "knows its unit"),
    ):
        with pytest.raises(InputError, match=message):
            molecule(mole, **extra)
    with pytest.raises(InputError, match="has not been built"):
        molecule(gto.Mole(atom="He 0 0 0"))
    with pytest.raises(UnsupportedError, match="not a molecule; periodic"):
        molecule(pbc_gto.Cell())
    changed = mole.copy()
    changed._atm = changed._atm.copy()
    changed._atm[0, 0] = 3
    with pytest.raises(UnsupportedError, match="modified charges"):
        molecule(changed)


def test_ase_atoms_must_be_a_molecule():
    """Periodic Atoms are refused, as is a second opinion about the unit."""
    ase = pytest.importorskip("ase")
    with pytest.raises(UnsupportedError, match="periodic"):
        molecule(ase.Atoms("He", [(0, 0, 0)], cell=(5, 5, 5), pbc=True))
    with pytest.raises(InputError, match="in angstrom"):
        molecule(ase.Atoms("He", [(0, 0, 0)]), unit="bohr")
    with pytest.raises(InputError, match="Ghost atoms name their element"):
        molecule(ase.Atoms("X", [(0, 0, 0)]))


# ------------------------------------------------------------------------------------------------- the value


def test_a_molecule_is_immutable_and_its_mole_is_built_once():
    """Fields and coordinates cannot be changed; the Mole is cached while the molecule lives."""
    mol = molecule(WATER)
    with pytest.raises(AttributeError):
        mol.charge = 1
    with pytest.raises(ValueError, match="read-only"):
        mol.coordinates[0, 0] = 1.0
    assert to_pyscf(mol) is to_pyscf(mol)
    reference = weakref.ref(mol)
    del mol
    assert reference() is None


def test_moving_the_atoms():
    """`at` keeps everything but the positions and checks them."""
    mol = molecule(WATER, charge=1, spin=1)
    moved = mol.at(mol.coordinates + 1.0)
    assert moved.charge == 1 and moved.nuclear_repulsion == pytest.approx(mol.nuclear_repulsion, rel=1e-14)
    with pytest.raises(InputError, match="expected \\(3, 3\\)"):
        mol.at(np.zeros((2, 3)))
    with pytest.raises(InputError, match="coordinates=.*9 not finite.*: give an array"):
        mol.at(np.full((3, 3), np.nan))


def test_shortest_distance():
    """O-H of water in bohr; ghosts do not count, one nucleus has none."""
    first, second, distance = molecule(WATER + "; ghost-He 0 0 0.4").shortest_distance
    assert (first, second) == (0, 1)
    assert distance == pytest.approx(np.hypot(0.7572, 0.5865) / nist.BOHR, rel=1e-12)
    assert molecule("He 0 0 0; ghost-He 0 0 1").shortest_distance is None


def test_starting_density_is_pyscf_minao():
    """Total and spin-resolved guesses equal PySCF's, also with a core potential and the broken-symmetry singlet."""
    mol = molecule("H 0 0 0; I 0 0 1.609")
    mole = pyscf_mole(atom="H 0 0 0; I 0 0 1.609", basis="def2-svp", ecp="def2-svp")
    np.testing.assert_allclose(minao_guess(mol)[0], hf.init_guess_by_minao(mole), atol=1e-12)
    np.testing.assert_allclose(minao_guess(mol, 2), uhf.init_guess_by_minao(mole), atol=1e-12)
    triplet = pyscf_mole(atom="O 0 0 0; O 0 0 1.2", basis="sto-3g", spin=2)
    np.testing.assert_allclose(minao_guess(molecule(triplet), 2), uhf.init_guess_by_minao(triplet), atol=1e-12)


@pytest.mark.parametrize(
    "text, options",
    [
        ("O 0 0 0.1; H 0 0.8 -0.5; H 0 -0.8 -0.5", {}),
        ("O 0 0 0.1; H 0 0.8 -0.5; H 0 -0.8 -0.5", {"cartesian": True}),
        ("I 0 0 0; H1 0 0 1.6; ghost-O 0 0 4", {"basis": {"default": "def2-svp", "H1": "6-31g"}}),
        ("Au 0 0 0; H 0 0 1.6", {"basis": "lanl2dz"}),
    ],
)
def test_densities_of_atoms_are_pyscfs(text, options):
    """Minimal basis, Hartree-Fock atoms, Hueckel orbitals and meta-Loewdin orbitals, whose shells come as numbers."""
    mol = molecule(text, **options)
    mole = to_pyscf(mol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySCF's, of itself
        theirs = [make(mole) for make in (hf.init_guess_by_minao, hf.init_guess_by_atom, hf.init_guess_by_huckel)]
    ours = [minao_guess(mol)[0], atomic_density(mol), hueckel_density(mol)]
    ours, theirs = [*ours, meta_loewdin_orbitals(mol)], [*theirs, lo.orth_ao(mole, "meta_lowdin", "ANO")]
    for density, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(density, reference, atol=1e-9)


@pytest.mark.parametrize("basis", ["6-31g(d)", "6-31+g*", "cc-pvdz", "def2-svp", "pc-1", "dyall-v2z"])
def test_fitting_functions_are_pyscfs(basis):
    """Beside an atom with other functions: the sets of the tables, or even-tempered functions."""
    chosen = {"O": basis, "H": [[0, [0.5, 1.0]]]}
    mol = molecule("O 0 0 0; H 0 0 1", basis=chosen, charge=-1)
    view = to_pyscf(mol).copy()
    view.basis = chosen
    theirs = addons.make_auxmol(view, addons.make_auxbasis(view))
    ours = addons.make_auxmol(view, auxiliary_basis(mol, exact_exchange=True)[0])
    np.testing.assert_array_equal(ours.intor("int2c2e"), theirs.intor("int2c2e"))


def test_a_core_of_no_shells_has_no_guess_from_atoms():
    """Five core electrons are refused by name, where PySCF ends in a RuntimeError."""
    with pytest.warns(InputWarning, match="stands for 5 electrons, but sto-3g has functions for all"):
        mol = molecule("F 0 0 0;", spin=0, ecp={"F": [5, [[-1, [[], [], [[1.0, 0.5]]]]]]}, basis="sto-3g")
    with pytest.raises(InputError, match="a core of 5 electrons"):
        minao_guess(mol)


# ------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("Xx 0 0 0; H 0 0 1", {}, r"unknown element 'Xx' \(atom 1\); did you mean Xe"),
        ("O 0 0 0;", {"basis": "def2-svpp"}, "unknown basis set 'def2-svpp'; the closest known names are .*'def2-svp'"),
        ("U 0 0 0;", {"basis": "6-31g", "spin": 4}, "'631g' has no functions for U"),
        ("C 0 0 0;", {"basis": "cc-pwcvdz", "spin": 2}, "no functions for C in PySCF's table; take .* as cc-pcvdz"),
        ("He 0 0 0;", {"basis": {"He": [[0, [1e300, 1.0]]]}}, "exponent 1e\\+300; from 1e-08 to 1e\\+12 bohr"),
        ("O 0 0 0; H 0 0 1", {}, r"spin=0 does not fit 9 electrons \(HO\); .* allowed here: 1, 3, 5, 7, ... up to 9"),
        ("H 0 0 0; H 0 0 .74", {"spin": 4}, "spin=4 needs 4 unpaired of 2 electrons; .* allowed here: 0, 2"),
        ("He 0 0 0;", {"basis": "sto-3g", "spin": 2}, "2 alpha electrons do not fit into the 1 basis functions"),
        ("H 0 0 0; H 0 0 0", {}, r"atoms 1 \(H\) and 2 \(H\) are 0 angstrom apart"),
        ("O 0 0 0; H 0 0 1; H 0 0 1.05", {}, r"atoms 2 \(H\) and 3 \(H\) are 0.05 angstrom apart.*allow_close=True"),
        ([("H", (0, 0, 0)), ("H", (0, 0, float("nan")))], {}, r"coordinate z of atom 2 \(H\) is NaN"),
        ([("H", (0, 0, 0)), ("H", (0, float("-inf"), 0))], {}, r"coordinate y of atom 2 \(H\) is infinite"),
        ("H 0 0 0; H 1e300 0 0", {}, "coordinate x of atom 2"),
        ("H 0 0 0; H 1e999 0 0", {}, "coordinate x of atom 2 .* infinite"),
        ("", {}, "the molecule has no atoms"),
        ("  \n ; \n", {}, "the molecule has no atoms"),
        ([], {}, "the molecule has no atoms"),
        ("H 0 0 0;", {"charge": 1}, "the molecule has no electrons"),
        ("ghost-H 0 0 0;", {}, "the molecule has no electrons"),
        ("H 0 0 0;", {"charge": 3}, r"charge \+3 exceeds the total nuclear charge 1 of"),
        ("H 0 0 0; H 0 0 1.4", {"unit": "nm"}, "unit='nm': give one of 'angstrom', 'bohr'"),
        ("H 0 0 0; H 0 0 1.4", {"unit": 1.0}, "unit=1.0: give one of"),
        ('H 0 0 0; H 0 0 __import__("os").getpid()*0+0.74', {}, "coordinate z of atom 2 is .* expected a number"),
        ("H 0 0; H 0 0 0.74", {}, "line 1: expected 'El x y z'"),
        ("He 0 0 0;", {"charge": 0.0}, "charge=0.0: give a whole number"),
        ("He 0 0 0;", {"spin": True}, "spin=True: give a whole number"),
        ("He 0 0 0;", {"spin": "0"}, "spin='0': give a whole number"),
        ("He 0 0 0;", {"cartesian": 1}, "cartesian=1: give True or False"),
        ("He 0 0 0;", {"basis": 3}, "basis must be a name or a dictionary"),
        ("He 0 0 0;", {"basis": {"Ne": "sto-3g"}}, r"no entry for atom 1 \(He\) and no 'default'"),
        ("He 0 0 0;", {"basis": {"He7": "sto-3g", "He": "sto-3g"}}, "entry for 'He7', but no atom carries this label"),
        ("He 0 0 0;", {"basis": {"Q": "sto-3g"}}, "unknown element 'Q'"),
        ("He 0 0 0;", {"basis": {"He": []}}, "must be a name or a list of shells"),
        ("He 0 0 0;", {"basis": {"He": [[0, [-1.0, 1.0]]]}}, "needs a positive exponent"),
        ("He 0 0 0;", {"basis": {"He": [[0, [1.0, float("nan")]]]}}, "needs a positive exponent"),
        ("He 0 0 0;", {"basis": {"He": [[0, [1.0, 1.0], [2.0]]]}}, "same number of coefficients"),
        (
            "He 0 0 0;",
            {"basis": {"He": [[0, [1.0, 1.0, 0.0], [2.0, 1.0, 0.0]]]}},
            "are all zero; leave that column out",
        ),
        ("Ho 0 0 0;", {"basis": "cc-pvdz-dk"}, "function of l = 1 for Ho whose coefficients are all zero"),
        ("He 0 0 0;", {"basis": {"He": [["s", [1.0, 1.0]]]}}, "is not \\[l, "),
        ("He 0 0 0;", {"ecp": {"He": [2, "x"]}}, "expected a name or"),
        ("He 0 0 0;", {"ecp": True}, "ecp must be a name or a dictionary"),
        (None, {}, "cannot read a molecule from NoneType"),
        (5, {}, "cannot read a molecule from int"),
    ],
)
def test_bad_input_is_refused_at_once(source, options, message, monkeypatch):
    """One line that says what was found and what to do, exit code 2, before any integral."""
    monkeypatch.setattr("pyscf.gto.moleintor.getints", lambda *_, **__: pytest.fail("an integral was asked for"))
    with pytest.raises(InputError, match=message) as caught:
        molecule(source, **options)
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)


def test_misspelt_keywords_are_refused():
    """gto.M(chrage=1) fails in PySCF too; no option is swallowed."""
    with pytest.raises(InputError, match="no option 'chrage'; the closest ones are charge"):
        molecule("He 0 0 0;", chrage=1)


def test_missing_files_have_their_own_exit_code(tmp_path):
    """A path that does not exist is exit code 5; one that looks like coordinates gets a hint."""
    with pytest.raises(FileError, match="file not found") as caught:
        molecule(tmp_path / "none.xyz")
    assert caught.value.exit_code == 5
    with pytest.raises(FileError, match="separate the atoms by ';'"):
        molecule("He 0 0 0")


@pytest.mark.parametrize("symbol", [pytest.param("H", marks=pytest.mark.slow), "I"])
def test_the_exchange_says_of_a_set_that_both_know_what_pyscf_says(symbol):
    """def2-TZVP and its potential of iodine, from two libraries: the same numbers but for shells' order and norms."""
    ours = sorted(to_tuples(exchange_shells("def2tzvp", symbol)))
    theirs = sorted(load_basis("def2tzvp", symbol))
    assert [shell[0] for shell in ours] == [shell[0] for shell in theirs]
    for found, known in zip(ours, theirs, strict=True):
        of_found, of_known = np.array(found[1:]), np.array(known[1:])
        np.testing.assert_allclose(of_found[:, 0], of_known[:, 0], rtol=1e-12)
        np.testing.assert_allclose(of_found[:, 1] / of_found[0, 1], of_known[:, 1] / of_known[0, 1], rtol=1e-12)
    potential, known = exchange_potential("def2tzvp", symbol), load_ecp("def2tzvp", symbol)
    assert (to_tuples(potential) if potential else None) == known


def test_second_diffuse_functions_go_on_as_a_geometric_series():
    """d-aug-cc-pVTZ, of the exchange alone: the last exponent is the last of aug-cc-pVTZ squared over the one before.

    D. E. Woon, T. H. Dunning, J. Chem. Phys. 100, 2975 (1994).
    """
    once, twice = (load_basis(normalise_basis_name(name), "N") for name in ("aug-cc-pVTZ", "d-aug-cc-pVTZ"))
    for momentum in range(4):
        *_, before, last = sorted({row[0] for shell in once if shell[0] == momentum for row in shell[1:]}, reverse=True)
        smallest = min(row[0] for shell in twice if shell[0] == momentum for row in shell[1:])
        assert smallest == pytest.approx(last**2 / before, rel=2e-3)
    assert molecule("N 0 0 0;", basis="d-aug-cc-pVTZ", spin=3).basis == "d-aug-cc-pvtz"
    with pytest.raises(InputError, match="no functions for I"):
        molecule("I 0 0 0;", basis="d-aug-cc-pv5z", spin=1)


def test_what_brings_more_basis_sets_is_told(monkeypatch):
    """Without the package the refusal names it."""
    exchange_names.cache_clear()
    monkeypatch.setitem(sys.modules, "basis_set_exchange", None)
    with pytest.raises(InputError, match=r"unknown basis set 'd-aug-cc-pvtz'; .*pip install 'dftfd\[basis\]'"):
        molecule("N 0 0 0;", basis="d-aug-cc-pvtz", spin=3)
    exchange_names.cache_clear()


@pytest.mark.parametrize("name", ["./basis.dat", "basis.dat", "H S\n 1.0 1.0\n", "def2-svp@3s", "gth-dzvp", "../../x"])
def test_basis_names_never_reach_the_file_system(name, tmp_path, monkeypatch):
    """PySCF reads files and basis set text in place of names; here only the table counts."""
    monkeypatch.chdir(tmp_path)
    Path("basis.dat").write_text("BASIS\nH S\n 1.0 1.0\nEND\n")
    with pytest.raises(InputError, match="unknown basis set"):
        molecule("H 0 0 0;", basis=name, spin=1)


def test_a_file_named_like_a_basis_set_is_ignored(tmp_path, monkeypatch):
    """PySCF would read a file 'sto3g' in the working directory; the functions here stay those of STO-3G."""
    from dftfd.libcint import basis_sets

    basis_sets.load_basis.cache_clear()
    monkeypatch.chdir(tmp_path)
    for name in ("sto3g", "sto-3g"):
        Path(name).write_text("BASIS\nH S\n 99.0 1.0\nEND\n")
    assert normalise_basis_name("STO-3G") == "sto3g"
    shells = basis_sets.load_basis("sto3g", "H")
    assert shells[0][1][0] == pytest.approx(3.42525091)


def test_close_atoms_on_request():
    """H2 at 0.05 angstrom runs when asked for; coinciding nuclei never do, a ghost on a nucleus may."""
    assert molecule("H 0 0 0; H 0 0 0.05", allow_close=True).n_atoms == 2
    assert molecule("He 0 0 0; ghost-Ne 0 0 0", allow_close=True).n_atoms == 2
    with pytest.raises(InputError, match="0 angstrom apart, nearer than 0.1 angstrom\\.$"):
        molecule("H 0 0 0; H 0 0 0", allow_close=True)


@pytest.mark.parametrize(
    ("text", "unit", "other"),
    [
        ("H 0 0 0; H 0 0 1.4", "angstrom", "bohr"),
        ("O 0 0 0.2217; H 0 1.4309 -0.8867; H 0 -1.4309 -0.8867", "angstrom", "bohr"),
        (WATER, "bohr", "angstrom"),
        ("N 0 0 0; N 0 0 1.0977", "bohr", "angstrom"),
    ],
)
def test_confused_units_are_pointed_out(text, unit, other):
    """A hydrogen molecule of 1.4 angstrom is bohr; PySCF computes it without a word. The run goes on with a warning."""
    with pytest.warns(InputWarning, match=f"were read in {unit}: should the unit be {other}") as caught:
        molecule(text, unit=unit, basis="sto-3g")
    assert caught[0].filename == __file__


DIATOMICS = """H H .7414; He H .7743; Li H 1.5957; Be H 1.3426; B H 1.2324; C H 1.1199; O H .9697; F H .9168
Na H 1.8874; Al H 1.6478; Si H 1.5201; Cl H 1.2746; Ge H 1.5880; Sn H 1.7815; Hg H 1.7662; Tl H 1.8702; Li Li 2.6729
C C 1.2425
N N 1.0977; O O 1.2075; F F 1.4119; Na Na 3.0789; P P 1.8934; S S 1.8892; Cl Cl 1.9879; Cu Cu 2.2197; I I 2.6663
Be O 1.3309; B O 1.2045; C O 1.1283; N O 1.1508; Mg O 1.749; Al O 1.6179; Si O 1.5097; Ca O 1.8221; Sc O 1.6656
Ti O 1.6202; V O 1.5893; Cr O 1.615; Mn O 1.6477; Fe O 1.6164; Zn O 1.7047; Zr O 1.7116; Ba O 1.9397; La O 1.8259
C N 1.1718; Ti N 1.582; O F 1.3541; Li F 1.5639; Be F 1.361; Mg F 1.75; Cs F 2.3453; Na Cl 2.3608; Mg Cl 2.1991
Na K 3.589; K K 3.9051; Mg S 2.1425""".replace("\n", ";")
"""Distances [angstrom]: K. P. Huber, G. Herzberg, Constants of Diatomic Molecules (1979)."""


@pytest.mark.parametrize(("unit", "other"), [("bohr", "angstrom"), ("angstrom", "bohr")])
def test_diatomics_in_the_other_unit_warn(unit, other):
    """Nitrogen, oxides of Be, Mg, Sc, Ti, V and hydrides of B, Si, Sn did not."""
    for a, b, r in map(str.split, DIATOMICS.split(";")):
        given = float(r) / (1.0 if unit == "bohr" else BOHR_IN_ANGSTROM)
        spin = sum(ATOMIC_NUMBERS[name] for name in (a, b)) % 2
        charge = 1 if (a, b) == ("He", "H") else 0
        atoms = [(a, (0, 0, 0)), (b, (0, 0, given))]
        with pytest.warns(InputWarning, match=f"were read in {unit}: should the unit be {other}"):
            molecule(atoms, "def2-svp", charge, (spin + charge) % 2, unit=unit)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            molecule(atoms, "def2-svp", charge, (spin + charge) % 2, unit=other)


@pytest.mark.parametrize("name", ["w4-17", "g21ea", "g21ip", "s22", "a24", "bh46", "dbh22", "quick"])
def test_molecules_of_sets_are_in_angstrom(name):
    """None of 606 geometries of the sets that are shipped looks like one in bohr."""
    entries = json.loads((Path(benchmarks.__file__).parent / "shipped" / f"{name}.json").read_text())["molecules"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*should the unit be")
        for entry in entries.values():
            molecule(entry["atoms"], "def2-svp", entry["charge"], entry["spin"])


def test_objects_in_the_other_unit_warn():
    """A Mole says its unit, which may be the wrong one, too; ASE has angstrom."""
    for atom, unit in (("N 0 0 0; N 0 0 1.0977", "Bohr"), ("N 0 0 0; N 0 0 2.0743", "Angstrom"), (WATER, "au")):
        with pytest.warns(InputWarning, match="should the unit be"):
            molecule(gto.M(atom=atom, unit=unit, basis="sto-3g", verbose=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        molecule(gto.M(atom="N 0 0 0; N 0 0 2.0743", unit="B", basis="sto-3g", verbose=0))
        molecule(gto.M(atom=WATER, basis="sto-3g", verbose=0))
    ase = pytest.importorskip("ase")
    with pytest.warns(InputWarning, match="should the unit be bohr"):
        molecule(ase.Atoms("CO", [(0, 0, 0), (0, 0, 2.1322)]), "sto-3g")


SENSIBLE = {
    "water": WATER,
    "hydrogen": "H 0 0 0; H 0 0 0.7414",
    "dissociated hydrogen": "H 0 0 0; H 0 0 5",
    "cube of hydrogen": "; ".join(f"H {0.7 * (i & 1)} {0.7 * (i >> 1 & 1)} {0.7 * (i >> 2)}" for i in range(8)),
    "lithium hydride": "Li 0 0 0; H 0 0 1.595",
    "hydrogen iodide": "H 0 0 0; I 0 0 1.609",
    "silane bond": "Si 0 0 0; H 0 0 1.48; H 0 1.48 0; H 1.48 0 0; H -1.48 0 0",
    "sodium hydride": "Na 0 0 0; H 0 0 1.887",
    "bridging hydrogen": "B 0 0.88 0; B 0 -0.88 0; H 0.98 0 0; H -0.98 0 0",
    "argon pair": "Ar 0 0 0; Ar 0 0 3.7565",
    "helium pair": "He 0 0 0; He 0 0 50",
    "chromium dimer": "Cr 0 0 0; Cr 0 0 1.68",
    "nitrogen": "N 0 0 0; N 0 0 1.0977",
    "hydrogen leaving fluorine": "H 0 0 -1.615; F 0 0 0; F 0 0 1.48; H 0 0 3.095",
    "ghost near a bond": "H 0 0 0; H 0 0 0.7414; ghost-H 0 0 0.37",
    "one atom": "He 0 0 0;",
    "manganese dimer": "Mn 0 0 0; Mn 0 0 3.4",
    "magnesium dimer": "Mg 0 0 0; Mg 0 0 3.89",
    "triplet lithium": "Li 0 0 0; Li 0 0 4.17",
    "argon on magnesium": "Mg 0 0 0; Ar 0 0 4.5",
    "water dimer, compressed": "O 0 0 0; H 0 0 .96; H 0 .93 -.24; O 0 0 2.6; H .76 0 3.2; H -.76 0 3.2",
    "hydrogen between two fluorines": "F 0 0 0; H 0 0 1.14; F 0 0 2.28; Li 0 0 4.2",
}


@pytest.mark.parametrize("name", SENSIBLE)
def test_sensible_geometries_raise_no_warning(name):
    """Bonds from H2 to LiH, van der Waals pairs, dissociated atoms and ghosts pass in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        molecule(SENSIBLE[name], basis="sto-3g")


PIECES = [
    "H",
    "He",
    "O",
    "ghost-",
    "X-",
    " ",
    " 0",
    " 1.5",
    " -3",
    " nan",
    " 1e999",
    ";",
    "\n",
    "3",
    "#",
    "/",
    "..",
    "\x00",
]


@settings(deadline=None)
@given(
    st.one_of(
        st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
        st.lists(st.tuples(st.sampled_from("HCO"), st.lists(st.floats(), min_size=3, max_size=3)), max_size=4),
    ),
    st.integers(-2, 3),
    st.integers(-1, 3),
)
def test_any_source_gives_a_molecule_or_a_typed_error(source, charge, spin):
    """Random text, lists with any floats, charges and spins: a consistent molecule or one line of explanation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        try:
            mol = molecule(source, basis="sto-3g", charge=charge, spin=spin)
        except DftfdError as error:
            assert isinstance(error, InputError | FileError) and "\n" not in str(error)
        else:
            assert mol.n_alpha - mol.n_beta == spin and mol.n_electrons > 0
            assert np.isfinite(mol.nuclear_repulsion)


def test_pyscf_stays_silent(capfd):
    """Building with core potentials, ghosts and guesses prints nothing and raises no warning."""
    minao_guess(molecule("I 0 0 0; H1 0 0 1.6; ghost-O 0 0 4", basis={"default": "def2-svp", "H1": "6-31g"}), 2)
    assert capfd.readouterr() == ("", "")
