"""Functional automatic differentiation: functions as arrays, operators with derivative and transpose rules.

Reference: M. Lin, "Automatic Functional Differentiation in JAX", ICLR 2024.
"""

from dftfd.autofd.domain import Domain, Signature
from dftfd.autofd.elementary import (
    absolute,
    arcsinh,
    arctan,
    cbrt,
    conj,
    cos,
    cosh,
    dot,
    elementary,
    erf,
    erfc,
    exp,
    expm1,
    imag,
    log,
    log1p,
    maximum,
    minimum,
    power,
    real,
    sigmoid,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)
from dftfd.autofd.function import Function
from dftfd.autofd.operators.broadcast import broadcast, permute
from dftfd.autofd.operators.compose import compose
from dftfd.autofd.operators.integrate import integrate, with_quadrature
from dftfd.autofd.operators.leaf import constant, function, identity, zeros
from dftfd.autofd.operators.nabla import divergence, laplacian, nabla
from dftfd.autofd.operators.point import at
from dftfd.autofd.operators.zip_split import item, split, zip_functions
from dftfd.autofd.printing import show
from dftfd.autofd.taylor import derivatives_along, mixed_derivative, taylor
from dftfd.autofd.transforms import grad, hvp, jvp, value_and_grad, vjp

__all__ = [name for name in dir() if not name.startswith("_")]
