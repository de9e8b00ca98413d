"""Geometry text: what is read, what is refused, and that nothing in it is ever executed."""

import ase
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dftfd.elements import ATOMIC_NUMBERS, SYMBOLS, parse_atom_name
from dftfd.errors import DftfdError, FileError, InputError, InputWarning
from dftfd.system import geometry
from dftfd.system.geometry import is_coordinate_text, parse_atom_list, parse_geometry, read_geometry_file
from dftfd.system.molecule import molecule

WATER_XYZ = "3\nwater, angstrom\nO 0 0 0.1173\nH 0 0.7572 -0.4692\nH 0 -0.7572 -0.4692\n"
WATER = np.array([[0, 0, 0.1173], [0, 0.7572, -0.4692], [0, -0.7572, -0.4692]])


def test_periodic_table_agrees_with_pyscf():
    """Symbols and numbers of all 118 elements; PySCF keeps the same table with a ghost in front."""
    from pyscf.data.elements import ELEMENTS

    assert list(SYMBOLS) == ELEMENTS[1:]
    assert ATOMIC_NUMBERS["Og"] == 118


@pytest.mark.parametrize(
    "text",
    [
        "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692",
        "o 0 0 0.1173\nh 0 0.7572 -0.4692\nh 0 -0.7572 -0.4692\n",
        "# water\n  O, 0, 0, .1173 # the oxygen\n\nH 0 7.572e-1 -4692d-4;\tH 0 -7572D-4 -0.4692;\n",
        "8 0 0 0.1173; 1 0 0.7572 -0.4692; 1 0 -0.7572 -0.4692",
        WATER_XYZ,
        "\n" + WATER_XYZ.replace("\n", "\r\n") + "\n\n",
        WATER_XYZ.replace("173\n", "173 -0.66 extra\n").replace("692\n", "692 0.33 extra\n").replace(" 0 ", " 0.0 "),
        WATER_XYZ.replace("0.1173", "0.1173 oxygen"),
    ],
)
def test_forms_of_one_geometry_are_read_alike(text):
    """Separators, case, comments, Fortran exponents, atomic numbers, xyz text and line ends carry no meaning."""
    read = parse_geometry(text)
    assert [name.symbol for name in read.names] == ["O", "H", "H"]
    np.testing.assert_array_equal(read.coordinates, WATER)


def test_numbers_are_read_to_the_last_bit(rng):
    """Seventeen digits survive: the text is converted once, by float()."""
    values = rng.standard_normal((5, 3)) * 10.0 ** rng.integers(-12, 4, (5, 3))
    text = ";".join("He " + " ".join(repr(float(x)) for x in row) for row in values)
    np.testing.assert_array_equal(parse_geometry(text).coordinates, values)


