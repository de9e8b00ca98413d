"""Taylor mode: all derivatives along one direction, up to order n, in one sweep.

`taylor(E, (f,), (df,), n)` gives E and d^k/dt^k E[f + t df] at t = 0 for k = 1..n. The program of t is traced once and
carried out on truncated power series, so the cost grows like n^2 where nested forward mode doubles it with each order.

A program is traced to its equations, and each equation is carried out on series:

- linear primitives act on each coefficient, bilinear ones by Cauchy products, common elementary functions by
  recurrences;
- loops and branches run on lists of coefficients;
- every other primitive, and every function with a custom derivative, goes through its JVP: the program that takes
  (u, du) to (y, dy) holds for series too, and y_k = dy_{k-1} / k. Where that program uses y again, as those of tan and
  of the cube root do, it is given the series under construction, so the cost stays quadratic in the order.

A value that depends on a parameter t is kept as its coefficients c_0, c_1, ..., c_n. They are computed on demand in
increasing order, so a series may be defined through itself; None stands for a coefficient known to be zero. Products
are Cauchy products, and y = phi(u) with y' = g u' follows from k y_k = sum_{j=1..k} j u_j g_{k-j}: O(n^2) operations
to order n.

A. Griewank, A. Walther, Evaluating Derivatives, SIAM 2008, chapter 13. doi:10.1137/1.9780898717761
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jax.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd.core.function import Function, is_function, parts
from dftfd.autofd.core.graph import has_variables
from dftfd.autofd.core.jax_adapter import is_tracer, same_structure
from dftfd.autofd.core.packed import Packed, assemble, pack
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.leaf import function
from dftfd.autofd.operators.zip_split import split
from dftfd.autofd.scalar import vocabulary
from dftfd.autofd.scalar.jaxprs import closed, equation_code, operands_of, scan_layout, walk
from dftfd.errors import LeakError, NoRuleError, SignatureError


class Series:
    """Taylor coefficients of one value, drawn from an iterator that may refer to earlier ones."""

    __slots__ = ("known", "source")

    def __init__(self, source: Iterable = ()):
        self.known: list = []
        self.source = iter(source)

    def __getitem__(self, k: int):
        while len(self.known) <= k:
            self.known.append(next(self.source, None))
        return self.known[k]

    def upto(self, order: int) -> list:
        """[c_0, ..., c_order]"""
        self[order]
        return self.known[: order + 1]

    def coefficients(self) -> Iterator:
        """All coefficients, without end."""
        return map(self.__getitem__, itertools.count())


def as_series(value) -> Series:
    """The value itself if it is a series, else the constant series."""
    return value if isinstance(value, Series) else Series([value])


def plus(a, b):
    """a + b, where None is zero."""
    return b if a is None else a if b is None else a + b


def minus(a, b):
    """a - b, where None is zero."""
    return a if b is None else -b if a is None else a - b


def convolve(u: Series, v: Series, k: int, start: int = 0, factor: Callable | None = None, multiply=jnp.multiply):
    """sum over j = start..k of factor(j) u_j v_{k-j}"""
    total = None
    for j in range(start, k + 1):
        if u[j] is None or v[k - j] is None:
            continue
        term = multiply(u[j], v[k - j])
        total = plus(total, term if factor is None else factor(j) * term)
    return total


def mapped(code: Callable, u: Series) -> Series:
    """Linear code applied to each coefficient."""
    return Series(None if c is None else code(c) for c in u.coefficients())


def product(u: Series, v: Series, multiply=jnp.multiply) -> Series:
    """u v, or another bilinear operation."""
    return Series(convolve(u, v, k, multiply=multiply) for k in itertools.count())


def quotient(a: Series, b: Series) -> Series:
    q = Series()

    def coefficients():
        for k in itertools.count():
            rest = minus(a[k], convolve(b, q, k, start=1))
            yield None if rest is None else rest / b[0]

    q.source = coefficients()
    return q


def solution(start, u: Series, slope: Callable[[Series], Series]) -> Series:
    """The series y with y_0 = start and y' = slope(y) u'."""
    y = Series()
    g = slope(y)

    def coefficients():
        yield start
        for k in itertools.count(1):
            total = convolve(u, g, k, start=1, factor=float)
            yield None if total is None else total / k

    y.source = coefficients()
    return y


def power(start, u: Series, exponent) -> Series:
    """u^a with y_0 = start, from u y' = a y u'; singular where u_0 = 0."""
    y = Series()

    def coefficients():
        yield start
        for k in itertools.count(1):
            total = convolve(u, y, k, start=1, factor=lambda j, k=k: (exponent + 1) * (j / k) - 1)
            yield None if total is None else total / u[0]

    y.source = coefficients()
    return y


def integer_power(u: Series, n: int) -> Series:
    """u^n by repeated squaring, regular where u_0 = 0 for positive n."""
    one = Series([jnp.ones_like(u[0])])
    result, base, left = None, u, abs(n)
    while left:
        if left % 2:
            result = base if result is None else product(result, base)
        left //= 2
        base = product(base, base) if left else base
    result = one if result is None else result
    return quotient(one, result) if n < 0 else result


def exponential(u: Series) -> Series:
    return solution(jnp.exp(u[0]), u, lambda y: y)


def logarithm(u: Series) -> Series:
    return solution(jnp.log(u[0]), u, lambda y: quotient(Series([jnp.ones_like(u[0])]), u))


def sine_and_cosine(u: Series) -> tuple[Series, Series]:
    """sin' = cos, cos' = -sin"""
    cosine = Series()
    sine = solution(jnp.sin(u[0]), u, lambda y: cosine)
    cosine.source = solution(jnp.cos(u[0]), u, lambda y: mapped(jnp.negative, sine)).coefficients()
    return sine, cosine


def hyperbolic_tangent(u: Series) -> Series:
    """y' = 1 - y^2"""
    return solution(jnp.tanh(u[0]), u, lambda y: shifted(mapped(jnp.negative, product(y, y)), 1))


