"""vjp: transposed derivatives of operators and functionals, and the pairing <cotangent, value>."""

import jax.numpy as jnp
from jax.tree_util import tree_leaves, tree_map, tree_structure

from dftfd.autofd.function import Function, is_function
from dftfd.autofd.graph import backward, without_variables
from dftfd.autofd.operators.compose import check_same_type, compose
from dftfd.autofd.operators.integrate import integrate
from dftfd.autofd.structure import HasKey
from dftfd.autofd.tape import Escapes, GraphTape, attempt, recording, starts_clean
from dftfd.autofd.transforms import Arguments, finished, grad
from dftfd.errors import SignatureError


def vjp(operator, *primals):
    """(value, pull) of an operator or functional; pull(cotangent) gives a tuple of cotangents of the primals.

    The cotangent has the type of the value. An operator that keeps to functions is transposed rule by rule. One that
    turns functions into numbers on the way is paired with the cotangent first, <cotangent, operator(f)>, and the
    gradient of that is taken; for values that are functions this needs a quadrature on their domains.
    """
    chosen = Arguments(primals, tuple(range(len(primals))))
    value, tag = _as_graph(operator, chosen)
    if value is None:
        return _vjp_by_pairing(operator, primals)

    def pull(cotangent: Function):
        check_same_type(value, cotangent, "vjp", "cotangent")
        gradients = [None] * len(chosen.functions)
        backward(value, cotangent, tag, gradients)
        return chosen.join(finished(gradients, chosen.functions, tag), [])

    return without_variables(value, tag), pull


def _as_graph(operator, chosen):
    """(value, tag) of an operator from Functions to a Function that is a graph of its arguments; else (None, None)."""
    if chosen.arrays:
        return None, None
    tape = GraphTape(starts_clean())
    try:
        with attempt(), recording(tape):
            graph = operator(*chosen.full(map(tape.watch, chosen.functions), []))
    except Escapes:
        return None, None
    return (graph, tape.tag) if is_function(graph) else (None, None)


def _vjp_by_pairing(operator, primals):
    positions = tuple(range(len(primals)))
    value = operator(*primals)

    def pull(cotangent):
        def paired(*primals):
            return pairing(cotangent, operator(*primals))

        return grad(paired, positions)(*primals)

    return value, pull


def pairing(cotangent, value):
    """Re <cotangent, value>: the integral, or sum, of the product, over all Functions and arrays of a pytree."""
    if tree_structure(_shape_of_tree(cotangent)) != tree_structure(_shape_of_tree(value)):
        raise SignatureError(f"the cotangent {cotangent!r} does not have the structure of the value {value!r}.")
    total = 0.0
    for c, v in zip(*(tree_leaves(x, is_leaf=is_function) for x in (cotangent, value)), strict=True):
        check_same_type(v, c, "vjp", "cotangent")
        total = total + (integrate(compose(RealProduct(), c, v)) if is_function(v) else RealProduct()(c, v))
    return total


def _shape_of_tree(tree):
    """A pytree of the same shape with 0 for each array and Function."""
    return tree_map(lambda x: 0, tree, is_leaf=is_function)


class RealProduct(HasKey):
    """(c, v) -> Re sum of c v over all entries."""

    __name__ = "Re c v"

    def __call__(self, c, v):
        return sum(tree_leaves(tree_map(lambda c, v: jnp.real(jnp.sum(c * v)), c, v)))

    def structural_key(self):
        return ("real product",)
