"""Inputs that say more of the molecule than is read, or leave open which one is meant, are not taken in silence."""

import itertools
import json
import types
import warnings
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from pyscf import gto

from dftfd import benchmark, get_functional, interaction_energy, molecule, run_scf, scan
from dftfd.batch.entries import read_entries
from dftfd.benchmarks.energies import checked_options
from dftfd.benchmarks.reactions import read_document
from dftfd.errors import FunctionalError, InputError, InputWarning
from dftfd.model.input_warnings import warn_about_basis, warn_about_functional, warn_about_sizes
from dftfd.model.option_values import LENGTHS
from dftfd.model.options import OPTIONS, Options
from dftfd.response.polarizability import FREQUENCY
from dftfd.results.qcschema import atomic_result, read_input, write_json
from dftfd.system.geometry import parse_geometry
from dftfd.system.isotopes import isotopes_of_text, masses
from dftfd.system.molecule import UNITS
from dftfd.tasks.optimization import Frame
from dftfd.tasks.reaction_path import ReactionPath
from dftfd.tasks.scanning import Scan

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
    + [
        "T1 state",
        "magmom=2.0",
        "0 3 # opt",
        "mult3",
        "Triplett",
        "hextet",
        "sextuplet",
        "multiplicity three",
        "O2 0 3",
    ]
    + ["T1", "X\u00b3\u03a3", "3\u03a3g-", "--uhf 2", "-m 3", "uhf 2", "nalpha=9 nbeta=7", "9 alpha 7 beta"],
)
def test_comment_that_speaks_of_spin_warns(comment):
    with pytest.warns(InputWarning, match="no spin as a number: spin=0 is used"):
        molecule(f"2\n{comment}{O2}", "sto-3g")


@pytest.mark.parametrize(
    "comment",
    ["oxidation=1", "valence=1", "formal=1", "oxidation_state=-2", "ion=-1", "net=-1", "qtot: -1", "monoanion"]
    + ["negatively charged", "ionized", "-c -1", "QTOT -1", "hydroxide ion", "minus one", "charge minus one"]
    + ["doubly charged", "one electron removed", "O2 -", "(O2)+", "O2\u2022-", "O2 +1", "q -1", "O2_-1_2", "sulfate"]
    + ["2 1 O2 (Psi4)", "job_q2m1", "[O-]C([O-])=O", "[Fe+2]", "InChI=1S/CH2O3/c2-1(3)4/h(H2,2,3,4)/p-2"],
)
def test_comment_that_speaks_of_charge_warns(comment):
    with pytest.warns(InputWarning, match="no charge as a number: charge=0 is used"):
        molecule(f"2\n{comment}{O2}", "sto-3g")


@pytest.mark.parametrize(
    "comment",
    ["nspin=1", "1A1", "cutoff 3A", "magmom=0.0", 'pbc="F F F"', "cell A", "oxidation=0", "0 1 water", "water 0 1"]
    + ["cis-2-butene", "C1-C2 bond", "(R)-(-)-carvone", "(+)-limonene", "H2O plus CH4", "ion pair", "PBE-D2", "CCSD(T)"]
    + ["2021-01-05 12:30", "C[N+](=O)[O-]", "energy=-1 i=2", "E -76.3", "sulfate of methyl", "spin-component scaled"]
    + ["opt/p-2", "1 a"],
)
def test_comment_that_says_nothing_else_is_silent(comment):
    assert molecule(f"2\n{comment}{O2}", "sto-3g").n_electrons == 16


@pytest.mark.parametrize(
    "comment", ['pbc="T T T"', "pbc=[False, False, True]", 'cell="9 0 0 0 9 0 0 0 9"', "cell: 9 9 9", "Box 9.0 9.0 9.0"]
)
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
    assert molecule("# helium, 2 atoms\nHe 0 0 0 # the first\nHe 0 0 3", "sto-3g").charge == 0


@pytest.mark.parametrize(("remark", "about"), [("charge -1", "charge"), ("q=0.5", "charge"), ("triplet", "spin")])
def test_remarks_behind_atoms_warn(remark, about):
    """They may be of the atom or of the molecule."""
    with pytest.warns(InputWarning, match=f"says '{remark}', but no {about} as a number"):
        assert molecule(f"He 0 0 0 # {remark}\nHe 0 0 3", "sto-3g").charge == 0
    with pytest.warns(InputWarning, match=f"but no {about} as a number"):
        molecule(f"2\n\nHe 0.0 0.0 0.0 ! {remark}\nHe 0.0 0.0 3.0 ! {remark}", "sto-3g")
    assert not parse_geometry("2\n\nAu 0.0 0.0 0.0 0.1 Au CT\nAu 0.0 0.0 3.0 0.1 Au CT").unit


@pytest.mark.parametrize(
    "text",
    ["2\n\nH 0 0 0 # bohr\nH 0 0 1.4", "H 0 0 0 # bohr\nH 0 0 1.4"]
    + ["H 0 0 0; H 0 0 1.4; # (a.u.)", "H # bohr\nH 1 1.4", "2\n\nH 0.0 0.0 0.0 /bohr\nH 0.0 0.0 1.4 /bohr"],
)
def test_units_behind_atoms_count(text):
    with pytest.raises(InputError, match="is marked as in bohr"):
        molecule(text, "sto-3g")
    assert molecule(text, "sto-3g", unit="bohr").coordinates[1, 2] == pytest.approx(1.4)


