"""Points for the search of functionals: compression of densities, reactions on points, scores with error bars."""

from dataclasses import replace

import numpy as np
import pytest
from pyscf import gto
from pyscf.dft import numint

import dftfd
from dftfd.benchmarks import BenchmarkSet, read_set
from dftfd.benchmarks.reactions import Reaction, Species
from dftfd.discovery import compression, damping, scores
from dftfd.discovery.compression import Ingredients, ingredients_of_orbitals
from dftfd.discovery.points import TrainingPoints, count_evaluation, ledger_in
from dftfd.errors import DamagedFileError, FileError, InputError
from dftfd.functionals.common import C_F, C_X, FERMI
from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.xc.pointwise import pointwise_kernel

POINTS = TrainingPoints.read()


def cloud(n_points=3000, seed=1):
    """A density whose ingredients scatter as in a molecule: spin densities from 1e-6 to 10, s to 3, alpha to 4."""
    rng = np.random.default_rng(seed)
    rho = 10 ** rng.uniform(-6, 1, (1, n_points)) * rng.uniform(0.7, 1.0, (2, n_points))
    s = rng.uniform(0, 3, n_points)
    gradient = s * 2 * (3 * np.pi**2) ** (1 / 3) * (2 * rho) ** (4 / 3) / 2  # of each spin, parallel
    sigma = np.stack([gradient[0] ** 2, gradient[0] * gradient[1], gradient[1] ** 2])
    uniform = 0.3 * (6 * np.pi**2) ** (2 / 3) * rho ** (5 / 3)
    tau = gradient**2 / (8 * rho) + rng.uniform(0, 4, n_points) * uniform
    return Ingredients(rng.uniform(0, 1, n_points) / rho.sum(axis=0), rho, sigma, tau)


def enhancement(xc, s2, alpha):
    """F_x of a functional at n = 1 without polarisation."""
    unit = 0.3 * (3 * np.pi**2) ** (2 / 3)
    sigma = 4 * (3 * np.pi**2) ** (2 / 3) * s2
    rows = np.stack([np.ones_like(s2), sigma, 0 * s2, sigma / 8 + unit * alpha])
    (e,) = pointwise_kernel(get_functional(xc), 1)(rows, 0)
    return e[0] / C_X


def correlation(xc, rs, zeta, s2, alpha):
    """eps_c of a functional of n, zeta and the total gradient and tau, shared by the spins as the density."""
    n = 3 / (4 * np.pi * rs**3)
    up, down = (1 + zeta) / 2, (1 - zeta) / 2
    sigma = 4 * FERMI ** (2 / 3) * s2 * n ** (8 / 3)
    d_s = 0.5 * ((1 + zeta) ** (5 / 3) + (1 - zeta) ** (5 / 3))
    tau = sigma / (8 * n) + C_F * n ** (5 / 3) * d_s * alpha
    rows = [up * n, down * n, up**2 * sigma, up * down * sigma, down**2 * sigma, 0 * n, 0 * n, up * tau, down * tau]
    (e,) = pointwise_kernel(get_functional(xc), 2)(np.stack(rows), 0)
    return e[0] / n


# --------------------------------------------------------------------------------------------------------- compression


