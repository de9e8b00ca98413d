"""Formulas of functional derivatives: against SymPy's Euler-Lagrange equations and known results."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from sympy.calculus.euler import euler_equations
from sympy.core.function import AppliedUndef

from dftfd import autofd
from dftfd.errors import MissingDependencyError, NotSemilocalError, SignatureError, UnsupportedError
from tests.sample import sample

X = autofd.Domain(name="x", grid_later=True)
R2 = autofd.Domain((2,), name="r", grid_later=True)
R3 = autofd.Domain((3,), name="r", grid_later=True)
x, y, z = sympy.symbols("x y z", real=True)


def square(n):
    return autofd.dot(n, n)


# name: (space, Lagrangian on functions, the same on SymPy: L(u, du, d2u, x), du and d2u for 1-D, gradient for 3-D)
LINES = {
    "oscillator": (lambda u: autofd.nabla(u) ** 2 / 2 - u**2 / 2, lambda u, p, q: p**2 / 2 - u**2 / 2),
    "quartic": (lambda u: autofd.nabla(u) ** 2 / 2 + u**4, lambda u, p, q: p**2 / 2 + u**4),
    "brachistochrone": (
        lambda u: autofd.sqrt(1.0 + autofd.nabla(u) ** 2) / autofd.sqrt(-u),
        lambda u, p, q: sympy.sqrt(1 + p**2) / sympy.sqrt(-u),
    ),
    "arc length": (lambda u: autofd.sqrt(1.0 + autofd.nabla(u) ** 2), lambda u, p, q: sympy.sqrt(1 + p**2)),
    "beam": (lambda u: autofd.nabla(autofd.nabla(u)) ** 2 / 2 - u, lambda u, p, q: q**2 / 2 - u),
    "functions": (
        lambda u: autofd.exp(u) * autofd.tanh(autofd.nabla(u)) + autofd.sin(u) * autofd.arctan(u),
        lambda u, p, q: sympy.exp(u) * sympy.tanh(p) + sympy.sin(u) * sympy.atan(u),
    ),
    "explicit coordinate": (
        lambda u: autofd.compose(lambda x, p: x**2 * p**2, autofd.identity(X), autofd.nabla(u)),
        lambda u, p, q: x**2 * p**2,
    ),
}


def vanishes(expression) -> bool:
    """True if an expression in unknown functions is zero for random values of them and of their derivatives."""
    atoms = sorted(expression.atoms(sympy.Derivative), key=lambda d: (-d.derivative_count, str(d)))
    atoms += sorted(expression.atoms(AppliedUndef), key=str)
    random = np.random.default_rng(20261121)
    for _ in range(3):
        value = expression
        for atom in atoms:
            value = value.subs(atom, random.uniform(0.5, 1.5))
        if abs(complex(sympy.N(value.subs({x: 0.3, y: 0.7, z: 0.9})))) > 1e-11:
            return False
    return True


@pytest.mark.parametrize("name", LINES)
def test_functions_of_one_variable_agree_with_euler_equations(name):
    """The derivative by the operators' rules equals dL/du - d/dx dL/du' + d2/dx2 dL/du'' of SymPy."""
    ours, theirs = LINES[name]
    formula = autofd.explain(lambda u: autofd.integrate(ours(u)), X)
    u = sympy.Function("u", real=True)(x)
    (equation,) = euler_equations(theirs(u, u.diff(x), u.diff(x, 2)), u, x)
    assert vanishes(formula.expression - equation.lhs)


SPACES = {
    "Dirichlet": (lambda n: square(autofd.nabla(n)) / 2, lambda n, g: g / 2, "-lap(n)"),
    "von Weizsaecker": (
        lambda n: square(autofd.nabla(n)) / n / 8,
        lambda n, g: g / n / 8,
        "(-2*lap(n)*n + |grad n|**2)/(8*n**2)",
    ),
    "minimal surface": (lambda n: autofd.sqrt(1.0 + square(autofd.nabla(n))), lambda n, g: sympy.sqrt(1 + g), None),
    "GGA": (
        lambda n: n ** (4 / 3) * (1.0 + 0.1 * square(autofd.nabla(n)) / n ** (8 / 3)),
        lambda n, g: n ** sympy.Rational(4, 3) * (1 + g / 10 / n ** sympy.Rational(8, 3)),
        None,
    ),
}


@pytest.mark.parametrize("name", sample(SPACES, ["Dirichlet", "von Weizsaecker", "GGA"]))
def test_functions_of_three_variables_agree_with_euler_equations(name):
    """The same in R^3, and written without axes: in n, |grad n|, lap n and grad n . H . grad n alone."""
    ours, theirs, text = SPACES[name]
    formula = autofd.explain(lambda n: autofd.integrate(ours(n)), R3, positive=True)
    n = sympy.Function("n", positive=True)(x, y, z)
    gradient = sum(n.diff(a) ** 2 for a in (x, y, z))
    (equation,) = euler_equations(theirs(n, gradient), n, (x, y, z))
    assert vanishes(formula.expression - equation.lhs)
    names = {str(s) for s in formula.compact.free_symbols}
    assert names <= {"n", "|grad n|", "lap(n)", "(grad n.H.grad n)"}
    assert text is None or str(formula) == text


def test_formulas_are_readable_latex():
    """Primes on a line, nabla in space; each formula as it should be printed."""
    line = autofd.explain(lambda u: autofd.integrate(autofd.nabla(u) ** 2 / 2 + u**4), X)
    assert line.latex == "4 u^{3} - u''" and str(line) == "4*u**3 - u''"
    space = autofd.explain(lambda n: autofd.integrate(square(autofd.nabla(n)) / n / 8), R3, positive=True)
    assert space.latex == r"\frac{- 2 \left(\nabla^{2} n\right) n + \left|\nabla n\right|^{2}}{8 n^{2}}"
    assert space._repr_latex_().startswith("$")


def test_an_expression_that_depends_on_the_axes_keeps_them():
    """The integral of (du/dx)^2 / 2 in the plane: -u_xx, not a Laplacian."""
    formula = autofd.explain(lambda u: autofd.integrate(autofd.nabla(u)[0] ** 2 / 2), R2)
    assert str(formula) == "-u_xx" and formula.latex == r"- \partial_{xx} u"


def test_fourth_derivatives_in_space():
    """The biharmonic operator, from the integral of (lap u)^2 / 2."""
    formula = autofd.explain(lambda u: autofd.integrate(autofd.laplacian(u) ** 2 / 2), R2)
    u = sympy.Function("u", real=True)(x, y)
    bilaplacian = u.diff(x, 4) + 2 * u.diff(x, 2, y, 2) + u.diff(y, 4)
    assert vanishes(formula.expression - bilaplacian)


def test_several_unknown_functions():
    """d/dv of the integral of u u' v' is -(u u')'; names come from the parameters."""
    formula = autofd.explain(lambda u, v: autofd.integrate(u * autofd.nabla(u) * autofd.nabla(v)), X, X, argnum=1)
    u = sympy.Function("u", real=True)(x)
    assert vanishes(formula.expression + (u * u.diff(x)).diff(x))


def test_vector_valued_unknowns():
    """The curl-free part of elasticity: the integral of (div w)^2 / 2 has the derivative -grad div w."""
    formula = autofd.explain(lambda w: autofd.integrate(autofd.divergence(w) ** 2 / 2), autofd.Unknown(R2, (2,)))
    w = [sympy.Function(f"w_{i}", real=True)(x, y) for i in (1, 2)]
    divergence = w[0].diff(x) + w[1].diff(y)
    for entry, axis in zip(formula.expression, (x, y), strict=True):
        assert vanishes(entry + divergence.diff(axis))


def test_integrals_inside_stay_integrals():
    """d/du of A[u] sin B[u], A = int u^2, B = int exp(u): 2 u sin B + A cos(B) exp(u), A and B as integrals."""
    F = lambda u: autofd.integrate(u**2) * jnp.sin(autofd.integrate(autofd.exp(u)))
    formula = autofd.explain(F, X)
    u = sympy.Function("u", real=True)(x)
    A, B = sympy.Integral(u**2, x), sympy.Integral(sympy.exp(u), x)
    assert sympy.simplify(formula.expression - (2 * u * sympy.sin(B) + A * sympy.cos(B) * sympy.exp(u))) == 0
    assert r"\int" in formula.latex


def test_known_functions_and_numbers_are_part_of_the_formula():
    """An external potential stays a formula of x; fractions and multiples of pi are exact."""
    V = autofd.function(lambda x: x**2 / 3, X)
    formula = autofd.explain(lambda u: autofd.integrate(V * u**2 * (np.pi / 4)), X)
    u = sympy.Function("u", real=True)(x)
    assert formula.expression.equals(sympy.pi / 6 * x**2 * u)


def test_conditions_become_cases():
    """where(u > 1/2, u^2, u) has the derivative 2u above and 1 below."""
    formula = autofd.explain(lambda u: autofd.integrate(autofd.compose(lambda u: jnp.where(u > 0.5, u * u, u), u)), X)
    assert isinstance(formula.compact, sympy.Piecewise)
    (symbol,) = formula.compact.free_symbols
    assert formula.compact.subs(symbol, 2) == 4 and formula.compact.subs(symbol, 0) == 1


def test_the_formula_has_the_value_of_the_derivative():
    """The formula at u = sin(x) equals what grad evaluates there, for a functional with a feedback term."""
    domain = autofd.interval(30, 0.0, 1.0)
    F = lambda u: autofd.integrate(autofd.exp(u) * autofd.nabla(u) ** 2)
    formula = autofd.explain(F, domain).expression
    u = sympy.Function("u", real=True)
    value = formula.subs(u(x), sympy.sin(x)).doit().subs(x, 0.4)
    derivative = autofd.grad(F)(autofd.function(jnp.sin, domain))
    assert float(value) == pytest.approx(float(derivative(0.4)), rel=1e-13)


def test_what_has_no_formula_is_a_typed_error():
    """Nonlocal derivatives, operations without symbolic meaning, arguments that are not unknown functions."""
    with pytest.raises(NotSemilocalError, match="not semilocal"):
        kernel = autofd.function(lambda x, y: jnp.exp(-((x - y) ** 2)), X, X)
        autofd.explain(lambda u: autofd.integrate(u * autofd.integrate(kernel * autofd.broadcast(u, (X, X), 1), 1)), X)
    with pytest.raises(UnsupportedError, match="no symbolic form"):
        sorting = autofd.elementary(lambda x: jnp.sort(jnp.stack([x, -x]))[0])
        autofd.explain(lambda u: autofd.integrate(sorting(u)), X)
    with pytest.raises(SignatureError, match="not an unknown"):
        autofd.explain(lambda u: autofd.integrate(u), autofd.function(jnp.sin, X))
    with pytest.raises(SignatureError, match="integrate"):
        autofd.explain(lambda u: u * u, X)
    with pytest.raises(SignatureError, match="different domains"):
        autofd.explain(lambda u, v: autofd.integrate(u), X, R3)


def test_a_missing_sympy_is_named(monkeypatch):
    """Without SymPy the error says what to install."""
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(MissingDependencyError, match="dftfd\\[explain\\]"):
        autofd.explain(lambda u: autofd.integrate(u), X)