@pytest.mark.parametrize("comment", ["1-", "2+", "-", "ne=9", "Charge State = +2"])
def test_comments_of_charges_that_are_not_understood(comment):
    with pytest.raises(InputError, match="is not understood"):
        molecule(f"2\n{comment}{O2}", "sto-3g")


@pytest.mark.parametrize("comment", ["D2O", "heavy water", "CD3OH", "DMSO-d6", "13C", "HDO", "deuterated"])
def test_comments_of_isotopes_warn(comment):
    with pytest.warns(InputWarning, match="names isotopes"):
        molecule(f"2\n{comment}{O2}", "sto-3g")


def test_an_atom_in_place_of_the_comment_is_refused():
    for lines in ("O 0 0 0\nH 0 0 0.96\nH 0 0.93 -0.2", "8 0.0 0.0 0.0\n1 0 0 0.96\n1 0 0.93 -0.2"):
        with pytest.raises(InputError, match="looks like an atom where xyz has a comment"):
            molecule(f"2\n{lines}", "sto-3g")
    assert molecule(f"2\n12 0.5 1.0 2.0{O2}", "sto-3g").n_electrons == 16


def test_remarks_of_a_zmatrix_are_read():
    water = "O{}\nH 1 0.96\nH 1 0.96 2 104.5"
    found = molecule(f"# charge=1 multiplicity=2\n{water.format('')}", "sto-3g")
    assert (found.charge, found.spin) == (1, 1)
    with pytest.raises(InputError, match="in bohr"):
        molecule(f"# bohr\n{water.format('')}", "sto-3g")
    with pytest.warns(InputWarning, match="says 'charge=1', but no charge as a number"):
        molecule(water.format(" # charge=1"), "sto-3g")


@pytest.mark.parametrize(
    ("words", "links", "about"),
    [
        ("totq q_tot Ladung nelec qm_charge", ("is -2.0", "=> 2", "equals two"), "charge"),
        ("imult MULTP multiplet spin_state nsomo 2S", ("=> 2.0", "is 4"), "spin"),
        ("imult MULTP spin_state excess_spin", ("of three", "-> 4"), "spin"),
        ("c s z", ("is -2", "is 2.0", "equals two"), "charge"),
        ("charge chrg qtot", ("minus", "is positive", "--", "--, optimised"), "charge"),
        ("m", ("is 2", "of 3", "equals three"), "spin"),
    ],
)
def test_words_of_electrons_beside_numbers_warn(words, links, about):
    """In whatever words they are joined: a warning follows, where the line is not refused."""
    for word, link in itertools.product(words.split(), links):
        with suppress(InputError):
            assert about in parse_geometry(f"2\n{word} {link}{O2}").mentions, (word, link)
    assert parse_geometry(f"2\ncharge: -2, imult=3{O2}").mentions == {"spin": "mult=3"}


@pytest.mark.parametrize(
    "comment",
    ["UHF/6-31G* opt", "multi 6-31G", "spin-orbit 2", "spin.2.xyz", "1s2 2s2 2p4", "initial_charges:R:1 magmoms:R:1"]
    + ["charge transfer", "Mulliken charges in column 5", "charge-transfer complex", "C is 12", "conformer c of 5"],
)
def test_words_of_electrons_beside_other_numbers_are_silent(comment):
    assert not parse_geometry(f"2\n{comment}{O2}").mentions


@pytest.mark.parametrize("numbers", [(1, 2, 3), (2, 1, 1)])
def test_indices_and_types_in_place_of_elements_warn(numbers):
    text = "{} 0 0 0.117; {} 0 0.757 -0.469; {} 0 -0.757 -0.469"
    with pytest.warns(InputWarning, match="if they are indices or types"):
        molecule(text.format(*numbers), "sto-3g")
    assert molecule(text.format(8, 1, 1), "sto-3g").formula == "H2O"


def test_columns_of_charges_that_add_up_to_an_ion_warn():
    text = "2\nProperties=species:S:1:pos:R:3:charges:R:1\nO 0.0 0.0 0.0 {}\nO 0.0 0.0 1.2 {}"
    with pytest.warns(InputWarning, match="says 'charges', but no charge"):
        molecule(text.format(-1.3, 0.3), "sto-3g")
    assert molecule(text.format(-0.3, 0.3), "sto-3g").charge == 0


def test_a_name_and_a_table_that_contradict_the_file_warn(tmp_path):
    """And a row that gives the spin alone leaves the file's charge."""
    path = tmp_path / "o2.xyz"
    path.write_text(f"2\ncharge=2 spin=0{O2}\n")
    with pytest.warns(InputWarning, match="the file says charge=2, but '.*o2.xyz:0' was given"):
        assert molecule(f"{path}:0", "sto-3g").charge == 0
    (tmp_path / "t.csv").write_text("file,spin\no2.xyz,0\n")
    (entry,) = read_entries([str(tmp_path / "t.csv")], {"basis": "sto-3g"})
    assert (entry.molecule.charge, entry.molecule.spin) == (2, 0)
    (tmp_path / "t.csv").write_text("file,charge\no2.xyz,0\n")
    with pytest.warns(InputWarning, match="says charge=2, but charge=0 was given"):
        read_entries([str(tmp_path / "t.csv")], {"basis": "sto-3g"})
    (tmp_path / "t.csv").write_text("file,multiplicity\no2.xyz,-1\n")
    assert "multiplicity" in str(read_entries([str(tmp_path / "t.csv")], {"basis": "sto-3g"})[0].error)


