"""Columns of xyz files beside x, y, z: the molecule that was written is read, or one line refuses it."""

import itertools
import re

import numpy as np
import pytest

from dftfd import molecule
from dftfd.benchmarks import read_set
from dftfd.errors import InputError
from dftfd.system.geometry import parse_geometry

MOLECULES = {
    "water": "O 0 0 .117; H 0 .757 -.469; H 0 -.757 -.469",
    "methane": "C 0 0 0; H .63 .63 .63; H -.63 -.63 .63; H .63 -.63 -.63; H -.63 .63 -.63",
    "HCN": "H 0 0 -1.06; C 0 0 0; N 0 0 1.15",
    "CO2": "C 0 0 0; O 0 0 1.16; O 0 0 -1.16",
    "formaldehyde": "C 0 0 -.52; O 0 0 .67; H 0 .94 -1.1; H 0 -.94 -1.1",
    "ammonia": "N 0 0 .11; H 0 .94 -.27; H .81 -.47 -.27; H -.81 -.47 -.27",
    "ethylene": "C 0 0 .66; C 0 0 -.66; H 0 .92 1.23; H 0 -.92 1.23; H 0 .92 -1.23; H 0 -.92 -1.23",
    "SO2": "S 0 0 0; O 0 1.24 .72; O 0 -1.24 .72",
}
AMONG = ("1", "12", "2", "123", "012", "22", "01", "0")
"""Behind how many coordinates a column stands, and stands again."""


def columns_of(rng, n):
    """What programs and people write beside coordinates, as words."""
    charges = rng.normal(0, 0.4, n)
    yield [f"{q:.4f}" for q in charges]
    yield [f"{q:.6f}" for q in charges]
    yield [f"{abs(x):.4f}" for x in rng.normal(0, 0.01, n)]  # uncertainties
    yield [f"{x:.6f}" for x in rng.normal(0, 0.05, n)]  # forces
    yield [f"{x:.6f}" for x in rng.normal(0, 1, n)]  # velocities
    yield ["1"] * n
    yield [str(x) for x in rng.integers(0, 2, n)]
    yield [str(k + 1) for k in range(n)]
    yield ["1.00"] * n
    yield [f"{x:.2f}" for x in rng.uniform(5, 40, n)]
    yield [f"{x:.2f}" for x in rng.choice([1.2, 1.7, 1.52], n)]
    yield ["X"] * n


def files(seed):
    """(text, coordinates) of each molecule in three places, with a column of each kind in each place."""
    rng = np.random.default_rng(seed)
    for text, place in itertools.product(MOLECULES.values(), range(3)):
        rows = [atom.split() for atom in text.split(";")]
        r, n = np.array([[float(x) for x in row[1:]] for row in rows]), len(rows)
        if place:
            r = r @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + (place - 1) * rng.normal(size=3)
        for form in ("%.6f", "%.4f", "%10.5f"):
            written = [[form % x for x in axis] for axis in r.T]
            for column, among in itertools.product(list(columns_of(rng, n)), AMONG):
                columns = [[row[0] for row in rows]]
                for k in range(4):
                    columns += [column] * among.count(str(k)) + written[k : k + 1]
                yield f"{n}\n\n" + "\n".join(map(" ".join, zip(*columns, strict=True))), r


@pytest.mark.parametrize("every", [37, pytest.param(1, marks=pytest.mark.slow)])  # 1: 6,912 files, ten seconds
def test_columns_among_coordinates_make_no_other_molecule(every):
    """71 % of these files were read as other coordinates, then 13 %: columns that happen to make a molecule."""
    for text, r in itertools.islice(files(3), 0, None, every):
        try:
            found = parse_geometry(text).coordinates
        except InputError as error:
            assert "\n" not in str(error)
        else:
            np.testing.assert_allclose(found, r, atol=1e-3, err_msg=text)


@pytest.mark.parametrize("form", ["%.4f", "%.6f", "%10.5f"])
def test_columns_behind_coordinates_are_left_out(form):
    """Charges, forces and velocities behind x, y, z of S22's first complexes, also in the coordinates' own form."""
    rng = np.random.default_rng(1)
    for species in itertools.islice(read_set("s22").species.values(), 6):
        found = parse_geometry(species.atoms)
        n, r = len(found.names), found.coordinates
        for further in ([0.4], [0.02] * 3, [0.3, 0.02, 0.02, 0.02], [0.02] * 3 + [0.001] * 3):
            rows = np.hstack([r, rng.normal(0, 1, (n, len(further))) * further])
            words = [[name.symbol, *(form % x for x in row)] for name, row in zip(found.names, rows, strict=True)]
            read = parse_geometry("\n".join([str(n), "", *map(" ".join, words)])).coordinates
            np.testing.assert_allclose(read, r, atol=1e-4)


def test_columns_that_the_comment_line_tells_are_believed():
    """Where x, y, z may be other columns, the refusal says which, and how to tell them."""
    text = "3\n{}\nC 0.0000 0.2000 0.0000 0.0000\nO 0.0000 0.1000 0.0000 1.1600\nO 0.0000 0.1000 0.0000 -1.1600\n"
    with pytest.raises(InputError, match=re.escape("columns 2, 4, 5 instead of 2, 3, 4; leave the other columns out")):
        parse_geometry(text.format(""))
    found = parse_geometry(text.format("Properties=species:S:1:pos:R:3:charge:R:1"))
    np.testing.assert_array_equal(found.coordinates[0], [0, 0.2, 0])


