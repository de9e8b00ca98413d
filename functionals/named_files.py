"""Functionals in files: "FILE.py:NAME" of Python code, "FILE.mpl" in libxc's notation, "FILE.json" of a saved one.

They are for who says so on a command line or in a call. A file of Python code is executed. It happens only where
somebody has written this text as the functional that is wanted: no name in a document, a result or a record is read
this way, and no file is executed because it lies somewhere.
"""

import importlib.machinery
import importlib.util
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import jax.numpy as jnp

from dftfd.errors import FileError, FunctionalError, InputError, closest_names, one_line, shown
from dftfd.functionals import libxc_tree
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.jax_xc_formula import JaxXCFormula, Kernel
from dftfd.functionals.maple_kernel import read_kernel
from dftfd.functionals.maple_program import UnknownName
from dftfd.functionals.parameters import parameter_text, plain
from dftfd.functionals.registry import calling, get_functional, register, term
from dftfd.functionals.validation import require_valid
from dftfd.runtime.arguments import public
from dftfd.runtime.documents import refusing_damage
from dftfd.runtime.files import read_bytes, write_text
from dftfd.runtime.json_reader import parse_json
from dftfd.runtime.libxc_folder import maple_folder

FORM, MAX_BYTES = 1, 2**24


def save_functional(path, name: str, functional: Functional) -> None:
    """Write a functional with changed parameters; InputError where its parts cannot be found by their names."""
    document: dict[str, Any] = {"dftfd_functional": FORM, "name": str(name), **functional.definition}
    document["fingerprint"] = program_fingerprint(functional)
    try:
        found = _functional(document)
    except TypeError as error:
        raise InputError(f"functional {functional.name[:60]!r} cannot be saved: {error}.") from error
    if program_fingerprint(found) != document["fingerprint"]:
        raise InputError(
            f"functional {functional.name[:60]!r} cannot be restored from the names of its terms; register them "
            "with @dftfd.functional in a module, then save."
        )
    write_text(path, json.dumps(document, indent=1))


@public
def load_functional(path: Path) -> Functional:
    """Read the functional written by `Fit.save` and register it under its name.

    Raises FileError for a file that is damaged or cannot be read, FunctionalError if the code of a formula has changed.
    """
    with refusing_damage(path, "is not a saved functional"):
        document = parse_json(read_bytes(path, MAX_BYTES))
        if document["dftfd_functional"] != FORM:
            raise ValueError(f"form {document['dftfd_functional']}, {FORM} is known")
        found, fingerprint, name = _functional(document), document["fingerprint"], document["name"]
    if program_fingerprint(found) != fingerprint:
        raise FunctionalError(
            f"{path}: the code of {', '.join(term.name for _, term in found.terms)} has changed since the fit, so "
            "its parameters do not apply; fit again, or restore that version."
        )
    return register(found, name)


def _functional(document) -> Functional:
    """The sum of the terms that are named, with these parameters."""
    terms = []
    for row in document["terms"]:
        ((_, term),) = get_functional(row["name"]).terms
        values = {name: _like(term.parameters[name], value) for name, value in row["parameters"].items()}
        terms.append((float(row["coefficient"]), term.with_parameters(values)))
    exchange = tuple((float(omega), float(fraction)) for omega, fraction in document["exact_exchange"])
    dispersion = tuple(document["dispersion"]) if "dispersion" in document else None
    pt2 = tuple(map(float, document.get("pt2", ())))
    return Functional(str(document["name"]), tuple(terms), exchange, dispersion, pt2=pt2)


def _like(before, value):
    """Plain data as the parameter that it stands for; TypeError where it does not fit."""
    if isinstance(before, tuple):
        return tuple(_like(b, v) for b, v in zip(before, value, strict=True))
    if plain(before) is not before and not isinstance(before, float | int):
        raise TypeError("parameters that are arrays or networks are not kept in such files")
    return type(before)(value)


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
    folder = maple_folder()
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
    what = "energy" if functional.has_energy else "model potential"
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


_NAMED = re.compile(r"(?P<path>.+\.py):(?P<what>.+)", re.DOTALL | re.IGNORECASE)
_loaded: dict[Path, tuple[tuple, ModuleType]] = {}  # with size and time of the file as it was executed


def names_file(text: Any) -> bool:
    """Whether this text is FILE.py:NAME, FILE.mpl or FILE.json."""
    if not isinstance(text, str):
        return False
    return names_formula(text) or _names_saved(text) or _NAMED.fullmatch(text.strip()) is not None


def _names_saved(text):
    return text.strip().lower().endswith(".json")


def names_formula(text: str) -> bool:
    """Whether this text is FILE.mpl, see dftfd.functionals.named_files."""
    return text.strip().lower().endswith(SUFFIX)


