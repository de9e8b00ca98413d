"""Operators evaluated, and their errors: typed, when the graph is built, naming the operands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd.autofd as o
from dftfd.autofd import (
    Domain,
    at,
    braket,
    broadcast,
    compose,
    constant,
    divergence,
    function,
    grad,
    identity,
    integrate,
    invoke,
    item,
    laplacian,
    linearize,
    nabla,
    partial,
    permute,
    split,
    vjp,
    zip_functions,
)
from dftfd.errors import QuadratureError, SignatureError

_x, _w = np.polynomial.legendre.leggauss(20)
X = Domain((), points=(_x + 1) / 2, weights=_w / 2, name="x")
Y = Domain((), points=(_x + 1) / 2, weights=_w / 2, name="y")
R3 = Domain((3,), name="r")
f = function(jnp.sin, X)
g = function(lambda y: jnp.exp(-y), Y)
k = function(lambda x, y: jnp.sin(x) * jnp.exp(-y), X, Y)
r = jnp.array([0.3, -0.2, 0.5])


def approx(expected, rel=1e-12):
    """pytest.approx of a JAX scalar."""
    return pytest.approx(float(expected), rel=rel)


# ---- values


def test_compose_with_shared_and_separate_inputs():
    """f(g(x), h(x)) and f(g(x), h(y)); numbers and arrays are constants."""
    assert compose(lambda a, b: a - b, f, f * 2.0)(0.3) == approx(-np.sin(0.3))
    apart = compose(lambda a, b: a - b, f, g, share_inputs=False)
    assert apart.domains == (X, Y) and apart(0.3, 0.4) == approx(np.sin(0.3) - np.exp(-0.4))
    assert compose(lambda a, b, c: a * b + c, k, 2.0, g, share_inputs=False)(0.1, 0.2, 0.3) == approx(
        2 * k(0.1, 0.2) + g(0.3)
    )
    assert compose(lambda a, b: a + b, f, 2.0)(0.3) == approx(np.sin(0.3) + 2)
    assert f(f)(0.3) == approx(np.sin(np.sin(0.3)))


def test_derivatives_of_every_argument_in_both_modes():
    """nabla, divergence, laplacian against closed forms; axes of the argument come last."""
    for mode in ("forward", "reverse"):
        assert nabla(k, 1, mode)(0.3, 0.4) == approx(-k(0.3, 0.4))
    gaussian = function(lambda r: jnp.exp(-jnp.sum(r**2)), R3)
    np.testing.assert_allclose(nabla(gaussian)(r), -2 * r * gaussian(r))
    assert laplacian(gaussian)(r) == approx((4 * jnp.sum(r**2) - 6) * gaussian(r))
    assert divergence(function(lambda r: r * r[0], R3))(r) == approx(4 * r[0])
    tensor = function(lambda r: jnp.stack([r, 2 * r]), R3)
    assert nabla(tensor).shape == (2, 3, 3)
    np.testing.assert_allclose(divergence(tensor)(r), [3.0, 6.0])


def test_linearize_of_several_arguments():
    """sum_i d_i k dy_i."""
    L = linearize(k, (0, 1))
    assert L(0.3, 0.4, 2.0, 5.0) == approx(2 * jnp.cos(0.3) * jnp.exp(-0.4) - 5 * k(0.3, 0.4))
    assert linearize(k, 1)(0.3, 0.4, 5.0) == approx(-5 * k(0.3, 0.4))


def test_integrals_of_some_arguments():
    """Products of one-dimensional integrals."""
    I, J = 1 - np.cos(1.0), 1 - np.exp(-1.0)
    assert integrate(k) == approx(I * J)
    assert integrate(k, 0)(0.4) == approx(I * np.exp(-0.4))
    assert integrate(k, (1,))(0.4) == approx(J * np.sin(0.4))
    assert integrate(integrate(k, 0)) == approx(I * J)


def test_rearrangements():
    """broadcast, permute, partial, zip, split, item."""
    assert broadcast(f, (Y, X), (1,))(0.1, 0.2) == approx(np.sin(0.2))
    three = function(lambda x, y, z: x + 10 * y + 100 * z, X, Y, X)
    assert permute(three, (2, 0, 1))(0.3, 0.1, 0.2) == approx(three(0.1, 0.2, 0.3))
    assert partial(three, (0, 2), (0.1, 0.3))(0.2) == approx(three(0.1, 0.2, 0.3))
    assert partial(three, 1, 0.2)(0.1, 0.3) == approx(three(0.1, 0.2, 0.3))
    assert at(three, 0.1, 0.2, 0.3)() == approx(invoke(three, 0.1, 0.2, 0.3))
    both = zip_functions(f, 2.0 * f)
    assert both(0.3) == (f(0.3), 2 * f(0.3))
    first, second = split(both)
    assert second(0.3) == approx(2 * first(0.3)) and item(both, 1)(0.3) == second(0.3)


def test_integral_transforms():
    """k @ f is an integral over the shared argument; values multiply like matrices."""
    assert (k @ g)(0.3) == approx(np.sin(0.3) * (1 - np.exp(-2.0)) / 2)
    kk = k @ permute(k, (1, 0))
    assert kk.domains == (X, X) and kk(0.3, 0.5) == approx(np.sin(0.3) * np.sin(0.5) * (1 - np.exp(-2.0)) / 2)
    matrix = function(lambda x, y: jnp.array([[1.0, 2.0], [0.0, 1.0]]) * x * y, X, Y)
    vector = function(lambda y: jnp.stack([y, jnp.ones_like(y)]), Y)
    np.testing.assert_allclose((matrix @ vector)(0.5), 0.5 * np.array([1 / 3 + 1.0, 0.5]))
    assert (g @ g) == approx((1 - np.exp(-2.0)) / 2)


def test_braket_of_complex_functions():
    """<l|r> is conjugated on the left; its gradient follows JAX's convention dE = Re int v df."""
    psi = function(lambda x: jax.lax.complex(jnp.cos(x), jnp.sin(2 * x)), X)
    chi = function(lambda x: jax.lax.complex(x, 1.0 - x), X)
    x, w = (_x + 1) / 2, _w / 2
    p, c = np.cos(x) + 1j * np.sin(2 * x), x + 1j * (1 - x)
    assert complex(braket(psi, chi)) == pytest.approx(np.sum(w * p.conj() * c))
    assert braket(psi, chi, real=True) == approx(np.sum(w * p.conj() * c).real)
    E = lambda p: braket(nabla(p), nabla(p), real=True) + 0.5 * braket(p, p, real=True) ** 2
    potential = lambda p: braket(p, p, real=True) ** 2
    v = grad(potential)(psi)
    assert complex(v(0.3)) == pytest.approx(4 * float(braket(psi, psi, real=True)) * complex(psi(0.3)).conjugate())
    h, bump = 1e-5, function(lambda x: jax.lax.complex((x * (1 - x)) ** 2, 2.0 * (x * (1 - x)) ** 3), X)
    assert jnp.real(integrate(grad(E)(psi) * bump)) == approx(
        (E(psi + h * bump) - E(psi - h * bump)) / (2 * h), rel=1e-8
    )


