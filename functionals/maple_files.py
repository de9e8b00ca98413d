"""Functionals of files in libxc's notation, FILE.mpl, for who names such a file. Nothing is executed as Python."""

import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from dftfd.errors import FunctionalError
from dftfd.functionals import libxc_tree
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.jax_xc_formula import JaxXCFormula, Kernel
from dftfd.functionals.maple_functions import UnknownName
from dftfd.functionals.maple_kernel import read_kernel
from dftfd.functionals.parameters import parameter_text
from dftfd.functionals.validation import require_valid

SUFFIX = ".mpl"
_VARIABLES, _DENSITIES = ("rho", "sigma", "lapl", "tau"), (1e-3, 0.1, 10.0)
_DENSITY = 1e-22
"""Density [bohr^-3] that smaller ones are replaced by, as libxc does with 1e-15; for gradients its power 4/3."""


def functional_of_formula(path: Path | str) -> Functional:
    """The functional that a file in libxc's notation defines; numbers of params_a_NAME in it are its parameters.

    Files that it includes are looked for beside it, then in the source tree of libxc that DFTFD_LIBXC_SOURCE names,
    whose common definitions it may use if there is one.
    Raises FileError for files that cannot be read, FunctionalError for text that is no formula, with what is wrong.
    """
    folder = libxc_tree.folder()
    kernel = read_kernel(path, () if folder is None else (folder,), own_parameters=True)
    parameters = kernel.parameters
    try:
        kernel = kernel.with_reads(parameters)
    except UnknownName as error:
        help_ = " A parameter has its number in the file: params_a_NAME := 0.4:" if "'params_a_" in str(error) else ""
        if not help_ and folder is None:
            help_ = f" libxc's common names need {libxc_tree.WHERE}."
        raise FunctionalError(f"{Path(path).name}: {error}{help_}") from error
    except FunctionalError as error:
        raise FunctionalError(f"{Path(path).name}: {error}") from error
    read = {name for name in parameters if f"params_a_{name}" in kernel.reads}
    formula = JaxXCFormula(Kernel(kernel.name, _DENSITY, _DENSITY ** (4 / 3), text=kernel))
    used: dict[str, Any] = {name: parameters[name] for name in sorted(read)}
    ingredients = ("rho", "tau") if formula.needs_tau else ("rho",)
    term = EnergyTerm(kernel.name.lower(), formula, ingredients, used, has_energy=formula.has_energy)
    require_valid(term)
    return Functional(term.name, ((1.0, term),))


def described(path: Path | str) -> str:
    """What a file in libxc's notation holds, in a few lines, with the energy of three densities."""
    functional = functional_of_formula(path)
    ((_, term),) = functional.terms
    formula: Any = term.formula
    kernel = formula.kernel.text
    family = {"lda": "LDA", "gga": "GGA", "mgga": "meta-GGA"}[kernel.family]
    what = "energy" if functional.has_energy else "model of the potential"
    lines = [f"{functional.name}: {family}, {what}, of {', '.join(v for v in _VARIABLES if v in formula.variables)}"]
    lines += [f"  parameter {name} = {parameter_text(value)}" for name, value in functional.parameters.items()]
    if functional.has_energy:
        lines.append("  e [hartree bohr^-3] at s = q = 0, tau of the uniform gas, zeta = 0, 0.5, 1:")
        for n in _DENSITIES:
            energies = (float(_of_uniform_gas(formula, n, zeta, term.parameters)) for zeta in (0.0, 0.5, 1.0))
            lines.append(f"    n = {n:<6g}" + "".join(f"{e:22.12e}" for e in energies))
    lines.append(f"dftfd check {path} compares its derivatives; dftfd run ... --xc {path} calculates with it.")
    return "\n".join(lines)


def _of_uniform_gas(formula, n, zeta, parameters):
    rho = tuple(jnp.asarray(0.5 * n * (1 + sign * zeta)) for sign in (1, -1))
    zero = jnp.zeros(())
    tau = tuple(0.3 * (6 * math.pi**2) ** (2 / 3) * m ** (5 / 3) for m in rho)
    return formula.energy_per_volume(rho, (zero,) * 3, (zero,) * 2, tau, parameters)