@pytest.mark.parametrize(
    ("written", "symbol", "ghost", "label"),
    [
        ("H", "H", False, "H"),
        ("cL", "Cl", False, "Cl"),
        ("h1", "H", False, "H1"),
        ("C@2a", "C", False, "C@2a"),
        ("17", "Cl", False, "Cl"),
        (17, "Cl", False, "Cl"),
        (np.int64(1), "H", False, "H"),
        ("ghost-O", "O", True, "ghost-O"),
        ("GHOST:o2", "O", True, "ghost-O2"),
        ("ghostH", "H", True, "ghost-H"),
        ("X-He", "He", True, "ghost-He"),
        ("bq_N", "N", True, "ghost-N"),
        ("C_bqx", "C", False, "C_bqx"),
        ("Xe", "Xe", False, "Xe"),
    ],
)
def test_atom_names(written, symbol, ghost, label):
    """Labels, numbers and ghosts: 'X-He' is a ghost helium, 'Xe' is xenon."""
    name = parse_atom_name(written, "atom 1")
    assert (name.symbol, name.ghost, name.label) == (symbol, ghost, label)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("Xx", r"unknown element 'Xx' \(atom 1\); did you mean Xe"),
        ("cll", "did you mean Cl"),
        ("X", "Ghost atoms name their element"),
        ("O_ghost", "'ghost' behind the element, where labels stand. Ghost atoms name their element: 'ghost-O'"),
        ("H1@bq", "'bq' behind the element"),
        ("ghost", "Ghost atoms name their element"),
        ("0", "atomic number '0' is outside 1 to 118"),
        (119, "outside 1 to 118"),
        ("9" * 5000, "outside 1 to 118"),
        ("", "is not an element symbol"),
        ("H;", "is not an element symbol"),
        ("²", "is not an element symbol"),
        (True, "must be a symbol or an atomic number"),
        (1.0, "must be a symbol or an atomic number"),
        (None, "must be a symbol or an atomic number"),
    ],
)
def test_wrong_atom_names_are_named(written, message):
    """PySCF reads 'Xx' as a ghost without a word; here every unknown symbol is refused with the nearest ones."""
    with pytest.raises(InputError, match=message):
        parse_atom_name(written, "atom 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H 0 0; H 0 0 0.74", "line 1: expected 'El x y z', found 'H 0 0'"),
        ("H 0 0 0\nH 0 0 0.74 1.0\n", "line 2: expected 'El x y z'"),
        ("H 0 0 0\nO 1\n", "line 2: expected 'El x y z', found 'O 1'"),
        ("H 0 0 zero;", "coordinate z of atom 1 is 'zero', expected a number"),
        ("H 0 0 0; H 0 1_0 0", "coordinate y of atom 2 is '1_0'"),
        ("H 0x1p3 0 0;", "coordinate x of atom 1 is '0x1p3'"),
        ("H ١ 0 0;", "coordinate x of atom 1"),
        ("H 1e 0 0;", "coordinate x of atom 1 is '1e'"),
        ("3\n\nH 0 0 0\nH 0 0 1\n", "line 1 announces 3 atoms, but 2 lines follow"),
        ("1\n\nH 0 0 0\nH 0 0 1\n", "line 1 announces 1 atoms, but 2 lines follow"),
        ("1\n\nH 0 0 0\n1\n\nH 0 0 1\n", "holds 2 geometries: name one as FILE@0 to FILE@1"),
        ("2\n\nH 0 0\nH 0 0 1\n", "line 3: expected 'El x y z', found 'H 0 0'"),
        ('1\nLattice="5 0 0 0 5 0 0 0 5"\nH 0 0 0\n', "periodic cell"),
        ("1\nProperties=species:S:1:forces:R:3:pos:R:3\nH 0 0 0 1 1 1\n", "element, x, y, z"),
        ("H 0 0 " + "1" * 10_000 + "x;", "coordinate z of atom 1"),
    ],
)
def test_malformed_text_is_refused_with_its_place(text, message):
    """Each message names the line, the atom or the coordinate, and stays one readable line."""
    with pytest.raises(InputError, match=message) as caught:
        parse_geometry(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_expressions_are_not_evaluated(tmp_path):
    """PySCF passes coordinates to eval(); here an expression is not a number, in text and in files."""
    trap = tmp_path / "trap"
    expression = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    path = tmp_path / "trap.xyz"
    path.write_text(f"1\n\nH 0 0 {expression}\n")
    for read, source in ((parse_geometry, f"H 0 0 {expression};"), (read_geometry_file, path)):
        with pytest.raises(InputError, match="coordinate z of atom 1"):
            read(source)
    assert not trap.exists()


def test_nan_and_infinity_are_read_so_that_the_molecule_can_name_them():
    """The parser keeps them as numbers; `molecule` refuses them with the name of the coordinate."""
    x, y, z = parse_geometry("H nan -inf Infinity;").coordinates[0]
    assert np.isnan(x) and y == -np.inf and z == np.inf


def test_files(tmp_path):
    """xyz with and without BOM, extended xyz of a molecule, and a plain coordinate file."""
    for content in (
        WATER_XYZ,
        "\ufeff" + WATER_XYZ,
        WATER_XYZ.replace("water, angstrom", 'Lattice="1 0 0 0 1 0 0 0 1" Properties=species:S:1:pos:R:3 pbc="F F F"'),
        "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692",
    ):
        path = tmp_path / "water.xyz"
        path.write_text(content, encoding="utf-8")
        np.testing.assert_array_equal(read_geometry_file(path).coordinates, WATER)
        np.testing.assert_array_equal(read_geometry_file(str(path)).coordinates, WATER)


def test_unreadable_files(tmp_path, monkeypatch):
    """Missing, not a file, binary, too large: FileError (exit code 5) with the path; coordinates get a hint."""
    with pytest.raises(FileError, match="file not found: 'none.xyz'") as caught:
        read_geometry_file("none.xyz")
    assert caught.value.exit_code == 5 and "separate" not in str(caught.value)
    with pytest.raises(FileError, match="a single atom ends with ';'"):
        read_geometry_file("He 0 0 0")
    with pytest.raises(FileError, match="not a regular file"):
        read_geometry_file(tmp_path)
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(FileError) as caught:
            read_geometry_file(name)
        assert len(str(caught.value)) < 200
    binary = tmp_path / "binary.xyz"
    binary.write_bytes(b"1\n\nH 0 0 \xff\xfe")
    with pytest.raises(FileError, match="not a text file"):
        read_geometry_file(binary)
    monkeypatch.setattr(geometry, "MAX_FILE_BYTES", 2**20)
    large = tmp_path / "large.xyz"
    large.write_bytes(b"\n" * (2**20 + 1))
    with pytest.raises(FileError, match="larger than 1 MiB"):
        read_geometry_file(large)


def test_files_cut_within_a_number_are_refused(tmp_path):
    """Also in trajectories, and in all of a batch. A file that is whole ends with a newline or as many decimals."""
    path, rows = (
        tmp_path / "cut.xyz",
        "\n".join("H {:.4f} {:.4f} {:.4f}".format(*r) for r in [(0, 0, 1), (0.5, -0.25, 2)]),
    )
    whole = f"2\n\n{rows}\n2\n\n{rows}"
    for cut in range(1, 6):
        path.write_text(whole[:-cut])
        for name in (f"{path}@0", path):
            with pytest.raises(InputError, match="may have been cut off" if name != path else "cut off|announces"):
                read_geometry_file(name)
    for text in (whole, whole + "\n", whole[:-3] + "\n", whole.replace("0.5000", "0.5")[:-2]):
        path.write_text(text)
        assert len(read_geometry_file(f"{path}@1").names) == 2


def test_atom_lists():
    """Both shapes of an entry, numpy numbers and arrays."""
    flat = parse_atom_list([["O", 0, 0, np.float64(0.1173)], (1, 0, 0.7572, -0.4692), ["h", 0, -0.7572, -0.4692]])
    nested = parse_atom_list(tuple(zip("OHH", WATER, strict=True)))
    np.testing.assert_array_equal(flat.coordinates, WATER)
    np.testing.assert_array_equal(nested.coordinates, WATER)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("H", (0, 0))], "atom 1: the position is"),
        ([("H", 0, 0)], "atom 1: found"),
        (["H 0 0 0"], "atom 1: found 'H 0 0 0'"),
        ([("H", (0, 0, 0)), 5], "atom 2: found 5"),
        ([("H", (0, 0, "1.0"))], "coordinate z of atom 1 is '1.0', expected a real number"),
        ([("H", (0, [[0, 0], 1], 1.0))], r"coordinate y of atom 1 is \[\[0, 0\], 1\], expected a real number"),
        ([("H", (0, 1j, 0))], "coordinate y of atom 1 is 1j"),
        ([("H", (True, 0, 0))], "coordinate x of atom 1 is True"),
        ([("H", (None, 0, 0))], "coordinate x of atom 1 is None"),
        ([("H", ([1], 0, 0))], r"coordinate x of atom 1 is \[1\]"),
        ([("H", {0.5, 0.1, 2.0})], "atom 1: the position is"),
        ([("H", b"abc")], "atom 1: the position is"),
    ],
)
def test_malformed_lists_are_refused(entries, message):
    """Nothing is converted by guess: strings, booleans and complex numbers are no coordinates."""
    with pytest.raises(InputError, match=message):
        parse_atom_list(entries)