def test_values_may_be_trees_and_tensors():
    """Arithmetic goes leaf by leaf; a scalar function multiplies every leaf."""
    tree = function(lambda x: {"a": x, "b": jnp.stack([x, x**2])}, X)
    total = (tree + tree) * 3.0 / f
    assert total(0.5)["a"] == approx(3.0 / np.sin(0.5))
    np.testing.assert_allclose((f * tree)(0.5)["b"], np.sin(0.5) * np.array([0.5, 0.25]))
    np.testing.assert_allclose(integrate(tree)["b"], [0.5, 1 / 3])
    E = lambda t: integrate(item(t, "a") * item(t, "b")[0])
    np.testing.assert_allclose(grad(E)(tree)(0.5)["b"], [0.5, 0.0])


def test_elementary_functions_are_those_of_jax():
    """Each lifted function equals its counterpart on arrays; derivatives come with it."""
    positive = function(lambda x: 0.5 * x + 0.3, X)
    names = "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh".split()
    networks = "sigmoid softplus silu gelu elu relu".split()
    codes = {name: getattr(jnp, name) for name in names} | {name: getattr(jax.nn, name) for name in networks}
    lifted = {name: getattr(o, name)(positive) for name in codes}
    found, expected = jax.jit(
        lambda: (
            [(f(0.4), nabla(f)(0.4)) for f in lifted.values()],
            [(code(0.5), 0.5 * jax.grad(code)(0.5)) for code in codes.values()],
        )
    )()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert o.arctan2(positive, f)(0.4) == approx(np.arctan2(0.5, np.sin(0.4)))
    assert o.cbrt(positive)(0.4) == approx(np.cbrt(0.5), rel=1e-15)
    assert o.exp(0.5) == approx(np.exp(0.5))  # arrays pass


