"""The fitting tensor in two precisions against the whole one in double precision, which PySCF makes."""

import numpy as np
import pytest
from pyscf import df

import dftfd
from dftfd.errors import ResourceError
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.two_electron import LINEAR_DEPENDENCE, auxiliary_basis, fitting_tensor
from dftfd.terms import fitted_integrals
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.pair_tensor import DROPPED, OF_INTEGRALS, OF_TENSOR, PairTensor

CHAIN = "; ".join(f"{'CO'[k % 2]} {1.3 * k} {0.4 * (k % 2)} {0.3 * (k % 3)}" for k in range(9))


def of_pyscf(molecule, auxiliary):
    """The tensor that PySCF makes, (aux, pair)."""
    mole = to_pyscf(molecule)
    made = df.addons.make_auxmol(mole, auxiliary)
    return df.incore.cholesky_eri(mole, auxmol=made, lindep=LINEAR_DEPENDENCE)


def test_the_whole_tensor_is_that_of_pyscf(chain):
    """To 1e-11, with as many rows as functions, and the tensor of erf(omega r)/r gives the same integrals."""
    molecule, auxiliary, B, _ = chain
    np.testing.assert_allclose(fitting_tensor(molecule, auxiliary), B, atol=1e-11)
    with to_pyscf(molecule).with_range_coulomb(0.3):
        expected = of_pyscf(molecule, auxiliary)
    found = fitting_tensor(molecule, auxiliary, 0.3)
    P = np.random.default_rng(3).normal(size=B.shape[1])
    np.testing.assert_allclose((found @ P) @ found, (expected @ P) @ expected, atol=1e-7)


@pytest.fixture(scope="module")
def chain():
    """Molecule, its fitting functions, the whole tensor, and densities packed as PairTensor takes them, (3, pair)."""
    molecule = dftfd.molecule(CHAIN, basis="def2-svp")
    auxiliary, _ = auxiliary_basis(molecule, exact_exchange=False)
    B = of_pyscf(molecule, auxiliary)
    return molecule, auxiliary, B, np.random.default_rng(5).normal(size=(3, B.shape[1]))


@pytest.mark.parametrize("for_exchange", [False, True])
def test_coulomb_matrices_are_those_of_the_whole_tensor(chain, for_exchange):
    """Relative to the largest element 1e-11, with pairs of all kinds, in less than half of the memory."""
    molecule, auxiliary, B, densities = chain
    tensor = PairTensor(molecule, auxiliary, for_exchange=for_exchange)
    for P, fit, J in zip(densities, *tensor.coulomb(densities), strict=True):
        np.testing.assert_allclose(fit, B @ P, atol=1e-11 * np.abs(B @ P).max())
        np.testing.assert_allclose(J, (B @ P) @ B, atol=1e-11 * np.abs((B @ P) @ B).max())
    assert 0 < tensor.nbytes < 0.5 * B.nbytes
    norms = np.sqrt((B * B).sum(axis=0))
    edges = 0.0, DROPPED, *(OF_TENSOR if for_exchange else OF_INTEGRALS)[::-1], np.inf
    assert all(np.histogram(norms, edges)[0] > 0)


def test_the_map_is_symmetric(chain):
    """<P, J[P']> = <P', J[P]> to rounding, whatever was rounded: J is the gradient of an energy."""
    molecule, auxiliary, _, (first, second, _) = chain
    tensor = PairTensor(molecule, auxiliary)
    left, right = first @ tensor.coulomb(second[None])[1][0], second @ tensor.coulomb(first[None])[1][0]
    assert left == pytest.approx(right, rel=1e-12)


