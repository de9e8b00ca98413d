"""Fitted functionals as files: a name, what it is made from, its numbers, and the fingerprint of its formulas."""

import json
from pathlib import Path
from typing import Any

from dftfd.errors import FunctionalError, InputError
from dftfd.functionals.base import Functional
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.parameters import plain
from dftfd.functionals.registry import get_functional, register
from dftfd.runtime.arguments import public
from dftfd.runtime.documents import refusing_damage
from dftfd.runtime.files import read_bytes, write_text
from dftfd.runtime.json_reader import parse_json

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
            f"functional {functional.name[:60]!r} is not found again by the names of its terms; register them with "
            "@dftfd.functional in a module, then save."
        )
    write_text(path, json.dumps(document, indent=1))


@public
def load_functional(path: Path) -> Functional:
    """The functional of a file that `Fit.save` wrote, registered under its name.

    Raises FileError for a file that cannot be read or is damaged, FunctionalError where the code of a formula is no
    longer what was fitted.
    """
    with refusing_damage(path, "is no saved functional"):
        document = parse_json(read_bytes(path, MAX_BYTES))
        if document["dftfd_functional"] != FORM:
            raise ValueError(f"form {document['dftfd_functional']}, {FORM} is known")
        found, fingerprint, name = _functional(document), document["fingerprint"], document["name"]
    if program_fingerprint(found) != fingerprint:
        raise FunctionalError(
            f"{path}: the code of {', '.join(term.name for _, term in found.terms)} is not what was fitted, so its "
            "numbers mean something else; fit again, or go back to that version."
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
