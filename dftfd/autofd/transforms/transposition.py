"""vjp: transposed derivatives of operators and functionals, and the pairing <cotangent, value>."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

from dftfd.autofd.core.degree import LINEAR, ZERO, of_graph, of_program
from dftfd.autofd.core.domain import spec_of
from dftfd.autofd.core.function import check_same_type, is_function, parts
from dftfd.autofd.core.graph import (
    add,
    backward,
    forward,
    has_variables,
    is_variable,
    or_zero,
    with_arrays,
    without_variables,
)
from dftfd.autofd.core.jax_adapter import Primitive, is_traced_array, same_structure, shaped
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.integrate import check_one_measure
from dftfd.autofd.transforms.outcome import Arguments, Outcome, array_cotangents, array_derivative, clean
from dftfd.autofd.transforms.tape import ReverseTape, Tape, real_product
from dftfd.errors import SignatureError


def vjp(operator: Callable, *primals: Any) -> tuple[Any, Callable[..., tuple]]:
    """(value, pull) of an operator or functional; pull(cotangent) gives a tuple of cotangents of the primals.

    The cotangent has the type of the value. The operator runs once. Functions are transposed rule by rule; numbers that
    the operator makes of functions on the way (a factor integrate(f)) are differentiated by JAX, and where the value is
    a function that depends on such numbers, <cotangent, value> is integrated, for which its domains need a quadrature.
    """
    run = Run(operator, Arguments(primals))
    return run.value, run.pull


class Run:
    """One run of an operator or functional under JAX's reverse mode.

    value: what it returned; with `has_aux` the first of two things returned, the other is `aux`.   The maps of
    cotangents (`pull`) and of tangents (`push`) do not run it again.
    """

    def __init__(self, operator, chosen: Arguments, has_aux: bool = False):
        self.chosen, self.tape = chosen, ReverseTape()

        def differentiate(thread, arrays):
            with self.tape.recording(thread):
                value = operator(*chosen.full(map(self.tape.watch, chosen.functions), arrays))
                value, aux = value if has_aux else (value, None)
                outcome, others = Outcome(value), Outcome(clean(aux, self.tape.tag))
                self._outcome, self._moving = outcome, self.tape.moving(outcome.arrays)
            self._others = others
            return outcome.arrays, others.arrays

        self._arrays, self._back, aux = jax.vjp(differentiate, jnp.zeros(()), chosen.arrays, has_aux=True)
        self._out = self._outcome.filled(self._arrays)  # with marks of the tape
        self.value = clean(self._outcome.tree(self._out), self.tape.tag)
        self.aux = self._others.tree(self._others.filled(aux))

    def pull(self, cotangent):
        leaves, structure = tree_flatten(cotangent, is_leaf=is_function)
        if not same_structure(structure, self._outcome.structure):
            raise SignatureError(
                f"the cotangent {cotangent!r} does not have the structure of the value {self.value!r}."
            )
        direct, of_arrays = [None] * len(self.chosen.functions), []
        for f, (_, own), ct in zip(self._out, self._outcome.leaves_with(self._moving), leaves, strict=True):
            check_same_type(f, ct, "vjp", "cotangent")
            if not is_function(f):
                of_arrays.append(_cotangent_of(ct, f))
                continue
            backward(f, ct, self.tape.tag, direct)
            of_arrays += self._of_carried(f, own, ct)
        (_, d_arrays), gradients = self.tape.pull(lambda: self._back(of_arrays), len(direct))
        total = [a if b is None else add(a, b) for a, b in zip(direct, gradients, strict=True)]
        pairs = zip(total, self.chosen.functions, strict=True)
        found = [without_variables(or_zero(g, f.signature), self.tape.tag) for g, f in pairs]
        check_one_measure(*found)
        return self.chosen.join(found, d_arrays)

    def _of_carried(self, f, moving, cotangent):
        """Cotangents of the arrays that a Function-valued result carries."""
        f, arrays = without_variables(f, self.tape.tag), parts(f)[0]
        chosen = {k: arrays[k] for k, moves in moving.items() if moves}
        value = lambda arrays: pairing(cotangent, with_arrays(f, arrays))
        slope = lambda k, unit: pairing(cotangent, array_derivative(f, {k: unit}))
        found = array_cotangents(chosen, value, slope if has_variables(f) else None, repr(f))
        return [found[k] if k in found else _cotangent_of(np.zeros(arrays[k].shape), arrays[k]) for k in moving]

    def push(self, tangents):
        """The derivative along tangents of the primals: the transpose of `pull`, without another run."""
        along, tag = self.chosen.tangents(tangents, "linearize"), self.tape.tag
        moved = [_value_along(node, tag, along.functions) for node in self.tape.notes]

        def swept(cotangents):
            (_, d_arrays), received = self.tape.sweep(lambda: self._back(cotangents))
            zero = [tree_map(lambda s: jnp.zeros(s.shape, s.dtype), node.result) for node in self.tape.notes]
            for number, cotangent in received:
                zero[number] = tree_map(jnp.add, zero[number], cotangent)
            return zero, d_arrays

        (d_out,) = jax.linear_transpose(swept, [spec_of(x) for x in self._arrays])((moved, along.arrays))
        return self._outcome.along(self._out, d_out, tag, along.functions)


def _cotangent_of(cotangent, array):
    """A cotangent as JAX wants it."""
    if not jnp.issubdtype(jnp.result_type(array), jnp.inexact):
        return np.zeros(jnp.shape(array), jax.dtypes.float0)
    return jnp.asarray(cotangent, jnp.result_type(array))


def _value_along(node, tag, seeds):
    """Derivative of a value that the functional took, along the tangents of the variables alone."""
    along = forward(node, tag, seeds)
    if along is None:
        return tree_map(lambda s: jnp.zeros(s.shape, s.dtype), node.result)
    return without_variables(along, tag)()


def pairing(cotangent, value):
    """Re <cotangent, value>: the integral, or sum, of the product, over all Functions and arrays of a pytree."""
    c_leaves, structure = tree_flatten(cotangent, is_leaf=is_function)
    v_leaves, of_value = tree_flatten(value, is_leaf=is_function)
    if not same_structure(structure, of_value):
        raise SignatureError(f"the cotangent {cotangent!r} does not have the structure of the value {value!r}.")
    total = 0.0
    for c, v in zip(c_leaves, v_leaves, strict=True):
        check_same_type(v, c, "vjp", "cotangent")
        total = total + (op.integrate(op.compose(RealProduct(), c, v)) if is_function(v) else real_product(c, v))
    return total


class RealProduct(Code):
    """(c, v) -> Re sum of c v over all entries."""

    __name__ = "Re c v"

    def __call__(self, c, v):
        return real_product(c, v)


# ---- is an operator linear?


class DegreeTape(Tape):
    """Of the values that a functional takes only their degree in the variables is wanted, see `degree`."""

    def noted(self, node, outer):
        if self.tag not in node.tags:
            return super().noted(node, outer)
        leaves = parts(node)[0]
        places = [k for k, x in enumerate(leaves) if is_traced_array(x)]

        def degrees(inputs):
            found = of_graph(node, lambda n: is_variable(n, self.tag), dict(zip(places, inputs, strict=True)))
            return [found] * len(tree_leaves(node.result))

        values = _value_of_degree.bind(*(leaves[k] for k in places), degree=degrees, result=node.result)
        return tree_unflatten(tree_structure(node.result), values)


_value_of_degree = Primitive("value")
_value_of_degree.multiple_results = True
_value_of_degree.def_abstract_eval(lambda *avals, degree, result: list(map(shaped, tree_leaves(result))))


def is_linear_operator(operator, primals) -> bool:
    """True if the program of an operator or functional is linear in all its arguments together."""
    chosen, tape, kept = Arguments(primals), DegreeTape(), []

    def run(arrays):
        with tape.recording(jnp.zeros(())):
            kept.append(Outcome(operator(*chosen.full(map(tape.watch, chosen.functions), arrays))))
        return kept[-1].arrays

    program = jax.make_jaxpr(run)(chosen.arrays)
    degrees = of_program(program, [LINEAR] * len(chosen.arrays))
    for x, own in kept[-1].leaves_with(degrees):
        degree = of_graph(x, lambda n: is_variable(n, tape.tag), own) if is_function(x) else own
        if degree not in (ZERO, LINEAR):
            return False
    return True
