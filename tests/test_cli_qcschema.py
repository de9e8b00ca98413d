"""Documents of `--json` against the AtomicResult model of QCSchema version 1 (QCElemental), and their writing."""

import json
import os

import numpy as np
import pytest

import dftfd
from dftfd.errors import FileError, FunctionalError, InputError
from dftfd.results.qcschema import atomic_result, read_input, write_json
from dftfd.runtime.files import check_writable


@pytest.fixture(scope="module")
def document():
    system = dftfd.molecule("O 0 0 0; H 0 0 0.97; ghost-H 0 0.9 -0.2", basis="6-31g", spin=1)
    result = dftfd.run_scf(system, xc="lda,vwn", grid_level=1)
    return json.loads(json.dumps(atomic_result(result), allow_nan=False)), result


def test_required_fields_and_types(document):
    """The fields that the schema requires, with its constants and types."""
    document, result = document
    assert document["schema_name"] == "qcschema_output" and document["schema_version"] == 1
    assert document["driver"] == "energy" and document["success"] is True
    assert document["model"] == {"method": "lda,vwn", "basis": "6-31g"}
    assert document["return_result"] == result.energy
    assert isinstance(document["keywords"], dict)
    assert {"creator", "version", "routine"} <= set(document["provenance"])
    assert set(document) <= {
        *("schema_name", "schema_version", "molecule", "driver", "model", "keywords", "properties"),
        *("return_result", "success", "provenance", "extras", "error", "id", "stdout", "stderr", "wavefunction"),
    }


def test_molecule(document):
    """Flat geometry in bohr, multiplicity = spin + 1, ghosts as `real` = false, symbols in standard case."""
    document, result = document
    molecule = document["molecule"]
    assert molecule["schema_name"] == "qcschema_molecule" and molecule["schema_version"] == 2
    assert molecule["symbols"] == ["O", "H", "H"] and molecule["real"] == [True, True, False]
    np.testing.assert_allclose(np.reshape(molecule["geometry"], (3, 3)), result.molecule.coordinates)
    assert molecule["molecular_multiplicity"] == 2


def test_properties(document):
    """Names of the AtomicResultProperties model only; the parts of the SCF energy sum to it."""
    properties = document[0]["properties"]
    assert set(properties) <= {
        *("calcinfo_nbasis", "calcinfo_nmo", "calcinfo_nalpha", "calcinfo_nbeta", "calcinfo_natom"),
        *("nuclear_repulsion_energy", "return_energy", "scf_one_electron_energy", "scf_two_electron_energy"),
        *("scf_xc_energy", "scf_vv10_energy", "scf_dispersion_correction_energy", "scf_dipole_moment"),
        *("scf_total_energy", "scf_iterations"),
    }
    parts = ("nuclear_repulsion_energy", "scf_one_electron_energy", "scf_two_electron_energy", "scf_xc_energy")
    assert sum(properties[part] for part in parts) == pytest.approx(properties["scf_total_energy"], abs=1e-10)
    assert (properties["calcinfo_nalpha"], properties["calcinfo_nbeta"]) == (5, 4)
    assert len(properties["scf_dipole_moment"]) == 3


def test_functional_is_recorded(document):
    """What the name stood for is in extras: terms, coefficients, exact exchange."""
    functional = document[0]["extras"]["dftfd"]["functional"]
    assert [term["name"] for term in functional["terms"]] == ["lda_x", "lda_c_vwn"]


def test_a_name_that_means_another_functional_is_not_handed_on():
    """PBE with another kappa, named 'pbe', must not be read as PBE; its numbers in parentheses say what it is."""
    other = dftfd.get_functional("pbe", kappa=1.2)
    for functional, method in ((other.named("pbe"), "own:pbe"), (other, other.name), ("pbe", "pbe")):
        result = dftfd.run_scf(dftfd.molecule("H 0 0 0; H 0 0 0.74", basis="sto-3g"), xc=functional, grid_level=1)
        document = atomic_result(result)
        assert document["model"]["method"] == method
    with pytest.raises(FunctionalError, match="unknown functional 'own'"):
        dftfd.get_functional("own:pbe")


def test_an_old_file_is_replaced_and_nothing_is_left_behind(tmp_path):
    """The new document, no temporary file, permissions by the umask."""
    file = tmp_path / "out.json"
    file.write_text("old")
    write_json(file, {"a": 1})
    assert json.loads(file.read_text()) == {"a": 1}
    assert os.listdir(tmp_path) == ["out.json"]
    plain = tmp_path / "plain"
    plain.touch()
    assert file.stat().st_mode == plain.stat().st_mode


def test_a_failure_keeps_the_old_file(tmp_path, monkeypatch):
    """If the disk fails while writing, the old file is intact and the error has exit code 5."""
    file = tmp_path / "out.json"
    file.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="cannot write .*: No space left on device"):
        write_json(file, {"a": 1})
    assert file.read_text() == "old" and os.listdir(tmp_path) == ["out.json"]


def test_nan_is_not_written(tmp_path):
    """JSON has no NaN; a document that holds one is a bug, not a file."""
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "out.json", {"a": float("nan")})
    assert os.listdir(tmp_path) == []


def test_unwritable_places_are_found_before_the_calculation(tmp_path):
    """A folder, a missing folder: FileError with the path."""
    with pytest.raises(FileError, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(FileError, match="does not exist"):
        check_writable(tmp_path / "no" / "out.json")
    check_writable(tmp_path / "out.json")


def test_an_instability_that_was_followed_leaves_numbers_only():
    """CH begins on a saddle point: the cycle that leaves it has numbers as others have."""
    result = dftfd.run_scf(dftfd.molecule("C 0 0 0; H 0 0 1.12", basis="6-31g", spin=1), xc="pbe")
    assert any("instability" in step for step in result.steps)
    lines = json.loads(json.dumps(atomic_result(result), allow_nan=False))["extras"]["dftfd"]["history"]
    assert all(np.isfinite(line["density_change"]) for line in lines[1:])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"charge": 1}, "has no option 'charge'; the closest ones are molecular_charge"),
        ({"units": "angstrom"}, "has no option 'units'"),
        ({"atomic_numbers": [8, 1]}, "are not those of the symbols"),
        ({"fragment_charges": [1.0]}, "fragment_charges without a molecular_charge"),
    ],
)
def test_a_molecule_is_what_all_its_fields_say(fields, said, tmp_path):
    """What would make it another one is not passed over."""
    molecule = {"symbols": ["F", "H"], "geometry": [0, 0, 0, 0, 0, 1.7]}
    document = {"molecule": molecule, "driver": "energy", "model": {"method": "hf", "basis": "sto-3g"}}
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document))
    assert read_input(path).molecule["charge"] == 0
    path.write_text(json.dumps(document | {"molecule": molecule | fields}))
    with pytest.raises(InputError, match=said):
        read_input(path)
