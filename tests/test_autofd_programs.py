"""Whole programs: variational problems, potentials, operators with kernels, everything under one jit, deep nests."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd.autofd import (
    Domain,
    broadcast,
    compose,
    dot,
    exp,
    function,
    grad,
    integrate,
    nabla,
    sqrt,
    tanh,
    value_and_grad,
)
from dftfd.autofd.core.function import nodes_of

_x, _w = np.polynomial.legendre.leggauss(40)
X = Domain((), points=(_x + 1) / 2, weights=_w / 2, name="x")
R = 0.37


def approx(expected, rel=1e-12):
    """pytest.approx of a JAX scalar."""
    return pytest.approx(float(expected), rel=rel)


def euler_lagrange(L, y):
    """x -> dL/dy - d/dx dL/dy' by array derivatives of the Lagrangian L(y, y')."""
    dy = jax.grad(y)
    momentum = lambda x: jax.grad(L, 1)(y(x), dy(x))
    return lambda x: jax.grad(L)(y(x), dy(x)) - jax.grad(momentum)(x)


def test_brachistochrone():
    """The functional derivative of the descent time is its Euler-Lagrange expression (1e-12)."""
    curve = lambda x: -jnp.sin(jnp.pi * x / 2) - 0.1 - 0.2 * x**2
    time = lambda y: integrate(sqrt(1.0 + nabla(y) ** 2) / sqrt(-y))
    v = grad(time)(function(curve, X))
    exact = euler_lagrange(lambda y, p: jnp.sqrt(1 + p**2) / jnp.sqrt(-y), curve)
    points = jnp.linspace(0.05, 0.95, 9)
    np.testing.assert_allclose(jax.vmap(v)(points), jax.jit(jax.vmap(exact))(points), rtol=1e-12)


def test_lagrangians_with_second_derivatives():
    """+ d2/dx2 of dL/dy'' for bending energies."""
    curve = lambda x: jnp.sin(2 * x)
    v = grad(lambda y: integrate(nabla(nabla(y)) ** 2 * 0.5 + exp(y)))(function(curve, X))
    assert v(R) == approx(16 * np.sin(2 * R) + np.exp(np.sin(2 * R)))


# ---- a generalised gradient approximation in three dimensions


def hermite3(n, scale=1.0):
    """R^3 with Gauss-Hermite nodes for functions like exp(-(r / scale)^2) and weights of plain volume."""
    x, w = np.polynomial.hermite.hermgauss(n)
    x, w = scale * x, scale * w * np.exp(x**2)
    grid = np.stack(np.meshgrid(x, x, x, indexing="ij"), -1).reshape(-1, 3)
    return Domain((3,), points=grid, weights=np.einsum("i,j,k->ijk", w, w, w).ravel(), name="r")


R3 = hermite3(8)
CX = -0.75 * (3 / np.pi) ** (1 / 3)


def gga(n):
    """Slater exchange with an enhancement 1 + 0.02 |grad n|^2 / n^(8/3)."""
    s2 = dot(nabla(n), nabla(n)) / n ** (8 / 3)
    return CX * integrate(n ** (4 / 3) * (1.0 + 0.02 * s2))


def density(r):
    return jnp.exp(-jnp.sum(r**2)) + 0.3 * jnp.exp(-0.7 * jnp.sum((r - jnp.array([0.4, 0.1, -0.2])) ** 2))


def gga_potential(n):
    """de/dn - div de/d(grad n), from the formula of the energy density."""
    e = lambda n, g: CX * n ** (4 / 3) * (1 + 0.02 * jnp.sum(g * g) / n ** (8 / 3))
    flux = lambda r: jax.grad(e, 1)(n(r), jax.grad(n)(r))
    return lambda r: jax.grad(e)(n(r), jax.grad(n)(r)) - jnp.trace(jax.jacfwd(flux)(r))


def test_gga_potential():
    """The derived potential is the hand-derived one at random points (1e-12)."""
    v = grad(gga)(function(density, R3))
    points = jnp.asarray(np.random.default_rng(3).normal(size=(20, 3)) * 0.7)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(v))(points), jax.jit(jax.vmap(gga_potential(density)))(points), rtol=1e-12
    )


CENTRES = jnp.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.4, 0.3]])
EXPONENTS = jnp.array([0.6, 0.8, 0.5])


def density_of_matrix(P, r):
    """rho(r) = sum_ij P_ij phi_i(r) phi_j(r)"""
    phi = jnp.exp(-EXPONENTS * jnp.sum((r[None, :] - CENTRES) ** 2, -1))
    return phi @ P @ phi


P0 = jnp.array([[1.0, 0.1, 0.2], [0.1, 0.7, 0.05], [0.2, 0.05, 0.5]])
D = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)))


def test_mixed_orders_in_one_jit():
    """Density of a matrix, energy, functional gradient at points, and its gradient with respect to the matrix."""
    r = jnp.array([[0.1, 0.2, 0.3], [-0.4, 0.1, 0.0]])

    def program(P):
        rho = function(density_of_matrix, R3, params=(P,))
        energy, v = value_and_grad(gga)(rho)
        at_points = jax.vmap(v)(r)
        return jnp.sum(at_points**2), (energy, at_points)

    compiled = jax.jit(jax.value_and_grad(program, has_aux=True))
    (_, (energy, at_points)), slope = compiled(P0)
    rho0 = lambda r: density_of_matrix(P0, r)
    np.testing.assert_allclose(at_points, jax.jit(jax.vmap(gga_potential(rho0)))(r), rtol=1e-12)
    assert energy == approx(gga(function(rho0, R3)))
    exact = lambda P: jnp.sum(jax.vmap(gga_potential(lambda r: density_of_matrix(P, r)))(r) ** 2)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(exact))(P0), rtol=1e-10)
    h = 1e-5
    assert jnp.sum(slope * D) == approx((compiled(P0 + h * D)[0][0] - compiled(P0 - h * D)[0][0]) / (2 * h), rel=1e-7)


def test_energy_gradient_two_ways():
    """dE/dP through the arrays equals integral of v drho/dP for functions that vanish at infinity (no surface term)."""
    fine = hermite3(20, scale=0.65)
    E = lambda n: integrate(n**2 + 0.05 * dot(nabla(n), nabla(n)))
    energy = lambda P: E(function(density_of_matrix, fine, params=(P,)))
    v = grad(E)(function(density_of_matrix, fine, params=(P0,)))
    change = function(lambda r: density_of_matrix(D, r), fine)
    assert jnp.sum(jax.grad(energy)(P0) * D) == approx(integrate(v * change), rel=1e-9)


def test_the_surface_term_is_what_partial_integration_drops():
    """Eq. 19 minus eq. 20 of the paper is [dL/df' df] at the ends, here 2 e^f f' df."""
    family = lambda a: function(lambda a, x: a[0] * jnp.sin(a[1] * x), X, params=(a,))
    E = lambda f: integrate(exp(f) * nabla(f) ** 2)
    a = jnp.array([1.0, 3.0])
    through_arrays = jax.grad(lambda a: E(family(a)))(a)
    v, f = grad(E)(family(a)), family(a)
    for i in range(2):
        df = function(lambda x, i=i: jax.jacfwd(lambda a: a[0] * jnp.sin(a[1] * x))(a)[i], X)
        edge = lambda x, df=df: 2 * jnp.exp(f(x)) * nabla(f)(x) * df(x)
        assert through_arrays[i] - integrate(v * df) == approx(edge(1.0) - edge(0.0), rel=1e-9)


# ---- kernels


def test_double_integrals():
    """1/2 int int f(x) k(x, y) f(y) has the gradient int k(., y) f(y) dy for a symmetric kernel."""
    k = function(lambda x, y: jnp.exp(-((x - y) ** 2)), X, X)
    f = function(lambda x: jnp.sin(3 * x), X)
    E = lambda f: 0.5 * integrate(broadcast(f, (X, X), (0,)) * k * broadcast(f, (X, X), (1,)))
    assert grad(E)(f)(R) == approx((k @ f)(R))


@pytest.mark.slow  # test_neural_operator of test_autofd_paper_listings is quick
def test_neural_operator_descends():
    """Two layers with kernels and biases that are functions; three steps of functional gradient descent."""
    layer = lambda k, b, f: k @ f + b
    target, data = function(lambda x: jnp.sin(2 * jnp.pi * x), X), function(lambda x: x * x, X)

    def loss(p):
        k1, b1, k2, b2 = p
        return integrate((layer(k2, b2, tanh(layer(k1, b1, data))) - target) ** 2)

    p = (
        function(lambda x, y: jnp.cos(x - y), X, X),
        function(lambda x: 0.1 * x, X),
        function(lambda x, y: jnp.sin(x + y), X, X),
        function(lambda x: 0 * x, X),
    )
    losses = [float(loss(p))]
    for _ in range(2):
        _, g = value_and_grad(loss)(p)
        p = tuple(a - 0.3 * da for a, da in zip(p, g, strict=True))
        losses.append(float(loss(p)))
    np.testing.assert_allclose(losses, [0.626, 0.0642, 0.00871], rtol=3e-3)  # the prototype of this package
    direction = (0.0 * p[0] + 1.0, p[1], p[2], p[3])
    h = 1e-5
    moved = lambda s: loss(tuple(a + s * d for a, d in zip(p, direction, strict=True)))
    _, g = value_and_grad(loss)(p)
    paired = sum(integrate(a * b) for a, b in zip(g, direction, strict=True))
    assert paired == approx((moved(h) - moved(-h)) / (2 * h), rel=1e-7)


# ---- deep nests


def nest(q, depth):
    f, g = function(jnp.sin, X), function(lambda x: 0.5 * jnp.cos(x), X)
    for _ in range(depth):
        q = compose(f, q) + compose(g, q)
    return q


def test_deep_nests_cost_linearly():
    """h = f(h) + g(h), 30 times: without sharing 2^30 evaluations; with it four equations and six nodes per level."""
    q = function(lambda x: x * x, X)
    size = lambda depth: len(jax.make_jaxpr(nest(q, depth).evaluate)(0.3).eqns)
    assert size(30) - size(20) == size(20) - size(10) == 40
    assert len(nodes_of(nest(q, 30))) < 200
    gradient = grad(lambda q: integrate(nest(q, 30)))(q)
    assert len(nodes_of(gradient)) < 1000
    y, slope = R * R, 1.0
    for _ in range(30):
        slope *= np.cos(y) - 0.5 * np.sin(y)
        y = np.sin(y) + 0.5 * np.cos(y)
    assert nest(q, 30)(R) == approx(y) and gradient(R) == approx(slope, rel=1e-11)
    sizes = [len(jax.make_jaxpr(grad(lambda q, n=n: integrate(nest(q, n)))(q).evaluate)(0.3).eqns) for n in (5, 10, 15)]
    assert sizes[2] - sizes[1] <= 1.1 * (sizes[1] - sizes[0]), sizes
