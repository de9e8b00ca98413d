"""Names, numbers and objects that mean something else than they were read as: the ninth and tenth round of attacks."""

import json
import warnings
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from pyscf import gto, qmmm

import dftfd
from dftfd import molecule
from dftfd.batch.entries import read_entries
from dftfd.benchmarks.energies import Computed
from dftfd.benchmarks.gmtkn55 import read_gmtkn55
from dftfd.benchmarks.reaction_energy import ReactionEnergy, _species
from dftfd.benchmarks.reactions import read_document
from dftfd.cli import main
from dftfd.cli.chemistry import _atom_lists
from dftfd.errors import FunctionalError, InputError, InputWarning
from dftfd.interop.geometric import minimise
from dftfd.model.calculation import Calculation
from dftfd.model.input_warnings import warn_about_sizes
from dftfd.model.options import OPTIONS, Options
from dftfd.response.polarizability import FREQUENCY
from dftfd.results.qcschema import _molecule_arguments
from dftfd.results.thermochemistry import thermochemistry
from dftfd.system.basis import resolve_basis
from dftfd.system.comment_line import said_in
from dftfd.system.geometry import parse_geometry
from dftfd.system.internal_coordinates import warn_about_dihedrals, warn_about_distances
from dftfd.system.isotopes import masses
from dftfd.system.molecule import refuse_names_of_pdb
from dftfd.system.molfile import _unsaturated
from dftfd.tasks.run import require_broken_symmetry
from dftfd.tasks.scanning import _is_number_of_points

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
        ("CD1A 0 0 0; O 1.2 0 0", "C"),  # disorder in CIF and PDB files: cadmium oxide
        ("HO1W 0 0 0; O .96 0 0; C -.6 1.25 0", "H"),
        ("CA_2 0 0 0; O 1.2 0 0", "C"),
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
    singlet = molecule("O 0 0 0; O 0 0 1.21; He 3.2 0 0.6", "sto-3g")
    with (
        pytest.warns(InputWarning, match=r"spins .2, 0. cannot couple to spin 0 of the molecule: is its spin="),
        pytest.raises(FunctionalError),
    ):
        dftfd.interaction_energy(singlet, [[0, 1], [2]], "none", spins=[2, 0])


def test_all_atoms_flipped_break_no_symmetry():
    system = molecule("H 0 0 0; H 0 0 2; ghost-He 0 0 4", "sto-3g")
    calculation = Calculation.of(system, Options(method="UKS"))
    with pytest.raises(InputError, match="flips the spins of all atoms"):
        require_broken_symmetry((0, 1), calculation)
    require_broken_symmetry((1,), calculation)


def test_ends_and_a_number_of_points_are_no_values_of_a_scan():
    """(0.8, 1.2, 5) was a third point at 5 angstrom."""
    for values in ((0.8, 1.2, 5), (1.2, 0.8, 9)):
        with (
            pytest.warns(InputWarning, match=f"is {values[2]} their number"),
            pytest.raises(InputError, match="relaxed"),
        ):
            dftfd.scan(HYDROGEN(), "hf", atoms=[0, 1], values=values, constraints="$freeze")
    for values in ((0, 180, 19), (180, 0, 13)):
        assert _is_number_of_points(*values)
    for values in ((0.8, 1.2, 1.6), (1, 2, 3), (1.0, 1.5, 3.0), (3, 2, 1), (60, 120, 180), (2.0, 1.0, 0.5)):
        assert not _is_number_of_points(*values)


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
        ("$set\ndistance 1 2 1.1\ndistance 2 1 1.2", "Distance 1-2 twice, with two values"),
        ("$set\ndistance 1 2 1.1\ndistance 01 2 1.2", "Distance 1-2 twice, with two values"),
        ("$freeze\nangle 2 1 3\n$set\nangle 3 1 2 110", "twice, with two values"),
        ("$set\nz 2 1.5\nz 2 1.2", "Cartesian-Z 2 twice, with two values"),
        ("$set\nxyz 1 0 0 0\n$freeze\ny 1", "twice, with two values"),
        ("$set\nzx 2 1.5 0.0", "write xz"),
        ("$freeze\nxyz Cl", "no atom is 'cl'"),
        ("$freeze\nxyz all", "no atom is 'all'"),
        ("$freeze\nrotation 1", "one atom does not rotate"),
        ("$set\nangle 2 1 3 1.82", "at its end"),  # radians
        ("$set\ntrans-xyz 1 0 0 0", "geomeTRIC"),
    ],
)
def test_constraints_that_contradict_each_other_are_refused(text, words):
    start = molecule(WATER, "sto-3g").coordinates
    with pytest.raises(InputError, match=words):
        minimise("OHH", start, lambda r: (0.0, np.zeros((3, 3))), constraints=text, max_steps=2)


@pytest.mark.parametrize("option", [{"convergence_gmax": 4.5}, {"convergence_energy": 1}, {"convergence_drms": 1.2}])
def test_thresholds_of_an_optimisation_in_other_units_warn(option):
    """The first geometry was a minimum."""
    start = molecule(WATER, "sto-3g").coordinates
    with (
        pytest.warns(InputWarning, match="is met by almost any geometry"),
        pytest.raises(InputError, match="hold none"),
    ):
        minimise("OHH", start, lambda r: (0.0, r), options=option, constraints="$freeze")


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


TIP3P = [[-0.834, 0.1, 0.2, 7.1], [0.417, 0.9, -0.3, 8.2], [0.417, -1.3, 0.6, 8.4]]
WATERS = TIP3P + [[q, x + 2.3, y - 1.1, z - 14.9] for q, x, y, z in TIP3P]


@pytest.mark.parametrize("rows", [TIP3P, WATERS, [[-1.0, 0.3, 6.4, 4.1]], [[0.31, 2.4, 4.9, 3.2], [-0.31, 2.2, -4, 3]]])
def test_charges_behind_small_coordinates_warn(rows):
    """x y z q of numbers that may all be charges, without a heading."""
    system = molecule("He 0 0 0;", "sto-3g")
    with pytest.warns(InputWarning, match="look like charges; rows are charge, x, y, z"):
        warn_about_sizes(Options(point_charges=np.roll(rows, -1, axis=1)), system)
    four = np.array([[-0.8, 0.4, 0.4, -0.3], [4.5, 4.9, -3.3, 1.7], [-3.7, 0.6, 4.1, 2.5], [2.3, 2.8, 3.9, 4.4]])
    with pytest.warns(InputWarning, match="the first row looks like charges"):
        warn_about_sizes(Options(point_charges=four), molecule("He 9 9 9;", "sto-3g"))
    warn_about_sizes(Options(point_charges=four.T), system)
    for given in (rows, [[0.5, 4.0, 1.0, 1.0]], [[3, 5.5, 0, 0.5]], [[0.4, 0, 0, 2.0], [-0.4, 0, 0, -2.0]]):
        warn_about_sizes(Options(point_charges=given), system)