def test_sets_tell_what_their_geometries_say(tmp_path):
    document = {"dftfd_benchmark": 1, "molecules": {"a": {"atoms": f"2\nanion{O2}"}}, "reactions": []}
    path = tmp_path / "set.json"
    path.write_text(json.dumps(document))
    with pytest.warns(InputWarning, match="the geometry says 'anion', but no charge as a number"):
        read_document(path)
    document["molecules"]["a"] = {"atoms": f"2\ncharge=2{O2}", "charge": 0}
    path.write_text(json.dumps(document))
    with pytest.warns(InputWarning, match="says charge=2, but charge=0 was given"):
        read_document(path)


def test_two_entries_of_a_basis_for_one_element_are_refused():
    for table in ({"He": "sto-3g", "he": "6-31g"}, {"He": "sto-3g", 2: "6-31g"}):
        with pytest.raises(InputError, match="two entries for He"):
            molecule("He 0 0 0;", table)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"smearing": 300}, "1000 K is"),
        ({"smearing": 0.1}, "1 eV is"),
        ({"smearing": ("gaussian", 0.05)}, "1 eV is"),
        ({"conv_tol": 8}, "1e-9 is usual"),
        ({"linear_dependence": 6}, "1e-6 is usual"),
        ({"electric_field": [0, 0, 1e9]}, "51 V/angstrom"),
        ({"electric_field": [0, -0.2, 0]}, "51 V/angstrom"),
        ({"point_charges": [[1.6e-19, 0, 0, 9]]}, "charges of 0 or above 5"),
        ({"occupations": [[1, 1, 1], [1, 1]]}, r"5 electrons, the molecule has 2, so that its charge changes by -3"),
        ({"point_charges": [[0, 0, 5, 1]]}, "rows are charge, x, y, z"),
        ({"point_charges": [[1, 9, 0, 0], [-1, 0, 0, -1.8]]}, "number 2 is 1.8 bohr from H1; is angstrom meant?"),
    ],
)
def test_numbers_in_another_unit_or_order_warn(options, words):
    beside_ghost = molecule("H 0 0 0; H 0 0 0.74; ghost-He 0 0 4", "sto-3g")
    with pytest.warns(InputWarning, match=words):
        warn_about_sizes(Options(xc="pbe", **options), beside_ghost)
    warn_about_sizes(Options(occupations=[2, 2]), beside_ghost)
    usual = {"smearing": 0.01, "electric_field": [0, 0, 0.01], "point_charges": [[-1, 0, 0, 4 / 0.529]]}
    warn_about_sizes(Options(xc="pbe", **usual), beside_ghost)


def test_a_fractional_charge_of_a_mole_is_refused():
    """PySCF rounds the number of electrons, and the molecule was neutral."""
    with pytest.raises(InputError, match="Mole has charge=0.5; a whole number expected"):
        molecule(gto.M(atom="H 0 0 0; F 0 0 0.92", basis="sto3g", charge=0.5, verbose=0))


def test_orbitals_of_other_atoms_are_not_followed():
    """H Li has as many functions as Li H, and the state followed was 6.5 hartree above."""
    guess = run_scf(molecule("Li 0 0 0; H 0 0 1.6", "sto-3g"), "hf")
    with pytest.raises(InputError, match="in the same basis set"):
        other = molecule("H 0 0 0; Li 0 0 1.6", "sto-3g")
        run_scf(other, "hf", guess=guess, follow_orbitals=True, occupations=[2, 2])


def test_spin_flips_need_more_alpha_electrons():
    """From spin=-2 alpha electrons went to beta all the same, to states of higher spin."""
    result = run_scf(molecule("H 0 0 0; H 0 0 3", "sto-3g", spin=-2), "hf")
    with pytest.raises(InputError, match="needs a positive spin"):
        result.excitations(1, spin="flip")


def test_a_whole_mass_is_a_mass_number():
    """2.0 was 2.0 u, 0.7 % lighter than deuterium."""
    assert masses(("H", "C"), {0: 2.0}) == pytest.approx(masses(("H", "C"), {0: 2}), abs=0)
    assert masses(("H",), {0: 5.0})[0] == 5.0


def test_angles_of_a_scan_in_radians_are_refused():
    """1.82 radians taken for degrees put one hydrogen on the other."""
    water = molecule("O 0 0 0; H 0 0 0.96; H 0.9 0 -0.2", "sto-3g")
    with pytest.raises(InputError, match="at 1.82 atoms 1 and 2 meet; angles are in degrees"):
        scan(water, "hf", atoms=[1, 0, 2], values=[1.82, 1.9])


