"""partial: fix some arguments.   f(x, y), y = y0   gives   x -> f(x, y0).   `at` fixes all of them: f -> f(x0).

JVP         itself; when y0 moves by dy, x -> d_y f(x, y0) dy
transpose   ct(x) delta(y - y0), from int f(x, y0) ct(x) dx = <f, ct delta>: a Dirac distribution, see dirac.py
"""

from typing import Any

import jax.numpy as jnp
from jax.tree_util import tree_map

from dftfd.autofd.core.domain import Signature, describe, same_spec, spec_of
from dftfd.autofd.core.function import Function, other_arguments
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.errors import SignatureError


@op.register
def at(f: Function, *points: Any) -> Function:
    """f(x0) as a function of no arguments."""
    return partial(f, tuple(range(len(f.domains))), points)


def invoke(f: Function, *points: Any) -> Any:
    """f(*points) as an array: `f(*points)` written as an operator."""
    return f(*points)


@op.register
def partial(f: Function, argnums: int | tuple[int, ...], values: Any) -> Function:
    """f with the arguments `argnums` fixed to `values`, a Function of the other arguments.

    values: a point of the domain, or a tuple of them if `argnums` is one. They can be differentiated.
    """
    if isinstance(argnums, int):
        argnums, values = (argnums,), (values,)
    argnums, values = tuple(argnums), tuple(tree_map(jnp.asarray, v) for v in values)
    count = len(f.domains)
    if len(values) != len(argnums) or len(set(argnums)) != len(argnums) or not all(0 <= i < count for i in argnums):
        raise SignatureError(f"partial: {len(values)} value(s) for the arguments {argnums} of {f!r}.")
    for i, v in zip(argnums, values, strict=True):
        if not same_spec(spec_of(v), f.domains[i].spec):
            raise SignatureError(
                f"partial: argument {i} of {f!r} takes {describe(f.domains[i].spec)}, {describe(spec_of(v))} given."
            )
    return Function(_partial, (f,), values, {"argnums": argnums})


class Partial(Operator):
    name, linear, passes_arguments = "partial", True, True

    def signature(self, operands, arrays, static):
        (f,) = operands
        return Signature(tuple(f.domains[i] for i in other_arguments(f, static["argnums"])), f.result)

    def evaluate(self, node, *args):
        (f,), rest = node.operands, iter(args)
        fixed = dict(zip(node.static["argnums"], node.arrays, strict=True))
        return (yield f, [fixed[i] if i in fixed else next(rest) for i in range(len(f.domains))])

    def array_tangent(self, node, tangents):
        (f,), argnums = node.operands, node.static["argnums"]
        directions = tuple(range(len(f.domains), len(f.domains) + len(argnums)))
        return partial(op.pushforward(f, argnums), argnums + directions, (*node.arrays, *tangents))

    def transpose(self, node, cotangent, needed):
        return [op.dirac(cotangent, node.operands[0].domains, node.static["argnums"], node.arrays)]

    def argument_below(self, node, i):
        return other_arguments(node.operands[0], node.static["argnums"])[i]


_partial = Partial()
