"""The test session: float64, strict dtype promotion, no rank promotion; warnings are errors (pyproject.toml)."""

import gc
import os
import shutil
import signal
import sys
import threading
from importlib.metadata import version

import jax
import pytest
from jax._src.interpreters import mlir
from pyscf import gto
from pyscf.dft import gen_grid
from pyscf.scf import hf as pyscf_hf

import dftfd  # noqa: F401  turns float64 on
from dftfd.cli.installation import INDEX
from dftfd.errors import MissingDependencyError
from dftfd.functionals import jax_xc_formula, registry
from dftfd.libcint.mole import to_pyscf
from dftfd.runtime import libxc_folder
from dftfd.runtime.json_reader import shipped_json
from dftfd.runtime.memory import give_back, process_memory

# Without bytecode each of the processes that tests start would compile 340 files, which takes half a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# `make test` runs most programs once, so XLA spends less on them; not level 0, at which it errs (test_lowered_random).
QUICK_PROGRAMS = (
    "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1"
)
if os.environ.get("DFTFD_QUICK_PROGRAMS"):
    newer = ("0.11", "0.12")  # which end at the name of an option that they do not know
    emitters = "" if version("jaxlib").startswith(newer) else " --xla_cpu_use_fusion_emitters=false"
    others = os.environ.get("XLA_FLAGS", "").replace(QUICK_PROGRAMS + emitters, "")  # workers get them from pytest
    os.environ["XLA_FLAGS"] = f"{others} {QUICK_PROGRAMS}{emitters}".strip()  # the same text, the same kept programs


def of_ten_programs(make):
    """make() for a thread, and again for its next nine calls, as JAX 0.12 does: a third of a kept program's time."""
    of_thread = threading.local()

    def context():
        if mlir.ir.Context.current is not None:  # a program within the making of one: it would be written into that
            return make()
        of_thread.uses = getattr(of_thread, "uses", 0) % 10 + 1
        if of_thread.uses == 1:
            of_thread.context = make()
        return of_thread.context

    return context


if os.environ.get("DFTFD_QUICK_PROGRAMS") and not hasattr(mlir, "_create_ir_context"):
    mlir.make_ir_context = of_ten_programs(mlir.make_ir_context)
pytest_plugins = ["tests.ledger", "tests.budgets", "tests.order"]
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # thousands of small programs, at every run
pyscf_hf.MUTE_CHKFILE = True  # its temporary checkpoint files are closed by the garbage collector only, with a warning
gc.set_threshold(50_000, 50, 100)  # tracing makes millions of objects that go by themselves
signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells turn off for what runs in the background
# PySCF takes other paths when the process holds more than this, as it does after thousands of compiled programs
gto.Mole.max_memory = 10**6  # MB


@pytest.fixture
def forged():
    """(path, change) -> the HDF5 file, changed by change(file) and sealed again: damage that no checksum tells."""
    import h5py

    from dftfd.runtime.documents import BLOCK, seal

    def forge(path, change):
        with h5py.File(path, "a") as file:
            change(file)
        content = path.read_bytes()[BLOCK:]
        path.write_bytes(seal(content) + content)
        return path

    return forge


def pytest_collection_finish(session):
    """No file of tests registers a functional as it is imported: lists of functionals would depend on what is run."""
    known = {*shipped_json("dftfd", INDEX)["own"], "hf"}
    stray = sorted(name for name in registry._REGISTRY if name not in known)
    if stray:
        raise pytest.UsageError(f"registered at import, take tests/own_functionals.py: {', '.join(stray)}")


MUCH = 3 << 30
"""Bytes of a process from which on compiled programs are given up after a file; the whole suite made 7 GB of them."""


def pytest_runtest_teardown(item, nextitem):
    if (nextitem is None or nextitem.path != item.path) and process_memory() > MUCH:
        jax.clear_caches()
        give_back()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Where there is no jax-xc, as on Python 3.13, a test of one of its names is skipped."""
    try:
        return (yield)
    except MissingDependencyError as error:
        if jax_xc_formula.is_installed() or "jax-xc" not in str(error):
            raise
        pytest.skip(f"no jax-xc for this Python: {error}")


@pytest.fixture(autouse=True, scope="session")
def without_libxc_s_source():
    """Names refused else are read from it; the tests of its formulas note at import what the variable names."""
    os.environ.pop(libxc_folder.VARIABLE, None)


def _unregistered():
    before = dict(registry._REGISTRY)
    yield
    registry._REGISTRY.clear()
    registry._REGISTRY.update(before)


unregistered = pytest.fixture(autouse=True)(_unregistered)
"""What a test registers is gone after it."""
unregistered_by_module = pytest.fixture(autouse=True, scope="module")(_unregistered)
"""And what a module's fixtures register, after its last test."""


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(20261121)


@pytest.fixture
def pyscf_grid():
    """(molecule, level) -> PySCF's points and weights, with its default settings."""

    def build(molecule, level):
        grids = gen_grid.Grids(to_pyscf(molecule))
        grids.level = level
        grids.build()
        return grids.coords, grids.weights

    return build


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install 'dftfd[browser]'")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no browser: apt install chromium")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()
