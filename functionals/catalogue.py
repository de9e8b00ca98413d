"""libxc's catalogue: the functionals of libxc 6.0 as formulas on functions, from jax-xc's kernels.

Each is a Functional like the library's own: it adds, scales, takes other parameters, and all its derivatives are
derived. A name is served only after a comparison with libxc 7 for both spin layouts (docs/catalogue.md); the others
answer with the reason why not. `jax_xc_parameters.json` holds the parameters, `jax_xc_verdicts.json` the comparison's
outcome; data/jax_xc/ makes both.

S. Lehtola, C. Steigemann, M. J. T. Oliveira, M. A. L. Marques, SoftwareX 7, 1 (2018). doi:10.1016/j.softx.2017.11.002
K. Zheng, M. Lin, JAX-XC, AI for Accelerated Materials Design workshop, ICLR 2023 (https://github.com/sail-sg/jax_xc).
"""

import functools
import json
import operator
from importlib.resources import files

from dftfd.errors import UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional, exact_exchange, long_range_exchange
from dftfd.functionals.jax_xc_formula import JaxXCFormula
from dftfd.functionals.jax_xc_kernels import is_installed, require_installed
from dftfd.functionals.parameters import in_tuples
from dftfd.functionals.registry import Source, add_source
from dftfd.functionals.vv10 import rvv10, vv10

PREFIX = "libxc:"
DOI = "10.1016/j.softx.2017.11.002"


@functools.cache
def table() -> dict:
    """Parameters of every functional of libxc 6.0, by name."""
    return json.loads((files("dftfd.functionals") / "jax_xc_parameters.json").read_text())


@functools.cache
def verdicts() -> dict:
    """{"verified": {name: errors of energy and derivatives}, "refused": {name: reason}}; see data/jax_xc/verify.py."""
    return json.loads((files("dftfd.functionals") / "jax_xc_verdicts.json").read_text())


@functools.cache
def _verified() -> frozenset[str]:
    return frozenset(verdicts()["verified"])


def names() -> list[str]:
    """The verified names, sorted, without prefix."""
    return sorted(_verified())


def prefixed_names() -> list[str]:
    """The names that can be asked for here with the prefix, none without jax-xc."""
    return [PREFIX + name for name in names()] if is_installed() else []


@functools.cache
def name_of(number: int) -> str | None:
    """The name of libxc's functional of this number; None if libxc 6.0 has none."""
    return next((name for name, entry in table().items() if entry["number"] == number), None)


@functools.cache
def _spellings() -> dict[str, str]:
    """Names by their spelling without underscores, with which PySCF knows them too."""
    return {name.replace("_", ""): name for name in (*table(), *verdicts()["refused"])}


def find(name: str) -> Functional | None:
    """The functional of a libxc name in lower case, underscores or not; None for a name that libxc does not have.

    UnsupportedError, with the reason, for a name that did not pass the comparison; MissingDependencyError without
    jax-xc.
    """
    name = _spellings().get(name.replace("_", ""), name)
    if name in _verified():
        require_installed()
        return build(name)
    reason = verdicts()["refused"].get(name)
    if reason is None:
        return None
    raise UnsupportedError(f"libxc's {name!r} is not served: {reason}.")


def find_term(name: str) -> EnergyTerm | None:
    """The term of this name, of which functionals are sums, whether it is served alone or not."""
    if name not in table():
        return None
    require_installed()
    return next((term for _, term in build(name).terms if term.name == PREFIX + name), None)


@functools.cache
def build(name: str) -> Functional:
    """The functional of any name in the table, whatever its comparison said."""
    entry = table()[name]
    primitives = [(weight, _primitive(primitive)) for weight, primitive in entry["terms"]]
    parts = [part if weight == 1 else weight * part for weight, part in primitives]
    parts += [*_exact_exchange(*entry["exact_exchange"]), *_nonlocal(name, *entry["nonlocal"])]
    return functools.reduce(operator.add, parts).named(PREFIX + name)


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
    return Functional(name, ((1.0, EnergyTerm(name, formula, ingredients, parameters, DOI)),))


def _exact_exchange(omega, full, short_range):
    """libxc's fractions: `full` with 1/r, `short_range` with erfc(omega r)/r beside it."""
    if omega and short_range:
        yield (full + short_range) * exact_exchange
        yield -short_range * long_range_exchange(omega)
    elif full:
        yield full * exact_exchange


def _nonlocal(name, b, C):
    if b:
        yield (rvv10 if "rvv10" in name else vv10).with_parameters(b=b, C=C)


add_source(Source(PREFIX, find, find_term, names))
