"""Excited states: forces, relaxed dipole moments, optimisation. References: PySCF, energies nearby and in fields."""

import numpy as np
import pytest
from pyscf import gto, scf

import dftfd
from dftfd.cli import main
from dftfd.errors import FileError, InputError, UnsupportedError
from dftfd.response.excitations import excitations_of

slow = pytest.mark.slow
TIGHT = {"conv_tol": 1e-12}
WATER = "O 0 0 0.1; H 0.1 0.76 -0.48; H 0 -0.74 -0.5"
AMIDOGEN = "N 0 0 0.1; H 0.1 0.8 -0.5; H 0 -0.78 -0.52"


def solved(geometry=WATER, xc="hf", basis="sto-3g", spin=0, **options):
    return dftfd.run_scf(dftfd.molecule(geometry, basis=basis, spin=spin), xc, **TIGHT | options)


def energy_of(molecule, options, root, tda, spin):
    """Total energy [hartree] of an excited state by a calculation of its own."""
    result = dftfd.run_scf(molecule, **options)
    return result.energy + excitations_of(result, root + 1, tda, spin, tolerance=1e-7).energies[root]


def slope_by_differences(result, direction, root=0, tda=False, spin=None, h=4e-3):
    """Derivative of an excited state's energy along a direction (atom, 3), from five points."""
    options = result.settings.options.changed() | {"guess": "minao", "progress": None}
    places = [result.molecule.at(result.molecule.coordinates + k * h * direction) for k in (-2, -1, 1, 2)]
    return float(np.dot([1, -8, 8, -1], [energy_of(at, options, root, tda, spin) for at in places])) / (12 * h)


def require_slope(result, root=0, tda=False, spin=None, limit=1e-6):
    """Forces along a direction that moves all atoms, against energies; sums over atoms vanish: the grid moves, too."""
    direction = np.random.default_rng(3).normal(size=result.molecule.coordinates.shape)
    direction /= np.linalg.norm(direction)
    state = result.excitations(root + 2, tda, spin).state(root)
    expected = slope_by_differences(result, direction, root, tda, spin)
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


@pytest.mark.parametrize("tda", [False, True])
@pytest.mark.parametrize(("spin", "triplet"), [(0, False), (0, True), (1, False)])
def test_forces_of_hartree_fock_equal_pyscfs(spin, triplet, tda):
    """1e-7 hartree/bohr: singlets, triplets, open shells; full and Tamm-Dancoff, without a grid."""
    result = solved(AMIDOGEN if spin else WATER, spin=spin, density_fit=False)
    found = result.excitations(3, tda, "triplet" if triplet else None).forces(1)
    assert np.abs(found - pyscfs_forces(result, 1, tda, triplet)).max() < 1e-7


CASES = [  # functional, spin of the molecule, of the excitation, tda, options
    *[
        (xc, 0, spin, False, {})
        for xc in ("lda,vwn", "pbe", "r2scan", "b3lyp", "camb3lyp", "r2scanl")
        for spin in ("singlet", "triplet")
    ],
    *[(xc, 1, None, False, {}) for xc in ("lda,vwn", "pbe", "r2scan", "b3lyp", "camb3lyp", "r2scanl")],
    *[(xc, 0, "singlet", True, {}) for xc in ("pbe", "r2scan", "b3lyp", "camb3lyp")],
    ("b3lyp", 1, None, True, {}),
    ("tpss", 0, "triplet", True, {"density_fit": False}),
    ("camb3lyp", 0, "singlet", False, {"density_fit": False}),
    ("b3lyp", 1, None, False, {"density_fit": False}),
    ("wb97x-v", 0, "singlet", False, {"nlc_grid_level": 0}),
    ("vdw-df", 0, "triplet", False, {"nlc_grid_level": 0}),
]


@slow
@pytest.mark.filterwarnings("ignore")  # coarse grids, for which the derivatives are exact, too
@pytest.mark.parametrize(("xc", "unpaired", "spin", "tda", "options"), CASES)
def test_forces_are_the_slopes_of_energies(xc, unpaired, spin, tda, options):
    """1e-6 hartree/bohr on a coarse grid: each kind of functional, exact and fitted integrals."""
    options = ({"grid_level": 0} if xc != "hf" else {}) | options
    require_slope(solved(AMIDOGEN if unpaired else WATER, xc, "6-31g", unpaired, **options), 0, tda, spin)


@pytest.mark.parametrize(("xc", "spin"), [("pbe", "triplet"), ("camb3lyp", "singlet")])
def test_forces_of_two_functionals_are_slopes(xc, spin):
    """1e-6 hartree/bohr, fitted integrals, on a coarse grid that moves with the nuclei."""
    require_slope(solved("Li 0 0 0; H 0.3 0.2 1.5", xc, grid_level=0), 0, False, spin)
