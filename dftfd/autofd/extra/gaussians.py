"""Gaussian-type functions and their exact integrals.

`gaussian` makes c (x - A)^l exp(-alpha |x - A|^2) on a space made by `euclidean`, all of R^d. An integral over that
space of sums and products of such functions, their derivatives and polynomials is exact: the integrand is followed
through its program as a sum of polynomials times exponentials of quadratic polynomials, and for each of them

    integral of p(x) exp(-x M x + b x + c) dx = exp(c + b M^-1 b / 4) sqrt(pi^d / det M) E[p],

where E[p] is the mean of p over the normal distribution with centre P = M^-1 b / 2 and covariance M^-1 / 2. For
products of functions on two centres this is the Gaussian product theorem (S. F. Boys, Proc. R. Soc. A 200, 542 (1950).
doi:10.1098/rspa.1950.0036). Polynomials are expanded about P, so nothing cancels for centres far from the origin.
An exponent that is not negative definite gives NaN, as the integral has no value.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.tree_util import tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd.core.analytic import register_analytic_rule
from dftfd.autofd.core.domain import Domain
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.autofd.core.structure import Code
from dftfd.autofd.extra.gaussian_sums import GaussianAlgebra, GaussianSum, Quadratic, variables
from dftfd.autofd.operators.leaf import function
from dftfd.autofd.scalar.on_objects import NotInAlgebra
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
    Exponent, centre and coefficient are arrays of the Function: derivatives with respect to them flow.
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