def test_recombination_keeps_moments_signs_and_no_more_points_than_moments():
    """Caratheodory: as many positive weights as moments, each moment as before to 1e-10."""
    rng = np.random.default_rng(3)
    functions, weights = np.vander(rng.uniform(-1, 1, 700), 9).T, rng.uniform(0, 1, 700)
    found = compression.recombined(functions, weights)
    assert np.count_nonzero(found) <= 9 and found.min() >= 0
    np.testing.assert_allclose(functions @ found, functions @ weights, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("xc", ["gga_x_pbe", pytest.param("gga_x_b88", marks=pytest.mark.slow)])
def test_exchange_of_compressed_points_is_that_of_the_grid(xc):
    """A functional that the points do not know: the exchange energy of the whole functional on all points."""
    density = cloud()
    few = compression.compressed(compression.exchange_measure(density), cells=(512, 512))
    assert len(few.weights) < 250 and np.all(few.weights < 0)
    energy = few.weights @ enhancement(xc, *few.variables)
    assert energy == pytest.approx(density.energy(xc), rel=3e-6)


def test_correlation_of_compressed_points_is_that_of_the_grid():
    """PBE's correlation of a cloud without structure, to 2e-5 of it, by a seventh of the moments."""
    density = cloud()
    few = compression.compressed(compression.correlation_measure(density), (6, 2, 6, 6), (400, 60, 200, 200))
    assert len(few.weights) < 250 and np.all(few.weights > 0)
    energy = few.weights @ correlation("gga_c_pbe", *few.variables)
    assert energy == pytest.approx(density.energy("gga_c_pbe"), rel=2e-3)


def test_ingredients_of_orbitals_are_those_of_pyscf():
    """Density, gradient products and tau of two spins in the order of the grid, from PySCF's numerical integration."""
    molecule = dftfd.molecule("O 0 0 0; H 0 0 0.97", "6-31g", spin=1)
    rng = np.random.default_rng(5)
    occupied = [rng.normal(size=(molecule.n_ao, k)) for k in (5, 4)]
    ours = ingredients_of_orbitals(molecule, occupied, level=0)
    mole = gto.M(atom="O 0 0 0; H 0 0 0.97", basis="6-31g", spin=1, verbose=0)
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, 0)
    ao = numint.eval_ao(mole, np.asarray(grid.points), deriv=1)
    a, b = (numint.eval_rho(mole, ao, C @ C.T, xctype="MGGA", with_lapl=False) for C in occupied)
    rows = [a[0], b[0], *((x[1:4] * y[1:4]).sum(axis=0) for x, y in ((a, a), (a, b), (b, b))), a[4], b[4]]
    theirs = np.array(rows) @ np.asarray(grid.weights)
    found = np.concatenate([ours.rho, ours.sigma, ours.tau]) @ ours.weights
    np.testing.assert_allclose(found, theirs, rtol=1e-8)


# -------------------------------------------------------------------------------------------------------------- points