HYDROGEN = lambda: molecule("H 0 0 0; H 0 0 0.74", "sto-3g")


def test_distances_of_a_scan_in_other_units_warn():
    """70 picometres were 70 angstrom, and 0.07 nanometres a collision."""
    for values, unit in (([60, 70], "picometres"), ([0.07, 0.08], "nanometres")):
        with pytest.warns(InputWarning, match=f"0.74 angstrom apart now; are {unit} meant"):
            warn_about_distances("values", values, 0.74)
        with pytest.warns(InputWarning, match=f"are {unit} meant"), pytest.raises(InputError, match="relaxed"):
            dftfd.scan(HYDROGEN(), "hf", atoms=[0, 1], values=values, constraints="$freeze")
    warn_about_distances("values", [0.5, 0.74, 50.0], 0.74)
    with pytest.warns(InputWarning, match="distance 1 2: 96 angstrom"), pytest.raises(InputError, match="at its end"):
        text = "$set\ndistance 1 2 96\nangle 2 1 3 1.8"
        minimise("OHH", molecule(WATER, "sto-3g").coordinates, lambda r: (0.0, r), constraints=text)


@pytest.mark.parametrize(
    ("factor", "unit"), [(0.529177, "angstrom"), (52.9177, "picometres"), (0.0529177, "nanometres")]
)
def test_new_coordinates_in_other_units_warn(factor, unit):
    water = molecule(WATER, "sto-3g")
    with pytest.warns(InputWarning, match=f"as bohr are in {unit}"):
        water.at(water.coordinates * factor)


def test_constraints_beside_a_geometry_warn():
    """Those of ASE's Atoms, also in a file that ASE wrote, were left out without a word."""
    ase = pytest.importorskip("ase")
    from ase.constraints import FixAtoms, FixBondLength

    atoms = ase.Atoms("H2", [(0, 0, 0), (0, 0, 0.74)])
    assert molecule(atoms, "sto-3g").n_electrons == 2
    atoms.set_constraint([FixAtoms([0]), FixBondLength(0, 1)])
    with pytest.warns(InputWarning, match=r"ASE Atoms \(FixAtoms, FixBondLengths\) is not read: give constraints="):
        molecule(atoms, "sto-3g")
    text = "2\nProperties=species:S:1:pos:R:3:move_mask:L:{}\nH 0 0 0 {}\nH 0 0 0.74 {}"
    for columns in ((1, "F", "T"), (3, "T T T", "T T F")):
        with pytest.warns(InputWarning, match="move_mask fixes atoms, and is not read"):
            molecule(text.format(*columns), "sto-3g")
    assert molecule(text.format(1, "T", "T"), "sto-3g").n_electrons == 2


def test_the_calculator_leaves_constraints_to_ase():
    ase = pytest.importorskip("ase")
    from ase.constraints import FixAtoms

    from dftfd.ase import DFTFD

    atoms = ase.Atoms("H2", [(0, 0, 0), (0, 0, 0.8)], constraint=FixAtoms([0]))
    atoms.calc = DFTFD(xc="hf", basis="sto-3g")
    forces = atoms.get_forces()
    assert not forces[0].any() and abs(forces[1, 2]) > 0.1 and len(atoms.constraints) == 1


def test_columns_of_masses_are_isotopes():
    text = "2\nProperties=species:S:1:pos:R:3:masses:R:1\nH 0 0 0 {}\nH 0 0 0.74 1.008"
    with pytest.warns(InputWarning, match="names isotopes"):
        molecule(text.format("2.014"), "sto-3g")
    assert molecule(text.format("1.00794"), "sto-3g").n_electrons == 2


LOCAL = [[], [], [[1.0, 2.0]]]


@pytest.mark.parametrize(
    ("potential", "words"),
    [
        ([10, []], "has no terms"),
        ([10, [[-1, []], [0, [[], [], []]]]], "has no terms"),
        ([0, []], "None for all electrons"),
        ([10, [[-1, [1.0, 2.0]]]], "expected a name or"),  # a TypeError of PySCF
        ([10, [[-1, [[], [], [[-1.0, 2.0]]]]]], "exponents above 0"),
        ([10, [[-1, [[], [], [[0.0, 2.0]]]]]], "exponents above 0"),
        ([10, [[-1, [[[2, 1.0, 2.0, 3.0]]]]]], "expected a name or"),
        ([10, [[-1, LOCAL], [6, LOCAL]]], r"l from -1 \(the local part\) to 5"),
        ([12, [[-1, LOCAL]]], "12 core electrons, but Na has 11"),
    ],
)
def test_core_potentials_that_are_none_are_refused(potential, words):
    """Without terms ten core electrons of Na were a smaller nuclear charge: one electron fell into the core."""
    with pytest.raises(InputError, match=words):
        molecule("Na 0 0 0;", "lanl2dz", spin=1, ecp={"Na": potential})


def test_shells_without_core_functions_warn():
    """A valence basis set without its potential; STO-3G of oxygen with its columns exchanged."""
    valence = gto.basis.load("lanl2dz", "Na")
    with pytest.warns(InputWarning, match="the basis of Na has no exponent above 0.6697 bohr.-2, no functions for"):
        molecule("Na 0 0 0; H 0 0 1.89", {"Na": valence, "H": "sto-3g"})
    with pytest.warns(InputWarning, match="do the coefficients stand before the exponents"):
        molecule("O 0 0 0; ", {"O": [[0, [0.154, 130.7], [0.535, 23.8]], [0, [0.4, 5.0]], [1, [0.39, 1.1]]]}, spin=2)
    molecule("Na 0 0 0; ", {"Na": valence}, spin=1, ecp={"Na": "lanl2dz"})
    molecule("ghost-Na 0 0 0; H 0 0 1.89", {"ghost-Na": valence, "H": "sto-3g"}, spin=1)


def test_core_potentials_of_ghosts_are_refused():
    """They were left out without a word, where clusters are embedded in potentials alone."""
    with pytest.raises(InputError, match="for 'ghost-Mg'; ghost atoms have none"):
        molecule("O 0 0 0; ghost-Mg 0 0 2.1", "def2-svp", ecp={"ghost-Mg": [2, [[-1, LOCAL]]]}, spin=2)
    assert molecule("O 0 0 0; ghost-Mg 0 0 2.1", "def2-svp", ecp={"ghost-Mg": None}, spin=2).n_electrons == 8


def test_powers_in_front_of_terms_warn():
    """'2 1.0 2.0' of NWChem, r^0 exp(-r^2) times 2, was r^-2 exp(-2 r^2)."""
    with pytest.warns(InputWarning, match="third number of .2, 1.0, 2.0. is taken for .* spin-orbit"):
        molecule("Na 0 0 0;", "lanl2dz", spin=1, ecp={"Na": [10, [[-1, [[[2, 1.0, 2.0]]]]]]})
    assert molecule("Na 0 0 0;", "lanl2dz", spin=1, ecp={"Na": [10, [[-1, LOCAL]]]}).n_electrons == 1


