"""A Function is a vector for JAX, whatever it carries; graphs share, at any depth; what is wrong is refused.

Reference values are plain JAX on values at quadrature nodes (E as a function of 40 numbers) and closed forms. On JAX
0.10 and 0.12.
"""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd.autofd as fd
from dftfd.autofd.core.function import nodes_of
from dftfd.errors import AutofdError, DftfdError, LeakError, QuadratureError, SignatureError
from tests.sample import sample

X = fd.interval(40, 0.0, 1.0, name="x")
f = fd.function(lambda x: jnp.sin(3 * x) + 1.5, X)
d = fd.function(lambda x: jnp.exp(-x), X)
x0 = 0.3


def family(a):
    return fd.function(lambda a, x: a[0] * jnp.sin(a[1] * x) + 1.2, X, params=(a,))


A = jnp.array([1.0, 1.5])


def E(f):
    """A functional with feedback through a number."""
    return fd.integrate(fd.exp(f) * f) * jnp.sin(fd.integrate(f))


def on_nodes(v):
    """E of values at the nodes."""
    w = X.weights
    return jnp.dot(w, jnp.exp(v) * v) * jnp.sin(jnp.dot(w, v))


def potential_on_nodes(f):
    """The functional derivative at the nodes by plain JAX: the gradient divided by the weights."""
    return jax.grad(on_nodes)(jax.vmap(f)(X.points)) / X.weights


def _closure():
    c = jnp.asarray(2.0)
    return fd.function(lambda x: c * jnp.sin(x) + 1, X)


def _network():
    weights = {"w": jnp.array([0.3, -0.2])}
    return fd.function(lambda p, x: jnp.sum(jnp.tanh(p["w"] * x)) + 1, X, params=(weights,))


def _partial():
    return fd.partial(fd.function(lambda a, x: a + jnp.sin(x), X, X), 0, jnp.asarray(0.4))


CARRIERS = {
    "closure": _closure,
    "scaled by an array": lambda: jnp.asarray(0.5) * f,
    "parameters": lambda: family(A),
    "network": _network,
    "partial": _partial,
    "result of a gradient": lambda: f - 0.01 * jax.grad(E)(_closure()),
}


@pytest.mark.parametrize("name", sample(CARRIERS, ["network", "result of a gradient"]))
def test_gradients_of_functions_that_carry_arrays_are_functions(name):
    """jax.grad(E)(f), under jit too, its second derivative and fd.grad equal the gradient of the sum over nodes."""
    g = CARRIERS[name]()
    expected = potential_on_nodes(g)
    for gradient in (jax.grad(E)(g), fd.grad(E)(g), jax.jit(jax.grad(E))(g), jax.value_and_grad(E)(g)[1]):
        np.testing.assert_allclose(jax.vmap(gradient)(X.points), expected, rtol=1e-10)
    values, along = jax.vmap(g)(X.points), jax.vmap(d)(X.points)
    second = jax.jvp(jax.grad(on_nodes), (values,), (along,))[1] / X.weights
    np.testing.assert_allclose(jax.vmap(jax.jvp(jax.grad(E), (g,), (d,))[1])(X.points), second, rtol=1e-9)
    assert jax.jvp(E, (g,), (d,))[1] == pytest.approx(float(jnp.dot(X.weights * expected, along)), rel=1e-11)


def test_maps_from_numbers_to_functions():
    """Tangents and cotangents of a -> f_a and of a -> v[f_a], by jvp, linearize and vjp of JAX, as fd's."""
    a, da = A, jnp.array([0.3, -0.7])
    values = lambda a: a[0] * jnp.sin(a[1] * X.points) + 1.2
    moved = jax.jvp(values, (a,), (da,))[1]
    for tangent in (
        jax.jvp(family, (a,), (da,))[1],
        jax.linearize(family, a)[1](da),
        jax.jit(lambda a: jax.jvp(family, (a,), (da,))[1])(a),
        fd.jvp(family, (a,), (da,))[1],
        fd.linearize(family, a)[1](da),
    ):
        np.testing.assert_allclose(jax.vmap(tangent)(X.points), moved, rtol=1e-12)
    pulled = jax.vjp(values, a)[1](X.weights * jnp.exp(-X.points))[0]
    for pull in (jax.vjp(family, a)[1], jax.vjp(jax.jit(family), a)[1], fd.vjp(family, a)[1]):
        np.testing.assert_allclose(pull(d)[0], pulled, rtol=1e-12)
    slope = jax.jvp(lambda a: potential_on_nodes(family(a)), (a,), (da,))[1]
    for gradient in (jax.grad, fd.grad):
        changed = jax.jvp(lambda a, gradient=gradient: gradient(E)(family(a)), (a,), (da,))[1]
        np.testing.assert_allclose(jax.vmap(changed)(X.points), slope, rtol=1e-10)
    with pytest.raises(LeakError, match="jacfwd"):
        jax.jacfwd(family)(a)