@pytest.mark.parametrize("options", [{"point_charges": [[1, 0, 0, 9]]}, {"electric_field": [0, 0, 0.01]}])
def test_surroundings_of_one_molecule_warn_in_a_reaction(options):
    """Charges around one of them stood where the others had no business."""
    with pytest.warns(InputWarning, match="is the same for all molecules of a reaction, wherever they are"):
        assert checked_options("reaction", "reaction", options, None).changed().keys() == options.keys()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"occupations": [2, 2]}, "occupations= is for one molecule"),
        ({"checkpoint": "none.h5"}, "checkpoint= is for one molecule"),
        ({"counterpoise": False, "method": "UKS", "broken_symmetry": [1]}, "needs counterpoise=True"),
    ],
)
def test_options_of_the_whole_are_not_those_of_its_parts(options, words):
    """Occupations gave each part the electrons of the whole: helium dimer bound by 7 hartree."""
    with pytest.raises(InputError, match=words):
        interaction_energy(molecule("He 0 0 0; He 0 0 2.5", "sto-3g"), [[0], [1]], "hf", **options)
    if "occupations" in options:
        with pytest.raises(InputError, match=words):
            benchmark("g21ip", "hf", limit=1, occupations=[2])


def test_units_of_point_charges(tmp_path):
    """In angstrom where it is said: in Python, behind the rows, in the heading of a file; else in bohr."""
    read = lambda words: Options(point_charges=OPTIONS["point_charges"].read("point_charges", words)).point_charges
    file = tmp_path / "charges.txt"
    file.write_text("# charge x y z [angstrom]\n1 0 0 0.52917721092\n-1 0 0 -1.05835442184\n")
    for found in (
        Options(point_charges=([(1, 0, 0, 0.52917721092), (-1, 0, 0, -1.05835442184)], "angstrom")).point_charges,
        Options(point_charges=[[[1, 0, 0, 1], [-1, 0, 0, -2]], "Bohr"]).point_charges,
        read("1 0 0 0.52917721092; -1 0 0 -1.05835442184 angstrom"),
        read("1 0 0 1; -1 0 0 -2"),
        read("1 0 0 1; -1 0 0 -2 bohr"),
        read(str(file)),
    ):
        np.testing.assert_allclose(found, [(1, 0, 0, 1), (-1, 0, 0, -2)], rtol=1e-14)
    file.write_text("# angstrom\n1 0 0 1 # bohr\n")
    for words in (str(file), "1 0 0 1 nm", "angstrom", "1 0 0 1 angstrom; 1 0 0 2"):
        with pytest.raises(InputError, match="point_charges="):
            read(words)
    with pytest.raises(InputError, match="point_charges="):
        Options(point_charges=([(1, 0, 0, 1)], "nm"))
    assert LENGTHS == pytest.approx(UNITS, rel=1e-15)


def test_atoms_of_ase_mention_charge_spin_and_isotopes():
    ase = pytest.importorskip("ase")
    from ase.calculators.singlepoint import SinglePointCalculator

    oxygen = lambda: ase.Atoms("O2", [(0, 0, 0), (0, 0, 1.2)])
    total, column, moment, heavy = oxygen(), oxygen(), oxygen(), oxygen()
    total.info["total_charge"] = -2
    column.set_array("charges", np.array([-1.5, -0.5]))
    moment.calc = SinglePointCalculator(moment, energy=-1.0, magmom=2.0)
    heavy.set_masses([18.0, 16.0])
    words = (
        "says 'total_charge=-2', but no charge",
        "says 'charges', but no charge",
        "calculator 2'",
        "names isotopes",
    )
    for atoms, word in zip((total, column, moment, heavy), words, strict=True):
        with pytest.warns(InputWarning, match=word):
            assert molecule(atoms, "sto-3g").n_electrons == 16
    quiet = oxygen()
    quiet.info.update(energy=-149.1, name="step 3", forces=np.ones((2, 3)), multiplicity=1)
    quiet.set_array("charges", np.array([-0.2, 0.2]))
    assert molecule(quiet, "sto-3g").spin == 0


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [("molecular_multiplicity", -1, "1 or more"), ("fragment_multiplicities", [2, 2], "give that, too")],
)
def test_multiplicities_of_qcschema_are_whole(field, value, match, tmp_path):
    atoms = {"symbols": ["O", "O"], "geometry": [0, 0, 0, 0, 0, 2.3], field: value}
    document = {"driver": "energy", "model": {"method": "pbe", "basis": "sto-3g"}, "molecule": atoms}
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=match):
        read_input(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("fields", "match"),
    [({"masses": [15.995, 17.999]}, ""), ({"mass_numbers": [-1, 18]}, "")]
    + [({"masses": [15.995]}, "1 entries for 2"), ({"fragment_charges": [1, 0], "molecular_charge": 0}, "add up to")],
)
def test_masses_and_fragments_of_qcschema(fields, match, tmp_path):
    """Isotopes, without a match, are warned of; masses and mass numbers of the elements are silent."""
    document = {"driver": "hessian", "model": {"method": "pbe", "basis": "sto-3g"}}
    atoms = {"symbols": ["O", "O"], "geometry": [0, 0, 0, 0, 0, 2.3]}
    for more in ({"masses": [15.99491461957, 15.999], "mass_numbers": [16, -1], "fragment_charges": None}, fields):
        (tmp_path / "a.json").write_text(json.dumps(document | {"molecule": atoms | more}))
        if more is not fields:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read_input(tmp_path / "a.json")
        elif match:
            with pytest.raises(InputError, match=match):
                read_input(tmp_path / "a.json")
        else:
            with pytest.warns(InputWarning, match="names isotopes"):
                read_input(tmp_path / "a.json")


