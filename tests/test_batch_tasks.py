"""Batches of gradients and optimisations, and what a batch's files may say of charge and multiplicity; SMILES."""

import json
import warnings

import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.errors import InputError, InputWarning, MissingDependencyError

CHEAP = {"xc": "hf", "molecule_options": {"basis": "sto-3g"}}
FLUORIDE, WATER = "H 0 0 0; F 0 0 0.95", "O 0 0 0.1; H 0 0.75 -0.47; H 0 -0.75 -0.47"
ON_COMMAND = ("--xc", "hf", "--basis", "sto-3g")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("hf.xyz", FLUORIDE), ("water.xyz", WATER)):
        atoms = text.split("; ")
        (tmp_path / name).write_text(f"{len(atoms)}\n\n" + "\n".join(atoms) + "\n")
    return tmp_path


def test_gradients_of_many_are_those_of_each():
    outcomes = dftfd.run_batch([FLUORIDE, WATER, "He 0 0 0;"], **CHEAP, task="gradient")
    for outcome, text in zip(outcomes, (FLUORIDE, WATER), strict=False):
        forces = dftfd.run_scf(dftfd.molecule(text, basis="sto-3g"), "hf").forces()
        np.testing.assert_allclose(outcome.document["return_result"], -forces.ravel(), atol=1e-9)
        assert outcome.document["driver"] == "gradient"
        assert outcome.largest_force == pytest.approx(np.linalg.norm(forces, axis=1).max(), abs=1e-9)
    assert outcomes[2].largest_force == pytest.approx(0, abs=1e-9) and outcomes[0].steps is None


def test_optimisations_of_many_with_a_record(tmp_path):
    """Each ends in the minimum that `optimize` finds alone; a record knows the task and its settings."""
    pytest.importorskip("geometric")
    record = tmp_path / "opt.jsonl"
    given = {**CHEAP, "task": "optimization", "record": record}
    first, second = dftfd.run_batch([FLUORIDE, WATER], **given)
    alone = dftfd.optimize(dftfd.molecule(WATER, basis="sto-3g"), "hf")
    assert second.energy == pytest.approx(alone.result.energy, abs=1e-10) and second.steps == len(alone.energies)
    np.testing.assert_allclose(second.document["molecule"]["geometry"], alone.coordinates[-1].ravel(), atol=1e-6)
    path = second.document["extras"]["dftfd"]["optimization"]
    assert path["converged"] and np.all(np.diff(path["energies"]) < 1e-9) and second.largest_force < 4.5e-4
    seen = record.read_text()
    again = dftfd.run_batch([FLUORIDE, WATER], **given)
    assert record.read_text() == seen and [o.energy for o in again] == [first.energy, second.energy]
    (short,) = dftfd.run_batch([WATER], **given, search={"max_steps": 1})
    assert (short.converged, short.exit_code) == (False, 3) and "geometry not converged" in short.error
    (energy,) = dftfd.run_batch([WATER], **CHEAP, record=record)
    assert energy.steps is None and energy.energy > second.energy
    with pytest.raises(InputError, match="search= belongs to task='optimization' or 'frequencies'"):
        dftfd.run_batch([WATER], **CHEAP, search={"max_steps": 1})
    with pytest.raises(InputError, match="search= holds 'max_step'"):
        dftfd.run_batch([WATER], **{**given, "search": {"max_step": 1}})


@pytest.mark.slow  # 1 s; test_a_table_of_molecules is quick
def test_tables_at_the_end_of_batches(files, capsys):
    assert main(["gradient", "hf.xyz", "water.xyz", *ON_COMMAND]) == 0
    *lines, blank, cost = capsys.readouterr().out.splitlines()
    assert not blank and cost.startswith("wall time ")
    assert lines[-4].split()[0] == "molecule" and "max force" in lines[-4] and lines[-1] == "2 of 2 molecules converged"
    words = ["optimize", "hf.xyz", "water.xyz", "none.xyz", *ON_COMMAND, "--geometries", "ends.xyz"]
    assert main([*words, "--record", "opt.jsonl"]) == 5
    said = capsys.readouterr()
    table = said.out.splitlines()[-7:-2]
    assert [line.split()[0] for line in table] == ["molecule", "hf.xyz", "water.xyz", "none.xyz", "2"]
    assert table[3].split() == ["none.xyz", "-", "-", "-", "0.0", "FILE"] and "1 of 3 molecules failed" in said.err
    line = json.loads((files / "opt.jsonl").read_text().splitlines()[1])
    end = dftfd.molecule("ends.xyz@1", basis="sto-3g")
    np.testing.assert_allclose(end.coordinates.ravel(), line["document"]["molecule"]["geometry"], atol=1e-8)
    assert main([*words]) == 5 and "ends.xyz exists" in capsys.readouterr().err
    assert main([*words, "--record", "opt.jsonl"]) == 5 and "exists" not in capsys.readouterr().err  # its own
    assert main(["optimize", "hf.xyz", "water.xyz", *ON_COMMAND, "--trajectory", "t.xyz"]) == 2
    assert main(["gradient", "hf.xyz", "water.xyz", *ON_COMMAND, "--numerical"]) == 2


