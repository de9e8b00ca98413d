"""Formulas at random, lowered and run by every algebra: each agrees with plain JAX on the code as it is written, or
refuses with an error of dftfd. Values and derivatives to third order.

The grammar is whatever a functional may be written with. `formula(seed)` is a sum of terms c op(u) with u made of
smooth functions, and op from BLOCKS: control flow, functions with derivative rules, sums in order, look-ups, solved
equations. Most formulas hold one operation twice, with another length, branch, direction, literal or rule: what must
not be taken for one. Each holds one of ARITHMETIC, what rules make shorter: zeros, ones, equal operands, numbers that
meet. The long run has 400 formulas, nearly a second of processor time each, fifty of them
each day; DFTFD_NIGHT=all runs all, and DFTFD_FORMULAS=5000 makes more.
"""

import functools
import math
import os
from collections import Counter

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax import lax

from dftfd.autofd.scalar import reader
from dftfd.autofd.scalar.derive import with_all_derivatives, with_forward_derivative, with_gradient
from dftfd.autofd.scalar.on_jax import run, run_in_one_loop
from dftfd.autofd.scalar.on_mpmath import OnMpmath
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.on_objects import SympyAlgebra
from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.reader import exact_program, point_program, scalar_program, symbolic_program
from dftfd.autofd.transforms.taylor_mode import Series, run_series
from dftfd.errors import DftfdError, UnsupportedError
from dftfd.xc.nonlocal_code import PairSums

SCALAR = jax.ShapeDtypeStruct((), np.float64)
TABLE = np.cos(np.arange(3000) * 0.37) + 0.01 * np.arange(3000)
TABLES = [TABLE, TABLE[::-1]]
SMOOTH = [
    jnp.sin, jnp.cos, jnp.tanh, jnp.arctan, jnp.arcsinh, jnp.expm1, jnp.square, jnp.negative, jax.scipy.special.erf,
    lambda u: jnp.exp(-u * u), lambda u: jnp.log1p(u * u), lambda u: jnp.sqrt(1 + u * u), lambda u: 1 / (2 + u * u),
    lambda u: jnp.cbrt(1 + u * u), lambda u: (1 + u * u) ** 1.3, lambda u: (1 + u * u) ** -2, lambda u: u**3,
    jax.nn.sigmoid, lambda u: jnp.logaddexp(u, 0.3), lambda u: jnp.log(3 + jnp.sin(u)), lambda u: jnp.sinh(u / 4),
]  # fmt: skip
JOINED = [
    jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, lambda u, v: u / (2 + v * v),
    lambda u, v: jnp.arctan2(u, 1.5 + v * v), lambda u, v: jnp.where(u > v, jnp.sin(u), jnp.cos(v)), jnp.hypot,
]  # fmt: skip


def _smooth(rng):
    """One or two functions, one after the other."""
    chosen = [SMOOTH[i] for i in rng.integers(len(SMOOTH), size=rng.integers(1, 3))]
    return lambda u: functools.reduce(lambda value, f: f(value), chosen, u)


def _cond(rng):
    f, g, border = _smooth(rng), _smooth(rng), rng.choice([0.4, 0.7])
    return lambda u: lax.cond(u < border, f, g, u)


def _switch(rng):
    cases = [_smooth(rng) for _ in range(3)]
    return lambda u: lax.switch((2 * jnp.abs(u)).astype(int), cases, u)


def _scan(rng):
    f, reverse, values = _smooth(rng), bool(rng.integers(2)), jnp.asarray([0.2, 0.5, 1.1])
    which = rng.integers(2)

    def code(u):
        carry, seen = lax.scan(lambda c, x: (f(c * x + u), c), u, values, reverse=reverse)
        return seen[1] if which else carry

    return code


def _fori(rng):
    start, turns, a = int(rng.integers(3)), int(rng.integers(1, 4)), rng.choice([0.5, 0.25])
    return lambda u: lax.fori_loop(start, start + turns, lambda i, y: y * a + jnp.sin(u + i), u)


def _while(rng):
    limit = rng.choice([2.0, 3.0])
    return lambda u: lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, c[1] * u + 1), (0.0, u))[1]


