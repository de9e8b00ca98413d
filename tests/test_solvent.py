"""Solvents as polarisable continua, against PySCF's mean fields and TDDFT in PCM and SMD, and against differences."""

import json
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.errors import CheckpointError, InputError, MissingDependencyError, ResourceError, UnsupportedError
from dftfd.libcint import continuum
from dftfd.results.result_file import load_result
from dftfd.terms import SolventEnergy
from dftfd.terms.solvent import solvent_for

slow = pytest.mark.slow
BENT = {0: "O 0 0 0.1; H 0.1 0.76 -0.48; H 0 -0.74 -0.5", 1: "N 0 0 0.1; H 0.1 0.8 -0.5; H 0 -0.78 -0.52"}
TIGHT = {"grid_level": 0, "conv_tol": 1e-11, "density_fit": False}
WATER = (78.3553, 1.78)  # PySCF's default, and the optical constant that is fixed in its TDDFT
MODELS = ("cpcm", "cosmo", "iefpcm", "ssvpe", "smd")


def molecule(spin=0, basis="sto-3g"):
    return dftfd.molecule(BENT[spin], basis=basis, spin=spin)


def solved(spin=0, xc="pbe", basis="sto-3g", **options):
    return dftfd.run_scf(molecule(spin, basis), xc, **TIGHT | options)


def pyscfs(spin, model, xc="pbe", basis="sto-3g"):
    """PySCF's mean field in the same solvent, on the same grid, solved by PySCF."""
    mf = solved(spin, xc, basis, conv_tol=1e-6).to_pyscf()
    mf = mf.SMD() if model == "smd" else mf.PCM()
    if model == "smd":
        mf.with_solvent.solvent = "water"
    else:
        mf.with_solvent.method = continuum.METHODS[model]
    mf.conv_tol, mf.conv_tol_grad, mf.verbose = 1e-11, 1e-7, 0
    mf.kernel()
    return mf


CASES = [
    pytest.param(model, spin, marks=[slow] * ((model, spin) not in {("iefpcm", 1)}))
    for model in MODELS
    for spin in (0, 1)
]


@pytest.mark.parametrize(("model", "spin"), CASES)
def test_energy_and_forces_are_pyscfs(model, spin):
    """The same grid and cavity: energies 1e-8 hartree, forces with the grid's motion 1e-6 hartree/bohr."""
    result = solved(spin, solvent="water" if model == "smd" else WATER, solvent_model=model)
    mf = pyscfs(spin, model)
    assert result.energy == pytest.approx(mf.e_tot, abs=1e-8)
    assert result.energies["solvent"] == pytest.approx(mf.scf_summary["e_solvent"], abs=1e-7)
    assert result.energies["solvent_cds"] == pytest.approx(mf.scf_summary.get("e_cds", 0.0), abs=1e-12)
    assert (result.energies["solvent_cds"] != 0.0) == (model == "smd")
    gradient = mf.nuc_grad_method()
    gradient.grid_response = True
    assert np.abs(result.forces() + gradient.kernel()).max() < 1e-6


def test_energies_of_smd_are_pyscfs():
    """Hartree-Fock in water, whose cavity has an energy of its own: both parts to 1e-8 hartree."""
    result, mf = solved(0, "hf", solvent="water", solvent_model="smd"), pyscfs(0, "smd", "hf")
    assert result.energy == pytest.approx(mf.e_tot, abs=1e-8)
    assert result.energies["solvent_cds"] == pytest.approx(mf.scf_summary["e_cds"], abs=1e-12) != 0.0


