"""Code that reads what may change, and derivatives taken across nested transformations: never silently wrong.

Expected values are worked out by hand or by differentiating the same expression written with arrays alone.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd import autofd
from dftfd.autofd import function, integrate
from dftfd.errors import LeakError, SignatureError
from tests.compilations import traces

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
X = autofd.Domain((), points=(NODES + 1) / 2, weights=WEIGHTS / 2, name="x")
f = function(lambda x: jnp.sin(3.0 * x) + 1.5, X)

settings = types.ModuleType("settings")
module_variable = 1.0


class Scaled:
    """A callable object with state; the class has some, too."""

    factor = 1.0

    def __call__(self, x):
        return self.factor * x


def _object():
    state = Scaled()
    return state, "factor", lambda: function(lambda x: state.factor * x, X)


def _callable():
    state = Scaled()
    return state, "factor", lambda: function(state, X)


def _method():
    state = Scaled()
    return state, "factor", lambda: function(state.__call__, X)


def _class():
    return Scaled, "factor", lambda: function(Scaled(), X)


def _module():
    settings.factor = 1.0
    return settings, "factor", lambda: function(lambda x: settings.factor * x, X)


@pytest.mark.parametrize("holder", [_object, _callable, _method, _class, _module])
def test_code_made_after_a_change_sees_it_and_code_made_before_does_not(holder, monkeypatch):
    """Equal code, another state: the value at 1/2 is half the factor that was there when the function was made."""
    state, name, make = holder()
    before = make()
    assert float(before(0.5)) == 0.5
    monkeypatch.setattr(state, name, 3.0)
    assert float(make()(0.5)) == 1.5
    assert float(before(0.5)) == 0.5


def test_module_variables(monkeypatch):
    """The same for a variable of the module that a helper of the code reads."""
    helper = lambda x: module_variable * x
    make = lambda: function(lambda x: helper(x), X)
    assert float(make()(0.5)) == 0.5
    monkeypatch.setitem(globals(), "module_variable", 4.0)
    assert float(make()(0.5)) == 2.0


@pytest.mark.parametrize("size", [3, 2000])
def test_numpy_arrays_that_change_in_place(size):
    """The content counts, not the array; small ones and large ones."""
    factors = np.ones(size)
    make = lambda: function(lambda x: factors[0] * x, X)
    before = make()
    factors[0] = 2.0
    assert float(make()(0.5)) == 1.0
    assert float(before(0.5)) == 0.5


def test_lambdas_made_in_a_loop():
    """int x^k dx = 1 / (k + 1), also where an earlier lambda's memory is used again."""
    for k in range(15):
        assert float(integrate(function(lambda x, k=k: x**k, X))) == pytest.approx(1 / (k + 1), rel=1e-13)


def energy(f):
    """A functional with scalar feedback."""
    return integrate(autofd.exp(f) * f) * integrate(f * f)


def test_values_taken_past_a_transformation_are_refused():
    """f.evaluate(x) would have derivative zero; f(x) has the right one, 2 f(x) d(x)."""
    with pytest.raises(LeakError, match=r"f\.evaluate"):
        autofd.grad(lambda f: f.evaluate(0.3) ** 2)(f)
    with pytest.raises(LeakError):
        autofd.grad(lambda f: jnp.sum(jax.vmap(f.evaluate)(jnp.array([0.1, 0.3]))))(f)
    d = function(lambda x: jnp.exp(-x), X)
    assert float(autofd.jvp(lambda f: f(0.3) ** 2, (f,), (d,))[1]) == pytest.approx(
        2 * float(f(0.3)) * np.exp(-0.3), rel=1e-14
    )


def test_numpy_values_inside_a_gradient_are_refused():
    """np.asarray would cut the derivative off."""
    with pytest.raises(LeakError, match="NumPy array"):
        autofd.grad(lambda f: integrate(f * f) * np.asarray(integrate(f)))(f)


def test_transformations_between_the_two_doors():
    """jax.grad of autofd.grad of jax.grad is the third derivative or a LeakError, but not zero."""
    direction = function(lambda x: jnp.exp(-x), X)
    third = float(jax.jit(lambda: autofd.taylor(energy, (f,), (direction,), 3)[3])())
    along = lambda t: energy(f + t * direction)
    expected = float(jax.jit(jax.grad(jax.grad(jax.grad(along))))(0.0))
    assert third == pytest.approx(expected, rel=1e-12)
    slope = lambda grad, functional: lambda f: integrate(grad(functional)(f) * direction)
    nested = slope(jax.grad, slope(autofd.grad, slope(jax.grad, energy)))
    with pytest.raises(LeakError):
        nested(f)
    found = jax.jit(
        lambda: [
            *(slope(grad, slope(grad, slope(grad, energy)))(f) for grad in (jax.grad, autofd.grad)),
            autofd.taylor(slope(jax.grad, energy), (f,), (direction,), 2)[2],
        ]
    )()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_an_argument_named_twice_is_refused():
    """argnums=(1, 1) and (1, -1) would split the derivative."""
    product = lambda f, g: integrate(f * g)
    for argnums in ((1, 1), (1, -1)):
        with pytest.raises(SignatureError, match="twice"):
            autofd.grad(product, argnums=argnums)(f, f)


def test_the_same_arithmetic_is_traced_once():
    """Sums, products and elementary functions of values of one kind ask JAX once; values of another kind ask again."""
    seven = lambda code: function(lambda x: code(x) * jnp.ones(7), X)
    g, h = seven(jnp.sin), seven(jnp.cos)
    arithmetic = lambda f: autofd.exp(f * f + 2.0) / f - 0.5
    with traces() as first:
        arithmetic(g)
    with traces() as again:
        arithmetic(h)
    assert first and not again
    assert (h * 2.0).dtype == jnp.float64 and (h * 2.0j).dtype == jnp.complex128
    assert autofd.integrate(h * 2.0j).dtype == jnp.complex128
    single = function(lambda x: jnp.float32(2.0) * jnp.ones(7, jnp.float32), X)
    assert (single * 2.0).dtype == jnp.float32 and (single * single).dtype == jnp.float32
    np.testing.assert_allclose(arithmetic(h)(0.4), np.exp(np.cos(0.4) ** 2 + 2) / np.cos(0.4) - 0.5 * np.ones(7))
