"""JAX's own transformations on functions: the same numbers as dftfd.autofd, and errors where there is none.

Run on the oldest and the newest supported JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import tree_leaves, tree_map

import dftfd.autofd as fd
from dftfd.autofd import Domain, Function, as_leaf, as_pytree, compose, exp, function, integrate, nabla, square
from dftfd.errors import AutofdError, LeakError, SignatureError
from tests.sample import sample

_x, _w = np.polynomial.legendre.leggauss(40)
X = Domain((), points=(_x + 1) / 2, weights=_w / 2, name="x")
f = function(lambda x: jnp.sin(3 * x) + 1.5, X)
d = function(lambda x: jnp.exp(-x), X)
d2 = function(lambda x: jnp.cos(x), X)
R = jnp.asarray(0.3)


def family(a):
    return function(lambda a, x: a[0] * jnp.sin(a[1] * x) + 1.2, X, params=(a,))


A = jnp.array([1.0, 1.5])


def approx(expected, rel=1e-12):
    """pytest.approx of a JAX scalar."""
    return pytest.approx(float(expected), rel=rel)


FUNCTIONALS = {
    "local": lambda f: integrate(exp(f) * f),
    "gradient": lambda f: integrate(exp(f) * square(nabla(f))),
    "scalar feedback": lambda f: integrate(f * integrate(f) * exp(f)),
    "normalised": lambda f: integrate(exp(f / integrate(f * f) ** 0.5)),
    "array code between": lambda f: jnp.sin(integrate(f)) / (1.0 + jnp.exp(integrate(f * f))),
    "feedback through parameters": lambda f: integrate(
        f * function(lambda a, x: jnp.exp(a * x), X, params=(integrate(f),))
    ),
    "hidden in a nested function": lambda f: _hidden(f),
    "other functions with parameters": lambda f: integrate(exp(f) * family(A) * integrate(f)),
}


def _hidden(f):
    s = integrate(f)
    inner = lambda v: s * v
    return integrate(compose(lambda v: jnp.sin(inner(v)), f))


# ---- one leaf


def test_functions_are_leaves_whatever_they_carry():
    """The leaf keeps every behaviour of a Function; as_pytree shows the arrays."""
    for g in (f, family(A), as_leaf(family(A))):
        (leaf,) = tree_leaves(g)
        assert isinstance(leaf, Function) and (leaf * 2.0)(R) == approx(2 * g(R))
    assert [np.shape(a) for a in tree_leaves(as_pytree(family(A)))] == [(2,)]
    assert as_pytree(family(A)).function(R) == approx(family(A)(R))


def test_gradients_are_functions_and_those_of_the_arrays_on_request():
    """jax.grad(E)(f) for a parametric function, and jax.grad of E as a functional of its arrays."""
    E = FUNCTIONALS["gradient"]
    exact = jax.grad(lambda a: E(family(a)))(A)
    g = jax.grad(lambda p: E(p.function))(as_pytree(family(A)))
    np.testing.assert_allclose(tree_leaves(g)[0], exact)
    assert jax.grad(E)(family(A))(R) == approx(fd.grad(E)(family(A))(R))


@pytest.mark.slow  # 1 s; test_descent_is_linear_in_its_steps of test_autofd_vectors is quick
def test_gradient_descent_by_tree_map():
    """f - 0.1 df for all parameters at once, again and again, as in the paper's appendix H."""
    E = FUNCTIONALS["scalar feedback"]
    params, native = (f, d), (f, d)
    loss = lambda p: E(p[0]) + E(p[1] * p[0])
    for _ in range(2):
        params = tree_map(lambda p, dp: p - 0.1 * dp, params, jax.grad(loss)(params))
        native = tuple(p - 0.1 * dp for p, dp in zip(native, fd.grad(loss)(native), strict=True))
    ends = jax.jit(lambda: [(loss(p), p[1](R)) for p in (params, native)])()
    np.testing.assert_allclose(*ends, rtol=1e-12)


# ---- derivatives