MASKED = np.ma.masked_array([1.0, 2.0], mask=[False, True])


@pytest.mark.parametrize("number", [np.ma.masked, np.ma.masked_array(1.0, mask=True)])
def test_masked_numbers_are_none(number):
    """A masked end of a domain was 0, or what stands behind the mask; a masked coefficient '--'."""
    with pytest.raises(InputError, match="domain of x: .* pair of numbers expected"):
        dftfd.prove(lambda x: x, domain={"x": (number, 1.0)})
    with pytest.raises(InputError, match="domain of rs"):
        dftfd.prove("lda_x", "ec_nonpositive", {"rs": (0.1, number)})
    pbe = dftfd.get_functional("gga_x_pbe")
    with pytest.raises(InputError, match="is no real number of float64"):
        pbe * number
    with pytest.raises(InputError, match="a real number expected"):
        pbe.with_parameters(kappa=number)
    with pytest.raises(InputError, match="not an array of bare numbers"):
        Options(electric_field=[0.0, 0.0, number])


def test_masked_rows_and_units_within_lists_are_no_numbers():
    """A list of masked arrays became an array without masks."""
    with pytest.raises(InputError, match="not an array of bare numbers"):
        Options(point_charges=[np.ma.masked_array([1.0, 0, 0, 9], mask=[1, 0, 0, 0])])
    with pytest.raises(InputError, match="not an array of bare numbers"):
        molecule("He 0 0 0; He 0 0 3", "sto-3g").at([np.zeros(3), np.ma.masked_array([0, 0, 5.0], mask=[0, 0, 1])])
    with pytest.raises(InputError, match="domain of x"):
        dftfd.prove(lambda x: x, domain={"x": MASKED})
    with pytest.raises(InputError, match="domain of x"):
        dftfd.prove(lambda x: x, domain={"x": (False, True)})


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        ({"info": {"total_charge": value}}, "total_charge=-2")
        for value in ("-2", [-2], (-2.0,), np.array([-2]), np.float32(-2), " -2 ")
    ]
    + [
        ({"info": {"charge": np.array([-2])}}, "info charge=-2"),
        ({"info": {"multiplicity": "3"}}, "info multiplicity=3.0"),
        ({"info": {"spin_multiplicity": [3]}}, "spin_multiplicity=3"),
        ({"info": {"state": "triplet", "mult": "triplet"}}, "mult=triplet"),
        ({"arrays": {"charges": [[-1.5], [-0.5]]}}, "charges"),
        ({"arrays": {"oxidation_states": [-1, -1]}}, "oxidation_states"),
        ({"results": {"charges": [-1.5, -0.5]}}, "charges"),
        ({"results": {"magmoms": [1.0, 1.0]}}, "magmoms"),
        ({"results": {"magmom": np.array([2.0])}}, "magmom of its calculator 2"),
        ({"parameters": {"charge": -2, "mult": 1}}, "calculator charge=-2"),
        ({"parameters": {"qtot": -2}}, "qtot=-2"),
    ],
)
def test_entries_of_ase_of_any_type_are_mentioned(entries, word):
    """Texts, arrays of one number, columns of one column and calculators told of another molecule, in vain."""
    ase = pytest.importorskip("ase")
    atoms = ase.Atoms("O2", [(0, 0, 0), (0, 0, 1.2)])
    atoms.info.update(entries.get("info", {}))
    for name, column in entries.get("arrays", {}).items():
        atoms.set_array(name, np.array(column))
    parts = {name: entries.get(name, {}) for name in ("results", "parameters")}
    atoms.calc = type("Calculator", (), parts)() if "info" not in entries else None
    with pytest.warns(InputWarning, match=f"says '{word}.*, but no (charge|spin) as a number"):
        molecule(atoms, "sto-3g")


def test_entries_of_ase_that_say_nothing_are_silent():
    ase = pytest.importorskip("ase")
    atoms = ase.Atoms("O2", [(0, 0, 0), (0, 0, 1.2)])
    atoms.info.update(
        charge="0", spin=[0], multiplicity=np.array([1]), name="charge 2 of 3", title="radical", id=["-2"]
    )
    atoms.calc = type("Calculator", (), {"results": {"charges": np.array([0.1, -0.1])}, "parameters": {"mult": 1}})()
    assert molecule(atoms, "sto-3g").n_electrons == 16


CHARGED = """
  by hand

  {n}  {bonds}  0  0  0  0  0  0  0  0999 V2000
{atoms}{tail}M  END
"""


@pytest.mark.parametrize(
    ("symbols", "bonds", "tail", "warns"),
    [
        ("N", "", "M  CHG  1   1   1\n", True),  # ammonium
        ("OC", "  1  2  1  0\n", "M  CHG  1   1  -1\n", True),  # methanolate
        ("C", "", "M  RAD  1   1   2\n", True),  # methyl
        ("S", "", "M  CHG  1   1  -1\n", True),
        ("O", "", "M  CHG  1   1  -2\n", False),
        ("CO", "  1  2  3  0\n", "M  CHG  2   1  -1   2   1\n", False),
        ("CN", "  1  2  3  0\n", "M  CHG  1   1  -1\n", False),
        ("O", "", "M  RAD  1   1   3\n", False),
        ("Cl", "", "M  CHG  1   1  -1\n", False),
    ],
)
def test_ions_and_radicals_of_mol_files_without_hydrogens_warn(symbols, bonds, tail, warns):
    """RDKit's ammonium without hydrogens was N+."""
    names = ["Cl"] if symbols == "Cl" else list(symbols)
    atoms = "".join(f"    0.0000    0.0000{1.2 * k:10.4f} {name:<2s}  0  0\n" for k, name in enumerate(names))
    text = CHARGED.format(n=len(names), bonds=bonds.count("\n"), atoms=atoms, tail=bonds + tail)
    expected = pytest.warns(InputWarning, match="hydrogens that are left out are not added") if warns else nullcontext()
    with expected, suppress(InputError):
        parse_geometry(text)


