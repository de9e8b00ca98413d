"""vjp: transposed derivatives of operators and functionals, and the pairing <cotangent, value>."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

from dftfd.autofd.degree import LINEAR, ZERO, of_graph, of_program
from dftfd.autofd.domain import spec_of
from dftfd.autofd.first_order import Outcome, entrywise, is_traced_array, with_arrays
from dftfd.autofd.function import is_function, parts
from dftfd.autofd.graph import add, backward, forward, has_variables, is_variable, or_zero, without_variables
from dftfd.autofd.operators.compose import check_same_type, compose
from dftfd.autofd.operators.integrate import integrate
from dftfd.autofd.operators.leaf import zero_tangent
from dftfd.autofd.structure import HasKey
from dftfd.autofd.tape import ReverseTape, Tape, array_derivative, real_product
from dftfd.autofd.transforms import Arguments, finished
from dftfd.errors import SignatureError


def vjp(operator: Callable, *primals: Any) -> tuple[Any, Callable[..., tuple]]:
    """(value, pull) of an operator or functional; pull(cotangent) gives a tuple of cotangents of the primals.

    The cotangent has the type of the value. The operator runs once. Functions are transposed rule by rule; numbers that
    the operator makes of functions on the way (a factor integrate(f)) are differentiated by JAX, and where the value is
    a function that depends on such numbers, <cotangent, value> is integrated, for which its domains need a quadrature.
    """
    run = Run(operator, primals)
    return run.value, run.pull


class Run:
    """One run of an operator or functional under JAX's reverse mode.

    value: what it returned.   The maps of cotangents (`pull`) and of tangents (`push`) do not run it again.
    """

    def __init__(self, operator, primals):
        self.chosen, self.tape = Arguments(primals, tuple(range(len(primals)))), ReverseTape()

        def differentiate(thread, arrays):
            with self.tape.recording(thread):
                outcome = Outcome(operator(*self.chosen.full(map(self.tape.watch, self.chosen.functions), arrays)))
                self._outcome, self._moving = outcome, self.tape.moving(outcome.arrays)
            return outcome.arrays

        self._arrays, self._back = jax.vjp(differentiate, jnp.zeros(()), self.chosen.arrays)
        self._out = tree_leaves(self._outcome.filled(self._arrays), is_leaf=is_function)  # with marks of the tape
        clean = [without_variables(x, self.tape.tag) if is_function(x) else x for x in self._out]
        self.value = tree_unflatten(self._outcome.structure, clean)

    def pull(self, cotangent):
        """Cotangents of the primals."""
        leaves, structure = tree_flatten(cotangent, is_leaf=is_function)
        if structure != self._outcome.structure:
            raise SignatureError(
                f"the cotangent {cotangent!r} does not have the structure of the value {self.value!r}."
            )
        direct, of_arrays = [None] * len(self.chosen.functions), []
        for f, (_, own), ct in zip(self._out, self._owned(self._moving), leaves, strict=True):
            check_same_type(f, ct, "vjp", "cotangent")
            if not is_function(f):
                of_arrays.append(_cotangent_of(ct, f))
                continue
            backward(f, ct, self.tape.tag, direct)
            of_arrays += self._of_carried(f, own, ct)
        (_, d_arrays), gradients = self.tape.pull(lambda: self._back(of_arrays), len(direct))
        total = [a if b is None else add(a, b) for a, b in zip(direct, gradients, strict=True)]
        return self.chosen.join(finished(total, self.chosen.functions, self.tape.tag), d_arrays)

    def _owned(self, values):
        return self._outcome.leaves_with(values)

    def _of_carried(self, f, moving, cotangent):
        """Cotangents of the arrays that a Function-valued result carries."""
        f, arrays = without_variables(f, self.tape.tag), parts(f)[0]
        paired = lambda derivative: pairing(cotangent, derivative)
        found = cotangents_of_arrays(f, {k: arrays[k] for k, moves in moving.items() if moves}, paired)
        return [found[k] if k in found else _cotangent_of(np.zeros(arrays[k].shape), arrays[k]) for k in moving]

    def push(self, tangents):
        """The derivative along tangents of the primals: the transpose of `pull`, without another run."""
        along = Arguments(tuple(tangents), tuple(range(len(tangents))))
        if along.treedef != self.chosen.treedef:
            raise SignatureError(f"linearize: tangents {along.treedef} for arguments {self.chosen.treedef}.")
        for f, df in zip(self.chosen.leaves, along.leaves, strict=True):
            check_same_type(f, df, "linearize", "tangent")
        seeds, tag = along.functions, self.tape.tag
        moved = [_value_along(node, tag, seeds) for node in self.tape.notes]

        def swept(cotangents):
            (_, d_arrays), received = self.tape.sweep(lambda: self._back(cotangents))
            zero = [tree_map(lambda s: jnp.zeros(s.shape, s.dtype), node.result) for node in self.tape.notes]
            for number, cotangent in received:
                zero[number] = tree_map(jnp.add, zero[number], cotangent)
            return zero, d_arrays

        (d_out,) = jax.linear_transpose(swept, [spec_of(x) for x in self._arrays])((moved, along.arrays))
        leaves = [
            _along(f, own, tag, seeds) if is_function(f) else own
            for f, (_, own) in zip(self._out, self._owned(d_out), strict=True)
        ]
        return tree_unflatten(self._outcome.structure, leaves)


def _cotangent_of(cotangent, array):
    """A cotangent as JAX wants it."""
    if not jnp.issubdtype(jnp.result_type(array), jnp.inexact):
        return np.zeros(jnp.shape(array), jax.dtypes.float0)
    return jnp.asarray(cotangent, jnp.result_type(array))


def _value_along(node, tag, seeds):
    """Derivative of a value that the functional took, along the tangents of the variables alone."""
    derivative = forward(node, tag, seeds)
    if derivative is None:
        return tree_map(lambda s: jnp.zeros(s.shape, s.dtype), node.result)
    return without_variables(derivative, tag)()


def _along(f, d_arrays, tag, seeds):
    moved = [d_arrays[k] if k in d_arrays else zero_tangent(x) for k, x in enumerate(parts(f)[0])]
    return without_variables(or_zero(forward(f, tag, seeds, moved), f.signature), tag)


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
        return real_product(c, v)

    def structural_key(self):
        return ("real product",)


def cotangents_of_arrays(f, arrays: dict, paired) -> dict:
    """Gradient of paired(f) with respect to arrays that f carries, {number: array}; `paired` is real and linear."""
    if not arrays:
        return {}
    if not has_variables(f):
        return jax.grad(lambda arrays: paired(with_arrays(f, arrays)))(arrays)
    slope = lambda k, unit: paired(array_derivative(f, {k: unit}))
    return {k: entrywise(x, lambda unit, k=k: slope(k, unit), repr(f)) for k, x in arrays.items()}


class DegreeTape(Tape):
    """Of the values that a functional takes only their degree in the variables is wanted: see dftfd.autofd.degree."""

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

    def rule(self, node, places, outer):
        return lambda thread, *arrays: self.value_outside(
            with_arrays(node, dict(zip(places, arrays, strict=True))), outer
        )


_value_of_degree = Primitive("value")
_value_of_degree.multiple_results = True
_value_of_degree.def_abstract_eval(
    lambda *avals, degree, result: [jax.core.ShapedArray(s.shape, s.dtype) for s in tree_leaves(result)]
)


def is_linear_operator(operator, primals) -> bool:
    """True if the program of an operator or functional is linear in all its arguments together."""
    chosen, tape, kept = Arguments(primals, tuple(range(len(primals)))), DegreeTape(), []

    def run(arrays):
        with tape.recording(jnp.zeros(())):
            kept.append(Outcome(operator(*chosen.full(map(tape.watch, chosen.functions), arrays))))
        return kept[-1].arrays

    program = jax.make_jaxpr(run)(chosen.arrays)
    degrees = of_program(program.jaxpr, program.consts, [LINEAR] * len(chosen.arrays))
    for x, own in kept[-1].leaves_with(degrees):
        degree = of_graph(x, lambda n: is_variable(n, tape.tag), own) if is_function(x) else own
        if degree not in (ZERO, LINEAR):
            return False
    return True