def test_functions_cross_jit_as_their_arrays():
    """One program for all arrays; results, scan and cond; descent by tree_map inside and outside of jit."""
    traces = []

    @jax.jit
    def energy(g):
        traces.append(1)
        return E(g)

    assert [float(energy(family(c * A))) for c in (1.0, 2.0)] == pytest.approx(
        [float(E(family(c * A))) for c in (1, 2)]
    )
    assert len(traces) == 1
    assert jax.jit(family)(A)(x0) == pytest.approx(float(family(A)(x0)))
    step = lambda g: jax.tree.map(lambda p, dp: p - 0.1 * dp, g, jax.grad(E)(g))
    plain = jax.vmap(family(A))(X.points)
    inside, outside = family(A), family(A)
    for _ in range(2):
        inside, outside = jax.jit(step)(inside), step(outside)
        plain = plain - 0.1 * jax.grad(on_nodes)(plain) / X.weights
    for g in (inside, outside):
        np.testing.assert_allclose(jax.vmap(g)(X.points), plain, rtol=1e-10)
    carried, values = jax.lax.scan(lambda g, x: (g, g(x)), family(A), jnp.array([x0, x0]))
    assert carried(x0) == pytest.approx(float(family(A)(x0))) and values[1] == carried(x0)


def test_arrays_of_a_function_on_request():
    """as_pytree(f): derivatives with respect to the arrays, which are no functions and say so; jit and vmap of it."""
    of_arrays = lambda p: E(p.function)
    exact = jax.grad(lambda a: E(family(a)))(A)
    gradient = jax.grad(of_arrays)(fd.as_pytree(family(A)))
    np.testing.assert_allclose(gradient.arrays[0], exact, rtol=1e-12)
    with pytest.raises(SignatureError, match="pytree of the arrays of a function"):
        gradient(x0)
    with pytest.raises(SignatureError):
        fd.integrate(gradient)
    through_jit = jax.grad(lambda a: jax.jit(of_arrays)(fd.as_pytree(family(a))))(A)
    np.testing.assert_allclose(through_jit, exact, rtol=1e-12)
    with pytest.raises(LeakError, match="as_pytree"):
        jax.grad(lambda a: jax.jit(E)(family(a)))(A)
    with pytest.raises(AutofdError, match="as_pytree"):
        jax.vmap(family)(jnp.stack([A, A]))


def test_a_partial_function_under_jit():
    """int sin(f) with f(b) = a + b: the derivative is cos(a + b), its slope in a -sin(a + b)."""
    g = fd.function(lambda a, b: a + b, X, X)
    loss = jax.jit(lambda a, b: jax.grad(lambda f: fd.integrate(fd.sin(f)))(fd.partial(g, 0, a))(b))
    assert loss(1.0, 2.0) == pytest.approx(np.cos(3.0))
    assert jax.grad(loss)(1.0, 2.0) == pytest.approx(-np.sin(3.0))


def test_brachistochrone_losses_as_printed():
    """Section 4.1 of the paper: int (dT/dy)^2 and int dT/dy y of a curve with a parameter, against Euler's equation."""
    space = fd.Domain((), points=jnp.linspace(0.01, 1, 50), weights=jnp.ones(50) / 50)
    y = fd.function(lambda p, x: p * jnp.sin(jnp.pi * x) - x, space, params=(jnp.asarray(-0.3),))
    time = lambda y: fd.integrate(fd.sqrt(1.0 + fd.nabla(y) ** 2) / fd.sqrt(-y))
    c = lambda x: -0.3 * jnp.sin(jnp.pi * x) - x
    L = lambda y, v: jnp.sqrt(1 + v**2) / jnp.sqrt(-y)
    momentum = lambda x: jax.grad(L, 1)(c(x), jax.grad(c)(x))
    euler = lambda x: jax.grad(L, 0)(c(x), jax.grad(c)(x)) - jax.grad(momentum)(x)
    values, w = jax.jit(jax.vmap(euler))(space.points), space.weights
    assert fd.integrate(jax.grad(time)(y) ** 2) == pytest.approx(float(jnp.dot(w, values**2)), rel=1e-10)
    curve = jax.vmap(c)(space.points)
    assert fd.integrate(jax.grad(time)(y) * y) == pytest.approx(float(jnp.dot(w, values * curve)), rel=1e-10)


