"""Vibrations: Hessians, modes, intensities, isotopes, thermochemistry, files. References: PySCF, energies, fields."""

import dataclasses
import json
import re

import numpy as np
import pytest
from pyscf import dft, gto, scf
from pyscf.hessian import thermo

import dftfd
from dftfd.cli import main
from dftfd.errors import (
    CheckpointError,
    DamagedFileError,
    FileError,
    InputError,
    InputWarning,
    MissingDependencyError,
    NotConvergedError,
)
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.model.calculation import Calculation
from dftfd.model.solved_calculation import solution_at
from dftfd.response import hessian
from dftfd.runtime.progress import Progress
from dftfd.scf.convergence import Convergence
from dftfd.system import isotopes
from dftfd.system.rotations import n_rotations, rigid_motions, symmetry, symmetry_number

slow = pytest.mark.slow
WATER = "O 0 0 0.1; H 0.1 0.76 -0.48; H 0 -0.74 -0.5"
AMIDOGEN = "N 0 0 0.1; H 0.1 0.8 -0.5; H 0 -0.78 -0.52"
TIGHT = {"conv_tol": 1e-11}


def solved(geometry=WATER, xc="hf", basis="sto-3g", spin=0, **options):
    return dftfd.run_scf(dftfd.molecule(geometry, basis=basis, spin=spin), xc, **TIGHT | options)


def pyscfs_hessian(result, xc, level=None):
    """PySCF's analytic Hessian (atom, 3, atom, 3) for a result; without a functional, of Hartree-Fock."""
    molecule = result.molecule
    atoms = list(zip(molecule.symbols, molecule.coordinates.tolist(), strict=True))
    mole = gto.M(atom=atoms, unit="bohr", basis=molecule.basis, spin=molecule.spin, verbose=0)
    if xc == "hf":
        mf = (scf.UHF if molecule.spin else scf.RHF)(mole)
    else:
        mf = (dft.UKS if molecule.spin else dft.RKS)(mole, xc=xc)
        mf.grids.level = level
    mf = mf.density_fit(auxbasis=result.settings.auxiliary_basis) if result.settings.auxiliary_basis else mf
    mf.conv_tol, mf.conv_tol_grad = 1e-13, 1e-8
    mf.kernel(dm0=np.array(result.density_matrix) if molecule.spin else result.density_matrix[0])
    hessian = mf.Hessian()
    if result.settings.auxiliary_basis:
        hessian.auxbasis_response = 2
    return hessian.kernel().transpose(0, 2, 1, 3)


# ---------------------------------------------------------------------------------------------------------- Hessians


@pytest.mark.parametrize(
    ("geometry", "spin", "fitted"), [(WATER, 0, False), (AMIDOGEN, 1, False), ("H 0 0 0; F 0 0.1 0.92", 0, True)]
)
def test_the_hessian_of_hartree_fock_equals_pyscfs(geometry, spin, fitted):
    """1e-6 hartree/bohr^2, without a grid, by both methods; exact and fitted integrals."""
    result = solved(geometry, spin=spin, density_fit=fitted)
    theirs = pyscfs_hessian(result, "hf")
    found = result.hessian()
    assert np.abs(found - theirs).max() < 1e-6
    assert np.array_equal(found, found.transpose(2, 3, 0, 1))
    if fitted:
        assert np.abs(result.hessian(points=4) - theirs).max() < 1e-7
        assert np.abs(result.hessian("differences", points=4) - theirs).max() < 1e-6


@slow
@pytest.mark.parametrize("xc", ["lda,vwn", "pbe", "tpss", "b3lyp"])
@pytest.mark.parametrize(("geometry", "spin", "level"), [(WATER, 0, 6), (AMIDOGEN, 1, 8)])
def test_the_hessian_of_functionals_comes_close_to_pyscfs(xc, geometry, spin, level):
    """PySCF leaves the motion of the grid out: its Hessian is off by about what its sums over atoms miss zero by.

    Of the amidogen radical, which has less symmetry, these sums are too small on the grid of level 6.
    """
    result = solved(geometry, xc, "6-31g", spin, density_fit=False, grid_level=level)
    found, theirs = result.hessian(points=4), pyscfs_hessian(result, xc, level)
    assert np.abs(found.sum(axis=0)).max() < 1e-8
    their_error = np.abs(theirs.sum(axis=0)).max()
    assert their_error < 2e-4 and np.abs(found - theirs).max() < 1e-6 + 2 * their_error


