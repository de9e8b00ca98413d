"""The options of the commands, each declared once: as an argument of the command's function, with its help beside it.

    raman: Annotated[bool, "Also compute Raman activities."] = False
    folder: Annotated[Path, "--output", "-o", "Folder for the files."]          names of its own come first

An argument whose type is a dataclass stands for an option of each field. The argument of_run stands for options of
`run_scf`, which `model.options` declares, and of_molecule for those of `dftfd.molecule`; both are dictionaries.
"""

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from typing import Annotated, Any

import typer

from dftfd.errors import InputError
from dftfd.model.options import ENERGY, OPTIONS, SEARCH, START, STATE, names
from dftfd.runtime.arguments import accepted
from dftfd.runtime.written_numbers import as_whole, separated


def offered(*decide: str, without: Collection[str] = ()) -> list[str]:
    """Options of run_scf for the command line, of those that decide one of the things named."""
    return [name for name in names(*decide) if OPTIONS[name].on_command and name not in without]


OFFERED = [*offered(ENERGY, STATE, START, SEARCH, without=["allow_unconverged"]), "max_memory"]


@dataclass(frozen=True)
class _Molecule:
    """The arguments of `dftfd.molecule`, and the multiplicity, which the spin is made of."""

    basis: Annotated[str, "Basis set."] = "def2-svp"
    charge: Annotated[int | None, "Total charge; default: what the xyz file says, else 0."] = None
    spin: Annotated[int | None, "N_alpha - N_beta, the number of unpaired electrons; default as for --charge."] = None
    multiplicity: Annotated[int | None, "Instead of --spin: the number of unpaired electrons plus one."] = None
    unit: Annotated[str, "Unit of the coordinates: angstrom or bohr."] = "angstrom"
    cartesian: Annotated[bool, "Cartesian instead of spherical functions."] = False


OF_MOLECULE = inspect.signature(_Molecule).parameters


def with_options(function: Callable, of_run: Collection[str], of_molecule: Collection[str], around: Callable):
    """What typer makes a command of: the function, called in a context manager whose arguments are options, too."""
    shared = inspect.signature(around).parameters.values()
    groups: dict[str, tuple[Callable, list]] = {}
    shown: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "of_molecule":
            groups["of_molecule"] = _with_spin, [OF_MOLECULE[name] for name in of_molecule]
        elif parameter.name == "of_run":
            groups["of_run"] = _read, [_of_run(name) for name in of_run]
        elif isinstance(kind := parameter.annotation, type) and is_dataclass(kind):
            groups[parameter.name] = kind, [*inspect.signature(kind).parameters.values()]
        shown += groups.get(parameter.name, (None, [parameter]))[1]
    shown = [_for_typer(parameter) for parameter in (*shown, *shared)]

    @wraps(function)
    def command(**given):
        taken = lambda options: {option.name: given.pop(option.name) for option in options}
        with around(**taken(shared)):
            made = {name: make(**taken(options)) for name, (make, options) in groups.items()}
            return function(**made, **given)

    vars(command)["__signature__"] = inspect.Signature(shown)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command


def _for_typer(parameter) -> inspect.Parameter:
    """The parameter with typer's declaration of its option; a flag that is off by default has no --no-flag."""
    kind, words = parameter.annotation, getattr(parameter.annotation, "__metadata__", ())
    if words and all(isinstance(word, str) for word in words):
        *flags, meaning = words
        flags = flags or ([f"--{parameter.name.replace('_', '-')}"] if parameter.default is False else [])
        kind = Annotated[kind.__origin__, typer.Option(*flags, help=meaning)]
    return parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)


def _of_run(name) -> inspect.Parameter:
    """An option of run_scf; a value that is no number, flag or word is read later, from text."""
    option, default = OPTIONS[name], OPTIONS[name].default
    kind: Any = option.type if option.type in (bool, int, float, int | None) else str
    if option.several:
        annotation, default = Annotated[list[str] | None, option.several, option.meaning], None
    else:
        annotation = Annotated[kind if default is not None else kind | None, option.meaning]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_spin(multiplicity=None, **given) -> dict:
    """Options of a molecule, with the spin that a multiplicity stands for."""
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


def _read(**given) -> dict:
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
        raise InputError(f"{name!r} lacks the name of a functional in the file; write {name.strip()}:NAME.")
    return functional_in_file(name) if name is not None and names_file(name) else name


def whole_numbers(option: str, text: str) -> list[int]:
    """Whole numbers between blanks or commas."""
    try:
        return [as_whole(word) for word in separated(text)]
    except ValueError as error:
        raise InputError(
            f"--{option} {text!r}: whole numbers between blanks or commas expected, such as 0,1."
        ) from error


def words_of(text: str) -> list[str]:
    """What stands between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def pairs(option: str, words: Collection[str], read: Callable[[str], Any], expected: str) -> dict[str, Any]:
    """{name: value} of 'NAME=VALUE'; InputError where it is not that."""
    found: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name.strip() in found:
            raise InputError(f"--{option}: {name.strip()} is there twice; give each once.")
        try:
            found[name.strip()] = read(accepted(name.strip() and value, value))
        except ValueError as error:
            raise InputError(f"--{option} {word!r}: {expected} expected.") from error
    return found
