"""Walks over the operator graph: derivative along tangents, pull-back of a cotangent, replacement of nodes."""

from jax.tree_util import tree_flatten, tree_unflatten

from dftfd.autofd.core.domain import Signature
from dftfd.autofd.core.function import SYMBOLIC, Function, nodes_of
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.operators.leaf import is_still, is_zero, zeros
from dftfd.autofd.operators.linearize import add_settled
from dftfd.errors import LeakError


class Variable(Operator):
    """A function that a transformation differentiates with respect to: itself, with a tag."""

    name, linear = "variable", True

    def signature(self, operands, arrays, static):
        return operands[0].signature

    def evaluate(self, node, *args):
        raise LeakError(
            f"{node!r} is being differentiated and its value is taken past the transformation, where its derivative "
            "would be lost. Call the function itself, f(x), instead of f.evaluate(x)."
        )

    def tangent(self, node, tangents):
        return tangents[0]

    def transpose(self, node, cotangent, needed):
        return [cotangent]


_variable = Variable()


def variable(f: Function, tag, position: int) -> Function:
    """f, marked as variable number `position` of the transformation `tag`."""
    return Function(_variable, (f,), (), {"tag": tag, "position": position}, f.signature, f.tags | {tag})


def is_variable(node: Function, tag) -> bool:
    return node.operator is _variable and node.static["tag"] is tag


def has_variables(node: Function) -> bool:
    """True if a transformation of this package is differentiating something below the node."""
    return bool(node.tags - {SYMBOLIC})


def without_variables(root: Function, tag=None) -> Function:
    """The graph with the variables of `tag` (None: of every transformation) replaced by the functions they mark."""
    done = {}
    for node in nodes_of(root):
        if (tag not in node.tags) if tag is not None else not has_variables(node):
            done[id(node)] = node
        elif node.operator is _variable and (tag is None or node.static["tag"] is tag):
            done[id(node)] = done[id(node.operands[0])]
        elif node.operator is _variable:
            done[id(node)] = variable(done[id(node.operands[0])], node.static["tag"], node.static["position"])
        else:
            done[id(node)] = node.replace(operands=[done[id(f)] for f in node.operands])
    return done[id(root)]


def forward(root: Function, tag, seeds, array_tangents=None) -> Function | None:
    """Derivative of the graph when each variable of `tag` moves along its seed.

    seeds: tangent Function of each variable, by position.
    array_tangents: tangents of the arrays that root carries, in the order of `parts(root)`, or None.
    Returns None if nothing moves.
    """
    done, rest = {}, None if array_tangents is None else iter(array_tangents)
    for node in nodes_of(root):
        leaves, structure = tree_flatten(node.arrays) if rest is not None else ((), None)
        moved = [next(rest) for _ in leaves]
        if is_variable(node, tag):
            done[id(node)] = seeds[node.static["position"]]
            continue
        tangents = [done[id(f)] for f in node.operands]
        terms = []
        if any(t is not None for t in tangents):
            terms.append(node.operator.tangent(node, tangents))
        if not all(map(is_still, moved)):
            terms.append(node.operator.array_tangent(node, tree_unflatten(structure, moved)))
        done[id(node)] = None if not terms else terms[0] if len(terms) == 1 else terms[0] + terms[1]
    return done[id(root)]


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
    if a is None or is_zero(a):
        return b
    if is_zero(b):
        return a
    both = add_settled(a, b)
    return a + b if both is None else both


def or_zero(f: Function | None, signature: Signature) -> Function:
    return zeros(signature) if f is None else f
