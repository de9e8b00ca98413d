"""Where functions become arrays.

Inside a transformation, the functions being differentiated carry a tag. Operators on them build graph; the graph turns
into an array when a Function of no arguments is evaluated (an integral over everything, a point evaluation). There, and
only there, each transformation in progress takes note:

- reverse: the node is recorded and a zero `eps` is added to its value. `jax.vjp` with respect to the eps then yields
  dE/d(value) through whatever array code follows; `graph.backward` takes it from the value to the functions.
- forward: the value moves by the node's derivative along the tangents, times a parameter t with t = 0, dt = 1.

So paths function -> array -> function (a factor integrate(f) inside E) are differentiated by JAX itself.

Nested transformations. An inner one must not hide from an outer one that its sensitivities depend on functions, as
d/dc of integrate(f * c) = integrate(f) does. The inner functional therefore runs twice. In the first run nothing is
differentiated by JAX; each value v0, and its derivatives J with respect to the arrays a0 that its graph carries, are
taken as values of graphs, so the outer transformations see them. In the second run, under JAX, the value is replaced by
v0 + J (a - a0), which is exact to first order, and nothing is reported to the outer ones again.
"""

import contextlib
import contextvars
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

from dftfd.autofd.function import Function, trace_state
from dftfd.autofd.graph import forward, variable, without_variables
from dftfd.autofd.operators.point import at
from dftfd.errors import LeakError, NoRuleError

_stack = contextvars.ContextVar("dftfd_tapes", default=())
_MAX_JACOBIAN = 64  # entries of an array whose derivative is taken entry by entry in nested transformations


@dataclass
class Model:
    """First-order model of one value: value + sum of jacobians (leaves - leaves_0) + t derivative."""

    node: Function
    value: object
    leaves: list
    jacobians: dict  # leaf number -> list of derivatives, one per entry; None: the graph is evaluated again
    derivative: object = None

    def at(self, node: Function):
        """The value when the arrays in the graph are those of `node`."""
        if self.jacobians is None:
            return without_variables(node).apply()
        value = self.value
        for k, (new, old) in enumerate(zip(tree_leaves(node), self.leaves, strict=True)):
            if k in self.jacobians:
                steps = jnp.ravel(new - old)
                for step, column in zip(steps, self.jacobians[k], strict=True):
                    value = tree_map(lambda v, c, s=step: v + s * c, value, column)
        return value


class Tape:
    """One transformation in progress.

    nested: there are transformations around it.   clean: it was started in the trace of the one around it.
    stage: "rehearse" finds out what will be noted; "observe" (nested only) takes values and models;
    "differentiate" runs under JAX.
    """

    def __init__(self, clean: bool, stage: str, earlier: "Tape | None" = None):
        self.clean, self.stage, self.earlier = clean, stage, earlier
        self.nested = bool(_stack.get())
        self.tag = object()
        self.state = trace_state()
        self.count = 0
        self.models: list[Model] = []

    def watch(self, f: Function) -> Function:
        """f as a variable of this transformation."""
        self.count += 1
        return variable(f, self.tag, self.count - 1)

    def seen(self, node: Function, outer: tuple):
        """The value of `node`, noted; `outer`: the transformations around this one."""
        if self.stage == "differentiate" and self.nested:
            model = self.earlier.models[len(self.models)]
            value = model.at(node)
        else:
            value = _value(node, outer)
            jacobians = self._jacobians(node, outer) if self.stage == "observe" else None
            model = Model(node, value, tree_leaves(node), jacobians, self._derivative(node, outer))
        self.models.append(Model(node, value, model.leaves, model.jacobians, model.derivative))
        return self._perturbed(len(self.models) - 1, value)

    def _jacobians(self, node, outer):
        if not any(t.tag in node.tags for t in outer):
            return None
        leaves, structure = tree_flatten(node)
        rehearsed = self.earlier.models[len(self.models)].leaves
        jacobians = {}
        for k, (leaf, before) in enumerate(zip(leaves, rehearsed, strict=True)):
            if leaf is before or not jnp.issubdtype(leaf.dtype, jnp.inexact):
                continue  # the same array in each run: it doesn't depend on what is differentiated
            jacobians[k] = [_value(d, outer) for d in _derivatives_along(node, leaves, structure, k)]
        return jacobians

    def _derivative(self, node, outer):
        return None

    def _perturbed(self, k, value):
        return value


