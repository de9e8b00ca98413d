"""XC, Coulomb and exchange matrices on JAX devices, of which four are virtual, against the processor's and PySCF's."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from pyscf import df

import dftfd
from dftfd.errors import NumericalError
from dftfd.grids.molecular import molecular_grid
from dftfd.libcint.mole import to_pyscf
from dftfd.terms.fitted_integrals import DeviceCoulombExchange
from dftfd.xc import device as device_xc
from dftfd.xc.ao_store import AOStore
from dftfd.xc.device import DeviceXCBuilder, accelerated_devices
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder

FAR_APART = (
    "N 0 0 0; C 1.46 0 0; C 2.0 1.4 0.2; O 1.3 2.4 0.1; H -0.3 0.5 0.8; H -0.3 0.5 -0.8; H 1.8 -0.5 0.9; H 9 9 9"
)


def grid(molecule, level):
    """Points and weights."""
    found = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    return np.asarray(found.points), np.asarray(found.weights)


def difference(xc, n_spin, devices, empty_blocks=0, **options):
    """Largest differences of energy, matrix and electrons [atomic units] from XCBuilder's, and of how much."""
    molecule = dftfd.molecule(FAR_APART, basis="6-31g", spin=1)
    kernel = XCKernel(dftfd.get_functional(xc).semilocal_part, n_spin)
    points, weights = grid(molecule, 1)
    far = np.full((512 * empty_blocks, 3), 500.0)  # no orbital reaches there
    points, weights = np.vstack([points, far]), np.append(weights, np.ones(len(far)))
    store = AOStore(molecule, points, weights, max(kernel.order, int(kernel.needs_tau)), block_size=512)
    assert any(len(block.aos) == 0 for block in store.blocks) == bool(empty_blocks)
    C = np.linalg.qr(np.random.default_rng(3).normal(size=(molecule.n_ao, molecule.n_ao)))[0]
    P = np.stack([C[:, : 9 - s] @ C[:, : 9 - s].T for s in range(n_spin)]) * (2.0 if n_spin == 1 else 1.0)
    expected = XCBuilder(kernel, store).build(P)
    found = DeviceXCBuilder(kernel, store, devices, **options).build(P)
    pairs = [(getattr(found, name), getattr(expected, name)) for name in ("energy", "matrix", "n_electrons")]
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in pairs)


QUICK = {("lda,vwn", 1)}
CASES = [(xc, n_spin) for xc in ("lda,vwn", "pbe", "r2scan", "r2scanl", "mgga_x_br89") for n_spin in (1, 2)]
# How blocks are put together does not depend on the functional, of which the simplest compiles in the least time.
of_any_functional = pytest.mark.parametrize("xc", ["lda_x", pytest.param("pbe", marks=pytest.mark.slow)])


@pytest.mark.parametrize(
    ("xc", "n_spin"), [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES]
)
@pytest.mark.one_in(2)
def test_one_device(xc, n_spin):
    """Value, gradient, Hessian and tau channels, restricted and not: relative 1e-12 of energy, matrix and electrons."""
    assert difference(xc, n_spin, jax.devices()[:1]) < 1e-12


@of_any_functional
def test_batches_that_do_not_fit_travel(xc):
    """With room for no batch, the same numbers."""
    assert difference(xc, 1, jax.devices()[:1], memory_limit=0) < 1e-12


@pytest.mark.slow  # test_one_device is quick
@of_any_functional
def test_large_batches_are_split_and_small_ones_stay(xc, monkeypatch):
    """Batches of one or two blocks, of which those that fit into the room stay: the same numbers."""
    rows = {"lda_x": 1, "pbe": 4}[xc]  # of orbitals, and their gradients
    monkeypatch.setattr(device_xc, "_BATCH", rows << 18)
    assert difference(xc, 1, jax.devices()[:1], memory_limit=rows * 1e6) < 1e-12


@of_any_functional
def test_blocks_without_orbitals_count_nothing(xc):
    """Far points, in blocks of their own, add the energy of no density: zero."""
    assert difference(xc, 2, jax.devices()[:1], empty_blocks=2) < 1e-12


def test_what_is_not_finite_is_an_error():
    """NaN in the density is found, as on the processor's path."""
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    kernel = XCKernel(dftfd.get_functional("pbe"), 1)
    store = AOStore(molecule, *grid(molecule, 0), 1)
    with pytest.raises(NumericalError, match="nan"):
        DeviceXCBuilder(kernel, store, jax.devices()[:1]).build(np.full((1, 2, 2), np.nan))


@pytest.mark.parametrize("omega", [0.0, 0.3])
def test_fitted_coulomb_and_exchange_are_pyscfs(omega):
    """J and K of two orbital sets from PySCF's own fitting in the same functions: 1e-12."""
    molecule = dftfd.molecule("O 0 0 0; H 0 0 0.96; H 0 0.93 -0.24", basis="6-31g")
    ours = DeviceCoulombExchange(molecule, True, jax.devices()[0])
    C = np.random.default_rng(1).normal(size=(2, molecule.n_ao, 5))
    P = C @ C.transpose(0, 2, 1)
    mole = to_pyscf(molecule).copy()
    fitting = df.DF(mole, auxbasis=ours.fitting_functions)
    J, K = fitting.get_jk(P, hermi=1, omega=omega or None)
    if not omega:
        assert abs(ours.coulomb(P) - J.sum(axis=0)).max() < 1e-12
    for orbitals in (list(C), None):
        assert abs(ours.exchange(P, orbitals, omega) - K).max() < 1e-12


@pytest.mark.skipif(jax.devices()[0].platform != "cpu", reason="there is an accelerator")
def test_the_processor_alone_needs_no_devices():
    """One processor device: the usual path."""
    assert accelerated_devices(1000) is None


SCRIPT = """
import jax, sys
sys.path.insert(0, {tests!r})
import dftfd
from dftfd.xc import device
from test_device_xc import difference
device.WORTH = 0
assert len(device.accelerated_devices(1)) == 4
print(difference({xc!r}, {n_spin}, jax.devices()))
water = dftfd.molecule("O 0 0 0; H 0 0 0.96; H 0 0.93 -0.24", basis="6-31g")
result = dftfd.run_scf(water, {of_run!r}, grid_level=1, conv_tol=1e-12)
print(result.energy)
"""


@pytest.mark.parametrize(
    ("xc", "n_spin", "of_run"),
    [
        pytest.param("lda_x", 2, "lda_x", marks=pytest.mark.slow),  # a process; test_one_device is quick
        pytest.param("pbe", 2, "pbe", marks=pytest.mark.slow),
        pytest.param("mgga_x_tpss", 1, "pbe", marks=pytest.mark.slow),
    ],
)
def test_four_devices(xc, n_spin, of_run):
    """Blocks shared out among four virtual devices: 1e-12; run_scf uses them, and its energy is that without."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(tests=os.path.dirname(__file__), xc=xc, n_spin=n_spin, of_run=of_run)],
        env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    error, energy = map(float, done.stdout.split())
    assert error < 1e-12
    water = dftfd.molecule("O 0 0 0; H 0 0 0.96; H 0 0.93 -0.24", basis="6-31g")
    expected = dftfd.run_scf(water, of_run, grid_level=1, conv_tol=1e-12).energy
    assert energy == pytest.approx(expected, abs=1e-11)