@pytest.mark.parametrize("name", sample(FUNCTIONALS, ["gradient", "scalar feedback", "hidden in a nested function"]))
def test_first_derivatives(name):
    """grad, value_and_grad, jvp, vjp, linearize."""
    E = FUNCTIONALS[name]
    value, v = jax.value_and_grad(E)(f)
    expected = fd.grad(E)(f)(R)
    assert value == approx(E(f)) and v(R) == approx(expected)
    assert jax.vjp(E, f)[1](jnp.asarray(2.0))[0](R) == approx(2 * expected)
    slope = fd.jvp(E, (f,), (d,))[1]
    assert jax.jvp(E, (f,), (d,))[1] == approx(slope)
    assert jax.linearize(E, f)[1](d) == approx(slope)


@pytest.mark.parametrize("name", sample(FUNCTIONALS, ["gradient", "feedback through parameters"]))
def test_second_derivatives_with_feedback(name):
    """Forward over reverse, reverse over forward, reverse over reverse, forward over forward.

    Partial integration drops surface terms, by which the orders differ for the functional of the gradient: there the
    directions vanish at the ends.
    """
    E = FUNCTIONALS[name]
    ends = function(lambda x: (x * (1.0 - x)) ** 2, X) if name == "gradient" else 1.0
    along, along2 = d * ends, d2 * ends
    expected, *found = jax.jit(
        lambda: (
            fd.hvp(E, f, along)(R),
            jax.jvp(jax.grad(E), (f,), (along,))[1](R),
            jax.grad(lambda f: jax.jvp(E, (f,), (along,))[1])(f)(R),
            jax.grad(lambda f: integrate(jax.grad(E)(f) * along))(f)(R),
        )
    )()
    np.testing.assert_allclose(found, float(expected), rtol=1e-11)
    both, paired = jax.jit(
        lambda: (
            jax.jvp(lambda f: jax.jvp(E, (f,), (along,))[1], (f,), (along2,))[1],
            integrate(fd.hvp(E, f, along) * along2),
        )
    )()
    assert both == approx(paired, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normalised", "scalar feedback"])
def test_third_derivatives(name):
    """Forward three times and reverse three times."""
    E = FUNCTIONALS[name]
    along = lambda F, t: lambda f: jax.jvp(F, (f,), (t,))[1]
    back = lambda F, t: lambda f: integrate(jax.grad(F)(f) * t)
    expected = fd.jvp(lambda f: fd.jvp(lambda f: fd.jvp(E, (f,), (d,))[1], (f,), (d2,))[1], (f,), (d,))[1]
    assert along(along(along(E, d), d2), d)(f) == approx(expected, rel=1e-10)
    assert back(back(back(E, d), d2), d)(f) == approx(expected, rel=1e-10)


def test_both_doors_in_one_program():
    """dftfd.autofd.grad inside jax.grad; the other way round is an error."""
    E = FUNCTIONALS["normalised"]
    expected = fd.hvp(E, f, d)(R)
    assert jax.grad(lambda f: integrate(fd.grad(E)(f) * d))(f)(R) == approx(expected, rel=1e-11)
    assert jax.grad(lambda f: fd.jvp(E, (f,), (d,))[1])(f)(R) == approx(expected, rel=1e-11)
    with pytest.raises(LeakError, match="dftfd.autofd"):
        fd.grad(lambda f: integrate(jax.grad(E)(f) * d))(f)


def test_operators():
    """vjp, jvp, linearize and linear_transpose of operators give functions."""
    assert jax.vjp(nabla, f)[1](d)[0](R) == approx(np.exp(-0.3))
    value, moved = jax.jvp(lambda f: nabla(f) * f, (f,), (d,))
    assert moved(R) == approx((nabla(d) * f + nabla(f) * d)(R)) and value(R) == approx((nabla(f) * f)(R))
    assert jax.linearize(nabla, f)[1](d)(R) == approx(-np.exp(-0.3))
    assert jax.linear_transpose(nabla, f)(d)[0](R) == approx(np.exp(-0.3))
    unit = lambda f: f / jnp.sqrt(integrate(f * f))
    back, forward = jax.vjp(unit, f)[1](d)[0], jax.jvp(unit, (f,), (d,))[1]
    assert integrate(back * d) == approx(integrate(forward * d))


def test_arrays_and_functions_together():
    """argnums, trees, auxiliary data, zero gradients."""
    E = lambda p, c: integrate(p["f"] * c) * integrate(p["g"] * p["f"])
    (dp, dc) = jax.grad(E, argnums=(0, 1))({"f": f, "g": d}, 2.0)
    F, G = integrate(f), integrate(d * f)
    assert dp["f"](R) == approx(2 * G + 2 * F * d(R)) and dp["g"](R) == approx(2 * F * f(R)) and dc == approx(F * G)
    v, aux = jax.grad(lambda f: (integrate(f * f), f * 2.0), has_aux=True)(f)
    assert aux(R) == approx(2 * f(R)) and v(R) == approx(2 * f(R))
    assert jax.grad(lambda f: 1.0)(f)(R) == 0.0


def test_functions_can_be_called_inside():
    """f(x0) inside a functional gives a Dirac distribution, which integrate consumes."""
    v = jax.grad(lambda f: f(R) ** 2)(f)
    assert integrate(v * d) == approx(2 * f(R) * d(R))


# ---- arrays and functions at different levels; jit, vmap


@pytest.mark.parametrize("name", sample(["gradient", "normalised", "feedback through parameters"], ["normalised"]))
def test_array_derivatives_of_functional_derivatives(name):
    """d/da of v[f_a](r), under jit and vmap too, with feedback."""
    E = FUNCTIONALS[name]
    v = lambda a: jax.grad(E)(family(a))(R)
    value, exact = jax.jit(jax.value_and_grad(lambda a: fd.grad(E)(family(a))(R)))(A)
    assert v(A) == approx(value)
    assert jax.jit(v)(A) == approx(v(A))
    np.testing.assert_allclose(jax.grad(v)(A), exact, rtol=1e-11)
    np.testing.assert_allclose(jax.jit(jax.grad(v))(A), exact, rtol=1e-11)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(v))(A), exact, rtol=1e-11)
    many = jnp.stack([A, 2 * A])
    np.testing.assert_allclose(jax.jit(jax.vmap(v))(many), [v(a) for a in many], rtol=1e-11)