# ---- what is linear


LINEAR = {
    "nabla": (fd.nabla, d),
    "feedback": (lambda f: d * fd.integrate(f), d),
    "selection by the point": (lambda f: fd.compose(lambda x, v: jnp.where(x > 0.5, 2 * v, 0.0), fd.identity(X), f), d),
    "integrals": (lambda f: 2 * fd.integrate(f) + fd.integrate(f * d), 1.0),
    "point": (lambda f: 3.0 * f(x0), 1.0),
    "loop in the code": (lambda f: fd.compose(lambda v: jax.lax.fori_loop(0, 3, lambda i, c: c + v, 0.0 * v), f), d),
}
NONLINEAR = {
    "exp": (fd.exp, d),
    "affine": (lambda f: f + 1.0, d),
    "square": (lambda f: fd.integrate(f * f), 1.0),
    "product with feedback": (lambda f: f * fd.integrate(f), d),
    "far from zero": (lambda f: fd.compose(lambda v: jnp.where(v > 50, v**2, v), f), d),
    "loop": (lambda f: fd.compose(lambda v: jax.lax.fori_loop(0, 2, lambda i, c: c * v, v), f), d),
}


@pytest.mark.parametrize("transpose", [fd.linear_transpose, jax.linear_transpose])
@pytest.mark.parametrize("name", LINEAR)
def test_transposes_of_linear_operators(name, transpose):
    """<ct, O d> = <O^T ct, d>"""
    operator, ct = LINEAR[name]
    if name == "nabla":
        g = fd.function(lambda x: jnp.sin(jnp.pi * x) ** 2, X)  # vanishes at the ends
        assert fd.integrate(ct * operator(g)) == pytest.approx(float(fd.integrate(transpose(operator, f)(ct)[0] * g)))
        return
    left = ct * operator(d) if name in ("integrals", "point") else fd.integrate(ct * operator(d))
    assert fd.integrate(transpose(operator, f)(ct)[0] * d) == pytest.approx(float(left), rel=1e-12)


@pytest.mark.parametrize("transpose", [fd.linear_transpose, jax.linear_transpose])
@pytest.mark.parametrize("name", NONLINEAR)
def test_nonlinear_operators_have_no_transpose(name, transpose):
    """The program is looked at; a map that is linear near zero only is refused, too."""
    operator, ct = NONLINEAR[name]
    with pytest.raises(SignatureError, match="linear"):
        transpose(operator, f)(ct)


@pytest.mark.parametrize("transpose", [fd.linear_transpose, jax.linear_transpose])
def test_a_function_at_a_point_is_as_linear_as_its_program(transpose):
    """a -> (x -> f(a, x)): the transpose where f is linear in a, refused where it is not, and of f(a, a)."""
    f_of = lambda code: fd.function(code, X, X)
    at = lambda f: lambda a: fd.partial(f, 0, a)
    a = jnp.asarray(0.4)
    (back,) = transpose(at(f_of(lambda a, x: 3 * a * jnp.cos(x))), a)(d)
    assert back == pytest.approx(float(fd.integrate(3 * fd.function(jnp.cos, X) * d)), rel=1e-12)
    for code in (lambda a, x: a * a * x, lambda a, x: a + x):
        with pytest.raises(SignatureError, match="linear"):
            transpose(at(f_of(code)), a)(d)
    with pytest.raises(SignatureError, match="linear"):
        transpose(lambda a: fd.partial(f_of(lambda a, x: a * x), (0, 1), (a, a)), a)(fd.constant(1.0))


def test_linear_transpose_of_functions_in_the_syntax_of_jax():
    """The operator T of the paper, section 3.2.4, under jvp, vjp and linear_transpose; f must be linear."""
    V = fd.Domain((3,))
    g, a = fd.function(lambda v: 2 * v, V), jnp.array([1.0, 2.0, 3.0])
    operator = lambda f: fd.linear_transpose(f, 0, None, "hilbert-schmidt")
    for result in (
        jax.vjp(operator, g)[1](operator(g))[0],
        jax.jvp(operator, (g,), (g,))[1],
        jax.linear_transpose(operator, g)(operator(g))[0],
        fd.vjp(operator, g)[1](operator(g))[0],
    ):
        np.testing.assert_allclose(result(a), 2 * a)
    with pytest.raises(SignatureError, match="linear"):
        fd.linear_transpose(fd.function(lambda v: jnp.where(jnp.abs(v) > 50, v**2, v), V))


