"""Where functions become arrays.

Inside a transformation, the functions being differentiated carry a tag. Operators on them build graph; the graph turns
into an array when a Function of no arguments is evaluated (an integral over everything, a point evaluation). There, and
only there, each transformation in progress takes note, by a derivative rule of its own for JAX (jax.custom_vjp,
jax.custom_jvp):

- reverse: the node is recorded. JAX's sweep back calls the rule with the cotangent of the value, which is recorded,
  too; `graph.backward` takes it from the value to the functions.
- forward: the value moves by the node's derivative along the tangents.

A thread, a number that JAX differentiates and that changes nothing, runs through every value, so the rules are called.
Paths function -> array -> function (a factor integrate(f) inside E) are arrays that the graph carries: arguments of the
rule. The functional runs once.

Nested transformations. JAX calls the rule of an inner transformation with values that belong to the transformations
around it, so there the value is taken as theirs, and they take note of it in turn: an inner transformation does not
hide from an outer one that its sensitivities depend on functions, as d/dc of integrate(f * c) = integrate(f) does.
"""

import contextlib

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.calling import Interpreter, ended, interpreters, interpreting, value_of
from dftfd.autofd.core.function import Function, parts
from dftfd.autofd.core.graph import (
    backward,
    derivative,
    has_variables,
    variable,
    with_arrays,
    without_variables,
)
from dftfd.autofd.core.jax_adapter import is_traced_array, trace_state
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.transforms.outcome import array_derivative, entrywise_cotangents
from dftfd.errors import LeakError


class Tape(Interpreter):
    """One transformation in progress: it answers for all functions that some transformation is differentiating.

    clean: it was started in the trace of the one around it.   thread: see the module's docstring.
    """

    def __init__(self):
        tapes = _tapes(interpreters())
        self.clean = not tapes or trace_state() == tapes[-1].state
        self.tag = object()
        self.count = 0
        self.state = self.thread = None

    def watch(self, f: Function) -> Function:
        """f as a variable of this transformation."""
        self.count += 1
        return variable(f, self.tag, self.count - 1)

    @contextlib.contextmanager
    def recording(self, thread):
        """Around the functional, inside the JAX transformation that differentiates the thread."""
        self.thread, self.state = thread, trace_state()
        try:
            with interpreting(self):
                yield
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
            raise LeakError(_NOT_AN_ARRAY) from error
        finally:
            self.thread = None

    def answers(self, f):
        return has_variables(f)

    def value(self, f, args, outer):
        tapes = (*_tapes(outer), self)
        clean = trace_state() == self.state
        for tape in reversed(tapes):
            if tape.tag in f.tags and not clean:
                raise LeakError(
                    "a function under differentiation is evaluated inside jit, vmap, scan, cond, Taylor mode or an "
                    "array derivative within the functional, where its derivative would be lost. Apply that "
                    "transformation outside, or write the loop with operators: an extra argument and integrate, or "
                    "broadcast."
                )
            clean = clean and tape.clean
        return _value(op.at(f, *args) if args else f, tapes)

    def noted(self, node: Function, outer: tuple):
        """The value of `node`, noted here and by the transformations around this one, `outer`."""
        leaves = parts(node)[0]
        places = [k for k, x in enumerate(leaves) if is_traced_array(x)]
        arrays = [leaves[k] for k in places]
        if self.tag not in node.tags and not any(self.moving(arrays)):
            return self.value_outside(node, outer)
        filled = lambda arrays: with_arrays(node, dict(zip(places, arrays, strict=True)))
        value = lambda thread, *arrays: self.value_outside(filled(arrays), outer)
        return self.ruled(value, filled, places, outer)(self.thread, *arrays)

    def ruled(self, value, filled, places, outer):
        """value(thread, *arrays) with this transformation's rule for JAX.

        filled: arrays -> the node that carries them, in the places with these numbers.
        """
        return value

    def moving(self, arrays) -> list[bool]:
        """Which arrays depend on what this transformation differentiates."""
        found = [False] * len(arrays)

        @jax.custom_jvp
        def look(thread, *arrays):
            return thread

        def along(primals, tangents):
            found[:] = [not isinstance(t, SymbolicZero) for t in tangents[1:]]
            return primals[0], tangents[0]

        look.defjvp(along, symbolic_zeros=True)
        if arrays:
            look(self.thread, *arrays)
        return found

    def value_outside(self, node: Function, outer: tuple):
        """The value of `node` for the transformations around this one, which know nothing of its variables."""
        return _value(without_variables(node, self.tag), outer)


