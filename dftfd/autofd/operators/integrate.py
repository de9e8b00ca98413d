"""integrate: over all or some arguments, by the quadrature of their domains.

JVP         itself; when a quadrature that is given as arrays moves, sum_k (dw_k f(x_k) + w_k nabla f(x_k) dx_k)
transpose   broadcast over the integrated arguments, from <int f dy, ct>_x = <f, ct>_{x,y}. The pairing has the measure
            of the space: a quadrature given as arrays has to belong to it, up to a factor. On a space that has no
            quadrature of its own the one that is given stands for it.
"""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_map

from dftfd.autofd import tabulate
from dftfd.autofd.analytic import analytic_integral
from dftfd.autofd.domain import Domain, Signature, check_real, checked_rule
from dftfd.autofd.function import Function, nodes_of
from dftfd.autofd.operators.base import Operator, checked_argnums
from dftfd.autofd.operators.broadcast import broadcast
from dftfd.autofd.operators.dirac import integral_of_term, separate
from dftfd.autofd.structure import is_tracer
from dftfd.errors import QuadratureError, SignatureError

CHUNK = 4096  # quadrature points evaluated at once; bounds the memory on large grids


class Integrate(Operator):
    name, linear = "integrate", True

    def signature(self, operands, arrays, static):
        (f,) = operands
        kept = tuple(d for i, d in enumerate(f.domains) if i not in static["argnums"])
        return Signature(kept, f.result)

    def evaluate(self, node, *args):
        (f,), argnums = node.operands, node.static["argnums"]
        rest = [i for i in range(len(f.domains)) if i not in argnums]

        def at(*nodes):
            full = dict(zip(rest, args, strict=True)) | dict(zip(argnums, nodes, strict=True))
            return f.evaluate(*(full[i] for i in range(len(full))))

        exact = None if node.arrays else analytic_integral(f, argnums, args)
        if exact is not None:
            return exact[1]
        rules = node.arrays or tuple(f.domains[i].quadrature() for i in argnums)
        value = tabulate.integral(f, argnums, rules, args)
        return _weighted_sum(at, rules) if value is None else value

    def array_tangent(self, node, tangents):
        return Function(_moved, node.operands, (node.arrays, tangents), node.static, node.signature)

    def transpose(self, node, cotangent, needed):
        (f,) = node.operands
        rest = tuple(i for i in range(len(f.domains)) if i not in node.static["argnums"])
        factor = 1.0
        for i, rule in zip(node.static["argnums"], node.arrays or (), strict=False):
            factor = factor * measure_ratio(f.domains[i], rule)
        if factor != 1.0:
            cotangent = cotangent * factor
        rules = zip(node.static["argnums"], node.arrays, strict=False)
        given = tuple((f.domains[i], _fingerprint(r)) for i, r in rules if f.domains[i].points is None)
        return [broadcast(cotangent, f.domains, rest, given)]


def measure_ratio(domain: Domain, rule) -> float:
    """c, if a quadrature (points, weights) integrates with c times the measure of the space; QuadratureError if not.

    Tried with powers and waves of the coordinates. The quadratures may have different points.
    """
    if domain.points is None or (rule[0] is domain.points and rule[1] is domain.weights):
        return 1.0
    refused = (
        f"the functional derivative on {domain!r} is paired with the quadrature of that space, but the integral has "
    )
    if any(map(is_tracer, rule)):
        raise QuadratureError(
            refused + "one of its own, `quadrature=`, with values of a JAX transformation. Use a domain without points "
            "and weights, which the quadrature then stands for, or no `quadrature=`."
        )
    (x, w), (y, v) = (map(np.asarray, pair) for pair in ((domain.points, domain.weights), rule))
    centre, width = x.reshape(len(x), -1).mean(axis=0), x.reshape(len(x), -1).std(axis=0)
    own, given = (np.asarray(_moments(p, q, centre, width)) for p, q in ((x, w), (y, v)))
    ratio = float(np.vdot(own, given).real / np.vdot(own, own).real)
    size = np.abs(_moments(x, np.abs(w), centre, width)).max()
    if x.shape == y.shape and np.array_equal(x, y):
        same = np.allclose(v, ratio * w, rtol=1e-9, atol=0.0)
    else:
        same = np.all(np.abs(given - ratio * own) <= 1e-6 * abs(ratio) * size)
    if not same or not ratio:
        raise QuadratureError(
            refused + "another measure by its `quadrature=`. Put the ratio of the measures into the integrand, or make "
            "a domain of the quadrature and a function on it by composition."
        )
    return 1.0 if abs(ratio - 1) < 1e-6 else ratio


