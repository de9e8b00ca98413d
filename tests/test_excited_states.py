"""Excited states: forces, relaxed dipole moments, optimisation. References: PySCF, energies nearby and in fields."""

import numpy as np
import pytest
from pyscf import gto, scf

import dftfd
from dftfd.cli import main
from dftfd.errors import CheckpointError, InputError, UnsupportedError
from dftfd.model.solved_calculation import solution_at
from dftfd.response.excitations import excitations_of
from dftfd.runtime.progress import Progress
from dftfd.scf.convergence import Convergence
from dftfd.tasks.optimization import FollowedState
from tests.sample import sample

slow = pytest.mark.slow
TIGHT = {"conv_tol": 1e-12}
WATER = "O 0 0 0.1; H 0.1 0.76 -0.48; H 0 -0.74 -0.5"
AMIDOGEN = "N 0 0 0.1; H 0.1 0.8 -0.5; H 0 -0.78 -0.52"


def solved(geometry=WATER, xc="hf", basis="sto-3g", spin=0, **options):
    molecule = dftfd.molecule(geometry, basis=basis, spin=spin) if isinstance(geometry, str) else geometry
    return dftfd.run_scf(molecule, xc, **TIGHT | options)


def energy_of(molecule, options, root, tda, spin):
    """Total energy [hartree] of an excited state by a calculation of its own.

    Excitation energies are off by the orbital gradient, not by its square: the SCF goes on until it is 1e-9.
    """
    result = dftfd.run_scf(molecule, **options)
    result = solution_at(result, molecule.coordinates, Convergence(1e-10, 100, 1e-9), Progress())
    assert result.converged
    return result.energy + excitations_of(result, root + 1, tda, spin, tolerance=1e-7).energies[root]


def slope_by_differences(result, direction, root=0, tda=False, spin=None, h=4e-3):
    """Derivative of an excited state's energy along a direction (atom, 3), from five points."""
    options = result.settings.options.changed() | {"guess": "minao", "progress": None}
    places = [result.molecule.at(result.molecule.coordinates + k * h * direction) for k in (-2, -1, 1, 2)]
    return float(np.dot([1, -8, 8, -1], [energy_of(at, options, root, tda, spin) for at in places])) / (12 * h)


def require_slope(result, root=0, tda=False, spin=None, h=4e-3, limit=1e-6):
    """Forces along a direction that moves all atoms, against energies; sums over atoms vanish: the grid moves, too."""
    direction = np.random.default_rng(3).normal(size=result.molecule.coordinates.shape)
    direction /= np.linalg.norm(direction)
    state = result.excitations(root + 2, tda, spin).state(root)
    expected = slope_by_differences(result, direction, root, tda, spin, h)
    assert -np.sum(state.forces * direction) == pytest.approx(expected, abs=limit)
    assert np.abs(state.forces.sum(axis=0)).max() < limit / 10


# ------------------------------------------------------------------------------------------------------------- forces


def pyscfs_forces(result, root, tda, triplet=False):
    """PySCF's forces (atom, 3) of an excited state in Hartree-Fock, exact integrals."""
    molecule = result.molecule
    atoms = list(zip(molecule.symbols, molecule.coordinates.tolist(), strict=True))
    mole = gto.M(atom=atoms, unit="bohr", basis=molecule.basis, spin=molecule.spin, verbose=0)
    mf = (scf.UHF if molecule.spin else scf.RHF)(mole)
    mf.conv_tol, mf.conv_tol_grad = 1e-13, 1e-9
    mf.kernel(dm0=np.array(result.density_matrix) if molecule.spin else result.density_matrix[0])
    td = mf.TDA() if tda else mf.TDHF()
    td.nstates, td.conv_tol = root + 3, 1e-11
    if not molecule.spin:
        td.singlet = not triplet
    td.kernel()
    gradient = td.nuc_grad_method()
    gradient.verbose = 0
    return -gradient.kernel(state=root + 1)


