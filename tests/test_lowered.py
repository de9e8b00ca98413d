"""The scalar code that calculations run gives the numbers of the formula it was made from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dftfd.autofd import compose
from dftfd.autofd.core import roots
from dftfd.autofd.scalar import reader
from dftfd.autofd.scalar.derive import with_gradient
from dftfd.autofd.scalar.on_jax import run, run_in_one_loop
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import FunctionalError
from dftfd.functionals.registry import term
from dftfd.functionals.validation import require_valid
from dftfd.xc.kernel import XCKernel
from tests.compilations import compilations, traces

SCALAR = jax.ShapeDtypeStruct((), np.float64)
X = np.linspace(0.031, 0.273, 11)
MATRIX = np.array([[1.0, 2.0], [3.0, 4.0]])
TABLE = np.linspace(1.0, 3.0, 2000)


def with_rule(slope):
    """-x^2 with slope times x for its derivative."""

    @jax.custom_jvp
    def code(x):
        return -x * x

    code.defjvp(lambda x, dx: (code(*x), slope * x[0] * dx[0]))
    return code


def with_reverse_rule(slope):
    @jax.custom_vjp
    def code(x):
        return -x * x

    code.defvjp(lambda x: (-x * x, x), lambda x, ct: (slope * x * ct,))
    return code


@jax.custom_jvp
def scaled(x, a):
    return a * x


scaled.defjvp(lambda x, dx: (scaled(*x), x[1] * dx[0]))
ONE, TWO = with_rule(-1.0), with_rule(-2.0)
ONE_BACK, TWO_BACK = with_reverse_rule(-1.0), with_reverse_rule(-2.0)


def power_loop(start, stop):
    return lambda n: lax.fori_loop(start, stop, lambda i, y: y * n + i, n)


def series_by_scan(**options):
    return lambda n: lax.scan(lambda c, x: (c * x + n, c), n, jnp.arange(3.0), **options)[0]


def triangular(lower):
    right = lambda n: jnp.stack([n, n * n])[:, None]
    return lambda n: lax.linalg.triangular_solve(MATRIX * n, right(n), left_side=True, lower=lower)[1, 0]


def sums(reverse):
    return lambda n: lax.cumsum(jnp.stack([n, 2 * n, n * n]), reverse=reverse)[1]


def sorted_entry(k):
    return lambda n: jnp.sort(jnp.stack([jnp.sin(9 * n), n, 0.1 + 0 * n]))[k]


def gathered(mode):
    get = lambda n: jnp.asarray(TABLE).at[(n * 15000).astype(int)].get(mode=mode, fill_value=7.0)
    return lambda n: n * get(n)


def outside(value):
    return lambda n: n + jnp.stack([n, 2 * n]).at[5].get(mode="fill", fill_value=value)


PAIRS = {
    "cond": (
        lambda n: lax.cond(n < 0.1, lambda n: -(n**1.2), lambda n: -1.5 * n**1.3, n),
        lambda n: lax.cond(n < 0.1, lambda n: -0.1 * n**1.1, lambda n: -0.2 * n**1.4, n),
    ),
    "length of a loop": (power_loop(0, 3), power_loop(0, 5)),
    "start of a loop": (power_loop(0, 3), power_loop(2, 5)),
    "cumsum": (sums(False), sums(True)),
    "switch": (
        lambda n: lax.switch((9 * n).astype(int), [jnp.sin, jnp.cos, jnp.exp], n),
        lambda n: lax.switch((9 * n).astype(int), [jnp.cos, jnp.sin, jnp.exp], n),
    ),
    "scan": (series_by_scan(), series_by_scan(reverse=True)),
    "custom_jvp": (ONE, TWO),
    "custom_vjp": (ONE_BACK, TWO_BACK),
    "literal of a custom_jvp": (lambda n: scaled(n, 2.0), lambda n: scaled(n, 3.0)),
    "triangular solve": (triangular(True), triangular(False)),
    "sort": (sorted_entry(0), sorted_entry(2)),
    "table": (gathered("fill"), gathered("clip")),
    "a place outside": (outside(0.5), outside(-0.5)),
    "reduction of its own": (
        lambda n: lax.reduce(jnp.stack([n, 2 * n, n * n]), 0.0, lambda a, b: jnp.hypot(a, b), (0,)),
        lambda n: lax.reduce(jnp.stack([n, 2 * n, n * n]), 0.0, lambda a, b: jnp.maximum(a, b), (0,)),
    ),
}
"""Two operations each that differ in one parameter only."""


@pytest.mark.parametrize("name", PAIRS)
def test_two_operations_that_differ_in_a_parameter_stay_two(name):
    """Value and slope of f(n) + 3 g(n) against plain JAX, by one loop, by operations on arrays, and by NumPy."""
    f, g = PAIRS[name]
    code = lambda n: f(n) + 3 * g(n)
    value, slope = jax.vmap(jax.value_and_grad(code))(X)
    program = point_program(code, SCALAR)
    both = with_gradient(program)
    for found in (run(program, [X])[0], run_on_numpy(program, [X])[0], run_in_one_loop(program, [X])[0]):
        np.testing.assert_allclose(found, value, rtol=1e-13)
    for found in (run(both, [X]), run_on_numpy(both, [X]), run_in_one_loop(both, [X])):
        np.testing.assert_allclose(found, [value, slope], rtol=1e-12)


def test_the_slopes_of_a_longer_formula_trace_nothing():
    """Each kind of operation is differentiated once in a process; formulas of the same kinds are put together."""
    formula = lambda count: lambda x: sum(jnp.exp(k * x) / (k + jnp.sqrt(x + jnp.exp(x))) for k in range(1, count))
    with_gradient(point_program(formula(4), SCALAR))
    long = formula(40)
    program = point_program(long, SCALAR)
    with traces() as found:
        both = with_gradient(program)
    assert not found
    np.testing.assert_allclose(run_on_numpy(both, [X]), jax.vmap(jax.value_and_grad(long))(X), rtol=1e-13)


def test_numpy_runs_functions_with_derivative_rules_without_compilation():
    """Before derivatives are formed they are whole; another number of points would compile each of them again."""
    code = lambda x: roots.power(x, 4 / 3) + roots.cbrt(x - 0.2) * lax.stop_gradient(x)
    program = point_program(code, SCALAR)
    assert sum(program.nodes[i].op == "call" for i in program.needed) == 3
    run_on_numpy(program, [X])
    with compilations() as compiled:
        (found,) = run_on_numpy(program, [X[1:]])
    assert not compiled
    np.testing.assert_allclose(found, X[1:] ** (4 / 3) + np.cbrt(X[1:] - 0.2) * X[1:], rtol=1e-14)


@pytest.mark.parametrize("name", ["cond", "length of a loop", "custom_jvp", "sort"])
def test_equal_operations_become_one(name):
    """f(n) exp(f(n)) carries f out once."""
    f, _ = PAIRS[name]
    program = point_program(lambda n: f(n) * jnp.exp(f(n)), SCALAR)
    assert sum(program.nodes[i].op == "call" for i in program.needed) == 1


@pytest.mark.parametrize("name", [n for n in PAIRS if n != "table"])
def test_energies_of_formulas_with_control_flow(name):
    """A functional's energy and potential as a calculation computes them, against the formula on the same densities."""
    f, g = PAIRS[name]
    total = term("trial")(lambda n: compose(lambda n: f(n) + g(n), n))
    kernel = XCKernel(total, 1)
    energy, potential = kernel(np.zeros((len(X), 3)), np.ones(len(X)), X[None, None])
    value, slope = jax.vmap(jax.value_and_grad(lambda n: f(n) + g(n)))(X)
    np.testing.assert_allclose(energy, np.sum(value), rtol=1e-13)
    np.testing.assert_allclose(potential[0, 0], slope, rtol=1e-12)


def by_name(block):
    """The key that there once was: the operation and the shapes, without its parameters."""
    return (block.eqn.primitive.name, *(str(v.aval) for v in (*block.eqn.invars, *block.eqn.outvars)))


def test_a_wrong_lowering_does_not_pass_registration(monkeypatch):
    """With the operation's name for a key, two different conds become one: the formula is refused by its value."""
    monkeypatch.setattr(reader.Whole, "key", property(by_name))
    f, g = PAIRS["cond"]
    trial = term("trial")(lambda n: compose(lambda n: f(n) + g(n), n))
    with pytest.raises(FunctionalError, match="has the value .* as calculations use it and .* as the formula"):
        require_valid(trial.terms[0][1])
