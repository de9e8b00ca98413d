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

from dftfd.autofd.core.domain import Signature, describe, same_spec, value_space
from dftfd.autofd.core.function import Function, check_same_domains
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.errors import SignatureError


@op.register
def compose(outer: Callable, *inner: Any, share_inputs: bool = True) -> Function:
    """x -> outer(inner_1(x), ..., inner_n(x)).

    outer: a Function, or Python code of the inner values.   inner: Functions on the same domains; numbers and arrays
    stand for constants.
    share_inputs: False gives each inner Function arguments of its own, one after the other: (x, y) -> f(g(x), h(y)).
    """
    domains = next((g.domains for g in inner if isinstance(g, Function)), None)
    if domains is None:
        raise SignatureError("compose needs at least one inner Function; to evaluate, call the function on points.")
    if share_inputs:
        functions = [g if isinstance(g, Function) else op.constant(g, *domains) for g in inner]
    else:
        functions = _with_own_arguments(inner)
    for g in functions[1:]:
        check_same_domains(functions[0], g, "compose")
    f = outer if isinstance(outer, Function) else op.function(outer, *(value_space(g.result) for g in functions))
    if len(f.domains) != len(functions):
        raise SignatureError(f"{f!r} takes {len(f.domains)} argument(s), composed with {len(functions)}.")
    for i, (d, g) in enumerate(zip(f.domains, functions, strict=True)):
        if not same_spec(d.spec, g.result):
            raise SignatureError(
                f"argument {i} of {f!r} takes {describe(d.spec)}, but {g!r} returns {describe(g.result)}."
            )
    return Function(composition, (f, *functions))


def _with_own_arguments(inner) -> list[Function]:
    """The inner Functions, each a function of its own part of the arguments of all."""
    functions = [g for g in inner if isinstance(g, Function)]
    domains = tuple(d for g in functions for d in g.domains)
    widened, start = [], 0
    for g in inner:
        if isinstance(g, Function):
            widened.append(op.broadcast(g, domains, tuple(range(start, start + len(g.domains)))))
            start += len(g.domains)
        else:
            widened.append(op.constant(g, *domains))
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
        linear = {i: d_inner[i] for i in outer.operator.linear_arguments(outer) if i in changed}
        changed = tuple(i for i in changed if i not in linear)
        if linear:
            terms.append(outer.operator.along(outer, inner, linear))
        short = [_slope(outer, inner, i, d_inner[i]) for i in changed]
        if changed and None not in short:
            terms += short
        elif changed:
            terms.append(compose(op.pushforward(outer, changed), *inner, *(d_inner[i] for i in changed)))
        return functools.reduce(operator.add, terms)

    def transpose(self, node, cotangent, needed):
        outer, *inner = node.operands
        rules = outer.operator
        parts = [rules.transpose_outer(outer, inner, cotangent) if needed[0] else None]
        wanted = tuple(i for i in range(len(inner)) if needed[1 + i])
        found = {i: rules.against(outer, inner, i, cotangent) for i in rules.linear_arguments(outer) if i in wanted}
        wanted = tuple(i for i in wanted if i not in found)
        short = {i: _slope(outer, inner, i, cotangent) for i in wanted}
        if None not in short.values():
            found |= short
        elif wanted:
            pulled = compose(op.pullback(outer, wanted), *inner, cotangent)
            found |= {i: op.item(pulled, k) if len(wanted) > 1 else pulled for k, i in enumerate(wanted)}
        return parts + [found.get(i) for i in range(len(inner))]


composition = Compose()


def _slope(outer, inner, position, change):
    """`change` times the derivative of code that knows it (arithmetic of real functions of equal shape), else None."""
    rule = getattr(outer.code, "slope", None)
    if rule is None or change.singular or outer.tags or not all(same_spec(g.result, outer.result) for g in inner):
        return None
    if not isinstance(outer.result, jax.ShapeDtypeStruct) or not jnp.issubdtype(outer.result.dtype, jnp.floating):
        return None
    return rule(position, inner, change)