@pytest.mark.parametrize("between", ["{0} 1 {1} 1 {2}", "{0} {1} 1 {2}", "{0} {3} {1} {3} {2}", "{0} {1} {3} {2}"])
def test_columns_between_coordinates_are_refused(between):
    """Flags and uncertainties: whole numbers, and numbers with points where only other columns make a molecule."""
    sulfur_dioxide = [("S", 0.31, -0.22, 0.105), ("O", 1.12, 0.87, 0.58), ("O", -0.93, -0.41, 0.79)]
    row = lambda name, *r: f"{name} " + between.format(*(f"{x:.4f}" for x in r), "0.0021")
    with pytest.raises(InputError, match="'El x y z' expected|instead of 2, 3, 4"):
        parse_geometry("3\n\n" + "\n".join(row(*atom) for atom in sulfur_dioxide))
    behind = "3\n\n" + "\n".join(f"{a} {x} {y} {z} 0.0021 1 {x}" for a, x, y, z in sulfur_dioxide)
    np.testing.assert_allclose(parse_geometry(behind).coordinates, [r for _, *r in sulfur_dioxide])


def test_a_constant_column_before_coordinates_is_refused():
    text = "3\n\nO {0} 0.0 0.0 0.117\nH {0} 0.0 0.757 -0.469\nH {0} 0.0 -0.757 -0.469\n"
    with pytest.raises(InputError, match="column 2"):
        molecule(text.format("1.0"), "sto-3g")


@pytest.mark.parametrize(
    "rows",
    [
        "O 0 0 0 0.0 0.0 0.0\nH 1 0 0 0.96 0.0 0.0\nH 1 2 0 0.96 104.5 0.0",  # ORCA's internal coordinates
        "O 0 0 0 0 0 0\nH 1 0 0 0.96 0 0\nH 1 2 0 0.96 104.5 0",
        "1 8 0 0.0 0.0 0.117\n2 1 0 0.0 0.757 -0.469\n3 1 0 0.0 -0.757 -0.469",  # Gaussian's table of an output
    ],
)
def test_references_and_numbers_of_atoms_are_no_coordinates(rows):
    """Whole numbers before numbers with points put the hydrogens of water at (1, 0, 0) and (1, 2, 0)."""
    with pytest.raises(InputError, match="'El x y z' expected, coordinates with points"):
        parse_geometry(f"3\n\n{rows}\n")


@pytest.mark.parametrize(
    "rows",
    [
        "C 0.003 0.505 -0.020 0.000; O -0.796 1.367 -0.365 0.000; F 1.312 0.706 0.153 0.000; "
        "Cl -0.321 -1.191 0.232 0.000",
        "C 0.724 0.322 0.373 -0.810; O 1.300 -0.846 -0.324 -0.638; O -0.359 0.526 -0.067 -1.335; "
        "H 1.339 1.137 0.207 -0.419; H 0.715 -1.562 -0.189 -1.004",
        "C 0.286 -2.932 1.317 -0.222; C 0.030 -1.746 1.487 -0.162; H -0.117 -3.981 1.167 -0.276; "
        "F -0.198 -0.481 1.667 -0.097",
        "Al 0.996 0.000 0.000 0.000; Cl 0.279 0.000 0.000 2.141",
        "B -0.283 -0.474 0.669 0.000 0.000 0.000; H -0.250 -0.108 0.205 0.000 0.000 2.331",
    ],
    ids=["plane", "turned plane", "line", "pair behind a radius", "pair behind velocities"],
)  # fmt: skip
def test_planes_lines_and_pairs_are_no_chance(rows):
    """Charges, radii and velocities beside x, y, z that make as good bonds as those, but no plane or line."""
    with pytest.raises(InputError, match="instead of 2, 3, 4"):
        parse_geometry("\n".join([str(rows.count(";") + 1), "", *rows.split(";")]))


@pytest.mark.parametrize(
    "rows", ["O {0} 0 0 0.117; H {0} 0.757 0 -0.469; H {0} -0.757 0 -0.469", "C {0} .8 .8 .8; H {0} 0 0.2 0.9"]
)
def test_zeros_behind_coordinates_are_left_out(rows):
    """A plane that is turned remains one: two of its coordinates and zeros are another plane, and no better."""
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    r = np.array([[float(x) for x in row.format("").split()[1:]] for row in rows.split(";")]) @ turn
    names = [row.split()[0] for row in rows.split(";")]
    words = [f"{name} {x:.4f} {y:.4f} {z:.4f} 0.0000 0.0000 0.0000" for name, (x, y, z) in zip(names, r, strict=True)]
    found = parse_geometry("\n".join([str(len(r)), "", *words]))
    np.testing.assert_allclose(found.coordinates, r, atol=1e-4)


@pytest.mark.parametrize(
    "rows", ["O 0.0 0.0 0.0 O 0.0 0.0 1.2", "C 0.0 0.0 0.0 O 0.0 1.3 0.0\nO 1.1 -0.6 0.0 O -1.1 -0.6 0.0"]
)
def test_two_atoms_in_a_line_are_refused(rows):
    """Of a table in two columns, with its lines as the number of atoms, the left half was read."""
    with pytest.raises(InputError, match="seems to hold two atoms"):
        parse_geometry(f"{rows.count(chr(10)) + 1}\n\n{rows}")
    assert len(parse_geometry("1\n\nO 0.0 0.0 0.0 O1 A 1 2.0").names) == 1
