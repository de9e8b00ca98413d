"""Walks over the operator graph: nodes exchanged, derivative along tangents, pull-back of a cotangent.

A function that a transformation differentiates with respect to stands in the graph as a variable: itself, with a tag.
"""

from collections.abc import Callable
from typing import Any

from jax.tree_util import tree_flatten, tree_unflatten

from dftfd.autofd.core.function import SYMBOLIC, Function, is_still, is_zero, nodes_of, parts, zero_tangent
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.errors import LeakError, NoRuleError


def rewrite(root: Function, rule: Callable):
    """What stands for `root` if rule(node, what stands for its operands) stands for each node, operands first."""
    done: dict[int, Any] = {}
    for node in nodes_of(root):
        done[id(node)] = rule(node, [done[id(f)] for f in node.operands])
    return done[id(root)]


def nested_derivatives(root: Function) -> int:
    """How many derivatives by points stand one inside of another; the cost of a value doubles with each."""
    depth: dict[int, int] = {}
    for node in nodes_of(root):
        depth[id(node)] = max((depth[id(f)] for f in node.operands), default=0) + (node.operator.name == "nabla")
    return depth[id(root)]


def over(node: Function, operands) -> Function:
    """The same node over other operands; the node itself if they are its own."""
    return node if all(a is b for a, b in zip(operands, node.operands, strict=True)) else node.replace(operands)


def with_arrays(root: Function, arrays: dict) -> Function:
    """The graph with other arrays, {number of the array: array}; what does not change stays the same object."""
    start = 0

    def rule(node, operands):
        nonlocal start
        leaves, structure = tree_flatten(node.arrays)
        new = [arrays.get(start + k, x) for k, x in enumerate(leaves)]
        start += len(leaves)
        if all(a is b for a, b in zip(new, leaves, strict=True)):
            return over(node, operands)
        return node.replace(operands, tree_unflatten(structure, new))

    return rewrite(root, rule) if arrays else root


# ---- variables


class Variable(Operator):
    """A function that a transformation differentiates with respect to: itself, with a tag."""

    name, linear = "variable", True

    def signature(self, operands, arrays, static):
        return operands[0].signature

    def evaluate(self, node, *args):
        raise LeakError(
            f"{node!r} is being differentiated and its value is used outside the transformation, where its "
            "derivative would be lost. Call the function itself, f(x), instead of f.evaluate(x)."
        )

    def tangent(self, node, tangents):
        return tangents[0]

    def transpose(self, node, cotangent, needed):
        return [cotangent]

    def separate(self, node):
        raise NoRuleError(f"{node!r} is a distribution; there is no derivative with respect to it (operator variable).")


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

    def rule(node, operands):
        marked = node.operator is _variable and (tag is None or node.static["tag"] is tag)
        return operands[0] if marked else over(node, operands)

    marked = has_variables(root) if tag is None else tag in root.tags
    return rewrite(root, rule) if marked else root


# ---- derivatives


def forward(root: Function, tag, seeds, array_tangents=None) -> Function | None:
    """Derivative of the graph when each variable of `tag` moves along its seed; None if nothing moves.

    seeds: tangent Function of each variable, by position.
    array_tangents: tangents of the arrays that root carries, in the order of `parts(root)`, or None.
    """
    rest = iter(() if array_tangents is None else array_tangents)

    def rule(node, tangents):
        leaves, structure = tree_flatten(node.arrays) if array_tangents is not None else ((), None)
        moved = [next(rest) for _ in leaves]
        if is_variable(node, tag):
            return seeds[node.static["position"]]
        terms = []
        if any(t is not None for t in tangents):
            terms.append(node.operator.tangent(node, tangents))
        if not all(map(is_still, moved)):
            terms.append(node.operator.array_tangent(node, tree_unflatten(structure, moved)))
        return None if not terms else terms[0] if len(terms) == 1 else terms[0] + terms[1]

    return rewrite(root, rule)


def derivative(root: Function, tag, seeds, moving: dict) -> Function | None:
    """`forward` where of the arrays that root carries those in `moving` move, {number of the array: tangent}."""
    return forward(
        root, tag, seeds, [moving[k] if k in moving else zero_tangent(x) for k, x in enumerate(parts(root)[0])]
    )


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
    """a + b of cotangents, where None is zero."""
    if a is None or is_zero(a):
        return b
    return a if is_zero(b) else a.operator.plus(a, b)


def or_zero(f: Function | None, signature) -> Function:
    return op.zeros(signature) if f is None else f
