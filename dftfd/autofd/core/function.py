"""Function: a typed map between spaces, held as a graph of operators.

A Function is immutable. It knows its operator, the Functions it is built from (`operands`), the arrays it carries
(`arrays`, seen by JAX transformations) and static data. Calling it on points gives its value, as whoever is responsible
for it sees it (`calling`); calling it on Functions composes. Its arrays are a pytree (`packed`); for JAX's own
transformations it is one leaf (`transforms.jax_syntax`).
"""

import itertools
import weakref
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure

from dftfd.autofd.core.calling import value_of, walking
from dftfd.autofd.core.domain import Domain, Signature, checked_point, same_domain, same_spec, spec_of
from dftfd.autofd.core.jax_adapter import current_trace, holds_tracers
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import HasKey, Identity, structural_key
from dftfd.errors import SignatureError

_UFUNCS = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.true_divide: "divide",
    np.power: "power",
}
_NOT_AN_ARRAY = (
    "{what} is for arrays, and {f!r} is a function: use the one of dftfd.autofd (exp, sin, sqrt, ...), or "
    "compose(code, f) with code of one value; sums over points are integrate(f)."
)


class _NoArray:
    """What functions of jax.numpy get for a Function; it raises when they want to use it, or to say what it is."""

    def __init__(self, f):
        self.f = f

    def __array__(self, *args, **options):
        raise SignatureError(_NOT_AN_ARRAY.format(what="jax.numpy", f=self.f))

    __repr__ = __str__ = __format__ = __array__


def _both_sides(name):
    """f op other, and other op f."""
    return lambda self, other: op.combine(name, self, other), lambda self, other: op.combine(name, other, self)


class Overloads:
    """Base of Function: pointwise arithmetic between Functions on the same domains, or with numbers and arrays."""

    __slots__ = ()

    __add__, __radd__ = _both_sides("add")
    __sub__, __rsub__ = _both_sides("subtract")
    __mul__, __rmul__ = _both_sides("multiply")
    __truediv__, __rtruediv__ = _both_sides("divide")
    __pow__, __rpow__ = _both_sides("power")

    def __matmul__(self, other):
        return op.integral_transform(self, other)

    def __neg__(self):
        return op.negative(self)

    def __pos__(self):
        return self

    def __abs__(self):
        return op.absolute(self)

    def __getitem__(self, index):
        return op.item(self, index)

    def _no_order(self, other):
        raise SignatureError(
            f"functions have no order ({self!r}); select values inside one function: "
            "compose(lambda x: jnp.where(x > 0.3, x, 0.0), f)."
        )

    __lt__ = __le__ = __gt__ = __ge__ = _no_order

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if ufunc in _UFUNCS and method == "__call__" and not options:
            return op.combine(_UFUNCS[ufunc], *inputs)
        raise SignatureError(_NOT_AN_ARRAY.format(what=f"numpy.{ufunc.__name__}", f=self))

    def __array__(self, *args, **options):
        raise SignatureError(_NOT_AN_ARRAY.format(what="NumPy", f=self))

    def __jax_array__(self):
        return _NoArray(self)  # arrays of JAX leave arithmetic to us then; functions of jax.numpy complain

    def __copy__(self):
        return self  # nothing in it can change

    def __deepcopy__(self, memo):
        return self

    def __len__(self):
        raise SignatureError(f"a function has no length ({self!r}); f.shape is the shape of its values.")

    def __bool__(self):
        raise SignatureError(f"the truth value of a function is not defined ({self!r}).")

    def __iter__(self):
        raise SignatureError(f"a function can't be iterated over ({self!r}); index it, or use split.")


SYMBOLIC = "differentiated by JAX"  # the tag of Functions that stand for a leaf inside jax.grad and its kin
_serial = itertools.count()
_homes: weakref.WeakKeyDictionary["Function", tuple[int, Any]] = weakref.WeakKeyDictionary()
"""Node with tracers -> (when, in which trace) it was made."""
_alive: weakref.WeakValueDictionary[tuple, "Function"] = weakref.WeakValueDictionary()
"""Functions by what they are made of: what is made twice is one node."""


