"""compose: h(x) = f(g_1(x), ..., g_n(x))

JVP         dh = df(g) + sum_i L_i f(g; dg_i)        L_i f: derivative of f along its i-th argument
transpose   of g_i: x -> (d_i f (g(x)))^T ct(x)      pointwise, from <d_i f dg_i, ct> = <dg_i, (d_i f)^T ct>
            of f: ct(g^-1) |det D g^-1| by substitution, needs the inverse of g: see inverse.py
            of f in D f(g) dg: nabla^T of the same density for ct dg^T, from <D f(g) dg, ct> = <nabla f, density>_y
            of f in D f(g)^T c: the same with c ct^T
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from dftfd.autofd.domain import Signature, describe, same_domain, same_spec, spec_of, value_space
from dftfd.autofd.function import Function, is_function
from dftfd.autofd.operators.base import Operator
from dftfd.autofd.operators.leaf import constant, function
from dftfd.autofd.operators.linearize import Linearize, Outer, pushforward, settled, sum_of_transposed_gradients
from dftfd.autofd.operators.pullback import Pullback, pullback
from dftfd.errors import SignatureError


def compose(outer: Callable, *inner: Any, share_inputs: bool = True) -> Function:
    """x -> outer(inner_1(x), ..., inner_n(x)).

    outer: a Function, or Python code of the inner values.   inner: Functions on the same domains; numbers and arrays
    stand for constants.
    share_inputs: False gives each inner Function arguments of its own, one after the other: (x, y) -> f(g(x), h(y)).
    """
    domains = next((g.domains for g in inner if isinstance(g, Function)), None)
    if domains is None:
        raise SignatureError("compose needs at least one inner Function; to evaluate, call the function on points.")
    if not share_inputs:
        inner = _with_own_arguments(inner)
        domains = inner[0].domains
    inner = [g if isinstance(g, Function) else constant(g, *domains) for g in inner]
    for g in inner[1:]:
        check_same_domains(inner[0], g, "compose")
    if not isinstance(outer, Function):
        outer = function(outer, *(value_space(g.result) for g in inner))
    if len(outer.domains) != len(inner):
        raise SignatureError(f"{outer!r} takes {len(outer.domains)} argument(s), composed with {len(inner)}.")
    for i, (d, g) in enumerate(zip(outer.domains, inner, strict=True)):
        if not same_spec(d.spec, g.result):
            raise SignatureError(
                f"argument {i} of {outer!r} takes {describe(d.spec)}, but {g!r} returns {describe(g.result)}."
            )
    return Function(composition, (outer, *inner))


def _with_own_arguments(inner):
    """The inner Functions, each a function of its own part of the arguments of all."""
    from dftfd.autofd.operators.broadcast import broadcast

    functions = [g for g in inner if isinstance(g, Function)]
    domains = tuple(d for g in functions for d in g.domains)
    widened, start = [], 0
    for g in inner:
        if isinstance(g, Function):
            widened.append(broadcast(g, domains, tuple(range(start, start + len(g.domains)))))
            start += len(g.domains)
        else:
            widened.append(constant(g, *domains))
    return widened


class Compose(Operator):
    name = "compose"

    def signature(self, operands, arrays, static):
        outer, *inner = operands
        return Signature(inner[0].domains, outer.result)

    def evaluate(self, node, *args):
        outer, *inner = node.operands
        values = []
        for g in inner:
            values.append((yield g, args))
        return (yield outer, values)

    def label(self, node):
        outer = node.operands[0]
        return outer.operator.label(outer)

    def tangent(self, node, tangents):
        outer, *inner = node.operands
        d_outer, *d_inner = tangents
        terms = [] if d_outer is None else [compose(d_outer, *inner)]
        changed = tuple(i for i, d in enumerate(d_inner) if d is not None)
        linear = tuple(i for i in _linear_arguments(outer) if i in changed)
        changed = tuple(i for i in changed if i not in linear)
        if linear:
            terms.append(_along(outer, inner, linear, d_inner))
        short = [_slope(outer, inner, i, d_inner[i]) for i in changed]
        if changed and None not in short:
            terms += short
        elif changed:
            terms.append(compose(pushforward(outer, changed), *inner, *(d_inner[i] for i in changed)))
        return functools.reduce(operator.add, terms)

    def transpose(self, node, cotangent, needed):
        outer, *inner = node.operands
        parts = [_transpose_of_outer(outer, inner, cotangent) if needed[0] else None]
        wanted = tuple(i for i in range(len(inner)) if needed[1 + i])
        found = {i: _against(outer, inner, i, cotangent) for i in _linear_arguments(outer) if i in wanted}
        wanted = tuple(i for i in wanted if i not in found)
        short = {i: _slope(outer, inner, i, cotangent) for i in wanted}
        if None not in short.values():
            found |= short
        elif wanted:
            pulled = compose(pullback(outer, wanted), *inner, cotangent)
            found |= {i: _take(pulled, k) if len(wanted) > 1 else pulled for k, i in enumerate(wanted)}
        return parts + [found.get(i) for i in range(len(inner))]


composition = Compose()


def _slope(outer, inner, position, change):
    """`change` times the derivative of code that knows it (arithmetic of real functions of equal shape), else None."""
    rule = getattr(outer.static.get("code"), "slope", None)
    if rule is None or change.singular or outer.tags or not all(same_spec(g.result, outer.result) for g in inner):
        return None
    if not isinstance(outer.result, jax.ShapeDtypeStruct) or not jnp.issubdtype(outer.result.dtype, jnp.floating):
        return None
    return rule(position, inner, change)


# D f(y) t is linear in the direction t, D f(y)^T c in c: there the derivative is the same node, not one of higher order


def _linear_arguments(outer) -> tuple[int, ...]:
    """Numbers of the arguments in which a derivative node is linear."""
    if not isinstance(outer.operator, Linearize | Pullback):
        return ()
    return tuple(range(len(outer.operands[0].domains), len(outer.domains)))


def _along(outer, inner, arguments, d_inner):
    """Derivative of outer(inner) where the inner functions of these linear arguments change."""
    (f,), count = outer.operands, len(outer.operands[0].domains)
    if isinstance(outer.operator, Pullback):
        return compose(outer, *inner[:-1], d_inner[-1])
    argnums = tuple(outer.static["argnums"][i - count] for i in arguments)
    return compose(pushforward(f, argnums), *inner[:count], *(d_inner[i] for i in arguments))


def _against(outer, inner, i, ct):
    """Cotangent of the inner function of the linear argument i."""
    (f,), count = outer.operands, len(outer.operands[0].domains)
    argnums = outer.static["argnums"]
    if isinstance(outer.operator, Linearize):
        return compose(pullback(f, (argnums[i - count],)), *inner[:count], ct)
    directions = [_take(ct, k) for k in range(len(argnums))] if len(argnums) > 1 else [ct]
    return compose(pushforward(f, argnums), *inner[:count], *directions)


def check_same_domains(f: Function, g: Function, what: str):
    """Raise unless two functions have the same arguments."""
    same = len(f.domains) == len(g.domains)
    if not same or not all(same_domain(a, b) for a, b in zip(f.domains, g.domains, strict=True)):
        raise SignatureError(f"{what} of functions on different domains: {f!r} and {g!r}.")


def check_same_type(value, other, what: str, role: str):
    """Raise unless `other`, the `role` (tangent, cotangent) of `value`, is of its kind, domains, shape and dtype."""
    if is_function(value) != is_function(other):
        raise SignatureError(f"{what}: the {role} {other!r} is not of the kind of {value!r}.")
    if is_function(value):
        check_same_domains(value, other, what)
    left, right = (x.result if is_function(x) else spec_of(x) for x in (value, other))
    if not same_spec(left, right):
        raise SignatureError(f"{what}: the {role} {other!r} does not have the type of {value!r}.")


def _take(f, k):
    from dftfd.autofd.operators.zip_split import item

    return item(f, k)


def _transpose_of_outer(outer, inner, ct):
    """Cotangent of the outer function of a composition."""
    from dftfd.autofd.operators.inverse import transport

    if not isinstance(outer.operator, Linearize | Pullback):
        return transport(ct, inner, outer.domains)
    (f,), argnums = outer.operands, outer.static["argnums"]
    count = len(f.domains)
    if isinstance(outer.operator, Linearize):
        pairs = [(ct, direction) for direction in inner[count:]]
    else:
        directions = [_take(ct, k) for k in range(len(argnums))] if len(argnums) > 1 else [ct]
        pairs = [(inner[count], direction) for direction in directions]
    densities = [transport(compose(Outer(), c, d), inner[:count], f.domains) for c, d in pairs]
    return settled(sum_of_transposed_gradients(densities, argnums), outer)