@slow  # 2 s; forces in other solvents: the tests around; energies of SMD: the one above
def test_forces_are_differences_of_energies():
    """Five points of the whole energy in SMD methanol, fitted integrals, UKS, one coordinate (1e-7 hartree/bohr)."""
    options = {"grid_level": 0, "conv_tol": 1e-11, "solvent": "methanol", "solvent_model": "smd"}
    here = molecule(1)
    force, h = dftfd.run_scf(here, "hf", **options).forces()[1, 1], 4e-3
    energies = []
    for k in (-2, -1, 1, 2):
        x = here.coordinates.copy()
        x[1, 1] += k * h
        energies.append(dftfd.run_scf(here.at(x), "hf", **options).energy)
    slope = np.dot([1, -8, 8, -1], energies) / (12 * h)
    assert force == pytest.approx(-slope, abs=1e-7)


@pytest.mark.parametrize("model", [pytest.param(model, marks=[slow] * (model != "iefpcm")) for model in MODELS])
def test_term_alone(model):
    """With ghosts, which have no cavity: gradient and matrix are differences of the energy at any symmetric P."""
    with_ghost = dftfd.molecule(BENT[0] + "; ghost-H 0.3 0.4 1.2", basis="sto-3g")
    rng = np.random.default_rng(3)
    P = rng.normal(size=(1, with_ghost.n_ao, with_ghost.n_ao)) / 5
    P, change = P + P.transpose(0, 2, 1), rng.normal(size=P.shape[1:])
    change = (change + change.T)[None]
    solvent = solvent_for("water" if model == "smd" else 20.0, model)
    term = SolventEnergy(with_ghost, solvent)
    energy = lambda P, where=with_ghost: sum(SolventEnergy(where, solvent).evaluate(P).energies.values())
    slope = (energy(P + 1e-3 * change) - energy(P - 1e-3 * change)) / 2e-3  # quadratic in P: exact
    matrix = term.evaluate(P).matrices["solvent"]
    assert np.sum(matrix * change) == pytest.approx(slope, rel=1e-8)
    gradient = term.gradient(P, None, True, None)
    for atom, axis in ((1, 1), (3, 0)):
        energies = []
        for k in (-2, -1, 1, 2):
            x = with_ghost.coordinates.copy()
            x[atom, axis] += 5e-4 * k
            energies.append(energy(P, with_ghost.at(x)))
        assert gradient[atom, axis] == pytest.approx(np.dot([1, -8, 8, -1], energies) / 6e-3, abs=2e-8)
    assert np.abs(gradient.sum(axis=0)).max() < 1e-10


def test_response_of_the_term():
    """Of F to real changes of orbitals: its difference. To imaginary ones, and of a triplet: none."""
    water, rng = molecule(), np.random.default_rng(4)
    C, dC = rng.normal(size=(2, 4, water.n_ao)), rng.normal(size=(2, 3, 4, water.n_ao))
    P = np.einsum("sqa,sqb->sab", C, C)
    term = SolventEnergy(water, solvent_for((20.0, 2.0), "iefpcm"))
    found = term.response(P, C)(dC)
    half = np.einsum("skqa,sqb->ksab", dC, C)
    changes = half + half.transpose(0, 1, 3, 2)
    matrix = lambda P: term.evaluate(P).matrices["solvent"][0]
    F = [matrix(P + dP) - matrix(P) for dP in changes]
    assert np.allclose(found, np.einsum("sqa,kab->skqb", C, F), atol=1e-9)
    assert np.allclose(term.response(P, C)(dC, 0.5), 0.5 * np.array(found), atol=1e-12)
    for none in (term.response(P, C)(dC, 1.0), term.response(P, C, triplet=True)(dC)):
        assert not np.any(none[0]) and not np.any(none[1])
    fast = term.without_slow_response()
    at_optical = SolventEnergy(water, solvent_for(2.0, "iefpcm"))
    assert np.allclose(fast.response(P, C)(dC), at_optical.response(P, C)(dC), atol=1e-12)
    assert fast.evaluate(P).energies == term.evaluate(P).energies


