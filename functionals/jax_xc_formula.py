"""A kernel of jax-xc as a formula on functions, whose variables are clamped as libxc clamps them.

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
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import compose, dot, laplacian, nabla
from dftfd.autofd.core.structure import HasKey
from dftfd.autofd.operators.elementary import cbrt
from dftfd.errors import FunctionalError, MissingDependencyError
from dftfd.functionals import libxc_tree, special
from dftfd.functionals.maple_kernel import MapleKernel
from dftfd.functionals.numerics import zero_with_slope
from dftfd.functionals.parameters import in_tuples, shape_of

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
            f"{what} needs jax-xc 0.0.11, which is not installed: dftfd get-libxc installs it"
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
    package = types.ModuleType(PACKAGE, "jax-xc's kernels, see dftfd.functionals.jax_xc_formula")
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


_ZETA_THRESHOLD, _TAU_THRESHOLD = float(np.finfo(float).eps), 1e-20
_MINORITY = 2 * _ZETA_THRESHOLD
"""Smallest ratio of the spin densities: below it 1 - zeta would be rounded to zero, where the kernels' branches, which
are both evaluated, have derivatives that are not finite. The energy changes in its last digit."""


@dataclass(frozen=True)
class Kernel:
    """A formula of libxc's with the thresholds that libxc evaluates it with [bohr^-3, bohr^-4, hartree bohr^-3].

    text: the formula itself, as libxc's source has it; without, it is the file of jax-xc of this name.
    """

    name: str
    dens_threshold: float
    sigma_threshold: float
    zeta_threshold: float = _ZETA_THRESHOLD
    tau_threshold: float = _TAU_THRESHOLD
    cam_alpha: float = 0.0
    cam_beta: float = 0.0
    parameters: tuple = ()  # of a kinetic energy in the place of tau; others come with each call
    text: MapleKernel | None = None

    @classmethod
    def from_record(cls, record, with_parameters=False) -> "Kernel":
        given = {k: v for k, v in record.items() if k not in ("name", "kernel", "params", "tau", "cam_omega", "reads")}
        params = record.get("params", {}) if with_parameters else {}
        fixed = tuple(sorted(in_tuples(params).items()))
        text = libxc_tree.kernel(record["kernel"], record["reads"]) if "reads" in record else None
        return cls(record["kernel"], parameters=fixed, text=text, **given)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.text.reads if self.text is not None else read(self.name)

    def energy_per_electron(self, rho, sigma, lapl, tau, parameters):
        """The kernel itself, on values within the thresholds; without a parameter omega nothing is screened."""
        parameters = dict(self.parameters) | parameters
        p = SimpleNamespace(
            params=SimpleNamespace(**parameters),
            dens_threshold=self.dens_threshold,
            zeta_threshold=self.zeta_threshold,
            cam_omega=parameters.get("omega", 0.0),
            cam_alpha=self.cam_alpha,
            cam_beta=self.cam_beta,
            nspin=2,
        )
        code = self.text if self.text is not None else load(self.name)
        return code(p, rho, sigma, lapl, tau)

    def clamped(self, rho, sigma, tau):
        """rho, sigma and tau at or above their thresholds, |sigma_ab| at most the mean of the others.

        As in libxc, derivatives are those of the kernel at the clamped values, also with respect to what was clamped.
        """
        least = lambda x, limit: _moved(x, jnp.where(x > limit, x, limit))
        aa, ab, bb = sigma
        aa, bb = least(aa, self.sigma_threshold**2), least(bb, self.sigma_threshold**2)
        mean = 0.5 * (aa + bb)
        ab = _moved(ab, jnp.where(ab > mean, mean, jnp.where(ab < -mean, -mean, ab)))
        rho = tuple(least(n, self.dens_threshold) for n in rho)
        rho = tuple(least(n, _MINORITY * other) for n, other in zip(rho, rho[::-1], strict=True))
        return rho, (aa, ab, bb), tuple(least(t, self.tau_threshold) for t in tau)


def _moved(x, value):
    """`value` with the derivative of x."""
    return x + jax.lax.stop_gradient(value - x)


@dataclass(frozen=True)
class JaxXCFormula(HasKey):
    """formula(rho[, tau], **parameters): energy per volume as a Function.

    shapes: of the kernel's parameters, by name.
    kinetic: the kinetic energy that stands for tau in a deorbitalised functional.
    """

    kernel: Kernel
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    kinetic: Kernel | None = None

    @classmethod
    def from_record(cls, record) -> "JaxXCFormula":
        shapes = tuple((name, np.shape(value)) for name, value in sorted(record.get("params", {}).items()))
        kinetic = Kernel.from_record(record["tau"], with_parameters=True) if "tau" in record else None
        return cls(Kernel.from_record(record), shapes, kinetic)

    @functools.cached_property
    def variables(self) -> frozenset[str]:
        """Which of rho, sigma, lapl, tau the energy is a function of."""
        if self.kinetic is None:
            return frozenset(self.kernel.reads)
        return (frozenset(self.kernel.reads) - {"tau"}) | frozenset(self.kinetic.reads)

    @property
    def needs_tau(self) -> bool:
        return "tau" in self.variables

    def structural_key(self):
        return (JaxXCFormula, self.kernel, self.kinetic)

    def __call__(self, rho, tau=None, /, **parameters):
        self._require_shapes(parameters)
        functions = [rho]
        if "sigma" in self.variables:
            grad = nabla(rho)
            functions += [dot(grad[s], grad[t]) for s, t in ((0, 0), (0, 1), (1, 1))]
        if "lapl" in self.variables:
            functions += [laplacian(rho[0]), laplacian(rho[1])]
        if "tau" in self.variables:
            functions.append(tau)
        leaves, tree = jax.tree_util.tree_flatten(parameters)
        is_array = tuple(hasattr(v, "dtype") for v in leaves)
        numbers = tuple(v for v, array in zip(leaves, is_array, strict=True) if not array)
        arrays = [v for v, array in zip(leaves, is_array, strict=True) if array]
        return compose(functools.partial(_energy_of_values, self, tree, is_array, numbers), *functions, *arrays)

    def _require_shapes(self, parameters):
        """The kernels index their parameters, which JAX answers beyond the end of an array too."""
        for name, shape in self.shapes:
            if (given := shape_of(parameters[name])) != shape:
                raise FunctionalError(
                    f"parameter {name!r} of libxc's kernel {self.kernel.name!r} has shape {shape}, {given} was given."
                )

    def energy_per_volume(self, rho, sigma, lapl, tau, parameters):
        """Energy per volume of one point; zero where the total density is below the threshold, as in libxc."""
        is_dense, given = rho[0] + rho[1] >= self.kernel.dens_threshold, rho
        safe = lambda values, v: tuple(jnp.where(is_dense, x, v) for x in values)
        n, lapl = sum(safe(rho, 0.5)), safe(lapl, 0.0)
        rho, sigma, tau = self.kernel.clamped(safe(rho, 0.5), safe(sigma, 0.1), safe(tau, 1.0))
        if self.kinetic is not None:
            tau = self._kinetic_energies(rho, sigma, lapl)
        if not self.has_energy:
            return jnp.where(is_dense, self._with_slope(given, rho, sigma, lapl, tau, parameters), 0.0)
        e = self.kernel.energy_per_electron(rho, sigma, lapl, tau, parameters)
        return jnp.where(is_dense, _moved((rho[0] + rho[1]) * e, n * e), 0.0)

    @property
    def has_energy(self) -> bool:
        """False for model potentials."""
        return self.kernel.text is None or self.kernel.text.kind == "exc"

    def _with_slope(self, given, rho, sigma, lapl, tau, parameters):
        """Zero, with the potential of each spin as the derivative by its density."""
        v_a = self.kernel.energy_per_electron(rho, sigma, lapl, tau, parameters)
        v_b = self.kernel.energy_per_electron(rho[::-1], sigma[::-1], lapl[::-1], tau[::-1], parameters)
        return zero_with_slope(given[0], v_a) + zero_with_slope(given[1], v_b)

    def _kinetic_energies(self, rho, sigma, lapl):
        """tau of each spin from the kinetic energy functional of that spin alone.

        The other spin is absent: a ratio of the densities that is lost in rounding. libxc puts its threshold there,
        which is 1e-7 of a density of 1e-8.
        """
        kinetic: Any = self.kinetic
        absent = [jax.lax.stop_gradient(_MINORITY * n) for n in rho]
        no_gradient, zero = [cbrt(n) ** 8 for n in absent], jnp.zeros_like(rho[0])
        alone = (
            ((rho[0], absent[0]), (sigma[0], zero, no_gradient[0]), (lapl[0], zero)),
            ((absent[1], rho[1]), (no_gradient[1], zero, sigma[2]), (zero, lapl[1])),
        )
        of_spin = lambda given: kinetic.energy_per_electron(*given, (zero, zero), {})
        return tuple(n * of_spin(given) for n, given in zip(rho, alone, strict=True))


def _energy_of_values(formula, tree, is_array, numbers, rho, *rest):
    """The energy from values in the order of `JaxXCFormula.__call__`."""
    values, numbers = iter(rest), iter(numbers)
    take = lambda count: tuple(next(values) for _ in range(count))
    zero = jnp.zeros_like(rho[0])
    sigma = take(3) if "sigma" in formula.variables else (zero,) * 3
    lapl = take(2) if "lapl" in formula.variables else (zero,) * 2
    tau = next(values) if "tau" in formula.variables else (zero,) * 2
    leaves = [next(values) if array else next(numbers) for array in is_array]
    parameters = jax.tree_util.tree_unflatten(tree, leaves)
    return formula.energy_per_volume((rho[0], rho[1]), sigma, lapl, (tau[0], tau[1]), parameters)
