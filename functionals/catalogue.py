"""libxc's catalogue: its functionals as formulas on functions, from jax-xc's kernels or from libxc's own source.

jax-xc has those of libxc 6.0; the formulas of libxc 7.0.0 are read from a source tree that the user has and names
(dftfd.functionals.libxc_tree), where jax-xc is not installed or does not serve a name. Each is a Functional like the
library's own: it adds, scales, takes other parameters, and all its derivatives are derived. A name is served only after
a comparison with libxc 7 for both spin layouts (docs/catalogue.md, docs/libxc_formulas.md); the others answer with the
reason why not. `jax_xc_parameters.json` holds the parameters, `jax_xc_verdicts.json` the comparison's outcome;
data/jax_xc/ makes both. `libxc_parameters.json` and `libxc_verdicts.json`, of data/libxc_formulas/, are the same for
libxc's own formulas; a verdict is of a text, and a tree that has another one is refused.

S. Lehtola, C. Steigemann, M. J. T. Oliveira, M. A. L. Marques, SoftwareX 7, 1 (2018). doi:10.1016/j.softx.2017.11.002
K. Zheng, M. Lin, JAX-XC, AI for Accelerated Materials Design workshop, ICLR 2023 (https://github.com/sail-sg/jax_xc).
"""

import functools
import operator
from collections.abc import Callable

from dftfd.errors import UnsupportedError
from dftfd.functionals import jax_xc_formula, libxc_tree
from dftfd.functionals.base import EnergyTerm, Functional, exact_exchange, long_range_exchange
from dftfd.functionals.jax_xc_formula import JaxXCFormula
from dftfd.functionals.parameters import in_tuples
from dftfd.functionals.registry import Source, add_source
from dftfd.functionals.vv10 import rvv10, vv10
from dftfd.runtime.json_reader import shipped_json
from dftfd.runtime.libxc_folder import maple_folder

PREFIX = "libxc:"
DOI = "10.1016/j.softx.2017.11.002"


@functools.cache
def table() -> dict:
    """Parameters of every functional of libxc 6.0, by name."""
    return shipped_json("dftfd.functionals", "jax_xc_parameters.json")


@functools.cache
def verdicts() -> dict:
    """{"verified": {name: errors of energy and derivatives}, "refused": {name: reason}}; see data/jax_xc/verify.py."""
    return shipped_json("dftfd.functionals", "jax_xc_verdicts.json")


@functools.cache
def source_table() -> dict:
    """What libxc 7.0.0's C code adds to its formulas, by name, as in `table`."""
    return shipped_json("dftfd.functionals", "libxc_parameters.json")


@functools.cache
def source_verdicts() -> dict:
    """As `verdicts`, of formulas read from libxc's source, with "texts": {file: key of its text when compared}."""
    return shipped_json("dftfd.functionals", "libxc_verdicts.json")


def names() -> list[str]:
    """The names that jax-xc serves, sorted, without prefix."""
    return sorted(verdicts()["verified"])


def source_names() -> list[str]:
    """The names that a source tree of libxc serves, sorted, without prefix."""
    return sorted(source_verdicts()["verified"])


def served_names() -> list[str]:
    """The names that can be asked for here, without prefix: none without jax-xc and without libxc's source."""
    found = names() if jax_xc_formula.is_installed() else []
    return sorted({*found, *(source_names() if maple_folder() is not None else [])})


@functools.cache
def name_of(number: int) -> str | None:
    """The name of libxc's functional of this number; None if libxc has none."""
    entries = {**source_table(), **table()}.items()
    return next((name for name, entry in entries if entry["number"] == number), None)


@functools.cache
def all_names() -> tuple[str, ...]:
    """Every name of libxc's, served or refused, without prefix, sorted."""
    return tuple(sorted({*table(), *source_table(), *verdicts()["refused"], *source_verdicts()["refused"]}))


