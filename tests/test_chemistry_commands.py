"""Files in and out of the commands: frames, geometries, results of gradient and optimize, interaction energies."""

import csv
import json

import numpy as np
import pytest

import dftfd
from dftfd.cli import InterruptWatch, main
from dftfd.errors import FunctionalError, InputError
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.runtime.records import locked_new
from dftfd.tasks.energy_differences import connected_fragments

FRAMES = "".join(f"2\nframe {k}\nH 0 0 0\nH 0 0 {0.7 + 0.1 * k:.1f}\n" for k in range(3))
CHEAP = ("--basis", "sto-3g", "--xc", "hf")
DIMER = "He 0 0 0; He 0 0 2.5"


@pytest.fixture
def said(capsys):
    def run(*words):
        code = main([str(word) for word in words])
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


@pytest.mark.parametrize(("frame", "length"), [("@0", 0.7), ("@2", 0.9), ("@-1", 0.9), ("@-3", 0.7)])
def test_a_frame_of_a_trajectory_by_its_number(tmp_path, frame, length):
    """From 0, or from the end, as in ASE; a file of that very name comes first."""
    (tmp_path / "path.xyz").write_text(FRAMES)
    molecule = dftfd.molecule(f"{tmp_path}/path.xyz{frame}", basis="sto-3g")
    assert molecule.coordinates[1, 2] * 0.529177210903 == pytest.approx(length, abs=1e-8)
    (tmp_path / f"path.xyz{frame}").write_text("1\n\nHe 0 0 0\n")
    assert dftfd.molecule(tmp_path / f"path.xyz{frame}").formula == "He"


def test_frames_that_are_not_there(tmp_path, said):
    (tmp_path / "path.xyz").write_text(FRAMES)
    with pytest.raises(InputError, match="has 3 frames, @0 to @2 or @-1 for the last; there is no @3"):
        dftfd.molecule(f"{tmp_path}/path.xyz@3")
    assert said("run", f"{tmp_path}/none.xyz@-1", *CHEAP)[0] == 5
    names = [f"{tmp_path}/path.xyz@{k}" for k in (0, -1)]
    outcomes = dftfd.run_batch(names, "hf", molecule_options={"basis": "sto-3g"})
    assert [o.name for o in outcomes] == names and outcomes[0].energy != outcomes[1].energy
    code, out, _ = said("run", names[1], *CHEAP, "--quiet")
    assert code == 0 and float(out) == pytest.approx(outcomes[1].energy, abs=1e-9)


def test_geometry_files_are_read_again(tmp_path):
    """Charge, spin and names of atoms; the energy is that of the result."""
    ion = dftfd.molecule("ghost-He 0 0 1.5; H@one 0 0 0; H 0 0 1.06", basis="sto-3g", charge=1, spin=1)
    result = dftfd.run_scf(ion, "hf")
    result.write(tmp_path / "ion.xyz")
    again = dftfd.molecule(tmp_path / "ion.xyz", basis="sto-3g")
    assert (again.charge, again.spin, again.ghost) == (1, 1, (True, False, False))
    np.testing.assert_allclose(again.coordinates, ion.coordinates, atol=1e-9)
    assert f"energy_hartree={result.energy!r}" in (tmp_path / "ion.xyz").read_text()


