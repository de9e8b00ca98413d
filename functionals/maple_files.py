"""Functionals of files in libxc's notation, FILE.mpl, for who names such a file. Nothing of it is executed as Python."""

from pathlib import Path
from typing import Any

from dftfd.errors import FunctionalError
from dftfd.functionals import libxc_source
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.jax_xc_formula import JaxXCFormula, Kernel
from dftfd.functionals.maple_kernel import read_kernel
from dftfd.functionals.maple_program import UnknownName
from dftfd.functionals.validation import require_valid

SUFFIX = ".mpl"
_DENSITY = 1e-15
"""libxc's usual threshold [bohr^-3]; that of gradients is its power 4/3."""


def functional_of_formula(path: Path | str) -> Functional:
    """The functional that a file in libxc's notation defines; numbers of params_a_NAME in it are its parameters.

    Files that it includes are looked for beside it, then in the source tree of libxc that DFTFD_LIBXC_SOURCE names,
    whose common definitions it may use if there is one.
    Raises FileError for files that cannot be read, FunctionalError for text that is no formula, with what is wrong.
    """
    folder = libxc_source.folder()
    kernel = read_kernel(path, () if folder is None else (folder,), own_parameters=True)
    parameters = kernel.parameters
    try:
        kernel = kernel.with_reads(parameters)
    except UnknownName as error:
        common = "" if folder is not None else f" libxc's common names need {libxc_source.WHERE}."
        raise FunctionalError(f"{Path(path).name}: {error}{common}") from error
    except FunctionalError as error:
        raise FunctionalError(f"{Path(path).name}: {error}") from error
    read = {name for name in parameters if f"params_a_{name}" in kernel.reads}
    formula = JaxXCFormula(Kernel(kernel.name, _DENSITY, _DENSITY ** (4 / 3), text=kernel))
    used: dict[str, Any] = {name: parameters[name] for name in sorted(read)}
    ingredients = ("rho", "tau") if formula.needs_tau else ("rho",)
    term = EnergyTerm(kernel.name.lower(), formula, ingredients, used, has_energy=formula.has_energy)
    require_valid(term)
    return Functional(term.name, ((1.0, term),))
