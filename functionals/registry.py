"""The registry: functionals by name, and the decorator that enters them.

Names are libxc's, in lower case (gga_x_pbe), plus conventional names for combinations (pbe, b3lyp). What knows more
names than it can make beforehand (a catalogue), and what reads expressions of names, enters itself here too.

Functionals of other packages come through the entry-point group `dftfd.functionals`. An entry point names a functional
and points to a Functional, or to a module-level formula registered by `@dftfd.functional`:

    [project.entry-points."dftfd.functionals"]
    my_gga_x = "my_package.exchange:my_gga_x"

Names are listed without importing anything. A plug-in is imported when its functional is first asked for; one that
fails spoils nothing but itself.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from dftfd.autofd import Function, compose
from dftfd.errors import FunctionalError, InputWarning, closest_names, shown
from dftfd.functionals import pytree  # noqa: F401  makes Functional a pytree
from dftfd.functionals.base import KINDS, EnergyTerm, Functional, exact_exchange, kind_of_name
from dftfd.functionals.densities import in_words, signature_of
from dftfd.functionals.fingerprint import differences
from dftfd.functionals.grid_functionals import GridFunctionalTerm, grid_functional_term, require_valid_grid_functional
from dftfd.functionals.numerics import zero_with_slope
from dftfd.functionals.parameters import are_equal, require_known
from dftfd.functionals.validation import require_valid
from dftfd.runtime.arguments import public_raising

_REGISTRY: dict[str, Functional] = {"hf": exact_exchange}

_loading: set[str] = set()  # names of plug-ins that are being imported

_library: set[str] = set()  # the library's own names, from `seal` on

_on_request: dict[str, Callable[[], Functional]] = {}  # what is made, and needs other packages, when it is asked for

_sources: dict[str, "Source"] = {}  # by the prefix of their names

_parsers: list[Callable[[str], Functional]] = []  # one, of expressions

_called: ContextVar[Mapping[str, Functional]] = ContextVar("dftfd_called", default=MappingProxyType({}))

_OURS = {__file__, public_raising.__code__.co_filename}
"""Files of the frames between a user's line and `register`."""

_NUMBERS = (float, complex, np.ndarray, np.generic, jax.Array)
_public = public_raising(FunctionalError)
LARGEST_NUMBER = 10**6  # of libxc
NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Source:
    """Functionals that are made when their names, with a prefix, are asked for.

    find, find_term: the functional, and the term of which functionals are sums, of a name without the prefix, or None.
    names: all that can be asked for.
    """

    prefix: str
    find: Callable[[str], Functional | None]
    find_term: Callable[[str], EnergyTerm | None]
    names: Callable[[], list[str]]


def add_source(source: Source) -> None:
    """Let `lookup` and `get_functional` find the functionals of a source."""
    _sources[source.prefix] = source


def on_request(name: str) -> Callable[[Callable[[], Functional]], Callable[[], Functional]]:
    """Decorator: this function registers the functional of a name when that is asked for."""

    def enter(make):
        _on_request[name] = make
        return make

    return enter


def parses_expressions(parse: Callable[[str], Functional]) -> Callable[[str], Functional]:
    """Decorator: `get_functional` gives text to this function."""
    _parsers[:] = [parse]
    return parse


def source_of(name: str) -> tuple[Source | None, str]:
    """The source of a name with its prefix, and the name without it; (None, name) for any other."""
    found = next((s for prefix, s in _sources.items() if name.startswith(prefix)), None)
    return found, name.removeprefix(found.prefix) if found else name