@pytest.mark.parametrize("fields", [{"charge": -1}, {"model": {"method": "pbe", "basis": "sto-3g", "ecp": "x"}}])
def test_fields_of_qcschema_that_are_none_are_refused(fields, tmp_path):
    atoms = {"symbols": ["O", "O"], "geometry": [0, 0, 0, 0, 0, 2.3]}
    document = {"driver": "energy", "model": {"method": "pbe", "basis": "sto-3g"}, "molecule": atoms}
    (tmp_path / "a.json").write_text(json.dumps(document | fields))
    with pytest.raises(InputError, match="has no option"):
        read_input(tmp_path / "a.json")


def test_names_of_a_zmatrix_differ_by_more_than_case():
    with pytest.raises(InputError, match="'R' and 'r'"):
        molecule("O\nH 1 R\nH 1 r 2 104\nR = 0.96\nr = 1.2", "sto-3g")


@pytest.mark.parametrize("text", ["H 0 0 0; H 0 0 74", "O 0 0 0; H 0 76 59; H 0 -76 59", "C 0 0 0; O 0 0 0.113"])
def test_picometres_and_nanometres_warn(text):
    with pytest.warns(InputWarning, match="would be a bond in (pico|nano)metres"):
        molecule(text, "sto-3g")
    assert molecule("He 0 0 0; He 0 0 50", "sto-3g").n_atoms == molecule("N 0 0 0; N 0 0 100", "sto-3g").n_atoms


def test_types_of_force_fields_are_refused():
    with pytest.raises(InputError, match="ne is a name of N in force fields"):
        molecule("c 0 0 0; ne 0 0 1.28; h 0 0.94 -0.54; h 0 -0.94 -0.54; cl 0 1.4 2.2", "sto-3g")
    with pytest.raises(InputError, match="os is a name of O"):
        molecule("os 0 0 0; h 0 0 0.96; h 0 0.93 -0.2", "def2-svp")
    assert molecule("os 0 0 0; o 1 1 1; o -1 -1 1; o -1 1 -1; o 1 -1 -1", "def2-svp").formula == "O4Os"


@pytest.mark.parametrize(
    ("name", "meant"), [("cc-pVTZ-JKFIT", "cc-pvtz"), ("def2-SVP-JFIT", "def2-svp"), ("aug-cc-pVDZ-RI", "aug-cc-pvdz")]
)
def test_fitting_sets_are_no_orbital_basis(name, meant):
    with pytest.raises(InputError, match=f"is a set that fits densities.*'{meant}' meant"):
        molecule("He 0 0 0;", name)


@pytest.mark.parametrize("basis", ["DZP", "unc-dzp", {"H": "dzp", "default": "sto-3g"}])
def test_dzp_is_another_set_in_other_programs(basis):
    """PySCF's and NWChem's is Jorge's, Psi4's Dunning's."""
    with pytest.raises(InputError, match="'jorge-dzp', Psi4's Dunning's, 'dzp-dunning'"):
        molecule("H 0 0 0; F 0 0 0.92", basis)
    dunnings = molecule("H 0 0 0; H 0 0 0.74", "dzp-dunning")
    assert dunnings.n_ao == 10


@pytest.mark.parametrize(("mass", "line"), [("0", "M  ISO  1   1   2\n"), ("1", "")])
def test_isotopes_of_mol_files_warn(mass, line):
    with pytest.warns(InputWarning, match="names isotopes"):
        molecule(MOL.format(mass=mass, line=line), "sto-3g")
    assert molecule(MOL.format(mass="0", line=""), "sto-3g").n_electrons == 2


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[2H]O", "names isotopes"),
        ("[Mg]", "spin=2 is used"),
        ("[Fe]", "d or f electrons of Fe"),
        ("FC=CF", "several isomers"),
    ]
    + [("CC(F)C(F)C", "several isomers")],
)
def test_smiles_that_leave_something_open_warn(text, match):
    pytest.importorskip("rdkit")
    with pytest.warns(InputWarning, match=match):
        molecule(f"smiles:{text}", "sto-3g")


def test_mol_files_say_more_than_their_atoms():
    """Charges with one blank, in titles and data; atoms that are not counted or not there; hydrogens left out."""
    he = "\n\n{title}\n{n:3d}  0  0  0  0  0  0  0  0  0999 V2000\n{atoms}{tail}M  END\n{data}"
    atoms = "".join(f"    0.0000    0.0000{z:10.4f} He  0  0\n" for z in (0, 3))
    text = lambda title="", n=2, tail="", data="": he.format(title=title, n=n, atoms=atoms, tail=tail, data=data)
    assert molecule(text(tail="M CHG 1 1 2\n"), "sto-3g").charge == 2
    assert molecule(text(data="> <id>\n7\n\n$$$$\n"), "sto-3g").n_electrons == 4
    for told in (text(title="charge=2"), text(data="> <Total charge>\n2\n")):
        with pytest.warns(InputWarning, match="but no charge as a number"):
            assert molecule(told, "sto-3g").charge == 0
    with pytest.raises(InputError, match="counts 1 atoms, but .* follows as one more"):
        molecule(text(n=1), "sto-3g")
    with pytest.raises(InputError, match="names an atom that is not there"):
        molecule(text(tail="M  CHG  1   9   2\n"), "sto-3g")
    ethane = (
        text()
        .replace("He", "C ")
        .replace("3.0000", "1.5000")
        .replace("2  0  0", "2  1  0")
        .replace("M  END", "  1  2  1  0\nM  END")
    )
    with pytest.warns(InputWarning, match="hydrogens that are left out are not added"):
        molecule(ethane, "sto-3g")