class Function(Overloads, HasKey):
    """A typed map from points of `domains` to arrays; see the module's docstring.

    Equal operators, operands and arrays give the same object, so graphs share common parts.

    operator: what this node does.   operands: Functions it acts on.   arrays: pytrees of arrays it carries.
    static: everything else that the operator needs, hashable by structure.
    tags: transformations that are differentiating something below this node; SYMBOLIC if it is JAX itself.
    singular: not 0 if it contains a distribution, see Operator; those with 2 can be integrated but not evaluated.
    opaque: JAX gets it as a leaf that hides its graph; see dftfd.autofd.transforms.jax_syntax.as_leaf.
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
            return op.compose(self, *args)
        return value_of(self, self._checked_arguments(args))

    def evaluate(self, *args: Any) -> Any:
        """Value at a point inside an evaluation: for the rules of operators, and for code that these run.

        Neither the points nor a use under differentiation are checked.
        """
        with walking() as walk:
            return walk.walk(self, args)

    def _checked_arguments(self, args):
        if len(args) != len(self.domains):
            raise SignatureError(f"{self!r} takes {len(self.domains)} argument(s), {len(args)} given.")
        return tuple(checked_point(a, d, self, i) for i, (a, d) in enumerate(zip(args, self.domains, strict=True)))

    def structural_key(self) -> Any:
        leaves, structure = parts(self)
        return ("function", structure, tuple(map(Identity, leaves)))

    def replace(self, operands: Any = None, arrays: Any = None) -> "Function":
        """The same node over other operands or arrays of the same signature; tags of its own stay."""
        tags = self.tags
        if operands is not None:
            own = tags.difference(*(f.tags for f in self.operands))
            tags = own.union(*(f.tags for f in operands))
        return Function(
            self.operator,
            self.operands if operands is None else operands,
            self.arrays if arrays is None else arrays,
            self.static,
            self.signature,
            tags,
        )

    @property
    def code(self) -> Any:
        """The code of a leaf of the graph; None for other nodes."""
        return self.static.get("code")

    def __repr__(self):
        return f"{self.operator.label(self)}: {self.signature}"


# ---- Graphs in two parts: the arrays, and the rest


class GraphStructure:
    """The graph without its arrays; compared by structural key."""

    __slots__ = ("program", "key", "is_quick", "_hash")

    def __init__(self, program, key):
        self.program, self.key, self._hash = program, key, hash(key)
        self.is_quick = any(hasattr(static.get("code"), "on_points") for *_, static, _, _ in program)

    @property
    def signature(self):
        """Of the whole graph."""
        return self.program[-1][5]

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
        index: dict[int, int] = {}  # by the id of a node
        program, keys, leaves = [], [], []
        for node in nodes_of(root):
            arrays, treedef = tree_flatten(node.arrays)
            children = tuple(index[id(f)] for f in node.operands)
            program.append((node.operator, children, len(arrays), treedef, node.static, node.signature, node.tags))
            keys.append((children, treedef, node._key, node.tags))
            leaves.extend(arrays)
            index[id(node)] = len(program) - 1
        root._parts = (tuple(leaves), GraphStructure(program, tuple(keys)))
    return root._parts


def home_of(root: Function):
    """The innermost trace to which the tracers in a graph belong; None if it has none."""
    return max((_homes[node] for node in nodes_of(root) if node in _homes), key=lambda h: h[0], default=(0, None))[1]


def copy_as(f: Function, kind: type, **changes) -> Function:
    """The same node as an object of another class."""
    new: Function = object.__new__(kind)
    for name in Function.__slots__:
        if name != "__weakref__":
            setattr(new, name, changes.get(name, getattr(f, name)))
    if f in _homes:
        _homes[new] = _homes[f]
    return new


# ---- Do functions fit together?


def is_function(value: object) -> TypeGuard[Function]:
    return isinstance(value, Function)


def other_arguments(f: Function, argnums) -> tuple[int, ...]:
    """Numbers of the arguments of f that are not among argnums."""
    return tuple(i for i in range(len(f.domains)) if i not in argnums)


def check_same_domains(f: Function, g: Function, what: str):
    """Raise unless two functions have the same arguments."""
    same = len(f.domains) == len(g.domains)
    if not same or not all(same_domain(a, b) for a, b in zip(f.domains, g.domains, strict=True)):
        raise SignatureError(f"{what} of functions on different domains: {f!r} and {g!r}.")


def check_same_type(value, other, what: str, role: str):
    """Raise unless `other`, the `role` (tangent, cotangent) of `value`, is of its kind, domains, shape and dtype."""
    if is_function(value) != is_function(other):
        raise SignatureError(f"{what}: the {role} {other!r} is not of the same kind as {value!r}.")
    if is_function(value):
        check_same_domains(value, other, what)
    left, right = (x.result if is_function(x) else spec_of(x) for x in (value, other))
    if not same_spec(left, right):
        raise SignatureError(f"{what}: the {role} {other!r} does not have the same type as {value!r}.")


class Zeros(HasKey):
    """Code of the zero function with a given result."""

    __name__ = "zero"

    def __init__(self, result):
        self.result = result

    def __call__(self, *args):
        return tree_map(lambda s: jnp.zeros(s.shape, s.dtype), self.result)

    def structural_key(self):
        return ("zero", tree_structure(self.result), *map(structural_key, tree_leaves(self.result)))


def constant_code(value, *args):
    return value


def is_zero(node: Function) -> bool:
    return isinstance(node.code, Zeros)


def is_constant(node: Function) -> bool:
    return node.code is constant_code


def is_still(tangent) -> bool:
    """True if a tangent is zero, as far as can be known before evaluation."""
    if isinstance(tangent, Function):
        return is_zero(tangent)
    return tangent.dtype == jax.dtypes.float0 or (not holds_tracers(tangent) and not np.any(np.asarray(tangent)))


def zero_tangent(x):
    """The tangent of an array, or of a function that JAX has in the place of one, that does not move."""
    if isinstance(x, Function) or not hasattr(getattr(x, "aval", x), "shape"):
        return np.zeros(())
    return np.zeros(np.shape(x), x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jax.dtypes.float0)
