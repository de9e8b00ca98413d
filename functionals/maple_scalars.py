"""Numbers of formulas that are read, and functions of one of them.

An exact number is a Fraction, an irrational constant a Decimal of sixty digits. Both become floats where they meet a
value that the formula is computed for, so constants are rounded once.
"""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import FunctionalError, shown
from dftfd.functionals import special
from dftfd.functionals.maple_limits import MAX_BITS, count_operation, spend
from dftfd.functionals.maple_special import dilogarithm

DIGITS = 60
CONTEXT = Context(prec=DIGITS, Emin=-(10**6), Emax=10**6)
PI = CONTEXT.create_decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707"
)
_NEGLIGIBLE = Decimal(10) ** -(DIGITS - 15)


def is_constant(x: Any) -> bool:
    """True for numbers that are known, exactly or in sixty digits."""
    return isinstance(x, Fraction | Decimal)


def is_known(x: Any) -> bool:
    """True for numbers that branches can be chosen by."""
    return is_constant(x) or isinstance(x, int | float)


def plain(x: Any) -> Any:
    """A value as JAX takes it: floats for constants."""
    if not is_constant(x):
        return x
    try:
        found = float(x)
    except OverflowError:
        found = math.inf
    if math.isinf(found):
        raise FunctionalError("a constant beyond the largest number, 1.8e308.")
    return found


def exact(x: Fraction) -> Fraction | Decimal:
    """An exact number; in sixty digits where it is a ratio of very large numbers."""
    bits = max(x.numerator.bit_length(), x.denominator.bit_length())
    spend(bits >> 6)
    return x if bits <= MAX_BITS else in_digits(x)


def in_digits(x: Fraction | Decimal) -> Decimal:
    """A constant in sixty digits."""
    return x if isinstance(x, Decimal) else CONTEXT.divide(Decimal(x.numerator), Decimal(x.denominator))


def same_kind(a, b):
    """Both as Fractions, both as Decimals, or neither constant."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a, b
    if is_constant(a) and is_constant(b):
        return in_digits(a), in_digits(b)
    return plain(require_number(a)), plain(require_number(b))


def require_number(x):
    """x itself; FunctionalError for texts, lists, procedures, truth values and whatever else is no number."""
    if isinstance(x, bool) or not isinstance(x, Fraction | Decimal | int | float | np.number | np.ndarray | jax.Array):
        raise FunctionalError(f"{type(x).__name__.lower()} {shown(x, 40)} found where a number is expected.")
    return x


def require_condition(x):
    """x itself; FunctionalError for what is neither true nor false, nor a comparison of values."""
    if not isinstance(x, bool) and not (isinstance(x, np.ndarray | jax.Array) and x.dtype == bool):
        raise FunctionalError(f"{type(x).__name__.lower()} {shown(x, 40)} found where a condition is expected.")
    return x


def is_zero(x: Any) -> bool:
    """Exactly zero, or what is left of sixty digits that cancelled."""
    return (isinstance(x, Fraction) and x == 0) or (isinstance(x, Decimal) and abs(x) < _NEGLIGIBLE)


def of_constant(x: Any, on_decimal, on_float, on_array, name: str) -> Any:
    """exp and log: of constants in sixty digits."""
    if is_constant(x):
        spend(20)
        return on_decimal(in_digits(x))
    return _of_value(require_number(x), on_float, on_array, name)


def _of_value(x, on_float, on_array, name):
    if not isinstance(x, float) or on_float is None:
        count_operation(1 if on_float else 100)
        return on_array(jnp.asarray(x, float) if isinstance(x, float) else x)
    try:
        return on_float(x)
    except (ValueError, OverflowError) as error:
        raise FunctionalError(f"{name} of {x:.6g}, which is no real number.") from error


def of_number(name: str, x: Any) -> Any:
    """A function by its name in OF_ONE_NUMBER of a number or a value of JAX."""
    if is_constant(x) and x == 0 and name in _ODD:
        return Fraction(0)
    return _of_value(plain(require_number(x)), *OF_ONE_NUMBER[name], name)


_ODD = frozenset("sin tan sinh tanh arctan arcsin arcsinh arctanh erf".split())
OF_ONE_NUMBER: dict[str, tuple[Any, Any]] = {
    "abs": (abs, jnp.abs),
    "sin": (math.sin, jnp.sin),
    "cos": (math.cos, jnp.cos),
    "tan": (math.tan, jnp.tan),
    "sinh": (math.sinh, jnp.sinh),
    "cosh": (math.cosh, jnp.cosh),
    "tanh": (math.tanh, jnp.tanh),
    "sech": (None, lambda x: 1 / jnp.cosh(x)),
    "arcsin": (math.asin, jnp.arcsin),
    "arccos": (math.acos, jnp.arccos),
    "arctan": (math.atan, jnp.arctan),
    "arcsinh": (math.asinh, jnp.arcsinh),
    "arccosh": (math.acosh, jnp.arccosh),
    "arctanh": (math.atanh, jnp.arctanh),
    "arccsch": (None, lambda x: jnp.arcsinh(1 / x)),
    "erf": (math.erf, jax.scipy.special.erf),
    "erfc": (math.erfc, jax.scipy.special.erfc),
    "Ei": (None, lambda x: -special.scaled_e1(-x) * jnp.exp(x)),  # of negative numbers, as formulas of libxc have it
    "Heaviside": (None, lambda x: jnp.where(x >= 0, 1.0, 0.0)),
    "LambertW": (None, special.lambert_w),
    "xc_E1_scaled": (None, special.scaled_e1),
    "xc_erfcx": (None, special.erfcx),
    "xc_dilogarithm": (None, dilogarithm),
    "xc_mgga_x_br89_get_x": (None, special.becke_roussel_x),
    "xc_mgga_x_mbrxc_get_x": (None, special.multi_reference_x),
}  # fmt: skip
"""By name: of floats, where Python has it, and of values of JAX."""


def in_context() -> Any:
    """Sixty digits for the plain arithmetic of Decimals."""
    return localcontext(CONTEXT)
