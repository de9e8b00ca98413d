"""Integrals over tables: the same values as point by point, and a cost linear in the graph."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd import autofd
from dftfd.autofd.operators import integrate

X = autofd.interval(7, 0.0, 1.0)
Y = autofd.interval(5, -1.0, 1.0)
f = autofd.function(lambda x: jnp.sin(4 * x), X)
g = autofd.function(lambda y: jnp.exp(-y), Y)
k = autofd.function(lambda y, x: jnp.cos(x * y) + x, Y, X)
s = autofd.function(lambda a, b: jnp.exp(-((a - b) ** 2)), X, X)


def transform(kernel, h):
    """y -> integral of kernel(y, x) h(x) dx"""
    return autofd.integrate(kernel * autofd.broadcast(h, kernel.domains, 1), argnums=1)


def chain(depth):
    h = f
    for _ in range(depth):
        h = autofd.tanh(transform(s, h)) + h
    return h


GRAPHS = {
    "double integral": lambda: autofd.broadcast(g, k.domains, 0) * k * autofd.broadcast(f, k.domains, 1),
    "transform inside": lambda: transform(k, f) ** 2 * g,
    "chain": lambda: chain(3),
    "both arguments over one space": lambda: (
        s * autofd.broadcast(chain(1), (X, X), 0) * autofd.broadcast(chain(1), (X, X), 1)
    ),
    "permuted": lambda: autofd.permute(k, (1, 0)) * autofd.broadcast(f, (X, Y), 0),
    "constant factor": lambda: autofd.constant(2.0, Y, X) * k,
    "nabla": lambda: autofd.nabla(chain(2)) * f,
    "tuple": lambda: autofd.zip_functions(f, transform(s, f)),
    "independent of an argument": lambda: autofd.broadcast(g, (Y, X), 0),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_tables_give_the_sums_over_points(name, monkeypatch):
    """Against the same integral with tables switched off, relative 1e-13."""
    h = GRAPHS[name]()
    tables = jax.jit(lambda: autofd.integrate(h))()
    monkeypatch.setattr(integrate, "MAX_POINTS", 0)
    with jax.disable_jit():  # which also keeps compiled programs with tables from being used
        points = autofd.integrate(h)
    for a, b in zip(jax.tree_util.tree_leaves(tables), jax.tree_util.tree_leaves(points), strict=True):
        assert float(a) == pytest.approx(float(b), rel=1e-13)


def test_a_transform_at_a_point_is_a_sum_over_the_grid():
    """(k f)(0.3) against NumPy's dot product of the values."""
    x, w = np.asarray(X.points), np.asarray(X.weights)
    expected = w @ ((np.cos(0.3 * x) + x) * np.sin(4 * x))
    assert float(transform(k, f)(0.3)) == pytest.approx(expected, rel=1e-14)


def test_nested_integrals_cost_linear():
    """Equations of the integral of a chain of transforms grow linearly with its depth."""
    sizes = [sum(_sizes(jax.make_jaxpr(lambda d=d: autofd.integrate(chain(d)))().jaxpr)) for d in (4, 8, 12)]
    assert sizes[2] - sizes[1] == pytest.approx(sizes[1] - sizes[0], rel=0.05)


def _sizes(program):
    """1 for each equation, also of inner programs."""
    for eqn in program.eqns:
        yield 1
        for value in jax.tree_util.tree_leaves(eqn.params, is_leaf=lambda p: hasattr(p, "eqns")):
            if hasattr(value, "eqns"):
                yield from _sizes(getattr(value, "jaxpr", value))


def test_tables_that_would_be_too_large_are_not_made(monkeypatch):
    """With a limit of ten entries the double integral goes point by point, to the same value."""
    h = GRAPHS["double integral"]()
    value = float(jax.jit(lambda: autofd.integrate(h))())
    monkeypatch.setattr(integrate, "MAX_ENTRIES", 10)
    with jax.disable_jit():  # as above
        assert float(autofd.integrate(h)) == pytest.approx(value, rel=1e-13)


def test_gradients_through_tables():
    """<dE/df, d> = d/dt E[f + t d] for a functional with nested transforms (1e-7, by central differences)."""
    E = lambda h: autofd.integrate(autofd.tanh(transform(k, autofd.tanh(transform(s, h)))) * g)
    d = autofd.function(lambda x: x * x, X)
    step = 1e-4
    difference = (float(E(f + d * step)) - float(E(f - d * step))) / (2 * step)
    assert float(autofd.integrate(autofd.grad(E)(f) * d)) == pytest.approx(difference, rel=1e-7)


def test_exact_integrals_inside_tables_stay_exact():
    """A Gaussian integral inside an integral over an interval: sqrt(pi) times the outer one."""
    line = autofd.euclidean(quadrature=autofd.interval(4, -1.0, 1.0))
    kernel = autofd.function(lambda x, t: jnp.exp(-((t - x) ** 2)), X, line)
    value = autofd.integrate(autofd.integrate(kernel, 1) * f)
    assert float(value) == pytest.approx(np.sqrt(np.pi) * float(autofd.integrate(f)), rel=1e-14)