def test_gradient_and_optimize_write_what_run_writes(tmp_path, said):
    """A QCSchema gradient is the derivative that is printed; an optimised molecule has a result and a geometry."""
    code, out, err = said("gradient", "H 0 0 0; H 0 0 0.8", *CHEAP, "--json", tmp_path / "g.json")
    document = json.loads((tmp_path / "g.json").read_text())
    assert (code, err, document["driver"]) == (0, "", "gradient")
    assert f"{-document['return_result'][5]:.10f}" in out
    files = ("--output", tmp_path / "min.h5", "--output", tmp_path / "min.xyz", "--trajectory", tmp_path / "t.xyz")
    code, out, err = said("optimize", "H 0 0 0; H 0 0 0.8", *CHEAP, *files)
    result = dftfd.load_result(tmp_path / "min.h5")
    best = dftfd.molecule(tmp_path / "min.xyz", basis="sto-3g")
    assert code == 0 and np.abs(result.forces()).max() < 1e-3
    np.testing.assert_allclose(best.coordinates, result.molecule.coordinates, atol=1e-9)
    assert said("optimize", "H 0 0 0; H 0 0 0.8", *CHEAP, *files)[0] == 5  # before anything is computed
    before = (tmp_path / "t.xyz").read_text()
    assert said("optimize", "H 0 0 0; H 0 0 0.8", *CHEAP, *files, "--overwrite", "--coordinates", "none")[0] == 2
    assert (tmp_path / "t.xyz").read_text() == before  # what fails at the start takes nothing away
    assert said("optimize", "H 0 0 0; H 0 0 0.9", *CHEAP, *files, "--overwrite")[0] == 0
    assert (tmp_path / "t.xyz").read_text() != before and not list(tmp_path.glob("*.before"))


def test_interaction_prints_its_parts(said):
    """kcal/mol, the energies of whole and fragments, which are those of run_scf on ghosts."""
    code, out, err = said("interaction", DIMER, "--basis", "6-31g", "--xc", "hf")
    dimer = dftfd.molecule(DIMER, basis="6-31g")
    found = dftfd.interaction_energy(dimer, [(0,), (1,)], "hf")
    alone = dftfd.run_scf(dftfd.molecule("He 0 0 0; ghost-He 0 0 2.5", basis="6-31g"), "hf").energy
    assert found.energy == pytest.approx(found.whole.energy - 2 * alone, abs=1e-9)
    assert (code, err) == (0, "") and str(found) in out
    assert f"{found.energy * 627.5094740631:.4f} kcal/mol" in str(found) and "counterpoise corrected" in str(found)
    assert HARTREE_IN_KCAL == 627.5094740631 and "<pre>interaction" in found._repr_html_()
    assert "without counterpoise" in said("interaction", DIMER, *CHEAP, "--no-counterpoise")[1]


def test_fragments_by_bonds_and_by_name(said):
    """Water and an ion hang apart; ranges and charges on the command line."""
    pair = dftfd.molecule("O 0 0 0; Na 0 0 3.4; H 0 0.76 -0.59; H 0 -0.76 -0.59", charge=1, basis="sto-3g")
    assert connected_fragments(pair) == [[0, 2, 3], [1]]
    code, out, _ = said("interaction", "Li 0 0 0; H 0 0 1.6", "--fragments", "0; 1", "--charges", "1 -1", *CHEAP)
    assert code == 0 and "fragment 2" in out and "charge -1" in out
    for words, match in (
        (["--fragments", "0-x; 1"], "'0-x' is not an atom or range"),
        (["--fragments", "0; 0"], "must hold each of the atoms"),
        ([], "one fragment was found"),
        (["--fragments", "0; 1", "--charges", "a"], "whole numbers between blanks"),
    ):
        code, _, err = said("interaction", "Li 0 0 0; H 0 0 1.6", *words, *CHEAP)
        assert code == 2 and match in err and err.count("\n") == 1


def test_bond_orders_matrices_and_orbitals():
    """A triple bond, and the sum rule of Mayer's orders: a pair of electrons is one bond (H2). PySCF's matrices."""
    for text, order in (("N 0 0 0; N 0 0 1.1", 3.0), ("H 0 0 0; H 0 0 0.74", 1.0)):
        result = dftfd.run_scf(dftfd.molecule(text, basis="sto-3g"), "hf")
        np.testing.assert_allclose(result.bond_orders(), [[0, order], [order, 0]], atol=1e-3)
    mf = result.to_pyscf()
    np.testing.assert_allclose(result.overlap, mf.get_ovlp(), atol=1e-14)
    np.testing.assert_allclose(result.core_hamiltonian, mf.get_hcore(), atol=1e-12)
    point = np.array([0.1, 0.2, 0.3])
    expected = mf.mol.eval_gto("GTOval", point[None])[0] @ result.mo_coeff[0][:, 1]
    assert float(result.orbital(1)(point)) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InputError, match="orbital 2 was asked for; there are 2, 0 to 1"):
        result.orbital(2)
    points, weights = result.grid
    density = np.array([float(sum(result.density(r))) for r in points[:3]])
    assert points.shape == (len(weights), 3) and np.all(density >= 0)


