"""A file in libxc's notation as code of numbers: energy per electron of rho, sigma, lapl, tau.

The file defines f of the Wigner-Seitz radius rs, the polarisation z and, by its type, reduced gradients
x = |grad n| / n^(4/3) (xt of the whole density, xs0 and xs1 of the spins), Laplacians u = lapl / n^(5/3) and kinetic
energy densities t = tau / n^(5/3) of the spins; powers are those of the dimension in one and two dimensions.

S. Lehtola, C. Steigemann, M. J. T. Oliveira, M. A. L. Marques, SoftwareX 7, 1 (2018). doi:10.1016/j.softx.2017.11.002
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import FileError, FunctionalError, shown
from dftfd.functionals import maple_numbers as numbers
from dftfd.functionals.maple_numbers import OF_ONE_NUMBER, cubic_splines, integral_from_zero, plain
from dftfd.functionals.maple_program import PARAMETER, Definitions, Evaluation
from dftfd.functionals.maple_text import MAX_CHARACTERS, MAX_EQUATIONS, MAX_INCLUDES, parse
from dftfd.runtime.files import read_bytes
from dftfd.runtime.libxc_folder import COMMON_FILE

_DIRECTIVE = re.compile(r"\$\s*(?P<what>[a-z]+)\s*(?P<rest>.*)")
_INCLUDED = re.compile(r"[\"<](?P<name>[^\"<>]+)[\">]")


def expanded(name: str, find: Callable[[str], str], defined: set[str]) -> str:
    """Text of a file with all that it includes.

    find: text of a file by the name in $include.   defined: names that $define has given; changed in place.
    """
    return "\n".join(_expanded(name, find, defined, [0, 0]))


def _expanded(name, find, defined, count):
    """The lines.   count: of files and characters up to here; changed in place."""
    text = find(name)
    count[:] = count[0] + 1, count[1] + len(text)
    if count[0] > MAX_INCLUDES:
        raise FunctionalError(f"{name}: more than {MAX_INCLUDES} files are included; does a file include itself?")
    if count[1] > MAX_CHARACTERS:
        raise FunctionalError(f"{name}: more than {MAX_CHARACTERS} characters with all that is included.")
    lines: list[str] = []
    kept: list[tuple[bool, bool]] = []  # of each open $ifdef, whether this part counts, and whether one has counted
    for number, line in enumerate(text.split("\n"), 1):
        match = _DIRECTIVE.match(line)
        if match is None:
            if all(here for here, _ in kept):
                lines.append(line)
            continue
        what, rest = match["what"], match["rest"].strip()
        if not _conditional(what, rest, kept, defined, f"{name}, line {number}"):
            continue
        if not all(here for here, _ in kept):
            continue
        if what == "include":
            included = _INCLUDED.match(rest)
            if included is None:
                raise FunctionalError(f'{name}, line {number}: $include {rest} found; $include "file.mpl" expected.')
            lines += _expanded(included["name"], find, defined, count)
        elif what == "define":
            defined.add(rest.split()[0] if rest else "")
        elif what == "undef":
            defined.discard(rest)
        else:
            raise FunctionalError(
                f"{name}, line {number}: ${what} found; include, define, undef, ifdef, elif, else, endif are known."
            )
    if kept:
        raise FunctionalError(f"{name}: an $ifdef without $endif.")
    return lines


def _conditional(what, rest, kept, defined, where) -> bool:
    """Follow $ifdef and its kin; True for any other directive."""
    if what in ("ifdef", "ifndef"):
        here = (rest in defined) == (what == "ifdef")
        kept.append((here, here))
        return False
    if what not in ("elif", "else", "endif"):
        return True
    if not kept:
        raise FunctionalError(f"{where}: ${what} without $ifdef.")
    _, once = kept.pop()
    if what != "endif":
        here = not once and (what == "else" or rest in defined)
        kept.append((here, once or here))
    return False


FOLDERS = ("", "lda_exc", "lda_vxc", "gga_exc", "gga_vxc", "mgga_exc", "mgga_vxc")
"""Of libxc's folder maple, in the order in which files are looked for."""

_TYPE = re.compile(r"^\(\*\s*type:\s*(?P<family>lda|gga|mgga)_(?P<kind>exc|vxc)\b", re.MULTILINE)
_REPLACED = re.compile(
    r'^\(\* *replace: *"(?P<old>\w{1,60})\b[^"\n]{0,200}" *-> *"(?P<new>\w{1,60})\((?P<rest>[^"\n]{0,200})"',
    re.MULTILINE,
)
_STRUCT = re.compile(r"^ *(?P<name>\w{1,60}_params) *\* *params *;", re.MULTILINE)
_PLACED = re.compile(r"params_a_(?P<name>\w{1,60}?)_(?P<place>\d{1,4})_")
_RADII = {1: 0.5, 2: np.pi**-0.5, 3: (3 / (4 * np.pi)) ** (1 / 3)}
"""Wigner-Seitz radius of unit density, by the number of dimensions."""

