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
v0 + J (a - a0), which is exact to first order, and nothing is reported to the outer ones again. A run before these two,
with abstract values where possible, finds out how many values there will be and which arrays depend on them.
"""

import contextlib
import contextvars
from dataclasses import replace

import jax.numpy as jnp
from jax.tree_util import tree_map

from dftfd.autofd.domain import same_spec, spec_of
from dftfd.autofd.first_order import Model, dependent_arrays, directions
from dftfd.autofd.function import SYMBOLIC, Function, assemble, parts, trace_state
from dftfd.autofd.graph import forward, has_variables, variable, without_variables
from dftfd.autofd.operators.leaf import zero_tangent
from dftfd.autofd.operators.partial import at
from dftfd.errors import LeakError, NoRuleError

_stack = contextvars.ContextVar("dftfd_tapes", default=())
MAX_ENTRIES = 64  # of an array whose derivative is taken entry by entry in nested transformations


class Tape:
    """One transformation in progress.

    nested: there are transformations around it.   clean: it was started in the trace of the one around it.
    stage: "rehearse" finds out what will be noted; "observe" (nested only) takes values and models;
    "differentiate" runs under JAX.
    parameter: what the values depend on in this stage, see `_perturbed`.
    """

    def __init__(self, clean: bool, stage: str, earlier: "Tape | None" = None, parameter=None):
        self.clean, self.stage, self.earlier, self.parameter = clean, stage, earlier, parameter
        self.nested = bool(_stack.get())
        self.paused = False
        self.tag = object()
        self.state = trace_state()
        self.count = 0
        self.models: list[Model] = []

    def watch(self, f: Function) -> Function:
        """f as a variable of this transformation."""
        self.count += 1
        return variable(f, self.tag, self.count - 1)

    def concerns(self, node: Function) -> bool:
        """True if the value of `node` is to be noted."""
        return not self.paused and (self.nested or self.tag in node.tags)

    def seen(self, node: Function, outer: tuple):
        """The value of `node`, noted; `outer`: the transformations around this one."""
        if self.stage == "differentiate" and self.nested:
            model = self._rehearsed(node)
            model = replace(model, node=node, value=model.at(node))
        else:
            model = Model(node, self._value_outside(node, outer))
            if self.stage == "rehearse":
                model.moving = dependent_arrays(node)
            if self.stage == "observe":
                model.slopes = self._slopes(node, outer)
            if self.stage != "rehearse":
                model.derivative = self._derivative(node, outer)
        self.models.append(model)
        perturbed = _shifted if self.stage == "rehearse" else self._perturbed
        return perturbed(model.value, self._parameter_of(len(self.models) - 1), model)

    def _value_outside(self, node, outer):
        """The value of `node` for the transformations around this one, which know nothing of its variables."""
        return _value(without_variables(node, self.tag), outer)

    def _rehearsed(self, node):
        """What the run before noted in the same place."""
        place = len(self.models)
        models = self.earlier.models
        if place >= len(models) or not same_spec(models[place].node.result, node.result):
            raise LeakError(_NOT_REPRODUCIBLE)
        return models[place]

    def _slopes(self, node, outer):
        if not any(t.tag in node.tags for t in outer):
            return None
        leaves, structure = parts(node)
        slopes = {}
        for k in self._rehearsed(node).moving:
            if leaves[k].size > MAX_ENTRIES:
                raise NoRuleError(
                    f"{node!r} carries an array of {leaves[k].size} entries that depends on what an inner "
                    f"transformation differentiates; nested transformations allow {MAX_ENTRIES} entries."
                )
            for place, direction in directions(leaves[k]):
                tangents = [zero_tangent(x) for x in leaves]
                tangents[k] = direction
                slope = forward(node, None, (), assemble(structure, tangents))
                if slope is not None:
                    slopes[(k, *place)] = self._value_outside(slope, outer)
        return slopes

    def _derivative(self, node, outer):
        return None

    def _parameter_of(self, place):
        return self.parameter

    def _perturbed(self, value, parameter, model):
        return value


_NOT_REPRODUCIBLE = (
    "the functional evaluated different integrals in two runs at the same arguments. It must not depend on random "
    "numbers, counters or other state."
)


def _shifted(value, t, model):
    """value + t, so that everything computed from it depends on t."""
    return value if t is None else tree_map(lambda v: v + t.astype(v.dtype), value)


class ReverseTape(Tape):
    """Adds parameter[k], an array of zeros, to the k-th value that depends on its variables."""

    @property
    def specs(self):
        """Shapes and dtypes of the values noted, in order."""
        return [spec_of(m.value) for m in self.models]

    def _parameter_of(self, place):
        if self.stage != "differentiate":
            return self.parameter
        if place >= len(self.parameter):
            raise LeakError(_NOT_REPRODUCIBLE)
        return self.parameter[place]

    def _perturbed(self, value, eps, model):
        return value if eps is None else tree_map(jnp.add, value, eps)


class ForwardTape(Tape):
    """Moves each value by t (the parameter) times its derivative along the tangents `seeds` of its variables."""

    def __init__(self, clean, stage, earlier=None, parameter=None):
        super().__init__(clean, stage, earlier, parameter)
        self.seeds = []

    def watch_along(self, f: Function, tangent: Function) -> Function:
        self.seeds.append(tangent)
        return self.watch(f)

    def _derivative(self, node, outer):
        if self.tag not in node.tags:
            return None
        derivative = forward(node, self.tag, self.seeds)
        return None if derivative is None else self._value_outside(derivative, outer)

    def _perturbed(self, value, t, model):
        if t is None or model.derivative is None:
            return value
        return tree_map(lambda v, d: v + t.astype(v.dtype) * d.astype(v.dtype), value, model.derivative)


class Escapes(Exception):
    """A GraphTape met a value of a function that it watches."""


class GraphTape(Tape):
    """For operators that keep to graphs: no value of a watched function is taken on the way."""

    def __init__(self, clean):
        super().__init__(clean, "observe")

    def concerns(self, node):
        return self.tag in node.tags

    def seen(self, node, outer):
        raise Escapes


@contextlib.contextmanager
def rehearsal():
    """Around code that will run again: the transformations in progress take no note of it."""
    paused = [t for t in _stack.get() if not t.paused]
    for tape in paused:
        tape.paused = True
    try:
        yield
    finally:
        for tape in paused:
            tape.paused = False


@contextlib.contextmanager
def attempt():
    """Around code that may end in `Escapes` and is run in another way then: its notes are taken back."""
    noted = [(t, len(t.models)) for t in _stack.get()]
    try:
        yield
    except Escapes:
        for tape, count in noted:
            del tape.models[count:]
        raise


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
    if not f.tags <= {SYMBOLIC, *(t.tag for t in stack)}:
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
    if not stack or not has_variables(node):
        return without_variables(node).apply()
    *outer, tape = stack
    outer = tuple(outer)
    return tape.seen(node, outer) if tape.concerns(node) else _value(node, outer)
