"""Files made from results, and QCSchema input."""

import html
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from ase.io.cube import read_cube
from ase.units import Bohr
from pyscf.tools import molden

import dftfd
from dftfd.errors import FileError, InputError, NotConvergedError, UnsupportedError
from dftfd.libcint.mole import to_pyscf
from dftfd.results.output import Box
from dftfd.results.qcschema import read_input


@pytest.fixture(scope="module")
def result():
    """The NH2 radical."""
    system = dftfd.molecule("N 0 0 0.14; H 0 0.8 -0.49; H 0 -0.8 -0.49", basis="6-31g*", spin=1)
    return dftfd.run_scf(system, xc="lda,vwn", grid_level=0)


def test_molden_is_read_by_pyscf(result, tmp_path):
    """PySCF's reader finds the geometry, basis, energies and occupations, and orbitals of the same density."""
    result.write(tmp_path / "nh2.molden")
    mole, energies, C, occupations, _, spins = molden.load(str(tmp_path / "nh2.molden"))
    np.testing.assert_allclose(mole.atom_coords(), result.molecule.coordinates, atol=1e-6)
    assert [{str(s) for s in spin} for spin in spins] == [{"ALPHA"}, {"BETA"}]
    np.testing.assert_allclose(energies, result.mo_energy, atol=1e-8)
    np.testing.assert_allclose(occupations, result.mo_occ, atol=1e-8)
    S = mole.intor("int1e_ovlp")
    for C_s in C:
        np.testing.assert_allclose(C_s.T @ S @ C_s, np.eye(len(S)), atol=1e-5)
    P = np.einsum("sai,si,sbi->ab", C, occupations, C)
    dipole = -np.einsum("xab,ab->x", mole.intor("int1e_r"), P)
    dipole += mole.atom_charges() @ mole.atom_coords()
    np.testing.assert_allclose(dipole, result.dipole, atol=1e-5)


def test_cube_holds_the_density(result, tmp_path):
    """ASE reads the box and the atoms; the values are the density from libcint's orbitals at its points."""
    path = tmp_path / "nh2.cube"
    result.write(path, spacing=0.7, margin=2.0)
    with path.open() as file:
        cube = read_cube(file)
    values = cube["data"]
    box = Box.around(result.molecule.coordinates, margin=2.0, spacing=0.7)
    assert values.shape == box.counts
    ao = to_pyscf(result.molecule).eval_gto("GTOval", box.points)
    expected = np.einsum("pa,sab,pb->p", ao, result.density_matrix, ao).reshape(box.counts)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(cube["origin"] / Bohr, box.origin, atol=1e-6)
    np.testing.assert_allclose(cube["atoms"].positions / Bohr, result.molecule.coordinates, atol=1e-5)
    result.write(path, field=2.0 * result.density[0], spacing=1.5)
    assert "function of r of H2N" in path.read_text()
    for field, message in [("densty", "closest: density"), (result.density, "R\\^3 -> R")]:
        with pytest.raises(InputError, match=message):
            result.write(path, field=field)