def logistic(u: Series) -> Series:
    """y' = y (1 - y)"""
    return solution(jax.nn.sigmoid(u[0]), u, lambda y: product(y, shifted(mapped(jnp.negative, y), 1)))


def shifted(u: Series, number) -> Series:
    return Series(number + c if k == 0 else c for k, c in enumerate(u.coefficients()))


def derivative(u: Series) -> Series:
    """u'"""
    return Series(None if u[k] is None else k * u[k] for k in itertools.count(1))


ELEMENTARY: dict[str, Callable[[Series], Series]] = {
    "square": lambda u: product(u, u),
    "one_minus_square": lambda u: shifted(mapped(jnp.negative, product(u, u)), 1),
    "sqrt": lambda u: power(jnp.sqrt(u[0]), u, 0.5),
    "rsqrt": lambda u: power(jax.lax.rsqrt(u[0]), u, -0.5),
    "cbrt": lambda u: power(jnp.cbrt(u[0]), u, 1 / 3),
    "exp": exponential,
    "log": logarithm,
    "sin": lambda u: sine_and_cosine(u)[0],
    "cos": lambda u: sine_and_cosine(u)[1],
    "tanh": hyperbolic_tangent,
    "logistic": logistic,
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
        return [product(left, right, direct)]
    operands = [_grounded(x, v.aval) for x, v in zip(operands, eqn.invars, strict=True)]
    if name in ELEMENTARY:
        return [ELEMENTARY[name](*operands)]
    if name == "div":
        return [quotient(*map(as_series, operands))]
    if name == "integer_pow":
        return [integer_power(operands[0], eqn.params["y"])]
    if name == "pow" and not isinstance(operands[1], Series):
        return [power(direct(operands[0][0], operands[1]), *operands)]
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
                yield [plus(*parts)]
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
        arguments = [*operands, *(derivative(operands[i]) for i in moving)]
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


_WITHIN_ANOTHER = (
    "Taylor mode of a function that another transformation, such as grad, differentiates: that derivative would be "
    "lost. Take Taylor derivatives of the gradient instead: taylor(grad(E), (f,), (df,), n)."
)


def derivatives_along(code: Callable, points: tuple, directions: tuple, order: int) -> tuple:
    """(y, y', ..., y^(n)): derivatives with respect to t at t = 0 of code(*(points + t directions)), arrays only.

    points, directions: tuples of arrays or pytrees of them, of the same structure.   Each y^(k) has the structure of
    the result of `code`.
    """
    leaves, steps, structure = _aligned(points, directions)
    leaves, steps = [jnp.asarray(x) for x in leaves], [jnp.asarray(x) for x in steps]
    moving = [_on_line(x, d) for x, d in zip(leaves, steps, strict=True)]
    rows, out = _coefficients(lambda *values: code(*tree_unflatten(structure, values)), leaves, moving, order)
    return tuple(tree_unflatten(out, [_derivative(row, k) for row in rows]) for k in range(order + 1))


def taylor(functional: Callable, primals: tuple, tangents: tuple, order: int) -> tuple:
    """(F, F', ..., F^(n)): derivatives of F[f + t df] with respect to t at t = 0, n = `order`.

    functional: takes Functions, arrays and pytrees of them. Its results may be arrays (an energy), Functions (its
        functional gradient, any operator) and pytrees of them; the derivatives have the same structure.
    primals, tangents: the arguments and their directions, as in `jvp`.

    taylor(E, (f,), (df,), 3) gives the energy and its first three derivatives along df; taylor(grad(E), (f,), (df,), 2)
    the functional derivative and its first two changes, as Functions.
    """
    leaves, steps, structure = _aligned(primals, tangents, is_leaf=is_function)
    if any(has_variables(x) for x in (*leaves, *steps) if is_function(x)):
        raise LeakError(_WITHIN_ANOTHER)

    def line(t):
        return pack(functional(*tree_unflatten(structure, [x + d * t for x, d in zip(leaves, steps, strict=True)])))

    t = jnp.zeros(())
    rows, out = _coefficients(line, [t], [Series([t, jnp.ones(())])], order)
    is_packed = lambda x: isinstance(x, Packed)
    places, outer = tree_flatten(tree_unflatten(out, range(len(rows))), is_leaf=is_packed)
    derivatives = [_of_function(p.function, rows, order) if is_packed(p) else _derivatives(rows[p]) for p in places]
    return tuple(tree_unflatten(outer, [d[k] for d in derivatives]) for k in range(order + 1))


def mixed_derivative(functional: Callable, f: Any, directions: tuple) -> Any:
    """E^(n)[d_1, ..., d_n] of a functional of one argument along n different directions, by polarisation.

    2^(n-1) n! E^(n)[d_1, ..., d_n] = sum over signs s_2..s_n of s_2 ... s_n E^(n) along d_1 + s_2 d_2 + ... + s_n d_n
    """
    first, *others = directions
    total, n = None, len(directions)
    for signs in itertools.product((1, -1), repeat=n - 1):
        along = first
        for sign, d in zip(signs, others, strict=True):
            along = along + d if sign > 0 else along - d
        term = taylor(functional, (f,), (along,), n)[n] * (math.prod(signs) / (2 ** (n - 1) * math.factorial(n)))
        total = term if total is None else total + term
    return total


def _on_line(x, d):
    """x + t d as a series; an integer stays where it is."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return Series([x, d.astype(x.dtype)])
    if is_tracer(d) or jnp.any(d != 0):
        raise SignatureError(
            f"Taylor mode: a point of dtype {x.dtype.name} moves along {d}; integers have no derivative. Write a "
            "float, or the direction 0."
        )
    return x


def _aligned(points, directions, is_leaf=None):
    leaves, structure = tree_flatten(tuple(points), is_leaf=is_leaf)
    steps, other = tree_flatten(tuple(directions), is_leaf=is_leaf)
    if not same_structure(structure, other):
        raise SignatureError(f"Taylor mode: point {structure} and direction {other} differ in structure.")
    return leaves, steps, structure


def _coefficients(code, leaves, moving, order: int):
    """([c_0, ..., c_order] for each array of the result of code(*leaves), structure of the result)"""
    if not isinstance(order, int) or isinstance(order, bool) or order < 0:
        raise SignatureError(f"Taylor mode of order {order!r}; an integer >= 0 expected.")
    program, shape = jax.make_jaxpr(code, return_shape=True)(*leaves)
    results = run_series(program, moving, order)
    rows = []
    for spec, result in zip(tree_leaves(shape), results, strict=True):
        first, *higher = as_series(result).upto(order)
        rows.append([jnp.zeros(spec.shape, spec.dtype) if first is None else first, *higher])
    return rows, tree_structure(shape)


def _derivative(row: list, k: int):
    """k! c_k"""
    return jnp.zeros_like(row[0]) if row[k] is None else math.factorial(k) * row[k] if k > 1 else row[k]


def _derivatives(row: list) -> list:
    return [_derivative(row, k) for k in range(len(row))]


class SeriesOfFunction(Code):
    """(coefficients of a Function's arrays, *point) -> tuple of the derivatives of its value."""

    __name__ = "taylor"

    def __init__(self, structure, order: int):
        self.structure, self.order = structure, order

    def __call__(self, rows, *args):
        evaluate = lambda *leaves: assemble(self.structure, leaves).evaluate(*args)
        moving = [Series(row) if any(c is not None for c in row[1:]) else row[0] for row in rows]
        values, out = _coefficients(evaluate, [row[0] for row in rows], moving, self.order)
        return tuple(tree_unflatten(out, [_derivative(v, k) for v in values]) for k in range(self.order + 1))


def _of_function(indexed: Function, rows, order: int) -> tuple:
    """The derivatives of a Function-valued result, whose arrays are the places of their coefficients in `rows`."""
    if indexed.tags:
        raise LeakError(_WITHIN_ANOTHER)
    places, structure = parts(indexed)
    code = SeriesOfFunction(structure, order)
    return split(function(code, *indexed.domains, params=([rows[i] for i in places],)))
