"""Estimates in single precision: what is asked for as a change has errors that are a small part of the change."""

import numpy as np
import pytest
import scipy.linalg

import dftfd
from dftfd.functionals.registry import get_functional
from dftfd.libcint.two_electron import few_fitting_functions, fitting_tensor, unpacked_pairs
from dftfd.runtime.array_types import to_single
from dftfd.terms.fitted_integrals import _WAYS, DensityFittedCoulombExchange
from dftfd.terms.on_grid import Quadrature
from dftfd.terms.pair_tensor import SingleTensor, WholeTensor
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder


@pytest.fixture(scope="module")
def water():
    return dftfd.molecule("O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587", basis="6-31g")


def orbitals(n, occupied=5, seed=0):
    rng = np.random.default_rng(seed)
    return np.linalg.qr(rng.normal(size=(n, n)))[0][:, :occupied] * np.sqrt(2)


def rotation(n, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


def test_rounding_leaves_nothing_that_is_slow():
    """Values come out within half of 2^-40 or of their own last digit, those below it as zero."""
    values = np.array([1.0, -3e-5, 3e-13, -1e-30, 1e-40, 7.25])
    rounded = to_single(values.copy())
    assert rounded.dtype == np.float32
    assert np.all(rounded[2:5] == 0.0) and rounded[0] == 1.0 and rounded[5] == 7.25
    assert abs(rounded[1] - values[1]) < 2.0**-40


@pytest.mark.parametrize("keeps_transformed", [True, False])
@pytest.mark.parametrize("size", [1e-1, 1e-3, 1e-5])
def test_change_of_exchange(water, size, keeps_transformed):
    """K of a change of orbitals, which are turned among themselves besides, to 1e-6 of the change."""
    builder = DensityFittedCoulombExchange(water, True)
    B = unpacked_pairs(builder.tensor(), water.n_ao)
    single = SingleTensor(WholeTensor(builder.tensor()), water.n_ao, keeps_transformed=keeps_transformed)
    before = orbitals(water.n_ao)
    C = (before + size * orbitals(water.n_ao, seed=2)) @ rotation(5)
    dP = C @ C.T - before @ before.T
    K = single.incremental_build(before)(C)
    expected = np.einsum("Qik,Qjl,kl->ij", B, B, dP, optimize=True)
    assert np.abs(K - expected).max() < 1e-6 * np.abs(expected).max()


def test_exchange_in_single_precision(water):
    """K as a whole to six digits."""
    builder = DensityFittedCoulombExchange(water, True)
    B, C = unpacked_pairs(builder.tensor(), water.n_ao), orbitals(water.n_ao)
    X = np.einsum("Qik,ko->Qoi", B, C)
    expected = np.einsum("Qoi,Qoj->ij", X, X)
    found = SingleTensor(WholeTensor(builder.tensor()), water.n_ao).exchange(C)
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("omegas", [[0.0], [0.0, 0.3], [0.3]])
def test_estimates_of_two_spins_and_ranges(water, omegas):
    """Changes of J to six digits; those of K are what the few functions' own tensor gives, some percent from the exact.

    One matrix a spin and range; the orbitals are Kohn-Sham ones, turned a little into the empty ones.
    """
    exact = DensityFittedCoulombExchange(water, True)
    estimates = exact.for_estimates()
    assert estimates.exchange_is_rough and not exact.exchange_is_rough
    C = dftfd.run_scf(water, xc="lda,vwn", grid_level=0).mo_coeff[0]
    X = np.random.default_rng(0).normal(size=C.shape)
    turn = scipy.linalg.expm(1e-2 * (X - X.T))
    before, after = ([C_of[:, :k] for k in (5, 4)] for C_of in (C, C @ turn))
    P, P_new = (np.stack([C @ C.T for C in spins]) for spins in (before, after))
    J, K = estimates.incremental_build(P, before, omegas)(P_new, after)
    assert np.abs(J - (exact.coulomb(P_new) - exact.coulomb(P))).max() < 1e-6 * np.abs(J).max()
    assert len(K) == len(omegas)
    for K_omega, omega in zip(K, omegas, strict=True):
        B = unpacked_pairs(fitting_tensor(water, few_fitting_functions(water), omega), water.n_ao)
        of_few = np.einsum("Qik,Qjl,skl->sij", B, B, P_new - P, optimize=True)
        assert np.abs(K_omega - of_few).max() < 3e-6 * np.abs(of_few).max()
        expected = exact.exchange(P_new, omega=omega) - exact.exchange(P, omega=omega)
        assert np.linalg.norm(K_omega - expected) < 0.1 * np.linalg.norm(expected)


def test_coulomb_matrices_of_estimates(water):
    """J without exchange to six digits, not to ten; forces do not take its fit for that of the exact J."""
    exact = DensityFittedCoulombExchange(water, False)
    P = (orbitals(water.n_ao) @ orbitals(water.n_ao).T)[None]
    expected = exact.coulomb(P)
    remembered = exact._last_fit(P[0])
    error = np.abs(exact.for_estimates().coulomb(P) - expected).max() / np.abs(expected).max()
    assert 1e-10 < error < 1e-6
    assert exact._last_fit(P[0]) is remembered


@pytest.mark.parametrize("exact_exchange", [False, True])
def test_a_change_of_the_density_carries_its_fit(water, exact_exchange):
    """Forces find the fit of a density that estimates went to from an exact one; of no other is anything said."""
    exact = DensityFittedCoulombExchange(water, exact_exchange)
    C = orbitals(water.n_ao)
    P, P_new = (C @ C.T)[None], (0.99 * C @ C.T)[None] + 1e-3 * np.eye(water.n_ao)
    exact.coulomb(P_new)
    expected = exact._last_fit(P_new[0])
    exact.for_estimates().incremental_build(P, [C])(P_new, [C])
    assert exact._last_fit(P_new[0]) is expected
    exact.coulomb(P)
    before = exact._last_fit(P[0])
    exact.for_estimates().incremental_build(P, [C])(P_new, [C])
    found = exact._last_fit(P_new[0])
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected - before).max()


