"""Functions of a molecule and checked options as functions of a molecule and arguments, one for each option."""

import inspect
import textwrap
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, get_type_hints

from dftfd.model.options import OPTIONS, Options
from dftfd.runtime.arguments import bound, kind_of

_P = ParamSpec("_P")
_M = TypeVar("_M")
_R = TypeVar("_R")


def taking(
    options: Callable[_P, Options],
) -> Callable[[Callable[[_M, Options], _R]], Callable[Concatenate[_M, _P], _R]]:
    """Decorator: a function of (molecule, options) becomes one of (molecule, xc, method, *, grid_level=3, ...).

    Signature and documentation, where it says {options}, are those of the fields.
    """
    made: Callable[..., Options] = options

    def decorate(function):
        declared, name = inspect.signature(function), function.__name__
        of_molecule, _ = declared.parameters.values()
        own = [p.replace(annotation=OPTIONS[p.name].type) for p in inspect.signature(options).parameters.values()]
        signature = declared.replace(parameters=[of_molecule, *own])

        @wraps(function)
        def taken(*given, **named):
            arguments = bound(name, signature, given, named)
            kind, of = kind_of(get_type_hints(function)[of_molecule.name]), of_molecule.name
            return function(kind.checked(of, arguments.pop(of)), made(**arguments))

        vars(taken)["__signature__"] = signature
        annotations = {p.name: p.annotation for p in signature.parameters.values()}
        taken.__annotations__ = annotations | {"return": declared.return_annotation}
        taken.__doc__ = inspect.cleandoc(function.__doc__).replace("{options}", described())
        return taken

    return decorate


def described() -> str:
    """The options in words, one paragraph each, as documentation strings have them."""
    return "\n".join(
        textwrap.fill(
            f"{name}: {option.meaning}" + (f" In Python also {option.in_python}" if option.in_python else ""),
            width=116,
            subsequent_indent="    ",
        )
        for name, option in OPTIONS.items()
    )
