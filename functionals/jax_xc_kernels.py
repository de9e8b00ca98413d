"""The kernels of jax-xc as code of numbers, each a file of the package, loaded without the package.

`import jax_xc` fails on current JAX, as its __init__ asks for packages that are broken there. The kernels themselves
are straight-line files that take everything they need `from .utils import *`. So they are imported under a name of our
own, beside a module `utils` of ours, which brings branches that work on tracers, special functions that hold their
digits, and arithmetic that folds constants. A real jax_xc elsewhere in the process stays untouched.

The kernels were generated from libxc's formulas (https://libxc.gitlab.io) and are under the Mozilla Public License 2.0.
"""

import ast
import functools
import importlib
import importlib.util
import inspect
import math
import sys
import threading
import types
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.operators.elementary import cbrt
from dftfd.errors import MissingDependencyError
from dftfd.functionals import special

PACKAGE = "dftfd_jax_xc_kernels"
_VARIABLES = {
    "rho": ("r0", "r1"),
    "sigma": ("s0", "s1", "s2"),
    "lapl": ("l0", "l1"),
    "tau": ("tau0", "tau1"),
}
_lock = threading.RLock()


def is_installed() -> bool:
    """True if the files of jax-xc are there; where pip has no wheel of it, `dftfd get-libxc` brings them."""
    return importlib.util.find_spec("jax_xc") is not None


def require_installed(what: str = "the libxc catalogue", instead: str = "") -> None:
    """MissingDependencyError without jax-xc.   what: needs it.   instead: what would do, too."""
    if not is_installed():
        raise MissingDependencyError(
            f"{what} needs jax-xc 0.0.11, which is not installed: dftfd get-libxc brings it"
            + (f", or {instead}." if instead else "; the library's own functionals, see dftfd list, work without it.")
        )


@functools.cache
def load(name: str):
    """Code of a kernel: (p, rho, sigma, lapl, tau) -> energy per electron [hartree], each spin-resolved as in libxc."""
    require_installed()
    with _lock:
        _prepare()
        return importlib.import_module(f"{PACKAGE}.{name}").pol


@functools.cache
def read(name: str) -> tuple[str, ...]:
    """Which of rho, sigma, lapl, tau, and of the kernel's settings, a kernel reads, from its source."""
    tree = ast.parse(inspect.getsource(load(name)))
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    settings = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & {"cam_omega"}
    return (*(v for v, parts in _VARIABLES.items() if not names.isdisjoint(parts)), *settings)


def _prepare():
    if PACKAGE in sys.modules:
        return
    found: Any = importlib.util.find_spec("jax_xc")
    (root,) = found.submodule_search_locations
    package = types.ModuleType(PACKAGE, "jax-xc's kernels, see dftfd.functionals.jax_xc_kernels")
    package.__path__ = [f"{root}/impl"]
    utils = types.ModuleType(f"{PACKAGE}.utils")
    utils.__dict__.update(
        NamedTuple=NamedTuple,
        jnp=_Folding(),
        jax=jax,
        lax=jax.lax,
        lax_cond=_choose,
        Heaviside=lambda x: jnp.where(x >= 0, 1.0, 0.0),
        lambertw=special.lambert_w,
        xc_E1_scaled=special.scaled_e1,
        xc_erfcx=special.erfcx,
        br89_x=special.becke_roussel_x,
        mbrxc_x=special.multi_reference_x,
    )
    sys.modules[PACKAGE], sys.modules[utils.__name__] = package, utils


def _choose(condition, yes, no):
    """The branch of lax_cond in the kernels; both are evaluated unless the condition is known."""
    if isinstance(condition, bool | np.bool_):
        return yes if condition else no
    return jnp.where(condition, yes, no)


class _Folding:
    """jax.numpy, but functions of plain numbers give plain numbers, and cube roots are the fast ones."""

    _ON_NUMBERS = {
        "cbrt": math.cbrt, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "abs": abs, "arctan": math.atan,
        "tanh": math.tanh, "arcsinh": math.asinh, "cosh": math.cosh, "sin": math.sin, "cos": math.cos,
    }  # fmt: skip
    _ON_ARRAYS = {"cbrt": cbrt}

    def __getattr__(self, name):
        on_arrays: Any = self._ON_ARRAYS.get(name) or getattr(jnp, name)
        on_numbers: Any = self._ON_NUMBERS.get(name)
        if on_numbers is None:
            return on_arrays
        return lambda x: on_numbers(x) if isinstance(x, int | float) else on_arrays(x)