HYDROGEN = "H 0 0 0; H 0 0 0.9"
STATES = {
    "ROKS": {"spin": 2, "method": "ROKS"},
    "smeared": {"smearing": 0.05},
    "given": {"occupations": (1.2, 0.8)},
    "in a field": {"electric_field": [0.0, 0.0, 0.02]},
}


@pytest.mark.parametrize("state", STATES)
def test_other_states_have_vibrations_too(state):
    """The second derivative of the energy along a bond, by differences of energies, is that of the Hessian."""
    options = dict(STATES[state])
    result = solved(HYDROGEN, basis="6-31g", spin=options.pop("spin", 0), **options)
    h = 4e-3

    def energy(shift):
        x = result.molecule.coordinates.copy()
        x[1, 2] += shift
        return dftfd.run_scf(result.molecule.at(x), "hf", conv_tol=1e-13, **options).free_energy

    curvature = (-energy(2 * h) + 16 * energy(h) - 30 * energy(0) + 16 * energy(-h) - energy(-2 * h)) / 12 / h**2
    found = result.vibrations(points=4)
    assert found.hessian[1, 2, 1, 2] == pytest.approx(curvature, abs=1e-6)
    assert found.method.startswith("forces at" if state == "smeared" else "coupled-perturbed")


# what coupled-perturbed orbitals must agree with where PySCF has nothing: forces, each SCF by itself
BEYOND = [
    *[(xc, spin, {}) for xc in ("lda,vwn", "pbe", "tpss", "b3lyp", "r2scan", "camb3lyp") for spin in (0, 1)],
    *[
        ("scanl", 0, {}),
        ("r2scanl", 1, {}),
        ("wb97x-v", 0, {"nlc_grid_level": 0}),
        ("vdw-df", 0, {"nlc_grid_level": 0}),
    ],
    *[("pbe", 1, {"method": "ROKS"}), ("tpss", 1, {"density_fit": False}), ("camb3lyp", 0, {"density_fit": False})],
    ("wb97x-v", 0, {"nlc_grid_level": 0, "density_fit": False}),
]


def require_agreement(geometry, xc, spin, sums=1e-8, h=2e-3, **options):
    """Rows of two atoms within 1e-6 hartree/bohr^2 of slopes of forces; what must vanish with the grid's response does.

    These are sums over atoms, of the Hessian and of a neutral molecule's derivatives of the dipole, also on coarse
    grids. Steps are the same, since surfaces of meta-GGAs and Laplacians have ripples there, which both ways see; those
    of Laplacians are too short for the sums at this step.
    """
    result = solved(geometry, xc, spin=spin, **options)
    found = result.vibrations(method="response", points=4, step=h)
    short = result.vibrations(method="response", points=4) if xc.endswith("scanl") else found
    assert short.sum_rule < sums and short.asymmetry < 10 * sums
    assert np.abs(short.dipole_derivatives.sum(axis=0)).max() < sums

    def forces(place, shift):
        x = result.molecule.coordinates.copy()
        x[place] += shift
        return solution_at(result, x, Convergence(1e-10, 100, orbital_gradient=1e-9), Progress()).forces()

    for place in ((0, 2), (1, 1)):
        near, far = (forces(place, n * h) - forces(place, -n * h) for n in (1, 2))
        assert np.abs(found.hessian[place] + (8 * near - far) / (12 * h)).max() < 1e-6


@slow  # 6 s; by both methods, of a GGA: test_a_spin_without_electrons, and whole Hessians of Hartree-Fock
def test_both_methods_agree():
    require_agreement("N 0 0 0; H 0.3 0.2 1.0", "pbe", 2, grid_level=0)