def _with_rule(slope):
    @jax.custom_jvp
    def code(u):
        return u * u

    code.defjvp(lambda u, du: (code(*u), slope * code(u[0]) * du[0]))
    return code


def _with_reverse_rule(slope):
    @jax.custom_vjp
    def code(u):
        return u * u

    code.defvjp(lambda u: (u * u, u), lambda u, ct: (slope * u * ct,))
    return code


_RULES = [_with_rule(s) for s in (1.0, 2.0)]
_REVERSE_RULES = [_with_reverse_rule(s) for s in (1.0, 2.0)]


@jax.custom_jvp
def _scaled(u, a):
    return a * u


_scaled.defjvp(lambda u, du: (_scaled(*u), u[1] * du[0]))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _power(u, n):
    return u * u


_power.defjvp(lambda n, u, du: (_power(*u, n), n * u[0] * du[0]))


def _rule(rng):
    return _RULES[rng.integers(2)]


def _reverse_rule(rng):
    return _REVERSE_RULES[rng.integers(2)]


def _literal(rng):
    a = float(rng.choice([2.0, 3.0]))
    return lambda u: _scaled(u, a)


def _static(rng):
    n = int(rng.integers(1, 3))
    return lambda u: _power(u, n)


def _entries(u):
    return jnp.stack([jnp.sin(3 * u), u, 0.5 + 0 * u, u * u])


def _cumsum(rng):
    reverse, k = bool(rng.integers(2)), int(rng.integers(1, 3))
    return lambda u: lax.cumsum(_entries(u), reverse=reverse)[k]


def _cumprod(rng):
    reverse, k = bool(rng.integers(2)), int(rng.integers(1, 3))
    return lambda u: lax.cumprod(_entries(u), reverse=reverse)[k]


def _sort(rng):
    k = int(rng.integers(3))
    return lambda u: jnp.sort(_entries(u))[k]


def _gather(rng):
    factor = int(rng.integers(1, 4))
    return lambda u: _entries(u)[(factor * jnp.abs(u)).astype(int) % 4]


def _argmax(rng):
    order = [jnp.argmax, jnp.argmin][rng.integers(2)]
    return lambda u: u * order(_entries(u)).astype(float)


def _triangular(rng):
    lower, transpose = bool(rng.integers(2)), bool(rng.integers(2))
    matrix = np.array([[2.0, 0.5], [0.3, 1.5]])
    solve = functools.partial(lax.linalg.triangular_solve, left_side=True, lower=lower, transpose_a=transpose)
    return lambda u: solve(matrix * (1 + u * u), _entries(u)[:2, None])[int(lower), 0]


def _table(rng):
    mode, scale = str(rng.choice(["clip", "fill"])), float(rng.choice([40.0, 9000.0]))  # the latter leads outside
    values, outside = jnp.asarray(TABLES[rng.integers(2)]), float(rng.choice([0.5, -0.5]))
    return lambda u: u * values.at[(scale * jnp.abs(u)).astype(int)].get(mode=mode, fill_value=outside)


def _table_in_branches(rng):
    values = jnp.asarray(TABLES[rng.integers(2)])
    return lambda u: u * lax.cond(u < 0.7, lambda k: values[k], lambda k: values[2 * k], (900 * jnp.abs(u)).astype(int))


def _order_of_results(rng):
    order = [1, -1][rng.integers(2)]
    f, g = (lambda u: (jnp.sin(u), u * u)[::order]), (lambda u: (jnp.cos(u), u / 2)[::order])
    return lambda u: lax.cond(u < 0.7, f, g, u)[0]


def _slice(rng):
    start = int(rng.integers(6))  # one too near to the end is moved back
    return lambda u: lax.dynamic_slice(_entries(u), (start,), (2,))[0]


def _own_reduction(rng):
    join = [jnp.maximum, jnp.minimum][rng.integers(2)]
    return lambda u: lax.reduce(_entries(u), 0.5, join, (0,))


def _jit(rng):
    f, g = _smooth(rng), _smooth(rng)
    return jax.jit(lambda u: f(u) * jax.jit(g)(u))


def _product(rng):
    matrix = rng.integers(-2, 3, size=(4, 3)).astype(float)
    return lambda u: jnp.max(_entries(u) @ matrix)