# ---- cost


def test_descent_is_linear_in_its_steps():
    """Each step adds as many nodes as the first; the values are those of descent on the nodes."""
    residual = lambda f: fd.integrate((f - d) ** 2)
    g, values, counts = f, jax.vmap(f)(X.points), []
    for _ in range(6):
        g = g - 0.1 * fd.grad(residual)(g)
        values = values - 0.2 * (values - jnp.exp(-X.points))
        counts.append(len(nodes_of(g)))
    assert np.ptp(np.diff(counts)) == 0
    np.testing.assert_allclose(jax.vmap(g)(X.points), values, rtol=1e-12)


@pytest.mark.parametrize("transform", [fd.vjp, fd.linearize])
def test_a_functional_runs_once_for_all_products_with_its_derivative(transform):
    runs = []

    def E(f):
        runs.append(1)
        return fd.integrate(f * f)

    products = transform(E, f)[1]
    for c in (1.0, 2.0):
        products(c * d if transform is fd.linearize else c)
    assert len(runs) == 1


def test_what_is_made_twice_is_one_node():
    """Equal operators on the same operands are the same object, with equal code too."""
    make = lambda: fd.exp(f) * f + fd.compose(lambda v: 2 * v, f)
    assert make() is make()
    assert make() is not fd.exp(d) * d


def _along(functional, grad, pairing):
    """f -> <grad functional(f), direction>"""
    return lambda f: pairing(grad(functional)(f))


@pytest.mark.slow  # 1 s; test_deep_nests_cost_linearly of test_autofd_programs is quick
def test_nested_gradients_stay_small():
    """int sin f int f along d: the number of nodes grows like the order, the derivatives are those on the nodes."""
    S = lambda f: fd.integrate(fd.sin(f) * fd.integrate(f))
    plain = lambda v: jnp.dot(X.weights, jnp.sin(v)) * jnp.dot(X.weights, v)
    along, values = jnp.exp(-X.points), jax.vmap(f)(X.points)
    counts = []
    for order in range(3):
        gradient = fd.grad(S)(f)
        counts.append(len(nodes_of(gradient)))
        np.testing.assert_allclose(
            jax.vmap(gradient)(X.points), jax.grad(plain)(values) / X.weights, rtol=1e-10, err_msg=str(order)
        )
        S, plain = (
            _along(S, fd.grad, lambda v: fd.integrate(v * d)),
            _along(plain, jax.grad, lambda v: jnp.dot(v, along)),
        )
    assert counts[2] < 4 * counts[0]


@pytest.mark.slow
def test_graphs_of_any_depth():
    """Values, integrals, gradients in both doors, printing; h <- sin h + h / 2, 400 and 120 times."""

    def nest(h, n):
        for _ in range(n):
            h = fd.sin(h) + 0.5 * h
        return h

    v = np.sin(0.9) + 1.5
    for _ in range(400):
        v = np.sin(v) + 0.5 * v
    assert nest(f, 400)(x0) == pytest.approx(v)
    plain = lambda v: jnp.dot(X.weights, jax.lax.fori_loop(0, 120, lambda i, h: jnp.sin(h) + 0.5 * h, v))
    expected = jax.grad(plain)(jax.vmap(f)(X.points)) / X.weights
    for grad in (fd.grad, jax.grad):
        gradient = grad(lambda f: fd.integrate(nest(f, 120)))(f)
        np.testing.assert_allclose(jax.vmap(gradient)(X.points), expected, rtol=1e-9, atol=1e-300)
    assert "sin" in fd.show(nest(f, 400))
    assert len(str(jax.make_jaxpr(lambda f: nest(f, 200)(x0))(fd.as_leaf(f)))) < 5000


# ---- values where JAX has values


@pytest.mark.parametrize("grad", [fd.grad, jax.grad])
def test_functionals_may_look_at_values(grad):
    """A branch, an index and a mask made of values; a pull under jit; jax.custom_vjp with and without a branch."""
    first = lambda f: [f(0.2), f(0.7)][jnp.argmax(jnp.stack([f(0.2), f(0.7)]))]
    assert fd.integrate(grad(first)(f) * d) == pytest.approx(float(d(0.7 if f(0.7) > f(0.2) else 0.2)))

    def masked(f):
        v = jnp.stack([f(0.2), f(0.7)])
        return jnp.sum(v[v > 0.5])

    assert fd.integrate(grad(masked)(f) * d) == pytest.approx(float(d(0.2) + d(0.7)))

    @jax.custom_vjp
    def squared(v):
        return v * v

    squared.defvjp(lambda v: (v * v, v), lambda v, c: (2 * v * c,))
    branch = lambda f: squared(fd.integrate(f)) if fd.integrate(f) > 0 else 0.0
    assert grad(branch)(f)(x0) == pytest.approx(2 * float(fd.integrate(f)))
    assert grad(lambda f: fd.integrate(fd.compose(squared, f)))(f)(x0) == pytest.approx(2 * float(f(x0)))


