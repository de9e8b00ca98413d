"""One molecule in many dialects: what is read is the molecule that was written, or one line says what is not clear.

The writer below knows nothing of the reader: separators, signs of decimals and exponents, units, charges and
multiplicities in words, columns, comments, encodings and line ends are drawn, and the molecule is kept beside the text.
"""

import re
import time
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dftfd import molecule
from dftfd.batch.entries import read_entries
from dftfd.errors import DftfdError, InputError, InputWarning
from dftfd.model.options import OPTIONS
from dftfd.runtime.written_numbers import real, reals, whole
from dftfd.system.geometry import parse_geometry, read_geometry_file
from tests.sample import sample

BOHR = 0.529177210903  # CODATA 2018
MOLECULES = {
    "water": (["O", "H", "H"], [[0.0, 0.0, 0.1173], [0.0, 0.7572, -0.4692], [0.0, -0.7572, -0.4692]]),
    "CO2": (["C", "O", "O"], [[0.0, 0.0, 0.0], [0.0, 0.0, 1.16], [0.0, 0.0, -1.16]]),
    "HeH": (["He", "H"], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.775]]),
    "ClF": (["Cl", "F"], [[0.0, 0.0, 0.0], [0.0, 1.5, 0.75]]),
    "H4": (["H"] * 4, [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 2.0, 5.0]]),
}
ELECTRONS = {"water": 10, "CO2": 22, "HeH": 3, "ClF": 26, "H4": 4}
SAID = (
    "charge={q} multiplicity={m}",
    "charge={q} spin={s}",
    "charge: {q}, multiplicity: {m}",
    "Charge and multiplicity: {q} {m}",
    "charge/multiplicity = {q}/{m}",
    "{q} {m}",
    "q={q} m={m}",
    "total charge {q}, mult {m}",
    "net_charge={q}; uhf={s}",
    'pbe="charge=7" charge="{q}" multiplicity="{m}"',
    '{{"charge": {q}, "multiplicity": {m}}}',
    "multiplicity {m}, charge {q}",
    "molecule of charge {q} and multiplicity {m}",
    "the charge of it all: {q}; multiplicity {m}",
    "{m} is the multiplicity, {q} the charge",
)
SPEECHLESS = ("", "made by hand", "frame 12, energy=-76.4 i=3", "charge transfer", "Mulliken charges in column 5")


@st.composite
def dialects(draw):
    """(text, name of the molecule, unit, charge, multiplicity), the last two None where nothing says them."""
    name = draw(st.sampled_from(sorted(MOLECULES)))
    symbols, r = MOLECULES[name]
    in_bohr = draw(st.booleans())
    r = np.array(r) / (BOHR if in_bohr else 1.0)
    digits = draw(st.sampled_from([4, 8, 12])) if in_bohr else draw(st.sampled_from([4, 5, 10]))
    kind = draw(st.sampled_from(["f", "f", "e", "d", "*^", "short", "comma", "comma"]))
    minus = draw(st.sampled_from(["-", "-", "\u2212", "\u2013"]))

    def number(x):
        word = f"{x:.{digits}e}" if kind in ("e", "d", "*^") else f"{x:.{digits}f}"
        if kind == "short":
            word = word.rstrip("0").rstrip(".") or "0"
        word = word.replace("e", {"d": "D", "*^": "*^"}.get(kind, "e"))
        return word.replace(".", "," if kind == "comma" else ".").replace("-", minus)

    separator = draw(st.sampled_from([" ", "   ", "\t", ", ", ",", " , ", "\u00a0"]))
    extra = draw(st.sampled_from([0, 0, 0, 1, 3]))
    before = draw(st.sampled_from(["none"] * 6 + ["index", "Z", "code"])) if extra else "none"
    case = draw(st.sampled_from([str, str.upper, str.lower]))
    rows = []
    for k, (symbol, position) in enumerate(zip(symbols, r, strict=True), start=1):
        numbers = [number(x) for x in position]
        columns = {"none": [], "index": [str(k)], "code": ["0"]}.get(before) or (
            [f"{dict(H=1, He=2, C=6, O=8, F=9, Cl=17)[symbol]}.0"] if before == "Z" else []
        )
        label = case(symbol) + draw(st.sampled_from(["", "", str(k)]))
        rows.append(separator.join([label, *columns, *numbers, *(number(0.25 + k) for _ in range(extra))]))
    form = draw(st.sampled_from(["xyz", "xyz", "xyz", "lines", "semicolons"]))
    q, m = None, None
    if form == "xyz":
        comment = draw(st.sampled_from(SPEECHLESS))
        if draw(st.booleans()):
            q = draw(st.sampled_from([-1, 0, 1]))
            m = 1 + (ELECTRONS[name] - q) % 2 + draw(st.sampled_from([0, 2]))
            comment = draw(st.sampled_from(SAID)).format(q=f"{q}".replace("-", minus), m=m, s=m - 1)
        if in_bohr:
            comment += draw(st.sampled_from(["", " in bohr", " (bohr)", " units=bohr"])) if comment not in SAID else ""
        text = "\n".join([str(len(rows)), comment, *rows, ""])
    else:
        text = ("\n" if form == "lines" else "; ").join(rows) + ("\n" if form == "lines" else ";")
    return text, name, "bohr" if in_bohr else "angstrom", q, m