@_public
def functional(
    name: Any, *, doi: str | None = None, spin_symmetric: bool = True, kind: str | None = None
) -> Callable[[Callable[..., Any]], Functional]:
    """Decorator: register a formula for an energy per volume under `name`. Returns the Functional.

    The names of the positional parameters select the ingredients: n (total density, R^3 -> R), rho (spin-resolved, R^3
    -> R^2), tau (spin-resolved kinetic energy density). Keyword-only arguments are parameters. All derivatives follow
    automatically.

    >>> import dftfd
    >>> from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
    >>> @dftfd.functional("doc_gga_x")
    ... @spin_scaled
    ... def my_exchange(n, *, mu=0.2):
    ...     return slater_exchange(n) * (1 + mu * reduced_gradient_squared(n))
    >>> dftfd.get_functional("doc_gga_x").parameters
    {'mu': 0.2}

    spin_symmetric: False allows energies that change when the spins are exchanged.
    kind: 'exchange', 'correlation', 'exchange-correlation' or 'kinetic', for exact conditions and proofs. A name like
        libxc's (own_x_name) also gives it.

    Raises FunctionalError, with the density at which a formula fails; see functionals/validation.py.
    """
    name = _plain_name(name, "functional")
    make = term(name, doi=doi, kind=kind)
    return lambda formula: register(make(formula), spin_symmetric=spin_symmetric)


def _declared_kind(name, kind) -> str:
    """The letters of a kind in words; FunctionalError for another word, or one that the name contradicts."""
    if kind is None:
        return ""
    letters = {words: letter for letter, words in KINDS.items()}.get(kind) if isinstance(kind, str) else None
    if letters is None:
        raise FunctionalError(
            f"functional({shown(name)}, kind={shown(kind)}): one of {', '.join(KINDS.values())} expected."
        )
    if kind_of_name(name) not in ("", letters):
        raise FunctionalError(
            f"functional({shown(name)}, kind={kind!r}): the name says {KINDS[kind_of_name(name)]}; rename it or leave "
            "kind out."
        )
    return letters


def term(name: str, *, doi: str | None = None, kind: str | None = None) -> Callable[[Callable[..., Any]], Functional]:
    """`functional` without registration: a formula that is one part of what is registered under its name."""
    declared = _declared_kind(name, kind)

    def make(formula) -> Functional:
        return Functional(name, ((1.0, EnergyTerm.from_formula(formula, name, doi, declared)),))

    return make


@_public
def potential(
    name: Any, *, doi: str | None = None, spin_symmetric: bool = True
) -> Callable[[Callable[..., Any]], Functional]:
    """Decorator: register a model potential that is not the derivative of an energy.

    The formula takes the same ingredients as an energy and returns (v_alpha, v_beta) [hartree], a Function R^3 -> R^2.
    The Functional works in SCF calculations and in sums. It has no energy and therefore no forces.
    """
    name = _plain_name(name, "potential")
    make = lambda formula: Functional(name, ((1.0, potential_term(formula, name, doi)),))
    return lambda formula: register(make(formula), spin_symmetric=spin_symmetric)


@_public
def grid_functional(
    name: Any, *, gather: Any = None, by_blocks: bool = False, doi: str | None = None, spin_symmetric: bool = True
) -> Callable[[Callable[..., Any]], Functional]:
    """Decorator: register JAX code on the molecular grid as a functional under `name`. Returns the Functional.

    The names of the arguments select the arrays that the code receives (FEATURES of
    dftfd.functionals.grid_functionals): rho (2, point), grad_rho (2, 3, point), hess_rho (2, 3, 3, point),
    tau (2, point), points (point, 3), weights (point,), nuclei (atom, 3), charges (atom,), owner (point,). It
    returns an energy [hartree]. Keyword-only arguments are parameters: numbers, or pytrees of arrays such as the
    weights of a network.

    >>> import dftfd
    >>> @dftfd.grid_functional("doc_grid_functional_x")
    ... def slater(rho, weights, *, c=-0.9305257363491):
    ...     return c * (weights @ (rho ** (4 / 3)).sum(axis=0))
    >>> dftfd.get_functional("doc_grid_functional_x").parameters
    {'c': -0.9305257363491}

    by_blocks: the energy is a sum over points, so the code may receive blocks of points, which saves memory.
    gather: code of features and parameters that returns an array or a pytree. Its sum over all blocks is the argument
        `gathered` of the energy.
    spin_symmetric: False allows energies that change when the spins are exchanged.

    Raises FunctionalError for code that cannot be used; docs/grid_functionals.md lists the requirements.
    """
    name = _plain_name(name, "grid_functional")
    make = lambda formula: Functional(name, ((1.0, grid_functional_term(formula, name, doi, gather, by_blocks)),))
    return lambda formula: register(make(formula), spin_symmetric=spin_symmetric)