def test_smiles_of_other_letters_are_refused():
    """RDKit read methane where the second letter is Cyrillic."""
    pytest.importorskip("rdkit")
    with pytest.raises(InputError, match="cyrillic"):
        molecule("smiles:C\u0421", "sto-3g")


@pytest.mark.parametrize(
    ("text", "match"),
    [("CCO.[K+]", "2 molecules or ions"), ("O.O.O", "3 molecules or ions"), ("C~C", "bond of no kind")]
    + [("C*", "atom of no element"), ("C\nCC", "one molecule expected")],
)
def test_smiles_without_one_form_are_refused(text, match):
    """RDKit put K+ into ethanol, read C~C as C2H8 and the first of two lines."""
    pytest.importorskip("rdkit")
    with pytest.raises(InputError, match=match):
        molecule(f"smiles:{text}", "sto-3g")


def test_smiles_with_a_charge_behind_are_refused_and_clear_ones_are_silent():
    pytest.importorskip("rdkit")
    with pytest.raises(InputError, match="charge=1 after SMILES"):
        molecule("smiles:C1CC1 charge=1", "sto-3g")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("F/C=C/F", "CC(F)Cl", "C[CH2]", "CCO ethanol"):
            molecule(f"smiles:{text}", "sto-3g")
        assert molecule("smiles:[O][O]", "sto-3g", spin=2).spin == 2
        assert molecule("smiles:[OH-] anion", "sto-3g").charge == -1
    for text, word in (("O anion", "anion"), ("C=C triplet", "triplet")):
        with pytest.warns(InputWarning, match=f"says '{word}', but the SMILES have no"):
            molecule(f"smiles:{text}", "sto-3g")
    with pytest.raises(InputError, match="ignores radicals"):
        molecule("smiles:[NH4+] |^1:0|", "sto-3g")


@pytest.mark.parametrize(
    ("xc", "shares"),
    [
        ("0.25*HF + 0.75*PBE", "to 1 and its correlation to 0.75"),
        ("b3lyp + 0.1*hf", "to 1.1 and"),
        ("- pbe", "is negative as a whole"),
        ("\N{EN DASH} wB97M-V", "is negative as a whole"),  # parts of a range, and fitted together
        ("GGA_X_PBE \N{EN DASH} GGA_C_PBE", "to 1 and its correlation to -1"),
        ("HF \N{EN DASH} PBE", "to 0 and"),
        ("lr_hf(0.33) + camb3lyp + gga_c_lyp", "its correlation to 2"),
        ("B3LYP + VV10", "the b of vv10 .* was fitted to rPW86"),  # B3LYP-NL has 4.8, doi:10.1021/ct200644w
        ("pbe + rvv10", "write rvv10\\(b="),
    ],
)
def test_sums_that_are_no_functional_of_one_exchange_warn(xc, shares):
    """A comma that was forgotten, exact exchange on top, and the dash of a list."""
    functional = get_functional(xc)
    grid = types.SimpleNamespace(moves=False)
    with pytest.warns(InputWarning, match=shares):
        warn_about_functional(xc, functional, grid)
    for meant in (
        "0.25*HF + 0.75*PBE, PBE",
        "0.5*PBE + 0.5*BLYP",
        "0.75*gga_x_pbe + gga_c_pbe",
        "pbe + vv10(b=6.4)",
        "rpw86, pbe + vv10",
        "pbe + 1.0*rvv10",
        "hse06",
        "cam-b3lyp",
        "lr_hf(0.33) + gga_x_ityh + gga_c_lyp",
        "0.5*cam-b3lyp + 0.5*pbe0",
    ):
        warn_about_functional(meant, get_functional(meant), grid)


def test_a_blank_in_a_name_is_no_difference_from_a_number_of_libxc():
    """'b97 -1' was B97 less number 1, the exchange of the LDA."""
    with pytest.raises(FunctionalError, match="adds number 1 of libxc to a name"):
        get_functional("b97 -1")
    assert get_functional("b97-1").name == "b97-1"
    assert [term.name for _, term in get_functional("0.5*1 + 0.5*101").terms] == ["lda_x", "gga_x_pbe"]


@pytest.mark.parametrize("name", ["6-31g(dp)", "6-31g(p)", "6-311g(2d2p)", "6-31g(5d)", "6-31g(x)", "6-31g(d,)"])
def test_polarisation_of_pople_sets_is_of_known_functions(name):
    """For hydrogen alone they were the sets without polarisation."""
    with pytest.raises(InputError, match="unknown basis set"):
        molecule("H 0 0 0; H 0 0 0.74", name)
    assert molecule("H 0 0 0; H 0 0 0.74", "6-311++G(3df,3pd)").n_ao == 36


