"""The way back from `Functional.definition`, a functional written down as plain data, in this process or another.

Formulas stand under their names: whoever reads a definition has to have a functional that holds a term of that name,
registered or made in this process. Everything else, coefficients, parameters, omegas, is in the data.
"""

import importlib
import json
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from dftfd.errors import FunctionalError
from dftfd.functionals.base import EnergyTerm, Functional, last_made
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.named_files import file_of, load_file, made_in
from dftfd.functionals.parameters import are_equal, in_tuples, parameter_text
from dftfd.functionals.registry import found_plugins, list_functionals, lookup, source_of, unknown_name
from dftfd.runtime.json_reader import parse_json


def from_definition(data: dict, name: str) -> Functional:
    """The functional of a definition under a name.

    FunctionalError if a term's formula is not known here, or a parameter is a network, whose numbers alone stand in a
    definition.
    """
    terms = tuple((t["coefficient"], _with_parameters(_known_term(t["name"]), t["parameters"])) for t in data["terms"])
    exact_exchange = tuple((omega, fraction) for omega, fraction in data["exact_exchange"])
    dispersion = tuple(data["dispersion"]) if "dispersion" in data else None
    return Functional(name, terms, exact_exchange, dispersion, pt2=tuple(data.get("pt2", ())))


def _with_parameters(term, values) -> EnergyTerm:
    if term.plain_parameters == values:
        return term
    if term.is_grid_functional or any(set(value) == {"sha256"} for value in values.values() if isinstance(value, dict)):
        raise FunctionalError(f"{term.name!r} has other parameters here than where it was written.")
    for key, value in values.items():
        known = term.parameters.get(key)
        if isinstance(value, dict) and not isinstance(known, dict):
            raise FunctionalError(
                f"parameter {key!r} of {term.name!r} is {parameter_text(known)}, which cannot be restored from numbers."
            )
    given = {key: in_tuples(value) for key, value in values.items()}
    changed = (
        key for key, value in given.items() if key in term.parameters and not are_equal(value, term.parameters[key])
    )
    return replace(term, parameters=given, set_by_hand=term.set_by_hand | frozenset(changed))


def _known_term(name) -> EnergyTerm:
    try:
        return find_term(name)
    except FunctionalError:
        made = last_made(name)
        if made is None:
            raise
        return made


def find_term(name: str) -> EnergyTerm:
    """The term of this name: a registered formula, part of a registered combination, or one of libxc's catalogue."""
    source, plain = source_of(name)
    if source is not None:
        term = source.find_term(plain)
    else:
        registered = lookup(name)
        functionals = [registered] if registered else _all_functionals()
        term = next((term for f in functionals for _, term in f.terms if term.name == name), None)
    if term is None:
        raise unknown_name(name)
    return term


def _all_functionals():
    """Those of plug-ins last, so that none is imported in vain; a plug-in that fails holds no term of others."""
    plugins = found_plugins()
    for name in sorted(list_functionals(), key=plugins.__contains__):
        try:
            yield lookup(name)
        except FunctionalError:
            if name not in plugins:
                raise


def require_reproducible(functional: Functional) -> None:
    """FunctionalError unless `from_definition` would make this very functional again."""
    for _, term in functional.terms:
        try:
            known = find_term(term.name)
        except FunctionalError:
            known = None
        if known is None or known.formula is not term.formula:
            raise FunctionalError(
                f"{term.name!r} is not a registered formula, so another process could not find it; register it with "
                "@dftfd.functional, in a module that is imported there too."
            )
    from_definition(functional.definition, functional.name)


@dataclass(frozen=True)
class Portable:
    """A functional as another process of the same program makes it again, and knows that it is the same.

    definition: JSON.   files, modules: where formulas that are not the library's stand.
    """

    name: str
    definition: str
    fingerprint: str
    files: tuple[Path, ...]
    modules: tuple[str, ...]


def portable(functional: Functional) -> Portable:
    """FunctionalError for formulas that another process can't find, those typed in an interactive session."""
    files, modules = [], []
    for _, part in functional.terms:
        module = getattr(part.formula, "__module__", None) or ""
        file = file_of(part.formula)
        if file is not None:
            files.append(file)
        elif module == "__main__":  # which processes that a script starts import
            _require_script(part)
        elif not module.startswith("dftfd."):
            modules.append(module)
    definition = json.dumps(functional.definition, sort_keys=True)
    places = tuple(dict.fromkeys(files)), tuple(dict.fromkeys(modules))
    sent = Portable(functional.name, definition, program_fingerprint(functional), *places)
    _from_files(sent)
    return sent


def _from_files(sent: Portable) -> Functional:
    """The functional, with the formulas that stand in its files, registered or not."""
    definition = parse_json(sent.definition, finite=False)
    made = [made_in(load_file(file), t["name"]) for file in sent.files for t in definition["terms"]]
    functional = from_definition(definition, sent.name)
    del made  # known by name as long as somebody holds them
    return functional


def _require_script(part):
    if getattr(sys.modules["__main__"], "__file__", None) is None:
        raise FunctionalError(
            f"the formula of {part.name!r} was typed in, so no other process has it; write it to a file and import it "
            "from there, or use jobs=1."
        )


@lru_cache(maxsize=1)
def made_again(sent: Portable) -> Functional:
    """The functional that was sent; FunctionalError where its formulas are not there, or are others here."""
    for module in sent.modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise FunctionalError(
                f"functional {sent.name!r} is of the module {module}, which can't be imported: {error}."
            ) from error
    functional = _from_files(sent)
    if program_fingerprint(functional) != sent.fingerprint:
        raise FunctionalError(f"functional {sent.name!r} has another formula here than where it was asked for.")
    return functional
