"""Walks over the operator graph: derivative along tangents, pull-back of a cotangent, replacement of nodes."""

import jax
import numpy as np
from jax.tree_util import tree_leaves

from dftfd.autofd.domain import Signature
from dftfd.autofd.function import Function, nodes_of
from dftfd.autofd.operators.base import Operator
from dftfd.autofd.operators.leaf import is_zero, leaf, zeros
from dftfd.autofd.structure import is_tracer
from dftfd.errors import NoRuleError


class Variable(Operator):
    """A function that a transformation differentiates with respect to: itself, with a tag."""

    name, linear = "variable", True

    def signature(self, operands, arrays, static):
        return operands[0].signature

    def evaluate(self, node, *args):
        return node.operands[0].evaluate(*args)

    def transpose(self, node, cotangent, needed):
        return [cotangent]


_variable = Variable()


def variable(f: Function, tag, position: int) -> Function:
    """f, marked as variable number `position` of the transformation `tag`."""
    return Function(_variable, (f,), (), {"tag": tag, "position": position}, f.signature, f.tags | {tag})


def is_variable(node: Function, tag) -> bool:
    return node.operator is _variable and node.static["tag"] is tag


def without_variables(root: Function, tag=None) -> Function:
    """The graph with the variables of `tag` (None: of every transformation) replaced by the functions they mark."""
    done = {}
    for node in nodes_of(root):
        if (tag not in node.tags) if tag is not None else not node.tags:
            done[id(node)] = node
        elif node.operator is _variable and (tag is None or node.static["tag"] is tag):
            done[id(node)] = done[id(node.operands[0])]
        else:
            done[id(node)] = node.replace(operands=[done[id(f)] for f in node.operands])
    return done[id(root)]


def forward(root: Function, tag, seeds, array_tangents: Function | None = None) -> Function | None:
    """Derivative of the graph when each variable of `tag` moves along its seed.

    seeds: tangent Function of each variable, by position.
    array_tangents: a graph of the same shape whose arrays are the tangents of root's arrays, or None.
    Returns None if nothing moves.
    """
    nodes = nodes_of(root)
    moved = nodes_of(array_tangents) if array_tangents is not None else [None] * len(nodes)
    done = {}
    for node, twin in zip(nodes, moved, strict=True):
        if is_variable(node, tag):
            done[id(node)] = seeds[node.static["position"]]
            continue
        tangents = [done[id(f)] for f in node.operands]
        terms = []
        if any(t is not None for t in tangents):
            terms.append(node.operator.tangent(node, tangents))
        if twin is not None and not _is_still(twin.arrays):
            terms.append(_array_tangent(node, twin.arrays))
        done[id(node)] = None if not terms else terms[0] if len(terms) == 1 else terms[0] + terms[1]
    return done[id(root)]


def _is_still(tangents) -> bool:
    """True if no array moves, as far as can be known."""
    return all(
        x.dtype == jax.dtypes.float0 or (not is_tracer(x) and not np.any(np.asarray(x))) for x in tree_leaves(tangents)
    )


def _array_tangent(node, tangents):
    if node.operator is not leaf:
        raise NoRuleError(
            f"{node!r} carries arrays that depend on the function being differentiated; there is no rule for that."
        )
    return leaf.array_tangent(node, tangents)


def backward(root: Function, cotangent: Function, tag, gradients: list):
    """Pull `cotangent` of root back to the variables of `tag`; adds to `gradients`, a list by position."""
    cotangents = {id(root): cotangent}
    for node in reversed(nodes_of(root)):
        ct = cotangents.pop(id(node), None)
        if ct is None or tag not in node.tags or is_zero(ct):
            continue
        if is_variable(node, tag):
            position = node.static["position"]
            gradients[position] = add(gradients[position], ct)
            continue
        needed = tuple(tag in f.tags for f in node.operands)
        for operand, part in zip(node.operands, node.operator.transpose(node, ct, needed), strict=True):
            if tag in operand.tags:
                cotangents[id(operand)] = add(cotangents.get(id(operand)), part)


def add(a: Function | None, b: Function) -> Function:
    """a + b, where None is zero."""
    return b if a is None or is_zero(a) else a if is_zero(b) else a + b


def or_zero(f: Function | None, signature: Signature) -> Function:
    return zeros(signature) if f is None else f