@pytest.mark.parametrize(
    ("spin", "triplet", "tda"),
    sample(
        [(0, False, False), (0, False, True), (0, True, False), (0, True, True), (1, False, False), (1, False, True)],
        at=[0, 3, 4],
    ),
)
def test_forces_of_hartree_fock_equal_pyscfs(spin, triplet, tda):
    """3e-7 hartree/bohr: singlets, triplets, open shells; full and Tamm-Dancoff, without a grid.

    It is PySCF that is off by 1e-7, whatever its thresholds: differences of energies are 4e-9 from ours.
    """
    result = solved(AMIDOGEN if spin else WATER, spin=spin, density_fit=False)
    found = result.excitations(3, tda, "triplet" if triplet else None).forces(1)
    if not (spin or triplet or tda):
        direction = np.array([[0.0, 0.6, 0.0], [0.0, 0.0, -0.8], [0.0, 0.0, 0.0]])
        assert -np.sum(found * direction) == pytest.approx(slope_by_differences(result, direction, 1), abs=2e-8)
    assert np.abs(found - pyscfs_forces(result, 1, tda, triplet)).max() < 3e-7


CASES = [  # functional, spin of the molecule, of the excitation, tda, options
    *[
        (xc, 0, spin, False, {})
        for xc in ("lda,vwn", "pbe", "r2scan", "b3lyp", "camb3lyp")
        for spin in ("singlet", "triplet")
    ],
    ("r2scanl", 0, "singlet", False, {}),  # its triplets, and double integrals: test_third_derivatives
    *[(xc, 1, None, False, {}) for xc in ("lda,vwn", "pbe", "r2scan", "b3lyp", "camb3lyp", "r2scanl")],
    *[(xc, 0, "singlet", True, {}) for xc in ("pbe", "r2scan", "b3lyp", "camb3lyp")],
    ("b3lyp", 1, None, True, {}),
    ("tpss", 0, "triplet", True, {"density_fit": False}),
    ("camb3lyp", 0, "singlet", False, {"density_fit": False}),
    ("b3lyp", 1, None, False, {"density_fit": False}),
]


@slow
@pytest.mark.filterwarnings("ignore")  # coarse grids, for which the derivatives are exact, too
@pytest.mark.parametrize(("xc", "unpaired", "spin", "tda", "options"), CASES)
@pytest.mark.one_in(2)
def test_forces_are_the_slopes_of_energies(xc, unpaired, spin, tda, options):
    """1e-6 hartree/bohr on a coarse grid: each kind of functional, exact and fitted integrals.

    Excitation energies of r2SCAN, second derivatives, have ripples of the length of 1e-3 bohr on such a grid.
    """
    result = solved(AMIDOGEN if unpaired else WATER, xc, "6-31g", unpaired, **{"grid_level": 0} | options)
    require_slope(result, 0, tda, spin, h=2e-4 if xc.startswith("r2scan") else 4e-3)


@pytest.mark.filterwarnings("ignore:the grid holds")
def test_forces_of_a_functional_are_slopes():
    """1e-6 hartree/bohr, PBE's triplet, fitted integrals, on a coarse grid that moves with the nuclei."""
    require_slope(solved("Li 0 0 0; H 0.3 0.2 1.5", "pbe", grid_level=0), 0, False, "triplet")


# ------------------------------------------------------------------------------------- relaxed densities, other things


def test_states_of_one_energy_have_forces():
    """Of a linear molecule, two: the equations, solved anew, give any combination of them."""
    require_slope(solved("F 0 0 0; H 0 0 0.9", density_fit=False))


def test_forces_in_a_solvent_are_those_of_equilibrium():
    """1e-6 hartree/bohr of energies at displaced geometries, whose cavities and charges are their own."""
    result = solved("Li 0 0 0; H 0.3 0.2 1.5", solvent="water")
    with pytest.raises(InputError, match="use equilibrium_solvation=True"):
        result.excitations(1).forces(0)
    direction, h = np.array([[0, 0, 0.6], [0, 0.8, 0]]), 4e-3

    def energy(shift):
        there = solved(solvent="water", geometry=result.molecule.at(result.molecule.coordinates + shift * direction))
        return there.energy + there.excitations(1, equilibrium_solvation=True).energies[0]

    slope = np.dot([1, -8, 8, -1], [energy(k * h) for k in (-2, -1, 1, 2)]) / (12 * h)
    found = result.excitations(1, equilibrium_solvation=True).forces(0)
    assert -np.sum(found * direction) == pytest.approx(slope, abs=1e-6)


