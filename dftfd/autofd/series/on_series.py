"""JAX programs on truncated power series.

A program is traced to its equations, and each equation is carried out on series:

- linear primitives act on each coefficient, bilinear ones by Cauchy products, common elementary functions by the
  recurrences in `series`;
- loops and branches run on lists of coefficients;
- every other primitive, and every function with a custom derivative, goes through its JVP: the program that takes
  (u, du) to (y, dy) holds for series too, and y_k = dy_{k-1} / k. Where that program uses y again, as those of tan and
  of the cube root do, it is given the series under construction, so the cost stays quadratic in the order.
"""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from dftfd.autofd.scalar import vocabulary
from dftfd.autofd.scalar.jaxprs import closed, equation_code, operands_of, scan_layout, walk
from dftfd.autofd.series import coefficients as s
from dftfd.autofd.series.coefficients import Series, as_series
from dftfd.errors import NoRuleError

ELEMENTARY: dict[str, Callable[[Series], Series]] = {
    "square": lambda u: s.product(u, u),
    "one_minus_square": lambda u: s.shifted(s.mapped(jnp.negative, s.product(u, u)), 1),
    "sqrt": lambda u: s.power(jnp.sqrt(u[0]), u, 0.5),
    "rsqrt": lambda u: s.power(jax.lax.rsqrt(u[0]), u, -0.5),
    "cbrt": lambda u: s.power(jnp.cbrt(u[0]), u, 1 / 3),
    "exp": s.exponential,
    "log": s.logarithm,
    "sin": lambda u: s.sine_and_cosine(u)[0],
    "cos": lambda u: s.sine_and_cosine(u)[1],
    "tanh": s.hyperbolic_tangent,
    "logistic": s.logistic,
}


def run_series(program, arguments, order: int | None, given=(), wanted=None) -> list:
    """Results of a program whose arguments are arrays and Series.

    order: coefficients c_0..c_order are computed; None: on demand, for programs that are part of a definition through
    itself.   given: values of variables that need no computation.   wanted: which results are needed (None: all).
    """

    def apply(eqn, operands):
        moves = any(isinstance(x, Series) for x in operands)
        results = _apply(eqn, operands, order) if moves else _as_code(eqn)(*operands)
        for value in results:
            if order is not None and isinstance(value, Series):
                value[order]
        return results

    return walk(program, arguments, apply, given=given, wanted=wanted)


def _as_code(eqn):
    """The equation as a function of all its operands, with the derivative that it has in JAX."""
    inputs, code = [eqn.invars.index(v) for v in operands_of(eqn)], equation_code(eqn)
    return lambda *operands: code(*(operands[i] for i in inputs))


def _apply(eqn, operands, order) -> list:
    """Results of one equation, of whose operands some are Series."""
    name, direct = eqn.primitive.name, lambda *values: eqn.primitive.bind(*values, **eqn.params)
    if not any(map(_is_inexact, eqn.outvars)):  # comparisons, rounding to integers: constant near t = 0
        return _as_code(eqn)(*(_leading(_grounded(x, v.aval)) for x, v in zip(operands, eqn.invars, strict=True)))
    if name.startswith("custom_vjp"):
        raise NoRuleError(
            "Taylor mode met a function with a custom reverse-mode derivative (jax.custom_vjp), which gives no "
            "higher derivatives along a line. Give it a custom_jvp instead."
        )
    if name in vocabulary.LINEAR:
        return _linear(eqn, direct, operands)
    if name in vocabulary.BILINEAR:
        left, right = map(as_series, operands)
        return [s.product(left, right, direct)]
    operands = [_grounded(x, v.aval) for x, v in zip(operands, eqn.invars, strict=True)]
    if name in ELEMENTARY:
        return [ELEMENTARY[name](*operands)]
    if name == "div":
        return [s.quotient(*map(as_series, operands))]
    if name == "integer_pow":
        return [s.integer_power(operands[0], eqn.params["y"])]
    if name == "pow" and not isinstance(operands[1], Series):
        return [s.power(direct(operands[0][0], operands[1]), *operands)]
    if name in LOOPS:
        return _blockwise(LOOPS[name], eqn, operands, order)
    return _through_jvp(eqn, operands)


def _leading(value):
    return value[0] if isinstance(value, Series | list) else value


def _grounded(value, aval):
    """The value, with an array for the leading coefficient of a Series."""
    if not isinstance(value, Series) or value[0] is not None:
        return value
    return Series(itertools.chain([jnp.zeros(aval.shape, aval.dtype)], (value[k] for k in itertools.count(1))))


def _is_inexact(variable) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.inexact)


def _linear(eqn, direct, operands) -> list:
    """Primitives linear in all their float operands together; integer operands are indices and masks."""
    several = eqn.primitive.multiple_results
    floats = [_is_inexact(v) for v in eqn.invars]

    def coefficients():
        for k in itertools.count():
            parts = [
                x[k] if isinstance(x, Series) else x if k == 0 or not moves else None
                for x, moves in zip(operands, floats, strict=True)
            ]
            if all(p is None for p, moves in zip(parts, floats, strict=True) if moves):
                yield [None] * len(eqn.outvars)
            elif eqn.primitive.name in ("add", "add_any") and k > 0:
                yield [s.plus(*parts)]
            else:
                spare = (jnp.zeros(v.aval.shape, v.aval.dtype) for v in eqn.invars)
                out = direct(*(z if p is None else p for p, z in zip(parts, spare, strict=True)))
                yield out if several else [out]

    return _parts(coefficients(), len(eqn.outvars))


def _parts(coefficients, count: int) -> list[Series]:
    """Several series from an iterator of lists of coefficients."""
    together = Series(coefficients)
    return [Series(_part(together, i)) for i in range(count)]


