"""Saving and loading results, and handing them to PySCF."""

import json

import h5py
import numpy as np
import pytest
from pyscf.scf import chkfile

import dftfd
from dftfd.errors import FileError, FunctionalError, UnsupportedError
from dftfd.functionals import base
from dftfd.functionals.registry import term
from dftfd.xc.density import evaluate_at

POINT = np.array([[0.3, -0.2, 0.9]])


@pytest.fixture(scope="module")
def result():
    """OH radical with a ghost atom, a point charge and shells given as numbers."""
    system = dftfd.molecule(
        "O 0 0 0; H1 0 0 0.97; ghost-H 0 0.9 -0.2", basis={"O": "6-31g", "H1": [[0, [0.9, 1.0]]], "H": "sto-3g"}, spin=1
    )
    return dftfd.run_scf(system, xc="pbe0", grid_level=1, conv_tol=1e-7, point_charges=[(0.1, 0.0, 5.0, 0.0)])


def test_a_loaded_result_is_the_saved_one(result, tmp_path):
    """Every number comes back bit by bit, and what is computed from them with it."""
    result.save(tmp_path / "oh.h5")
    loaded = dftfd.load_result(tmp_path / "oh.h5")
    assert str(loaded) == str(result)
    assert loaded.settings == result.settings and loaded.steps == result.steps and loaded.energies == result.energies
    for name in ("mo_energy", "mo_occ", "mo_coeff", "density_matrix", "n_electrons_quadrature", "dipole"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(result, name))
    assert repr(loaded.history) == repr(result.history)
    assert loaded.molecule.atom_basis == result.molecule.atom_basis
    np.testing.assert_array_equal(evaluate_at(loaded.density, POINT), evaluate_at(result.density, POINT))
    warm = dftfd.run_scf(loaded.molecule, xc="pbe0", grid_level=1, guess=loaded, point_charges=[(0.1, 0.0, 5.0, 0.0)])
    assert warm.energy == pytest.approx(result.energy, abs=1e-6) and warm.cycles <= 5


def test_pyscf_reads_the_file(result, tmp_path):
    """PySCF's chkfile loader gives the same energy and orbitals for the same molecule."""
    result.save(tmp_path / "oh.h5")
    mole, entries = chkfile.load_scf(str(tmp_path / "oh.h5"))
    assert entries["e_tot"] == result.energy and mole.nelec == (5, 4)
    np.testing.assert_array_equal(entries["mo_coeff"], result.mo_coeff)
    np.testing.assert_allclose(mole.atom_coords(), result.molecule.coordinates, atol=1e-12)


def test_own_functional_is_looked_up_not_stored(tmp_path, monkeypatch):
    """A file names its formulas; ones that are gone and changed ones are refused, given ones taken."""
    system = dftfd.molecule("He 0 0 0;", basis="6-31g")
    slater = dftfd.get_functional("lda_x")
    mine = term("my_exchange_of_this_test")(lambda n: -0.7 * n ** (4 / 3))
    dftfd.run_scf(system, xc=mine, grid_level=0).save(tmp_path / "he.h5")
    assert dftfd.load_result(tmp_path / "he.h5").functional.terms == mine.terms  # the formula is still there
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(base, "_made", {})
        with pytest.raises(FunctionalError, match="'my_exchange_of_this_test' is not known here"):
            dftfd.load_result(tmp_path / "he.h5")
    with pytest.raises(FunctionalError, match="other terms or parameters"):
        dftfd.load_result(tmp_path / "he.h5", functional=0.8 * slater)
    assert dftfd.load_result(tmp_path / "he.h5", functional=mine).converged


@pytest.mark.slow  # 2.3 s; definitions with parameters: test_learned, test_libxc_catalogue
def test_a_changed_functional_comes_back_from_its_definition(tmp_path):
    """CAM-B3LYP with another omega has no name; its terms, parameters and exact exchange are those that were saved."""
    helium, tuned = dftfd.molecule("He 0 0 0;", basis="6-31g"), dftfd.get_functional("camb3lyp", omega=0.25)
    result = dftfd.run_scf(helium, xc=tuned, grid_level=0)
    result.save(tmp_path / "he.h5")
    loaded = dftfd.load_result(tmp_path / "he.h5")
    assert loaded.calculation.functional == tuned and loaded.settings == result.settings
    assert dict(loaded.settings.definition["exact_exchange"]) == pytest.approx({0.0: 0.19, 0.25: 0.46})
    assert {t["parameters"].get("omega", 0.25) for t in loaded.settings.definition["terms"]} == {0.25}
    assert {"dftfd", "jax", "numpy", "pyscf"} <= loaded.settings.versions.keys()


