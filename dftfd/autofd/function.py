"""Function: a typed map between spaces, held as a graph of operators.

A Function is immutable. It knows its operator, the Functions it is built from (`operands`), the arrays it carries
(`arrays`, seen by JAX transformations) and static data. Calling it on points evaluates the graph; calling it on
Functions composes. As a pytree its leaves are the arrays of the whole graph, so it crosses jit, vmap and scan. A
Function without arrays is one leaf, which JAX's own transformations differentiate (dftfd.autofd.jax_syntax).
"""

import contextlib
import contextvars

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

from dftfd.autofd.domain import Signature, describe
from dftfd.autofd.overloads import Overloads
from dftfd.autofd.structure import HasKey, Identity, structural_key
from dftfd.errors import NoRuleError, SignatureError


def trace_state():
    """An opaque value that is equal only inside one and the same JAX trace."""
    return get_opaque_trace_state(convention="nnx")


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


class Function(Overloads, HasKey):
    """A typed map from points of `domains` to arrays; see the module's docstring.

    operator: what this node does.   operands: Functions it acts on.   arrays: pytrees of arrays it carries.
    static: everything else that the operator needs, hashable by structure.
    tags: transformations that are differentiating something below this node; SYMBOLIC if it is JAX itself.
    singular: not 0 if it contains a distribution, see Operator; those with 2 can be integrated but not evaluated.
    opaque: not 0 if it is a leaf for JAX although it carries arrays; see dftfd.autofd.jax_syntax.
    """

    __slots__ = (
        *("operator", "operands", "arrays", "static", "signature", "tags", "singular", "opaque"),
        *("_parts", "_key", "__weakref__"),
    )

    def __init__(self, operator, operands=(), arrays=(), static=None, signature: Signature | None = None, tags=None):
        self.operator, self.operands, self.arrays = operator, tuple(operands), tuple(arrays)
        self.static = static or {}
        self.signature = signature or operator.signature(self.operands, self.arrays, self.static)
        self.tags = frozenset().union(*(f.tags for f in self.operands)) if tags is None else tags
        self.singular = max(operator.singular, *(f.singular for f in self.operands), 0)
        self.opaque = max((f.opaque for f in self.operands), default=0)
        self._parts = self._key = None

    @property
    def domains(self):
        return self.signature.domains

    @property
    def result(self):
        """Shapes and dtypes of the result, a pytree of jax.ShapeDtypeStruct."""
        return self.signature.result

    @property
    def shape(self):
        """Shape of the result (a single array)."""
        return self.result.shape

    @property
    def dtype(self):
        """Dtype of the result (a single array)."""
        return self.result.dtype

    def __call__(self, *args):
        if any(isinstance(a, Function) for a in args):
            from dftfd.autofd.operators.compose import compose

            return compose(self, *args)
        args = self._checked_arguments(args)
        if self.tags and self.tags != _SYMBOLIC_ONLY:
            from dftfd.autofd.tape import escape

            return escape(self, args)
        return self.apply(*args)

    def apply(self, *args):
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

    def evaluate(self, *args):
        """Value at a point by walking the graph; each node is evaluated once per point and trace."""
        with _call_cache() as cache:
            leaves = tree_leaves(args)
            key, state = (id(self), *map(id, leaves)), trace_state()
            entry = cache.setdefault(key, ([], self, leaves))  # holding the objects keeps their ids valid
            for known_state, value in entry[0]:
                if known_state == state:
                    return value
            value = self.operator.evaluate(self, *args)
            entry[0].append((state, value))
            return value

    def _checked_arguments(self, args):
        if len(args) != len(self.domains):
            raise SignatureError(f"{self!r} takes {len(self.domains)} argument(s), {len(args)} given.")
        return tuple(_checked_point(a, d, self, i) for i, (a, d) in enumerate(zip(args, self.domains, strict=True)))

    def structural_key(self):
        leaves, structure = parts(self)
        return ("function", structure, tuple(map(Identity, leaves)))

    def replace(self, operands=None, arrays=None, tags=None):
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


def _checked_point(value, domain, function, position):
    if not domain.is_array:
        return value
    array = jnp.asarray(value)
    if array.shape != domain.shape:
        hint = " To evaluate at many points use jax.vmap(f)(points)." if array.ndim == len(domain.shape) + 1 else ""
        raise SignatureError(
            f"argument {position} of {function!r} has shape {array.shape}, {domain.shape} expected.{hint}"
        )
    if array.dtype != domain.dtype:
        if not np.can_cast(array.dtype, domain.dtype, "same_kind"):
            raise SignatureError(
                f"argument {position} of {function!r} has dtype {array.dtype.name}, {describe(domain.spec)} expected."
            )
        array = array.astype(domain.dtype)
    return array


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
            keys.append((children, treedef, _own_key(node), node.tags))
            leaves.extend(arrays)
            index[id(node)] = len(program) - 1
        root._parts = (tuple(leaves), GraphStructure(program, tuple(keys)))
    return root._parts


def _own_key(node):
    """Key of what a node is, apart from its operands and arrays."""
    if node._key is None:
        static = tuple((k, structural_key(v)) for k, v in sorted(node.static.items()))
        node._key = (node.operator, static, tuple(d.structural_key() for d in node.domains))
    return node._key


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
    """A Function as a pytree of its arrays, whatever it is for JAX otherwise."""

    __slots__ = ("function",)

    def __init__(self, function):
        self.function = function

    def tree_flatten(self):
        return parts(self.function)

    @classmethod
    def tree_unflatten(cls, structure, leaves):
        return cls(assemble(structure, leaves))


def pack(tree):
    """A pytree with each Function in it packed."""
    return tree_map(lambda x: Packed(x) if is_function(x) else x, tree, is_leaf=is_function)


def unpack(tree):
    """A pytree with each packed Function taken out."""
    packed = lambda x: isinstance(x, Packed)
    return tree_map(lambda x: x.function if packed(x) else x, tree, is_leaf=packed)


# ---- Functions as pytrees

SYMBOLIC = "differentiated by JAX"  # the tag of Functions that stand for a leaf inside jax.grad and its kin
_SYMBOLIC_ONLY = frozenset([SYMBOLIC])
jax_door = None  # set by dftfd.autofd.jax_syntax; without it a Function without arrays has no leaves
_LEAF = "function"  # structure of a Function that is one leaf


def flatten(root: Function):
    """Leaves and structure of a Function as a pytree."""
    if jax_door is not None:
        if SYMBOLIC in root.tags:
            return (jax_door.materialise(root),), _LEAF
        leaves, _ = parts(root)
        if not leaves or root.opaque:
            return (jax_door.leaf(root),), _LEAF
    return parts(root)


def unflatten(structure, leaves):
    """The Function with these leaves."""
    return jax_door.unflatten(leaves[0]) if structure is _LEAF else assemble(structure, leaves)


jax.tree_util.register_pytree_node(Function, flatten, unflatten)
