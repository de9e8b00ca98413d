"""First derivatives: grad, value_and_grad, jvp, vjp and their kin, against closed forms and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd.autofd import (
    Domain,
    Function,
    as_pytree,
    at,
    compose,
    constant,
    exp,
    function,
    grad,
    hvp,
    integrate,
    jacfwd,
    jacrev,
    jvp,
    linear_transpose,
    linearize,
    nabla,
    sqrt,
    value_and_grad,
    vjp,
)
from dftfd.errors import LeakError, SignatureError
from tests.sample import sample


def unit_interval(n=40, name="x"):
    """[0, 1] with Gauss-Legendre nodes."""
    x, w = np.polynomial.legendre.leggauss(n)
    return Domain((), points=(x + 1) / 2, weights=w / 2, name=name)


def approx(expected, rel=1e-12):
    """pytest.approx of a JAX scalar."""
    return pytest.approx(float(expected), rel=rel)


X = unit_interval()
x, w = np.asarray(X.points), np.asarray(X.weights)
f = function(lambda x: jnp.sin(3 * x) + 1.5, X)
d = function(lambda x: jnp.exp(-x), X)
R = 0.3


def difference(E, f, d, h=1e-5):
    """Central difference of E along d; error about 1e-10."""
    return (E(f + h * d) - E(f - h * d)) / (2 * h)


FUNCTIONALS = {
    "local": lambda f: integrate(exp(f) * f),
    "product of integrals": lambda f: integrate(f) * integrate(f * f),
    "scalar feedback": lambda f: integrate(f * integrate(f) * exp(f)),
    "normalised": lambda f: integrate((f / jnp.sqrt(integrate(f * f))) ** 3),
    "gradient": lambda f: integrate(sqrt(1.0 + nabla(f) ** 2) * f),
    "array code between": lambda f: jnp.sin(integrate(f)) / (1.0 + jnp.exp(integrate(f * f))),
    "quadrature as arrays": lambda f: integrate(f**2, quadrature=(jnp.asarray(x), jnp.asarray(3 * w))),
    "feedback through parameters": lambda f: integrate(
        f * function(lambda a, x: jnp.exp(a * x), X, params=(integrate(f),))
    ),
}


@pytest.mark.parametrize("name", [n for n in FUNCTIONALS if n != "gradient"])
def test_gradient_paired_with_a_direction_is_the_finite_difference(name):
    """integral of grad(E) d = dE along d for functionals with every kind of path from function to value."""
    E = FUNCTIONALS[name]
    paired = integrate(grad(E)(f) * d)
    assert paired == approx(difference(E, f, d), rel=3e-9)


@pytest.mark.parametrize("name", FUNCTIONALS)
def test_jvp_is_the_finite_difference(name):
    """Forward mode needs no partial integration, so it holds with surface terms too."""
    E = FUNCTIONALS[name]
    value, derivative = jvp(E, (f,), (d,))
    assert value == approx(E(f), rel=1e-14)
    assert derivative == approx(difference(E, f, d), rel=3e-9)


def test_scalar_feedback_has_both_terms():
    """E = integral of f times itself: grad = 2 integral of f; a hidden constant would give half of it."""
    assert grad(lambda f: integrate(f * integrate(f)))(f)(R) == approx(2 * integrate(f), rel=1e-14)


def test_value_and_grad_with_arrays_functions_and_trees():
    """argnums may name arrays, functions and trees of both; the gradient has the structure of the arguments."""

    def E(p, a, g):
        return a[0] * integrate(p["f"] * g) + a[1] ** 2 * integrate(p["f"] * p["c"])

    p, a, g = {"f": f, "c": 2.0}, jnp.array([1.5, -0.5]), d
    value, (dp, da) = value_and_grad(E, argnums=(0, 1))(p, a, g)
    F, FG = float(integrate(f)), float(integrate(f * g))
    assert value == approx(1.5 * FG + 0.25 * 2 * F)
    assert isinstance(dp["f"], Function) and dp["f"](R) == approx(1.5 * g(R) + 0.5)
    assert dp["c"] == approx(0.25 * F)
    np.testing.assert_allclose(da, [FG, -1.0 * 2 * F])
    dg = grad(E, argnums=2)(p, a, g)
    assert dg(R) == approx(1.5 * f(R))
    assert grad(E, argnums=-1)(p, a, g)(R) == approx(1.5 * f(R))


def test_aux_may_hold_functions_arrays_and_text():
    """Auxiliary data comes back free of marks of the transformation."""

    def E(f):
        return integrate(f * f), {"density": f * 2.0, "norm": integrate(f), "name": "aux"}

    gradient, aux = grad(E, has_aux=True)(f)
    assert gradient(R) == approx(2 * f(R))
    assert aux["density"](R) == approx(2 * f(R)) and aux["name"] == "aux"
    assert aux["norm"] == approx(integrate(f))
    assert integrate(aux["density"]) == approx(2 * integrate(f))


def test_functional_that_does_not_depend_on_its_argument():
    """The gradient is the zero function of the right type."""
    zero = grad(lambda f: jnp.asarray(2.0))(f)
    assert zero(R) == 0.0 and zero.domains == f.domains


def test_functional_of_a_point_value():
    """f(x0)^2 has the gradient 2 f(x0) delta(x - x0): integrating it against d gives 2 f(x0) d(x0)."""
    v = grad(lambda f: f(R) ** 2)(f)
    assert integrate(v * d) == approx(2 * f(R) * d(R), rel=1e-14)


def test_jvp_of_operators_and_mixed_results():
    """Values may be trees of Functions and arrays; arrays that move inside Functions count."""

    def operator(f, a):
        s = integrate(f) * a
        return {"g": exp(f) * s, "s": s}, nabla(f)

    (out, slope), (d_out, d_slope) = jvp(operator, (f, 2.0), (d, 0.5))
    s, ds = 2 * integrate(f), 2 * integrate(d) + 0.5 * integrate(f)
    assert out["s"] == approx(s) and d_out["s"] == approx(ds)
    assert d_out["g"](R) == approx(jnp.exp(f(R)) * (d(R) * s + ds))
    assert slope(R) == approx(3 * np.cos(0.9)) and d_slope(R) == approx(-np.exp(-R))


def test_jvp_with_respect_to_quadrature_and_point():
    """Arrays carried by integrals and point evaluations have tangents too: dw f + w f' dx, and f'(x0) dx0."""
    points, weights = jnp.asarray(x), jnp.asarray(w)

    def energy(f, points, weights, x0):
        g = at(f, x0)
        return integrate(f, quadrature=(points, weights)) * g()

    dp, dw, dx = jnp.cos(points), jnp.sin(weights), 0.7
    derivative = jvp(energy, (f, points, weights, R), (d, dp, dw, dx))[1]
    h = 1e-5
    shift = lambda s: energy(f + s * d, points + s * dp, weights + s * dw, R + s * dx)
    assert derivative == approx((shift(h) - shift(-h)) / (2 * h), rel=1e-9)

    def later(a):  # the same, with the dependence inside the returned Function
        return integrate(f * constant(a, X), quadrature=(points * a, weights)) * d

    moved = jvp(later, (1.2,), (1.0,))[1](R)
    assert moved == approx((later(1.2 + h)(R) - later(1.2 - h)(R)) / (2 * h), rel=1e-9)


def test_vjp_of_an_operator_is_its_transposed_derivative():
    """<ct, dO(d)> = <O^T ct, d> for O = f -> exp(f) f."""
    value, pull = vjp(lambda f: exp(f) * f, f)
    (back,) = pull(d)
    assert value(R) == approx(jnp.exp(f(R)) * f(R))
    forward = jvp(lambda f: exp(f) * f, (f,), (d,))[1]
    assert integrate(back * d) == approx(integrate(forward * d), rel=1e-13)


def test_vjp_of_operators_that_pass_through_numbers():
    """f / |f|, functionals with arrays as values, and array arguments go through the pairing <ct, O(f)>."""

    def unit(f):
        return f / jnp.sqrt(integrate(f * f))

    (back,) = vjp(unit, f)[1](d)
    forward = jvp(unit, (f,), (d,))[1]
    assert integrate(back * d) == approx(integrate(forward * d), rel=1e-12)

    def moments(f, a):
        return jnp.stack([integrate(f) * a, integrate(f * f)])

    value, pull = vjp(moments, f, 2.0)
    df, da = pull(jnp.array([1.0, 3.0]))
    assert df(R) == approx(2.0 + 6 * f(R)) and da == approx(integrate(f))


def test_linearize_and_linear_transpose():
    """linearize(O, f) is a linear map of tangents; linear_transpose(nabla, f) is -div."""
    value, linear = linearize(FUNCTIONALS["normalised"], f)
    assert linear(d) == approx(jvp(FUNCTIONALS["normalised"], (f,), (d,))[1])
    (back,) = linear_transpose(nabla, f)(d)
    assert back(R) == approx(np.exp(-R))
    (weights,) = linear_transpose(lambda f: integrate(f * d), f)(jnp.asarray(2.0))
    assert weights(R) == approx(2 * np.exp(-R))
    for nonlinear in (exp, lambda f: f + 1.0, lambda f: integrate(f * f)):
        with pytest.raises(SignatureError, match="not linear"):
            linear_transpose(nonlinear, f)


def test_jacobians():
    """jacrev of a vector-valued functional is a vector-valued function; jacfwd takes arrays, to functions too."""
    J = jacrev(lambda f: jnp.stack([integrate(f * f), integrate(f * d)]))(f)
    np.testing.assert_allclose(J(R), [2 * f(R), d(R)])
    K = jacfwd(lambda a: exp(f * a[0]) * a[1])(jnp.array([0.5, 2.0]))
    e = np.exp(0.5 * f(R))
    np.testing.assert_allclose(K(R), [2 * e * f(R), e])
    np.testing.assert_allclose(
        jacfwd(lambda a: integrate(f) * a**2)(jnp.array([1.0, 2.0])), np.diag([2.0, 4.0]) * float(integrate(f))
    )
    with pytest.raises(SignatureError, match="infinitely many"):
        jacfwd(FUNCTIONALS["local"])(f)


MODES = ("forward-over-reverse", "reverse-over-forward", "reverse-over-reverse")
ALL = [(name, mode) for name in FUNCTIONALS if name not in ("gradient", "quadrature as arrays") for mode in MODES]


@pytest.mark.parametrize(("name", "mode"), sample(ALL, at=range(0, len(ALL), 4)))  # each name, each mode
def test_three_ways_to_a_hessian_vector_product(name, mode):
    """Each agrees with the finite difference of the gradient, scalar feedback included."""
    E, h = FUNCTIONALS[name], 1e-5
    expected = (grad(E)(f + h * d)(R) - grad(E)(f - h * d)(R)) / (2 * h)
    assert hvp(E, f, d, mode)(R) == approx(expected, rel=1e-7)


def test_branches_on_values_are_followed():
    """if integrate(f) > 0 is allowed outside jit; the gradient is that of the branch taken."""

    def E(f):
        return integrate(f * f) if integrate(f) > 0 else integrate(f)

    assert grad(E)(f)(R) == approx(2 * f(R))
    assert grad(E)(-f)(R) == approx(1.0)
    assert hvp(E, f, d)(R) == approx(2 * d(R))


# ---- errors


def test_python_numbers_made_of_values_are_refused():
    """float(integrate(f)) would hide the dependence on f."""
    with pytest.raises(LeakError, match="Python number"):
        grad(lambda f: integrate(f) * float(integrate(f)))(f)


def test_results_of_the_wrong_kind():
    """Functionals return real scalars."""
    with pytest.raises(SignatureError, match="integrate it"):
        grad(lambda f: f * f)(f)
    with pytest.raises(SignatureError, match="real scalar"):
        grad(lambda f: jnp.stack([integrate(f)] * 2))(f)
    with pytest.raises(SignatureError, match="real scalar"):
        grad(lambda f: integrate(f * 1j))(f)
    with pytest.raises(SignatureError, match="auxiliary"):
        grad(integrate, has_aux=True)(f)


def test_arguments_of_the_wrong_kind():
    """Integer arrays, missing arguments, tangents of another type."""
    with pytest.raises(SignatureError, match="int64"):
        grad(lambda a: a * 1.0)(jnp.arange(3))
    with pytest.raises(SignatureError, match="argnums"):
        grad(integrate, argnums=1)(f)
    with pytest.raises(SignatureError, match="structure"):
        jvp(integrate, (f,), (d, d))
    with pytest.raises(SignatureError, match="tuples"):
        jvp(integrate, f, d)
    with pytest.raises(SignatureError, match="type"):
        jvp(integrate, (f,), (compose(lambda v: jnp.stack([v, v]), f),))
    with pytest.raises(SignatureError, match="different domains"):
        jvp(integrate, (f,), (function(jnp.sin, unit_interval(name="y")),))
    with pytest.raises(SignatureError, match="cotangent"):
        vjp(exp, f)[1](jnp.asarray(1.0))


def test_a_functional_runs_once():
    """For a gradient, a derivative along a direction, any number of pulls and pushes, and second derivatives."""
    calls = []

    def E(f):
        calls.append(1)
        return integrate(f * f) * integrate(exp(f))

    def runs(code):
        calls.clear()
        code()
        return len(calls)

    assert runs(lambda: grad(E)(f)) == runs(lambda: jvp(E, (f,), (d,))) == runs(lambda: hvp(E, f, d)) == 1
    assert runs(lambda: hvp(E, f, d, "reverse-over-reverse")) == 1
    assert runs(lambda: [vjp(E, f)[1](c) for c in (1.0,)]) == 1
    pull, push = vjp(E, f)[1], linearize(E, f)[1]
    assert runs(lambda: [pull(c) for c in (1.0, 2.0)] + [push(g) for g in (d, f)]) == 0
    assert push(d) == approx(jvp(E, (f,), (d,))[1]) == approx(integrate(pull(1.0)[0] * d))


# ---- JAX's transformations around and inside


def family(a):
    return function(lambda a, x: a[0] * jnp.sin(a[1] * x) + 1.5, X, params=(a,))


A = jnp.array([1.0, 3.0])


def test_functions_and_gradients_cross_jit_vmap_scan_and_checkpoint():
    """Everything agrees with the plain loop."""
    E = FUNCTIONALS["normalised"]
    v = lambda a: grad(E)(family(a))(R)
    many = jnp.stack([A, 2 * A, A - 0.5])
    expected = np.array([v(a) for a in many])
    np.testing.assert_allclose(jax.jit(v)(A), expected[0], rtol=1e-13)
    for mapped in (jax.vmap(v), lambda many: jax.lax.scan(lambda c, a: (c + 1, v(a)), 0, many)[1]):
        np.testing.assert_allclose(jax.jit(mapped)(many), expected, rtol=1e-12)
    slope = jax.grad(v)(A)
    h, e = 1e-5, jnp.array([1.0, -2.0])
    assert jnp.dot(slope, e) == approx((v(A + h * e) - v(A - h * e)) / (2 * h), rel=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(jax.checkpoint(v)))(A), slope, rtol=1e-12)


def test_functions_are_arguments_and_results_of_jit():
    """jit(E)(f), jit(grad(E))(f) and a scan that carries a function."""
    E = FUNCTIONALS["product of integrals"]
    assert jax.jit(E)(family(A)) == approx(E(family(A)), rel=1e-14)
    assert jax.jit(E)(f) == approx(E(f), rel=1e-14)
    gradient = jax.jit(grad(E))(family(A))
    assert gradient(R) == approx(grad(E)(family(A))(R), rel=1e-14)
    assert jax.jit(grad(E))(f)(R) == approx(grad(E)(f)(R), rel=1e-14)

    of_arrays = lambda p: E(p.function)

    def step(p, _):
        return jax.tree_util.tree_map(lambda p, q: p - 0.01 * q, p, jax.grad(of_arrays)(p)), of_arrays(p)

    energies = jax.lax.scan(step, as_pytree(family(A)), None, length=4)[1]
    assert np.all(np.diff(energies) < 0)
    families = jax.vmap(lambda a: as_pytree(family(a)))(jnp.stack([A, 2 * A]))
    np.testing.assert_allclose(jax.vmap(of_arrays)(families)[0], E(family(A)), rtol=1e-13)


def test_recreated_lambdas_do_not_retrace():
    """A functional that makes its lambdas anew in each call is traced once."""
    traces = []

    def energy(a, shift):
        g = function(lambda a, x: a[0] * jnp.sin(a[1] * x) + shift, X, params=(a,))
        return g

    @jax.jit
    def E(g):
        traces.append(1)
        return integrate(compose(lambda v: v**2, g))

    assert E(energy(A, 1.5)) != E(energy(2 * A, 1.5))
    assert len(traces) == 1
    E(energy(A, 2.5))  # another closed-over number is another program
    assert len(traces) == 2


@pytest.mark.parametrize(
    "inside",
    [
        lambda f: jnp.sum(jax.vmap(f)(jnp.asarray(x))),
        lambda f: jax.jit(lambda: f(R))(),
        lambda f: jax.lax.scan(lambda c, x: (c + f(x), None), 0.0, jnp.asarray(x))[0],
        lambda f: jax.lax.fori_loop(0, 3, lambda i, c: c + f(R), 0.0),
        lambda f: jax.lax.cond(True, lambda: f(R), lambda: 0.0),
        lambda f: jax.grad(lambda r: f(r))(R),
        lambda f: integrate(function(lambda x: f(x) ** 2, X)),
        lambda f: integrate(compose(lambda v: v * f(R), f)),
        lambda f: jax.jit(integrate)(f),
    ],
)
@pytest.mark.parametrize("transform", [grad, lambda E: lambda f: jvp(E, (f,), (d,))])
def test_loops_over_a_differentiated_function_are_refused(inside, transform):
    """vmap, jit, scan, cond, array derivatives and closures inside a functional would lose the derivative."""
    with pytest.raises(LeakError):
        transform(inside)(f)


def test_loops_over_other_functions_inside_are_fine():
    """The same constructs on functions that are not being differentiated."""
    E = lambda f: integrate(f * f) * jnp.sum(jax.vmap(d)(jnp.asarray(x))) * jax.jit(integrate)(d)
    scale = np.sum(np.exp(-x)) * float(integrate(d))
    assert grad(E)(f)(R) == approx(2 * f(R) * scale, rel=1e-13)


def test_leaked_functions_are_noticed():
    """A function stored by the functional is useless afterwards."""
    kept = []

    def E(f):
        kept.append(f)
        return integrate(f)

    grad(E)(f)
    with pytest.raises(LeakError, match="ended"):
        kept[-1](R)
    with pytest.raises(LeakError, match="ended"):
        integrate(kept[0] * f)
