"""Functional automatic differentiation: functions as arrays, operators with derivative and transpose rules.

Reference: M. Lin, "Automatic Functional Differentiation in JAX", ICLR 2024.
"""

import types

from dftfd.autofd.core.domain import Domain, Signature
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.inverses import register_inverse
from dftfd.autofd.core.roots import power
from dftfd.autofd.extra.explanation import Unknown, explain, show
from dftfd.autofd.extra.gaussians import euclidean, gaussian
from dftfd.autofd.extra.quadratures import (
    discrete,
    fourier,
    from_grid,
    gauss_hermite,
    gauss_laguerre,
    interpolate,
    interval,
    monte_carlo,
    periodic,
    product,
    standard_error,
)
from dftfd.autofd.operators.braket import braket
from dftfd.autofd.operators.broadcast import broadcast, permute
from dftfd.autofd.operators.compose import compose
from dftfd.autofd.operators.elementary import (
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
from dftfd.autofd.operators.integrate import (
    analytic_integral,
    explain_integral,
    integrate,
    register_analytic_rule,
    with_quadrature,
)
from dftfd.autofd.operators.leaf import constant, function, identity, zeros
from dftfd.autofd.operators.nabla import divergence, laplacian, nabla
from dftfd.autofd.operators.partial import at, invoke, partial
from dftfd.autofd.operators.zip_split import item, split, zip_functions
from dftfd.autofd.transforms.by_parts import check
from dftfd.autofd.transforms.gradients import (
    grad,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
)
from dftfd.autofd.transforms.jax_syntax import as_leaf, as_pytree
from dftfd.autofd.transforms.taylor_mode import derivatives_along, mixed_derivative, taylor
from dftfd.autofd.transforms.transposition import vjp

# these only enter the table of operators
from dftfd.autofd.extra import transport as _transport  # isort: skip
from dftfd.autofd.operators import arithmetic as _arithmetic  # isort: skip
from dftfd.autofd.operators import dirac as _dirac  # isort: skip
from dftfd.autofd.operators import integral_transform as _integral_transform  # isort: skip

__all__ = [
    "Domain",
    "Function",
    "Signature",
    "Unknown",
    "absolute",
    "analytic_integral",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "as_leaf",
    "as_pytree",
    "at",
    "braket",
    "broadcast",
    "cbrt",
    "check",
    "compose",
    "conj",
    "constant",
    "cos",
    "cosh",
    "derivatives_along",
    "discrete",
    "divergence",
    "dot",
    "elementary",
    "elu",
    "erf",
    "erfc",
    "euclidean",
    "exp",
    "exp2",
    "explain",
    "explain_integral",
    "expm1",
    "fourier",
    "from_grid",
    "function",
    "gauss_hermite",
    "gauss_laguerre",
    "gaussian",
    "gelu",
    "grad",
    "hvp",
    "hypot",
    "identity",
    "imag",
    "integrate",
    "interpolate",
    "interval",
    "invoke",
    "item",
    "jacfwd",
    "jacrev",
    "jvp",
    "laplacian",
    "linear_transpose",
    "linearize",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "maximum",
    "minimum",
    "mixed_derivative",
    "monte_carlo",
    "nabla",
    "partial",
    "periodic",
    "permute",
    "power",
    "product",
    "real",
    "register_analytic_rule",
    "register_inverse",
    "relu",
    "show",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "split",
    "sqrt",
    "square",
    "standard_error",
    "tan",
    "tanh",
    "taylor",
    "value_and_grad",
    "vjp",
    "with_quadrature",
    "zeros",
    "zip_functions",
]