def test_unrestricted_bond_orders_count_each_spin():
    """H2+, half a bond; the restricted and the unrestricted solution of H2 agree."""
    ion = dftfd.run_scf(dftfd.molecule("H 0 0 0; H 0 0 1.06", basis="sto-3g", charge=1, spin=1), "hf")
    assert ion.bond_orders()[0, 1] == pytest.approx(0.5, abs=1e-6)
    molecule = dftfd.molecule("H 0 0 0; H 0 0 0.74", basis="6-31g")
    one, two = (dftfd.run_scf(molecule, "hf", method) for method in ("RKS", "UKS"))
    np.testing.assert_allclose(one.bond_orders(), two.bond_orders(), atol=1e-6)


def test_a_multiplicity_is_a_spin_plus_one(said):
    """--multiplicity 3 is --spin 2; with another spin, or below 1, it is refused."""
    words = ("run", "O 0 0 0;", "--basis", "sto-3g", "--xc", "lda,vwn", "--grid-level", "0")
    assert "spin 2, 8 electrons" in said(*words, "--multiplicity", "3")[1]
    assert said(*words, "--multiplicity", "3", "--spin", "1")[0] == 2
    assert said(*words, "--multiplicity", "0")[0] == 2


def test_cubes_of_orbitals_by_name(tmp_path, said):
    """homo.cube is the highest occupied orbital; lumo+1, spins and numbers too; another name is the density."""
    names = ("homo.cube", "x.homo-1.cube", "x.lumo.cube", "x.orbital_0.cube", "elsewhere.cube")
    words = [word for name in names for word in ("--output", tmp_path / name)]
    assert said("run", "H 0 0 0; F 0 0 0.92", *CHEAP, *words)[0] == 0
    result = dftfd.run_scf(dftfd.molecule("H 0 0 0; F 0 0 0.92", basis="sto-3g"), "hf")
    highest = int(np.flatnonzero(result.mo_occ[0]).max())
    for name, number in (("homo", highest), ("x.lumo", highest + 1), ("x.orbital_0", 0)):
        title = (tmp_path / f"{name}.cube").read_text().splitlines()[0]
        assert f"orbital {number} of spin alpha" in title
    lines = (tmp_path / "homo.cube").read_text().splitlines()
    box, values = [line.split() for line in lines[2:6]], np.array(lines[8].split()[:3], float)
    origin, step = np.array(box[0][1:], float), float(box[3][3])
    points = origin + np.outer(np.arange(3) * step, [0, 0, 1])
    np.testing.assert_allclose(values, [float(result.orbital(highest)(r)) for r in points], rtol=1e-4, atol=1e-12)
    assert "density of FH" in (tmp_path / "elsewhere.cube").read_text().splitlines()[0]
    with pytest.raises(InputError, match="no orbital 'homo-9': 5 of this kind"):
        result.write(tmp_path / "no.cube", field="homo-9")
    ion = dftfd.run_scf(dftfd.molecule("H 0 0 0;", basis="6-31g", spin=1), "hf")
    ion.write(tmp_path / "beta.cube", field="lumo_beta")
    assert "orbital 0 of spin beta" in (tmp_path / "beta.cube").read_text()


