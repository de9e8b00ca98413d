"""Scans along distances, angles and dihedral angles, rigid and relaxed: geometry, energies, files, going on."""

import json

import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.errors import CheckpointError, FileError, InputError
from dftfd.system.internal_coordinates import value_of, with_value

CHEAP = {"xc": "hf", "grid_level": 0}
PEROXIDE = "H 0.9 0.8 0.3; O 0 0.7 0; O 0 -0.7 0; H -0.9 -0.8 0.3"
WATER = "O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587"


def hydrogen_fluoride():
    return dftfd.molecule("H 0 0 0; F 0 0 0.92", basis="sto-3g")


@pytest.mark.parametrize(
    ("text", "atoms", "values"),
    [
        (WATER, (0, 1), (0.8, 1.5)),
        (WATER, (1, 0, 2), (60.0, 104.5, 180.0)),
        (PEROXIDE, (0, 1, 2, 3), (0.0, 110.0, 179.0, -60.0)),
        (PEROXIDE, (3, 2, 1), (90.0, 120.0)),
        ("C 0 0 0; O 0 0 1.15; O 0 0 -1.15", (1, 0, 2), (150.0, 170.0)),  # from a straight line
    ],
)
def test_one_side_moves_as_it_is(text, atoms, values):
    """The coordinate gets its value by formulas written another way; distances within each side stay as they were."""
    molecule = dftfd.molecule(text, basis="sto-3g")
    for value in values:
        x = with_value(molecule, atoms, value)
        assert value_of(x, atoms) == pytest.approx(value, abs=1e-6)
        p = x[list(atoms)]
        if len(atoms) == 2:
            assert np.linalg.norm(p[0] - p[1]) * 0.529177210903 == pytest.approx(value, abs=1e-8)
        elif len(atoms) == 3:
            u, v = p[0] - p[1], p[2] - p[1]
            cosine = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
            assert np.degrees(np.arccos(np.clip(cosine, -1, 1))) == pytest.approx(value, abs=1e-4)
        else:  # as ASE measures it, whose angles go from 0 to 360
            ase = pytest.importorskip("ase")
            turned = ase.Atoms("X4", p).get_dihedral(0, 1, 2, 3) - value
            assert (turned + 180) % 360 == pytest.approx(180, abs=1e-6)
        bonds = lambda x: [np.linalg.norm(x[0] - x[1]), np.linalg.norm(x[-1] - x[-2])]
        if len(atoms) == 4:
            np.testing.assert_allclose(bonds(x), bonds(molecule.coordinates), atol=1e-12)


def test_rings_and_wrong_atoms_are_refused():
    ring = dftfd.molecule("O 0 0 0; O 1.4 0 0; O 0.7 1.2 0", basis="sto-3g", spin=0)
    with pytest.raises(InputError, match="in a ring, so no side moves as it is; scan it relaxed"):
        dftfd.scan(ring, **CHEAP, atoms=(0, 1), values=[1.5])
    for atoms, values, words in [
        ((0,), [1.0], "two, three or four different atoms"),
        ((0, 0), [1.0], "two, three or four different atoms of 0 to 1"),
        ((0, 7), [1.0], "of 0 to 1"),
        ((0, 1), [], "at least one distance"),
        ((0, 1), [0.9, -1.0], "distances above 0"),
    ]:
        with pytest.raises(InputError, match=words):
            dftfd.scan(hydrogen_fluoride(), **CHEAP, atoms=atoms, values=values)
    with pytest.raises(InputError, match="relaxed=True"):
        dftfd.scan(hydrogen_fluoride(), **CHEAP, atoms=(0, 1), values=[1.0], constraints="$freeze\ndistance 1 2")