def test_estimates_need_room(water):
    """With less room for estimates the tensor of few functions stays packed, then it is alone; without any none."""
    builder = DensityFittedCoulombExchange(water, True)
    (needed,) = builder.memory([0.0]).flexible.values()
    few = 17 + 2 * 5  # of oxygen and of two hydrogens: s 6, p 2 x 3, d 5; s 2, p 3
    n = water.n_ao  # a second tensor for J, packed, and one of few functions, also half-transformed, of 5 orbitals
    assert needed == 4 * builder.n_auxiliary * n * (n + 1) // 2 + 4 * few * n * (n + 5)
    (packed,) = builder.within(needed - 1, [0.0]).memory([0.0]).flexible.values()
    assert packed == 8 * few * n * (n + 1) // 2 + 4 * few * n * 5
    (alone,) = builder.within(packed - 1, [0.0]).memory([0.0]).flexible.values()
    assert alone == 8 * few * n * (n + 1) // 2
    cramped = builder.within(alone - 1, [0.0])
    assert cramped.for_estimates() is cramped and not cramped.memory([0.0]).flexible
    assert builder.within(needed, [0.0]).memory([0.0]).flexible


@pytest.mark.parametrize("way", _WAYS[1:])
@pytest.mark.parametrize("whole", [True, False])
def test_estimates_in_little_room(water, whole, way):
    """From a packed tensor of few functions, whole or by pairs, the same changes as from an unpacked one."""
    exact = DensityFittedCoulombExchange(water, True)
    little = exact.within(exact._bytes_of_estimates(way, 1), [0.0])
    assert little._estimates == way and little.for_estimates().exchange_is_rough
    little._whole = whole
    C, turn = orbitals(water.n_ao), 1e-3 * np.random.default_rng(3).normal(size=(water.n_ao, 5))
    P, P_new = ((X @ X.T)[None] for X in (C, C + turn))
    found = little.for_estimates().incremental_build(P, [C], [0.0])(P_new, [C + turn])
    expected = exact.for_estimates().incremental_build(P, [C], [0.0])(P_new, [C + turn])
    for one, other in zip((found[0], found[1][0]), (expected[0], expected[1][0]), strict=True):
        assert np.abs(one - other).max() < 1e-5 * np.abs(other).max()


def test_matrix_of_a_rehearsal(water):
    """In single precision with fewer orbitals, 1e-4 from the exact one; that keeps orbitals from its second time on."""
    kernel = XCKernel(get_functional("pbe"), 1)
    points, weights = Quadrature(1).on(water)
    store = AOStore(water, points, weights, 1)
    rough = XCBuilder(kernel, store.in_single_precision(1e-5))
    store.patience = 1
    exact = XCBuilder(kernel, store)
    P = dftfd.run_scf(water, xc="lda,vwn", grid_level=0).density_matrix
    found, expected, again, kept = rough.build(P), exact.build(P), exact.build(P), exact.build(P)
    assert 1e-9 < np.abs(found.matrix - expected.matrix).max() < 1e-4
    assert found.energy == pytest.approx(expected.energy, abs=1e-4)
    assert again.energy == pytest.approx(expected.energy, abs=1e-13) == kept.energy
    assert [values is None for values in store._kept] == [False] * len(store.blocks)
    assert rough.store.nbytes == 0 and store.nbytes == store.total_nbytes


@pytest.mark.parametrize(
    ("xc", "n_spin"),
    [
        *(("lda,vwn", 1), ("pbe", 1), ("r2scan", 2)),
        *(pytest.param(*of, marks=pytest.mark.slow) for of in (("lda,vwn", 2), ("pbe", 2), ("r2scan", 1))),
    ],
)
def test_change_of_xc_matrix(water, xc, n_spin):
    """The matrix of a change on orbitals in single precision, beside the difference of two exact matrices.

    To 1e-4 of the change, where a round of corrections counts on 1e-3; r2SCAN's second derivative feels the seventh
    digit of the density that the change is taken from.
    """
    kernel = XCKernel(get_functional(xc), n_spin)
    points, weights = Quadrature(0).on(water)
    exact, single = (
        XCBuilder(kernel, AOStore(water, points, weights, max(1, kernel.order), single=single))
        for single in (False, True)
    )
    C = np.linalg.qr(orbitals(water.n_ao))[0]
    P = np.stack([C @ C.T] * n_spin) * (3 - n_spin)
    errors = []
    for size in (1e-2, 1e-4):
        turned = C + size * orbitals(water.n_ao, seed=4)
        P_new = np.stack([turned @ turned.T] * n_spin) * (3 - n_spin)
        expected = exact.build(P_new).matrix - exact.build(P).matrix
        found = single.incremental_build(P, [C * np.sqrt(3 - n_spin)] * n_spin)(P_new)
        errors.append(np.abs(found - expected).max() / np.abs(expected).max())
    assert max(errors) < 1e-4