def test_polarisability_is_the_derivative_of_the_dipole():
    """Static: differences of dipole moments in fields, each with its solvent (1e-5 bohr^3)."""
    given = {"xc": "hf", "solvent": "water", "solvent_model": "iefpcm", "conv_tol": 1e-14}
    result = solved(1, **given)
    dipoles = [solved(1, **given, electric_field=(0.0, 0.0, h)).dipole for h in (-1e-3, 1e-3)]
    assert result.polarizability()[:, 2] == pytest.approx((dipoles[1] - dipoles[0]) / 2e-3, abs=1e-5)
    assert result.polarizability(1e-4)[2, 2] < result.polarizability()[2, 2] - 0.01  # nuclei no longer follow


@pytest.mark.parametrize(
    ("spin", "model", "tda", "equilibrium", "wanted"),
    [
        (0, "cpcm", False, False, "singlet"),
        pytest.param(1, "iefpcm", True, False, None, marks=slow),
        pytest.param(0, "smd", False, True, "singlet", marks=slow),
        pytest.param(0, "iefpcm", True, True, "triplet", marks=slow),
        pytest.param(1, "ssvpe", False, True, None, marks=slow),
        pytest.param(0, "cosmo", False, False, "triplet", marks=slow),
    ],
)
def test_excitations_are_pyscfs(spin, model, tda, equilibrium, wanted):
    """TDDFT in the solvent, its nuclei at rest (optical constant 1.78) or not: energies to 1e-6 hartree."""
    xc, basis = "pbe0", "sto-3g"
    result = solved(spin, xc, basis, solvent="water" if model == "smd" else WATER, solvent_model=model)
    found = result.excitations(3, tda, wanted, equilibrium_solvation=equilibrium)
    mf = pyscfs(spin, model, xc, basis)
    td = mf.TDA(equilibrium_solvation=equilibrium) if tda else mf.TDDFT(equilibrium_solvation=equilibrium)
    td.nstates, td.conv_tol, td.verbose = 5, 1e-9, 0
    if spin == 0:
        td.singlet = wanted == "singlet"
    assert found.energies == pytest.approx(td.kernel()[0][:3], abs=1e-6)
    assert ("non-equilibrium" in str(found)) != equilibrium
    assert found.solvation == ("equilibrium" if equilibrium else "non-equilibrium")


def test_nonequilibrium_lies_between():
    """A dipole-allowed excitation: the kernel's solvent lowers it, more where its nuclei follow."""
    result = solved(solvent=WATER)
    frozen = replace(result, calculation=replace(result.calculation, surroundings=solved().calculation.surroundings))
    energy = lambda r, **how: r.excitations(1, tda=True, **how).energies[0]
    slow_too = energy(result, equilibrium_solvation=True)
    assert slow_too < energy(result) < energy(frozen) - 1e-5  # orbitals of the solvent, kernel without it


def test_a_core_potential_and_a_ghost():
    """HI with a core potential: PySCF's energy; a ghost has functions, but no sphere of its own."""
    hi = dftfd.molecule("H 0 0 0; I 0 0 1.6", basis={"H": "sto-3g", "I": "lanl2dz"})
    result = dftfd.run_scf(hi, "pbe", **TIGHT, solvent=WATER)
    mf = dftfd.run_scf(hi, "pbe", **TIGHT).to_pyscf().PCM()
    mf.conv_tol, mf.verbose = 1e-11, 0
    assert result.energy == pytest.approx(mf.kernel(), abs=1e-8)
    alone, beside = (continuum.Cavity(m, "cpcm") for m in (molecule(), molecule_with_ghost()))
    assert np.array_equal(alone.points, beside.points) and np.array_equal(alone.of_nuclei, beside.of_nuclei)


def test_the_cavity_term_knows_elements_behind_core_potentials():
    """HBr with and without a core potential: PySCF's own takes the charge that is left, 7, for the element."""
    all_electrons, with_core = (
        dftfd.molecule("H 0 0 0; Br 0 0 1.42", basis={"H": "sto-3g", "Br": basis}) for basis in ("sto-3g", "lanl2dz")
    )
    assert with_core.nuclear_charges[1] == 7
    energies = [continuum.cavity_dispersion(m, "water")[0] for m in (all_electrons, with_core)]
    assert energies[0] == energies[1] == pytest.approx(0.000359949613, abs=1e-11)


