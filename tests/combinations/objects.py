"""A random case as files and as other programs' objects: saved and loaded, interrupted, handed to PySCF, exported."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dftfd
from dftfd.errors import ResourceError, UnsupportedError
from dftfd.runtime.memory import COMPILED, process_memory
from tests.combinations.cases import Case
from tests.combinations.solving import Comparison, of_one_set, solved, total

ARRAYS = ("energy", "free_energy", "mo_energy", "mo_occ", "mo_coeff", "density_matrix", "dipole")


def save_load(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "result.h5")
        potential = result.calculation.surroundings.potential
        given = {} if potential is None else {"external_potential": potential}
        again = dftfd.load_result(Path(folder) / "result.h5", **given)
    for name in ARRAYS:
        yield f"{name} of the file", getattr(again, name), getattr(result, name), 1e-12
    yield "charges of the file", again.charges(), result.charges(), 1e-10
    yield "forces of the file", again.forces(), result.forces(), 1e-8


def restart(case: Case) -> Iterator[Comparison]:
    """A run that ends after two cycles and goes on from its checkpoint."""
    result = solved(case)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.chk"
        solved(case, max_cycles=2, checkpoint=path)
        yield "a run that was interrupted", total(solved(case, restart=path)), total(result), 1e-7


def _the_same(other, result) -> Iterator[Comparison]:
    yield "energy", total(other), total(result), 1e-8
    largest = abs(result.fock).max()  # 1e13 of no electrons in M06-2X
    yield "Fock matrix", other.fock, result.fock, 2e-5 + 1e-13 * largest
    yield "forces", other.forces(), result.forces(), 2e-6


def memory(case: Case) -> Iterator[Comparison]:
    """With the least memory that is allowed, where matrices and the grid fit but what is kept does not."""
    result = solved(case)
    for megabytes in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256):
        try:
            other = solved(case, max_memory=(process_memory() + COMPILED) / 1e6 + megabytes)
        except ResourceError:
            continue
        yield from _the_same(other, result)
        return
    raise RuntimeError("a small molecule has no room in 256 MB")


def threads(case: Case) -> Iterator[Comparison]:
    """With three threads."""
    result = solved(case)
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "3"
    try:
        other = solved(case, max_cycles=201)
        yield from _the_same(other, result)
    finally:
        del os.environ["OMP_NUM_THREADS"]
        os.environ |= {} if before is None else {"OMP_NUM_THREADS": before}


def to_pyscf_object(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    mf = result.to_pyscf()
    P = of_one_set(result.density_matrix)
    yield "the object's energy", mf.energy_tot(P), result.energy, 1e-8
    try:
        gradient = mf.nuc_grad_method()
        gradient.grid_response, gradient.verbose = True, 0
        g = gradient.kernel()
    except (NotImplementedError, AttributeError, UnsupportedError):
        return
    yield "the object's gradient", g, -result.forces(), 1e-5


def export(case: Case) -> Iterator[Comparison]:
    """C code of the functional, compiled, against values in extended precision, by its own program."""
    with tempfile.TemporaryDirectory() as folder:
        paths = dftfd.export(case.xc, Path(folder) / "c", order=1)
        sources = [str(path) for path in paths if path.suffix == ".c" and path.parent.name == "c"]
        program = str(Path(folder) / "t")
        compiled = subprocess.run(["cc", "-O0", *sources, "-lm", "-o", program], capture_output=True, text=True)
        if compiled.returncode:
            raise RuntimeError(f"cc: {compiled.stderr[:200]}")
        done = subprocess.run([program], capture_output=True, text=True)
    yield f"the program says {done.stdout.strip()[-100:]}", done.returncode, 0, 0.0
