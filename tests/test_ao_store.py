"""AO values on screened blocks, and the worker threads that compute them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pyscf import gto
from threadpoolctl import ThreadpoolController

from dftfd.errors import InputError, UnsupportedError
from dftfd.libcint.gto import component_count, gaussian_basis
from dftfd.runtime.threads import (
    LARGE_MATRIX,
    blas_threads,
    run_on_workers,
    split_evenly,
    threads_for_matrices,
    worker_count,
)
from dftfd.xc.ao_store import AOStore, sort_into_blocks

BASES = {
    "spherical": {"basis": "def2-tzvp"},
    "cartesian": {"basis": "cc-pvdz", "cart": True},
    "general contraction": {"basis": {"O": "ano", "H": [[6, [0.8, 1.0]], [0, [2.0, 0.4, 0.1], [0.3, 0.7, -0.2]]]}},
}


def water(**keywords):
    return gto.M(atom="O 0 0 0.117; H 0 0.757 -0.469; H 0 -0.757 -0.469", verbose=0, **keywords)


def chain(n_atoms=8, basis="6-31g"):
    """Helium atoms 4 bohr apart: long enough for screening to matter."""
    return gto.M(atom=[("He", (4.0 * i, 0.3 * i, 0.0)) for i in range(n_atoms)], basis=basis, unit="bohr", verbose=0)


def points_around(mole, rng, n_points=500, spread=2.0):
    """Points near the nuclei, the nuclei themselves included."""
    atoms = mole.atom_coords()
    cloud = atoms[rng.integers(len(atoms), size=n_points)] + rng.normal(scale=spread, size=(n_points, 3))
    return np.vstack([atoms, cloud])


@pytest.mark.parametrize("keywords", BASES.values(), ids=BASES.keys())
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_values_on_a_subset_of_shells_are_rows_of_the_full_evaluation(keywords, order, rng):
    """Reduced shell tables leave libcint's numbers unchanged to the last bit; reference: PySCF's own AO evaluation."""
    mole = water(**keywords)
    basis = gaussian_basis(mole)
    points = points_around(mole, rng, 50)
    shells = np.array([0, 2, basis.n_shells - 1])
    reference = mole.eval_gto(
        ("GTOval_cart" if mole.cart else "GTOval_sph") + (f"_deriv{order}" if order else ""), points
    )
    reference = np.reshape(reference, (component_count(order), len(points), mole.nao)).transpose(0, 2, 1)
    np.testing.assert_array_equal(basis.evaluate(points, order), reference)
    np.testing.assert_array_equal(basis.evaluate(points, order, shells), reference[:, basis.aos_of_shells(shells)])


def test_values_are_written_into_the_caller_s_buffer(rng):
    """No copy is made: the result is a view of the array that was handed over."""
    mole = water(basis="sto-3g")
    buffer = np.full(10_000, np.nan)
    values = gaussian_basis(mole).evaluate(points_around(mole, rng, 20), 1, out=buffer)
    assert np.shares_memory(values, buffer)
    assert np.isfinite(values).all()
    assert np.isnan(buffer[values.size :]).all()


def test_an_order_that_libcint_lacks_is_refused():
    """The message names the order; nothing is evaluated."""
    with pytest.raises(UnsupportedError, match="order 5"):
        gaussian_basis(water(basis="sto-3g")).evaluate(np.zeros((1, 3)), 5)


def test_blocks_partition_the_points_and_are_compact(rng):
    """Every point is in exactly one block; all blocks but one are full; a block is far smaller than the cloud."""
    points = rng.normal(size=(5000, 3))
    blocks = sort_into_blocks(points, 256)
    assert np.array_equal(np.sort(np.concatenate(blocks)), np.arange(5000))
    assert sorted(map(len, blocks))[1:] == [256] * (len(blocks) - 1)
    extent = np.mean([points[block].std(axis=0).mean() for block in blocks])
    assert extent < 0.5 * points.std()


def test_the_store_holds_all_significant_values(rng):
    """Each block equals PySCF's values of its points; what is left out is below the cutoff."""
    mole = chain()
    points, weights = points_around(mole, rng, 1500, 1.0), rng.normal(size=1508)
    cutoff = 1e-6
    store = AOStore(mole, points, weights, order=1, block_size=128, cutoff=cutoff)
    assert np.mean([len(block.aos) for block in store.blocks]) < 0.8 * mole.nao
    for index, block in enumerate(store.blocks):
        reference = mole.eval_gto("GTOval_sph_deriv1", block.points).transpose(0, 2, 1)
        np.testing.assert_array_equal(store.values(index, np.empty(0)), reference[:, block.aos])
        left_out = np.setdiff1d(np.arange(mole.nao), block.aos)
        assert np.abs(reference[:, left_out]).max(initial=0.0) < cutoff