def test_an_option_is_given_once(tmp_path, said):
    """The last of two does not count in silence; those that may be repeated may be."""
    said_of_two = "dftfd: warning: --xc is given more than once; the last value is used.\n"
    code, out, err = said("run", DIMER, *CHEAP, "--xc=pbe", "--quiet")
    assert code == 0 and err == said_of_two
    assert float(out) == pytest.approx(dftfd.run_scf(dftfd.molecule(DIMER, basis="sto-3g"), "pbe").energy, abs=1e-8)
    two = ("--output", tmp_path / "a.xyz", "--output", tmp_path / "b.xyz")
    assert said("run", DIMER, *CHEAP, "--quiet", *two)[2] == "" and (tmp_path / "b.xyz").exists()


@pytest.mark.parametrize("words", [("--charge", "1_0"), ("--level-shift=1_0.5",), ("--damping", "1e-1_0")])
def test_numbers_are_not_read_as_python_writes_them(said, words, tmp_path, monkeypatch):
    """1_0 was 10 on the command line and in other makers' sets, 1 with a blank forgotten elsewhere."""
    code, _, err = said("run", DIMER, *CHEAP, *words)
    assert code == 2 and "is not a number; write 1" in err
    with pytest.raises(FunctionalError):
        dftfd.get_functional("rsh(1_0;0;0.3)")
    monkeypatch.chdir(tmp_path)  # a file may be called so
    assert said("run", DIMER, *CHEAP, "--dry-run", "--checkpoint", "1_0")[0] == 0


def test_a_dry_run_tells_the_memory_and_computes_nothing(tmp_path, said):
    code, out, _ = said("run", DIMER, *CHEAP, "--dry-run", "--output", tmp_path / "a.h5")
    assert code == 0 and "He2, 4 electrons" in out and "memory: about" in out and "cycle" not in out
    assert not (tmp_path / "a.h5").exists()
    assert said("run", DIMER, *CHEAP, "--dry-run", "--max-memory", "1 kB")[0] == 6


@pytest.mark.parametrize(
    "words",
    [
        ("--occupations", "2 0 0"),
        ("--occupations", "2 2 0 0 0 0"),
        ("--broken-symmetry", "mix"),
        ("--broken-symmetry", "0 9", "--method", "UKS"),
        ("--follow-orbitals",),
        ("--frozen-core",),
        ("--guess", "mineo"),
        ("--guess", "none.h5"),
        ("--restart", "none.h5"),
        ("--point-charges", "1 0 0 0"),
        ("--charge", "-2"),
        ("--solvent", "watre"),
    ],
    ids=" ".join,
)
def test_a_dry_run_refuses_what_a_run_refuses(said, monkeypatch, words):
    """The same line, before a run has computed its first integral; warnings are the same, too."""
    run = ("run", "He 0 0 0; He 0 0 1.5", *CHEAP, *words)
    planned = said(*run, "--dry-run")

    def compute(*arguments):
        raise AssertionError("integrals are computed")

    monkeypatch.setattr("dftfd.model.calculation.Calculation.build", compute)
    found = said(*run)
    assert planned[2] == found[2]
    assert planned[0] == found[0] > 0