@pytest.mark.parametrize("name", ["pbe2", "pbe-3", "tf"])
def test_kinetic_energies_under_short_names_warn(name):
    functional = get_functional(name)
    with pytest.warns(InputWarning, match="is a kinetic energy"):
        warn_about_functional(name, functional, types.SimpleNamespace(moves=False))


def test_contractions_without_relativity_beside_it():
    """Krypton is 8.5 hartree higher in cc-pVDZ than in cc-pVDZ-DK, both with X2C."""
    pbe = get_functional("pbe")
    with pytest.warns(InputWarning, match="cc-pvdz is contracted for calculations without relativity, and this one of"):
        warn_about_basis(pbe, molecule("Kr 0 0 0;", "cc-pVDZ"), "x2c")
    with warnings.catch_warnings(action="error"):
        for basis in ("unc-cc-pVDZ", "dyall-v2z", "cc-pVDZ-DK"):
            warn_about_basis(pbe, molecule("Kr 0 0 0;", basis), "x2c")


@pytest.mark.parametrize("basis", ["ano-rcc-vdzp", "ano", "x2c-SVPall", "cc-pVDZ-DK", "jorge-DZP-DKH", "TZP-ZORA"])
def test_relativistic_contractions_without_relativity(basis):
    """Made for the Hamiltonians of their names, in which the energy of bromine is 30 hartree lower."""
    pytest.importorskip("basis_set_exchange")
    pbe, bromine = get_functional("pbe"), molecule("Br 0 0 0;", basis, spin=1)
    with pytest.warns(InputWarning, match="contracted for relativistic calculations, and this one is not"):
        warn_about_basis(pbe, bromine)
    with warnings.catch_warnings(action="error"):
        warn_about_basis(pbe, bromine, "x2c")
        warn_about_basis(pbe, molecule("Br 0 0 0;", f"unc-{basis}", spin=1))
        warn_about_basis(pbe, molecule("O 0 0 0;", basis, spin=2))
        warn_about_basis(pbe, molecule("Br 0 0 0;", "dyall-v2z", spin=1))


def test_exact_exchange_is_no_correlation():
    """'m06,hf' for M06-HF was the exchange of M06 and all of exact exchange."""
    with pytest.raises(FunctionalError, match="behind the comma of 'm06,hf' is exact exchange"):
        get_functional("m06,hf")
    assert get_functional("b88,lyp + 0.2*hf").exact_exchange
    with pytest.raises(FunctionalError, match="'pt2' is perturbation theory alone"):
        run_scf(molecule("He 0 0 0;", "sto-3g"), "pt2")


def test_written_geometries_say_charge_spin_and_ghosts(tmp_path):
    """Frames of optimisations, scans and reaction paths were those of neutral closed shells, ghosts real atoms."""
    words, x = "pbe/sto-3g auto charge -2 spin 2", np.array([[0.0, 0, 0], [0, 0, 2.0]])
    names, one = ("O", "ghost-H"), np.array([1.0])
    Scan(names, (0, 1), False, words, one, one, one > 0, x[None]).write(tmp_path / "scan.xyz")
    ReactionPath(names, x[None], one, one, 0, True, "pbe", -2, 2).write(tmp_path / "path.xyz")
    (tmp_path / "frame.xyz").write_text(str(Frame(names, x, -1.0, np.zeros((2, 3)), words)))
    for name in ("scan", "path", "frame"):
        read = molecule(tmp_path / f"{name}.xyz", "sto-3g", allow_close=True)
        assert (read.charge, read.spin, read.ghost) == (-2, 2, (False, True)), name
    assert molecule("O 0 0 0; ghost-H 0 0 1", "sto-3g", spin=2).centres == names


@pytest.mark.parametrize(
    ("atom", "options"),
    [("Be", {"basis": "6-31g*", "cartesian": True}), ("Na", {"basis": "sto-3g", "ecp": "lanl2dz", "spin": 1})],
)
def test_an_answer_sent_back_is_the_same_question_or_refused(atom, options, tmp_path):
    """QCSchema lost Cartesian functions (1e-3 hartree) and core potentials that were chosen (160 hartree)."""
    expected = pytest.warns(InputWarning, match="core potential of Na") if "ecp" in options else nullcontext()
    with expected:
        result = run_scf(molecule(f"{atom} 0 0 0;", **options), "hf")
    write_json(tmp_path / "again.json", atomic_result(result))
    request = read_input(tmp_path / "again.json")
    if "ecp" in options:
        with pytest.raises(InputError, match="unknown basis set 'sto-3g with other core potentials'"):
            molecule(**request.molecule)
    else:
        assert molecule(**request.molecule).n_ao == result.molecule.n_ao == 15
        assert "cartesian" not in request.settings


@pytest.mark.parametrize("name", ["pbe", "m06_2x", "pw91"])
def test_short_names_behind_libxc_keep_their_correlation(name):
    """libxc:pbe was exchange alone, silently."""
    kinds = lambda text: sorted(term.kind for _, term in get_functional(text).terms)
    assert kinds(f"libxc:{name}") == kinds(name) == ["c", "x"]
    assert kinds("libxc:gga_x_pbe") == ["x"] and kinds("libxc:pbe,") == ["x"] and kinds(",libxc:pbe") == ["c"]