def test_charge_and_multiplicity_at_the_end_of_a_name(files, capsys):
    """Before what the comment line says; a file of that very name comes first."""
    cation = dftfd.molecule("water.xyz:+1,2", basis="sto-3g")
    assert (cation.charge, cation.spin) == (1, 1)
    (files / "said.xyz").write_text("1\ncharge=1\nHe 0 0 0\n")
    with pytest.warns(InputWarning, match="the file says charge=1, but 'said.xyz:0,3' was given and is used"):
        triplet = dftfd.molecule("said.xyz:0,3", basis="6-31g")
    assert (triplet.charge, triplet.spin) == (0, 2)
    with pytest.raises(InputWarning), warnings.catch_warnings(action="error"):  # stays a warning
        dftfd.molecule("said.xyz:0,3", basis="6-31g")
    (files / "two.xyz").write_text((files / "hf.xyz").read_text() * 2)
    assert dftfd.molecule("two.xyz@1:-2", basis="6-31g").charge == -2
    (files / "hf.xyz:+1").write_text("1\n\nNe 0 0 0\n")
    assert dftfd.molecule("hf.xyz:+1", basis="sto-3g").formula == "Ne"
    with pytest.raises(InputError, match="multiplicity 0 does not exist"):
        dftfd.molecule("water.xyz:0,0")
    assert main(["run", "water.xyz:+1,2", "water.xyz", *ON_COMMAND]) == 0
    assert "2 of 2" in capsys.readouterr().out


def test_a_table_of_molecules(files):
    """Charges by file, beside the table; each row is a molecule of the batch."""
    (files / "set.csv").write_text(
        "file, charge, multiplicity, name\nwater.xyz, 1, 2, cation\nwater.xyz,,,\nhf.xyz,-1,2,\n"
    )
    cation, water, anion = dftfd.run_batch([files / "set.csv"], **CHEAP)
    assert [o.name for o in (cation, water, anion)] == ["cation", "water.xyz", "hf.xyz"]
    for outcome, charge, spin in ((cation, 1, 1), (water, 0, 0), (anion, -1, 1)):
        text = FLUORIDE if outcome is anion else WATER
        alone = dftfd.run_scf(dftfd.molecule(text, basis="sto-3g", charge=charge, spin=spin), "hf")
        assert outcome.energy == pytest.approx(alone.energy, abs=1e-8)
    for text, words in [
        ("name,charge\na,1\n", "the column file"),
        ("file,charge\nwater.xyz,one\n", "line 2: a file and whole numbers expected"),
        ("file,color\nwater.xyz,red\n", "the column file"),
    ]:
        (files / "bad.csv").write_text(text)
        (outcome,) = dftfd.run_batch(["bad.csv"], **CHEAP)
        assert outcome.exit_code == 2 and words in outcome.error


def test_smiles(monkeypatch):
    """Atoms, charge and spin of what is written; without RDKit one line says what to install."""
    try:
        import rdkit  # noqa: F401
    except ImportError:
        with pytest.raises(MissingDependencyError, match=r"pip install 'dftfd\[smiles\]'"):
            dftfd.molecule("smiles:CCO")
        return
    ethanol = dftfd.molecule("smiles:CCO", basis="sto-3g")
    assert (ethanol.formula, ethanol.charge, ethanol.spin) == ("C2H6O", 0, 0)
    np.testing.assert_array_equal(ethanol.coordinates, dftfd.molecule("smiles:CCO", basis="sto-3g").coordinates)
    bond = np.linalg.norm(ethanol.coordinates[0] - ethanol.coordinates[1]) * 0.529177
    assert bond == pytest.approx(1.52, abs=0.02)
    ammonium, methyl = (dftfd.molecule(f"smiles:{s}", basis="sto-3g") for s in ("[NH4+]", "[CH3]"))
    assert (ammonium.charge, ammonium.spin, methyl.spin) == (1, 0, 1)
    for wrong in ("smiles:", "smiles:C(C", "smiles:xyz"):
        with pytest.raises(InputError, match="smiles:CCO"):
            dftfd.molecule(wrong)
