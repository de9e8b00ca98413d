"""Limits of memory: found in whatever stands around the process, estimated for, kept."""

import gc
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dftfd
from dftfd.errors import InputError, ResourceError
from dftfd.grids.molecular import grid_points, grid_size, molecular_grid
from dftfd.libcint.gto import component_count
from dftfd.runtime import memory
from dftfd.runtime import memory as resources
from dftfd.runtime.memory import available_memory, give_back, memory_budget, memory_size, process_memory
from dftfd.runtime.progress import Progress
from dftfd.terms.on_grid import quadrature_grid
from dftfd.xc.ao_store import AOStore, mean_orbitals

GIB = 2**30
WATER = "O 0 0 0; H 0 0 0.96; H 0 0.93 -0.24"


class Notes(Progress):
    """Keeps what is said."""

    def __init__(self):
        super().__init__()
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A made-up /proc and /sys/fs/cgroup; system(path, text) adds a file."""

    def put(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(text))

    monkeypatch.setattr(resources, "PROC", tmp_path / "proc")
    monkeypatch.setattr(resources, "CGROUPS", tmp_path / "cgroup")
    put("proc/meminfo", f"MemTotal: 99 kB\nMemAvailable:   {64 * GIB // 1024} kB\n")
    return put


def test_the_nearest_limit_of_nested_control_groups_counts(system):
    """Version 2: the limit may be the process's own group's, or any group's around it; reclaimable cache is free."""
    system("proc/self/cgroup", "0::/jobs/mine/step\n")
    assert available_memory() == 64 * GIB
    system("cgroup/memory.max", 32 * GIB)
    system("cgroup/memory.current", 2 * GIB)
    assert available_memory() == 30 * GIB
    system("cgroup/jobs/memory.max", 8 * GIB)
    system("cgroup/jobs/memory.current", 7 * GIB)
    system("cgroup/jobs/memory.stat", f"anon 5\ninactive_file {2 * GIB}\n")
    assert available_memory() == 3 * GIB
    system("cgroup/jobs/mine/step/memory.max", "max\n")
    system("cgroup/jobs/mine/step/memory.current", GIB)
    assert available_memory() == 3 * GIB
    system("cgroup/jobs/mine/memory.max", 2 * GIB)
    system("cgroup/jobs/mine/memory.current", 3 * GIB)
    assert available_memory() == 0


def test_control_groups_of_version_1(system):
    """The controller `memory` has a tree of its own; numbers near 2^63 mean no limit."""
    system("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/docker/x\n0::/\n")
    system("cgroup/memory/memory.limit_in_bytes", 2**63 - 4096)
    system("cgroup/memory/memory.usage_in_bytes", 5)
    assert available_memory() == 64 * GIB
    system("cgroup/memory/docker/x/memory.limit_in_bytes", 4 * GIB)
    system("cgroup/memory/docker/x/memory.usage_in_bytes", 3 * GIB)
    system("cgroup/memory/docker/x/memory.stat", f"total_inactive_file {GIB // 2}\n")
    assert available_memory() == 1.5 * GIB
    assert memory_budget() == int(0.8 * 1.5 * GIB)


def test_sizes_in_words():
    """A number is in MB; units of 1000 and 1024; anything else is refused."""
    assert memory_size(2000) == memory_size("2000") == memory_size("2 GB") == memory_size("2.0g") == 2 * 10**9
    assert memory_size("512 MiB") == 2**29 and memory_size("1 tib") == 2**40
    for wrong in (0, -1, "", "many", "1 XB", None, True, float("nan"), "1" * 99, "1e400"):
        with pytest.raises(InputError, match="is not a size"):
            memory_size(wrong)


def test_the_process_counts_what_it_has():
    """A limit is that of the whole process: 50 MB above what it has leave 50 MB, below it nothing is possible."""
    give_back()
    room = memory_budget(f"{process_memory() + 50 * 10**6} b")
    assert room == pytest.approx(50 * 10**6, abs=5e6)
    with pytest.raises(ResourceError, match="before anything is computed"):
        memory_budget(f"{process_memory() // 2} b")


def test_sizes_of_grids_are_known_before():
    """Levels of light and heavy elements, against the grids themselves."""
    for charges, level in (([8, 1, 1], 3), ([26, 0, 6], 0), ([92, 17], 1)):
        coordinates = np.arange(3.0 * len(charges)).reshape(-1, 3)
        assert grid_size(charges, level) == len(molecular_grid(charges, coordinates, level).weights)


def test_points_of_grids_are_known_without_their_weights():
    """The same points as those of the whole grid, in the same order."""
    charges, coordinates = [8, 1, 26], np.arange(9.0).reshape(3, 3) ** 1.3
    expected = molecular_grid(charges, coordinates, 1).points
    np.testing.assert_allclose(grid_points(charges, coordinates, 1), expected, atol=1e-13)


