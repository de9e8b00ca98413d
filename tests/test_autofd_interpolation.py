"""Functions through values on all kinds of spaces, and descents of many steps that stand on them."""

import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd.autofd as fd
from dftfd.errors import InputWarning, QuadratureError, SignatureError
from tests.sample import sample

EQUIDISTANT = fd.Domain((), points=np.linspace(0, 2, 30)[::-1], weights=np.full(30, 2 / 30), name="own")
wave = lambda x: jnp.exp(jnp.sin(2 * x))


@pytest.mark.parametrize(
    "space, error",
    sample(
        [
            (fd.interval(24, 0.0, 2.0), 1e-8),
            (fd.interval(6, 0.0, 2.0, panels=6), 1e-7),
            (fd.periodic(24, np.pi), 1e-12),
            (EQUIDISTANT, 1e-6),
        ],
        at=[1, 2],
    ),
    ids=["polynomial", "panels", "periodic", "own points"],
)
def test_smooth_functions_come_back_from_their_values(space, error):
    """Exact at the points, in any order; between them to the order of the space, slopes at a point included."""
    f = fd.interpolate(space, jax.vmap(wave)(space.points))
    points = np.sort(space.points)
    np.testing.assert_allclose(jax.vmap(f)(space.points), jax.vmap(wave)(space.points), rtol=1e-11)
    middle = (points[1:] + points[:-1]) / 2
    np.testing.assert_allclose(jax.vmap(f)(middle), jax.vmap(wave)(middle), atol=error)
    x = space.points[len(points) // 2]
    assert abs(fd.nabla(f)(x) - jax.grad(wave)(x)) < 100 * error


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_few_points_are_enough_for_a_polynomial(n):
    """x^(n-1) through n points is itself."""
    X = fd.interval(n, 0.0, 1.0)
    f = fd.interpolate(X, X.points ** (n - 1))
    assert float(f(0.37)) == pytest.approx(0.37 ** (n - 1), rel=1e-12)


@pytest.mark.slow  # 1 s; test_smooth_functions_come_back_from_their_values is quick
def test_products_and_tensor_grids_of_vectors():
    """A product of a line and a circle, and the same points in another order under a density."""
    XY = fd.product(fd.interval(10, 0.0, 1.0), fd.periodic(12))
    F = lambda q: jnp.stack([jnp.exp(q[0]) * jnp.cos(q[1]), q[0] ** 2])
    f, q = fd.interpolate(XY, jax.vmap(F)(XY.points)), jnp.array([0.3, 1.1])
    np.testing.assert_allclose(f(q), F(q), atol=1e-11)
    np.testing.assert_allclose(fd.nabla(f)(q), jax.jacobian(F)(q), atol=1e-9)
    order = np.random.default_rng(1).permutation(len(XY.points))
    own = fd.Domain((2,), points=XY.points[order], weights=XY.weights[order])
    g = fd.interpolate(own, jax.vmap(F)(own.points))
    np.testing.assert_allclose(g(XY.points[7]), F(XY.points[7]), atol=1e-11)


def test_values_are_differentiated():
    """The integral through Gauss' rule is linear in the values: its gradient is the weights."""
    X = fd.interval(9, 0.0, 1.0)
    values = jnp.sin(X.points)
    slopes = jax.jit(jax.grad(lambda values: fd.integrate(fd.interpolate(X, values))))(values)
    np.testing.assert_allclose(slopes, X.weights, rtol=1e-12)


def test_many_steps_of_a_descent_cost_as_much_as_the_first():
    """1/2 int (f')^2 - sin(x) f on a circle ends at f = sin(x); twelve steps by graphs alone would take hours."""
    X = fd.periodic(16)
    source = fd.function(jnp.sin, X)
    energy = lambda f: 0.5 * fd.integrate(fd.nabla(f) ** 2) - fd.integrate(source * f)
    f = fd.interpolate(X, 0.3 * jnp.cos(3 * X.points))
    for step in range(20):
        f = fd.interpolate(X, jax.vmap(f - 0.03 * fd.grad(energy)(f))(X.points))
        if step == 5:
            start = time.process_time()
    assert time.process_time() - start < 20.0
    expected = 1.0 - (1.0 - 0.03) ** 20
    assert float(f(0.9)) == pytest.approx(expected * np.sin(0.9) + 0.3 * (1 - 0.27) ** 20 * np.cos(2.7), abs=1e-9)


def test_graphs_that_grow_are_told():
    """Each step on an energy of slopes nests two derivatives; three are let alone."""
    X = fd.interval(8, 0.0, 1.0)
    energy = lambda f: fd.integrate(fd.nabla(f) ** 2)
    f = fd.function(lambda x: jnp.sin(3 * x), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            f = f - 1e-3 * fd.grad(energy)(f)
    with pytest.warns(InputWarning, match=r"with 6 nested derivatives.*fd\.interpolate\(X"):
        fd.grad(energy)(f)


def test_what_cannot_be_interpolated_is_refused():
    scattered = fd.monte_carlo(jax.random.key(0), 9, box=(np.zeros(2), np.ones(2)))
    with pytest.raises(QuadratureError, match="not all combinations of their coordinates"):
        fd.interpolate(scattered, np.zeros(9))
    with pytest.raises(SignatureError, match=r"values of shape \(3,\); .* has 5 points"):
        fd.interpolate(fd.interval(5), np.zeros(3))
    with pytest.raises(SignatureError, match="takes a space with points"):
        fd.interpolate(fd.Domain(()), np.zeros(3))
    uneven = fd.Domain((), points=[0.1, 0.5, 0.6], weights=[0.3, 0.4, 0.3], ends=(0.0, 1.0), periodic=True)
    with pytest.raises(QuadratureError, match="not equidistant"):
        fd.interpolate(uneven, np.zeros(3))