def test_other_and_damaged_files_are_refused(result, tmp_path, forged):
    """No file, no HDF5, no result, another format, a missing array, a link outwards, text for numbers: FileError.

    So are shapes that do not fit, numbers that are none, compressed data, and groups that hold themselves.
    """
    path = tmp_path / "oh.h5"
    with pytest.raises(FileError, match="cannot read"):
        dftfd.load_result(path)
    path.write_text("no HDF5")
    with pytest.raises(FileError, match="cannot read"):
        dftfd.load_result(path)

    def refuses(change, message):
        result.save(path)
        with pytest.raises(FileError, match=message):
            dftfd.load_result(forged(path, change))

    def replaced(name, value):
        def change(file):
            del file[name]
            if value is not None:
                file[name] = np.bytes_(value) if isinstance(value, str) else value

        return change

    refuses(replaced("dftfd", None), "contains no result of dftfd")
    refuses(replaced("dftfd/format", 99), "format 99; this version of dftfd reads format 3")
    refuses(replaced("dftfd/arrays/history", None), "damaged: KeyError")
    refuses(replaced("dftfd/text", "__import__('os')"), "damaged: JSONDecodeError")
    refuses(replaced("dftfd/arrays/mo_occ", h5py.ExternalLink("/etc/hostname", "/x")), "link to another place")
    refuses(replaced("dftfd/arrays/mo_occ", np.ones((2, 3))), "mo_occ has the shape")
    refuses(replaced("dftfd/arrays/mo_coeff", np.full(result.mo_coeff.shape, np.nan)), "mo_coeff .* not finite")
    huge = {"shape": (2**39,), "dtype": float}
    for options in (huge, huge | {"chunks": (64,)}, huge | {"chunks": (64,), "compression": "gzip"}):
        refuses(lambda file, o=options: file.create_dataset("dftfd/arrays/huge", **o), "as they are|announces")

    def nested(file):
        file["dftfd/arrays/again"] = file["dftfd"]

    refuses(nested, "nested too deeply")


def test_names_in_a_file_reach_no_other_file(result, tmp_path, forged):
    """A basis set named like a path is refused as a name."""
    path = tmp_path / "oh.h5"
    result.save(path)

    def rename(file):
        text = json.loads(file["dftfd/text"].asstr()[()])
        text["molecule"]["atom_basis"][0] = "../../etc/passwd"
        del file["dftfd/text"]
        file["dftfd/text"] = np.bytes_(json.dumps(text))

    forged(path, rename)
    with pytest.raises((FileError, dftfd.InputError), match="passwd"):
        dftfd.load_result(path)


@pytest.mark.parametrize("method, spin", [("RKS", 0), ("UKS", 2), ("ROKS", 2)])
def test_to_pyscf_continues_where_dftfd_ended(method, spin):
    """PySCF's own energy of the handed-over density is ours (1e-8), and its gradient norm is that of a solution."""
    system = dftfd.molecule("O 0 0 0; O 0 0 1.2", basis="sto-3g", spin=spin)
    result = dftfd.run_scf(system, xc="pbe", method=method, grid_level=1, density_fit=False)
    mf = result.to_pyscf()
    assert mf.converged and mf.e_tot == result.energy
    assert mf.energy_tot() == pytest.approx(result.energy, abs=1e-8)
    assert np.linalg.norm(mf.get_grad(mf.mo_coeff, mf.mo_occ)) < 1e-4


def test_to_pyscf_says_what_cannot_be_handed_over(result):
    """Point charges, and functionals that PySCF has no place for."""
    with pytest.raises(UnsupportedError, match="point charges"):
        result.to_pyscf()
    helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), xc="mgga_x_br89", grid_level=0)
    with pytest.raises(UnsupportedError, match="Laplacian"):
        helium.to_pyscf()
