"""Functional automatic differentiation: functions as arrays, operators with derivative and transpose rules.

Reference: M. Lin, "Automatic Functional Differentiation in JAX", ICLR 2024.
"""

from dftfd.autofd import jax_syntax
from dftfd.autofd.analytic import analytic_integral, explain_integral, register_analytic_rule
from dftfd.autofd.derived import hvp, jacfwd, jacrev, linear_transpose, linearize
from dftfd.autofd.domain import Domain, Signature
from dftfd.autofd.elementary import (
    absolute,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cbrt,
    conj,
    cos,
    cosh,
    dot,
    elementary,
    elu,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    gelu,
    hypot,
    imag,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    maximum,
    minimum,
    power,
    real,
    relu,
    sigmoid,
    silu,
    sin,
    sinh,
    softplus,
    sqrt,
    square,
    tan,
    tanh,
)
from dftfd.autofd.extra.explanation import Unknown, explain
from dftfd.autofd.extra.gaussians import euclidean, gaussian
from dftfd.autofd.extra.printing import show
from dftfd.autofd.extra.quadratures import (
    discrete,
    fourier,
    from_grid,
    gauss_hermite,
    gauss_laguerre,
    interval,
    monte_carlo,
    periodic,
    product,
    standard_error,
)
from dftfd.autofd.function import Function
from dftfd.autofd.jax_leaves import as_leaf, as_pytree
from dftfd.autofd.operators.braket import braket
from dftfd.autofd.operators.broadcast import broadcast, permute
from dftfd.autofd.operators.compose import compose
from dftfd.autofd.operators.integrate import integrate, with_quadrature
from dftfd.autofd.operators.inverse import register_inverse
from dftfd.autofd.operators.leaf import constant, function, identity, zeros
from dftfd.autofd.operators.nabla import divergence, laplacian, nabla
from dftfd.autofd.operators.partial import at, invoke, partial
from dftfd.autofd.operators.zip_split import item, split, zip_functions
from dftfd.autofd.series.taylor_mode import derivatives_along, mixed_derivative, taylor
from dftfd.autofd.transforms import grad, jvp, value_and_grad
from dftfd.autofd.transposition import vjp

__all__ = [name for name in dir() if not name.startswith("_")]
