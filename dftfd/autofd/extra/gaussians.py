"""Gaussian-type functions and their exact integrals.

`gaussian` makes c (x - A)^l exp(-alpha |x - A|^2) on a space made by `euclidean`, all of R^d. An integral over that
space of sums and products of such functions, their derivatives and polynomials is exact: the integrand is followed
through its program as a sum of polynomials times exponentials of quadratic polynomials, and for each of them

    integral of p(x) exp(-x M x + b x + c) dx = exp(c + b M^-1 b / 4) sqrt(pi^d / det M) E[p],

where E[p] is the mean of p over the normal distribution with centre P = M^-1 b / 2 and covariance M^-1 / 2. For
products of functions on two centres this is the Gaussian product theorem (S. F. Boys, Proc. R. Soc. A 200, 542 (1950).
doi:10.1098/rspa.1950.0036). Polynomials are expanded about P, so nothing cancels for centres far from the origin.
An exponent that is not negative definite gives NaN, as the integral has no value. Coefficients
of the polynomials are JAX scalars, or arrays (term,) that hold one expansion about each of several origins.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.tree_util import tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd.core.domain import Domain
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.integrate import register_analytic_rule
from dftfd.autofd.operators.leaf import function
from dftfd.autofd.scalar.on_jax import OnJax
from dftfd.autofd.scalar.on_objects import NotInAlgebra, Objects
from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.reader import symbolic_program
from dftfd.errors import QuadratureError, SignatureError, UnsupportedError

MAX_DIMENSIONS = 6  # of all integration variables together


class EuclideanSpace(Domain):
    """All of R^d with the measure dx."""


def euclidean(dimension: int | None = None, *, quadrature: Domain | None = None, name: str = "r") -> EuclideanSpace:
    """All of R^d, where integrals of Gaussian-type functions are exact.

    dimension: d for points of shape (d,); None for the real line with points of shape ().
    quadrature: a domain whose points and weights serve for all other functions; without it they cannot be integrated.
    """
    shape = () if dimension is None else (int(dimension),)
    if quadrature is None:
        return EuclideanSpace(shape, grid_later=True, name=name)
    if quadrature.shape != shape or quadrature.density is not None:
        raise QuadratureError(
            f"euclidean: the quadrature of {quadrature!r} does not fit points of shape {shape} with the measure dx."
        )
    points, weights = quadrature.quadrature()
    return EuclideanSpace(shape, points=points, weights=weights, name=name)


class GaussianType(Code):
    """(coefficient, exponent, centre, x) -> c prod_i (x_i - A_i)^l_i exp(-alpha |x - A|^2)"""

    __name__ = "gaussian"

    def __init__(self, powers: tuple[int, ...]):
        self.powers = powers

    def __call__(self, coefficient, exponent, centre, x):
        d = x - centre
        value = coefficient * jnp.exp(-exponent * jnp.sum(d * d))
        if d.ndim == 0:
            return value * d ** self.powers[0] if self.powers[0] else value
        for i, power in enumerate(self.powers):
            value = value * d[i] ** power if power else value
        return value


def gaussian(domain: Domain, exponent: Any, centre: Any = 0.0, powers: Any = 0, coefficient: Any = 1.0) -> Function:
    """The function c prod_i (x_i - A_i)^l_i exp(-alpha |x - A|^2) on a domain with points of shape () or (d,).

    exponent: alpha > 0, length^-2.   centre: A, a number for all coordinates or an array (d,).
    powers: l, an integer >= 0 or one for each coordinate.   coefficient: c.

    Exponent, centre and coefficient are arrays of the Function and can be differentiated.
    """
    if not domain.is_array or len(domain.shape) > 1:
        raise SignatureError(f"gaussian: points of shape () or (d,) expected, {domain!r} found.")
    count = domain.shape[0] if domain.shape else 1
    powers = (powers,) * count if isinstance(powers, int) else tuple(powers)
    if len(powers) != count or not all(isinstance(p, int) and p >= 0 for p in powers):
        raise SignatureError(f"gaussian: powers {powers}; {count} integers >= 0 expected.")
    as_point = lambda x: jnp.broadcast_to(jnp.asarray(x, domain.dtype), domain.shape)
    as_number = lambda x: jnp.asarray(x, domain.dtype)
    parameters = (as_number(coefficient), as_number(exponent), as_point(centre))
    return function(GaussianType(powers), domain, params=parameters)


# ---- the rule


def integrate_gaussians(f: Function, argnums: tuple[int, ...], args: tuple):
    """Exact integral over whole spaces of sums of polynomials times Gaussians; None if f is anything else."""
    spaces = [f.domains[i] for i in argnums]
    dimension = sum(d.shape[0] if d.shape else 1 for d in spaces if isinstance(d, EuclideanSpace))
    if not all(isinstance(d, EuclideanSpace) for d in spaces) or dimension > MAX_DIMENSIONS:
        return None
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in tree_leaves(f.result)):
        return None
    rest = [i for i in range(len(f.domains)) if i not in argnums]

    def integrand(*points):
        full = dict(zip(rest, args, strict=True)) | dict(zip(argnums, points, strict=True))
        return f.evaluate(*(full[i] for i in range(len(full))))

    shapes = [d.shape for d in spaces]
    try:
        program = _Integrand(integrand, [d.spec for d in spaces])
        terms = program.terms(shapes, np.zeros(dimension))
        if not terms:
            return None
        centres = [Quadratic(term.exponent, dimension).centre() for _, _, term in terms]
        terms = program.terms(shapes, jax.lax.stop_gradient(jnp.stack(centres, axis=1)))
        totals = [jnp.zeros(leaf.shape, leaf.dtype) for leaf in tree_leaves(f.result)]
        for k, (leaf, place, term) in enumerate(terms):
            own = term.about(k)
            totals[leaf] = totals[leaf].at[place].add(Quadratic(own.exponent, dimension).integral(own.polynomial))
    except UnsupportedError:
        return None
    return tree_unflatten(tree_structure(f.result), totals)


class _Integrand:
    """The integrand as scalar code of the traced numbers that it holds, and of the variables."""

    def __init__(self, integrand, specs):
        traced = jax.make_jaxpr(integrand)(*specs)
        self.shapes = [v.aval.shape for v in traced.jaxpr.outvars]
        held = [i for i, c in enumerate(traced.consts) if is_tracer(c)]
        arrays = [traced.consts[i] for i in held]

        def code(arrays, *points):
            consts = dict(enumerate(traced.consts)) | dict(zip(held, arrays, strict=True))
            return jaxpr_as_fun(ClosedJaxpr(traced.jaxpr, list(consts.values())))(*points)

        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
        self.program = symbolic_program(code, shapes, *specs)
        self.numbers = [x for a in arrays for x in jnp.ravel(a)]

    def terms(self, shapes, origins) -> list:
        """(number of the result, place in it, Term) of every term, the variables counted from origins."""
        points = [x for array in variables(shapes, origins) for x in array.ravel()]
        flat = iter(evaluate(self.program, GaussianAlgebra(len(origins)), [*self.numbers, *points]))
        terms: list[tuple] = []
        for leaf, shape in enumerate(self.shapes):
            for place in np.ndindex(*shape):
                entry = next(flat)
                if not isinstance(entry, GaussianSum):
                    raise NotInAlgebra("a constant, which has no integral over the whole space")
                terms.extend((leaf, place, term) for term in entry.terms)
        return terms


register_analytic_rule("Gaussian-type functions", integrate_gaussians)


Polynomial = dict  # exponents of the variables, a tuple -> coefficient
MAX_TERMS = 512


def _add(p: Polynomial, q: Polynomial) -> Polynomial:
    out = dict(p)
    for m, c in q.items():
        out[m] = out[m] + c if m in out else c
    return out


def _times(a, b):
    """a b; most coefficients are the number one."""
    return b if isinstance(a, float) and a == 1.0 else a if isinstance(b, float) and b == 1.0 else a * b


def _multiply(p: Polynomial, q: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for m, a in p.items():
        for n, b in q.items():
            key = tuple(i + j for i, j in zip(m, n, strict=True))
            out[key] = out[key] + _times(a, b) if key in out else _times(a, b)
    return out


def _scale(p: Polynomial, factor) -> Polynomial:
    return {m: factor * c for m, c in p.items()}


def _degree(p: Polynomial) -> int:
    return max(map(sum, p), default=0)


@dataclass(frozen=True)
class Term:
    """polynomial(x) exp(exponent(x)); exponent None: no exponential."""

    polynomial: Polynomial
    exponent: Polynomial | None

    def about(self, k: int) -> "Term":
        """The expansion about the k-th origin."""
        pick = lambda p: {m: c[k] if jnp.ndim(c) else c for m, c in p.items()}
        return Term(pick(self.polynomial), pick(self.exponent))


class GaussianSum:
    """A sum of Terms in `count` variables."""

    __slots__ = ("count", "terms")

    def __init__(self, count: int, terms):
        self.count, self.terms = count, list(terms)
        if len(self.terms) > MAX_TERMS:
            raise NotInAlgebra(f"more than {MAX_TERMS} terms")

    def __add__(self, other):
        merged = {id(t.exponent): t for t in self.terms}
        for t in other.terms:
            old = merged.get(id(t.exponent))
            merged[id(t.exponent)] = Term(_add(old.polynomial, t.polynomial), t.exponent) if old else t
        return GaussianSum(self.count, merged.values())

    def __neg__(self):
        return self._map(lambda p: _scale(p, -1.0))

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return number(self.count, other) + (-self)

    def __mul__(self, other):
        out = GaussianSum(self.count, [])
        for a in self.terms:
            for b in other.terms:
                both = a.exponent is not None and b.exponent is not None
                exponent = _add(a.exponent, b.exponent) if both else a.exponent or b.exponent
                out = out + GaussianSum(self.count, [Term(_multiply(a.polynomial, b.polynomial), exponent)])
        return out

    def __truediv__(self, other):
        return self * other.power(-1.0)

    def __pow__(self, n):
        if n < 0:
            return (self**-n).power(-1.0)
        out = number(self.count, 1.0)
        for _ in range(n):
            out = out * self
        return out

    def _map(self, code) -> "GaussianSum":
        return GaussianSum(self.count, [Term(code(t.polynomial), t.exponent) for t in self.terms])

    def polynomial(self) -> Polynomial:
        """The sum as a polynomial, if it is one."""
        if any(t.exponent is not None for t in self.terms):
            raise NotInAlgebra("a nonlinear function of a Gaussian")
        return functools.reduce(_add, (t.polynomial for t in self.terms), {})

    def constant(self):
        """The sum as a number, if it does not depend on the variables."""
        p = self.polynomial()
        if _degree(p) > 0:
            raise NotInAlgebra("a function that is neither polynomial nor Gaussian")
        return p.get((0,) * self.count, 0.0)

    def exponential(self) -> "GaussianSum":
        p = self.polynomial()
        if _degree(p) > 2:
            raise NotInAlgebra("an exponential of degree higher than two")
        return GaussianSum(self.count, [Term({(0,) * self.count: 1.0}, p)])

    def power(self, a) -> "GaussianSum":
        """c^a exp(a q) of a single Gaussian c exp(q), or of a number."""
        if len(self.terms) != 1 or _degree(self.terms[0].polynomial) > 0:
            raise NotInAlgebra("a power of a sum")
        (term,) = self.terms
        ((m, c),) = term.polynomial.items()
        exponent = None if term.exponent is None else _scale(term.exponent, a)
        return GaussianSum(self.count, [Term({m: c**a}, exponent)])


def number(count: int, value) -> GaussianSum:
    """A constant; a known zero has no terms."""
    if not is_tracer(value) and not np.any(np.asarray(value)):
        return GaussianSum(count, [])
    return GaussianSum(count, [Term({(0,) * count: value}, None)])


def variables(shapes, origins) -> list[np.ndarray]:
    """Object arrays of the integration variables x = origin + u, as polynomials in u.

    shapes: of the points of each space.   origins: one coefficient, or array of coefficients, for each coordinate.
    """
    count, start, arrays = len(origins), 0, []
    for shape in shapes:
        out = np.empty(shape, object)
        for offset, place in enumerate(np.ndindex(*shape)):
            i = start + offset
            unit = tuple(int(i == j) for j in range(count))
            out[place] = GaussianSum(count, [Term({(0,) * count: origins[i], unit: 1.0}, None)])
        start += out.size
        arrays.append(out)
    return arrays


class GaussianAlgebra(Objects):
    """Scalars are JAX numbers, and what depends on the variables: exponentials of quadratic polynomials are the only
    functions of those."""

    functions = {
        "exp": lambda g: g.exponential(),
        "sqrt": lambda g: g.power(0.5),
        "pow": lambda g, a: g.power(a.constant()),
    }

    def __init__(self, count: int):
        self.count, self.numbers = count, OnJax(())

    def constant(self, value):
        return value

    def apply(self, node, args):
        if node.op in ("entry", "call") or any(isinstance(a, GaussianSum) for a in args):
            lift = lambda a: a if isinstance(a, GaussianSum | list) else number(self.count, a)
            return super().apply(node, args if node.op == "select_n" else [lift(a) for a in args])
        return self.numbers.apply(node, args)

    def choose(self, condition, cases):
        if isinstance(condition, GaussianSum) or is_tracer(condition):
            return super().choose(condition, cases)
        return cases[int(condition)]


class Quadratic:
    """The exponent -x M x + b x + c of a Term."""

    def __init__(self, exponent: Polynomial | None, count: int):
        unit = lambda *places: tuple(sum(i == j for j in places) for i in range(count))
        if exponent is None or any(unit(i, i) not in exponent for i in range(count)):
            raise NotInAlgebra("a term that does not decay")
        get = lambda *places: jnp.asarray(exponent.get(unit(*places), 0.0), jnp.float64)
        rows = [[-get(i, i) if i == j else -get(i, j) / 2 for j in range(count)] for i in range(count)]
        self.M = jnp.stack([jnp.stack(row) for row in rows])
        self.b = jnp.stack([get(i) for i in range(count)])
        self.c, self.count = get(), count

    def centre(self):
        """P = M^-1 b / 2"""
        return jnp.linalg.solve(self.M, self.b) / 2

    def integral(self, polynomial: Polynomial):
        """Integral of polynomial(x) exp(-x M x + b x + c); NaN if M is not positive definite."""
        lower = jnp.linalg.cholesky(self.M)
        inverse = jax.scipy.linalg.cho_solve((lower, True), jnp.eye(self.count))
        P, covariance = inverse @ self.b / 2, inverse / 2
        determinant = jnp.prod(jnp.diagonal(lower))  # of the square root of M
        norm = jnp.exp(self.c + self.b @ P / 2) * math.pi ** (self.count / 2) / determinant
        mean = _moments(P, covariance)
        return norm * sum(c * mean(m) for m, c in polynomial.items())


def _moments(P, covariance):
    """m -> mean of prod_i x_i^m_i over a normal distribution: E[x_i q] = P_i E[q] + sum_j C_ij E[dq/dx_j]."""

    @functools.cache
    def mean(m):
        i = next((k for k, power in enumerate(m) if power), None)
        if i is None:
            return 1.0
        less = lambda powers, k: tuple(p - (j == k) for j, p in enumerate(powers))
        q = less(m, i)
        value = P[i] * mean(q)
        for j, power in enumerate(q):
            if power:
                value = value + covariance[i, j] * power * mean(less(q, j))
        return value

    return mean
