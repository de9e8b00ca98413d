"""Names, numbers and objects that mean something else than they were read as: the ninth round of attacks."""

import warnings

import numpy as np
import pytest
from pyscf import gto

import dftfd
from dftfd import molecule
from dftfd.benchmarks.energies import Computed
from dftfd.benchmarks.gmtkn55 import read_gmtkn55
from dftfd.benchmarks.reaction_energy import ReactionEnergy
from dftfd.cli import main
from dftfd.cli.chemistry import _atom_lists
from dftfd.errors import InputError, InputWarning
from dftfd.interop.geometric import minimise
from dftfd.response.polarizability import FREQUENCY
from dftfd.results.thermochemistry import thermochemistry
from dftfd.system.basis import resolve_basis
from dftfd.system.comment_line import said_in
from dftfd.system.geometry import parse_geometry
from dftfd.system.isotopes import masses
from dftfd.system.molecule import refuse_names_of_pdb

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"


def check_names(text):
    found = parse_geometry(text)
    refuse_names_of_pdb(found.names, found.coordinates / 0.52917721)


@pytest.mark.parametrize(
    ("rows", "meant"),
    [
        ("SM 0 0 0; SM 0 0 2.03; C 1.5 0 -1; C 1.5 0 3", "S"),  # CHARMM: disulfide, read as samarium
        ("SG 0 0 0; H 0 0 1.34; C 1.8 0 0", "S"),  # PDB: cysteine
        ("CR 0 0 0; N 1.32 0 0; N -.7 1.16 0; H -.5 -.95 0", "C"),  # AMBER, OPLS: imidazole
        ("CO 0 0 0; O 1.41 0 0; O -.7 1.22 0; H -.5 -.5 .85", "C"),  # OPLS: acetal
        ("cu 0 0 0; c 1.3 0 0; h -.6 .9 0", "C"),  # GAFF: cyclopropene
        ("CN 0 0 0; O 1.23 0 0; N -.7 1.16 0; H -.5 -.95 0", "C"),
        ("nh 0 0 0; c 1.38 0 0; h -.5 .87 0; h -.5 -.87 0", "N"),
        ("NP 0 0 0; C 1.47 0 0; C -.7 1.28 0; H -.5 -.85 0", "N"),
        ("OG 0 0 0; H .96 0 0; C -.6 1.25 0", "O"),  # PDB: serine
        ("hs 0 0 0; s 0 0 1.34; c 0 1.8 1.5", "H"),
        ("HF 0 0 0; C 0 0 1.09; N 0 1.2 1.6", "H"),
    ],
)
def test_more_names_of_force_fields_are_no_metals(rows, meant):
    with pytest.raises(InputError, match=f"is a name of {meant} in"):
        check_names(rows)


@pytest.mark.parametrize(
    "rows",
    [
        "CR 0 0 0; O 1.58 0 0; O -.5 1.5 0",
        "CR 0 0 0; C 1.91 0 0; O 3.05 0 0",
        "CO 0 0 0; N 1.62 0 0; O 2.78 0 0",
        "co 0 0 0; h 0 0 1.5",
        "CU 0 0 0; CL 0 0 2.05",
        "CU 0 0 0; C 0 0 1.83; N 0 0 3",
        "SM 0 0 0; O 0 0 1.83",
        "SM 0 0 0; S 0 0 2.4",
        "HF 0 0 0; O 0 0 1.72",
        "NP 0 0 0; O 0 0 1.75; O 0 0 -1.75",
    ],
)
def test_metals_in_one_case_are_read(rows):
    check_names(rows)


@pytest.mark.parametrize(
    ("title", "about"),
    [
        ('O2 3A" state', "spin"),
        ("2A'", "spin"),
        ("~3A\u2033", "spin"),
        ("^3A_2", "spin"),
        ("5T2g, high spin", "spin"),
        ("2Eg", "spin"),
        ("3Bu minimum", "spin"),
        ("F 2P3/2", "spin"),
        ("0 3 -150.1", "spin"),
        ("1 2 -76.4", "charge"),
    ],
)
def test_more_term_symbols_and_numbers_are_mentioned(title, about):
    assert about in said_in(title, "a comment")["mentions"]


@pytest.mark.parametrize(
    "title", ["1A'", "3Au cluster", "dimer 2B", "5'-end", "0 1 -76.4", "S22 03a", '3" disc', "frame 1 2.5"]
)
def test_harmless_titles_mention_nothing(title):
    assert not said_in(title, "a comment")["mentions"]


@pytest.mark.parametrize("word", ["Gh", "ghost", "(Bq)"])
def test_ghosts_behind_coordinates_are_no_atoms(word):
    with pytest.raises(InputError, match="ghost atoms name their element"):
        parse_geometry(f"2\n\nH 0 0 0\nHe 0 0 0.9 {word}\n")


