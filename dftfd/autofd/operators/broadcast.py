"""broadcast and permute: add arguments that a function ignores, or reorder its arguments.

broadcast.   JVP: itself.   transpose: integrate over the added arguments.
permute.   JVP: itself.   transpose: the inverse permutation.
"""

from typing import Any

import numpy as np

from dftfd.autofd.core.domain import Domain, Signature, same_domain
from dftfd.autofd.core.function import Function, other_arguments
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.errors import SignatureError


class Broadcast(Operator):
    name, linear, passes_arguments = "broadcast", True, True

    def signature(self, operands, arrays, static):
        return Signature(static["domains"], operands[0].result)

    def evaluate(self, node, *args):
        return (yield node.operands[0], [args[i] for i in node.static["argnums"]])

    def transpose(self, node, cotangent, needed):
        kept = node.static["argnums"]
        reduced = op.integrate_over(cotangent, other_arguments(node, kept))
        return [permute(reduced, np.argsort(np.argsort(kept)))]

    def argument_below(self, node, i):
        kept = node.static["argnums"]
        return kept.index(i) if i in kept else None

    def separate(self, node):
        return op.separate_rearranged(node)


class Permute(Operator):
    name, linear, passes_arguments = "permute", True, True

    def signature(self, operands, arrays, static):
        (f,) = operands
        return Signature(tuple(f.domains[i] for i in static["permutation"]), f.result)

    def evaluate(self, node, *args):
        ordered = [None] * len(args)
        for i, x in zip(node.static["permutation"], args, strict=True):
            ordered[i] = x
        return (yield node.operands[0], ordered)

    def transpose(self, node, cotangent, needed):
        return [permute(cotangent, np.argsort(node.static["permutation"]))]

    def argument_below(self, node, i):
        return node.static["permutation"][i]

    def separate(self, node):
        return op.separate_rearranged(node)


_broadcast, _permute = Broadcast(), Permute()


@op.register
def broadcast(f: Function, domains: tuple[Domain, ...], argnums: int | tuple[int, ...], given: tuple = ()) -> Function:
    """(x_0, ..., x_{N-1}) -> f(x_i for i in argnums), a function on all of `domains`.

    given: measures that integrals were given by `quadrature=`, for the transpose of such an integral. They are part of
    what the node is: equal nodes are one object, but cotangents of different measures must stay apart.
    """
    argnums = (argnums,) if isinstance(argnums, int) else tuple(int(i) for i in argnums)
    domains = tuple(domains)
    if len(argnums) != len(f.domains) or len(set(argnums)) != len(argnums):
        raise SignatureError(f"broadcast: argnums {argnums} must name {len(f.domains)} different arguments for {f!r}.")
    for i, d in zip(argnums, f.domains, strict=True):
        if not 0 <= i < len(domains) or not same_domain(domains[i], d):
            raise SignatureError(f"broadcast: argument {i} of {domains} is not {d!r}, the domain of {f!r}.")
    static = {"domains": domains, "argnums": argnums} | ({"given": given} if given else {})
    return Function(_broadcast, (f,), (), static)


@op.register
def permute(f: Function, permutation: Any) -> Function:
    """g with g(x_{p0}, x_{p1}, ...) = f(x_0, x_1, ...): argument k of g is argument permutation[k] of f."""
    permutation = tuple(int(i) for i in permutation)
    if sorted(permutation) != list(range(len(f.domains))):
        raise SignatureError(f"permute: {permutation} is not a permutation of the arguments of {f!r}.")
    if permutation == tuple(range(len(permutation))):
        return f
    return Function(_permute, (f,), (), {"permutation": permutation})