def test_what_counts_as_coordinate_text():
    """The rule a caller can rely on: a newline or semicolon makes it coordinates, all else is a path."""
    assert is_coordinate_text("H 0 0 0;") and is_coordinate_text("H 0 0 0\n")
    assert not is_coordinate_text("H 0 0 0") and not is_coordinate_text("dir/water.xyz")


FRAGMENTS = st.sampled_from(
    [
        "H",
        "O",
        "Xe",
        "ghost-",
        "X-",
        "0",
        "1.5",
        "-2e3",
        "nan",
        "inf",
        "1e999",
        "2",
        " ",
        ",",
        ";",
        "\n",
        "#",
        "\t",
        "\r",
    ]
    + ["Lattice=", "Properties=", "__import__('os')", "'", "\\", "\x00", "\u2028", "é", "1d5", "+", "."]
)


@given(st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=60).map("".join)))
def test_any_text_gives_a_geometry_or_a_typed_error(text):
    """No input reaches a traceback: either a geometry of the right shape, or InputError in one line."""
    try:
        read = parse_geometry(text)
    except DftfdError as error:
        assert isinstance(error, InputError) and str(error) and len(str(error).splitlines()) == 1
    else:
        assert read.coordinates.shape == (len(read.names), 3)
        assert all(name.symbol in ATOMIC_NUMBERS for name in read.names)


