"""dftfd: density-functional theory by functional automatic differentiation.

An exchange-correlation functional is written once, as an energy on density functions; potentials, Kohn-Sham matrices
and everything above are derived. Importing the package turns JAX's float64 mode on.
"""

import sys

if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith("dftfd") and not sys.flags.safe_path:
    del sys.path[
        0
    ]  # `python -m dftfd`: the current folder, whose files nobody has asked for; the command has none of it

from dftfd.runtime import startup  # isort: skip

startup.end_at_once_on_interrupt()
startup.end_with_parent()
startup.load_without_collections()
with startup.said_by_the_command():
    startup.require_address_space()

# ruff: noqa: E402
import importlib
import logging

from dftfd import errors
from dftfd.errors import DftfdError, InputError
from dftfd.runtime.version import VERSION as __version__

if not startup.is_command():
    importlib.import_module("dftfd.runtime.jax_settings").prepare_jax()
logging.getLogger("dftfd").addHandler(logging.NullHandler())

# Public names and the modules that hold them; loaded at first use so that `import dftfd` stays fast. __init__.pyi
# tells editors and type checkers the same.
_PUBLIC = {
    "molecule": "dftfd.system.molecule",
    "Molecule": "dftfd.system.molecule",
    "run_scf": "dftfd.tasks.run",
    "energy": "dftfd.model.energy_in_jax",
    "differentiable_scf": "dftfd.training.self_consistent",
    "fit": "dftfd.training.fitting",
    "discover": "dftfd.discovery.running",
    "load_functional": "dftfd.functionals.named_files",
    "invert": "dftfd.training.inversion",
    "load_inversion": "dftfd.training.inverted",
    "losses": "dftfd.training",
    "optimize": "dftfd.tasks.optimization",
    "reaction_path": "dftfd.tasks.reaction_path",
    "scan": "dftfd.tasks.scanning",
    "load_scan": "dftfd.tasks.scanning",
    "nuclear_forces": "dftfd.model.forces",
    "numerical_forces": "dftfd.tasks.energy_differences",
    "run_batch": "dftfd.batch",
    "benchmark": "dftfd.benchmarks",
    "reaction": "dftfd.benchmarks.reaction_energy",
    "interaction_energy": "dftfd.tasks.energy_differences",
    "solvation_energy": "dftfd.tasks.energy_differences",
    "SCFResult": "dftfd.results.result",
    "load_result": "dftfd.results.result_file",
    "load_excitations": "dftfd.response.excitations",
    "load_vibrations": "dftfd.results.vibrations",
    "functional": "dftfd.functionals.registry",
    "potential": "dftfd.functionals.registry",
    "grid_functional": "dftfd.functionals.registry",
    "skala": "dftfd.functionals.skala",
    "dm21": "dftfd.functionals.dm21",
    "register": "dftfd.functionals.registry",
    "get_functional": "dftfd.functionals.registry",
    "list_functionals": "dftfd.functionals.registry",
    "Functional": "dftfd.functionals.base",
    "exact_exchange": "dftfd.functionals.base",
    "long_range_exchange": "dftfd.functionals.base",
    "density_function": "dftfd.xc.density",
    "molecular_grid": "dftfd.grids.molecular",
    "Grid": "dftfd.grids.molecular",
    "check": "dftfd.verify.check",
    "audit": "dftfd.verify.audit",
    "audit_code": "dftfd.verify.code_audit",
    "report_card": "dftfd.verify.report_card",
    "prove": "dftfd.verify.proofs",
    "load_proof": "dftfd.verify.proofs",
    "export": "dftfd.translate.exporting",
    "workbench": "dftfd.interactive.workbench",
}

__all__ = ["DftfdError", "InputError", "__version__", "autofd", "errors", *_PUBLIC]


def __getattr__(name):
    if name in ("autofd", "benchmarks"):  # packages with names of their own
        return importlib.import_module(f"dftfd.{name}")
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'dftfd' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