@pytest.mark.filterwarnings("ignore:the grid holds")
@pytest.mark.parametrize(
    ("xc", "unpaired", "spin"),
    sample([("pbe", 0, "singlet"), ("hf", 1, None), ("lda,vwn", 0, "triplet")], at=[1]),
)
def test_the_dipole_moment_is_the_slope_of_the_energy_in_a_field(xc, unpaired, spin):
    """1e-6 e bohr, from five fields; the density has all electrons."""
    grid = {} if xc == "hf" else {"grid_level": 0}
    result = solved(AMIDOGEN if unpaired else WATER, xc, spin=unpaired, **grid)
    state, h, along = result.excitations(2, spin=spin).state(0), 1e-3, np.array([0.6, 0.0, 0.8])
    options = result.settings.options.changed() | {"guess": "minao", "progress": None}
    fields = [options | {"electric_field": k * h * along} for k in (-2, -1, 1, 2)]
    slope = np.dot([1, -8, 8, -1], [energy_of(result.molecule, at, 0, False, spin) for at in fields]) / (12 * h)
    assert state.dipole @ along == pytest.approx(-slope, abs=1e-6)
    S = result.calculation.build(Progress()).matrices.S
    assert np.sum(state.density_matrix * S) == pytest.approx(result.molecule.n_electrons, abs=1e-8)


@pytest.mark.slow  # 1 s; test_forces_of_a_functional_are_slopes and test_the_commands are quick
@pytest.mark.filterwarnings("ignore:the grid holds")
def test_a_state_says_what_it_is_and_forces_may_leave_out_the_grid():
    result = solved("Li 0 0 0; H 0 0 1.5", "lda,vwn", grid_level=0)
    found = result.excitations(2)
    state = found.state(1)
    assert state.energy == pytest.approx(result.energy + found.energies[1], abs=1e-8)
    assert state.excitation_energy == pytest.approx(found.energies[1], abs=1e-8)
    text = str(state)
    assert "excited state 2 (singlet), full linear response" in text and "dipole moment" in text
    assert np.abs(found.forces(1) - state.forces).max() < 1e-9
    without = found.state(1, grid_response=False)
    assert "LEFT OUT" in str(without) and np.abs(without.forces.sum(axis=0)).max() > 1e-6


def test_refusals(tmp_path):
    result = solved("Li 0 0 0; H 0 0 1.5", xc="hf")
    found = result.excitations(2)
    with pytest.raises(InputError, match="root 2: there are 2 roots, from 0"):
        found.state(2)
    found.save(tmp_path / "roots.h5")
    with pytest.raises(InputError, match="from a file do not contain the ground state"):
        dftfd.load_excitations(tmp_path / "roots.h5").forces(0)
    triplet = solved("O 0 0 0; O 0 0 1.2", "hf", spin=2)
    with pytest.raises(InputError, match="spin-flip states have no forces"):
        triplet.excitations(1, spin="flip").state(0)
    hydrogen = dftfd.molecule("H 0 0 0; H 0 0 0.8", basis="sto-3g")
    local = dftfd.run_scf(hydrogen, "lh07t_svwn", grid_level=0)
    with pytest.raises(UnsupportedError, match="excited-state forces are not implemented"):
        local.excitations(1).state(0)
    points = dftfd.molecular_grid([1, 1], hydrogen.coordinates, 1)
    given = dftfd.run_scf(hydrogen, "lda,vwn", grid=(np.asarray(points.points), np.asarray(points.weights)))
    with pytest.raises(InputError, match="a given grid does not move"):
        given.excitations(1).state(0)


# -------------------------------------------------------------------------------------------------------- optimisation


def test_an_excited_state_has_a_minimum_of_its_own(tmp_path):
    """H2's first singlet in Hartree-Fock: energies of the path fall, the slope at its end is zero by differences."""
    hydrogen, path = dftfd.molecule("H 0 0 0; H 0 0 0.9", basis="6-31g"), tmp_path / "path.xyz"
    found = dftfd.optimize(hydrogen, "hf", state=1, trajectory=path, conv_tol=1e-11)
    assert found.converged and found.state == 1 and found.excitations is not None
    assert "geometry of excited state 1 converged" in str(found)
    bond = np.linalg.norm(found.coordinates[-1][1] - found.coordinates[-1][0])
    assert bond > 1.8  # bohr: it is bound less than the ground state, whose bond has 1.38
    direction = np.array([[0, 0, -0.5], [0, 0, 0.5]])
    assert slope_by_differences(found.result, direction) == pytest.approx(0.0, abs=3e-4)
    total = found.result.energy + found.excitations.energies[found.state - 1]
    assert total == pytest.approx(found.energies[-1], abs=1e-8)
    again = dftfd.optimize(hydrogen, "hf", state=1, trajectory=path, restart=True, conv_tol=1e-11)
    assert again.n_computed == 0 and again.state == 1
    assert again.energies == pytest.approx(found.energies, abs=1e-12)
    with pytest.raises(CheckpointError, match="state .excited state 1. instead of .excited state 2."):
        dftfd.optimize(hydrogen, "hf", state=2, trajectory=path, restart=True, conv_tol=1e-11)


