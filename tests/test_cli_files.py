"""`dftfd run` with QCSchema input and with files as output."""

import json
import os

import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.results.qcschema import read_input

HYDROGEN = "H 0 0 0; H 0 0 0.74"


@pytest.fixture
def dftfd_command(capsys):
    """Run the command; gives (exit code, standard output, standard error)."""

    def run(*arguments):
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def document(tmp_path):
    """An AtomicInput: H2 beside a point charge and in a field, and its path."""
    keywords = {
        "density_fit": False,
        "point_charges": [[-0.5, 0.0, 0.0, 6.0]],
        "electric_field": [0.0, 0.0, 0.01],
        "conv_tol": 1e-11,
    }
    content = {
        "schema_name": "qcschema_input",
        "schema_version": 1,
        "molecule": {"symbols": ["H", "H"], "geometry": [0, 0, 0, 0, 0, 1.4]},
        "driver": "properties",
        "model": {"method": "hf", "basis": "6-31g"},
        "keywords": keywords,
    }
    path = tmp_path / "in.json"
    path.write_text(json.dumps(content))
    return content, path


def test_a_qcschema_file_is_run(document, dftfd_command, tmp_path):
    """Its molecule, model, driver and keywords are what is computed; the energy is run_scf's for the same options.

    The answer holds the same keywords again, so that it can be sent back as a question.
    """
    content, path = document
    answer = tmp_path / "out.json"
    code, out, err = dftfd_command("run", path, "--json", answer)
    assert (code, err) == (0, "") and "total energy" in out
    given = json.loads(answer.read_text())
    system = dftfd.molecule("H 0 0 0; H 0 0 1.4", basis="6-31g", unit="bohr", allow_close=True)
    result = dftfd.run_scf(system, xc="hf", **content["keywords"])
    assert given["properties"]["return_energy"] == pytest.approx(result.energy, abs=1e-10)
    assert given["driver"] == "properties"
    np.testing.assert_allclose(given["return_result"]["dipole"], result.dipole, atol=1e-6)
    np.testing.assert_allclose(given["return_result"]["mulliken_charges"], result.charges(), atol=1e-6)
    answer.write_text(json.dumps(given | {"schema_name": "qcschema_input"}))
    again = read_input(answer).settings
    assert {name: again[name] for name in content["keywords"]} == content["keywords"]


def test_options_do_not_contradict_a_qcschema_file(document, dftfd_command):
    """What the file decides cannot be given as an option too; the message names the options."""
    code, out, err = dftfd_command("run", document[1], "--xc", "pbe", "--grid-level", 1, "--quiet")
    assert (code, out) == (2, "") and "--xc is what" in err


def test_output_files_by_their_endings(dftfd_command, tmp_path):
    """--output, repeated, writes each format; the HDF5 file is the result."""
    paths = [tmp_path / f"h2{ending}" for ending in (".h5", ".molden", ".npz", ".json")]
    outputs = [text for path in paths for text in ("--output", path)]
    code, out, err = dftfd_command("run", HYDROGEN, "--xc", "hf", "--basis", "sto-3g", "--quiet", *outputs)
    assert (code, err) == (0, "")
    assert dftfd.load_result(paths[0]).energy == pytest.approx(float(out), abs=1e-9)
    assert all(path.stat().st_size > 0 for path in paths)


def test_unknown_output_is_refused_before_the_run(dftfd_command, tmp_path):
    """Exit code 2 for an unknown ending, 5 for a missing folder; nothing is computed."""
    for path, code in ((tmp_path / "h2.xls", 2), (tmp_path / "no" / "h2.h5", 5)):
        got, out, err = dftfd_command("run", HYDROGEN, "--output", path)
        assert (got, out) == (code, "") and str(path) in err