def _plain_name(name, decorator):
    """The name as plain text: what a class of its own says of equality would decide in every look-up after it."""
    if not issubclass(type(name), str):
        raise FunctionalError(f"{decorator}({shown(name)}): a name expected; write @dftfd.{decorator}('my_gga_x').")
    return str.__str__(name)


@_public
def register(f: Any, name: Any = None, *, doi: Any = None, spin_symmetric: bool = True) -> Functional:
    """Register a Functional, such as a combination of others, under a name, after checking its new terms.

    Your own names may be registered again, for example when a notebook cell runs again. A warning says what has
    changed. Names of the library and of plug-ins are refused.

    doi: of the paper of the combination. Its terms have their own papers, see `Functional.dois`.
    """
    if not issubclass(type(f), Functional):
        raise FunctionalError(f"register: a Functional expected, {shown(f)} found.")
    name = f.name if name is None else name
    if not issubclass(type(name), str) or not NAME.fullmatch(name):
        raise FunctionalError(
            f"{shown(name)} is not a name for a functional: lower-case letters, digits and _ expected."
        )
    name = str.__str__(name)
    doi = None if doi is None else _plain_doi(doi)
    if name in _REGISTRY and (name in _library or not _library):
        raise FunctionalError(
            f"a functional named {name!r} is registered already; choose another name, or try a formula without a name "
            "of its own: dftfd.functionals.registry.term('trial')(formula)."
        )
    if not is_of_library(f) and name not in _loading and name in found_plugins():  # looking for them takes 5 ms
        raise FunctionalError(f"an installed plug-in offers a functional {name!r} already; choose another name.")
    _require_numbers(f, name)
    for _, part in f.terms:
        if not (_is_validated(part) or (isinstance(part, GridFunctionalTerm) and _is_library_code(part))):
            (require_valid_grid_functional if isinstance(part, GridFunctionalTerm) else require_valid)(
                part, spin_symmetric
            )
    f = f if _library else f.settled()
    f = f.named(name) if doi is None else replace(f, name=name, papers=(doi,))
    before, _REGISTRY[name] = _REGISTRY.get(name), f
    if before is not None:
        _say_what_changed(before, f)
    return _REGISTRY[name]


def _plain_doi(doi: Any) -> str:
    if not issubclass(type(doi), str) or not re.fullmatch(r"10\.\S+", doi):
        raise FunctionalError(f"register(doi={shown(doi)}): a DOI such as '10.1021/j100096a001' expected.")
    return str.__str__(doi)


def _say_what_changed(before: Functional, after: Functional) -> None:
    """A warning where a name that was registered stands for something else now; a cell that runs again has none."""
    changes = differences(before, after)
    if changes:
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and frame.f_code.co_filename in _OURS:
            level, frame = level + 1, frame.f_back
        warnings.warn(f"functional {before.name!r} is redefined: {changes}.", InputWarning, stacklevel=level)


def _require_numbers(f: Functional, name: str) -> None:
    """Raise FunctionalError unless all coefficients are finite real numbers, and no parameter is NaN."""
    for number in [*(c for c, _ in f.terms), *(x for pair in f.exact_exchange for x in pair), *f.pt2]:
        if np.iscomplexobj(number) or not np.isfinite(number):
            raise FunctionalError(f"functional {name!r} has the coefficient {number}; finite real numbers expected.")
    for parameter, value in [item for _, part in f.terms for item in part.parameters.items()]:
        if any(np.isnan(leaf).any() for leaf in jax.tree_util.tree_leaves(value) if isinstance(leaf, _NUMBERS)):
            raise FunctionalError(f"functional {name!r}: parameter {parameter!r} holds NaN; numbers expected.")


