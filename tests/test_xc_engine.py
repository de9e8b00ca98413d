"""Energy and matrix from a kernel and an AO store: exact derivatives, both forms, against PySCF's numint."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import dft, gto

from dftfd.errors import InputError, NumericalError
from dftfd.functionals.registry import get_functional
from dftfd.xc.ao_store import AOStore
from dftfd.xc.density import ao_tables, density_at, kinetic_energy_density_at
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import Scratch, XCBuilder, density_jet

JETS = [(0, False), (1, False), (2, False), (0, True), (1, True), (2, True)]


def water(basis="6-31g*", **keywords):
    return gto.M(atom="O 0 0 0.117; H 0 0.757 -0.469; H 0 -0.757 -0.469", basis=basis, verbose=0, **keywords)


def random_density(mole, rng, n_spin):
    """Symmetric, indefinite P (spin, ao, ao): identities must not rely on a physical density."""
    P = rng.normal(size=(n_spin, mole.nao, mole.nao)) / mole.nao
    return P + P.transpose(0, 2, 1)


def random_orbitals(mole, rng, occupied):
    """C_occ and P = C C^T."""
    C = [rng.normal(size=(mole.nao, n)) / mole.nao for n in occupied]
    return C, np.stack([c @ c.T for c in C])


def toy_kernel(order, tau):
    """A smooth energy that couples all channels, both spins and the position; not a functional of any family."""
    channels = (1, 4, 10)[order] + int(tau)
    scale = 1.0 / np.array([1.0] + [30.0] * 3 + [1000.0] * 6 + [300.0])[[*range((1, 4, 10)[order]), *[10] * tau]]

    def energy(points, weights, density):
        mixing = jnp.cos(jnp.arange(channels * channels, dtype=jnp.float64)).reshape(channels, channels)
        coupled = jnp.einsum("cd,d,sdp->scp", mixing, scale, density)
        e = jnp.sum(jnp.sin(coupled), axis=(0, 1)) + jnp.prod(coupled[:, 0], axis=0)
        return jnp.sum(weights * e * jnp.exp(-0.1 * jnp.sum(points**2, axis=1)))

    compiled = jax.jit(jax.value_and_grad(energy, argnums=2))
    return Kernel(compiled, order, tau, channels)


@dataclass(frozen=True)
class Kernel:
    """The interface of dftfd.xc.kernel around any code."""

    code: Callable
    order: int
    needs_tau: bool
    channels: int

    def __call__(self, points, weights, density):
        return self.code(points, weights, density)


def libxc_kernel(xc, n_spin):
    """PySCF's libxc behind the kernel's interface."""
    numint = dft.numint.NumInt()
    family = numint._xc_type(xc)
    order, tau = int(family != "LDA"), family == "MGGA"

    def call(points, weights, density):
        rho = density[0] if n_spin == 1 else density
        if family == "LDA":
            rho = rho[..., 0, :]
        per_electron, potential = numint.eval_xc_eff(xc, rho, deriv=1, xctype=family, spin=n_spin - 1)[:2]
        energy = weights @ (per_electron * density[:, 0].sum(axis=0))
        return energy, (potential * weights).reshape(density.shape)

    return Kernel(call, order, tau, (4 if order else 1) + int(tau))


def random_grid(mole, rng, n_points=700):
    """Points near the molecule with weights of both signs."""
    return mole.atom_coords().mean(axis=0) + rng.normal(size=(n_points, 3)), 0.1 * rng.normal(size=n_points)


@pytest.mark.parametrize("n_spin", [1, 2])
@pytest.mark.parametrize("order, tau", JETS)
def test_matrix_is_the_gradient_of_the_energy(order, tau, n_spin, rng):
    """<V, dP> equals the central difference of the energy in random directions: Leibniz' rule for every jet."""
    mole = water()
    store = AOStore(mole, *random_grid(mole, rng), order=max(order, int(tau)), block_size=128)
    builder = XCBuilder(toy_kernel(order, tau), store)
    P = random_density(mole, rng, n_spin)
    matrix = builder.build(P).matrix
    np.testing.assert_allclose(matrix, matrix.transpose(0, 2, 1), atol=1e-14)
    for _ in range(2):
        dP = random_density(mole, rng, n_spin)
        steps = {h: builder.build(P + h * dP).energy - builder.build(P - h * dP).energy for h in (1e-3, 5e-4)}
        difference = (8 * steps[5e-4] - steps[1e-3]) / 6e-3  # fourth order in h
        assert np.vdot(matrix, dP) == pytest.approx(difference, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("basis", ["6-31g*", pytest.param("cc-pvtz", marks=pytest.mark.slow)])
def test_density_jet_equals_derivatives_of_the_density_function(basis, rng):
    """All eleven channels against JAX derivatives of the pure-JAX density, to rounding."""
    mole = water(basis)
    P = random_density(mole, rng, 2)
    points = mole.atom_coords().mean(axis=0) + rng.normal(size=(20, 3))
    tables = ao_tables(mole)
    density = lambda r: density_at(jnp.asarray(P), tables, r)
    evaluate = lambda f: np.asarray(jax.jit(jax.vmap(f))(points))
    gradient, hessian = evaluate(jax.jacfwd(density)), evaluate(jax.jacfwd(jax.jacfwd(density)))
    tau = evaluate(lambda r: kinetic_energy_density_at(jnp.asarray(P), tables, r))
    upper = hessian[:, :, *np.triu_indices(3)]
    expected = np.concatenate([evaluate(density)[..., None], gradient, upper, tau[..., None]], axis=2)
    store = AOStore(mole, points, np.ones(20), order=2, block_size=20)
    ao = store.values(0, np.empty(0))
    for s in range(2):
        jet = np.empty((11, store.block_size))
        density_jet(ao, P[s], None, 2, True, jet, Scratch())
        by_point = {tuple(p): jet[:, i] for i, p in enumerate(store.blocks[0].points.tolist())}
        found = np.array([by_point[tuple(p)] for p in points.tolist()])
        np.testing.assert_allclose(found, expected[:, s], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("order, tau", JETS)
def test_occupied_orbitals_and_density_matrix_give_the_same(order, tau, rng):
    """P = C C^T through either form, few and no occupied orbitals included (H atom: no beta electron)."""
    mole = water()
    store = AOStore(mole, *random_grid(mole, rng), order=max(order, int(tau)), block_size=128)
    builder = XCBuilder(toy_kernel(order, tau), store)
    C, P = random_orbitals(mole, rng, (3, 0))
    from_P, from_C = builder.build(P), builder.build(P, C)
    assert from_C.energy == pytest.approx(from_P.energy, rel=1e-13)
    np.testing.assert_allclose(from_C.matrix, from_P.matrix, atol=1e-12)
    np.testing.assert_allclose(from_C.n_electrons, from_P.n_electrons, atol=1e-12)


@pytest.mark.parametrize("xc", ["lda,vwn", "pbe", "r2scan"])
@pytest.mark.parametrize("n_spin", [1, 2])
def test_energy_matrix_and_electrons_match_numint(xc, n_spin, rng):
    """Same grid, same libxc numbers, default screening: PySCF's nr_rks / nr_uks to 1e-9."""
    mole = water("def2-svp", charge=n_spin - 1, spin=n_spin - 1)
    calculation = (dft.RKS, dft.UKS)[n_spin - 1](mole, xc=xc)
    calculation.grids.level = 1
    calculation.grids.build(with_non0tab=True)
    grids, numint = calculation.grids, calculation._numint
    P = np.asarray(calculation.get_init_guess()).reshape(n_spin, mole.nao, mole.nao)
    build = numint.nr_rks if n_spin == 1 else numint.nr_uks
    n_electrons, energy, matrix = build(mole, grids, xc, P[0] if n_spin == 1 else P)
    store = AOStore(mole, grids.coords, grids.weights)
    found = XCBuilder(libxc_kernel(xc, n_spin), store).build(P)
    assert found.energy == pytest.approx(energy, abs=1e-9)
    np.testing.assert_allclose(found.matrix, np.reshape(matrix, P.shape), atol=1e-9)
    np.testing.assert_allclose(found.n_electrons, n_electrons, atol=1e-9)


def test_default_screening_keeps_the_energy_of_a_long_chain(rng):
    """Twelve helium atoms 4 bohr apart: PBE energy with the default cutoff equals cutoff 0 to 1e-10 hartree."""
    mole = gto.M(atom=[("He", (0, 0, 4.0 * i)) for i in range(12)], basis="def2-svp", unit="bohr", verbose=0)
    grids = dft.gen_grid.Grids(mole)
    grids.level = 0
    grids.build()
    P = np.asarray(dft.RKS(mole).get_init_guess())[None]
    stores = [AOStore(mole, grids.coords, grids.weights, block_size=256, **k) for k in ({}, {"cutoff": 0})]
    assert stores[0].total_nbytes < 0.7 * stores[1].total_nbytes
    screened, full = [XCBuilder(libxc_kernel("pbe", 1), store).build(P) for store in stores]
    assert screened.energy == pytest.approx(full.energy, abs=1e-10)
    np.testing.assert_allclose(screened.matrix, full.matrix, atol=1e-8)


def test_results_are_reproducible_and_do_not_depend_on_the_memory_limit(rng):
    """Two builds agree to the last bit, with kept and with recomputed blocks."""
    mole = water()
    grid = random_grid(mole, rng)
    P = random_density(mole, rng, 2)
    results = []
    for limit in (None, 0):
        builder = XCBuilder(toy_kernel(1, True), AOStore(mole, *grid, block_size=128, memory_limit=limit))
        results += [builder.build(P), builder.build(P)]
    for result in results[1:]:
        assert result.energy == results[0].energy
        np.testing.assert_array_equal(result.matrix, results[0].matrix)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_the_number_of_workers_changes_rounding_only(workers, monkeypatch, rng):
    """One and three workers agree with two to 1e-12."""
    mole = water()
    grid, P = random_grid(mole, rng), random_density(mole, rng, 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    reference = XCBuilder(toy_kernel(1, False), AOStore(mole, *grid, block_size=64)).build(P)
    monkeypatch.setenv("OMP_NUM_THREADS", workers)
    found = XCBuilder(toy_kernel(1, False), AOStore(mole, *grid, block_size=64)).build(P)
    assert found.energy == pytest.approx(reference.energy, rel=1e-12)
    np.testing.assert_allclose(found.matrix, reference.matrix, atol=1e-12)


def test_progress_reaches_every_block(rng):
    """The hook is told about each block once."""
    mole = water()
    store = AOStore(mole, *random_grid(mole, rng), block_size=64)
    calls = []
    XCBuilder(toy_kernel(0, False), store, progress=lambda done, total: calls.append((done, total))).build(
        random_density(mole, rng, 1)
    )
    assert len(calls) == len(store.blocks) == max(done for done, _ in calls)
    assert {total for _, total in calls} == {len(store.blocks)}


def test_unusable_input_is_refused_by_name(rng):
    """Wrong shapes and a store of too low an order are named; a NaN energy is a numerical error, not a result."""
    mole = water("sto-3g")
    store = AOStore(mole, *random_grid(mole, rng, 50), order=1)
    builder = XCBuilder(toy_kernel(0, False), store)
    with pytest.raises(InputError, match=r"\(7, 7\).*expected \(1 or 2, 7, 7\)"):
        builder.build(np.eye(7))
    with pytest.raises(InputError, match="AO derivatives of order 2, the AO store has order 1"):
        XCBuilder(toy_kernel(2, False), store)
    pbe = XCBuilder(XCKernel(get_functional("pbe"), 1), store)  # whose guards take NaN for a density near zero
    for known in (builder, pbe):
        with pytest.raises(NumericalError, match="the density is nan"):
            known.build(np.full((1, 7, 7), np.nan))