@pytest.mark.parametrize(
    ("smiles", "polar"), [("CCO", "O"), ("c1ccccc1O", "O"), ("[O-]CCO", "O"), ("C[NH3+]", "N"), ("OCC[Se]C", "O")]
)
def test_mol_files_of_united_atoms_warn(smiles, polar):
    """Docking programs and force fields keep polar hydrogens only: ethanol was C2HO, a radical or another molecule."""
    chem = pytest.importorskip("rdkit.Chem")
    read = chem.MolFromSmiles(smiles)
    block = lambda m, **kinds: chem.MolToMolBlock(m, **kinds).splitlines()
    for kinds in ({}, {"kekulize": False}):
        lines = block(chem.AddHs(read), **kinds)
        charges = {a.GetIdx() + 1: a.GetFormalCharge() for a in read.GetAtoms() if a.GetFormalCharge()}
        symbols = lambda m: [a.GetSymbol() for a in m.GetAtoms()]
        assert _unsaturated(lines, symbols(chem.AddHs(read)), charges, {}) is None
        some = [a.GetIdx() for a in read.GetAtoms() if a.GetSymbol() == polar][:1]
        left = chem.AddHs(read, onlyOnAtoms=some)
        assert "bonds of" in _unsaturated(block(left, **kinds), symbols(left), charges, {})
    text = "\n\n\n  3  2  0  0  0  0  0  0  0  0999 V2000\n" + "".join(
        f"    0.0000    0.0000{z:10.4f} {name}   0  0\n" for name, z in (("C", 0), ("O", 1.41), ("H", 2.4))
    )
    with pytest.warns(InputWarning, match=r"atom 1 \(C\) has 1 bonds of 4; hydrogens that are left out are not added"):
        molecule(text + "  1  2  1  0\n  2  3  1  0\nM  END\n", "sto-3g", spin=1)


@pytest.mark.parametrize(
    "rows", ["S 0 0 0; O 0 2.343 1.361; O 0 -2.343 1.361", "O 0 0 0; O 0 0 2.28", "Na 0 0 0; Cl 0 0 4.46"]
)
def test_bohr_of_molecules_without_hydrogen_warn(rows):
    """Of 73 such molecules of W4-17, S22 and others 68 warn in bohr, and none in angstrom."""
    with pytest.warns(InputWarning, match="long for a bond; .* should the unit be bohr"):
        molecule(rows, "def2-svp")
    assert molecule(rows, "def2-svp", unit="bohr").n_atoms > 1
    for far in ("Zn 0 0 0; Zn 0 0 4.0", "Ar 0 0 0; Cl 0 0 3.9; Cl 0 0 5.9", "N 0 0 0; N 0 0 4"):
        molecule(far, "def2-svp")


@pytest.mark.parametrize(
    "changes", [{"atom": "H 0 0 0; F 0 0 1.5"}, {"unit": "Bohr"}, {"basis": "631g"}, {"atom": "nonsense"}]
)
def test_a_mole_that_was_changed_after_build_warns(changes):
    """PySCF goes on with what was built; the new geometry or basis set was left out without a word."""
    mole = gto.M(atom="H 0 0 0; F 0 0 0.92", basis="sto3g", verbose=0)
    assert molecule(mole).n_ao == 6
    for name, value in changes.items():
        setattr(mole, name, value)
    with pytest.warns(InputWarning, match="changed after mole.build"):
        molecule(mole)
    moved = gto.M(atom="H 0 0 0; F 0 0 0.92", basis={"H": "sto3g", "F": "631g"}, symmetry=True, verbose=0)
    for same in (moved.set_geom_(np.eye(3)[:2] * 2, unit="Bohr", inplace=False), gto.Mole.loads(moved.dumps())):
        assert molecule(same).n_ao == moved.nao


def test_what_is_no_molecule_among_moles_is_refused():
    """A KeyError of PySCF's point charges, and a TypeError of a Mole without a charge."""
    with pytest.raises(InputError, match="unknown element 'x'"):
        molecule(qmmm.create_mm_mol(np.array([[0, 0, 9.0]]), np.array([1.0])))
    for name in ("charge", "_basis", "_env"):
        mole = gto.M(atom="He 0 0 0", basis="sto3g", verbose=0)
        setattr(mole, name, None)
        with pytest.raises(InputError, match="a PySCF Mole as its build.. leaves it"):
            molecule(mole)


def test_masses_of_a_mole_warn():
    mole = gto.M(atom="H 0 0 0; F 0 0 0.92", basis="sto3g", verbose=0)
    mole.nucprop = {"H": {"mass": 2.014}}
    with pytest.warns(InputWarning, match="Mole names isotopes"):
        molecule(mole)


def test_initial_moments_of_both_signs_warn():
    """Antiferromagnetic ones became a closed shell."""
    ase = pytest.importorskip("ase")
    with pytest.warns(InputWarning, match="both signs; only their sum, 0, counts: .* broken_symmetry"):
        molecule(ase.Atoms("H2", [(0, 0, 0), (0, 0, 3)], magmoms=[1, -1]), "sto-3g", allow_close=True)


def test_atoms_of_a_scan_that_count_from_1_warn():
    """The distance of hydrogens was scanned in place of a bond."""
    water, given = molecule(WATER, "sto-3g"), {"constraints": "$freeze", "values": [1.0]}
    with pytest.warns(InputWarning, match="as atoms 0, 1 are: is a count from 1 meant"):
        with pytest.raises(InputError, match="relaxed"):
            dftfd.scan(water, "hf", atoms=[1, 2], **given)
    with pytest.raises(InputError, match="relaxed"):
        dftfd.scan(water, "hf", atoms=[1, 0], **given)


@pytest.mark.parametrize(
    ("name", "about"),
    [("o2_triplet", "spin"), ("Triplet-O2", "spin"), ("o2_biradical", "spin"), ("o2 dianion", "charge")]
    + [("o2-", "charge"), ("O2_2-", "charge"), ("o2^2+", "charge"), ("deprotonated", "charge")]
    + [("o2_minus", "charge"), ("o2_2minus", "charge"), ("o2plus2", "charge"), ("O2_pos", "charge")]
    + [("o2_neg", "charge"), ("oxygen_plus", "charge"), ("oxygen+", "charge"), ("peroxide", "charge")]
    + [("o2_charge-2", "charge"), ("o2_q+2", "charge"), ("o2_chg2", "charge"), ("o2_-2", "charge")]
    + [
        ("oxygen_ion", "charge"),
        ("o2_radical", "spin"),
        ("o2_rad", "spin"),
        ("o2_mult3", "spin"),
        ("o2 spin 2", "spin"),
    ],
)
def test_names_of_files_and_species_mention_charge_and_spin(name, about, tmp_path):
    """A neutral closed shell was computed without a word."""
    oxygen = "2\n{}\nO 0 0 0\nO 0 0 1.2\n"
    (tmp_path / f"{name}.xyz").write_text(oxygen.format(""))
    with pytest.warns(InputWarning, match=f"but no {about} as a number"):
        molecule(tmp_path / f"{name}.xyz", "sto-3g")
    with pytest.warns(InputWarning, match=f"species .* but has {about}=0"):
        _species(name, {name: oxygen.format("")}, {"basis": "sto-3g"})
    assert molecule(f"{tmp_path / name}.xyz:-2,1", "sto-3g").charge == -2
    (tmp_path / f"{name}.xyz").write_text(oxygen.format("charge=-2 multiplicity=1"))
    assert molecule(tmp_path / f"{name}.xyz", "sto-3g").charge == -2