# ---------------------------------------------------------------------------------------- what a comment line says


@pytest.mark.parametrize(
    "comment, charge, spin",
    [
        ("water", None, None),
        ("charge=1 spin=1", 1, 1),
        ("energy=-1.5 Charge = -1, multiplicity = 2", -1, 1),
        ('charge="+2" Multiplicity=1', 2, 0),
        ("charge=1.0 spin=1 multiplicity=2", 1, 1),
        ('model="pbe charge=5 spin=2" partial_charge=0.3 spin_state=LS', None, None),
        ("total_charge=3", 3, None),
    ],
)
def test_charge_and_spin_of_the_comment_line(comment, charge, spin):
    """Whole keys outside of quotes count, in any case."""
    read = parse_geometry(WATER_XYZ.replace("water, angstrom", comment))
    assert (read.charge, read.spin) == (charge, spin)


@pytest.mark.parametrize(
    "comment", ["charge=x", "charge=0.5", "spin=1 multiplicity=1", "charge=1 charge=2", "multiplicity=1e0"]
)
def test_what_a_comment_line_cannot_mean(comment):
    with pytest.raises(InputError, match="the comment line says"):
        parse_geometry(WATER_XYZ.replace("water, angstrom", comment))


def test_a_molecule_takes_charge_and_spin_of_its_file(tmp_path):
    """Also each frame of a trajectory in a batch; arguments count, with a warning where they contradict."""
    from dftfd.batch.entries import read_entries

    cation = WATER_XYZ.replace("water, angstrom", "charge=1 multiplicity=2")
    path = tmp_path / "frames.xyz"
    path.write_text(cation + WATER_XYZ + WATER_XYZ.replace("water, angstrom", "charge=-1 spin=1"))
    assert (molecule(cation).charge, molecule(cation).spin) == (1, 1)
    with pytest.warns(InputWarning, match="another frame no charge"):
        jobs = read_entries([path], {"basis": "sto-3g"})
    assert [(job.molecule.charge, job.molecule.spin) for job in jobs] == [(1, 1), (0, 0), (-1, 1)]
    with pytest.warns(InputWarning, match="charge=1, but charge=-1 was given"):
        assert molecule(cation, charge=-1, spin=1).charge == -1
    with pytest.raises(InputError, match="spin=1 does not fit 10 electrons"):  # programs that call a singlet spin=1
        molecule(WATER_XYZ.replace("water, angstrom", "charge=0 spin=1"))


