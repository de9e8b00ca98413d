"""The ASE Calculator: units, caching, parameters, and ASE's own tools on top of it."""

import warnings

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import molecule as ase_molecule
from ase.calculators.calculator import PropertyNotImplementedError, SCFError
from ase.optimize import BFGS

import dftfd
from dftfd.ase import DFTFD
from dftfd.errors import InputError, InputWarning, UnsupportedError

LIGHT = {"xc": "lda,vwn", "basis": "sto-3g", "grid_level": 0}


@pytest.fixture
def runs(monkeypatch):
    """Counts SCF runs: a list of the guesses they started from."""
    guesses = []

    def counted(*arguments, **options):
        guesses.append(options.get("guess", "minao"))
        return dftfd.run_scf(*arguments, **options)

    monkeypatch.setattr("dftfd.ase.run_scf", counted)
    return guesses


def water(**parameters):
    atoms = ase_molecule("H2O")
    atoms.calc = DFTFD(**LIGHT | parameters)
    return atoms


def test_properties_are_those_of_the_result_in_ase_units():
    """Energy in eV, forces in eV/angstrom, dipole in e angstrom, charges and moments per atom, of the NH2 radical."""
    atoms = Atoms("NH2", positions=[[0, 0, 0.14], [0, 0.8, -0.49], [0, -0.8, -0.49]], magmoms=[1, 0, 0])
    atoms.calc = DFTFD(**LIGHT, scheme="loewdin")
    system = dftfd.molecule("N 0 0 0.14; H 0 0.8 -0.49; H 0 -0.8 -0.49", basis="sto-3g", spin=1)
    result = dftfd.run_scf(system, "lda,vwn", grid_level=0)
    assert atoms.get_potential_energy() == pytest.approx(result.energy * 27.211386, rel=1e-7)
    np.testing.assert_allclose(atoms.get_forces(), result.forces() * 51.42207, atol=1e-4)
    np.testing.assert_allclose(atoms.get_dipole_moment() / units.Debye, result.dipole_debye, atol=1e-5)
    np.testing.assert_allclose(atoms.get_charges(), result.charges("loewdin"), atol=1e-6)
    np.testing.assert_allclose(atoms.get_magnetic_moments(), result.spin_populations("loewdin"), atol=1e-6)
    assert atoms.get_magnetic_moment() == 1.0
    with pytest.raises(PropertyNotImplementedError):
        atoms.get_stress()


def test_forces_are_the_derivative_of_the_energy():
    """Central difference of ASE's energy along one coordinate: units of both belong together (1e-5 eV/angstrom)."""
    atoms = water(conv_tol=1e-12)
    force, step = atoms.get_forces()[1, 1], 3e-4
    energies = []
    for sign in (1, -1):
        atoms.positions[1, 1] += sign * step
        energies.append(atoms.get_potential_energy())
        atoms.positions[1, 1] -= sign * step
    assert force == pytest.approx((energies[1] - energies[0]) / (2 * step), abs=1e-5)


def test_nothing_is_computed_twice(runs):
    """One run serves all properties of a geometry; a moved atom needs another, from the last density; a cell none."""
    atoms = water()
    atoms.get_potential_energy()
    assert set(atoms.calc.results) == {"energy", "free_energy", "magmom"}
    atoms.get_forces(), atoms.get_dipole_moment(), atoms.get_charges(), atoms.get_potential_energy()
    atoms.set_cell([9, 9, 9])
    atoms.get_potential_energy()
    assert runs == ["minao"]
    first = atoms.calc.result
    atoms.positions[1] += 0.01
    atoms.get_potential_energy()
    assert len(runs) == 2 and runs[1] is first


def test_changed_parameters_change_the_result(runs):
    """`set` forgets results, and old orbitals with them; an equal value changes nothing; unknown names are refused."""
    atoms = water()
    energy = atoms.get_potential_energy()
    atoms.calc.set(xc="lda,vwn")
    assert atoms.get_potential_energy() == energy and len(runs) == 1
    atoms.calc.set(xc="hf")
    assert abs(atoms.get_potential_energy() - energy) > 1 and runs == ["minao"] * 2
    with pytest.raises(InputError, match="no option 'grid_lvel'; the closest ones are grid_level"):
        atoms.calc.set(grid_lvel=1)
    assert atoms.calc.todict()["grid_level"] == 0


def test_spin_from_initial_moments():
    """ASE's O2 has moments 1 and 1: a triplet. spin= overrides them with a warning; half an electron is refused."""
    atoms = ase_molecule("O2")
    atoms.calc = DFTFD(**LIGHT)
    atoms.get_potential_energy()
    assert atoms.calc.result.method == "UKS" and atoms.calc.result.molecule.spin == 2
    atoms.calc.set(spin=0)
    with pytest.warns(InputWarning, match="spin=2, but spin=0 was given"), warnings.catch_warnings():
        # pytest.warns records what pyproject.toml lets pass, and issues it again under another module's name
        warnings.filterwarnings("ignore", "Setting the shape", DeprecationWarning, "ase")  # NumPy 2.5
        atoms.get_potential_energy()
    assert atoms.calc.result.method == "RKS"
    atoms.calc.set(spin=None)
    atoms.set_initial_magnetic_moments([0.5, 0])
    with pytest.raises(InputError, match="add up to 0.5"):
        atoms.get_potential_energy()


def test_errors_reach_ase(runs):
    """No convergence is ASE's SCFError; periodic atoms are refused; neither leaves a result behind."""
    atoms = water(max_cycles=1, convergence="diis")
    with pytest.raises(SCFError, match="not converged after 1"):
        atoms.get_potential_energy()
    with pytest.raises(SCFError):
        atoms.get_forces()
    assert len(runs) == 2
    atoms = water()
    atoms.set_pbc(True)
    with pytest.raises(UnsupportedError, match="periodic"):
        atoms.get_potential_energy()


def test_smeared_runs_give_the_free_energy():
    """Forces belong to E - T S, which ASE asks for with force_consistent."""
    atoms = water(smearing=0.05)
    result_energy, free = atoms.get_potential_energy(), atoms.get_potential_energy(force_consistent=True)
    assert free - result_energy == pytest.approx(atoms.calc.result.entropy_term * units.Hartree, abs=1e-9)
    assert free < result_energy


@pytest.mark.slow  # 2 s; test_forces_are_the_derivative_of_the_energy is quick
def test_bfgs_finds_the_geometry_of_water():
    """ASE's BFGS, from a distorted start, ends at the minimum that PySCF 2.14 and geomeTRIC find.

    SVWN/def2-SVP, density fitting, grid level 3 with grid response, conv_tol 1e-11, gradient below 2e-6 hartree/bohr:
    r(OH) = 0.974164 angstrom, angle 102.9825 degrees.
    """
    atoms = Atoms("OH2", positions=[[0, 0, 0.1], [0, 0.80, -0.45], [0, -0.70, -0.50]])
    atoms.calc = DFTFD(xc="lda,vwn", conv_tol=1e-10)
    with BFGS(atoms, logfile=None) as optimiser:
        assert optimiser.run(fmax=0.002, steps=25)
    assert atoms.get_distance(0, 1) == pytest.approx(0.974164, abs=1e-4)
    assert atoms.get_distance(0, 2) == pytest.approx(0.974164, abs=1e-4)
    assert atoms.get_angle(1, 0, 2) == pytest.approx(102.9825, abs=0.02)