def _part(together: Series, i: int):
    return (c[i] for c in together.coefficients())


# ---- everything that has a JVP


def _through_jvp(eqn, operands) -> list:
    """Series of any equation that JAX can differentiate, from its JVP; see the module's docstring."""
    moving = [i for i, x in enumerate(operands) if isinstance(x, Series)]
    start = [_leading(x) for x in operands]
    program = _derivative_program(eqn, start, moving)
    count, zero = len(eqn.outvars), [jnp.zeros_like(start[i]) for i in moving]
    first = run_series(program, [*start, *zero], None, wanted=range(count))
    results = [Series() if _is_inexact(v) else y for v, y in zip(eqn.outvars, first, strict=True)]

    def slopes():
        """Series of dy: the program of the derivative run on the series of (u, du) and on y itself."""
        inputs = {*program.jaxpr.invars, *program.jaxpr.constvars}
        own = zip(program.jaxpr.outvars[:count], results, strict=True)
        given = {v: y for v, y in own if not isinstance(v, Literal) and v not in inputs}
        arguments = [*operands, *(s.derivative(operands[i]) for i in moving)]
        return run_series(program, arguments, None, given, range(count, 2 * count))

    def coefficients():
        yield first
        steps = [as_series(d) for d in slopes()]
        for k in itertools.count(1):
            step = [d[k - 1] if isinstance(y, Series) else None for d, y in zip(steps, results, strict=True)]
            yield [None if d is None else d / k for d in step]

    together = Series(coefficients())
    for i, y in enumerate(results):
        if isinstance(y, Series):
            y.source = _part(together, i)
    return results


def _derivative_program(eqn, start, moving) -> ClosedJaxpr:
    """(operands, directions of the moving ones) -> (results, their derivatives)"""
    code = _as_code(eqn)

    def program(values, directions):
        def moved(*chosen):
            at = dict(zip(moving, chosen, strict=True))
            return code(*(at.get(i, x) for i, x in enumerate(values)))

        return jax.jvp(moved, tuple(values[i] for i in moving), tuple(directions))

    try:
        return jax.make_jaxpr(program)(start, [start[i] for i in moving])
    except (NotImplementedError, TypeError) as error:
        raise NoRuleError(
            f"Taylor mode met {eqn.primitive.name!r}, for which JAX has no forward derivative: {error}"
        ) from error


# ---- loops and branches: their bodies run on lists of coefficients


def _blockwise(rule, eqn, operands, order) -> list:
    """rule(eqn, operands, order) gives all coefficients up to an order at once, a list for each float result."""
    operands = [_grounded(x, v.aval) for x, v in zip(operands, eqn.invars, strict=True)]
    if order is not None:
        return [_unpacked(out) for out in rule(eqn, operands, order)]
    start = rule(eqn, operands, 0)
    blocks = ([out[k] if isinstance(out, list) else None for out in rule(eqn, operands, k)] for k in itertools.count())
    series = _parts(blocks, len(start))
    return [y if isinstance(first, list) else first for y, first in zip(series, start, strict=True)]


def _dense(value, order: int, aval):
    """[c_0, ..., c_order] without gaps for a float value, the value itself for any other."""
    if not jnp.issubdtype(aval.dtype, jnp.inexact):
        return value
    known = as_series(value).upto(order)
    return [jnp.zeros(aval.shape, aval.dtype) if c is None else c for c in known]


def _all_dense(values, order: int, variables) -> list:
    return [_dense(x, order, v.aval) for x, v in zip(values, variables, strict=True)]


def _packed(value, order: int):
    """The coefficients of a Series as a list, with gaps; any other value as it is."""
    return value.upto(order) if isinstance(value, Series) else value


def _unpacked(value):
    return Series(value) if isinstance(value, list) else value


def _on_lists(program, order: int):
    """The program as a function of dense coefficient lists and arrays, with dense results."""

    def code(*packed):
        out = run_series(program, [_unpacked(p) for p in packed], order)
        return _all_dense(out, order, program.jaxpr.outvars)

    return code


def _scan(eqn, operands, order):
    params = eqn.params
    program = closed(params["jaxpr"])
    constants, carried = scan_layout(eqn, program.jaxpr)
    fixed = [_packed(x, order) for x in operands[:constants]]
    code = _on_lists(program, order)

    def body(carry, x):
        out = code(*fixed, *carry, *x)
        return out[: carried - constants], out[carried - constants :]

    carry, stacked = jax.lax.scan(
        body,
        _all_dense(operands[constants:carried], order, eqn.invars[constants:carried]),
        [_packed(x, order) for x in operands[carried:]],
        params["length"],
        params["reverse"],
    )
    return [*carry, *stacked]


def _while(eqn, operands, order):
    params = eqn.params
    split_at = params["cond_nconsts"]
    rest = split_at + params["body_nconsts"]
    asked = [_leading(x) for x in operands[:split_at]]
    fixed = [_packed(x, order) for x in operands[split_at:rest]]
    code, test = _on_lists(closed(params["body_jaxpr"]), order), jaxpr_as_fun(closed(params["cond_jaxpr"]))
    return jax.lax.while_loop(
        lambda carry: test(*asked, *map(_leading, carry))[0],
        lambda carry: code(*fixed, *carry),
        _all_dense(operands[rest:], order, eqn.invars[rest:]),
    )


def _cond(eqn, operands, order):
    index, *values = operands
    branches = [_on_lists(closed(b), order) for b in eqn.params["branches"]]
    packed = [_packed(x, order) for x in values]
    return jax.lax.switch(_leading(index), [lambda p, b=b: b(*p) for b in branches], packed)


LOOPS = {"scan": _scan, "while": _while, "cond": _cond}