def functional_in_file(text: str) -> Functional:
    """The functional that FILE.mpl, FILE.py:NAME or FILE.py:EXPRESSION says, unregistered or registered by the file.

    NAME: of a Functional or of a formula, def own(n, *, mu=0.2), in the file; else an expression as for
    `get_functional`, in which the names in the file, and those that it registers, count ("own.py:own_x, pbe").
    FILE.json: a saved functional, see `dftfd.load_functional`; FILE.py:FILE.json where its formulas are of a file.

    Raises FileError for a file that cannot be read, FunctionalError for code that fails and names that are not there.
    """
    if names_formula(text):
        return functional_of_formula(text.strip())
    if _names_saved(text) and _NAMED.fullmatch(text.strip()) is None:
        return load_functional(Path(text.strip()))
    path, what = _parts(text)
    module = load_file(path)
    if _names_saved(what):
        return load_functional(Path(what))
    found = made_in(module, what)
    if found is not None:
        return found
    if hasattr(module, what):
        raise FunctionalError(
            f"{what!r} in {path} is {shown(getattr(module, what))}; a Functional or a formula expected."
        )
    try:
        with calling(_names_in(module, what)):
            return get_functional(what)
    except FunctionalError as error:
        if not what.isidentifier():
            raise
        raise FunctionalError(f"{path} has no functional {what!r}; {_offered(module)}") from error


def _names_in(module, expression):
    """{name: Functional} for an expression: those of the file, and its formulas that the expression names."""
    words = {word.lower() for word in re.findall(r"[^\W\d]\w*", expression)}
    own = lambda value: callable(value) and getattr(value, "__module__", None) == module.__name__
    named = [key for key, value in vars(module).items() if key.lower() in words and own(value)]
    found = {key.lower(): value for key, value in vars(module).items() if isinstance(value, Functional)}
    return {key.lower(): made for key in named if (made := made_in(module, key)) is not None} | found


def made_in(module: ModuleType, name: str) -> Functional | None:
    """The Functional of this name in a module, or one of a formula of this name, looked at as registration does."""
    found = getattr(module, name, None)
    if isinstance(found, Functional) or not callable(found):
        return found if isinstance(found, Functional) else None
    made = term(name)(found)
    for _, part in made.terms:
        require_valid(part)
    return made


def code_in_file(text: str) -> Any:
    """What FILE.py:NAME names; FunctionalError where there is nothing of this name."""
    path, what = _parts(text)
    module = load_file(path)
    if not hasattr(module, what):
        close = ", ".join(closest_names(what, [name for name in vars(module) if not name.startswith("_")]))
        raise FunctionalError(f"{path} has no {what!r}; the closest names are {close or 'none: it is empty'}.")
    return getattr(module, what)


@dataclass(frozen=True)
class CodeInFile:
    """A class or function of a file of Python code, which other processes load again."""

    path: str
    name: str

    def __call__(self, *arguments, **named):
        return getattr(load_file(self.path), self.name)(*arguments, **named)

    @property
    def __name__(self):
        return self.name

    @property
    def components(self) -> Mapping[str, str]:
        """Those of a term of the energy."""
        return getattr(getattr(load_file(self.path), self.name), "components", {})


def _parts(text):
    match = _NAMED.fullmatch(text.strip())
    if match is None:
        raise FunctionalError(f"{shown(text)}: FILE.py:NAME expected.")
    path, what = match["path"], match["what"].strip()
    last = re.split(r"[*+,\s]", path)[-1]
    if last != path and os.path.isfile(last) and not os.path.exists(path):  # 0.25*hf + 0.75*own.py:own_x
        expression = text.strip().replace(f"{last}:", "")
        raise FunctionalError(
            f"{shown(text, 120)}: write the file first, then an expression with its names: '{last}:{expression}'."
        )
    return path, what


def _offered(module):
    names = [name for name, value in vars(module).items() if isinstance(value, Functional)]
    return f"it has {', '.join(names)}." if names else "it has none: def own(n): ... makes one."


def load_file(path: str | os.PathLike) -> ModuleType:
    """The module that a file of Python code makes, executed once, and again when the file has changed."""
    place = Path(path).absolute()
    try:
        status = place.stat()
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    known = _loaded.get(place)
    version = status.st_size, status.st_mtime_ns
    if known is not None and known[0] == version:
        return known[1]
    module = _executed(place, path)
    _loaded[place] = version, module
    return module


class _Anew(importlib.machinery.SourceFileLoader):
    """Reads the source each time: what is compiled beside it is told apart by whole seconds and the size alone."""

    def path_stats(self, path):
        raise OSError

    def set_data(self, path, data, *, _mode=0o666):
        """Nothing is left beside the file."""


def _executed(place, path):
    name = f"dftfd_file_{place.stem}_{abs(hash(place)):x}"
    loader = _Anew(name, str(place))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise FileError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        if isinstance(error, OSError) and error.filename is not None and Path(error.filename) == place:
            raise FileError(f"cannot read {path}: {error.strerror}.") from error
        raise FunctionalError(
            f"{path}, {_line(error, place)}: {type(error).__name__}: {one_line(str(error))}"
        ) from error
    return module


def _line(error, place):
    """The line of the file at which it failed, in words."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}"
    numbers, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(place):
            numbers.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"line {numbers[-1]}" if numbers else "read as code"


def file_of(formula: Callable) -> Path | None:
    """The file that a formula was loaded from by its user's word; None for all others."""
    return next((p for p, (_, module) in _loaded.items() if module.__name__ == formula.__module__), None)