def test_isotopes_of_one_atom_are_named_once():
    assert isotopes_of_text("1:2, 2:13.5") == {1: 2, 2: 13.5}
    for words in ("1:2 1:3", "1:2 01:3", "\u0663:2"):
        with pytest.raises(InputError, match="each atom once"):
            isotopes_of_text(words)


@pytest.mark.parametrize("comment", ["oh-", "scan of oh-", "ho-", "oh+1", "o1h1+"])
def test_ions_in_small_letters_warn(comment):
    """Their atoms are those of the molecule: 'opt-' and 'h2o+' above OH are no ions of it."""
    with pytest.warns(InputWarning, match="no charge as a number"):
        molecule(f"2\n{comment}\nO 0 0 0\nH 0 0 1", "sto-3g", spin=1)
    for title in ("oh", "opt-", "h2o+", "oh-bond", "c-oh-1"):
        molecule(f"2\n{title}\nO 0 0 0\nH 0 0 1", "sto-3g", spin=1)


def test_units_and_masks_of_arrays_are_not_dropped():
    """NumPy drops the unit of a Quantity, the mask of a masked array and the columns of a DataFrame."""

    class Quantity(np.ndarray):
        unit = "V/m"

    class Table(list):
        columns = ("x", "y", "z", "q")

    masked = np.ma.masked_array([0.0, 0.0, 0.1], mask=[False, False, True])
    given = [("electric_field", np.zeros(3).view(Quantity), "a unit"), ("electric_field", masked, "masked values")]
    given += [("occupations", masked, "masked values"), ("smearing", np.array(0.1).view(Quantity), "a unit")]
    for name, value, words in [*given, ("point_charges", Table([[0, 0, 9, 1]]), "names of its columns")]:
        with pytest.raises(InputError, match=f"with {words} is not an array of bare numbers"):
            Options(**{name: value})
    for position in (masked, (0.0, 0.0, np.array(0.1).view(Quantity))):
        with pytest.raises(InputError, match="coordinate z of atom 1: .* is not an array of bare numbers"):
            molecule([("He", position)], "sto-3g")
    assert Options(electric_field=np.ma.masked_array([0.0, 0.0, 0.1])).electric_field[2] == 0.1


@pytest.mark.parametrize(
    ("option", "heading", "words"),
    [
        ("point_charges", "x y z q", "the columns are x, y, z, charge; charge, x, y, z expected"),
        ("point_charges", "charge x y z [nm]", "bohr or angstrom"),
        ("point_charges", "q / e, x / pm, y / pm, z / pm", "names pm; bohr or angstrom expected"),
        ("point_charges", "q x y z in nm", "names nm"),
        ("grid", "x y z weight in picometers", "names picometers"),
        ("grid", "x y z weight [angstrom]", "positions in bohr expected"),
        ("grid", "weight, x, y, z", "the columns are weight, x, y, z; x, y, z, weight expected"),
        ("grid", "in nm", "bohr or angstrom expected"),
        ("point_charges", "cut out within 12 angstrom of the metal", "mentions angstrom: is that their unit"),
        ("grid", "x/A y/A z/A weight", "positions in bohr expected"),
    ],
)
def test_headings_of_columns_are_read(option, heading, words, tmp_path):
    """A heading behind # was left out: charges behind positions and lengths in angstrom went through."""
    file = tmp_path / "rows.txt"
    file.write_text(f"# {heading}\n0 0 9 1\n")
    with pytest.raises(InputError, match=words):
        OPTIONS[option].read(option, str(file))
    file.write_text("# q, x, y, z (bohr), weight\n# of water in a box\n1 0 0 9\n")
    assert OPTIONS["point_charges"].read("point_charges", str(file)) == ([[1, 0, 0, 9]], "bohr")


@pytest.mark.parametrize(
    "heading",
    ["q x y z (A)", "charge/e x/Å y/Å z/Å", "q x/angstrom y/angstrom z/angstrom", "units: angs.", "A", "in Ang"]
    + ["xyz in Ang", "in Angstroem"],
)
def test_short_names_of_angstrom_in_headings_are_read(heading, tmp_path):
    """They were bohr."""
    file = tmp_path / "rows.txt"
    for text in (f"# {heading}\n1 0 0 9\n", f"1 0 0 9 # {heading}\n"):
        file.write_text(text, encoding="utf-8")
        assert OPTIONS["point_charges"].read("point_charges", str(file)) == ([[1, 0, 0, 9]], "angstrom")
    file.write_text("# chain A, a box of water\n1 0 0 9\n")
    assert OPTIONS["point_charges"].read("point_charges", str(file)) == [[1, 0, 0, 9]]


@pytest.mark.parametrize("text", ["", "file,charge\n", "file;charge\n"])
def test_a_table_without_molecules_is_refused(text, tmp_path):
    """A batch of none ended well."""
    file = tmp_path / "table.csv"
    file.write_text(text)
    (entry,) = read_entries([str(file)], {})
    assert "has no molecules" in str(entry.error)


def test_frequencies_in_another_unit_warn():
    with pytest.warns(InputWarning, match="532 hartree, where 1 eV is 0.0367"):
        assert FREQUENCY.checked("omega", 532) == 532.0  # nm
    assert FREQUENCY.checked("omega", 0.0856) == 0.0856