def test_ranges_of_fragments_go_up_and_one_step_has_one_end(capsys):
    with pytest.raises(InputError, match="write 0-2"):
        _atom_lists("2-0; 3")
    assert main(["scan", "H 0 0 0; H 0 0 1", "--bond", "0", "1", "--from", "1", "--to", "2", "--steps", "1"]) == 2
    assert "--steps 1 is the value --from alone" in capsys.readouterr().err


def test_a_set_of_other_makers_contradicts_itself_in_no_silence(tmp_path):
    """Charges in .CHRG beside others in the geometry, and bohr, which were read as angstrom."""
    for name, comment in (("h2", "charge=2"), ("he", "in bohr"), ("h", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "struc.xyz").write_text(f"1\n{comment}\nHe 0 0 0\n")
    (tmp_path / ".res").write_text("$tmer h2/$f h/$f x -1 1 $w 12.3\n$tmer he/$f h/$f x -1 1 $w 12.3\n")
    reasons = [reason for _, reason in read_gmtkn55(tmp_path).left_out]
    assert "says another charge or spin" in reasons[0] and "marked as in bohr" in reasons[1]


def test_fragments_have_the_unpaired_electrons_of_the_whole():
    """Singlet O2 by default, of which 41 kcal/mol of attraction to helium came."""
    system = molecule("O 0 0 0; O 0 0 1.21; He 3.2 0 0.6", "sto-3g", spin=2)
    with pytest.raises(InputError, match=r"2 unpaired electrons.*give spins="):
        dftfd.interaction_energy(system, [[0, 1], [2]], "hf")


def test_masses_of_other_elements_warn():
    with pytest.warns(InputWarning, match="2.014 u is no mass of O .15.995 u.; atoms are numbered from 0"):
        masses(("O", "H", "H"), {0: 2.014})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        masses(("O", "H", "H"), {0: 17.999, 1: 2.014, 2: 0.1134})


def test_angstrom_warn_where_bohr_are_expected():
    water = molecule(WATER, "sto-3g")
    with pytest.warns(InputWarning, match="0.529 times as far apart"):
        water.at(water.coordinates * 0.52917721)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        water.at(water.coordinates * 0.9)
        molecule("He 0 0 0;", "sto-3g").at(np.ones((1, 3)))


@pytest.mark.parametrize(
    ("basis", "words"),
    [
        ({1: "def2-tzvp", 2: "def2-svp", 3: "def2-svp", "default": "sto-3g"}, "atomic number .He. that no atom has"),
        ({"2": "def2-tzvp", "default": "sto-3g"}, "single atoms are named by labels"),
        ({"default": "sto-3g", "Default": "def2-svp"}, "two entries 'default'"),
    ],
)
def test_numbers_of_atoms_name_no_basis(basis, words):
    names = parse_geometry(WATER).names
    with pytest.raises(InputError, match=words):
        resolve_basis(basis, names)
    assert resolve_basis({8: "sto-3g", 1: "def2-svp"}, names) == ("sto3g", "def2svp", "def2svp")


def test_the_basis_of_a_mole_is_not_lost_in_a_reaction():
    """Its species were computed in def2-SVP."""
    helium = gto.M(atom="He 0 0 0", basis="cc-pvtz", verbose=0)
    with pytest.raises(InputError, match="a PySCF Mole brings its own basis set"):
        dftfd.reaction("2 A -> B", "hf", species={"A": helium, "B": "He 0 0 0; He 0 0 3"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$set\ndistance 1 2 1.1\ndistance 2 1 1.2", "'distance 2 1' twice, with two values"),
        ("$freeze\nangle 2 1 3\n$set\nangle 3 1 2 110", "twice, with two values"),
        ("$set\nangle 2 1 3 1.82", "at its end"),  # radians
        ("$set\ntrans-xyz 1 0 0 0", "geomeTRIC"),
    ],
)
def test_constraints_that_contradict_each_other_are_refused(text, words):
    start = molecule(WATER, "sto-3g").coordinates
    with pytest.raises(InputError, match=words):
        minimise("OHH", start, lambda r: (0.0, np.zeros((3, 3))), constraints=text, max_steps=2)


def test_errors_of_the_energy_pass_through_geometric():
    def fails(r):
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        minimise("OHH", molecule(WATER, "sto-3g").coordinates, fails)


def test_frequencies_in_electronvolts_warn():
    with pytest.warns(InputWarning, match="2.33 hartree, where 1 eV is 0.0367"):
        FREQUENCY.checked("omega", 2.33)


def test_a_reaction_tells_units_of_temperature_and_pressure():
    gas = thermochemistry(0.0, 1, np.ones(1), np.zeros((1, 3)), np.zeros(0), 25.0, 1.0, None, None)
    one = Computed(0.0)
    text = str(ReactionEnergy("A -> B", {}, (("A", -1.0), ("B", 1.0)), {"A": one, "B": one}, {"A": gas, "B": gas}))
    assert text.count("note: pressures are in pascal") == text.count("note: temperatures are in kelvin") == 1