def _moments(points, weights, centre, width):
    """Integrals of 1, t, t^2, t^3 and exp(i t), exp(2 i t), by coordinate, where t = (x - centre) / width."""
    t = (points.reshape(len(points), -1) - centre) / np.where(width > 0, width, 1.0)
    phi = [np.ones_like(t), t, t**2, t**3, np.exp(1j * t), np.exp(2j * t)]
    return np.concatenate([weights @ p for p in phi])


def _fingerprint(rule) -> tuple:
    """What tells measures apart that were given for a space without a quadrature of its own."""
    points, weights = rule
    if is_tracer(points) or is_tracer(weights):
        return ("traced", id(weights))
    x = np.asarray(points)
    shift, width = np.zeros(max(x[0].size, 1)), np.ones(max(x[0].size, 1))
    return ("known", *_moments(x, np.asarray(weights), shift, width).tolist())


def check_one_measure(*gradients: Function):
    """Raise if integrals over a space that has no quadrature were given different measures.

    They stand for the measure of the pairing, so one functional derivative has room for one.
    """
    known = {}
    for root in gradients:
        for domain, mark in (m for node in nodes_of(root) for m in node.static.get("given", ())):
            kind, *moments = known.setdefault(domain, mark)
            if mark != (kind, *moments) and not (
                kind == mark[0] == "known" and np.allclose(moments, mark[1:], rtol=1e-6, atol=1e-6 * abs(moments[0]))
            ):
                raise QuadratureError(
                    f"integrals over {domain!r} have different quadratures by `quadrature=`, so there is no one "
                    "measure for the functional derivative. Give the domain points and weights, or put the ratio of "
                    "the measures into the integrand."
                )


class MovedQuadrature(Operator):
    """Derivative of an integral along a change of its quadrature. Linear in f.

    transpose: none, for the change of the points gives derivatives of Dirac distributions.
    """

    name, linear = "integral over a moving quadrature", True

    def evaluate(self, node, *args):
        return self._value(node, node.arrays, node.static.get("order", 1), args)

    def _value(self, node, arrays, order, args):
        """arrays: (quadrature, its change), of higher orders (those of the order below, their change)."""
        if order == 0:
            return _integrate.evaluate(node.replace(arrays=arrays), *args)
        inner, tangents = arrays
        return jax.jvp(lambda a: self._value(node, a, order - 1, args), (inner,), (tangents,))[1]

    def array_tangent(self, node, tangents):
        static = node.static | {"order": node.static.get("order", 1) + 1}
        return Function(self, node.operands, (node.arrays, tangents), static, node.signature)


def _weighted_sum(code, rules):
    """sum over the product of quadratures of weight * code(nodes), the innermost factor vectorised."""
    (points, weights), *others = rules
    if not others:
        return _reduce(code, points, weights)
    return _reduce(lambda x: _weighted_sum(lambda *y: code(x, *y), others), points, weights)


