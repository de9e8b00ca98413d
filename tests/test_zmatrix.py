"""Z-matrices against PySCF's reader, and what is refused in them."""

import numpy as np
import pytest
from pyscf.gto.mole import from_zmatrix

import dftfd
from dftfd.errors import InputError
from dftfd.system.geometry import parse_geometry

FORMAMIDE = """C
O 1 1.2
H 1 r 2 121.5
H 1 r 2 121.5 3 180
N 3 1.4 1 109.5 2 -63.2
H@last 5 1.0 3 110 4 {d}
"""
"""Of no molecule; every kind of row."""


def distances(R):
    return np.linalg.norm(R[:, None] - R[None], axis=-1)


@pytest.mark.parametrize("dihedral", ["77.7", "-120"])
def test_positions_are_pyscfs(dihedral):
    """All distances, and the handedness of the atoms about the first."""
    text = FORMAMIDE.replace("{d}", "-d" if dihedral[0] == "-" else "d") + f"\nr = 1.1\nd {dihedral.lstrip('-')}\n"
    ours = parse_geometry(text)
    plain = FORMAMIDE.replace(" r", " 1.1").replace("{d}", dihedral).replace("H@last", "H")
    theirs = np.array([position for _, position in from_zmatrix(plain)])
    np.testing.assert_allclose(distances(ours.coordinates), distances(theirs), atol=1e-12)
    for three in ([1, 2, 4], [3, 4, 5]):
        hands = [np.linalg.det(R[three] - R[0]) for R in (ours.coordinates, theirs)]
        assert hands[0] == pytest.approx(hands[1], rel=1e-10)
    assert ours.names[-1].label == "H@last" or ours.names[-1].symbol == "H"


def test_a_molecule_from_a_z_matrix():
    """On one line, in bohr too; files as well."""
    water = dftfd.molecule("O; H 1 0.96; H 1 0.96 2 104.5")
    R = water.coordinates * 0.529177210903
    assert np.linalg.norm(R[1] - R[2]) == pytest.approx(2 * 0.96 * np.sin(np.radians(52.25)), abs=1e-6)
    assert dftfd.molecule("H; H 1 1.4", unit="bohr").coordinates[1, 2] == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("O; H 1 0.96; H 1 0.96 2", "has 4 fields, 5 expected"),
        ("O; H 1 0.96; H 3 0.96 2 104", "'3' is not an atom before it; 1 to 2 expected"),
        ("O; H 1 0.96; H 1 0.96 1 104", "refers to one atom twice"),
        ("O; H 1 r; H 1 0.96 2 104", r"'r' is not a number, and no name that has one \(none\)"),
        ("O; H 1 q; r = 0.96", r"'q' is not a number, and no name that has one \(r\)"),
        ("C; C 1 1.2; H 2 1 1 180; H 1 1 2 90 3 0", "neighbours lie on a line"),
        ("O; H 1 __import__('os'); H 1 1 2 90", "is not a number"),
        ("Q; H 1 0.9", "unknown element|no element"),
        ("O; H 1 1e400", "'1e400' is too large"),
        ("O; H 1 0.96; H 1 0.96 2 1e400", "'1e400' is too large"),
        ("O; H 1 0.96; H 1 0.96 2 a; a = 1e400", "'a' is too large"),
        ("O; H 1 0; H 1 1 2 90", "its distance is 0; a positive number expected"),
        ("C; O 1 1.2; H 1 1.1 2 2.1; H 1 1.1 2 2.1 3 3.1416", "its angle is 2.1; degrees expected"),  # radians
        ("O; H 1 104.5; H 1 0.96 2 0.96", "its angle is 0.96; degrees expected"),
    ],
)
def test_what_is_no_z_matrix(text, match):
    with pytest.raises(InputError, match=match) as found:
        dftfd.molecule(text)
    assert "\n" not in str(found.value)