def test_leaves_cross_jit_and_loops_as_constants():
    """A function without arrays is an argument and a result of jit, vmap (unmapped), scan, cond, checkpoint."""
    E = FUNCTIONALS["normalised"]
    expected = E(f)
    assert jax.jit(E)(f) == approx(expected) and jax.jit(lambda f, x: f(x))(f, R) == approx(f(R))
    assert jax.jit(lambda f: f * 2.0)(f)(R) == approx(2 * f(R))
    np.testing.assert_allclose(jax.vmap(lambda f, x: f(x), in_axes=(None, 0))(f, jnp.stack([R, R])), [f(R)] * 2)
    carried, values = jax.lax.scan(lambda g, x: (g, g(x)), f, jnp.stack([R, R]))
    assert carried(R) == approx(f(R)) and values[0] == approx(f(R))
    assert jax.lax.cond(True, lambda g: g(R), lambda g: 0.0, f) == approx(f(R))
    assert jax.grad(jax.checkpoint(lambda x, g: g(x)))(R, f) == approx(3 * np.cos(0.9))
    assert jax.eval_shape(E, f).shape == ()
    assert jax.jit(jax.grad(E))(f)(R) == approx(fd.grad(E)(f)(R))


def test_jit_tells_functions_apart():
    """Equal code is one program, other code or another constant another one."""
    traces = []

    @jax.jit
    def value(g):
        traces.append(1)
        return g(R)

    make = lambda c: function(lambda x: c * x, X)
    assert [float(value(make(c))) for c in (2.0, 2.0, 3.0)] == pytest.approx([0.6, 0.6, 0.9])
    assert len(traces) == 2