def test_energies_of_the_points_are_sums_over_each_molecule():
    """Against a loop, molecule by molecule; one molecule's part of them does not depend on the others."""
    F_x, eps_c = 1 + 0.1 * POINTS.x_s2, -0.01 * (1 + POINTS.c_zeta)
    E = POINTS.energies(F_x, eps_c)
    for m in (0, len(E) // 2, len(E) - 1):
        x, c = (slice(*offsets[m : m + 2]) for offsets in (POINTS.x_offsets, POINTS.c_offsets))
        by_hand = POINTS.base[m] + POINTS.x_weight[x] @ F_x[x] + POINTS.c_weight[c] @ eps_c[c]
        assert E[m] == pytest.approx(by_hand, abs=1e-9)
    few = POINTS.of("validation")
    there = [POINTS.molecules.index(name) for name in few.molecules]
    np.testing.assert_allclose(few.energies(1 + 0.1 * few.x_s2, -0.01 * (1 + few.c_zeta)), E[there], atol=1e-9)


def test_electrons_and_r2scan_of_the_shipped_points_are_right():
    """c_weight counts electrons, to what the centres of cells lose; r2SCAN errs by 3 to 5 kcal/mol for atomisation."""
    n_electrons = POINTS.sum_c(np.ones_like(POINTS.c_rs))
    np.testing.assert_allclose(n_electrons, np.round(n_electrons), rtol=2e-4)
    few = POINTS.chosen([r == "training" and s == "W4-17" for r, s in zip(POINTS.role, POINTS.subsets, strict=True)])
    F_x = enhancement("mgga_x_r2scan", few.x_s2, few.x_alpha)
    eps_c = correlation("mgga_c_r2scan", few.c_rs, few.c_zeta, few.c_s2, few.c_alpha)
    assert 1.0 < scores.score_on_fixed_densities(few, F_x, eps_c).mean_absolute < 7.0


def test_points_in_a_file_are_the_same(tmp_path):
    """Variables to single precision, what energies are made of to double; texts whole."""
    POINTS.write(tmp_path / "points.npz")
    again = TrainingPoints.read(tmp_path / "points.npz")
    assert again.role == POINTS.role and again.molecules == POINTS.molecules
    np.testing.assert_array_equal(again.base, POINTS.base)
    np.testing.assert_allclose(again.x_weight, POINTS.x_weight, rtol=1e-7)
    (tmp_path / "other.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(FileError, match="does not hold training points"):
        TrainingPoints.read(tmp_path / "other.npz")


def test_held_out_reactions_are_seen_only_with_a_line_in_the_ledger(tmp_path):
    """of() refuses them; each evaluation is counted with its reason; a changed ledger is refused."""
    with pytest.raises(InputError, match=r"use held_out\(...\) for held-out reactions"):
        POINTS.of("held out")
    ledger = ledger_in(tmp_path)
    assert ledger == tmp_path / "held_out.jsonl"
    with pytest.raises(InputError, match="without a reason"):
        POINTS.held_out(ledger, " ")
    assert not ledger.exists()
    found = POINTS.held_out(ledger, "front of the first run")
    assert set(found.role) == {"held out"} and len(found.reaction_names) == POINTS.role.count("held out")
    assert count_evaluation(ledger, "diet-30", ["a", "b"], "the same front") == 2
    assert "front of the first run" in ledger.read_text()
    ledger = ledger.rename(tmp_path / "looks.jsonl")  # as it was called
    assert ledger_in(tmp_path) == ledger and count_evaluation(ledger, "diet-30", ["a"], "once more") == 3
    ledger.write_text(ledger.read_text().replace("the same front", "another front!"))
    with pytest.raises(DamagedFileError):
        POINTS.held_out(ledger, "once more")


def test_roles_are_apart_and_half_of_w4_11_is_held_out():
    """No reaction has two roles, and all held-out ones are atomisation energies."""
    parts = [POINTS.of("training"), POINTS.of("validation"), POINTS.chosen([r == "held out" for r in POINTS.role])]
    names = [name for part in parts for name in part.reaction_names]
    assert sorted(names) == sorted(POINTS.reaction_names) and len(set(names)) == len(names)
    assert set(parts[2].subsets) == {"W4-17"}


def test_reactions_of_the_points_are_those_of_the_benchmark_sets():
    """Names lead back to the sets: the same references and coefficients."""
    found = scores.benchmark_set_of(POINTS.reaction_names)
    np.testing.assert_allclose([r.reference for r in found.reactions], POINTS.reference * HARTREE_IN_KCAL, rtol=1e-12)
    for reaction, row in zip(found.reactions, POINTS.stoichiometry, strict=True):
        assert sorted(c for _, c in reaction.stoichiometry) == sorted(row[row != 0])
    with pytest.raises(InputError, match="has the reaction 'W4-17/h3'"):
        scores.benchmark_set_of(["W4-17/h3"])


def test_dispersion_of_the_points_is_that_of_calculations():
    """Of two molecules, by SCFs; a molecule of no set has none."""
    base = damping.with_dispersion(POINTS, "d3bj", "revpbe").base - POINTS.base
    species = {name: read_set("w4-17").species[name] for name in ("ch4", "c2h2")}
    for name, one in species.items():
        system = dftfd.molecule(one.atoms, "sto-3g", charge=one.charge, spin=one.spin)
        expected = dftfd.run_scf(system, "revpbe-d3bj", grid_level=0).energies["dispersion"]
        assert base[POINTS.molecules.index(f"w4-17/{name}")] == pytest.approx(expected, rel=1e-9)
    with pytest.raises(InputError, match="no geometry of 'w4-17/h9'"):
        damping.with_dispersion(replace(POINTS, molecules=("w4-17/h9", *POINTS.molecules[1:])), "d3bj", "revpbe")


def test_damping_is_fitted_to_reactions():
    """Errors that r2SCAN's correction would remove are removed: interaction energies, 0.36 kcal/mol on average."""
    points = POINTS.chosen([name in [f"A24/A24_{k}" for k in range(17, 25)] for name in POINTS.reaction_names])
    S = points.stoichiometry * HARTREE_IN_KCAL
    of = lambda dispersion: S @ (damping.with_dispersion(points, *dispersion).base - points.base)
    wanted = of(("d3bj", "r2scan"))
    found = damping.fitted_damping(points, -wanted)
    assert np.abs(wanted).mean() > 0.25
    np.testing.assert_allclose(of(found), wanted, atol=0.02)


# -------------------------------------------------------------------------------------------------------------- scores


def test_score_and_ratio_have_bootstrap_intervals():
    """A functional at half the error of another on every reaction: the ratio is 1/2 and has no width."""
    errors, names = np.random.default_rng(2).normal(0, 3, 40), [str(k) for k in range(40)]
    whole, half = scores.score_of(errors, names), scores.score_of(-errors / 2, names)
    assert whole.low < whole.mean_absolute < whole.high
    assert scores.ratio(half, whole) == pytest.approx((0.5, 0.5, 0.5))
    other = scores.score_of(errors[::-1], names)
    mean, low, high = scores.ratio(whole, other)
    assert mean == pytest.approx(1.0) and low < 0.9 < 1.1 < high
    with pytest.raises(InputError, match="no reaction in common"):
        scores.ratio(whole, scores.score_of([1.0], ["z"]))
    with pytest.raises(InputError, match="finite numbers"):
        scores.score_of([np.nan], ["z"])


def test_a_benchmark_set_is_scored_without_the_reactions_of_the_training(tmp_path):
    """H2's atomisation is left out of a set apart, as its bond formation would be; helium's energy is computed."""
    species = read_set("w4-17").species
    helium = {"he": Species("he", "He 0 0 0;"), "he2": Species("he2", "He 0 0 0; He 0 0 3;")}
    pairs = {"a": (("h", -2.0), ("h2", 1.0)), "b": (("he", -2.0), ("he2", 1.0))}
    reactions = tuple(Reaction(name, "mine", pair, 0.0) for name, pair in pairs.items())
    mine = BenchmarkSet("mine", {"h": species["h"], "h2": species["h2"]} | helium, reactions)
    seen = scores.benchmark_set_of(["W4-17/h2"])
    assert [r.name for r in scores.without_reactions(mine, seen).reactions] == ["b"]
    points = replace(POINTS.chosen([name == "W4-17/h2" for name in POINTS.reaction_names]), role=("training",))
    found = scores.score_on_benchmark(
        "lda,vwn", mine, points, tmp_path / "held_out", "a test", basis="sto-3g", grid_level=0
    )
    assert found["lda,vwn"].names == ("mine/b",) and abs(found["lda,vwn"].mean_absolute) < 1.0
    assert '"what": "the set mine"' in (tmp_path / "held_out").read_text()


@pytest.mark.slow  # SCFs of four species
def test_self_consistent_scores_are_differences_of_energies():
    """Two reactions of the fewest points, against energies of runs of their own."""
    found = scores.score_self_consistent("pbe", POINTS.of("validation"), 2, basis="sto-3g", grid_level=1)["pbe"]
    apart = scores.benchmark_set_of(found.names)
    assert len(found.names) == 2 and found.n_missing == 0
    options = {"xc": "pbe", "grid_level": 1}
    for reaction, error in zip(apart.reactions, found.errors, strict=True):
        total = 0.0
        for name, count in reaction.stoichiometry:
            one = apart.species[name]
            mole = dftfd.molecule(one.atoms, "sto-3g", charge=one.charge, spin=one.spin)
            total += count * dftfd.run_scf(mole, **options).energy * HARTREE_IN_KCAL
        assert abs(total - reaction.reference - error) < 1e-3, reaction.name