def test_the_table_of_a_batch(tmp_path, said):
    """As a file with all digits, and with functional and basis set above it on the screen."""
    (tmp_path / "he.xyz").write_text("1\ncharge=1 multiplicity=2\nHe 0 0 0\n")
    (tmp_path / "path.xyz").write_text(FRAMES.split("2\nframe 1")[0])
    files = (tmp_path / "he.xyz", tmp_path / "path.xyz", tmp_path / "none.xyz")
    table = tmp_path / "table.csv"
    code, out, _ = said("run", *files, *CHEAP, "--table", table)
    assert code == 5 and "hf / sto-3g" in out
    rows = list(csv.DictReader(table.read_text().splitlines()))
    ion = dftfd.run_scf(dftfd.molecule(tmp_path / "he.xyz", basis="sto-3g"), "hf")
    assert float(rows[0]["energy_hartree"]) == pytest.approx(ion.energy, abs=1e-9)
    assert (rows[0]["charge"], rows[0]["multiplicity"], rows[0]["functional"]) == ("1", "2", "hf")
    assert rows[2]["energy_hartree"] == "" and "file not found" in rows[2]["error"] and rows[2]["converged"] == "no"
    assert said("run", *files[:2], *CHEAP, "--table", table)[0] == 5  # it is there already
    assert said("gradient", *files[:2], *CHEAP, "--table", table, "--overwrite")[0] == 0
    (row, *_) = csv.DictReader(table.read_text().splitlines())
    assert float(row["largest_force_hartree_per_bohr"]) == pytest.approx(0, abs=1e-8)
    assert said("run", *files[:2], *CHEAP, "--table", tmp_path / "table.txt")[0] == 2
    going_on = ("--table", table, "--record", tmp_path / "r.jsonl")
    assert said("run", files[0], *CHEAP, *going_on)[0] == 5  # the table is another batch's
    assert said("run", files[0], *CHEAP, *going_on, "--overwrite")[0] == 0
    assert said("run", *files[:2], *CHEAP, *going_on)[0] == 0 and len(table.read_text().splitlines()) == 3
    table.write_text("name,height\n")  # somebody's own
    assert said("run", *files[:2], *CHEAP, *going_on)[0] == 5 and table.read_text() == "name,height\n"


def test_an_interruption_says_how_to_go_on(tmp_path):
    """By what a command keeps: the record of a batch, the trajectory of an optimisation."""
    watch, path = InterruptWatch(), tmp_path / "pbe.jsonl"
    assert watch.message == "interrupted"
    with pytest.raises(KeyboardInterrupt), locked_new(path, None):
        assert watch.message == "interrupted"  # nothing is there yet
        path.write_text("{}")
        assert watch.message.endswith("pbe.jsonl, continue with the same command")
        raise KeyboardInterrupt
    assert watch.message.endswith("pbe.jsonl, continue with the same command")
    with locked_new(path, True):
        assert watch.message.endswith("pbe.jsonl, continue with the same command with --restart")
    assert watch.message == InterruptWatch().message == "interrupted"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("run --stability --xc lb94", "no Hessian"),
        ("run --stability --smearing 0.01", "stability is defined for results without smearing"),
        ("excitations --smearing 0.01", "smeared occupations"),
        ("excitations --xc lb94", "no Hessian"),
        ("excitations --spin-flip --xc pbe", "only exact exchange"),
        ("polarizability --xc b2plyp", "is a double hybrid"),
        ("polarizability --omega 0.1 --method ROKS", "responses at a frequency need RKS or UKS"),
        ("gradient --xc b2plyp", "is a double hybrid"),
        ("gradient --state 1 --method ROKS", "excitations need RKS or UKS"),
        ("frequencies --xc b2plyp", "is a double hybrid"),
        ("frequencies --xc lb94", "no energy"),
    ],
)
def test_properties_that_are_not_there_are_refused_before_anything_is_computed(said, monkeypatch, words, reason):
    """What is refused stands in docs/supports.md; the SCF went first and was lost."""
    monkeypatch.setattr("dftfd.model.calculation.Calculation.build", lambda *_: pytest.fail("computed"))
    command, *options = words.split()
    code, out, err = said(command, "H 0 0 0; H 0 0 0.74", "--basis", "sto-3g", *options)
    assert code not in (0, 1) and reason in err and err.strip().count("\n") == 0


def test_a_batch_refuses_properties_that_are_not_there_before_the_scf(monkeypatch):
    monkeypatch.setattr("dftfd.model.calculation.Calculation.build", lambda *_: pytest.fail("computed"))
    for task, reason in (("gradient", "double hybrid"), ("frequencies", "double hybrid")):
        (outcome,) = dftfd.run_batch(["He 0 0 0;"], "b2plyp", task=task, molecule_options={"basis": "sto-3g"})
        assert reason in outcome.error