_ARGUMENTS = {"lda": 2, "gga": 5, "mgga": 9}
_VARIABLES = ("rho", "rho", "sigma", "sigma", "sigma", "lapl", "lapl", "tau", "tau")
_SLACK = 1 + 1e-12
_SETTINGS = ("zeta_threshold", "dens_threshold", "cam_omega", "cam_alpha", "cam_beta")


@dataclass(frozen=True)
class MapleKernel:
    """A formula in libxc's notation: its text with everything included, and what its head says of it.

    kind: "exc" for energies, "vxc" for model potentials.   struct: of its parameters in libxc.
    replaced: functions by the names that stand for them in the text.   reads: see `with_reads`.
    own_parameters: whether numbers that the text gives to params_a_NAME can be changed; in libxc they are fixed.
    """

    name: str
    text: str
    family: str
    kind: str
    struct: str | None = None
    replaced: tuple[tuple[str, str, str], ...] = ()
    reads: tuple[str, ...] = ()
    own_parameters: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """Values of the parameters that the text itself sets and leaves open."""
        return dict(_definitions(self).parameters)

    def __call__(self, p, rho, sigma, lapl, tau) -> Any:
        """Energy per electron [hartree]; of a model potential, that of the first spin.

        p: params and the thresholds as attributes. The others are pairs and, sigma, three values.
        """
        return self._evaluated(p, self._arguments(rho, sigma, lapl, tau))

    def _evaluated(self, p, arguments, seen=None):
        given = functools.partial(_given, self, p, set() if seen is None else seen)
        work = Evaluation(_definitions(self).names, given)
        return plain(work.run("f", *arguments[: _ARGUMENTS[self.family]]))

    def _arguments(self, rho, sigma, lapl, tau):
        d = _dimensions(self)
        n, zeta = rho[0] + rho[1], (rho[0] - rho[1]) / (rho[0] + rho[1])
        rs = _RADII[d] * numbers.power(n, Fraction(-1, d))
        reduced = lambda q, n, extra: q * numbers.power(n, Fraction(-d - extra, d))
        root = lambda x: numbers.power(x, Fraction(1, 2))
        if self.family == "lda":
            return rs, zeta
        x = (
            reduced(root(sigma[0] + 2 * sigma[1] + sigma[2]), n, 1),
            reduced(root(sigma[0]), rho[0], 1),
            reduced(root(sigma[2]), rho[1], 1),
        )
        if self.family == "gga":
            return rs, zeta, *x
        return rs, zeta, *x, *(reduced(q, m, 2) for pair in (lapl, tau) for q, m in zip(pair, rho, strict=True))

    def with_reads(self, parameters: Mapping[str, Any]) -> "MapleKernel":
        """Itself, with which of rho, sigma, lapl, tau, of `parameters` and of libxc's settings f looks at."""
        seen: set[str] = set()
        p = SimpleNamespace(params=SimpleNamespace(**parameters), **dict.fromkeys(_SETTINGS, 0.3))
        shapes = [jax.ShapeDtypeStruct((), float)] * _ARGUMENTS[self.family]
        code = jax.make_jaxpr(lambda *arguments: self._evaluated(p, arguments, seen))(*shapes).jaxpr
        if (size := _size(code)) > MAX_EQUATIONS:
            raise FunctionalError(f"the formula has {size} operations; {MAX_EQUATIONS} are allowed.")
        used = {id(v) for equation in code.eqns for v in equation.invars} | {id(v) for v in code.outvars}
        found = [v for v, place in zip(_VARIABLES, code.invars, strict=False) if id(place) in used]
        return replace(self, reads=tuple(dict.fromkeys(["rho", *found, *sorted(seen)])))


def _size(code) -> int:
    """Operations of a program of JAX, with those of the programs in it."""
    inner = (p for equation in code.eqns for p in equation.params.values())
    return len(code.eqns) + sum(_size(p.jaxpr if hasattr(p, "jaxpr") else p) for p in inner if hasattr(p, "eqns"))


@functools.lru_cache(64)
def _definitions(kernel) -> Definitions:
    return Definitions(parse(kernel.text, kernel.name), kernel.own_parameters)


@functools.lru_cache(256)
def _dimensions(kernel) -> int:
    found = _definitions(kernel).names.get("DIMENSIONS", Fraction(3))
    if found not in (1, 2, 3):
        raise FunctionalError(f"{kernel.name}: DIMENSIONS are {shown(found, 40)}; 1, 2 or 3 expected.")
    return int(found)