def assert_is(text, name, unit, q, m, read):
    """The molecule that was written, or one typed line; whether it was read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        try:
            found = read(unit)
        except DftfdError as error:
            assert str(error) and "\n" not in str(error), text
            return False
    symbols, r = MOLECULES[name]
    assert list(found.symbols) == symbols, text
    np.testing.assert_allclose(found.coordinates * BOHR, r, atol=2e-4, err_msg=text)  # the fewest digits that are drawn
    if q is not None:
        assert (found.charge, found.spin) == (q, m - 1), text
    return True


def fuzz(count, strategy, code):
    options = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}
    settings(max_examples=count, **options)(given(strategy)(code))()


@pytest.mark.parametrize("count", [60, pytest.param(3_000, marks=pytest.mark.slow)])
def test_a_molecule_in_any_dialect(count):
    """Never another molecule; and at least half of what is drawn is read."""
    outcomes = []

    def check(case):
        text, name, unit, q, m = case
        spin = None if q is not None else ELECTRONS[name] % 2
        read = lambda unit: molecule(text, basis="sto-3g", unit=unit, spin=spin)
        outcomes.append(assert_is(text, name, unit, q, m, read))

    fuzz(count, dialects(), check)
    assert sum(outcomes) > len(outcomes) / 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_files_in_any_encoding(encoding, end, tmp_path):
    """With and without byte order marks; Latin 1 is UTF-8 as long as it is ASCII, and refused beyond."""
    rows = ["3", "water", "O 0 0 0.1173", "H 0 0.7572 -0.4692", "H 0 -0.7572 -0.4692", ""]
    path = tmp_path / "water.xyz"
    path.write_bytes(end.join(rows).encode(encoding))
    np.testing.assert_array_equal(read_geometry_file(path).coordinates, MOLECULES["water"][1])
    path.write_bytes(end.join(rows).replace("water", "wässrig").encode(encoding))
    if encoding == "latin-1":
        with pytest.raises(DftfdError, match="byte [34] is not UTF-8.*in UTF-8"):
            read_geometry_file(path)
    else:
        np.testing.assert_array_equal(read_geometry_file(path).coordinates, MOLECULES["water"][1])


CO2 = "3\n\nC {0} {0} {0}\nO {0} {0} 1{1}16\nO {0} {0} -1{1}16\n"


def test_decimal_commas_of_the_finding():
    """The file of the finding, which was read as 1.0 angstrom; mixtures are refused with the line."""
    np.testing.assert_array_equal(parse_geometry(CO2.format("0,0", ",")).coordinates, MOLECULES["CO2"][1])
    with pytest.raises(InputError, match="line 4: the comma of '1,16' may be a decimal sign or a separator.*points"):
        parse_geometry(CO2.format("0.0", ","))
    water = parse_geometry("O\nH 1 0,96\nH 1 0,96 2 r\nr=104,5").coordinates
    np.testing.assert_array_equal(water, parse_geometry("O; H 1 0.96; H 1 0.96 2 104.5").coordinates)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("H,0,0,0,7,4\nH,0,0,1,5,5\n", "write decimal points"),
        ("2\n\nH,0,0,0,5\nH,0,0,1,5\n", "write decimal points"),  # four numbers, or three with a decimal comma
        ("2\n\nH 0,0,0 1\nH 0,0,1 5\n", "write decimal points"),
        ("1\n\nHe 0.0 0.0 0.11,73\n", "write decimal points"),
        ("1\n\nHe 0,.5 0.0 0.11\n", "write decimal points"),
        ("2\n\nH 0.0 0.0 0.0\nH 0.0 0.0 0.7 42\n", "'H 0.0 0.0 0.7 42' has 4 numbers, another line 3"),
        ("2\n\nH 0 .0 0.0 0.0\nH 0.0 0.0 0.742\n", "'H 0 .0 0.0 0.0' has 4 numbers"),
        ("H ,5 0 0;", "',5' may be a decimal sign"),
        ("H 1,5 0;", "write decimal points"),
        ("1\n\nH 1.234,56 0 0 0\n", "write decimal points"),
        ("H 0 0 \u0661;", "ARABIC|arabic-indic digit one"),
        ("\u0397 0 0 0;", "greek capital letter eta"),
        ("H 0 0 0; D 0 0 0.74", "atom 2.*write H, and give the mass to vibrations"),
        ("2\n\nO 8.0 0.0 0.0 0.1\nH 1.0 0.0 0.0 1.1\n", "column 2 .* atomic numbers|column 2 .* atomic"),
        ("2\n\nO 0 0.0 0.0 0.1\nH 0 0.0 0.0 1.1\n", "column 2"),
        ("2\n\nO -0.40 0.000 0.000 0.117\nH 0.40 0.000 0.757 0.469\n", "columns 3, 4, 5 instead"),
        ("2\n\nCl 0 0 0 0 1.25\nF 0 0 1.5 0.75 2.25\n", "column 2"),  # or a column of zeros before x, y, z
        ("2\n\nO 0.0 1 0.0 1 0.1 1\nH 0.0 1 0.0 1 1.1 1\n", "column 3"),
        ("O; H 1 r; r=0.9; r=1.1", "two values"),
        ("O; H 1 0.96; H 1", "has 2 fields, 5 expected"),  # was a value of the name H
        ("0 1\nO 0 0 0\n", "give charge and multiplicity as charge="),
        ("units bohr\nO 0 0 0\n", "give the unit as unit="),
        ("He,,0.5,0.6,0.7;", "has nothing between two commas"),
        ("1\n\nHe,0.1, ,0.6,0.7\n", "has nothing between two commas"),
        ("1\ncoordinates in nm\nHe 0.05 0 0\n", "says 'nm'; coordinates in angstrom or bohr"),
        ("1\nfractional coordinates\nHe 0.5 0.5 0.5\n", "says 'fractional'"),
        ("1\n\nHe 0 0 0\n1\n\nHe 0 0 1\n", "holds 2 geometries: name one as FILE@0 to FILE@1"),
    ],
)
def test_what_can_be_meant_in_two_ways_is_refused(text, words):
    """The line, and the cure."""
    with pytest.raises(InputError, match=words) as found:
        parse_geometry(text)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("comment", "charge", "spin"),
    [(said, -1, 1) for said in SAID[:13]]
    + [
        ("charge: 2-", -2, None),
        ("charge \u22121", -1, None),
        ("2S+1 = 3", None, 2),
        ("multiplicity: triplet", None, 2),
        ("Charge: neutral, multiplicity 3", 0, 2),
        ("spin 3/2", None, 3),
        ("Properties=species:S:1:pos:R:3:charge:R:1", None, None),
        ("charge transfer complex", None, None),
        ("step m=5", None, None),
        ("UHF/6-31G*", None, None),
    ],
)
def test_charges_in_words(comment, charge, spin):
    """Written in the ways of other programs and people."""
    found = parse_geometry(f"1\n{comment.format(q=-1, m=2, s=1)}\nHe 0 0 0\n")
    assert (found.charge, found.spin) == (charge, spin)


@pytest.mark.parametrize(
    "comment",
    [
        *(said.format(q=-1, m=2) for said in SAID[13:]),
        "charge-1",
        "charge 1 2",
        "charge of the system: -1",
        "high spin, 5 of them",
        "multiplicity=0",
        "char ge and multiplicity: 1 2",
        "charge=1 net charge=2",
        "charge=+1e",
        "-1",
        "-1 2 hydroxyl",
        "hydroxyl (-1 2)",
        "mol_charge=-1",
        "n_electrons=3",
        "spin_state=1",
        "charges: -1",
        "Ladung: -1, Multiplizität: 2",
    ],
)
def test_words_about_charge_that_are_not_understood(comment):
    with pytest.raises(InputError, match="the comment line"):
        parse_geometry(f"1\n{comment}\nHe 0 0 0\n")


def test_words_that_only_mention_charge_and_spin_are_pointed_out():
    """A line without numbers is a title; the molecule that is taken is told."""
    for title, word in (("triplet oxygen", "triplet"), ("the anion", "anion"), ("sulphate, SO4^2-", "SO4^2-")):
        with pytest.warns(InputWarning, match=f"says '{re.escape(word)}', but no (charge|spin) as a number"):
            molecule(f"2\n{title}\nO 0 0 0\nO 0 0 1.2\n", basis="sto-3g")
    molecule("2\ntriplet\nO 0 0 0\nO 0 0 1.2\n", basis="sto-3g", spin=2)
    for title in ("C[N+](=O)[O-]", "6-311++G**", "singlet", "A-T base pair", "C-H bond", "Charge transfer state, 2nd"):
        molecule(f"1\n{title}\nHe 0 0 0\n", basis="sto-3g")


def test_units_that_are_said_are_kept():
    """An xyz file in bohr is not read in angstrom, nor a mol file in bohr."""
    text = "2\nH2, coordinates in bohr\nH 0 0 0\nH 0 0 1.4\n"
    assert molecule(text, unit="bohr").coordinates[1, 2] == 1.4
    with pytest.raises(InputError, match="is marked as in bohr, but would be read in angstrom: give unit='bohr'"):
        molecule(text)
    for words in ("forces in hartree/bohr", "energy in a.u. -2.9", "laser at 532 nm", "direct dynamics"):
        molecule(f"1\n{words}\nHe 0 0 0\n", basis="sto-3g")
    for words in ("(a.u.)", "geometry in atomic units", "unit=au", "lengths in a0"):
        with pytest.raises(InputError, match="is marked as in bohr"):
            molecule(f"1\n{words}\nHe 0 0 0\n", basis="sto-3g")


def test_initial_charges_and_moments_of_ase():
    """Their sums, as programs that ASE drives take them; sums that are no whole numbers are refused."""
    ase = pytest.importorskip("ase")
    hydroxide = ase.Atoms("OH", [(0, 0, 0), (0, 0, 0.97)], charges=[-0.8, -0.2])
    assert molecule(hydroxide, basis="sto-3g").charge == -1
    assert molecule(ase.Atoms("O2", [(0, 0, 0), (0, 0, 1.2)], magmoms=[1, 1]), basis="sto-3g").spin == 2
    hydroxide.set_initial_charges([0.3, 0.1])
    with pytest.raises(InputError, match="initial charges of these ASE Atoms add up to 0.4"):
        molecule(hydroxide, basis="sto-3g")


QM9 = """5
gdb 1\t157.7118\t157.70997\t157.70699\t0.\t13.21\t-0.3877\t0.1171\t0.5048\t35.3641\t0.044749\t-40.47893\t-40.476062
C\t-0.0126981359\t 1.0858041578\t 0.0080009958\t-0.535689
H\t 0.002150416\t-0.0060313176\t 0.0019761204\t 0.133921
H\t 1.0117308433\t 1.4637511618\t 2.76574*^-4\t 0.133922
H\t-0.540815069\t 1.4475266138\t-0.8766437152\t 0.133923
H\t-0.5238136345\t 1.4379326443\t 9.06397294*^-1\t 0.133923
1341.307\t1341.3284\t1341.365\t1562.6731\t1562.7453\t3038.3205\t3151.6034\t3151.6788\t3151.7078
C\tC
InChI=1S/CH4/h1H4\tInChI=1S/CH4/h1H4
"""


def test_files_of_qm9():
    """Mathematica's exponents, a column of charges, three lines behind the atoms (doi:10.1038/sdata.2014.22)."""
    found = parse_geometry(QM9)
    assert [name.symbol for name in found.names] == ["C", "H", "H", "H", "H"] and found.charge is None
    np.testing.assert_array_equal(found.coordinates[3], [-0.540815069, 1.4475266138, -0.8766437152])
    assert (found.coordinates[2, 2], found.coordinates[4, 2]) == (2.76574e-4, 0.906397294)


