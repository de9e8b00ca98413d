"""What docs/autofd.md lists as refused ends in these errors, when the graph is built or the derivative is taken."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd.autofd as fd
from dftfd.autofd.transforms.jax_syntax import NotAnArrayError
from dftfd.errors import LeakError, NoRuleError, QuadratureError, SignatureError

pytestmark = pytest.mark.slow  # 10 s; quick tests of test_autofd_* have some of these

nodes, weights = np.polynomial.legendre.leggauss(40)
X = fd.Domain((), points=(nodes + 1) / 2, weights=weights / 2, ends=(0.0, 1.0), name="x")
Y = fd.Domain((), name="y")
f = fd.function(lambda x: jnp.sin(3 * x) + 1.5, X)
df = fd.function(lambda x: jnp.exp(-x), X)
x0 = 0.3


def E(f):
    return fd.integrate(fd.exp(f) * f) * fd.integrate(f * f)


def family(a):
    return fd.function(lambda a, x: a * jnp.sin(x) + 1.5, X, params=(a,))


def delta():
    """A Dirac distribution."""
    return fd.grad(lambda f: f(x0) ** 2)(f)


def many(f):
    """A function with a hundred parameters that depend on f."""
    return fd.function(lambda t, x: jnp.sum(t) * x, X, params=(fd.integrate(f) * jnp.ones(100),))


HIDDEN = {
    "values in a loop": lambda: fd.grad(lambda f: jnp.sum(jax.vmap(f)(jnp.linspace(0, 1, 5))))(f),
    "compiled inside": lambda: fd.grad(lambda f: jax.jit(fd.integrate)(f))(f),
    "in a closure": lambda: fd.grad(lambda f: fd.integrate(fd.function(lambda x: f(x) ** 2, X)))(f),
    "as a float": lambda: fd.grad(lambda f: fd.integrate(f) * float(fd.integrate(f)))(f),
    "JAX's gradient inside": lambda: fd.grad(lambda f: fd.integrate(jax.grad(E)(f) * df))(f),
    "jit in JAX's gradient": lambda: jax.grad(jax.jit(E))(f),
    "vmap in JAX's gradient": lambda: jax.grad(lambda f: jnp.sum(jax.vmap(f)(jnp.linspace(0, 1, 5))))(f),
    "a loop in JAX's gradient": lambda: jax.grad(lambda f: jax.lax.fori_loop(0, 3, lambda i, c: c + f(x0), 0.0))(f),
    "checkpoint in JAX's gradient": lambda: jax.grad(jax.checkpoint(E))(f),
    "functions of traced arrays through jit": lambda: jax.grad(lambda a: jax.jit(E)(family(a)))(0.8),
    "functions out of vmap": lambda: jax.vmap(family)(jnp.array([0.8, 1.0])),
    "functions out of jacfwd": lambda: jax.jacfwd(family)(0.8),
}
NO_RULE = {
    "a Dirac distribution at a point": lambda: delta()(0.5),
    "its square": lambda: fd.integrate(delta() * delta()),
    "no inverse": lambda: fd.grad(lambda f: fd.integrate(f(fd.sin(3.0 * fd.identity(X)) / 2.0 + 0.5)))(f)(0.7),
    "outside of its space": lambda: fd.grad(lambda f: fd.integrate(f(2.0 * fd.identity(X) - 1.0)))(f),
    "linearize without a quadrature": lambda: fd.vjp(lambda f: fd.linearize(f), f)[1](fd.linearize(df)),
    "many parameters": lambda: fd.hvp(lambda f: fd.integrate(f * many(f)), f, df),
}
MEASURES = {
    "another measure": lambda: fd.grad(lambda f: fd.integrate(f * f, quadrature=(X.points / 2, X.weights / 2)))(f),
    "weights that are NaN": lambda: fd.integrate(f, quadrature=(X.points, X.weights * jnp.nan)),
    "ends that do not fit": lambda: fd.Domain((), points=X.points, weights=X.weights, ends=(0.0, 2.0)),
    "no quadrature": lambda: fd.integrate(fd.function(jnp.sin, Y)),
}
TYPES = {
    "two spaces": lambda: f + fd.function(jnp.sin, Y),
    "two arguments": lambda: f(0.1, 0.2),
    "integers": lambda: fd.Domain((), np.int64),
    "transpose of a function that is not linear": lambda: fd.linear_transpose(f),
    "transpose of a square": lambda: fd.linear_transpose(lambda f: f * fd.integrate(f), f),
    "an array's function": lambda: jnp.exp(f),
    "jacfwd over functions": lambda: fd.jacfwd(E)(f),
    "jacfwd of complex numbers": lambda: fd.jacfwd(lambda z: z * z)(jnp.array(1.0 + 2.0j)),
    "JAX's transpose of what is not linear": lambda: jax.linear_transpose(fd.exp, f)(df),
}
LEAVES = {"jax.jacfwd": lambda: jax.jacfwd(E)(f), "jax.hessian": lambda: jax.hessian(E)(f)}


@pytest.mark.parametrize(
    "error, call",
    [
        pytest.param(error, call, id=name)
        for error, cases in (
            (LeakError, HIDDEN),
            (NoRuleError, NO_RULE),
            (QuadratureError, MEASURES),
            (SignatureError, TYPES),
            (NotAnArrayError, LEAVES),
        )
        for name, call in cases.items()
    ],
)
def test_what_the_page_lists_is_refused(error, call):
    with pytest.raises(error):
        call()