def seal() -> None:
    """Called when the library's own functionals are entered, which the tests validate; those after it are looked at."""
    _library.update(_REGISTRY)


def _is_validated(part: EnergyTerm) -> bool:
    """True for the library's formulas and those of registered functionals, each with the parameters it has there."""
    if not _library and _is_library_code(part):
        return True
    if any(_is_same(part, known) for f in _REGISTRY.values() for _, known in f.terms):
        return True
    source, plain = source_of(part.name)
    known = source.find_term(plain) if source else None
    return known is not None and _is_same(part, known)


def _is_same(a: EnergyTerm, b: EnergyTerm) -> bool:
    """Whether two terms are one formula with the same parameters."""
    if a.formula is not b.formula or getattr(a, "gather", None) is not getattr(b, "gather", None):
        return False
    if a.parameters.keys() != b.parameters.keys():
        return False
    return all(are_equal(value, b.parameters[name]) for name, value in a.parameters.items())


def is_of_library(f: Functional) -> bool:
    """Whether all formulas are the library's own."""
    return all(_is_library_code(part) for _, part in f.terms)


def _is_library_code(part: EnergyTerm) -> bool:
    return (getattr(part.formula, "__module__", None) or "").startswith("dftfd.functionals.")


def variant(base: Functional, name: str, *, doi: str | None = None, **parameters: Any) -> Functional:
    """Register `base`, a single formula, under another name with other parameter values and their source."""
    return register(reparametrised(base, name, doi=doi, **parameters))


def reparametrised(base: Functional, name: str, *, doi: str | None = None, **parameters: Any) -> Functional:
    """`variant` without registration, for formulas that only stand inside a hybrid.

    Series may have other lengths here than the formula's own, which `with_parameters` keeps.
    """
    ((coefficient, part),) = base.terms
    for parameter in parameters:
        require_known(base.name, [part], parameter)
    part = replace(part.with_parameters(parameters), name=name, doi=doi or part.doi)
    return Functional(name, ((coefficient, part),))


@_public
def list_functionals() -> list[str]:
    """Registered names, sorted."""
    return sorted({*_REGISTRY, *found_plugins()})


def lookup(name: str) -> Functional | None:
    """The functional registered under exactly this name (any case), or offered by a plug-in; None if there is none.

    A name with the prefix of a source, as libxc:, is looked up there, see `dftfd.functionals.catalogue`.
    """
    name = name.lower()
    if name in _called.get():
        return _called.get()[name]
    source, plain = source_of(name)
    if source is not None:
        return source.find(plain)
    if name in _on_request and name not in _REGISTRY:
        _on_request[name]()
    if name not in _REGISTRY:
        _loading.add(name)
        try:
            found = load_plugin(name)
            if found is not None and name not in _REGISTRY:  # loading may have registered it
                register(found, name)
        finally:
            _loading.discard(name)
    return _REGISTRY.get(name)


@contextmanager
def calling(names: Mapping[str, Functional]) -> Iterator[None]:
    """Inside, expressions may hold these names, in lower case, too."""
    token = _called.set(names)
    try:
        yield
    finally:
        _called.reset(token)


