"""Densities and quadratures as arguments of functionals."""

from typing import Annotated, Any

from dftfd.autofd import Function
from dftfd.errors import shown
from dftfd.runtime.arguments import Kind, traceable


def _as_density(value):
    if not issubclass(type(value), Function) or value.result.shape != (2,):
        raise ValueError
    return value


def _as_quadrature(value):
    points, weights = value
    return traceable(None, 3).convert(points), traceable(None).convert(weights)


Density = Annotated[Function, Kind("a density R^3 -> R^2 (alpha, beta), a Function", _as_density)]
Quadrature = Annotated[tuple, Kind("a pair (points (n, 3), weights (n,)) of finite numbers", _as_quadrature)]


def in_words(result: Any) -> str:
    """What a formula of densities returned."""
    if not isinstance(result, Function):
        return f"{shown(result)}, which is no function of r"
    shape = result.result.shape
    return f"{'values' if shape else 'one value'} of shape {shape} at each r"