def test_arithmetic_with_numbers_and_arrays():
    """Numbers on either side, arrays as constants, powers."""
    assert (2 - f)(0.3) == approx(2 - np.sin(0.3)) and (2 / f)(0.3) == approx(2 / np.sin(0.3))
    assert (2.0**f)(0.3) == approx(2 ** np.sin(0.3)) and (f ** (1 / 3))(0.3) == approx(np.sin(0.3) ** (1 / 3))
    assert (np.float64(2.0) * f)(0.3) == approx(2 * np.sin(0.3))
    np.testing.assert_allclose((f * jnp.array([1.0, 2.0]))(0.3), np.sin(0.3) * np.array([1, 2]))
    assert (+f) is f and abs(-f)(0.3) == approx(np.sin(0.3))
    assert constant(2, X)(0.1) == 2.0 and identity(X)(0.7) == 0.7
    wave = f * 1j + 2.0
    assert complex(wave(0.3)) == pytest.approx(2 + 1j * np.sin(0.3))
    assert complex((wave * f)(0.3)) == pytest.approx((2 + 1j * np.sin(0.3)) * np.sin(0.3))


def test_a_function_is_what_it_was_when_it_was_made():
    """Names that code closes over may be bound anew later; module variables are read again for new Functions."""
    a = 2.0
    h = function(lambda x: a * x, X)
    assert h(0.5) == 1.0
    a = 3.0
    assert h(0.5) == 1.0
    assert function(lambda x: a * x, X)(0.5) == 1.5
    values = []
    for scale in (2.0, 3.0):
        globals()["_SCALE"] = scale
        values.append(float(function(lambda x: _SCALE * x, X)(0.5)))  # noqa: F821
    assert values == [1.0, 1.5]


# ---- errors


def test_mismatched_domains():
    """Equal shapes are not equal spaces."""
    with pytest.raises(SignatureError, match="add of functions on different domains.*x:.*y:"):
        f + g
    with pytest.raises(SignatureError, match="compose of functions on different domains"):
        compose(lambda a, b: a + b, f, k)
    with pytest.raises(SignatureError, match="not the first"):
        k @ f
    with pytest.raises(SignatureError, match="domain of"):
        broadcast(f, (Y, X), (0,))
    with pytest.raises(SignatureError, match="braket"):
        braket(f, g)
    with pytest.raises(SignatureError, match="directions"):
        linearize(f, 0, R3)


def test_wrong_arity_shape_and_dtype_of_points():
    """Calls are checked against the signature."""
    with pytest.raises(SignatureError, match="takes 2 argument"):
        k(0.1)
    with pytest.raises(SignatureError, match="jax.vmap"):
        f(jnp.ones(4))
    with pytest.raises(SignatureError, match=r"shape \(2,\), \(3,\) expected"):
        function(jnp.sum, R3)(jnp.ones(2))
    with pytest.raises(SignatureError, match="complex128"):
        f(1.0j)
    assert f(1) == approx(np.sin(1.0))  # integers are numbers