_NOT_AN_ARRAY = (
    "the functional turns a value that depends on its arguments into a Python number, truth value or NumPy array "
    "(float, int, item, if, np.asarray) where JAX has none, so its derivative would be lost. Keep it an array of JAX: "
    "jax.numpy.where or jax.lax.cond for a choice, jax.lax.stop_gradient where no derivative is intended."
)


class ReverseTape(Tape):
    """Records nodes, and the cotangents of their values when JAX sweeps back.

    notes: the nodes.   received: (number of the node, cotangent) of the sweep in progress.
    """

    def __init__(self):
        super().__init__()
        self.notes, self.received = [], []

    def ruled(self, value, filled, places, outer):
        value, kept = jax.custom_vjp(value), []

        def ahead(thread, *arrays):
            seen = filled([a.value for a in arrays])
            moving = {k: a.value for k, a in zip(places, arrays, strict=True) if a.perturbed}
            found, slopes = self._with_slopes(seen, moving, outer)
            kept.append((len(self.notes), slopes))
            self.notes.append(seen)
            return found, None

        def back(_, cotangent):
            (number, slopes), cotangent = kept[-1], _full(cotangent)
            self.received.append((number, cotangent))
            found = slopes(cotangent)
            return (None, *(found.get(k) for k in places))

        value.defvjp(ahead, back, symbolic_zeros=True)
        return value

    def _with_slopes(self, node, moving, outer):
        """(value of a node, cotangent -> cotangents of the arrays `moving` that it carries)"""
        node = without_variables(node, self.tag)
        if moving and not has_variables(node):
            value, pull = jax.vjp(lambda arrays: with_arrays(node, arrays)(), moving)
            return value, lambda cotangent: pull(cotangent)[0]

        def slopes(cotangent):
            slope = lambda k, unit: real_product(cotangent, array_derivative(node, {k: unit})())
            return entrywise_cotangents(moving, slope, repr(node))

        return _value(node, outer), slopes

    def sweep(self, back):
        """(what `back()`, a sweep of JAX, returns; the cotangents of the values noted: (number of the node, array))"""
        earlier, self.received = self.received, []
        try:
            return back(), self.received
        finally:
            self.received = earlier

    def pull(self, back, count: int):
        """(what `back()`, a sweep of JAX, returns; gradients with respect to the variables, None for zero)"""
        out, received = self.sweep(back)
        gradients = [None] * count
        for number, cotangent in received:
            backward(self.notes[number], op.constant(cotangent), self.tag, gradients)
        return out, gradients


def real_product(c, v):
    """Re sum of c v over all entries."""
    return sum(tree_leaves(tree_map(lambda c, v: jnp.real(jnp.sum(c * v)), c, v)))


def _full(cotangent):
    """Arrays for cotangents that JAX knows to be zero."""
    is_zero = lambda c: isinstance(c, SymbolicZero)
    return tree_map(lambda c: jnp.zeros(c.shape, c.dtype) if is_zero(c) else c, cotangent, is_leaf=is_zero)


class ForwardTape(Tape):
    """Moves each value by its derivative along the tangents `seeds` of its variables."""

    def __init__(self):
        super().__init__()
        self.seeds = []

    def watch_along(self, f: Function, tangent: Function) -> Function:
        self.seeds.append(tangent)
        return self.watch(f)

    def ruled(self, value, filled, places, outer):
        value = jax.custom_jvp(value)

        def moved(primals, tangents):
            seen = filled(primals[1:])
            moving = {k: x for k, x in zip(places, tangents[1:], strict=True) if not isinstance(x, SymbolicZero)}
            along = derivative(seen, self.tag, self.seeds, moving)
            v = self.value_outside(seen, outer)
            dv = tree_map(jnp.zeros_like, v) if along is None else self.value_outside(along, outer)
            return v, tree_map(lambda v, d: d.astype(v.dtype), v, dv)

        value.defjvp(moved, symbolic_zeros=True)
        return value


def _tapes(stack) -> tuple:
    return tuple(i for i in stack if isinstance(i, Tape))


def _value(node, tapes):
    """Value of a Function of no arguments as seen by the transformations `tapes`, outermost first."""
    if not has_variables(node):
        return value_of(node)
    if not tapes:
        raise ended(node)
    *outer, tape = tapes
    return tape.noted(node, tuple(outer))
