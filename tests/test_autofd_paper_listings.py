"""The programs printed in M. Lin, "Automatic Functional Differentiation in JAX", ICLR 2024 (arXiv:2311.18727), retyped.

They use JAX's own transformations, as printed. Appendix A is represented by one program for each operator that its
listings introduce, put together from the package's public examples and tests. What differs from print, everywhere:
the import line; a Domain is declared with its quadrature where the paper annotates array types and sets `f.grid`;
elementary functions are `o.sqrt` for `o.numpy.sqrt`. Each test lists what else differs. Domains are float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import tree_map

import dftfd.autofd as o
from dftfd.functionals.registry import get_functional
from tests.sample import sample


def approx(expected, rel=1e-12):
    """pytest.approx of a JAX scalar."""
    return pytest.approx(float(expected), rel=rel)


def grid(nodes, weights, name):
    return o.Domain((), points=nodes, weights=weights, name=name)


X = grid(jnp.linspace(0, 1, 100), jnp.ones(100) / 100, "x")
Y = grid(jnp.linspace(0, 1, 100), jnp.ones(100) / 100, "y")


def test_the_first_example():
    """F(f) = integral of exp(f); dF/df = exp(f). No further difference."""
    f = o.function(lambda x: -(x**2), X)

    def F(f):
        return o.integrate(o.compose(jnp.exp, f))

    dFdf = jax.grad(F)(f)
    assert dFdf(1.0) == approx(np.exp(-1.0))


# ---- section 3 and appendix A: each operator, its JVP and its transpose

f = o.function(jnp.sin, X)
g = o.function(jnp.cos, X)
df = o.function(lambda x: x * (1 - x), X)
dg = o.function(lambda x: x**2, X)
R = jnp.asarray(0.3)


def test_compose_and_its_derivatives():
    """jvp of compose moves both functions; vjp with respect to the inner one is pointwise."""
    value, tangent = jax.jvp(o.compose, (f, g), (df, dg))
    assert value(R) == approx(np.sin(np.cos(0.3)))
    y = np.cos(0.3)
    assert tangent(R) == approx(y * (1 - y) + np.cos(y) * 0.09)
    _, vjp = jax.vjp(lambda g: o.compose(f, g), g)
    (back,) = vjp(dg)  # a tuple, as from any vjp of JAX; the print takes the function itself
    assert back(R) == approx(np.cos(y) * 0.09)


def test_nabla_and_its_transpose():
    """The transpose of nabla is -nabla in one dimension.

    Differences: jax.linear_transpose takes the primal first and returns a tuple.
    """
    assert jax.jvp(o.nabla, (f,), (df,))[1](R) == approx(1 - 2 * 0.3)
    (back,) = jax.linear_transpose(o.nabla, f)(dg)
    assert back(R) == approx(-0.6)
    assert jax.vjp(o.nabla, f)[1](dg)[0](R) == approx(-0.6)


def test_linearize_and_linear_transpose_of_functions():
    """The operators L and T on functions, not the transformations of the same name. No further difference."""
    L = o.linearize(f)
    assert L(0.3, 2.0) == approx(2 * np.cos(0.3))
    doubled = o.function(lambda x: 2.0 * x, X)
    assert o.linear_transpose(doubled)(0.7) == approx(1.4)
    assert jax.jvp(o.linearize, (f,), (df,))[1](0.3, 2.0) == approx(2 * (1 - 0.6))


def test_integrate_and_its_transpose():
    """The transpose of the integral over everything is the constant function."""
    (back,) = jax.linear_transpose(o.integrate, f)(jnp.asarray(3.0))
    assert back(R) == approx(3.0)
    assert jax.jvp(o.integrate, (f,), (df,))[1] == approx(o.integrate(df))


def test_permute_zip_and_broadcast():
    """Rearrangements and their transposes. Differences: `permute` for permute_args, domains in place of a target."""
    k = o.function(lambda x, y: jnp.sin(x) * y, X, Y)
    swap = lambda k: o.permute(k, (1, 0))
    (back,) = jax.linear_transpose(swap, k)(swap(k))
    assert back(0.3, 0.4) == approx(k(0.3, 0.4))
    both = o.zip_functions(f, g)
    parts = jax.linear_transpose(o.zip_functions, f, g)(both)
    assert parts[0](R) == approx(f(R)) and parts[1](R) == approx(g(R))
    wide = lambda f: o.broadcast(f, (X, Y), 0)
    (summed,) = jax.linear_transpose(wide, f)(k)
    assert summed(R) == approx(np.sin(0.3) * 0.5)


def test_euler_lagrange_of_higher_order():
    """d/df of int I(f, f', f'') by operators equals the formula, at random points. No further difference."""

    def I(f, df, ddf):  # noqa: E743
        return f**2 + jnp.sin(df) + ddf**2 * f

    def F(f):
        df = o.nabla(f)
        ddf = o.nabla(df)
        return o.integrate(o.compose(I, f, df, ddf))

    code = lambda x: jnp.sin(x) + 0.3 * jnp.cos(x)
    d1, d2 = jax.grad(code), jax.grad(jax.grad(code))
    part = lambda i: lambda x: jax.grad(I, argnums=i)(code(x), d1(x), d2(x))
    exact = lambda x: part(0)(x) - jax.grad(part(1))(x) + jax.grad(jax.grad(part(2)))(x)
    fd = jax.grad(F)(o.function(code, X))
    x = jax.random.normal(jax.random.PRNGKey(12), (10,))
    np.testing.assert_allclose(jax.vmap(fd)(x), jax.jit(jax.vmap(exact))(x), rtol=1e-11)


# ---- section 4.1


def brachistochrone(y):
    return o.integrate(o.sqrt(1.0 + o.nabla(y) ** 2) / o.sqrt(-y))


NODES = grid(jnp.linspace(0.01, 1.0, 50), jnp.ones(50) / 50, "x")


def network(params, x):
    """A curve through (0, 0) and (1, -1)."""
    hidden = jax.nn.sigmoid(params["w1"] * x + params["b1"])
    hidden = jax.nn.sigmoid(params["w2"] @ hidden)
    return jnp.sin(x * jnp.pi) * jnp.dot(params["w3"], hidden) - x


def initial_parameters():
    rng = np.random.default_rng(42)
    shapes = {"w1": (6,), "b1": (6,), "w2": (6, 6), "w3": (6,)}
    return {k: jnp.asarray(rng.normal(size=s) * 0.3) for k, s in shapes.items()}


def curve(params):
    return o.function(network, NODES, params=(params,))


def loss_F(params):
    return brachistochrone(curve(params))


def loss_FD(params):
    dff = jax.grad(brachistochrone)(curve(params))
    return o.integrate(dff**2)


def loss_F_via_FD(params):
    ff = curve(params)
    dff = jax.grad(brachistochrone)(ff)
    return o.integrate(o.compose(jax.lax.stop_gradient, dff) * ff)


@pytest.mark.parametrize("loss", sample([loss_F, loss_FD], [loss_FD]))
def test_brachistochrone_losses(loss):
    """The losses and their gradients under jit, against finite differences.

    Differences: the network's weights are params of the function where the paper fixes an argument with `partial`; no
    ensure_compile_time_eval; a smaller network (examples/paper runs the printed one).
    """
    params = initial_parameters()
    value, gradient = jax.jit(jax.value_and_grad(loss))(params)
    direction = tree_map(lambda p: jnp.cos(jnp.arange(p.size * 1.0)).reshape(p.shape), params)
    moved = lambda s: loss(tree_map(lambda p, d: p + s * d, params, direction))
    slope = sum(jnp.sum(g * d) for g, d in zip(*map(jax.tree_util.tree_leaves, (gradient, direction)), strict=True))
    h = 1e-5
    assert value == approx(loss(params)) and slope == approx((moved(h) - moved(-h)) / (2 * h), rel=1e-6)


def test_loss_by_way_of_the_functional_gradient():
    """The gradient of int stop(dF/df) f is the integral of dF/df df/dparams, eq. 20. Differences as above."""
    params = initial_parameters()
    gradient = jax.jit(jax.grad(loss_F_via_FD))(params)
    dff = jax.grad(brachistochrone)(curve(params))
    x, w = NODES.points, NODES.weights
    slopes = jax.vmap(lambda x: jax.grad(network)(params, x)["w3"])(x)
    np.testing.assert_allclose(gradient["w3"], jnp.einsum("k,k,ki->i", w, jax.vmap(dff)(x), slopes), rtol=1e-10)


# ---- section 4.2


def test_exchange_correlation_potential():
    """v_xc = jax.grad(E_xc)(rho) for gga_x_pbe and a Gaussian density, printed and evaluated.

    Differences: the functional is this package's, of a spin-resolved density, in place of jax_xc's; the quadrature is
    a product of Gauss-Hermite rules in place of a molecular grid.
    """
    x, w = np.polynomial.hermite.hermgauss(8)
    w = w * np.exp(x**2)
    points = np.stack(np.meshgrid(x, x, x, indexing="ij"), -1).reshape(-1, 3)
    R3 = o.Domain((3,), points=points, weights=np.einsum("i,j,k->ijk", w, w, w).ravel())
    half = lambda r: jnp.prod(jax.scipy.stats.norm.pdf(r, loc=0, scale=1)) / 2
    rho = o.function(lambda r: jnp.stack([half(r), half(r)]), R3)
    gga_x_pbe = get_functional("gga_x_pbe").energy_density

    def exc(rho):
        epsilon_xc = gga_x_pbe(rho)
        return o.integrate(epsilon_xc)

    vxc = jax.grad(exc)(rho)
    r = jnp.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(vxc(r), o.grad(exc)(rho)(r), rtol=1e-12)
    assert "graph=integrate(" in str(jax.make_jaxpr(exc)(o.as_leaf(rho)))

    def n(r):
        return 2 * half(r)

    def e(n, g):  # eq. 14 of PBE, for equal spins
        s2 = jnp.sum(g * g) / (4 * (3 * jnp.pi**2) ** (2 / 3) * n ** (8 / 3))
        F = 1 + 0.804 - 0.804 / (1 + 0.2195149727645171 * s2 / 0.804)
        return -0.75 * (3 / jnp.pi) ** (1 / 3) * n ** (4 / 3) * F

    flux = lambda r: jax.grad(e, 1)(n(r), jax.grad(n)(r))
    by_hand = jax.jit(lambda r: jax.grad(e)(n(r), jax.grad(n)(r)) - jnp.trace(jax.jacfwd(flux)(r)))
    hand = by_hand(r)
    np.testing.assert_allclose(vxc(r), [hand, hand], rtol=1e-9)


# ---- appendix H


def test_neural_operator():
    """Two layers of kernels, trained by functional gradient descent; the loss falls at each step.

    Differences: `activate` for the misprinted `activation`; domains of the broadcast in place of a target function.
    """
    inputs = o.function(lambda x: jnp.sin(4 * x * jnp.pi), X)
    b = o.function(lambda x: jnp.sin(x * jnp.pi), X)
    target = o.function(lambda x: jnp.cos(x * jnp.pi), X)
    k = o.function(lambda y, x: jnp.sin(y) + jnp.cos(x), X, X)

    def layer(k, b, x, activate=True):
        fyx = o.broadcast(x, (X, X), 1)
        g = o.integrate(fyx * k, 1) + b
        if activate:
            return o.tanh(g)
        return g

    def loss(params, x, y):
        k1, b1, k2, b2 = params
        o1 = layer(k1, b1, x, True)
        o2 = layer(k2, b2, o1, False)
        return o.integrate((o2 - y) ** 2)

    param = (k, b, k, b)
    losses = [loss(param, inputs, target)]
    for _ in range(2):
        grad = jax.grad(loss)(param, inputs, target)
        param = tree_map(lambda x, dx: x - 0.1 * dx, param, grad)
        losses.append(loss(param, inputs, target))
    assert losses[0] > losses[1] > losses[2]
    native = o.grad(loss)((k, b, k, b), inputs, target)
    moved = tuple(p - 0.1 * dp for p, dp in zip((k, b, k, b), native, strict=True))
    assert losses[1] == approx(loss(moved, inputs, target), rel=1e-11)


# ---- appendix on the call cache


def test_nested_calls():
    """h = f(h) + g(h), repeated: calls of functions on functions compose. No further difference."""
    h, f, g = (o.function(code, X) for code in (jnp.sin, jnp.exp, jnp.tanh))

    def F(h):
        for _ in range(4):
            h = f(h) + g(h)
        return h

    value = np.sin(0.0)
    for _ in range(4):
        value = np.exp(value) + np.tanh(value)
    assert jax.jit(F(h))(0.0) == approx(value)
