"""Every operation of the vocabulary in every algebra: its value, and its slope, against mpmath, or a declared refusal.

A release of JAX that splits or renames an operation, and an algebra that lacks one, show here.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from dftfd.autofd import derivatives_along
from dftfd.autofd.scalar.derive import with_gradient
from dftfd.autofd.scalar.on_jax import run, run_in_one_loop
from dftfd.autofd.scalar.on_mpmath import OnMpmath
from dftfd.autofd.scalar.on_numpy import exactly, run_on_numpy
from dftfd.autofd.scalar.on_objects import SympyAlgebra
from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.reader import point_program, symbolic_program
from dftfd.autofd.scalar.vocabulary import ELEMENTWISE
from dftfd.errors import DftfdError

SCALAR = jax.ShapeDtypeStruct((), np.float64)
X = np.array([0.21, 0.44, 0.83])
lax = jax.lax
bits = lambda x: lax.bitcast_convert_type(x, jnp.int64)
number = lambda k: k.astype(float)
turned = lambda x: lax.convert_element_type(8 * x, jnp.int64)
chosen = lambda test, x: jnp.where(test, x, 2 * x)
ONE = """abs acos acosh asin asinh atan atanh cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor lgamma
    log log1p logistic neg rsqrt sign sin sinh sqrt square tan tanh""".split()
CODES = {
    **{name: lambda x, name=name: getattr(lax, name)(x) for name in ONE},
    "acosh": lambda x: lax.acosh(1 + x),
    **{
        name: lambda x, name=name: getattr(lax, name)(x, 1 - x * x)
        for name in "add sub mul div atan2 max min pow".split()
    },
    "add_any": lambda x: jax.jvp(lambda a: a * a, (x,), (x,))[1],
    **{n: lambda x, n=n: chosen(getattr(lax, n)(x, 0.5), x) for n in "eq ne lt le gt ge".split()},
    "and": lambda x: chosen((x > 0.3) & (x < 0.6), x),
    "or": lambda x: chosen((x < 0.3) | (x > 0.6), x),
    "xor": lambda x: chosen((x < 0.5) ^ (x < 0.3), x),
    "not": lambda x: chosen(~(x < 0.5), x),
    "bitcast_convert_type": lambda x: x * number(bits(x) >> 52),
    "clamp": lambda x: lax.clamp(0.3, x, 0.6),
    "convert_element_type": lambda x: x * number(turned(x)),
    "integer_pow": lambda x: lax.integer_pow(x, 5) + lax.integer_pow(x, -3),
    "is_finite": lambda x: chosen(jnp.isfinite(x), x),
    "nextafter": lambda x: lax.nextafter(x, 1.0),
    "one_minus_square": lambda x: jax.jvp(jnp.tanh, (x,), (1.0,))[1],
    "rem": lambda x: lax.rem(5 * x, 0.7),
    "round": lambda x: lax.round(5 * x),
    "select_n": lambda x: jnp.where(x < 0.5, jnp.sin(x), jnp.cos(x)),
    "shift_left": lambda x: x * number(lax.shift_left(turned(x), jnp.int64(2))),
    "shift_right_arithmetic": lambda x: x * number(lax.shift_right_arithmetic(turned(x), jnp.int64(1))),
    "shift_right_logical": lambda x: x * number(lax.shift_right_logical(turned(x), jnp.int64(1))),
}
NOT_IN_MPMATH = {"bitcast_convert_type", "convert_element_type", "nextafter", "rem", "round"} | {
    name for name in CODES if name.startswith("shift")
}
NOT_IN_SYMPY = NOT_IN_MPMATH | {"ceil", "floor", "digamma", "lgamma", "erf_inv", "xor"}


def test_every_operation_is_in_the_table():
    assert set(CODES) == ELEMENTWISE


def by_differences(code):
    """Value and slope with 60 digits."""
    program = symbolic_program(code, SCALAR)
    with mpmath.workdps(60):
        value = lambda x: evaluate(program, OnMpmath(), [x])[0]
        h = mpmath.mpf(10) ** -20
        points = list(map(mpmath.mpf, X))
        slopes = [(value(x + h) - value(x - h)) / (2 * h) for x in points]
        return np.array([[float(value(x)) for x in points], list(map(float, slopes))])


@pytest.mark.parametrize("name", sorted(CODES))
def test_operation(name):
    """By JAX on arrays, in one loop, by NumPy, as a power series; against mpmath, or plain JAX for what is of bits."""
    code = CODES[name]
    if name in NOT_IN_MPMATH:
        with pytest.raises(DftfdError):
            by_differences(code)
        expected = np.array(jax.vmap(jax.value_and_grad(code))(X)) if name != "nextafter" else None
        if expected is None:
            np.testing.assert_array_equal(run_on_numpy(point_program(code, SCALAR), [X])[0], np.nextafter(X, 1.0))
            return
    else:
        expected = by_differences(code)
    program = with_gradient(point_program(code, SCALAR), inline=True)
    series = jax.vmap(lambda x: jnp.stack(derivatives_along(code, (x,), (1.0,), 1)), out_axes=1)
    for found in (run(program, [X]), run_on_numpy(program, [X]), run_in_one_loop(program, [X]), series(X)):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", sorted(CODES))
def test_operation_as_a_symbol(name):
    """Its value by SymPy at 30 digits; refused where SymPy has no form of it."""
    sympy = pytest.importorskip("sympy")
    x = sympy.Symbol("x", positive=True)
    symbols = lambda: evaluate(symbolic_program(CODES[name], SCALAR), SympyAlgebra(), [x])[0]
    if name in NOT_IN_SYMPY:
        with pytest.raises(DftfdError):
            symbols()
        return
    expression = symbols()
    found = [float(sympy.N(expression.xreplace({x: sympy.Float(a, 30)}))) for a in X]
    np.testing.assert_allclose(found, by_differences(CODES[name])[0], rtol=1e-13, atol=1e-15)


INTEGERS = np.array([-7, -1, 0, 3, 5, 2**40 + 1, -(2**62)])
REALS = np.array([-np.inf, -3.7, -0.0, 0.0, 1e-310, 0.3, 2.5, 1e300, np.inf, np.nan])
FOLDED = {
    "div": (INTEGERS, np.array([1, 2, 3, 7, 2, 1000, 3])),
    "rem": (INTEGERS, np.array([1, 2, 3, 7, 2, 1000, 3])),
    "shift_left": (INTEGERS, np.array([0, 1, 2, 62, 63, 5, 1])),
    "shift_right_arithmetic": (INTEGERS, np.array([0, 1, 2, 62, 63, 5, 1])),
    **{f"integer_pow {n}": (REALS[2:],) for n in (0, 1, 2, 3, 7)},
    "convert_element_type to integers": (REALS,),
    "convert_element_type to reals": (INTEGERS,),
    "bitcast_convert_type to integers": (REALS,),
    "bitcast_convert_type to reals": (INTEGERS,),
}


@pytest.mark.parametrize("case", FOLDED)
def test_constants_are_folded_as_xla_has_them(case):
    """To the last bit; nothing is compiled for them."""
    name, *what = case.split()
    values = FOLDED[case]
    power = {"y": int(what[0])} if name == "integer_pow" else {}
    dtype = np.dtype(np.int64 if case.endswith("integers") else np.float64)
    code = {
        "integer_pow": lambda x: lax.integer_pow(x, **power),
        "convert_element_type": lambda x: lax.convert_element_type(x, dtype),
        "bitcast_convert_type": lambda x: lax.bitcast_convert_type(x, dtype),
    }.get(name) or getattr(lax, name)
    expected = np.asarray(jax.jit(code)(*values))
    with np.errstate(all="ignore"):
        found = exactly(name, power or {"new_dtype": dtype}, list(values))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))


@pytest.mark.parametrize("name, values", [("div", ([1], [0])), ("rem", ([1], [-2])), ("shift_left", ([1], [64]))])
def test_what_numpy_may_have_in_another_way_is_left_to_xla(name, values):
    assert exactly(name, {}, [np.array(value) for value in values]) is None
