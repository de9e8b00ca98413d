"""Compiled programs give the numbers of the operations they consist of, whatever XLA makes of them."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from dftfd.autofd.scalar import on_jax
from dftfd.autofd.scalar.derive import with_gradient
from dftfd.autofd.scalar.on_jax import run_in_one_loop
from dftfd.autofd.scalar.reader import point_program
from dftfd.xc.nonlocal_code import PairSums

SCALAR = jax.ShapeDtypeStruct((), np.float64)
X = np.linspace(0.01, 3.0, 64)
OPERATIONS = {
    "arctan": (jnp.arctan, np.arctan),
    "arcsinh": (jnp.arcsinh, np.arcsinh),
    "cbrt": (jnp.cbrt, np.cbrt),
    "cosh": (jnp.cosh, np.cosh),
    "erf": (jax.scipy.special.erf, special.erf),
    "erfc": (jax.scipy.special.erfc, special.erfc),
    "exp": (jnp.exp, np.exp),
    "expm1": (jnp.expm1, np.expm1),
    "log": (jnp.log, np.log),
    "log1p": (jnp.log1p, np.log1p),
    "power": (lambda x: x**1.7, lambda x: x**1.7),
    "sin": (jnp.sin, np.sin),
    "sqrt": (jnp.sqrt, np.sqrt),
    "tanh": (jnp.tanh, np.tanh),
    "where": (lambda x: jnp.where(x < 1, x, 2 - x), lambda x: np.where(x < 1, x, 2 - x)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_in_one_loop(name):
    """Each operation on 64 points, compiled, against NumPy and SciPy."""
    code, reference = OPERATIONS[name]
    program = point_program(code, SCALAR)
    (out,) = jax.jit(lambda x: run_in_one_loop(program, [x]))(X)
    np.testing.assert_allclose(out, reference(X), rtol=4e-15)


@pytest.mark.parametrize(
    "code, reference",
    [
        pytest.param(lambda x: 1.3 / jnp.sqrt(x), lambda x: 1.3 / np.sqrt(x), id="quotient"),
        pytest.param(jax.lax.rsqrt, lambda x: 1 / np.sqrt(x), id="rsqrt"),
        pytest.param(jnp.cbrt, np.cbrt, id="cbrt"),
    ],
)
def test_no_call_that_is_not_known_in_vectors(code, reference):
    """XLA keeps neither rsqrt nor cbrt, at which LLVM takes a loop point by point; numbers are those of NumPy."""
    program = point_program(lambda x: jnp.exp(code(x)), SCALAR)
    compiled = jax.jit(lambda x: run_in_one_loop(program, [x])).lower(X).compile()
    assert not re.search(r"\b(rsqrt|cbrt)\(", compiled.as_text())
    np.testing.assert_allclose(compiled(X)[0], np.exp(reference(X)), rtol=1e-14)


def test_more_inputs_than_outputs_and_the_reverse():
    """A value alone of three inputs; value and gradient of two: x y + arctan x."""
    three = point_program(lambda a, b, c: a * b - c, SCALAR, SCALAR, SCALAR)
    (out,) = jax.jit(lambda *x: run_in_one_loop(three, list(x)))(X, 2 * X, X**2)
    np.testing.assert_allclose(out, X**2, rtol=1e-15)
    both = with_gradient(point_program(lambda x, y: x * y + jnp.arctan(x), SCALAR, SCALAR))
    e, dx, dy = jax.jit(lambda *x: run_in_one_loop(both, list(x)))(X, X)
    np.testing.assert_allclose(e, X * X + np.arctan(X), rtol=1e-14)
    np.testing.assert_allclose(dx, X + 1 / (1 + X * X), rtol=1e-14)
    np.testing.assert_array_equal(dy, X)


def test_long_programs_become_a_few_loops(monkeypatch):
    """Sums, differences, scaled sums and a product with a choice in it, shared out over loops of eight operations."""
    monkeypatch.setattr(on_jax, "LONGEST", 8)

    def code(x, y):
        waves = [jnp.sin(k * x) + jnp.cos(k * y) for k in (1.0, 2.0, 3.0)]
        first = 0.5 * (waves[0] - waves[1]) - (waves[2] + x * y)
        product = jnp.where(x > 0.5, waves[0] * waves[2], jnp.exp(waves[1]) / (2.0 + waves[2]))
        return first, -first * 3.0 + jnp.sin(x), jnp.sin(x) * waves[1], x, product

    program = point_program(code, SCALAR, SCALAR)
    groups = on_jax.groups_for_loops(program)
    assert len(groups) > 2 and len(set(sum(groups, ()))) == sum(map(len, groups))
    assert all(replace(program, outputs=group).length <= 8 for group in groups)
    Y = X[::-1].copy()
    found = jax.jit(lambda *x: run_in_one_loop(program, list(x)))(X, Y)
    for out, expected in zip(found, code(X, Y), strict=True):
        np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-14)


def test_loops_inside_the_code_are_kept():
    """x^5 by a loop, which has no place in a reduction."""
    power = lambda x: jax.lax.fori_loop(0, 4, lambda _, y: y * x, x)
    program = point_program(power, SCALAR)
    (out,) = jax.jit(lambda x: run_in_one_loop(program, [x]))(X)
    np.testing.assert_allclose(out, X**5, rtol=1e-14)


def test_arctan_in_sums_over_pairs():
    """XLA's arctan is wrong in vectors of 512 bits; sums over pairs with it are those of NumPy."""
    row, column = np.linspace(0.1, 2.0, 20)[None], np.linspace(0.2, 3.0, 30)[None]
    sums = PairSums(lambda r, c: jnp.arctan(r * c), 1, 1, 1)
    values, _ = sums(row, column, np.ones(30))
    np.testing.assert_allclose(values[0], np.arctan(row.T * column).sum(axis=1), rtol=1e-13)