def test_printed_programs():
    """make_jaxpr shows the operator graph of a leaf, and the arithmetic of a function that jit may take."""
    E = FUNCTIONALS["local"]
    text = str(jax.make_jaxpr(E)(as_leaf(f)))
    assert "functional[graph=integrate(multiply(exp(f0), f0))]" in text and "Function[float64[] -> float64[]]" in text
    assert "kind=tangent" in str(jax.make_jaxpr(jax.grad(E))(as_leaf(f)))
    assert " exp " in str(jax.make_jaxpr(E)(f))


# ---- what ends in an error


@pytest.mark.parametrize(
    "inside",
    [
        lambda f: jnp.sum(jax.vmap(f)(jnp.ones(3))),
        lambda f: jax.jit(integrate)(f),
        lambda f: jax.jit(lambda: integrate(f))(),
        lambda f: jax.checkpoint(integrate)(f),
        lambda f: jax.lax.scan(lambda c, x: (c + f(x), None), 0.0, jnp.ones(3))[0],
        lambda f: jax.lax.fori_loop(0, 3, lambda i, c: c + f(R), 0.0),
        lambda f: jax.lax.cond(True, lambda: f(R), lambda: 0.0),
        lambda f: integrate(function(lambda x: f(x) ** 2, X)),
        lambda f: integrate(compose(lambda v: v * f(R), f)),
    ],
)
@pytest.mark.parametrize("transform", [jax.grad, lambda E: lambda f: jax.jvp(E, (f,), (d,))])
def test_loops_over_a_differentiated_function(inside, transform):
    """A leaf under differentiation crosses no program and is nowhere taken for a constant, also if jit knows it."""
    if inside.__code__.co_names[:1] == ("jax",):
        inside(f)  # fills the caches of jit
    with pytest.raises(LeakError):
        transform(inside)(f)


def test_leaked_functions():
    """A function stored by the functional is useless afterwards."""
    kept = []

    def E(f):
        kept.append(f)
        return integrate(f * f)

    jax.grad(E)(f)
    for use in (lambda g: g(R), lambda g: integrate(g * f)):
        with pytest.raises((LeakError, jax.errors.UnexpectedTracerError)):
            use(kept[0])


def test_jit_of_the_functional_is_put_outside():
    """jax.grad(jax.jit(E)) is an error even when jit(E)(f) has been compiled; jax.jit(jax.grad(E)) is right."""
    E = jax.jit(FUNCTIONALS["local"])
    E(f)
    with pytest.raises(LeakError, match="outside"):
        jax.grad(E)(f)


def test_jacobians_over_functions():
    """A function has infinitely many entries."""
    for transform in (jax.jacfwd, jax.hessian):
        with pytest.raises(SignatureError, match="jacrev"):
            transform(FUNCTIONALS["local"])(f)
    with pytest.raises((AutofdError, TypeError, ValueError)):
        jax.jacrev(FUNCTIONALS["local"])(f)


def test_wrong_types():
    """Cotangents and tangents of another space; vmap over a function, with and without arrays."""
    other = function(jnp.sin, Domain((), name="y"))
    with pytest.raises((TypeError, ValueError), match="Function"):
        jax.vjp(nabla, f)[1](other)
    with pytest.raises(TypeError, match="Function"):
        jax.linear_transpose(nabla, f)(other)
    with pytest.raises((AutofdError, ValueError)):
        jax.vmap(lambda f: f(R))(f)
    with pytest.raises(LeakError, match="as_pytree"):
        jax.vmap(family)(jnp.stack([A, A]))


def test_stop_gradient_is_respected():
    """jax.lax.stop_gradient of a function's values inside compose, and of the function itself."""
    E = lambda f: integrate(compose(jax.lax.stop_gradient, f) * f)
    assert jax.grad(E)(f)(R) == approx(f(R)) and fd.grad(E)(f)(R) == approx(f(R))
    assert jax.grad(lambda f: integrate(jax.lax.stop_gradient(f) * f))(f)(R) == approx(f(R))