def test_fitting_functions_that_depend_on_each_other(chain):
    """Every function twice: the metric has no inverse, and as many eigenvalues as before."""
    molecule = dftfd.molecule("O 0 0 0; H 0 0 0.96; H 0 0.93 -0.24", basis="def2-svp")
    auxiliary, _ = auxiliary_basis(molecule, exact_exchange=False)
    doubled = {label: [*shells, *shells] for label, shells in auxiliary.items()}
    P = np.random.default_rng(6).normal(size=molecule.n_ao * (molecule.n_ao + 1) // 2)
    whole = [of_pyscf(molecule, functions) for functions in (auxiliary, doubled)]
    expected = [B.T @ (B @ P) for B in whole]
    np.testing.assert_allclose(PairTensor(molecule, doubled).coulomb(P[None])[1][0], expected[1], atol=1e-9)
    np.testing.assert_allclose(expected[1], expected[0], atol=1e-5)


def test_forces_take_the_fit_of_the_last_density_and_of_no_other(monkeypatch):
    """A remembered fit gives the forces that are computed anew without it; one of another density is not taken."""
    water = dftfd.molecule("O 0 0 0; H 0 0.1 0.96; H 0 0.93 -0.24", basis="def2-svp")
    result = dftfd.run_scf(water, "lda,vwn", grid_level=0)
    remembered = result.forces()
    DensityFittedCoulombExchange(water, False).coulomb(2.0 * result.density_matrix)
    np.testing.assert_allclose(result.forces(), remembered, atol=1e-10)
    monkeypatch.setattr(fitted_integrals, "_LAST_FITS", {})
    np.testing.assert_allclose(result.forces(), remembered, atol=1e-10)


def test_pairs_that_are_not_kept_are_formed_anew(chain):
    """J with half of the pairs and with none of them kept, as with all, within the bytes that are allowed."""
    molecule, auxiliary, _, densities = chain
    whole = PairTensor(molecule, auxiliary)
    expected_fits, expected = whole.coulomb(densities)
    for room in (whole.nbytes // 2, 0):
        part = whole.within(room)
        assert part.nbytes <= room
        fits, J = part.coulomb(densities)
        np.testing.assert_allclose(fits, expected_fits, atol=1e-10 * np.abs(expected_fits).max())
        np.testing.assert_allclose(J, expected, atol=1e-10 * np.abs(expected).max())
    assert whole.within(whole.nbytes).nbytes == whole.nbytes


@pytest.mark.parametrize("omega", [0.0, pytest.param(0.3, marks=pytest.mark.slow)])
def test_exchange_by_pairs(chain, omega, monkeypatch):
    """K of a density and of orbitals where B of all pairs in double precision would not fit; J in the same pass."""
    molecule, _, _, _ = chain
    exact = DensityFittedCoulombExchange(molecule, True)
    monkeypatch.setattr(fitted_integrals, "SHARE", 0.0)
    lean = DensityFittedCoulombExchange(molecule, True)
    C = np.linalg.qr(np.random.default_rng(3).normal(size=(molecule.n_ao, 12)))[0]
    P = (C @ C.T)[None]
    for found, expected in zip(
        lean.coulomb_and_exchange(P, [C], omega), exact.coulomb_and_exchange(P, [C], omega), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
    dC = np.random.default_rng(4).normal(size=(2, 12, molecule.n_ao))
    found, expected = (builder.exchange_on_orbitals(C.T, dC, omega) for builder in (lean, exact))
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
    (needed,) = lean.memory([omega]).fixed.values()
    with pytest.raises(ResourceError, match="density fitting needs"):
        DensityFittedCoulombExchange(molecule, True, 0.3 * needed)


@pytest.mark.slow  # four calculations of a chain
def test_energies_hardly_depend_on_what_is_kept(monkeypatch):
    """With half of the fitting tensor formed anew for every J, and with that of a hybrid by pairs: 1e-9 hartree."""
    molecule = dftfd.molecule("; ".join(CHAIN.split("; ")[:6]), basis="6-31g")
    expected = [dftfd.run_scf(molecule, xc=xc, grid_level=0, density_fit=True).energy for xc in ("pbe", "b3lyp")]
    monkeypatch.setattr(fitted_integrals, "SHARE", 0.0)
    within = PairTensor.within
    monkeypatch.setattr(PairTensor, "within", lambda self, room: within(self, min(room, self.nbytes // 2)))
    found = [dftfd.run_scf(molecule, xc=xc, grid_level=0, density_fit=True).energy for xc in ("pbe", "b3lyp")]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9)


@pytest.mark.slow  # 7 s; pairs that are not kept: above; estimates in little room: test_single_precision
def test_estimates_form_no_integrals_anew(monkeypatch):
    """Where two thirds of the integrals fit, rough ones serve the coarse cycles: the same energy and forces.

    Each exact J forms integrals twice, a rough tensor once; the coarse cycles would form them thirty times.
    """
    angles = np.arange(6) * np.pi / 3
    ring = [(symbol, r * np.cos(a), r * np.sin(a), 0.0) for symbol, r in (("C", 1.395), ("H", 2.482)) for a in angles]
    molecule = dftfd.molecule("; ".join(" ".join(map(str, atom)) for atom in ring), basis="def2-svp")
    expected = dftfd.run_scf(molecule, xc="pbe", grid_level=3, density_fit=True)
    room = PairTensor(molecule, auxiliary_basis(molecule, exact_exchange=False)[0]).nbytes * 2 // 3
    within, on_blocks, formed = PairTensor.within, PairTensor._on_blocks, []
    monkeypatch.setattr(PairTensor, "within", lambda self, given: within(self, min(room, given)))
    monkeypatch.setattr(PairTensor, "_on_blocks", lambda self, *given: formed.append(self) or on_blocks(self, *given))
    found = dftfd.run_scf(molecule, xc="pbe", grid_level=3, density_fit=True)
    assert abs(found.energy - expected.energy) < 1e-9
    assert 3 <= len(formed) <= 10
    np.testing.assert_allclose(found.forces(), expected.forces(), atol=1e-7)