@pytest.mark.parametrize(
    ("solvent", "energy"),
    [("1,2-ethanediol", 0.003393975433), ("pentanal", -0.001608798342), ("butanal", -0.001643266072)],
)
def test_the_cavity_term_of_water_is_nwchems(solvent, energy):
    """NWChem 7.0.2's G(SMD-CDS) [hartree]. PySCF has half a halide for 1,2-ethanediol, less basicity for pentanal."""
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="sto-3g")
    assert continuum.cavity_dispersion(water, solvent)[0] == pytest.approx(energy, abs=2e-9)


def molecule_with_ghost():
    return dftfd.molecule(BENT[0] + "; ghost-O 0 0 2.0", basis="sto-3g")


def test_all_of_the_charge_is_a_conductors():
    """Gauss: a conductor's charges make up for the ion's within the outlying charge; Born's energy of an ion."""
    ion = dftfd.molecule("Li 0 0 0;", basis="sto-3g", charge=1)
    term = SolventEnergy(ion, solvent_for(1e10, "cpcm"))
    P = dftfd.run_scf(ion, "pbe", **TIGHT).density_matrix
    R = 1.2 * 1.82 / 0.52917721092
    assert term.evaluate(P).energies["solvent"] == pytest.approx(-0.5 / R, rel=5e-4)  # 302 points of a sphere


def test_results_keep_the_solvent(tmp_path):
    """Files, checkpoints, QCSchema and tables know the solvent, and go on in it."""
    options = {"solvent": "Toluene", "solvent_model": "iefpcm", "grid_level": 0}
    path, checkpoint = tmp_path / "r.h5", tmp_path / "c.h5"
    result = dftfd.run_scf(molecule(), "hf", checkpoint=checkpoint, **options)
    result.save(path)
    again = load_result(path)
    assert again.calculation.surroundings.solvent == result.calculation.surroundings.solvent
    assert again.energies == result.energies and np.allclose(again.forces(), result.forces(), atol=1e-7)
    assert "toluene, iefpcm, dielectric constant 2.3741" in str(again) and "solvent, electrostatic" in str(again)
    keywords = json.loads(json.dumps(result.to_qcschema()))["keywords"]
    assert (keywords["solvent"], keywords["solvent_model"]) == ("Toluene", "iefpcm")
    with pytest.raises(CheckpointError, match="solvent"):
        dftfd.run_scf(molecule(), "hf", restart=checkpoint, grid_level=0)
    pair = dftfd.run_scf(molecule(), "hf", grid_level=0, solvent=WATER)
    pair.save(path)
    assert load_result(path).settings.solvent == WATER
    pair.excitations(1, tda=True).save(path)
    assert dftfd.load_excitations(path).solvation == "non-equilibrium"


def test_integrals_that_are_not_kept(monkeypatch):
    """The same energy where integrals on the cavity are computed anew in every cycle, in several blocks."""
    kept = solved(solvent="water")
    monkeypatch.setattr(SolventEnergy, "keep_within", lambda self, room: 0.0)
    monkeypatch.setattr(continuum, "BLOCK_BYTES", 8 * 50 * 49)
    assert solved(solvent="water").energy == pytest.approx(kept.energy, abs=1e-11)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"solvent": "watr"}, "unknown solvent 'watr'; the closest of 179 known names are water"),
        ({"solvent": "acetonitril"}, "acetonitrile"),
        ({"solvent": 78.4, "solvent_model": "smd"}, "needs the name of a solvent"),
        ({"solvent_model": "smd"}, "needs a solvent"),
        ({"solvent": 1.0}, "dielectric constant above 1"),
        ({"solvent": "w" * 10**6}, "the name of a solvent"),
        ({"solvent": (2.0,)}, "pair of it and the optical one"),
        ({"solvent": (2.0, 4.0)}, "optical dielectric constant 4, .* above the static one, 2"),
        ({"solvent": "water", "solvent_model": "onsager"}, "'cpcm'"),
    ],
)
def test_refused(options, words):
    with pytest.raises(InputError, match="(?s)" + words):
        dftfd.run_scf(molecule(), "pbe", **options)