def find(name: str) -> Functional | None:
    """The functional of a libxc name in lower case; None for a name that libxc does not have.

    UnsupportedError, with the reason, for a name that did not pass the comparison; MissingDependencyError without
    jax-xc and without libxc's source.
    """
    if name in verdicts()["verified"] and jax_xc_formula.is_installed():
        return build(name)
    if name in source_verdicts()["verified"] and maple_folder() is not None:
        return build_from_source(name)
    by_jax_xc, by_source = (name in found["verified"] for found in (verdicts(), source_verdicts()))
    if by_jax_xc:
        jax_xc_formula.require_installed(f"libxc's {name!r}", libxc_tree.WHERE if by_source else "")
    reasons = [found["refused"].get(name) for found in (verdicts(), source_verdicts())]
    if by_source:
        raise UnsupportedError(f"libxc's {name!r} needs {libxc_tree.WHERE}; jax-xc does not serve it: {reasons[0]}.")
    reason = next(filter(None, reasons if maple_folder() is None else reasons[::-1]), None)
    if reason is None:
        return None
    raise UnsupportedError(f"libxc's {name!r} is not served: {reason}.")


def find_term(name: str) -> EnergyTerm | None:
    """The term of this name, of which functionals are sums, whether it is served alone or not."""
    makers: list[tuple[dict, Callable[[str], Functional]]] = [(table(), build)] if jax_xc_formula.is_installed() else []
    makers += [(source_table(), build_from_source)] if maple_folder() is not None else []
    if not makers and name in table():
        jax_xc_formula.require_installed()
    found = (term for known, make in makers if name in known for _, term in make(name).terms)
    return next((term for term in found if term.name == PREFIX + name), None)


@functools.cache
def build(name: str) -> Functional:
    """The functional of any name in the table, whatever its comparison said."""
    return _built(name, table()[name])


def build_from_source(name: str) -> Functional:
    """The functional of any name in the table of libxc's own formulas, of the tree that is named now."""
    return _built_from_source(name, maple_folder())


@functools.lru_cache(1024)
def _built_from_source(name, folder) -> Functional:
    entry = source_table()[name]
    known = source_verdicts()["texts"]
    for record in [r for _, term in entry["terms"] for r in (term, term.get("tau")) if r]:
        text = libxc_tree.kernel(record["kernel"], record["reads"])
        if known.get(record["kernel"], "") not in ("", libxc_tree.text_key(text)):
            raise UnsupportedError(
                f"{folder}/{record['kernel']}.mpl is not the text of libxc {libxc_tree.VERSION} that was compared "
                f"with libxc's numbers; give that version's tree, or read the file by itself: dftfd read FILE.mpl."
            )
    return _built(name, entry)


def _built(name, entry):
    primitives = [(weight, _primitive(primitive)) for weight, primitive in entry["terms"]]
    parts = [part if weight == 1 else weight * part for weight, part in primitives]
    parts += [*_exact_exchange(*entry["exact_exchange"]), *_nonlocal(name, *entry["nonlocal"])]
    return functools.reduce(operator.add, parts).settled().named(PREFIX + name)


_formulas: dict[JaxXCFormula, JaxXCFormula] = {}


def _primitive(record) -> Functional:
    """One kernel with its parameters; kernels with equal thresholds share their formula."""
    formula = JaxXCFormula.from_record(record)
    formula = _formulas.setdefault(formula, formula)
    parameters = in_tuples(record.get("params", {}))
    if record.get("cam_omega") and "cam_omega" in formula.kernel.reads:
        parameters["omega"] = record["cam_omega"]
    ingredients = ("rho", "tau") if formula.needs_tau else ("rho",)
    name = PREFIX + record["name"]
    term = EnergyTerm(name, formula, ingredients, parameters, DOI, has_energy=formula.has_energy)
    return Functional(name, ((1.0, term),))


def _exact_exchange(omega, full, short_range):
    """libxc's fractions: `full` with 1/r, `short_range` with erfc(omega r)/r beside it."""
    if omega and short_range:
        yield (full + short_range) * exact_exchange
        yield -short_range * long_range_exchange(omega)
    elif full:
        yield full * exact_exchange


def exact_exchange_of(entry) -> tuple[tuple[float, float], ...]:
    """Pairs (omega, fraction) of a row of a table."""
    parts = list(_exact_exchange(*entry["exact_exchange"]))
    return functools.reduce(operator.add, parts).exact_exchange if parts else ()


def _nonlocal(name, b, C):
    if b:
        yield (rvv10 if "rvv10" in name else vv10).with_parameters(b=b, C=C)


add_source(Source(PREFIX, find, find_term, served_names))
