"""What must not change an energy: translation, the order of atoms, the names of the spins, the number of threads.

With every orbital kept at every point energies agree to rounding; with screening, whose blocks depend on the order of
the points, to 1e-9 hartree. The expected number is always that of the calculation as first written down.
"""

import functools

import numpy as np
import pytest

import dftfd
from dftfd.terms import on_grid
from dftfd.xc.ao_store import AOStore

PEROXIDE = "O 0 0.7 -0.05; O 0 -0.7 -0.05; H 0.81 0.92 0.42; H -0.83 -0.9 0.4"  # no two atoms are equivalent
AMINYL = "N 0 0 0.14; H 0 0.8 -0.5; H 0.05 -0.79 -0.49"
SHIFT = np.array([3.0, -5.0, 0.7])  # bohr
ALL = ["pbe", *(pytest.param(xc, marks=pytest.mark.slow) for xc in ("r2scan", "camb3lyp", "r2scanl", "wb97m-v"))]


@pytest.fixture(
    params=[pytest.param(0.0, id="all orbitals", marks=pytest.mark.slow), pytest.param(None, id="screened")]
)
def tolerances(request, monkeypatch):
    """(translation, atom order, spin flip; RKS = UKS, threads) [hartree], with screening of orbitals off or on."""
    if request.param is None:
        return 1e-9, 1e-9
    monkeypatch.setattr(on_grid, "AOStore", functools.partial(AOStore, cutoff=0.0))
    return 1e-11, 1e-10


def energy(system, xc="pbe", method="auto", **options):
    """Converged as far as rounding allows."""
    options = {"grid_level": 1, "nlc_grid_level": 0, "conv_tol": 1e-13, "density_fit": False} | options
    result = dftfd.run_scf(system, xc, method, **options)
    assert result.converged
    return result.energy


def radical(spin=1, atoms=AMINYL):
    """Aminyl, whose ground state is not degenerate."""
    return dftfd.molecule(atoms, basis="6-31g", spin=spin)


@pytest.mark.parametrize("xc", ALL)
def test_translation_and_order_of_atoms(xc, tolerances):
    """A molecule elsewhere, and with its atoms the other way round."""
    system = radical()
    expected = energy(system, xc)
    moved = energy(system.at(system.coordinates + SHIFT), xc)
    turned = energy(radical(atoms="; ".join(reversed(AMINYL.split("; ")))), xc)
    assert moved == pytest.approx(expected, abs=tolerances[0])
    assert turned == pytest.approx(expected, abs=tolerances[0])


@pytest.mark.parametrize("fitted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_order_of_atoms_with_four_different_ones(fitted, tolerances):
    """Hydrogen peroxide with its atoms in another order, exact and fitted integrals."""
    atoms = PEROXIDE.split("; ")
    expected, other = (
        energy(dftfd.molecule("; ".join(atoms[k] for k in order), basis="6-31g"), density_fit=fitted)
        for order in ((0, 1, 2, 3), (2, 1, 3, 0))
    )
    assert other == pytest.approx(expected, abs=tolerances[0])


@pytest.mark.parametrize("xc", ALL)
def test_names_of_the_spins(xc, tolerances):
    """spin = -1 is spin = 1 with alpha and beta exchanged."""
    assert energy(radical(-1), xc) == pytest.approx(energy(radical(), xc), abs=tolerances[0])


@pytest.mark.parametrize("xc", ALL)
def test_closed_shells_with_one_or_two_spins(xc, tolerances):
    """RKS and UKS of hydrogen peroxide."""
    system = dftfd.molecule(PEROXIDE, basis="6-31g")
    assert energy(system, xc, "UKS") == pytest.approx(energy(system, xc, "RKS"), abs=tolerances[1])


@pytest.mark.parametrize("fitted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_number_of_threads(fitted, tolerances, monkeypatch):
    """One worker and two."""
    system, energies = dftfd.molecule(PEROXIDE, basis="6-31g"), []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        energies.append(energy(system, "pbe0", density_fit=fitted))
    assert energies[0] == pytest.approx(energies[1], abs=tolerances[1])
