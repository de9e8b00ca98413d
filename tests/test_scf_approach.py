"""Starts from a cheaper energy: the solution is that of the full problem, with few of its matrices built."""

import numpy as np
import pytest

import dftfd
from dftfd.model import calculation
from dftfd.runtime.progress import Progress
from dftfd.scf.approach import approach
from dftfd.scf.convergence import STRATEGIES, Convergence
from dftfd.scf.loop import solve
from dftfd.scf.orbitals import Aufbau
from dftfd.scf.problem import Problem
from dftfd.tasks import run as cheaper
from dftfd.xc.matrix import XCBuilder
from tests.sample import sample

NAPHTHALENE = """
C  0.0000  0.7080 0
C  0.0000 -0.7080 0
C  1.2397  1.3946 0
C -1.2397  1.3946 0
C  1.2397 -1.3946 0
C -1.2397 -1.3946 0
C  2.4265  0.7080 0
C -2.4265  0.7080 0
C  2.4265 -0.7080 0
C -2.4265 -0.7080 0
H  1.2400  2.4860 0
H -1.2400  2.4860 0
H  1.2400 -2.4860 0
H -1.2400 -2.4860 0
H  3.3720  1.2440 0
H -3.3720  1.2440 0
H  3.3720 -1.2440 0
H -3.3720 -1.2440 0
"""


class Counted:
    """A builder's `build`, counting calls by the number of grid points."""

    def __init__(self, monkeypatch, kind, size):
        self.calls, build = [], kind.build

        def counting(builder, *args):
            self.calls.append(size(builder))
            return build(builder, *args)

        monkeypatch.setattr(kind, "build", counting)


@pytest.mark.slow  # 4 s; such a start is counted below, and shown in test_notes
@pytest.mark.parametrize(
    ("xc", "charge"),
    [("pbe", 0), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("pbe", 1), ("b3lyp", 0)))],
)
def test_coarse_grid_first(monkeypatch, xc, charge):
    """Naphthalene and its cation: the energy of a run on the fine grid alone to 1e-9, with at most half its builds."""
    molecule = dftfd.molecule(NAPHTHALENE, basis="sto-3g", charge=charge, spin=charge)
    counted = Counted(monkeypatch, XCBuilder, lambda builder: builder.store.n_points)
    found = dftfd.run_scf(molecule, xc=xc, grid_level=2)
    fine = max(counted.calls)
    with_start = counted.calls.count(fine)
    counted.calls.clear()
    monkeypatch.setattr(calculation, "HEAVY_ATOMS", 1000)
    plain = dftfd.run_scf(molecule, xc=xc, grid_level=2, convergence="fast")  # auto would look at open shells
    assert found.converged and "grid level 0" in found.steps[0] and not plain.steps
    assert abs(found.energy - plain.energy) < 1e-9
    assert 2 * with_start <= counted.calls.count(fine) == len(counted.calls)


@pytest.mark.parametrize("xc", ["pbe", *(pytest.param(xc, marks=pytest.mark.slow) for xc in ("b3lyp", "r2scan"))])
def test_an_end_by_correction_is_one(xc, monkeypatch):
    """Where the last exact matrix was not built, it would have been the one that stands there: built now, it has the
    result's energy and components to 1e-9 hartree, and a gradient below a tenth of the threshold."""
    molecule = dftfd.molecule(NAPHTHALENE, basis="sto-3g")
    counted = Counted(monkeypatch, XCBuilder, lambda builder: (builder.store.n_points, builder.store.dtype.name))
    found = dftfd.run_scf(molecule, xc=xc, grid_level=2)
    finest = max(counted.calls)[0]
    assert found.converged and "its last matrix corrected" in found.steps[0]
    assert counted.calls.count((finest, "float64")) == 1 == counted.calls.count((finest, "float32"))
    ingredients = found.calculation.build(Progress())
    problem = ingredients.problem(Aufbau((34,), 2))
    exact = problem.state_of(found.mo_energy, found.mo_occ, found.mo_coeff, 0)
    assert problem.gradient_norm(exact) < 0.1 * Convergence().gradient
    assert found.energy == pytest.approx(exact.energy, abs=1e-9)
    for name, energy in exact.evaluation.energies.items():
        assert found.energies[name] == pytest.approx(energy, abs=1e-9), name