@_public
def get_functional(spec: Any, *, exact_exchange: float | None = None, **parameters: Any) -> Functional:
    """The functional of a name or expression, optionally with other parameter values.

    spec: a registered name ("pbe", "gga_x_pbe"), a name of libxc's catalogue ("libxc:gga_x_pbe"), a number of libxc
        (130 or "130"), an expression in PySCF's and libxc's notation ("pbe,pbe", "0.25*HF + 0.75*PBE, PBE"), or a
        Functional.
    exact_exchange: another fraction of exact exchange. Semilocal exchange is scaled accordingly.
    parameters: values by name. omega also changes the exact exchange of a range-separated hybrid.
    """
    if isinstance(spec, Functional):
        changed = spec.with_parameters(**parameters)
        return changed if exact_exchange is None else changed.with_exact_exchange(exact_exchange)
    if spec is None:
        raise FunctionalError("the functional is None; give a name such as 'pbe'.")
    if isinstance(spec, int) and not isinstance(spec, bool):
        spec = str(spec) if abs(spec) < LARGEST_NUMBER else shown(spec)
    if not isinstance(spec, str):
        raise FunctionalError(f"a functional is given by name or as a Functional, {type(spec).__name__} found.")
    spec = str.__str__(spec)  # plain, whatever a class of text does
    if ".py:" in spec.lower():
        raise FunctionalError(
            f"{shown(spec)}: commands read functionals from files; in Python: 'from own import own_x'."
        )
    (parse,) = _parsers
    return get_functional(parse(spec), exact_exchange=exact_exchange, **parameters)


def unknown_name(name: str) -> FunctionalError:
    """The error for a name that nothing is known by."""
    source, plain = source_of(name)
    prefix = source.prefix if source else ""
    names = set() if source else set(list_functionals())
    names.update(*(s.names() for s in ([source] if source else _sources.values())))
    known = ", ".join(prefix + close for close in closest_names(plain, names))
    return FunctionalError(f"unknown functional {name!r}; the closest known names are {known}.")


def potential_term(formula: Callable, name: str, doi: str | None = None) -> EnergyTerm:
    """The term of a model potential (v_alpha, v_beta) [hartree], given as a formula like an energy's.

    Its energy per volume is zero, but with the derivative v_s with respect to rho_s, so it goes the way of all others.
    """
    ingredients, parameters = signature_of(formula, name)

    def energy(rho, tau=None, **parameters):
        given = {"n": rho[0] + rho[1], "rho": rho, "tau": tau}
        v = formula(*(given[i] for i in ingredients), **parameters)
        if not isinstance(v, Function) or v.result.shape != (2,):
            raise FunctionalError(
                f"potential {name!r} returned {in_words(v)}; (v_alpha, v_beta), a function R^3 -> R^2, expected."
            )
        return compose(lambda rho, v: zero_with_slope(rho, v).sum(), rho, v)

    energy.__doc__, energy.__module__ = formula.__doc__, formula.__module__
    used = ("rho", "tau") if "tau" in ingredients else ("rho",)
    return EnergyTerm(name, energy, used, parameters, doi, has_energy=False)


GROUP = "dftfd.functionals"


def found_plugins() -> dict[str, list[EntryPoint]]:
    """Entry points by name, in lower case; several of one name are kept to be refused."""
    return _found(tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int | None:
    """When something was last installed there or removed [ns]; None if it cannot be seen."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return None


@lru_cache(maxsize=1)
def _found(installed: tuple) -> dict[str, list[EntryPoint]]:
    """Those of the folders as they are: reading the metadata of all packages takes 10 ms, which each name would pay."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name.lower(), []).append(entry)
    return found


def load_plugin(name: str) -> Functional | None:
    """The functional of the plug-in with this name, or None if there is none."""
    candidates = found_plugins().get(name, [])
    if not candidates:
        return None
    if len(candidates) > 1:
        sources = ", ".join(f"{e.value} ({_distribution(e)})" for e in candidates)
        raise FunctionalError(f"several plug-ins offer a functional {name!r}: {sources}; uninstall all but one.")
    (entry,) = candidates
    try:
        functional = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plug-in may fail in any way
        text = " ".join(str(error).split())
        raise FunctionalError(
            f"the plug-in {entry.value!r} of {_distribution(entry)} for functional {name!r} can't be loaded: "
            f"{type(error).__name__}: {text}"
        ) from error
    if not isinstance(functional, Functional):
        raise FunctionalError(
            f"the plug-in {entry.value!r} of {_distribution(entry)} gives a {type(functional).__name__}; a Functional, "
            "as @dftfd.functional makes it, expected."
        )
    return functional


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unnamed distribution"
