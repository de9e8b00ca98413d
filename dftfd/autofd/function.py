"""Function: a typed map between spaces, held as a graph of operators.

A Function is immutable. It knows its operator, the Functions it is built from (`operands`), the arrays it carries
(`arrays`, seen by JAX transformations) and static data. Calling it on points evaluates the graph; calling it on
Functions composes. As a pytree its leaves are the arrays of the whole graph, so it crosses jit, vmap and scan. A
Function without arrays is one leaf, which JAX's own transformations differentiate (dftfd.autofd.jax_syntax).
"""

import contextlib
import contextvars
import itertools
import types
import weakref
from typing import Any

import jax
from jax.extend.core import get_opaque_trace_state, take_current_trace
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

from dftfd.autofd.domain import Domain, Signature, checked_point
from dftfd.autofd.overloads import Overloads
from dftfd.autofd.structure import HasKey, Identity, holds_tracers, structural_key
from dftfd.errors import NoRuleError, SignatureError


def trace_state():
    """An opaque value that is equal only inside one and the same JAX trace."""
    return get_opaque_trace_state(convention="nnx")


def current_trace():
    """The trace that JAX is in; None while another one is suspended."""
    with take_current_trace() as trace:
        return trace


_serial = itertools.count()
_homes = weakref.WeakKeyDictionary()  # node with tracers -> (when, in which trace) it was made


def home_of(root: "Function"):
    """The innermost trace to which the tracers in a graph belong; None if it has none."""
    return max((_homes[node] for node in nodes_of(root) if node in _homes), key=lambda h: h[0], default=(0, None))[1]


_alive = weakref.WeakValueDictionary()  # Functions by what they are made of: what is made twice is one node


_calls = contextvars.ContextVar("dftfd_call_cache", default=None)


@contextlib.contextmanager
def _call_cache():
    """The cache of the outermost evaluation in progress: (node, arguments) -> values, one per trace."""
    cache = _calls.get()
    if cache is not None:
        yield cache
        return
    token = _calls.set({})
    try:
        yield _calls.get()
    finally:
        _calls.reset(token)


class _Question:
    """What is the value of a node at a point?"""

    __slots__ = ("node", "args", "entry", "state")

    def __init__(self, node, args):
        self.node, self.args = node, args

    def known(self, cache):
        """(True, value) if it has been asked before in this trace, else (False, None)."""
        leaves = tree_leaves(self.args)
        # holding the objects keeps their ids valid
        self.entry = cache.setdefault((id(self.node), *map(id, leaves)), ([], self.node, leaves))
        self.state = trace_state()
        for state, value in self.entry[0]:
            if state == self.state:
                return True, value
        return False, None

    def answered(self, value):
        self.entry[0].append((self.state, value))
        return value