@pytest.mark.parametrize("name", ["a;b.xyz", "a\nb.xyz", ";", "O 0 0;.xyz"])
def test_a_file_is_found_by_any_name(name, tmp_path, monkeypatch):
    """A semicolon or a line break in the name of a file that exists does not make it coordinates."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(WATER_XYZ)
    assert not is_coordinate_text(name)


def test_coordinates_are_not_read_from_a_file_of_their_name(tmp_path, monkeypatch):
    """What begins with an atom is coordinates, whatever files lie in the folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "H 0 0 0; H 0 0 0.74").write_text(WATER_XYZ)
    assert is_coordinate_text("H 0 0 0; H 0 0 0.74")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("N 0 0 0; CA 1.46 0 0; C 2.0 1.42 0; O 3.2 1.5 0", "CA is a name of C in PDB files, and is read as Ca"),
        ("O 0 0 0; HG1 0.96 0 0", "HG1 is a name of H"),
        ("C 0 0 0; NE 1.46 0 0; HE 2.0 0.87 0", "NE is a name of N"),
        ("S 0 0 0; CE 1.8 0 0", "CE is a name of C"),
    ],
)
def test_names_of_pdb_are_no_elements(text, said):
    """C alpha is not calcium: such atoms are as near as no atom of that element is."""
    with pytest.raises(InputError, match=said):
        molecule(text, basis="sto-3g")


@pytest.mark.parametrize(
    "text",
    [
        "CA 0 0 0; O 0 0 1.82", "NA 0 0 0; CL 0 0 2.36", "NB 0 0 0; N 0 0 1.66", "CD 0 0 0; C 0 0 2.1",
        "HE 0 0 0; H 0 0 0.77", "NE 0 0 0; H 0 0 0.99", "NE 0 0 0; NE 0 0 3.1", "Ca 0 0 0; N 0 0 1.46",
        "CR 0 0 0; CR 0 0 1.68", "NA 0 0 0; H 0 0 1.89",
    ],
)  # fmt: skip
def test_elements_in_capitals_are_elements(text):
    """At distances of known molecules (K. P. Huber, G. Herzberg, Constants of Diatomic Molecules, 1979)."""
    names = [word.split()[0].capitalize() for word in text.split(";")]
    charge = sum(ATOMIC_NUMBERS[name] for name in names) % 2
    assert list(molecule(text, basis="sto-3g", charge=charge).symbols) == names


@pytest.mark.parametrize(
    "comment", ["c=-2", "c: -2", "ch = 1", "mul=3", "s=1", "z=1", "frame 3 c=+1", "molchg=1", "tot_magnetization=2"]
)
def test_words_cut_short_are_refused(comment):
    """What may have been meant as a charge or a spin is not passed over."""
    with pytest.raises(InputError, match="mentions charge or spin but is not understood"):
        parse_geometry(f"1\n{comment}\nC 0 0 0")


def test_a_number_of_the_atom_is_no_coordinate():
    """Also before coordinates that are written without points; points make it one."""
    with pytest.raises(InputError, match="holds atomic numbers, masses, charges, references, codes or flags"):
        parse_geometry("2\n\nCl 1 0 0 0 1.25\nF 2 0 1.5 0.75 2.25\n")
    assert parse_geometry("2\n\nH 1.0 0 0 0 1\nH 2.0 0 0 0 2\n").coordinates[1, 0] == 2
    with pytest.raises(InputError, match="holds atomic numbers, masses"):
        parse_geometry("2\n\nH 1.008 0.0 0.0 0.0\nF 18.998 0.0 0.0 0.92\n")


@pytest.mark.parametrize(
    "comment", ["Charge=1 Mult=2", "charge = 1; mult = 2", "chg 1 mult 2", "chrg=1 uhf=1", "q=1 m=2"]
)
def test_short_words_that_are_known_are_read(comment):
    found = parse_geometry(f"1\n{comment}\nC 0 0 0")
    assert (found.charge, found.spin) == (1, 1)


def test_what_the_info_of_ase_says_of_electrons_is_told():
    """Programs make different things of it: it is not taken, and a line says so."""
    atoms = ase.Atoms("HF", [[0, 0, 0], [0, 0, 0.92]], info={"charge": 2, "spin": 1})
    with pytest.warns(InputWarning, match="info charge=2"):
        assert molecule(atoms, basis="sto-3g").charge == 0
    assert molecule(atoms, basis="sto-3g", charge=2).charge == 2


@pytest.mark.parametrize("comment", ["c=10.2", "E=-76", "step=3 c=12", "C6H6", "energy=-1 i=4", "C2 symmetry"])
def test_other_words_say_nothing(comment):
    found = parse_geometry(f"1\n{comment}\nC 0 0 0")
    assert found.charge is None and found.spin is None