def test_a_rigid_scan_has_the_energies_of_its_geometries(tmp_path):
    """Each point against a calculation of its own; table, files, and going on with more points."""
    path = tmp_path / "scan.json"
    first = dftfd.scan(hydrogen_fluoride(), **CHEAP, atoms=(0, 1), values=[0.8, 0.95], path=path)
    with pytest.raises(FileError, match="restart=True"):
        dftfd.scan(hydrogen_fluoride(), **CHEAP, atoms=(0, 1), values=[0.8], path=path)
    found = dftfd.scan(hydrogen_fluoride(), **CHEAP, atoms=(0, 1), values=[0.8, 0.95, 1.3], path=path, restart=True)
    assert (first.n_computed, found.n_computed) == (2, 1) and found.converged.all()
    for r, energy in zip(found.values, found.energies, strict=True):
        alone = dftfd.run_scf(dftfd.molecule(f"H 0 0 0; F 0 0 {r}", basis="sto-3g"), **CHEAP)
        assert energy == pytest.approx(alone.energy, abs=1e-8)
    assert found.relative.min() == 0 and found.what == "distance of H1 F2 (0 1)"
    again = dftfd.load_scan(path)
    np.testing.assert_array_equal(again.energies, found.energies)
    assert str(again) == str(found) and len(str(found).splitlines()) == 5
    for name in ("t.csv", "t.xyz", "t.json", "t.png", "U.CSV"):
        found.write(tmp_path / name)
    rows = np.genfromtxt(tmp_path / "t.csv", delimiter=",", skip_header=1, usecols=(0, 1))
    np.testing.assert_array_equal(rows, np.transpose([found.values, found.energies]))
    frame = dftfd.molecule(f"{tmp_path / 't.xyz'}@-1", basis="sto-3g")
    assert value_of(frame.coordinates, (0, 1)) == pytest.approx(1.3, abs=1e-8)
    with pytest.raises(InputError, match=r"'t\.txt' in the format of its ending: the name must end in \.csv or \.xyz"):
        found.write("t.txt")
    with pytest.raises(CheckpointError, match="of a scan of another calculation: functional 'hf' instead of 'lda,vwn'"):
        dftfd.scan(hydrogen_fluoride(), "lda,vwn", grid_level=0, atoms=(0, 1), values=[0.8], path=path, restart=True)
    path.write_text(json.dumps({"dftfd_scan": 1}))
    with pytest.raises(FileError, match="not a scan that dftfd wrote"):
        dftfd.load_scan(path)


def test_spins_part_where_a_bond_breaks():
    """Broken symmetry vanishes at 0.8 angstrom; at 4 the energy is that of two atoms all the same, and back again."""
    how = {"method": "UKS", "broken_symmetry": "mix", "grid_level": 0, "density_fit": False}
    hydrogen = dftfd.molecule("H 0 0 0; H 0 0 0.8", basis="sto-3g")
    found = dftfd.scan(hydrogen, "lda,vwn", atoms=(0, 1), values=[0.8, 4.0, 0.8], **how)
    atom = dftfd.run_scf(
        dftfd.molecule("H 0 0 0;", basis="sto-3g", spin=1), "lda,vwn", **how | {"broken_symmetry": None}
    )
    assert found.energies[1] == pytest.approx(2 * atom.energy, abs=1e-4)
    assert found.energies[2] == pytest.approx(found.energies[0], abs=1e-8)


def test_a_relaxed_scan_is_below_the_rigid_one_and_stationary():
    """Water's angle is held, and the bond lengths are optimal at each value, by differences of the energy."""
    pytest.importorskip("geometric")
    molecule = dftfd.molecule(WATER, basis="sto-3g")
    given = {"atoms": (1, 0, 2), "values": [95.0, 115.0], "xc": "hf"}
    rigid, relaxed = (dftfd.scan(molecule, **given, relaxed=how) for how in (False, True))
    assert relaxed.converged.all() and np.all(relaxed.energies < rigid.energies - 1e-4)
    energy = lambda x: dftfd.run_scf(molecule.at(x), "hf").energy
    for angle, x in zip(relaxed.values, relaxed.coordinates, strict=True):
        assert value_of(x, (1, 0, 2)) == pytest.approx(angle, abs=1e-3)
        ends = [x + h * np.array([[0, 0, 0], x[1] - x[0], x[2] - x[0]]) for h in (-1e-3, 1e-3)]
        assert abs(energy(ends[1]) - energy(ends[0])) / 2e-3 < 1e-3


def test_scan_on_the_command_line(tmp_path, capsys):
    (tmp_path / "hf.xyz").write_text("2\n\nH 0 0 0\nF 0 0 0.92\n")
    words = ["scan", f"{tmp_path}/hf.xyz", "--basis", "sto-3g", "--xc", "hf", "--grid-level", "0"]
    along = [*words, "--bond", "0", "1", "--from", "0.8", "--to", "1.2", "--steps", "3"]
    assert main([*along, "--output", f"{tmp_path}/c.csv", "--output", f"{tmp_path}/c.svg"]) == 0
    said = capsys.readouterr()
    assert "distance of H1 F2 (0 1)" in said.out and said.out.count("\n") >= 5
    assert (tmp_path / "c.csv").read_text().count("\n") == 4 and (tmp_path / "c.svg").stat().st_size > 1000
    assert main([*along, "--output", f"{tmp_path}/c.csv"]) == 5
    assert main(words) == 2 and main([*along, "--output", f"{tmp_path}/c.doc"]) == 2
    assert "--bond 0 1 --from" in capsys.readouterr().err
    assert main([*along, "--max-cycles", "1"]) == 3
    assert "3 of 3 points not converged" in capsys.readouterr().err