class Function(Overloads, HasKey):
    """A typed map from points of `domains` to arrays; see the module's docstring.

    What is made of the same operator, operands and arrays is the same object, so graphs share what they have in common.

    operator: what this node does.   operands: Functions it acts on.   arrays: pytrees of arrays it carries.
    static: everything else that the operator needs, hashable by structure.
    tags: transformations that are differentiating something below this node; SYMBOLIC if it is JAX itself.
    singular: not 0 if it contains a distribution, see Operator; those with 2 can be integrated but not evaluated.
    opaque: JAX gets it as a leaf that hides its graph; see dftfd.autofd.jax_leaves.as_leaf.
    """

    __slots__ = (
        *("operator", "operands", "arrays", "static", "signature", "tags", "singular", "opaque"),
        *("_parts", "_key", "__weakref__"),
    )
    operator: Any
    operands: tuple["Function", ...]
    arrays: tuple
    static: dict[str, Any]
    signature: Signature
    tags: frozenset
    singular: int
    opaque: bool
    _parts: tuple | None
    _key: tuple

    def __new__(cls, operator, operands=(), arrays=(), static=None, signature: Signature | None = None, tags=None):
        operands, arrays, static = tuple(operands), tuple(arrays), static or {}
        tags = frozenset().union(*(f.tags for f in operands)) if tags is None else tags
        own = (operator, tuple((k, structural_key(v)) for k, v in sorted(static.items())))
        leaves, structure = tree_flatten(arrays)
        key = (own, tuple(map(id, operands)), tuple(map(id, leaves)), structure, tags)
        known = _alive.get(key)
        if known is not None:
            return known
        self = object.__new__(cls)
        self.operator, self.operands, self.arrays, self.static, self.tags = operator, operands, arrays, static, tags
        self.signature = signature or operator.signature(operands, arrays, static)
        self.singular = max(operator.singular, *(f.singular for f in operands), 0)
        self.opaque, self._parts = False, None
        domains = self.signature.domains if self.signature else ()  # JAX makes pytrees of other things than functions
        self._key = (*own, tuple(d.structural_key() for d in domains))
        if holds_tracers(leaves):
            _homes[self] = (next(_serial), current_trace())
        _alive[key] = self
        return self

    @property
    def domains(self) -> tuple[Domain, ...]:
        return self.signature.domains

    @property
    def result(self) -> Any:
        """Shapes and dtypes of the result, a pytree of jax.ShapeDtypeStruct."""
        return self.signature.result

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result (a single array)."""
        return self.result.shape

    @property
    def dtype(self) -> Any:
        """Dtype of the result (a single array)."""
        return self.result.dtype

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named:
            raise SignatureError(f"{self!r} takes its arguments by position, {', '.join(named)} given by name.")
        if any(issubclass(type(a), Function) for a in args):
            from dftfd.autofd.operators.compose import compose

            return compose(self, *args)
        args = self._checked_arguments(args)
        if self.tags and self.tags != _SYMBOLIC_ONLY:
            from dftfd.autofd.tape import escape

            return escape(self, args)
        return self.apply(*args)

    def apply(self, *args: Any) -> Any:
        """Value at a point. The program of a graph is traced and compiled once; inside an evaluation it is walked."""
        if self.singular > 1:
            raise NoRuleError(
                f"{self!r} contains a Dirac distribution, which has no values: it comes from differentiating f(x0) "
                "with respect to f. Integrate it against a function, or use an integral with a narrow weight."
            )
        if SYMBOLIC in self.tags:
            return jax_door.evaluate(self, args)
        if _calls.get() is not None:
            return self.evaluate(*args)
        return _compiled(Packed(self), args)

    def evaluate(self, *args: Any) -> Any:
        """Value at a point by walking the graph; each node is evaluated once per point and trace.

        Operators that ask for values of their operands at points known beforehand do so by `yield operand, point`, so
        graphs may be deeper than Python's stack.
        """
        with _call_cache() as cache:
            waiting, answer = [], _Question(self, args)
            while True:
                if isinstance(answer, _Question):
                    known, value = answer.known(cache)
                    if known:
                        answer = value
                        continue
                    value = answer.node.operator.evaluate(answer.node, *answer.args)
                    if isinstance(value, types.GeneratorType):
                        waiting.append((answer, value))
                        answer = _Question(*next(value))
                    else:
                        answer = answer.answered(value)
                elif not waiting:
                    return answer
                else:
                    question, steps = waiting[-1]
                    try:
                        answer = _Question(*steps.send(answer))
                    except StopIteration as end:
                        waiting.pop()
                        answer = question.answered(end.value)

    def _checked_arguments(self, args):
        if len(args) != len(self.domains):
            raise SignatureError(f"{self!r} takes {len(self.domains)} argument(s), {len(args)} given.")
        return tuple(checked_point(a, d, self, i) for i, (a, d) in enumerate(zip(args, self.domains, strict=True)))

    def structural_key(self) -> Any:
        leaves, structure = parts(self)
        return ("function", structure, tuple(map(Identity, leaves)))

    def replace(self, operands: Any = None, arrays: Any = None, tags: Any = None) -> "Function":
        """The same node over other operands or arrays of the same signature."""
        new = Function(
            self.operator,
            self.operands if operands is None else operands,
            self.arrays if arrays is None else arrays,
            self.static,
            self.signature,
            tags,
        )
        return new

    def __repr__(self):
        return f"{self.operator.label(self)}: {self.signature}"


@jax.jit
def _compiled(packed, args):
    return packed.function.evaluate(*args)


# ---- Functions in two parts: the arrays, and the graph without them


class GraphStructure:
    """The graph without its arrays; compared by structural key."""

    __slots__ = ("program", "key", "_hash")

    def __init__(self, program, key):
        self.program, self.key, self._hash = program, key, hash(key)

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (
            isinstance(other, GraphStructure) and self._hash == other._hash and self.key == other.key
        )


def nodes_of(root: Function) -> list[Function]:
    """All nodes of the graph, operands before the nodes that use them, each once."""
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((f, False) for f in reversed(node.operands) if id(f) not in seen)
    return order


def parts(root: Function):
    """(arrays, structure): `assemble` puts them together again."""
    if root._parts is None:
        index, program, keys, leaves = {}, [], [], []
        for node in nodes_of(root):
            arrays, treedef = tree_flatten(node.arrays)
            children = tuple(index[id(f)] for f in node.operands)
            program.append((node.operator, children, len(arrays), treedef, node.static, node.signature, node.tags))
            keys.append((children, treedef, node._key, node.tags))
            leaves.extend(arrays)
            index[id(node)] = len(program) - 1
        root._parts = (tuple(leaves), GraphStructure(program, tuple(keys)))
    return root._parts


def assemble(structure: GraphStructure, leaves) -> Function:
    """The Function with this structure and these arrays."""
    leaves, nodes, start = tuple(leaves), [], 0
    for operator, children, count, treedef, static, signature, tags in structure.program:
        arrays = tree_unflatten(treedef, leaves[start : start + count])
        start += count
        nodes.append(Function(operator, [nodes[i] for i in children], arrays, static, signature, tags))
    return nodes[-1]


def is_function(value) -> bool:
    return isinstance(value, Function)


@jax.tree_util.register_pytree_node_class
class Packed:
    """A Function as a pytree of the arrays that it carries; `function` is the Function.

    Trees of derivatives with respect to the arrays are of this class, too. They are no functions, so it has no values.
    """

    __slots__ = ("_function", "_leaves", "_structure")

    def __init__(self, function):
        self._function = function
        self._leaves, self._structure = parts(function)

    @property
    def function(self) -> "Function":
        """The Function that carries these arrays."""
        if self._function is None:
            self._function = assemble(self._structure, self._leaves)
        return self._function

    @property
    def arrays(self) -> tuple:
        """The arrays, in the order of the pytree's leaves."""
        return self._leaves

    def tree_flatten(self):
        return self._leaves, self._structure

    @classmethod
    def tree_unflatten(cls, structure, leaves):
        new = object.__new__(cls)
        new._function, new._leaves, new._structure = None, tuple(leaves), structure
        return new

    def __call__(self, *args):
        raise SignatureError(
            "this is a pytree of the arrays that a function carries, or of derivatives with respect to them, and has "
            "no values; .function is the function that carries these arrays."
        )

    def __repr__(self):
        arrays = ", ".join(f"{x.dtype.name}{list(x.shape)}" for x in self._leaves if hasattr(x, "dtype"))
        return f"arrays of a function: {arrays}"


def pack(tree):
    """A pytree with each Function in it packed."""
    return tree_map(lambda x: Packed(x) if is_function(x) else x, tree, is_leaf=is_function)


def unpack(tree):
    """A pytree with each packed Function taken out."""
    packed = lambda x: isinstance(x, Packed)
    return tree_map(lambda x: x.function if packed(x) else x, tree, is_leaf=packed)


# ---- Functions in JAX's syntax: one leaf, a vector, whatever it carries

SYMBOLIC = "differentiated by JAX"  # the tag of Functions that stand for a leaf inside jax.grad and its kin
_SYMBOLIC_ONLY = frozenset([SYMBOLIC])
jax_door = None  # set by dftfd.autofd.jax_syntax
_LEAF = "function"  # structure of a Function as a pytree


def flatten(root: Function):
    """Leaves and structure of a Function as a pytree."""
    return (jax_door.leaf(root),), _LEAF


def unflatten(structure, leaves):
    """The Function with this leaf."""
    return jax_door.unflatten(leaves[0])


jax.tree_util.register_pytree_node(Function, flatten, unflatten)
