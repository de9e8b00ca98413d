"""What functionals are made of, the ingredients, and densities and quadratures as their arguments."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

from dftfd.autofd import Domain, Function
from dftfd.autofd.lowering import placeholder
from dftfd.errors import FunctionalError, shown
from dftfd.runtime.arguments import Kind, accepted, traceable

SPACE = Domain((3,), name="r", grid_later=True)
"""R^3 [bohr]; its quadrature is chosen by whoever evaluates a functional."""

INGREDIENTS = {
    "n": "total density, R^3 -> R [bohr^-3]",
    "rho": "spin-resolved density, R^3 -> R^2 [bohr^-3]",
    "tau": "spin-resolved kinetic energy density, R^3 -> R^2 [hartree bohr^-3]",
    "e_x": "spin-resolved exact-exchange energy density, R^3 -> R^2 [hartree bohr^-3]",
    "e_x_lr": "the same of erf(omega r)/r, with the formula's parameter omega [1/bohr]",
}

EXACT_EXCHANGE = ("e_x", "e_x_lr")
"""Ingredients that are no functions of the density around a point: -1/2 int |gamma(r, r')|^2 g(|r - r'|) d^3r'."""


def unknown_densities() -> tuple[Function, ...]:
    """rho, tau, e_x, e_x_lr, functions that stand for any density: what a functional is lowered from."""
    return tuple(placeholder(name, SPACE, (2,)) for name in ("rho", "tau", *EXACT_EXCHANGE))


def _as_density(value):
    return accepted(issubclass(type(value), Function) and value.result.shape == (2,), value)


def _as_quadrature(value):
    points, weights = value
    return traceable(None, 3).convert(points), traceable(None).convert(weights)


Density = Annotated[Function, Kind("a density R^3 -> R^2 (alpha, beta), a Function", _as_density)]
Quadrature = Annotated[tuple, Kind("a pair (points (n, 3), weights (n,)) of finite numbers", _as_quadrature)]


def in_words(result: Any) -> str:
    """What a formula of densities returned."""
    if not isinstance(result, Function):
        return f"{shown(result)}, which is not a function of r"
    shape = result.result.shape
    return f"{'values' if shape else 'one value'} of shape {shape} at each r"


def signature_of(
    formula: Any, name: str, known: Mapping[str, str] = INGREDIENTS, density: str = "n or rho"
) -> tuple[tuple[str, ...], dict]:
    """(ingredients, parameters with defaults) of a formula; known: the ingredients that there are, in words."""
    if not callable(formula):
        raise FunctionalError(f"functional {name!r}: a formula, def f(n, *, ...), expected, {shown(formula)} found.")
    try:
        signature = inspect.signature(formula)
    except Exception as error:  # somebody's object
        message = f"functional {name!r}: {shown(formula)} does not tell its arguments; write a def."
        raise FunctionalError(message) from error
    ingredients, parameters = [], {}
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY:
            if p.default is p.empty:
                raise FunctionalError(f"functional {name!r}: parameter {p.name!r} needs a default value.")
            parameters[p.name] = p.default
        elif p.kind is p.POSITIONAL_OR_KEYWORD and p.name in known:
            ingredients.append(p.name)
        else:
            said = "; ".join(f"{k}: {v}" for k, v in known.items())
            raise FunctionalError(
                f"functional {name!r} takes {p.name!r}, which is not an ingredient ({said}). "
                "Parameters go after a *, with defaults: def f(n, *, kappa=0.804)."
            )
    if not ingredients:
        raise FunctionalError(f"functional {name!r} takes no density: name its argument {density}.")
    if "e_x_lr" in ingredients and "omega" not in parameters:
        message = f"functional {name!r} takes e_x_lr, exact exchange of erf(omega r)/r, so it needs a parameter omega."
        raise FunctionalError(message)
    return tuple(ingredients), parameters