FOREIGN = {
    "input of Gaussian": "%chk=a.chk\n# B3LYP/6-31G*\n\nwater\n\n0 1\nO 0 0 0\nH 0 0 1\n",
    "of Gaussian": "#p b3lyp/6-31g(d) opt\n\nwater\n\n0 1\nO 0 0 0\nH 0 0 1\n",
    "input of ORCA": "! B3LYP def2-SVP\n* xyz 0 1\nO 0 0 0\nH 0 0 1\n*\n",
    "input of Psi4": "molecule water {\n0 1\nO 0 0 0\nH 0 0 1\n}\nset basis sto-3g\nenergy('scf')\n",
    "input of NWChem": "start\ngeometry units angstrom\n O 0 0 0\nend\nbasis\n * library 6-31g\nend\ntask dft\n",
    "Turbomole": "$coord\n 0.0 0.0 0.0 o\n 0.0 0.0 1.8 h\n$end\n",
    "Q-Chem": "$molecule\n0 1\nO 0 0 0\n$end\n$rem\nmethod pbe\n$end\n",
    "GAMESS": " $CONTRL SCFTYP=RHF $END\n $DATA\nwater\nC1\nO 8.0 0.0 0.0 0.0\n $END\n",
    "Molpro": "***,water\ngeometry={\nO 0 0 0\n}\nhf\n",
    "CP2K": "&FORCE_EVAL\n &COORD\n O 0 0 0\n &END\n&END\n",
    "MOPAC": "PM7 PRECISE\nwater\n\nO 0.0 1 0.0 1 0.0 1\n",
    "FHI-aims": "# water\natom 0.0 0.0 0.0 O\natom 0.0 0.0 1.0 H\n",
    "DFTB": "2 C\n O H\n 1 1 0.0 0.0 0.0\n 2 2 0.0 0.0 1.0\n",
    "Tinker": "2 water\n 1 O 0.0 0.0 0.0 1 2\n 2 H 0.0 0.0 1.0 2 1\n",
    "PDB": "HEADER\nATOM      1  N   ALA A   1      11.104   6.134  -6.504  1.00  0.00           N\n",
    "CIF": "data_water\n_cell_length_a 5.0\nloop_\n_atom_site_label\nO\n",
    "mol2": "@<TRIPOS>MOLECULE\nwater\n 3 2\n",
    "VASP": "water\n1.0\n 10.0 0.0 0.0\n 0.0 10.0 0.0\n 0.0 0.0 10.0\nO H\n1 2\nCartesian\n 0 0 0\n",
    "Molden": "[Molden Format]\n[Atoms] AU\nO 1 8 0 0 0\n",
    "JSON": '{"schema_name": "qcschema_input"}\n',
    "Python": "from pyscf import gto\nmol = gto.M(atom='O 0 0 0')\n",
    "cube": "water\nSCF density\n 2 0.0 0.0 0.0\n 4 0.1 0.0 0.0\n 4 0.0 0.1 0.0\n 4 0.0 0.0 0.1\n 8 8.0 0.0 0.0 0.0\n",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_files_of_other_programs_are_told_by_name(kind):
    """Their kind, and what to do."""
    with pytest.raises(InputError, match=f"looks like .*{kind}") as found:
        parse_geometry(FOREIGN[kind], "file 'a.txt'")
    assert "\n" not in str(found.value) and len(str(found.value)) < 300


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("solvent", "78.4,1.78", (78.4, 1.78)),
        ("solvent", "1,2-dichloroethane", "1,2-dichloroethane"),
        ("solvent", "2,38", "'2,38' may be one number or two: write 2.38 or '2, 38'"),
        ("electric_field", "0,0,1e-3", [0.0, 0.0, 1e-3]),
        ("electric_field", "0 0 \u22120.01", [0.0, 0.0, -0.01]),
        ("electric_field", "0,0 0,0 0,01", "may be one number or two"),
        ("electric_field", "0 0 1\u0661", "arabic-indic"),
        ("electric_field", "0,,0,1", "there is nothing between two commas"),
        ("smearing", "gaussian 0.01", ("gaussian", 0.01)),
        ("smearing", "0,01", "may be one number or two"),
        ("occupations", "2,2,0", [2.0, 2.0, 0.0]),
        ("point_charges", "1 0 0 5; -1 0 0 -5", [[1.0, 0.0, 0.0, 5.0], [-1.0, 0.0, 0.0, -5.0]]),
    ],
)
def test_numbers_of_options(name, text, value):
    """One reader; a comma that may be a decimal sign is refused by the option's name."""
    if isinstance(value, str) and value != text:
        with pytest.raises(InputError, match=f"^{name}=.*: give .*{re.escape(value)}"):
            OPTIONS[name].read(name, text)
    else:
        assert OPTIONS[name].read(name, text) == value


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["r", ".17e", ".3f", "+.10e"]))
def test_numbers_are_those_of_python(x, form):
    """To the last bit, whatever the form; whole numbers too."""
    word = repr(x) if form == "r" else f"{x:{form}}"
    assert real(word) == float(word) and real(word.replace("e", "D")) == float(word)
    assert whole(word) is None or whole(word) == float(word)


