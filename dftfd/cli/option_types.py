"""The options of a calculation on the command line, made from `model.options`; those of a molecule beside them."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any

import typer

from dftfd.errors import InputError
from dftfd.model.options import OPTIONS

OF_MOLECULE = {
    "basis": Annotated[str, typer.Option(help="Basis set.")],
    "charge": Annotated[int | None, typer.Option(help="Total charge; default: what the xyz file says, else 0.")],
    "spin": Annotated[
        int | None, typer.Option(help="N_alpha - N_beta, the number of unpaired electrons; default as for --charge.")
    ],
    "multiplicity": Annotated[
        int | None, typer.Option(help="Instead of --spin: the number of unpaired electrons plus one.")
    ],
    "unit": Annotated[str, typer.Option(help="Unit of the coordinates: angstrom or bohr.")],
    "cartesian": Annotated[bool, typer.Option("--cartesian", help="Cartesian instead of spherical functions.")],
}
_DEFAULTS = {"basis": "def2-svp", "unit": "angstrom", "cartesian": False}


def _parameter(name) -> inspect.Parameter:
    """What typer makes `--name` of; a value that is no number, flag or word is read later, from text."""
    option = OPTIONS[name]
    flags: list[str] = []
    default, kind = option.default, option.type
    if option.several:
        flags, kind, default = [option.several], list[str] | None, None
    elif option.type is bool:
        flags = [f"--{_dashed(name)}" + (f"/--no-{_dashed(name)}" if default else "")]
    elif option.type not in (int, float, int | None):
        kind = str if isinstance(default, str) else str | None
    annotation: Any = Annotated[kind, typer.Option(*flags, help=option.meaning)]  # type: ignore[valid-type]  # made here
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _dashed(name):
    return name.replace("_", "-")


def with_options(*names: str, molecule: Sequence[str] = tuple(OF_MOLECULE)) -> Callable:
    """Decorator: a command that takes two mappings, for molecule and calculation, gets an option for each entry.

    names: those of run_scf that it offers.   molecule: those of a molecule.
    """

    def decorate(command):
        own = list(inspect.signature(command).parameters.values())
        at = [p.name for p in own].index("of_molecule")
        of_molecule = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=OF_MOLECULE[name]
            )
            for name in molecule
        ]
        shown = [*own[:at], *of_molecule, *map(_parameter, names), *own[at + 2 :]]

        @wraps(command)
        def with_mappings(**given):
            own = _with_spin({name: given.pop(name) for name in molecule})
            return command(of_molecule=own, of_run=_read({name: given.pop(name) for name in names}), **given)

        named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shown]
        vars(with_mappings)["__signature__"] = inspect.Signature(named)
        with_mappings.__annotations__ = {p.name: p.annotation for p in shown}
        return with_mappings

    return decorate


def _with_spin(given: dict) -> dict:
    """Options of a molecule, with the spin that a multiplicity stands for."""
    multiplicity = given.pop("multiplicity", None)
    if multiplicity is None:
        return given
    if multiplicity < 1:
        raise InputError(
            f"--multiplicity {multiplicity}: a number from 1 expected, that of unpaired electrons plus one."
        )
    if given["spin"] not in (None, multiplicity - 1):
        raise InputError(
            f"--multiplicity {multiplicity} and --spin {given['spin']}: give one of them; the multiplicity is the spin "
            "plus one."
        )
    return given | {"spin": multiplicity - 1}


def _read(given: dict) -> dict:
    """Options by name, those that are written as text read."""
    if "terms" in given:
        given = given | {"terms": tuple(map(term_in_file, given["terms"] or ()))}
    return {
        name: OPTIONS[name].read(name, value) if isinstance(value, str) and OPTIONS[name].of_text else value
        for name, value in given.items()
    } | ({"xc": functional_named(given["xc"])} if "xc" in given else {})


def term_in_file(text):
    """The energy term of FILE.py:NAME, or FILE.py:NAME(U=0.2); any other text as it is."""
    from dftfd.functionals.named_files import CodeInFile, load_file
    from dftfd.runtime.chosen_terms import makers_in, term_named

    match = re.fullmatch(r"(?P<path>.+?\.py):(?P<rest>.+)", text.strip(), re.DOTALL)
    if match is None:
        return text
    found = term_named(match["rest"], makers_in(load_file(match["path"])))
    return replace(found, maker=CodeInFile(match["path"], found.maker.__qualname__))


def functional_named(name):
    """The functional of FILE.py:NAME, which is loaded since it was named; any other name as it is."""
    from dftfd.functionals.named_files import functional_in_file, names_file

    if name is not None and name.strip().lower().endswith(".py"):
        raise InputError(f"{name!r} is a file without the name of what is meant in it; write {name.strip()}:NAME.")
    return functional_in_file(name) if name is not None and names_file(name) else name
