"""Exported C code, compiled and called: what tests and benchmarks of `dftfd.export` share."""

import ctypes
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import dftfd
from dftfd.autofd import compose
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.translate.c_files import Exported
from dftfd.translate.programs import identifier
from dftfd.xc.channels import FAMILIES, MEMBERS

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def exported_to(folder, functional, order):
    given = functional if isinstance(functional, Functional) else dftfd.get_functional(functional)
    dftfd.export(given, folder, order=order)
    return Exported(identifier(given.name), given, order)


def own_functional():
    """Three lines of a formula that the library does not have."""

    def energy(n, *, a=0.7, b=0.02):
        gradient = dftfd.autofd.nabla(n)
        s2 = dftfd.autofd.dot(gradient, gradient) * n ** (-8 / 3)
        return -a * n ** (4 / 3) * (1 + compose(lambda x, b: jnp.tanh(b * x) / (1 + jnp.sqrt(1 + x)), s2, b))

    return Functional("own three lines", ((1.0, EnergyTerm.from_formula(energy, "t_own")),))


def shared_library(folder: Path, *flags: str, compiler: str = COMPILER or "cc") -> Path:
    """The folder's code, without its test, as a shared library."""
    sources = [path for path in sorted(folder.glob("*.c")) if not path.name.endswith("_test.c")]
    with ThreadPoolExecutor(2) as workers:
        objects = list(workers.map(lambda s: _object(s, compiler, flags), sources))
    library = folder / "exported.so"
    subprocess.run([compiler, "-shared", *flags, *map(str, objects), "-lm", "-o", str(library)], check=True)
    return library


def _object(source, compiler, flags):
    target = source.with_suffix(".o")
    subprocess.run([compiler, *(flags or ("-O1",)), "-fPIC", "-c", str(source), "-o", str(target)], check=True)
    return target


def run_test(folder: Path, *flags: str, compiler: str = COMPILER or "cc") -> str:
    """What the folder's test prints; CalledProcessError where it fails or does not compile."""
    sources = map(str, sorted(folder.glob("*.c")))
    program = folder / "t"
    subprocess.run([compiler, *flags, *sources, "-lm", "-o", str(program)], check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


class Code:
    """Exported code in this process."""

    def __init__(self, library: Path, exported: Exported):
        self._library = ctypes.CDLL(str(library))
        self._evaluate = getattr(self._library, f"{exported.name}_evaluate")
        self._evaluate.argtypes = [ctypes.c_int, ctypes.c_size_t, *[ctypes.c_void_p] * 6]
        self.exported = exported

    def results(self, n_spin: int, n_points: int, order: int) -> dict[str, np.ndarray]:
        """Arrays (point, component) for all results up to an order."""
        slots = self.exported.slots
        components = self.exported.components(n_spin)
        return {s: np.empty((n_points, len(components[s]))) for s, k in slots.items() if k <= order}

    def fill(self, results, n_spin: int, arrays, parameters=None) -> int:
        """Call the code; arrays: (point, component) of rho, sigma, lapl and tau, or None."""
        table = (ctypes.c_void_p * len(self.exported.slots))(
            *(results[s].ctypes.data if s in results else None for s in self.exported.slots)
        )
        pointers = [None if a is None else a.ctypes.data for a in arrays]
        if parameters is not None:
            parameters = np.array(parameters).ctypes.data
        return self._evaluate(n_spin, len(arrays[0]), *pointers, parameters, ctypes.addressof(table))

    def derivatives(self, x, n_spin: int, order: int, parameters=None) -> list[dict[tuple[int, ...], np.ndarray]]:
        """By order: {combination of positions in VARIABLES: (point,)}, of rows x (point,)."""
        arrays = [np.ascontiguousarray(np.stack([x[k] for k in MEMBERS[n_spin][f]], axis=-1)) for f in FAMILIES]
        results = self.results(n_spin, len(arrays[0]), order)
        assert self.fill(results, n_spin, arrays, parameters) == 0
        found: list[dict] = [{} for _ in range(order + 1)]
        for slot, derivatives in self.exported.components(n_spin).items():
            if slot in results and slot != "zk":
                found[self.exported.slots[slot]] |= dict(zip(derivatives, results[slot].T, strict=True))
        return found
