"""D3 and D4 corrections as suffix of a functional: energies, gradients and names against PySCF's own (mf.disp)."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from pyscf import dft

import dftfd
from dftfd.errors import FunctionalError, MissingDependencyError, UnsupportedError
from dftfd.functionals.definition import from_definition
from dftfd.interop.numint import numint
from dftfd.libcint.dispersion_correction import dispersion_correction
from dftfd.libcint.mole import to_pyscf
from dftfd.results.result_file import load_result
from dftfd.terms.dispersion import correction
from tests.sample import sample

DIMER = "O 0 0 0.12; H 0 0.76 -0.47; H 0 -0.76 -0.47; O 0.1 0 3.1; H 0.75 0 3.69; H -0.75 0.1 3.69"


@pytest.mark.parametrize(
    "name",
    [
        *("pbe-d3bj", "PBE-D3BJ", "b3lyp-d3zero", "blyp-d3bjatm", "pbe-d3bjm", "pbe-d3zerom", "pbe-d3op", "hf-d3bj"),
        *("tpss-d4", "r2scan-d4", "pbe0-d4", "hf-d4", "b97m-d3bj", "wb97m-d3bj", "wb97x-d3bj", "wb97m-d4"),
    ],
)
def test_energy_is_pyscfs(name):
    """Two water molecules, charge +1 (on which D4 depends): PySCF's parameters and energy for the same name (1e-14)."""
    molecule = dftfd.molecule(DIMER, basis="sto-3g", charge=1, spin=1)
    energy, _ = dispersion_correction(molecule, *dftfd.get_functional(name).dispersion)
    mf = dft.UKS(to_pyscf(molecule), xc=name)
    assert energy == pytest.approx(float(mf.get_dispersion()), abs=1e-14) and energy < -1e-4


@pytest.mark.parametrize("name, other", [("wb97x-d3bj", "wb97x_v"), ("wb97m-d4", "wb97m_v"), ("b97m-d3bj", "b97m_v")])
def test_the_correction_takes_the_place_of_vv10(name, other):
    """The functionals of these names are those with VV10, without it."""
    corrected, original = dftfd.get_functional(name), dftfd.get_functional(other)
    assert original.is_nonlocal and not corrected.is_nonlocal
    assert corrected.terms == original.semilocal_part.terms
    assert corrected.exact_exchange == original.exact_exchange


OF_PSI4 = {
    "wb97x-d": ("hyb_gga_xc_wb97x_d", -0.00042379925763723326),
    "b97-d": ("gga_xc_b97_d", -0.0008109254378903911),
    "pbe-d2": ("pbe", -0.00048655526273423466),
    "blyp-d2": ("blyp", -0.0007784884203747754),
    "tpss-d2": ("tpss", -0.0006487403503123129),
    "b2plyp-d2": ("b2plyp", -0.0003568071926717721),
}
"""{name: (functional, correction of DIMER [hartree])} of Psi4 1.3.2 (libdisp)."""


@pytest.mark.parametrize("name", OF_PSI4)
def test_d2_is_psi4s(name):
    """Psi4 1.3.2's D2 and that of wB97X-D, 2e-9 hartree: it has rounded constants in its units."""
    base, energy = OF_PSI4[name]
    functional = dftfd.get_functional(name)
    assert functional.terms == dftfd.get_functional(base).terms
    found = correction(dftfd.molecule(DIMER, basis="sto-3g"), *functional.dispersion)[0]
    assert found == pytest.approx(energy, abs=2e-9)


@pytest.mark.parametrize(
    "names", ["wB97X-D wB97XD wb97x_d", "wb97x_d3 wb97x-d3 wb97x-d3zero wB97XD3", "B97-D b97d b97_d"]
)
def test_a_promise_is_kept_in_every_spelling(names):
    """One functional with its own base and its own correction; libxc's full name is the part without."""
    first, *others = map(dftfd.get_functional, names.split())
    assert first.dispersion is not None and all(f.definition == first.definition for f in others)


def test_wb97x_d3_is_no_wb97x_v():
    """Fraction of exact exchange 0.195728 and omega 0.25, of the paper (doi:10.1021/ct300715s)."""
    assert dict(dftfd.get_functional("wb97x-d3zero").exact_exchange) == pytest.approx({0.0: 0.195728, 0.25: 0.804272})
    assert dftfd.get_functional("wb97x-d3").dispersion == ("d3zero", "wb97x")