@pytest.mark.parametrize(
    "piece", ["1", "1.", ".1", "1e", "e1", "-", "1,", ",", "0,1 ", "\u2212", " ", "1d1", "*^", "\n", "charge "]
)
@pytest.mark.parametrize("end", sample(["", "x", ";"], ["x"]))
def test_long_words_are_answered_at_once(piece, end):
    """30 kB of anything, as a coordinate, in a Z-matrix, a comment line and an option, within a second."""
    word, start = piece * (30_000 // len(piece)) + end, time.process_time()
    texts = [
        f"H 0 0 {word}\n",
        f"O\nH 1 {word}\n",
        f"O\nH 1 r\nr = {word}\n",
        f"1\ncharge {word}\nHe 0 0 0\n",
        f"x\n{word}",
    ]
    for text in texts:
        try:
            parse_geometry(text)
        except DftfdError as error:
            assert len(str(error)) < 300
    for read in (real, whole, reals):
        try:
            read(word)
        except ValueError as error:
            assert len(str(error)) < 300
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("file,charge\nh2.xyz,1,2\n", "line 2.*'2'.* behind"),
        ("file,charge,charge\nh2.xyz,1,-1\n", "two columns of one name"),
        ("file,spin,multiplicity\nh2.xyz,2,1\n", "spin or multiplicity"),
        ("file;charge\nh2.xyz;1\n", "the column file"),
    ],
)
def test_tables_of_a_batch_mean_one_thing(table, words, tmp_path):
    """Cells without a column, columns of one name and two words for one thing are refused."""
    (tmp_path / "h2.xyz").write_text("2\n\nH 0 0 0\nH 0 0 0.74\n")
    (tmp_path / "t.csv").write_text(table)
    (entry,) = read_entries([tmp_path / "t.csv"], {"basis": "sto-3g"})
    assert entry.molecule is None and re.search(words, str(entry.error))


