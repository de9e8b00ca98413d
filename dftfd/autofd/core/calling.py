"""Who answers a call f(x)? One stack of interpreters: the innermost one that feels responsible.

At its bottom stand those that are always there: the compiled evaluation of functions that nobody differentiates, and
JAX's for those that `jax.grad` and its kin do. Above these the transformations in progress, each responsible for the
functions that it differentiates, and, while a graph is evaluated, the walk through it. The stack is a context variable,
so each thread has its own.
"""

import contextlib
import contextvars
import types

from jax.tree_util import tree_leaves

from dftfd.autofd.core.jax_adapter import trace_state
from dftfd.errors import LeakError, NoRuleError


class Interpreter:
    """Gives Functions values."""

    def answers(self, f) -> bool:
        """True if calls of f are for this interpreter."""
        raise NotImplementedError

    def value(self, f, args, outer: tuple):
        """f(*args); `outer` are the interpreters around this one, outermost first."""
        raise NotImplementedError


_always: list[Interpreter] = []
_stack: contextvars.ContextVar[tuple[Interpreter, ...]] = contextvars.ContextVar("dftfd_interpreters", default=())


def always(interpreter: Interpreter):
    """Put an interpreter to the bottom of the stack for good."""
    _always.append(interpreter)


@contextlib.contextmanager
def interpreting(interpreter: Interpreter):
    """Push an interpreter for the duration of the block."""
    token = _stack.set((*_stack.get(), interpreter))
    try:
        yield interpreter
    finally:
        _stack.reset(token)


def interpreters() -> tuple[Interpreter, ...]:
    """Those that were pushed, outermost first."""
    return _stack.get()


def value_of(f, args: tuple = ()):
    """f(*args), as the innermost interpreter sees it that feels responsible for f."""
    if f.singular > 1:
        raise NoRuleError(
            f"{f!r} contains a Dirac distribution, which has no values: it comes from differentiating f(x0) "
            "with respect to f. Integrate it against a function, or use an integral with a narrow weight."
        )
    stack = (*_always, *_stack.get())
    for k in reversed(range(len(stack))):
        if stack[k].answers(f):
            return stack[k].value(f, args, stack[:k])
    raise ended(f)


def ended(f) -> LeakError:
    """What to raise for a function of a transformation that is no longer in progress."""
    return LeakError(
        f"{f!r} belongs to a differentiation that has ended. Return results from the functional instead of storing "
        "functions outside of it."
    )


class Question:
    """What is the value of a node at a point? Asked once per trace."""

    __slots__ = ("node", "args", "_known", "_state")

    def __init__(self, cache: dict, node, args):
        self.node, self.args = node, args
        leaves = tree_leaves(args)
        # holding the objects keeps their ids valid
        self._known = cache.setdefault((id(node), *map(id, leaves)), ([], node, leaves))[0]
        self._state = trace_state()

    def known(self) -> tuple:
        """(answer,) if it has been given before in this trace, else ()."""
        return next(((value,) for state, value in self._known if state == self._state), ())

    def answered(self, value):
        self._known.append((self._state, value))
        return value


def answer(question, steps, ask):
    """The answer to a question, each inner one being asked once, without Python's stack: graphs may be deep.

    steps(question): the answer, or a generator that yields what it asks on the way.   ask(yielded): that question.
    """
    waiting = []
    while True:
        if known := question.known():
            value = known[0]
        else:
            value = steps(question)
            if isinstance(value, types.GeneratorType):
                waiting.append((question, value))
                question = ask(next(value))
                continue
            value = question.answered(value)
        while True:
            if not waiting:
                return value
            question, running = waiting[-1]
            try:
                question = ask(running.send(value))
                break
            except StopIteration as end:
                waiting.pop()
                value = question.answered(end.value)


class Walk(Interpreter):
    """An evaluation in progress: graphs are walked, each node is evaluated once per point and trace."""

    def __init__(self):
        self.cache: dict = {}

    def answers(self, f):
        return not f.tags

    def value(self, f, args, outer):
        return self.walk(f, args)

    def walk(self, node, args):
        """Value of a node at a point."""
        ask = lambda asked: Question(self.cache, *asked)
        return answer(ask((node, args)), lambda q: self.step(q.node, q.args), ask)

    def step(self, node, args):
        """What the operator says; a generator if it asks for values of operands first."""
        return node.operator.evaluate(node, *args)


@contextlib.contextmanager
def walking():
    """The evaluation in progress, or a new one."""
    found = next((i for i in reversed(_stack.get()) if isinstance(i, Walk)), None)
    if found is not None:
        yield found
        return
    with interpreting(Walk()) as walk:
        yield walk
