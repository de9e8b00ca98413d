"""Inputs that say more of the molecule than is read, or leave open which one is meant, are not taken in silence."""

import warnings

import pytest

from dftfd import molecule
from dftfd.errors import InputError, InputWarning

O2 = "\nO 0 0 0\nO 0 0 1.2"
MOL = """
  by hand

  2  1  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 H   {mass}  0
    0.0000    0.0000    0.7400 H   0  0
  1  2  1  0
{line}M  END
"""


@pytest.mark.parametrize(
    "comment",
    ["nspin=2", "NUPDOWN=2", "nopen=2", "M=3", "3B1", "X 3Sigma-", "two unpaired electrons", "high-spin", "octet"]
    + ["T1 state", "magmom=2.0", "0 3 # opt", "mult3", "Triplett"],
)
def test_comment_that_speaks_of_spin_warns(comment):
    with pytest.warns(InputWarning, match="no spin in numbers: spin=0 is taken"):
        molecule(f"2\n{comment}{O2}", "sto-3g")


@pytest.mark.parametrize(
    "comment",
    ["oxidation=1", "valence=1", "formal=1", "oxidation_state=-2", "ion=-1", "net=-1", "qtot: -1", "monoanion"]
    + ["negatively charged", "ionized", "-c -1 -u 1", "QTOT -1"],
)
def test_comment_that_speaks_of_charge_warns(comment):
    with pytest.warns(InputWarning, match="no charge in numbers: charge=0 is taken"):
        molecule(f"2\n{comment}{O2}", "sto-3g")


@pytest.mark.parametrize(
    "comment", ["nspin=1", "1A1", "cutoff 3A", "magmom=0.0", 'pbc="F F F"', "cell A", "oxidation=0", "0 1 water"]
)
def test_comment_that_says_nothing_else_is_silent(comment):
    assert molecule(f"2\n{comment}{O2}", "sto-3g").n_electrons == 16


@pytest.mark.parametrize("comment", ['pbc="T T T"', "pbc=[False, False, True]", 'cell="9 0 0 0 9 0 0 0 9"'])
def test_cells_are_refused(comment):
    with pytest.raises(InputError, match="periodic cell"):
        molecule(f"2\n{comment}{O2}", "sto-3g")


def test_types_of_lammps_are_refused():
    text = "3\nAtoms. Timestep: 0\n{} 0 0 0\n{} 0 0 0.96\n{} 0 0.96 0"
    with pytest.raises(InputError, match="numbers of types"):
        molecule(text.format(2, 1, 1), "sto-3g")
    assert molecule(text.format("O", "H", "H"), "sto-3g").n_electrons == 10


def test_columns_of_moments_warn_unless_zero():
    text = "2\nProperties=species:S:1:pos:R:3:forces:R:3:initial_magmoms:R:1\nO 0 0 0 9 9 9 {0}\nO 0 0 1.2 9 9 9 {0}"
    with pytest.warns(InputWarning, match="'initial_magmoms', but no spin"):
        molecule(text.format("1.0"), "sto-3g")
    assert molecule(text.format("0.0"), "sto-3g").spin == 0


def test_lines_of_remarks_before_atoms_are_read():
    assert molecule("# charge=1 multiplicity=1\nHe 0 0 0\nH 0 0 0.77", "sto-3g").charge == 1
    with pytest.raises(InputError, match="in bohr"):
        molecule("# bohr\nHe 0 0 0\nHe 0 0 5", "sto-3g")
    assert molecule("# helium, 2 atoms\nHe 0 0 0 # charge -1\nHe 0 0 3", "sto-3g").charge == 0


@pytest.mark.parametrize(("mass", "line"), [("0", "M  ISO  1   1   2\n"), ("1", "")])
def test_isotopes_of_mol_files_warn(mass, line):
    with pytest.warns(InputWarning, match="names isotopes"):
        molecule(MOL.format(mass=mass, line=line), "sto-3g")
    assert molecule(MOL.format(mass="0", line=""), "sto-3g").n_electrons == 2


@pytest.mark.parametrize(
    ("text", "match"),
    [("[2H]O", "names isotopes"), ("[Mg]", "spin=2 is taken"), ("FC=CF", "several isomers")]
    + [("CC(F)C(F)C", "several isomers")],
)
def test_smiles_that_leave_something_open_warn(text, match):
    pytest.importorskip("rdkit")
    with pytest.warns(InputWarning, match=match):
        molecule(f"smiles:{text}", "sto-3g")


def test_smiles_with_a_charge_behind_are_refused_and_clear_ones_are_silent():
    pytest.importorskip("rdkit")
    with pytest.raises(InputError, match="charge=1 behind SMILES"):
        molecule("smiles:C1CC1 charge=1", "sto-3g")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("F/C=C/F", "CC(F)Cl", "C[CH2]", "CCO ethanol"):
            molecule(f"smiles:{text}", "sto-3g")
        assert molecule("smiles:[O][O]", "sto-3g", spin=2).spin == 2