@slow
@pytest.mark.filterwarnings("ignore")  # coarse grids, for which the derivatives are exact, too
@pytest.mark.parametrize(("xc", "spin", "options"), BEYOND)
def test_both_methods_agree_for_each_kind_of_functional(xc, spin, options):
    """Exact and fitted integrals.

    The metric of fitted ranges is singular. Its inverse divides rounding errors by eigenvalues down to
    1e-7, so that forces have errors of 2e-16 / 1e-7 hartree/bohr, which differences divide by the step: a longer one.
    """
    fitted_ranges = xc in ("camb3lyp", "wb97x-v") and options.get("density_fit", True)
    sums, step = (2e-7, 8e-3) if fitted_ranges else (1e-8, 2e-3)
    small = "H 0 0 0; H 0.1 0.2 0.7" if xc == "vdw-df" else AMIDOGEN if spin else WATER  # pairs of points: ten minutes
    require_agreement(small, xc, spin, sums, step, grid_level=0, **options)


# ----------------------------------------------------------------------------------------------- modes, intensities


@pytest.fixture(scope="module")
def water():
    """Vibrations of water in its minimum, with Raman activities."""
    molecule = dftfd.molecule("O 0 0 0.13; H 0 0.76 -0.49; H 0 -0.76 -0.49", basis="sto-3g")
    best = dftfd.optimize(molecule, "hf", conv_tol=1e-11, optimizer={"convergence_set": "GAU_TIGHT"})
    found = best.result.vibrations(raman=True)
    better = best.result.vibrations(points=4)
    return best.result, dataclasses.replace(better, polarizability_derivatives=found.polarizability_derivatives)