@pytest.mark.parametrize(
    "name",
    ["o2", "o2-2", "o2_opt-1", "o2-ts", "1o2+h2o", "singlet", "cations_ref7x", "dissociation", "ion-pair", "o2-pos-1"]
    + ["o2_plus_he", "q_1", "c1", "charge0", "spin1", "g+t-", "scan_charge", "dimethyl_peroxide", "gradient"],
)
def test_other_names_of_files_mention_nothing(name, tmp_path):
    (tmp_path / f"{name}.xyz").write_text("2\n\nO 0 0 0\nO 0 0 1.2\n")
    assert molecule(tmp_path / f"{name}.xyz", "sto-3g").n_electrons == 16


def test_names_in_other_places_mention_charge_and_spin(tmp_path):
    """Folders, frames, rows of tables, pairs of a batch, QCSchema, sets and titles of mol files."""
    oxygen, anion = "2\n\nO 0 0 0\nO 0 0 1.2\n", "but has charge=0"
    (tmp_path / "o2-").mkdir()
    (tmp_path / "triplets").mkdir()
    for file in ("o2.xyz", "o2-/struc.xyz", "triplets/o2.xyz"):
        (tmp_path / file).write_text(oxygen)
    (tmp_path / "o2-.xyz").write_text(oxygen * 2)
    (tmp_path / "t.csv").write_text("file,name,spin\no2.xyz,superoxide anion,0\n")
    with pytest.warns(InputWarning, match="the input says 'o2-', but no charge"):
        molecule(tmp_path / "o2-" / "struc.xyz", "sto-3g")
    assert molecule(tmp_path / "triplets" / "o2.xyz", "sto-3g").spin == 0
    for source in (str(tmp_path / "t.csv"), str(tmp_path / "o2-.xyz"), ("o2_anion", oxygen)):
        with pytest.warns(InputWarning, match=f"molecule .* of the batch is called .*{anion}"):
            read_entries([source], {"basis": "sto-3g"})
        read_entries([source], {"basis": "sto-3g", "charge": 0})
    for field in ({"name": "O2-"}, {"comment": "superoxide dianion"}):
        atoms = {"symbols": ["O", "O"], "geometry": [0, 0, 0, 0, 0, 2.3], "molecular_charge": 0} | field
        with pytest.warns(InputWarning, match=anion):
            _molecule_arguments(atoms, "molecule")
    document = {"dftfd_benchmark": 1, "molecules": {"o2_anion": {"atoms": "O 0 0 0; O 0 0 1.2"}}, "reactions": []}
    (tmp_path / "set.json").write_text(json.dumps(document))
    with pytest.warns(InputWarning, match=anion):
        read_document(tmp_path / "set.json")
    document["molecules"]["o2_anion"]["charge"] = 0
    (tmp_path / "set.json").write_text(json.dumps(document))
    read_document(tmp_path / "set.json")
    atoms = "".join(f"{0:10.4f}{0:10.4f}{z:10.4f} He  0  0\n" for z in (0, 3))
    mol = CHARGED.format(n=2, bonds=0, tail="", atoms=atoms)
    with pytest.warns(InputWarning, match="'he2\\+', but no charge"):
        molecule("he2+" + mol, "sto-3g")


def test_names_of_files_mention_units_and_isotopes(tmp_path):
    """Helium 5 bohr apart was 5 angstrom apart; heavy water had protons."""
    for name in ("he2_bohr", "He2-in-Bohr"):
        (tmp_path / f"{name}.xyz").write_text("2\n\nHe 0 0 0\nHe 0 0 5\n")
        with pytest.raises(InputError, match="marked as in bohr, but would be read in angstrom"):
            molecule(tmp_path / f"{name}.xyz", "sto-3g")
        assert molecule(tmp_path / f"{name}.xyz", "sto-3g", unit="bohr").coordinates[1, 2] == 5.0
    for name in ("d2o", "D2O_opt", "CD3OH", "water_deuterated", "b3lyp-d3", "bohrium", "direct", "2h", "he2_DS14"):
        (tmp_path / f"{name}.xyz").write_text("2\n\nHe 0 0 0\nHe 0 0 5\n")
        warns = name in ("d2o", "D2O_opt", "CD3OH", "water_deuterated")
        with pytest.warns(InputWarning, match="names isotopes") if warns else nullcontext():
            molecule(tmp_path / f"{name}.xyz", "sto-3g")


@pytest.mark.parametrize(
    ("comment", "about"),
    [
        ("18 electrons", "charge"),
        ("O2, N_e = 14", "charge"),
        ("nelec=17", "charge"),
        ("number of electrons: 15", "charge"),
    ]
    + [("9 up 7 down", "spin"), ("Nup=9 Ndn=7", "spin"), ("alpha 9, beta 9", "charge"), ("electrons 9/7", "spin")]
    + [("charge ++ opt", "charge"), ("charge -II opt", "charge"), ("charge-state 2", "charge"), ("c 2 m 1", "charge")]
    + [
        ("c 0 m 3", "spin"),
        ("S**2 2.0", "spin"),
        ("S(S+1)=2", "spin"),
        ("tripl. opt", "spin"),
        ("moment 2 muB", "spin"),
    ],
)
def test_numbers_of_electrons_and_short_words_are_mentioned(comment, about):
    for text in (f"2\n{comment}\nO 0 0 0\nO 0 0 1.2", f"# {comment}\nO 0 0 0\nO 0 0 1.2"):
        try:
            assert about in parse_geometry(text).mentions, text
        except InputError as error:
            assert "is not understood" in str(error)