def test_what_knows_no_solvent_says_so(monkeypatch):
    result = solved(solvent="dmso")
    with pytest.raises(UnsupportedError, match="solvents"):
        result.to_pyscf()
    with pytest.raises(InputError, match="needs a result with a solvent"):
        solved().excitations(1, equilibrium_solvation=True)
    monkeypatch.setattr(continuum._solvent_modules().smd, "libsolvent", None)
    with pytest.raises(MissingDependencyError, match="libsolvent"):
        solved(solvent="water", solvent_model="smd")
    monkeypatch.setitem(sys.modules, "pyscf.solvent", None)
    with pytest.raises(MissingDependencyError, match="pip install -U pyscf"):
        solved(solvent="water")


@slow  # 1.3 s; its response: test_response_of_the_term; a term of a constraint: test_open_terms
def test_training_in_a_solvent():
    """Energy of run_scf; the dipole's derivative by a share of exact exchange, against differences."""
    options = {"solvent": 10.0, "density_fit": False, "conv_tol": 1e-11}
    system = dftfd.molecule("H 0 0 0; F 0 0 0.9", basis="sto-3g")
    scf = dftfd.differentiable_scf(system, **options)
    found = scf("hf")
    reference = dftfd.run_scf(system, "hf", **options)
    assert float(found.energy) == pytest.approx(reference.energy, abs=1e-9)
    assert float(found.energies["solvent"]) == pytest.approx(reference.energies["solvent"], abs=1e-9)
    dipole = lambda a: scf(a * dftfd.exact_exchange).dipole[2]
    difference = (8 * (dipole(0.91) - dipole(0.89)) - (dipole(0.92) - dipole(0.88))) / 0.12
    assert float(jax.grad(dipole)(0.9)) == pytest.approx(float(difference), rel=1e-6)


def test_forces_that_do_not_fit_are_refused(monkeypatch):
    result = solved(solvent="water")
    monkeypatch.setattr("dftfd.terms.solvent.available_memory", lambda: 10**6)
    with pytest.raises(ResourceError, match="points on the cavity"):
        result.forces()


def test_command_line(capsys, tmp_path):
    path = tmp_path / "water.xyz"
    path.write_text("3\n\n" + BENT[0].replace("; ", "\n"))
    run = ["run", str(path), "--basis", "sto-3g", "--xc", "hf"]
    assert main([*run, "--solvent", "water", "--solvent-model", "smd"]) == 0
    assert "solvent, cavity (CDS)" in capsys.readouterr().out
    assert main([*run, "--solvent", "78.4 1.78"]) == 0
    assert "dielectric constant 78.4, optical 1.78" in capsys.readouterr().out
    assert main([*run, "--solvent", "wine"]) == 2
    again = ["excitations", *run[1:], "-n", "1", "--solvent", "water"]
    assert main([*again, "--equilibrium-solvation"]) == 0
    assert "water (cpcm, equilibrium)" in capsys.readouterr().out


@slow
def test_hessian_in_a_solvent():
    """Both ways to second derivatives agree (5e-7 hartree/bohr^2), and no direction is preferred (1e-8).

    Third derivatives of the functions that switch points off jump, so that steps of differences have to be short.
    """
    result = solved(solvent="water", solvent_model="iefpcm")
    a, b = result.hessian("response", points=4), result.hessian("differences", points=4, step=1e-3)
    assert np.abs(a - b).max() < 5e-7
    assert np.abs(a.sum(axis=2)).max() < 1e-8