def test_the_quadrature_survives_sorting_and_padding(rng):
    """The (point, weight) pairs of the blocks are those of the grid plus points of weight zero, signs included."""
    mole = chain(2)
    points, weights = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    store = AOStore(mole, points, weights, block_size=96)
    all_points = np.concatenate([block.points for block in store.blocks])
    all_weights = np.concatenate([block.weights for block in store.blocks])
    assert len(all_points) == 96 * len(store.blocks)
    real = all_weights != 0
    pairs = lambda p, w: sorted(map(tuple, np.column_stack([p, w]).tolist()))
    assert pairs(all_points[real], all_weights[real]) == pairs(points, weights)


def test_cutoff_zero_keeps_every_orbital(rng):
    """With screening off all blocks hold all orbitals, also where they underflow."""
    mole = chain(4)
    store = AOStore(mole, 50 * rng.normal(size=(300, 3)), np.ones(300), block_size=64, cutoff=0)
    assert all(np.array_equal(block.aos, np.arange(mole.nao)) for block in store.blocks)


def test_a_far_away_block_may_have_no_orbitals():
    """Empty blocks are legal: shape (component, 0, point)."""
    mole = chain(1)
    points = np.vstack([np.zeros((8, 3)), np.full((8, 3), 500.0)])
    store = AOStore(mole, points, np.ones(16), block_size=8)
    assert sorted(store.values(i, np.empty(0)).shape for i in range(2)) == [(4, 0, 8), (4, mole.nao, 8)]


@pytest.mark.parametrize("fraction", [0.0, 0.4, 1.0])
def test_blocks_beyond_the_memory_limit_are_recomputed(fraction, rng):
    """A smaller limit keeps fewer bytes and changes no value."""
    mole = chain()
    points, weights = points_around(mole, rng, 1000, 1.0), np.ones(1008)
    full = AOStore(mole, points, weights, block_size=128)
    limit = fraction * full.total_nbytes
    store = AOStore(mole, points, weights, block_size=128, memory_limit=limit)
    assert store.nbytes <= limit
    assert (store.scratch_size == 0) == (fraction == 1.0)
    scratch = np.empty(store.scratch_size)
    for index in range(len(store.blocks)):
        np.testing.assert_array_equal(store.values(index, scratch), full.values(index, np.empty(0)))


def test_a_malformed_grid_is_refused():
    """The message states both shapes."""
    with pytest.raises(InputError, match=r"points \(5, 3\) and weights \(4,\)"):
        AOStore(chain(1), np.zeros((5, 3)), np.zeros(4))


def test_native_libraries_run_one_thread_inside_workers_and_recover():
    """BLAS and OpenMP report one thread inside a task and the old number afterwards."""

    def report():
        return {(lib["filepath"], lib["num_threads"]) for lib in ThreadpoolController().info()}

    before = report()
    inside = run_on_workers([report, report])
    assert all(threads == 1 for result in inside for _, threads in result)
    assert report() == before


def test_blas_obeys_every_thread_and_recovers_from_contexts_that_end_in_any_order():
    """Two user threads, each with an SCF: the first ends before the second, which began with the first one's number."""

    def report():
        return [lib["num_threads"] for lib in ThreadpoolController().info() if lib["user_api"] == "blas"]

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = report()
        assert 2 in before
        first, second = blas_threads(1), blas_threads(1)
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:  # both stay alive to the end
            one.submit(first.__enter__).result()
            other.submit(second.__enter__).result()
            one.submit(first.__exit__, None, None, None).result()
            assert set(report()) == {1}
            other.submit(second.__exit__, None, None, None).result()
            assert report() == before
            with blas_threads(1):
                assert set(report()) == {1}


def test_large_matrices_have_all_cores(monkeypatch):
    """BLAS has the workers' number of threads from LARGE_MATRIX rows on, one below."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    threads = lambda: {lib["num_threads"] for lib in ThreadpoolController().info() if lib["user_api"] == "blas"}
    for rows, expected in ((LARGE_MATRIX - 1, False), (LARGE_MATRIX, True)):
        with threads_for_matrices(rows):
            assert (2 in threads()) is expected


def test_results_keep_the_order_of_tasks_and_errors_surface():
    """Three tasks return in order; an exception of a task is raised by the call."""
    assert run_on_workers([lambda i=i: i for i in range(3)]) == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        run_on_workers([lambda: 1, lambda: 1 // 0])


def test_split_is_complete_balanced_and_reproducible(rng):
    """Costs are spread to within the largest single cost."""
    costs = rng.random(50)
    parts = split_evenly(costs, 3)
    assert sorted(sum(parts, [])) == list(range(50))
    totals = [costs[part].sum() for part in parts]
    assert max(totals) - min(totals) <= costs.max()
    assert parts == split_evenly(costs, 3)


def test_worker_count_follows_the_environment(monkeypatch):
    """OMP_NUM_THREADS wins; nonsense is refused by name."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert worker_count() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "99999")
    with pytest.raises(InputError, match="is more than the"):  # OpenMP crashed
        worker_count()
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(InputError, match="many"):
        worker_count()
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert worker_count() >= 1