def test_double_integrals_late(monkeypatch):
    """VV10 of water: the energy of a run that has it in every cycle to 1e-9, with at most half the builds."""
    molecule = dftfd.molecule("O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587", basis="sto-3g")
    from dftfd.xc.nonlocal_kernel import NonlocalXCBuilder

    counted = Counted(monkeypatch, NonlocalXCBuilder, lambda builder: 0)
    options = {"xc": "pbe + 1.0*vv10", "grid_level": 1, "nlc_grid_level": 0}
    found = dftfd.run_scf(molecule, **options)
    late = len(counted.calls)
    counted.calls.clear()
    monkeypatch.setattr(cheaper, "cheaper_ingredients", lambda *args: None)
    plain = dftfd.run_scf(molecule, **options)
    assert abs(found.energy - plain.energy) < 1e-9
    assert "without double integrals" in found.steps[0]
    assert 2 * late <= len(counted.calls)


class Quadratic:
    """E = tr(P H) + 1/2 tr(P G P G): a model energy whose Fock matrix depends on P."""

    def __init__(self, H, G):
        self.H, self.G = H, G

    def __call__(self, P, C_occ=None):
        from dftfd.model.kohn_sham import FockEvaluation

        F = self.H + self.G @ P[0] @ self.G
        E = float(np.sum(P[0] * self.H) + 0.5 * np.sum(P[0] * (self.G @ P[0] @ self.G)))
        return FockEvaluation(F[None], {"model": E}, None, {"model": F[None]})


def model(difference, gap=1.0, n=8):
    rng = np.random.default_rng(3)
    levels = np.diag(np.concatenate([np.linspace(-2, -1, 3), np.linspace(-1 + gap, 2, n - 3)]))
    A, B = (rng.normal(size=(n, n)) for _ in range(2))
    G = 0.05 * (A + A.T)
    H = levels + difference * (B + B.T)
    return Problem(Quadratic(H, G), np.eye(n), np.eye(n), Aufbau((3,), 2)), np.diag([2.0] * 3 + [0.0] * (n - 3))[None]


def test_correction_is_of_second_order():
    """A model whose cheaper problem differs by a constant matrix: the corrected one is the full one, to convergence."""
    cheap, P = model(0.0)
    full, _ = model(0.02)
    start = approach(cheap, full, [P], STRATEGIES["auto"], 50, Convergence())
    expected = solve(full, P).state
    assert full.gradient_norm(start.state) < 1e-4
    assert abs(start.state.energy - expected.energy) < 1e-8
    solution = solve(full, start.state, memory=start.memory)
    assert solution.converged and solution.cycles <= 2
    assert abs(solution.state.energy - expected.energy) < 1e-10


def test_vanishing_gap_is_not_trusted():
    """Where the cheaper problem's gap is below 0.03 hartree, or its cycles do not suffice, the guess is kept."""
    cheap, P = model(0.0, gap=0.01)
    assert approach(cheap, cheap, [P], STRATEGIES["auto"], 50, Convergence()) is None
    cheap, P = model(0.3)
    assert approach(cheap, cheap, [P], STRATEGIES["auto"], 1, Convergence()) is None


@pytest.mark.parametrize("convergence", sample([None, "second-order"], at=[0]))
def test_minimisers_start_as_they_are_told(convergence):
    """Strategies that minimise in any case, and given densities, take no cheaper start."""
    molecule = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    options = {"xc": "pbe + 1.0*vv10", "grid_level": 0, "nlc_grid_level": 0}
    begun = dftfd.run_scf(molecule, **options)
    assert any("double integrals" in step for step in begun.steps)
    other = {"convergence": convergence} if convergence else {"guess": begun}
    assert not any("double integrals" in step for step in dftfd.run_scf(molecule, **options, **other).steps)


def test_given_points_begin_on_a_coarse_grid():
    """Those of a level, given, lead to its energy with the same preliminary cycles; fewer points than a coarse grid's
    have none."""
    molecule = dftfd.molecule("H 0 0 -3.3; C 0 0 -2.2; C 0 0 -1.0; C 0 0 0.4; C 0 0 1.6; H 0 0 2.7", basis="sto-3g")
    by_level = dftfd.run_scf(molecule, "pbe", grid_level=2)
    given = dftfd.run_scf(molecule, "pbe", grid=dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, 2))
    assert abs(given.energy - by_level.energy) < 1e-10
    assert len(given.preliminary) == len(by_level.preliminary) > 5
    few = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, 1)
    assert not dftfd.run_scf(molecule, "pbe", grid=few).preliminary