def _integers(rng):
    n = int(rng.integers(2, 4))
    return lambda u: u * ((7 * u).astype(int) // n).astype(float) + u * jnp.floor(3 * u)


BLOCKS = [
    _cond, _switch, _scan, _fori, _while, _rule, _reverse_rule, _literal, _static, _cumsum, _cumprod, _sort, _gather,
    _argmax, _triangular, _table, _table_in_branches, _order_of_results, _slice, _own_reduction, _jit, _product,
    _integers, _smooth,
]  # fmt: skip


def _numbers_meet(u, v):
    """Numbers in arrays beside variables: they are seen only when operations are carried out entry by entry."""
    numbers = jnp.stack([0.5 + 0 * u, 2.0 + 0 * v, u])
    ratios = -numbers / jnp.stack([v, 3.0 + 0 * u, 4.0 + 0 * v])
    return jnp.sum(numbers) * jnp.prod(jnp.stack([0.5 + 0 * u, 3.0 + 0 * v, v])) + jnp.sum(ratios)


ARITHMETIC = [
    lambda u, v: (u - u) * v + (0.0 - v) + (u - 0.0),
    lambda u, v: 0.0 * u + v * 0.0 + 1.0 * v + (u + 1.0) + (1.0 + v),
    lambda u, v: (2.0 * u) * (0.25 * v) + (3.0 * v) * 5.0,
    lambda u, v: (0.7 / v) * v + u * (2.0 / u) + u / (4.0 * v),
    lambda u, v: 1 / (3.0 * u) - 2.0 / v + (2.0 / u) / (3.0 / v),
    lambda u, v: (u + u) * (v + v + v) + u**1 + v**2,
    lambda u, v: jnp.maximum(u, u) - jnp.minimum(v, v) + jnp.maximum(u, v) * jnp.minimum(0.7, u),
    lambda u, v: jnp.where(u > 0.5, 0.2, 2.0 * u) + jnp.where(v > 0.6, 3.0 * v, 0.0) * jnp.where(u > v, v, v),
    lambda u, v: jnp.where(jnp.stack([u, v]) > jnp.asarray([-1.0, 9.0]), 2.0 * u, jnp.sin(v))[0] * (u**-1 + v**-2),
    lambda u, v: jax.lax.select_n(jax.jit(lambda a: a > 1.0)(2.0), u, v * v) - jax.lax.select_n(u > 9.0, u, v),
    lambda u, v: u**3 - v**4 + jnp.square(u) * (-v) - (-2.0 * u),
    lambda u, v: jnp.arctan2(u, v) + 2.0 * jnp.arctan2(v, u) + (u - v) * jnp.exp(v - u) + u**v,
    _numbers_meet,
]  # fmt: skip


def drawn(seed: int):
    """(random numbers for the rest, [functions of x and y, what joins them], operations) of a formula."""
    rng = np.random.default_rng(seed)
    inner = [_smooth(rng), _smooth(rng), JOINED[rng.integers(len(JOINED))]]
    kind = BLOCKS[rng.integers(len(BLOCKS))]
    return rng, inner, [kind, kind, BLOCKS[rng.integers(len(BLOCKS))]]


def formula(seed: int):
    """Code of (x, y), numbers between 0.2 and 1.2."""
    rng, inner, kinds = drawn(seed)
    blocks, factors = [k(rng) for k in kinds], rng.choice([0.5, 1.0, -1.5], size=3)
    join, arithmetic = JOINED[rng.integers(len(JOINED))], ARITHMETIC[seed % len(ARITHMETIC)]

    def code(x, y):
        u = inner[2](inner[0](x), inner[1](y))
        a, b, c = (factor * block(u) for factor, block in zip(factors, blocks, strict=True))
        return join(a + b, c) + arithmetic(x, y)

    return code


# ---- the formula by each backend

QUICK, MORE = 10, 100
LONG, PIECE = int(os.environ.get("DFTFD_FORMULAS", 400)), 50
POINTS = np.random.default_rng(1).uniform(0.2, 1.2, (2, 3))
ALONG = np.array([0.7, -0.4])
TOLERANCE = 1e-8
"""Of values, and times ten for each order of derivatives, relative to 1 where they are smaller."""


def plain_derivatives(code, order: int) -> list:
    """f and its derivatives along ALONG, (point,) each, by plain JAX, point by point and operation by operation.

    The first derivative in reverse, as in calculations. Without compilation loops run as Python's, which gives a
    while_loop its derivative, too.
    """

    def first(x, y):
        value, pull = jax.vjp(code, x, y)
        dx, dy = pull(jnp.ones_like(value))
        return value, dx * ALONG[0] + dy * ALONG[1]

    def one_more(f):
        def code(x, y):
            values, changes = jax.jvp(f, (x, y), tuple(jnp.asarray(ALONG)))
            return *values, changes[-1]

        return code

    f = functools.reduce(lambda f, _: one_more(f), range(order - 1), first)
    with jax.disable_jit():
        return list(np.transpose([f(*map(jnp.asarray, point)) for point in POINTS.T]))


@functools.lru_cache(maxsize=1)  # by_arrays and by_numpy run one after the other
def lowered(code, order: int):
    """(program, its inputs, what it is of its outputs that `plain_derivatives` gives), built as in dftfd.xc.code."""
    program = with_gradient(point_program(code, SCALAR, SCALAR), inline=order == 1)
    for level in range(2, order + 1):
        program = with_forward_derivative(program, 2, inline=level == order)
    seeds = [np.full(POINTS.shape[1], d) for _ in range(order - 1) for d in ALONG]
    pick = lambda out: [out[0], *(ALONG[0] * out[k] + ALONG[1] * out[k + 1] for k in (1, 3, 7)[:order])]
    return program, [*POINTS, *seeds], pick


def by_arrays(code, order):
    program, inputs, pick = lowered(code, order)
    return pick(run(program, [jnp.asarray(x) for x in inputs]))


def by_numpy(code, order):
    program, inputs, pick = lowered(code, order)
    with np.errstate(all="ignore"):
        return pick(run_on_numpy(program, inputs))


def by_one_loop(code, order):
    program, inputs, pick = lowered(code, order)
    # quick to compile; at level 0 XLA itself errs, by 5e-6 in the second derivative of formula 120
    options = {"xla_backend_optimization_level": 1}
    compiled = jax.jit(lambda *x: run_in_one_loop(program, list(x)), compiler_options=options)
    return pick([np.asarray(out) for out in compiled(*inputs)])


def by_series(code, order):
    """The coefficients along the line, times k!."""
    columns = []
    for x in POINTS.T:
        program = jax.make_jaxpr(code)(*x)
        line = [Series([jnp.asarray(a), jnp.asarray(d)]) for a, d in zip(x, ALONG, strict=True)]
        (out,) = run_series(program, line, order)
        out = out if isinstance(out, Series) else Series([out])
        columns.append([float(c) * math.factorial(k) if c is not None else 0.0 for k, c in enumerate(out.upto(order))])
    return list(np.transpose(columns))


def by_mpmath(code, order):
    program = symbolic_program(code, SCALAR, SCALAR)
    with mpmath.workdps(60):
        return [np.array([float(evaluate(program, OnMpmath(), list(map(mpmath.mpf, x)))[0]) for x in POINTS.T])]


def by_sympy(code, order):
    sympy = pytest.importorskip("sympy")
    x, y = sympy.symbols("x y", positive=True)
    (expression,) = evaluate(symbolic_program(code, SCALAR, SCALAR), SympyAlgebra(), [x, y])
    at = lambda a, b: float(sympy.N(expression.xreplace({x: sympy.Float(a), y: sympy.Float(b)})))
    return [np.array([at(a, b) for a, b in POINTS.T])]


def by_pairs(code, order):
    """Sums over pairs (x, y) of one column each, so that the values are those of the points."""
    sums = PairSums(lambda row, column: code(row[0], column[0])[None], 1, 1, 0)
    columns = [sums(POINTS[:1, [k]], POINTS[1:, [k]], np.ones(1))[0][0, 0] for k in range(POINTS.shape[1])]
    return [np.array(columns)]


BACKENDS = {
    "arrays": by_arrays,
    "NumPy": by_numpy,
    "series": by_series,
    "mpmath": by_mpmath,
    "SymPy": by_sympy,
    "one loop": by_one_loop,
    "pairs": by_pairs,
}
RARELY = {"series": 10, "one loop": 20, "pairs": 20}
"""What is compiled, or traced again, for each formula runs for one in so many."""


def compare(seed: int, order: int, counts: Counter) -> None:
    """One formula by all backends, to an order of derivatives; counts: agreements and refusals by backend."""
    code = formula(seed)
    expected = plain_derivatives(code, order)
    for name, backend in BACKENDS.items():
        if seed % RARELY.get(name, 1):
            continue
        try:
            found = backend(code, order)
        except DftfdError:
            counts[name, "refused"] += 1
            continue
        for k, (ours, theirs) in enumerate(zip(found, expected, strict=False)):  # as many orders as both have
            ordinary = np.isfinite(theirs)  # a power of a power may overflow in plain JAX itself
            scale = TOLERANCE * 10**k * (1 + np.max(np.abs(theirs), where=ordinary, initial=0.0))
            message = f"formula({seed}) by {name}, derivative of order {k}"
            np.testing.assert_allclose(ours[ordinary], theirs[ordinary], atol=scale, rtol=0, err_msg=message)
            counts["points that overflow"] += int(np.sum(~ordinary))
        counts[name, "agreed"] += 1


def check_refusals(seeds, counts):
    """The algebras of calculations refuse formulas with a while_loop, which has no derivative, and no others."""
    refused = sum(_while in drawn(seed)[2] for seed in seeds)
    for name in ("arrays", "NumPy"):
        assert (counts[name, "refused"], counts[name, "agreed"]) == (refused, len(seeds) - refused), counts


@pytest.mark.parametrize(
    "first", [*range(0, QUICK, 10), *(pytest.param(first, marks=pytest.mark.slow) for first in range(QUICK, MORE, 10))]
)
def test_formulas_at_random(first):
    """Ten formulas each, those that are compiled to second order, one to third if slow, the others to the first.

    Each operation to third order, by itself: test_vocabulary.
    """
    counts: Counter = Counter()
    for seed in range(first, first + 10):
        compare(seed, {first + 5: 3 if first >= QUICK else 2, first: 2}.get(seed, 1), counts)
    check_refusals(range(first, first + 10), counts)


@pytest.mark.parametrize("reader", [point_program, scalar_program])
def test_each_line_of_arithmetic(reader):
    """By both sets of rules, of points and of pairs, which a formula at random above may leave out."""
    for code in (*ARITHMETIC, *JOINED):
        found = run(reader(code, SCALAR, SCALAR), [jnp.asarray(x) for x in POINTS])[0]
        np.testing.assert_allclose(found, [code(*map(jnp.asarray, point)) for point in POINTS.T], rtol=1e-12)


ELSEWHERE = (_cond, _switch, _scan, _fori, _sort, _triangular, _own_reduction, _cumprod)
"""Kinds of which test_lowered has two that differ, with derivatives by each way, or that are as _cumsum; eight draws
take a second or two."""


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] * (k in ELSEWHERE)) for k in BLOCKS])
def test_operations_of_one_kind_are_not_taken_for_one(kind):
    """Eight draws in one formula, each with a factor of its own: most pairs differ in one setting alone."""
    rng = np.random.default_rng(7)
    blocks, factors = [kind(rng) for _ in range(8)], rng.uniform(0.5, 2.0, 8)
    code = lambda x, y: sum(factor * block(1.5 * x - 0.3 * y) for factor, block in zip(factors, blocks, strict=True))
    expected = plain_derivatives(code, 1)
    ours = {"value": run(point_program(code, SCALAR, SCALAR), [jnp.asarray(x) for x in POINTS])}
    if kind is not _while:  # which has no derivative here
        ours |= {"arrays": by_arrays(code, 1), "NumPy": by_numpy(code, 1)}
    for name, found in ours.items():
        for mine, plain in zip(found, expected, strict=False):
            np.testing.assert_allclose(mine, plain, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("kind", BLOCKS)
def test_operations_on_numbers_alone(kind):
    """Their operands depend on no variable: a value is one number and not one for each point."""
    block = kind(np.random.default_rng(5))
    code = lambda x, y: x * block(jnp.float64(0.7)) + y
    try:
        program = exact_program(code, SCALAR, SCALAR)
    except UnsupportedError:  # of control flow; point_program makes a number of what depends on no variable
        program = point_program(code, SCALAR, SCALAR)
    expected = POINTS[0] * float(block(jnp.float64(0.7))) + POINTS[1]
    np.testing.assert_allclose(run_on_numpy(program, list(POINTS))[0], expected, rtol=1e-12)


def _rule_in_a_loop(rng):
    rule = _reverse_rule(rng)
    return lambda u: lax.fori_loop(0, 3, lambda _, c: 0.5 * c + rule(c), u)


@pytest.mark.parametrize("kind", [_reverse_rule, _rule_in_a_loop, _rule, _scan])
def test_the_value_of_each_kind_has_a_derivative_where_it_is_part_of_a_slope(kind):
    """As in (f^2)' = 2 f f': f there is differentiated once more, forwards."""
    block = kind(np.random.default_rng(3))
    code = lambda x, y: jnp.exp(0.3 * block(1.1 * x * y))
    for found, expected in zip(by_numpy(code, 2), plain_derivatives(code, 2), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_while_loop_has_no_derivative():
    """It is said in a line, and not found out by JAX."""
    loop = _while(np.random.default_rng(3))
    with pytest.raises(UnsupportedError, match="a while_loop has no derivative"):
        with_gradient(point_program(lambda x, y: loop(x * y), SCALAR, SCALAR))


def test_a_rule_whose_value_is_another_rule_has_second_derivatives():
    """Beside JAX's in reverse mode twice, since it has none of such code in forward mode."""
    inner = _reverse_rule(np.random.default_rng(3))
    outer = jax.custom_vjp(lambda u: inner(u) + u)
    outer.defvjp(lambda u: (inner(u) + u, u), lambda u, c: (c * (jax.grad(inner)(u) + 1.0),))
    code = lambda x, y: jnp.exp(0.3 * outer(1.1 * x * y))
    along = lambda f: lambda x, y: sum(d * a for d, a in zip(jax.grad(f, (0, 1))(x, y), ALONG, strict=True))
    expected = jax.vmap(along(along(code)))(*map(jnp.asarray, POINTS))
    np.testing.assert_allclose(by_numpy(code, 2)[2], expected, rtol=1e-9, atol=1e-9)


def test_a_rule_for_reverse_mode_alone_has_no_forward_derivative():
    """As in JAX."""
    rule = _reverse_rule(np.random.default_rng(3))
    with pytest.raises(UnsupportedError, match="jax.custom_vjp"):
        with_all_derivatives(point_program(lambda x, y: (y, rule(x * y)), SCALAR, SCALAR), 2, inline=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(MORE, MORE + LONG, PIECE))
@pytest.mark.one_in(8)
def test_many_formulas_at_random(first):
    """Values and derivatives to third order, in pieces that may run beside each other."""
    counts: Counter = Counter()
    seeds = range(first, min(first + PIECE, MORE + LONG))
    for seed in seeds:
        compare(seed, 3, counts)
    jax.clear_caches()  # memory
    print(first, dict(counts))
    check_refusals(seeds, counts)


def by_name(block):
    """The key that there once was: the operation and the shapes, without its parameters."""
    return (block.eqn.primitive.name, *(str(v.aval) for v in (*block.eqn.invars, *block.eqn.outvars)))


@pytest.mark.slow  # 1.4 s; the same key: test_lowered, whose formula is refused
def test_formulas_at_random_find_the_key_that_there_once_was(monkeypatch):
    """Equal names and shapes taken for equal operations: wrong values among the first forty formulas."""
    monkeypatch.setattr(reader.Whole, "key", property(by_name))
    wrong = 0
    for seed in range(40):
        code = formula(seed)
        found = run(point_program(code, SCALAR, SCALAR), [jnp.asarray(x) for x in POINTS])[0]
        wrong += not np.allclose(found, jax.vmap(code)(*map(jnp.asarray, POINTS)), rtol=1e-9)
        if wrong == 3:
            return
    raise AssertionError(f"{wrong} wrong values")