def _reduce(code, points, weights):
    if len(weights) <= CHUNK:
        return _contract(weights, jax.vmap(code)(points))
    chunks = -(-len(weights) // CHUNK)
    pad = chunks * CHUNK - len(weights)
    # padding repeats the last point with weight zero, so no new place is evaluated
    points = jnp.concatenate([points, jnp.repeat(points[-1:], pad, axis=0)]).reshape(chunks, CHUNK, *points.shape[1:])
    weights = jnp.concatenate([weights, jnp.zeros(pad, weights.dtype)]).reshape(chunks, CHUNK)
    partial = jax.lax.map(lambda block: _contract(block[1], jax.vmap(code)(block[0])), (points, weights))
    return tree_map(lambda v: v.sum(axis=0), partial)


def _contract(weights, values):
    return tree_map(lambda v: jnp.tensordot(weights.astype(v.dtype), v, 1), values)


_integrate, _moved = Integrate(), MovedQuadrature()


def integrate_over(f: Function, argnums: tuple[int, ...], quadrature=()) -> Function:
    """The integral as a Function of the arguments that are left, possibly of none."""
    if not argnums:
        return f
    if not f.singular:
        for i in argnums if not quadrature else ():
            if not f.domains[i].grid_later:
                f.domains[i].quadrature()
        return Function(_integrate, (f,), quadrature, {"argnums": argnums})
    regular, terms = separate(f)
    parts = [] if regular is None else [integrate_over(regular, argnums, quadrature)]
    rules = dict(zip(argnums, quadrature, strict=True)) if quadrature else None
    parts += [integral_of_term(t, f.domains, argnums, rules) for t in terms]
    return functools.reduce(operator.add, parts)


def integrate(f: Function, argnums: int | tuple[int, ...] | None = None, *, quadrature: Any = None) -> Any:
    """Integral of f over some arguments (a Function of the others), or over all of them (an array).

    argnums: which arguments; None means all.
    quadrature: (points, weights) for one argument, or a tuple of such pairs; None means the domains' own. Arrays given
        here may be traced: derivatives with respect to them flow.
    """
    if not isinstance(f, Function):
        raise SignatureError(f"integrate takes a Function, {type(f).__name__} found.")
    count = len(f.domains)
    if argnums is None:
        argnums = tuple(range(count))
    argnums = checked_argnums(argnums, f, "integrate") if count else argnums
    rules = () if quadrature is None else _checked_rules(quadrature, f, argnums)
    integral = integrate_over(f, argnums, rules)
    return integral if integral.domains else integral()


def with_quadrature(root: Function, points: Any, weights: Any) -> Function:
    """The same graph, its integrals over spaces with `grid_later` taken by this quadrature.

    points: (node, *shape of the space's points).   weights: (node,).
    """
    done = {}
    for node in nodes_of(root):
        node_id = id(node)
        if any(done[id(f)] is not f for f in node.operands):
            node = node.replace(operands=[done[id(f)] for f in node.operands], tags=node.tags)
        if node.operator is _integrate and not node.arrays:
            (f,), argnums = node.operands, node.static["argnums"]
            if any(f.domains[i].grid_later and f.domains[i].points is None for i in argnums):
                given = [(points, weights) if f.domains[i].grid_later else f.domains[i].quadrature() for i in argnums]
                node = node.replace(arrays=_checked_rules(tuple(given), f, argnums), tags=node.tags)
        done[node_id] = node
    return done[id(root)]


def _checked_rules(quadrature, f, argnums):
    rules = (quadrature,) if len(argnums) == 1 and not isinstance(quadrature[0], tuple) else tuple(quadrature)
    if len(rules) != len(argnums):
        raise QuadratureError(f"integrate: {len(argnums)} quadratures (points, weights) expected, {len(rules)} found.")
    checked = []
    for i, (points, weights) in zip(argnums, rules, strict=True):
        points, weights = checked_rule(points, weights, f.domains[i].dtype, f"integrate, argument {i}")
        check_real(weights, f"integrate, argument {i}")
        if points.shape[1:] != f.domains[i].shape or weights.shape != points.shape[:1]:
            raise QuadratureError(
                f"integrate: points {points.shape} and weights {weights.shape} do not fit argument {i} of {f!r}."
            )
        checked.append((points, weights))
    return tuple(checked)