STRAY = st.sampled_from(list(",; \t#!|/\\'\"()[]:=_*\n\r\x0b\x0c\u00a0\u200b\ufeff\u2028"))
FILES = (
    "3\nCharge and multiplicity: -1 2\nO 0.0000 0.0000 0.1173\nH 0.0000 0.7572 -0.4692\nH 0.0000 -0.7572 -0.4692\n",
    "3\ncharge=-1 spin=1\nO,0.0000,0.0000,0.1173\nH,0.0000,0.7572,-0.4692\nH,0.0000,-0.7572,-0.4692\n",
    "3\n-1 2\nO 0,0000 0,0000 0,1173\nH 0,0000 0,7572 -0,4692\nH 0,0000 -0,7572 -0,4692\n",
    "3\ncharge: -1, mult: 2\nO 0.0 0.0 0.1173 -0.7\nH 0.0 0.7572 -0.4692 0.1\nH 0.0 -0.7572 -0.4692 0.1\n",
)


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_stray_character_makes_no_other_molecule(count):
    """One or two blanks, commas, line ends, brackets or invisible characters anywhere in a file."""

    def check(text, places, strays):
        for place, stray in zip(places, strays, strict=False):
            text = text[: place % len(text)] + stray + text[place % len(text) :]
        try:
            read = parse_geometry(text)
        except DftfdError as error:
            assert "\n" not in str(error)
            return
        assert [name.symbol for name in read.names] == ["O", "H", "H"], text
        np.testing.assert_array_equal(read.coordinates, MOLECULES["water"][1], err_msg=repr(text))
        assert (read.charge, read.spin) == (-1, 1), repr(text)

    options = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}
    places = st.lists(st.integers(0, 10**4), min_size=1, max_size=2)
    strays = st.lists(STRAY, min_size=2, max_size=2)
    settings(max_examples=count, **options)(given(st.sampled_from(FILES), places, strays)(check))()