@pytest.mark.parametrize(
    "comment",
    ["16 electrons", "12 valence electrons", "CAS 8 electrons", "8 up 8 down", "2 electrons"]
    + ["electron density 5", "E 14", "N=14", "round trips 2", "14 e", "ne 10.4"],
)
def test_numbers_of_other_electrons_are_silent(comment):
    assert not parse_geometry(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2").mentions


def test_atoms_thousands_of_angstrom_apart_warn():
    """Coordinates without their points, 7572 for 0.7572, were a water molecule of three atoms far apart."""
    with pytest.warns(InputWarning, match="are decimal points missing"):
        molecule("O 0 0 1173; H 0 7572 -4692; H 0 -7572 -4692", "sto-3g")
    assert molecule("He 0 0 0; He 0 0 500", "sto-3g").n_atoms == 2


def test_a_charge_in_the_first_frame_alone_warns(tmp_path):
    """Programs and scripts write it once: the other frames were neutral."""
    said = "2\n{}\nHe 0 0 0\nHe 0 0 3\n"
    (tmp_path / "path.xyz").write_text(said.format("charge=2") + said.format("step 1") + said.format("charge=2"))
    with pytest.warns(InputWarning, match=r"says 'charge=2 .first frame.', but no charge as a number"):
        assert molecule(f"{tmp_path / 'path.xyz'}@1", "sto-3g").charge == 0
    assert molecule(f"{tmp_path / 'path.xyz'}@-1", "sto-3g").charge == 2
    with pytest.warns(InputWarning, match=r"says charge=2 .first frame., but another frame no charge"):
        read_entries([str(tmp_path / "path.xyz")], {"basis": "sto-3g"})
    (tmp_path / "two.xyz").write_text(said.format("charge=2") + said.format("neon").replace("He", "Ne"))
    assert molecule(f"{tmp_path / 'two.xyz'}@1", "sto-3g").charge == 0


@pytest.mark.parametrize("comment", ["charg\u0435=-2", "\u0441harge: -2", "-\u0662 \u0661", "ch\u0430rge \u2212\u06f2"])
def test_letters_and_digits_of_other_scripts_in_comments_are_read(comment):
    """They were a neutral molecule."""
    assert molecule(f"2\n{comment}\nO 0 0 0\nO 0 0 1.5\n", "sto-3g").charge == -2


@pytest.mark.parametrize("word", ["047", "-047", "00117", "+012"])
def test_numbers_that_lost_their_point_are_refused(word):
    """-0.47 without its point was -47 angstrom."""
    for text in (f"O 0.0 0.0 0.12; H 0.0 0.76 {word}; H 0.0 -0.76 -0.47", f"O; H 1 0.96; H 1 {word} 2 104.5"):
        with pytest.raises(InputError, match="begins with 0 and has no point"):
            molecule(text, "sto-3g")
    with pytest.raises(InputError, match="begins with 0 and has no point"):
        OPTIONS["electric_field"].read("electric_field", f"0 0 {word}")
    with pytest.warns(InputWarning, match="'-469' has no point, most others have one"):
        molecule("3\n\nO 0.0 0.0 0.12\nH 0.0 0.76 -469\nH 0.0 -0.76 -0.469\n", "sto-3g")
    assert (
        molecule("He 0 0 0.5; He 0 0 100", "sto-3g").n_atoms == molecule("He 0 00.5 1e2; He 0 -0 0", "sto-3g").n_atoms
    )


@pytest.mark.parametrize(
    "comment",
    ['pbc="1 1 1"', "pbc=[0,0,1]", "pbc: T T T", "pbc=xyz", "periodic=true", "periodicity: 3", "cell_lengths=10 10 10"]
    + ["CRYST1   10.000   10.000   10.000  90.00  90.00  90.00 P 1", "%PBC 10 10 10 90 90 90", "Lattice: 10 0 0 0 10 0"]
    + [
        "unit cell 10 10 10",
        "unitcell [10,10,10]",
        "Cell parameters 9.1 9.2 9.3",
        "box size 10 10 10",
        "10 11 12 90 90 120",
    ]
    + ["CELL(abcABC): 10.0 10.0 10.0 90 90 90 Step: 0 positions{angstrom}", "CELL{H}: 10 0 0 0 10 0 0 0 10"],
)
def test_more_cells_are_refused(comment):
    with pytest.raises(InputError, match="periodic cell"):
        molecule(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2", "sto-3g")


@pytest.mark.parametrize(
    "comment", ["positions{atomic_unit}", "units: atomic", "xyz in a.u.", "r/bohr", "x/a0 y/a0", "a\u2080"]
)
def test_more_words_for_bohr_are_read(comment):
    """i-PI writes positions{atomic_unit}."""
    with pytest.raises(InputError, match="marked as in bohr"):
        molecule(f"2\n{comment}\nO 0 0 0\nO 0 0 2.3", "sto-3g")


@pytest.mark.parametrize("comment", ["units=alat", "in metres", "scaled coordinates", "positions: frac"])
def test_more_units_that_are_not_read_are_refused(comment):
    with pytest.raises(InputError, match="angstrom or bohr are read"):
        molecule(f"2\n{comment}\nO 0 0 0\nO 0 0 0.1", "sto-3g")


@pytest.mark.parametrize(
    "comment",
    [
        'pbc="0 0 0"',
        "pbc=[F,F,F]",
        "pbc=False",
        "non-periodic",
        "not periodic",
        "periodicity=0",
        "1.2 3.4 5.6",
        "cell 3",
    ]
    + [
        "E/bohr = 2",
        "gradient in hartree/bohr",
        "energy in au",
        "1.2 3.4 5.6 0.1 0.2 0.3",
        "cut out of a cell",
        "x 0 3 y",
    ],
)
def test_comments_without_cells_and_units_are_silent(comment):
    assert molecule(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2", "sto-3g").charge == 0


def test_transposed_coordinates_of_three_atoms_warn():
    water = molecule(WATER, "sto-3g")
    with pytest.warns(InputWarning, match="rows are atoms, columns x, y, z"):
        water.at(water.coordinates.T)
    turned = water.coordinates @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    assert water.at(turned).n_atoms == water.at(1.3 * turned).n_atoms == 3


def test_dihedral_angles_in_radians_warn():
    """A turn in radians was a turn of six degrees."""
    for values in (np.linspace(-np.pi, np.pi, 13), [3.14159], [0, 0.5236, 1.0472], [1.571]):
        with pytest.warns(InputWarning, match="are these radians"):
            warn_about_dihedrals("values", list(values))
    for values in (range(-2, 3), [0.0], [0.1, 0.2, 0.3], [180.0], [3.14159, 90], [2.5, 5.0]):
        warn_about_dihedrals("values", list(values))
    peroxide = molecule("O 0 0.7 0; O 0 -0.7 0; H 0.8 0.9 0.4; H 0.8 -0.9 -0.4", "sto-3g")
    with pytest.warns(InputWarning, match="radians"), pytest.raises(InputError, match="relaxed"):
        dftfd.scan(peroxide, "hf", atoms=[2, 0, 1, 3], values=[0, np.pi], constraints="$freeze")
    with pytest.warns(InputWarning, match="radians"), pytest.raises(InputError, match="at its end"):
        text = "$set\ndihedral 3 1 2 4 3.1416\nangle 1 2 4 1.8"
        minimise("OOHH", peroxide.coordinates, lambda r: (0.0, r), constraints=text)


def test_smearing_of_room_temperature_in_electronvolts_warns():
    """0.0257 eV were 8,100 K."""
    with pytest.warns(InputWarning, match="0.00094 hartree or 0.0257 eV"):
        warn_about_sizes(Options(smearing=0.02585), molecule("He 0 0 0;", "sto-3g"))


def test_a_remark_that_ends_as_an_atom_warns():
    """Where the end of a line was lost, the first atom was a part of the remark."""
    for remark in ("charge=2\t", "energy=-1.5, ", "optimised`"):
        with pytest.warns(InputWarning, match="is the end of a line missing"):
            molecule(f"# {remark}O 0.0 0.0 0.0\nO 0.0 0.0 1.2\n", "sto-3g", spin=2)
    assert molecule("# O 0.0 0.0 0.0\n#H 0.0 0.0 1.0\nO 0.0 0.0 1.2 # was 1.3 1.2 1.1\n", "sto-3g", spin=2).n_atoms == 1


@pytest.mark.parametrize(
    ("about", "comments"),
    [
        ("charge", "cahrge=-2|chareg -2|harge: -2|chage=-2|charege=-2|chargr=-2|vharge=-2|cbarge=-2"),
        ("charge", "-c=-2|O2--|two extra electrons|2e reduced|doubly oxidized|one-electron reduced|C-2 M1|q2m1"),
        ("spin", "mutl=3|mulitplicity=3|multiplcity 3|tripplet|tirplet|doublt|triplit|q0m3|C0 M3"),
        ("charge", "[2.0, 1] opt|(-1, 2)  opt|z=--|z = ++|ch. 2|18e|14e opt"),
        ("spin", "[0, 3] opt|[2.0, 3] opt|T1 opt|T1 optimised structure"),
        ("spin", "^3O2|S^2 = 2.0|<S2>=2.0|nalpha 9|ispin=2|T_1|antiferromagnetic"),
    ],
)
def test_slips_of_words_and_more_notations_are_mentioned(about, comments):
    """Sixty-six of 266 lines were neutral singlets without a word."""
    for comment in comments.split("|"):
        with suppress(InputError):
            assert about in parse_geometry(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2").mentions, comment


@pytest.mark.parametrize(
    "comment",
    ["charge=0, multiplicity=1, multipole_field={'Z': -0.004}, xc_grid=2", "efield=0 0 0.01", "E-field: z=0.004"]
    + ["electric field of 0.01 a.u.", "field=0, 0, -1e-3", "finite field 0.001", "efield_x=0.002"],
)
def test_fields_in_comment_lines_are_not_lost_in_silence(comment):
    """Those of GSCDB's dipole moments and polarizabilities were computed without."""
    with pytest.warns(InputWarning, match="is not read: give the field as electric_field="):
        parse_geometry(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2")


def test_fields_of_ase_atoms_are_not_lost_in_silence():
    ase = pytest.importorskip("ase")
    atoms = ase.Atoms("O2", [(0, 0, 0), (0, 0, 1.2)])
    for name, field in (("electric_field", np.array([0, 0, 0.01])), ("REF_efield", [0.0, 0.002, 0]), ("E_field", 0.01)):
        atoms.info = {name: field}
        with pytest.warns(InputWarning, match="give the field as electric_field="):
            molecule(atoms, "sto-3g")
    atoms.info = {"external_field": np.zeros(3), "force_field": 2, "field": None}
    molecule(atoms, "sto-3g")


@pytest.mark.parametrize(
    "comment", ["efield=0 0 0", "force field: 2", "forcefield=2", "electric field gradient 1.2", "e_field=0 E=-7.4"]
)
def test_comment_lines_without_a_field_say_nothing(comment):
    parse_geometry(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2")


def test_charges_of_something_in_e_are_read_or_refused():
    assert parse_geometry("2\nq/e = -2\nO 0 0 0\nO 0 0 1.2").charge == -2
    for comment in ("Charge of system = -2.0 e", "charge for the molecule: -2."):
        with pytest.raises(InputError, match="is not understood"):
            parse_geometry(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2")


@pytest.mark.parametrize(
    "comment",
    ["change=2", "triple bond", "double 2", "quarter 2", "large 2", "charge transfer 1.0", "S2 0.5", "M2 = 3"]
    + [
        "(2)",
        "2e",
        "16e",
        "E=1e-5",
        "(1,2)-dioxetane",
        "[0, 1] opt",
        "z = -1.2",
        "chap. 2",
        "T1 = 0.02",
        "unrestricted",
    ]
    + ["chargers", "range 2", "triples", "H2O--HOH", "a--b", "c 2", "sheet 3", "x^2y", "shape 2"],
)
def test_words_that_resemble_others_mention_nothing(comment):
    assert not parse_geometry(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2").mentions


def test_charge_and_spin_in_files_beside_a_geometry_are_not_lost_in_silence(tmp_path):
    """.CHRG and .UHF of xtb, CREST, GMTKN55 and MindlessGen: H2O+ was water, of one conformer and of all."""
    water = "3\n\nO 0 0 0.1173\nH 0 0.7572 -0.4692\nH 0 -0.7572 -0.4692\n"
    (tmp_path / "struc.xyz").write_text(water)
    (tmp_path / "conformers.xyz").write_text(water + water.replace("0.7572", "0.8"))
    assert molecule(tmp_path / "struc.xyz", "sto-3g").charge == 0
    for names in ((".CHRG", ".UHF"), ("struc.CHRG", "struc.UHF")):
        for name, number in zip(names, ("+1\n", "1"), strict=True):
            (tmp_path / name).write_text(number)
        for source in (tmp_path / "struc.xyz", f"{tmp_path / 'struc.xyz'}@0"):
            with pytest.warns(InputWarning, match="charge=1 .*CHRG|spin=1 .*UHF") as told:
                molecule(source, "sto-3g")
            assert len(told) == 2
            assert molecule(source, "sto-3g", charge=1, spin=1).charge == 1
        if names[0] == ".CHRG":
            with pytest.warns(InputWarning, match=r"charge=1 .\.CHRG., spin=1 .\.UHF., but another frame"):
                read_entries([str(tmp_path / "conformers.xyz")], {"basis": "sto-3g"})
        for name in names:
            (tmp_path / name).write_text("0\n")
        assert molecule(tmp_path / "struc.xyz", "sto-3g").charge == 0


@pytest.mark.parametrize(
    ("atom", "charge", "warns"),
    [("O", 0, True), ("C", 0, True), ("Fe", 0, True), ("N", 1, True), ("Fe", 2, True), ("B", -1, True)]
    + [("Be", 0, False), ("Zn", 2, False), ("F", -1, False), ("Pd", 0, False), ("Ga", 1, False), ("Hg", 2, False)],
)
def test_atoms_of_open_shells_are_no_singlets_in_silence(atom, charge, warns):
    """Ground states of the NIST Atomic Spectra Database; the singlet of oxygen is 2 eV above."""
    with pytest.warns(InputWarning, match="its ground state has unpaired") if warns else nullcontext():
        molecule(f"{atom} 0 0 0; ghost-H 0 0 1.5", "def2-svp", charge=charge)
    molecule(f"{atom} 0 0 0;", "def2-svp", charge=charge, spin=0)
    molecule(f"1\nspin=0\n{atom} 0 0 0", "def2-svp", charge=charge)


def test_atoms_of_open_shells_in_sets_warn(tmp_path):
    document = {"dftfd_benchmark": 1, "molecules": {"o": {"atoms": "O 0 0 0;"}}, "reactions": []}
    (tmp_path / "set.json").write_text(json.dumps(document))
    with pytest.warns(InputWarning, match="molecule o: spin=0 is used for this atom"):
        read_document(tmp_path / "set.json")
    document["molecules"] = {
        "o": {"atoms": "O 0 0 0;", "spin": 2},
        "h": {"atoms": "H 0 0 0;"},
        "be": {"atoms": "Be 0 0 0;"},
    }
    (tmp_path / "set.json").write_text(json.dumps(document))
    read_document(tmp_path / "set.json")


def test_entries_within_entries_of_ase_atoms_are_mentioned():
    """A row of ASE's database has charge and spin in key_value_pairs and data."""
    ase = pytest.importorskip("ase")
    atoms = ase.Atoms("O2", [(0, 0, 0), (0, 0, 1.2)])
    atoms.info = {"unique_id": "7", "key_value_pairs": {"charge": -2, "energy": -1.5}, "data": {"dft": {"spin": 2}}}
    with pytest.warns(InputWarning, match="says 'info (charge=-2|spin=2)', but no") as told:
        molecule(atoms, "sto-3g")
    assert len(told) == 2
    atoms.info = {"key_value_pairs": {"charge": 0}, "data": {}}
    molecule(atoms, "sto-3g")


def test_frames_of_a_batch_have_the_names_by_which_they_are_read(tmp_path):
    """two.xyz:1 was the frame two.xyz@0."""
    path = tmp_path / "two.xyz"
    path.write_text("1\n\nHe 0 0 0\n1\n\nNe 0 0 0\n")
    for entry in read_entries([str(path)], {"basis": "sto-3g"}):
        assert molecule(entry.name, "sto-3g").symbols == entry.molecule.symbols


@pytest.mark.parametrize(
    ("path", "about"),
    [
        ("o2_dianion/opt.xyz", "charge"),
        ("o2_triplet/geom.xyz", "spin"),
        ("2-/o2.xyz", "charge"),
        ("-2/o2.xyz", "charge"),
    ]
    + [("charge_2/o2.xyz", "charge"), ("o2_-2_1.xyz", "charge"), ("o2_c0m3.xyz", "spin")]
    + [
        ("o2_c2m1.xyz", "charge"),
        ("o2(2-).xyz", "charge"),
        ("T1_opt.xyz", "spin"),
        ("T1/o2.xyz", "spin"),
        ("o2_T1.xyz", ""),
    ]
    + [("radicals_triplet_set/o2.xyz", ""), ("0/o2.xyz", ""), ("TS1.xyz", ""), ("o2_t1.xyz", ""), ("o2_1_3.xyz", "")]
    + [("opt/o2.xyz", ""), ("o2_0_1.xyz", ""), ("c2m.xyz", "")],
)
def test_names_of_jobs_and_charge_states_mention_charge_and_spin(path, about, tmp_path):
    """Folders of jobs, of charge states, and names that a charge and a multiplicity end."""
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("2\n\nO 0 0 0\nO 0 0 1.2\n")
    with pytest.warns(InputWarning, match=f"but no {about} as") if about else nullcontext():
        molecule(file, "sto-3g")


@pytest.mark.parametrize(("comment", "about"), [("2.0 1.0", "charge"), ("-2.0, 1", "charge"), ("0.0 3.0", "spin")])
def test_charge_and_multiplicity_as_real_numbers_are_mentioned(comment, about):
    """Whole numbers of a table with gaps are real ones in pandas."""
    assert about in parse_geometry(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2").mentions
    for other in ("0.0 1.0", "0.0 0.0", "1.5 2.0", "-150.0 1.0"):
        assert not parse_geometry(f"2\n{other}\nO 0 0 0\nO 0 0 1.2").mentions


@pytest.mark.parametrize(
    ("comment", "about"),
    [("O2 anion", "charge"), ("-2 1", "charge"), ("0 3", "spin"), ("charge: -2", "charge"), ("triplet", "spin")]
    + [("Charge -2 Multiplicity 1", "charge"), ("O2 2-", "charge")]
    + [("frame 1", ""), ("opt b3lyp/6-31G*", ""), ("gdb 1 157.7", ""), ("config_type=dimer", ""), ("0 1", "")],
)
def test_comment_lines_that_ase_has_cut_are_mentioned(comment, about, tmp_path):
    """ASE makes flags of their words, which were passed over."""
    io = pytest.importorskip("ase.io")
    (tmp_path / "o2.xyz").write_text(f"2\n{comment}\nO 0 0 0\nO 0 0 1.2\n")
    with pytest.warns(InputWarning, match=f"but no {about} as") if about else nullcontext():
        molecule(io.read(tmp_path / "o2.xyz"), "sto-3g")


def test_units_and_isotopes_in_comment_lines_that_ase_has_cut(tmp_path):
    io = pytest.importorskip("ase.io")
    text = "2\n{}\nHe 0 0 0\nHe 0 0 5\n"
    for comment in ("bohr", "positions in au"):
        (tmp_path / "he2.xyz").write_text(text.format(comment))
        with pytest.raises(InputError, match="multiply the positions by ase.units.Bohr"):
            molecule(io.read(tmp_path / "he2.xyz"), "sto-3g")
    (tmp_path / "he2.xyz").write_text(text.format("D2O"))
    with pytest.warns(InputWarning, match="the info of these Atoms names isotopes"):
        molecule(io.read(tmp_path / "he2.xyz"), "sto-3g")


def test_warnings_of_several_molecules_tell_which(tmp_path):
    """The command shows equal warnings once: of two anions the first was mended, the second not."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.xyz").write_text("2\nanion\nO 0 0 0\nO 0 0 1.2\n")
    with pytest.warns(InputWarning) as told:
        read_entries([str(tmp_path / "a.xyz"), str(tmp_path / "b.xyz")], {"basis": "sto-3g"})
    assert ["a.xyz" in str(told[0].message), "b.xyz" in str(told[1].message)] == [True, True]
    with pytest.warns(InputWarning, match="species 'o2': the input says 'anion', but no charge"):
        _species("o2", {"o2": tmp_path / "a.xyz"}, {"basis": "sto-3g"})


@pytest.mark.parametrize("flags", [("F F F", "T T T"), ("F", "T"), ("F F F", "F F F"), ("fixed", ""), ("# frozen", "")])
def test_fixed_atoms_behind_coordinates_warn(flags):
    """Optimisations moved them."""
    text = "2\n\nO 0.0 0.0 0.0 {}\nO 0.0 0.0 1.2 {}\n"
    with pytest.warns(InputWarning, match="is not read: give constraints="):
        molecule(text.format(*flags), "sto-3g")
    for others in (("T T T", "T T T"), ("Au", "Au"), ("fixation", ""), ("", "")):
        molecule(text.format(*others), "sto-3g")