def _derivatives_along(node, leaves, structure, k):
    """Graphs of the derivative of `node` with respect to each entry of its k-th array."""
    leaf = leaves[k]
    if leaf.size > _MAX_JACOBIAN:
        raise NoRuleError(
            f"{node!r} carries an array of {leaf.size} entries that depends on what an inner transformation "
            f"differentiates; nested transformations allow {_MAX_JACOBIAN} entries."
        )
    for entry in range(leaf.size):
        unit = np.zeros(leaf.size)
        unit[entry] = 1.0
        tangents = [np.zeros(np.shape(x)) for x in leaves]
        tangents[k] = jnp.asarray(unit.reshape(leaf.shape), leaf.dtype)
        yield forward(node, None, (), tree_unflatten(structure, tangents))


class ReverseTape(Tape):
    """Adds eps[k] to the k-th value that depends on its variables."""

    def __init__(self, clean, stage, earlier=None, eps=None):
        super().__init__(clean, stage, earlier)
        self.eps = eps

    @property
    def specs(self):
        """Shapes and dtypes of the values noted, in order."""
        shape = lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype)
        return [tree_map(shape, m.value) for m in self.models]

    def _perturbed(self, k, value):
        return value if self.eps is None else tree_map(lambda v, e: v + e, value, self.eps[k])


class ForwardTape(Tape):
    """Moves each value by t times its derivative along the tangents `seeds` of its variables."""

    def __init__(self, clean, stage, earlier=None, t=None):
        super().__init__(clean, stage, earlier)
        self.t, self.seeds = t, []

    def watch_along(self, f: Function, tangent: Function) -> Function:
        self.seeds.append(tangent)
        return self.watch(f)

    def _derivative(self, node, outer):
        if self.stage == "rehearse" or self.tag not in node.tags:
            return None
        derivative = forward(node, self.tag, self.seeds)
        return None if derivative is None else _value(derivative, outer)

    def _perturbed(self, k, value):
        derivative = self.models[k].derivative
        if self.t is None or derivative is None:
            return value
        return tree_map(lambda v, d: v + self.t * d, value, derivative)


@contextlib.contextmanager
def rehearsal():
    """Around code that will run again: what the transformations in progress note meanwhile is taken back."""
    noted = [(t, len(t.models)) for t in _stack.get()]
    try:
        yield
    finally:
        for tape, count in noted:
            del tape.models[count:]


def starts_clean() -> bool:
    """True unless code of the functional has opened a JAX trace (vmap, jit, ...) around the present point."""
    stack = _stack.get()
    return not stack or trace_state() == stack[-1].state


def is_nested() -> bool:
    """True inside the functional of another transformation."""
    return bool(_stack.get())


@contextlib.contextmanager
def recording(tape: Tape):
    """Add a transformation around the code in the with block."""
    token = _stack.set((*_stack.get(), tape))
    try:
        yield tape
    finally:
        _stack.reset(token)


def escape(f: Function, args):
    """The array value of f(*args), f being differentiated by the transformations whose tags it carries."""
    stack = _stack.get()
    if not f.tags <= {t.tag for t in stack}:
        raise LeakError(
            f"{f!r} belongs to a differentiation that has ended. Return results from the functional instead of storing "
            "functions outside of it."
        )
    clean = trace_state() == stack[-1].state
    for tape in reversed(stack):
        if tape.tag in f.tags and not clean:
            raise LeakError(
                "a function under differentiation is evaluated inside jit, vmap, scan, cond or an array derivative "
                "within the functional, where its derivative would be lost. Apply that transformation outside, or "
                "write the loop with operators: an extra argument and integrate, or broadcast."
            )
        clean = clean and tape.clean
    return _value(at(f, *args) if args else f, stack)


def _value(node, stack):
    """Value of a Function of no arguments as seen by the transformations in `stack`, outermost first."""
    if not stack or not node.tags:
        return node.apply() if not node.tags else without_variables(node).apply()
    *outer, tape = stack
    outer = tuple(outer)
    return tape.seen(node, outer) if tape.nested or tape.tag in node.tags else _value(node, outer)