def test_modes_are_those_of_pyscfs_harmonic_analysis(water):
    """Wavenumbers, reduced masses and directions from the same Hessian, masses averaged over isotopes."""
    result, found = water
    found = found.with_isotopes("average")
    theirs = thermo.harmonic_analysis(result.to_pyscf().mol, found.hessian.transpose(0, 2, 1, 3))
    np.testing.assert_allclose(found.wavenumbers, theirs["freq_wavenumber"], rtol=1e-9)
    np.testing.assert_allclose(found.reduced_masses, theirs["reduced_mass"], rtol=1e-9)
    modes = theirs["norm_mode"] / np.linalg.norm(theirs["norm_mode"], axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(np.abs(np.sum(modes * found.modes, axis=(1, 2))), 1.0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(found.modes, axis=(1, 2)), 1.0, atol=1e-12)
    assert np.abs(found.rigid).max() < 15 and found.n_imaginary == 0


def test_derivatives_of_the_dipole_are_those_of_forces_in_fields(water):
    """d mu_k / d R = d F_R / d E_k: five-point differences of forces in fields."""
    result, found = water
    h, columns = 8e-3, []
    for k in range(3):
        forces = {}
        for n in (-2, -1, 1, 2):
            field = [0.0, 0.0, 0.0]
            field[k] = n * h
            forces[n] = dftfd.run_scf(result.molecule, "hf", conv_tol=1e-13, electric_field=field).forces()
        columns.append((8 * (forces[1] - forces[-1]) - (forces[2] - forces[-2])) / (12 * h))
    assert np.abs(found.dipole_derivatives - np.stack(columns, axis=-1)).max() < 1e-6


def test_intensities_have_the_right_units(water):
    """1 (debye/angstrom)^2/u is 42.2561 km/mol; a totally symmetric stretch is polarised, an asymmetric one not."""
    _, found = water
    slopes = np.einsum("nax,axk->nk", found.modes, found.dipole_derivatives) / np.sqrt(found.reduced_masses)[:, None]
    debye_per_angstrom = slopes * 2.541746473 / 0.529177210903
    np.testing.assert_allclose(found.infrared, 42.2561 * np.sum(debye_per_angstrom**2, axis=1), rtol=1e-5)
    assert found.depolarization[1] < 0.5 and found.depolarization[2] == pytest.approx(0.75, abs=1e-6)
    x = np.linspace(-2e5, 2e5, 400_001)
    assert found.spectrum(x).sum() * (x[1] - x[0]) == pytest.approx(found.infrared.sum(), rel=1e-3)


def test_raman_needs_polarisabilities(water):
    _, found = water
    without = dataclasses.replace(found, polarizability_derivatives=None)
    with pytest.raises(InputError, match=r"result\.vibrations\(raman=True\)"):
        _ = without.raman
    assert (found.raman > 0).all() and "Raman" in str(found) and "Raman" not in str(without)


# ---------------------------------------------------------------------------------------------------------- isotopes


def test_isotopes_scale_a_diatomic_as_its_reduced_mass():
    """w'/w = sqrt(mu/mu') exactly; a mass number and its mass are the same."""
    found = solved("H 0 0 0; F 0 0 0.95").vibrations()
    heavy = found.with_isotopes({0: 2})
    m_h, m_d, m_f = 1.007825032, 2.014101778, 18.998403
    mu = [m * m_f / (m + m_f) for m in (m_h, m_d)]
    assert heavy.wavenumbers[0] / found.wavenumbers[0] == pytest.approx(np.sqrt(mu[0] / mu[1]), rel=1e-9)
    assert np.array_equal(found.with_isotopes({0: 2.014101778}).wavenumbers, heavy.wavenumbers)
    assert len(found.rigid) == 5
    for wrong, words in (
        ({0: 4}, "isotope 4 of H: known are 1, 2, 3"),
        ({1: 18}, "no isotope of F"),
        ({7: 2}, "atom 7"),
    ):
        with pytest.raises(InputError, match=words):
            found.with_isotopes(wrong)
    assert isotopes.isotopes_of_text("1:2, 2:13.5") == {1: 2, 2: 13.5}
    with pytest.raises(InputError, match="names no isotopes"):
        isotopes.isotopes_of_text("D")


def test_the_table_of_masses_is_rdkits():
    """Another compilation, older by a decade: the same to 5e-6 u."""
    chem = pytest.importorskip("rdkit.Chem")
    table = chem.GetPeriodicTable()
    for symbol, known in isotopes.MASSES.items():
        for mass_number, mass in known.items():
            assert mass == pytest.approx(table.GetMassForIsotope(symbol, mass_number), abs=5e-6)


# --------------------------------------------------------------------------------------------- rotations, symmetry


def shape(text):
    molecule = dftfd.molecule(text, basis="sto-3g", spin=None)
    return isotopes.masses(molecule.symbols), molecule.coordinates


BENZENE = "; ".join(
    f"{s} {r * np.cos(k * np.pi / 3):.6f} {r * np.sin(k * np.pi / 3):.6f} 0"
    for s, r in (("C", 1.39), ("H", 2.48))
    for k in range(6)
)
METHANE = "C 0 0 0; H .63 .63 .63; H -.63 -.63 .63; H -.63 .63 -.63; H .63 -.63 -.63"
SHAPES = {
    "He 0 0 0;": (0, 1),
    "H 0 0 0; F 0 0 0.9": (2, 1),
    "C 0 0 0; O 0 0 1.16; O 0 0 -1.16": (2, 2),
    WATER: (3, 1),  # bent out of its symmetry
    "O 0 0 0.12; H 0 0.757 -0.469; H 0 -0.757 -0.469": (3, 2),
    "N 0 0 0.1; H 0.94 0 -0.27; H -0.47 0.814064 -0.27; H -0.47 -0.814064 -0.27": (3, 3),
    METHANE: (3, 12),
    BENZENE: (3, 12),
    "S 0 0 0; F 1.56 0 0; F -1.56 0 0; F 0 1.56 0; F 0 -1.56 0; F 0 0 1.56; F 0 0 -1.56": (3, 24),
}


@pytest.mark.parametrize("text", SHAPES)
def test_symmetry_numbers_and_motions_of_the_whole(text):
    """Textbook symmetry numbers, also where the molecule is turned; motions of the whole leave distances alone."""
    m, x = shape(text)
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    rotations, sigma = SHAPES[text]
    assert n_rotations(m, x @ turn) == rotations
    assert symmetry_number(m, x @ turn) == sigma
    motions = rigid_motions(m, x)
    assert motions.shape == (3 + rotations, 3 * len(m))
    np.testing.assert_allclose(motions @ motions.T, np.eye(len(motions)), atol=1e-10)
    r = x[:, None] - x[None]
    for motion in motions:
        d = (motion.reshape(-1, 3) / np.sqrt(m)[:, None])[:, None] - (motion.reshape(-1, 3) / np.sqrt(m)[:, None])[None]
        assert np.abs(np.sum(r * d, axis=2)).max() < 1e-8


def test_isotopes_lower_the_symmetry():
    m, x = shape(METHANE)
    m[1] = 2.0
    assert symmetry_number(m, x) == 3


@pytest.mark.parametrize("text", [METHANE, BENZENE, list(SHAPES)[-1]])
def test_rounded_coordinates_have_the_rotations_of_a_group(text):
    """Two digits [angstrom] in any orientation: a divisor of the whole number (Lagrange), which is found to be near."""
    m, x = shape(text)
    whole, rng = SHAPES[text][1], np.random.default_rng(7)
    for _ in range(25):
        turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        rounded = np.round(x @ turn * BOHR_IN_ANGSTROM, 2) / BOHR_IN_ANGSTROM
        found = symmetry(m, rounded)
        assert whole % found.number == 0 and found.nearly == whole and found.off < 0.04
        assert symmetry_number(m, np.round(x @ turn, 4)) == whole


# ---------------------------------------------------------------------------------------------------- thermochemistry

FIVE = {
    "H 0 0 0; H 0 0 0.74": 0,
    "O 0 0 0.12; H 0 0.757 -0.469; H 0 -0.757 -0.469": 0,
    "N 0 0 0.1; H 0.94 0 -0.27; H -0.47 0.814064 -0.27; H -0.47 -0.814064 -0.27": 0,
    "O 0 0 0; O 0 0 1.21": 2,
    METHANE: 0,
}


@pytest.mark.parametrize("text", [pytest.param(text, marks=[slow] * (text not in list(FIVE)[:2])) for text in FIVE])
def test_thermochemistry_is_pyscfs(text):
    """1e-6 hartree of all energies and T S, at two temperatures and pressures; from the same Hessian and masses."""
    result = solved(text, spin=FIVE[text])
    found = result.vibrations("average")
    mf = result.to_pyscf()
    w = thermo.harmonic_analysis(mf.mol, found.hessian.transpose(0, 2, 1, 3))["freq_au"]
    for temperature, pressure in ((298.15, 101325.0), (1000.0, 1e3)):
        theirs = thermo.thermo(mf, w, temperature, pressure)
        ours = found.thermochemistry(temperature, pressure, theirs["sym_number"][0])
        assert ours.symmetry_number == found.symmetry_number
        for value, name in (
            (ours.energy_at_zero, "E_0K"),
            (ours.internal_energy, "E_tot"),
            (ours.enthalpy, "H_tot"),
            (ours.gibbs_energy, "G_tot"),
        ):
            assert value == pytest.approx(theirs[name][0], abs=1e-6)
        assert temperature * ours.entropy == pytest.approx(temperature * theirs["S_tot"][0], abs=1e-6)
        assert temperature * ours.heat_capacity == pytest.approx(temperature * theirs["Cp_tot"][0], abs=1e-6)


def test_quasi_harmonic_entropies(water):
    """A mode of 100 cm^-1 is half an oscillator, half a rotor in Grimme's way; stiff modes stay; Truhlar's floor."""
    _, found = water
    plain = found.thermochemistry()
    for way in ("grimme", "truhlar"):
        assert found.thermochemistry(quasi_harmonic=way).gibbs_energy == pytest.approx(plain.gibbs_energy, abs=1e-8)
    scale = 50.0 / found.wavenumbers[0]
    soft = dataclasses.replace(found, hessian=found.hessian * scale**2)
    assert soft.wavenumbers[0] == pytest.approx(50.0)
    entropy = {
        way: soft.thermochemistry(quasi_harmonic=way).parts["vibrations"].entropy for way in (None, "grimme", "truhlar")
    }
    assert max(entropy["truhlar"], entropy["grimme"]) < entropy[None]
    # by hand, in SI units: S. Grimme, eqs. 3 to 8
    h, k, c, N = 6.626070040e-34, 1.38064852e-23, 2.99792458e10, 6.022140857e23
    total = 0.0
    for w in soft.wavenumbers:
        x = h * c * w / (k * 298.15)
        mu = h / (8 * np.pi**2 * c * w)
        mu = mu * 1e-44 / (mu + 1e-44)
        rotor = 0.5 + np.log(np.sqrt(8 * np.pi**3 * mu * k * 298.15 / h**2))
        share = 1 / (1 + (100 / w) ** 4)
        total += k * N * (share * (x / (np.exp(x) - 1) - np.log(1 - np.exp(-x))) + (1 - share) * rotor)
    assert entropy["grimme"] * 2625.49963948e3 == pytest.approx(total, rel=1e-7)


def test_imaginary_modes_are_left_out_and_said():
    found = solved("H 0 0 0; H 0 0 1.0; H 0 0 2.0", spin=1, method="UKS").vibrations()
    assert found.n_imaginary >= 1 and found.wavenumbers[0] < 0 and "imaginary" in str(found)
    gas = found.thermochemistry()
    assert gas.n_imaginary == found.n_imaginary and "LEFT OUT" in str(gas)
    assert gas.zero_point == pytest.approx(found.wavenumbers[found.wavenumbers > 0].sum() / 2 / 219474.6313702)


# -------------------------------------------------------------------------------------------------- what can go wrong


def test_an_interrupted_run_goes_on_where_it_was(tmp_path, monkeypatch):
    """Displacements that were done are not computed again; the numbers are those of an uninterrupted run."""
    result, path = solved("H 0 0 0; H 0 0 0.8"), tmp_path / "record.h5"
    whole, solve, calls = result.vibrations(method="differences"), hessian.solution_at, []

    def counted(*arguments, limit):
        if len(calls) >= limit:
            raise KeyboardInterrupt
        calls.append(1)
        return solve(*arguments)

    monkeypatch.setattr(hessian, "solution_at", lambda *a: counted(*a, limit=5))
    with pytest.raises(KeyboardInterrupt):
        result.vibrations(record=path)
    with pytest.raises(FileError, match="restart=True"):
        result.vibrations(record=path)
    monkeypatch.setattr(hessian, "solution_at", lambda *a: counted(*a, limit=12))
    again = result.vibrations(record=path, restart=True)
    assert len(calls) == 12 and np.array_equal(again.hessian, whole.hessian)
    with pytest.raises(CheckpointError, match="of another calculation: differences .3-point differences, step 0.005"):
        result.vibrations(record=path, restart=True, step=1e-3)
    with pytest.raises(InputError, match="needs the record="):
        result.vibrations(restart=True)
    with pytest.raises(InputError, match="need method='differences'"):
        result.vibrations(raman=True, method="response")
    lines = path.read_text().splitlines()
    digit = re.search(r"\d{6}", lines[2]).start()
    lines[2] = lines[2][:digit] + str((int(lines[2][digit]) + 1) % 10) + lines[2][digit + 1 :]
    path.write_text("\n".join([*lines, ""]))
    with pytest.raises(DamagedFileError, match="line 3: the line was changed"):
        result.vibrations(record=path, restart=True)


def test_what_has_no_vibrations_says_so():
    grid = dftfd.molecular_grid([2], np.zeros((1, 3)), 3)
    helium = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    with pytest.raises(InputError, match="grid_level= for vibrations"):
        dftfd.run_scf(helium, "lda,vwn", grid=grid).vibrations()
    unconverged = dftfd.run_scf(dftfd.molecule(WATER, basis="sto-3g"), "hf", max_cycles=1)
    with pytest.raises(NotConvergedError):
        unconverged.hessian()
    atom = dftfd.run_scf(helium, "hf").vibrations()
    assert atom.wavenumbers.shape == (0,) and atom.thermochemistry().zero_point == 0.0
    assert atom.thermochemistry().parts["rotation"].energy == 0.0 and str(atom)


def test_surroundings_hold_a_molecule():
    """In a field the whole is not free to turn: nothing is left out, ghosts do not vibrate."""
    held = solved("H 0 0 0; H 0 0 0.74", electric_field=[0.0, 0.0, 0.02]).vibrations()
    assert not held.free and len(held.wavenumbers) == 6 and "surroundings" in str(held)
    with_ghost = solved("H 0 0 0; H 0 0 0.74; ghost-H 0 0 3.0").vibrations()
    assert with_ghost.hessian.shape == (2, 3, 2, 3) and not with_ghost.free


def test_the_sum_rule_counts_ghosts(tmp_path):
    """Moving all atoms and the functions of a ghost costs nothing (1e-7); what the ghost takes of it is in the file."""
    found = solved("H 0 0 0; H 0 0 0.74; ghost-H 0 0 1.6").vibrations()
    assert found.sum_rule < 1e-7 < 1e-4 < np.abs(found.hessian.sum(axis=0)).max()
    found.save(tmp_path / "v.h5")
    assert dftfd.load_vibrations(tmp_path / "v.h5").sum_rule == found.sum_rule


# -------------------------------------------------------------------------------------------------------------- files


def test_files_hold_what_was_found(water, tmp_path):
    result, found = water
    found.save(tmp_path / "v.h5")
    again = dftfd.load_vibrations(tmp_path / "v.h5")
    for field in dataclasses.fields(found):
        ours, theirs = getattr(found, field.name), getattr(again, field.name)
        assert (
            np.array_equal(ours, theirs)
            if isinstance(ours, np.ndarray)
            else json.loads(json.dumps(ours)) == json.loads(json.dumps(theirs))
        )
    assert str(again) == str(found)
    for ending in (".json", ".molden", ".xyz", ".csv"):
        found.write(tmp_path / f"v{ending}")
    document = json.loads((tmp_path / "v.json").read_text())
    assert document["driver"] == "hessian" and len(document["return_result"]) == 81
    np.testing.assert_allclose(np.reshape(document["return_result"], (3, 3, 3, 3)), found.hessian)
    table = np.genfromtxt(tmp_path / "v.csv", delimiter=",", names=True)
    np.testing.assert_allclose(table["wavenumber_per_cm"], found.wavenumbers)
    ase = pytest.importorskip("ase.io")
    frames = ase.read(tmp_path / "v.xyz", ":")
    assert [frame.info["wavenumber"] for frame in frames] == pytest.approx(found.wavenumbers.tolist(), abs=1e-3)
    np.testing.assert_allclose(frames[1].arrays["displacement"], found.modes[1], atol=1e-7)
    molden = (tmp_path / "v.molden").read_text().split("[FREQ]")[1].split()
    assert [float(w) for w in molden[:3]] == pytest.approx(found.wavenumbers.tolist(), abs=1e-5)
    with pytest.raises(InputError, match=r"must end in \.h5"):
        found.write(tmp_path / "v.txt")
    with pytest.raises(FileError):
        dftfd.load_vibrations(tmp_path / "none.h5")
    result.save(tmp_path / "result.h5")
    with pytest.raises(FileError, match="no vibrations"):
        dftfd.load_vibrations(tmp_path / "result.h5")


def test_pictures_and_the_report(water, tmp_path):
    pytest.importorskip("matplotlib", exc_type=MissingDependencyError | ImportError)
    _, found = water
    for ending in (".svg", ".html"):
        found.write(tmp_path / f"v{ending}")
    page = (tmp_path / "v.html").read_text()
    assert "<svg" in page and "Gibbs" in page and page.count("<script>") == page.count("<script") == 1
    assert page.count("<button") == len(found.wavenumbers)


def test_the_command(tmp_path, capsys):
    words = ["frequencies", "H 0 0 0; H 0 0 0.8", "--basis", "sto-3g", "--xc", "hf", "--isotopes", "0:2"]
    output = tmp_path / "v.h5"
    more = ["--temperature", "300", "--output", str(output), "--record", str(tmp_path / "r.h5")]
    assert main([*words, *more]) == 0
    said = capsys.readouterr().out
    assert "forces at displaced geometries, 3-point differences" in said and "thermochemistry at 300 K" in said
    assert dftfd.load_vibrations(output).masses[0] == 2.014101778
    for more, words_of_error, code in (
        (["--isotopes", "D"], "names no isotopes", 2),
        (["--output", "v.txt"], "must end in", 2),
        (["--points", "3"], "2 or 4 points", 2),
        (["--temperature", "-1"], "kelvin", 2),
        (["--output", str(output)], "--overwrite", 5),
    ):
        assert main([*words, *more]) == code
        assert words_of_error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("xc", "fit"),
    [
        ("hf", True),
        ("lda,vwn", True),
        *(pytest.param(*of, marks=slow) for of in (("pbe", True), ("b3lyp", True), ("b3lyp", False))),
    ],
)
def test_a_spin_without_electrons(xc, fit):
    """H2+ by responses against differences of forces."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0 1.06", "sto-3g", 1, 1)
    result = dftfd.run_scf(molecule, xc, density_fit=fit, grid_level=0, conv_tol=1e-11)
    found, expected = (result.hessian(method=how) for how in ("response", "differences"))
    assert found == pytest.approx(expected, abs=5e-5) and abs(found).max() > 0.05


def test_a_hydrogen_atom_writes_all_files(tmp_path):
    command = ["frequencies", "H 0 0 0;", "--spin", "1", "--basis", "sto-3g", "--xc", "hf"]
    outputs = [tmp_path / f"a{ending}" for ending in (".h5", ".json", ".molden", ".xyz", ".csv", ".html")]
    assert main([*command, *(word for path in outputs for word in ("--output", str(path)))]) == 0
    again = dftfd.load_vibrations(outputs[0])
    assert all(path.exists() for path in outputs) and again.modes.shape == (0, 1, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--temperature", "0"),
        ("--pressure", "0"),
        ("--symmetry-number", "0"),
        ("--quasi-harmonic", "foo"),
        ("--isotopes", "5:2"),
        ("--isotopes", "0:99"),
        ("--derivatives", "foo"),
        ("--points", "3"),
        ("--step", "3"),
        ("--restart",),
    ],
)
def test_wrong_arguments_of_the_command_end_before_the_scf(wrong, capsys):
    assert main(["frequencies", "H 0 0 0; H 0 0 0.74", "--basis", "sto-3g", *wrong]) == 2
    assert "cycle" not in capsys.readouterr().out


def dependent_basis():
    """A result of H2 beside functions of a ghost, and slopes of its forces along a direction, of 1e-3 bohr."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0.05 0.75; ghost-H 0 0 0.2", basis="aug-cc-pvdz")
    options = dict(xc="lda,pw", linear_dependence=1e-3, grid_level=0, conv_tol=1e-12)
    direction = np.random.default_rng(3).normal(size=(3, 3))
    direction /= np.linalg.norm(direction)
    forces = lambda step: dftfd.run_scf(molecule.at(molecule.coordinates + step * direction), **options).forces()
    slopes = (forces(-1e-3) - forces(1e-3)) / 2e-3
    return dftfd.run_scf(molecule, **options), direction, slopes