@pytest.mark.filterwarnings("ignore:.*long for a bond")
@pytest.mark.parametrize("order", [0, 1])
def test_orbitals_on_a_grid_are_estimated_from_a_part_of_its_points(order):
    """A chain of atoms that do not all reach each other: bytes of the store to 5 %, of which a fifth is left out."""
    atoms = "; ".join(f"{'C' if k % 2 else 'O'} {2.4 * k} {k % 3} 0" for k in range(8))
    molecule = dftfd.molecule(atoms, basis="def2-tzvp")
    points, weights = quadrature_grid(molecule, 3)
    store = AOStore(molecule, points, weights, order, memory_limit=0)
    mean = mean_orbitals(molecule, points, order)
    assert 8 * component_count(order) * mean * len(points) == pytest.approx(store.total_nbytes, rel=0.05)
    assert mean < 0.8 * molecule.n_ao


PROPANE = (
    "C 0 0 0.58; C 0 1.27 -0.26; C 0 -1.27 -0.26; H 0.88 0 1.24; H -0.88 0 1.24; H 0 2.17 0.37; H 0 -2.17 0.37; "
    "H 0.88 1.3 -0.9; H -0.88 1.3 -0.9; H 0.88 -1.3 -0.9; H -0.88 -1.3 -0.9"
)


def estimate_and_peak(text, basis, **options) -> tuple[float, float]:
    """Bytes of a process that computes energy and forces: those that its plan names, and the most that it had.

    VmHWM, since the peak of getrusage begins with what the process had that started this one.
    """
    code = f"""
import re
from pathlib import Path
import dftfd
from dftfd.runtime.memory import process_memory
from dftfd.runtime.progress import Progress
class Notes(Progress):
    def note(self, text):
        if text.startswith("memory: about") and not seen:
            words = text.split()
            seen.append(process_memory() + float(words[2]) * {{"GiB": 2**30, "MiB": 2**20}}[words[3]])
seen = []
dftfd.run_scf(dftfd.molecule({text!r}, basis={basis!r}), progress=Notes(), **{options!r}).forces()
print(seen[0], 1024 * int(re.search("VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]))
"""
    root = Path(__file__).parents[1]
    printed = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    estimate, peak = map(float, printed.split())
    return estimate, peak


@pytest.mark.slow
def test_what_is_kept_is_known_before():
    """Propane, whose plan is orbitals on the grid to four fifths, which stay until the end: the peak to 15 %."""
    estimate, peak = estimate_and_peak(PROPANE, "def2-tzvp", grid_level=5)
    assert peak == pytest.approx(estimate, rel=0.15)


@pytest.mark.slow
def test_caffeine_takes_less_than_its_plan_and_than_its_limit():
    """Its plan adds parts that are not there at the same time: buffers of integrals, orbitals on two grids."""
    molecules = runpy.run_path(str(Path(__file__).parents[1] / "examples/benchmarks/molecules.py"))
    caffeine = "; ".join(f"{symbol} {x} {y} {z}" for symbol, (x, y, z) in molecules["atoms"]("caffeine"))
    estimate, peak = estimate_and_peak(caffeine, "def2-svp", max_memory="1 GB")
    assert 0.5 * estimate < peak < min(estimate, 1e9)


@pytest.mark.parametrize("density_fit", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_leaner_way_gives_the_same_energy(density_fit):
    """With room for what is needed only, orbitals and integrals are computed again and again: the same number."""
    molecule, options = dftfd.molecule(WATER, basis="6-31g"), {"xc": "lda,vwn", "grid_level": 5}
    gc.collect()
    give_back()  # what earlier tests left: a limit gives it back, and what the process has would shrink below it
    whole = Notes()
    energy = dftfd.run_scf(molecule, **options, density_fit=density_fit, progress=whole).energy
    assert "memory: about" in whole.notes[0] and "anew" not in whole.notes[0]
    assert "orbitals on a coarse grid" in whole.notes[0]
    give_back()
    with pytest.raises(ResourceError, match="needs at least .* for compiled programs; the limit is"):
        dftfd.run_scf(molecule, **options, density_fit=density_fit, max_memory=f"{process_memory() + 2**27} b")
    for spare in range(0, 2**27, 2**22):  # the first size that is not refused
        give_back()
        lean, limit = Notes(), f"{process_memory() + 2**27 + spare} b"
        try:
            again = dftfd.run_scf(molecule, **options, density_fit=density_fit, progress=lean, max_memory=limit).energy
            break
        except ResourceError:
            continue
    assert "partly computed anew in each cycle" in lean.notes[0]
    assert again == pytest.approx(energy, abs=1e-11)


def address(array) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.skipif(not hasattr(memory.mmap, "MADV_FREE"), reason="the system has no such memory")
def test_large_arrays_stand_where_earlier_ones_stood():
    """As soon as nobody refers to these, views included; never two at once, and not where much would be left over."""
    memory.give_back()
    count = memory.LEAST // 4
    first, second = memory.empty(count), memory.empty(count)
    first[:], second[:] = 1.0, 2.0
    assert first.sum() == count and second.sum() == 2 * count
    view, place = first[5:9], address(first)
    del first
    other = address(memory.empty(count))
    assert other != place
    np.testing.assert_array_equal(view, np.ones(4))
    del view
    third = memory.empty(2 * count - 7, np.float32)
    assert third.shape == (2 * count - 7,) and third.dtype == np.float32
    assert address(third) in (place, other)
    del third
    assert address(memory.empty(count // 3)) not in (place, other)  # small ones are the C library's
    before = process_memory()
    memory.give_back()
    assert process_memory() < before - memory.LEAST / 2
    with pytest.raises(MemoryError):
        memory.empty(2**50)