def _given(kernel, p, seen, name):
    """Parameters, settings and special functions by the names that they have in a text."""
    if name == "params":
        return p.params
    if name.startswith(PARAMETER):
        seen.add(name)
        return _parameter(p.params, name)
    if name.startswith("p_a_") and name.removeprefix("p_a_") in _SETTINGS:
        seen.add(name.removeprefix("p_a_"))
        # a density is compared with its threshold, at which libxc puts it: by rounding it may be above here
        return getattr(p, name.removeprefix("p_a_")) * (_SLACK if name == "p_a_dens_threshold" else 1)
    replaced = {old: (new, rest) for old, new, rest in kernel.replaced}
    function, rest = replaced.get(name, (name, ""))
    return _special(function, rest, name, functools.partial(_given, kernel, p, seen))


def _parameter(params, name):
    known, plain_name = vars(params), name.removeprefix(PARAMETER)
    for attribute in (plain_name, plain_name + "_"):  # a keyword of Python is no name of a parameter
        if attribute in known:
            return known[attribute]
    placed = _PLACED.fullmatch(name)
    if not placed or placed["name"] not in known:
        return None
    values, place = known[placed["name"]], int(placed["place"])
    if np.ndim(values) == 0 or place >= len(values):
        raise FunctionalError(f"{name}: the parameter {placed['name']} has no entry {place}.")
    return values[place]


def _special(function, rest, name, given) -> Callable[..., Any] | None:
    if function in OF_ONE_NUMBER:
        return functools.partial(numbers.function, function)
    if name in _SPLINES:
        return lambda u, order, params: cubic_splines(u, getattr(params, _SPLINES[name]), params.knots)
    return _INTEGRALS[function, rest](given) if (function, rest) in _INTEGRALS else None


def _fermi_amaldi(power, given):
    """integral from 0 to y of log(t)^power / (1 + 3 beta t' asinh t'), t' = 2^(1/3) t, with its factor."""
    beta, c = given("params_a_beta"), 2 ** (1 / 3)

    def inner(t):
        of_log = jnp.log(t) if power else 1.0
        return -0.75 * beta * c * of_log / (1 + 3 * beta * c * t * jnp.arcsinh(c * t))

    return integral_from_zero(inner)


_SPLINES = {"xbspline": "cx", "cbspline": "cc"}
_INTEGRALS: dict[tuple[str, str], Callable] = {
    ("xc_integrate", f"func{power}, &(params->beta), 0.0, "): functools.partial(_fermi_amaldi, power)
    for power in (0, 1)
}


def read_kernel(path: Path | str, folders: tuple[Path, ...] = (), own_parameters: bool = False) -> MapleKernel:
    """The formula of a file; what it includes is looked for beside it, then in `folders`, libxc's folder maple first.

    libxc's common definitions (util.mpl) are added from `folders`. A file of that name elsewhere counts where the text
    includes it, and then in their place.
    Raises FileError for files that cannot be read, FunctionalError for text that is no formula.
    """
    path = Path(path)
    of_library = tuple(folder / inner for folder in folders for inner in FOLDERS)
    head, included = _text_of(path), {path.name}

    def find(name):
        included.add(name)
        return head if name == path.name else _found((path.parent, *of_library), name)

    type_ = _TYPE.search(head)
    if type_ is None:
        raise FunctionalError(f'{path.name} has no line "(* type: gga_exc *)"; lda, gga or mgga, exc or vxc expected.')
    defined: set[str] = set()
    text = expanded(path.name, find, defined)
    if folders and COMMON_FILE not in included:
        text += "\n" + expanded(COMMON_FILE, functools.partial(_found, of_library), defined)
    replaced = tuple((m["old"], m["new"], m["rest"]) for m in _REPLACED.finditer(head))
    struct = _STRUCT.search(head)
    kernel = MapleKernel(path.stem, text, type_["family"], type_["kind"], struct and struct["name"], replaced)
    kernel = replace(kernel, own_parameters=own_parameters)
    try:
        names = _definitions(kernel).names
    except FunctionalError as error:
        raise FunctionalError(f"{path.name}: {str(error).removeprefix(path.stem + ', ')}") from error
    if "f" not in names:
        raise FunctionalError(f"{path.name} defines no f; f := (rs, z, ...) -> ... expected.")
    return kernel


def _found(places, name):
    if "/" in name or "\\" in name:
        raise FunctionalError(f"$include {name!r}: a name without folders expected.")
    for place in places:
        if (place / name).is_file():
            return _text_of(place / name)
    raise FileError(
        f"$include {name!r}: no such file beside the formula, nor in libxc's sources (DFTFD_LIBXC_SOURCE names them)."
    )


def _text_of(path):
    try:
        return read_bytes(path, MAX_CHARACTERS).decode()
    except UnicodeDecodeError as error:
        raise FileError(f"cannot read {path}: not a text.") from error