@pytest.mark.parametrize("name", ["opbe_d", "ssb-d", "beefvdw", "optb88_vdw"])
def test_promises_that_cannot_be_kept(name):
    """libxc's part alone is no such functional."""
    with pytest.raises(
        (FunctionalError, UnsupportedError), match="promises a dispersion correction|does not specify the damping"
    ):
        dftfd.get_functional(name)


S22_2 = (
    "O -1.551007 -0.114520 0; H -1.934259 0.762503 0; H -0.599677 0.040712 0; "
    "O 1.350625 0.111469 0; H 1.680398 -0.373741 -0.758561; H 1.680398 -0.373741 0.758561"
)


def test_gcp_of_pbeh_3c_is_published():
    """Water dimer of S22: gCP 0.007042 hartree, D3(BJ) -0.000830 (Psi4's test gcp/pbeh3c, of Grimme's programs)."""
    molecule = dftfd.molecule(S22_2, basis="sto-3g")
    version, parameters = dftfd.get_functional("PBEh-3c").dispersion
    assert version == "d3bjatm+gcp"
    assert correction(molecule, "gcp", parameters)[0] == pytest.approx(0.007042223, abs=1e-6)
    assert correction(molecule, "d3bj", parameters)[0] == pytest.approx(-0.000829530, abs=1e-6)


@pytest.mark.parametrize("version", ["d2", "chg", "d4+gcp"])
def test_gradients_of_corrections_beside_d3(version):
    """Central differences of the correction's energy (1e-8 hartree/bohr), with a ghost that has no part in it."""
    molecule = dftfd.molecule(DIMER + "; ghost-Ne 1 1 1", basis="sto-3g")
    parameters = {"d2": "pbe", "chg": "wb97x"}.get(version, "r2scan-3c")
    _, gradient = correction(molecule, version, parameters)
    moved = [molecule.coordinates + step * np.eye(7)[:, [4]] * np.array([1.0, 0.0, 0.0]) for step in (1e-3, -1e-3)]
    energies = [correction(molecule.at(x), version, parameters)[0] for x in moved]
    assert gradient[4, 0] == pytest.approx((energies[0] - energies[1]) / 2e-3, abs=1e-8) and not gradient[-1].any()


@pytest.mark.parametrize("version", ["d3bj", "d3zero", "d4"])
def test_gradient_is_the_derivative(version):
    """Central differences of the correction's energy (1e-9 hartree/bohr), with a ghost that has no part in it."""
    molecule = dftfd.molecule(DIMER + "; ghost-Ne 1 1 1", basis="sto-3g")
    _, gradient = dispersion_correction(molecule, version, "pbe")
    assert not gradient[-1].any()
    for atom, axis in ((0, 2), (4, 0)):
        energies = []
        for step in (1e-3, -1e-3):
            moved = molecule.coordinates.copy()
            moved[atom, axis] += step
            energies.append(dispersion_correction(molecule.at(moved), version, "pbe")[0])
        assert gradient[atom, axis] == pytest.approx((energies[0] - energies[1]) / 2e-3, abs=1e-9)


