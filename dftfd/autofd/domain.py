"""Spaces that functions live on.

A function R^3 -> R has one argument, a point of a `Domain`. The measure belongs to the space, not to each function on
it, so an integral and the transpose of an integral agree on it. Two domains are the same only if they are the same
object: functions on different spaces that happen to have equal shapes can't be mixed by accident.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.structure import HasKey, Identity, is_tracer, structural_key
from dftfd.errors import QuadratureError, SignatureError

Spec = Any  # pytree of jax.ShapeDtypeStruct


def spec_of(value) -> Spec:
    """Shapes and dtypes of a pytree of arrays."""
    return tree_map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), value)


def same_spec(a: Spec, b: Spec) -> bool:
    """True if two specs have equal structure, shapes and dtypes."""
    if jax.tree_util.tree_structure(a) != jax.tree_util.tree_structure(b):
        return False
    pairs = zip(tree_leaves(a), tree_leaves(b), strict=True)
    return all(x.shape == y.shape and x.dtype == y.dtype for x, y in pairs)


def describe(spec: Spec) -> str:
    """A spec in words: 'float64[3]', or the tree of such words."""
    words = tree_map(lambda s: f"{np.dtype(s.dtype).name}[{','.join(map(str, s.shape))}]", spec)
    return words if isinstance(words, str) else str(words).replace("'", "")


class Domain(HasKey):
    """A space of points, given by the shape and dtype of a point and, if it can be integrated over, a quadrature.

    shape, dtype: of one point; R^3 is `Domain((3,))`.   spec: a pytree of shapes instead, for product spaces.
    points, weights: quadrature nodes `(node, *shape)` and weights `(node,)`, concrete arrays. Weights that depend on
        something being differentiated go to `integrate(f, quadrature=(points, weights))` instead.
    density: the measure's density w(x) if it isn't Lebesgue's (Gauss-Hermite: exp(-x^2)); a callable of one point. The
        transpose of nabla needs it.
    grid_later: the quadrature is not known when graphs are built. Integrals over the space are then formed without
        one; lowering, or `with_quadrature`, brings it, and evaluation before that is a QuadratureError.
    name: used in messages and in the printed graph.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (),
        dtype=np.float64,
        *,
        spec: Spec = None,
        points=None,
        weights=None,
        density: Callable | None = None,
        grid_later: bool = False,
        name: str = "",
    ):
        if not isinstance(shape, tuple | list) or not all(isinstance(n, int | np.integer) for n in shape):
            raise SignatureError(f"Domain of shape {shape!r}; a tuple of integers expected: R^3 is Domain((3,)).")
        self.spec = spec if spec is not None else jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype))
        for leaf in tree_leaves(self.spec):
            if not np.issubdtype(leaf.dtype, np.inexact):
                raise SignatureError(
                    f"domain {name or '(unnamed)'} has dtype {np.dtype(leaf.dtype).name}; functions are differentiated "
                    "with respect to points of it, so it must be a float or complex dtype."
                )
        self.name = name
        self.anonymous = False
        self.density = density
        self.grid_later = grid_later
        self.points, self.weights = self._checked_quadrature(points, weights)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self):
        return self.spec.dtype

    @property
    def is_array(self) -> bool:
        """True if a point is one array rather than a tree of arrays."""
        return isinstance(self.spec, jax.ShapeDtypeStruct)

    def _checked_quadrature(self, points, weights):
        if points is None and weights is None:
            return None, None
        if points is None or weights is None:
            raise QuadratureError(f"{self!r}: a quadrature has both points and weights; one of them is missing.")
        if not self.is_array:
            raise QuadratureError(f"{self!r}: a space of trees has no quadrature; integrate over its factors.")
        if is_tracer(points) or is_tracer(weights):
            raise QuadratureError(
                f"{self!r}: a quadrature that depends on values inside a JAX transformation can't be part of a domain; "
                "pass integrate(f, quadrature=(points, weights))."
            )
        with jax.ensure_compile_time_eval():
            points, weights = jnp.asarray(points, self.dtype), jnp.asarray(weights)
        if points.ndim < 1 or weights.shape != points.shape[:1] or points.shape[1:] != self.shape:
            raise QuadratureError(
                f"{self!r}: points {points.shape} and weights {weights.shape} found, "
                f"(node, {', '.join(map(str, self.shape))}) and (node,) expected."
            )
        if not (np.all(np.isfinite(points)) and np.all(np.isfinite(weights))):
            raise QuadratureError(f"{self!r}: NaN or infinity among the points or weights of its quadrature.")
        return points, weights

    def structural_key(self):
        """Domains are equal by identity, spaces of values by spec."""
        if not self.anonymous:
            return Identity(self)
        leaves, treedef = jax.tree_util.tree_flatten(self.spec)
        return (treedef, *map(structural_key, leaves))

    def quadrature(self):
        """(points, weights); an error if the space has none."""
        if self.points is None and self.grid_later:
            raise QuadratureError(
                f"{self!r} has no quadrature yet. Attach one to the integrals of a function with "
                "with_quadrature(f, points, weights), or pass quadrature=(points, weights)."
            )
        if self.points is None:
            raise QuadratureError(
                f"{self!r} has no quadrature. Give the domain points and weights, or pass "
                "integrate(f, quadrature=(points, weights))."
            )
        return self.points, self.weights

    def __repr__(self):
        return f"Domain({self.name + ': ' if self.name else ''}{describe(self.spec)})"


@dataclass(frozen=True)
class Signature:
    """Type of a function: the domains of its arguments and the spec of its result."""

    domains: tuple[Domain, ...]
    result: Spec

    def __str__(self):
        left = ", ".join((d.name + ":" if d.name else "") + describe(d.spec) for d in self.domains)
        return f"({left}) -> {describe(self.result)}"


def value_space(spec: Spec) -> Domain:
    """The space in which a function with this result takes its values; such spaces are equal if their specs are."""
    space = Domain(spec=spec)
    space.anonymous = True
    return space


def same_domain(a: Domain, b: Domain) -> bool:
    """True if points of one may be used as points of the other."""
    return a is b or ((a.anonymous or b.anonymous) and same_spec(a.spec, b.spec))
