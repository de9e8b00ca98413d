"""compose: h(x) = f(g_1(x), ..., g_n(x))

JVP         dh = df(g) + sum_i L_i f(g; dg_i)        L_i f: derivative of f along its i-th argument
transpose   of g_i: x -> (d_i f (g(x)))^T ct(x)      pointwise, from <d_i f dg_i, ct> = <dg_i, (d_i f)^T ct>
            of f: ct(g^-1) |det D g^-1|, needs the inverse of g
"""

import jax
from jax.tree_util import tree_map

from dftfd.autofd.domain import Signature, describe, same_domain, same_spec, value_space
from dftfd.autofd.function import Function
from dftfd.autofd.operators.base import Operator
from dftfd.autofd.operators.leaf import constant, function
from dftfd.errors import NoRuleError, SignatureError


class Compose(Operator):
    name = "compose"

    def signature(self, operands, arrays, static):
        outer, *inner = operands
        return Signature(inner[0].domains, outer.result)

    def evaluate(self, node, *args):
        outer, *inner = node.operands
        return outer.evaluate(*(g.evaluate(*args) for g in inner))

    def tangent(self, node, tangents):
        outer, *inner = node.operands
        d_outer, *d_inner = tangents
        terms = [] if d_outer is None else [compose(d_outer, *inner)]
        changed = tuple(i for i, d in enumerate(d_inner) if d is not None)
        if changed:
            terms.append(compose(pushforward(outer, changed), *inner, *(d_inner[i] for i in changed)))
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def transpose(self, node, cotangent, needed):
        outer, *inner = node.operands
        if needed[0]:
            raise NoRuleError(
                f"the transpose of compose with respect to its outer function {outer!r} needs the inverse of "
                f"{', '.join(map(repr, inner))}; none is registered."
            )
        wanted = tuple(i for i in range(len(inner)) if needed[1 + i])
        pulled = compose(pullback(outer, wanted), *inner, cotangent)
        parts = iter(pulled[k] for k in range(len(wanted))) if len(wanted) > 1 else iter([pulled])
        return [None] + [next(parts) if i in wanted else None for i in range(len(inner))]


composition = Compose()


def compose(outer, *inner) -> Function:
    """x -> outer(inner_1(x), ..., inner_n(x)).

    outer: a Function, or Python code of the inner values.   inner: Functions on the same domains; numbers and arrays
    stand for constants.
    """
    domains = next((g.domains for g in inner if isinstance(g, Function)), None)
    if domains is None:
        raise SignatureError("compose needs at least one inner Function; to evaluate, call the function on points.")
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


def check_same_domains(f: Function, g: Function, what: str):
    """Raise unless two functions have the same arguments."""
    same = len(f.domains) == len(g.domains)
    if not same or not all(same_domain(a, b) for a, b in zip(f.domains, g.domains, strict=True)):
        raise SignatureError(f"{what} of functions on different domains: {f!r} and {g!r}.")


class Pushforward(Operator):
    """(y_1..y_n, dy_i for i in argnums) -> sum_i d_i f(y) dy_i.   Linear in f."""

    name, linear = "pushforward", True

    def signature(self, operands, arrays, static):
        (f,) = operands
        return Signature(f.domains + tuple(value_space(f.domains[i].spec) for i in static["argnums"]), f.result)

    def evaluate(self, node, *args):
        (f,) = node.operands
        return jax.jvp(*_restricted(f, args[: len(f.domains)], node.static["argnums"]), args[len(f.domains) :])[1]

    def transpose(self, node, cotangent, needed):
        raise NoRuleError("pushforward has no transpose with respect to its function: use linearize with a quadrature.")


class Pullback(Operator):
    """(y_1..y_n, ct) -> (d_i f(y))^T ct for i in argnums; a tuple if there are several.   Linear in f."""

    name, linear = "pullback", True

    def signature(self, operands, arrays, static):
        (f,) = operands
        specs = tuple(f.domains[i].spec for i in static["argnums"])
        return Signature((*f.domains, value_space(f.result)), specs if len(specs) > 1 else specs[0])

    def evaluate(self, node, *args):
        (f,) = node.operands
        restricted, primals = _restricted(f, args[:-1], node.static["argnums"])
        pulled = jax.vjp(restricted, *primals)[1](args[-1])
        return pulled if len(pulled) > 1 else pulled[0]

    def transpose(self, node, cotangent, needed):
        raise NoRuleError("pullback has no transpose with respect to its function.")


def _restricted(f, args, argnums):
    """f as code of the arguments in `argnums` alone, and their values."""

    def code(*values):
        full = list(args)
        for i, v in zip(argnums, values, strict=True):
            full[i] = v
        return f.evaluate(*full)

    return code, tuple(args[i] for i in argnums)


_pushforward, _pullback = Pushforward(), Pullback()


def pushforward(f: Function, argnums: tuple[int, ...]) -> Function:
    """Derivative of f along some arguments, as a function of point and directions."""
    return Function(_pushforward, (f,), (), {"argnums": argnums})


def pullback(f: Function, argnums: tuple[int, ...]) -> Function:
    """Transposed derivative of f, as a function of point and cotangent."""
    return Function(_pullback, (f,), (), {"argnums": argnums})


def pointwise(code):
    """Code on arrays as an operation on functions: applied leaf by leaf to tree-valued results."""

    def apply(*trees):
        return tree_map(code, *trees)

    return apply