@pytest.mark.slow  # 2 s; test_an_excited_state_has_a_minimum_of_its_own is quick
def test_a_state_is_followed_where_others_cross_it():
    """Carbon monoxide's first Sigma- state is the third at 1.1 angstrom and the first at 1.4 (Hartree-Fock, CIS)."""
    followed, places = FollowedState(True, 3, True, None), {}
    for length in (1.1, 1.2, 1.25, 1.3, 1.4):
        result = solved(f"C 0 0 0; O 0 0 {length}")
        energy, _ = followed.at(result, Progress())
        places[length] = followed.root + 1
        # of Sigma- a reflection of both orbitals' plane leaves nothing: no dipole, and no partner of the same energy
        w = followed.excitations.energies
        assert np.sum(np.abs(w - w[followed.root]) < 1e-4) == 1
        assert followed.excitations.oscillator_strengths[followed.root] < 1e-8
        assert energy == pytest.approx(result.energy + w[followed.root], abs=1e-7)
    assert (places[1.1], places[1.4]) == (3, 1)
    again = FollowedState(True, 3, True, None)
    again.resume(result, energy)
    assert again.root == 0


def test_searches_that_excited_states_do_not_have():
    hydrogen = dftfd.molecule("H 0 0 0; H 0 0 0.9", basis="sto-3g")
    for options, words in (
        ({"state": 1, "transition_state": True}, "for the ground state only"),
        ({"state": 1, "hessian": "exact"}, "for the ground state only"),
        ({"state": 1, "spin": "flip"}, "spin-flip states have no forces"),
        ({"tda": True}, "choose one, as in state=1"),
        ({"spin": "triplet"}, "choose one, as in state=1"),
        ({"state": -1}, "state"),
    ):
        with pytest.raises(InputError, match=words):
            dftfd.optimize(hydrogen, "hf", **options)


def test_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    base = ["H 0 0 0; H 0 0 0.9", "--basis", "6-31g", "--xc", "hf"]
    assert main(["gradient", *base, "--state", "1", "--triplets"]) == 0
    assert "excited state 1 (triplet), full linear response" in capsys.readouterr().out
    assert main(["gradient", *base, "--tda"]) == 2
    assert "--tda is for an excited state; choose one, as in --state 1" in capsys.readouterr().err
    assert main(["gradient", *base, "--state", "1", "--numerical"]) == 2
    assert "--numerical is for the ground state; leave it out with --state" in capsys.readouterr().err
    assert main(["optimize", *base, "--state", "1", "--tda", "--max-steps", "2"]) == 3
    assert "geometry of excited state 1 NOT CONVERGED" in capsys.readouterr().out


@slow
def test_formaldehyde_is_pyramidal_in_its_first_excited_state(tmp_path):
    """PBE0, def2-SVP, from a bent start: stationary by differences of energies; CO longer than in the ground state."""
    start = "C 0 0 -0.55; O 0 0 0.76; H 0.25 0.94 -1.08; H 0.25 -0.94 -1.08"
    tight = {"optimizer": {"convergence_set": "GAU_TIGHT"}, "conv_tol": 1e-11}
    found = dftfd.optimize(dftfd.molecule(start, basis="def2-svp"), "pbe0", state=1, **tight)
    assert found.converged and found.state == 1
    C, O, H, K = found.coordinates[-1] * 0.529177210903
    normal = np.cross(H - C, K - C)
    above = np.degrees(np.arcsin(abs(normal @ (O - C)) / np.linalg.norm(normal) / np.linalg.norm(O - C)))
    assert np.linalg.norm(O - C) == pytest.approx(1.29, abs=0.02) and above == pytest.approx(34, abs=3)
    for direction in np.random.default_rng(2).normal(size=(2, 4, 3)):
        direction /= np.linalg.norm(direction)
        assert slope_by_differences(found.result, direction) == pytest.approx(0.0, abs=5e-5)