def test_whole_calculation(tmp_path):
    """The component, PySCF's total energy (own grid equals PySCF's: 1e-8), forces, the file and the way to PySCF."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0 0.8; He 0 2.5 0.5", basis="sto-3g")
    result = dftfd.run_scf(molecule, "pbe-d3bj", density_fit=False, grid_level=1, conv_tol=1e-11)
    plain = dftfd.run_scf(molecule, "pbe", density_fit=False, grid_level=1, conv_tol=1e-11)
    correction, gradient = dispersion_correction(molecule, "d3bj", "pbe")
    assert result.energies["dispersion"] == correction and plain.energies["dispersion"] == 0.0
    assert result.energy - plain.energy == pytest.approx(correction, abs=1e-10)
    np.testing.assert_allclose(result.forces(), plain.forces() - gradient, atol=1e-9)
    mf = dft.RKS(to_pyscf(molecule), xc="pbe-d3bj").set(conv_tol=1e-11)
    mf.grids.level = 1
    assert result.energy == pytest.approx(mf.kernel(), abs=1e-8)
    assert "dispersion correction" in str(result)
    assert result.to_qcschema()["properties"]["scf_dispersion_correction_energy"] == correction
    result.save(tmp_path / "n2.h5")
    loaded = load_result(tmp_path / "n2.h5")
    assert loaded.functional.dispersion == ("d3bj", "pbe") and loaded.energies == result.energies
    handed_over = result.to_pyscf()
    assert handed_over.energy_tot(handed_over.make_rdm1()) == pytest.approx(result.energy, abs=1e-8)


@pytest.mark.parametrize("version", ["d3bj", "d3bjatm", "d4"])
def test_own_damping_parameters(version, tmp_path):
    """Those of PBE or r2SCAN as numbers give the correction of the name; a calculation has them, and its file."""
    molecule = dftfd.molecule(DIMER, basis="sto-3g")
    name = "r2scan" if version == "d4" else "pbe"
    numbers = {"pbe": "s8=0.7875 a1=0.4289 a2=4.4407", "r2scan": "s8=0.6018749 a1=0.51559235 a2=5.77342911"}[name]
    energy, gradient = correction(molecule, version, numbers)
    expected = correction(molecule, version, name)
    assert energy == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-14)
    assert correction(molecule, version, f"{numbers} s6=0.5")[0] != energy
    if version == "d3bj":
        own = replace(dftfd.get_functional("lda"), dispersion=(version, numbers))
        result = dftfd.run_scf(molecule, own, grid_level=0)
        assert result.energies["dispersion"] == energy
        result.save(tmp_path / "own.h5")
        assert load_result(tmp_path / "own.h5", functional=own).energies == result.energies
        with pytest.raises(UnsupportedError, match="which PySCF lacks"):
            result.to_pyscf()


@pytest.mark.parametrize(
    "version, text",
    [
        ("d3bj", "s8=1 a1=0.4"),
        ("d3bj", "s8=1 a1=0.4 a2=x"),
        ("d3bj", "s8=1 a1=-0.4 a2=5"),
        ("d3bj", "s8=1 s8=1 a1=0.4 a2=5"),
        ("d4", "s8=1 a1=0.4 a2=5 b=1"),
        ("d3bj", "s8=nan a1=0.4 a2=5"),
        ("d3zero", "s8=1 a1=0.4 a2=5"),
    ],
)
def test_damping_parameters_that_are_none(version, text):
    with pytest.raises(FunctionalError, match="dispersion parameters|take own parameters"):
        correction(dftfd.molecule(DIMER, basis="sto-3g"), version, text)


@pytest.mark.parametrize("xc", sample(["hf-d3bjatm", "wb97x-d4"], ["hf-d3bjatm"]))
def test_pyscf_is_handed_what_was_computed(xc):
    """PySCF 2.14 reads 'wb97x-d4' as another functional, so its object gets functional and correction apart."""
    molecule = dftfd.molecule("He 0 0 0; He 0 0 2.6", basis="sto-3g")
    result = dftfd.run_scf(molecule, xc, density_fit=False, grid_level=1)
    mf = result.to_pyscf()
    assert mf.energy_tot(mf.make_rdm1()) == pytest.approx(result.energy, abs=1e-9)
    assert not mf.do_nlc()
    correction = dispersion_correction(molecule, *dftfd.get_functional(xc).dispersion)[0]
    assert float(mf.get_dispersion()) == pytest.approx(correction, abs=1e-14)


@pytest.mark.parametrize(
    "name, message",
    [
        ("pbe-d3", "write pbe-d3bj or pbe-d3zero"),
        ("pbe-d3bjx", "unknown dispersion correction 'd3bjx'"),
        ("pbee-d3bj", "unknown functional 'pbee'"),
        ("lda,vwn-d3bj", "there is no d3bj correction of 'lda,vwn'"),
        ("pw91-d3op", "there is no d3op correction of 'pw91'"),
    ],
)
def test_names_that_are_refused(name, message):
    """What is no suffix, and functionals that nobody fitted parameters for."""
    with pytest.raises(FunctionalError, match=message):
        dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), name)


def test_a_correction_belongs_to_the_whole():
    """Sums and PySCF's numint refuse it rather than lose it; definitions keep it."""
    corrected = dftfd.get_functional("pbe-d3bj")
    for combine in (lambda: corrected + dftfd.exact_exchange, lambda: 0.5 * corrected, lambda: corrected - corrected):
        with pytest.raises(FunctionalError, match="belongs to a functional as a whole"):
            combine()
    with pytest.raises(UnsupportedError, match="mf.disp = 'd3bj'"):
        numint(corrected)
    assert from_definition(corrected.definition, "pbe-d3bj") == corrected
    assert "dispersion" not in dftfd.get_functional("pbe").definition


def test_without_the_package(monkeypatch):
    """The error names the extra."""
    monkeypatch.setitem(sys.modules, "pyscf.dispersion", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'dftfd\[dispersion\]'"):
        dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), "pbe-d3bj")
