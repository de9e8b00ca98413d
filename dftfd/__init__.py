"""dftfd: density-functional theory by functional automatic differentiation.

An exchange-correlation functional is written once, as an energy on density functions; potentials, Kohn-Sham matrices
and everything above are derived. Importing the package turns JAX's float64 mode on.
"""

from dftfd.runtime import startup  # isort: skip

startup.end_at_once_on_interrupt()
startup.end_with_parent()
with startup.said_by_the_command():
    startup.require_address_space()

# ruff: noqa: E402
import importlib
import logging
import os

import jax

from dftfd.errors import DftfdError, InputError
from dftfd.runtime.compilation_cache import enable_compilation_cache
from dftfd.runtime.version import VERSION as __version__

_FALSE = {"0", "false", "off", "no", "f", "n"}
with startup.said_by_the_command():
    if os.environ.get("JAX_ENABLE_X64", "").lower() in _FALSE - {""}:
        raise InputError(
            f"JAX_ENABLE_X64={os.environ['JAX_ENABLE_X64']!r} asks for 32-bit arithmetic, but dftfd computes in "
            "float64. Unset the variable."
        )
    jax.config.update("jax_enable_x64", True)
    enable_compilation_cache()
logging.getLogger("dftfd").addHandler(logging.NullHandler())

# Public names and the modules that hold them; loaded at first use so that `import dftfd` stays fast.
_PUBLIC = {
    "molecule": "dftfd.system.molecule",
    "Molecule": "dftfd.system.molecule",
    "run_scf": "dftfd.tasks.run",
    "optimize": "dftfd.tasks.optimization",
    "numerical_forces": "dftfd.tasks.numerical_forces",
    "run_batch": "dftfd.batch",
    "interaction_energy": "dftfd.tasks.counterpoise",
    "SCFResult": "dftfd.results.result",
    "load_result": "dftfd.results.result_file",
    "functional": "dftfd.functionals.registry",
    "potential": "dftfd.functionals.registry",
    "register": "dftfd.functionals.registry",
    "get_functional": "dftfd.functionals.registry",
    "list_functionals": "dftfd.functionals.registry",
    "Functional": "dftfd.functionals.base",
    "exact_exchange": "dftfd.functionals.base",
    "density_function": "dftfd.xc.density",
    "molecular_grid": "dftfd.grids.molecular",
    "check": "dftfd.verify.check",
    "audit": "dftfd.verify.audit",
}

__all__ = ["DftfdError", "InputError", "__version__", "autofd", *_PUBLIC]


def __getattr__(name):
    if name == "autofd":
        return importlib.import_module("dftfd.autofd")
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'dftfd' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