@pytest.mark.slow
def test_hessian_of_a_linearly_dependent_basis_is_the_slope_of_the_forces():
    """Of both numbers of points: the space of kept functions turns within the usual steps, and is cut elsewhere."""
    result, direction, slopes = dependent_basis()
    for points in (2, 4):
        found = np.einsum("axby,by->ax", result.hessian(points=points), direction)
        np.testing.assert_allclose(found, slopes, atol=1e-4)
    assert "left out" in result.vibrations().method


def test_steps_that_a_dependent_basis_does_not_bear_are_told_or_refused():
    """A long step of the user's is a warning or, where the number of kept functions changes, an error."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0.05 0.75; ghost-H 0 0 0.2", basis="aug-cc-pvdz")
    result = dftfd.run_scf(molecule, xc="lda,pw", linear_dependence=1e-3, grid_level=0)
    with pytest.raises(InputError, match="basis functions, the geometry itself"):
        with pytest.warns(InputWarning):
            result.hessian(step=0.05)


def test_isotopes_count_ghost_atoms():
    """Beside a ghost, atom 1 of the molecule is the first hydrogen; the ghost has no mass to choose."""
    molecule = dftfd.molecule("ghost-He 0 0 -4; H 0 0 0; F 0 0 0.92", basis="sto-3g")
    vibrations = dftfd.run_scf(molecule, "hf").vibrations(isotopes={1: 2})
    np.testing.assert_allclose(vibrations.masses, [2.014101778, 18.998403], atol=1e-4)
    np.testing.assert_array_equal(vibrations.with_isotopes({1: 2}).masses, vibrations.masses)
    with pytest.raises(InputError, match="atom 0; atoms with nuclei are 1, 2"):
        vibrations.with_isotopes({0: 2})


def test_second_derivatives_build_their_ingredients_once(monkeypatch):
    """The response goes on from what the tight SCF was solved with."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0 0.75", basis="sto-3g")
    result, build, built = dftfd.run_scf(molecule, xc="lda,", grid_level=1), Calculation.build, []
    monkeypatch.setattr(Calculation, "build", lambda *a: built.append(a) or build(*a))
    result.hessian()
    assert len(built) == 1