def test_wrong_compositions_and_arrangements():
    """Each operator names what does not fit."""
    with pytest.raises(SignatureError, match="takes 2 argument"):
        compose(k, f)
    with pytest.raises(SignatureError, match=r"takes float64\[3\].*returns float64\[\]"):
        compose(function(jnp.sum, R3), f)
    with pytest.raises(SignatureError, match="at least one inner Function"):
        compose(jnp.sin, 0.3)
    with pytest.raises(SignatureError, match="not a permutation"):
        permute(k, (0, 0))
    with pytest.raises(SignatureError, match="argnums"):
        integrate(f, 1)
    with pytest.raises(SignatureError, match="argnum 2"):
        nabla(k, 2)
    with pytest.raises(SignatureError, match="mode"):
        nabla(f, mode="sideways")
    with pytest.raises(SignatureError, match="must end with the axes"):
        divergence(function(jnp.sum, R3))
    with pytest.raises(SignatureError, match="takes float64"):
        partial(k, 0, jnp.ones(2))
    with pytest.raises(SignatureError, match="value\\(s\\) for the arguments"):
        partial(k, (0, 0), (0.1, 0.2))
    with pytest.raises(SignatureError, match="tuple-valued"):
        split(f)
    with pytest.raises(SignatureError, match="different shape"):
        f * jnp.ones(2) + f * jnp.ones(3)
    with pytest.raises(SignatureError, match="Function, number or array"):
        f + "x"
    with pytest.raises(SignatureError, match="Function expected on the right"):
        k @ 2.0
    with pytest.raises(SignatureError, match="truth value"):
        bool(f)
    with pytest.raises(SignatureError, match="iterated"):
        list(f)
    for operator in (nabla, integrate, linearize):
        with pytest.raises((SignatureError, TypeError)):
            operator(2.0)


def test_missing_quadrature():
    """Integrals over spaces without a measure, and transposes that would need one."""
    bare = Domain((), name="bare")
    h = function(jnp.sin, bare)
    with pytest.raises(QuadratureError, match="bare.*has no quadrature"):
        integrate(h)
    with pytest.raises(QuadratureError, match="bare"):
        vjp(lambda f: broadcast(f, (X, bare), (0,)), f)[1](function(lambda x, y: x * y, X, bare))
    assert integrate(h, quadrature=(jnp.array([0.5]), jnp.array([2.0]))) == approx(2 * np.sin(0.5))
    with pytest.raises(QuadratureError, match="do not fit"):
        integrate(h, quadrature=(jnp.ones((4, 3)), jnp.ones(4)))
    with pytest.raises(QuadratureError, match="both points and weights"):
        Domain((), points=_x)
    with pytest.raises(QuadratureError, match="expected"):
        Domain((3,), points=_x, weights=_w)
    with pytest.raises(QuadratureError, match="inside a JAX transformation"):
        jax.jit(lambda w: integrate(function(jnp.sin, Domain((), points=_x, weights=w))))(_w)


def test_integers_and_other_types():
    """Functions and spaces are float or complex."""
    with pytest.raises(SignatureError, match="int64"):
        Domain((), np.int64)
    with pytest.raises(SignatureError, match="bool"):
        function(lambda x: x > 0.5, X)
    with pytest.raises(SignatureError, match="not a Domain"):
        function(jnp.sin, 3)
    with pytest.raises(SignatureError, match="complex"):
        nabla(function(jnp.sin, Domain((), np.complex128)))
    with pytest.raises(SignatureError, match="forward"):
        nabla(f * 1j, mode="reverse")
    tree = Domain(spec={"a": jax.ShapeDtypeStruct((), np.float64)})
    with pytest.raises(SignatureError, match="tree"):
        nabla(function(lambda p: p["a"], tree))
    with pytest.raises(QuadratureError, match="trees"):
        Domain(spec=tree.spec, points=_x, weights=_w)