@pytest.mark.parametrize("vjp", [fd.vjp, jax.vjp])
def test_pulls_under_jit(vjp):
    """The functional has branched already when its pull is compiled."""
    functional = lambda f: 2 * fd.integrate(f) ** 3 if fd.integrate(f) < 30 else 0.0
    pull = vjp(functional, f)[1]
    assert jax.jit(lambda c: pull(c)[0](x0))(1.0) == pytest.approx(6 * float(fd.integrate(f)) ** 2)


def test_integers_do_not_move_in_taylor_mode():
    """a n with n = 3: the derivatives with respect to a are 3 and 0."""
    assert fd.derivatives_along(lambda a, n: a * n, (1.0, 3), (1.0, 0), 2) == pytest.approx((3.0, 3.0, 0.0))
    with pytest.raises(SignatureError, match="integers"):
        fd.derivatives_along(lambda a, n: a * n, (1.0, 3), (1.0, 1), 2)


# ---- slips

SLIPS = {
    "jnp.exp": (lambda: jnp.exp(f), "compose"),
    "jnp.sum": (lambda: jnp.sum(f), "integrate"),
    "jnp.stack": (lambda: jnp.stack([f, f]), "compose"),
    "np.exp": (lambda: np.exp(f), "compose"),
    "np.asarray": (lambda: np.asarray(f), "function"),
    "code for a function": (lambda: fd.grad(fd.integrate)(lambda x: x), "function\\(code, X\\)"),
    "code for a function, jax": (lambda: jax.grad(fd.integrate)(lambda x: x), "function\\(code, X\\)"),
    "string": (lambda: fd.grad(fd.integrate)("f"), "Function or an array"),
    "arguments by name": (lambda: f(x=0.3), "position"),
    "no point": (lambda: f(None), "point"),
    "length": (lambda: len(f), "length"),
    "shape of a domain": (lambda: fd.Domain(3), r"Domain\(\(3,\)\)"),
    "domain forgotten": (lambda: fd.function(lambda x: x), "domain"),
    "too few domains": (lambda: fd.function(lambda x, y: x, X), "domain"),
    "two arguments of nabla": (lambda: fd.nabla(fd.function(lambda x, y: x * y, X, X), (0, 1)), "one argument"),
    "name of an argument": (lambda: fd.integrate(f, "x"), "argnum"),
    "index of a number": (lambda: f[0], "no such entry"),
    "functional without a value": (lambda: fd.grad(lambda f: None)(f), "scalar"),
    "functional with a list": (lambda: fd.grad(lambda f: [fd.integrate(f)])(f), "scalar"),
    "function without a value": (lambda: fd.function(lambda x: None, X), "None"),
    "function with a list": (lambda: fd.function(lambda x: [x, x], X), "list"),
    "branch in the code": (lambda: fd.function(lambda x: x if x > 0 else 0.0, X), "where"),
    "NaN weights": (lambda: fd.Domain((), points=np.ones(2), weights=np.array([1.0, np.nan])), "NaN"),
    "float of a value": (lambda: fd.grad(lambda f: fd.integrate(f) * float(fd.integrate(f)))(f), "float"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_slips_are_answered(name):
    """A typed error that says what to write."""
    code, text = SLIPS[name]
    with pytest.raises(DftfdError, match=text):
        code()
    assert issubclass(SignatureError, TypeError) and issubclass(QuadratureError, ValueError)


def test_arithmetic_with_arrays_of_numpy_and_jax():
    """Arrays on either side, under jit too; copies are the same function, since nothing can change."""
    for two in (np.float64(2.0), jnp.asarray(2.0), np.asarray(2.0)):
        assert (two * f)(x0) == (f * two)(x0) == pytest.approx(2 * float(f(x0)))
        assert (two - f)(x0) == pytest.approx(2 - float(f(x0)))
    np.testing.assert_allclose((np.ones(3) * f)(x0), np.full(3, f(x0)))
    assert jax.jit(lambda a: (a * f)(x0))(2.0) == pytest.approx(2 * float(f(x0)))
    assert copy.deepcopy(f) is copy.copy(f) is f