def test_unconverged_runs_write_what_is_no_property(dftfd_command, tmp_path):
    """The JSON document, marked as a failure, but no density; exit code 3."""
    cube, document = tmp_path / "h2.cube", tmp_path / "h2.json"
    options = ["--xc", "hf", "--basis", "6-31g", "--max-cycles", 1, "--convergence", "diis"]
    code, _, err = dftfd_command("run", HYDROGEN, *options, "--output", cube, "--output", document)
    assert code == 3 and "h2.cube not written" in err and "SCF not converged" in err
    assert not cube.exists() and json.loads(document.read_text())["success"] is False


def test_a_qcschema_file_asks_for_a_gradient(document, dftfd_command, tmp_path):
    """Driver `gradient` gives the derivatives by all coordinates in one list, here against a difference of energies."""
    content, path = document
    path.write_text(json.dumps(content | {"driver": "gradient"}))
    answer = tmp_path / "out.json"
    assert dftfd_command("run", path, "--json", answer)[0] == 0
    given = json.loads(answer.read_text())
    assert given["driver"] == "gradient" and len(given["return_result"]) == 6

    def energy(shift):
        system = dftfd.molecule(f"H 0 0 0; H 0 0 {1.4 + shift}", basis="6-31g", unit="bohr", allow_close=True)
        return dftfd.run_scf(system, xc="hf", **content["keywords"]).energy

    assert given["return_result"][5] == pytest.approx((energy(1e-3) - energy(-1e-3)) / 2e-3, abs=1e-6)


CHEAP = ("--xc", "hf", "--basis", "sto-3g", "--quiet")


def test_output_files_are_not_replaced_unasked(dftfd_command, tmp_path):
    """An existing file is refused before the run, exit code 5; --overwrite replaces it and keeps its mode."""
    for option in ("--output", "--json"):
        path = tmp_path / "kept.json"
        path.write_text("mine")
        path.chmod(0o600)
        code, out, err = dftfd_command("run", HYDROGEN, *CHEAP, option, path)
        assert (code, out) == (5, "") and "exists" in err and path.read_text() == "mine"
        assert dftfd_command("run", HYDROGEN, *CHEAP, option, path, "--overwrite")[0] == 0
        assert json.loads(path.read_text())["success"] and path.stat().st_mode & 0o777 == 0o600


def test_checkpoints_of_something_else_are_not_replaced(dftfd_command, tmp_path):
    """Another molecule, another functional, a file that is none: refused, kept. The same again goes on as ever."""
    path = tmp_path / "run.chk"
    assert dftfd_command("run", HYDROGEN, *CHEAP, "--checkpoint", path)[0] == 0
    kept = path.read_bytes()
    for arguments, words in (
        (("He 0 0 0;", *CHEAP), "holds HH with hf, which differs in symbols, ghost"),
        ((HYDROGEN, *CHEAP, "--basis", "6-31g"), "differs in basis"),
        ((HYDROGEN, *CHEAP, "--xc", "lda,vwn"), "differs in functional"),
    ):
        code, out, err = dftfd_command("run", *arguments, "--checkpoint", path)
        assert (code, out) == (5, "") and words in err and path.read_bytes() == kept
    assert dftfd_command("run", HYDROGEN, *CHEAP, "--checkpoint", path)[0] == 0
    assert dftfd_command("run", "He 0 0 0;", *CHEAP, "--checkpoint", path, "--overwrite")[0] == 0
    note = tmp_path / "notes.txt"
    note.write_text("mine")
    code, _, err = dftfd_command("run", HYDROGEN, *CHEAP, "--checkpoint", note)
    assert code == 5 and "is not a checkpoint of dftfd" in err and note.read_text() == "mine"


@pytest.mark.parametrize("name", ["/dev/full", "pipe"])
def test_records_are_regular_files(name, dftfd_command, tmp_path, monkeypatch):
    """A device whose contents never end, and a pipe that nobody fills, are refused at once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipe").unlink(missing_ok=True)
    os.mkfifo("pipe")
    code, _, err = dftfd_command("run", HYDROGEN, *CHEAP, "--record", name)
    assert code == 5 and "not a regular file" in err