def test_npz_holds_arrays_without_pickle(result, tmp_path):
    """NumPy reads it with pickle off; energies sum to the total energy."""
    result.write(tmp_path / "nh2.npz")
    with np.load(tmp_path / "nh2.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["mo_coeff"], result.mo_coeff)
        assert arrays["energies"].sum() == pytest.approx(result.energy, abs=1e-10)
        assert json.loads(str(arrays["settings"]))["functional"] == "lda,vwn"


@pytest.mark.slow
def test_html_report_is_one_valid_page(result, tmp_path):
    """Four well-formed pictures and one script inside, nothing loaded from elsewhere, the result's numbers, no time."""
    result.write(tmp_path / "nh2.html")
    page = (tmp_path / "nh2.html").read_text()
    assert page.count("<svg") == 4 and f"{result.energy:.10f}" in page and "N 1" in page
    assert not re.search(r'(?:src|href)="(?!#)(?!http://www.w3.org)', page.replace("xlink:href", "href"))
    assert page.count("<script>") == page.count("<script") == 1 and '"label": "spin density"' in page
    page = page[: page.index("<script>")]
    assert '"name": "lda_c_vwn"' in html.unescape(page)
    for svg in re.findall(r"<svg.*?</svg>", page, re.S):
        ElementTree.fromstring(svg)
    result.write(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == (tmp_path / "nh2.html").read_text()


def test_notebooks_show_a_table(result):
    """Energy, <S^2> and outcome, as HTML; names are escaped."""
    text = result._repr_html_()
    assert f"{result.energy:.10f}" in text and "converged in" in text and f"{result.s_squared:.6f}" in text
    ElementTree.fromstring(text.replace("<br>", "<br/>"))


def test_what_cannot_be_written(result, tmp_path):
    """Options of another format; functions of r of a run that has not converged."""
    with pytest.raises(InputError, match="write of .npz files has no option 'field'"):
        result.write(tmp_path / "nh2.npz", field="density")
    with pytest.raises(InputError, match="write of .h5 files has no option 'field'"):
        result.write(tmp_path / "nh2.h5", field="density")
    unfinished = replace(result, converged=False)
    with pytest.raises(NotConvergedError):
        unfinished.write(tmp_path / "nh2.cube")
    assert "NOT CONVERGED" in unfinished._repr_html_() and "dipole" not in unfinished._repr_html_()
    assert unfinished.to_qcschema("properties")["return_result"] == {}


def test_a_file_that_is_there_is_replaced_unless_it_is_not_to_be(result, tmp_path):
    """overwrite=True is the default, as it always was; False keeps the file."""
    path = tmp_path / "x.json"
    path.write_text("mine")
    with pytest.raises(FileError, match="exists; take another name"):
        result.write(path, overwrite=False)
    assert path.read_text() == "mine"
    result.write(path, overwrite=True)
    assert json.loads(path.read_text())["schema_name"] == "qcschema_output"


def test_unknown_endings_and_places_are_refused_first(result, tmp_path):
    """The name of the file tells the format; the error names the known ones."""
    with pytest.raises(InputError, match=r"must end in .h5, .json, .npz, .molden, .cube, .html"):
        result.write(tmp_path / "nh2.xls")
    with pytest.raises(FileError, match="does not exist"):
        result.write(tmp_path / "no" / "nh2.h5")


def test_qcschema_goes_round(result, tmp_path):
    """The molecule of a result's document, given back as AtomicInput, is the molecule, in bohr and with its spin."""
    document = result.to_qcschema()
    given = {name: document[name] for name in ("molecule", "model")}
    given |= {"schema_name": "qcschema_input", "driver": "energy", "keywords": {"grid_level": 0}}
    path = tmp_path / "in.json"
    path.write_text(json.dumps(given))
    request = read_input(path)
    system = dftfd.molecule(**request.molecule)
    np.testing.assert_array_equal(system.coordinates, result.molecule.coordinates)
    assert (system.spin, system.charge, system.basis) == (1, 0, "6-31g*")
    assert (request.settings, request.driver) == ({"xc": "lda,vwn", "grid_level": 0}, "energy")
    for change, error, message in [
        ({"driver": "torsiondrive"}, UnsupportedError, "driver 'torsiondrive'"),
        ({"model": {"method": "pbe"}}, InputError, "'basis'"),
        ({"molecule": document["molecule"] | {"geometry": [0.0]}}, InputError, "expected 9 numbers"),
        ({"molecule": document["molecule"] | {"molecular_multiplicity": 1.5}}, InputError, "whole number"),
        ({"keywords": [1]}, InputError, "keywords"),
        ({"keywords": {"xc": "pbe"}}, InputError, "without molecule, xc"),
    ]:
        path.write_text(json.dumps(given | change))
        with pytest.raises(error, match=message):
            read_input(path)
    path.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_input(path)
